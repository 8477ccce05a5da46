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
