// Hutchinson's and the Gauss-Newton-Bartlett estimate; Liu et al., ICLR 2024 (Sophia), algorithms 1 and 2.
#include "train/curvature.h"

#include "autodiff/named.h"
#include "autodiff/transforms.h"
#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "rlx/ops.h"

namespace rlx::train {
namespace {

/// The loss graph closed, and where its leaves come from.
struct Inside {
  Closed closed;
  std::vector<Value> leaves;
  Mask trained;
};

/// The place of the trained param that a leaf is; none for others.
std::optional<size_t> trained_index(const Layout& layout, const Node& leaf) {
  if (leaf.op != &op::param) return {};
  for (size_t i = 0; i < layout.trained.size(); ++i)
    if (layout.trained[i].name == leaf.name) return i;
  return {};
}

/// u (H u) for each trained param, u being drawn for all of them together.
std::vector<Value> hutchinson(Graph& to, const Inside& in, const Layout& layout, Value key, RngAlgorithm algorithm) {
  const Graph& g = in.closed.graph;
  Mask given(g.outputs().size());
  given[0] = true;
  Graph back = vjp(g, in.trained, given);
  Mask active = in.trained;
  active.push_back(false);  // the cotangent is constant
  Graph forth = jvp(back, active);
  auto inputs = in.leaves;
  inputs.push_back(scalar(to, 1, g.type(g.outputs()[0].ref).dtype));
  std::vector<Value> random;
  for (size_t i = 0; i < layout.trained.size(); ++i) {
    const Type& type = layout.trained[i].type;
    random.push_back(rng_normal(fold_in(key, static_cast<uint32_t>(i)), type.dims, type.dtype, 0, 1, algorithm));
  }
  inputs.insert(inputs.end(), random.begin(), random.end());
  auto out = splice(to, forth, inputs);
  std::vector<Value> estimates;
  for (size_t i = 0; i < random.size(); ++i) estimates.push_back(random[i] * out[random.size() + i]);
  return estimates;
}

/// rows (gradient of the mean cross-entropy with drawn labels)^2.
std::vector<Value> gauss_newton_bartlett(Graph& to, const Inside& in, Value key, const HessianEstimate& how) {
  const Graph& g = in.closed.graph;
  auto found =
      std::find_if(g.outputs().begin(), g.outputs().end(), [&](const Output& o) { return o.name == how.logits; });
  if (found == g.outputs().end()) {
    std::string names;
    for (const Output& o : g.outputs()) names += (names.empty() ? "" : ", ") + o.name;
    fail(ErrorCode::not_found, "the Gauss-Newton-Bartlett estimate draws labels from the output '", how.logits,
         "' (HessianEstimate::logits), which graph '", g.name(), "' has not; it has ", names);
  }
  auto at = static_cast<size_t>(found - g.outputs().begin());
  Value logits = splice(to, g, in.leaves)[at];
  if (!is_float(logits.dtype()) || logits.rank() < 1)
    fail(ErrorCode::shape_mismatch, "the logits '", how.logits, "' are ", logits.type(),
         "; floats with the classes in the last dim are needed");
  Value labels = rng_categorical(key, logits, -1, {}, how.algorithm);
  Value one = full_like(convert(labels, logits.dtype()), 1);
  Value rows = reduce_sum(one, other_axes(one.dims().size(), {}));
  // The mean's gradient by the logits: (probabilities - drawn) / rows.
  Value drawn = one_hot(labels, logits.dim(-1), logits.dtype(), -1);
  Value ct = (softmax(logits, -1) - drawn) / rows;
  Mask given(g.outputs().size());
  given[at] = true;
  auto inputs = in.leaves;
  inputs.push_back(ct);
  auto gradients = splice(to, vjp(g, in.trained, given), inputs);
  for (Value& v : gradients) v = square(v) * convert(rows, v.dtype());
  return gradients;
}

}  // namespace

std::vector<size_t> curvature_states(const Layout& layout) {
  std::vector<size_t> places;
  size_t next = layout.trained.size();
  for (const Trained& t : layout.trained)
    for (const OptimizerState& s : t.states) {
      if (std::holds_alternative<SophiaAttrs>(t.rule) && s.name == "h") places.push_back(next);
      ++next;
    }
  return places;
}
bool wants_curvature(const Layout& layout) { return !curvature_states(layout).empty(); }

Graph curvature_graph(const Graph& loss, const Layout& layout, const HessianEstimate& how) {
  Graph to(loss.name() + "_curvature");
  Inside in{Closed(loss), {}, {}};
  std::vector<Value> inputs, params;
  for (Ref r : loss.inputs()) inputs.push_back(to.input(loss.node(r).name, loss.type(r)));
  Value key = to.input("train/key", u32, {2});
  std::map<std::string, Value, std::less<>> kept;
  for (const Trained& t : layout.trained) kept[t.name] = to.input(kept_name({t.name, t.type}), t.type);
  for (const Written& w : layout.written) kept[w.name] = to.input(kept_name({w.name, w.type}), w.type);
  size_t next = 0;
  for (const Node& leaf : in.closed.leaves) {
    auto found = leaf.op == &op::param ? kept.find(leaf.name) : kept.end();
    in.leaves.push_back(leaf.op != &op::param ? inputs[next++]
                        : found != kept.end() ? found->second
                                              : to.param(leaf.name, leaf.types[0]));
    in.trained.push_back(trained_index(layout, leaf).has_value());
  }
  auto estimates = how.kind == HessianEstimate::Kind::hutchinson ? hutchinson(to, in, layout, key, how.algorithm)
                                                                 : gauss_newton_bartlett(to, in, key, how);
  size_t estimated = 0;
  for (size_t i = 0; i < layout.trained.size(); ++i) {
    const Trained& t = layout.trained[i];
    if (!std::holds_alternative<SophiaAttrs>(t.rule)) continue;
    Signature::Entry entry = layout.kept[curvature_states(layout)[estimated++]];
    Value old = to.input(kept_name(entry), entry.type);
    to.output(old * how.beta2 + estimates[i] * (1 - how.beta2), kept_name(entry));
  }
  return prune(to);
}

}  // namespace rlx::train
