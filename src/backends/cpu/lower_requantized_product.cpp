// qmatmul and qconv2d: 8-bit products and convolutions whose results are requantized. A convolution is computed as a
// product: a row holds the values that the kernel reads for an output pixel, with the channels innermost. Output rows
// are computed in bands whose data stays in the cache.
#include <bit>
#include <cstring>

#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/memory/aligned_memory.h"
#include "kernels/quant/requantized_product.h"
#include "rlx/ops/quantize.h"

namespace rlx::cpu {
namespace {

using kernels::PackedQuantizedWeights;
using kernels::RequantizedProduct;

/// Estimated nanoseconds of a multiply-add.
double multiply_ns(const PackedQuantizedWeights& w) {
  switch (w.isa) {
    case kernels::Int8DotIsa::tiles: return 0.002;
    case kernels::Int8DotIsa::avx512_vnni: return 0.004;
    case kernels::Int8DotIsa::avx_vnni: return 0.01;
    case kernels::Int8DotIsa::neon_i8mm: return 0.01;
    case kernels::Int8DotIsa::neon_dot: return 0.02;
    case kernels::Int8DotIsa::pairs: break;
  }
  return 0.015;
}

/// Copies move whole pieces of this many bytes. What a copy writes beyond its end is overwritten by the next copy;
/// behind the last one there is room for it.
constexpr int64_t kCopyBytes = 16;

size_t aligned_with_slack(int64_t bytes) { return aligned(static_cast<size_t>(bytes + kCopyBytes)); }

void copy_rounded_up(const std::byte* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; i += kCopyBytes) std::memcpy(to + i, from + i, static_cast<size_t>(kCopyBytes));
}

/// Transposes bytes: to[j * to_row + i] = from[i * from_row + j]. Squares of 8 x 8 are transposed in registers (Warren,
/// Hacker's Delight, 7-3, with bytes instead of bits), the remaining bytes one by one.
void transpose_bytes(const std::byte* from, int64_t from_row, int64_t rows, int64_t columns, std::byte* to,
                     int64_t to_row) {
  const auto swap_blocks = [](uint64_t& a, uint64_t& b, int shift, uint64_t mask) {
    const uint64_t t = ((a >> shift) ^ b) & mask;
    b ^= t, a ^= t << shift;
  };
  const bool in_registers = std::endian::native == std::endian::little;
  for (int64_t i = 0; i < rows; i += 8)
    for (int64_t j = 0; j < columns; j += 8) {
      if (!in_registers || rows - i < 8 || columns - j < 8) {
        for (int64_t r = i; r < std::min(i + 8, rows); ++r)
          for (int64_t c = j; c < std::min(j + 8, columns); ++c) to[c * to_row + r] = from[r * from_row + c];
        continue;
      }
      uint64_t row_bits[8];
      for (int64_t r = 0; r < 8; ++r) std::memcpy(&row_bits[r], from + (i + r) * from_row + j, 8);
      for (int r = 0; r < 4; ++r) swap_blocks(row_bits[r], row_bits[r + 4], 32, 0x00000000ffffffff);
      for (int r : {0, 1, 4, 5}) swap_blocks(row_bits[r], row_bits[r + 2], 16, 0x0000ffff0000ffff);
      for (int r : {0, 2, 4, 6}) swap_blocks(row_bits[r], row_bits[r + 1], 8, 0x00ff00ff00ff00ff);
      for (int64_t c = 0; c < 8; ++c) std::memcpy(to + (j + c) * to_row + i, &row_bits[c], 8);
    }
}

/// The weights of each group as [k, n]. Constant weights are packed once, when lowering; others are packed in each run,
/// into scratch.
struct Weights {
  PackedQuantizedWeights shape;
  int64_t groups;
  size_t group_bytes;
  std::shared_ptr<kernels::AlignedMemory> packed = nullptr;  ///< null: the weights are not constant

  Weights(PackedQuantizedWeights of_group, int64_t count)
      : shape(of_group), groups(count), group_bytes(aligned(kernels::packed_quantized_bytes(shape))) {}
  /// Bytes of scratch for weights that are packed in each run.
  size_t scratch_bytes() const { return packed ? 0 : group_bytes * static_cast<size_t>(groups); }
  PackedQuantizedWeights of(int64_t group, const std::byte* scratch) const {
    PackedQuantizedWeights w = shape;
    w.packed = (packed ? packed->get() : reinterpret_cast<const char*>(scratch)) + group * int64_t(group_bytes);
    return w;
  }
  char* keep() {
    packed = std::make_shared<kernels::AlignedMemory>(kernels::aligned_memory(scratch_bytes()));
    return packed->get();
  }
};

template <class A>
RequantizedProduct product_of(const LoweringContext& c, const A& a) {
  RequantizedProduct p;
  p.dtype = c.results[0].dtype;
  p.x_zero_point = static_cast<int32_t>(a.x_zero_point), p.y_zero_point = static_cast<int32_t>(a.out_zero_point);
  p.multiplier = static_cast<float>(a.multiplier);
  return p;
}
template <class A>
PackedQuantizedWeights weights_of(const LoweringContext& c, const A& a, int64_t k, int64_t n) {
  PackedQuantizedWeights w;
  w.dtype = c.operands[1].dtype, w.zero_point = static_cast<int32_t>(a.w_zero_point), w.k = k, w.n = n;
  return w;
}

/// A convolution of one group, over a band of output rows.
struct Convolution {
  int64_t batch, channels, height, width;  ///< channels is the count of input channels of a group
  int64_t outputs, out_height, out_width;  ///< outputs is the count of output channels of a group
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t groups, band;  ///< band is the number of output rows in a band

  Convolution(const LoweringContext& c, const QConv2dAttrs& a) {
    const Shape &x = c.operands[0].shape, &w = c.operands[1].shape, &y = c.results[0].shape;
    groups = a.groups;
    batch = x[0], channels = w[1], height = x[2], width = x[3];
    outputs = w[0] / groups, out_height = y[2], out_width = y[3];
    for (size_t d = 0; d < 2; ++d) {
      kernel[d] = w[d + 2];
      stride[d] = a.stride.empty() ? 1 : a.stride[d];
      padding[d] = a.padding.empty() ? 0 : a.padding[d];
      dilation[d] = a.dilation.empty() ? 1 : a.dilation[d];
    }
    constexpr int64_t kBandPixels = 256;
    band = std::clamp<int64_t>(kBandPixels / std::max<int64_t>(1, out_width), 1, std::max<int64_t>(1, out_height));
  }
  int64_t depth() const { return channels * kernel[0] * kernel[1]; }
  int64_t bands() const { return divided_up(out_height, band); }
  int64_t band_pixels() const { return band * out_width; }
  int64_t padded_width() const { return width + 2 * padding[1]; }
  int64_t band_height() const { return (band - 1) * stride[0] + (kernel[0] - 1) * dilation[0] + 1; }
  size_t image_bytes() const { return aligned_with_slack(band_height() * padded_width() * channels); }
  size_t rows_bytes() const { return aligned_with_slack(band_pixels() * depth()); }
  size_t results_bytes() const { return aligned(static_cast<size_t>(band_pixels() * outputs)); }
  size_t product_bytes() const {
    PackedQuantizedWeights w;
    w.k = depth(), w.n = outputs;
    return kernels::requantized_product_scratch_bytes(w, band_pixels());
  }
  size_t scratch_bytes() const { return image_bytes() + rows_bytes() + results_bytes() + product_bytes(); }

  int64_t kernel_size() const { return outputs * depth(); }
  /// Packs the kernels of all groups as [k, outputs], with the channels innermost. `transposed` is scratch for one
  /// group.
  void pack(const Weights& weights, const std::byte* w, char* out, std::byte* transposed) const {
    const int64_t taps = kernel[0] * kernel[1];
    for (int64_t g = 0; g < groups; ++g, w += kernel_size(), out += weights.group_bytes) {
      for (int64_t o = 0; o < outputs; ++o)
        for (int64_t i = 0; i < channels; ++i)
          for (int64_t t = 0; t < taps; ++t)
            transposed[(o * taps + t) * channels + i] = w[(o * channels + i) * taps + t];
      kernels::pack_quantized(weights.shape, transposed, 1, depth(), out);
    }
  }

  /// Copies the input rows that a band reads, with their padding, channels innermost.
  void gather_image(const std::byte* x, int64_t first_row, int64_t rows, std::byte zero, std::byte* out) const {
    for (int64_t r = 0; r < rows; ++r, out += padded_width() * channels) {
      const int64_t y = first_row + r;
      if (y < 0 || y >= height) {
        std::fill_n(out, padded_width() * channels, zero);
        continue;
      }
      std::fill_n(out, padding[1] * channels, zero);
      std::fill_n(out + (padding[1] + width) * channels, padding[1] * channels, zero);
      std::byte* to = out + padding[1] * channels;
      transpose_bytes(x + y * width, height * width, channels, width, to, channels);
    }
  }
  void gather_rows(const std::byte* image, int64_t rows, std::byte* out) const {
    const bool adjacent = dilation[1] == 1;
    const int64_t row_bytes = padded_width() * channels, run = adjacent ? kernel[1] * channels : channels;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t column = 0; column < out_width; ++column)
        for (int64_t i = 0; i < kernel[0]; ++i) {
          const std::byte* from = image + (r * stride[0] + i * dilation[0]) * row_bytes + column * stride[1] * channels;
          for (int64_t j = 0; j < (adjacent ? 1 : kernel[1]); ++j, out += run)
            copy_rounded_up(from + j * dilation[1] * channels, run, out);
        }
  }
  void scatter_results(const std::byte* from, int64_t first_row, int64_t rows, std::byte* y) const {
    transpose_bytes(from, outputs, rows * out_width, outputs, y + first_row * out_width, out_height * out_width);
  }
};

}  // namespace

Prepared lower_qmatmul(const LoweringContext& c) {
  const auto& a = c.attrs<QMatmulAttrs>();
  const View& x = c.operands[0];
  const int64_t k = c.operands[1].shape[0], n = c.operands[1].shape[1];
  RequantizedProduct p = product_of(c, a);
  p.rows = 1;
  for (size_t d = 0; d + 1 < x.shape.size(); ++d) p.rows *= x.shape[d];
  p.x_stride = k, p.y_stride = n;
  Weights weights(weights_of(c, a, k, n), 1);
  if (const Tensor* w = c.bound(1)) kernels::pack_quantized(weights.shape, w->data(), n, 1, weights.keep());
  const size_t own = weights.scratch_bytes(),
               per_thread = aligned(kernels::requantized_product_scratch_bytes(weights.shape, p.rows));
  const bool by_columns = c.operands.size() > 3;
  const double work_ns =
      static_cast<double>(p.rows * n * k) * multiply_ns(weights.shape) + static_cast<double>(n * k) * 0.02;
  return make_step(text_of("quantized ", p.rows, "x", k, "x", n), own + per_thread * static_cast<size_t>(c.threads),
                   [=](const StepArgs& args) {
                     RequantizedProduct call = p;
                     call.w = weights.of(0, args.scratch);
                     if (own > 0)
                       kernels::pack_quantized(call.w, args.in(1), n, 1, reinterpret_cast<char*>(args.scratch));
                     call.x = args.in(0), call.bias = args.in<int32_t>(2), call.y = args.out();
                     if (by_columns) call.multipliers = args.in<float>(3);
                     const auto scratch_of = [&](int64_t task) {
                       return args.scratch + own + per_thread * static_cast<size_t>(task);
                     };
                     // If rows are few, columns are split instead, and each thread packs all rows.
                     if (p.rows < 64 * args.width)
                       return for_ranges(args, n, RequantizedProduct::kColumns, work_ns,
                                         [&](int64_t begin, int64_t end, int64_t task) {
                                           kernels::multiply_packed_quantized(call, begin, end, scratch_of(task));
                                         });
                     for_ranges(args, p.rows, 32, work_ns, [&](int64_t begin, int64_t end, int64_t task) {
                       RequantizedProduct some = call;
                       some.rows = end - begin;
                       some.x = args.in<std::byte>(0) + begin * k, some.y = args.out<std::byte>() + begin * n;
                       kernels::multiply_packed_quantized(some, 0, n, scratch_of(task));
                     });
                   });
}

std::string when_qconv2d(const Question& q) {
  const Type& w = q.operands[1];
  for (const Dim& d : w.dims)
    if (!d.is_static()) return text_of("kernels of ", w, " are not known in size");
  const int64_t outputs = w.dims[0].value() / q.node.attrs.as<QConv2dAttrs>().groups;
  if (outputs < 4) return text_of("groups of ", outputs, " output channels leave most of a product's columns empty");
  return "";
}

Prepared lower_qconv2d(const LoweringContext& c) {
  const auto& a = c.attrs<QConv2dAttrs>();
  const Convolution conv(c, a);
  RequantizedProduct p = product_of(c, a);
  p.x_stride = conv.depth(), p.y_stride = conv.outputs;
  Weights weights(weights_of(c, a, conv.depth(), conv.outputs), conv.groups);
  size_t transposed = aligned(static_cast<size_t>(conv.kernel_size()));
  if (const Tensor* w = c.bound(1)) {
    std::vector<std::byte> one(transposed);
    conv.pack(weights, w->data(), weights.keep(), one.data());
    transposed = 0;
  }
  const size_t packed = weights.scratch_bytes(), own = packed + transposed, per_thread = conv.scratch_bytes();
  const bool by_columns = c.operands.size() > 3;
  const int64_t tasks = conv.batch * conv.groups * conv.bands();
  const double work_ns =
      static_cast<double>(tasks * conv.band_pixels()) *
      (static_cast<double>(conv.kernel_size()) * multiply_ns(weights.shape) + static_cast<double>(conv.outputs));
  return make_step(
      text_of("quantized, convolved: ", conv.band_pixels(), "x", conv.depth(), "x", conv.outputs),
      own + per_thread * static_cast<size_t>(c.threads), [=](const StepArgs& args) {
        if (own > 0)
          conv.pack(weights, args.in<std::byte>(1), reinterpret_cast<char*>(args.scratch), args.scratch + packed);
        for_ranges(args, tasks, 1, work_ns, [&](int64_t begin, int64_t end, int64_t task) {
          std::byte* image = args.scratch + own + per_thread * static_cast<size_t>(task);
          std::byte *rows = image + conv.image_bytes(), *results = rows + conv.rows_bytes();
          for (int64_t i = begin; i < end; ++i) {
            const int64_t band = i % conv.bands(), plane = i / conv.bands();
            const int64_t g = plane % conv.groups;
            const int64_t first = band * conv.band, height = std::min(conv.band, conv.out_height - first);
            const std::byte* x = args.in<std::byte>(0) + plane * conv.channels * conv.height * conv.width;
            conv.gather_image(x, first * conv.stride[0] - conv.padding[0], conv.band_height(),
                              static_cast<std::byte>(p.x_zero_point), image);
            conv.gather_rows(image, height, rows);
            RequantizedProduct call = p;
            call.w = weights.of(g, args.scratch);
            call.rows = height * conv.out_width, call.x = rows, call.y = results;
            call.bias = args.in<int32_t>(2) + g * conv.outputs;
            if (by_columns) call.multipliers = args.in<float>(3) + g * conv.outputs;
            kernels::multiply_packed_quantized(call, 0, conv.outputs, results + conv.results_bytes());
            conv.scatter_results(results, first, height,
                                 args.out<std::byte>() + plane * conv.outputs * conv.out_height * conv.out_width);
          }
        });
      });
}

}  // namespace rlx::cpu
