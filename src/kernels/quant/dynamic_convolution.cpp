// See the header. Quantized values lie in planes (dynamic_product.h): [pixels, channels] each. A row holds the taps of
// the kernel in row-major order, and of each the channels of a group; taps along the last dim whose pixels are
// neighbours are copied together.
#include "kernels/quant/dynamic_convolution.h"

#include <algorithm>
#include <cstring>

#include "base/rounded_up.h"
#include "kernels/quant/int8_tiles.h"

namespace rlx::kernels {
namespace {

// Rows of a block take so many bytes, so that they stay in the second-level cache while all columns are computed.
constexpr int64_t kBlockBytes = 256 << 10;
constexpr int64_t kMaxBlockRows = 384;
/// Quantized values are copied in whole pieces. The next copy overwrites what one writes beyond its end; behind the
/// last one, and behind what is read, there is room for it.
constexpr int64_t kCopyBytes = 32;

int64_t product_of(const int64_t* dims, int spatial) {
  int64_t n = 1;
  for (int d = 0; d < spatial; ++d) n *= dims[d];
  return n;
}
int64_t taps_of(const DynamicConvolution& c) { return product_of(c.shape.kernel, c.shape.spatial); }
/// Of a row, in a plane, without padding.
int64_t plane_row_bytes(const DynamicConvolution& c) { return c.weights.k * quantized_value_bytes(c.weights); }
size_t group_bytes(const DynamicConvolution& c) { return aligned(int8_weights_bytes(c.weights)); }
/// Of an image, in a plane.
size_t quantized_plane_bytes(const DynamicConvolution& c) {
  if (c.by_tiles) {
    const int64_t pixels = c.inputs() * c.shape.in_channels;
    return aligned(static_cast<size_t>(c.image.reads_x() ? pixels : c.image.copy_bytes()));
  }
  return aligned(static_cast<size_t>(c.inputs() * c.shape.in_channels * quantized_value_bytes(c.weights) + kCopyBytes));
}

void copy_values(const std::byte* from, int64_t bytes, std::byte* to) {
  for (int64_t i = 0; i < bytes; i += kCopyBytes) std::memcpy(to + i, from + i, static_cast<size_t>(kCopyBytes));
}

/// Copies what the outputs [first, first + count) read of an image to rows that are `row_step` bytes apart.
class ImageRows {
 public:
  ImageRows(const DynamicConvolution& c, int64_t group, int plane, const std::byte* values)
      : a_(c.shape), bytes_(quantized_value_bytes(c.weights)), channel_bytes_(c.channels() * bytes_),
        pixel_bytes_(a_.in_channels * bytes_), zero_(quantized_zero(c.weights, plane)),
        values_(values + static_cast<size_t>(plane) * quantized_plane_bytes(c) + group * channel_bytes_) {
    const int last = a_.spatial - 1;
    is_joined_ = a_.groups == 1 && a_.rhs_dilation[last] == 1;
    taps_ = a_.kernel[last], outer_taps_ = product_of(a_.kernel, last);
  }

  template <class Row>
  void copy(int64_t first, int64_t count, Row row) const {
    const int last = a_.spatial - 1;
    int64_t out[kMaxSpatial]{}, rest = first;
    for (int d = last; d >= 0; --d) out[d] = rest % a_.out_dims[d], rest /= a_.out_dims[d];
    for (int64_t i = 0; i < count; ++i) {
      row(i, [&](std::byte* to) { copy_output(out, to); });
      for (int d = last; d >= 0; --d) {
        if (++out[d] < a_.out_dims[d]) break;
        out[d] = 0;
      }
    }
  }

 private:
  void copy_output(const int64_t* out, std::byte* to) const {
    const int last = a_.spatial - 1;
    const int64_t column = out[last] * a_.stride[last] - a_.low[last], extent = a_.in_dims[last];
    int64_t tap[kMaxSpatial]{};
    for (int64_t t = 0; t < outer_taps_; ++t) {
      int64_t pixel = 0;
      bool is_inside = true;
      for (int d = 0; d < last; ++d) {
        const int64_t at = out[d] * a_.stride[d] + tap[d] * a_.rhs_dilation[d] - a_.low[d];
        is_inside = is_inside && at >= 0 && at < a_.in_dims[d];
        pixel = pixel * a_.in_dims[d] + at;
      }
      const std::byte* row = values_ + (is_inside ? pixel * extent * pixel_bytes_ : 0);
      if (is_joined_) {
        const int64_t begin = is_inside ? std::clamp<int64_t>(-column, 0, taps_) : taps_;
        const int64_t end = std::clamp<int64_t>(extent - column, begin, taps_);
        to = zeros(begin, to);
        if (end > begin) copy_values(row + (column + begin) * pixel_bytes_, (end - begin) * pixel_bytes_, to);
        to = zeros(taps_ - end, to + (end - begin) * pixel_bytes_);
      } else {
        for (int64_t k = 0; k < taps_; ++k) {
          const int64_t at = column + k * a_.rhs_dilation[last];
          if (is_inside && at >= 0 && at < extent) {
            copy_values(row + at * pixel_bytes_, channel_bytes_, to);
            to += channel_bytes_;
          } else to = zeros(1, to);
        }
      }
      for (int d = last - 1; d >= 0; --d) {
        if (++tap[d] < a_.kernel[d]) break;
        tap[d] = 0;
      }
    }
  }
  /// Of so many taps.
  std::byte* zeros(int64_t taps, std::byte* to) const {
    if (taps > 0) std::memset(to, zero_, static_cast<size_t>(taps * channel_bytes_));
    return to + taps * channel_bytes_;
  }

  const ConvolutionArgs& a_;
  int64_t bytes_, channel_bytes_, pixel_bytes_;
  uint8_t zero_;
  const std::byte* values_;
  bool is_joined_;
  int64_t taps_, outer_taps_;
};

/// What is exclusive-ored to signed bytes of an image that is read where it lies.
uint8_t flip_of(const DynamicConvolution& c) { return c.weights.isa == Int8DotIsa::tiles ? 0 : 0x80; }
/// Bytes of the sums behind the weights that tiles would read, of a multiple of 32 channels.
size_t tile_sums_bytes(const DynamicConvolution& c) {
  if (c.weights.isa == Int8DotIsa::tiles) return 0;
  return static_cast<size_t>(c.image.panels() * TileImage::kColumns) * sizeof(int32_t);
}
/// Writes 128 times the sums of each channel's weights, modulo 2^32.
void write_tile_sums(const DynamicConvolution& c, const int8_t* weights, char* out) {
  const ConvolutionArgs& a = c.shape;
  std::memset(out, 0, tile_sums_bytes(c));
  for (int64_t o = 0; o < a.out_channels; ++o) {
    uint32_t sum = 0;
    int64_t tap[kMaxSpatial]{};
    for (int64_t t = 0; t < taps_of(c); ++t) {
      const int8_t* from = weights + o * a.w_out_stride;
      for (int d = 0; d < a.spatial; ++d) from += tap[d] * a.w_strides[d];
      for (int64_t i = 0; i < a.in_channels; ++i) sum += static_cast<uint32_t>(int32_t{from[i * a.w_in_stride]});
      for (int d = a.spatial - 1; d >= 0; --d) {
        if (++tap[d] < a.kernel[d]) break;
        tap[d] = 0;
      }
    }
    sum *= 128;
    std::memcpy(out + static_cast<size_t>(o) * sizeof sum, &sum, sizeof sum);
  }
}

void fill_rows(const DynamicConvolution& c, const ConvolutionBlock& b, int64_t first, int64_t count, std::byte* rows,
               std::byte* one_row) {
  const Int8Weights& w = c.weights;
  for (int plane = 0; plane < quantized_planes(w); ++plane) {
    const ImageRows from(c, b.group, plane, b.values);
    const int64_t bytes = plane_row_bytes(c);
    from.copy(first, count, [&](int64_t i, auto copy_to) {
      const QuantizedRow row = quantized_row(w, rows, c.rows_at_once, i);
      *row.scale = b.scale.scale;
      std::byte* to = plane == 0 ? row.values : row.low;
      if (row.piece >= bytes && row.step == row.piece) {  // the next row overwrites what is copied beyond the end
        copy_to(to);
        std::memset(to + bytes, 0, static_cast<size_t>(row.piece - bytes));
        return;
      }
      copy_to(one_row);
      for (int64_t at = 0; at < bytes; at += row.piece, to += row.step)
        std::memcpy(to, one_row + at, static_cast<size_t>(std::min(row.piece, bytes - at)));
    });
  }
}

/// Transposes: to[j * to_row + i] = from[i * from_row + j], in squares that stay in the first-level cache.
template <class T>
void transpose_square_by_square(const T* from, int64_t from_row, int64_t rows, int64_t columns, T* to, int64_t to_row) {
  constexpr int64_t kSide = 16;
  for (int64_t i = 0; i < rows; i += kSide)
    for (int64_t j = 0; j < columns; j += kSide)
      for (int64_t c = j; c < std::min(j + kSide, columns); ++c)
        for (int64_t r = i; r < std::min(i + kSide, rows); ++r) to[c * to_row + r] = from[r * from_row + c];
}

/// As convolve_block(), by tiles.
void convolve_by_tiles(const DynamicConvolution& c, const ConvolutionBlock& b) {
  const int64_t tiles = c.rows_at_once / 16, first = b.block * tiles;
  Int8TilesCall call;
  call.values = reinterpret_cast<const char*>(b.values);
  call.is_unsigned = b.scale.is_one_plane && c.weights.x_largest > 127;
  if (!b.scale.is_one_plane) call.low = call.values + quantized_plane_bytes(c);
  if (tile_sums_bytes(c) > 0)
    call.column_sums = reinterpret_cast<const int32_t*>(b.packed + static_cast<size_t>(c.image.weights_bytes()));
  call.weights = b.packed, call.w_scale = b.w_scale, call.bias = b.bias, call.residual = b.residual;
  call.dtype = c.is_narrow ? bf16 : f32, call.scale = b.scale.scale, call.y = b.y, call.channels = c.shape.out_channels,
  call.activation = c.activation;
  const auto all = static_cast<int64_t>(c.image.tiles().size());
  convolve_int8_tiles(c.image, call, first, std::min(all, first + tiles), b.begin / TileImage::kColumns,
                      divided_up(b.end, TileImage::kColumns));
}

}  // namespace

DynamicConvolution::DynamicConvolution(const ConvolutionArgs& args, bool are_channels_last, int32_t x_largest,
                                       Int8DotIsa isa)
    : shape(args), channels_last(are_channels_last) {
  weights.k = channels() * product_of(args.kernel, args.spatial);
  weights.n = args.out_channels / args.groups;
  weights.isa = isa, weights.x_largest = x_largest;
  // How weights are packed does not depend on how many images there are, be it none.
  ConvolutionArgs of_one = args;
  of_one.batch = std::max<int64_t>(1, args.batch);
  by_tiles =
      (isa == Int8DotIsa::tiles || isa == Int8DotIsa::avx512_vnni) && channels_last && TileImage::supports(of_one);
  if (by_tiles) {
    // What a block reads and writes stays in the second-level cache while all columns are computed.
    constexpr int64_t kTiledBlockBytes = 512 << 10;
    image = TileImage(of_one, 1, true);
    const int64_t of_pixel = image.stride() * quantized_planes(weights) + args.out_channels * 4;
    rows_at_once = std::max(kQuantizedRows, kTiledBlockBytes / of_pixel / kQuantizedRows * kQuantizedRows);
    const auto rows = static_cast<int64_t>(image.tiles().size()) * 16;
    rows_at_once = rounded_up(divided_up(rows, divided_up(rows, rows_at_once)), kQuantizedRows);
    return;
  }
  const int64_t row_bytes =
      std::max<int64_t>(1, weights.k * quantized_value_bytes(weights) * quantized_planes(weights));
  rows_at_once = std::clamp(kBlockBytes / row_bytes, kQuantizedRows, kMaxBlockRows) / kQuantizedRows * kQuantizedRows;
  // Blocks of nearly equal size.
  const int64_t pixels = std::max<int64_t>(1, outputs());
  rows_at_once = rounded_up(divided_up(pixels, divided_up(pixels, rows_at_once)), kQuantizedRows);
}

int64_t DynamicConvolution::inputs() const { return product_of(shape.in_dims, shape.spatial); }
int64_t DynamicConvolution::outputs() const { return product_of(shape.out_dims, shape.spatial); }
int64_t DynamicConvolution::tile_rows() const { return static_cast<int64_t>(image.tiles().size()) * 16; }
int64_t DynamicConvolution::blocks() const { return divided_up(by_tiles ? tile_rows() : outputs(), rows_at_once); }
int64_t DynamicConvolution::pieces() const { return by_tiles && !image.reads_x() ? image.rows() : inputs(); }

bool DynamicConvolution::reads_in_place() const {
  if (shape.groups != 1 || weights.k != shape.in_channels || weights.k % 2 != 0 || weights.isa != Int8DotIsa::pairs)
    return false;
  for (int d = 0; d < shape.spatial; ++d)
    if (shape.stride[d] != 1 || shape.low[d] != 0 || shape.in_dims[d] != shape.out_dims[d]) return false;
  return true;
}

size_t convolution_weights_bytes(const DynamicConvolution& c) {
  if (c.by_tiles) return static_cast<size_t>(c.image.weights_bytes()) + tile_sums_bytes(c);
  return group_bytes(c) * static_cast<size_t>(c.shape.groups);
}
size_t convolution_packing_bytes(const DynamicConvolution& c) {
  return taps_of(c) == 1 || c.by_tiles ? 0 : aligned(static_cast<size_t>(c.weights.k * c.weights.n));
}

void pack_convolution_weights(const DynamicConvolution& c, const int8_t* weights, char* out,
                              std::byte* scratch) noexcept {
  if (c.by_tiles) {
    c.image.pack_weights(weights, out);
    if (tile_sums_bytes(c) > 0) write_tile_sums(c, weights, out + static_cast<size_t>(c.image.weights_bytes()));
    return;
  }
  const ConvolutionArgs& a = c.shape;
  const int64_t k = c.weights.k, n = c.weights.n, channels = c.channels(), taps = taps_of(c);
  for (int64_t g = 0; g < a.groups; ++g, out += group_bytes(c)) {
    const int8_t* group = weights + g * n * a.w_out_stride;
    if (taps == 1) {
      pack_int8_weights(c.weights, group, a.w_in_stride, a.w_out_stride, out);
      continue;
    }
    auto* to = reinterpret_cast<int8_t*>(scratch);
    for (int64_t o = 0; o < n; ++o) {
      int64_t tap[kMaxSpatial]{};
      for (int64_t t = 0; t < taps; ++t) {
        const int8_t* from = group + o * a.w_out_stride;
        for (int d = 0; d < a.spatial; ++d) from += tap[d] * a.w_strides[d];
        for (int64_t i = 0; i < channels; ++i) *to++ = from[i * a.w_in_stride];
        for (int d = a.spatial - 1; d >= 0; --d) {
          if (++tap[d] < a.kernel[d]) break;
          tap[d] = 0;
        }
      }
    }
    pack_int8_weights(c.weights, reinterpret_cast<const int8_t*>(scratch), 1, k, out);
  }
}

size_t quantized_image_bytes(const DynamicConvolution& c) {
  if (c.reads_in_place()) return quantized_rows_bytes(c.weights, c.inputs());
  return quantized_plane_bytes(c) * static_cast<size_t>(quantized_planes(c.weights));
}

ImageRange image_range(const DynamicConvolution& c, const void* data, int64_t first, int64_t count) noexcept {
  if (c.is_narrow) {
    const uint32_t bits = bf16_range(static_cast<const BF16*>(data) + first, count);
    return {bits & ~1u, (bits & 1u) != 0};
  }
  const auto* x = static_cast<const float*>(data) + first;
  const bool is_asked = c.by_tiles && c.weights.x_largest > 127 && c.weights.x_largest <= 255;
  return {largest_magnitude(x, count), is_asked && std::any_of(x, x + count, [](float v) { return v < 0; })};
}
ImageScale image_scale(const DynamicConvolution& c, const ImageRange& range) {
  const bool fits_bytes = c.by_tiles && c.weights.x_largest <= 255 && !range.has_negative;
  return {dynamic_scale(range.largest, c.weights.x_largest), quantized_planes(c.weights) == 1 || fits_bytes};
}

void quantize_image(const DynamicConvolution& c, const void* data, int64_t first, int64_t last, ImageScale image_scale,
                    std::byte* values) noexcept {
  const Int8Weights& w = c.weights;
  const float scale = image_scale.scale;
  const int64_t channels = c.shape.in_channels, pixels = c.inputs(), bytes = quantized_value_bytes(w);
  std::byte *high = values, *low = image_scale.is_one_plane ? nullptr : values + quantized_plane_bytes(c);
  const auto* x = static_cast<const float*>(data);
  if (c.by_tiles) {
    auto* const copy = reinterpret_cast<char*>(high);
    auto* const low_copy = reinterpret_cast<char*>(low);
    const bool is_unsigned = w.x_largest > 127 && !low;
    const uint8_t flip = is_unsigned ? 0 : flip_of(c);
    const auto quantize = [&](int64_t from, int64_t count, char* to) {
      char* const to_low = low ? low_copy + (to - copy) : nullptr;
      const DType dtype = c.is_narrow ? bf16 : f32;
      const auto* numbers = static_cast<const std::byte*>(data) + from * static_cast<int64_t>(byte_size(dtype));
      quantize_bytes(dtype, numbers, count, scale, is_unsigned, flip, to, to_low);
    };
    if (c.image.reads_x()) return quantize(first * channels, (last - first) * channels, copy + first * channels);
    c.image.write_rows(first, last, flip, copy, quantize);
    if (low) c.image.write_rows(first, last, 0, low_copy, [](int64_t, int64_t, char*) {});  // its padding
    return;
  }
  if (c.reads_in_place()) {
    const QuantizedRow row = quantized_row(w, values, pixels, 0);
    std::fill(row.scale + first, row.scale + last, scale);
    high = row.values;
  }
  if (c.channels_last) {
    const int64_t at = first * channels;
    return quantize_numbers(w, x + at, (last - first) * channels, scale, high + at * bytes, low ? low + at : nullptr);
  }
  constexpr int64_t kSide = 64;
  alignas(64) std::byte square[2 * kSide * kSide], low_square[kSide * kSide];
  for (int64_t p = first; p < last; p += kSide)
    for (int64_t channel = 0; channel < channels; channel += kSide) {
      const int64_t columns = std::min(kSide, last - p), rows = std::min(kSide, channels - channel);
      for (int64_t i = 0; i < rows; ++i)
        quantize_numbers(w, x + (channel + i) * pixels + p, columns, scale, square + i * kSide * bytes,
                         low ? low_square + i * kSide : nullptr);
      const int64_t at = p * channels + channel;
      if (bytes == 2)
        transpose_square_by_square(reinterpret_cast<const int16_t*>(square), kSide, rows, columns,
                                   reinterpret_cast<int16_t*>(high) + at, channels);
      else transpose_square_by_square(square, kSide, rows, columns, high + at, channels);
      if (low) transpose_square_by_square(low_square, kSide, rows, columns, low + at, channels);
    }
}

size_t convolution_block_bytes(const DynamicConvolution& c) {
  size_t bytes = 0;
  if (c.by_tiles) return bytes;
  if (!c.reads_in_place())
    bytes += aligned(quantized_rows_bytes(c.weights, c.rows_at_once) + kCopyBytes) +
             aligned(static_cast<size_t>(plane_row_bytes(c) + kCopyBytes));
  if (!c.channels_last) bytes += 2 * aligned(static_cast<size_t>(c.rows_at_once * c.weights.n) * sizeof(float));
  return bytes;
}

void convolve_block(const DynamicConvolution& c, const ConvolutionBlock& b, std::byte* scratch) noexcept {
  if (c.by_tiles) return convolve_by_tiles(c, b);
  const int64_t first = b.block * c.rows_at_once, count = std::min(c.rows_at_once, c.outputs() - first);
  const int64_t n = c.weights.n, channel = b.group * n, outputs = c.outputs(), columns = b.end - b.begin;
  DynamicProduct p;
  p.w = c.weights, p.w.packed = b.packed + static_cast<size_t>(b.group) * group_bytes(c);
  p.w_scale = b.w_scale + channel, p.bias = b.bias ? b.bias + channel : nullptr;
  p.activation = c.activation, p.residual_first = true;
  int64_t row = 0;
  if (c.reads_in_place()) {
    p.rows = outputs, p.x = b.values, row = first;
  } else {
    std::byte* one_row = scratch + aligned(quantized_rows_bytes(c.weights, c.rows_at_once) + kCopyBytes);
    fill_rows(c, b, first, count, scratch, one_row);
    p.rows = c.rows_at_once, p.x = scratch;
    scratch = one_row + aligned(static_cast<size_t>(plane_row_bytes(c) + kCopyBytes));
  }
  auto* const y = static_cast<float*>(b.y);
  const auto* const given = static_cast<const float*>(b.residual);
  if (c.channels_last) {
    const int64_t stride = c.shape.out_channels, at = (first - row) * stride + channel;
    p.y = y + at, p.residual = given ? given + at : nullptr, p.y_stride = p.residual_stride = stride;
    return multiply_quantized_rows(p, row, row + count, b.begin, b.end);
  }
  // Residual and results are transposed through blocks that have the channels innermost.
  auto* const results = reinterpret_cast<float*>(scratch);
  float* const residual = results + aligned(static_cast<size_t>(c.rows_at_once * n) * sizeof(float)) / sizeof(float);
  const int64_t at = (channel + b.begin) * outputs + first;
  if (given) transpose_square_by_square(given + at, outputs, columns, count, residual + b.begin, n);
  p.y = results - row * n, p.residual = given ? residual - row * n : nullptr, p.y_stride = p.residual_stride = n;
  multiply_quantized_rows(p, row, row + count, b.begin, b.end);
  transpose_square_by_square(results + b.begin, n, count, columns, y + at, outputs);
}

}  // namespace rlx::kernels
