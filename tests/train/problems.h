// The problems that the tests of training share.
#pragma once

#include "rlx/ops.h"
#include "rlx/train.h"

namespace rlx::test {

/// Numbers that tests/golden/generate makes too: x_i = ((factor i + add) mod modulus) / modulus - 0.5, in row-major
/// order.
inline Tensor numbers(Shape shape, int64_t factor, int64_t add, int64_t modulus) {
  Tensor t(f32, std::move(shape));
  for (size_t i = 0; i < t.element_count(); ++i) {
    int64_t k = (factor * static_cast<int64_t>(i) + add) % modulus;
    store<double>(t, i, static_cast<double>(k) / static_cast<double>(modulus) - 0.5);
  }
  return t;
}

/// Loss = the sum of (x W - t)^2, N = 8, D = 3: x_i = ((7 i + 1) mod 11) / 11 - 0.5 in row-major order, t = x W* with
/// W* = (0.5, -1, 2).
struct LinearRegression {
  Tensor x = Tensor(f32, {8, 3}), t = Tensor(f32, {8, 1});
  static constexpr double kSolution[] = {0.5, -1, 2};

  LinearRegression() {
    for (size_t n = 0; n < 8; ++n) {
      double sum = 0;
      for (size_t d = 0; d < 3; ++d) {
        double v = static_cast<double>((7 * (n * 3 + d) + 1) % 11) / 11 - 0.5;
        store<double>(x, n * 3 + d, v);
        sum += load_number(x, n * 3 + d) * kSolution[d];
      }
      store<double>(t, n, sum);
    }
  }
  static Graph loss() {
    Graph g("regression");
    Value x = g.input("x", f32, {8, 3}), t = g.input("t", f32, {8, 1}), w = g.param("w", f32, {3, 1});
    g.output(reduce_sum(square(matmul(x, w) - t), {0, 1}), "loss");
    return g;
  }
  NamedTensors initial(double w0) const {
    Tensor w(f32, {3, 1});
    for (size_t i = 0; i < 3; ++i) store<double>(w, i, w0);
    return {{"w", w}};
  }
  std::vector<NamedTensor> batch() const { return {{"x", x}, {"t", t}}; }
};

}  // namespace rlx::test
