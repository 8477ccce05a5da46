// See the header.
#include "backends/mlx/packed_weights.h"

#include <algorithm>
#include <cmath>

#include "rlx/blocks.h"
#include "rlx/element.h"
#include "rlx/ops.h"
#include "tensor/blocks/block_bits.h"

namespace rlx::mlx_backend {
namespace {

using Attrs = DequantMatmulAttrs;

/// What both products say of their weights, in the words of the one without experts.
Attrs attrs_of(const Node& node) {
  if (node.op == &op::dequant_matmul) return node.attrs.as<Attrs>();
  const auto& a = node.attrs.as<DequantGroupedMatmulAttrs>();
  return {!a.columns_last, a.block_size, a.has_scale, a.has_zero_point, a.has_bias, a.has_table, a.has_global};
}
bool has_experts(const Node& node) { return node.op == &op::dequant_grouped_matmul; }

/// The largest group of MLX's of which the elements with one scale are a whole number.
int group_of(int64_t k, int64_t block_size, std::initializer_list<int> groups) {
  const int64_t block = block_size > 0 ? std::min(block_size, k) : k;
  for (int group : groups)
    if (k > 0 && k % group == 0 && block % group == 0) return group;
  return 0;
}

/// GGUF's blocks of 32 elements, or super-blocks of such, with one scale and at most one least value each.
std::optional<PackedForm> form_of_blocks(DType dtype) {
  switch (dtype) {
    case q4_0:
    case q4_1:
    case q4_k: return PackedForm{"affine", 4, 32};
    case q5_0:
    case q5_1:
    case q5_k: return PackedForm{"affine", 5, 32};
    case q8_0: return PackedForm{"affine", 8, 32};
    case mxfp4: return PackedForm{"mxfp4", 4, 32};
    default: return std::nullopt;
  }
}

/// Scale and bias of group `g` of 32 elements of a row of blocks: an element is code * scale + bias.
std::pair<float, float> scale_and_bias(DType dtype, const uint8_t* row, int64_t g) {
  const bool is_super = dtype == q4_k || dtype == q5_k;
  const uint8_t* block = row + (is_super ? g / 8 : g) * static_cast<int64_t>(info(dtype).block_bytes);
  const float d = blocks::half_at(block);
  switch (dtype) {
    case q4_0: return {d, -8 * d};
    case q5_0: return {d, -16 * d};
    case q8_0: return {d, -128 * d};
    case q4_1:
    case q5_1: return {d, blocks::half_at(block + 2)};
    default: break;
  }
  const auto [scale, min] = blocks::scale_and_min(block + 4, static_cast<int>(g % 8));
  return {d * static_cast<float>(scale), -blocks::half_at(block + 2) * static_cast<float>(min)};
}

const uint8_t* bytes_of(const mx::array& x) { return x.data<uint8_t>(); }

struct Extents {
  int64_t experts, n, k;  ///< one expert: a matrix
};
Extents extents_of(const Type& w, const Attrs& a) {
  const size_t rank = w.dims.size();
  const int64_t first = w.dims[rank - 2].value(), second = w.dims[rank - 1].value();
  const int64_t experts = rank > 2 ? w.dims[0].value() : 1;
  return is_block(w.dtype) || a.transpose_rhs ? Extents{experts, first, second} : Extents{experts, second, first};
}

/// Matrices as MLX has them, while they are written. Their rows are counted through.
struct Packed {
  int64_t n, k, rows;  ///< of one matrix, and the rows of all
  bool is_stack;
  PackedForm form;
  mx::array words, scales;
  std::optional<mx::array> biases = {};

  Packed(const Extents& of, bool stack, PackedForm as)
      : n(of.n), k(of.k), rows(of.experts * of.n), is_stack(stack), form(std::move(as)),
        words(empty(k * form.bits / 32, mx::uint32)),
        scales(empty(k / form.group, form.mode == "affine" ? mx::float32 : mx::uint8)) {
    std::fill_n(words.data<uint32_t>(), words.size(), 0U);
    if (form.mode == "affine") biases = empty(k / form.group, mx::float32);
  }
  mx::array empty(int64_t columns, mx::Dtype dtype) const {
    mx::Shape shape{extent_of(n), extent_of(columns)};
    if (is_stack) shape.insert(shape.begin(), extent_of(rows / n));
    return mx::array(mx::allocator::malloc(static_cast<size_t>(rows * columns) * dtype.size()), std::move(shape),
                     dtype);
  }
  void set_code(int64_t row, int64_t i, unsigned code) {
    auto* bytes = words.data<uint8_t>() + row * (k * form.bits / 8);
    const int64_t bit = i * form.bits;
    const unsigned spread = code << (bit % 8);
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] | spread);
    if (spread >> 8) bytes[bit / 8 + 1] = static_cast<uint8_t>(bytes[bit / 8 + 1] | spread >> 8);
  }
  size_t at(int64_t row, int64_t g) const { return static_cast<size_t>(row * (k / form.group) + g); }
  std::vector<mx::array> parts() const {
    std::vector<mx::array> all{words, scales};
    if (biases) all.push_back(*biases);
    return all;
  }
};

void pack_blocks(DType dtype, const uint8_t* from, Packed& to) {
  const auto length = static_cast<int64_t>(info(dtype).block_elements);
  const auto row_bytes = to.k / length * static_cast<int64_t>(info(dtype).block_bytes);
  const BlockDecoder decode = block_decoder(dtype);
  std::vector<float> values(static_cast<size_t>(to.k));
  const auto largest = static_cast<float>((1 << to.form.bits) - 1);
  for (int64_t row = 0; row < to.rows; ++row) {
    const uint8_t* bytes = from + row * row_bytes;
    if (dtype == mxfp4) {  // a scale, and 16 bytes: low nibbles, then high ones
      for (int64_t g = 0; g < to.k / 32; ++g) {
        to.scales.data<uint8_t>()[to.at(row, g)] = bytes[g * 17];
        for (int64_t i = 0; i < 32; ++i)
          to.set_code(row, g * 32 + i, (bytes[g * 17 + 1 + i % 16] >> (i < 16 ? 0 : 4)) & 15U);
      }
      continue;
    }
    decode(reinterpret_cast<const std::byte*>(bytes), to.k / length, values.data());
    for (int64_t g = 0; g < to.k / 32; ++g) {
      const auto [scale, bias] = scale_and_bias(dtype, bytes, g);
      to.scales.data<float>()[to.at(row, g)] = scale;
      to.biases->data<float>()[to.at(row, g)] = bias;
      for (int64_t i = g * 32; i < (g + 1) * 32; ++i) {
        const float code = std::round((values[static_cast<size_t>(i)] - bias) / scale);
        if (code >= 0) to.set_code(row, i, static_cast<unsigned>(std::min(code, largest)));  // else NaN: a scale of 0
      }
    }
  }
}

/// `types` are those of `values`.
void pack_codes(const Attrs& a, const std::vector<Type>& types, std::span<const mx::array> values, Packed& to) {
  const Type& w = types[0];
  const int bits = info(w.dtype).bits;
  const bool is_affine = to.form.mode == "affine";
  const unsigned sign = kind_of(w.dtype) == Kind::signed_int ? 1U << (bits - 1) : 0U;
  const auto* codes = bytes_of(values[0]);
  // Element i, or scale i, of a row of all, where a matrix has `length` of them in a row: along the codes' last dim, or
  // the last but one.
  const auto place = [&](int64_t row, int64_t i, int64_t length) {
    return a.transpose_rhs ? row * length + i : (row / to.n * length + i) * to.n + row % to.n;
  };
  for (int64_t row = 0; row < to.rows; ++row)
    for (int64_t i = 0; i < to.k; ++i) {
      const int64_t bit = place(row, i, to.k) * bits;
      unsigned code = codes[bit / 8];
      if (bit % 8 + bits > 8) code |= static_cast<unsigned>(codes[bit / 8 + 1]) << 8;
      to.set_code(row, i, ((code >> (bit % 8)) & ((1U << bits) - 1)) ^ sign);
    }
  // Beside them: one for each block of a row, along the dim of the codes.
  const int64_t block = a.block_size > 0 ? a.block_size : to.k, count = (to.k + block - 1) / block;
  size_t next = 1;
  const auto part = [&](bool has) -> std::optional<Tensor> {
    if (!has) return std::nullopt;
    const size_t i = next++;
    const Shape shape = shape_of(types[i].dims);
    return Tensor::borrow(types[i].dtype, shape,
                          {reinterpret_cast<const std::byte*>(bytes_of(values[i])), values[i].nbytes()});
  };
  const auto scale = part(true), zero = part(a.has_zero_point), bias = part(a.has_bias);
  for (int64_t row = 0; row < to.rows; ++row)
    for (int64_t g = 0; g < to.k / to.form.group; ++g) {
      const auto from = static_cast<size_t>(place(row, g * to.form.group / block, count));
      if (!is_affine) {
        to.scales.data<uint8_t>()[to.at(row, g)] = static_cast<uint8_t>(scale->bytes()[from]);
        continue;
      }
      const double s = load_number(*scale, from);
      const double z = (zero ? load_number(*zero, from) : 0) + static_cast<double>(sign);
      to.scales.data<float>()[to.at(row, g)] = static_cast<float>(s);
      to.biases->data<float>()[to.at(row, g)] =
          static_cast<float>((bias ? load_number(*bias, from) : 0) - (z == 0 ? 0 : z * s));
    }
}

}  // namespace

std::optional<PackedForm> packed_form(const Question& q, std::string* why) {
  const Attrs a = attrs_of(q.node);
  const std::vector<size_t> weights = weight_operands(q.node);
  const DType x = q.operands[0].dtype;
  const Type& w = q.operands[1];
  const auto refuse = [&](const std::string& reason) {
    if (why) *why = reason;
    return std::nullopt;
  };
  if (x != f32 && x != f16 && x != bf16) return refuse("MLX multiplies packed weights with f32, f16 and bf16 only");
  if (w.dims.size() != (has_experts(q.node) ? 3 : 2) || !is_static(w.dims))
    return refuse("MLX packs matrices of known extents");
  const auto [experts, n, k] = extents_of(w, a);
  if (experts == 0 || n == 0 || k == 0) return refuse("there are no weights");
  if (is_block(w.dtype)) {
    if (auto form = form_of_blocks(w.dtype)) return form;
    return refuse(text_of("MLX has no form for blocks of ", w.dtype));
  }
  if (!a.has_scale || a.has_table || a.planes != 1) return refuse("MLX packs codes with scales, of one plane");
  const Type& scales = q.operands[weights[1]];
  const DType scale = scales.dtype;
  const int bits = info(w.dtype).bits;
  if (w.dtype == f4e2m1fn || w.dtype == f8e4m3fn) {
    if (a.has_zero_point || a.has_bias) return refuse("MLX has no zero points and biases for codes that are floats");
    if (scale == f8e8m0fnu && group_of(k, a.block_size, {32}))
      return PackedForm{bits == 4 ? "mxfp4" : "mxfp8", bits, 32};
    if (scale == f8e4m3fn && bits == 4 && group_of(k, a.block_size, {16})) return PackedForm{"nvfp4", 4, 16};
    return refuse(text_of("MLX has no form for ", w, " with scales ", scales));
  }
  const Kind kind = kind_of(w.dtype);
  const bool is_code =
      (kind == Kind::unsigned_int && (bits == 2 || bits == 3 || bits == 4 || bits == 6 || bits == 8)) ||
      (kind == Kind::signed_int && (bits == 4 || bits == 8));
  if (!is_code || !is_float(scale) || info(scale).bits < 16)
    return refuse(text_of("MLX has no form for ", w, " with scales ", scales));
  for (size_t i : weights)
    if (q.operands[i].dtype == f64) return refuse("MLX packs no scales of f64");
  if (const int group = group_of(k, a.block_size, {128, 64, 32})) return PackedForm{"affine", bits, group};
  return refuse(text_of("MLX has scales for 32, 64 or 128 elements of a row, and ", w, " has them for ",
                        a.block_size > 0 ? a.block_size : k));
}

std::vector<size_t> weight_operands(const Node& node) {
  std::vector<size_t> all;
  for (size_t i = 1; i < node.operands.size(); ++i)
    if (i != 2 || !has_experts(node)) all.push_back(i);  // operand 2 of a grouped product says which expert
  return all;
}

std::vector<mx::array> packed_weights(const Node& node, const std::vector<Type>& operands,
                                      std::span<const mx::array> values) {
  const Attrs a = attrs_of(node);
  std::vector<Type> types;
  for (size_t i : weight_operands(node)) types.push_back(operands[i]);
  Packed to(extents_of(types[0], a), has_experts(node), packed_form({node, operands}).value());
  if (is_block(types[0].dtype)) pack_blocks(types[0].dtype, bytes_of(values[0]), to);
  else pack_codes(a, types, values, to);
  return to.parts();
}

}  // namespace rlx::mlx_backend
