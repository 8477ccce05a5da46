// Rotary positions as composites; see rlx/ops/attention.h.
#include <cmath>

#include "base/growth_limit.h"
#include "ops/core/composite_rules.h"
#include "ops/nn/heads.h"
#include "rlx/ops/backward.h"

namespace rlx {

Value rope(Value x, Value cos, Value sin, RopeAttrs attrs) { return emit(op::rope, {x, cos, sin}, attrs); }
Value rope_backward(Value ct, Value cos, Value sin, RopeAttrs attrs) {
  return emit(op::rope_backward, {ct, cos, sin}, attrs);
}
Value axial_rope2d(Value x, AxialRope2dAttrs attrs) { return emit(op::axial_rope2d, {x}, attrs); }

namespace {

Dim rotary_dims(const HeadDims& x, const RopeAttrs& a) {
  Dim n = a.rotary_dims ? Dim(*a.rotary_dims) : x.width;
  if (n.is_static() && (n.value() < 0 || n.value() % 2 != 0 || (x.width.is_static() && n.value() > x.width.value())))
    fail(ErrorCode::invalid_argument, n, " rotary dims; heads of ", x.width, " elements turn in pairs");
  return n;
}

/// A table as [B or 1, S, m]: the row stride is its own last extent, which may be more than n / 2.
Dims table_dims(const Type& table, const HeadDims& x, const Dim& pairs) {
  auto refuse = [&] {
    fail(ErrorCode::shape_mismatch, "a table of angles must be ", Type{table.dtype, {x.length, pairs}}, ", or have ",
         x.batch, " times as many rows; got ", table);
  };
  const Dims& dims = table.dims;
  Dim all = x.batch * x.length;
  if (dims.size() == 1) {
    if (dims[0] == x.length * pairs) return {1, x.length, pairs};
    if (dims[0] != all * pairs) refuse();
    return {x.batch, x.length, pairs};
  }
  if (dims.size() != 2 && dims.size() != 3) refuse();
  const Dim& columns = dims.back();
  if (columns.is_static() && pairs.is_static() && columns.value() < pairs.value()) refuse();
  if (dims.size() == 3) {
    if ((dims[0] != Dim(1) && dims[0] != x.batch) || dims[1] != x.length) refuse();
    return dims;
  }
  if (dims[0] == x.length) return {1, x.length, columns};
  if (dims[0] != all) refuse();
  return {x.batch, x.length, columns};
}

/// The pairs among the first n > 0 elements of each head of x[B, H, S, D]: all that stand left, all that stand right.
struct Pairs {
  Value left, right;
  Pairs(Value x, const Dim& n, RopeStyle style) {
    if (style == RopeStyle::neox) {
      left = slice_axis(x, 3, 0, n / 2), right = slice_axis(x, 3, n / 2, n);
      return;
    }
    auto every_second = [&](int64_t first) {
      Dims starts(4, Dim(0)), limits = x.dims();
      starts[3] = first, limits[3] = n;
      return slice(x, starts, limits, {1, 1, 1, 2});
    };
    left = every_second(0), right = every_second(1);
  }
};

/// Turns the first n elements of each head of x[B, H, S, D] by angles given as [B or 1, 1, S, n / 2].
Value turned(Value x, Value cos, Value sin, const Dim& n, RopeStyle style) {
  if (n == Dim(0)) return x;
  auto [left, right] = Pairs(x, n, style);
  Value l = left * cos - right * sin, r = right * cos + left * sin, y;
  if (style == RopeStyle::neox) {
    y = concatenate({l, r}, 3);
  } else {
    Dims dims = l.dims();
    dims[3] = n;
    y = reshape(concatenate({expand_dims(l, 4), expand_dims(r, 4)}, 4), dims);
  }
  return n == x.dim(3) ? y : concatenate({y, slice_axis(x, 3, n, x.dim(3))}, 3);
}
/// A table as angles of the pairs: [B or 1, 1, S, n / 2].
Value angles(Value table, const Dims& dims, const Dim& pairs, DType dtype) {
  table = reshape(convert(table, dtype), {dims[0], 1, dims[1], dims[2]});
  return dims[2] == pairs ? table : slice_axis(table, 3, 0, pairs);
}
Value rope_parts(Values in, const RopeAttrs& a, bool forward) {
  HeadDims d(in[0].type(), a.layout, a.heads, "x");
  Dim n = rotary_dims(d, a);
  Dims table = table_dims(in[1].type(), d, n / 2);
  Value cos = angles(in[1], table, n / 2, in[0].dtype()), sin = angles(in[2], table, n / 2, in[0].dtype());
  return from_bhsd(turned(to_bhsd(in[0], d), cos, forward ? sin : -sin, n, a.style), d, in[0]);
}
/// The cotangents of the tables: for each angle what all heads, and all batches that share it, make of it.
std::pair<Value, Value> table_cts(Values in, Value ct, const RopeAttrs& a) {
  HeadDims d(in[0].type(), a.layout, a.heads, "x");
  Dim n = rotary_dims(d, a);
  if (n == Dim(0)) return {};
  Dims table = table_dims(in[1].type(), d, n / 2);
  Pairs x(to_bhsd(in[0], d), n, a.style), y(to_bhsd(ct, d), n, a.style);
  auto as_table = [&](Value v) {
    v = reduce_sum(v, table[0] == d.batch ? Axes{1} : Axes{0, 1});
    v = reshape(v, {table[0], table[1], n / 2});
    if (table[2] != n / 2) v = pad(v, scalar(v.graph(), 0, v.dtype()), {{0, 0, 0}, {0, 0, table[2] - n / 2}, {}});
    return convert(reshape(v, in[1].dims()), in[1].dtype());
  };
  return {as_table(x.left * y.left + x.right * y.right), as_table(x.left * y.right - x.right * y.left)};
}
Type rope_type(Types in, const RopeAttrs& a) {
  for (const Type& t : in) require_kind(t, kReal);
  if (in[1] != in[2]) fail(ErrorCode::shape_mismatch, "the tables differ: cos ", in[1], ", sin ", in[2]);
  HeadDims d(in[0], a.layout, a.heads, "x");
  table_dims(in[1], d, rotary_dims(d, a) / 2);
  return in[0];
}
std::vector<Sample> rope_samples() {
  using enum AttentionLayout;
  return {{.dims = {{2, 3, 4, 6}, {4, 3}, {4, 3}}, .attrs = RopeAttrs{3}},
          {.dims = {{2, 4, 3, 6}, {4, 3}, {4, 3}}, .attrs = RopeAttrs{3, bshd, {}, RopeStyle::gptj}},
          {.dims = {{2, 3, 8}, {3, 2}, {3, 2}}, .attrs = RopeAttrs{2, packed}},
          {.dims = {{2, 3, 16}, {3, 4}, {3, 4}}, .attrs = RopeAttrs{2, packed, 4, RopeStyle::gptj}},
          {.dims = {{2, 2, 3, 8}, {6, 2}, {6, 2}}, .attrs = RopeAttrs{2, bhsd, 4}},
          {.dims = {{2, 2, 3, 8}, {2, 3, 4}, {2, 3, 4}}, .dtypes = {f64, f32, f32}, .attrs = RopeAttrs{2, bhsd, 2}},
          {.dims = {{2, 3, 8}, {1, 3, 4}, {1, 3, 4}}, .attrs = RopeAttrs{1, packed, 0}},
          {.dims = {{3, 8}, {12}, {12}}, .attrs = RopeAttrs{1, packed}},
          {.dims = {{2, 3, 4}, {12}, {12}}, .attrs = RopeAttrs{1, packed}}};
}

/// The pair's partners within a head.
std::pair<int64_t, int64_t> partners(int64_t pair, int64_t pairs, RopeStyle style) {
  return style == RopeStyle::neox ? std::pair{pair, pair + pairs} : std::pair{2 * pair, 2 * pair + 1};
}
void turn(double& left, double& right, double cos, double sin) {
  double l = left;
  left = l * cos - right * sin;
  right = right * cos + l * sin;
}

int64_t grid_width(const Type& x, const AxialRope2dAttrs& a) {
  HeadDims d(x, a.layout, a.heads, "x");
  if (a.end_x < 1 || a.end_y < 1 || a.repeat_factor < 1 || !(a.theta > 0))
    fail(ErrorCode::invalid_argument, "end_x, end_y, repeat_factor and theta must be positive, got ", a.end_x, ", ",
         a.end_y, ", ", a.repeat_factor, " and ", a.theta);
  if (d.length != Dim(a.end_x) * a.end_y * a.repeat_factor)
    fail(ErrorCode::shape_mismatch, d.length, " positions of ", x, " do not fill a grid of ", a.end_x, " by ", a.end_y,
         ", repeated ", a.repeat_factor, " times");
  int64_t width = d.width.value();
  if (width % 4 != 0)
    fail(ErrorCode::invalid_argument, "heads of ", width, " elements do not divide into two halves of pairs");
  return width;
}
/// The angle by which pair c of a head of `width` elements turns at token t.
double grid_angle(int64_t t, int64_t c, int64_t width, const AxialRope2dAttrs& a) {
  int64_t quarter = width / 4, place = t / a.repeat_factor;
  int64_t coordinate = c < quarter ? place % a.end_x : place / a.end_x;
  double frequency = std::pow(a.theta, -4.0 * static_cast<double>(c % quarter) / static_cast<double>(width));
  return static_cast<double>(coordinate) * frequency;
}

}  // namespace

OpDef define_rope() {
  return define<RopeAttrs>({
      .name = "rope",
      .doc = "pair i of each head at position s turns by the angle whose cosine and sine are cos[s, i] and "
             "sin[s, i]; what is behind "
             "rotary_dims stays",
      .source = "Su et al., arXiv:2104.09864",
      .operands = {"x", "cos", "sin"},
      .covers = {"Rope"},
      .infer = [](Types in, const RopeAttrs& a) { return rope_type(in, a); },
      .reference =
          [](Tensors in, const RopeAttrs& a) {
            HeadDims d(in[0].type(), a.layout, a.heads, "x");
            int64_t pairs = rotary_dims(d, a).value() / 2;
            Shape table = shape_of(table_dims(in[1].type(), d, pairs));
            Array<double> x(in[0]), cos(in[1]), sin(in[2]);
            for_each_index({d.batch.value(), d.length.value(), d.heads, pairs}, [&](const Axes& i) {
              size_t at = offset_of(table, {table[0] == 1 ? 0 : i[0], i[1], i[3]});
              auto [left, right] = partners(i[3], pairs, a.style);
              turn(x.data[d.at(i[0], i[1], i[2], left)], x.data[d.at(i[0], i[1], i[2], right)], cos.data[at],
                   sin.data[at]);
            });
            return x.rounded_to(in[0].dtype());
          },
      .decompose = [](Values in, const RopeAttrs& a) { return rope_parts(in, a, true); },
      .vjp = [](Values in, Value, Value ct, const RopeAttrs& a) -> Many<Value> {
        auto [cos, sin] = table_cts(in, ct, a);
        return {rope_backward(ct, in[1], in[2], a), cos, sin};
      },
      .samples = rope_samples,
  });
}

OpDef define_rope_backward() {
  return define<RopeAttrs>({
      .name = "rope_backward",
      .doc = "rope by the opposite angles: what the cotangent of rope's result means for its x",
      .source = "Su et al., arXiv:2104.09864",
      .operands = {"ct", "cos", "sin"},
      .covers = {"RopeBackward"},
      .infer = [](Types in, const RopeAttrs& a) { return rope_type(in, a); },
      .decompose = [](Values in, const RopeAttrs& a) { return rope_parts(in, a, false); },
      .vjp = [](Values in, Value, Value ct, const RopeAttrs& a) -> Many<Value> {
        auto [cos, sin] = table_cts(in, ct, a);
        return {rope(ct, in[1], in[2], a), cos, sin ? -sin : sin};
      },
      .samples = rope_samples,
  });
}

OpDef define_axial_rope2d() {
  return define<AxialRope2dAttrs>({
      .name = "axial_rope2d",
      .doc = "token t stands at x = p mod end_x, y = p div end_x, p = t / repeat_factor; adjacent pairs "
             "turn, in the first half of a head "
             "by x theta^(-4c/D), in the second by y theta^(-4c/D)",
      .source = "Heo et al., ECCV 2024: axial frequencies",
      .operands = {"x"},
      .covers = {"AxialRope2d"},
      .infer = [](Types in,
                  const AxialRope2dAttrs& a) { return require_kind(in[0], kReal), grid_width(in[0], a), in[0]; },
      .reference =
          [](Tensors in, const AxialRope2dAttrs& a) {
            HeadDims d(in[0].type(), a.layout, a.heads, "x");
            int64_t width = grid_width(in[0].type(), a);
            Array<double> x(in[0]);
            for_each_index({d.batch.value(), d.length.value(), d.heads, width / 2}, [&](const Axes& i) {
              double angle = grid_angle(i[1], i[3], width, a);
              turn(x.data[d.at(i[0], i[1], i[2], 2 * i[3])], x.data[d.at(i[0], i[1], i[2], 2 * i[3] + 1)],
                   std::cos(angle), std::sin(angle));
            });
            return x.rounded_to(in[0].dtype());
          },
      .decompose =
          [](Graph& g, Values in, const AxialRope2dAttrs& a) {
            HeadDims d(in[0].type(), a.layout, a.heads, "x");
            int64_t width = grid_width(in[0].type(), a), length = d.length.value();
            GrowthLimit::count_table(element_count(Shape{1, 1, length, width / 2}), 2 * sizeof(double));
            Array<double> cos({1, 1, length, width / 2}), sin(cos.shape);
            for_each_index(cos.shape, [&](const Axes& i) {
              double angle = grid_angle(i[2], i[3], width, a);
              cos.at(i) = std::cos(angle), sin.at(i) = std::sin(angle);
            });
            DType dtype = in[0].dtype();
            Value y = turned(to_bhsd(in[0], d), g.constant(cos.rounded_to(dtype)), g.constant(sin.rounded_to(dtype)),
                             width, RopeStyle::gptj);
            return from_bhsd(y, d, in[0]);
          },
      .samples = {{.dims = {{2, 6, 16}}, .attrs = AxialRope2dAttrs{3, 2, 10000, 1, 2}},
                  {.dims = {{1, 2, 8, 8}}, .attrs = AxialRope2dAttrs{2, 2, 100, 2, 2, AttentionLayout::bhsd}},
                  {.dims = {{2, 1, 4}}},
                  {.dims = {{3, 3, 1, 4}},
                   .dtypes = {f16},
                   .attrs = AxialRope2dAttrs{3, 1, 100, 1, 1, AttentionLayout::bshd}},
                  {.dims = {{0, 4, 4}}, .attrs = AxialRope2dAttrs{2, 2}}},
  });
}

}  // namespace rlx
