// Weights that are packed: blocks of GGUF, and codes beside scales. Where they are constants and the opset has it, they
// stay packed in the package (constexpr_blockwise_shift_scale); else they are read by arithmetic, or, of blocks, when
// the package is written.
//
// A block's elements are a scale times small integers, or that and a number for each run of 16 or 32. Both are found by
// the decoder (rlx/blocks.h) alone: with the bytes of the minimum cleared it gives the products, with those of the
// scale cleared the minimum. What is found is compared with what the decoder gives, so that it is exact or not used.
#include <array>
#include <cmath>
#include <cstring>

#include "backends/coreml/lowerings.h"
#include "backends/coreml/weights.h"
#include "rlx/blocks.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace when {
std::optional<std::string> has_codes(const Question& q) {
  if (info(q.operands[0].dtype).bits > 32) return "of codes of at most 32 bits";
  if (q.node.op == &op::dequantize_blockwise && q.node.attrs.as<DequantizeBlockwiseAttrs>().has_table)
    return "of codes without a table";
  return std::nullopt;
}
}  // namespace when

namespace {

constexpr int kOpsetOfBlocks = 8, kOpsetOfChannels = 6;

/// Where a block has the scale and the minimum of all its runs; formats without a minimum have none.
struct Bytes {
  int64_t scale = -1, minimum = -1;
};
Bytes bytes_of(DType t) {
  switch (t) {
    case q4_1:
    case q5_1:
    case q4_k:
    case q5_k: return {0, 2};
    case q2_k: return {80, 82};
    default: return {};
  }
}
/// Elements that share a scale.
int64_t run_of(DType t) {
  switch (t) {
    case q2_k:
    case q3_k:
    case q6_k:
    case iq1_m:
    case iq2_xs:
    case iq2_s:
    case nvfp4: return 16;
    default: return 32;
  }
}

Tensor with_cleared(const Tensor& x, int64_t at) {
  Tensor y = Tensor::uninitialized(x.dtype(), x.shape());
  std::memcpy(y.mutable_data(), x.data(), x.byte_count());
  int64_t step = info(x.dtype()).block_bytes;
  for (int64_t b = 0; b * step < static_cast<int64_t>(x.byte_count()); ++b)
    std::memset(y.mutable_data() + b * step + at, 0, 2);
  return y;
}

/// Whether all are multiples of the scale by -128 to 127, or by -127 to 128: the scale may have the other sign.
bool are_multiples(std::span<const float> run, float scale) {
  float low = 0, high = 0;
  for (float v : run) {
    float q = std::nearbyint(v / scale);
    low = std::min(low, q), high = std::max(high, q);
    if (!(low >= -128 && high <= 128) || q * scale != v) return false;
  }
  return low > -128 || high < 128;
}

/// The largest scale of which all of a run are multiples by -128 to 127; nothing if there is none.
std::optional<float> scale_of(std::span<const float> run) {
  float least = 0;
  for (float v : run)
    if (v != 0 && (least == 0 || std::abs(v) < least)) least = std::abs(v);
  if (least == 0) return 0.0F;
  if (!std::isfinite(least)) return std::nullopt;
  for (int k = 1; k <= 128; ++k)
    if (float scale = least / static_cast<float>(k); are_multiples(run, scale)) return scale;
  return std::nullopt;
}

/// The scale of a block whose format keeps it as an f32: its multiples are rounded, so they do not tell it.
std::optional<float> stored_scale(const Tensor& x, size_t block) {
  if (x.dtype() != q8_k) return std::nullopt;
  float scale = 0;
  std::memcpy(&scale, x.data() + block * static_cast<size_t>(info(q8_k).block_bytes), sizeof scale);
  return scale;
}

/// The integers that a format multiplies with its scales, where they are few: sixteen at most, in powers of two.
std::vector<int8_t> integers_of(DType t) {
  switch (t) {
    case q1_0: return {-1, 1};
    case q2_0:
    case tq2_0: return {-1, 0, 1, 2};
    case tq1_0: return {-1, 0, 1, 1};
    case q2_k: return {0, 1, 2, 3};
    case q3_k: return {-4, -3, -2, -1, 0, 1, 2, 3};
    case iq4_nl:  // the table of llama.cpp's IQ4_NL and IQ4_XS
    case iq4_xs: return {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    case mxfp4:  // halves of E2M1
    case nvfp4: return {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    default: return {};
  }
}

struct Packed {
  /// i4, u4 or i8 of x's shape; with a table its places in it, u1 to u4. Scales: f32 with one for each run.
  Tensor codes, scales;
  std::optional<Tensor> added = {};  ///< likewise
  std::optional<Tensor> table = {};  ///< i8

  int64_t integer(size_t i) const {
    int64_t code = load_index(codes, i);
    return table ? load_index(*table, static_cast<size_t>(code)) : code;
  }
};

/// Places in the format's table, if every run is a scale times its integers.
std::optional<Packed> packed_by_table(const Tensor& products, DType format, const Shape& runs) {
  std::vector<int8_t> integers = integers_of(format);
  if (integers.empty()) return std::nullopt;
  std::array<int, 256> place;
  place.fill(-1);
  for (size_t i = integers.size(); i-- > 0;) place[static_cast<size_t>(integers[i] + 128)] = static_cast<int>(i);
  std::vector<int> by_size(integers.begin(), integers.end());
  std::sort(by_size.begin(), by_size.end(), [](int a, int b) { return std::abs(a) > std::abs(b); });
  DType type = integers.size() == 2 ? u1 : integers.size() == 4 ? u2 : integers.size() == 8 ? u3 : u4;
  Packed p{Tensor(type, products.shape()), Tensor(f32, runs)};
  p.table = Tensor::of<int8_t>({static_cast<int64_t>(integers.size())}, integers);
  size_t run = products.element_count() / p.scales.element_count();
  const float* from = products.values<float>().data();
  auto place_of = [&](float v, float scale) {
    float q = std::nearbyint(v / scale);
    if (!(q >= -128 && q <= 127) || q * scale != v) return -1;
    return place[static_cast<size_t>(static_cast<int>(q) + 128)];
  };
  for (size_t r = 0; r < p.scales.element_count(); ++r) {
    std::span<const float> values(from + r * run, run);
    float most = 0;
    for (float v : values)
      if (std::abs(v) > std::abs(most)) most = v;
    if (most == 0) {
      int64_t zero = std::max(place[128], 0);  // where the table has none, any integer times a scale of zero
      for (size_t i = 0; i < run; ++i) store<int64_t>(p.codes, r * run + i, zero);
      continue;
    }
    bool found = false;
    for (size_t k = 0; k < by_size.size() && by_size[k] != 0 && !found; ++k) {
      float scale = most / static_cast<float>(by_size[k]);
      if (scale == 0 || !std::isfinite(scale)) continue;
      found = std::all_of(values.begin(), values.end(), [&](float v) { return place_of(v, scale) >= 0; });
      if (!found) continue;
      p.scales.mutable_values<float>()[r] = scale;
      for (size_t i = 0; i < run; ++i) store<int64_t>(p.codes, r * run + i, place_of(values[i], scale));
    }
    if (!found) return std::nullopt;
  }
  return p;
}

std::optional<Packed> packed_by_scales(const Tensor& x, const Tensor& products, int64_t run, const Shape& runs);
std::optional<Packed> packed(const Tensor& x) {
  int64_t run = run_of(x.dtype());
  if (info(x.dtype()).block_elements % run != 0) return std::nullopt;
  Bytes bytes = bytes_of(x.dtype());
  Tensor products = dequantized(bytes.minimum < 0 ? x : with_cleared(x, bytes.minimum), f32);
  Shape runs = x.shape();
  runs.back() /= run;
  auto p = packed_by_table(products, x.dtype(), runs);
  if (!p) p = packed_by_scales(x, products, run, runs);
  if (!p) return std::nullopt;
  if (bytes.minimum >= 0) {
    Tensor minimum = dequantized(with_cleared(x, bytes.scale), f32);
    p->added = Tensor(f32, runs);
    for (size_t r = 0; r < p->scales.element_count(); ++r)
      p->added->mutable_values<float>()[r] = minimum.values<float>()[r * static_cast<size_t>(run)];
  }
  // Exact, or not used: a minimum that is no number, for one, is none.
  Tensor wanted = dequantized(x, f32);
  for (size_t i = 0; i < wanted.element_count(); ++i) {
    size_t r = i / static_cast<size_t>(run);
    float v = static_cast<float>(p->integer(i)) * p->scales.values<float>()[r];
    if (p->added) v += p->added->values<float>()[r];
    if (v != wanted.values<float>()[i]) return std::nullopt;
  }
  return p;
}

/// Codes of 4 or 8 bits, by the largest scale of which a run's elements are multiples.
std::optional<Packed> packed_by_scales(const Tensor& x, const Tensor& products, int64_t run, const Shape& runs) {
  Bytes bytes = bytes_of(x.dtype());
  const Shape& shape = x.shape();
  Packed p{Tensor(i8, shape), Tensor(f32, runs)};
  const float* from = products.values<float>().data();
  int8_t least = 0, most = 0;
  for (size_t r = 0; r < p.scales.element_count(); ++r) {
    std::span<const float> values(from + r * static_cast<size_t>(run), static_cast<size_t>(run));
    auto scale = scale_of(values);
    if (!scale) {
      scale = stored_scale(x, r * static_cast<size_t>(run) / static_cast<size_t>(info(x.dtype()).block_elements));
      if (!scale || *scale == 0 || !std::isfinite(*scale) || !are_multiples(values, std::abs(*scale)))
        return std::nullopt;
      scale = std::abs(*scale);
    }
    // The largest code is a negative one, as i4 has one more of those; codes beside a minimum have no sign.
    auto [low, high] = std::minmax_element(values.begin(), values.end());
    if (bytes.minimum < 0 ? *high > -*low : *low < 0) *scale = -*scale;
    p.scales.mutable_values<float>()[r] = *scale;
    for (size_t i = 0; i < values.size(); ++i) {
      auto q = static_cast<int8_t>(*scale == 0 ? 0 : std::nearbyint(values[i] / *scale));
      least = std::min(least, q), most = std::max(most, q);
      p.codes.mutable_values<int8_t>()[r * static_cast<size_t>(run) + i] = q;
    }
  }
  bool with_sign = least >= -8 && most <= 7;
  if (with_sign || (least >= 0 && most <= 15)) {
    Tensor four(with_sign ? i4 : u4, shape);
    for (size_t i = 0; i < four.element_count(); ++i) store<int64_t>(four, i, p.codes.values<int8_t>()[i]);
    p.codes = four;
  }
  return p;
}

/// One of `scales`, which has one for each run of `size` along `axis`, for each place of `shape`.
Var spread(Emitter& e, const Var& scales, const Shape& shape, size_t axis, int64_t size) {
  if (size == 1 || scales.shape[axis] == 1) return scales;  // the operations stretch what has one element
  auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  int64_t before = e.count(Shape(shape.begin(), at)), after = e.count(Shape(at + 1, shape.end()));
  int64_t runs = scales.shape[axis];
  Var rows = e.broadcast(e.reshape(scales, {before, runs, 1, after}), {before, runs, size, after});
  rows = e.reshape(rows, {before, e.product(runs, size), after});
  rows = e.slice(rows, {0, 0, 0}, {before, shape[axis], after}, {1, 1, 1});
  return e.reshape(rows, shape);
}

/// Blocks as multiples of a scale that come nearest to them: one scale for each run from iOS 18 on, one for each place
/// along the first dim from iOS 16 on. Nothing before that, and for elements that are no numbers.
std::optional<Var> nearest_blocks(Lowering& l, const Tensor& x) {
  Emitter& e = l.e;
  if (e.opset() < kOpsetOfChannels || x.rank() == 0 || x.element_count() == 0) return std::nullopt;
  Tensor values = dequantized(x, f32);
  auto all = values.values<float>();
  if (!std::all_of(all.begin(), all.end(), [](float v) { return std::isfinite(v); })) return std::nullopt;
  int64_t run = e.opset() >= kOpsetOfBlocks ? run_of(x.dtype()) : 0;
  Nearest n = nearest_codes(values, run);
  l.note(text_of("weights of ", x.type(), l.node.name.empty() ? "" : " of '" + l.node.name + "'",
                 " are the nearest multiples of a scale for each ",
                 run ? text_of("run of ", run) : std::string("place along their first dim"),
                 ", in 8 bits; the greatest change is ", n.change));
  if (run == 0) return affine(e, n.codes, n.scales, std::nullopt, 0);
  return e.emit_literals("constexpr_blockwise_shift_scale", {{"data", n.codes}, {"scale", n.scales}}, f32, x.shape());
}

}  // namespace

Lowered lower_dequantize_blocks(Lowering& l) {
  Emitter& e = l.e;
  DType dtype = l.result().dtype;
  const Tensor* x = l.tensor(0);
  if (!x)
    fail(ErrorCode::unsupported, "its blocks of ", l.types[0].dtype,
         " are computed or an input; a package has blocks as constants only: bind them");
  Shape shape = l.shape();
  std::optional<Packed> p;
  if (e.opset() >= kOpsetOfBlocks && x->rank() > 0) p = packed(*x);
  if (!p && l.nearest)
    if (auto y = nearest_blocks(l, *x)) return {e.cast(*y, l.dtype())};
  if (!p) return {e.constant(carried_constant(dequantized(*x, dtype == f16 ? f16 : f32)).reshaped(shape))};
  Emitter::Literals literals{{"scale", p->scales}};
  Arguments others;
  if (p->table) others.emplace_back("data", looked_up(e, {p->codes, *p->table}));
  else literals.emplace_back("data", p->codes);
  Var y = e.emit_literals("constexpr_blockwise_shift_scale", literals, f32, shape, others);
  if (p->added) {
    size_t last = shape.size() - 1;
    y = e.add(y, spread(e, e.constant(*p->added), shape, last, shape[last] / p->added->shape().back()));
  }
  return {e.cast(y, l.dtype())};
}

namespace {

/// What stands beside the codes, in the order of the operands.
struct Beside {
  std::optional<size_t> zero_point = {}, bias = {}, global = {};
  bool none() const { return !zero_point && !bias && !global; }
};

/// ((q - zero_point) scale + bias) global, in f32; `size` elements along `axis` share what stands beside them.
Lowered read_codes(Lowering& l, size_t axis, int64_t size, const Beside& beside,
                   const std::function<Var(const Var&)>& laid_out) {
  Emitter& e = l.e;
  DType from = l.types[0].dtype;
  Shape shape = e.carried(l.types[0]);
  const Tensor *codes = l.tensor(0), *scale = l.tensor(1);
  const Tensor* zero_point = beside.zero_point ? l.tensor(*beside.zero_point) : nullptr;
  bool constant = codes && scale && (!beside.zero_point || zero_point);
  bool fits = from == i8 || from == u8 || from == i4 || from == u4;
  bool even = shape[axis] % size == 0 && l.types[0].rank() > 0;
  auto as = [&](size_t i) {
    Var v = l.operand(i);
    return laid_out(v.dtype == i32 && is_wide_unsigned(l.types[i].dtype) ? real_of_unsigned(e, v) : e.cast(v, f32));
  };
  // Numbers of f16 are read as such, rounded once, which is what the op says.
  const DType scales_dtype = scale && scale->dtype() == f16 && l.dtype() == f16 && beside.none() ? f16 : f32;
  std::optional<Var> y;
  if (constant && fits && even && e.opset() >= kOpsetOfBlocks && (!zero_point || zero_point->dtype() == from)) {
    Shape runs(shape.size(), 1);
    runs[axis] = shape[axis] / size;
    // Scales run along `axis` alone, or have the codes' dims otherwise.
    auto in_runs = [&](const Tensor& t) -> std::optional<Tensor> {
      Shape all = shape;
      all[axis] = runs[axis];
      if (t.shape() == all) return t;
      if (t.element_count() == static_cast<size_t>(runs[axis])) return t.reshaped(runs);
      return std::nullopt;
    };
    Tensor wide = Tensor::uninitialized(scales_dtype, scale->shape());
    for (size_t i = 0; i < wide.element_count(); ++i) store<double>(wide, i, load_number(*scale, i));
    auto s = in_runs(wide);
    auto z = zero_point ? in_runs(*zero_point) : std::nullopt;
    if (s && (!zero_point || z)) {
      std::vector<std::pair<std::string_view, Tensor>> literals{{"data", *codes}, {"scale", *s}};
      if (z) literals.emplace_back("offset", *z);
      y = e.emit_literals("constexpr_blockwise_shift_scale", literals, scales_dtype, shape);
    }
  }
  if (constant && !y && (from == i8 || from == u8) && e.opset() >= kOpsetOfChannels && l.types[0].rank() > 0 &&
      (!zero_point || zero_point->dtype() == from)) {
    // One scale for all, or for each place along an axis: what iOS 16 has.
    auto fits_axis = [&](const Tensor& t) {
      return t.element_count() == 1 || (size == 1 && t.element_count() == static_cast<size_t>(shape[axis]));
    };
    if (fits_axis(*scale) && (!zero_point || fits_axis(*zero_point))) {
      Tensor wide = Tensor::uninitialized(scales_dtype, scale->shape());
      for (size_t i = 0; i < wide.element_count(); ++i) store<double>(wide, i, load_number(*scale, i));
      y = affine(e, *codes, wide, zero_point ? std::optional(*zero_point) : std::nullopt, static_cast<int64_t>(axis));
    }
  }
  if (!y) {
    y = is_wide_unsigned(from) ? real_of_unsigned(e, l.operand(0)) : e.cast(l.operand(0), f32);
    if (beside.zero_point) y = e.sub(*y, spread(e, as(*beside.zero_point), shape, axis, size));
    y = e.mul(*y, spread(e, as(1), shape, axis, size));
  }
  if (beside.bias) y = e.add(*y, spread(e, as(*beside.bias), shape, axis, size));
  if (beside.global) y = e.mul(*y, e.reshape(e.cast(l.operand(*beside.global), f32), Shape(shape.size(), 1)));
  return {e.cast(*y, l.dtype())};
}

}  // namespace

Lowered lower_dequantize_blockwise(Lowering& l) {
  const auto& a = l.attrs<DequantizeBlockwiseAttrs>();
  Beside beside;
  size_t next = 2;
  if (a.has_zero_point) beside.zero_point = next++;
  if (a.has_bias) beside.bias = next++;
  if (a.has_global) beside.global = next++;
  auto axis = static_cast<size_t>(valid_axis(a.axis, l.types[0].rank()));
  int64_t size = a.block_size ? a.block_size : l.e.extent(l.types[0].dims[axis]);
  return read_codes(l, axis, size, beside, [](const Var& v) { return v; });
}

Lowered lower_dequantize(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<DequantizeAttrs>();
  Shape shape = e.carried(l.types[0]), line(shape.size(), 1);
  size_t axis = a.axis ? static_cast<size_t>(valid_axis(*a.axis, l.types[0].rank())) : 0;
  if (a.axis) line[axis] = shape[axis];
  Beside beside;
  if (l.types.size() > 2) beside.zero_point = 2;
  return read_codes(l, axis, a.axis ? 1 : shape[axis], beside, [&](const Var& v) { return e.reshape(v, line); });
}

}  // namespace rlx::coreml
