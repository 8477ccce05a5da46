// Attention to keys and values in blocks, beside the same attention to their numbers as f32: bit by bit. What attention
// itself computes is told in attention_test.cpp.
#include <cstring>

#include "kernels/attention/attention.h"
#include "kernels/kernel_test.h"
#include "rlx/blocks.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct BlocksProblem {
  int64_t sq = 1, sk = 5, d = 64, dv = 64;
  double soft_cap = 0;
  int64_t left = -1, right = 0;
  bool k_blocks = true, v_blocks = true;
};

Tensor random_floats(int64_t rows, int64_t width, uint64_t seed) {
  const Elements from = Elements::random(f32, rows * width, seed, -2, 2);
  return Tensor::of<float>({rows, width}, std::span(static_cast<const float*>(from.data()), size_t(rows * width)));
}

void check_blocks(const BlocksProblem& p, DType format) {
  CAPTURE(text_of(format, " ", p.sq, " x ", p.sk, " x ", p.d));
  const Elements q = Elements::random(f32, p.sq * p.d, 1, -2, 2);
  // A row of keys is followed by a block that is none of it.
  const Tensor k = quantized(random_floats(p.sk, p.d + 32, 2), format),
               v = quantized(random_floats(p.sk, p.dv, 3), format);
  const Tensor k_numbers = dequantized(k), v_numbers = dequantized(v);
  const auto run = [&](bool k_blocks, bool v_blocks) {
    Elements out = Elements::filled(f32, p.sq * p.dv, 99);
    AttentionArgs a;
    a.dtype = f32, a.q = q.data(), a.out = out.data();
    a.k = k_blocks ? k.data() : k_numbers.data(), a.v = v_blocks ? v.data() : v_numbers.data();
    if (k_blocks) a.k_format = format;
    if (v_blocks) a.v_format = format;
    a.q_stride = p.d, a.k_stride = p.d + 32, a.v_stride = a.out_stride = p.dv;
    a.q_rows = p.sq, a.k_rows = p.sk, a.head_dim = p.d, a.value_dim = p.dv;
    a.scale = 0.2, a.soft_cap = p.soft_cap, a.left = p.left, a.right = p.right;
    AttentionTarget target = attention_target();
    a.strategy = plan_attention(problem_of(a), target);
    if (k_blocks || v_blocks) CHECK(a.strategy.kernel != AttentionKernel::matrix_tiles);
    target.has_matrix_tiles = false;
    a.strategy = plan_attention(problem_of(a), target);
    Scratch scratch(attention_scratch_bytes(a));
    attention(a, 0, p.sq / 2, scratch.data());
    attention(a, p.sq / 2, p.sq, scratch.data());
    return out;
  };
  const Elements wanted = run(false, false), made = run(p.k_blocks, p.v_blocks);
  for (int64_t i = 0; i < p.sq * p.dv; ++i) REQUIRE(made[i] == wanted[i]);
}

}  // namespace

TEST_CASE("attention to blocks is that to their numbers, bit by bit") {
  for_each_target([] {
    for (const DType format : {q8_0, q4_0, q5_1, mxfp4}) {
      for (const int64_t sk : {1, 31, 32, 33, 128, 129, 300}) check_blocks({.sk = sk}, format);
      for (const int64_t sq : {2, 3, 8, 9, 50}) check_blocks({.sq = sq, .sk = 200, .d = 32, .dv = 96}, format);
      check_blocks({.sk = 140, .d = 256, .dv = 32, .soft_cap = 3}, format);
      check_blocks({.sq = 60, .sk = 200, .left = 20}, format);
      check_blocks({.sq = 70, .sk = 20}, format);
      check_blocks({.sk = 150, .v_blocks = false}, format);
      check_blocks({.sq = 20, .sk = 150, .k_blocks = false}, format);
    }
  });
}
