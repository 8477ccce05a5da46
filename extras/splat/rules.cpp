// See the header.
#include "extras/splat/rules.h"

#include <cmath>

namespace rlx::splat {

void require_attrs(const SplatAttrs& a) {
  constexpr int64_t kMostPixels = 1 << 16;  // a side: pixels are counted in f32 too
  if (a.width < 1 || a.height < 1 || a.width > kMostPixels || a.height > kMostPixels)
    fail(ErrorCode::invalid_argument, "an image of width = ", a.width, " and height = ", a.height,
         ": each must be 1 to ", kMostPixels);
  if (a.tile_size < 1 || a.tile_size > kMostPixels)
    fail(ErrorCode::invalid_argument, "tile_size must be 1 to ", kMostPixels, ", got ", a.tile_size);
  if (!(a.radius_scale > 0) || !std::isfinite(a.radius_scale))
    fail(ErrorCode::invalid_argument, "radius_scale must be a finite number of standard deviations, above 0, got ",
         a.radius_scale);
  if (!(a.alpha_cutoff >= 0 && a.alpha_cutoff < 1))
    fail(ErrorCode::invalid_argument, "alpha_cutoff must be at least 0 and less than 1, got ", a.alpha_cutoff);
  if (a.max_splat_steps < 1)
    fail(ErrorCode::invalid_argument, "max_splat_steps must be at least 1, got ", a.max_splat_steps);
  if (!(a.transmittance_threshold > 0 && a.transmittance_threshold < 1))
    fail(ErrorCode::invalid_argument, "transmittance_threshold must be above 0 and less than 1, got ",
         a.transmittance_threshold);
  if (!(a.gamma > 0) || !std::isfinite(a.gamma))
    fail(ErrorCode::invalid_argument, "gamma must be above 0 and finite, got ", a.gamma);
  if (!(a.low_pass >= 0) || !std::isfinite(a.low_pass))
    fail(ErrorCode::invalid_argument, "low_pass must be a finite variance of at least 0 square pixels, got ",
         a.low_pass);
  if (!(a.near >= 0) || !(a.far > a.near))
    fail(ErrorCode::invalid_argument, "near = ", a.near, " and far = ", a.far, ": 0 <= near < far is needed");
}
DType require_one_float(Types in) {
  for (const Type& t : in) {
    if (!is_float(t.dtype) || info(t.dtype).bits < 16)
      fail(ErrorCode::invalid_argument, "operands must be of f16, bf16, f32 or f64, got ", t);
    if (t.dtype != in[0].dtype)
      fail(ErrorCode::shape_mismatch, "operands must have one dtype, got ", in[0], " and ", t, "; convert one of them");
  }
  return in[0].dtype;
}
void require_dims(const Type& t, Dims front, std::initializer_list<Dim> last, std::string_view name) {
  front.insert(front.end(), last);
  if (t.dims != front) fail(ErrorCode::shape_mismatch, name, " must be ", Type{t.dtype, front}, ", got ", t);
}

SceneDims::SceneDims(Types in) {
  require_one_float(in);
  const Type &positions = in[0], &sh = in[5];
  if (positions.rank() < 2 || positions.dims.back() != Dim(3))
    fail(ErrorCode::shape_mismatch, "positions must be [..., n, 3], got ", positions);
  batch.assign(positions.dims.begin(), positions.dims.end() - 2);
  n = positions.dims[batch.size()];
  require_dims(in[1], batch, {n, 3}, "log_scales");
  require_dims(in[2], batch, {n, 4}, "rotations");
  require_dims(in[3], batch, {n}, "opacities");
  require_dims(in[4], batch, {n, 3}, "colors");
  bool known = sh.rank() >= 2 && sh.dims[sh.rank() - 2].is_static();
  if (known) coefficients = sh.dims[sh.rank() - 2].value();
  if (!known ||
      (coefficients != 0 && coefficients != 1 && coefficients != 4 && coefficients != 9 && coefficients != 16))
    fail(ErrorCode::shape_mismatch, "sh must be [..., n, c, 3] with whole bands, c = 0, 1, 4, 9 or 16, got ", sh);
  require_dims(sh, batch, {n, coefficients, 3}, "sh");
  require_dims(in[6], batch, {10}, "camera");
  if (in.size() > 7) require_dims(in[7], batch, {3}, "background");
}
Dims SceneDims::per_splat(std::initializer_list<Dim> last) const {
  Dims dims = joined(batch, {n});
  dims.insert(dims.end(), last);
  return dims;
}
Dims joined(const Dims& batch, std::initializer_list<Dim> last) {
  Dims dims = batch;
  dims.insert(dims.end(), last);
  return dims;
}
Dims image_dims(const Dims& batch, const SplatAttrs& a) { return joined(batch, {a.height, a.width, 4}); }
Dims require_splats(Types in) {
  require_one_float(in);
  const Type& splats = in[0];
  if (splats.rank() < 2 || splats.dims.back() != Dim(splat_field::count))
    fail(ErrorCode::shape_mismatch, "splats must be [..., n, ", splat_field::count,
         "], as gaussian_splat_prepare makes them, got ", splats);
  Dims batch(splats.dims.begin(), splats.dims.end() - 2);
  require_dims(in[1], batch, {3}, "background");
  return batch;
}
Sample scene_sample(Dims batch, int64_t n, int64_t c, const SplatAttrs& image, Attrs attrs, Behind behind,
                    DType dtype) {
  Sample sample;
  for (const Dims& last : {Dims{n, 3}, Dims{n, 3}, Dims{n, 4}, Dims{n}, Dims{n, 3}, Dims{n, c, 3}, Dims{10}}) {
    sample.dims.push_back(batch);
    sample.dims.back().insert(sample.dims.back().end(), last.begin(), last.end());
  }
  if (behind != Behind::nothing) sample.dims.push_back(joined(batch, {3}));
  if (behind == Behind::background_and_ct) sample.dims.push_back(image_dims(batch, image));
  sample.dtypes.assign(sample.dims.size(), dtype);
  sample.attrs = std::move(attrs);
  sample.lo = -0.7, sample.hi = 1.2;  // fields of view that are not tiny: f32 is as exact as its tolerance there
  return sample;
}

}  // namespace rlx::splat
