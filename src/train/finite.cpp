// Where the numbers of a graph stop being finite; see the header.
#include "train/finite.h"

#include <cmath>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "reference/interpreter.h"
#include "rlx/element.h"

namespace rlx::train {
namespace {

/// The position of the first element that is no finite number.
std::optional<size_t> not_finite(const Tensor& t) {
  if (!is_float(t.dtype())) return {};
  for (size_t i = 0; i < t.element_count(); ++i)
    if (!std::isfinite(load_number(t, i))) return i;
  return {};
}

}  // namespace

std::string first_not_finite(const Graph& g, Tensors inputs, const NamedTensors& params) {
  Bindings sizes = solve_symbols(g, inputs);
  Graph fixed = sizes.empty() ? g : substitute(g, sizes);
  std::vector<std::vector<Tensor>> values;
  size_t next_input = 0;
  for (const Node& node : fixed.nodes()) {
    std::vector<Tensor> results;
    if (node.op == &op::input) {
      results = {inputs[next_input++]};
    } else if (node.op == &op::param) {
      results = {params.find(node.name)->second};
    } else {
      std::vector<Tensor> operands;
      for (Ref r : node.operands) operands.push_back(values[size_t(r.node)][size_t(r.result)]);
      results = run_op(*node.op, node.attrs, operands);
    }
    for (const Tensor& t : results)
      if (auto at = not_finite(t)) {
        bool leaf = node.op == &op::input || node.op == &op::param;
        double value = load_number(t, *at);
        return text_of("the first number that is not finite is ",
                       std::isnan(value) ? "nan"
                       : value > 0       ? "inf"
                                         : "-inf",
                       ", element ", *at, " of ", t.type(), leaf ? ", in " : ", made by node ",
                       leaf ? "" : text_of(values.size(), ", "), "'",
                       leaf ? std::string_view(node.name) : node.op->name, "'",
                       leaf || node.name.empty() ? "" : " of '" + node.name + "'");
      }
    values.push_back(std::move(results));
  }
  return "";
}

}  // namespace rlx::train
