// The ops of splatting as plain loops over one Gaussian and one pixel after another: the references.
#pragma once

#include "extras/splat/projection.h"
#include "extras/splat/rules.h"

namespace rlx::splat {

/// Of positions, log_scales, rotations, opacities, colors, sh and camera: splats, order, tiles.
Many<Tensor> prepare_plainly(Tensors in, const SplatAttrs& a);
/// The cotangents of those seven from that of the splats: by forward mode, in all directions at once.
Many<Tensor> prepare_backward_plainly(Tensors in, const Tensor& d_splats, const SplatAttrs& a);
Tensor rasterize_plainly(Tensors in, const SplatAttrs& a);
Many<Tensor> rasterize_backward_plainly(Tensors in, const SplatAttrs& a);

/// The operands of a scene as numbers.
struct PlainScene {
  SceneDims dims;
  size_t batches, n, coefficients;
  Array<double> positions, log_scales, rotations, opacities, colors, sh, cameras;

  explicit PlainScene(Tensors in);
  /// Number i of Gaussians of all batches; `number(operand, at)` makes a T of element `at` of an operand.
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
