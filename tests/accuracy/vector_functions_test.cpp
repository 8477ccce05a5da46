// How far the element-wise machine's f32 functions lie from the true value, in units in the last place, over floats of
// every exponent and both signs: every 1021st, so that all low bits of the mantissa occur. The truth is the C library's
// in long double. On every instruction set of this processor; the table of the worst is printed.
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/vector/highway_targets.h"
// Above: the instruction sets must be chosen before any Highway header.
#include <doctest/doctest.h>

#include "kernels/elementwise/elementwise.h"
#include "kernels/kernel_test.h"
#include "support/sanitized.h"

namespace rlx::kernels {
namespace {

using Op = ElementwiseOp;

struct Function {
  const char* name;
  Op op;
  long double (*exact)(long double);
  double most;  ///< units in the last place
};

long double logistic(long double x) { return 1 / (1 + std::exp(-x)); }
long double silu(long double x) { return x / (1 + std::exp(-x)); }

// exp, tanh, erf, sigmoid, log and sin are promised to 2; the others have the bound that they reach.
const Function kFunctions[] = {
    {"exp", Op::exp, std::exp, 2},          {"tanh", Op::tanh, std::tanh, 2},    {"erf", Op::erf, std::erf, 2},
    {"sigmoid", Op::logistic, logistic, 2}, {"log", Op::log, std::log, 2},       {"sin", Op::sin, std::sin, 2},
    {"cos", Op::cos, std::cos, 2},          {"expm1", Op::expm1, std::expm1, 2}, {"log1p", Op::log1p, std::log1p, 3},
    {"sqrt", Op::sqrt, std::sqrt, 0.5},     {"silu", Op::silu, silu, 2.5},
};

std::vector<float> sweep() {
  const uint64_t step = test::sanitized() ? 65521 : 1021;
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += step)
    if (const float v = std::bit_cast<float>(static_cast<uint32_t>(bits)); std::isfinite(v)) x.push_back(v);
  return x;
}

std::vector<float> values_of(Op op, std::vector<float>& x) {
  ElementwiseProgram p;
  p.store(p.apply(op, f32, p.load(f32, 0)), 0);
  p.compile();
  std::vector<float> y(x.size());
  std::vector<std::byte> scratch(p.scratch_bytes() + 64);
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, p.scratch_bytes(), aligned, space);
  const ElementwiseBuffer from{x.data(), {1}}, to{y.data(), {1}};
  ElementwiseCall call;
  call.rank = 1, call.dims[0] = static_cast<int64_t>(x.size()), call.operands = &from, call.results = &to;
  p.run(call, 0, call.dims[0], aligned);
  return y;
}

/// |got - want| in units in the last place of the float nearest to `want`; a result of another kind is infinitely far.
double distance(float got, long double want) {
  const auto nearest = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
  if (std::isinf(nearest) || std::isinf(got)) {
    // The last float may stand for what rounds to infinity by less than a unit, and the other way round.
    constexpr float kMost = std::numeric_limits<float>::max();
    const bool is_near = std::fabs(want) > kMost * (1 - 0x1p-22L) && std::fabs(want) < kMost * (1 + 0x1p-22L);
    if (got == nearest) return 0;
    return is_near && std::signbit(got) == std::signbit(nearest) ? 1 : std::numeric_limits<double>::infinity();
  }
  if (std::isnan(got)) return std::numeric_limits<double>::infinity();
  int exponent = 0;
  std::frexp(nearest, &exponent);
  const long double unit = std::ldexp(1.0L, std::max(exponent, -125) - 24);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) / unit);
}

}  // namespace

TEST_CASE("vector functions are within 2 units in the last place, over all exponents") {
  std::vector<float> x = sweep();
  std::printf("worst error in units in the last place, of %zu floats\n%-10s", x.size(), "");
  test::for_each_target([] { std::printf("%26s", hwy::TargetName(kernels::available_targets())); });
  std::printf("\n");
  for (const Function& f : kFunctions) {
    std::vector<long double> want(x.size());
    for (size_t i = 0; i < x.size(); ++i) want[i] = f.exact(static_cast<long double>(x[i]));
    std::printf("%-10s", f.name);
    test::for_each_target([&] {
      const std::vector<float> y = values_of(f.op, x);
      double worst = 0;
      size_t at = 0;
      for (size_t i = 0; i < x.size(); ++i)
        if (const double far = distance(y[i], want[i]); far > worst) worst = far, at = i;
      std::printf("  %6.3f at %13.6g", worst, static_cast<double>(x[at]));
      INFO(std::string(f.name), " of ", x[at], " is ", y[at], ", not ", static_cast<double>(want[at]));
      CHECK(worst <= f.most);
    });
    std::printf("\n");
  }
}

}  // namespace rlx::kernels
