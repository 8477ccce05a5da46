// Hard cases of element-wise regions and gated linear units. Expected values: PyTorch 2.15 in f64, or by hand.
#include "ops/hard_cases.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("an element-wise region does what its body does") {
  Graph body = trace(std::vector{Type{f32, {2, 2}}, Type{f32, {2}}}, [](Values v) {
    Value sum = v[0] + v[1];
    return std::vector{relu(sum), compare(sum, zeros_like(sum), Comparison::gt)};
  });
  CHECK(mismatch(
            [&](Values v) {
              return elementwise_region({v[0], v[1]}, body);
            },
            {tensor(f32, {2, 2}, {1, -2, 3, kNaN}), vector_of(f32, {-1, 1})},
            {tensor(f32, {2, 2}, {0, 0, 2, kNaN}), tensor(boolean, {2, 2}, {0, 0, 1, 0})}) == "");
}
TEST_CASE("an element-wise region of f16 rounds between its ops") {
  // 2048 + 1 rounds to 2048 in f16; without that, the difference would be 1
  Graph body = trace(std::vector{Type{f16, {}}, Type{f16, {}}}, [](Values v) { return (v[0] + v[1]) - v[0]; });
  CHECK(mismatch(
            [&](Values v) {
              return elementwise_region({v[0], v[1]}, body);
            },
            {tensor(f16, {}, {2048}), tensor(f16, {}, {1})}, {tensor(f16, {}, {0})}, 0) == "");
}
TEST_CASE("an element-wise region works on symbolic dims") {
  Dim n = Dim::symbol("n");
  Graph body = trace(std::vector{Type{f64, {n, 2}}, Type{f64, {2}}}, [](Values v) { return v[0] * v[1]; });
  Graph g = trace(std::vector{Type{f64, {n, 2}}, Type{f64, {2}}}, [&](Values v) {
    return elementwise_region({v[0], v[1]}, body);
  });
  std::array in = {tensor(f64, {2, 2}, {1, 2, 3, 4}), vector_of(f64, {10, 100})};
  for (const Graph& each : {g, made_of_primitives(g)})
    CHECK(difference(interpret(each, in)[0], tensor(f64, {2, 2}, {10, 200, 30, 400})) == "");
}
TEST_CASE("an element-wise region refuses what is not element-wise, and operands that do not fit") {
  Graph sum = trace(std::vector{Type{f32, {3}}}, [](Values v) { return reduce_sum(v[0], {0}); });
  CHECK(refusal([&](Values v) { return elementwise_region({v[0]}, sum); }, {{f32, {3}}}) ==
        "an element-wise region cannot hold 'reduce'; it takes element-wise ops, constants and broadcast_in_dim");
  Graph twice = trace(std::vector{Type{f32, {3}}}, [](Values v) { return v[0] + v[0]; });
  CHECK(refusal([&](Values v) { return elementwise_region({v[0]}, twice); }, {{f32, {4}}}) ==
        "the body takes [f32[3]], but is handed [f32[4]]");
}

TEST_CASE("gated linear units take the second half for the gate, or the first where told") {
  Numbers x{{2, 4}, {1, 2, 3, 4, -1, -2, 0.5, -0.5}};
  auto check = [&](const Build& build, std::vector<double> wanted) {
    CHECK(mismatch_of_floats(build, {x}, {{{2, 2}, std::move(wanted)}}) == "");
  };
  check([](Values v) { return glu(v[0]); },
        {0.9525741268224334, 1.964027580075817, -0.6224593312018546, -0.7550813375962908});
  check([](Values v) { return fused_swiglu(v[0]); },
        {2.8577223804672998, 7.856110320303268, -0.3112296656009273, 0.3775406687981454});
  check([](Values v) { return fused_swiglu(v[0], true); },
        {2.193175735890015, 7.0463766238230585, -0.13447071068499755, 0.11920292202211755});
  check([](Values v) { return glu(v[0], Activation::gelu); },
        {2.99595030590511, 7.999746630065335, -0.34573123063700656, 0.3085375387259869});
  CHECK(mismatch_of_floats([](Values v) { return glu(v[0], Activation::none, 0); }, {x},
                           {{{1, 4}, {-1, -4, 1.5, -2}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return glu(v[0]); }, {{{2, 0}, {}}}, {{{2, 0}, {}}}) == "");
  CHECK(refusal([](Values v) { return glu(v[0]); }, {{f32, {3}}}) ==
        "axis -1 of f32[3] holds values and gates; 3 is odd");
}

TEST_CASE("a fused convolution adds its residual before the activation, a fused product behind it") {
  CHECK(mismatch_of_floats(
            [](Values v) { return fused_conv(v[0], v[1], v[2], v[3], {.activation = Activation::relu}); },
            {{{1, 1, 2}, {1, 2}}, {{1, 1, 1}, {3}}, {{1}, {-5}}, {{1, 1, 2}, {-4, 4}}}, {{{1, 1, 2}, {0, 5}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return fused_matmul(v[0], v[1], v[2], v[3], Activation::relu); },
                           {{{2, 1}, {1, 2}}, {{1, 1}, {3}}, {{1}, {-5}}, {{2, 1}, {-4, 4}}},
                           {{{2, 1}, {-4, 5}}}) == "");
}
TEST_CASE("a transform region moves elements and refuses arithmetic") {
  Graph body =
      trace(std::vector{Type{i8, {1, 1, 1, 2}}}, [](Values v) { return reverse(resize_nearest2x(v[0]), {3}); });
  CHECK(mismatch([&](Values v) { return transform_region({v[0]}, body); }, {tensor(i8, {1, 1, 1, 2}, {1, 2})},
                 {tensor(i8, {1, 1, 2, 4}, {2, 2, 1, 1, 2, 2, 1, 1})}) == "");
  Graph sum = trace(std::vector{Type{f32, {3}}}, [](Values v) { return v[0] + v[0]; });
  CHECK(refusal([&](Values v) { return transform_region({v[0]}, sum); }, {{f32, {3}}}) ==
        "a transform region cannot hold 'add'; it takes ops that only move elements, and constants");
}
TEST_CASE("a region over parts of a batch is a region of each, side by side") {
  Graph body = trace(std::vector{Type{f32, {1, 2}}, Type{f32, {2}}}, [](Values v) { return v[0] * v[1]; });
  auto region = [&](Values v) { return batch_elementwise_region({v.begin(), v.end()}, body); };
  CHECK(mismatch(region,
                 {tensor(f32, {1, 2}, {1, 2}), vector_of(f32, {10, 20}), tensor(f32, {1, 2}, {3, 4}),
                  vector_of(f32, {-1, 1})},
                 {tensor(f32, {2, 2}, {10, 40, -3, 4})}) == "");
  CHECK(refusal(region, {{f32, {1, 2}}, {f32, {2}}, {f32, {1, 2}}}) ==
        "3 operands are no whole number of parts: the body takes 2 inputs");
}
TEST_CASE("blocks of a transformer refuse weights that do not fit") {
  auto block = [](Values v) { return fused_attention_block(v[0], v[1], {v[2], v[3]}, 2); };
  CHECK(refusal(block, {{f32, {1, 3, 4}}, {f32, {1, 3}}, {f32, {4, 10}}, {f32, {4, 4}}}) ==
        "the columns of qkv_w f32[4, 10] do not divide into q, k and v of 2 heads");
  CHECK(refusal(block, {{f32, {1, 3, 4}}, {f32, {1, 3}}, {f32, {5, 12}}, {f32, {4, 4}}}) ==
        "qkv_w must have 4 rows, one for each of its inputs; got f32[5, 12]");
  CHECK(refusal(
            [](Values v) {
              return fused_attention_block(v[0], v[1], {v[2], v[3], v[4]}, 2);
            },
            {{f32, {1, 3, 4}}, {f32, {1, 3}}, {f32, {4, 12}}, {f32, {4, 4}}, {f32, {12}}}) ==
        "qkv_b and out_b come together, or neither");
  const auto masked = [](AttentionMask kind) {
    return [kind](Values v) {
      return fused_attention_block(v[0], v[1], {v[2], v[3]}, AttentionBlockAttrs{.heads = 2, .mask = kind});
    };
  };
  CHECK(refusal(masked(AttentionMask::none), {{f32, {1, 3, 4}}, {f32, {1, 3}}, {f32, {4, 12}}, {f32, {4, 4}}}) ==
        "mask = none and has_bias = false and has_rope = false calls for 3 operands, got 4");
  CHECK(refusal(masked(AttentionMask::bias), {{f32, {1, 3, 4}}, {boolean, {3, 3}}, {f32, {4, 12}}, {f32, {4, 4}}}) ==
        "a bias of float is needed, got bool[3, 3]; convert it first");
}
