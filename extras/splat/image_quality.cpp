// See the header.
#include "rlx/extras/image_quality.h"

#include <cmath>

#include "rlx/ops/elementary.h"
#include "rlx/ops/reduction.h"

namespace rlx {
namespace {

void require_images(Value x, Value y, double range) {
  if (x.type() != y.type() || !is_float(x.dtype()) || x.rank() < 3)
    fail(ErrorCode::shape_mismatch, "two images of one type [..., height, width, channels] of floats are needed, got ",
         x.type(), " and ", y.type());
  if (!(range > 0) || !std::isfinite(range))
    fail(ErrorCode::invalid_argument, "the range of an image's numbers must be above 0 and finite, got ", range);
}
Value mean_of_images(Value x, int64_t dims) { return mean(x, axes_from(x.rank() - dims, size_t(dims))); }

}  // namespace

Value psnr(Value x, Value y, double range) {
  require_images(x, y, range);
  return 10.0 * log10(range * range / mean_of_images(square(x - y), 3));
}

Value ssim(Value x, Value y, const SsimAttrs& a) {
  require_images(x, y, a.range);
  if (a.window < 1 || a.window % 2 == 0 || !(a.sigma > 0))
    fail(ErrorCode::invalid_argument, "a window must be an odd number of pixels a side and its sigma positive, got ",
         a.window, " and ", a.sigma);
  for (int64_t axis : {x.rank() - 3, x.rank() - 2})
    if (!x.dim(axis).is_static() || x.dim(axis).value() < a.window)
      fail(ErrorCode::shape_mismatch, "no window of ", a.window, " x ", a.window, " pixels fits into images ",
           x.type());

  std::vector<double> weights;
  double sum = 0;
  for (int64_t k = 0; k < a.window; ++k) {
    double from_middle = static_cast<double>(k - a.window / 2) / a.sigma;
    weights.push_back(std::exp(-0.5 * from_middle * from_middle));
    sum += weights.back();
  }
  auto weighted_mean = [&](Value of) {
    for (int64_t axis : {of.rank() - 3, of.rank() - 2}) {
      int64_t places = of.dim(axis).value() - a.window + 1;
      Value all;
      for (int64_t k = 0; k < a.window; ++k) {
        Value term = slice_axis(of, axis, k, k + places) * (weights[size_t(k)] / sum);
        all = k == 0 ? term : all + term;
      }
      of = all;
    }
    return of;
  };
  const double c1 = std::pow(0.01 * a.range, 2), c2 = std::pow(0.03 * a.range, 2);
  Value mx = weighted_mean(x), my = weighted_mean(y);
  Value xx = weighted_mean(x * x) - mx * mx, yy = weighted_mean(y * y) - my * my, xy = weighted_mean(x * y) - mx * my;
  Value alike = (2.0 * (mx * my) + c1) * (2.0 * xy + c2), all = (mx * mx + my * my + c1) * (xx + yy + c2);
  return mean_of_images(alike / all, 3);
}

}  // namespace rlx
