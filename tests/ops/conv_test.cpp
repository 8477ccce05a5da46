// Hard cases of convolution and pooling as models write them, and of images.
#include "ops/tables.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const Row kConv[] = {
#include "ops/conv_cases.inc"
};
const Row kImage[] = {
#include "ops/image_cases.inc"
};
const Dim n = Dim::symbol("n");

}  // namespace

TEST_CASE("convolutions and pools do what PyTorch does") { check_rows(kConv, -1); }
TEST_CASE("images resize and unfold as PyTorch's do") { check_rows(kImage); }

TEST_CASE("what is read at a place exactly is what stands there, beside infinities too") {
  Graph g =
      trace(std::vector{Type{f32, {4}}}, [](Values v) { return resize_linear(v[0], {7}, ResizeGrid::align_corners); });
  CHECK(interpret(made_of_primitives(g), std::array{tensor_of("f32[4] [1, inf, 2, -inf]")})[0] ==
        tensor_of("f32[7] [1, inf, inf, inf, 2, -inf, -inf]"));
}

TEST_CASE("an adaptive mean pool has windows of unequal lengths where it must") {
  // torch.nn.functional.adaptive_avg_pool2d, PyTorch 2.15
  Tensor x = tensor_of("f64[1, 1, 3, 4] [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]");
  CHECK(mismatch(
            [](Values v) {
              return adaptive_mean_pool(v[0], {2, 3});
            },
            {x}, {tensor_of("f64[1, 1, 2, 3] [3.5, 4.5, 5.5, 7.5, 8.5, 9.5]")}) == "");
  CHECK(mismatch(
            [](Values v) {
              return adaptive_mean_pool(v[0], {1, 2});
            },
            {x}, {tensor_of("f64[1, 1, 1, 2] [5.5, 7.5]")}) == "");
  CHECK(mismatch([](Values v) { return adaptive_mean_pool(v[0], {3, 4}); }, {x}, {x}) == "");
  CHECK(mismatch([](Values v) { return adaptive_mean_pool(v[0], {2}); }, {tensor_of("f16[1, 3] [1, 2, 4]")},
                 {tensor_of("f16[1, 2] [1.5, 3]")}) == "");
}
TEST_CASE("a global pool keeps its dims at 1, whatever their extents") {
  auto build = [](Values v) { return global_pool(v[0], PoolKind::mean); };
  Graph g = trace(std::vector{Type{f32, {2, 1, n, n + 1}}}, build);
  CHECK(text_of(g.output_types()[0]) == "f32[2, 1, 1, 1]");
  Tensor x = tensor_of("f32[2, 1, 1, 2] [1, 2, 5, 7]");
  for (const Graph& each : {g, made_of_primitives(g)})
    CHECK(interpret(each, std::array{x})[0] == tensor_of("f32[2, 1, 1, 1] [1.5, 6]"));
  CHECK(mismatch([](Values v) { return global_pool(v[0], PoolKind::max, 1); }, {x},
                 {tensor_of("f32[2, 1, 1, 1] [2, 7]")}) == "");
}
TEST_CASE("a pool over whole dims is a reduction") {
  Graph g = made_of_primitives(
      trace(std::vector{Type{f32, {2, 3, 4, 4}}}, [](Values v) { return global_pool(v[0], PoolKind::max); }));
  for (const Node& node : g.nodes()) CHECK(node.op != &op::reduce_window);
}
TEST_CASE("convolutions, pools and images take symbolic extents") {
  CHECK(type_text([](Values v) { return conv(v[0], v[1], {.padding = {1}}); }, {{f32, {n, 2, n}}, {f32, {3, 2, 3}}}) ==
        "f32[n, 3, n]");
  CHECK(type_text(
            [](Values v) { return conv_transpose(v[0], v[1], {.stride = {2}, .padding = {1}, .output_padding = {1}}); },
            {{f32, {1, 2, n}}, {f32, {2, 3, 3}}}) == "f32[1, 3, 2*n]");
  CHECK(type_text([](Values v) { return resize_nearest2x(v[0]); }, {{f32, {1, 1, n, 3}}}) == "f32[1, 1, 2*n, 6]");
  Graph g = trace(std::vector{Type{i32, {1, 1, n}}}, [](Values v) { return im2col(v[0], {.kernel_size = {2}}); });
  CHECK(text_of(g.output_types()[0]) == "i32[n+-1, 2]");
  CHECK(interpret(made_of_primitives(g), std::array{tensor_of("i32[1, 1, 3] [1, 2, 3]")})[0] ==
        tensor_of("i32[2, 2] [1, 2, 2, 3]"));
  Graph resize = trace(std::vector{Type{i32, {n}}}, [](Values v) { return interpolate(v[0], {5}); });
  CHECK(interpret(made_of_primitives(resize), std::array{tensor_of("i32[3] [1, 2, 3]")})[0] ==
        tensor_of("i32[5] [1, 1, 2, 2, 3]"));
}
TEST_CASE("convolutions, pools and images refuse what does not fit") {
  CHECK(refusal([](Values v) { return conv(v[0], v[1], {.groups = 2}); }, {{f32, {1, 4, 5}}, {f32, {2, 4, 3}}}) ==
        "the kernel f32[2, 4, 3] takes 4 features for each of 2 groups, but f32[1, 4, 5] has 4; the kernel's layout is "
        "output features, input features / groups, "
        "spatial dims");
  CHECK(
      refusal([](Values v) { return conv_transpose(v[0], v[1]); }, {{f32, {1, 4, 5}}, {f32, {3, 4, 3}}}) ==
      "the 4 features of f32[1, 4, 5] must be the first dim of the kernel f32[3, 4, 3] and a multiple of the 1 groups");
  CHECK(refusal([](Values v) { return conv_transpose(v[0], v[1], {.stride = {2}, .output_padding = {2}}); },
                {{f32, {1, 3, 5}}, {f32, {3, 4, 3}}}) ==
        "output_padding 2 along spatial dim 0 must not be negative, and be less than the stride 2 or the dilation 1");
  CHECK(refusal(
            [](Values v) {
              return pool(v[0], {PoolKind::mean, {2}});
            },
            {{i32, {4}}}) == "an operand of float, complex is needed, got i32[4]; convert it first");
  CHECK(refusal(
            [](Values v) {
              return pool(v[0], {PoolKind::max, {2, 2}});
            },
            {{f32, {4}}}) == "a kernel of 2 dims does not slide over f32[4]");
  CHECK(refusal(
            [](Values v) {
              return pool(v[0], {PoolKind::max, {2}, {1}, {-1}});
            },
            {{f32, {4}}}) == "the padding of spatial dim 0 is -1 and -1; it cannot be negative");
  CHECK(refusal([](Values v) { return adaptive_mean_pool(v[0], {0}); }, {{f32, {4}}}) ==
        "a pool cannot have 0 windows");
  CHECK(refusal([](Values v) { return interpolate(v[0], {3}); }, {{f32, {0}}}) ==
        "an extent of 0 of f32[0] cannot be resized to 3");
  CHECK(refusal(
            [](Values v) {
              return im2col(v[0], {.kernel_size = {2, 2}});
            },
            {{f32, {1, 2, 3}}}) == "a kernel of 2 dims needs x [N, C, spatial...] of rank 4, got f32[1, 2, 3]");
}
