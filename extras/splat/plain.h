// The ops of splatting as plain loops over one Gaussian and one pixel after another: the references.
#pragma once

#include "extras/splat/projection.h"
#include "extras/splat/rules.h"

namespace rlx::splat {

/// From positions, log_scales, rotations, opacities, colors, sh and camera to splats, order and tiles.
Many<Tensor> prepare_plainly(Tensors in, const SplatAttrs& a);
/// The cotangents of those seven from that of the splats, by dual numbers with all partial derivatives at once.
Many<Tensor> prepare_backward_plainly(Tensors in, const Tensor& d_splats, const SplatAttrs& a);
/// From splats and background to the image; backward also from its cotangent, to theirs.
Tensor rasterize_plainly(Tensors in, const SplatAttrs& a);
Many<Tensor> rasterize_backward_plainly(Tensors in, const SplatAttrs& a);

/// The operands of a scene as arrays of double.
struct PlainScene {
  SceneDims dims;
  size_t batches, n, coefficients;  ///< n Gaussians in each batch; harmonics of each color
  Array<double> positions, log_scales, rotations, opacities, colors, sh, cameras;

  explicit PlainScene(Tensors in);
  /// Gaussian i, counted through all batches; `number(operand, at)` makes a T of element `at` of an operand.
  template <class T, class F>
  Gaussian<T> gaussian(size_t i, F number) const {
    Gaussian<T> g{{}, {}, {}, number(3, i), {}, {}};
    g.position = {number(0, 3 * i), number(0, 3 * i + 1), number(0, 3 * i + 2)};
    for (size_t k = 0; k < 3; ++k) g.log_scale[k] = number(1, 3 * i + k), g.color[k] = number(4, 3 * i + k);
    for (size_t k = 0; k < 4; ++k) g.rotation[k] = number(2, 4 * i + k);
    g.sh.resize(coefficients);
    for (size_t k = 0; k < 3 * coefficients; ++k) g.sh[k / 3][k % 3] = number(5, 3 * coefficients * i + k);
    return g;
  }
  template <class T, class F>
  CameraFrame<T> camera(size_t batch, int64_t height, F number) const {
    std::array<T, 10> c;
    for (size_t k = 0; k < c.size(); ++k) c[k] = number(6, 10 * batch + k);
    return {c, height};
  }
  double value(size_t operand, size_t at) const {
    const Array<double>* all[] = {&positions, &log_scales, &rotations, &opacities, &colors, &sh, &cameras};
    return all[operand]->data[at];
  }
};

}  // namespace rlx::splat
