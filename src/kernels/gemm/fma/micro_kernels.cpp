// See micro_kernels.h. A block is computed panel by panel: each panel is read by all tiles of rows while it is in the
// cache. The file is longer than others because it is compiled once per instruction set, and a second such file would
// instantiate the micro-kernels again.
#include "kernels/gemm/fma/micro_kernels.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/rounded_up.h"
#include "kernels/gemm/product_plan.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/instruction_set.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/fma/micro_kernels.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/gemm/fma/epilogue-inl.h"
#include "kernels/gemm/fma/micro_kernel-inl.h"
#include "kernels/gemm/fma/packing-inl.h"

#ifndef RLX_KERNELS_GEMM_BLOCK_SIZES
#define RLX_KERNELS_GEMM_BLOCK_SIZES
namespace rlx::kernels {
namespace {

const void* at(const void* data, DType dtype, int64_t elements) {
  return static_cast<const char*>(data) + elements * static_cast<int64_t>(byte_size(dtype));
}

// Whether the left operand can be read in place, without packing; see micro_kernel-inl.h.
bool reads_lhs_in_place(const StridedMatrix& lhs, DType accumulator, int64_t rows) {
  return lhs.dtype == accumulator && (lhs.col_stride == 1 || rows == 1);
}

// Below it, dot products and tiles of bf16 may flush what f32 would keep.
constexpr float kMinExactBF16 = 0x1p-100f;

bool has_bf16_dots() {
#if HWY_ARCH_X86_64
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has && is_permitted(kBF16Dots);
#elif HWY_ARCH_ARM_A64
  static const bool has = processor_has(ArmExtension::bf16);
  return has && is_permitted(kBF16Dots);
#else
  return false;
#endif
}

}  // namespace
}  // namespace rlx::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

int64_t lanes_f32() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }
int64_t lanes_f64() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<double>())); }

void pack_some_panels(const StridedMatrix& matrix, int64_t k, const PanelLayout& layout, int64_t panel_begin,
                      int64_t panel_end, void* out, DType out_dtype) {
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    const int64_t column = layout.begin(p) * layout.lanes, width = layout.begin(p + 1) * layout.lanes - column;
    const int64_t count = std::min(width, layout.n - column);
    const void* from = at(matrix.data, matrix.dtype, column * matrix.col_stride);
    void* to = static_cast<char*>(out) + layout.packed_bytes(k, out_dtype, panel_begin, p);
    if (out_dtype == f64)
      pack_panel(from, matrix.dtype, matrix.row_stride, matrix.col_stride, k, count, width, static_cast<double*>(to));
    else if (out_dtype == f32)
      pack_panel(from, matrix.dtype, matrix.row_stride, matrix.col_stride, k, count, width, static_cast<float*>(to));
    else if (out_dtype == bf16)
      pack_pairs(static_cast<const BF16*>(from), matrix.row_stride, matrix.col_stride, k, count, width,
                 static_cast<BF16*>(to));
    else
      pack_panel(static_cast<const F16*>(from), matrix.row_stride, matrix.col_stride, k, count, width,
                 static_cast<F16*>(to));
  }
}

// How rows are divided into tiles: as evenly as possible, because a tile of one row is slow.
struct RowTiles {
  int64_t rows;
  int64_t tiles() const { return divided_up(rows, kTileRows); }
  int64_t begin(int64_t tile) const { return rows * tile / tiles(); }
};

// The left operand as the tiles read it: element (i, k) of a tile is at i * row + k * (tiled ? rows of the tile :
// k_stride), and the tile of row r begins at r * step.
template <class T>
struct LeftTiles {
  const T* data;
  int64_t row, k_stride, step;
  bool tiled = false;
};

template <class T>
LeftTiles<T> left_tiles(const BlockProduct& b, T* scratch) {
  const DType accumulator = std::is_same_v<T, double> ? f64 : f32;
  const StridedMatrix& lhs = b.lhs;
  if (reads_lhs_in_place(lhs, accumulator, b.rows))
    return {static_cast<const T*>(lhs.data), lhs.row_stride, lhs.col_stride, lhs.row_stride};
  if (lhs.col_stride == 1) {  // needs conversion only
    for (int64_t i = 0; i < b.rows; ++i)
      pack_panel(at(lhs.data, lhs.dtype, i * lhs.row_stride), lhs.dtype, 0, 1, 1, b.k, b.k, scratch + i * b.k);
    return {scratch, b.k, 1, b.k};
  }
  const RowTiles tiles{b.rows};
  for (int64_t t = 0; t < tiles.tiles(); ++t) {
    int64_t row = tiles.begin(t), height = tiles.begin(t + 1) - row;
    pack_panel(at(lhs.data, lhs.dtype, row * lhs.row_stride), lhs.dtype, lhs.col_stride, lhs.row_stride, b.k, height,
               height, scratch + row * b.k);
  }
  return {scratch, 1, 0, b.k, true};
}

// sums[i, j] = sum over k of lhs[i, k] rhs[k, j], for columns whose elements are adjacent along k; `rhs_col` is the
// stride between columns.
template <class T, class Rhs>
HWY_NOINLINE void dot_products(const LeftTiles<T>& lhs, int64_t rows, int64_t k, const Rhs* rhs, int64_t rhs_col,
                               int64_t cols, T* sums, int64_t sums_row) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < cols; j += 4) {
    // Behind the end the last column is read again; the sum is not stored.
    const Rhs* column[4];
    for (int64_t c = 0; c < 4; ++c) column[c] = rhs + std::min(j + c, cols - 1) * rhs_col;
    for (int64_t i = 0; i < rows; ++i) {
      const T* left = lhs.data + i * lhs.row;
      auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      int64_t p = 0;
      for (; p + lanes <= k; p += lanes) {
        auto v = hn::LoadU(d, left + p);
        s0 = hn::MulAdd(v, load_rhs(d, column[0] + p), s0);
        s1 = hn::MulAdd(v, load_rhs(d, column[1] + p), s1);
        s2 = hn::MulAdd(v, load_rhs(d, column[2] + p), s2);
        s3 = hn::MulAdd(v, load_rhs(d, column[3] + p), s3);
      }
      T sum[4] = {hn::GetLane(hn::SumOfLanes(d, s0)), hn::GetLane(hn::SumOfLanes(d, s1)),
                  hn::GetLane(hn::SumOfLanes(d, s2)), hn::GetLane(hn::SumOfLanes(d, s3))};
      for (; p < k; ++p)
        for (int64_t c = 0; c < 4; ++c) sum[c] += left[p] * converted<T>(column[c][p]);
      for (int64_t c = 0; c < std::min<int64_t>(4, cols - j); ++c) sums[i * sums_row + j + c] = sum[c];
    }
  }
}

// The minimum of the magnitudes' bits less one, so that 0 becomes the largest, over `count` adjacent bf16.
uint16_t min_bits_less_one(const void* from, int64_t count) {
  const hn::ScalableTag<uint16_t> d;
  const auto* p = static_cast<const uint16_t*>(from);
  const auto magnitude = hn::Set(d, uint16_t{0x7fff}), one = hn::Set(d, uint16_t{1});
  auto least = hn::Set(d, uint16_t{0xffff});
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) least = hn::Min(least, hn::Sub(hn::And(hn::LoadU(d, p + i), magnitude), one));
  uint16_t result = hn::GetLane(hn::MinOfLanes(d, least));
  for (; i < count; ++i) result = std::min(result, static_cast<uint16_t>((p[i] & 0x7fff) - 1));
  return result;
}
float magnitude_of(uint16_t bits_less_one) {
  if (bits_less_one == 0xffff) return std::numeric_limits<float>::infinity();  // all numbers are 0
  return std::bit_cast<float>((uint32_t{bits_less_one} + 1) << 16);
}
float exact_min_magnitude(const void* data, int64_t count) {
  const float min = magnitude_of(min_bits_less_one(data, count));
  return min >= kMinExactBF16 ? min : 0;
}

#if RLX_KERNELS_BF16_DOTS

// vdpbf16ps and bfdot take subnormal operands for 0 and flush subnormal sums, whatever the thread's mode is.
// If the operands are all normal and the products large enough, no sum of them is subnormal either: products of bf16
// are exact in f32, so that what a sum cancels to is 0 or at least 2^-24 of the smallest product.
bool bf16_dots_suffice(const BlockProduct& b) {
  constexpr float kMinMagnitude = kMinExactBF16, kMinProduct = 0x1p-92f;
  uint16_t left = 0xffff, right = 0xffff;
  for (int64_t i = 0; i < b.rows; ++i)
    left = std::min(left, min_bits_less_one(at(b.lhs.data, bf16, i * b.lhs.row_stride), b.k));
  const float left_min = magnitude_of(left);
  if (left_min < kMinMagnitude) return false;
  if (b.packed && b.rhs_min_magnitude >= kMinMagnitude) return left_min * b.rhs_min_magnitude >= kMinProduct;
  if (b.packed) {
    right = min_bits_less_one(b.rhs.data, b.layout.packed_bytes(b.k, bf16, b.panel_begin, b.panel_end) / 2);
  } else {
    const int64_t begin = b.layout.begin(b.panel_begin) * b.layout.lanes;
    const int64_t end = std::min(b.layout.begin(b.panel_end) * b.layout.lanes, b.layout.n);
    const bool along_k = b.rhs.row_stride == 1 && b.rhs.col_stride != 1;
    const int64_t runs = along_k ? end - begin : b.k, run = along_k ? b.k : end - begin;
    const int64_t step = along_k ? b.rhs.col_stride : b.rhs.row_stride;
    if ((along_k ? b.rhs.row_stride : b.rhs.col_stride) != 1) return false;
    const void* data = at(b.rhs.data, bf16, begin * b.rhs.col_stride);
    for (int64_t i = 0; i < runs; ++i) right = std::min(right, min_bits_less_one(at(data, bf16, i * step), run));
  }
  const float right_min = magnitude_of(right);
  return right_min >= kMinMagnitude && left_min * right_min >= kMinProduct;
}
#else
bool bf16_dots_suffice(const BlockProduct&) { return false; }
#endif

// How a block is computed; the values of its operands may rule out bf16 dot products.
BlockStrategy strategy_of(const BlockProduct& b, DType accumulator) {
  const BlockStrategy s = plan_block(b, accumulator, kTileRows, RLX_KERNELS_BF16_DOTS && has_bf16_dots());
  return s.bf16_dots && !bf16_dots_suffice(b) ? plan_block(b, accumulator, kTileRows, false) : s;
}
// Whether one tile may span several panels.
bool spans_panels(const BlockProduct& b, const BlockStrategy& s) {
  return b.packed ? !s.widens_panels : s.reads_in_place && !s.dot_per_output;
}

// The right operand's columns of one panel, in the form in which the micro-kernel reads them.
struct RightPanel {
  enum Kind { rows, bf16_pairs, bf16_dots } kind = rows;
  const void* data = nullptr;
  int64_t k_stride = 0;      // of kind rows
  int64_t panel_stride = 0;  // in elements, or in pairs
  DType dtype = f32;         // of kind rows
};

template <class T>
RightPanel right_panel(const BlockProduct& b, int64_t p, int64_t width, const BlockStrategy& plan, T* scratch) {
  const DType accumulator = std::is_same_v<T, double> ? f64 : f32;
  const int64_t column = b.layout.begin(p) * b.layout.lanes, count = std::min(width, b.layout.n - column);
  if (b.packed) {
    const DType dtype = b.rhs.dtype;
    const void* data = static_cast<const char*>(b.rhs.data) + b.layout.packed_bytes(b.k, dtype, b.panel_begin, p);
    const int64_t panel = b.k * width;
    if (plan.bf16_dots) return {RightPanel::bf16_dots, data, 0, (b.k + 1) / 2 * width};
    if (plan.widens_panels) {
      if constexpr (std::is_same_v<T, float>) {
        if (dtype == bf16) widen_pairs(data, b.k, width, scratch);
        else pack_panel(data, dtype, 0, 1, 1, panel, panel, scratch);
      }
      return {RightPanel::rows, scratch, width, 0, accumulator};
    }
    if (dtype == bf16) return {RightPanel::bf16_pairs, data, 0, (b.k + 1) / 2 * width};
    return {RightPanel::rows, data, width, panel, dtype};
  }
  const void* data = at(b.rhs.data, b.rhs.dtype, column * b.rhs.col_stride);
  if (plan.bf16_dots) {
    pack_pairs(static_cast<const BF16*>(data), b.rhs.row_stride, b.rhs.col_stride, b.k, count, width,
               reinterpret_cast<BF16*>(scratch));
    return {RightPanel::bf16_dots, scratch};
  }
  if (plan.reads_in_place && (count == width || plan.dot_per_output))
    return {RightPanel::rows, data, b.rhs.row_stride, width, b.rhs.dtype};
  pack_panel(data, b.rhs.dtype, b.rhs.row_stride, b.rhs.col_stride, b.k, count, width, scratch);
  return {RightPanel::rows, scratch, width, 0, accumulator};
}

// Calls f with a value of the Rhs type of compute_tile: the element type, or the tag of the kind of pairs.
template <class T, class F>
void with_right_type(const RightPanel& panel, F f) {
  if constexpr (std::is_same_v<T, double>) {
    f(double());
  } else {
#if RLX_KERNELS_BF16_DOTS
    if (panel.kind == RightPanel::bf16_dots) return f(BF16Dots());
#endif
    if (panel.kind == RightPanel::bf16_pairs) return f(BF16Pairs());
    if (panel.dtype == f32) return f(float());
    if (panel.dtype == bf16) return f(BF16());
    f(F16());
  }
}

template <class T, class Y>
void multiply(const BlockProduct& b) {
  const DType accumulator = std::is_same_v<T, double> ? f64 : f32;
  const Epilogue& epilogue = *b.epilogue;
  const int64_t lanes = b.layout.lanes;

  const BlockStrategy plan = strategy_of(b, accumulator);

  T* lhs_scratch = static_cast<T*>(b.scratch);
  T* rhs_scratch = lhs_scratch;
  LeftTiles<T> left{};
  if (!plan.bf16_dots) {
    if (!reads_lhs_in_place(b.lhs, accumulator, b.rows))
      rhs_scratch += aligned(b.rows * b.k * int64_t(sizeof(T))) / int64_t(sizeof(T));
    left = left_tiles(b, lhs_scratch);
  }
  const RowTiles row_tiles{b.rows};
  const bool writes_sums = epilogue.alpha == 1 && !epilogue.bias && epilogue.activation == Activation::none &&
                           epilogue.residual == Residual::none && std::is_same_v<T, Y> && b.y_col_stride == 1;
  Y* const y = static_cast<Y*>(b.y);
  const Y* const residual = static_cast<const Y*>(epilogue.residual == Residual::separate   ? b.residual
                                                  : epilogue.residual == Residual::in_place ? b.y
                                                                                            : nullptr);
  const int64_t residual_row = epilogue.residual == Residual::separate ? b.residual_row_stride : b.y_row_stride;

  HWY_ALIGN T bias[kTileRows * kTileVectors * HWY_MAX_BYTES / sizeof(T)];
  HWY_ALIGN T sums[kTileRows * kTileVectors * HWY_MAX_BYTES / sizeof(T)];
  if (!epilogue.bias) std::fill(std::begin(bias), std::end(bias), T(0));  // else each panel's is packed

  int64_t panels = 1;
  for (int64_t p = b.panel_begin; p < b.panel_end; p += panels) {
    const int64_t vectors = b.layout.begin(p + 1) - b.layout.begin(p);
    const int64_t column = b.layout.begin(p) * lanes, panel_width = vectors * lanes;
    panels = 1;
    if (vectors == kTileVectors && spans_panels(b, plan))
      for (panels = max_panels(b.rows); panels > 1; panels /= 2)
        if (p + panels <= b.panel_end && b.layout.begin(p + panels) - b.layout.begin(p) == panels * kTileVectors &&
            (b.packed || column + panels * panel_width <= b.layout.n))
          break;
    const int64_t width = panels * panel_width, cols = std::min(width, b.layout.n - column);
    if (epilogue.bias)
      pack_panel(at(b.bias, epilogue.bias_dtype, column), epilogue.bias_dtype, 0, 1, 1, cols, width, bias);
    const RightPanel right = right_panel(b, p, panel_width, plan, rhs_scratch);

    // The first tiles of this panel prefetch the next panel while they compute.
    const char* next = nullptr;
    int64_t cache_lines_per_step = 0;
    if (b.packed && right.kind == RightPanel::rows && right.dtype == b.rhs.dtype) {
      const int64_t after = p + panels;
      cache_lines_per_step = b.layout.packed_bytes(1, b.rhs.dtype, p, p + 1) / kCacheLine;
      if (after < b.panel_end) {
        next = static_cast<const char*>(b.rhs.data) + b.layout.packed_bytes(b.k, b.rhs.dtype, b.panel_begin, after);
        cache_lines_per_step = b.layout.packed_bytes(1, b.rhs.dtype, after, after + 1) / kCacheLine;
      } else if (static_cast<int64_t>(b.prefetch.size()) >= cache_lines_per_step * kCacheLine * b.k) {
        next = b.prefetch.data();
      } else {
        cache_lines_per_step = 0;
      }
    }
    const int64_t tiles = row_tiles.tiles();
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = row_tiles.begin(t), rows = row_tiles.begin(t + 1) - row;
      Y* to = y + row * b.y_row_stride + column * b.y_col_stride;
      const bool direct = writes_sums && cols == width;
      const char* const prefetch = next;
      int prefetch_cache_lines = 0;
      if (const int64_t prefetching_tiles = std::min(tiles, cache_lines_per_step); t < prefetching_tiles) {
        prefetch_cache_lines = static_cast<int>(cache_lines_per_step * (t + 1) / prefetching_tiles -
                                                cache_lines_per_step * t / prefetching_tiles);
        next += prefetch_cache_lines * kCacheLine * b.k;
      }
      void* out = sums;
      int64_t out_row = width;
      if (direct) out = to, out_row = b.y_row_stride;
      with_right_type<T>(right, [&](auto type) {
        using Rhs = decltype(type);
        if constexpr (!std::is_empty_v<Rhs>)
          if (plan.dot_per_output)
            return dot_products(left, rows, b.k, static_cast<const Rhs*>(right.data), b.rhs.col_stride, cols,
                                static_cast<T*>(out), out_row);
        Tile tile{b.k,
                  left.data + row * left.step,
                  left.row,
                  left.tiled ? rows : left.k_stride,
                  right.data,
                  right.k_stride,
                  right.panel_stride,
                  out,
                  out_row};
        tile.prefetch = prefetch, tile.prefetch_cache_lines = prefetch_cache_lines;
        if (plan.bf16_dots) tile.lhs = at(b.lhs.data, bf16, row * b.lhs.row_stride), tile.lhs_row = b.lhs.row_stride;
        (panels > 1 ? panels_function<T, Rhs>(rows, panels) : tile_function<T, Rhs>(rows, vectors))(tile);
      });
      if (!direct)
        apply_tile_epilogue<T, Y>(
            {sums, rows, width, cols}, epilogue, bias,
            {to, b.y_row_stride, b.y_col_stride,
             residual ? residual + row * residual_row + column * b.y_col_stride : nullptr, residual_row});
    }
  }
}

void multiply_any(const BlockProduct& b) {
  if (b.y_dtype == f64) multiply<double, double>(b);
  else if (b.y_dtype == f32) multiply<float, float>(b);
  else if (b.y_dtype == bf16) multiply<float, BF16>(b);
  else multiply<float, F16>(b);
}

template <class Y>
void epilogue_as(const BlockProduct& b, float* sums, int64_t stride, int64_t row, int64_t rows, int64_t column,
                 int64_t cols) {
  const Epilogue& e = *b.epilogue;
  HWY_ALIGN float bias[32 + HWY_MAX_BYTES / sizeof(float)] = {};
  if (e.bias) pack_panel(at(b.bias, e.bias_dtype, column), e.bias_dtype, 0, 1, 1, cols, 32, bias);
  const int64_t y_column = column * b.y_col_stride;
  Y* const y = static_cast<Y*>(b.y) + row * b.y_row_stride + y_column;
  const Y* residual = nullptr;
  int64_t residual_row = b.y_row_stride;
  if (e.residual == Residual::in_place) residual = y;
  if (e.residual == Residual::separate) {
    residual_row = b.residual_row_stride;
    residual = static_cast<const Y*>(b.residual) + row * residual_row + y_column;
  }
  apply_tile_epilogue<float, Y>({sums, rows, stride, cols}, e, bias,
                                {y, b.y_row_stride, b.y_col_stride, residual, residual_row});
}

void epilogue_any(const BlockProduct& b, float* sums, int64_t stride, int64_t row, int64_t rows, int64_t column,
                  int64_t cols) {
  if (b.y_dtype == bf16) epilogue_as<BF16>(b, sums, stride, row, rows, column, cols);
  else if (b.y_dtype == f16) epilogue_as<F16>(b, sums, stride, row, rows, column, cols);
  else epilogue_as<float>(b, sums, stride, row, rows, column, cols);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {

HWY_EXPORT(exact_min_magnitude);
HWY_EXPORT(lanes_f32);
HWY_EXPORT(lanes_f64);
HWY_EXPORT(pack_some_panels);
HWY_EXPORT(multiply_any);
HWY_EXPORT(epilogue_any);

}  // namespace

int64_t product_lanes(DType accumulator) {
  return accumulator == f64 ? HWY_DYNAMIC_DISPATCH(lanes_f64)() : HWY_DYNAMIC_DISPATCH(lanes_f32)();
}

void pack_panels(const StridedMatrix& matrix, int64_t k, const PanelLayout& layout, int64_t panel_begin,
                 int64_t panel_end, void* out, DType out_dtype) noexcept {
  HWY_DYNAMIC_DISPATCH(pack_some_panels)(matrix, k, layout, panel_begin, panel_end, out, out_dtype);
}

DType packed_dtype_for(DType lhs, DType rhs) {
  if (rhs == f64) return f64;
  return lhs == bf16 && rhs == bf16 && has_bf16_dots() ? bf16 : f32;
}

size_t block_scratch_bytes(int64_t rows, int64_t k, const StridedMatrix& lhs, const StridedMatrix& rhs, bool packed) {
  const DType accumulator = rhs.dtype == f64 ? f64 : f32;
  const auto size = static_cast<int64_t>(byte_size(accumulator));
  int64_t bytes = 0;
  if (!reads_lhs_in_place(lhs, accumulator, rows)) bytes += aligned(rows * k * size);
  if (!packed || rhs.dtype != accumulator)
    bytes += aligned(k * PanelLayout::kVectors * product_lanes(accumulator) * size);
  return static_cast<size_t>(bytes);
}

float bf16_min_magnitude(const void* data, int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(exact_min_magnitude)(data, count);
}

void multiply_block(const BlockProduct& block) noexcept { HWY_DYNAMIC_DISPATCH(multiply_any)(block); }

void apply_epilogue(const BlockProduct& block, float* sums, int64_t stride, int64_t row, int64_t rows, int64_t column,
                    int64_t cols) noexcept {
  HWY_DYNAMIC_DISPATCH(epilogue_any)(block, sums, stride, row, rows, column, cols);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
