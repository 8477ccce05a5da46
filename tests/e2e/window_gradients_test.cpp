// Gradients of convolutions and pools on the CPU, at sizes where the fast kernels split their work, against the
// reference.
#include <doctest/doctest.h>

#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

template <class Build>
std::string differs(const std::vector<Type>& types, Build build) {
  Graph g = trace(types, build);
  std::vector<Tensor> inputs;
  for (const Type& t : types) inputs.push_back(random_tensor(t.dtype, shape_of(t.dims), 7 + inputs.size(), -1, 1));
  auto wanted = interpret(g, inputs);
  for (int threads : {1, 3}) {
    auto got = Session(Device::cpu(), {threads}).compile(g).run_ordered(inputs);
    if (auto why = difference(got, wanted, types[0].dtype == f64 ? 1e-11 : 2e-5); !why.empty())
      return text_of(threads, " threads: ", why);
  }
  return "";
}

}  // namespace

TEST_CASE("the gradient of a kernel is right where its columns are made in several pieces, the last one shorter") {
  for (DType dtype : {f32, f64})
    CHECK(differs({{dtype, {2, 300, 14, 14}}, {dtype, {2, 2, 14, 14}}}, [](Values v) {
            return conv_backward_weight(v[0], v[1], {.padding = {1, 1}}, {3, 3});
          }) == "");
}
TEST_CASE("the gradient of a strided convolution's kernel is right, of each group alone too") {
  CHECK(differs({{f32, {3, 4, 17, 18}}, {f32, {3, 5, 9, 9}}}, [](Values v) {
          return conv_backward_weight(v[0], v[1], {.stride = {2, 2}, .padding = {1, 1}}, {3, 4});
        }) == "");
  CHECK(differs({{f32, {2, 6, 20, 20}}, {f32, {2, 6, 18, 16}}}, [](Values v) {
          return conv_backward_weight(v[0], v[1], {.dilation = {1, 2}, .groups = 6}, {3, 3});
        }) == "");
}
TEST_CASE("the gradient of a strided convolution's image is right in every phase, also where a phase meets no tap") {
  for (auto [stride, size] : {std::pair<int64_t, int64_t>{2, 16}, {2, 17}, {3, 18}, {5, 22}})
    CHECK(differs({{f32, {2, 5, (size - 3) / stride + 1, (size - 3) / stride + 1}}, {f32, {5, 3, 3, 3}}},
                  [stride = stride, size = size](Values v) {
                    return conv_backward_input(v[0], v[1], {.stride = {stride, stride}}, {size, size});
                  }) == "");
  CHECK(differs({{f32, {1, 4, 6, 5, 4}}, {f32, {4, 2, 2, 3, 2}}}, [](Values v) {
          return conv_backward_input(v[0], v[1], {.stride = {2, 1, 3}, .padding = {1, 0, 2}, .groups = 2}, {10, 7, 7});
        }) == "");
}
TEST_CASE("the gradient of a max pool is right where windows overlap and several images are split over threads") {
  for (DType dtype : {f32, f64})
    CHECK(differs({{dtype, {3, 8, 33, 34}}, {dtype, {3, 8, 17, 17}}}, [](Values v) {
            return max_pool_backward(v[0], v[1], {PoolKind::max, {3, 3}, {2, 2}, {1, 1}});
          }) == "");
}
