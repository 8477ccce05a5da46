// See the header. What is multiplied is w xᵀ: weights are contiguous along k, as the left operand of tiles is, so that
// they are packed without a transposition; x is transposed when it is packed, and the sums when they are stored. k is
// divided into chunks, whose packed weights and rows fit the second-level cache: a task multiplies some strips of
// columns with one chunk of the rows before it goes on to the next. If a number of a block of 32 rows or of 32 columns
// is out of split range, that block of y is computed by multiply_block_weights().
#include "kernels/quant/tiled_blocks.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/one_term.h"
#include "kernels/gemm/amx/scaled_steps.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/quant/integer_blocks.h"
#include "kernels/vector/narrow_float.h"

namespace rlx::kernels {
namespace {

constexpr int64_t kBlock = 2 * kTileRows;                // rows, and columns, of a block of y
constexpr int64_t kChunk = kSumTileSteps * kTileFloats;  // along k: the elements of a partial sum
constexpr int64_t kStripBlocks = 4;                      // blocks of columns that are packed at a time
constexpr int64_t kMaxTaskStrips = 8;
constexpr int64_t kMaxGroupBlocks = 16;  // blocks of rows that are packed at a time
// Beside integers, which are cheap to pack, a chunk of the rows stays in the second-level cache, too.
constexpr int64_t kIntegerGroupBlocks = 8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kDecodedBytes = kTileRows * kChunk * 4;
constexpr int64_t kBlockBytes = kBlock * kBlock * 4;
// The rests of a chunk's runs, or the sums of x over them, are one more step of three terms.
constexpr int64_t kRestsBytes = 3 * kTileBytes;               // of 16 columns or rows
constexpr int64_t kScalesBytes = kSumTileSteps * kBlock * 4;  // of 32 columns
static_assert(kChunk / kTileFloats == kTileFloats);

/// Of groups of nearly equal size.
int64_t group_blocks(int64_t blocks, int64_t max) {
  const int64_t groups = std::max<int64_t>(divided_up(blocks, max), 1);
  return divided_up(blocks, groups);
}

}  // namespace

struct TiledBlockProduct::Group {
  const BlockWeightsProduct& p;
  const char* x;
  BlockProduct y;
  int64_t first, rows;  ///< of p's rows
  char* packed;
  float* mins;  ///< by chunk and block

  int64_t blocks() const { return divided_up(rows, kBlock); }
  float& min_of(int64_t chunk, int64_t block) const { return mins[chunk * kMaxGroupBlocks + block]; }
};
struct TiledBlockProduct::Columns {
  TileRows upper = {nullptr, 64, 0}, lower = {nullptr, 64, 0};
  float min_magnitude = kInfinity;
  const float* scales = nullptr;  ///< of integers
  const char* rests = nullptr;    ///< of the upper columns, packed; then of the lower ones
};

bool TiledBlockProduct::pays(int64_t rows, int64_t k, int64_t n) {
  constexpr int64_t kMinRows = 24;
  return rows >= kMinRows && k >= kTileFloats && n >= kBlock && has_matrix_tiles();
}

TiledBlockProduct::TiledBlockProduct(const BlockWeightsProduct& p, DType x_dtype, int64_t n, int threads)
    : format_(p.format), x_form_(x_dtype == bf16 ? TileForm::one : TileForm::three),
      w_form_(x_dtype == bf16 || format_ == bf16 ? TileForm::one : TileForm::three),
      has_integers_(x_form_ == TileForm::three && has_integers(format_)),
      has_rests_(has_integers_ && has_rests(format_)), k_(p.k), n_(n), threads_(std::max(threads, 1)),
      chunks_(divided_up(k_, kChunk)),
      group_blocks_(group_blocks(divided_up(p.rows, kBlock), has_integers_ ? kIntegerGroupBlocks : kMaxGroupBlocks)),
      // Rows of sums are not a power of two apart, which would be the same place of the cache.
      sums_stride_(group_blocks_ * kBlock + kTileRows) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  rows_bytes_ = mins_offset() + aligned(chunks_ * kMaxGroupBlocks * kFloat);
  const int64_t elements = std::min(k_, kChunk);
  if (has_integers_) packed_bytes_ = 2 * tiled_bytes(elements, TileForm::one) + 2 * kRestsBytes + kScalesBytes;
  else packed_bytes_ = format_ == bf16 ? 0 : 2 * tiled_bytes(elements, w_form_);
  const int64_t strips = divided_up(n_, kStripBlocks * kBlock);
  // Several tasks a thread, as one may be held up. Beside f32 in three terms no chunk of the rows stays in a cache.
  task_strips_ = has_integers_ && chunks_ > 1
                     ? std::clamp<int64_t>(strips / (threads_ > 1 ? 2 * threads_ : 1), 1, kMaxTaskStrips)
                     : 1;
  strip_floats_ = chunks_ > 1 ? kStripBlocks * kBlock * sums_stride_ : 0;
  sums_bytes_ = task_strips_ * strip_floats_ * kFloat;
  wide_bytes_ = x_form_ == TileForm::one ? aligned(BlockWeightsProduct::kMaxRows * k_ * kFloat) : 0;
  slot_bytes_ =
      kDecodedBytes + kStripBlocks * packed_bytes_ + sums_bytes_ + (kStripBlocks + 1) * kBlockBytes + wide_bytes_;
}

int64_t TiledBlockProduct::row_pair_bytes(int64_t k) const {
  return 2 * tiled_bytes(k, x_form_) + (has_rests_ ? 2 * kRestsBytes : 0);
}
int64_t TiledBlockProduct::mins_offset() const {
  return group_blocks_ * ((chunks_ - 1) * row_pair_bytes(kChunk) + row_pair_bytes(chunk_elements(chunks_ - 1)));
}
int64_t TiledBlockProduct::chunk_elements(int64_t chunk) const { return std::min(kChunk, k_ - chunk * kChunk); }

void TiledBlockProduct::pack_rows(const Group& group, int64_t chunk, int64_t block) const noexcept {
  const int64_t elements = chunk_elements(chunk);
  char* out = group.packed + group_blocks_ * row_pair_bytes(kChunk) * chunk + block * row_pair_bytes(elements);
  const DType dtype = x_form_ == TileForm::one ? bf16 : f32;
  float min_magnitude = kInfinity;
  int32_t singles[kTileRows];
  alignas(64) float sums[kTileRows * kTileFloats];
  char* out_sums = out + 2 * tiled_bytes(elements, x_form_);
  for (int64_t row = block * kBlock; row < (block + 1) * kBlock; row += kTileRows, out += kTileBytes) {
    const int64_t from = group.first + std::min(row, group.rows - 1);  // nothing is read behind the end
    const TileSource rows{
        .data = group.x + (from * group.p.x_stride + chunk * kChunk) * static_cast<int64_t>(byte_size(dtype)),
        .row_stride = group.p.x_stride,
        .k_stride = 1,
        .dtype = dtype,
        .singles = singles};
    std::fill_n(singles, kTileRows, -1);
    const int64_t count = std::clamp<int64_t>(group.rows - row, 0, kTileRows);
    min_magnitude = std::min(min_magnitude, pack_right_tiles(rows, count, elements, x_form_, out));
    if (has_rests_) {
      const int64_t runs = elements / kTileFloats;
      for (int64_t i = 0; i < count; ++i)
        sum_runs(static_cast<const float*>(rows.data) + i * rows.row_stride, runs, sums + i * kTileFloats);
      const TileSource source{.data = sums, .row_stride = kTileFloats, .k_stride = 1};
      min_magnitude = std::min(min_magnitude, pack_right_tiles(source, count, runs, TileForm::three, out_sums));
      out_sums += kTileBytes;
    }
    // A row with only one number is for the fp32 fallback.
    if (std::any_of(singles, singles + kTileRows, [](int32_t at) { return at >= 0; })) min_magnitude = 0;
  }
  group.min_of(chunk, block) = min_magnitude;
}

TiledBlockProduct::Columns TiledBlockProduct::columns_of(const Group& group, int64_t chunk, int64_t column,
                                                         float* decoded, char* packed) const noexcept {
  const DTypeInfo& format = info(format_);
  const int64_t elements = chunk_elements(chunk);
  const auto bytes_of = [&](int64_t count) { return count / format.block_elements * format.block_bytes; };
  const int64_t row_bytes = bytes_of(k_);
  Columns made;
  for (int64_t half = 0; half < 2; ++half) {
    const int64_t begin = column + half * kTileRows, rows = std::clamp<int64_t>(n_ - begin, 0, kTileRows);
    if (rows == 0) break;
    const std::byte* from = group.p.w + begin * row_bytes + bytes_of(chunk * kChunk);
    TileRows& tiles = half ? made.lower : made.upper;
    float min_magnitude = 0;
    if (format_ == bf16) {
      const TileSource source{.data = from, .row_stride = k_, .k_stride = 1, .dtype = bf16};
      min_magnitude = x_form_ == TileForm::one ? min_magnitude_of(source, rows, elements)
                                               : min_magnitude_beside_three(source, rows, elements);
      tiles = {reinterpret_cast<const char*>(from), row_bytes, 2 * kTileFloats};
      if (rows < kTileRows) {  // nothing is read behind the end
        char* to = reinterpret_cast<char*>(decoded);
        pack_left_tiles(source, rows, elements, TileForm::one, to);
        tiles = {to, 64, kTileBytes};
      }
    } else {
      decode_block_rows(format_, from, row_bytes, rows, elements / format.block_elements, decoded, elements);
      char* to = packed + half * tiled_bytes(elements, w_form_);
      const TileSource source{.data = decoded, .row_stride = elements};
      min_magnitude = w_form_ == TileForm::one ? pack_left_rounded(source, rows, elements, to)
                                               : pack_left_tiles(source, rows, elements, w_form_, to);
      tiles = {to, 64, static_cast<int64_t>(w_form_) * kTileBytes};
    }
    made.min_magnitude = std::min(made.min_magnitude, min_magnitude);
  }
  return made;
}

TiledBlockProduct::Columns TiledBlockProduct::integer_columns_of(const Group& group, int64_t chunk, int64_t column,
                                                                 float* rests, char* packed) const noexcept {
  const DTypeInfo& format = info(format_);
  const int64_t elements = chunk_elements(chunk), steps = tile_steps(elements);
  const auto bytes_of = [&](int64_t count) { return count / format.block_elements * format.block_bytes; };
  const int64_t row_bytes = bytes_of(k_), half_bytes = tiled_bytes(elements, TileForm::one);
  char* const packed_rests = packed + 2 * half_bytes;
  auto* const scales = reinterpret_cast<float*>(packed_rests + 2 * kRestsBytes);
  Columns made;
  made.min_magnitude = 1;
  made.scales = scales;
  if (has_rests_) made.rests = packed_rests;
  for (int64_t half = 0; half < 2; ++half) {
    const int64_t begin = column + half * kTileRows, rows = std::clamp<int64_t>(n_ - begin, 0, kTileRows);
    char* const to = packed + half * half_bytes;
    (half ? made.lower : made.upper) = {to, 64, kTileBytes};
    const bool fits = pack_integers(format_, group.p.w + begin * row_bytes + bytes_of(chunk * kChunk), row_bytes, rows,
                                    steps, {to, scales + half * kTileRows, rests});
    if (!fits) made.min_magnitude = 0;
    if (!has_rests_) continue;
    const TileSource source{.data = rests, .row_stride = 1, .k_stride = kTileRows};
    made.min_magnitude = std::min(
        made.min_magnitude, pack_left_tiles(source, rows, steps, TileForm::three, packed_rests + half * kRestsBytes));
  }
  return made;
}

void TiledBlockProduct::multiply_integers(std::span<const Columns> all, const char* rows, int64_t steps,
                                          float* const* sums, int64_t stride) const noexcept {
  ScaledRows blocks[kStripBlocks];
  for (size_t c = 0; c < all.size(); ++c) {
    const Columns& columns = all[c];
    blocks[c] = {columns.upper.data, columns.lower.data, columns.scales, sums[c]};
    if (has_rests_) {
      const char* const rests_of_rows = rows + steps * 6 * kTileBytes;
      multiply_tiles(TileForm::three, 1, columns.rests, columns.rests + kRestsBytes, rests_of_rows, sums[c], stride);
    } else {  // by memset(), which has the processor's widest stores
      constexpr auto kRowBytes = static_cast<size_t>(kBlock) * sizeof(float);
      if (stride == kBlock) std::memset(sums[c], 0, kBlockBytes);
      else
        for (int64_t i = 0; i < kBlock; ++i) std::memset(sums[c] + i * stride, 0, kRowBytes);
    }
  }
  add_scaled_steps(steps, {blocks, all.size()}, rows, stride);
}

void TiledBlockProduct::multiply_tiles_of(const Columns& columns, const char* rows, int64_t steps, float* sums,
                                          int64_t stride) const noexcept {
  if (w_form_ == TileForm::three)
    return multiply_tiles(TileForm::three, steps, columns.upper.data, columns.lower.data, rows, sums, stride);
  if (x_form_ == TileForm::three)
    return multiply_one_by_three_terms(steps, columns.upper, columns.lower, rows, sums, stride);
  multiply_bf16_tiles(steps, columns.upper, columns.lower, {rows, 64, 2 * kTileBytes},
                      {rows + kTileBytes, 64, 2 * kTileBytes}, sums, stride);
}

void TiledBlockProduct::multiply_by_fma(const Group& group, int64_t row, int64_t column, float* memory) const noexcept {
  const BlockWeightsProduct& p = group.p;
  const auto y_bytes = static_cast<int64_t>(byte_size(p.y_dtype));
  const int64_t end = std::min(group.rows, row + kBlock);
  for (; row < end; row += BlockWeightsProduct::kMaxRows) {
    BlockWeightsProduct call = p;
    const int64_t first = group.first + row;
    call.rows = std::min(BlockWeightsProduct::kMaxRows, end - row);
    if (x_form_ == TileForm::one) {
      const auto* from = reinterpret_cast<const BF16*>(group.x) + first * p.x_stride;
      for (int64_t r = 0; r < call.rows; ++r)
        for (int64_t i = 0; i < k_; ++i) memory[r * k_ + i] = to_f32(from[r * p.x_stride + i]);
      call.x = memory, call.x_stride = k_;
    } else {
      call.x = reinterpret_cast<const float*>(group.x) + first * p.x_stride;
    }
    call.y = static_cast<std::byte*>(p.y) + first * p.y_stride * y_bytes;
    if (p.residual) call.residual = static_cast<const std::byte*>(p.residual) + first * p.residual_stride * y_bytes;
    multiply_block_weights(call, column, std::min(n_, column + kBlock));
  }
}

void TiledBlockProduct::store(const Group& group, int64_t row, int64_t column, const float* sums,
                              float* block) const noexcept {
  const int64_t rows = std::min(kBlock, group.rows - row), columns = std::min(kBlock, n_ - column);
  const BlockWeightsProduct& p = group.p;
  if (p.y_dtype == f32 && p.epilogue == Epilogue() && rows == kBlock && columns == kBlock) {
    float* const y = static_cast<float*>(p.y) + (group.first + row) * p.y_stride + column;
    for (int64_t i = 0; i < kBlock; i += kTileRows)
      for (int64_t j = 0; j < kBlock; j += kTileRows)
        transpose_tile(sums + j * kBlock + i, kBlock, y + i * p.y_stride + j, p.y_stride);
    return;
  }
  if (columns < kBlock) std::memset(block, 0, kBlockBytes);
  for (int64_t i = 0; i < rows; i += kTileRows)
    for (int64_t j = 0; j < columns; j += kTileRows)
      transpose_tile(sums + j * kBlock + i, kBlock, block + i * kBlock + j, kBlock);
  apply_epilogue(group.y, block, kBlock, group.first + row, rows, column, columns);
}

/// For a block of 32 columns of a task: whether its product with each block of rows takes the fp32 fallback.
struct TiledBlockProduct::Column {
  bool is_out[kMaxGroupBlocks] = {};
};

void TiledBlockProduct::multiply_strip(const Group& group, int64_t strip, int64_t chunk, float* sums,
                                       std::span<Column> column_blocks, char* slot) const noexcept {
  auto* const decoded = reinterpret_cast<float*>(slot);
  char* const packed = slot + kDecodedBytes;
  auto* const blocks = reinterpret_cast<float*>(packed + kStripBlocks * packed_bytes_ + sums_bytes_);
  float* const block = blocks + kStripBlocks * kBlock * kBlock;
  float* const wide = block + kBlock * kBlock;
  const int64_t first = strip * kStripBlocks * kBlock;
  const int64_t elements = chunk_elements(chunk), steps = tile_steps(elements);
  const char* const rows = group.packed + group_blocks_ * row_pair_bytes(kChunk) * chunk;
  const bool is_first = chunk == 0, is_last = chunk + 1 == chunks_;
  Columns all[kStripBlocks];
  for (size_t c = 0; c < column_blocks.size(); ++c) {
    const int64_t column = first + static_cast<int64_t>(c) * kBlock;
    char* const to = packed + static_cast<int64_t>(c) * packed_bytes_;
    all[c] = has_integers_ ? integer_columns_of(group, chunk, column, decoded, to)
                           : columns_of(group, chunk, column, decoded, to);
  }
  for (int64_t r = 0; r < group.blocks(); ++r) {
    // Those that are in range, their sums over the chunk, and their sums over all chunks.
    Columns in_range[kStripBlocks];
    float *of_chunk[kStripBlocks], *to[kStripBlocks];
    size_t count = 0;
    const bool is_whole = is_first && !is_last;  // sums of the first of several chunks are not added to anything
    for (size_t c = 0; c < column_blocks.size(); ++c) {
      bool& is_out = column_blocks[c].is_out[r];
      is_out |= !split_bf16_suffices(all[c].min_magnitude, group.min_of(chunk, r));
      if (is_out) continue;
      const auto at = static_cast<int64_t>(c) * kBlock;
      to[count] = chunks_ > 1 ? sums + at * sums_stride_ + r * kBlock : nullptr;
      of_chunk[count] = is_whole ? to[count] : blocks + at * kBlock;
      in_range[count++] = all[c];
    }
    const int64_t stride = is_whole ? sums_stride_ : kBlock;
    const char* const packed_rows = rows + r * row_pair_bytes(elements);
    if (has_integers_) multiply_integers({in_range, count}, packed_rows, steps, of_chunk, stride);
    else
      for (size_t c = 0; c < count; ++c) multiply_tiles_of(in_range[c], packed_rows, steps, of_chunk[c], stride);
    for (size_t c = 0; !is_first && c < count; ++c)
      for (int64_t i = 0; i < (in_range[c].lower.data ? kBlock : kTileRows); i += kTileRows)
        for (int64_t j = 0; j < kBlock; j += kTileRows) {
          float *const part = of_chunk[c] + i * kBlock + j, *const sum = to[c] + i * sums_stride_ + j;
          if (is_last) add_tile(sum, sums_stride_, part, kBlock);
          else add_tile(part, kBlock, sum, sums_stride_);
        }
    for (size_t c = 0; is_last && c < column_blocks.size(); ++c) {
      const auto at = static_cast<int64_t>(c) * kBlock;
      if (column_blocks[c].is_out[r]) multiply_by_fma(group, r * kBlock, first + at, wide);
      else store(group, r * kBlock, first + at, blocks + at * kBlock, block);
    }
  }
}

void TiledBlockProduct::multiply_strips(const Group& group, int64_t begin, int64_t end, char* slot) const noexcept {
  const TileScope scope;
  Column columns[kMaxTaskStrips * kStripBlocks];
  auto* const sums = reinterpret_cast<float*>(slot + kDecodedBytes + kStripBlocks * packed_bytes_);
  for (int64_t chunk = 0; chunk < chunks_; ++chunk)
    for (int64_t strip = begin; strip < end; ++strip) {
      const int64_t blocks = divided_up(n_ - strip * kStripBlocks * kBlock, kBlock);
      const std::span<Column> own(columns + (strip - begin) * kStripBlocks,
                                  static_cast<size_t>(std::min(kStripBlocks, blocks)));
      multiply_strip(group, strip, chunk, sums + (strip - begin) * strip_floats_, own, slot);
    }
}

void TiledBlockProduct::run(const BlockWeightsProduct& p, const void* x, void* scratch,
                            ThreadPool& pool) const noexcept {
  BlockProduct y;
  y.y = p.y, y.y_dtype = p.y_dtype, y.y_row_stride = p.y_stride;
  y.bias = p.bias, y.residual = p.residual, y.residual_row_stride = p.residual_stride, y.epilogue = &p.epilogue;
  char* const packed = static_cast<char*>(scratch);
  auto* const mins = reinterpret_cast<float*>(packed + mins_offset());
  for (int64_t first = 0; first < p.rows; first += group_blocks_ * kBlock) {
    const Group group{
        p, static_cast<const char*>(x), y, first, std::min(p.rows - first, group_blocks_ * kBlock), packed, mins};
    const int64_t blocks = group.blocks();
    pool.parallel_for(threads_, chunks_ * blocks,
                      [&](int64_t task) { pack_rows(group, task / blocks, task % blocks); });
    const int64_t strips = divided_up(n_, kStripBlocks * kBlock);
    pool.parallel_for(threads_, divided_up(strips, task_strips_), [&](int64_t task, int slot) {
      multiply_strips(group, task * task_strips_, std::min(strips, (task + 1) * task_strips_),
                      packed + rows_bytes_ + slot * slot_bytes_);
    });
  }
}

}  // namespace rlx::kernels
