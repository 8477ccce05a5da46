// The graphs of a training session; see the header.
#include "train/step_graph.h"

#include "autodiff/named.h"
#include "autodiff/transforms.h"
#include "ir/rewrite.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/reduction.h"
#include "rlx/ops/shape.h"

namespace rlx::train {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  if (pattern.empty() || pattern.back() != '*') return pattern == name;
  return name.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
}

const ParamGroup* group_of(const std::string& name, const TrainConfig& config) {
  for (const ParamGroup& group : config.groups)
    for (const std::string& pattern : group.params)
      if (matches(pattern, name)) return &group;
  return nullptr;
}

/// Every pattern of a group is there for a param.
void require_params(const Graph& loss, const TrainConfig& config) {
  for (const ParamGroup& group : config.groups)
    for (const std::string& pattern : group.params) {
      bool found = false;
      std::string names;
      for (Ref r : loss.params()) {
        const std::string& name = loss.node(r).name;
        found |= matches(pattern, name);
        names += (names.empty() ? "" : ", ") + name;
      }
      if (!found)
        fail(ErrorCode::not_found, "a group names the param '", pattern, "', which graph '", loss.name(),
             "' has not; it has ", names.empty() ? "none" : names);
    }
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

/// A loss graph inside another: its inputs, and the trained params as inputs behind them.
struct Leaves {
  std::vector<Value> all;      // as the closed graph takes them
  std::vector<Value> trained;  // of them, in the order of `trained`
  Mask wrt;                    // the same as a mask over `all`
};
Leaves leaves_in(Graph& to, const Closed& closed, const std::vector<Trained>& trained) {
  Leaves leaves;
  for (const Node& leaf : closed.leaves) {
    bool is_trained = leaf.op == &op::param && std::any_of(trained.begin(), trained.end(),
                                                           [&](const Trained& t) { return t.name == leaf.name; });
    leaves.wrt.push_back(is_trained);
    leaves.all.push_back(leaf.op == &op::param && !is_trained ? to.param(leaf.name, leaf.types[0])
                                                              : to.input(leaf.name, leaf.types[0]));
    if (is_trained) leaves.trained.push_back(leaves.all.back());
  }
  return leaves;
}

/// The outputs of the loss graph, then the gradient of each trained param.
std::vector<Value> loss_and_gradients(Graph& to, const Closed& closed, const Leaves& leaves) {
  const Graph& g = closed.graph;
  Mask given(g.outputs().size());
  given[0] = true;
  auto inputs = leaves.all;
  inputs.push_back(scalar(to, 1, g.type(g.outputs()[0].ref).dtype));
  return splice(to, value_and_vjp(g, leaves.wrt, given), inputs);
}

Value norm_of(Graph& to, Values gradients) {
  Value sum = scalar(to, 0, f32);
  for (Value g : gradients) sum = sum + convert(reduce_sum(square(g), other_axes(g.dims().size(), {})), f32);
  return sqrt(sum);
}

/// The values that are kept, by kind.
struct Kept {
  std::vector<Value> params, states, means;
};
Kept kept_in(Graph& to, const std::vector<Trained>& trained, const TrainConfig& config, std::vector<Value> params) {
  Kept kept;
  auto names = kept_values(trained, config);
  size_t states = names.size() - trained.size() * (config.ema > 0 ? 2 : 1);
  for (size_t i = 0; i < names.size(); ++i) {
    auto& kind = i < trained.size() ? kept.params : i < trained.size() + states ? kept.states : kept.means;
    kind.push_back(i < params.size() ? params[i] : to.input(names[i].name, names[i].type));
  }
  return kept;
}

/// Outputs the gradients' norm and what the values that are kept become.
void output_update(Graph& to, const std::vector<Trained>& trained, const TrainConfig& config, std::vector<Value> grads,
                   Value lr, Value step, const Kept& kept) {
  Value norm = norm_of(to, grads);
  to.output(norm, "grad_norm");
  for (Value& g : grads) {
    if (config.clip_value > 0) g = clamp(g, -config.clip_value, config.clip_value);
    // A little is added to the norm, as PyTorch does it.
    if (config.clip_norm > 0) g = g * convert(minimum(config.clip_norm / (norm + 1e-6), scalar(to, 1, f32)), g.dtype());
  }
  std::vector<Value> params, states, means;
  for (size_t i = 0; i < trained.size(); ++i) {
    const Trained& t = trained[i];
    Value rate = convert(lr, t.type.dtype);
    if (t.lr_scale != 1) rate = rate * t.lr_scale;
    auto out = optimizer_update(t.rule, kept.params[i], grads[i], rate, step,
                                Values(kept.states).subspan(states.size(), t.states.size()));
    params.push_back(out[0]);
    states.insert(states.end(), out.begin() + 1, out.end());
    if (config.ema > 0) means.push_back(kept.means[i] * config.ema + out[0] * (1 - config.ema));
  }
  auto names = kept_values(trained, config);
  size_t next = 0;
  for (const auto* values : {&params, &states, &means})
    for (Value v : *values) to.output(v, "new/" + names[next++].name);
}

}  // namespace

std::vector<Trained> trained_params(const Graph& loss, const TrainConfig& config) {
  require_scalar(loss, "training");
  require_params(loss, config);
  auto used = reached(loss);
  std::vector<Trained> trained;
  for (Ref r : loss.params()) {
    const Node& node = loss.node(r);
    const Type& type = node.types[0];
    const ParamGroup* group = group_of(node.name, config);
    if (!is_float(type.dtype) || (group && group->frozen)) continue;
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
         " params, none of them a float that no group freezes");
  return trained;
}

std::vector<Signature::Entry> kept_values(const std::vector<Trained>& trained, const TrainConfig& config) {
  std::vector<Signature::Entry> kept;
  for (const Trained& t : trained) kept.push_back({t.name, t.type});
  for (const Trained& t : trained)
    for (const OptimizerState& s : t.states) kept.push_back({"state/" + s.name + "/" + t.name, s.type});
  if (config.ema > 0)
    for (const Trained& t : trained) kept.push_back({"mean/" + t.name, t.type});
  return kept;
}

Graph forward_graph(const Graph& loss, const std::vector<Trained>& trained) {
  Closed closed(loss);
  Graph to(loss.name());
  auto out = splice(to, closed.graph, leaves_in(to, closed, trained).all);
  for (size_t o = 0; o < out.size(); ++o) to.output(out[o], loss.outputs()[o].name);
  return prune(to);
}

Graph gradient_graph(const Graph& loss, const std::vector<Trained>& trained) {
  Closed closed(loss);
  Graph to(loss.name() + "_gradients");
  Leaves leaves = leaves_in(to, closed, trained);
  auto out = loss_and_gradients(to, closed, leaves);
  size_t outputs = loss.outputs().size();
  for (size_t o = 0; o < outputs; ++o) to.output(out[o], loss.outputs()[o].name);
  auto gradients = Values(out).subspan(outputs);
  to.output(norm_of(to, gradients), "grad_norm");
  for (size_t i = 0; i < trained.size(); ++i)
    to.output(to.input("sum/" + trained[i].name, trained[i].type) + gradients[i], "grad_" + trained[i].name);
  return prune(to);
}

Graph update_graph(const std::vector<Trained>& trained, const TrainConfig& config) {
  Graph to("update");
  Value count = to.input("train/count", f32, {}), lr = to.input("train/lr", f32, {}),
        step = to.input("train/step", i32, {});
  std::vector<Value> gradients;
  for (const Trained& t : trained)
    gradients.push_back(to.input("grad_" + t.name, t.type) / convert(count, t.type.dtype));
  output_update(to, trained, config, std::move(gradients), lr, step, kept_in(to, trained, config, {}));
  return to;
}

Graph fused_graph(const Graph& loss, const std::vector<Trained>& trained, const TrainConfig& config) {
  Closed closed(loss);
  Graph to(loss.name() + "_step");
  Leaves leaves = leaves_in(to, closed, trained);
  auto out = loss_and_gradients(to, closed, leaves);
  for (size_t o = 0; o < loss.outputs().size(); ++o) to.output(out[o], loss.outputs()[o].name);
  Value lr = to.input("train/lr", f32, {}), step = to.input("train/step", i32, {});
  std::vector<Value> gradients(out.begin() + static_cast<std::ptrdiff_t>(loss.outputs().size()), out.end());
  output_update(to, trained, config, std::move(gradients), lr, step, kept_in(to, trained, config, leaves.trained));
  return prune(to);
}

}  // namespace rlx::train
