// dynamic_quantize_matmul: products of f32 or bf16 in 8-bit integers. Weights that are bound are packed once; others,
// which the user's own graph computes, in each run.
#include "backends/cpu/lowerings.h"
#include "kernels/memory/aligned_memory.h"
#include "kernels/quant/dynamic_product.h"
#include "rlx/ops/dynamic_quantize.h"

namespace rlx::cpu {

double int8_multiply_ns(kernels::Int8DotIsa isa) {
  switch (isa) {
    case kernels::Int8DotIsa::tiles: return 0.001;
    case kernels::Int8DotIsa::avx512_vnni: return 0.003;
    case kernels::Int8DotIsa::avx_vnni: return 0.006;
    case kernels::Int8DotIsa::neon_i8mm: return 0.006;
    case kernels::Int8DotIsa::neon_dot: return 0.012;
    case kernels::Int8DotIsa::pairs: break;
  }
  return 0.01;
}

std::string int8_form(kernels::Int8DotIsa isa) {
  // To be raised when pack_int8_weights() or pack_convolution_weights() writes anything else.
  constexpr int kVersion = 2;
  return text_of("int8 ", kVersion, " for instructions ", static_cast<int>(isa), ", ");
}

namespace {

using kernels::DynamicProduct;
using kernels::Int8Weights;

class DynamicProductStep final : public Step {
 public:
  explicit DynamicProductStep(const LoweringContext& c) : threads_(c.threads) {
    const auto& a = c.attrs<DynamicQuantizeMatmulAttrs>();
    const View &x = c.operands[0], &w = c.operands[1], &y = c.results[0];
    const size_t k_dim = a.transpose_rhs ? 1 : 0;
    product_.w.k = w.shape[k_dim], product_.w.n = w.shape[1 - k_dim];
    w_strides_[0] = w.strides[k_dim], w_strides_[1] = w.strides[1 - k_dim];
    product_.w.x_largest = static_cast<int32_t>(a.x_largest);
    product_.w.x_outliers = static_cast<int32_t>(a.x_outliers);
    product_.rows = row_count(y), product_.activation = kernel_activation(a.activation);
    product_.y_stride = product_.residual_stride = product_.w.n, product_.dtype = x.dtype;
    x_stride_ = row_stride(x).value();
    if (a.has_bias) bias_ = 3;
    if (a.has_factor) factor_ = 3 + a.has_bias;
    if (a.has_residual) residual_ = 3 + a.has_bias + a.has_factor;
    if (const Tensor* weights = c.bound(1)) {
      packed_ = c.packed.in_layout(*weights,
                                   text_of(int8_form(product_.w.isa), product_.w.k, 'x', product_.w.n, " by ",
                                           w_strides_[0], ' ', w_strides_[1]),
                                   kernels::int8_weights_bytes(product_.w),
                                   [&](char* out) { pack(reinterpret_cast<const int8_t*>(weights->data()), out); });
      product_.w.packed = packed_->get();
    }
  }

  size_t scratch_bytes() const override { return packing_bytes() + quantized_bytes() * static_cast<size_t>(pieces()); }
  bool reads_operand(size_t i) const override { return i != 1 || !packed_; }
  std::span<const std::byte> packed_weights() const override {
    if (!packed_) return {};
    return {reinterpret_cast<const std::byte*>(packed_->get()), kernels::int8_weights_bytes(product_.w)};
  }
  std::string kernel() const override { return text_of("int8 ", product_.rows, "x", product_.w.k, "x", product_.w.n); }

  void run(const StepArgs& args) const noexcept override {
    DynamicProduct p = product_;
    if (!packed_) {
      auto* packed = reinterpret_cast<char*>(args.scratch);
      pack(args.in<int8_t>(1), packed);
      p.w.packed = packed;
    }
    p.w_scale = args.in<float>(2), p.y = args.out<std::byte>();
    if (bias_ > 0) p.bias = args.in<float>(static_cast<size_t>(bias_));
    if (factor_ > 0) p.factor = args.in<float>(static_cast<size_t>(factor_));
    if (residual_ > 0) p.residual = args.in<std::byte>(static_cast<size_t>(residual_));
    const auto* x = args.in<std::byte>(0);
    std::byte* quantized = args.scratch + packing_bytes();
    const double work_ns =
        static_cast<double>(p.rows * p.w.k) * (0.3 + static_cast<double>(p.w.n) * int8_multiply_ns(p.w.isa));
    const double reading_ns = static_cast<double>(p.w.n * p.w.k) * 0.05;
    if (!divides_rows()) {
      p.x = quantized;
      for_ranges(args, p.rows, kernels::kQuantizedRows, static_cast<double>(p.rows * p.w.k) * 0.3,
                 [&](int64_t first, int64_t last, int64_t) {
                   kernels::quantize_rows(p.w, x, p.dtype, x_stride_, first, last, p.rows, quantized);
                 });
      return for_ranges(
          args, p.w.n, DynamicProduct::kColumns, work_ns + reading_ns,
          [&](int64_t begin, int64_t end, int64_t) { kernels::multiply_quantized_rows(p, 0, p.rows, begin, end); });
    }
    for_ranges(args, p.rows, kernels::kQuantizedRows, work_ns, [&](int64_t first, int64_t last, int64_t task) {
      std::byte* own = quantized + quantized_bytes() * static_cast<size_t>(task);
      const auto size = static_cast<int64_t>(byte_size(p.dtype));
      for (int64_t row = first; row < last; row += kRowsAtOnce) {
        DynamicProduct some = p;
        some.rows = std::min(kRowsAtOnce, last - row), some.x = own;
        some.y = static_cast<std::byte*>(p.y) + row * p.y_stride * size;
        if (p.residual) some.residual = static_cast<const std::byte*>(p.residual) + row * p.residual_stride * size;
        kernels::quantize_rows(p.w, x + row * x_stride_ * size, p.dtype, x_stride_, 0, some.rows, some.rows, own);
        kernels::multiply_quantized_rows(some, 0, some.rows, 0, p.w.n);
      }
    });
  }

 private:
  // A thread quantizes so many rows at a time, so that scratch memory does not grow with x.
  static constexpr int64_t kRowsAtOnce = 192;

  /// With few rows, or many columns beside them, the columns are divided, and all threads read the same quantized rows:
  /// each weight is then read once.
  bool divides_rows() const {
    return product_.rows >= 64 * threads_ && (threads_ == 1 || product_.w.n <= 2 * product_.rows);
  }
  int64_t pieces() const { return divides_rows() ? threads_ : 1; }
  size_t quantized_bytes() const {
    return kernels::quantized_rows_bytes(product_.w, divides_rows() ? kRowsAtOnce : product_.rows);
  }
  size_t packing_bytes() const { return packed_ ? 0 : aligned(kernels::int8_weights_bytes(product_.w)); }
  void pack(const int8_t* weights, char* out) const {
    kernels::pack_int8_weights(product_.w, weights, w_strides_[0], w_strides_[1], out);
  }

  DynamicProduct product_;
  int64_t x_stride_, w_strides_[2];
  int threads_, bias_ = 0, factor_ = 0, residual_ = 0;
  std::shared_ptr<const kernels::AlignedMemory> packed_;  // null: the weights are not bound
};

}  // namespace

std::string refusal_of_largest(int64_t x_largest) {
  return x_largest <= 16383
             ? ""
             : text_of("quantized values up to ", x_largest, " take more than two bytes of 7 and 8 bits");
}
std::string when_dynamic_product(const Question& q) {
  const DType t = q.operands[0].dtype;
  if (t != f32 && t != bf16) return text_of("no kernel quantizes ", q.operands[0]);
  const auto& a = q.node.attrs.as<DynamicQuantizeMatmulAttrs>();
  if (a.x_outliers > kernels::kMostOutliers)
    return text_of("the kernel takes x_outliers up to ", kernels::kMostOutliers, ", not ", a.x_outliers);
  if (a.x_outliers > 0 && a.x_largest > 127)
    return text_of("x_outliers above 0 needs x_largest up to 127, not ", a.x_largest);
  return refusal_of_largest(a.x_largest);
}
Prepared lower_dynamic_product(const LoweringContext& c) { return std::make_unique<DynamicProductStep>(c); }

}  // namespace rlx::cpu
