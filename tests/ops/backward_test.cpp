// Hard cases of the backward kinds: ties, rows without a class, queries without a key, infinities, refusals. Expected
// values: PyTorch 2.15 in f64, or by hand.
#include "autodiff/transforms.h"
#include "ops/hard_cases.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// Whether the gradient of this graph holds the op.
bool gradient_emits(const OpDef& op, const std::vector<Type>& types, const Build& build) {
  Graph g = trace(types, build);
  Graph d = vjp(g, differentiable_inputs(g), differentiable_outputs(g));
  return std::any_of(d.nodes().begin(), d.nodes().end(), [&](const Node& n) { return n.op == &op; });
}

}  // namespace

TEST_CASE("relu passes nothing back at 0, nor where x is no number, whatever arrives there") {
  CHECK(mismatch_of_floats([](Values v) { return relu_backward(v[0], v[1]); },
                           {{{5}, {-1, 0, 2, kNaN, kInf}}, {{5}, {kInf, 7, 3, 1, 5}}}, {{{5}, {0, 0, 3, 0, 5}}}) == "");
}
TEST_CASE("the derivative of gelu is 0 and 1 far out, where x to the third overflows") {
  auto back = [](ActivationKind kind) { return [kind](Values v) { return activation_backward(v[0], v[1], kind); }; };
  Numbers far{{6}, {0, 1e4, -1e4, 3e38, -3e38, kInf}}, one{{6}, {1, 1, 1, 1, 1, 1}}, wanted{{6}, {0.5, 1, 0, 1, 0, 1}};
  CHECK(mismatch_of_floats(back(ActivationKind::gelu_tanh), {far, one}, {wanted}) == "");
  CHECK(mismatch_of_floats(back(ActivationKind::gelu), {far, one}, {wanted}) == "");
}
TEST_CASE("a square root has the derivative 0 where it has none") {
  CHECK(mismatch_of_floats([](Values v) { return activation_backward(v[0], v[1], ActivationKind::sqrt); },
                           {{{3}, {0, -1, 4}}, {{3}, {1, 1, 1}}}, {{{3}, {0, 0, 0.25}}}) == "");
}

TEST_CASE("of equal elements the first one of a window takes the cotangent, and padding takes none") {
  auto back = [](PoolAttrs a) { return [a](Values v) { return max_pool_backward(v[0], v[1], a); }; };
  CHECK(mismatch_of_floats(back({PoolKind::max, {2}, {1}}), {{{1, 4}, {3, 3, 3, 1}}, {{1, 3}, {1, 10, 100}}},
                           {{{1, 4}, {1, 10, 100, 0}}}) == "");
  CHECK(mismatch_of_floats(back({PoolKind::min, {3}, {3}, {1}, {2}}), {{{1, 3}, {5, 5, 5}}, {{1, 2}, {1, 10}}},
                           {{{1, 3}, {1, 0, 10}}}) == "");
  CHECK(mismatch_of_floats(back({PoolKind::max, {2}, {2}, {2}, {0}}), {{{1, 2}, {-kInf, -kInf}}, {{1, 2}, {1, 10}}},
                           {{{1, 2}, {10, 0}}}) == "");  // the first window lies in padding alone
}
TEST_CASE("a pool that adds has no extreme to pass a cotangent to") {
  CHECK(refusal(
            [](Values v) {
              return max_pool_backward(v[0], v[1], {PoolKind::mean, {2}});
            },
            {{f32, {4}}, {f32, {2}}}) == "the kind is 'mean'; only max and min choose an element");
  CHECK(refusal(
            [](Values v) {
              return max_pool_backward(v[0], v[1], {PoolKind::max, {2}});
            },
            {{f32, {4}}, {f32, {3}}}) == "the windows of f32[4] need a cotangent f32[2], got f32[3]");
}

TEST_CASE("the gradients of a convolution refuse what the convolution would not have made") {
  CHECK(refusal([](Values v) { return conv_backward_input(v[0], v[1], {.stride = {2}}, {9}); },
                {{f32, {1, 3, 3}}, {f32, {3, 2, 3}}}) ==
        "x f32[1, 2, 9] convolved with w f32[3, 2, 3] gives f32[1, 3, 4], but its cotangent is f32[1, 3, 3]; `size` is "
        "f32[9]");
  CHECK(refusal([](Values v) { return conv_backward_weight(v[0], v[1], {.groups = 2}, {3}); },
                {{f32, {1, 3, 8}}, {f32, {1, 4, 6}}}) == "the 3 features of f32[1, 3, 8] do not divide into 2 groups");
  CHECK(refusal([](Values v) { return conv_backward_weight(v[0], v[1], {}, {3}); },
                {{f32, {1, 3, 8}}, {f64, {1, 4, 6}}}) ==
        "x and ct must be of one dtype and rank, with features and at least one spatial dim, got f32[1, 3, 8] and "
        "f64[1, 4, 6]");
}
TEST_CASE("what a stride left over gets no cotangent") {
  CHECK(mismatch_of_floats([](Values v) { return conv_backward_input(v[0], v[1], {.stride = {2}}, {6}); },
                           {{{1, 1, 2}, {1, 10}}, {{1, 1, 3}, {1, 2, 3}}}, {{{1, 1, 6}, {1, 2, 13, 20, 30, 0}}}) == "");
}

TEST_CASE("a label that is no class leaves NaN behind, as its loss does, and other rows alone") {
  CHECK(mismatch(
            [](Values v) { return softmax_cross_entropy_backward(v[0], v[1], v[2]); },
            {tensor(f64, {3, 3}, {1, 2, 3, 0, 1000, 0, 1, 1, 1}), vector_of(i32, {2, 0, 3}), vector_of(f64, {1, 2, 1})},
            {tensor(f64, {3, 3},
                    {0.09003057317038043, 0.24472847105479764, -0.3347590442251782, -2, 2, 0, kNaN, kNaN, kNaN})}) ==
        "");
}

TEST_CASE("a query that sees no key passes nothing back") {
  AttentionAttrs causal{.heads = 1, .causal = true};
  auto build = [&](Values v) {
    auto d = attention_backward(v[0], v[1], v[2], v[3], {}, causal);
    return Many<Value>{d.q, d.k, d.v};
  };
  // Two queries, one key: the first query stands in front of it, the second sees it alone.
  CHECK(mismatch_of_floats(
            build, {{{1, 1, 2, 1}, {5, 7}}, {{1, 1, 1, 1}, {2}}, {{1, 1, 1, 1}, {3}}, {{1, 1, 2, 1}, {100, 10}}},
            {{{1, 1, 2, 1}, {0, 0}}, {{1, 1, 1, 1}, {0}}, {{1, 1, 1, 1}, {10}}}) == "");
}

TEST_CASE("the gradients of a norm sum over rows for gamma and beta") {
  CHECK(mismatch_of_floats([](Values v) { return layer_norm_backward(v[0], v[1], v[2], {}); },
                           {{{1, 3}, {1, 2, 4}}, {{3}, {1, 2, 3}}, {{1, 3}, {1, -1, 2}}},
                           {{{1, 3}, {1.6035485524441158, -2.4053468819460018, 0.8017983295018873}},
                            {{3}, {-1.069041531450298, 0.2672603828625746, 2.6726038286257436}},
                            {{3}, {1, -1, 2}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return layer_norm_backward(v[0], v[1], v[2], {}); },
                           {{{0, 2}, {}}, {{2}, {1, 2}}, {{0, 2}, {}}},
                           {{{0, 2}, {}}, {{2}, {0, 0}}, {{2}, {0, 0}}}) == "");
  CHECK(refusal([](Values v) { return layer_norm_backward(v[0], {}, v[1], {})[0]; }, {{f32, {2, 3}}, {f32, {2, 3}}}) ==
        "has_gamma = true calls for 3 operands, got 2");
  CHECK(refusal([](Values v) { return rms_norm_backward(v[0], v[1], v[2], {})[0]; },
                {{f32, {2, 3}}, {f32, {3}}, {f32, {3, 3}}}) == "ct must be f32[2, 3], got f32[3, 3]");
}

TEST_CASE("gradients are made of backward kinds, which a backend can claim") {
  Type image{f32, {1, 2, 6, 6}}, rows{f32, {3, 4}}, row{f32, {4}};
  CHECK(
      gradient_emits(op::conv_backward_input, {image, {f32, {3, 2, 3, 3}}}, [](Values v) { return conv(v[0], v[1]); }));
  CHECK(gradient_emits(op::conv_backward_weight, {image, {f32, {3, 2, 3, 3}}},
                       [](Values v) { return conv(v[0], v[1]); }));
  CHECK(gradient_emits(op::max_pool_backward, {image}, [](Values v) { return pool(v[0], {PoolKind::max, {2, 2}}); }));
  CHECK(
      gradient_emits(op::layer_norm_backward, {rows, row, row}, [](Values v) { return layer_norm(v[0], v[1], v[2]); }));
  CHECK(gradient_emits(op::rms_norm_backward, {rows, row}, [](Values v) { return rms_norm(v[0], v[1]); }));
  CHECK(gradient_emits(op::group_norm_backward, {image}, [](Values v) { return group_norm(v[0], 2); }));
  CHECK(gradient_emits(op::layer_norm_backward, {rows, rows, row, row},
                       [](Values v) { return fused_residual_layer_norm(v[0], v[1], {}, v[2], v[3]).norm; }));
  CHECK(gradient_emits(op::attention_backward, {image, image, image},
                       [](Values v) { return attention(v[0], v[1], v[2], {.heads = 2}); }));
  CHECK(gradient_emits(op::softmax_cross_entropy_backward, {rows}, [](Values v) {
    return softmax_cross_entropy_with_logits(v[0], iota(v[0].graph(), {i32, {3}}, 0));
  }));
}
