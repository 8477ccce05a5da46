// See the header.
#include "kernels/attention/attention_plan.h"

#include <algorithm>

#include "base/rounded_up.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/grid.h"
#include "kernels/partial_sums.h"
#include "rlx/error.h"

namespace rlx::kernels {
namespace {

using Problem = AttentionProblem;
using Target = AttentionTarget;

// Figures of matrix tiles were measured with second-level caches of 2 MiB. None of them looks at the range of queries
// of a call: a query's result must not depend on how the queries are divided.
constexpr int64_t kMinTiledQueries = 64, kMinTiledWidth = 24, kMinTiledProducts = int64_t{1} << 21;
constexpr int64_t kMinBf16Products = int64_t{1} << 19;  ///< of operands of one term
constexpr int64_t kMaxChunkQueries = 512;               ///< queries that keep their results from chunk to chunk

constexpr auto kBlocks = AttentionKernel::score_blocks;
/// What the sum of a vector's lanes costs, in multiply-adds.
constexpr int64_t kLaneSum = 7;
constexpr AttentionRule kRules[] = {
    {AttentionKernel::rows, "f64 has scalar code alone",
     [](const Problem& p, const Target&) { return p.dtype == f64; }},
    {AttentionKernel::few_queries, "the queries fill less of a vector than the width of a head does",
     [](const Problem& p, const Target& t) {
       // A lane sums so few terms that they need no partial sums.
       return p.q_rows <= kFewQueries && p.head_dim <= kPartialSumTerms * t.f32_lanes &&
              p.q_rows * (p.head_dim + kLaneSum * t.f32_lanes) < p.head_dim * t.f32_lanes;
     }},
    {kBlocks, "there are no matrix tiles", [](const Problem&, const Target& t) { return !t.has_matrix_tiles; }},
    {kBlocks, "keys or values are blocks, which are decoded to vectors",
     [](const Problem& p, const Target&) { return p.has_blocks; }},
    {kBlocks, "with so few queries, tiles do not pay for packing keys and values",
     [](const Problem& p, const Target&) { return p.q_rows < kMinTiledQueries; }},
    {kBlocks, "heads are so narrow that a step of tiles would be mostly zeros",
     [](const Problem& p, const Target&) { return p.head_dim < kMinTiledWidth; }},
    {kBlocks, "values are narrower than a tile",
     [](const Problem& p, const Target&) { return p.value_dim < kTileRows; }},
    {kBlocks, "with so few products, tiles do not pay for packing",
     [](const Problem& p, const Target&) {
       return p.q_rows * p.k_rows * (p.head_dim + p.value_dim) <
              (p.dtype == bf16 ? kMinBf16Products : kMinTiledProducts);
     }},
    {AttentionKernel::matrix_tiles, "there are queries enough to pay for packing keys and values",
     [](const Problem&, const Target&) { return true; }},
};

/// Of keys and values. Queries and weights have one and two terms beside one, else three.
TileForm terms_of_keys(DType dtype) {
  return dtype == bf16 ? TileForm::one : dtype == f16 ? TileForm::two : TileForm::three;
}

/// A chunk of packed keys and values stays in the second-level cache, beside queries, scores and weights.
int64_t chunk_bytes(const Target& t) { return t.caches.l2_bytes * 3 / 8; }

void plan_tiles(AttentionStrategy& s, const Problem& p, const Target& t) {
  s.block_queries = kTiledQueries, s.block_keys = kStripKeys;
  s.terms = terms_of_keys(p.dtype);
  const int64_t value_tiles = divided_up(p.value_dim, kTileRows);
  const int64_t strip_bytes = kStripKeys / kTileRows * tiled_bytes(p.head_dim, s.terms) +
                              kStripKeys / kTileFloats * value_tiles * static_cast<int64_t>(s.terms) * kTileBytes;
  const int64_t strips = std::max<int64_t>(1, chunk_bytes(t) / strip_bytes);
  s.chunk_keys = std::min(strips, divided_up(p.k_rows, kStripKeys)) * kStripKeys;
  // If one chunk holds all keys, two blocks of queries are in the software pipeline at a time, and no more are kept.
  s.chunk_queries = s.chunk_keys >= p.k_rows
                        ? 2 * kTiledQueries
                        : std::min(kMaxChunkQueries, divided_up(p.q_rows, kTiledQueries) * kTiledQueries);
}

bool keeps_raw_scores(const Problem& p) {
  return !p.has_soft_cap && !p.has_bias && p.scale >= 0x1p-20 && p.scale <= 0x1p20;
}

std::string_view text_of_terms(TileForm terms) {
  return terms == TileForm::one ? "one bf16 term" : terms == TileForm::two ? "two bf16 terms" : "three bf16 terms";
}

}  // namespace

AttentionTarget attention_target() {
  AttentionTarget target;
  target.has_matrix_tiles = has_matrix_tiles();
  target.f32_lanes = attention_row_block() / kQueryVectors;
  target.caches = cache_sizes();
  target.costs = cost_model();
  return target;
}

std::string_view name_of(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::score_blocks: return "score blocks";
    case AttentionKernel::few_queries: return "few queries";
    case AttentionKernel::matrix_tiles: return "matrix tiles";
    case AttentionKernel::rows: break;
  }
  return "rows";
}

std::span<const AttentionRule> attention_rules() { return kRules; }

std::string AttentionStrategy::text() const {
  std::string how(name_of(kernel));
  switch (kernel) {
    case AttentionKernel::rows: how += ", sums in f64"; break;
    case AttentionKernel::score_blocks:
      how += text_of(" of ", block_queries, " queries by ", block_keys, " keys, sums in f32");
      break;
    case AttentionKernel::few_queries: how += text_of(", blocks of ", block_keys, " keys, sums in f32"); break;
    case AttentionKernel::matrix_tiles:
      how +=
          text_of(", strips of ", block_queries, " queries by ", block_keys, " keys, ", chunk_keys,
                  " keys packed at a time for ", chunk_queries, " queries in ", text_of_terms(terms), ", sums in f32");
  }
  if ((kernel == kBlocks || kernel == AttentionKernel::few_queries) && !raw_scores) how += ", scores stored scaled";
  return text_of(how, ", ", tasks, tasks == 1 ? " task" : " tasks", ": ", reason);
}

AttentionStrategy plan_attention(const AttentionProblem& p, const AttentionTarget& t) {
  AttentionStrategy s;
  const auto* const rule =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const AttentionRule& r) { return r.holds(p, t); });
  s.kernel = rule->kernel, s.reason = rule->reason;
  s.raw_scores = keeps_raw_scores(p);
  switch (s.kernel) {
    case AttentionKernel::rows: break;
    case AttentionKernel::score_blocks:
    case AttentionKernel::few_queries: s.block_queries = kQueryVectors * t.f32_lanes, s.block_keys = kBlockKeys; break;
    case AttentionKernel::matrix_tiles: plan_tiles(s, p, t);
  }
  // Tiles pack the keys again for each range of queries, so ranges must not be too short.
  s.task_queries = kQueryVectors * t.f32_lanes * (t.has_matrix_tiles ? 2 : 1);
  s.tasks = attention_tasks(p, s.task_queries, p.threads, t.costs);
  return s;
}

double attention_work_ns(const AttentionProblem& p, const CostModel& costs) {
  return static_cast<double>(p.batch * p.heads * p.q_rows * p.k_rows) * static_cast<double>(p.head_dim + p.value_dim) *
         costs.attention_ns;
}

int64_t attention_tasks(const AttentionProblem& p, int64_t task_queries, int threads, const CostModel& costs) {
  const int64_t ranges = p.batch * p.heads * divided_up(p.q_rows, task_queries);
  const bool splits = threads > 1 && attention_work_ns(p, costs) >= costs.split_ns;
  return std::min<int64_t>(ranges, splits ? kTasksPerThread * threads : 1);
}

AttentionBackwardStrategy plan_attention_backward(const AttentionProblem& p, const AttentionTarget& t) {
  AttentionBackwardStrategy s;
  const int64_t group = p.group(), threads = p.threads;
  s.block_queries = kQueryVectors * t.f32_lanes;
  s.blocks = divided_up(p.q_rows, s.block_queries);
  s.kv_heads = p.batch * (p.heads / group);
  // A task that has a head of k for itself rounds its sums to the result at once.
  s.tasks_per_head =
      s.kv_heads == 0 ? 1
                      : std::clamp<int64_t>(divided_up(threads, s.kv_heads), 1, std::max<int64_t>(1, group * s.blocks));
  s.sums = s.tasks_per_head == 1 ? threads : s.kv_heads * s.tasks_per_head;
  s.reason = s.tasks_per_head == 1
                 ? (s.kv_heads >= threads ? "there is a head of k for each thread"
                                          : "a head of k has no second block of queries for another thread")
                 : "heads of k are fewer than threads, so that several tasks share one and their sums are added";
  return s;
}

std::string AttentionBackwardStrategy::text() const {
  return text_of("score blocks of ", block_queries, " queries by all keys, sums in f32, ", kv_heads, " x ",
                 tasks_per_head, kv_heads * tasks_per_head == 1 ? " task" : " tasks", ": ", reason);
}

}  // namespace rlx::kernels
