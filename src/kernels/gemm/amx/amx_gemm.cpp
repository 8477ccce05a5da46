// See the header. Scratch memory: the packed operand that all threads read, followed by the Values of its blocks; then
// for each thread a slot with what it packs itself (followed by Values too), a block of sums, memory for a block of the
// fp32 fallback and, if each thread packs the rows for itself, the packed rows; last, with several pieces of k, the
// sums so far.
#include "kernels/gemm/amx/amx_gemm.h"

#include <algorithm>
#include <utility>

#include "base/rounded_up.h"
#include "kernels/vector/narrow_float.h"

namespace rlx::kernels {
namespace {

constexpr int64_t kBlockRows = 2 * kTileRows;  // rows that multiply_tiles() multiplies at a time
constexpr int64_t kSumsBytes = kBlockRows * kTiledColumns * 4;
// The fp32 fallback computes whole panels, and a block of 32 columns can reach into two of them.
constexpr int64_t kFallbackSumsBytes = kBlockRows * 2 * PanelLayout::kVectors * kTileRows * 4;

char* moved(const void* data, DType t, int64_t elements) {
  return static_cast<char*>(const_cast<void*>(data)) + elements * static_cast<int64_t>(byte_size(t));
}

bool has_single(const int32_t (&singles)[2 * kTileRows]) {
  return std::any_of(std::begin(singles), std::end(singles), [](int32_t at) { return at >= 0; });
}

/// Adds `sums`, of a piece of k, and `so_far`, of the pieces before it. The result replaces `sums` if `to_sums`, and
/// `so_far` otherwise.
void add_sums(float* so_far, int64_t rows, bool to_sums, float* sums, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i, so_far += kTiledColumns, sums += stride) {
    float* const to = to_sums ? sums : so_far;
    for (int64_t j = 0; j < kTiledColumns; ++j) to[j] = so_far[j] + sums[j];
  }
}

/// sums[i] = x * (element p along k of row `first` + i), of `count` rows that are not in pairs: bf16 is packed in pairs
/// beside bf16 alone, whose rows have no `singles`.
void multiply_rows_at(const TileSource& s, int64_t p, float x, int64_t first, int64_t count, float* sums) {
  // A sum begins with 0, so that it is never -0.
  const auto multiply = [&](const auto* from) {
    from += p * s.k_stride + first * s.row_stride;
    for (int64_t i = 0; i < count; ++i) sums[i] = x * to_f32(from[i * s.row_stride]) + 0.0f;
  };
  if (s.dtype == bf16) multiply(static_cast<const BF16*>(s.data));
  else if (s.dtype == f16) multiply(static_cast<const F16*>(s.data));
  else multiply(static_cast<const float*>(s.data));
}

}  // namespace

int64_t TiledProduct::values_bytes(int64_t blocks) { return aligned(blocks * static_cast<int64_t>(sizeof(Values))); }

TiledProduct::TiledProduct(const BlockProduct& b, const ProductStrategy& strategy, int threads)
    : m_(b.rows), n_(b.layout.n), k_(b.k), threads_(threads), form_(tile_form(b.lhs.dtype, b.rhs.dtype)),
      pair_bytes_(2 * tiled_bytes(k_, form_)), row_blocks_(divided_up(m_, kBlockRows)),
      column_blocks_(divided_up(n_, kTiledColumns)), rows_first_(strategy.rows_first), splits_(strategy.splits_columns),
      transposes_(strategy.transposes_sums), packs_per_thread_(strategy.packs_rows_per_thread),
      row_tasks_(strategy.row_tasks), column_tasks_(strategy.column_tasks), k_pieces_(strategy.k_pieces) {
  const bool whole_steps = form_ == TileForm::one && k_ % kTileFloats == 0 && !transposes_;
  reads_rows_ = whole_steps && b.lhs.col_stride == 1;
  reads_columns_ = whole_steps && rows_first_ && b.packed;
  if (rows_first_) {
    shared_bytes_ = row_blocks_ * pair_bytes_ + values_bytes(row_blocks_);
    packed_bytes_ = splits_ ? TiledColumns::bytes(k_pieces_ > 1 ? kPieceTerms : k_, row_blocks_)
                            : pair_bytes_ + (transposes_ ? kSumsBytes : 0);
    if (k_pieces_ > 1)
      so_far_bytes_ = aligned(column_blocks_ * (row_blocks_ * kSumsBytes + static_cast<int64_t>(sizeof(float))));
  } else {
    shared_bytes_ = column_blocks_ * pair_bytes_ + values_bytes(column_blocks_);
    const int64_t max_blocks = divided_up(row_blocks_, row_tasks_);
    packed_bytes_ = max_blocks * pair_bytes_ + values_bytes(max_blocks);
  }
  const auto fallback_scratch = static_cast<int64_t>(block_scratch_bytes(kBlockRows, k_, b.lhs, b.rhs, b.packed));
  pipeline_bytes_ = packed_bytes_ + kSumsBytes + kFallbackSumsBytes + aligned(fallback_scratch);
  slot_bytes_ =
      pipeline_bytes_ + (form_ == TileForm::one ? 2 * kSumsBytes : 0) + (packs_per_thread_ ? shared_bytes_ : 0);
}

TiledProduct::Values TiledProduct::pack_rows(const BlockProduct& b, int64_t row, char* out) const noexcept {
  Values values;
  std::fill_n(values.singles, 2 * kTileRows, -1);
  const bool reads = reads_rows(row);
  int32_t* singles = values.singles;
  for (int64_t i = row; i < std::min(row + kBlockRows, m_);
       i += kTileRows, out += pair_bytes_ / 2, singles += kTileRows) {
    const TileSource from{.data = moved(b.lhs.data, b.lhs.dtype, i * b.lhs.row_stride),
                          .row_stride = b.lhs.row_stride,
                          .k_stride = b.lhs.col_stride,
                          .dtype = b.lhs.dtype,
                          .singles = singles};
    const int64_t rows = std::min(m_ - i, kTileRows);
    const float min_magnitude = reads ? min_magnitude_of(from, rows, k_) : pack_left_tiles(from, rows, k_, form_, out);
    values.min_magnitude = std::min(values.min_magnitude, min_magnitude);
  }
  values.has_singles = has_single(values.singles);
  return values;
}

TiledProduct::Operand TiledProduct::packed_rows(const char* tiles, const Values& values) const {
  const int64_t step = static_cast<int64_t>(form_) * kTileBytes;
  return {{tiles, 64, step}, {tiles + pair_bytes_ / 2, 64, step}, &values};
}
TiledProduct::Operand TiledProduct::packed_columns(const char* tiles, const Values& values) const {
  const int64_t step = 2 * static_cast<int64_t>(form_) * kTileBytes;
  return {{tiles, 64, step}, {tiles + kTileBytes, 64, step}, &values};
}
TiledProduct::Operand TiledProduct::rows_of(const BlockProduct& b, int64_t row, const char* tiles,
                                            const Values& values) const {
  if (!reads_rows(row)) return packed_rows(tiles, values);
  const int64_t stride = b.lhs.row_stride * 2;
  const char* const first = moved(b.lhs.data, bf16, row * b.lhs.row_stride);
  return {{first, stride, 64}, {first + kTileRows * stride, stride, 64}, &values};
}
TiledProduct::Operand TiledProduct::columns_of(const BlockProduct& b, int64_t column, char* out,
                                               Values& values) const noexcept {
  if (!reads_columns_ || n_ - column < kTiledColumns) {
    values = pack_columns(b, column, out);
    return packed_columns(out, values);
  }
  Operand columns{{}, {}, &values};
  if (b.rhs_min_magnitude != 0) values.min_magnitude = b.rhs_min_magnitude;
  for (int64_t h = 0; h < 2; ++h) {
    const TileSource from = right_source(b, column / kTileRows + h);
    const int64_t stride = from.k_stride * 4;
    (h ? columns.second : columns.first) = {static_cast<const char*>(from.data), stride, kTileRows * stride};
    if (b.rhs_min_magnitude == 0)
      values.min_magnitude = std::min(values.min_magnitude, min_magnitude_of(from, kTileRows, k_));
  }
  return columns;
}

TiledProduct::Values TiledProduct::pack_columns(const BlockProduct& b, int64_t column, char* out) const noexcept {
  Values values;
  for (int64_t tile = column / kTileRows; tile < column / kTileRows + 2; ++tile, out += kTileBytes) {
    const int64_t rows = std::clamp<int64_t>(n_ - tile * kTileRows, 0, kTileRows);
    values.min_magnitude =
        std::min(values.min_magnitude, pack_right_tiles(right_source(b, tile), rows, k_, form_, out));
  }
  return values;
}

TiledProduct::Values TiledProduct::pack_rows_as_right(const BlockProduct& b, int64_t row, char* out) const noexcept {
  Values values;
  std::fill_n(values.singles, 2 * kTileRows, -1);
  int32_t* singles = values.singles;
  for (int64_t i = row; i < row + kBlockRows; i += kTileRows, out += kTileBytes, singles += kTileRows) {
    const int64_t from = std::min(i, m_ - 1);  // nothing is read behind the end
    const TileSource rows{.data = moved(b.lhs.data, b.lhs.dtype, from * b.lhs.row_stride),
                          .row_stride = b.lhs.row_stride,
                          .k_stride = b.lhs.col_stride,
                          .dtype = b.lhs.dtype,
                          .singles = singles};
    values.min_magnitude = std::min(values.min_magnitude,
                                    pack_right_tiles(rows, std::clamp<int64_t>(m_ - i, 0, kTileRows), k_, form_, out));
  }
  values.has_singles = has_single(values.singles);
  return values;
}

TiledProduct::Values TiledProduct::pack_columns_as_left(const BlockProduct& b, int64_t column,
                                                        char* out) const noexcept {
  Values values;
  for (int64_t i = column; i < std::min(column + kTiledColumns, n_); i += kTileRows, out += pair_bytes_ / 2)
    values.min_magnitude = std::min(values.min_magnitude, pack_left_tiles(right_source(b, i / kTileRows),
                                                                          std::min(n_ - i, kTileRows), k_, form_, out));
  return values;
}

TileSource TiledProduct::right_source(const BlockProduct& b, int64_t tile) const {
  const DType t = b.rhs.dtype;
  if (!b.packed) {
    const int64_t column = std::min(tile * kTileRows, n_ - 1);  // nothing is read behind the end
    return {moved(b.rhs.data, t, column * b.rhs.col_stride), b.rhs.col_stride, b.rhs.row_stride, t};
  }
  const PanelLayout& layout = b.layout;
  const int64_t vector = std::min(tile, layout.vectors() - 1);
  int64_t panel = vector / PanelLayout::kVectors;
  while (layout.begin(panel) > vector) --panel;
  while (layout.begin(panel + 1) <= vector) ++panel;
  const int64_t begin = layout.begin(panel), width = (layout.begin(panel + 1) - begin) * kTileRows;
  const bool pairs = t == bf16;
  const char* data = static_cast<const char*>(b.rhs.data) + layout.packed_bytes(k_, t, 0, panel) +
                     (vector - begin) * kTileRows * static_cast<int64_t>(byte_size(t)) * (pairs ? 2 : 1);
  return {data, 1, width, t, pairs};
}

void TiledProduct::pack_shared(const BlockProduct& b, int64_t block, char* to) const noexcept {
  char* const out = to + block * pair_bytes_;
  values_behind(to + shared_blocks() * pair_bytes_)[block] =
      transposes_   ? pack_rows_as_right(b, block * kBlockRows, out)
      : rows_first_ ? pack_rows(b, block * kBlockRows, out)
                    : pack_columns(b, block * kTiledColumns, out);
}

void TiledProduct::run(const BlockProduct& b, void* scratch, ThreadPool& pool) const noexcept {
  char* const shared = static_cast<char*>(scratch);
  if (!packs_per_thread_)
    pool.parallel_for(threads_, shared_blocks(), [&](int64_t block) { pack_shared(b, block, shared); });
  bool has_packed[ThreadPool::kMaxWorkers + 1] = {};
  auto* const sums_so_far =
      reinterpret_cast<float*>(shared + (packs_per_thread_ ? 0 : shared_bytes_) + slot_bytes_ * threads_);
  for (int64_t piece = 0; piece < k_pieces_; ++piece)
    pool.parallel_for(threads_, row_tasks_ * column_tasks_, [&](int64_t task, int slot_number) {
      char* const slot = shared + (packs_per_thread_ ? 0 : shared_bytes_) + slot_number * slot_bytes_;
      char* const packed = packs_per_thread_ ? slot + slot_bytes_ - shared_bytes_ : shared;
      if (packs_per_thread_ && !std::exchange(has_packed[slot_number], true))
        for (int64_t block = 0; block < shared_blocks(); ++block) pack_shared(b, block, packed);
      const TileScope scope;
      if (splits_) multiply_splitting(b, task, piece, packed, slot, sums_so_far);
      else if (rows_first_) multiply_columns(b, task, packed, slot);
      else multiply_rows(b, task, packed, slot);
    });
}

void TiledProduct::multiply_columns(const BlockProduct& b, int64_t task, const char* rows, char* slot) const noexcept {
  const Values* const row_values = values_behind(rows + row_blocks_ * pair_bytes_);
  Pipeline pipeline;
  for (int64_t c = column_blocks_ * task / column_tasks_; c < column_blocks_ * (task + 1) / column_tasks_; ++c) {
    const int64_t column = c * kTiledColumns;
    Values values;
    if (transposes_) values = pack_columns_as_left(b, column, slot);
    const Operand right = transposes_ ? packed_columns(slot, values) : columns_of(b, column, slot, values);
    for (int64_t r = 0; r < row_blocks_; ++r)
      multiply(b, r * kBlockRows, rows_of(b, r * kBlockRows, rows + r * pair_bytes_, row_values[r]), column, right,
               slot, pipeline);
  }
  pipeline.finish();
}

void TiledProduct::multiply_rows(const BlockProduct& b, int64_t task, const char* columns, char* slot) const noexcept {
  const Values* const column_values = values_behind(columns + column_blocks_ * pair_bytes_);
  const int64_t begin = row_blocks_ * task / row_tasks_, end = row_blocks_ * (task + 1) / row_tasks_;
  Values* const row_values = values_behind(slot + divided_up(row_blocks_, row_tasks_) * pair_bytes_);
  for (int64_t r = begin; r < end; ++r)
    row_values[r - begin] = pack_rows(b, r * kBlockRows, slot + (r - begin) * pair_bytes_);
  Pipeline pipeline;
  for (int64_t c = 0; c < column_blocks_; ++c)
    for (int64_t r = begin; r < end; ++r)
      multiply(b, r * kBlockRows, rows_of(b, r * kBlockRows, slot + (r - begin) * pair_bytes_, row_values[r - begin]),
               c * kTiledColumns, packed_columns(columns + c * pair_bytes_, column_values[c]), slot, pipeline);
  pipeline.finish();
}

ColumnBlock TiledProduct::column_block(const BlockProduct& b, int64_t block, int64_t k) const {
  ColumnBlock columns;
  for (int64_t h = 0; h < 2; ++h) {
    const int64_t tile = 2 * block + h;
    const TileSource from = right_source(b, tile);
    columns.half[h] = {static_cast<const float*>(from.data) + k * from.k_stride, from.k_stride,
                       std::clamp<int64_t>(n_ - tile * kTileRows, 0, kTileRows)};
  }
  return columns;
}

void TiledProduct::multiply_splitting(const BlockProduct& b, int64_t task, int64_t piece, const char* rows, char* slot,
                                      float* sums_so_far) const noexcept {
  const int64_t begin = column_blocks_ * task / column_tasks_, end = column_blocks_ * (task + 1) / column_tasks_;
  const Values* const row_values = values_behind(rows + row_blocks_ * pair_bytes_);
  const bool is_first = piece == 0, is_last = piece + 1 == k_pieces_;
  const int64_t from = piece * kPieceTerms, k = is_last ? k_ - from : kPieceTerms;
  rows += tiled_bytes(from, form_);
  TiledColumns columns(k, row_blocks_, slot);
  if (b.packed && k_pieces_ == 1) {
    // Panels lie in the order in which their columns are used; blocks do not begin where panels do. A thread goes on to
    // the end of its share of the tasks (ThreadPool), then probably to the same share of the next product's weights.
    const int64_t shares = std::min<int64_t>(threads_, column_tasks_), share = task * shares / column_tasks_;
    const int64_t share_end = column_blocks_ * divided_up((share + 1) * column_tasks_, shares) / column_tasks_;
    const int64_t size = b.layout.packed_bytes(k_, b.rhs.dtype, 0, b.layout.panels());
    const char* const data = static_cast<const char*>(b.rhs.data);
    const auto prefetch_bytes = static_cast<int64_t>(b.prefetch.size());
    columns.stream({data + size * begin / column_blocks_, data + size * share_end / column_blocks_},
                   {b.prefetch.data() + prefetch_bytes * share / shares,
                    b.prefetch.data() + prefetch_bytes * (share + 1) / shares});
  }
  if (begin < end) columns.begin(column_block(b, begin, from));
  for (int64_t c = begin; c < end; ++c, columns.advance()) {
    if (c + 1 < end) columns.set_next(column_block(b, c + 1, from));
    else columns.set_no_next();
    float column_min = 0;
    for (int64_t r = 0; r < row_blocks_; ++r) {
      const OutputBlock out = output_block(b, r * kBlockRows, c * kTiledColumns, slot);
      float* const so_far = sums_so_far + (c * row_blocks_ + r) * kBlockRows * kTiledColumns;
      const char* const upper = rows + r * pair_bytes_;
      const bool is_partial = is_first && !is_last;
      columns.multiply(upper, out.rows > kTileRows ? upper + pair_bytes_ / 2 : nullptr, is_partial ? so_far : out.sums,
                       is_partial ? kTiledColumns : out.stride);
      if (r == 0) {
        column_min = columns.min_magnitude();
        if (k_pieces_ > 1) {
          float& least = minima_behind(sums_so_far)[c];
          least = column_min = is_first ? column_min : std::min(least, column_min);
        }
      }
      if (!is_first) add_sums(so_far, out.rows, is_last, out.sums, out.stride);
      if (is_last) store_output(b, out, row_values[r], column_min, slot);
    }
  }
}

TiledProduct::OutputBlock TiledProduct::output_block(const BlockProduct& b, int64_t row, int64_t column,
                                                     char* slot) const {
  OutputBlock out{row, std::min(kBlockRows, m_ - row), column, std::min(kTiledColumns, n_ - column)};
  const Epilogue& e = *b.epilogue;
  out.is_y = e.alpha == 1 && !e.bias && e.activation == Activation::none && e.residual == Residual::none &&
             b.y_dtype == f32 && b.y_col_stride == 1 && out.cols == kTiledColumns && out.rows % kTileRows == 0;
  out.sums = out.is_y ? static_cast<float*>(b.y) + row * b.y_row_stride + column
                      : reinterpret_cast<float*>(slot + packed_bytes_);
  out.stride = out.is_y ? b.y_row_stride : kTiledColumns;
  return out;
}

void TiledProduct::multiply(const BlockProduct& b, int64_t row, const Operand& left, int64_t column,
                            const Operand& right, char* slot, Pipeline& pipeline) const noexcept {
  const OutputBlock out = output_block(b, row, column, slot);
  const bool in_range = split_bf16_suffices(left.values->min_magnitude, right.values->min_magnitude);
  const bool both = out.rows > kTileRows;
  if (in_range && form_ == TileForm::one && !transposes_ && !out.is_y && out.cols == kTiledColumns &&
      b.y_col_stride == 1 && is_pipelined(b.epilogue->activation, b.y_dtype))
    return multiply_pipelined_block(b, out, left, right, slot, pipeline);
  if (in_range && transposes_) {
    multiply_transposed(out, right.first.data, left.first.data, slot);
  } else if (in_range && form_ == TileForm::one) {
    multiply_bf16_tiles(tile_steps(k_), left.first, both ? left.second : TileRows{}, right.first, right.second,
                        out.sums, out.stride);
  } else if (in_range) {
    multiply_tiles(form_, tile_steps(k_), left.first.data, both ? left.second.data : nullptr, right.first.data,
                   out.sums, out.stride);
  }
  store_output(b, out, *left.values, right.values->min_magnitude, slot);
}

void TiledProduct::multiply_pipelined_block(const BlockProduct& b, const OutputBlock& out, const Operand& left,
                                            const Operand& right, char* slot, Pipeline& pipeline) const noexcept {
  const Epilogue& e = *b.epilogue;
  auto* const sums = slot + pipeline_bytes_ + pipeline.blocks++ % 2 * kSumsBytes;
  PipelinedBlock next;
  next.steps = tile_steps(k_), next.sums = sums, next.upper = left.first, next.first = right.first;
  next.second = right.second;
  if (out.rows > kTileRows) next.lower = left.second;
  if (out.row == 0 && reads_columns_ && out.column + 2 * kTiledColumns <= n_) {
    const auto tile_at = [&](int64_t tile) {
      const TileSource from = right_source(b, tile);
      return TileRows{static_cast<const char*>(from.data), from.k_stride * 4, kTileRows * from.k_stride * 4};
    };
    next.next_first = tile_at(out.column / kTileRows + 2), next.next_second = tile_at(out.column / kTileRows + 3);
  }
  const bool is_pending = std::exchange(pipeline.is_pending, true);
  multiply_pipelined(PipelinedTiles::bf16s, next, is_pending ? &pipeline.pending : nullptr);
  if (e.bias && pipeline.column != out.column) {
    pipeline.column = out.column;
    float* const to = pipeline.bias[++pipeline.panels % 2];
    const char* const from = moved(b.bias, e.bias_dtype, out.column);
    for (int64_t j = 0; j < kTiledColumns; ++j)
      to[j] = e.bias_dtype == bf16  ? to_f32(reinterpret_cast<const BF16*>(from)[j])
              : e.bias_dtype == f16 ? to_f32(reinterpret_cast<const F16*>(from)[j])
                                    : reinterpret_cast<const float*>(from)[j];
  }
  PendingEpilogue& p = pipeline.pending;
  p.sums = sums, p.rows = out.rows, p.alpha = static_cast<float>(e.alpha);
  p.bias = e.bias ? pipeline.bias[pipeline.panels % 2] : nullptr, p.activation = e.activation, p.dtype = b.y_dtype;
  p.y = moved(b.y, b.y_dtype, out.row * b.y_row_stride + out.column), p.y_stride = b.y_row_stride;
  p.residual_first = e.residual_first, p.residual = nullptr;
  if (e.residual == Residual::in_place) p.residual = p.y, p.residual_stride = p.y_stride;
  if (e.residual == Residual::separate) {
    p.residual_stride = b.residual_row_stride;
    p.residual = moved(b.residual, b.y_dtype, out.row * p.residual_stride + out.column);
  }
}

void TiledProduct::multiply_transposed(const OutputBlock& out, const char* columns, const char* rows,
                                       char* slot) const noexcept {
  float* const sums = reinterpret_cast<float*>(slot + pair_bytes_);
  multiply_tiles(form_, tile_steps(k_), columns, out.cols > kTileRows ? columns + pair_bytes_ / 2 : nullptr, rows, sums,
                 kBlockRows);
  for (int64_t i = 0; i < out.rows; i += kTileRows)
    for (int64_t j = 0; j < out.cols; j += kTileRows)
      transpose_tile(sums + j * kBlockRows + i, kBlockRows, out.sums + i * out.stride + j, out.stride);
}

void TiledProduct::store_output(const BlockProduct& b, const OutputBlock& out, const Values& rows, float column_min,
                                char* slot) const noexcept {
  const bool in_range = split_bf16_suffices(rows.min_magnitude, column_min);
  if (in_range && rows.has_singles) multiply_singles(b, out, rows);
  if (in_range && out.is_y) return;
  float* const sums = reinterpret_cast<float*>(slot + packed_bytes_);
  if (!in_range) multiply_by_fma(b, out.row, out.rows, out.column, out.cols, sums, slot + packed_bytes_ + kSumsBytes);
  apply_epilogue(b, sums, kTiledColumns, out.row, out.rows, out.column, out.cols);
}

void TiledProduct::multiply_singles(const BlockProduct& b, const OutputBlock& out, const Values& rows) const noexcept {
  const bool is_adjacent = !b.packed && b.rhs.dtype == f32 && b.rhs.col_stride == 1;
  TileSource halves[2];
  for (int64_t h = 0; !is_adjacent && h * kTileRows < out.cols; ++h)
    halves[h] = right_source(b, out.column / kTileRows + h);
  for (int64_t i = 0; i < out.rows; ++i) {
    const int64_t p = rows.singles[i];
    if (p < 0) continue;
    const float x = static_cast<const float*>(b.lhs.data)[(out.row + i) * b.lhs.row_stride + p * b.lhs.col_stride];
    float* const sums = out.sums + i * out.stride;
    if (is_adjacent && out.cols == kTiledColumns) {  // so many as the compiler can unroll
      const float* const from = static_cast<const float*>(b.rhs.data) + p * b.rhs.row_stride + out.column;
      for (int64_t j = 0; j < kTiledColumns; ++j) sums[j] = x * from[j] + 0.0f;
    } else if (is_adjacent) {
      multiply_rows_at({b.rhs.data, 1, b.rhs.row_stride}, p, x, out.column, out.cols, sums);
    } else {
      for (int64_t j = 0; j < out.cols; j += kTileRows)
        multiply_rows_at(halves[j / kTileRows], p, x, 0, std::min(kTileRows, out.cols - j), sums + j);
    }
  }
}

void TiledProduct::multiply_by_fma(const BlockProduct& whole, int64_t row, int64_t rows, int64_t column, int64_t cols,
                                   float* sums, char* scratch) const noexcept {
  static constexpr Epilogue kNoEpilogue;
  const PanelLayout& layout = whole.layout;
  BlockProduct b = whole;
  b.rows = rows;
  b.lhs.data = moved(b.lhs.data, b.lhs.dtype, row * b.lhs.row_stride);
  b.panel_begin = column / kTileRows / PanelLayout::kVectors;
  while (layout.begin(b.panel_begin) * kTileRows > column) --b.panel_begin;
  while (layout.begin(b.panel_begin + 1) * kTileRows <= column) ++b.panel_begin;
  b.panel_end = b.panel_begin + 1;
  while (layout.begin(b.panel_end) * kTileRows < column + cols) ++b.panel_end;
  if (b.packed)
    b.rhs.data = static_cast<const char*>(b.rhs.data) + layout.packed_bytes(k_, b.rhs.dtype, 0, b.panel_begin);
  const int64_t first = layout.begin(b.panel_begin) * kTileRows, width = 2 * PanelLayout::kVectors * kTileRows;
  float* const y = reinterpret_cast<float*>(scratch);
  b.y = y - first, b.y_dtype = f32, b.y_row_stride = width, b.y_col_stride = 1;  // y is for the whole's first column
  b.epilogue = &kNoEpilogue;
  b.scratch = scratch + kFallbackSumsBytes;
  multiply_block(b);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) sums[i * kTiledColumns + j] = y[i * width + column - first + j];
}

}  // namespace rlx::kernels
