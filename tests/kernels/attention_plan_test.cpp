// The planner of attention (kernels/attention/attention_plan.h): what must hold of its table, of its blocks and of how
// it divides the work, whatever the machine. The results of the kernels are tested in attention_test.cpp and
// attention_backward_test.cpp.
#include "kernels/attention/attention_plan.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "base/rounded_up.h"
#include "kernels/attention/attention.h"

using namespace rlx;
using namespace rlx::kernels;

namespace {

AttentionTarget target_with(bool tiles, int64_t lanes = 16, int64_t l2_bytes = 2 << 20) {
  AttentionTarget t;
  t.has_matrix_tiles = tiles, t.f32_lanes = lanes;
  t.caches.l2_bytes = l2_bytes;
  return t;
}

AttentionProblem problem(DType dtype, int64_t queries, int64_t keys, int64_t width, int threads = 1) {
  AttentionProblem p;
  p.dtype = dtype;
  p.q_rows = queries, p.k_rows = keys, p.head_dim = p.value_dim = width;
  p.scale = 0.125, p.threads = threads;
  return p;
}

AttentionProblem random_problem(std::mt19937& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint32_t>(n)); };
  const auto extent = [&](int64_t most) { return below(3) == 0 ? below(70) : below(most); };
  constexpr DType kDtypes[] = {f32, f32, bf16, f16, f64};
  constexpr int kThreads[] = {1, 2, 3, 8, 64};
  constexpr double kScales[] = {1, 0.125, 0, -1, 0x1p-30, 0x1p30};
  AttentionProblem p;
  p.dtype = kDtypes[below(5)];
  p.batch = below(5), p.kv_heads = 1 + below(4), p.heads = p.kv_heads * (1 + below(4));
  p.q_rows = extent(4000), p.k_rows = extent(4000), p.head_dim = extent(300), p.value_dim = extent(300);
  p.scale = kScales[below(6)], p.has_soft_cap = below(4) == 0, p.has_bias = below(4) == 0;
  p.threads = kThreads[below(5)];
  p.has_blocks = below(8) == 0;
  return p;
}

/// Bytes of packed keys and values of a chunk: 16 rows of keys, or 16 columns of values, by 32 elements are a tile of
/// 1 KiB for each term.
int64_t chunk_bytes(const AttentionProblem& p, const AttentionStrategy& s) {
  const int64_t terms = static_cast<int64_t>(s.terms);
  return 1024 * terms * s.chunk_keys / 16 * divided_up(p.head_dim, 32) +
         1024 * terms * s.chunk_keys / 32 * divided_up(p.value_dim, 16);
}

}  // namespace

TEST_CASE("each problem of a table has the kernel that its reason explains") {
  struct Row {
    AttentionProblem problem;
    bool tiles;
    AttentionKernel kernel;
    std::string_view reason;
  };
  const auto narrow = [] {
    AttentionProblem p = problem(f32, 512, 512, 64);
    p.value_dim = 15;
    return p;
  }();
  const auto of_blocks = [] {
    AttentionProblem p = problem(f32, 512, 512, 64);
    p.has_blocks = true;
    return p;
  }();
  const Row rows[] = {
      {of_blocks, true, AttentionKernel::score_blocks, "keys or values are blocks"},
      {problem(f64, 512, 512, 64), true, AttentionKernel::rows, "f64 has scalar code alone"},
      {problem(f32, 512, 512, 64), false, AttentionKernel::score_blocks, "there are no matrix tiles"},
      {problem(f32, 1, 4096, 128), true, AttentionKernel::few_queries, "the queries fill less of a vector"},
      {problem(f32, 8, 4096, 128), true, AttentionKernel::few_queries, "the queries fill less of a vector"},
      {problem(f32, 9, 4096, 128), true, AttentionKernel::score_blocks, "with so few queries"},
      {problem(f32, 4, 4096, 32), true, AttentionKernel::score_blocks, "with so few queries"},
      {problem(f32, 63, 4096, 128), true, AttentionKernel::score_blocks, "with so few queries"},
      {problem(f32, 64, 4096, 128), true, AttentionKernel::matrix_tiles, "there are queries enough"},
      {problem(bf16, 4096, 4096, 16), true, AttentionKernel::score_blocks, "heads are so narrow"},
      {narrow, true, AttentionKernel::score_blocks, "values are narrower"},
      {problem(f32, 128, 128, 32), true, AttentionKernel::score_blocks, "with so few products"},
      {problem(f16, 256, 256, 32), true, AttentionKernel::matrix_tiles, "there are queries enough"},
      {problem(bf16, 2048, 2048, 128), true, AttentionKernel::matrix_tiles, "there are queries enough"},
      {problem(f32, 0, 0, 32), true, AttentionKernel::few_queries, "the queries fill less of a vector"},
  };
  for (const Row& row : rows) {
    const AttentionStrategy s = plan_attention(row.problem, target_with(row.tiles));
    INFO(s.text());
    CHECK(s.kernel == row.kernel);
    CHECK(s.reason.starts_with(row.reason));
    CHECK(s.text().starts_with(name_of(row.kernel)));
  }
}

TEST_CASE("the first rule that holds decides, the last one holds always, and each has a reason of its own") {
  std::set<std::string_view> reasons, taken;
  for (const AttentionRule& rule : attention_rules()) CHECK(reasons.insert(rule.reason).second);
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const AttentionProblem p = random_problem(random);
    const AttentionTarget t = target_with(i % 4 != 0);
    const AttentionStrategy s = plan_attention(p, t);
    const auto& rules = attention_rules();
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const AttentionRule& r) { return r.holds(p, t); });
    CHECK(rule->reason == s.reason);
    CHECK(rule->kernel == s.kernel);
    CHECK(plan_attention(p, t) == s);
    CHECK(s.text().ends_with(s.reason));
    taken.insert(s.reason);
  }
  CHECK(attention_rules().back().holds({}, {}));
  CHECK(taken == reasons);
}

TEST_CASE("blocks fit the arrays that kernels have, and a chunk of keys and values fits the cache") {
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    const AttentionProblem p = random_problem(random);
    const AttentionTarget t = target_with(i % 4 != 0, int64_t{4} << i % 3, int64_t{1} << (18 + i % 6));
    const AttentionStrategy s = plan_attention(p, t);
    INFO(p.q_rows, " by ", p.k_rows, ", ", p.head_dim, ", ", p.value_dim, ": ", s.text());
    CHECK(s.block_queries <= kMaxBlockQueries);
    CHECK(s.block_keys <= kBlockKeys);
    if (s.kernel != AttentionKernel::matrix_tiles) {
      CHECK(s.chunk_keys == 0);
      continue;
    }
    CHECK(s.chunk_keys > 0);
    CHECK(s.chunk_keys % kStripKeys == 0);
    CHECK(s.chunk_queries % kTiledQueries == 0);
    CHECK((s.chunk_keys == kStripKeys || chunk_bytes(p, s) <= t.caches.l2_bytes / 2));
    CHECK((s.chunk_keys < p.k_rows || s.chunk_keys - p.k_rows < kStripKeys));
    // A larger cache never holds fewer keys.
    AttentionTarget larger = t;
    larger.caches.l2_bytes *= 2;
    CHECK(plan_attention(p, larger).chunk_keys >= s.chunk_keys);
  }
}

TEST_CASE("kernel, blocks and scores of a head depend neither on the batch nor on heads and threads") {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    AttentionProblem p = random_problem(random);
    const AttentionTarget t = target_with(i % 4 != 0);
    AttentionStrategy s = plan_attention(p, t);
    const int64_t ranges = p.batch * p.heads * divided_up(p.q_rows, s.task_queries);
    CHECK(s.tasks <= ranges);
    CHECK((s.tasks > 0) == (ranges > 0));
    if (p.threads == 1) CHECK(s.tasks <= 1);
    p.batch = p.heads = p.kv_heads = p.threads = 1;
    const AttentionStrategy alone = plan_attention(p, t);
    s.tasks = alone.tasks;
    CHECK(s == alone);
    // So small or so large a scale would take q·k out of the range of f32, and -1 would turn maxima into minima.
    if (p.has_bias || p.has_soft_cap || p.scale <= 0 || p.scale == 0x1p-30 || p.scale == 0x1p30) CHECK(!s.raw_scores);
  }
}

TEST_CASE("more queries, keys or columns never turn tiles that pay into score blocks") {
  const AttentionTarget t = target_with(true);
  constexpr int64_t kExtents[] = {1, 15, 16, 23, 24, 32, 63, 64, 100, 500, 3000};
  for (DType dtype : {f32, bf16, f16})
    for (int64_t queries : kExtents)
      for (int64_t keys : kExtents)
        for (int64_t width : kExtents) {
          const auto uses_tiles = [&](int64_t m, int64_t n, int64_t d) {
            return plan_attention(problem(dtype, m, n, d), t).kernel == AttentionKernel::matrix_tiles;
          };
          if (!uses_tiles(queries, keys, width)) continue;
          INFO(queries, " by ", keys, " of ", width);
          CHECK(uses_tiles(queries + 1, keys, width));
          CHECK(uses_tiles(queries, keys + 1, width));
          CHECK(uses_tiles(queries, keys, width + 1));
        }
}

TEST_CASE("the gradient has tasks for all threads, as far as there are blocks, and sums for each of them") {
  std::mt19937 random(4);
  for (int i = 0; i < 20000; ++i) {
    const AttentionProblem p = random_problem(random);
    const AttentionBackwardStrategy s = plan_attention_backward(p, target_with(i % 2 == 0, int64_t{4} << i % 3));
    INFO(p.batch, " by ", p.kv_heads, ", ", p.threads, " threads: ", s.text());
    CHECK(s.kv_heads == p.batch * p.kv_heads);
    CHECK(s.blocks * s.block_queries >= p.q_rows);
    CHECK(s.tasks_per_head >= 1);
    CHECK(s.tasks_per_head <= std::max<int64_t>(1, p.group() * s.blocks));
    if (p.group() * s.blocks >= p.threads && s.kv_heads > 0) CHECK(s.kv_heads * s.tasks_per_head >= p.threads);
    CHECK(s.sums >= std::min<int64_t>(p.threads, s.kv_heads * s.tasks_per_head));
    CHECK(s.text().ends_with(s.reason));
  }
}

TEST_CASE("the target of this machine has the vectors for which the kernels run") {
  const AttentionTarget t = attention_target();
  CHECK(t.f32_lanes * kQueryVectors == attention_row_block());
  CHECK(attention_row_block() <= kMaxBlockQueries);
}
