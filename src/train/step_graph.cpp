// The graphs of a training session; see the header.
#include "train/step_graph.h"

#include "autodiff/named.h"
#include "autodiff/transforms.h"
#include "base/name_pattern.h"
#include "ir/rewrite.h"
#include "rlx/ops/control.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/reduction.h"
#include "rlx/ops/shape.h"
#include "train/row_gradients.h"

namespace rlx::train {
namespace {

const ParamGroup* group_of(const std::string& name, const TrainConfig& config) {
  for (const ParamGroup& group : config.groups)
    for (const std::string& pattern : group.params)
      if (matches_name(pattern, name)) return &group;
  return nullptr;
}

bool names_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches_name(p, name); });
}

/// Every pattern is there for a param.
void require_params(const Graph& loss, const std::vector<std::string>& patterns, std::string_view who) {
  for (const std::string& pattern : patterns) {
    bool found = false;
    std::string names;
    for (Ref r : loss.params()) {
      const std::string& name = loss.node(r).name;
      found |= matches_name(pattern, name);
      names += (names.empty() ? "" : ", ") + name;
    }
    if (!found)
      fail(ErrorCode::not_found, who, " the param '", pattern, "', which graph '", loss.name(), "' has not; it has ",
           names.empty() ? "none" : names);
  }
}

/// A param that is listed by its whole name can be trained.
void require_trainable(const Node& param, const ParamGroup* group, const TrainConfig& config) {
  const auto& listed = config.trained;
  if (std::find(listed.begin(), listed.end(), param.name) == listed.end()) return;
  const bool is_number = is_float(param.types[0].dtype) || is_complex(param.types[0].dtype);
  const std::string_view why = !is_number                            ? "optimizers step floats alone"
                               : config.written.contains(param.name) ? "`written` names it too"
                               : group && group->frozen              ? "a group freezes it"
                                                                     : "";
  if (!why.empty())
    fail(ErrorCode::invalid_argument, "the param '", param.name, "' (", param.types[0], ") is listed as trained, but ",
         why, "; leave it out of the list of trained params");
}

OptimizerRule with_decay(OptimizerRule rule, double decay) {
  std::visit(
      [&](auto& attrs) {
        if constexpr (requires { attrs.weight_decay; }) attrs.weight_decay = decay;
      },
      rule);
  return rule;
}

/// For each node: does the first output depend on it?
std::vector<bool> reached(const Graph& g) {
  std::vector<bool> mask(g.nodes().size());
  mask[static_cast<size_t>(g.outputs()[0].ref.node)] = true;
  for (size_t n = g.nodes().size(); n-- > 0;)
    if (mask[n])
      for (Ref r : g.nodes()[n].operands) mask[static_cast<size_t>(r.node)] = true;
  return mask;
}

/// A loss graph inside another, the params that are kept as inputs.
struct Leaves {
  std::vector<Value> all;  // as the closed graph takes them
  std::vector<Value> trained, states, means, written;
  Mask wrt;  // the trained ones as a mask over `all`
};

/// What is asked for between the inputs of the loss and the values that are kept: scale, lr, step.
using Between = std::function<void(Graph&)>;
enum class Keep { params, all };

Leaves leaves_in(Graph& to, const Closed& closed, const Layout& layout, Keep keep, const Between& between = {}) {
  Leaves leaves;
  std::map<std::string, Value, std::less<>> kept;
  std::vector<Value> inputs;
  for (const Node& leaf : closed.leaves)
    if (leaf.op != &op::param) inputs.push_back(to.input(leaf.name, leaf.types[0]));
  if (between) between(to);
  for (size_t i = 0; i < layout.kept.size(); ++i) {
    bool is_param = i < layout.trained.size() || i >= layout.first_written;
    if (keep == Keep::params && !is_param) continue;
    Value v = to.input(kept_name(layout.kept[i]), layout.kept[i].type);
    auto& kind = i < layout.trained.size()  ? leaves.trained
                 : i < layout.first_mean    ? leaves.states
                 : i < layout.first_written ? leaves.means
                                            : leaves.written;
    kind.push_back(v);
    if (is_param) kept[layout.kept[i].name] = v;
  }
  size_t next = 0;
  for (const Node& leaf : closed.leaves) {
    bool is_param = leaf.op == &op::param;
    auto found = is_param ? kept.find(leaf.name) : kept.end();
    leaves.all.push_back(!is_param             ? inputs[next++]
                         : found != kept.end() ? found->second
                                               : to.param(leaf.name, leaf.types[0]));
    leaves.wrt.push_back(is_param && std::any_of(layout.trained.begin(), layout.trained.end(),
                                                 [&](const Trained& t) { return t.name == leaf.name; }));
  }
  return leaves;
}

/// The outputs of the loss graph, then the gradient of each trained param: of the loss times `scale`, which is divided
/// out again.
std::vector<Value> loss_and_gradients(Graph& to, const Graph& loss, const Closed& closed, const Leaves& leaves,
                                      const Layout& layout, Value scale) {
  const Graph& g = closed.graph;
  Mask given(g.outputs().size());
  given[0] = true;
  auto inputs = leaves.all;
  DType dtype = g.type(g.outputs()[0].ref).dtype;
  inputs.push_back(scale ? convert(scale, dtype) : scalar(to, 1, dtype));
  auto out = splice(to, value_and_vjp(g, leaves.wrt, given), inputs);
  // value_and_vjp gives the gradients in the order of the loss graph's params, which is the layout's.
  for (size_t i = loss.outputs().size(); scale && i < out.size(); ++i)
    out[i] = out[i] * convert(1.0 / scale, out[i].dtype());
  if (out.size() != loss.outputs().size() + layout.trained.size())
    fail(ErrorCode::internal, "there are ", out.size() - loss.outputs().size(), " gradients for ",
         layout.trained.size(), " params");
  return out;
}

Value norm_of(Graph& to, Values gradients) {
  Value sum = scalar(to, 0, f32);
  for (Value g : gradients) {
    Value all = reshape(g, {element_count(g.dims())});  // one pass, and no squares in memory
    sum = sum + convert(dot_general(all, all, DotAttrs{{}, {}, {0}, {0}, {}}), f32);
  }
  return sqrt(sum);
}

/// What a value that is kept becomes.
void output_kept(Graph& to, Value ok, Value before, Value after, const std::string& name) {
  to.output(select(broadcast_to(ok, after.dims()), after, before), name);
}
void output_written(Graph& to, const Layout& layout, const Graph& loss, Values outputs, Value ok,
                    const std::vector<Value>& before) {
  for (size_t w = 0; w < layout.written.size(); ++w)
    for (size_t o = 0; o < outputs.size(); ++o)
      if (loss.outputs()[o].name == layout.written[w].output)
        output_kept(to, ok, before[w], outputs[o], kept_name(layout.kept[layout.first_written + w]));
}

/// Outputs the gradients' norm, whether all is finite, and what the values that are kept and not written become. Of a
/// table whose gradient is some rows, and whose rule leaves the others as they are, only those rows are computed.
Value output_update(Graph& to, const Layout& layout, const TrainConfig& config, std::vector<Value> grads, Value lr,
                    Value step, const Leaves& leaves, Value also_finite) {
  size_t count = layout.trained.size();
  std::vector<Value> places(count);  // of the params that step by rows
  for (size_t i = 0; i < count; ++i)
    if (!layout.has_means && leaves_rows_alone(layout.trained[i].rule))
      if (RowGradient by_rows = as_rows(grads[i])) grads[i] = by_rows.rows, places[i] = by_rows.places;
  Value norm = norm_of(to, grads), ok = is_finite(norm);
  if (also_finite) ok = logical_and(ok, is_finite(also_finite));
  to.output(norm, "train/grad_norm");
  to.output(ok, "train/ok");
  // Behind the norm: else an update would be fused with its gradient's square, before it is known whether it counts,
  // and would need memory of its own.
  grads.push_back(ok);
  grads = optimization_barrier(grads);
  ok = grads.back();
  grads.pop_back();
  for (Value& g : grads) {
    if (config.clip_value > 0) g = clamp(g, -config.clip_value, config.clip_value);
    // A little is added to the norm, as PyTorch does it.
    if (config.clip_norm > 0) g = g * convert(minimum(config.clip_norm / (norm + 1e-6), scalar(to, 1, f32)), g.dtype());
  }
  std::vector<Value> params, states, means;
  auto kept = [&](Value before, Value after) { return select(broadcast_to(ok, after.dims()), after, before); };
  for (size_t i = 0; i < count; ++i) {
    const Trained& t = layout.trained[i];
    Value rate = convert(lr, t.type.dtype);
    if (t.lr_scale != 1) rate = rate * t.lr_scale;
    std::vector<Value> before = {leaves.trained[i]}, now;
    for (size_t s = 0; s < t.states.size(); ++s) before.push_back(leaves.states[states.size() + s]);
    now = before;
    if (places[i])
      for (Value& v : now) v = rows_at(v, places[i]);
    auto out = optimizer_update(t.rule, now[0], grads[i], rate, step, Values(now).subspan(1), ok);
    if (layout.has_means)
      means.push_back(kept(leaves.means[i], leaves.means[i] * config.ema + out[0] * (1 - config.ema)));
    for (size_t v = 0; v < out.size(); ++v) {
      Value after = places[i] ? with_rows(before[v], places[i], out[v]) : out[v];
      (v == 0 ? params : states).push_back(after);
    }
  }
  size_t next = 0;
  for (const auto* all : {&params, &states, &means})
    for (Value v : *all) to.output(v, kept_name(layout.kept[next++]));
  return ok;
}

Written written_param(const Graph& loss, const std::string& param, const std::string& output) {
  for (Ref r : loss.params()) {
    const Node& node = loss.node(r);
    if (node.name != param) continue;
    for (const Output& o : loss.outputs()) {
      if (o.name != output) continue;
      if (loss.type(o.ref) != node.types[0])
        fail(ErrorCode::shape_mismatch, "the param '", param, "' is ", node.types[0], " and becomes the output '",
             output, "', which is ", loss.type(o.ref));
      if (!is_static(node.types[0].dims))
        fail(ErrorCode::shape_mismatch, "the param '", param, "' is ", node.types[0],
             "; the extents of a param must be numbers");
      return {param, node.types[0], output};
    }
    std::string names;
    for (const Output& o : loss.outputs()) names += (names.empty() ? "" : ", ") + o.name;
    fail(ErrorCode::not_found, "the param '", param, "' becomes the output '", output, "', which graph '", loss.name(),
         "' has not; it has ", names);
  }
  fail(ErrorCode::not_found, "'", param, "' is to become the output '", output, "', and is no param of graph '",
       loss.name(), "'");
}

}  // namespace

std::string kept_name(const Signature::Entry& entry) { return "kept/" + entry.name; }
std::string sum_name(const Trained& trained) { return "sum/" + trained.name; }

bool Layout::keeps(const std::string& param) const {
  auto named = [&](const auto& p) { return p.name == param; };
  return std::any_of(trained.begin(), trained.end(), named) || std::any_of(written.begin(), written.end(), named);
}

Layout layout_of(const Graph& loss, const TrainConfig& config) {
  require_scalar(loss, "training");
  for (const ParamGroup& group : config.groups) require_params(loss, group.params, "a group names");
  require_params(loss, config.trained, "the trained params name");
  auto used = reached(loss);
  Layout layout;
  auto& trained = layout.trained;
  for (const auto& [param, output] : config.written) layout.written.push_back(written_param(loss, param, output));
  for (Ref r : loss.params()) {
    const Node& node = loss.node(r);
    const Type& type = node.types[0];
    const ParamGroup* group = group_of(node.name, config);
    require_trainable(node, group, config);
    const bool stays = (group && group->frozen) || config.written.contains(node.name) ||
                       !(config.trained.empty() || names_any(config.trained, node.name));
    if (is_complex(type.dtype) && !stays)
      fail(
          ErrorCode::unsupported, "the param '", node.name, "' is ", type,
          "; optimizers step real numbers alone. Keep its real and imaginary parts as two params, joined by `complex` ",
          "in the graph, or freeze it");
    if (!is_float(type.dtype) || stays) continue;
    if (!used[static_cast<size_t>(r.node)] && !config.allow_unused)
      fail(ErrorCode::invalid_argument, "the loss '", loss.outputs()[0].name, "' does not depend on the param '",
           node.name, "' (", type, "); freeze it, or set allow_unused");
    if (!is_static(type.dims))
      fail(ErrorCode::shape_mismatch, "the trained param '", node.name, "' is ", type,
           "; the extents of a param must be numbers");
    Trained t{node.name, type, config.optimizer.rule_for(type), 1, {}};
    if (group) {
      t.lr_scale = group->lr_scale;
      if (group->weight_decay) t.rule = with_decay(t.rule, *group->weight_decay);
    }
    t.states = states_of(t.rule, type);
    trained.push_back(std::move(t));
  }
  if (trained.empty())
    fail(ErrorCode::invalid_argument, "graph '", loss.name(), "' has no param to train: ", loss.params().size(),
         " params, none of them a float that ", config.trained.empty() ? "" : "is listed as trained and that ",
         "no group freezes");
  auto& kept = layout.kept;
  for (const Trained& t : trained) kept.push_back({t.name, t.type});
  for (const Trained& t : trained)
    for (const OptimizerState& s : t.states) kept.push_back({"state/" + s.name + "/" + t.name, s.type});
  layout.first_mean = kept.size(), layout.has_means = config.ema > 0;
  if (layout.has_means)
    for (const Trained& t : trained) kept.push_back({"mean/" + t.name, t.type});
  layout.first_written = kept.size();
  for (const Written& w : layout.written) kept.push_back({w.name, w.type});
  return layout;
}

Graph forward_graph(const Graph& loss, const Layout& layout) {
  Closed closed(loss);
  Graph to(loss.name());
  auto out = splice(to, closed.graph, leaves_in(to, closed, layout, Keep::params).all);
  for (size_t o = 0; o < out.size(); ++o) to.output(out[o], loss.outputs()[o].name);
  return prune(to);
}

Graph gradient_graph(const Graph& loss, const Layout& layout, const TrainConfig& config) {
  Closed closed(loss);
  Graph to(loss.name() + "_gradients");
  Value scale;
  Leaves leaves = leaves_in(to, closed, layout, Keep::params, [&](Graph& g) {
    if (is_scaled(config)) scale = g.input("train/scale", f32, {});
  });
  auto out = loss_and_gradients(to, loss, closed, leaves, layout, scale);
  size_t outputs = loss.outputs().size();
  for (size_t o = 0; o < outputs; ++o) to.output(out[o], loss.outputs()[o].name);
  auto gradients = Values(out).subspan(outputs);
  Value norm = norm_of(to, gradients), ok = logical_and(is_finite(norm), is_finite(out[0]));
  to.output(norm, "train/grad_norm");
  to.output(ok, "train/ok");
  output_written(to, layout, loss, Values(out).first(outputs), ok, leaves.written);
  std::vector<Value> held(gradients.begin(), gradients.end());  // behind the norm, as in `output_update`
  held.push_back(ok);
  held = optimization_barrier(held);
  for (size_t i = 0; i < layout.trained.size(); ++i) {
    Value sum = to.input(sum_name(layout.trained[i]), layout.trained[i].type);
    output_kept(to, held.back(), sum, sum + held[i], sum_name(layout.trained[i]));
  }
  return prune(to);
}

Graph update_graph(const Layout& layout, const TrainConfig& config) {
  Graph to("update");
  Value count = to.input("train/count", f32, {}), lr = to.input("train/lr", f32, {}),
        step = to.input("train/step", i32, {});
  std::vector<Value> gradients;
  for (const Trained& t : layout.trained)
    gradients.push_back(to.input(sum_name(t), t.type) / convert(count, t.type.dtype));
  Leaves leaves;
  for (size_t i = 0; i < layout.first_written; ++i)
    (i < layout.trained.size() ? leaves.trained
     : i < layout.first_mean   ? leaves.states
                               : leaves.means)
        .push_back(to.input(kept_name(layout.kept[i]), layout.kept[i].type));
  output_update(to, layout, config, std::move(gradients), lr, step, leaves, {});
  return to;
}

Graph fused_graph(const Graph& loss, const Layout& layout, const TrainConfig& config) {
  Closed closed(loss);
  Graph to(loss.name() + "_step");
  Value scale, lr, step;
  Leaves leaves = leaves_in(to, closed, layout, Keep::all, [&](Graph& g) {
    if (is_scaled(config)) scale = g.input("train/scale", f32, {});
    lr = g.input("train/lr", f32, {}), step = g.input("train/step", i32, {});
  });
  auto out = loss_and_gradients(to, loss, closed, leaves, layout, scale);
  auto outputs = static_cast<std::ptrdiff_t>(loss.outputs().size());
  for (size_t o = 0; o < loss.outputs().size(); ++o) to.output(out[o], loss.outputs()[o].name);
  std::vector<Value> gradients(out.begin() + outputs, out.end());
  Value ok = output_update(to, layout, config, std::move(gradients), lr, step, leaves, out[0]);
  output_written(to, layout, loss, Values(out).first(static_cast<size_t>(outputs)), ok, leaves.written);
  return prune(to);
}

}  // namespace rlx::train
