// Gaussian splatting: scenes of n anisotropic 3-D Gaussians, drawn front to back, with their derivatives. Ops of
// extras/splat; docs/ir.md, "Gaussian splatting", says what each number means. Leading dims of all operands are batch
// dims and agree. Source: Kerbl et al., ACM TOG 42(4) (2023); Zwicker et al., "EWA splatting", IEEE TVCG 8 (2002).
#pragma once

#include <limits>

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef gaussian_splat_prepare, gaussian_splat_rasterize, gaussian_splat_rasterize_backward,
    gaussian_splat_render, gaussian_splat_render_backward;
}  // namespace op

/// How a Gaussian falls off around its centre in the image: along each pixel's ray it counts where it is densest (ray),
/// or as if all rays were parallel to the one through its centre (ewa: the elliptical weighted average).
enum class SplatFootprint { ray, ewa };
constexpr std::array<std::string_view, 2> names_of(SplatFootprint) { return {"ray", "ewa"}; }

struct SplatAttrs {
  int64_t width = 64, height = 64;        ///< of the image, in pixels
  int64_t tile_size = 8;                  ///< side of the square tiles; the image does not depend on it
  double radius_scale = 3;                ///< how many standard deviations a splat reaches
  double alpha_cutoff = 1.0 / 255;        ///< a splat that is less opaque at a pixel is left out there
  int64_t max_splat_steps = 32768;        ///< so many splats count at a pixel, the nearest ones
  double transmittance_threshold = 1e-4;  ///< a pixel is done as soon as less light than that passes
  double gamma = 2.2;                     ///< what is shown is the light to the power of 1 / gamma
  SplatFootprint footprint = SplatFootprint::ray;
  double low_pass = 0;  ///< variance in square pixels that is added to each splat: 0.3 in the original paper's code
  double near = 0.01, far = std::numeric_limits<double>::infinity();  ///< depths between which Gaussians are seen
  RLX_FIELDS(SplatAttrs, field("width", &SplatAttrs::width), field("height", &SplatAttrs::height),
             field("tile_size", &SplatAttrs::tile_size), field("radius_scale", &SplatAttrs::radius_scale),
             field("alpha_cutoff", &SplatAttrs::alpha_cutoff), field("max_splat_steps", &SplatAttrs::max_splat_steps),
             field("transmittance_threshold", &SplatAttrs::transmittance_threshold), field("gamma", &SplatAttrs::gamma),
             field("footprint", &SplatAttrs::footprint), field("low_pass", &SplatAttrs::low_pass),
             field("near", &SplatAttrs::near), field("far", &SplatAttrs::far));
};

/// A scene, in a graph.
struct SplatValues {
  Value positions;   ///< [..., n, 3]
  Value log_scales;  ///< [..., n, 3]: logarithms of the standard deviations along the Gaussian's own axes
  Value rotations;   ///< [..., n, 4]: quaternions (x, y, z, w) of any length but 0
  Value opacities;   ///< [..., n]: logits
  Value colors;      ///< [..., n, 3]: what the harmonics are added to; a sum below 0 counts as 0
  Value sh;          ///< [..., n, c, 3], c = 0, 1, 4, 9 or 16: coefficients of the real spherical harmonics
};

/// The numbers of a splat, behind one another.
namespace splat_field {
constexpr int64_t depth = 0;     ///< along the view direction
constexpr int64_t center = 1;    ///< x, y in pixels; the middle of the first pixel is (0.5, 0.5)
constexpr int64_t conic = 3;     ///< a, b, c: the square of the distance is a dx^2 + 2 b dx dy + c dy^2
constexpr int64_t slope = 6;     ///< gx, gy, and ...
constexpr int64_t bend = 8;      ///< ... hxx, hxy, hyy: it is divided by 1 + g d + d h d; zeros of EWA
constexpr int64_t opacity = 11;  ///< at the centre
constexpr int64_t color = 12;    ///< red, green, blue
constexpr int64_t count = 15;
}  // namespace splat_field

struct PreparedSplats {
  Value splats;  ///< [..., n, 15], the nearest first; those outside of (near, far) are zeros and come last
  Value order;   ///< [..., n], i32: which Gaussian each of them is
  Value tiles;   ///< [..., n, 4], i32: the tiles that each reaches: first x, first y, behind the last x, the last y
};
/// Splats of Gaussians, as a camera sees them: camera[..., 10] = position, target, up (3 each), vertical field of view
/// in radians. No derivative comes from `order`, nor from what was cut away.
PreparedSplats gaussian_splat_prepare(const SplatValues& scene, Value camera, SplatAttrs attrs = {});

/// The image [..., height, width, 4] (red, green, blue, opacity) of splats[..., n, 15] over background[..., 3], in the
/// order in which they stand.
Value gaussian_splat_rasterize(Value splats, Value background, SplatAttrs attrs = {});
struct SplatRasterCts {
  Value splats, background;
};
SplatRasterCts gaussian_splat_rasterize_backward(Value splats, Value background, Value ct, SplatAttrs attrs = {});

/// Prepared, then rasterized.
Value gaussian_splat_render(const SplatValues& scene, Value camera, Value background, SplatAttrs attrs = {});

/// SplatAttrs, and what fitting may restrain.
struct SplatBackwardAttrs {
  int64_t width = 64, height = 64, tile_size = 8;
  double radius_scale = 3, alpha_cutoff = 1.0 / 255;
  int64_t max_splat_steps = 32768;
  double transmittance_threshold = 1e-4, gamma = 2.2;
  SplatFootprint footprint = SplatFootprint::ray;
  double low_pass = 0, near = 0.01, far = std::numeric_limits<double>::infinity();
  double loss_grad_clip = std::numeric_limits<double>::infinity();  ///< larger cotangents of the image count as this
  int64_t sh_band = 3;                                              ///< coefficients of higher bands get no gradient
  /// A Gaussian whose longest axis is more than that many times its shortest gets no gradient that a descent would
  /// follow to where it is still more.
  double max_anisotropy = std::numeric_limits<double>::infinity();
  RLX_FIELDS(SplatBackwardAttrs, field("width", &SplatBackwardAttrs::width),
             field("height", &SplatBackwardAttrs::height), field("tile_size", &SplatBackwardAttrs::tile_size),
             field("radius_scale", &SplatBackwardAttrs::radius_scale),
             field("alpha_cutoff", &SplatBackwardAttrs::alpha_cutoff),
             field("max_splat_steps", &SplatBackwardAttrs::max_splat_steps),
             field("transmittance_threshold", &SplatBackwardAttrs::transmittance_threshold),
             field("gamma", &SplatBackwardAttrs::gamma), field("footprint", &SplatBackwardAttrs::footprint),
             field("low_pass", &SplatBackwardAttrs::low_pass), field("near", &SplatBackwardAttrs::near),
             field("far", &SplatBackwardAttrs::far), field("loss_grad_clip", &SplatBackwardAttrs::loss_grad_clip),
             field("sh_band", &SplatBackwardAttrs::sh_band),
             field("max_anisotropy", &SplatBackwardAttrs::max_anisotropy));

  /// Nothing restrained.
  static SplatBackwardAttrs of(const SplatAttrs& a) {
    return {
        a.width, a.height,    a.tile_size, a.radius_scale, a.alpha_cutoff, a.max_splat_steps, a.transmittance_threshold,
        a.gamma, a.footprint, a.low_pass,  a.near,         a.far};
  }
  SplatAttrs render() const {
    return {width, height,    tile_size, radius_scale, alpha_cutoff, max_splat_steps, transmittance_threshold,
            gamma, footprint, low_pass,  near,         far};
  }
};
struct SplatCts {
  SplatValues scene;
  Value camera, background;
};
/// The cotangents of all operands of gaussian_splat_render from that of its image.
SplatCts gaussian_splat_render_backward(const SplatValues& scene, Value camera, Value background, Value ct,
                                        SplatBackwardAttrs attrs);

}  // namespace rlx
