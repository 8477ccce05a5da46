// Reductions beyond the primitive `reduce`: with kept dims, statistics, positions of extremes, norms, scans,
// counts.
#pragma once

#include "rlx/ops/contract.h"

namespace rlx {

namespace op {
extern const OpDef mean, variance, moments, norm, argmax, argmin, one_hot, histogram, cumsum, cumprod, cummax;
}  // namespace op

struct ReduceDimsAttrs {
  Axes axes;
  bool keep_dims = false;  ///< the reduced dims stay, as 1
  RLX_FIELDS(ReduceDimsAttrs, field("axes", &ReduceDimsAttrs::axes), field("keep_dims", &ReduceDimsAttrs::keep_dims));
};
/// The primitive, and 1 in place of the reduced dims.
Value reduce(Value x, Reduction kind, Axes axes, bool keep_dims);
inline Value reduce_sum(Value x, Axes axes, bool keep_dims) {
  return reduce(x, Reduction::sum, std::move(axes), keep_dims);
}
inline Value reduce_max(Value x, Axes axes, bool keep_dims) {
  return reduce(x, Reduction::max, std::move(axes), keep_dims);
}
inline Value reduce_min(Value x, Axes axes, bool keep_dims) {
  return reduce(x, Reduction::min, std::move(axes), keep_dims);
}
inline Value reduce_prod(Value x, Axes axes, bool keep_dims) {
  return reduce(x, Reduction::prod, std::move(axes), keep_dims);
}
inline Value reduce_any(Value x, Axes axes, bool keep_dims = false) {
  return reduce(x, Reduction::any, std::move(axes), keep_dims);
}
inline Value reduce_all(Value x, Axes axes, bool keep_dims = false) {
  return reduce(x, Reduction::all, std::move(axes), keep_dims);
}

Value mean(Value x, Axes axes, bool keep_dims = false);

struct VarianceAttrs {
  Axes axes;
  bool keep_dims = false;
  int64_t correction = 0;  ///< subtracted from the count that divides: 0 for a population, 1 for a sample
  RLX_FIELDS(VarianceAttrs, field("axes", &VarianceAttrs::axes), field("keep_dims", &VarianceAttrs::keep_dims),
             field("correction", &VarianceAttrs::correction));
};
Value variance(Value x, Axes axes, bool keep_dims = false, int64_t correction = 0);

struct Moments {
  Value mean, variance;
};
/// Both at once; the variance is that of a population.
Moments moments(Value x, Axes axes, bool keep_dims = false);

enum class NormKind { l1, l2 };
constexpr std::array<std::string_view, 2> names_of(NormKind) { return {"l1", "l2"}; }
struct NormAttrs {
  NormKind kind = NormKind::l2;
  Axes axes;
  bool keep_dims = false;
  RLX_FIELDS(NormAttrs, field("kind", &NormAttrs::kind), field("axes", &NormAttrs::axes),
             field("keep_dims", &NormAttrs::keep_dims));
};
/// The sum of |x|, or the root of the sum of |x|^2.
Value norm(Value x, NormKind kind, Axes axes, bool keep_dims = false);

struct ArgReduceAttrs {
  int64_t axis = -1;
  bool keep_dims = false;
  RLX_FIELDS(ArgReduceAttrs, field("axis", &ArgReduceAttrs::axis), field("keep_dims", &ArgReduceAttrs::keep_dims));
};
/// Where the largest or least element stands along `axis`, as i32: the first of equals, the first NaN if
/// there is one.
Value argmax(Value x, int64_t axis = -1, bool keep_dims = false);
Value argmin(Value x, int64_t axis = -1, bool keep_dims = false);

struct CumulateAttrs {
  int64_t axis = -1;
  bool exclusive = false;  ///< without the element itself: 0, 1 or the lowest value comes first
  bool reverse = false;    ///< from the end on
  RLX_FIELDS(CumulateAttrs, field("axis", &CumulateAttrs::axis), field("exclusive", &CumulateAttrs::exclusive),
             field("reverse", &CumulateAttrs::reverse));
};
Value cumsum(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false);
Value cumprod(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false);
Value cummax(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false);

struct OneHotAttrs {
  Dim depth;
  int64_t axis = -1;  ///< of the result, where the new dim stands
  DType dtype = DType::f32;
  double on_value = 1, off_value = 0;
  RLX_FIELDS(OneHotAttrs, field("depth", &OneHotAttrs::depth), field("axis", &OneHotAttrs::axis),
             field("dtype", &OneHotAttrs::dtype), field("on_value", &OneHotAttrs::on_value),
             field("off_value", &OneHotAttrs::off_value));
};
/// on_value where the position along the new dim equals the index, else off_value; nowhere if the index is
/// out of range.
Value one_hot(Value index, Dim depth, DType dtype = DType::f32, int64_t axis = -1, double on_value = 1,
              double off_value = 0);

struct HistogramAttrs {
  int64_t bins = 100;
  double min = 0, max = 1;
  RLX_FIELDS(HistogramAttrs, field("bins", &HistogramAttrs::bins), field("min", &HistogramAttrs::min),
             field("max", &HistogramAttrs::max));
};
/// How many elements fall into each of `bins` equal parts of [min, max], as i32[bins]; the last part includes
/// max.
Value histogram(Value x, int64_t bins, double min, double max);

}  // namespace rlx
