// Conversions between every two byte-sized dtypes, against their definition in elementwise.h.
#include "kernels/elementwise_test.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const std::vector<double> kValues{0,
                                  -0.0,
                                  1,
                                  -1,
                                  0.49,
                                  0.5,
                                  -0.5,
                                  0.75,
                                  1.5,
                                  -1.5,
                                  2.5,
                                  3.99,
                                  126,
                                  127,
                                  127.5,
                                  128,
                                  129,
                                  -127.9,
                                  -128,
                                  -129,
                                  200,
                                  254.6,
                                  255,
                                  256,
                                  300,
                                  1e3,
                                  32767,
                                  32768,
                                  -32768,
                                  -32769,
                                  65503,
                                  65504,
                                  65519,
                                  65520,
                                  65535,
                                  65536,
                                  1e5,
                                  16777217,
                                  -16777217,
                                  33554435,
                                  2147483520,
                                  2147483647,
                                  2147483648.0,
                                  -2147483648.0,
                                  -2147483649.0,
                                  4294967295.0,
                                  4294967296.0,
                                  1e10,
                                  9.2233720368547e18,
                                  9.3e18,
                                  1.8446744073709e19,
                                  1.9e19,
                                  -1e19,
                                  1e-3,
                                  6e-5,
                                  3e-8,
                                  1e-40,
                                  3.4e38,
                                  1e39,
                                  -1e300,
                                  0.1,
                                  -0.3,
                                  2049,
                                  2051,
                                  257,
                                  259,
                                  1.00390625,
                                  1.0029296875001,
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::quiet_NaN()};

std::vector<DType> real_dtypes() {
  std::vector<DType> all{boolean};
  for (size_t i = 0; i < kDTypeCount; ++i) {
    const auto t = static_cast<DType>(i);
    if (is_byte_sized(t) && (is_float(t) || is_integer(t))) all.push_back(t);
  }
  return all;
}

/// What `v`, a value of the source dtype, becomes.
double converted(DType to, double v) {
  if (to == boolean) return v != 0 ? 1 : 0;
  if (is_float(to)) return decode_float(to, encode_float(to, v));
  if (std::isnan(v)) return 0;
  const bool is_signed = kind_of(to) == Kind::signed_int;
  const double end = std::ldexp(1.0, info(to).bits - (is_signed ? 1 : 0));
  if (v >= end) return end;  // the largest value, as near as a double gets; compared below
  if (v < (is_signed ? -end : 0)) return is_signed ? -end : 0;
  return std::trunc(v);
}

}  // namespace

TEST_CASE("conversions truncate, saturate, round once, and take NaN to 0 in integers") {
  for_each_target([] {
    for (DType from : real_dtypes()) {
      Elements x(from, 0);
      std::vector<double> kept;
      for (double v : kValues) {
        // The values of the source dtype: what it rounds to; integers only what fits.
        if (is_integer(from) || from == boolean) {
          if (v != converted(from, v) || std::abs(v) >= 9.2e18) continue;
        }
        kept.push_back(v);
      }
      x = Elements(from, static_cast<int64_t>(kept.size()));
      for (size_t i = 0; i < kept.size(); ++i) x.set(static_cast<int64_t>(i), kept[i]);
      for (DType to : real_dtypes()) {
        const Elements y = apply_op(Op::convert, to, x);
        for (int64_t i = 0; i < x.size(); ++i) {
          double want = converted(to, x[i]);
          // Integers saturate among themselves nowhere: they wrap.
          if (is_integer(from) && is_integer(to)) {
            const auto bits = static_cast<uint64_t>(static_cast<int64_t>(x[i]));
            Elements one(to, 1);
            std::memcpy(one.data(), &bits, byte_size(to));
            want = one[0];
          } else if (is_integer(to) &&
                     want == std::ldexp(1.0, info(to).bits - (kind_of(to) == Kind::signed_int ? 1 : 0)) &&
                     info(to).bits < 64) {
            want -= 1;
          }
          if (y[i] == want || (std::isnan(y[i]) && std::isnan(want))) continue;
          INFO(std::string(name_of(from)), " ", x[i], " becomes ", std::string(name_of(to)), " ", y[i], ", not ", want);
          CHECK(false);
        }
      }
    }
  });
}

TEST_CASE("integers and doubles are rounded once on their way to f16 and bf16") {
  // By way of f32 rounded to nearest these would land on a tie, and go the wrong way.
  const double just_above = 1 + 0x1p-11 + 0x1p-40;
  Elements x(f64, 2);
  x.set(0, just_above), x.set(1, -just_above);
  const Elements y = apply_op(Op::convert, f16, x);
  CHECK(y[0] == 1 + 0x1p-10);
  CHECK(y[1] == -1 - 0x1p-10);
  const std::vector<int64_t> big{(int64_t{1} << 40) + (int64_t{1} << 32) + 1,
                                 -(int64_t{1} << 40) - (int64_t{1} << 32) - 1};
  Elements z(bf16, 2);
  apply_op(Op::convert, bf16, {{i64, big.data()}}, z.data(), 2);
  CHECK(z[0] == 0x1p40 + 0x1p33);
  CHECK(z[1] == -0x1p40 - 0x1p33);
}

TEST_CASE("complex numbers convert by their real and imaginary parts, and to reals by their real part") {
  const std::complex<float> x[] = {{1.5f, -2}, {0, 3}, {0, 0}};
  std::complex<double> wide[3];
  apply_op(Op::convert, c128, {{c64, x}}, wide, 3);
  CHECK(wide[1] == std::complex<double>(0, 3));
  Elements real(i32, 3), truth(boolean, 3);
  apply_op(Op::convert, i32, {{c64, x}}, real.data(), 3);
  CHECK(real[0] == 1);
  apply_op(Op::convert, boolean, {{c64, x}}, truth.data(), 3);
  CHECK((truth[0] == 1 && truth[1] == 1 && truth[2] == 0));
  std::complex<float> back[3];
  apply_op(Op::convert, c64, {{i32, real.data()}}, back, 3);
  CHECK(back[0] == std::complex<float>(1, 0));
}
