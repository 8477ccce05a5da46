// Trying a graph; see the header.
#include "attack/trial.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "autodiff/transforms.h"
#include "compile/pipeline.h"
#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "reference/interpreter.h"
#include "rlx/autodiff.h"
#include "rlx/graph_file.h"

namespace rlx::attack {
namespace {

Tensor deep_copy(const Tensor& t) {
  Tensor copy = t;
  if (t.byte_count() > 0) copy.mutable_data();  // whoever writes to what is shared gets its own
  return copy;
}
std::vector<Tensor> deep_copies(Tensors all) {
  std::vector<Tensor> copies;
  for (const Tensor& t : all) copies.push_back(deep_copy(t));
  return copies;
}

Way drawn_way(const Graph& g, Random& random) {
  Way way;
  way.threads = 1 + static_cast<int>(random.below(2));
  CompileOptions& o = way.options;
  if (random.chance(3)) o.rounding = Rounding::relaxed;
  if (random.chance(2)) o.accuracy = static_cast<Accuracy>(random.below(3));
  o.batch_invariant = random.chance(4);
  if (random.chance(8)) o.kernel_dispatch = KernelDispatch::common;
  o.mode = static_cast<CompileMode>(random.below(3));
  if (random.chance(8)) o.skip_passes = {random.of(pass_names())};
  if (random.chance(6))
    for (Ref r : g.inputs())
      if (random.chance(2)) o.donate.insert(g.node(r).name);
  return way;
}

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}
std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}
std::set<std::string> names_in(const std::string& text) {
  const auto parts = split_at(text, ',');
  return {parts.begin(), parts.end()};
}
template <NamedEnum E>
E named(const std::string& text) {
  Scanner in(text);
  E value{};
  parse(in, value);
  return value;
}

Mask differentiable_leaves(const Graph& g, Names& names) {
  Mask mask;
  for (const auto* refs : {&g.inputs(), &g.params()})
    for (Ref r : *refs) {
      mask.push_back(has_derivative(g.type(r).dtype));
      if (mask.back()) names.push_back(g.node(r).name);
    }
  return mask;
}

/// Two lanes: the tensor, and its elements one place further.
Tensor two_lanes(const Tensor& t) {
  Shape shape = t.shape();
  shape.insert(shape.begin(), 2);
  Tensor both = Tensor::uninitialized(t.dtype(), shape);
  const size_t bytes = t.byte_count();
  if (bytes == 0) return both;
  const size_t block = static_cast<size_t>(info(t.dtype()).block_bytes);
  std::byte* to = both.mutable_data();
  std::memcpy(to, t.data(), bytes);
  std::memcpy(to + bytes, t.data() + block, bytes - block);
  std::memcpy(to + 2 * bytes - block, t.data(), block);
  return both;
}

/// What the reference and native refuse is told apart from what they do wrong.
struct Ended {
  bool refused = false;
  Fault fault = Fault::none;
  std::string why = {};
};
template <class F>
Ended run_guarded(Fault otherwise, F f) {
  try {
    f();
    return {};
  } catch (const Error& e) {
    if (is_our_mistake(e)) return {false, otherwise, text_of(name_of(e.code()), ": ", e.what())};
    return {true, Fault::none, text_of(name_of(e.code()), ": ", e.what())};
  } catch (const std::exception& e) {
    return {false, otherwise, text_of("a std::exception: ", e.what())};
  }
}

std::string unequal(Tensors a, Tensors b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].type() != b[i].type()) return text_of("result ", i, " is ", a[i].type(), ", then ", b[i].type());
    if (a[i] == b[i]) continue;
    size_t at = 0;
    while (a[i].data()[at] == b[i].data()[at]) ++at;
    return text_of("result ", i, ", ", a[i].type(), ", differs from byte ", at, " on");
  }
  return "";
}

size_t finite_elements(Tensors all) {
  size_t count = 0;
  for (const Tensor& t : all) {
    if (is_block(t.dtype())) continue;
    if (!is_float(t.dtype())) {
      count += t.element_count();
      continue;
    }
    for (size_t i = 0; i < t.element_count(); ++i) count += std::isfinite(load<double>(t, i));
  }
  return count;
}

void collect_ops(const Graph& g, std::vector<size_t>& places) {
  static const std::map<const OpDef*, size_t> place_of = [] {
    std::map<const OpDef*, size_t> all;
    for (const OpDef* op : all_ops()) all.emplace(op, all.size());
    return all;
  }();
  for (const Node& node : g.nodes()) {
    if (auto found = place_of.find(node.op); found != place_of.end()) places.push_back(found->second);
    if (holds_subgraph(node.attrs))
      node.attrs.mapped({[](const Dim& d) { return d; },
                         [&](const Subgraph& inner) {
                           collect_ops(*inner, places);
                           return inner;
                         }});
  }
}

}  // namespace

std::vector<size_t> ops_of(const Graph& g) {
  std::vector<size_t> places;
  collect_ops(g, places);
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

std::string text_of_way(const Way& way) {
  const CompileOptions& o = way.options;
  std::ostringstream out;
  out << "threads=" << way.threads << " rounding=" << names_of(o.rounding)[size_t(o.rounding)]
      << " accuracy=" << names_of(o.accuracy)[size_t(o.accuracy)]
      << " dispatch=" << names_of(o.kernel_dispatch)[size_t(o.kernel_dispatch)]
      << " mode=" << names_of(o.mode)[size_t(o.mode)];
  if (o.batch_invariant) out << " batch_invariant=1";
  if (!o.skip_passes.empty()) out << " skip=" << joined(o.skip_passes);
  if (!o.donate.empty()) out << " donate=" << joined(o.donate);
  return out.str();
}
Way parse_way(const std::string& text) {
  Way way;
  CompileOptions& o = way.options;
  for (const std::string& word : split_at(text, ' ')) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (name == "threads") way.threads = std::stoi(value);
    else if (name == "rounding") o.rounding = named<Rounding>(value);
    else if (name == "accuracy") o.accuracy = named<Accuracy>(value);
    else if (name == "dispatch") o.kernel_dispatch = named<KernelDispatch>(value);
    else if (name == "mode") o.mode = named<CompileMode>(value);
    else if (name == "batch_invariant") o.batch_invariant = true;
    else if (name == "skip") o.skip_passes = names_in(value);
    else if (name == "donate") o.donate = names_in(value);
  }
  return way;
}

std::vector<Trial> drawn_trials(uint64_t seed, uint64_t index) {
  Trial trial{drawn_graph(seed, index)};
  Random random(seed_of(seed, index, 1));
  trial.way = drawn_way(trial.fed.graph, random);
  trial.seed = random.bits();
  std::vector<Trial> all = {trial};
  constexpr Transform kTransforms[] = {Transform::none, Transform::vjp, Transform::vjp,  Transform::vjp,
                                       Transform::vjp,  Transform::jvp, Transform::vmap, Transform::vjp};
  trial.transform = random.of(kTransforms);
  trial.way = drawn_way(trial.fed.graph, random);
  trial.way.options.donate.clear();
  if (trial.transform == Transform::none) return all;
  const Graph& g = trial.fed.graph;
  Names names;
  const Mask given = differentiable_outputs(g);
  differentiable_leaves(g, names);
  const bool derives = !names.empty() && std::find(given.begin(), given.end(), true) != given.end();
  if (trial.transform == Transform::vmap ? !g.inputs().empty() : derives) all.push_back(std::move(trial));
  return all;
}

Trial transformed(const Trial& trial) {
  if (trial.transform == Transform::none) return trial;
  Trial made{{trial.fed.graph, trial.fed.inputs, trial.fed.params}, trial.way, Transform::none, trial.seed};
  const Graph& g = trial.fed.graph;
  Random random(trial.seed);
  Names wrt;
  differentiable_leaves(g, wrt);
  const Bindings sizes = solve_symbols(g, trial.fed.inputs);
  if (trial.transform == Transform::vmap) {
    BatchAxes axes;
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      const Ref r = g.inputs()[i];
      const DType t = g.type(r).dtype;
      if ((!is_byte_sized(t) && !is_block(t)) || (!axes.inputs.empty() && random.chance(4))) continue;
      axes.inputs[g.node(r).name] = 0;
      made.fed.inputs[i] = two_lanes(trial.fed.inputs[i]);
    }
    if (!axes.inputs.empty()) made.fed.graph = vmap(g, axes, 2);
    return made;
  }
  made.fed.graph = trial.transform == Transform::vjp ? vjp(g, wrt, random.chance(4)) : jvp(g, wrt);
  for (size_t i = g.inputs().size(); i < made.fed.graph.inputs().size(); ++i) {
    Type type = made.fed.graph.type(made.fed.graph.inputs()[i]);
    for (Dim& d : type.dims) d = d.bound(sizes);
    made.fed.inputs.push_back(drawn_tensor(type, -1, 1, random.chance(8) ? Mood::wide : Mood::own, random));
  }
  return made;
}

Outcome tried(const Trial& given, Counts& counts, const std::function<void(Phase)>& enter) {
  enter(Phase::transforming);
  std::optional<Trial> made;
  if (given.transform != Transform::none) {
    const Ended ended = run_guarded(Fault::transforming, [&] { made = transformed(given); });
    if (ended.refused) {
      // Of a transform, only that an op on the way has no derivative is a refusal.
      if (ended.why.starts_with("unsupported")) return ++counts.without_rule, Outcome{};
      return {Fault::transforming, ended.why};
    }
    if (ended.fault != Fault::none) return {ended.fault, ended.why};
    ++counts.transformed[size_t(given.transform)];
  }
  const Trial& trial = made ? *made : given;
  const Graph& g = trial.fed.graph;
  counts.nodes += g.nodes().size();
  counts.symbolic += std::any_of(g.nodes().begin(), g.nodes().end(),
                                 [](const Node& n) { return n.op == &op::input && !is_static(n.types[0].dims); });
  Ended ended = run_guarded(Fault::verifying, [&] { verify(g); });
  if (ended.refused || ended.fault != Fault::none) return {Fault::verifying, ended.why};

  enter(Phase::reference);
  std::vector<Tensor> wanted;
  const Ended reference =
      run_guarded(Fault::reference, [&] { wanted = interpret(g, trial.fed.inputs, trial.fed.params); });
  if (reference.fault != Fault::none) return {reference.fault, reference.why};

  std::vector<Tensor> got;
  const auto run_on = [&](const Graph& graph, const Way& way, bool twice) -> Outcome {
    Outcome outcome;
    enter(Phase::compiling);
    const Session session(Device::cpu(), {way.threads});
    CompiledGraph compiled = session.compile(graph, way.options);
    for (const auto& [name, value] : trial.fed.params) compiled.set_param(name, value);
    enter(Phase::running);
    const auto own = deep_copies(trial.fed.inputs);
    got = compiled.run_ordered(way.options.donate.empty() ? Tensors(own) : Tensors(deep_copies(own)));
    if (way.options.donate.empty())
      if (const std::string why = unequal(trial.fed.inputs, own); !why.empty())
        return {Fault::input_changing, "input instead of " + why};
    if (!twice) return {};
    const auto again = compiled.run_ordered(deep_copies(trial.fed.inputs));
    if (const std::string why = unequal(got, again); !why.empty()) return {Fault::rerunning, why};
    return {};
  };
  Outcome outcome;
  ended = run_guarded(Fault::failing, [&] { outcome = run_on(g, trial.way, true); });
  if (ended.fault != Fault::none) return {ended.fault, ended.why};
  if (outcome.fault != Fault::none) return outcome;
  if (ended.refused != reference.refused) {
    for (size_t i = 0; ended.refused && i < std::size(kRefusals); ++i)
      if (ended.why.find(kRefusals[i].says) != std::string::npos) return ++counts.refused[i], Outcome{};
    // Of a symbol an op's portable form may find out only when it runs that it takes no 0 there (tests/laws).
    const Bindings sizes = solve_symbols(g, trial.fed.inputs);
    if (ended.refused && std::any_of(sizes.begin(), sizes.end(), [](const auto& size) { return size.second == 0; }))
      return ++counts.refused_empty_symbol, Outcome{};
    return {Fault::refusing, ended.refused ? "native: " + ended.why : "the reference alone: " + reference.why};
  }
  if (ended.refused) return ++counts.refused_by_both, Outcome{};

  enter(Phase::comparing);
  const CompileOptions& o = trial.way.options;
  Random random(trial.seed + 1);
  const Judged judged{g, trial.fed.inputs, trial.fed.params, o.accuracy == Accuracy::row_relative,
                      o.rounding == Rounding::relaxed};
  Compared compared;
  ended = run_guarded(Fault::reference, [&] { compared = compare_with_noise(judged, got, wanted, random); });
  if (ended.refused || ended.fault != Fault::none) return {Fault::reference, "with noise: " + ended.why};
  counts.elements += compared.elements, counts.beyond_tolerance += compared.beyond_tolerance;
  counts.finite += finite_elements(wanted);
  for (size_t e = 0; e < std::size(counts.excused); ++e) counts.excused[e] += compared.excused[e];
  if (!compared.why.empty()) return {Fault::differing, compared.why};

  enter(Phase::reading);
  const std::vector<Tensor> first = got;
  ended = run_guarded(Fault::rereading, [&] {
    const Graph again = parse_graph_text(graph_text(g));
    if (!(again == g) || hash_of(again) != hash_of(g)) {
      outcome = {Fault::rereading, "the text reads back as another graph"};
      return;
    }
    // Programs are shared by equal graphs of one session: another session compiles anew, at another time.
    Way other = trial.way;
    other.options.mode = static_cast<CompileMode>((size_t(other.options.mode) + 1) % 3);
    outcome = run_on(again, other, false);
    if (outcome.fault != Fault::none) return;
    if (const std::string why = unequal(first, got); !why.empty()) outcome = {Fault::recompiling, why};
  });
  if (ended.refused || ended.fault != Fault::none) return {Fault::rereading, ended.why};
  if (outcome.fault != Fault::none) return outcome;

  ++counts.compiled;
  const auto ops = ops_of(g);
  for (size_t op : ops)
    if (op < Counts::kMostOps) ++(made ? counts.reached_by_transform : counts.reached)[op];
  return {};
}

}  // namespace rlx::attack
