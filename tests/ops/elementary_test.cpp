// Hard cases of the elementary functions and of composed arithmetic. Expected values: PyTorch 2.15 and NumPy 2.4 in
// f64.
#include "ops/hard_cases.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const std::vector<double> kInputs = {-kInf, -kMost, -20, -3, -1, -0.5,  -1e-3, 0,
                                     1e-3,  0.5,    1,   3,  20, kMost, kInf,  kNaN};
struct Row {
  std::string_view op;
  std::vector<double> wanted;  // of kInputs
};
const Row kRows[] = {
    {"square",
     {kInf, 1.1579207543382391e+77, 400, 9, 1, 0.25, 1e-06, 0, 1e-06, 0.25, 1, 9, 400, 1.1579207543382391e+77, kInf,
      kNaN}},
    {"reciprocal",
     {-0, -2.938736052218037e-39, -0.05, -0.3333333333333333, -1, -2, -1000, kInf, 1000, 2, 1, 0.3333333333333333, 0.05,
      2.938736052218037e-39, 0, kNaN}},
    {"exp2",
     {0, 0, 9.5367431640625e-07, 0.125, 0.5, 0.7071067811865475, 0.9993070929904525, 1, 1.0006933874625807,
      1.414213562373095, 2, 8, 1048576, kInf, kInf, kNaN}},
    {"log2",
     {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, -kInf, -9.965784284662087, -1, 0, 1.584962500721156, 4.321928094887363,
      127.99999991400867, kInf, kNaN}},
    {"log10",
     {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, -kInf, -3, -0.3010299956639812, 0, 0.47712125471966244,
      1.3010299956639813, 38.531839419103626, kInf, kNaN}},
    {"erfc",
     {2, 2, 2, 1.9999779095030015, 1.8427007929497148, 1.5204998778130465, 1.0011283787909693, 1, 0.9988716212090307,
      0.4795001221869535, 0.15729920705028513, 2.209049699858544e-05, 5.395865611607901e-176, 0, 0, kNaN}},
    {"asin",
     {kNaN, kNaN, kNaN, kNaN, -1.5707963267948966, -0.5235987755982989, -0.0010000001666667416, 0,
      0.0010000001666667416, 0.5235987755982989, 1.5707963267948966, kNaN, kNaN, kNaN, kNaN, kNaN}},
    {"acos",
     {kNaN, kNaN, kNaN, kNaN, 3.141592653589793, 2.0943951023931957, 1.5717963269615634, 1.5707963267948966,
      1.56979632662823, 1.0471975511965976, 0, kNaN, kNaN, kNaN, kNaN, kNaN}},
    {"atan",
     {-1.5707963267948966, -1.5707963267948966, -1.5208379310729538, -1.2490457723982544, -0.7853981633974483,
      -0.4636476090008061, -0.0009999996666668668, 0, 0.0009999996666668668, 0.4636476090008061, 0.7853981633974483,
      1.2490457723982544, 1.5208379310729538, 1.5707963267948966, 1.5707963267948966, kNaN}},
    {"sinh",
     {-kInf, -kInf, -242582597.70489514, -10.017874927409903, -1.1752011936438014, -0.5210953054937474,
      -0.001000000166666675, 0, 0.001000000166666675, 0.5210953054937474, 1.1752011936438014, 10.017874927409903,
      242582597.70489514, kInf, kInf, kNaN}},
    {"cosh",
     {kInf, kInf, 242582597.70489514, 10.067661995777765, 1.5430806348152437, 1.1276259652063807, 1.0000005000000416, 1,
      1.0000005000000416, 1.1276259652063807, 1.5430806348152437, 10.067661995777765, 242582597.70489514, kInf, kInf,
      kNaN}},
    {"asinh",
     {-kInf, -89.4159862326283, -3.6895038689889055, -1.8184464592320668, -0.881373587019543, -0.48121182505960347,
      -0.0009999998333334083, 0, 0.0009999998333334083, 0.48121182505960347, 0.881373587019543, 1.8184464592320668,
      3.6895038689889055, 89.4159862326283, kInf, kNaN}},
    {"acosh",
     {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, 0, 1.762747174039086, 3.6882538673612966,
      89.4159862326283, kInf, kNaN}},
    {"atanh",
     {kNaN, kNaN, kNaN, kNaN, -kInf, -0.5493061443340549, -0.0010000003333335333, 0, 0.0010000003333335333,
      0.5493061443340549, kInf, kNaN, kNaN, kNaN, kNaN, kNaN}},
};

Build binary(Value (*op)(Value, Value)) {
  return [op](Values v) { return op(v[0], v[1]); };
}

}  // namespace

TEST_CASE("elementary functions give PyTorch's values, also at infinities, NaN and the largest finite numbers") {
  for (const Row& row : kRows) {
    CAPTURE(row.op);
    CHECK(mismatch_of_floats([&](Values in) { return emit(find_op(row.op), {in[0]}); }, {{{16}, kInputs}},
                             {{{16}, row.wanted}}) == "");
  }
}

TEST_CASE("erfc keeps its digits where erf is 1 to the last bit") {
  // scipy.special.erfc; as quotients, because the tolerance is absolute below 1
  std::vector<double> x = {5, 9, 26, 0.46875},
                      y = {1.537459794428035e-12, 4.13703174651381e-37, 5.663192408856143e-296, 0.507386526782062};
  auto quotient = [](Values v) { return erfc(v[0]) / v[1]; };
  CHECK(mismatch(quotient, {vector_of(f64, x), vector_of(f64, y)}, {vector_of(f64, {1, 1, 1, 1})}) == "");
  CHECK(mismatch(quotient, {vector_of(f32, {5, 8}), vector_of(f32, {1.537459794428035e-12, 1.1224297172982928e-29})},
                 {vector_of(f32, {1, 1})}, 1e-5) == "");
}

TEST_CASE("sinh and cosh reach as far as their results") {
  // e^89.2 overflows f32, half of it does not
  CHECK(mismatch(
            [](Values v) {
              return std::vector{sinh(v[0]) * 1e-38, cosh(v[0]) * 1e-38};
            },
            {vector_of(f32, {89.2f, -89.2f})},
            {vector_of(f32, {2.741804, -2.741804}), vector_of(f32, {2.741804, 2.741804})}, 4e-5) == "");
}

TEST_CASE("floor_mod and floor_div are Python's % and //") {
  std::vector<double> x = {7, -7, 7, -7, 5.5, -5.5, 0.3, 1., -1, 5, kInf, kNaN},
                      y = {3, 3, -3, -3, 2, 2, 0.1, 0.1, kInf, 0, 2, 1};
  CHECK(mismatch(binary(floor_mod), {vector_of(f64, x), vector_of(f64, y)},
                 {vector_of(f64, {1, 2, -2, -1, 1.5, 0.5, 0.09999999999999998, 0.09999999999999995, kInf, kNaN, kNaN,
                                  kNaN})}) == "");
  CHECK(mismatch(binary(floor_div), {vector_of(f64, x), vector_of(f64, y)},
                 {vector_of(f64, {2, -3, -3, 2, 2, -3, 2, 9, -1, kInf, kNaN, kNaN})}) == "");
  for (DType dtype : {i8, i32, i64}) {
    std::vector<double> a = {7, -7, 7, -7, -128, 6, -6, 5, -5}, b = {3, 3, -3, -3, -1, 3, 3, 0, 0};
    if (dtype == i8) a[4] = -127;
    CHECK(mismatch(binary(floor_mod), {vector_of(dtype, a), vector_of(dtype, b)},
                   {vector_of(dtype, {1, 2, -2, -1, 0, 0, 0, 5, -5})}) == "");
    CHECK(mismatch(binary(floor_div), {vector_of(dtype, a), vector_of(dtype, b)},
                   {vector_of(dtype, {2, -3, -3, 2, dtype == i8 ? 127.0 : 128.0, 2, -2, -1, -1})}) == "");
  }
  CHECK(mismatch(binary(floor_div), {vector_of(u8, {250, 7}), vector_of(u8, {3, 9})}, {vector_of(u8, {83, 0})}) == "");
}

TEST_CASE("logaddexp meets infinities without NaN") {
  CHECK(mismatch_of_floats(binary(logaddexp),
                           {{{6}, {1e4, -kInf, kInf, kInf, 0, kNaN}}, {{6}, {1e4, -kInf, kInf, -kInf, -40, 0}}},
                           {{{6}, {10000.69314718056, -kInf, kInf, kInf, 4.248354255291589e-18, kNaN}}}) == "");
}

TEST_CASE("fma rounds once") {
  // (1 + 2^-12)^2 - 1 - 2^-11 = 2^-24, which a product rounded to f32 has lost
  double x = 1 + 0x1p-12;
  std::vector<Type> types(3, Type{f32, {1}});
  Graph g = trace(types, [](Values v) { return fma(v[0], v[1], v[2]); });
  auto y = interpret(g, std::array{vector_of(f32, {x}), vector_of(f32, {x}), vector_of(f32, {-1 - 0x1p-11})});
  CHECK(difference(y[0], vector_of(f32, {0x1p-24}), 0) == "");
  // and not by way of f64: 1 + 2^-23 + 2^-24 - 2^-70 is below the middle of two f32, but f64 puts it there
  y = interpret(g, std::array{vector_of(f32, {1 + 0x1p-23}), vector_of(f32, {0x1p-24 * (1 - 0x1p-23)}),
                              vector_of(f32, {1 + 0x1p-23})});
  CHECK(difference(y[0], vector_of(f32, {1 + 0x1p-23}), 0) == "");
  CHECK(mismatch_of_floats([](Values v) { return fma(v[0], v[1], v[2]); }, {{{2, 1}, {2, 3}}, {{2}, {5, 7}}, {{}, {1}}},
                           {{{2, 2}, {11, 15, 16, 22}}}) == "");
}

TEST_CASE("clamp limits numbers, keeps NaN, and refuses bounds that mean nothing") {
  auto clamped = [](double lo, double hi) { return [=](Values v) { return clamp(v[0], lo, hi); }; };
  CHECK(mismatch_of_floats(clamped(-1, 2), {{{6}, {-kInf, -1, 0.5, 2, kInf, kNaN}}},
                           {{{6}, {-1, -1, 0.5, 2, 2, kNaN}}}) == "");
  CHECK(mismatch(clamped(-kInf, 2), {vector_of(i32, {-9, 2, 3})}, {vector_of(i32, {-9, 2, 2})}) == "");
  CHECK(refusal(clamped(2, 1), {{f32, {3}}}) == "min must not exceed max, got 2 and 1");
  CHECK(refusal(clamped(-1, 1), {{u8, {3}}}) == "u8 cannot hold the bound -1");
}

TEST_CASE("integer squares wrap") {
  CHECK(mismatch([](Values v) { return square(v[0]); }, {vector_of(i32, {-3, 65536})}, {vector_of(i32, {9, 0})}) == "");
  CHECK(mismatch(binary(squared_difference), {vector_of(u8, {1, 200}), vector_of(u8, {3, 100})},
                 {vector_of(u8, {4, 16})}) == "");
}

TEST_CASE("logical operations take any number for a truth") {
  Tensor x = vector_of(f32, {0, 0, 2, kNaN}), y = vector_of(i32, {0, 5, 0, -1});
  CHECK(mismatch(
            [](Values v) {
              return std::vector{logical_and(v[0], v[1]), logical_or(v[0], v[1]), logical_xor(v[0], v[1]),
                                 logical_not(v[0])};
            },
            {x, y},
            {vector_of(boolean, {0, 0, 0, 1}), vector_of(boolean, {0, 1, 1, 1}), vector_of(boolean, {0, 1, 1, 0}),
             vector_of(boolean, {1, 1, 0, 0})}) == "");
  CHECK(mismatch(
            [](Values v) {
              return std::vector{is_nan(v[0]), is_inf(v[0])};
            },
            {vector_of(f32, {1, kNaN, -kInf})}, {vector_of(boolean, {0, 1, 0}), vector_of(boolean, {0, 0, 1})}) == "");
}
