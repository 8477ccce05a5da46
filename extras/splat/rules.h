// What the ops of Gaussian splatting share: checks of attributes and operands.
#pragma once

#include "rlx/extras/splat.h"

namespace rlx::splat {

/// Fails on sizes, limits and thresholds that no image can have.
void require_attrs(const SplatAttrs& a);
/// f16, bf16, f32 or f64 throughout; returns it.
DType require_one_float(Types in);
/// `t` is [..., last], with these dims in front of it.
void require_dims(const Type& t, Dims front, std::initializer_list<Dim> last, std::string_view name);

/// The dims of a scene, found in the operands of gaussian_splat_render and checked against each other.
struct SceneDims {
  Dims batch;
  Dim n;
  int64_t coefficients = 0;  ///< of each colour
  /// Of positions, log_scales, rotations, opacities, colors, sh, camera.
  explicit SceneDims(Types in);
  Dims per_splat(std::initializer_list<Dim> last) const;
};
/// batch + `last`.
Dims joined(const Dims& batch, std::initializer_list<Dim> last);
/// The image of splats in these batches.
Dims image_dims(const Dims& batch, const SplatAttrs& a);
/// Checks splats[..., n, 15] and background[..., 3]; returns the batch dims.
Dims require_splats(Types in);

inline SplatValues scene_of(Values in) { return {in[0], in[1], in[2], in[3], in[4], in[5]}; }
inline std::vector<Value> operands_of(const SplatValues& s, Value camera) {
  return {s.positions, s.log_scales, s.rotations, s.opacities, s.colors, s.sh, camera};
}

/// Which operands stand behind those of the scene and the camera.
enum class Behind { nothing, background, background_and_ct };
/// A sample of a scene of n Gaussians with c coefficients each, in batches.
Sample scene_sample(Dims batch, int64_t n, int64_t c, const SplatAttrs& image, Attrs attrs, Behind behind,
                    DType dtype = f64);
/// Of the ops that take a scene. `attrs_of` makes the op's own attributes of those of an image.
template <class F>
std::vector<Sample> scene_samples(F attrs_of, Behind behind) {
  std::vector<Sample> all;
  auto add = [&](Dims batch, int64_t n, int64_t c, const SplatAttrs& image, DType dtype = f64) {
    all.push_back(scene_sample(std::move(batch), n, c, image, attrs_of(image), behind, dtype));
  };
  add({}, 4, 4, {.width = 5, .height = 4, .tile_size = 2});
  add({2}, 3, 1, {.width = 3, .height = 3, .gamma = 1, .footprint = SplatFootprint::ewa, .low_pass = 0.3});
  add({}, 1, 16, {.width = 4, .height = 2, .radius_scale = 2.5, .alpha_cutoff = 0.02});
  add({2, 1}, 3, 0, {.width = 1, .height = 3, .max_splat_steps = 2, .transmittance_threshold = 0.3});
  add({}, 3, 9, {.width = 3, .height = 5}, bf16);
  add({}, 0, 1, {.width = 2, .height = 1});
  return all;
}

}  // namespace rlx::splat
