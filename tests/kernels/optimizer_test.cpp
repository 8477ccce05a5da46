// Optimizer steps whose moments decay to subnormal numbers. The rules themselves: tests/golden/ops/optimizers.rlx.
#include "kernels/optim/optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/threads/flush_subnormals.h"

using namespace rlx::kernels;

namespace {

/// A param with Adam's moments.
struct Params {
  std::vector<float> param, grad, m, v;

  explicit Params(size_t count) : param(count, 1), grad(count), m(count), v(count) {}
  void step(const OptimizerStep& rule) {
    OptimizerBuffers b{param.data(), grad.data(), {m.data(), v.data()}, param.data(), {m.data(), v.data()}};
    step_params(rule, b, 0, static_cast<int64_t>(param.size()));
  }
};
AdamStep adam(float epsilon) {
  return {.rate = 1e-3f, .root = 1, .beta1 = 0.9f, .rest1 = 0.1f, .beta2 = 0.999f, .rest2 = 1e-3f, .epsilon = epsilon};
}
bool is_subnormal(float v) { return std::fpclassify(v) == FP_SUBNORMAL; }

}  // namespace

TEST_CASE("moments without gradients fade to 0, and params become what they become in f64") {
  Params p(37);
  std::vector<double> param(p.param.size(), 1), m(p.param.size()), v(p.param.size());
  const AdamStep rule = adam(1e-8f);
  for (int step = 0; step < 2000; ++step) {
    for (size_t i = 0; i < p.grad.size(); ++i) {
      p.grad[i] = step < 3 ? 1e-3f * static_cast<float>(i) : 0;
      const auto g = static_cast<double>(p.grad[i]);
      m[i] = static_cast<double>(rule.beta1) * m[i] + static_cast<double>(rule.rest1) * g;
      v[i] = static_cast<double>(rule.beta2) * v[i] + static_cast<double>(rule.rest2) * g * g;
      param[i] -= static_cast<double>(rule.rate) * m[i] / (std::sqrt(v[i]) + static_cast<double>(rule.epsilon));
    }
    p.step(rule);
    if (FlushSubnormals::kHasEffect)
      for (float kept : p.m) CHECK_FALSE(is_subnormal(kept));
  }
  for (size_t i = 0; i < m.size(); ++i) {
    CHECK(static_cast<double>(p.param[i]) == doctest::Approx(param[i]).epsilon(1e-5));
    CHECK(static_cast<double>(p.v[i]) == doctest::Approx(v[i]).epsilon(1e-3));
    if (FlushSubnormals::kHasEffect) CHECK(p.m[i] == 0);
  }
}

TEST_CASE("an epsilon that does not outweigh the smallest numbers keeps them, and so does arithmetic after a step") {
  CHECK(flushes_subnormals(adam(1e-8f)) == FlushSubnormals::kHasEffect);
  CHECK_FALSE(flushes_subnormals(adam(0)));
  CHECK_FALSE(flushes_subnormals(adam(1e-20f)));
  Params p(20);
  for (float& g : p.grad) g = 1e-20f;  // its square is subnormal
  p.step(adam(0));
  for (float v : p.v) CHECK(is_subnormal(v));
  // 0.1 g / sqrt(0.001 g^2), of which a subnormal square has few digits.
  for (float v : p.param)
    CHECK(static_cast<double>(v) == doctest::Approx(1 - 1e-3 * 0.1 / std::sqrt(1e-3)).epsilon(1e-4));
  volatile float smallest_normal = 0x1p-126f;
  p.step(adam(1e-8f));
  CHECK(smallest_normal * 0.5f == 0x1p-127f);
}

TEST_CASE("Lion takes whole steps by moments that have faded to subnormal numbers") {
  Params p(21);
  for (size_t i = 0; i < p.m.size(); ++i) p.m[i] = i % 2 == 0 ? 1e-40f : -1e-42f;
  p.step(LionStep{.rate = 0.125f, .beta1 = 0.9f, .rest1 = 0.1f, .beta2 = 0.99f, .rest2 = 0.01f});
  for (size_t i = 0; i < p.m.size(); ++i) {
    CHECK(p.param[i] == (i % 2 == 0 ? 0.875f : 1.125f));
    CHECK(is_subnormal(p.m[i]));
  }
}

TEST_CASE("squares that the correction of Adam's root brings up beside epsilon are kept") {
  // The first step with beta2 = 1 - 2^-27: the square g^2 2^-27 = 2^-131 is subnormal, and root times its root is g.
  const float g = 0x1p-52f, epsilon = 0x1p-39f, rate = 1;
  const AdamStep rule{.rate = rate,
                      .root = 0x1p13f * std::sqrt(2.0f),
                      .beta1 = 0,
                      .rest1 = 1,
                      .beta2 = 1,
                      .rest2 = 0x1p-27f,
                      .epsilon = epsilon};
  Params p(21);
  std::fill(p.param.begin(), p.param.end(), 0.0f), std::fill(p.grad.begin(), p.grad.end(), g);
  p.step(rule);
  const double exact = -static_cast<double>(g) / static_cast<double>(g + epsilon);
  for (float v : p.param) CHECK(static_cast<double>(v) / exact == doctest::Approx(1).epsilon(1e-6));
}
