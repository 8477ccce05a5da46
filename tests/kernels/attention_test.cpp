// Attention against scalar loops in double.
#include "kernels/attention/attention.h"

#include "kernels/attention/rope.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/kernel_test.h"
#include "support/emulated_tiles.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

/// Sets the strategy, with or without matrix tiles.
void plan(AttentionArgs& a, bool tiles = false) {
  AttentionTarget target = attention_target();
  target.has_matrix_tiles = tiles;
  a.strategy = plan_attention(problem_of(a), target);
}

/// An attention to check. check() leaves a gap behind each row of q, k and v.
struct Problem {
  DType t = f32;
  int64_t sq = 5, sk = 5, d = 8, dv = 8;
  double scale = 0.3, soft_cap = 0;
  int64_t left = -1, right = -1;
  bool bias = false;
  int64_t bias_row_stride = -1;  ///< -1: sk
  std::vector<int> kept{};       ///< key mask, if not empty
  DType mask_dtype = boolean;
  double spread = 2;  ///< of q and k
  double q_factor = 1, k_factor = 1;
  bool tiles = false;
};

void check(const Problem& p) {
  const int64_t gap = 3;
  const double q_size = p.spread * p.q_factor, k_size = p.spread * p.k_factor;
  const Elements q = Elements::random(p.t, p.sq * (p.d + gap), 1, -q_size, q_size);
  const Elements k = Elements::random(p.t, p.sk * (p.d + gap), 2, -k_size, k_size);
  const Elements v = Elements::random(p.t, p.sk * (p.dv + gap), 3);
  const Elements bias = Elements::random(p.t, p.sq * p.sk + 1, 4);
  Elements mask(p.mask_dtype, p.sk);
  for (int64_t j = 0; j < p.sk && !p.kept.empty(); ++j) mask.set(j, p.kept[static_cast<size_t>(j) % p.kept.size()]);
  Elements out = Elements::filled(p.t, p.sq * (p.dv + 1), 99);

  AttentionArgs a;
  a.dtype = p.t;
  a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data();
  a.q_stride = a.k_stride = p.d + gap, a.v_stride = p.dv + gap, a.out_stride = p.dv + 1;
  a.q_rows = p.sq, a.k_rows = p.sk, a.head_dim = p.d, a.value_dim = p.dv;
  a.scale = p.scale, a.soft_cap = p.soft_cap, a.left = p.left, a.right = p.right;
  if (p.bias) {
    a.bias = bias.data(), a.bias_dtype = p.t;
    a.bias_row_stride = p.bias_row_stride < 0 ? p.sk : p.bias_row_stride;
  }
  if (!p.kept.empty()) a.key_mask = mask.data(), a.key_mask_dtype = p.mask_dtype;
  plan(a, p.tiles);
  Scratch scratch(attention_scratch_bytes(a));
  const int64_t middle = p.sq / 3;
  attention(a, 0, middle, scratch.data());
  attention(a, middle, p.sq, scratch.data());

  for (int64_t i = 0; i < p.sq; ++i) {
    std::vector<double> score(static_cast<size_t>(p.sk), -std::numeric_limits<double>::infinity());
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    const int64_t position = p.sk - p.sq + i;
    for (int64_t j = 0; j < p.sk; ++j) {
      if (p.left >= 0 && j < position - p.left) continue;
      if (p.right >= 0 && j > position + p.right) continue;
      if (!p.kept.empty() && mask[j] < 0.5) continue;
      double s = 0;
      for (int64_t c = 0; c < p.d; ++c) s += q[i * (p.d + gap) + c] * k[j * (p.d + gap) + c];
      s *= p.scale;
      if (p.soft_cap > 0) s = p.soft_cap * std::tanh(s / p.soft_cap);
      if (p.bias) s += bias[i * a.bias_row_stride + j];
      score[static_cast<size_t>(j)] = s;
      max = std::max(max, s);
    }
    for (double& s : score) sum += s = std::isinf(max) ? 0 : std::exp(s - max);
    for (int64_t c = 0; c < p.dv; ++c) {
      double want = 0;
      for (int64_t j = 0; j < p.sk; ++j) want += score[static_cast<size_t>(j)] * v[j * (p.dv + gap) + c];
      want = sum > 0 ? want / sum : 0;
      // Scores are sums of d products; their error in f32 grows with their size.
      const double size = 2 + p.spread * p.spread * p.scale * static_cast<double>(p.d) * 0.5;
      require_close(p.t, i * p.dv + c, out[i * (p.dv + 1) + c], want, 16, size);
    }
    REQUIRE(out[i * (p.dv + 1) + p.dv] == 99);
  }
}

}  // namespace

TEST_CASE("attention equals the formula, for every float dtype and any extents") {
  for_each_target([] {
    for (DType t : float_dtypes()) {
      for (int64_t d : {1, 5, 32, 33, 64}) check({.t = t, .sq = 17, .sk = 17, .d = d, .dv = d});
      for (int64_t s : {1, 2, 15, 16, 31, 48, 49, 100}) check({.t = t, .sq = s, .sk = s, .d = 32, .dv = 32});
      check({.t = t, .sq = 7, .sk = 300, .d = 16, .dv = 48});
      check({.t = t, .sq = 130, .sk = 9, .d = 40, .dv = 3});
      check({.t = t, .sq = 1, .sk = 513, .d = 64, .dv = 80});
    }
  });
}

TEST_CASE("causal masks and sliding windows go by the absolute position Sk - Sq + i") {
  for_each_target([] {
    for (DType t : {f32, f16, f64}) {
      check({.t = t, .sq = 20, .sk = 20, .right = 0});
      check({.t = t, .sq = 150, .sk = 290, .d = 16, .right = 0});
      check({.t = t, .sq = 150, .sk = 290, .d = 16, .left = 13, .right = 0});
      check({.t = t, .sq = 60, .sk = 60, .d = 16, .left = 0, .right = 0});
      check({.t = t, .sq = 60, .sk = 200, .d = 16, .left = 5, .right = 7});
      // More queries than keys: the first ones see nothing, and give zeros.
      check({.t = t, .sq = 70, .sk = 20, .d = 16, .right = 0});
    }
  });
}

TEST_CASE("a key mask keeps values of 0.5 and more, and a row without keys gives zeros") {
  for_each_target([] {
    for (DType t : {f32, bf16, f64}) {
      for (DType m : {boolean, f32}) {
        check({.t = t, .sq = 30, .sk = 140, .kept = {1, 1, 0}, .mask_dtype = m});
        check({.t = t, .sq = 30, .sk = 20, .kept = {0}, .mask_dtype = m});
        check({.t = t, .sq = 40, .sk = 40, .right = 0, .kept = {0, 0, 0, 0, 1}, .mask_dtype = m});
      }
      // The whole first score block is masked, the second one is not.
      std::vector<int> kept(150, 0);
      kept[140] = 1;
      check({.t = t, .sq = 5, .sk = 150, .kept = kept});
    }
  });
}

TEST_CASE("soft-cap comes after the scale and before the bias") {
  for_each_target([] {
    for (DType t : {f32, f16, f64}) {
      check({.t = t, .sq = 20, .sk = 30, .scale = 1.5, .soft_cap = 4});
      check({.t = t, .sq = 20, .sk = 30, .bias = true});
      check({.t = t, .sq = 20, .sk = 30, .bias = true, .bias_row_stride = 0});
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

TEST_CASE("a row whose biases all are near the lowest f32 is uniform, and -inf excludes a key") {
  for_each_target([] {
    constexpr float lowest = std::numeric_limits<float>::lowest(), inf = std::numeric_limits<float>::infinity();
    for (DType bias_dtype : {f32, bf16, f64})
      for (int64_t sq : {1, 3, 20, 50}) {
        const int64_t sk = 150, d = 16;
        const Elements q = Elements::random(f32, sq * d, 1), k = Elements::random(f32, sk * d, 2);
        const Elements v = Elements::random(f32, sk * d, 3);
        Elements bias = Elements::filled(bias_dtype, sq * sk, bias_dtype == bf16 ? -3.3e38 : lowest), out(f32, sq * d);
        for (int64_t i = 0; i < sq; ++i) {
          bias.set(i * sk + 5, -inf);
          if (i % 2) bias.set(i * sk + 7, 0);  // the only key that counts
        }
        AttentionArgs a;
        a.dtype = f32, a.bias_dtype = bias_dtype;
        a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data(), a.bias = bias.data();
        a.q_stride = a.k_stride = a.v_stride = a.out_stride = a.head_dim = a.value_dim = d;
        a.q_rows = sq, a.k_rows = sk, a.scale = 0.3, a.bias_row_stride = sk;
        plan(a);
        Scratch scratch(attention_scratch_bytes(a));
        attention(a, 0, sq, scratch.data());
        for (int64_t c = 0; c < d; ++c) {
          double mean = 0;
          for (int64_t j = 0; j < sk; ++j) mean += j == 5 ? 0 : v[j * d + c] / static_cast<double>(sk - 1);
          for (int64_t i = 0; i < sq; ++i)
            require_close(f32, i * d + c, out[i * d + c], i % 2 ? v[7 * d + c] : mean, 16, 1);
        }
      }
  });
}

TEST_CASE("scores far apart and far from zero neither overflow nor lose the small ones") {
  for_each_target([] {
    check({.t = f32, .sq = 20, .sk = 200, .d = 16, .dv = 16, .scale = 1, .spread = 6});
    // Equal scores of about 1e4 give equal weights.
    const int64_t n = 140, d = 16;
    const Elements q = Elements::filled(f32, d, 25), k = Elements::filled(f32, n * d, 25);
    const Elements v = Elements::random(f32, n * d, 1);
    Elements out(f32, d);
    AttentionArgs a;
    a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data();
    a.q_stride = a.k_stride = a.v_stride = a.out_stride = d, a.q_rows = 1, a.k_rows = n, a.head_dim = a.value_dim = d;
    plan(a);
    Scratch scratch(attention_scratch_bytes(a));
    attention(a, 0, 1, scratch.data());
    for (int64_t c = 0; c < d; ++c) {
      double mean = 0;
      for (int64_t j = 0; j < n; ++j) mean += v[j * d + c] / static_cast<double>(n);
      CHECK(is_close(f32, out[c], mean, 16, 2));
    }
  });
}

TEST_CASE("keys far behind the first add what they weigh, down to the least subnormal number") {
  // One key is near, with a value of 0; what is left are the values of the far ones.
  for_each_target([] {
    for (float score = -60; score > -106; score -= 0.37F) {
      const std::vector<float> q = {1}, k = {0, score, score, score}, v = {0, 1, 2, 0.5F};
      float out = 0;
      AttentionArgs a;
      a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = &out;
      a.q_stride = a.k_stride = a.v_stride = a.out_stride = a.head_dim = a.value_dim = a.q_rows = 1, a.k_rows = 4;
      plan(a);
      Scratch scratch(attention_scratch_bytes(a));
      attention(a, 0, 1, scratch.data());
      const double weight = std::exp(static_cast<double>(score)), exact = 3.5 * weight;
      INFO("3.5 e^", score, " = ", exact, " is ", out);
      // A score of this size, divided by ln 2, is rounded to 2^-18; each weight is rounded to a multiple of 2^-149.
      CHECK(std::fabs(static_cast<double>(out) - exact) <= 0x1p-17 * exact + 2.25 * 0x1p-149);
    }
  });
}

TEST_CASE("scores that are exact sums of products lose no more than their differences to the largest round") {
  // Products of whole numbers: scores of some 1000 that are exact in f32.
  for_each_target([] {
    for (const int64_t width : {64, 48}) {
      const int64_t keys = 300, queries = 7;
      Random random(5);
      std::vector<float> q, k, v, out(static_cast<size_t>(queries * 2));
      for (int64_t i = 0; i < queries * width; ++i) q.push_back(static_cast<float>(random.below(256)) / 512);
      for (int64_t i = 0; i < keys * width; ++i) k.push_back(static_cast<float>(random.below(256)));
      for (int64_t i = 0; i < keys * 2; ++i) v.push_back(static_cast<float>(random.between(-1, 1)));
      AttentionArgs a;
      a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data();
      a.q_stride = a.k_stride = a.head_dim = width, a.v_stride = a.out_stride = a.value_dim = 2;
      a.q_rows = queries, a.k_rows = keys, a.scale = 1 / std::sqrt(static_cast<double>(width));
      plan(a);
      Scratch scratch(attention_scratch_bytes(a));
      attention(a, 0, queries, scratch.data());
      for (int64_t i = 0; i < queries; ++i) {
        std::vector<double> score(static_cast<size_t>(keys)), p(score.size());
        for (size_t j = 0; j < p.size(); ++j)
          for (int64_t c = 0; c < width; ++c)
            score[j] += static_cast<double>(q[static_cast<size_t>(i * width + c)]) *
                        static_cast<double>(k[j * static_cast<size_t>(width) + static_cast<size_t>(c)]) * a.scale;
        const double most = *std::max_element(score.begin(), score.end());
        double sum = 0;
        for (size_t j = 0; j < p.size(); ++j) sum += p[j] = std::exp(score[j] - most);
        for (size_t d = 0; d < 2; ++d) {
          double y = 0, bound = 0;
          for (size_t j = 0; j < p.size(); ++j) y += p[j] / sum * static_cast<double>(v[2 * j + d]);
          for (size_t j = 0; j < p.size(); ++j) {
            const double value = static_cast<double>(v[2 * j + d]);
            bound += p[j] / sum * (std::fabs(value - y) * 3 * (most - score[j]) + 8 * std::fabs(value));
          }
          CHECK(std::fabs(static_cast<double>(out[static_cast<size_t>(2 * i) + d]) - y) <= 0x1p-24 * bound);
        }
      }
    }
  });
}

TEST_CASE("NaN in a query or a key reaches the rows it belongs to, and no others") {
  for_each_target([] {
    for (DType t : {f32, f16, f64}) {
      const int64_t n = 40, d = 16;
      Elements q = Elements::random(t, n * d, 1);
      const Elements k = Elements::random(t, n * d, 2), v = Elements::random(t, n * d, 3);
      q.set(7 * d + 3, std::numeric_limits<double>::quiet_NaN());
      Elements out(t, n * d);
      AttentionArgs a;
      a.dtype = t, a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data();
      a.q_stride = a.k_stride = a.v_stride = a.out_stride = d, a.q_rows = a.k_rows = n, a.head_dim = a.value_dim = d;
      plan(a);
      Scratch scratch(attention_scratch_bytes(a));
      attention(a, 0, n, scratch.data());
      for (int64_t i = 0; i < n * d; ++i) REQUIRE(std::isnan(out[i]) == (i / d == 7));
    }
  });
}

TEST_CASE("no keys at all give zeros") {
  for_each_target([] {
    for (DType t : float_dtypes()) check({.t = t, .sq = 3, .sk = 0});
  });
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "attention that is large enough for matrix tiles equals the formula, with them and without") {
  for_each_target([] {
    for (bool tiles : {false, true}) {
      if (tiles && !has_matrix_tiles()) continue;  // they come with AVX-512 targets
      INFO("tiles ", tiles);
      const bool few = test::sanitized() && !tiles;  // the kernel that the other cases have as well
      for (DType t : {f32, f16, bf16}) {
        if (few && t != f32) continue;
        check({.t = t, .sq = 130, .sk = 289, .d = 40, .dv = 48, .tiles = tiles});
        check({.t = t, .sq = 257, .sk = 131, .d = 33, .dv = 35, .tiles = tiles});
        check({.t = t, .sq = 64, .sk = 333, .d = 64, .dv = 80, .tiles = tiles});
        check({.t = t, .sq = 129, .sk = 129, .d = 96, .dv = 96, .right = 0, .tiles = tiles});
        check(
            {.t = t, .sq = 300, .sk = 200, .d = 32, .dv = 32, .right = 0, .tiles = tiles});  // queries that see nothing
        check({.t = t, .sq = 200, .sk = 310, .d = 32, .dv = 32, .left = 37, .right = 5, .tiles = tiles});
        check({.t = t, .sq = 200, .sk = 310, .d = 32, .dv = 32, .bias = true, .tiles = tiles});
        check({.t = t, .sq = 200, .sk = 310, .d = 32, .dv = 32, .scale = 1.5, .soft_cap = 4, .tiles = tiles});
        check({.t = t, .sq = 200, .sk = 310, .d = 32, .dv = 32, .kept = {1, 0, 0}, .tiles = tiles});
        check({.t = t, .sq = 200, .sk = 310, .d = 32, .dv = 32, .kept = {0}, .tiles = tiles});
      }
      // More keys than a chunk holds, also with the first ones masked: results are kept from chunk to chunk.
      std::vector<int> late(2100, 0);
      std::fill(late.begin() + 1500, late.end(), 1);
      check({.t = f32, .sq = 70, .sk = 2100, .d = 64, .dv = 64, .tiles = tiles});
      if (few) continue;
      check({.t = f32, .sq = 600, .sk = 1100, .d = 64, .dv = 64, .left = 40, .right = 0, .tiles = tiles});
      check({.t = f32, .sq = 70, .sk = 2100, .d = 64, .dv = 64, .kept = late, .tiles = tiles});
      check({.t = f32, .sq = 70, .sk = 2100, .d = 64, .dv = 64, .scale = 1, .spread = 6, .tiles = tiles});
    }
  });
}

TEST_CASE_FIXTURE(MatrixTiles, "numbers out of the range of split bf16 are attended to in f32") {
  for (bool tiles : {false, true}) {
    if (tiles && !are_there) continue;
    INFO("tiles ", tiles);
    for (double factor : {0x1p-100, 0x1p-60, 0x1p-51, 0x1p-49, 0x1p61, 0x1p63, 0x1p100}) {
      if (test::sanitized() && !tiles && std::fabs(std::log2(factor)) < 100) continue;
      INFO("factor ", factor);
      check({.t = f32,
             .sq = 100,
             .sk = 220,
             .d = 64,
             .dv = 64,
             .q_factor = factor,
             .k_factor = 1 / factor,
             .tiles = tiles});
      check({.t = f32,
             .sq = 100,
             .sk = 220,
             .d = 64,
             .dv = 64,
             .q_factor = 1 / factor,
             .k_factor = factor,
             .tiles = tiles});
    }
    // Infinity and NaN in a query reach its own row, in a value its column, in a key all rows.
    constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
    for (DType t : {f32, f16, bf16})
      for (int where : {0, 1, 2})
        for (double special : {kInf, kNan}) {
          const int64_t n = 160, d = 64, at = 77 * d + 3;
          Elements operands[3] = {Elements::random(t, n * d, 1), Elements::random(t, n * d, 2),
                                  Elements::random(t, n * d, 3)};
          operands[where].set(at, special);
          Elements out(t, n * d);
          AttentionArgs a;
          a.dtype = t, a.q = operands[0].data(), a.k = operands[1].data(), a.v = operands[2].data(), a.out = out.data();
          a.q_stride = a.k_stride = a.v_stride = a.out_stride = d, a.q_rows = a.k_rows = n,
          a.head_dim = a.value_dim = d;
          plan(a, tiles);
          Scratch scratch(attention_scratch_bytes(a));
          attention(a, 0, n, scratch.data());
          for (int64_t i = 0; i < n * d; ++i) {
            const bool reached = where == 0 ? i / d == 77 : where == 2 ? i % d == 3 : std::isnan(special);
            if (where == 1 && std::isinf(special)) continue;  // depends on the sign of q, row by row
            INFO(std::string(name_of(t)), " operand ", where, " element ", i, ": ", out[i]);
            REQUIRE((std::isnan(out[i]) || std::isinf(out[i])) == reached);
          }
        }
  }
}

namespace {

/// The results of 64 equal queries, where the first key has the score and the value `first`, and all others `rest`.
struct KeyOfEach {
  float score, value;
};
std::vector<float> of_first_and_rest(bool tiles, int64_t keys, KeyOfEach first, KeyOfEach rest) {
  constexpr int64_t kQueries = 64, kWidth = 64, kValues = 16;
  std::vector<float> q(kQueries * kWidth), k(static_cast<size_t>(keys * kWidth)),
      v(static_cast<size_t>(keys * kValues), rest.value), out(kQueries * kValues);
  for (int64_t i = 0; i < kQueries; ++i) q[static_cast<size_t>(i * kWidth)] = 1;
  for (int64_t j = 0; j < keys; ++j) k[static_cast<size_t>(j * kWidth)] = j == 0 ? first.score : rest.score;
  std::fill_n(v.begin(), kValues, first.value);
  AttentionArgs a;
  a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data();
  a.q_stride = a.k_stride = a.head_dim = kWidth, a.v_stride = a.out_stride = a.value_dim = kValues;
  a.q_rows = kQueries, a.k_rows = keys;
  plan(a, tiles);
  REQUIRE((a.strategy.kernel == AttentionKernel::matrix_tiles) == tiles);
  Scratch scratch(attention_scratch_bytes(a));
  attention(a, 0, kQueries, scratch.data());
  return out;
}

}  // namespace

TEST_CASE_FIXTURE(MatrixTiles, "weights far below 1 keep their digits on tiles, whose terms must not be subnormal") {
  constexpr int64_t kKeys = 640;
  for (bool tiles : {false, true}) {
    if (tiles && !are_there) continue;
    INFO("tiles ", tiles);
    for (float score = -60; score > -106; score -= 1.37F) {
      const double exact = (kKeys - 1) * std::exp(static_cast<double>(score));
      for (const float y : of_first_and_rest(tiles, kKeys, {0, 0}, {score, 1})) {
        INFO("639 e^", score, " = ", exact, " is ", y);
        REQUIRE(std::fabs(static_cast<double>(y) - exact) <= 0x1p-17 * exact + kKeys * 0x1p-149);
      }
    }
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "many equal small weights are not all rounded alike as they are added to a large one") {
  constexpr int64_t kKeys = 1280;
  for (bool tiles : {false, true}) {
    if (tiles && !are_there) continue;
    INFO("tiles ", tiles);
    for (float score = 8; score < 12; score += 0.37F) {
      const double exact = 1 / (1 + (kKeys - 1) * std::exp(-static_cast<double>(score)));
      for (const float y : of_first_and_rest(tiles, kKeys, {score, 1}, {0, 0})) {
        INFO("score ", score, ": ", exact, " is ", y);
        REQUIRE(std::fabs(static_cast<double>(y) - exact) <= 0x1p-19 * exact);
      }
    }
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "the result of a query does not depend on the queries that a call is about") {
  for (bool tiles : {false, true}) {
    if (tiles && !are_there) continue;
    const int64_t n = 200, d = 64;
    const Elements q = Elements::random(f32, n * d, 1), k = Elements::random(f32, n * d, 2);
    const Elements v = Elements::random(f32, n * d, 3);
    Elements whole(f32, n * d), by_blocks(f32, n * d);
    AttentionArgs a;
    a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = whole.data();
    a.q_stride = a.k_stride = a.v_stride = a.out_stride = d, a.q_rows = a.k_rows = n, a.head_dim = a.value_dim = d;
    plan(a, tiles);
    Scratch scratch(attention_scratch_bytes(a));
    attention(a, 0, n, scratch.data());
    a.out = by_blocks.data();
    const int64_t block = attention_row_block();
    for (int64_t i = 0; i < n; i += block) attention(a, i, std::min(n, i + block), scratch.data());
    for (int64_t i = 0; i < n * d; ++i) REQUIRE(whole[i] == by_blocks[i]);
  }
}

TEST_CASE("one tiny number among queries of bf16 does not make results depend on the queries that a call is about") {
  const int64_t n = 200, d = 32;
  int64_t different = 0;
  for (int seed = 1; seed <= 90; seed += 3) {  // few sums are rounded to another number of bf16
    Elements q = Elements::random(bf16, n * d, seed, -4, 4);
    const Elements k = Elements::random(bf16, n * d, seed + 1, -4, 4), v = Elements::random(bf16, n * d, seed + 2);
    q.set(0, 1e-30);  // which dot products of bf16 leave to f32
    Elements whole(bf16, n * d), by_blocks(bf16, n * d);
    AttentionArgs a;
    a.dtype = bf16, a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = whole.data();
    a.q_stride = a.k_stride = a.v_stride = a.out_stride = d, a.q_rows = a.k_rows = n, a.head_dim = a.value_dim = d;
    plan(a, false);
    Scratch scratch(attention_scratch_bytes(a));
    attention(a, 0, n, scratch.data());
    a.out = by_blocks.data();
    const int64_t block = attention_row_block();
    for (int64_t i = 0; i < n; i += block) attention(a, i, std::min(n, i + block), scratch.data());
    for (int64_t i = 0; i < n * d; ++i) different += whole[i] != by_blocks[i];
  }
  CHECK(different == 0);
}

TEST_CASE("pairs of elements of a head turn by the angles of their position") {
  struct Case {
    int64_t batch = 1, positions = 3, heads = 2, width = 8, pairs = 4;
    bool heads_first = false, side_by_side = false, own_angles = false;
    int64_t gap = 0;  ///< columns of the tables that nothing reads
  };
  const std::vector<Case> cases{{.width = 128, .pairs = 64},
                                {.width = 128, .pairs = 64, .heads_first = true},
                                {.width = 64, .pairs = 32, .side_by_side = true},
                                {.batch = 2, .heads = 3, .width = 10, .pairs = 5},
                                {.batch = 2, .width = 46, .pairs = 19, .own_angles = true, .gap = 2},
                                {.batch = 2, .width = 46, .pairs = 19, .heads_first = true, .own_angles = true},
                                {.batch = 2, .width = 40, .pairs = 19, .side_by_side = true, .gap = 1},
                                {.width = 4, .pairs = 0}};
  for_each_target([&] {
    for (DType t : {f32, f16, bf16})
      for (DType tables : {f32, t})
        for (const Case& c : cases) {
          INFO(std::string(name_of(t)), " by ", std::string(name_of(tables)), ", ", c.width, " elements");
          const int64_t rows = c.batch * c.positions * c.heads, stride = c.pairs + c.gap;
          const Elements x = Elements::random(t, rows * c.width, 1);
          const int64_t angles = (c.own_angles ? c.batch : 1) * c.positions * stride;
          const Elements cosines = Elements::random(tables, angles, 2, -1, 1);
          const Elements sines = Elements::random(tables, angles, 3, -1, 1);
          Elements y = Elements::filled(t, rows * c.width, 99), same = x;
          RopeArgs a{.dtype = t, .table_dtype = tables, .x = x.data(), .y = y.data()};
          a.positions = c.positions, a.heads = c.heads, a.width = c.width, a.heads_first = c.heads_first;
          a.pairs = c.pairs, a.side_by_side = c.side_by_side;
          a.cosines = cosines.data(), a.sines = sines.data();
          a.table_stride = stride, a.table_batch_stride = c.own_angles ? c.positions * stride : 0;
          rotate_rows(a, 0, 2), rotate_rows(a, 2, 2), rotate_rows(a, 2, rows);
          a.x = a.y = same.data();
          rotate_rows(a, 0, rows);
          for (int64_t row = 0; row < rows; ++row) {
            const int64_t batch = row / (c.positions * c.heads);
            const int64_t position = c.heads_first ? row % c.positions : row / c.heads % c.positions;
            const auto at = [&](int64_t i) { return row * c.width + i; };
            for (int64_t i = 2 * c.pairs; i < c.width; ++i) REQUIRE(y[at(i)] == x[at(i)]);
            for (int64_t i = 0; i < c.pairs; ++i) {
              const int64_t l = at(c.side_by_side ? 2 * i : i), r = at(c.side_by_side ? 2 * i + 1 : i + c.pairs);
              const int64_t angle = (batch * (c.own_angles ? c.positions : 0) + position) * stride + i;
              require_close(t, l, y[l], x[l] * cosines[angle] - x[r] * sines[angle], 2, 4);
              require_close(t, r, y[r], x[r] * cosines[angle] + x[l] * sines[angle], 2, 4);
            }
          }
          for (int64_t i = 0; i < rows * c.width; ++i) REQUIRE(same[i] == y[i]);
        }
  });
}
