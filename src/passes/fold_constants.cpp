// See the header.
#include "passes/fold_constants.h"

#include <cmath>

#include "ir/leaves.h"
#include "passes/bound_values.h"
#include "passes/constants.h"
#include "passes/subgraphs.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

constexpr size_t kMostBytes = 1 << 16;
constexpr double kMostSteps = 1 << 20;  // the reference takes some 50 ns for one

/// Roughly how many elements the reference touches. Of a product of [m, k] and [k, n] that is m n k, the root of the
/// three counts multiplied; it serves as a bound for all that is not element by element.
double steps_of(const Node& node, const std::vector<Tensor>& in) {
  std::vector<double> counts;
  for (const Tensor& t : in) counts.push_back(static_cast<double>(t.element_count()));
  for (const Type& t : node.types) counts.push_back(static_cast<double>(element_count(shape_of(t.dims))));
  double most = *std::max_element(counts.begin(), counts.end()), steps = 1;
  if (node.op->elementwise || node.op->moves_data) return most;
  for (double count : counts) steps *= std::sqrt(std::max(count, 1.0));
  return std::max(most, steps);
}

bool is_worth_it(const Node& node, const std::vector<Tensor>& in) {
  size_t given = 0, made = 0;
  for (const Tensor& t : in) given += t.byte_count();
  for (const Type& t : node.types) made += byte_count(t.dtype, shape_of(t.dims));
  // A few bytes more are fine: a converted scalar, the values and indices of a small top_k.
  constexpr size_t kFewBytes = 256;
  bool grows = node.op == &op::broadcast_in_dim ? made > given : made > std::max(2 * given, kFewBytes);
  return made <= kMostBytes && !grows && steps_of(node, in) <= kMostSteps;
}

}  // namespace

Graph fold_constants(const Graph& g) {
  bool any = std::any_of(g.nodes().begin(), g.nodes().end(), [&](const Node& node) {
    return !node.operands.empty() && node.op != &op::broadcast_in_dim &&
           std::all_of(node.operands.begin(), node.operands.end(), [&](Ref r) { return literal(g, r); });
  });
  if (!any) return g;
  return rewritten(g, [](const Site& site) -> std::optional<std::vector<Value>> {
    const Node& node = site.node;
    if (site.operands.empty() || node.op == &op::optimization_barrier) return std::nullopt;
    std::vector<Tensor> in;
    for (const Value& v : site.operands) {
      const Tensor* t = literal(site.to, v.ref());
      if (!t) return std::nullopt;
      in.push_back(*t);
    }
    if (has_symbols(node) || holds_subgraph(node.attrs) || !is_worth_it(node, in)) return std::nullopt;
    std::vector<Value> results;
    for (Tensor& t : run_op(*node.op, node.attrs, in)) results.push_back(site.to.constant(std::move(t)));
    return results;
  });
}

}  // namespace rlx
