// See the header.
#include "backends/cpu/convolution_product.h"

#include <algorithm>
#include <cstring>

#include "base/rounded_up.h"
#include "kernels/conv/im2col.h"
#include "kernels/gemm/gemm.h"

namespace rlx::cpu {
namespace {

using kernels::ConvolutionArgs;

constexpr int64_t kPieceBytes = 1 << 20;  // bytes of a piece of the im2col matrix: half of a usual second-level cache

int64_t size_of(DType t) { return static_cast<int64_t>(byte_size(t)); }

struct Extents {
  int64_t outputs = 1, taps = 1;
  explicit Extents(const ConvolutionArgs& a) {
    for (int d = 0; d < a.spatial; ++d) outputs *= a.out_dims[d], taps *= a.kernel[d];
  }
};
bool is_dense(const int64_t* dims, const int64_t* strides, int spatial) {
  int64_t stride = 1;
  for (int d = spatial - 1; d >= 0; --d) {
    if (dims[d] > 1 && strides[d] != stride) return false;
    stride *= dims[d];
  }
  return true;
}

// ---- a kernel smaller than the result: pieces of an image's outputs ----
/// y[o, outputs] = w[o, channels * taps] * patches[channels * taps, outputs], for each image, group and piece.
class PatchProduct final : public ConvolutionProduct {
 public:
  PatchProduct(const ConvolutionArgs& args, int threads) : a_(args), e_(args) {
    channels_ = a_.in_channels / a_.groups, made_ = a_.out_channels / a_.groups, k_ = channels_ * e_.taps;
    bool is_pointwise = e_.taps == 1 && is_dense(a_.in_dims, a_.x_strides, a_.spatial);
    for (int d = 0; d < a_.spatial; ++d)
      is_pointwise = is_pointwise && a_.stride[d] == 1 && a_.low[d] == 0 && a_.in_dims[d] == a_.out_dims[d];
    reads_x_ = is_pointwise;
    reads_w_ = is_dense(a_.kernel, a_.w_strides, a_.spatial) && (channels_ == 1 || a_.w_in_stride == e_.taps);
    writes_y_ = is_dense(a_.out_dims, a_.y_strides, a_.spatial);

    // Pieces fill the cache, unless there would be fewer than about two for each thread.
    constexpr int64_t kMin = 64, kMultiple = 16;
    piece_ = std::max(kMin, kPieceBytes / (k_ * size_of(a_.dtype)));
    if (threads > 1)
      piece_ = std::min(piece_, std::max(kMin, divided_up(e_.outputs * a_.batch * a_.groups, 2 * threads)));
    piece_ = std::min(e_.outputs, divided_up(piece_, kMultiple) * kMultiple);
    pieces_ = divided_up(e_.outputs, piece_);
    products_[0] = product(piece_);
    if (int64_t tail = e_.outputs % piece_) products_[1] = product(tail);

    patch_bytes_ = reads_x_ ? 0 : aligned(k_ * piece_ * size_of(a_.dtype));
    result_bytes_ = writes_y_ ? 0 : aligned(made_ * piece_ * size_of(a_.out_dtype));
    weight_bytes_ = reads_w_ ? 0 : aligned(a_.out_channels * k_ * size_of(a_.dtype));
    per_thread_ = patch_bytes_ + result_bytes_ +
                  std::max(products_[0].scratch_bytes(), products_[1] ? products_[1].scratch_bytes() : 0);
    per_thread_ = aligned(per_thread_);
    scratch_ = weight_bytes_ + per_thread_ * static_cast<size_t>(threads);
  }
  size_t scratch_bytes() const override { return scratch_; }

  void run(const StepArgs& step, const std::byte* x, const std::byte* w, std::byte* y) const noexcept override {
    ConvolutionArgs call = a_;
    call.x = x;
    if (!reads_w_) {
      flatten(step, w);
      w = step.scratch;
    }
    const double work = static_cast<double>(a_.batch * a_.out_channels * e_.outputs) * static_cast<double>(k_) * 0.02;
    for_ranges(step, a_.batch * a_.groups * pieces_, 1, work, [&](int64_t begin, int64_t end, int64_t slot) {
      std::byte* patches = step.scratch + weight_bytes_ + per_thread_ * static_cast<size_t>(slot);
      std::byte* result = patches + patch_bytes_;
      for (int64_t item = begin; item < end; ++item) {
        const int64_t first = item % pieces_ * piece_, count = std::min(piece_, e_.outputs - first);
        const int64_t group = item / pieces_ % a_.groups, image = item / pieces_ / a_.groups;
        const int64_t channel = group * channels_;
        std::byte* to = y + (image * a_.y_batch_stride + group * made_ * a_.y_channel_stride) * size_of(a_.out_dtype);
        kernels::BatchedGemmOperands operands;
        operands.lhs = w + group * made_ * (reads_w_ ? a_.w_out_stride : k_) * size_of(a_.dtype);
        if (reads_x_) {
          operands.rhs = x + (image * a_.x_batch_stride + channel * a_.x_channel_stride + first) * size_of(a_.dtype);
        } else {
          kernels::convolution_patches(call, image, channel, channels_, first, count, patches);
          operands.rhs = patches;
        }
        operands.y = writes_y_ ? to + first * size_of(a_.out_dtype) : result;
        products_[count < piece_].run(operands, result + result_bytes_, thread_pool());
        if (!writes_y_) scatter(result, first, count, to);
      }
    });
  }

 private:
  kernels::PreparedBatchedGemm product(int64_t count) const {
    kernels::BatchedGemmSpec spec;
    spec.m = made_, spec.n = count, spec.k = k_;
    spec.lhs_m_stride = reads_w_ ? a_.w_out_stride : k_, spec.lhs_k_stride = 1;
    spec.rhs_k_stride = reads_x_ ? a_.x_channel_stride : count, spec.rhs_n_stride = 1;
    spec.y_m_stride = writes_y_ ? a_.y_channel_stride : count, spec.y_n_stride = 1;
    spec.lhs_dtype = spec.rhs_dtype = a_.dtype, spec.y_dtype = a_.out_dtype;
    return kernels::prepare_batched_gemm(spec);
  }

  /// Copies the kernel to scratch memory as [output channels, channels * taps].
  void flatten(const StepArgs& step, const std::byte* w) const {
    const size_t size = byte_size(a_.dtype);
    for_ranges(step, a_.out_channels, 1, static_cast<double>(a_.out_channels * k_),
               [&](int64_t begin, int64_t end, int64_t) {
                 for (int64_t o = begin; o < end; ++o) {
                   std::byte* to = step.scratch + static_cast<size_t>(o * k_) * size;
                   for (int64_t c = 0; c < channels_; ++c) {
                     int64_t tap[kernels::kMaxSpatial]{};
                     int64_t at = o * a_.w_out_stride + c * a_.w_in_stride;
                     for (int64_t t = 0; t < e_.taps; ++t, to += size) {
                       std::memcpy(to, w + at * static_cast<int64_t>(size), size);
                       for (int d = a_.spatial - 1; d >= 0; --d) {
                         at += a_.w_strides[d];
                         if (++tap[d] < a_.kernel[d]) break;
                         at -= a_.kernel[d] * a_.w_strides[d], tap[d] = 0;
                       }
                     }
                   }
                 }
               });
  }

  /// Copies a result [channels, count] to y, whose spatial dims are not dense.
  void scatter(const std::byte* result, int64_t first, int64_t count, std::byte* y) const {
    const size_t size = byte_size(a_.out_dtype);
    for (int64_t o = 0; o < made_; ++o) {
      int64_t out[kernels::kMaxSpatial]{}, at = o * a_.y_channel_stride, rest = first;
      for (int d = a_.spatial - 1; d >= 0; --d) {
        out[d] = rest % a_.out_dims[d];
        rest /= a_.out_dims[d];
        at += out[d] * a_.y_strides[d];
      }
      for (int64_t i = 0; i < count; ++i, result += size) {
        std::memcpy(y + at * static_cast<int64_t>(size), result, size);
        for (int d = a_.spatial - 1; d >= 0; --d) {
          at += a_.y_strides[d];
          if (++out[d] < a_.out_dims[d]) break;
          at -= a_.out_dims[d] * a_.y_strides[d], out[d] = 0;
        }
      }
    }
  }

  ConvolutionArgs a_;
  Extents e_;
  int64_t channels_, made_, k_;               // for a group: input channels, output channels, length of the sums
  bool reads_x_, reads_w_, writes_y_;         // whether x, w and y are used in their own memory, as matrices
  int64_t piece_, pieces_;                    // outputs of a piece; pieces of an image
  kernels::PreparedBatchedGemm products_[2];  // the second for the last, shorter piece
  size_t patch_bytes_, result_bytes_, weight_bytes_, per_thread_, scratch_;
};

// ---- a kernel larger than the result (gradients of weights): pieces of a channel's taps ----
/// y[o, rows] = sum over channels and pieces of w[o, taps] * columns[rows, taps]^T, where rows = batch * outputs.
class ColumnProduct final : public ConvolutionProduct {
 public:
  ColumnProduct(const ConvolutionArgs& args, int threads) : a_(args), e_(args), threads_(threads) {
    rows_ = a_.batch * e_.outputs;
    piece_ = std::min(e_.taps, std::max<int64_t>(32, kPieceBytes / (rows_ * size_of(a_.dtype))));
    tail_ = e_.taps % piece_;
    column_bytes_ = aligned(rows_ * piece_ * size_of(a_.dtype));
    size_t max_scratch = 0;
    for (bool more : {false, true})
      for (bool tail : {false, true})
        if (int64_t taps = tail ? tail_ : piece_; taps > 0) {
          products_[more][tail] = product(taps, more);
          max_scratch = std::max(max_scratch, products_[more][tail].scratch_bytes());
        }
    scratch_ = column_bytes_ + max_scratch;
  }
  size_t scratch_bytes() const override { return scratch_; }

  void run(const StepArgs& step, const std::byte* x, const std::byte* w, std::byte* y) const noexcept override {
    ConvolutionArgs call = a_;
    call.x = x;
    bool more = false;
    for (int64_t channel = 0; channel < a_.in_channels; ++channel) {
      for (int64_t first = 0; first < e_.taps; first += piece_, more = true) {
        const int64_t taps = std::min(piece_, e_.taps - first);
        for_ranges(step, rows_, 1, static_cast<double>(rows_ * taps) * 0.3, [&](int64_t begin, int64_t end, int64_t) {
          kernels::convolution_columns(call, channel, first, taps, begin, end, step.scratch);
        });
        kernels::BatchedGemmOperands operands;
        operands.lhs = w + (channel * a_.w_in_stride + first) * size_of(a_.dtype);
        operands.rhs = step.scratch, operands.y = y;
        products_[more][taps < piece_].run(operands, step.scratch + column_bytes_, thread_pool());
      }
    }
  }

 private:
  kernels::PreparedBatchedGemm product(int64_t taps, bool more) const {
    kernels::BatchedGemmSpec spec;
    spec.m = a_.out_channels, spec.n = rows_, spec.k = taps;
    spec.lhs_m_stride = a_.w_out_stride, spec.lhs_k_stride = 1;
    spec.rhs_k_stride = 1, spec.rhs_n_stride = taps;
    spec.y_m_stride = a_.y_channel_stride, spec.y_n_stride = 1;
    spec.lhs_dtype = spec.rhs_dtype = spec.y_dtype = a_.dtype;
    if (more) spec.epilogue.residual = kernels::Residual::in_place;
    spec.threads = threads_;
    return kernels::prepare_batched_gemm(spec);
  }

  ConvolutionArgs a_;
  Extents e_;
  int threads_;
  int64_t rows_, piece_, tail_;
  kernels::PreparedBatchedGemm products_[2][2];  // [whether it adds to y][whether it is the last, shorter piece]
  size_t column_bytes_, scratch_;
};

bool has_products(const ConvolutionArgs& a) {
  bool low = a.dtype == f16 || a.dtype == bf16;
  return (a.dtype == f32 || a.dtype == f64 || low) && (a.out_dtype == a.dtype || (low && a.out_dtype == f32));
}
bool suits_columns(const ConvolutionArgs& a, const Extents& e) {
  constexpr int64_t kFewOutputs = 8, kManyTaps = 32;
  return a.groups == 1 && (a.dtype == f32 || a.dtype == f64) &&  // sums of pieces are not rounded in between
         a.out_dims[a.spatial - 1] <= kFewOutputs && e.taps >= kManyTaps && e.taps >= 2 * e.outputs &&
         is_dense(a.kernel, a.w_strides, a.spatial) && is_dense(a.out_dims, a.y_strides, a.spatial) &&
         (a.batch == 1 || a.y_batch_stride == e.outputs);
}
bool suits_patches(const ConvolutionArgs& a, const Extents& e) {
  constexpr int64_t kMinMade = 4, kMinSum = 8, kMinOutputs = 4;
  return a.out_channels / a.groups >= kMinMade && a.in_channels / a.groups * e.taps >= kMinSum &&
         e.outputs >= kMinOutputs;
}

}  // namespace

std::unique_ptr<ConvolutionProduct> convolution_product(const ConvolutionArgs& args, int threads) {
  const Extents e(args);
  if (!has_products(args) || args.batch * args.in_channels * args.out_channels * e.outputs * e.taps == 0)
    return nullptr;
  if (suits_columns(args, e)) return std::make_unique<ColumnProduct>(args, threads);
  if (suits_patches(args, e)) return std::make_unique<PatchProduct>(args, threads);
  return nullptr;
}

}  // namespace rlx::cpu
