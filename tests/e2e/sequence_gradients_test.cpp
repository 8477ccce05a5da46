// Gradients of attention on the default device, over one thread and several, against the reference.
#include <doctest/doctest.h>

#include "reference/interpreter.h"
#include "rlx/autodiff.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/sanitized.h"

using namespace rlx;

namespace {

template <class Build>
std::string gradient_differs(const std::vector<Type>& types, Build build, double tolerance = 2e-5) {
  const Graph g = vjp(trace(types, build));
  std::vector<Tensor> inputs;
  for (const Type& t : g.input_types())
    inputs.push_back(random_tensor(t.dtype, shape_of(t.dims), 11 + inputs.size(), -1, 1));
  // Sanitized, the threads beside one another: the reference's plain loops take minutes there.
  std::vector<Tensor> wanted;
  if (!test::sanitized()) wanted = interpret(g, inputs);
  for (int threads : {1, 2, 5}) {
    const auto compiled = Session(Device::from_environment(), {threads}).compile(g);
    const auto got = compiled.run_ordered(inputs);
    if (wanted.empty()) wanted = got;
    if (auto why = difference(got, wanted, tolerance); !why.empty()) return text_of(threads, " threads: ", why);
    if (difference(compiled.run_ordered(inputs), compiled.run_ordered(inputs), 0) != "")
      return text_of(threads, " threads: two runs differ");
  }
  return "";
}

}  // namespace

TEST_CASE("the gradient of attention is right for grouped heads, masks, windows, soft caps and every layout") {
  const Type q{f32, {2, 6, 70, 24}}, k{f32, {2, 2, 150, 24}}, v{f32, {2, 2, 150, 20}};
  CHECK(gradient_differs({q, k, v}, [](Values in) {
          return attention(in[0], in[1], in[2], AttentionAttrs{.heads = 6, .kv_heads = 2, .causal = true});
        }) == "");
  CHECK(gradient_differs({q, k, v}, [](Values in) {
          return attention(in[0], in[1], in[2],
                           AttentionAttrs{.heads = 6, .kv_heads = 2, .window = 33, .softcap = 2.5});
        }) == "");
  CHECK(gradient_differs({{f32, {1, 130, 32}}, {f32, {1, 60, 16}}, {f32, {1, 60, 16}}}, [](Values in) {
          return attention(in[0], in[1], in[2],
                           AttentionAttrs{.heads = 2, .kv_heads = 1, .layout = AttentionLayout::packed});
        }) == "");
  CHECK(gradient_differs({{f32, {2, 50, 3, 16}}, {f32, {2, 50, 3, 16}}, {f32, {2, 50, 3, 16}}}, [](Values in) {
          return attention(in[0], in[1], in[2],
                           AttentionAttrs{.heads = 3, .layout = AttentionLayout::bshd, .causal = true});
        }) == "");
}

TEST_CASE("the gradient of attention reaches a bias, of its own for each head or shared") {
  const Type x{f32, {2, 3, 60, 16}};
  for (const Dims& bias : {Dims{2, 3, 60, 60}, Dims{3, 60, 60}, Dims{2, 1, 1, 60}, Dims{60, 1}, Dims{60}})
    CHECK(gradient_differs({x, x, x, {f32, bias}}, [](Values in) {
            return attention(in[0], in[1], in[2], in[3],
                             AttentionAttrs{.heads = 3, .causal = true, .mask = AttentionMask::bias});
          }) == "");
}
