// Judged by the formula, whose division and rounding are those of f32.
#include "kernels/quant/quantize.h"

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

double expected(double x, double scale, double zero, DType t) {
  const double y = double(std::nearbyint(float(x) / float(scale)) + float(zero));
  const bool with_sign = kind_of(t) == Kind::signed_int;
  const double high = std::ldexp(1.0, info(t).bits - (with_sign ? 1 : 0)) - 1;
  const double low = with_sign ? -high - 1 : 0;
  return std::isnan(y) ? 0 : std::min(std::max(y, low), high);
}

void check(const Elements& x, const Elements& scale, const Elements* zero, DType quantized, int64_t inner) {
  const int64_t features = scale.size();
  Elements y = Elements::filled(quantized, x.size() + 1, 77);
  QuantizeArgs args{
      .dtype = x.dtype(), .quantized_dtype = quantized, .x = x.data(), .scale = scale.data(), .y = y.data()};
  if (zero) args.zero_dtype = zero->dtype(), args.zero_point = zero->data();
  args.features = features, args.inner = inner;
  quantize(args, 0, x.size() / 3);
  quantize(args, x.size() / 3, x.size());
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t feature = i / inner % features;
    INFO(std::string(name_of(quantized)), " of ", x[i], " by ", scale[feature], " at ", i);
    REQUIRE(y[i] == expected(x[i], scale[feature], zero ? (*zero)[feature] : 0, quantized));
  }
  REQUIRE(y[x.size()] == 77);
}

const std::vector<DType> kQuantized = {i8, u8, i16, u16};

}  // namespace

TEST_CASE("quantized values of every dtype, with one scale and with one a feature") {
  for_each_target([] {
    for (DType t : {f32, f16, bf16})
      for (DType quantized : kQuantized)
        for (int64_t inner : {1, 3, 16, 50, 333}) {
          const Elements x = Elements::random(t, 6 * inner, 1, -40, 40), scale = Elements::random(t, 3, 2, 0.01, 0.5);
          check(x, scale, nullptr, quantized, inner);
          for (DType zeros : integer_dtypes()) {
            const Elements zero = Elements::random(zeros, 3, 3, kind_of(zeros) == Kind::signed_int ? -20 : 0, 100);
            check(x, scale, &zero, quantized, inner);
          }
        }
  });
}

TEST_CASE("ties go to even, and what only looks like a tie does not") {
  for_each_target([] {
    for (double step : {0.1, 0.3, 1.0 / 128, 3.0, 1e-20, 0.0, 1e-38, 1e30, -0.7}) {
      Elements x(f32, 4096), scale = Elements::filled(f32, 1, step);
      for (int64_t i = 0; i < 4096; ++i) {
        // Halves of the scale, and the neighbours in f32 on either side.
        auto v = float(double(i / 3 - 600) / 2 * double(float(step)));
        if (i % 3 == 0) v = std::nextafter(v, -1e38f);
        if (i % 3 == 2) v = std::nextafter(v, 1e38f);
        x.set(i, double(v));
      }
      for (DType quantized : kQuantized) check(x, scale, nullptr, quantized, 4096);
    }
  });
}

TEST_CASE("NaN becomes 0 whatever the zero point, infinities and huge quotients saturate") {
  for_each_target([] {
    for (double scale : {0.5, 1e-30, 1e30, -2.0}) {
      Elements x = Elements::random(f32, 70, 4, -9, 9);
      x.set(3, NAN), x.set(20, INFINITY), x.set(21, -INFINITY), x.set(40, 3e38), x.set(41, -3e38), x.set(69, NAN);
      const Elements one = Elements::filled(f32, 1, scale);
      for (double zero : {-128.0, 5.0, 127.0, 30000.0, 3e6, -2e9}) {
        const Elements zeros = Elements::filled(i32, 1, zero);
        for (DType quantized : kQuantized) check(x, one, &zeros, quantized, 70);
      }
    }
  });
}
