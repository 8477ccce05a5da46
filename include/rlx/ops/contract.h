// Reductions and products: ops that sum, or otherwise combine, over dims.
#pragma once

#include "rlx/ops/shape.h"

namespace rlx {

namespace op {
extern const OpDef reduce, dot_general;
}  // namespace op

/// How elements are combined. `custom` means the sub-graph attribute beside it; the others need none.
enum class Reduction { sum, prod, max, min, all, any, custom };
constexpr std::array<std::string_view, 7> names_of(Reduction) {
  return {"sum", "prod", "max", "min", "all", "any", "custom"};
}
struct ReduceAttrs {
  Reduction kind = Reduction::sum;
  Axes axes;
  Subgraph body = {};  ///< of `custom`: n running scalars, n elements -> n running scalars
  RLX_FIELDS(ReduceAttrs, field("kind", &ReduceAttrs::kind), field("axes", &ReduceAttrs::axes),
             field("body", &ReduceAttrs::body));
};
/// Without the dims `axes`; all of them if left out.
Value reduce(Value x, Reduction kind, Axes axes);
inline Value reduce_sum(Value x, Axes axes) { return reduce(x, Reduction::sum, std::move(axes)); }
inline Value reduce_max(Value x, Axes axes) { return reduce(x, Reduction::max, std::move(axes)); }
inline Value reduce_min(Value x, Axes axes) { return reduce(x, Reduction::min, std::move(axes)); }
inline Value reduce_prod(Value x, Axes axes) { return reduce(x, Reduction::prod, std::move(axes)); }
/// Several operands of equal dims at once, combined by `body` from the scalars `inits` on.
std::vector<Value> reduce_custom(std::vector<Value> xs, std::vector<Value> inits, Axes axes, Graph body);

struct DotAttrs {
  Axes lhs_batch, rhs_batch, lhs_contract, rhs_contract;
  std::optional<DType> accumulate = {};  ///< and result dtype; the operands' own where left out
  RLX_FIELDS(DotAttrs, field("lhs_batch", &DotAttrs::lhs_batch), field("rhs_batch", &DotAttrs::rhs_batch),
             field("lhs_contract", &DotAttrs::lhs_contract), field("rhs_contract", &DotAttrs::rhs_contract),
             field("accumulate", &DotAttrs::accumulate));
};
/// The axes of both operands by their role, counted from the front; the free ones are what the others leave. Fails
/// where the attributes do not fit the ranks.
struct DotAxes {
  Axes lhs_batch, rhs_batch, lhs_contract, rhs_contract, lhs_free, rhs_free;
  DotAxes(const DotAttrs& attrs, size_t lhs_rank, size_t rhs_rank);
};
/// Result dims: batch, free of lhs, free of rhs.
Value dot_general(Value lhs, Value rhs, DotAttrs attrs);

}  // namespace rlx
