// See the header.
#include "passes/output_channels.h"

#include "rlx/ops.h"

namespace rlx {

std::optional<int64_t> output_channel_axis(const Node& node, const Graph& g) {
  const Type &x = g.type(node.operands[0]), &w = g.type(node.operands[1]);
  if (node.op == &op::conv || node.op == &op::linear) return 0;
  if (node.op == &op::convolution) {
    const Axes& layout = node.attrs.as<ConvAttrs>().rhs_layout;
    return layout.empty() ? 0 : valid_axis(layout[0], w.rank());
  }
  if (node.op == &op::matmul) return w.rank() == 2 ? std::optional<int64_t>(1) : std::nullopt;
  DotAxes axes(node.attrs.as<DotAttrs>(), x.rank(), w.rank());
  if (axes.rhs_free.size() != 1 || !axes.rhs_batch.empty()) return std::nullopt;
  return axes.rhs_free[0];
}

}  // namespace rlx
