// Resizing and unfolding, dim by dim.
#include "rlx/ops/image.h"

#include <algorithm>
#include <cmath>

#include "base/growth_limit.h"
#include "ops/core/elementwise_rules.h"
#include "ops/nn/resize_grid.h"
#include "ops/nn/window_rules.h"
#include "rlx/element.h"
#include "rlx/ops/take.h"

namespace rlx {

Value resize_nearest2x(Value x) { return emit(op::resize_nearest2x, {x}); }
Value interpolate(Value x, Dims size) { return emit(op::interpolate, {x}, InterpolateAttrs{std::move(size)}); }
Value im2col(Value x, Im2colAttrs attrs) { return emit(op::im2col, {x}, std::move(attrs)); }

namespace {

/// Each place of `axis` `count` times in a row.
Value repeated(Value x, int64_t axis, int64_t count) {
  Dims copies = x.dims(), dims = x.dims();
  copies.insert(copies.begin() + axis + 1, Dim(count));
  dims[size_t(axis)] = dims[size_t(axis)] * count;
  return reshape(broadcast_in_dim(x, copies, other_axes(copies.size(), {axis + 1})), dims);
}

Value zoomed(Value x, int64_t axis, const Dim& size) {
  Graph& g = x.graph();
  Dim extent = x.dim(axis);
  if (size == extent) return x;
  if (size.is_static() && extent.is_static()) {
    int64_t n = size.value(), from = extent.value();
    if (from > 0 && n % from == 0 && n > 0) return repeated(x, axis, n / from);
    Tensor places(i32, {n});
    for (int64_t i = 0; i < n; ++i) store<int64_t>(places, size_t(i), std::min(i * from / n, from - 1));
    return take(x, g.constant(places), axis, OutOfRange::clip);
  }
  Value places = iota(g, {i64, {size}}, 0) * rlx::extent(g, extent, i64) / rlx::extent(g, size, i64);
  return take(x, places, axis, OutOfRange::clip);  // which is the min of the rule
}

/// The windows of x that become rows.
Sliding windows_of(const Type& x, const Im2colAttrs& a) {
  size_t spatial = a.kernel_size.size();
  if (x.rank() != spatial + 2)
    fail(ErrorCode::shape_mismatch, "a kernel of ", spatial, " dims needs x [N, C, spatial...] of rank ", spatial + 2,
         ", got ", x);
  auto complete = [&](Axes list, int64_t otherwise, std::string_view what) {
    if (list.empty()) list.assign(spatial, otherwise);
    if (list.size() != spatial)
      fail(ErrorCode::invalid_argument, what, " must have one entry for each of the ", spatial, " spatial dims, got ",
           list.size());
    int64_t outer = what == "padding" ? 0 : 1;
    list.insert(list.begin(), 2, outer);
    return list;
  };
  Axes kernel = complete(a.kernel_size, 1, "kernel_size"), padding = complete(a.padding, 0, "padding");
  Dims around(padding.begin(), padding.end());
  return {x.rank(), Dims(kernel.begin(), kernel.end()),  complete(a.stride, 1, "stride"),
          {},       complete(a.dilation, 1, "dilation"), around,
          around};
}
Type im2col_type(const Type& x, const Im2colAttrs& a) {
  Dims counts = windows_of(x, a).counts(x.dims);
  Dim rows = counts[0], columns = counts[1];
  for (size_t d = 2; d < counts.size(); ++d) rows = rows * counts[d], columns = columns * a.kernel_size[d - 2];
  return {x.dtype, {rows, columns}};
}

}  // namespace

Value resize_linear(Value x, Dims size, ResizeGrid grid) {
  return emit(op::resize_linear, {x}, ResizeLinearAttrs{std::move(size), grid});
}

OpDef define_resize_nearest2x() {
  return define<>({
      .name = "resize_nearest2x",
      .doc = "each place of the last two dims twice in each of them",
      .operands = {"x"},
      .covers = {"ResizeNearest2x"},
      .moves_data = true,
      .infer =
          [](Types in) {
            Type t = in[0];
            if (t.rank() < 2) fail(ErrorCode::shape_mismatch, "an image needs two dims, got ", in[0]);
            if (is_block(t.dtype))
              fail(ErrorCode::unsupported, in[0],
                   " is packed in blocks along its last dim, of which no part can be repeated; dequantize_blocks makes "
                   "numbers of it");
            for (size_t d = t.rank() - 2; d < t.rank(); ++d) t.dims[d] = t.dims[d] * 2;
            return t;
          },
      .decompose = [](Values in) { return repeated(repeated(in[0], in[0].rank() - 1, 2), in[0].rank() - 2, 2); },
      .batch = [](Values in) { return resize_nearest2x(in[0]); },
      .samples = {{.dims = {{1, 2, 3, 2}}}, {.dims = {{0, 1, 2, 2}}}, {.dims = {{2, 1}}}, {.dims = {{2, 1, 2, 1, 3}}}},
  });
}

OpDef define_interpolate() {
  return define<InterpolateAttrs>({
      .name = "interpolate",
      .doc = "the last dims resized to `size`: place i of n reads place min(floor(i extent / n), extent - 1)",
      .operands = {"x"},
      .covers = {"Interpolate3d"},
      .moves_data = true,
      .infer =
          [](Types in, const InterpolateAttrs& a) {
            Type t = in[0];
            if (a.size.empty() || a.size.size() > t.rank())
              fail(ErrorCode::invalid_argument, "size must name 1 to ", t.rank(), " extents for the last dims of ",
                   in[0], ", got ", a.size.size());
            if (is_block(t.dtype) && a.size.back() != t.dims.back())
              fail(ErrorCode::unsupported, in[0],
                   " is packed in blocks along its last dim: only whole rows of it can be moved; dequantize_blocks "
                   "makes "
                   "numbers of it");
            for (size_t i = 0; i < a.size.size(); ++i) {
              Dim& d = t.dims[t.rank() - a.size.size() + i];
              if ((a.size[i].is_static() && a.size[i].value() < 0) || (d == Dim(0) && a.size[i] != Dim(0)))
                fail(ErrorCode::shape_mismatch, "an extent of ", d, " of ", in[0], " cannot be resized to ", a.size[i]);
              d = a.size[i];
            }
            return t;
          },
      .decompose =
          [](Values in, const InterpolateAttrs& a) {
            Value y = in[0];
            for (size_t i = 0; i < a.size.size(); ++i) y = zoomed(y, y.rank() - int64_t(a.size.size() - i), a.size[i]);
            return y;
          },
      .batch = [](Values in, const InterpolateAttrs& a) { return interpolate(in[0], a.size); },
      .samples = {{.dims = {{1, 2, 5}}, .attrs = InterpolateAttrs{{7}}},
                  {.dims = {{1, 2, 3, 4}}, .attrs = InterpolateAttrs{{6, 3}}},
                  {.dims = {{1, 1, 2, 3, 4}}, .attrs = InterpolateAttrs{{3, 3, 1}}},
                  {.dims = {{1, 4}}, .attrs = InterpolateAttrs{{3, 0}}},
                  {.dims = {{3}}, .attrs = InterpolateAttrs{{0}}}},
  });
}

std::vector<double> grid_places(ResizeGrid grid, int64_t in, int64_t out) {
  GrowthLimit::count_table(out, sizeof(double));
  std::vector<double> places;
  const auto e = static_cast<double>(in), n = static_cast<double>(out);
  for (int64_t i = 0; i < out; ++i) {
    const auto k = static_cast<double>(i);
    double at = 0;
    switch (grid) {
      case ResizeGrid::half_pixel: at = (k + 0.5) * e / n - 0.5; break;
      case ResizeGrid::asymmetric: at = k * e / n; break;
      case ResizeGrid::align_corners: at = out == 1 ? 0 : k * (e - 1) / (n - 1); break;
      case ResizeGrid::align_ends: at = out == 1 ? (e - 1) / 2 : k * (e - 1) / (n - 1); break;
      case ResizeGrid::half_pixel_corners: at = (k + 0.5) * std::max(1.0, e - 1) / n; break;
    }
    places.push_back(std::clamp(at, 0.0, std::max(0.0, e - 1)));
  }
  return places;
}

namespace {
/// Reads between the places of an axis.
Value between(Value x, int64_t axis, const std::vector<double>& at) {
  const auto n = static_cast<int64_t>(at.size()), last = x.dim(axis).value() - 1;
  Tensor low(i32, {n}), high(i32, {n});
  Shape along(x.dims().size(), 1);
  along[static_cast<size_t>(axis)] = n;
  Tensor weight(x.dtype(), along), rest = weight, exact(boolean, along);
  bool any_exact = false;
  for (size_t i = 0; i < at.size(); ++i) {
    const auto from = static_cast<int64_t>(std::floor(at[i]));
    store<int64_t>(low, i, from);
    store<int64_t>(high, i, std::min(from + 1, last));
    const double beyond = at[i] - static_cast<double>(from);
    store<double>(weight, i, beyond), store<double>(rest, i, 1 - beyond);
    store<int64_t>(exact, i, beyond == 0);
    any_exact |= beyond == 0;
  }
  Graph& g = x.graph();
  Value a = take(x, g.constant(low), axis, OutOfRange::clip), b = take(x, g.constant(high), axis, OutOfRange::clip);
  // A mean, not a step from the one to the other, which may overflow and is no number between infinities.
  Value mean = a * g.constant(rest) + b * g.constant(weight);
  return any_exact ? select(broadcast_to(g.constant(exact), mean.dims()), a, mean) : mean;
}
}  // namespace

OpDef define_resize_linear() {
  return define<ResizeLinearAttrs>({
      .name = "resize_linear",
      .doc =
          "the last dims resized to `size`, each in turn: what is read between two places is their mean, weighted by "
          "how near they are. Of n places over an extent e, place k is read at: half_pixel (k + 1/2) e / n - 1/2; "
          "asymmetric k e / n; align_corners k (e - 1) / (n - 1), 0 if n is 1; align_ends the same, (e - 1) / 2 if n "
          "is 1; half_pixel_corners (k + 1/2) max(e - 1, 1) / n; and within the extent",
      .source = "torch.nn.functional.interpolate; MIL resize_bilinear, whose five sampling modes the grids are",
      .operands = {"x"},
      .infer =
          [](Types in, const ResizeLinearAttrs& a) {
            Type t = in[0];
            require_kind(t, kReal);
            if (a.size.empty() || a.size.size() > t.rank())
              fail(ErrorCode::invalid_argument, "size must name 1 to ", t.rank(), " extents for the last dims of ",
                   in[0], ", got ", a.size.size());
            for (size_t i = 0; i < a.size.size(); ++i) {
              Dim& d = t.dims[t.rank() - a.size.size() + i];
              for (const Dim& each : {d, a.size[i]})
                if (!each.is_static())
                  fail(ErrorCode::unsupported, "the weights between places are those of numbers, and ", in[0],
                       " resized to ", a.size[i], " has a symbol there; give it a number");
              if (a.size[i].value() < 0 || (d == Dim(0) && a.size[i] != Dim(0)))
                fail(ErrorCode::shape_mismatch, "an extent of ", d, " of ", in[0], " cannot be resized to ", a.size[i]);
              d = a.size[i];
            }
            return t;
          },
      .decompose =
          [](Graph& g, Values in, const ResizeLinearAttrs& a) {
            Value y = in[0];
            // Without elements there is nothing to weigh, and no tables of places are made.
            const Type type = infer_types(op::resize_linear, std::array{y.type()}, a)[0];
            if (std::find(type.dims.begin(), type.dims.end(), Dim(0)) != type.dims.end()) return full(g, 0, type);
            for (size_t i = 0; i < a.size.size(); ++i) {
              int64_t axis = y.rank() - static_cast<int64_t>(a.size.size() - i), out = a.size[i].value();
              y = between(y, axis, grid_places(a.grid, y.dim(axis).value(), out));
            }
            return y;
          },
      .batch = [](Values in, const ResizeLinearAttrs& a) { return resize_linear(in[0], a.size, a.grid); },
      .samples = {{.dims = {{1, 2, 5}}, .attrs = ResizeLinearAttrs{{7}}},
                  {.dims = {{1, 2, 3, 4}}, .attrs = ResizeLinearAttrs{{6, 3}, ResizeGrid::align_corners}},
                  {.dims = {{1, 1, 2, 3, 4}}, .attrs = ResizeLinearAttrs{{3, 3, 1}, ResizeGrid::align_ends}},
                  {.dims = {{2, 3}}, .attrs = ResizeLinearAttrs{{5, 4}, ResizeGrid::asymmetric}},
                  {.dims = {{2, 3, 4}},
                   .dtypes = {bf16},
                   .attrs = ResizeLinearAttrs{{5, 7}, ResizeGrid::half_pixel_corners}},
                  {.dims = {{1, 4}}, .attrs = ResizeLinearAttrs{{3, 0}}}},
  });
}

OpDef define_im2col() {
  return define<Im2colAttrs>({
      .name = "im2col",
      .doc = "a row for each window of x [N, C, spatial...], in order of N and place; its columns run through C and "
             "the kernel. Zeros around x",
      .operands = {"x"},
      .covers = {"Im2Col"},
      .moves_data = true,
      .infer =
          [](Types in, const Im2colAttrs& a) {
            require_kind(in[0], kBool | kNumber);
            for (size_t d = 0; d < a.padding.size(); ++d)
              if (a.padding[d] < 0)
                fail(ErrorCode::invalid_argument, "the padding of spatial dim ", d, " is ", a.padding[d],
                     "; it cannot be negative");
            return im2col_type(in[0], a);
          },
      .decompose =
          [](Graph& g, Values in, const Im2colAttrs& a) {
            Value x = unfolded(in[0], scalar(g, 0, in[0].dtype()), windows_of(in[0].type(), a));
            // [N, 1, C, 1, places, taps, ...] -> N, places, C, taps
            Axes places, taps;
            for (int64_t d = 0; d < in[0].rank(); ++d) (d == 1 ? taps : places).push_back(2 * d);
            for (int64_t d = 0; d < in[0].rank(); ++d) (d == 1 ? places : taps).push_back(2 * d + 1);
            places.insert(places.end(), taps.begin(), taps.end());
            return reshape(transpose(x, places), im2col_type(in[0].type(), a).dims);
          },
      .batch =
          [](Values in, const Im2colAttrs& a) {
            Dims dims = in[0].dims();
            Dim size = dims[0];
            dims.erase(dims.begin());
            dims[0] = dims[0] * size;
            Value rows = im2col(reshape(in[0], dims), a);
            Type lane{in[0].dtype(), {in[0].dims().begin() + 1, in[0].dims().end()}};
            return reshape(rows, prepend(size, infer_types(op::im2col, std::array{lane}, a)[0].dims));
          },
      .samples = {{.dims = {{2, 3, 4, 5}}, .attrs = Im2colAttrs{{2, 3}}},
                  {.dims = {{1, 2, 5, 4}}, .attrs = Im2colAttrs{{3, 2}, {2, 1}, {1, 0}, {1, 2}}},
                  {.dims = {{2, 2, 6}}, .attrs = Im2colAttrs{{3}, {2}, {1}}},
                  {.dims = {{1, 1, 2, 1, 3}}, .attrs = Im2colAttrs{{2, 1, 1}, {}, {0, 1, 0}}},
                  {.dims = {{2, 1, 2}}, .attrs = Im2colAttrs{{3}}},
                  {.dims = {{0, 1, 2}}, .attrs = Im2colAttrs{{1}}},
                  {.dims = {{2, 1, 1, 3}}, .attrs = Im2colAttrs{{1, 3}}}},
  });
}

}  // namespace rlx
