// Weights in block formats, in halves beside f32, and quantized weights: their dequantization, and products that
// dequantize on the fly. Up to BlockWeightsProduct::kMaxRows rows of x are multiplied with the blocks directly. For
// more rows, matrix tiles take them, or a strip of columns is decoded into the cache and multiplied as a dense matrix
// of f32 or bf16. The file is longer than others because all of these share how they read narrow operands and what
// follows a product.
#include "backends/cpu/lowerings.h"
#include "kernels/gemm/grouped.h"
#include "kernels/gemm/product_plan.h"
#include "kernels/index/index.h"
#include "kernels/quant/blocks.h"
#include "kernels/quant/digit_blocks.h"
#include "kernels/quant/quantized_weights.h"
#include "kernels/quant/split_blocks.h"
#include "kernels/quant/tiled_blocks.h"
#include "kernels/vector/narrow_float.h"
#include "rlx/ops/linear.h"
#include "rlx/ops/quantize.h"

namespace rlx::cpu {
namespace {

using kernels::BlockWeightsProduct;

constexpr double kDecode_ns = 0.2;  // of an element, in formats without a vector kernel
constexpr double kEncode_ns = 2;    // of an element, in formats that need no search

/// Refuses all but f32, f16 and bf16.
std::string narrow_or_f32(const Type& x) {
  return x.dtype == f32 || x.dtype == f16 || x.dtype == bf16 ? "" : text_of("no kernel multiplies ", x, " with blocks");
}
int64_t rows_of(const Shape& shape) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  return rows;
}

/// Operand 0 as f32: itself, or converted into scratch.
const float* as_f32(const StepArgs& args, DType dtype, int64_t count) {
  if (dtype == f32) return args.in<float>(0);
  auto* to = reinterpret_cast<float*>(args.scratch);
  for (int64_t i = 0; i < count; ++i)
    to[i] = dtype == f16 ? kernels::to_f32(args.in<kernels::F16>(0)[i]) : kernels::to_f32(args.in<kernels::BF16>(0)[i]);
  return to;
}

template <class T>
void decode_to(DType format, const std::byte* from, int64_t blocks, T* to) {
  const DTypeInfo& f = info(format);
  float one[256];
  for (int64_t b = 0; b < blocks; ++b, to += f.block_elements) {
    kernels::decode_blocks(format, from + b * f.block_bytes, 1, one);
    for (int64_t i = 0; i < f.block_elements; ++i)
      if constexpr (std::is_same_v<T, double>) to[i] = static_cast<double>(one[i]);
      else to[i] = kernels::from_f32<T>(one[i]);
  }
}

/// The epilogue of a product, and which operands are its bias and its residual (-1: absent).
struct BlockEpilogue {
  kernels::Epilogue epilogue = {};
  int bias = -1, residual = -1;
};
BlockEpilogue epilogue_of(const LoweringContext& c) {
  BlockEpilogue t;
  if (c.node.op == &op::linear && c.operands.size() > 2) t.bias = 2;
  if (c.node.op == &op::fused_matmul) {
    const auto& a = c.attrs<FusedMatmulAttrs>();
    t.epilogue.activation = kernel_activation(a.activation);
    if (a.has_bias) t.bias = 2;
    if (a.has_residual) t.residual = 2 + a.has_bias, t.epilogue.residual = kernels::Residual::separate;
  }
  if (t.bias >= 0) t.epilogue.bias = true, t.epilogue.bias_dtype = c.operands[size_t(t.bias)].dtype;
  return t;
}
const std::byte* operand(const StepArgs& args, int i) {
  return i < 0 ? nullptr : args.in<std::byte>(static_cast<size_t>(i));
}

kernels::SplitDigits digits_of(const kernels::ProductPolicy& policy) {
  return policy.int8 ? kernels::SplitDigits::two : kernels::SplitDigits::three;
}
bool may_split_rows(const kernels::ProductPolicy& policy, DType format, int64_t k) {
  return (policy.row_relative || policy.int8) && kernels::splits_rows_beside(digits_of(policy), format, k);
}

Prepared few_rows(const LoweringContext& c, int64_t m, int64_t k, int64_t n) {
  BlockEpilogue tail = epilogue_of(c);
  DType x = c.operands[0].dtype;
  BlockWeightsProduct p{.format = c.operands[1].dtype, .k = k, .rows = m, .x_stride = k};
  p.y_dtype = c.results[0].dtype, p.y_stride = p.residual_stride = n, p.epilogue = tail.epilogue;
  const size_t converted = x == f32 ? 0 : aligned(static_cast<size_t>(m * k) * sizeof(float));
  const bool has_digits =
      m == 1 && kernels::has_digits_beside(p.format, k, n) && !(c.policy.int8 && may_split_rows(c.policy, p.format, k));
  const kernels::SplitDigits digits = digits_of(c.policy);
  const bool splits = m == 1 && !has_digits && may_split_rows(c.policy, p.format, k);
  const size_t row_bytes_of_x = has_digits ? kernels::digit_row_bytes(k)
                                : splits   ? kernels::split_row_bytes(digits, k)
                                           : 0;
  const size_t scratch = converted + aligned(row_bytes_of_x);
  const char* const how = has_digits ? " digits " : splits ? " split " : " ";
  double work_ns = static_cast<double>(n * k) * 0.1;
  return make_step(text_of(p.format, how, m, "x", k, "x", n), scratch, [=](const StepArgs& args) {
    BlockWeightsProduct all = p;
    all.x = as_f32(args, x, m * k);
    all.w = args.in<std::byte>(1), all.y = args.out();
    all.bias = operand(args, tail.bias), all.residual = operand(args, tail.residual);
    void* const row_of_x = args.scratch + converted;
    const bool are_digits = has_digits && kernels::make_digits(p.format, all.x, k, row_of_x);
    const bool is_split = splits && kernels::split_row(digits, p.format, all.x, k, row_of_x);
    const auto row_bytes = n * static_cast<int64_t>(byte_size(p.y_dtype));
    for_ranges(args, n, BlockWeightsProduct::kColumns, work_ns, [&](int64_t begin, int64_t end, int64_t) {
      if (are_digits) return kernels::multiply_digits(all, row_of_x, begin, end);
      if (is_split) return kernels::multiply_split_row(digits, all, row_of_x, begin, end);
      // If k is 0 there may be more rows here than the kernel takes in one call.
      for (int64_t row = 0; row < m; row += BlockWeightsProduct::kMaxRows) {
        BlockWeightsProduct call = all;
        call.rows = std::min(BlockWeightsProduct::kMaxRows, m - row), call.x += row * k;
        call.y = static_cast<std::byte*>(all.y) + row * row_bytes;
        if (all.residual) call.residual = static_cast<const std::byte*>(all.residual) + row * row_bytes;
        kernels::multiply_block_weights(call, begin, end);
      }
    });
  });
}

Prepared tiled_rows(const LoweringContext& c, int64_t m, int64_t k, int64_t n) {
  BlockEpilogue tail = epilogue_of(c);
  DType x = c.operands[0].dtype;
  BlockWeightsProduct p{.format = c.operands[1].dtype, .k = k, .rows = m, .x_stride = k};
  p.y_dtype = c.results[0].dtype, p.y_stride = p.residual_stride = n, p.epilogue = tail.epilogue;
  const double work_ns = static_cast<double>(n * k) * (kDecode_ns + 0.01 * static_cast<double>(m));
  const kernels::TiledBlockProduct product(p, x == bf16 ? bf16 : f32, n,
                                           work_ns < kernels::cost_model().split_ns ? 1 : c.threads);
  size_t converted = x == f16 ? aligned(static_cast<size_t>(m * k) * sizeof(float)) : 0;
  return make_step(
      text_of(p.format, " tiles ", m, "x", k, "x", n), converted + product.scratch_bytes(),
      [=](const StepArgs& args) {
        BlockWeightsProduct call = p;
        call.w = args.in<std::byte>(1), call.y = args.out();
        call.bias = operand(args, tail.bias), call.residual = operand(args, tail.residual);
        const void* rows = x == f16 ? as_f32(args, x, m * k) : args.in(0);
        product.run(call, rows, args.scratch + converted, thread_pool());
      },
      [] { return std::string("bf16 tiles, rows packed first, weights decoded during products"); });
}

Prepared many_rows(const LoweringContext& c, int64_t m, int64_t k, int64_t n) {
  BlockEpilogue tail = epilogue_of(c);
  // A strip of decoded columns stays in the L2 cache up to a k of some 5,000, and is made of panels of three vectors.
  int64_t strip = std::clamp<int64_t>((int64_t{1} << 18) / std::max<int64_t>(k, 1) / 48 * 48, 48, 96);
  kernels::BatchedGemmSpec s;
  s.m = m, s.k = k;
  s.lhs_m_stride = k, s.lhs_k_stride = 1, s.rhs_k_stride = 1, s.rhs_n_stride = k;
  s.y_m_stride = n, s.y_n_stride = 1;
  s.lhs_dtype = c.operands[0].dtype, s.y_dtype = c.results[0].dtype;
  s.epilogue = tail.epilogue, s.policy = c.policy;
  // If x is bf16 and the processor has dot products of bf16, decoded weights are rounded to bf16, as for tiles: what
  // that loses is less than what quantizing them has lost. Weights of f16 would lose three of their own bits.
  const bool is_narrow = s.lhs_dtype == bf16 && c.operands[1].dtype != f16 && kernels::product_target().has_bf16_dots &&
                         !c.policy.batch_invariant;
  s.rhs_dtype = is_narrow ? bf16 : f32;
  auto product_of = [&](int64_t columns) {
    s.n = columns;
    return kernels::prepare_batched_gemm(s);
  };
  auto whole = product_of(std::min(strip, n)), rest = product_of(std::max<int64_t>(n % strip, 1));
  size_t strip_bytes = aligned(static_cast<size_t>(strip * k) * byte_size(s.rhs_dtype));
  size_t per_task = strip_bytes + aligned(std::max(whole.scratch_bytes(), rest.scratch_bytes()));
  DType format = c.operands[1].dtype;
  int64_t blocks = k / info(format).block_elements;
  int64_t row_bytes = blocks * info(format).block_bytes;
  auto y_bytes = static_cast<int64_t>(byte_size(s.y_dtype));
  auto bias_bytes = tail.bias < 0 ? 0 : static_cast<int64_t>(byte_size(tail.epilogue.bias_dtype));
  double work_ns = static_cast<double>(n * k) * (kDecode_ns + 0.03 * static_cast<double>(m));
  return make_step(
      text_of(format, is_narrow ? " bf16 strips " : " strips ", m, "x", k, "x", n),
      per_task * static_cast<size_t>(c.threads),
      [=](const StepArgs& args) {
        for_ranges(args, n, strip, work_ns, [&](int64_t begin, int64_t end, int64_t task) {
          std::byte* scratch = args.scratch + per_task * static_cast<size_t>(task);
          for (int64_t column = begin; column < end; column += strip) {
            int64_t columns = std::min(strip, end - column);
            const auto decode_to = [&]<class W>(W* w) {
              kernels::decode_blocks(format, args.in<std::byte>(1) + column * row_bytes, columns * blocks, w);
            };
            if (is_narrow) decode_to(reinterpret_cast<kernels::BF16*>(scratch));
            else decode_to(reinterpret_cast<float*>(scratch));
            const std::byte *bias = operand(args, tail.bias), *residual = operand(args, tail.residual);
            (columns == strip || columns == n ? whole : rest)
                .run({args.in(0), scratch, args.out<std::byte>() + column * y_bytes,
                      bias ? bias + column * bias_bytes : nullptr, residual ? residual + column * y_bytes : nullptr},
                     scratch + strip_bytes, thread_pool());
          }
        });
      },
      [whole] { return whole.strategy(); });
}

/// The optional operands that follow the quantized values, in this order: the position of each, -1 if absent.
struct QuantizedOperands {
  kernels::QuantizedReader scale, zero_point, bias;
  int scale_at = -1, zero_at = -1, bias_at = -1, table_at = -1, global_at = -1;

  template <class Attrs>
  QuantizedOperands(const LoweringContext& c, size_t first, const Attrs& a) {
    auto next = static_cast<int>(first);
    auto add = [&](bool has, int& at, kernels::QuantizedReader* to) {
      if (!has) return;
      at = next++;
      if (to) *to = kernels::QuantizedReader::of(c.operands[size_t(at)].dtype);
    };
    add(true, scale_at, &scale);
    add(a.has_zero_point, zero_at, &zero_point);
    add(a.has_bias, bias_at, &bias);
    add(a.has_table, table_at, nullptr);
    add(a.has_global, global_at, nullptr);
  }
  template <class To>
  void bind(const StepArgs& args, To& to) const {
    to.scale.data = operand(args, scale_at), to.zero_point.data = operand(args, zero_at);
    to.bias.data = operand(args, bias_at);
    to.global = reinterpret_cast<const float*>(operand(args, global_at));
  }
};
std::string readable_quantized(const Question& q, size_t first, bool has_global) {
  for (size_t i = first; i < q.operands.size(); ++i)
    if (!kernels::QuantizedReader::reads(q.operands[i].dtype))
      return text_of("no kernel dequantizes with ", q.operands[i]);
  if (has_global && q.operands.back().dtype != f32) return text_of("the global scale is ", q.operands.back());
  return q.node.types[0].dtype == f32 ? "" : text_of("quantized values become f32, not ", q.node.types[0]);
}

/// Products of rows of f32 that choose an expert each, of m rows: up to `most` rows of one expert go together, so that
/// its weights are decoded once for them.
struct ExpertRows {
  int64_t m, k, n, experts, most;
  DType index, y;

  size_t order_bytes() const { return kernels::GroupedRows::bytes(m, experts); }
  size_t gathered_bytes() const { return aligned(static_cast<size_t>(m * k) * sizeof(float)); }
  size_t scratch_bytes() const {
    return order_bytes() + gathered_bytes() + aligned(static_cast<size_t>(most * n) * byte_size(y));
  }
  /// Calls product(expert, x, rows, y, begin, end, row) with dense rows for columns [begin, end). If it is the one row
  /// that chose this expert, `row` says which it is among all m; else -1.
  template <class F>
  void run(const StepArgs& args, const float* x, std::byte* scratch, int64_t grain, double work_ns, F product) const {
    const kernels::GroupedRows order(args.in(2), index, m, experts, scratch);
    auto* gathered = reinterpret_cast<float*>(scratch + order_bytes());
    std::byte* together = scratch + order_bytes() + gathered_bytes();
    for (int64_t expert = 0; expert < experts && k > 0; ++expert)
      for (int64_t at = order.starts[expert], end = order.starts[expert + 1], count = end - at; at < end; ++at)
        if (count > 1) std::copy_n(x + order.rows[at] * k, k, gathered + at * k);
    const auto y_bytes = static_cast<int64_t>(byte_size(y));
    const uint64_t nan = encode_float(y, NAN);
    for_ranges(args, n, grain, work_ns, [&](int64_t begin, int64_t end, int64_t) {
      const auto row_of = [&](int64_t row) { return args.out<std::byte>() + row * n * y_bytes; };
      for (int64_t expert = 0; expert < experts; ++expert) {
        const int64_t first = order.starts[expert], last = order.starts[expert + 1];
        for (int64_t at = first; at < last; at += most) {
          const int64_t rows = std::min(most, last - at);
          const float* from = last - first == 1 ? x + order.rows[at] * k : gathered + at * k;
          product(expert, from, rows, rows == 1 ? row_of(order.rows[at]) : together, begin, end,
                  last - first == 1 ? int64_t{order.rows[at]} : -1);
          for (int64_t r = 0; r < rows && rows > 1; ++r)
            std::memcpy(row_of(order.rows[at + r]) + begin * y_bytes, together + (r * n + begin) * y_bytes,
                        static_cast<size_t>((end - begin) * y_bytes));
        }
      }
      for (int64_t row = 0; row < m && order.starts[experts] < m; ++row) {
        const int64_t expert = kernels::read_index(args.in(2), index, row);
        if (expert >= 0 && expert < experts) continue;
        for (int64_t j = begin; j < end; ++j)
          std::memcpy(row_of(row) + j * y_bytes, &nan, static_cast<size_t>(y_bytes));
      }
    });
  }
};

}  // namespace

Prepared lower_quantize_blocks(const LoweringContext& c) {
  const DType from = c.operands[0].dtype, format = c.results[0].dtype;
  const DTypeInfo& f = info(format);
  const BlockEncoder encode = block_encoder(format);
  const int64_t count = c.operands[0].count(), length = f.block_elements, bytes = f.block_bytes;
  const double work_ns = static_cast<double>(count) * kEncode_ns;
  return make_step(text_of("encode ", format), 0, [=](const StepArgs& args) {
    const auto encode_range = [&]<class T>(const T* x) {
      for_ranges(args, count / length, 4, work_ns, [&](int64_t begin, int64_t end, int64_t) {
        std::byte* to = args.out<std::byte>() + begin * bytes;
        if constexpr (std::is_same_v<T, float>) return encode(x + begin * length, end - begin, to);
        float one[256];
        for (int64_t b = begin; b < end; ++b, to += bytes) {
          for (int64_t i = 0; i < length; ++i) {
            const T v = x[b * length + i];
            if constexpr (std::is_same_v<T, double>) one[i] = static_cast<float>(v);
            else one[i] = kernels::to_f32(v);
          }
          encode(one, 1, to);
        }
      });
    };
    switch (from) {
      case DType::f64: return encode_range(args.in<double>(0));
      case DType::f16: return encode_range(args.in<kernels::F16>(0));
      case DType::bf16: return encode_range(args.in<kernels::BF16>(0));
      default: return encode_range(args.in<float>(0));
    }
  });
}

Prepared lower_dequantize_blocks(const LoweringContext& c) {
  DType format = c.operands[0].dtype, to = c.results[0].dtype;
  const DTypeInfo& f = info(format);
  int64_t blocks = c.operands[0].count() / f.block_elements;
  double work_ns = static_cast<double>(c.operands[0].count()) * kDecode_ns;
  return make_step(text_of("decode ", format), 0, [=, &f](const StepArgs& args) {
    for_ranges(args, blocks, 16, work_ns, [&](int64_t begin, int64_t end, int64_t) {
      const std::byte* from = args.in<std::byte>(0) + begin * f.block_bytes;
      int64_t first = begin * f.block_elements, count = end - begin;
      switch (to) {
        case DType::f64: return decode_to(format, from, count, args.out<double>() + first);
        case DType::f16: return decode_to(format, from, count, args.out<kernels::F16>() + first);
        case DType::bf16: return kernels::decode_blocks(format, from, count, args.out<kernels::BF16>() + first);
        default: return kernels::decode_blocks(format, from, count, args.out<float>() + first);
      }
    });
  });
}

std::string when_block_product(const Question& q) {
  const Type& w = q.operands[1];
  if (q.node.op == &op::dequant_matmul && (w.dtype == f16 || w.dtype == bf16)) {
    if (!w.dims[1].is_static() || w.dims[1].value() % BlockWeightsProduct::kHalvesTogether != 0)
      return text_of("rows of ", w.dims[1], " halves are not made of ", BlockWeightsProduct::kHalvesTogether);
  } else if (!is_block(w.dtype)) {
    return text_of("the weight ", w, " is not of blocks");
  }
  for (size_t i = 0; i < q.operands.size(); ++i)
    if (i != 1)
      if (auto why = narrow_or_f32(q.operands[i]); !why.empty()) return why;
  return "";
}
Prepared lower_block_product(const LoweringContext& c) {
  int64_t m = rows_of(c.operands[0].shape), k = c.operands[0].shape.back(), n = c.results[0].shape.back();
  // few_rows() adds in another order than many_rows(), so results would depend on the batch size.
  const bool few = m <= BlockWeightsProduct::kMaxRows && !c.policy.batch_invariant;
  if (few) return few_rows(c, m, k, n);
  const bool tiled = kernels::TiledBlockProduct::pays(m, k, n) && !c.policy.batch_invariant;
  return tiled ? tiled_rows(c, m, k, n) : many_rows(c, m, k, n);
}

std::string when_block_experts(const Question& q) {
  if (!is_block(q.operands[1].dtype))
    return text_of("quantized values of ", q.operands[1].dtype, " are dequantized first");
  if (!is_byte_sized(q.operands[2].dtype)) return text_of("indices of ", q.operands[2].dtype);
  return narrow_or_f32(q.operands[0]);
}
Prepared lower_block_experts(const LoweringContext& c) {
  const int64_t m = c.operands[0].shape[0], k = c.operands[0].shape[1], n = c.results[0].shape[1];
  const DType x = c.operands[0].dtype;
  BlockWeightsProduct p{.format = c.operands[1].dtype, .k = k, .x_stride = k};
  p.y_dtype = c.results[0].dtype, p.y_stride = n;
  const int64_t expert_bytes = n * (k / info(p.format).block_elements * info(p.format).block_bytes);
  const size_t converted = x == f32 ? 0 : aligned(static_cast<size_t>(m * k) * sizeof(float));
  // Several rows are added up in another order than one.
  const ExpertRows rows{
      m, k, n, c.operands[1].shape[0], c.policy.batch_invariant ? 1 : p.kMaxRows, c.operands[2].dtype, p.y_dtype};
  // Of many rows few are the only ones of their expert.
  constexpr int64_t kMostSplitRows = 16;
  const bool splits = m <= kMostSplitRows && !c.policy.batch_invariant && may_split_rows(c.policy, p.format, k);
  const kernels::SplitDigits digits = digits_of(c.policy);
  const size_t split_bytes = splits ? aligned(kernels::split_row_bytes(digits, k)) : 0;
  const double work_ns = static_cast<double>(m * n * k) * 0.1;
  return make_step(text_of(p.format, " experts ", m, "x", k, "x", n),
                   converted + static_cast<size_t>(m) * split_bytes + rows.scratch_bytes(), [=](const StepArgs& args) {
                     const float* const from_all = as_f32(args, x, m * k);
                     std::byte* const split = args.scratch + converted;
                     std::array<bool, kMostSplitRows> is_split = {};
                     for (int64_t i = 0; splits && i < m; ++i)
                       is_split[size_t(i)] =
                           kernels::split_row(digits, p.format, from_all + i * k, k, split + size_t(i) * split_bytes);
                     rows.run(args, from_all, split + static_cast<size_t>(m) * split_bytes, p.kColumns, work_ns,
                              [&](int64_t expert, const float* from, int64_t count, std::byte* to, int64_t begin,
                                  int64_t end, int64_t row) {
                                BlockWeightsProduct call = p;
                                call.x = from, call.rows = count, call.y = to;
                                call.w = args.in<std::byte>(1) + expert * expert_bytes;
                                if (splits && row >= 0 && is_split[size_t(row)])
                                  return kernels::multiply_split_row(digits, call, split + size_t(row) * split_bytes,
                                                                     begin, end);
                                kernels::multiply_block_weights(call, begin, end);
                              });
                   });
}

std::string when_dequantize_blockwise(const Question& q) {
  const auto& a = q.node.attrs.as<DequantizeBlockwiseAttrs>();
  if (info(q.operands[0].dtype).bits > 8)
    return text_of("quantized values of ", q.operands[0].dtype, " have more than 8 bits");
  if (a.has_table) return "quantized values are looked up in their table first";
  return readable_quantized(q, 0, a.has_global);
}
Prepared lower_dequantize_blockwise(const LoweringContext& c) {
  const auto& a = c.attrs<DequantizeBlockwiseAttrs>();
  QuantizedOperands operands(c, 1, a);
  const Shape& shape = c.operands[0].shape;
  auto axis = size_t(valid_axis(a.axis, shape.size()));
  kernels::Dequantization d{kernels::QuantizedReader::of(c.operands[0].dtype), operands.scale, operands.zero_point,
                            operands.bias};
  for (size_t i = 0; i < shape.size(); ++i) (i < axis ? d.outer : i == axis ? d.extent : d.inner) *= shape[i];
  d.block = a.block_size > 0 ? a.block_size : std::max<int64_t>(d.extent, 1);
  double work_ns = static_cast<double>(c.operands[0].count()) * 0.5;
  return make_step("dequantize", 0, [=](const StepArgs& args) {
    kernels::Dequantization call = d;
    call.q.data = args.in(0);
    operands.bind(args, call);
    for_ranges(args, call.rows(), 1, work_ns, [&](int64_t begin, int64_t end, int64_t) {
      kernels::dequantize_values(call, args.out<float>(), begin, end);
    });
  });
}

/// Whether the kernel of the product looks quantized values up in their table; `first` is the operand of the scales.
template <class Attrs>
static bool has_table_product(const Question& q, size_t first, const Attrs& a) {
  return q.operands[1].dtype == u4 && !a.has_bias && q.operands[first + 1].dtype == f32;
}

std::string when_quantized_weights_product(const Question& q) {
  const auto& a = q.node.attrs.as<DequantMatmulAttrs>();
  if (!kernels::QuantizedWeightsProduct::supports(q.operands[1].dtype) || a.transpose_rhs)
    return text_of("quantized values of ", q.operands[1].dtype, a.transpose_rhs ? ", transposed," : "",
                   " are dequantized before they are multiplied");
  if (a.planes > 1) return text_of("quantized values of ", a.planes, " planes are added before they are multiplied");
  if (q.operands[0].dtype != f32) return text_of("no kernel multiplies ", q.operands[0], " with quantized values");
  if (const Dim& n = q.operands[1].dims[1];
      info(q.operands[1].dtype).bits == 4 && !(n.is_static() && n.value() % 2 == 0))
    return text_of("rows of ", n, " quantized values of 4 bits may end within a byte");
  if (a.has_table && !has_table_product(q, 2, a)) return "numbers of a table are those of u4, f32, without a bias";
  return readable_quantized(q, 2, a.has_global);
}
/// What a product with quantized values [..., k, n], operand 1, knows before a run.
static kernels::QuantizedWeightsProduct product_of_quantized(const View& w, int64_t block_size,
                                                             const QuantizedOperands& operands) {
  kernels::QuantizedWeightsProduct p;
  p.w_dtype = w.dtype, p.w = kernels::QuantizedReader::of(p.w_dtype);
  p.k = w.shape[w.shape.size() - 2], p.n = w.shape.back();
  p.block = block_size > 0 ? block_size : std::max<int64_t>(p.k, 1);
  p.scale = operands.scale, p.zero_point = operands.zero_point, p.bias = operands.bias;
  return p;
}
Prepared lower_quantized_weights_product(const LoweringContext& c) {
  const auto& a = c.attrs<DequantMatmulAttrs>();
  QuantizedOperands operands(c, 2, a);
  kernels::QuantizedWeightsProduct p = product_of_quantized(c.operands[1], a.block_size, operands);
  p.rows = rows_of(c.operands[0].shape), p.x_stride = p.k;
  double work_ns = static_cast<double>((p.rows + 2) * p.n * p.k) * 0.02;
  return make_step(text_of(p.w_dtype, " quantized ", p.rows, "x", p.k, "x", p.n), 0, [=](const StepArgs& args) {
    kernels::QuantizedWeightsProduct call = p;
    call.x = args.in<float>(0), call.w.data = args.in(1), call.y = args.out<float>();
    operands.bind(args, call);
    call.table = reinterpret_cast<const float*>(operand(args, operands.table_at));
    for_ranges(args, call.n, kernels::QuantizedWeightsProduct::kColumns, work_ns,
               [&](int64_t begin, int64_t end, int64_t) { kernels::multiply_quantized_weights(call, begin, end); });
  });
}

std::string when_quantized_experts(const Question& q) {
  const auto& a = q.node.attrs.as<DequantGroupedMatmulAttrs>();
  const Type& w = q.operands[1];
  if (!kernels::QuantizedWeightsProduct::supports(w.dtype) || !a.columns_last)
    return text_of("quantized values of ", w.dtype, a.columns_last ? "" : ", along k,", " are dequantized first");
  if (q.operands[0].dtype != f32) return text_of("no kernel multiplies ", q.operands[0], " with quantized values");
  if (!is_byte_sized(q.operands[2].dtype)) return text_of("indices of ", q.operands[2].dtype);
  if (const Dim& n = w.dims[2]; info(w.dtype).bits == 4 && !(n.is_static() && n.value() % 2 == 0))
    return text_of("rows of ", n, " quantized values of 4 bits may end within a byte");
  for (size_t i = 3; i < q.operands.size() - (a.has_table || a.has_global ? 1 : 0); ++i)
    if (const DType dtype = q.operands[i].dtype; dtype != f32 && info(dtype).bits != 8)
      return text_of("no kernel begins within the bytes of ", q.operands[i]);
  if (a.has_table && (a.has_global || !has_table_product(q, 3, a)))
    return "numbers of a table are those of u4, f32, without a bias and a global scale";
  return readable_quantized(q, 3, a.has_global);
}
Prepared lower_quantized_experts(const LoweringContext& c) {
  const auto& a = c.attrs<DequantGroupedMatmulAttrs>();
  QuantizedOperands operands(c, 3, a);
  kernels::QuantizedWeightsProduct p = product_of_quantized(c.operands[1], a.block_size, operands);
  const int64_t m = c.operands[0].shape[0];
  p.x_stride = p.k;
  const int64_t groups = (p.k + p.block - 1) / p.block, bits = info(p.w_dtype).bits;
  constexpr int64_t kRowsTogether = 24;  // a multiple of the rows of its inner loops
  const ExpertRows rows{
      m, p.k, p.n, c.operands[1].shape[0], c.policy.batch_invariant ? 1 : kRowsTogether, c.operands[2].dtype, f32};
  double work_ns = static_cast<double>(3 * m * p.n * p.k) * 0.02;
  return make_step(
      text_of(p.w_dtype, " experts ", m, "x", p.k, "x", p.n), rows.scratch_bytes(), [=](const StepArgs& args) {
        kernels::QuantizedWeightsProduct all = p;
        operands.bind(args, all);
        all.table = reinterpret_cast<const float*>(operand(args, operands.table_at));
        const auto at_expert = [&](const kernels::QuantizedReader& whole, int64_t expert) {
          kernels::QuantizedReader one = whole;
          if (whole.data) one.data = static_cast<const std::byte*>(whole.data) + expert * groups * p.n * whole.bits / 8;
          return one;
        };
        rows.run(
            args, args.in<float>(0), args.scratch, kernels::QuantizedWeightsProduct::kColumns, work_ns,
            [&](int64_t expert, const float* from, int64_t count, std::byte* to, int64_t begin, int64_t end, int64_t) {
              kernels::QuantizedWeightsProduct call = all;
              call.x = from, call.rows = count, call.y = reinterpret_cast<float*>(to);
              call.w.data = args.in<std::byte>(1) + expert * (p.k * p.n * bits / 8);
              call.scale = at_expert(all.scale, expert), call.zero_point = at_expert(all.zero_point, expert);
              call.bias = at_expert(all.bias, expert);
              kernels::multiply_quantized_weights(call, begin, end);
            });
      });
}

}  // namespace rlx::cpu
