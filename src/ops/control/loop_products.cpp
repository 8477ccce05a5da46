// See the header.
#include "ops/control/loop_products.h"

#include "rlx/ops/contract.h"
#include "rlx/ops/elementwise.h"

namespace rlx {
namespace {

bool find_products(const Graph& step, Ref r, std::vector<Ref>& operands) {
  const Node& node = step.node(r);
  if (node.op == &op::dot_general) {
    operands.insert(operands.end(), node.operands.begin(), node.operands.end());
    return true;
  }
  if (node.op == &op::transpose || node.op == &op::reshape) return find_products(step, node.operands[0], operands);
  return node.op == &op::add && find_products(step, node.operands[0], operands) &&
         find_products(step, node.operands[1], operands);
}

}  // namespace

std::vector<Ref> operands_of_products(const Graph& step, Ref sum) {
  std::vector<Ref> operands;
  if (!find_products(step, sum, operands)) operands.clear();
  return operands;
}

Value sum_over_steps(const Graph& step, Ref sum, const std::function<Value(Ref)>& stacked) {
  const Node& node = step.node(sum);
  auto part = [&](size_t i) { return sum_over_steps(step, node.operands[i], stacked); };
  if (node.op == &op::add) return part(0) + part(1);
  if (node.op != &op::dot_general) {
    Value x = part(0);
    return x.graph().emit(*node.op, {x}, node.attrs)[0];
  }
  const DotAttrs& own = node.attrs.as<DotAttrs>();
  DotAxes axes(own, step.type(node.operands[0]).dims.size(), step.type(node.operands[1]).dims.size());
  auto behind_steps = [](Axes all) {
    for (int64_t& axis : all) ++axis;
    return all;
  };
  DotAttrs wide{behind_steps(axes.lhs_batch), behind_steps(axes.rhs_batch), behind_steps(axes.lhs_contract),
                behind_steps(axes.rhs_contract), own.accumulate};
  wide.lhs_contract.insert(wide.lhs_contract.begin(), 0), wide.rhs_contract.insert(wide.rhs_contract.begin(), 0);
  return dot_general(stacked(node.operands[0]), stacked(node.operands[1]), wide);
}

}  // namespace rlx
