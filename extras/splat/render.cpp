// gaussian_splat_render and its derivative: prepare.cpp, then rasterize.cpp.
#include <algorithm>
#include <cmath>

#include "extras/splat/plain.h"
#include "rlx/autodiff.h"
#include "rlx/ops/arrange.h"
#include "rlx/ops/contract.h"
#include "rlx/ops/control.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/reduction.h"

namespace rlx {

Value gaussian_splat_render(const SplatValues& scene, Value camera, Value background, SplatAttrs attrs) {
  auto operands = splat::operands_of(scene, camera);
  operands.push_back(background);
  return emit(op::gaussian_splat_render, std::move(operands), attrs);
}
SplatCts gaussian_splat_render_backward(const SplatValues& scene, Value camera, Value background, Value ct,
                                        SplatBackwardAttrs attrs) {
  auto operands = splat::operands_of(scene, camera);
  operands.insert(operands.end(), {background, ct});
  auto d = camera.graph().emit(op::gaussian_splat_render_backward, std::move(operands), attrs);
  return {splat::scene_of(d), d[6], d[7]};
}

namespace splat {
namespace {

/// Without what a descent would follow to longer longest or shorter shortest axes, where they are too far apart.
Value restrained(Value d, Value log_scales, double max_anisotropy) {
  int64_t axis = log_scales.rank() - 1;
  Value longest = broadcast_like(reduce_max(log_scales, {axis}), log_scales, {axis});
  Value shortest = broadcast_like(reduce_min(log_scales, {axis}), log_scales, {axis}), zero = zeros_like(d);
  Value apart = compare(longest - shortest, full_like(longest, std::log(max_anisotropy)), Comparison::gt);
  Value grows = bitwise_and(compare(log_scales, longest, Comparison::eq), compare(d, zero, Comparison::lt));
  Value shrinks = bitwise_and(compare(log_scales, shortest, Comparison::eq), compare(d, zero, Comparison::gt));
  return select(bitwise_and(apart, bitwise_or(grows, shrinks)), zero, d);
}
/// Zeros for the coefficients above `band`.
Value up_to_band(Value d, int64_t band) {
  int64_t axis = d.rank() - 2, all = d.dim(axis).value();
  if (band >= 3 || (band + 1) * (band + 1) >= all) return d;
  Value kept = slice_axis(d, axis, 0, (band + 1) * (band + 1)),
        rest = slice_axis(d, axis, (band + 1) * (band + 1), all);
  return concatenate({kept, zeros_like(rest)}, axis);
}

Many<Value> render_backward(Values in, const SplatBackwardAttrs& a) {
  Values operands = in.first(7);
  Value camera = in[6], background = in[7], ct = in[8];
  if (std::isfinite(a.loss_grad_clip)) ct = clamp(ct, -a.loss_grad_clip, a.loss_grad_clip);
  PreparedSplats prepared = gaussian_splat_prepare(scene_of(operands), camera, a.render());
  SplatRasterCts raster = gaussian_splat_rasterize_backward(prepared.splats, background, ct, a.render());

  std::vector<Type> types;
  Names names;
  for (const Value& v : operands) {
    names.push_back(text_of("x", types.size()));
    types.push_back(v.type());
  }
  Graph prepare = trace(types, [&](Values v) { return gaussian_splat_prepare(scene_of(v), v[6], a.render()).splats; });
  std::vector<Value> fed(operands.begin(), operands.end());
  fed.push_back(raster.splats);
  Many<Value> d = call(std::move(fed), vjp(prepare, names, false));
  if (std::isfinite(a.max_anisotropy)) d[1] = restrained(d[1], in[1], a.max_anisotropy);
  d[5] = up_to_band(d[5], a.sh_band);
  d.push_back(raster.background);
  return d;
}

/// In f64, for what an op computes on the way is not rounded.
std::vector<Tensor> widened(Tensors in) {
  std::vector<Tensor> all;
  for (const Tensor& t : in) all.push_back(Array<double>(t).rounded_to(f64));
  return all;
}
Tensor render_plainly(Tensors in, const SplatAttrs& a) {
  auto wide = widened(in);
  Tensor splats = prepare_plainly(Tensors(wide).first(7), a)[0];
  return Array<double>(rasterize_plainly(std::array{splats, wide[7]}, a)).rounded_to(in[0].dtype());
}
Many<Tensor> render_backward_plainly(Tensors in, const SplatBackwardAttrs& a) {
  auto wide = widened(in);
  Array<double> ct(wide[8]);
  for (double& v : ct.data) v = std::clamp(v, -a.loss_grad_clip, a.loss_grad_clip);
  auto scene = Tensors(wide).first(7);
  Tensor splats = prepare_plainly(scene, a.render())[0];
  auto raster = rasterize_backward_plainly(std::array{splats, wide[7], ct.rounded_to(f64)}, a.render());
  auto d = prepare_backward_plainly(scene, raster[0], a.render());
  Array<double> log_scales(wide[1]), d_scales(d[1]), d_sh(d[5]);
  for (size_t i = 0; i < log_scales.data.size(); i += 3) {
    const double* s = &log_scales.data[i];
    const double longest = std::max({s[0], s[1], s[2]}), shortest = std::min({s[0], s[1], s[2]});
    if (!(longest - shortest > std::log(a.max_anisotropy))) continue;
    for (size_t k = 0; k < 3; ++k) {
      double& v = d_scales.data[i + k];
      if ((s[k] == longest && v < 0) || (s[k] == shortest && v > 0)) v = 0;
    }
  }
  const auto coefficients = static_cast<size_t>(in[5].shape()[in[5].rank() - 2]);
  const auto bands = static_cast<size_t>(std::min<int64_t>(a.sh_band, 3) + 1);
  for (size_t k = 0; k < d_sh.data.size(); ++k)
    if (k / 3 % coefficients >= bands * bands) d_sh.data[k] = 0;
  d[1] = d_scales.rounded_to(f64), d[5] = d_sh.rounded_to(f64);
  d.push_back(raster[1]);
  for (Tensor& t : d) t = Array<double>(t).rounded_to(in[0].dtype());
  return d;
}

/// Small ones: the laws differentiate them twice, element by element.
std::vector<Sample> backward_samples() {
  std::vector<Sample> all;
  auto add = [&](Dims batch, int64_t n, int64_t c, SplatBackwardAttrs a, DType dtype = f64) {
    all.push_back(scene_sample(std::move(batch), n, c, a.render(), a, Behind::background_and_ct, dtype));
  };
  add({}, 2, 1, {.width = 2, .height = 1});
  add({1}, 1, 0, {.width = 1, .height = 2, .gamma = 1, .footprint = SplatFootprint::ewa, .low_pass = 0.3});
  add({}, 1, 4, {.width = 1, .height = 1, .loss_grad_clip = 0.5, .sh_band = 0, .max_anisotropy = 1.5});
  add({}, 4, 9, {.width = 5, .height = 3, .tile_size = 2}, bf16);
  add({2}, 3, 16, {.width = 3, .height = 3, .sh_band = 1}, f16);
  add({}, 0, 1, {.width = 2, .height = 1});
  return all;
}

}  // namespace
}  // namespace splat

OpDef define_gaussian_splat_render() {
  using A = SplatAttrs;
  return define<A>({
      .name = "gaussian_splat_render",
      .doc = "gaussian_splat_prepare, then gaussian_splat_rasterize: "
             "[..., height, width, 4] of red, green, blue and opacity",
      .source = "Kerbl et al., ACM TOG 42(4) (2023)",
      .operands = {"positions", "log_scales", "rotations", "opacities", "colors", "sh", "camera", "background"},
      .covers = {"GaussianSplatRender"},
      .infer =
          [](Types in, const A& a) {
            splat::require_attrs(a);
            return Type{in[0].dtype, splat::image_dims(splat::SceneDims(in).batch, a)};
          },
      .reference = [](Tensors in, const A& a) { return splat::render_plainly(in, a); },
      .decompose =
          [](Values in, const A& a) {
            PreparedSplats p = gaussian_splat_prepare(splat::scene_of(in), in[6], a);
            return gaussian_splat_rasterize(p.splats, in[7], a);
          },
      .vjp =
          [](Values in, Value, Value ct, const A& a) {
            SplatCts d =
                gaussian_splat_render_backward(splat::scene_of(in), in[6], in[7], ct, SplatBackwardAttrs::of(a));
            Many<Value> all = splat::operands_of(d.scene, d.camera);
            all.push_back(d.background);
            return all;
          },
      .batch = [](Values in, const A& a) { return gaussian_splat_render(splat::scene_of(in), in[6], in[7], a); },
      .samples = [] { return splat::scene_samples([](const SplatAttrs& a) { return a; }, splat::Behind::background); },
  });
}

OpDef define_gaussian_splat_render_backward() {
  using A = SplatBackwardAttrs;
  return define<A>({
      .name = "gaussian_splat_render_backward",
      .doc = "the cotangents of the eight operands of gaussian_splat_render from that of its image, which counts as at "
             "most loss_grad_clip; none for harmonics above sh_band, nor for what would make a Gaussian longer than "
             "max_anisotropy times its breadth",
      .source = "gaussian_splat_render, differentiated",
      .operands = {"positions", "log_scales", "rotations", "opacities", "colors", "sh", "camera", "background", "ct"},
      .covers = {"GaussianSplatRenderBackward"},
      .infer =
          [](Types in, const A& a) {
            splat::require_attrs(a.render());
            splat::require_one_float(in);
            splat::SceneDims d(in.first(8));
            splat::require_dims(in[8], splat::image_dims(d.batch, a.render()), {}, "ct");
            if (!(a.loss_grad_clip > 0))
              fail(ErrorCode::invalid_argument, "loss_grad_clip must be positive, or inf for none, got ",
                   a.loss_grad_clip);
            if (a.sh_band < 0) fail(ErrorCode::invalid_argument, "sh_band must be at least 0, got ", a.sh_band);
            if (!(a.max_anisotropy >= 1))
              fail(ErrorCode::invalid_argument, "max_anisotropy must be at least 1, or inf for none, got ",
                   a.max_anisotropy);
            return Many<Type>(std::vector<Type>(in.begin(), in.begin() + 8));
          },
      .reference = [](Tensors in, const A& a) { return splat::render_backward_plainly(in, a); },
      .decompose = [](Values in, const A& a) { return splat::render_backward(in, a); },
      .batch =
          [](Values in, const A& a) {
            return Many<Value>(in[0].graph().emit(op::gaussian_splat_render_backward, {in.begin(), in.end()}, a));
          },
      .samples = splat::backward_samples,
  });
}

}  // namespace rlx
