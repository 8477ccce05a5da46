// Ops whose result has, along each dim, a list of indices into the operand: pad_mode, interpolate, resize_nearest2x.
// (roll and tile are composed of copies that write their result once.)
#include "backends/cpu/lowerings.h"
#include "kernels/index/outer_gather.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

using Table = std::vector<int64_t>;

Table all_indices(int64_t extent) {
  Table t;
  for (int64_t i = 0; i < extent; ++i) t.push_back(i);
  return t;
}

/// The indices 0 ... n - 1, with `low` more before and `high` more after them, as `mode` says.
Table padded(int64_t n, int64_t low, int64_t high, PadMode mode) {
  Table t;
  for (int64_t i = -low; i < n + high; ++i) {
    int64_t at = i;
    if (mode == PadMode::replicate) at = std::clamp<int64_t>(i, 0, n - 1);
    else if (i < 0) at = mode == PadMode::reflect ? -i : i + n;
    else if (i >= n) at = mode == PadMode::reflect ? 2 * (n - 1) - i : i - n;
    t.push_back(at);
  }
  return t;
}

/// For each dim: the index of the operand that each index of the result reads.
std::vector<Table> tables_of(const LoweringContext& c) {
  const Shape &x = c.operands[0].shape, &y = c.results[0].shape;
  std::vector<Table> all;
  for (int64_t extent : x) all.push_back(all_indices(extent));
  if (c.node.op == &op::pad_mode) {
    const auto& a = c.attrs<PadModeAttrs>();
    for (size_t d = 0; d < x.size(); ++d) all[d] = padded(x[d], a.low[d].value(), a.high[d].value(), a.mode);
  } else {  // interpolate, resize_nearest2x: the nearest index
    for (size_t d = 0; d < x.size(); ++d) {
      all[d].clear();
      for (int64_t i = 0; i < y[d]; ++i) all[d].push_back(std::min(i * x[d] / y[d], x[d] - 1));
    }
  }
  return all;
}

}  // namespace

std::string when_outer_gather(const Question& q) {
  if (q.operands[0].rank() > 16) return text_of("rank ", q.operands[0].rank(), " is above 16");
  if (q.node.op == &op::pad_mode && q.node.attrs.as<PadModeAttrs>().mode == PadMode::constant)
    return "padding with a value is pad's";
  return when::is_byte_sized(q);
}

Prepared lower_outer_gather(const LoweringContext& c) {
  const View& x = c.operands[0];
  kernels::OuterGatherPlan plan =
      kernels::plan_outer_gather(static_cast<int64_t>(x.element_bytes()), x.shape, tables_of(c));
  double work = static_cast<double>(plan.rows * plan.row_bytes) * 0.1;
  return make_step("outer gather", 0, [plan = std::move(plan), work](const StepArgs& step) {
    for_ranges(step, plan.rows, 1, work, [&](int64_t begin, int64_t end, int64_t) {
      kernels::outer_gather(plan, step.in(0), step.out(), begin, end);
    });
  });
}

}  // namespace rlx::cpu
