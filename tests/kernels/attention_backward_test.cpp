// The gradient of attention against the formula, in double: dP = dY Vᵀ, dS = P (dP - rowsum(P dP)) and so on.
#include "kernels/attention/attention.h"
#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct Problem {
  DType t = f32;
  int64_t sq = 5, sk = 5, d = 8, dv = 8;
  double scale = 0.3, soft_cap = 0;
  int64_t left = -1, right = -1;
  bool bias = false;
  std::vector<int> kept{};  ///< key mask, if not empty
};

void check(const Problem& p) {
  const int64_t gap = 3;
  const Elements q = Elements::random(p.t, p.sq * (p.d + gap), 1), k = Elements::random(p.t, p.sk * (p.d + gap), 2);
  const Elements v = Elements::random(p.t, p.sk * (p.dv + gap), 3), ct = Elements::random(p.t, p.sq * (p.dv + 1), 5);
  const Elements bias = Elements::random(f32, p.sq * p.sk + 1, 4);
  Elements mask(boolean, p.sk);
  for (int64_t j = 0; j < p.sk && !p.kept.empty(); ++j) mask.set(j, p.kept[static_cast<size_t>(j) % p.kept.size()]);
  Elements dq = Elements::filled(p.t, p.sq * (p.d + 1), 99), dk = Elements::filled(p.t, p.sk * (p.d + 1), 99),
           dv = Elements::filled(p.t, p.sk * (p.dv + 1), 99);

  AttentionBackwardArgs g;
  AttentionArgs& a = g.forward;
  a.dtype = p.t;
  a.q = q.data(), a.k = k.data(), a.v = v.data(), g.ct = ct.data(), g.dq = dq.data();
  a.q_stride = a.k_stride = p.d + gap, a.v_stride = p.dv + gap, g.ct_stride = p.dv + 1, g.dq_stride = p.d + 1;
  a.q_rows = p.sq, a.k_rows = p.sk, a.head_dim = p.d, a.value_dim = p.dv;
  a.scale = p.scale, a.soft_cap = p.soft_cap, a.left = p.left, a.right = p.right;
  std::vector<float> d_bias(static_cast<size_t>(p.sq * p.sk));
  if (p.bias) a.bias = bias.data(), a.bias_row_stride = p.sk, g.d_bias = d_bias.data();
  if (!p.kept.empty()) a.key_mask = mask.data(), a.key_mask_dtype = boolean;
  a.strategy = plan_attention(problem_of(a), attention_target());
  const int64_t stride = attention_sum_stride(p.d), v_stride = attention_sum_stride(p.dv);
  const auto bytes = static_cast<size_t>(p.sk * (stride + v_stride)) * sizeof(float);
  Scratch scratch(attention_backward_scratch_bytes(a)), sums(bytes);
  std::memset(sums.data(), 0, bytes);
  g.dk = static_cast<float*>(sums.data()), g.dv = g.dk + p.sk * stride;
  const int64_t middle = p.sq / 3;
  attention_backward(g, 0, middle, scratch.data());
  attention_backward(g, middle, p.sq, scratch.data());
  attention_round_sums(g.dk, p.sk, p.d, p.t, dk.data(), p.d + 1);
  attention_round_sums(g.dv, p.sk, p.dv, p.t, dv.data(), p.dv + 1);

  std::vector<double> want_k(static_cast<size_t>(p.sk * p.d)), want_v(static_cast<size_t>(p.sk * p.dv));
  const double size = 2 + std::sqrt(static_cast<double>(std::max(p.sq, p.sk)));
  for (int64_t i = 0; i < p.sq; ++i) {
    const auto keys = static_cast<size_t>(p.sk);
    std::vector<double> weight(keys, -std::numeric_limits<double>::infinity()), slope(keys, p.scale), d_weight(keys);
    double max = -std::numeric_limits<double>::infinity(), sum = 0, mean = 0;
    const int64_t position = p.sk - p.sq + i;
    for (int64_t j = 0; j < p.sk; ++j) {
      const auto at = static_cast<size_t>(j);
      for (int64_t c = 0; c < p.dv; ++c) d_weight[at] += ct[i * (p.dv + 1) + c] * v[j * (p.dv + gap) + c];
      if (p.left >= 0 && j < position - p.left) continue;
      if (p.right >= 0 && j > position + p.right) continue;
      if (!p.kept.empty() && mask[j] < 0.5) continue;
      double s = 0;
      for (int64_t c = 0; c < p.d; ++c) s += q[i * (p.d + gap) + c] * k[j * (p.d + gap) + c];
      s *= p.scale;
      if (p.soft_cap > 0) {
        const double t = std::tanh(s / p.soft_cap);
        slope[at] *= 1 - t * t, s = p.soft_cap * t;
      }
      if (p.bias) s += bias[i * p.sk + j];
      weight[at] = s;
      max = std::max(max, s);
    }
    for (double& w : weight) sum += w = std::isinf(max) ? 0 : std::exp(w - max);
    for (size_t j = 0; j < keys; ++j) {
      if (sum > 0) weight[j] /= sum;
      mean += weight[j] * d_weight[j];
    }
    for (int64_t j = 0; j < p.sk; ++j) {
      const auto at = static_cast<size_t>(j);
      const double d_score = weight[at] * (d_weight[at] - mean);
      if (p.bias)
        require_close(f32, i * p.sk + j, static_cast<double>(d_bias[static_cast<size_t>(i * p.sk + j)]), d_score, 32,
                      size);
      for (int64_t c = 0; c < p.dv; ++c)
        want_v[static_cast<size_t>(j * p.dv + c)] += weight[at] * ct[i * (p.dv + 1) + c];
      d_weight[at] = d_score * slope[at];
      for (int64_t c = 0; c < p.d; ++c)
        want_k[static_cast<size_t>(j * p.d + c)] += d_weight[at] * q[i * (p.d + gap) + c];
    }
    for (int64_t c = 0; c < p.d; ++c) {
      double want = 0;
      for (int64_t j = 0; j < p.sk; ++j) want += d_weight[static_cast<size_t>(j)] * k[j * (p.d + gap) + c];
      require_close(p.t, i * p.d + c, dq[i * (p.d + 1) + c], want, 32, size);
    }
    REQUIRE(dq[i * (p.d + 1) + p.d] == 99);
  }
  for (int64_t j = 0; j < p.sk; ++j) {
    for (int64_t c = 0; c < p.d; ++c)
      require_close(p.t, j * p.d + c, dk[j * (p.d + 1) + c], want_k[static_cast<size_t>(j * p.d + c)], 32, size);
    for (int64_t c = 0; c < p.dv; ++c)
      require_close(p.t, j * p.dv + c, dv[j * (p.dv + 1) + c], want_v[static_cast<size_t>(j * p.dv + c)], 32, size);
    REQUIRE((dk[j * (p.d + 1) + p.d] == 99 && dv[j * (p.dv + 1) + p.dv] == 99));
  }
}

}  // namespace

TEST_CASE("the gradient of attention equals the formula, for every dtype that it takes and any extents") {
  for_each_target([] {
    for (DType t : {f32, f16, bf16}) {
      for (int64_t d : {1, 5, 32, 33, 64}) check({.t = t, .sq = 17, .sk = 17, .d = d, .dv = d});
      for (int64_t s : {1, 2, 15, 16, 31, 48, 49, 100}) check({.t = t, .sq = s, .sk = s, .d = 32, .dv = 32});
      check({.t = t, .sq = 7, .sk = 300, .d = 16, .dv = 48});
      check({.t = t, .sq = 130, .sk = 9, .d = 40, .dv = 3});
      check({.t = t, .sq = 1, .sk = 513, .d = 64, .dv = 80});
    }
  });
}

TEST_CASE("the gradient of attention knows causal masks, windows and key masks; rows without keys have none") {
  for_each_target([] {
    for (DType t : {f32, f16}) {
      check({.t = t, .sq = 20, .sk = 20, .right = 0});
      check({.t = t, .sq = 150, .sk = 290, .d = 16, .right = 0});
      check({.t = t, .sq = 150, .sk = 290, .d = 16, .left = 13, .right = 0});
      check({.t = t, .sq = 60, .sk = 200, .d = 16, .left = 5, .right = 7});
      check({.t = t, .sq = 120, .sk = 20, .d = 16, .right = 0});
      check({.t = t, .sq = 30, .sk = 140, .kept = {1, 1, 0}});
      check({.t = t, .sq = 30, .sk = 20, .kept = {0}});
      check({.t = t, .sq = 40, .sk = 40, .right = 0, .kept = {0, 0, 0, 0, 1}});
    }
  });
}

TEST_CASE("the gradient of attention goes through the soft cap, and to a bias") {
  for_each_target([] {
    for (DType t : {f32, f16}) {
      check({.t = t, .sq = 20, .sk = 30, .scale = 1.5, .soft_cap = 4});
      check({.t = t, .sq = 20, .sk = 30, .bias = true});
      check({.t = t,
             .sq = 50,
             .sk = 200,
             .scale = 1.5,
             .soft_cap = 2,
             .left = 20,
             .right = 0,
             .bias = true,
             .kept = {1, 0}});
    }
  });
}
