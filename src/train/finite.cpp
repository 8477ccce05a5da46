// Where the numbers of a graph stop being finite; see the header.
#include "train/finite.h"

#include <cmath>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/ops/loss.h"
#include "train/step_graph.h"

namespace rlx::train {
namespace {

enum class NotFinite { nan, infinity };

/// The position of the first element of that kind.
std::optional<size_t> find_in(const Tensor& t, NotFinite kind) {
  if (!is_float(t.dtype())) return {};
  for (size_t i = 0; i < t.element_count(); ++i)
    if (double v = load_number(t, i); kind == NotFinite::nan ? std::isnan(v) : std::isinf(v)) return i;
  return {};
}

std::string_view text_of_not_finite(double v) { return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf"; }

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
    if (label < 0 || label >= classes)
      return text_of(": label ", i, " is ", label, ", and the classes of ", x.type(), " go from 0 to ", classes - 1,
                     op == &op::cross_entropy ? "" : "; cross_entropy leaves one out by its ignore_index");
  }
  return "";
}

/// A run of a graph, all of whose values are there.
struct NodeValues {
  const Graph& g;
  std::vector<std::vector<Tensor>> all;

  const Tensor& at(Ref r) const { return all[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]; }
  /// The first operand of a node that has a number of this kind.
  std::optional<Ref> operand_with(Ref r, NotFinite kind) const {
    for (Ref operand : g.node(r).operands)
      if (find_in(at(operand), kind)) return operand;
    return {};
  }
  Ref origin(Ref r, NotFinite kind) const {
    while (auto before = operand_with(r, kind)) r = *before;
    return r;
  }
  std::string text(Ref r) const {
    const Node& node = g.node(r);
    if (node.op == &op::input || node.op == &op::param) return "in " + leaf_text(node);
    std::vector<Tensor> operands;
    for (Ref operand : node.operands) operands.push_back(at(operand));
    return text_of("made by node ", r.node, ", '", node.op->name, "'",
                   node.name.empty() ? "" : " of '" + node.name + "'", wrong_label(node, operands));
  }
};

NodeValues run_nodes(const Graph& g, Tensors inputs, const NamedTensors& params) {
  NodeValues values{g, {}};
  size_t next_input = 0;
  for (const Node& node : g.nodes()) {
    std::vector<Tensor> operands;
    for (Ref r : node.operands) operands.push_back(values.at(r));
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
  NotFinite kind = find_in(values.at(last), NotFinite::nan) ? NotFinite::nan : NotFinite::infinity;
  if (!find_in(values.at(last), kind)) return "";
  Ref first = values.origin(last, kind);
  const Tensor& t = values.at(first);
  size_t at = *find_in(t, kind);
  std::string text = text_of("the first number that is not finite is ", text_of_not_finite(load_number(t, at)),
                             ", element ", at, " of ", t.type(), ", ", values.text(first));
  if (auto infinite = values.operand_with(first, NotFinite::infinity); infinite && kind == NotFinite::nan) {
    Ref source = values.origin(*infinite, NotFinite::infinity);
    const Tensor& from = values.at(source);
    text += text_of(", of operands with ", text_of_not_finite(load_number(from, *find_in(from, NotFinite::infinity))),
                    ", ", values.text(source));
  }
  return text;
}

}  // namespace rlx::train
