// See the header. Memory: shared by the threads, the packed operand that all use and a byte for each block of it; then
// for each thread what it packs itself, with such bytes too, a block of sums, and room for a block without tiles; and,
// where each packs them for itself, the rows.
#include "kernels/gemm_tiled.h"

#include <algorithm>
#include <utility>

#include "base/rounded_up.h"
#include "kernels/cost_model.h"

namespace rlx::kernels {
namespace {

constexpr int64_t kBlockRows = 2 * kTileLines;  // what multiply_tiles() makes
// Rows that are packed at a time: they stay in the second-level cache, beside some columns.
constexpr int64_t kLeftBytes = 1100 << 10;
// Beside them a block of columns, where these are split while products run, and not two.
constexpr int64_t kLeftBytesOfSplitting = 1200 << 10;
// Columns that are packed before they are multiplied want so many rows.
constexpr int64_t kRowsWorthPacking = 64;
constexpr int64_t kMostShared = 64 << 20;  // bytes of packed columns
// Each block of rows reads all of the packed columns.
constexpr int64_t kRowsWorthReading = 128;
// For fewer columns packing the rows takes longer than the product by multiply-adds.
constexpr int64_t kFewestColumns = 48;
// Rows of so few bytes are packed by each thread for itself where they meet so many columns a thread: what another core
// wrote is read as slowly as from the third-level cache.
constexpr int64_t kPackedApart = 512 << 10;
constexpr int64_t kColumnsWorthPackingTwice = 64;
constexpr int64_t kSumsBytes = kBlockRows * kTiledColumns * 4;
// A block of columns lies in two panels at most.
constexpr int64_t kPlainBytes = kBlockRows * 2 * PanelLayout::kVectors * kTileLines * 4;

/// Whether columns are f32 side by side, so that they can be split while products run.
bool splits_columns(const BlockProduct& b, TileForm form) {
  return form == TileForm::three && b.rhs.dtype == f32 && (b.packed || b.rhs.col_stride == 1);
}
/// Whether columns are f32 along k, as a left operand wants them: y' = w' x' has to turn the few rows and the sums, y =
/// x w all of the columns. Rows along k are turned for y' alone, so they must be fewer; others for y alone.
bool turns_sums(const BlockProduct& b, TileForm form) {
  if (form != TileForm::three || b.rhs.dtype != f32 || b.packed) return false;
  if (b.rhs.row_stride != 1 || b.rhs.col_stride == 1) return false;
  return b.lhs.col_stride != 1 || b.rows <= b.layout.n / 2;
}
bool is_narrow(DType t) { return t == f32 || t == bf16 || t == f16; }
char* moved(const void* data, DType t, int64_t elements) {
  return static_cast<char*>(const_cast<void*>(data)) + elements * static_cast<int64_t>(byte_size(t));
}

}  // namespace

bool TiledProduct::suits(const BlockProduct& b) {
  if (!has_matrix_tiles() || !is_narrow(b.lhs.dtype) || !is_narrow(b.rhs.dtype) || !is_narrow(b.y_dtype)) return false;
  if (b.layout.lanes != kTileLines || (b.lhs.row_stride != 1 && b.lhs.col_stride != 1)) return false;
  const TileForm form = tile_form(b.lhs.dtype, b.rhs.dtype);
  if (b.packed ? b.rhs.dtype == bf16 && form != TileForm::one : b.rhs.row_stride != 1 && b.rhs.col_stride != 1)
    return false;
  int64_t least_rows = 16;
  if (form == TileForm::three) {
    least_rows = cost_model().tile_rows;
    if (!splits_columns(b, form)) least_rows = std::max(least_rows, kRowsWorthPacking);
  }
  // What is short along k is mostly epilogue.
  if (b.rows < least_rows || b.k < kTileFloats || b.layout.n < kFewestColumns) return false;
  // All columns are packed at once unless all rows fit the cache: not for weights that would fill memory a second time.
  const int64_t pair_bytes = 2 * tiled_bytes(b.k, form);
  return divided_up(b.rows, kBlockRows) <= std::max<int64_t>(1, kLeftBytes / pair_bytes) ||
         divided_up(b.layout.n, kTiledColumns) * pair_bytes <= kMostShared;
}

TiledProduct::TiledProduct(const BlockProduct& b, int threads)
    : m_(b.rows), n_(b.layout.n), k_(b.k), threads_(threads), form_(tile_form(b.lhs.dtype, b.rhs.dtype)),
      pair_bytes_(2 * tiled_bytes(k_, form_)), row_blocks_(divided_up(m_, kBlockRows)),
      column_blocks_(divided_up(n_, kTiledColumns)) {
  const int64_t blocks_in_cache = std::max<int64_t>(1, kLeftBytes / pair_bytes_);
  rows_first_ = row_blocks_ <= blocks_in_cache ||
                (splits_columns(b, form_) && row_blocks_ * pair_bytes_ <= kLeftBytesOfSplitting);
  if (rows_first_) {
    row_parts_ = 1;
    // More than threads, so that one that was interrupted does not hold up the others.
    column_parts_ = threads == 1 ? 1 : std::min<int64_t>(column_blocks_, 4 * threads);
    shared_bytes_ = row_blocks_ * pair_bytes_ + aligned(row_blocks_);
    packs_apart_ = threads > 1 && n_ >= kColumnsWorthPackingTwice * threads && shared_bytes_ <= kPackedApart;
    splits_ = splits_columns(b, form_);
    turns_ = turns_sums(b, form_);
    packed_bytes_ = splits_ ? TiledColumns::bytes(k_, row_blocks_) : pair_bytes_ + (turns_ ? kSumsBytes : 0);
  } else {
    column_parts_ = 1;
    row_parts_ =
        std::max(divided_up(row_blocks_, blocks_in_cache), std::min<int64_t>(4 * threads, m_ / kRowsWorthReading));
    if (threads > 1) row_parts_ = divided_up(row_parts_, threads) * threads;
    row_parts_ = std::min(row_parts_, row_blocks_);
    shared_bytes_ = column_blocks_ * pair_bytes_ + aligned(column_blocks_);
    const int64_t most = divided_up(row_blocks_, row_parts_);
    packed_bytes_ = most * pair_bytes_ + aligned(most);
  }
  const auto plain = static_cast<int64_t>(block_scratch_bytes(kBlockRows, k_, b.lhs, b.rhs, b.packed));
  slot_bytes_ = packed_bytes_ + kSumsBytes + kPlainBytes + aligned(plain) + (packs_apart_ ? shared_bytes_ : 0);
}

bool TiledProduct::pack_rows(const BlockProduct& b, int64_t row, char* out) const noexcept {
  bool is_fit = true;
  for (int64_t i = row; i < std::min(row + kBlockRows, m_); i += kTileLines, out += pair_bytes_ / 2) {
    const TileSource from{moved(b.lhs.data, b.lhs.dtype, i * b.lhs.row_stride), b.lhs.row_stride, b.lhs.col_stride,
                          b.lhs.dtype};
    is_fit = pack_left_tiles(from, std::min(m_ - i, kTileLines), k_, form_, out) && is_fit;
  }
  return is_fit;
}

bool TiledProduct::pack_columns(const BlockProduct& b, int64_t column, char* out) const noexcept {
  bool is_fit = true;
  for (int64_t tile = column / kTileLines; tile < column / kTileLines + 2; ++tile, out += kTileBytes) {
    const int64_t lines = std::clamp<int64_t>(n_ - tile * kTileLines, 0, kTileLines);
    is_fit = pack_right_tiles(right_source(b, tile), lines, k_, form_, out) && is_fit;
  }
  return is_fit;
}

bool TiledProduct::pack_rows_as_right(const BlockProduct& b, int64_t row, char* out) const noexcept {
  bool is_fit = true;
  for (int64_t i = row; i < row + kBlockRows; i += kTileLines, out += kTileBytes) {
    const int64_t from = std::min(i, m_ - 1);  // behind the end nothing is read
    const TileSource lines{moved(b.lhs.data, b.lhs.dtype, from * b.lhs.row_stride), b.lhs.row_stride, b.lhs.col_stride,
                           b.lhs.dtype};
    is_fit = pack_right_tiles(lines, std::clamp<int64_t>(m_ - i, 0, kTileLines), k_, form_, out) && is_fit;
  }
  return is_fit;
}

bool TiledProduct::pack_columns_as_left(const BlockProduct& b, int64_t column, char* out) const noexcept {
  bool is_fit = true;
  for (int64_t i = column; i < std::min(column + kTiledColumns, n_); i += kTileLines, out += pair_bytes_ / 2)
    is_fit = pack_left_tiles(right_source(b, i / kTileLines), std::min(n_ - i, kTileLines), k_, form_, out) && is_fit;
  return is_fit;
}

TileSource TiledProduct::right_source(const BlockProduct& b, int64_t tile) const {
  const DType t = b.rhs.dtype;
  if (!b.packed) {
    const int64_t column = std::min(tile * kTileLines, n_ - 1);  // behind the end nothing is read
    return {moved(b.rhs.data, t, column * b.rhs.col_stride), b.rhs.col_stride, b.rhs.row_stride, t};
  }
  const PanelLayout& layout = b.layout;
  const int64_t vector = std::min(tile, layout.vectors() - 1);
  int64_t panel = vector / PanelLayout::kVectors;
  while (layout.begin(panel) > vector) --panel;
  while (layout.begin(panel + 1) <= vector) ++panel;
  const int64_t begin = layout.begin(panel), width = (layout.begin(panel + 1) - begin) * kTileLines;
  const bool pairs = t == bf16;
  const char* data = static_cast<const char*>(b.rhs.data) + layout.packed_bytes(k_, t, 0, panel) +
                     (vector - begin) * kTileLines * static_cast<int64_t>(byte_size(t)) * (pairs ? 2 : 1);
  return {data, 1, width, t, pairs};
}

void TiledProduct::pack_shared(const BlockProduct& b, int64_t block, char* to) const noexcept {
  char* const out = to + block * pair_bytes_;
  to[shared_blocks() * pair_bytes_ + block] = turns_        ? pack_rows_as_right(b, block * kBlockRows, out)
                                              : rows_first_ ? pack_rows(b, block * kBlockRows, out)
                                                            : pack_columns(b, block * kTiledColumns, out);
}

void TiledProduct::run(const BlockProduct& b, void* scratch, ThreadPool& pool) const noexcept {
  char* const shared = static_cast<char*>(scratch);
  if (!packs_apart_)
    pool.parallel_for(threads_, shared_blocks(), [&](int64_t block) { pack_shared(b, block, shared); });
  bool has_packed[ThreadPool::kMaxWorkers + 1] = {};
  pool.parallel_for(threads_, row_parts_ * column_parts_, [&](int64_t part, int slot_number) {
    char* const slot = shared + (packs_apart_ ? 0 : shared_bytes_) + slot_number * slot_bytes_;
    char* const packed = packs_apart_ ? slot + slot_bytes_ - shared_bytes_ : shared;
    if (packs_apart_ && !std::exchange(has_packed[slot_number], true))
      for (int64_t block = 0; block < shared_blocks(); ++block) pack_shared(b, block, packed);
    const TileScope scope;
    if (splits_) multiply_splitting(b, part, packed, slot);
    else if (rows_first_) multiply_columns(b, part, packed, slot);
    else multiply_rows(b, part, packed, slot);
  });
}

void TiledProduct::multiply_columns(const BlockProduct& b, int64_t part, const char* rows, char* slot) const noexcept {
  const char* const rows_fit = rows + row_blocks_ * pair_bytes_;
  for (int64_t c = column_blocks_ * part / column_parts_; c < column_blocks_ * (part + 1) / column_parts_; ++c) {
    const int64_t column = c * kTiledColumns;
    const Operand right{slot, turns_ ? pack_columns_as_left(b, column, slot) : pack_columns(b, column, slot)};
    for (int64_t r = 0; r < row_blocks_; ++r)
      multiply(b, r * kBlockRows, {rows + r * pair_bytes_, rows_fit[r] != 0}, column, right, slot);
  }
}

void TiledProduct::multiply_rows(const BlockProduct& b, int64_t part, const char* columns, char* slot) const noexcept {
  const char* const columns_fit = columns + column_blocks_ * pair_bytes_;
  const int64_t begin = row_blocks_ * part / row_parts_, end = row_blocks_ * (part + 1) / row_parts_;
  char* const fit = slot + divided_up(row_blocks_, row_parts_) * pair_bytes_;
  for (int64_t r = begin; r < end; ++r) fit[r - begin] = pack_rows(b, r * kBlockRows, slot + (r - begin) * pair_bytes_);
  for (int64_t c = 0; c < column_blocks_; ++c)
    for (int64_t r = begin; r < end; ++r)
      multiply(b, r * kBlockRows, {slot + (r - begin) * pair_bytes_, fit[r - begin] != 0}, c * kTiledColumns,
               {columns + c * pair_bytes_, columns_fit[c] != 0}, slot);
}

ColumnBlock TiledProduct::column_block(const BlockProduct& b, int64_t block) const {
  ColumnBlock columns;
  for (int64_t h = 0; h < 2; ++h) {
    const int64_t tile = 2 * block + h;
    const TileSource from = right_source(b, tile);
    columns.half[h] = {static_cast<const float*>(from.data), from.k_stride,
                       std::clamp<int64_t>(n_ - tile * kTileLines, 0, kTileLines)};
  }
  return columns;
}

void TiledProduct::multiply_splitting(const BlockProduct& b, int64_t part, const char* rows,
                                      char* slot) const noexcept {
  const int64_t begin = column_blocks_ * part / column_parts_, end = column_blocks_ * (part + 1) / column_parts_;
  const char* const rows_fit = rows + row_blocks_ * pair_bytes_;
  TiledColumns columns(k_, row_blocks_, slot);
  if (b.packed) {
    // Panels are packed in the order in which their columns are used; blocks do not begin where panels do. A thread
    // goes on to the end of its share of the parts (ThreadPool), then probably to the same share of what is read next.
    const int64_t shares = std::min<int64_t>(threads_, column_parts_), share = part * shares / column_parts_;
    const int64_t share_end = column_blocks_ * divided_up((share + 1) * column_parts_, shares) / column_parts_;
    const int64_t size = b.layout.packed_bytes(k_, b.rhs.dtype, 0, b.layout.panels());
    const char* const data = static_cast<const char*>(b.rhs.data);
    const auto ahead = static_cast<int64_t>(b.ahead.size());
    columns.stream({data + size * begin / column_blocks_, data + size * share_end / column_blocks_},
                   {b.ahead.data() + ahead * share / shares, b.ahead.data() + ahead * (share + 1) / shares});
  }
  if (begin < end) columns.begin(column_block(b, begin));
  for (int64_t c = begin; c < end; ++c, columns.advance()) {
    if (c + 1 < end) columns.follow_with(column_block(b, c + 1));
    else columns.follow_with_nothing();
    bool is_fit = false;
    for (int64_t r = 0; r < row_blocks_; ++r) {
      const Place at = place_of(b, r * kBlockRows, c * kTiledColumns, slot);
      const char* const upper = rows + r * pair_bytes_;
      columns.multiply(upper, at.rows > kTileLines ? upper + pair_bytes_ / 2 : nullptr, at.sums, at.stride);
      if (r == 0) is_fit = columns.is_fit();
      finish(b, at, rows_fit[r] != 0 && is_fit, slot);
    }
  }
}

TiledProduct::Place TiledProduct::place_of(const BlockProduct& b, int64_t row, int64_t column, char* slot) const {
  Place at{row, std::min(kBlockRows, m_ - row), column, std::min(kTiledColumns, n_ - column)};
  const Epilogue& e = *b.epilogue;
  at.is_y = e.alpha == 1 && !e.bias && e.activation == Activation::none && e.residual == Residual::none &&
            b.y_dtype == f32 && b.y_col_stride == 1 && at.cols == kTiledColumns && at.rows % kTileLines == 0;
  at.sums = at.is_y ? static_cast<float*>(b.y) + row * b.y_row_stride + column
                    : reinterpret_cast<float*>(slot + packed_bytes_);
  at.stride = at.is_y ? b.y_row_stride : kTiledColumns;
  return at;
}

void TiledProduct::multiply(const BlockProduct& b, int64_t row, Operand left, int64_t column, Operand right,
                            char* slot) const noexcept {
  const Place at = place_of(b, row, column, slot);
  const bool is_fit = left.is_fit && right.is_fit;
  if (is_fit && turns_) multiply_turned(at, right.tiles, left.tiles, slot);
  else if (is_fit)
    multiply_tiles(form_, tile_steps(k_), left.tiles, at.rows > kTileLines ? left.tiles + pair_bytes_ / 2 : nullptr,
                   right.tiles, at.sums, at.stride);
  finish(b, at, is_fit, slot);
}

void TiledProduct::multiply_turned(const Place& at, const char* columns, const char* rows, char* slot) const noexcept {
  float* const sums = reinterpret_cast<float*>(slot + pair_bytes_);
  multiply_tiles(form_, tile_steps(k_), columns, at.cols > kTileLines ? columns + pair_bytes_ / 2 : nullptr, rows, sums,
                 kBlockRows);
  for (int64_t i = 0; i < at.rows; i += kTileLines)
    for (int64_t j = 0; j < at.cols; j += kTileLines)
      turn_tile(sums + j * kBlockRows + i, kBlockRows, at.sums + i * at.stride + j, at.stride);
}

void TiledProduct::finish(const BlockProduct& b, const Place& at, bool is_fit, char* slot) const noexcept {
  if (is_fit && at.is_y) return;
  float* const sums = reinterpret_cast<float*>(slot + packed_bytes_);
  if (!is_fit) multiply_plainly(b, at.row, at.rows, at.column, at.cols, sums, slot + packed_bytes_ + kSumsBytes);
  finish_sums(b, sums, kTiledColumns, at.row, at.rows, at.column, at.cols);
}

void TiledProduct::multiply_plainly(const BlockProduct& whole, int64_t row, int64_t rows, int64_t column, int64_t cols,
                                    float* sums, char* scratch) const noexcept {
  static constexpr Epilogue kNothing;
  const PanelLayout& layout = whole.layout;
  BlockProduct b = whole;
  b.rows = rows;
  b.lhs.data = moved(b.lhs.data, b.lhs.dtype, row * b.lhs.row_stride);
  b.panel_begin = column / kTileLines / PanelLayout::kVectors;
  while (layout.begin(b.panel_begin) * kTileLines > column) --b.panel_begin;
  while (layout.begin(b.panel_begin + 1) * kTileLines <= column) ++b.panel_begin;
  b.panel_end = b.panel_begin + 1;
  while (layout.begin(b.panel_end) * kTileLines < column + cols) ++b.panel_end;
  if (b.packed)
    b.rhs.data = static_cast<const char*>(b.rhs.data) + layout.packed_bytes(k_, b.rhs.dtype, 0, b.panel_begin);
  const int64_t first = layout.begin(b.panel_begin) * kTileLines, width = 2 * PanelLayout::kVectors * kTileLines;
  float* const y = reinterpret_cast<float*>(scratch);
  b.y = y - first, b.y_dtype = f32, b.y_row_stride = width, b.y_col_stride = 1;  // y is of the whole's first column
  b.epilogue = &kNothing;
  b.scratch = scratch + kPlainBytes;
  multiply_block(b);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) sums[i * kTiledColumns + j] = y[i * width + column - first + j];
}

}  // namespace rlx::kernels
