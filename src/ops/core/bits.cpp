// Ops on bits: logic, shifts, counts, and the same bits as another dtype. A shift by the width or more gives 0, or the
// sign (docs/ir.md). Neighbours: elementwise.cpp, the arithmetic; float_bits.cpp, what floats are made of.
#include <bit>
#include <cstring>

#include "ops/core/elementwise_rules.h"

namespace rlx {

Value bitcast(Value x, DType dtype) { return emit(op::bitcast, {x}, ConvertAttrs{dtype}); }

namespace {

int bit_width(DType t) { return info(t).bits; }
/// Rows of bytes as rows of blocks, or the other way round.
Type bitcast_blocks_type(const Type& x, DType to) {
  const DTypeInfo& format = info(is_block(to) ? to : x.dtype);
  const int64_t from = is_block(to) ? format.block_bytes : format.block_elements;
  const int64_t width = is_block(to) ? format.block_elements : format.block_bytes;
  if ((is_block(to) ? x.dtype : to) != u8)
    fail(ErrorCode::invalid_argument, "bits of ", x, " cannot be read as ", to,
         "; blocks are read from and as u8 alone");
  if (x.dims.empty() || !x.dims.back().is_static() || x.dims.back().value() % from != 0)
    fail(ErrorCode::shape_mismatch, "the last dim of ", x, " must be a multiple of ", from, " to be read as ", to);
  Type t{to, x.dims};
  t.dims.back() = x.dims.back().value() / from * width;
  return t;
}
Type bitcast_type(const Type& x, DType to) {
  if (is_block(to) != is_block(x.dtype)) return bitcast_blocks_type(x, to);
  if (!is_byte_sized(x.dtype) || !is_byte_sized(to) || (x.dtype == boolean) != (to == boolean))
    fail(ErrorCode::invalid_argument, "bits of ", x, " cannot be read as ", to);
  Type t{to, x.dims};
  auto from = static_cast<int64_t>(byte_size(x.dtype)), width = static_cast<int64_t>(byte_size(to));
  if (from > width) t.dims.push_back(from / width);
  if (from < width) {
    if (t.dims.empty() || t.dims.back() != Dim(width / from))
      fail(ErrorCode::shape_mismatch, "the last dim of ", x, " must be ", width / from, " to be read as ", to);
    t.dims.pop_back();
  }
  return t;
}

/// Shifts within the width of the dtype; the count is taken as unsigned.
template <class F>
OpDef define_shift(std::string_view name, std::string_view doc, F shift) {
  return define<>({
      .name = name,
      .doc = doc,
      .operands = {"x", "count"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(require_same(in), kInteger), in[0]; },
      .reference =
          [shift](Tensors in) {
            DType t = in[0].dtype();
            int width = bit_width(t);
            uint64_t mask = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
            return with_kinds<kInteger>(t, [&]<class T>() {
              return zip_elements<T, T>(t, in[0], in[1], [&](T x, T n) {
                return static_cast<T>(shift(static_cast<uint64_t>(x) & mask, static_cast<uint64_t>(n) & mask, width));
              });
            });
          },
      .samples = {{.dims = {{3, 4}, {3, 4}}, .dtypes = {i32, i32}, .lo = 0, .hi = 9},
                  {.dims = {{5}, {5}}, .dtypes = {u8, u8}, .lo = 0, .hi = 12},
                  {.dims = {{40}, {40}}, .dtypes = {u8, u8}, .lo = 0, .hi = 255},
                  {.dims = {{}, {}}, .dtypes = {i64, i64}, .lo = 0, .hi = 70},
                  {.dims = {{2, 0}, {2, 0}}, .dtypes = {u32, u32}, .lo = 0},
                  {.dims = {{19, 1}, {19, 1}}, .dtypes = {i16, i16}, .lo = -3, .hi = 18}},
  });
}

}  // namespace

OpDef define_bitwise_not() {
  return define<>({
      .name = "bitwise_not",
      .doc = "every bit inverted; of a bool its negation",
      .operands = {"x"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(in[0], kBool | kInteger), in[0]; },
      .reference =
          [](Tensors in) {
            DType t = in[0].dtype();
            return with_kinds<kBool | kInteger>(t, [&]<class T>() {
              return map_elements<T, T>(t, in[0], [&](T x) { return t == boolean ? T(x == 0) : static_cast<T>(~x); });
            });
          },
      .samples = {{.dims = {{3, 4}}, .dtypes = {i32}},
                  {.dims = {{5}}, .dtypes = {boolean}},
                  {.dims = {{}}, .dtypes = {u64}, .lo = 0},
                  {.dims = {{19, 1}}, .dtypes = {u8}, .lo = 0, .hi = 255},
                  {.dims = {{2, 0}}, .dtypes = {i16}}},
  });
}
OpDef define_popcnt() {
  return define<>({
      .name = "popcnt",
      .doc = "how many bits are set",
      .operands = {"x"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(in[0], kInteger), in[0]; },
      .reference =
          [](Tensors in) {
            int unused = 64 - bit_width(in[0].dtype());
            return with_kinds<kInteger>(in[0].dtype(), [&]<class T>() {
              return map_elements<T, T>(in[0].dtype(), in[0], [&](T x) {
                return static_cast<T>(std::popcount(static_cast<uint64_t>(x) << unused));
              });
            });
          },
      .samples = {{.dims = {{3, 4}}, .dtypes = {i32}, .lo = -99, .hi = 99},
                  {.dims = {{5}}, .dtypes = {u8}, .lo = 0, .hi = 255},
                  {.dims = {{}}, .dtypes = {i64}, .lo = -99, .hi = 99},
                  {.dims = {{2, 0}}, .dtypes = {u32}, .lo = 0},
                  {.dims = {{19, 1}}, .dtypes = {i8}, .lo = -128, .hi = 127}},
  });
}
OpDef define_clz() {
  return define<>({
      .name = "clz",
      .doc = "how many bits are zero above the highest that is set; of 0 the width",
      .operands = {"x"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(in[0], kInteger), in[0]; },
      .reference =
          [](Tensors in) {
            int width = bit_width(in[0].dtype());
            return with_kinds<kInteger>(in[0].dtype(), [&]<class T>() {
              return map_elements<T, T>(in[0].dtype(), in[0], [&](T x) {
                return static_cast<T>(std::min(width, std::countl_zero(static_cast<uint64_t>(x) << (64 - width))));
              });
            });
          },
      .samples = {{.dims = {{3, 4}}, .dtypes = {i32}, .lo = -3, .hi = 99},
                  {.dims = {{5}}, .dtypes = {u8}, .lo = 0, .hi = 255},
                  {.dims = {{}}, .dtypes = {i64}, .lo = -3, .hi = 99},
                  {.dims = {{2, 0}}, .dtypes = {u32}, .lo = 0},
                  {.dims = {{19, 1}}, .dtypes = {i16}, .lo = -9, .hi = 999}},
  });
}
OpDef define_bitwise_and() {
  return define_binary<kBool | kInteger>(
             "bitwise_and", "bits set in both", [](auto x, auto y) { return x & y; }, nullptr, 0, 99) |
         Covers{"Binary"};
}
OpDef define_bitwise_or() {
  return define_binary<kBool | kInteger>(
             "bitwise_or", "bits set in either", [](auto x, auto y) { return x | y; }, nullptr, 0, 99) |
         Covers{"Binary"};
}
OpDef define_bitwise_xor() {
  return define_binary<kBool | kInteger>(
             "bitwise_xor", "bits set in one of them", [](auto x, auto y) { return x ^ y; }, nullptr, 0, 99) |
         Covers{"Binary"};
}
OpDef define_shift_left() {
  return define_shift("shift_left", "x shifted toward the high bits; by the width or more: 0",
                      [](uint64_t x, uint64_t n, int width) { return n >= uint64_t(width) ? 0 : x << n; }) |
         Covers{"Binary"};
}
OpDef define_shift_right_logical() {
  return define_shift("shift_right_logical", "x shifted toward the low bits, zeros coming in; by the width or more: 0",
                      [](uint64_t x, uint64_t n, int width) { return n >= uint64_t(width) ? 0 : x >> n; }) |
         Covers{"Binary"};
}
OpDef define_shift_right_arithmetic() {
  return define_shift("shift_right_arithmetic", "x shifted toward the low bits, copies of the highest bit coming in",
                      [](uint64_t x, uint64_t n, int width) {
                        int64_t wide = static_cast<int64_t>(x << (64 - width)) >> (64 - width);
                        return wide >> std::min<uint64_t>(n, 63);
                      }) |
         Covers{"Binary"};
}
OpDef define_bitcast() {
  return define<ConvertAttrs>({
      .name = "bitcast",
      .doc =
          "the same bits as another dtype; to a narrower one a last dim is added, to a wider one it is consumed; "
          "low bytes come first. The last dim of u8 may be read as that of blocks of a format, and the other way round",
      .operands = {"x"},
      .moves_data = true,
      .infer = [](Types in, const ConvertAttrs& a) { return bitcast_type(in[0], a.dtype); },
      .reference =
          [](Tensors in, const ConvertAttrs& a) {
            Tensor y = Tensor::uninitialized(a.dtype, shape_of(bitcast_type(in[0].type(), a.dtype).dims));
            if (y.byte_count()) std::memcpy(y.mutable_data(), in[0].data(), y.byte_count());
            return y;
          },
      .batch = [](Values in, const ConvertAttrs& a) { return bitcast(in[0], a.dtype); },
      .samples = {{.dims = {{3, 4}}, .dtypes = {f32}, .attrs = ConvertAttrs{i32}},
                  {.dims = {{3}}, .dtypes = {f32}, .attrs = ConvertAttrs{u8}},
                  {.dims = {{3, 2}}, .dtypes = {i16}, .attrs = ConvertAttrs{u32}},
                  {.dims = {{}}, .dtypes = {i64}, .attrs = ConvertAttrs{u16}},
                  {.dims = {{1, 4}}, .dtypes = {u8}, .attrs = ConvertAttrs{i32}, .lo = 0, .hi = 255},
                  {.dims = {{0, 5}}, .dtypes = {bf16}, .attrs = ConvertAttrs{u16}},
                  {.dims = {{2, 64}}, .dtypes = {q4_0}, .attrs = ConvertAttrs{u8}}},
  });
}

}  // namespace rlx
