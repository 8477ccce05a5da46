// The planner of attention: which kernel computes it, in blocks of which size, in how many tasks, and why. Each
// plan is pure: the same arguments give the same strategy, and no kernel chooses by itself, but that a call whose
// numbers leave the range of split-bf16 takes score blocks instead of tiles. The choice of the kernel is a table,
// attention_rules(), of which the first rule that holds decides. Users: backends/cpu/lower_attention.cpp, which plans
// and divides the work; attention.cpp and its neighbours, which follow AttentionArgs::strategy. `rlx where MODEL
// --strategies` prints strategies. Neighbours: kernels/gemm/product_plan.h, backends/cpu/convolution_plan.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/cost_model.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/memory/cache_sizes.h"

namespace rlx::kernels {

// Extents for which the kernels are compiled: arrays in scratch and register blocks have these sizes.
inline constexpr int64_t kQueryVectors = 3;              ///< vectors of queries of a score block
inline constexpr int64_t kMaxF32Lanes = 16;              ///< of the widest vector
inline constexpr int64_t kMaxBlockQueries = 48;          ///< kQueryVectors of the widest vectors
inline constexpr int64_t kBlockKeys = 128;               ///< keys of a score block; at most kPartialSumTerms
inline constexpr int64_t kTiledQueries = kTiledColumns;  ///< of a block on matrix tiles
inline constexpr int64_t kFewQueries = 8;                ///< most queries of AttentionKernel::few_queries
inline constexpr int64_t kBlockColumns = 32;  ///< elements of a block, where keys or values are of a block format
inline constexpr int64_t kStripKeys = 64;  ///< of a strip: scores and weights of two strips fit the first-level cache

/// What strategies depend on beside the problem.
struct AttentionTarget {
  bool has_matrix_tiles = false;
  int64_t f32_lanes = kMaxF32Lanes;  ///< of a vector
  CacheSizes caches;
  CostModel costs;

  bool operator==(const AttentionTarget&) const = default;
};
/// This machine, with the calling thread's cost model.
AttentionTarget attention_target();

/// softmax(q kᵀ · scale) v for each batch and head of q.
struct AttentionProblem {
  DType dtype = f32;
  int64_t batch = 1, heads = 1, kv_heads = 1;  ///< heads of q; heads of k and v, of which each serves several of q
  int64_t q_rows = 0, k_rows = 0;              ///< Sq and Sk
  int64_t head_dim = 0, value_dim = 0;         ///< D of q and k, Dv of v
  double scale = 1;
  bool has_soft_cap = false, has_bias = false;
  bool has_blocks = false;  ///< keys or values are of a block format
  int threads = 1;

  /// How many heads of q share a head of k.
  int64_t group() const { return heads / (kv_heads > 0 ? kv_heads : 1); }
};

enum class AttentionKernel : uint8_t {
  score_blocks,  ///< attention.cpp: vectors, with transposed scores in blocks along the keys
  few_queries,   ///< the same, but scores are dot products of vectors along the width of a head
  matrix_tiles,  ///< amx_attention-inl.h: matrix tiles of bf16 terms
  rows,          ///< attention.cpp: scalar code, query by query
};
std::string_view name_of(AttentionKernel kernel);

/// A kernel, the blocks in which it computes, and the tasks.
struct AttentionStrategy {
  AttentionKernel kernel = AttentionKernel::score_blocks;
  std::string_view reason;                    ///< of the rule that chose the kernel
  int64_t block_queries = 1, block_keys = 1;  ///< of a score block, or of a strip of matrix tiles
  int64_t chunk_keys = 0, chunk_queries = 0;  ///< matrix tiles: the keys packed at a time, and for how many queries
  TileForm terms = TileForm::one;             ///< matrix tiles: bf16 terms of keys and values
  /// Vectors: scores are q·k itself. Scale and 1 / ln 2 are then factors of the differences to the largest score, so
  /// that they round these and not the scores, which may be much larger. With a soft cap or a bias, scores are stored
  /// scaled and divided by ln 2; and so with a scale that would leave q·k out of the range of f32.
  bool raw_scores = false;
  int64_t task_queries = 1;  ///< tasks divide the queries of a head at multiples of this
  int64_t tasks = 0;         ///< for the threads of the problem

  /// In words: "score blocks of 48 queries by 128 keys, sums in f32, 8 tasks: there are no matrix tiles".
  std::string text() const;

  bool operator==(const AttentionStrategy&) const = default;
};

/// A rule for the kernel: it is taken if `holds`, for the reason that is given.
struct AttentionRule {
  AttentionKernel kernel;
  std::string_view reason;
  bool (*holds)(const AttentionProblem&, const AttentionTarget&);
};
/// All rules, in the order in which they are tried. The last one holds always.
std::span<const AttentionRule> attention_rules();

/// The kernel does not depend on batch, heads and threads, and so a result does not either, unless numbers of its call
/// leave the range of split-bf16: then all queries of that call are computed by score blocks.
AttentionStrategy plan_attention(const AttentionProblem& problem, const AttentionTarget& target);

/// The estimated time of all products on one thread, in nanoseconds.
double attention_work_ns(const AttentionProblem& problem, const CostModel& costs);
/// Into how many tasks a run with `threads` threads divides all ranges of `task_queries` queries. Runs ask again, with
/// the threads and the cost model that they have.
int64_t attention_tasks(const AttentionProblem& problem, int64_t task_queries, int threads, const CostModel& costs);

/// How the gradient is divided. A task sums the cotangents of k and v in f32, in arrays of its own.
struct AttentionBackwardStrategy {
  int64_t block_queries = 1;   ///< queries whose weights, for all keys, are in scratch at a time
  int64_t blocks = 0;          ///< of one head of q
  int64_t kv_heads = 0;        ///< pairs of a batch and a head of k
  int64_t tasks_per_head = 1;  ///< of each such pair; if several, their sums are added in the end
  int64_t sums = 1;            ///< pairs of arrays of sums: one per thread, or one per task if tasks share a head
  std::string_view reason;     ///< of tasks_per_head

  /// In words: "score blocks of 48 queries by all keys, sums in f32, 2 x 4 tasks: ...".
  std::string text() const;

  bool operator==(const AttentionBackwardStrategy&) const = default;
};
AttentionBackwardStrategy plan_attention_backward(const AttentionProblem& problem, const AttentionTarget& target);

}  // namespace rlx::kernels
