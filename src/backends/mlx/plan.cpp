// See the header.
#include "backends/mlx/plan.h"

#include <mlx/compile_impl.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "backends/mlx/packed_weights.h"
#include "backends/mlx/replay.h"
#include "ir/leaves.h"
#include "rlx/ops.h"

namespace rlx::mlx_backend {
namespace {

constexpr size_t kLongestName = 4096;  // of packed weights that plans share
constexpr int64_t kTripsAtOnce = 16;   // of a scan, before what it has built is evaluated

/// Runs code that calls MLX for a node: what it throws arrives as an rlx::Error that names the node.
template <class F>
auto with_node(const Node& node, F f) {
  return with_context(
      [&] {
        return text_of("running '", node.op->name, "'", node.name.empty() ? "" : " of '" + node.name + "'", " on mlx");
      },
      [&] {
        try {
          return f();
        } catch (const Error&) {
          throw;
        } catch (const std::bad_alloc&) {
          fail(ErrorCode::out_of_memory, "MLX ran out of memory");
        } catch (const std::exception& e) {
          fail(ErrorCode::internal, "MLX failed: ", e.what());
        }
      });
}

/// MLX's allocator for the processor gives null where memory is out, and its kernels write there. A large result is
/// therefore first asked of malloc(), which touches no page of it. Views have no memory of their own.
void require_memory(const Node& node, const mx::array& result) {
  constexpr size_t kLarge = size_t{1} << 28;
  if (result.nbytes() < kLarge || node.op == &op::broadcast_in_dim || node.op == &op::reshape ||
      node.op == &op::transpose || mx::is_available(mx::Device::gpu))
    return;
  void* probe = std::malloc(result.nbytes());
  if (!probe) fail(ErrorCode::out_of_memory, "there is no memory for its result of ", result.nbytes(), " bytes");
  std::free(probe);
}

/// What MLX makes of `f` when it compiles it: a function of arrays, which it traces when it is first called. MLX keeps
/// what it has traced for each thread, by a number, until that is dropped.
class Traced {
 public:
  explicit Traced(const Replay::Function& f) : id_(next_id()), function_(mx::detail::compile(f, id_)) {}
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;
  ~Traced() { mx::detail::compile_erase(mx::detail::compile_cache(), id_); }
  const Replay::Function& function() const { return function_; }

 private:
  static std::uintptr_t next_id() {
    static std::atomic<std::uintptr_t> last{0};
    // MLX calls other functions by their addresses, which are aligned.
    return (++last << 1) | 1;
  }
  std::uintptr_t id_;
  Replay::Function function_;
};

bool has_no_elements(const Type& t) { return element_count(shape_of(t.dims)) == 0; }

}  // namespace

void evaluate(const std::vector<mx::array>& arrays, const Context& context) {
  // MLX waits for all that it evaluates at once on the stream of the first, and refuses a GPU's stream to f64: those
  // arrays, which are computed on the processor, are evaluated by themselves.
  std::vector<mx::array> doubles, others;
  for (const mx::array& x : arrays)
    if (!x.is_available()) (x.dtype() == mx::float64 ? doubles : others).push_back(x);
  try {
    for (auto* group : {&doubles, &others})
      if (!group->empty()) mx::eval(std::move(*group));
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    context.errors->check();
    fail(ErrorCode::out_of_memory, "MLX ran out of memory");
  } catch (const std::exception& e) {
    context.errors->check();
    fail(ErrorCode::internal, "MLX failed: ", e.what());
  }
  context.errors->check();
}

/// The values of the graph, those of a node side by side; or those that steps hand on.
using Env = std::vector<std::optional<mx::array>>;

struct Plan::Body {
  /// Nodes that MLX evaluates, or one node of control flow.
  struct Step {
    std::vector<size_t> nodes;
    bool is_control = false;
    std::vector<Ref> reads, gives;  // of the nodes: what comes from before, what is needed behind
    std::vector<Plan> bodies = {};
    bool is_replayed = false;
    mutable std::unique_ptr<const Replay> replay = {};  // made by the first run, with the lock of the stream
  };
  Graph graph;
  std::shared_ptr<const Context> context;
  std::vector<const Row*> rows;                // of each node; null: the host
  std::vector<bool> are_empty, are_for_cpu;    // of each node: it has no elements; it runs on the processor's stream
  std::vector<std::vector<mx::array>> packed;  // of each node: weights in MLX's form
  std::vector<std::vector<Type>> operands;
  std::vector<std::vector<mx::Shape>> shapes;  // of each node's results, but of a leaf's
  std::vector<size_t> begins;                  // of each node: where its values stand in an Env
  Env leaves;                                  // constants and params
  std::vector<size_t> handed_on;               // of each value: its place among those that steps hand on
  size_t handed_on_count = 0;
  std::vector<Step> steps;

  Body(const Graph& fixed, std::shared_ptr<const Context> shared, const Params& params)
      : graph(fixed), context(std::move(shared)) {
    const auto& nodes = graph.nodes();
    std::vector<int> step_of(nodes.size(), -1);
    for (size_t n = 0; n < nodes.size(); ++n) {
      const Node& node = nodes[n];
      begins.push_back(leaves.size());
      leaves.resize(leaves.size() + node.types.size());
      operands.emplace_back();
      for (Ref r : node.operands) operands.back().push_back(graph.type(r));
      shapes.emplace_back();
      rows.push_back(nullptr);
      are_empty.push_back(false), are_for_cpu.push_back(true);
      packed.emplace_back();
      if (node.op == &op::constant) leaves.back() = to_array(node.attrs.as<ConstantAttrs>().value);
      if (node.op == &op::param) leaves.back() = params(node.name);
      if (is_leaf(node)) continue;
      for (const Type& t : node.types) shapes.back().push_back(carried_shape(t));
      are_empty.back() = !node.types.empty() && std::all_of(node.types.begin(), node.types.end(), has_no_elements);
      rows.back() = find_row({node, operands.back()});
      if (rows.back() && has_packed_weights(node.op)) packed.back() = packed_of(node, operands.back());
      if (has_packed_weights(node.op) && packed.back().empty()) rows.back() = nullptr;
      are_for_cpu.back() = is_for_cpu(node, operands.back(), rows.back());
      const bool control = is_control(node, operands.back());
      if (steps.empty() || control || steps.back().is_control) steps.push_back({{}, control, {}, {}});
      steps.back().nodes.push_back(n);
      step_of[n] = static_cast<int>(steps.size()) - 1;
      if (control) add_bodies(node, steps.back());
    }
    std::set<Ref> needed;
    for (const Output& o : graph.outputs()) needed.insert(o.ref);
    for (size_t s = steps.size(); s-- > 0;) {
      Step& step = steps[s];
      std::set<Ref> reads;
      for (size_t n : step.nodes) {
        for (int32_t r = 0; r < static_cast<int32_t>(nodes[n].types.size()); ++r)
          if (Ref ref{static_cast<int32_t>(n), r}; needed.contains(ref)) step.gives.push_back(ref);
        for (Ref r : nodes[n].operands)
          if (step_of[static_cast<size_t>(r.node)] != static_cast<int>(s) && !leaf(r)) reads.insert(r);
      }
      step.reads.assign(reads.begin(), reads.end());
      needed.insert(reads.begin(), reads.end());
      // What reads nothing is computed once: the prologue of params.
      step.is_replayed =
          context->mode != Mode::eager && !context->is_written && !step.is_control && !step.reads.empty();
    }
    handed_on.resize(leaves.size());
    const auto hand_on = [&](Ref r) { handed_on[place(r)] = handed_on_count++; };
    for (Ref r : graph.inputs()) hand_on(r);
    for (const Step& step : steps)
      for (Ref r : step.gives) hand_on(r);
  }

  /// The weights of a product that the row takes, in MLX's form; nothing if they are known in a run only.
  std::vector<mx::array> packed_of(const Node& node, const std::vector<Type>& types) const {
    std::string name;
    const auto known_as = [&](Ref r) { return append_name(r, name); };
    std::vector<Ref> weights;
    for (size_t i : weight_operands(node)) weights.push_back(node.operands[i]);
    // A constant has no name, and other plans have copies of it.
    const bool is_named = std::all_of(weights.begin(), weights.end(), known_as);
    const auto known = is_named ? context->packed.find(name) : context->packed.end();
    if (known != context->packed.end() && known->second.attrs == node.attrs) return known->second.parts;
    std::vector<mx::array> values;
    Env env(leaves.size());
    for (Ref r : weights) {
      if (!compute_bound(r, env)) return {};
      values.push_back(mx::contiguous(value(env, r), false, context->streams.cpu));
    }
    evaluate(values, *context);
    std::vector<mx::array> parts = packed_weights(node, types, values);
    if (is_named) context->packed.try_emplace(name, Context::PackedWeights{node.attrs, parts});
    return parts;
  }

  /// Computes a value that is made of params and constants alone, by nodes before; false if it is not.
  bool compute_bound(Ref r, Env& env) const {
    if (leaf(r) || env[place(r)]) return true;
    const auto n = static_cast<size_t>(r.node);
    const Node& node = graph.nodes()[n];
    if (node.op == &op::input || is_control(node, operands[n])) return false;
    for (Ref from : node.operands)
      if (!compute_bound(from, env)) return false;
    std::vector<mx::array> made = build(n, env);
    for (size_t i = 0; i < made.size(); ++i) env[begins[n] + i] = std::move(made[i]);
    return true;
  }
  /// Adds what tells a value that is made of params apart from any other; false if it is not made of such alone.
  bool append_name(Ref r, std::string& name) const {
    const Node& node = graph.node(r);
    if (node.op == &op::param) return name += text_of(node.name.size(), ':', node.name), true;
    if (is_leaf(node) || node.operands.empty() || name.size() > kLongestName) return false;
    std::ostringstream text;
    text << node.op->name << '.' << r.result << ' ' << node.types[0];
    if (!node.attrs.empty()) print(text, node.attrs);
    name += text.str() + '(';
    for (Ref from : node.operands)
      if (!append_name(from, name)) return false;
    name += ')';
    return true;
  }

  void add_bodies(const Node& node, Step& step) {
    const auto add = [&](const Subgraph& g) {
      step.bodies.emplace_back(*g, context, [](const std::string& name) -> mx::array {
        fail(ErrorCode::internal, "a sub-graph reads the param '", name, "'");
      });
    };
    if (node.op == &op::if_else) {
      add(node.attrs.as<IfAttrs>().then_branch), add(node.attrs.as<IfAttrs>().else_branch);
    } else if (node.op == &op::while_loop) {
      add(node.attrs.as<WhileAttrs>().condition), add(node.attrs.as<WhileAttrs>().body);
    } else {
      add(node.attrs.as<ScanAttrs>().body);
    }
  }

  const std::optional<mx::array>& leaf(Ref r) const { return leaves[place(r)]; }
  size_t place(Ref r) const { return begins[static_cast<size_t>(r.node)] + static_cast<size_t>(r.result); }
  mx::array value(const Env& env, Ref r) const {
    const auto& found = leaf(r) ? leaf(r) : env[place(r)];
    if (!found) fail(ErrorCode::internal, "a value is read before it is computed");
    return *found;
  }

  /// Adds the node's operations to MLX's graph.
  std::vector<mx::array> build(size_t n, const Env& env) const {
    const Node& node = graph.nodes()[n];
    std::vector<mx::array> in;
    in.reserve(node.operands.size());
    for (Ref r : node.operands) in.push_back(value(env, r));
    return with_node(node, [&] {
      const mx::Stream stream = context->streams.of(are_for_cpu[n]);
      if (are_empty[n]) {
        std::vector<mx::array> none;
        for (size_t r = 0; r < node.types.size(); ++r)
          none.push_back(mx::zeros(shapes[n][r], carried_dtype(node.types[r].dtype), stream));
        return none;
      }
      if (!rows[n]) return host_node(node, operands[n], in, context->streams.cpu, context->errors);
      Lowering l{node, operands[n], shapes[n], std::move(in), stream, packed[n], context->is_written};
      std::vector<mx::array> made = rows[n]->lower(l);
      for (size_t r = 0; r < made.size(); ++r)
        if (made[r].shape() != l.shape(r) || made[r].dtype() != l.dtype(r))
          fail(ErrorCode::internal, "the lowering gives another type than ", node.types[r]);
      for (const mx::array& result : made) require_memory(node, result);
      return made;
    });
  }

  void build_all(const Step& step, Env& env, const RunOptions* options, double begin) const {
    for (size_t n : step.nodes) {
      const double from = options && options->profile ? now() : 0;
      std::vector<mx::array> made = build(n, env);
      if (context->mode == Mode::eager && options) {
        with_node(graph.nodes()[n], [&] { evaluate(made, *context); });
        stop_if_cancelled(*options);
        if (options->profile) {
          const Node& node = graph.nodes()[n];
          options->profile->push_back(
              {std::string(node.op->name), node.name, rows[n] ? "mlx" : "reference", from - begin, now() - from});
        }
      }
      for (size_t r = 0; r < made.size(); ++r) env[begins[n] + r] = std::move(made[r]);
    }
  }

  static double now() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  void stop_if_cancelled(const RunOptions& options) const {
    if (is_cancelled(options.cancel)) fail(ErrorCode::cancelled, "the run of '", graph.name(), "' was cancelled");
  }

  /// What a step of MLX's gives, made of what it reads, node by node.
  std::vector<mx::array> built(const Step& step, const std::vector<mx::array>& given, const RunOptions* options,
                               double begin) const {
    Env env(leaves.size());
    for (size_t i = 0; i < given.size(); ++i) env[place(step.reads[i])] = given[i];
    build_all(step, env, options, begin);
    std::vector<mx::array> out;
    for (Ref r : step.gives) out.push_back(value(env, r));
    return out;
  }
  std::vector<mx::array> replayed(const Step& step, std::vector<mx::array> given) const {
    if (!step.replay) {
      const Replay::Function build = [&](const std::vector<mx::array>& in) { return built(step, in, nullptr, 0); };
      if (context->mode == Mode::compiled) step.replay = std::make_unique<Replay>(Traced(build).function(), given);
      else step.replay = std::make_unique<Replay>(build, given);
    }
    return (*step.replay)(std::move(given));
  }

  std::vector<mx::array> run(std::vector<mx::array> inputs, const RunOptions& options) const {
    Env values(handed_on_count);
    for (size_t i = 0; i < inputs.size(); ++i) values[handed_on[place(graph.inputs()[i])]] = std::move(inputs[i]);
    const auto known = [&](Ref r) {
      const auto& found = leaf(r) ? leaf(r) : values[handed_on[place(r)]];
      if (!found) fail(ErrorCode::internal, "a value is read before it is computed");
      return *found;
    };
    const double begin = options.profile ? now() : 0;
    for (const Step& step : steps) {
      stop_if_cancelled(options);
      std::vector<mx::array> in, out;
      const Node& first = graph.nodes()[step.nodes[0]];
      const std::vector<Ref>& reads = step.is_control ? first.operands : step.reads;
      in.reserve(reads.size());
      for (Ref r : reads) in.push_back(known(r));
      if (step.is_control) {
        std::vector<mx::array> all =
            with_node(first, [&] { return control(step, first, operands[step.nodes[0]], in, options); });
        for (Ref r : step.gives) out.push_back(all[static_cast<size_t>(r.result)]);
      } else if (step.is_replayed) {
        out = replayed(step, std::move(in));
      } else {
        out = built(step, in, &options, begin);
      }
      for (size_t i = 0; i < out.size(); ++i) values[handed_on[place(step.gives[i])]] = std::move(out[i]);
    }
    std::vector<mx::array> outputs;
    outputs.reserve(graph.outputs().size());
    for (const Output& o : graph.outputs()) outputs.push_back(known(o.ref));
    return outputs;
  }

  // ---- control flow ----
  bool decide(mx::array condition) const {
    evaluate({condition}, *context);
    return condition.item<bool>();
  }

  std::vector<mx::array> control(const Step& step, const Node& node, const std::vector<Type>& types,
                                 const std::vector<mx::array>& in, const RunOptions& options) const {
    if (node.op == &op::if_else) {
      std::vector<mx::array> captured(in.begin() + 1, in.end());
      return step.bodies[decide(in[0]) ? 0 : 1].run(captured, options);
    }
    if (node.op == &op::while_loop) return loop(step, node.attrs.as<WhileAttrs>(), in, options);
    return scanned(step, node, node.attrs.as<ScanAttrs>(), types, in, options);
  }

  std::vector<mx::array> loop(const Step& step, const WhileAttrs& a, std::vector<mx::array> values,
                              const RunOptions& options) const {
    const auto carries = static_cast<size_t>(a.carries);
    for (int64_t trip = 0; !a.max_trips || trip < *a.max_trips; ++trip) {
      stop_if_cancelled(options);
      mx::array more = step.bodies[0].run(values, options).at(0);
      std::vector<mx::array> now_needed(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(carries));
      now_needed.push_back(more);
      evaluate(now_needed, *context);  // the carries too: else MLX's graph would grow with each trip
      if (!more.item<bool>()) break;
      std::vector<mx::array> next = step.bodies[1].run(values, options);
      for (size_t i = 0; i < carries; ++i) values[i] = next[i];
    }
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(carries), values.end());
    return values;
  }

  /// Slice `t` of n along dim 0, as a value of one dim less. What is carried as bytes is cut as bytes.
  mx::array slice_of(const mx::array& x, const Type& type, int64_t t, int64_t n, mx::Stream s) const {
    const mx::array rows_of =
        has_dtype(type.dtype) ? x
                              : mx::reshape(x, {extent_of(n), static_cast<int>(x.size() / static_cast<size_t>(n))}, s);
    mx::Shape first(rows_of.ndim(), 0), last = rows_of.shape();
    first[0] = extent_of(t), last[0] = extent_of(t + 1);
    mx::Shape rest(last.begin() + 1, last.end());
    return mx::reshape(mx::slice(rows_of, first, last, s), rest, s);
  }

  std::vector<mx::array> scanned(const Step& step, const Node& node, const ScanAttrs& a, const std::vector<Type>& types,
                                 const std::vector<mx::array>& in, const RunOptions& options) const {
    const auto carries = static_cast<size_t>(a.carries), xs = static_cast<size_t>(a.xs);
    const int64_t length = a.length.value();
    const mx::Stream s = context->streams.cpu;
    std::vector<mx::array> state(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(carries));
    std::vector<std::vector<mx::array>> ys(node.types.size() - carries);
    for (int64_t trip = 0; trip < length; ++trip) {
      stop_if_cancelled(options);
      const int64_t t = a.reverse ? length - 1 - trip : trip;
      std::vector<mx::array> given = state;
      for (size_t i = 0; i < xs; ++i) given.push_back(slice_of(in[carries + i], types[carries + i], t, length, s));
      given.insert(given.end(), in.begin() + static_cast<std::ptrdiff_t>(carries + xs), in.end());
      std::vector<mx::array> made = step.bodies[0].run(given, options);
      for (size_t i = 0; i < carries; ++i) state[i] = made[i];
      for (size_t i = 0; i < ys.size(); ++i) ys[i].push_back(made[carries + i]);
      if ((trip + 1) % kTripsAtOnce == 0) evaluate(made, *context);
    }
    std::vector<mx::array> results = state;
    for (size_t i = 0; i < ys.size(); ++i) {
      const Type& type = node.types[carries + i];
      if (ys[i].empty()) {
        results.push_back(mx::zeros(carried_shape(type), carried_dtype(type.dtype), s));
        continue;
      }
      if (a.reverse) std::reverse(ys[i].begin(), ys[i].end());
      results.push_back(mx::reshape(mx::stack(ys[i], 0, s), carried_shape(type), s));
    }
    return results;
  }
};

Plan::Plan(const Graph& fixed, std::shared_ptr<const Context> context, const Params& params)
    : body_(std::make_unique<Body>(fixed, std::move(context), params)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan::~Plan() = default;
std::vector<mx::array> Plan::run(std::vector<mx::array> inputs, const RunOptions& options) const {
  return body_->run(std::move(inputs), options);
}

void Plan::require_operations() const {
  const auto& nodes = body_->graph.nodes();
  for (size_t n = 0; n < nodes.size(); ++n)
    if (!is_leaf(nodes[n]) && !body_->rows[n])
      fail(ErrorCode::unsupported, "'", nodes[n].op->name, "'",
           nodes[n].name.empty() ? "" : " of '" + nodes[n].name + "'", " is no operation of MLX's here, ",
           is_control(nodes[n], body_->operands[n]) ? "for the host decides of control flow"
                                                    : "and runs by its reference on the host");
}

}  // namespace rlx::mlx_backend
