// Compressed weights, written out: each op gives a constant tensor, computed in the dtype of its scales.
#include "frontends/mil/handlers.h"
#include "rlx/element.h"

namespace rlx::mlprogram {
namespace {

/// Field `i` of `bits` bits each, counted from the low bit of byte 0.
uint64_t bit_field(const Tensor& bytes, size_t i, size_t bits) {
  uint64_t value = 0;
  for (size_t b = 0; b < bits; ++b) {
    size_t at = i * bits + b;
    uint64_t byte = static_cast<uint64_t>(bytes.data()[at / 8]);
    value |= (byte >> (at % 8) & 1) << b;
  }
  return value;
}

/// The shape that a vector parameter says; refuses what no memory could hold.
Shape shape_parameter(Call& op, const std::string& name) {
  Shape shape = op.integers(name);
  element_count(shape);
  return shape;
}

void expect_bytes(Call& op, const Tensor& t, size_t elements, size_t bits, const char* what) {
  size_t needed = (elements * bits + 7) / 8;
  if (t.byte_count() < needed) op.wrong(what, " has ", t.byte_count(), " bytes, ", needed, " are needed");
}

/// The arithmetic of a float dtype: every step rounded to it.
struct Rounded {
  DType dtype;
  double operator()(double v) const {
    return dtype == f32 ? static_cast<double>(static_cast<float>(v)) : decode_float(dtype, encode_float(dtype, v));
  }
};

/// Walks a tensor in row-major order beside a coarser one, whose extents divide its own: `f(i, at)` for each element
/// and the block that holds it.
template <class F>
void for_each_in_block(const Shape& fine, const Shape& coarse, F f) {
  if (element_count(fine) == 0) return;
  if (fine.empty()) return f(size_t{0}, size_t{0});
  size_t last = fine.size() - 1, i = 0;
  Shape rows(fine.begin(), fine.end() - 1);
  int64_t extent = fine[last], each = extent / coarse[last];
  auto row = [&](const Axes& index) {
    int64_t base = 0;
    for (size_t d = 0; d < last; ++d) base = base * coarse[d] + index[d] / (fine[d] / coarse[d]);
    base *= coarse[last];
    for (int64_t b = 0; b < coarse[last]; ++b)
      for (int64_t k = 0; k < each; ++k) f(i++, static_cast<size_t>(base + b));
  };
  for_each_index(rows, row);
}
void expect_blocks(Call& op, const Shape& fine, const Tensor& coarse, const char* what, size_t more = 0) {
  bool fits = coarse.rank() == fine.size() + more;
  for (size_t d = 0; d < fine.size() && fits; ++d) fits = coarse.shape()[d] > 0 && fine[d] % coarse.shape()[d] == 0;
  if (!fits)
    op.wrong(what, " ", coarse.type(), " does not divide dims ", Type{u8, Dims(fine.begin(), fine.end())},
             " into equal blocks");
}

/// scale * (data - offset), block by block; `data` of any dtype.
Tensor shift_scaled(Call& op, const Tensor& data, const Tensor& scale, const std::optional<Tensor>& offset) {
  expect_blocks(op, data.shape(), scale, "'scale'");
  if (offset && offset->shape() != scale.shape())
    op.wrong("'offset' ", offset->type(), " differs in shape from 'scale' ", scale.type());
  Tensor out = Tensor::uninitialized(scale.dtype(), data.shape());
  Rounded rounded{scale.dtype()};
  std::vector<double> scales, offsets;
  for (size_t i = 0; i < scale.element_count(); ++i) scales.push_back(load_number(scale, i));
  for (size_t i = 0; offset && i < offset->element_count(); ++i) offsets.push_back(load_number(*offset, i));
  for_each_in_block(data.shape(), scale.shape(), [&](size_t i, size_t at) {
    double v = rounded(load_number(data, i));
    if (offset) v = rounded(v - offsets[at]);
    store<double>(out, i, rounded(scales[at] * v));
  });
  return out;
}

std::optional<Tensor> optional_constant(Call& op, const std::string& name) {
  return op.has(name) ? std::optional(op.constant(name)) : std::nullopt;
}

/// Entries of the tables that `indices` name; vectors of entries run along an axis of the result.
Tensor looked_up(Call& op, const Tensor& indices, const Tensor& lut) {
  expect_blocks(op, indices.shape(), lut, "'lut'", 2);
  size_t rank = indices.rank();
  int64_t entries = lut.shape()[rank], vector = lut.shape()[rank + 1];
  int64_t axis = 0;
  if (vector > 1) axis = valid_axis(op.integer("vector_axis"), rank);
  else if (op.has("vector_axis")) axis = valid_axis(op.integer("vector_axis"), rank);
  Shape shape = indices.shape(), groups(lut.shape().begin(), lut.shape().begin() + static_cast<int64_t>(rank));
  shape[static_cast<size_t>(axis)] *= vector;
  element_count(shape);
  Tensor out(lut.dtype(), shape);
  auto entry = [&](size_t i, size_t block) {
    int64_t code = load_index(indices, i);
    if (code < 0 || code >= entries) op.wrong("index ", code, " is out of range of a table of ", entries);
    return (block * static_cast<size_t>(entries) + static_cast<size_t>(code)) * static_cast<size_t>(vector);
  };
  // Elements of a vector stand as far apart as the dims behind its axis have places.
  size_t inner = 1;
  for (size_t d = static_cast<size_t>(axis) + 1; d < rank; ++d) inner *= static_cast<size_t>(shape[d]);
  size_t count = static_cast<size_t>(vector);
  for_each_in_block(indices.shape(), groups, [&](size_t i, size_t block) {
    size_t from = entry(i, block), to = i / inner * inner * count + i % inner;
    for (size_t v = 0; v < count; ++v) copy_element(out, to + v * inner, lut, from + v);
  });
  return out;
}

/// The values where the mask is 1, in order; zeros elsewhere.
Tensor spread(Call& op, const Tensor& mask, const Tensor& values) {
  Tensor out(values.dtype(), mask.shape());
  size_t used = 0;
  for (size_t i = 0; i < mask.element_count(); ++i) {
    if (load_index(mask, i) == 0) continue;
    if (used == values.element_count()) op.wrong("the mask has more places than there are values: ", used);
    copy_element(out, i, values, used++);
  }
  if (used != values.element_count())
    op.wrong("the mask has ", used, " places for ", values.element_count(), " values");
  return out;
}
/// What stands where the mask is 1, in order.
Tensor gathered(const Tensor& mask, const Tensor& dense, size_t count) {
  Tensor out(dense.dtype(), {static_cast<int64_t>(count)});
  size_t used = 0;
  for (size_t i = 0; i < mask.element_count(); ++i)
    if (load_index(mask, i) != 0) copy_element(out, used++, dense, i);
  return out;
}

Results constants(std::vector<Tensor> tensors) {
  std::vector<ItemPtr> items;
  for (Tensor& t : tensors) items.push_back(make_constant(std::move(t)));
  return Results(std::move(items));
}

}  // namespace

MIL_OP(const) { return Results(op.item("val")); }

MIL_OP(constexpr_cast) {
  Tensor source = op.constant("source_val");
  DType to = op.dtype(dtype_of_word(op.word("output_dtype")));
  Tensor out = Tensor::uninitialized(to, source.shape());
  for (size_t i = 0; i < source.element_count(); ++i) store<double>(out, i, load_number(source, i));
  return constants({out});
}

MIL_OP(constexpr_affine_dequantize) {
  Tensor data = op.constant("quantized_data"), zero = op.constant("zero_point"), scale = op.constant("scale");
  if (data.rank() == 0) op.wrong("quantized_data is a scalar");
  int64_t axis = valid_axis(op.integer("axis"), data.rank());
  Shape along(data.rank(), 1);
  auto shaped = [&](const Tensor& t, const char* name) {
    if (t.element_count() != 1 && static_cast<int64_t>(t.element_count()) != data.shape()[static_cast<size_t>(axis)])
      op.wrong("'", name, "' ", t.type(), " does not run along axis ", axis, " of ", data.type());
    Shape s = along;
    s[static_cast<size_t>(axis)] = static_cast<int64_t>(t.element_count());
    return t.reshaped(s);
  };
  scale = shaped(scale, "scale"), zero = shaped(zero, "zero_point");
  if (zero.shape() != scale.shape()) {  // one of them is for all
    Shape wide = along;
    wide[static_cast<size_t>(axis)] = data.shape()[static_cast<size_t>(axis)];
    auto repeated = [&](const Tensor& t) {
      return t.shape() == wide ? t : moved(t, wide, [](const Axes&) { return int64_t{0}; });
    };
    scale = repeated(scale), zero = repeated(zero);
  }
  return constants({shift_scaled(op, data, scale, zero)});
}

MIL_OP(constexpr_blockwise_shift_scale) {
  Tensor data = op.constant("data"), scale = op.constant("scale");
  return constants({shift_scaled(op, data, scale, optional_constant(op, "offset"))});
}

// iOS 16: bit fields in bytes, and the shape beside them. iOS 18: a tensor of narrow integers.
MIL_OP(constexpr_lut_to_dense) {
  Tensor indices = op.constant("indices"), lut = op.constant("lut");
  if (!op.has("shape")) return constants({looked_up(op, indices, lut)});
  Shape shape = shape_parameter(op, "shape");
  size_t count = static_cast<size_t>(element_count(shape)), bits = 0;
  while ((size_t{1} << bits) < lut.element_count()) ++bits;
  if (lut.element_count() != size_t{1} << bits || bits == 0 || bits > 8)
    op.wrong("'lut' has ", lut.element_count(), " entries; 2, 4, 16, 64 or 256 are what indices can name");
  expect_bytes(op, indices, count, bits, "'indices'");
  Tensor out(lut.dtype(), shape);
  for (size_t i = 0; i < count; ++i) copy_element(out, i, lut, static_cast<size_t>(bit_field(indices, i, bits)));
  return constants({out});
}

MIL_OP(constexpr_sparse_to_dense) {
  Tensor values = op.constant("nonzero_data"), mask = op.constant("mask");
  if (!op.has("shape")) return constants({spread(op, mask, values)});
  Shape shape = shape_parameter(op, "shape");
  size_t count = static_cast<size_t>(element_count(shape));
  expect_bytes(op, mask, count, 1, "'mask'");
  Tensor bits(u8, shape);
  for (size_t i = 0; i < count; ++i) store<uint64_t>(bits, i, bit_field(mask, i, 1));
  return constants({spread(op, bits, values)});
}

MIL_OP(constexpr_lut_to_sparse) {
  Tensor mask = op.constant("indices_mask"), values = op.constant("indices_nonzero_data"), lut = op.constant("lut");
  Tensor dense = looked_up(op, spread(op, mask, values), lut);
  int64_t vector = lut.shape().back();
  Tensor wide = mask;
  if (vector > 1) {
    size_t axis = static_cast<size_t>(valid_axis(op.integer("vector_axis"), mask.rank()));
    wide = moved(mask, dense.shape(), [&](const Axes& index) {
      Axes from = index;
      from[axis] /= vector;
      return static_cast<int64_t>(offset_of(mask.shape(), from));
    });
  }
  Tensor picked = gathered(wide, dense, values.element_count() * static_cast<size_t>(vector));
  return constants({wide, picked});
}

MIL_OP(constexpr_sparse_blockwise_shift_scale) {
  Tensor mask = op.constant("data_mask"), values = op.constant("nonzero_data"), scale = op.constant("scale");
  Tensor dense = shift_scaled(op, spread(op, mask, values), scale, optional_constant(op, "offset"));
  return constants({mask, gathered(mask, dense, values.element_count())});
}

}  // namespace rlx::mlprogram
