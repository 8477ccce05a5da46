// Where the numbers of a graph stop being finite; see the header.
#include "train/finite.h"

#include <cmath>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/loss.h"
#include "train/step_graph.h"

namespace rlx::train {
namespace {

enum class NotFinite { nan, infinity };

bool is_of(NotFinite kind, double v) { return kind == NotFinite::nan ? std::isnan(v) : std::isinf(v); }

/// The position of the first element of that kind.
std::optional<size_t> find_in(const Tensor& t, NotFinite kind) {
  if (!is_float(t.dtype())) return {};
  for (size_t i = 0; i < t.element_count(); ++i)
    if (is_of(kind, load_number(t, i))) return i;
  return {};
}

/// "the param 'w'": what is kept is an input of the graphs of a step.
std::string leaf_text(const Node& node) {
  std::string kept = kept_name({"", {}});
  bool is_kept = node.name.starts_with(kept);
  return text_of("the ", is_kept || node.op == &op::param ? "param" : "input", " '",
                 is_kept ? node.name.substr(kept.size()) : node.name, "'");
}

/// Of a loss of labels: which label is no class, if one is. That is a mistake in the data.
std::string wrong_label(const Node& node, Tensors operands) {
  const OpDef* op = node.op;
  if (op != &op::softmax_cross_entropy_with_logits && op != &op::nll && op != &op::cross_entropy) return "";
  const Tensor &x = operands[0], &labels = operands[1];
  int64_t axis = op == &op::cross_entropy ? node.attrs.as<CrossEntropyAttrs>().axis : node.attrs.as<AxisAttrs>().axis;
  int64_t classes = x.shape()[static_cast<size_t>(valid_axis(axis, x.rank()))];
  for (size_t i = 0; i < labels.element_count(); ++i) {
    int64_t label = load_index(labels, i);
    if (op == &op::cross_entropy && label == node.attrs.as<CrossEntropyAttrs>().ignore_index) continue;
    if (label == kNoClass)
      return text_of(": label ", i, " is no whole number, and the classes of ", x.type(), " go from 0 to ",
                     classes - 1);
    if (label < 0 || label >= classes)
      return text_of(": label ", i, " is ", label, ", and the classes of ", x.type(), " go from 0 to ", classes - 1,
                     op == &op::cross_entropy ? "" : "; cross_entropy leaves one out by its ignore_index");
  }
  return "";
}

/// An element of a value.
struct Place {
  Ref ref;
  size_t at;
};

/// A run of a graph, all of whose values are there.
struct NodeValues {
  const Graph& g;
  std::vector<std::vector<Tensor>> all;

  const Tensor& of(Ref r) const { return all[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]; }
  double number(Place p) const { return load_number(of(p.ref), p.at); }

  /// Where an operand of the node that made `p` has a number of this kind: of an element-wise op at the same element,
  /// of a select in what it chose, else anywhere.
  std::optional<Place> before(Place p, NotFinite kind) const {
    const Node& node = g.node(p.ref);
    size_t count = of(p.ref).element_count();
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Tensor& operand = of(node.operands[i]);
      if (!node.op->elementwise || operand.element_count() != count) {
        if (auto at = find_in(operand, kind)) return Place{node.operands[i], *at};
        continue;
      }
      if (node.op == &op::select && i > 0 && (load_number(of(node.operands[0]), p.at) != 0) != (i == 1)) continue;
      if (is_float(operand.dtype()) && is_of(kind, load_number(operand, p.at))) return Place{node.operands[i], p.at};
    }
    return {};
  }
  Place origin(Place p, NotFinite kind) const {
    while (auto earlier = before(p, kind)) p = *earlier;
    return p;
  }
  std::string text(Ref r) const {
    const Node& node = g.node(r);
    if (node.op == &op::input || node.op == &op::param) return "in " + leaf_text(node);
    std::vector<Tensor> operands;
    for (Ref operand : node.operands) operands.push_back(of(operand));
    return text_of("made by node ", r.node, ", '", node.op->name, "'",
                   node.name.empty() ? "" : " of '" + node.name + "'", wrong_label(node, operands));
  }
};

NodeValues run_nodes(const Graph& g, Tensors inputs, const NamedTensors& params) {
  NodeValues values{g, {}};
  size_t next_input = 0;
  for (const Node& node : g.nodes()) {
    std::vector<Tensor> operands;
    for (Ref r : node.operands) operands.push_back(values.of(r));
    if (node.op == &op::input) values.all.push_back({inputs[next_input++]});
    else if (node.op == &op::param) values.all.push_back({params.find(node.name)->second});
    else values.all.push_back(run_op(*node.op, node.attrs, operands));
  }
  return values;
}

}  // namespace

std::string first_not_finite(const Graph& g, size_t output, Tensors inputs, const NamedTensors& params) {
  Bindings sizes = solve_symbols(g, inputs);
  Graph fixed = sizes.empty() ? g : substitute(g, sizes);
  NodeValues values = run_nodes(fixed, inputs, params);
  Ref last = fixed.outputs()[output].ref;
  NotFinite kind = find_in(values.of(last), NotFinite::nan) ? NotFinite::nan : NotFinite::infinity;
  auto at = find_in(values.of(last), kind);
  if (!at) return "";
  Place first = values.origin({last, *at}, kind);
  std::string text = text_of("the first number that is not finite is ", name_of_not_finite(values.number(first)),
                             ", element ", first.at, " of ", values.of(first.ref).type(), ", ", values.text(first.ref));
  if (auto infinite = values.before(first, NotFinite::infinity); infinite && kind == NotFinite::nan) {
    Place source = values.origin(*infinite, NotFinite::infinity);
    text += text_of(", of operands with ", name_of_not_finite(values.number(source)), ", ", values.text(source.ref));
  }
  return text;
}

}  // namespace rlx::train
