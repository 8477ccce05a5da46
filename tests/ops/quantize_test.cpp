// Hard cases of quantized numbers, of blocks that are moved, and of training through the rounding. Values are by hand;
// data of other libraries is in tests/golden.
#include "autodiff/transforms.h"
#include "ops/hard_cases.h"
#include "rlx/session.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// Blocks from numbers that they hold exactly: whole multiples of the scale 1/8, the largest 127/8.
Tensor q8_rows(const std::vector<std::vector<double>>& first_elements) {
  Tensor x(f32, {static_cast<int64_t>(first_elements.size()), 32});
  auto to = x.mutable_values<float>();
  for (size_t r = 0; r < first_elements.size(); ++r) {
    to[32 * r + 31] = 127.0f / 8;
    for (size_t i = 0; i < first_elements[r].size(); ++i) to[32 * r + i] = static_cast<float>(first_elements[r][i]);
  }
  return quantized(x, q8_0);
}
std::string on_cpu(const Build& build, const std::vector<Tensor>& inputs, const Tensor& wanted) {
  std::vector<Type> types;
  for (const Tensor& t : inputs) types.push_back(t.type());
  Session cpu(Device::cpu(), {2});
  return difference(cpu.compile(trace(types, build)).run_ordered(inputs)[0], wanted);
}

}  // namespace

TEST_CASE("quantize rounds ties to even, saturates, and makes 0 of NaN") {
  auto build = [](Values v) { return quantize(v[0], v[1], v[2]); };
  CHECK(mismatch(build,
                 {tensor(f32, {8}, {0.25, 0.75, -0.25, -0.75, 100, -100, kInf, kNaN}), tensor(f32, {}, {0.5}),
                  tensor(i8, {}, {10})},
                 {tensor(i8, {8}, {10, 12, 10, 8, 127, -128, 127, 0})}) == "");
  CHECK(mismatch(
            [](Values v) {
              return quantize(v[0], v[1], {}, {{}, u8});
            },
            {tensor(f32, {3}, {-1, 3.5, 300}), tensor(f32, {}, {1})}, {tensor(u8, {3}, {0, 4, 255})}) == "");
}
TEST_CASE("quantize says what does not fit") {
  auto build = [](Values v) { return quantize(v[0], v[1], {}, {1, i8}); };
  CHECK(refusal(build, {{f32, {2, 3}}, {f32, {2}}}) == "scale must be f32[3] for x f32[2, 3] and axis 1, got f32[2]");
  CHECK(refusal(
            [](Values v) {
              return quantize(v[0], v[1], {}, {{}, f16});
            },
            {{f32, {2}}, {f32, {}}}) == "codes are integers of at most 16 bits, not f16");
  CHECK(refusal([](Values v) { return dequantize(v[0], v[1], v[2]); }, {{i8, {2}}, {f32, {}}, {f32, {}}}) ==
        "zero_point must be an integer, got f32[]");
}

TEST_CASE("the last scale of a blockwise tensor may stand for fewer elements") {
  auto build = [](Values v) { return dequantize_blockwise(v[0], {v[1]}, 0, 2); };
  CHECK(mismatch(build, {tensor(i8, {3, 1}, {1, 2, 3}), tensor(f32, {2, 1}, {10, 100})},
                 {tensor(f32, {3, 1}, {10, 20, 300})}) == "");
  CHECK(refusal(build, {{i8, {5, 1}}, {f32, {2, 1}}}) == "scale must be f32[3, 1], got f32[2, 1]");
}
TEST_CASE("what a product of packed weights is not given, it asks for") {
  CHECK(refusal([](Values v) { return dequant_matmul(v[0], v[1]); }, {{f32, {1, 4}}, {i8, {4, 2}}}) ==
        "the codes i8[4, 2] need a scale");
  CHECK(refusal([](Values v) { return dequant_matmul(v[0], v[1], {v[2]}, 32); },
                {{f32, {1, 32}}, {q8_0, {2, 32}}, {f32, {1}}})
            .starts_with("q8_0[2, 32] is packed in blocks, which hold their scales"));
  CHECK(refusal([](Values v) { return dequant_matmul(v[0], v[1]); }, {{f32, {1, 64}}, {q8_0, {2, 32}}}) ==
        "inner dimensions differ: x f32[1, 64] has 64, w q8_0[2, 32] has 32; the weight is [n, k]");
  CHECK(refusal([](Values v) { return fused_matmul(v[0], v[1]); }, {{f32, {1, 32}}, {q8_0, {32, 32}}}) ==
        "the weight q8_0[32, 32] is packed in blocks along its last dim, so it is [n, k]: use linear, or set "
        "transpose_rhs");
  CHECK(refusal([](Values v) { return dequantize_blocks(v[0]); }, {{f32, {32}}})
            .starts_with("x must be of a block format such as q4_k, got f32[32]"));
}

TEST_CASE("whole rows of blocks are gathered, cut, joined, turned over and reshaped") {
  Tensor w = q8_rows({{1}, {2}, {3}, {4}});
  auto rows = [&](const std::vector<std::vector<double>>& r) { return q8_rows(r); };
  auto check = [&](const Build& build, std::vector<Tensor> inputs, const Tensor& wanted) {
    CHECK(mismatch(build, inputs, {wanted}) == "");
    CHECK(on_cpu(build, inputs, wanted) == "");
  };
  check([](Values v) { return take(v[0], v[1]); }, {w, vector_of(i32, {3, 0, 3})}, rows({{4}, {1}, {4}}));
  check([](Values v) { return slice(v[0], {1, 0}, {4, 32}, {2, 1}); }, {w}, rows({{2}, {4}}));
  check([](Values v) { return concatenate({v[0], v[1]}, 0); }, {w, rows({{5}})}, rows({{1}, {2}, {3}, {4}, {5}}));
  check([](Values v) { return reverse(v[0], {0}); }, {w}, rows({{4}, {3}, {2}, {1}}));
  check(
      [](Values v) {
        return reshape(transpose(reshape(v[0], {2, 2, 32}), {1, 0, 2}), {4, 32});
      },
      {w}, rows({{1}, {3}, {2}, {4}}));
  check([](Values v) { return dequantize_blocks(take(v[0], v[1])); }, {w, vector_of(i32, {2})},
        dequantized(rows({{3}})));
  CHECK(refusal(
            [](Values v) {
              return slice(v[0], {0, 0}, {4, 16});
            },
            {{q8_0, {4, 32}}})
            .starts_with("q8_0[4, 32] is packed in blocks along its last dim: only whole rows of it can be moved"));
  CHECK(refusal(
            [](Values v) {
              return transpose(v[0], {1, 0});
            },
            {{q8_0, {32, 32}}})
            .starts_with("q8_0[32, 32] is packed in blocks along its last dim"));
  CHECK(refusal(
            [](Values v) {
              return concatenate({v[0], v[0]}, -1);
            },
            {{q8_0, {4, 32}}})
            .starts_with("q8_0[4, 64] is packed in blocks along its last dim"));
  CHECK(refusal(
            [](Values v) {
              return reshape(v[0], {8, 16});
            },
            {{q8_0, {4, 32}}}) == "q8_0 holds blocks of 32 along the last dim, which is 16");
}

TEST_CASE("a block format without an encoder says which have one") {
  CHECK_THROWS_WITH_AS(quantized(Tensor(f32, {256}), iq4_xs),
                       "blocks of iq4_xs are not made here, only read; there are encoders for q4_0, q4_1, q5_0, q5_1, "
                       "q8_0, q2_k to q6_k, mxfp4, tq1_0 and tq2_0",
                       Error);
  CHECK_THROWS_WITH_AS(quantized(Tensor(f32, {33}), q8_0), "q8_0 holds blocks of 32 along the last dim, which is 33",
                       Error);
  CHECK_THROWS_WITH_AS(quantized(Tensor(f32, {32}), i8), "i8 is no block format; its elements are read one by one",
                       Error);
}
TEST_CASE("numbers that no block can hold become finite codes") {
  Tensor x(f32, {32});
  auto v = x.mutable_values<float>();
  v[0] = NAN, v[1] = INFINITY, v[2] = -INFINITY, v[3] = 1e-45f;
  for (DType t : {q4_0, q4_1, q5_0, q5_1, q8_0, mxfp4}) CHECK(quantized(x, t).type() == Type{t, {32}});
  CHECK(dequantized(quantized(Tensor(f32, {256}), tq1_0)) == Tensor(f32, {256}));
}

TEST_CASE("qmatmul wraps in i32 and requantizes in f32, ties to even") {
  auto build = [](Values v) { return qmatmul(v[0], v[1], v[2], {.multiplier = 0.5}); };
  CHECK(mismatch(build,
                 {tensor(i8, {1, 2}, {1, 2}), tensor(i8, {2, 3}, {1, 1, 3, 0, 1, 1}), tensor(i32, {3}, {0, 0, 0})},
                 {tensor(i8, {1, 3}, {0, 2, 2})}) == "");
  CHECK(mismatch(build, {tensor(i8, {1, 1}, {1}), tensor(i8, {1, 1}, {1}), tensor(i32, {1}, {2147483647})},
                 {tensor(i8, {1, 1}, {-128})}) == "");
  CHECK(refusal([](Values v) { return qmatmul(v[0], v[1], v[2], {.x_zero_point = 200}); },
                {{i8, {1, 1}}, {i8, {1, 1}}, {i32, {1}}}) == "x_zero_point 200 is none of the codes of i8[1, 1]");
}

TEST_CASE("fake_quantize looks through the rounding when it is differentiated") {
  // q = 1, s = 2: what is beyond 2 has no gradient.
  Type x{f64, {4}}, s{f64, {}};
  FakeQuantizeAttrs a{.bits = 2, .ste = SteKind::clipped_identity};
  Graph g = trace(std::array{x, s}, [&](Values v) { return fake_quantize_fixed(v[0], v[1], a); });
  std::array in = {tensor(f64, {4}, {0.9, -1.1, 3, -2}), tensor(f64, {}, {2}), tensor(f64, {4}, {1, 10, 100, 1000})};
  auto out = interpret(value_and_vjp(g, {true, true}, {true}), in);
  CHECK(difference(out[0], tensor(f64, {4}, {0, -2, 2, -2})) == "");
  CHECK(difference(out[1], tensor(f64, {4}, {1, 10, 0, 1000})) == "");
  CHECK(difference(out[2], tensor(f64, {}, {0})) == "");
}
TEST_CASE("the largest element is within the range that it defines, however it rounds") {
  // For many x the quotient max / 127, times 127, is not max.
  Graph g = trace(std::array{Type{f32, {1}}, Type{f32, {1}}},
                  [](Values v) { return fake_quantize_backward(v[0], v[1], {.ste = SteKind::clipped_identity}); });
  for (int i = 1; i <= 1000; ++i) {
    std::array in = {tensor(f32, {1}, {0.001 * i}), tensor(f32, {1}, {1})};
    CHECK(interpret(g, in)[0].values<float>()[0] == 1.0f);
  }
}
TEST_CASE("the state of a moving average begins with the first batch") {
  auto build = [](Values v) {
    FakeQuantized q = fake_quantize_ema(v[0], v[1], {.bits = 2, .decay = 0.75});
    return std::vector{q.y, q.state};
  };
  Tensor x = tensor(f64, {3}, {0.4, -4, 2.1});
  CHECK(mismatch(build, {x, tensor(f64, {}, {0})}, {tensor(f64, {3}, {0, -4, 4}), tensor(f64, {}, {4})}) == "");
  CHECK(mismatch(build, {x, tensor(f64, {}, {1})}, {tensor(f64, {3}, {0, -1.75, 1.75}), tensor(f64, {}, {1.75})}) ==
        "");
  CHECK(refusal([](Values v) { return fake_quantize_fixed(v[0], v[1], {.axes = {1}}); }, {{f32, {2, 3}}, {f32, {2}}}) ==
        "the state must be f32[3], x's extents along its axes, got f32[2]");
}
