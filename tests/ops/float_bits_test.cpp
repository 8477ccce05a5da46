// Signs, neighbours and NaN: values of numpy's functions of the same names.
#include "rlx/ops/float_bits.h"
#include "ops/hard_cases.h"

using namespace rlx;
using namespace rlx::test;

namespace {

Tensor of(const Build& build, const std::vector<Tensor>& inputs) {
  std::vector<Type> types;
  for (const Tensor& t : inputs) types.push_back(t.type());
  return interpret(trace(types, build), inputs)[0];
}
std::vector<bool> signs(const Tensor& t) {
  std::vector<bool> all;
  for (size_t i = 0; i < t.element_count(); ++i) all.push_back(std::signbit(load<double>(t, i)));
  return all;
}

}  // namespace

TEST_CASE("signs are those of the bits") {
  for (DType t : {f64, f32, f16, bf16}) {
    Tensor x = vector_of(t, {0, -0.0, 1.5, -2, kInf, -kInf}), y = vector_of(t, {-0.0, 0, -1, 1, -kInf, 3});
    CHECK(of([](Values v) { return signbit(v[0]); }, {x}) ==
          Tensor::of<bool>({6}, {false, true, false, true, false, true}));
    Tensor z = of([](Values v) { return copysign(v[0], v[1]); }, {x, y});
    CHECK(signs(z) == std::vector<bool>{true, false, true, false, true, false});
    CHECK(difference(z, vector_of(t, {0, 0, -1.5, 2, -kInf, kInf})) == "");
  }
  CHECK(of([](Values v) { return signbit(v[0]); }, {Tensor::of<int32_t>({3}, {-1, 0, 2})}) ==
        Tensor::of<bool>({3}, {true, false, false}));
}
TEST_CASE("nextafter goes to the neighbour, over 0 and into infinity") {
  std::vector<double> x = {1, 1, 0, -0.0, kInf, -1, 5, kNaN, 1, 0x1p-1074}, y = {2, 0, 1, -1, 0, 0, 5, 1, kNaN, -1};
  std::vector<double> wanted;
  for (size_t i = 0; i < x.size(); ++i) wanted.push_back(std::nextafter(x[i], y[i]));
  CHECK(of([](Values v) { return nextafter(v[0], v[1]); }, {vector_of(f64, x), vector_of(f64, y)}).bytes().size() ==
        80);
  Tensor got = of([](Values v) { return nextafter(v[0], v[1]); }, {vector_of(f64, x), vector_of(f64, y)});
  for (size_t i = 0; i < x.size(); ++i) {
    double v = load<double>(got, i);
    CHECK_MESSAGE((v == wanted[i] || (std::isnan(v) && std::isnan(wanted[i]))), x[i], " ", y[i], ": ", v);
  }
  // numpy.nextafter of float32 and of float16
  CHECK(of([](Values v) { return nextafter(v[0], v[1]); },
           {vector_of(f32, {1, kMost, 0}), vector_of(f32, {2, kInf, -1})}) ==
        vector_of(f32, {1.00000011920928955, kInf, -1.401298464324817e-45}));
  CHECK(of([](Values v) { return nextafter(v[0], v[1]); }, {vector_of(f16, {1, 0}), vector_of(f16, {0, 1})}) ==
        vector_of(f16, {0.99951171875, 5.960464477539063e-08}));
}
TEST_CASE("frexp and ldexp take numbers apart and put them together, subnormal ones too") {
  std::vector<double> x = {1, -8, 0.3, 1e-310, -5e-324, 1.7e308, 0, kInf, kNaN};
  Graph g = trace(std::vector{Type{f64, {9}}}, [](Values v) {
    auto [fraction, exponent] = frexp(v[0]);
    return std::vector{fraction, exponent, ldexp(fraction, exponent)};
  });
  auto out = interpret(g, std::array{vector_of(f64, x)});
  for (size_t i = 0; i < x.size(); ++i) {
    int exponent = 0;
    double fraction = std::frexp(x[i], &exponent);
    if (!std::isfinite(x[i])) exponent = 0;
    CHECK(load<int64_t>(out[1], i) == exponent);
    if (!std::isnan(x[i])) {
      CHECK(load<double>(out[0], i) == fraction);
      CHECK(load<double>(out[2], i) == x[i]);
    }
  }
  CHECK(of([](Values v) { return ldexp(v[0], v[1]); },
           {vector_of(f32, {1, 1, 1, 3}), Tensor::of<int32_t>({4}, {-149, 127, 128, -1})}) ==
        vector_of(f32, {1.401298464324817e-45, 1.7014118346046923e+38, kInf, 1.5}));
}
TEST_CASE("fmax and fmin prefer numbers to NaN; the rest is NumPy's") {
  Numbers x{{5}, {1, kNaN, 3, kNaN, -kInf}}, y{{5}, {2, 2, kNaN, kNaN, 0}};
  CHECK(mismatch_of_floats([](Values v) { return fmax(v[0], v[1]); }, {x, y}, {{{5}, {2, 2, 3, kNaN, 0}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return fmin(v[0], v[1]); }, {x, y}, {{{5}, {1, 2, 3, kNaN, -kInf}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return trunc(v[0]); }, {{{5}, {1.7, -1.7, -0.5, kInf, kNaN}}},
                           {{{5}, {1, -1, 0, kInf, kNaN}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return heaviside(v[0], v[1]); }, {{{4}, {-2, 0, 3, kNaN}}, {{}, {0.5}}},
                           {{{4}, {0, 0.5, 1, kNaN}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return logaddexp2(v[0], v[1]); }, {{{3}, {3, -1000, kInf}}, {{3}, {3, 1, 0}}},
                           {{{3}, {4, 1, kInf}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return nan_to_num(v[0], 7, 100.0, -100.0); }, {{{4}, {kNaN, kInf, -kInf, 2}}},
                           {{{4}, {7, 100, -100, 2}}}) == "");
  CHECK(of([](Values v) { return nan_to_num(v[0]); }, {vector_of(f32, {kInf, -kInf})}) ==
        vector_of(f32, {kMost, -kMost}));
  CHECK(of([](Values v) { return nan_to_num(v[0]); }, {vector_of(f16, {kInf, kNaN})}) == vector_of(f16, {65504, 0}));
}

TEST_CASE("in the total order a NaN with a sign is below all numbers, one without above, in every dtype") {
  // StableHLO, compare with TOTALORDER: the order of IEEE 754-2019, 5.10.
  for (DType t : {f64, f32, f16, bf16}) {
    CAPTURE(name_of(t));
    Tensor nan = vector_of(t, {kNaN, kNaN}), numbers = vector_of(t, {-kInf, kInf});
    const size_t bytes = byte_size(t);
    nan.mutable_data()[bytes - 1] |= std::byte{0x80};
    nan.mutable_data()[2 * bytes - 1] &= std::byte{0x7f};
    for (bool below : {true, false}) {
      const Comparison direction = below ? Comparison::lt : Comparison::gt;
      const Build build = [&](Values v) { return compare(v[0], v[1], direction, true); };
      CHECK(mismatch(build, {nan, numbers}, {Tensor::of<bool>({2}, {below, !below})}) == "");
    }
  }
}
