// Products of many rows with weights in block formats, f16 or bf16, by matrix tiles of bf16 terms (gemm/amx/tiles.h).
// A group of up to 512 rows of x, or 256 beside integers, is packed at a time. For each group weights are decoded and
// packed in strips of 128 columns and chunks of 1024 along k, which stay in the second-level cache while they are used.
// f32 x takes 6 products of terms. It takes 3 with bf16 weights, which are one term and are read without packing, and
// with blocks that are packed as integers with scales (integer_blocks.h). bf16 x takes 1: all weights are rounded to
// one term. Neighbour: blocks.h, for few rows.
#pragma once

#include <span>

#include "kernels/gemm/amx/tiles.h"
#include "kernels/quant/blocks.h"
#include "kernels/threads/thread_pool.h"

namespace rlx::kernels {

class TiledBlockProduct {
 public:
  /// Whether the processor has tiles, and the product is so large that they save more time than packing weights takes.
  static bool pays(int64_t rows, int64_t k, int64_t n);
  /// A product with n columns, by up to `threads` threads. The pointers of `p` are ignored; p.rows may exceed
  /// BlockWeightsProduct::kMaxRows. x_dtype is f32 or bf16.
  TiledBlockProduct(const BlockWeightsProduct& p, DType x_dtype, int64_t n, int threads);

  /// `scratch` of run() must have this many bytes, aligned to 64.
  size_t scratch_bytes() const { return static_cast<size_t>(rows_bytes_ + slot_bytes_ * threads_); }
  /// `p` is that of the constructor with its pointers set, but for p.x, instead of which `x`, of x_dtype, is read.
  void run(const BlockWeightsProduct& p, const void* x, void* scratch, ThreadPool& pool) const noexcept;

 private:
  /// Rows that are packed at a time.
  struct Group;
  struct Columns;
  struct Column;
  int64_t chunk_elements(int64_t chunk) const;
  int64_t row_pair_bytes(int64_t k) const;  // of 32 packed rows, in a chunk of k elements
  int64_t mins_offset() const;              // in scratch memory: the bytes of all packed rows
  void pack_rows(const Group& group, int64_t chunk, int64_t block) const noexcept;
  /// 32 columns of a chunk of k, for tiles: packed to `packed`, or where they are.
  Columns columns_of(const Group& group, int64_t chunk, int64_t column, float* decoded, char* packed) const noexcept;
  Columns integer_columns_of(const Group& group, int64_t chunk, int64_t column, float* rests,
                             char* packed) const noexcept;
  /// The strips [begin, end) of all chunks, and one strip of one chunk, with sums of the chunks so far.
  void multiply_strips(const Group& group, int64_t begin, int64_t end, char* slot) const noexcept;
  void multiply_strip(const Group& group, int64_t strip, int64_t chunk, float* sums, std::span<Column> column_blocks,
                      char* slot) const noexcept;
  void store(const Group& group, int64_t row, int64_t column, const float* sums, float* block) const noexcept;
  void multiply_tiles_of(const Columns& columns, const char* rows, int64_t steps, float* sums,
                         int64_t stride) const noexcept;
  void multiply_integers(std::span<const Columns> all, const char* rows, int64_t steps, float* const* sums,
                         int64_t stride) const noexcept;
  void multiply_by_fma(const Group& group, int64_t row, int64_t column, float* memory) const noexcept;

  DType format_;
  TileForm x_form_, w_form_;
  bool has_integers_, has_rests_;  // see integer_blocks.h; both false beside bf16 x
  int64_t k_, n_;
  int threads_;
  int64_t chunks_;        // of k
  int64_t group_blocks_;  // of 32 rows, packed at a time
  int64_t sums_stride_;
  int64_t task_strips_;   // strips of a task
  int64_t strip_floats_;  // sums of a strip, over several chunks
  int64_t rows_bytes_, packed_bytes_, sums_bytes_, wide_bytes_, slot_bytes_;
};

}  // namespace rlx::kernels
