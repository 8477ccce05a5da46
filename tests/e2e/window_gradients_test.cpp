// Gradients of convolutions and pools on the default device, at sizes where the fast kernels split their work, against
// the reference.
#include <doctest/doctest.h>

#include "reference/interpreter.h"
#include "rlx/autodiff.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/default_device.h"

using namespace rlx;

namespace {

std::string differs(const Graph& g) {
  std::vector<Tensor> inputs;
  for (const Type& t : g.input_types())
    inputs.push_back(random_tensor(t.dtype, shape_of(t.dims), 7 + inputs.size(), -1, 1));
  // Sanitized, the threads beside one another: the reference's plain loops take minutes there.
  std::vector<Tensor> wanted;
  if (!test::sanitized()) wanted = interpret(g, inputs);
  for (int threads : {1, 3}) {
    test::DefaultDevice device(threads);
    const auto compiled = device.compile(g);
    if (!compiled) continue;
    auto got = compiled->run_ordered(inputs);
    if (wanted.empty()) wanted = got;
    if (auto why = difference(got, wanted, inputs[0].dtype() == f64 ? 1e-11 : 2e-5); !why.empty())
      return text_of(threads, " threads: ", why);
  }
  return "";
}
template <class Build>
std::string differs(const std::vector<Type>& types, Build build) {
  return differs(trace(types, build));
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
TEST_CASE("convolutions that are worth oneDNN's kernels are right, with their gradients") {
  struct Case {
    Dims x, w;
    ConvNdAttrs attrs;
  };
  const std::vector<Case> cases = {{{3, 17, 20, 21}, {20, 17, 3, 3}, {.padding = {1, 1}}},
                                   {{2, 16, 31, 30}, {24, 16, 3, 2}, {{2, 3}, {1, 0}, {1, 2}}},
                                   {{4, 24, 40}, {32, 12, 5}, {{1}, {2}, {1}, 2}},
                                   {{3, 40, 27, 26}, {40, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, 40}},
                                   {{2, 8, 9, 10, 11}, {16, 8, 3, 3, 3}, {{}, {1, 1, 1}}}};
  for (const Case& c : cases) {
    auto conv_of = [&](Values v) { return conv(v[0], v[1], c.attrs); };
    const Dims y = infer_types(op::conv, std::array{Type{f32, c.x}, Type{f32, c.w}}, c.attrs)[0].dims;
    CHECK(differs({{f32, c.x}, {f32, c.w}}, conv_of) == "");
    CHECK(differs({{f32, y}, {f32, c.w}}, [&](Values v) {
            return conv_backward_input(v[0], v[1], c.attrs, Dims(c.x.begin() + 2, c.x.end()));
          }) == "");
    CHECK(differs({{f32, c.x}, {f32, y}}, [&](Values v) {
            return conv_backward_weight(v[0], v[1], c.attrs, Dims(c.w.begin() + 2, c.w.end()));
          }) == "");
  }
}
TEST_CASE("a transposed convolution and its gradients are right") {
  const ConvTransposeAttrs a{.stride = {2, 2}, .padding = {1, 1}};
  const Type x{f32, {3, 18, 13, 12}}, w{f32, {18, 20, 4, 4}};
  CHECK(differs({x, w}, [&](Values v) { return conv_transpose(v[0], v[1], a); }) == "");
  CHECK(differs(vjp(trace(std::array{x, w}, [&](Values v) { return conv_transpose(v[0], v[1], a); }))) == "");
}
TEST_CASE("the gradient of a mean pool is right where windows overlap, leave gaps and are dilated") {
  for (const PoolAttrs& a :
       {PoolAttrs{PoolKind::mean, {2, 2}, {2, 2}}, PoolAttrs{PoolKind::mean, {3, 3}, {2, 2}, {1, 1}},
        PoolAttrs{PoolKind::mean, {2, 3}, {3, 5}}, PoolAttrs{PoolKind::mean, {2, 3}, {4, 2}, {0, 1}, {}, {3, 2}}}) {
    const Type x{f32, {2, 3, 33, 300}};
    CHECK(differs(vjp(trace(std::array{x}, [&](Values v) { return pool(v[0], a); }))) == "");
  }
}
TEST_CASE("the gradient of a max pool is right where windows overlap and several images are split over threads") {
  for (DType dtype : {f32, f64})
    CHECK(differs({{dtype, {3, 8, 33, 34}}, {dtype, {3, 8, 17, 17}}}, [](Values v) {
            return max_pool_backward(v[0], v[1], {PoolKind::max, {3, 3}, {2, 2}, {1, 1}});
          }) == "");
}
