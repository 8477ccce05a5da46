// Shrinking and keeping; see the header.
#include "attack/shrink.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "reference/interpreter.h"
#include "rlx/graph_file.h"
#include "rlx/io.h"

namespace rlx::attack {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// The graph with only these outputs, where the nodes in `cut` are inputs with the values that the reference gave them;
/// what nothing needs any more is gone. Nothing if no output would be left.
std::optional<Fed> reduced(const Fed& fed, const std::vector<bool>& keep, const std::vector<bool>& cut,
                           const std::vector<std::vector<Tensor>>& values) {
  const Graph& g = fed.graph;
  const auto& nodes = g.nodes();
  std::vector<bool> needed(nodes.size());
  bool any = false;
  for (size_t o = 0; o < g.outputs().size(); ++o) {
    const auto node = static_cast<size_t>(g.outputs()[o].ref.node);
    if (keep[o] && !cut[node]) needed[node] = any = true;
  }
  if (!any) return std::nullopt;
  for (size_t n = nodes.size(); n-- > 0;)
    if (needed[n] && !cut[n])
      for (Ref r : nodes[n].operands) needed[size_t(r.node)] = true;
  Fed made{Graph(g.name())};
  std::vector<std::vector<Value>> emitted(nodes.size());
  for (size_t n = 0, next_input = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    const size_t place = node.op == &op::input ? next_input++ : 0;
    if (!needed[n]) continue;
    if (cut[n]) {
      for (size_t r = 0; r < node.types.size(); ++r) {
        emitted[n].push_back(made.graph.input(text_of("cut", n, "_", r), node.types[r]));
        made.inputs.push_back(values[n][r]);
      }
    } else if (node.op == &op::input) {
      emitted[n] = {made.graph.input(node.name, node.types[0])};
      made.inputs.push_back(fed.inputs[place]);
    } else if (node.op == &op::param) {
      emitted[n] = {made.graph.param(node.name, node.types[0])};
      made.params.emplace(node.name, fed.params.at(node.name));
    } else {
      std::vector<Value> operands;
      for (Ref r : node.operands) operands.push_back(emitted[size_t(r.node)][size_t(r.result)]);
      emitted[n] = made.graph.emit(*node.op, std::move(operands), node.attrs);
    }
  }
  for (size_t o = 0; o < g.outputs().size(); ++o) {
    const Ref r = g.outputs()[o].ref;
    if (keep[o] && !cut[size_t(r.node)])
      made.graph.output(emitted[size_t(r.node)][size_t(r.result)], g.outputs()[o].name);
  }
  return made;
}

std::vector<std::vector<Tensor>> values_of_nodes(const Fed& fed) {
  Graph all = fed.graph;
  const size_t outputs = all.outputs().size();
  for (size_t n = 0; n < fed.graph.nodes().size(); ++n)
    for (size_t r = 0; r < fed.graph.nodes()[n].types.size(); ++r)
      all.output(all.value({int32_t(n), int32_t(r)}), text_of("value_", n, "_", r));
  auto tensors = interpret(all, fed.inputs, fed.params);
  std::vector<std::vector<Tensor>> values;
  size_t next = outputs;
  for (const Node& node : fed.graph.nodes()) {
    auto& each = values.emplace_back();
    for (size_t r = 0; r < node.types.size(); ++r) each.push_back(tensors[next++]);
  }
  return values;
}

class Shrinker {
 public:
  Shrinker(Trial trial, Fault fault, double most, double most_of_a_try)
      : trial_(std::move(trial)), fault_(fault), most_(most), most_of_a_try_(most_of_a_try) {}

  Trial run() {
    flatten();
    for (bool smaller = true; smaller && !is_late();) {
      smaller = fewer_outputs();
      smaller |= fewer_nodes();
      smaller |= plainer_leaves();
    }
    plainer_way();
    flatten();
    return trial_;
  }

 private:
  bool is_late() const { return seconds_since(begin_) > most_; }
  bool takes(Trial candidate) {
    if (is_late() || tried_apart(candidate, most_of_a_try_).fault != fault_) return false;
    trial_ = std::move(candidate);
    return true;
  }
  /// Try `change`, whatever it throws.
  template <class F>
  bool tries(F change) {
    try {
      Trial candidate = trial_;
      return change(candidate) && takes(std::move(candidate));
    } catch (const std::exception&) {
      return false;
    }
  }
  std::vector<bool> all_outputs() const { return std::vector<bool>(trial_.fed.graph.outputs().size(), true); }
  std::vector<bool> no_cut() const { return std::vector<bool>(trial_.fed.graph.nodes().size()); }
  bool takes_reduced(const std::vector<bool>& keep, const std::vector<bool>& cut,
                     const std::vector<std::vector<Tensor>>& values) {
    return tries([&](Trial& t) {
      auto fed = reduced(trial_.fed, keep, cut, values);
      if (!fed || *fed == trial_.fed) return false;
      t.fed = std::move(*fed);
      std::set<std::string> donated;
      for (Ref r : t.fed.graph.inputs())
        if (t.way.options.donate.contains(t.fed.graph.node(r).name)) donated.insert(t.fed.graph.node(r).name);
      t.way.options.donate = std::move(donated);
      return true;
    });
  }

  /// A gradient that fails is a graph that fails, once it is made.
  void flatten() {
    if (trial_.transform != Transform::none && fault_ != Fault::transforming)
      tries([&](Trial& t) {
        t = transformed(trial_);
        return true;
      });
  }
  bool fewer_outputs() {
    const size_t count = trial_.fed.graph.outputs().size();
    takes_reduced(all_outputs(), no_cut(), {});
    for (size_t o = 0; count > 1 && o < count; ++o) {
      std::vector<bool> keep(count);
      keep[o] = true;
      if (takes_reduced(keep, no_cut(), {})) return true;
    }
    return false;
  }
  bool fewer_nodes() {
    bool smaller = false;
    for (size_t n = trial_.fed.graph.nodes().size(); n-- > 0;) {
      if (n >= trial_.fed.graph.nodes().size()) continue;
      const OpDef* op = trial_.fed.graph.nodes()[n].op;
      if (op == &op::input || op == &op::param) continue;
      try {
        const auto values = values_of_nodes(trial_.fed);
        auto cut = no_cut();
        cut[n] = true;
        smaller |= takes_reduced(all_outputs(), cut, values);
      } catch (const std::exception&) {
        return smaller;  // the reference refuses
      }
    }
    return smaller;
  }
  /// Params as inputs, symbols as numbers, inputs as zeros.
  bool plainer_leaves() {
    bool plainer = false;
    if (!trial_.fed.params.empty())
      plainer |= tries([&](Trial& t) {
        t.fed.inputs.clear();
        size_t next = 0;
        t.fed.graph = with_leaves(trial_.fed.graph, [&](Graph& to, const Node& leaf) {
          t.fed.inputs.push_back(leaf.op == &op::param ? trial_.fed.params.at(leaf.name) : trial_.fed.inputs[next++]);
          return to.input(leaf.name, leaf.types[0]);
        });
        t.fed.params.clear();
        return true;
      });
    plainer |= tries([&](Trial& t) {
      const Bindings sizes = solve_symbols(trial_.fed.graph, trial_.fed.inputs);
      t.fed.graph = substitute(trial_.fed.graph, sizes);
      return !sizes.empty();
    });
    return plainer;
  }
  void plainer_way() {
    const CompileOptions plain;
    tries([](Trial& t) { return std::exchange(t.way.threads, 1) != 1; });
    const auto reset = [&](auto member) {
      tries([&](Trial& t) {
        const bool changes = !(t.way.options.*member == plain.*member);
        t.way.options.*member = plain.*member;
        return changes;
      });
    };
    reset(&CompileOptions::rounding);
    reset(&CompileOptions::accuracy);
    reset(&CompileOptions::batch_invariant);
    reset(&CompileOptions::kernel_dispatch);
    reset(&CompileOptions::mode);
    reset(&CompileOptions::skip_passes);
    reset(&CompileOptions::donate);
  }

  Trial trial_;
  Fault fault_;
  double most_, most_of_a_try_;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

Stopwatch::Stopwatch(pid_t process) : process_(process), used_(used()) {}
double Stopwatch::used() const {
#if defined(__linux__)
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process_, &clock) == 0 && clock_gettime(clock, &time) == 0)
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
#endif
  return 0;
}
bool Stopwatch::is_beyond(double seconds) const {
  constexpr double kSlowest = 9;
  return used() - used_ > seconds || seconds_since(begin_) > kSlowest * seconds;
}

Outcome tried_apart(const Trial& trial, double most_seconds) {
  int ends[2];
  if (pipe(ends) != 0) fail(ErrorCode::io, "no pipe: ", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) fail(ErrorCode::io, "no process: ", std::strerror(errno));
  if (child == 0) {
    close(ends[0]);
    auto counts = std::make_unique<Counts>();
    Outcome outcome;
    try {
      outcome = tried(trial, *counts, [](Phase) {});
    } catch (const std::exception& e) {
      outcome = {Fault::drawing, e.what()};
    }
    std::string said = static_cast<char>('A' + static_cast<int>(outcome.fault)) + outcome.why.substr(0, 2000);
    const bool written = write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  const Stopwatch watch(child);
  pollfd wait{ends[0], POLLIN, 0};
  bool ended = false;
  while (!ended && !watch.is_beyond(most_seconds)) ended = poll(&wait, 1, 20) > 0;
  std::string said(4096, '\0');
  const ssize_t bytes = ended ? read(ends[0], said.data(), said.size()) : 0;
  close(ends[0]);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!ended) return {Fault::hanging, text_of("still running after ", most_seconds, " s")};
  if (bytes <= 0) return {Fault::crashing, text_of("ended by signal ", WIFSIGNALED(status) ? WTERMSIG(status) : 0)};
  return {static_cast<Fault>(said[0] - 'A'), said.substr(1, static_cast<size_t>(bytes) - 1)};
}

Trial shrunk(Trial trial, Fault fault, double most_seconds, double most_seconds_of_a_try) {
  return Shrinker(std::move(trial), fault, most_seconds, most_seconds_of_a_try).run();
}

void save_trial(const std::string& path, const Trial& trial) {
  std::ofstream(path + ".rlx") << graph_text(trial.fed.graph);
  NamedTensors tensors;
  SafetensorsFile::Metadata about;
  const auto keep = [&](const std::string& name, const Tensor& t) {
    // As bytes: not every dtype is one of safetensors'.
    tensors[name] = Tensor::of<uint8_t>({static_cast<int64_t>(t.byte_count())},
                                        {reinterpret_cast<const uint8_t*>(t.data()), t.byte_count()});
    std::ostringstream type;
    print(type, t.type());
    about["type " + name] = type.str();
  };
  for (size_t i = 0; i < trial.fed.inputs.size(); ++i)
    keep(trial.fed.graph.node(trial.fed.graph.inputs()[i]).name, trial.fed.inputs[i]);
  for (const auto& [name, value] : trial.fed.params) keep(name, value);
  about["way"] = text_of_way(trial.way);
  about["transform"] = std::to_string(static_cast<int>(trial.transform));
  about["seed"] = std::to_string(trial.seed);
  write_safetensors(path + ".safetensors", tensors, about);
}

Trial load_trial(const std::string& path) {
  std::ifstream in(path);
  if (!in) fail(ErrorCode::io, "cannot open '", path, "'");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Trial trial{{parse_graph_text(text)}};
  const auto file = SafetensorsFile::open(path.substr(0, path.rfind('.')) + ".safetensors");
  const auto& about = file.metadata();
  const auto kept = [&](const std::string& name) {
    Type type;
    Scanner scanner(about.at("type " + name));
    parse(scanner, type);
    const Tensor bytes = file.tensor(name);
    Tensor t = Tensor::uninitialized(type.dtype, shape_of(type.dims));
    if (t.byte_count() != bytes.byte_count()) fail(ErrorCode::invalid_argument, "'", name, "' is of another size");
    if (t.byte_count() > 0) std::memcpy(t.mutable_data(), bytes.data(), t.byte_count());
    return t;
  };
  const Graph& g = trial.fed.graph;
  for (Ref r : g.inputs()) trial.fed.inputs.push_back(kept(g.node(r).name));
  for (Ref r : g.params()) trial.fed.params.emplace(g.node(r).name, kept(g.node(r).name));
  trial.way = parse_way(about.at("way"));
  trial.transform = static_cast<Transform>(std::stoi(about.at("transform")));
  trial.seed = std::stoull(about.at("seed"));
  return trial;
}

}  // namespace rlx::attack
