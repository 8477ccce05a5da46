// Images: resizing along fixed grids, cropping, and reading at computed places.
#include <cmath>

#include "frontends/mil/handlers.h"
#include "ops/nn/resize_grid.h"
#include "rlx/element.h"

namespace rlx::mlprogram {
namespace {

ResizeGrid grid_of(Call& op, const std::string& mode) {
  if (mode == "STRICT_ALIGN_CORNERS") return ResizeGrid::align_corners;
  if (mode == "ALIGN_CORNERS") return ResizeGrid::align_ends;
  if (mode == "DEFAULT") return ResizeGrid::asymmetric;
  if (mode == "OFFSET_CORNERS") return ResizeGrid::half_pixel_corners;
  if (mode == "UNALIGN_CORNERS") return ResizeGrid::half_pixel;
  op.wrong("sampling_mode '", mode, "' is none of MIL's");
}

int64_t wanted_extent(Call& op, int64_t out) {
  if (out < 1) op.wrong("an extent of ", out, " is wanted");
  return out;
}

Value image_resized(Call& op, Value x, ResizeGrid grid, int64_t h, int64_t w) {
  static_dim(op, x, -2), static_dim(op, x, -1);
  return resize_linear(x, {wanted_extent(op, h), wanted_extent(op, w)}, grid);
}

Value nearest(Value x, int64_t axis, const std::vector<int64_t>& at) {
  return take(x, x.graph().constant(int_tensor(at)), axis);
}

/// `resize` reads the nearest place, its predecessors the one before, as TensorFlow does.
std::vector<int64_t> nearest_places(const std::vector<double>& at, bool before, int64_t in) {
  std::vector<int64_t> places;
  for (double v : at)
    places.push_back(std::clamp<int64_t>(static_cast<int64_t>(std::floor(before ? v : v + 0.5)), 0, in - 1));
  return places;
}

void expect_rank3(Call& op, Value x) {
  if (x.rank() < 3) op.wrong("x ", x.type(), " has fewer than 3 dims");
}

int64_t scaled_extent(Call& op, const std::string& name, int64_t in) {
  double scale = op.number(name, 1);
  // A factor that was rounded to f32 must not lose the last place.
  double out = std::floor(static_cast<double>(in) * scale + 1e-6 * scale);
  if (!(out >= 1 && out < 1e9)) op.wrong("'", name, "' is ", scale, ", of ", in, " places");
  return static_cast<int64_t>(out);
}

// ---- at computed places ----

struct Sampler {
  Value image;                    ///< [B, H, W, C]
  Value batch;                    ///< which image, i32, of the places' dims
  std::optional<double> outside;  ///< what is read there; the edge if left out

  Value clamped(Value at, int64_t axis, Value* inside) const {
    Value last = rlx::extent(at.graph(), image.dim(axis) - Dim(1), at.dtype());
    Value zero = zeros_like(at);
    Value ok = rlx::logical_and(compare(at, zero, Comparison::ge), compare(at, last, Comparison::le));
    *inside = *inside ? rlx::logical_and(*inside, ok) : ok;
    return maximum(zero, minimum(at, last));
  }
  /// At whole places y and x (floats): [places..., C].
  Value at(Value y, Value x) const {
    Value inside;
    Value row = clamped(y, 1, &inside), column = clamped(x, 2, &inside);
    Value index = rlx::stack({batch, convert(row, i32), convert(column, i32)}, batch.rank());
    Value read = rlx::gather_nd(image, index, 0, OutOfRange::clip);
    if (!outside) return read;
    return rlx::select(broadcast_in_dim(inside, read.dims(), axes_from(0, inside.dims().size())), read,
                       full_like(read, *outside));
  }
  Value bilinear(Value y, Value x) const {
    Value top = rlx::floor(y), left = rlx::floor(x);
    auto spread = [&](Value w) { return expand_dims(w, w.rank()); };
    Value v = spread(y - top), h = spread(x - left);
    Value upper = at(top, left), lower = at(top + 1.0, left);
    upper = upper + (at(top, left + 1.0) - upper) * h;
    lower = lower + (at(top + 1.0, left + 1.0) - lower) * h;
    return upper + (lower - upper) * v;
  }
};

Value channels_last(Value x) { return rlx::transpose(x, {0, 2, 3, 1}); }
/// [places..., C] with three dims of places -> [n, C, h, w].
Value channels_first(Value y) { return rlx::transpose(y, {0, 3, 1, 2}); }

/// The number of each image, for places [B, h, w].
Value own_image(Graph& g, Dims places) { return iota(g, {i32, std::move(places)}, 0); }

Value nth(Value x, int64_t i) { return rlx::squeeze(slice_axis(x, -1, i, i + 1), {-1}); }

Value from_coordinates(Call& op, Value c, const std::string& mode, bool align_corners, const Dim& extent) {
  Value n = rlx::extent(op.graph(), extent, c.dtype());
  if (mode == "unnormalized") return c;
  if (mode == "normalized_minus_one_to_one")
    return align_corners ? (c + 1.0) * 0.5 * (n - 1.0) : ((c + 1.0) * n - 1.0) * 0.5;
  if (mode == "normalized_zero_to_one") return align_corners ? c * (n - 1.0) : c * n - 0.5;
  op.wrong("coordinates_mode '", mode, "' is none of MIL's");
}

/// Folds places beyond the edges back: at the edges' centres, or at the borders of their pixels.
Value reflected(Call& op, Value c, const Dim& extent, bool at_centres) {
  Value n = rlx::extent(op.graph(), extent, c.dtype());
  if (at_centres) {
    if (extent == Dim(1)) return zeros_like(c);
    Value period = broadcast_to((n - 1.0) * 2.0, c.dims());
    Value folded = rlx::floor_mod(c, period);
    return minimum(folded, period - folded);
  }
  Value period = broadcast_to(n * 2.0, c.dims());
  Value folded = rlx::floor_mod(c + 0.5, period);
  Value place = minimum(folded, period - folded) - 0.5;
  return maximum(zeros_like(place), minimum(place, broadcast_to(n - 1.0, place.dims())));
}

std::string lowered(std::string word) {
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return word;
}

Value resampled(Call& op, Value x, Value horizontal, Value vertical, const std::string& sampling,
                const std::string& padding, double padding_value, bool align_corners) {
  Sampler sampler{channels_last(x), own_image(op.graph(), horizontal.dims()), {}};
  if (padding == "constant") {
    sampler.outside = padding_value;
  } else if (padding == "reflection" || padding == "symmetric") {
    // Without align_corners a reflection is one at the borders of pixels, as PyTorch's, for which it is written.
    bool at_centres = padding == "reflection" && align_corners;
    vertical = reflected(op, vertical, x.dim(2), at_centres);
    horizontal = reflected(op, horizontal, x.dim(3), at_centres);
  } else if (padding == "border") {
    auto within = [&](Value c, const Dim& extent) {
      return maximum(zeros_like(c),
                     minimum(c, broadcast_to(rlx::extent(op.graph(), extent - Dim(1), c.dtype()), c.dims())));
    };
    vertical = within(vertical, x.dim(2)), horizontal = within(horizontal, x.dim(3));
  } else {
    op.wrong("padding_mode '", padding, "' is none of constant, border, reflection and symmetric");
  }
  if (sampling == "nearest")
    return channels_first(sampler.at(round_nearest_even(vertical), round_nearest_even(horizontal)));
  if (sampling != "bilinear") op.wrong("sampling_mode '", sampling, "' is neither bilinear nor nearest");
  return channels_first(sampler.bilinear(vertical, horizontal));
}

}  // namespace

MIL_OP(resize_bilinear) {
  Value x = op("x");
  expect_rank3(op, x);
  std::string mode = op.word("sampling_mode", "DEFAULT");
  int64_t h = op.integer("target_size_height", 1), w = op.integer("target_size_width", 1);
  return one(image_resized(op, x, grid_of(op, mode), h, w));
}

MIL_OP(upsample_bilinear) {
  Value x = op("x");
  expect_rank3(op, x);
  bool align = op.flag("align_corners", true), half = op.flag("half_pixel_centers", !align);
  if (align && half) op.refuse("align_corners and half_pixel_centers exclude each other");
  ResizeGrid grid = align ? ResizeGrid::align_corners : half ? ResizeGrid::half_pixel : ResizeGrid::asymmetric;
  int64_t h = static_dim(op, x, -2), w = static_dim(op, x, -1);
  return one(image_resized(op, x, grid, scaled_extent(op, "scale_factor_height", h),
                           scaled_extent(op, "scale_factor_width", w)));
}

MIL_OP(resize_nearest_neighbor) {
  Value x = op("x");
  expect_rank3(op, x);
  int64_t h = op.integer("target_size_height"), w = op.integer("target_size_width");
  int64_t in_h = static_dim(op, x, -2), in_w = static_dim(op, x, -1);
  x = nearest(x, x.rank() - 2,
              nearest_places(grid_places(ResizeGrid::asymmetric, in_h, wanted_extent(op, h)), true, in_h));
  return one(nearest(x, x.rank() - 1,
                     nearest_places(grid_places(ResizeGrid::asymmetric, in_w, wanted_extent(op, w)), true, in_w)));
}

MIL_OP(upsample_nearest_neighbor) {
  Value x = op("x");
  expect_rank3(op, x);
  int64_t h = static_dim(op, x, -2), w = static_dim(op, x, -1);
  int64_t to_h = scaled_extent(op, "scale_factor_height", h), to_w = scaled_extent(op, "scale_factor_width", w);
  x = nearest(x, x.rank() - 2, nearest_places(grid_places(ResizeGrid::asymmetric, h, to_h), true, h));
  return one(nearest(x, x.rank() - 1, nearest_places(grid_places(ResizeGrid::asymmetric, w, to_w), true, w)));
}

// The rightmost dims, to what `shape` ends with; a 0 there leaves the dim as it is.
MIL_OP(resize) {
  Value given = op("x"), x = given;
  std::string interpolation = op.word("interpolation_mode", "LINEAR"), mode = op.word("sampling_mode", "DEFAULT");
  Axes shape = op.integers("shape");
  int64_t count = op.integer("resized_dims"), rank = x.rank();
  if (count < 0 || count > static_cast<int64_t>(shape.size()) || count > rank)
    op.wrong("resized_dims is ", count, "; 'shape' has ", shape.size(), " entries, x ", rank, " dims");
  if (interpolation != "LINEAR" && interpolation != "NEAREST_NEIGHBOR")
    op.wrong("interpolation_mode '", interpolation, "' is neither LINEAR nor NEAREST_NEIGHBOR");
  bool floats = is_float(x.dtype());
  if (!floats && interpolation == "LINEAR") x = convert(x, f32);
  ResizeGrid grid = grid_of(op, mode);
  const Axes to(shape.end() - count, shape.end());
  if (interpolation == "LINEAR" && count > 0 && std::count(to.begin(), to.end(), 0) == 0) {
    Dims size;
    for (int64_t i = 0; i < count; ++i)
      static_dim(op, x, rank - count + i), size.emplace_back(wanted_extent(op, to[static_cast<size_t>(i)]));
    return one(convert(resize_linear(x, size, grid), given.dtype()));
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t axis = rank - count + i, out = to[static_cast<size_t>(i)];
    if (out == 0) continue;
    int64_t in = static_dim(op, x, axis);
    if (interpolation == "LINEAR") {
      // The dims behind it stay as they are, on any grid.
      Value lines = swap_axes(x, axis, -1);
      x = swap_axes(resize_linear(lines, {wanted_extent(op, out)}, grid), axis, -1);
    } else {
      x = nearest(x, axis, nearest_places(grid_places(grid, in, wanted_extent(op, out)), false, in));
    }
  }
  return one(convert(x, given.dtype()));
}

MIL_OP(crop) {
  Value x = op("x");
  expect_rank3(op, x);
  Axes h = op.integers("crop_height"), w = op.integers("crop_width");
  if (h.size() != 2 || w.size() != 2) op.wrong("crop_height and crop_width have 2 numbers each");
  x = slice_axis(x, -2, h[0], x.dim(-2) - Dim(h[1]));
  return one(slice_axis(x, -1, w[0], x.dim(-1) - Dim(w[1])));
}

MIL_OP(resample) {
  Value x = op("x"), coordinates = op("coordinates");
  if (x.rank() != 4 || coordinates.rank() != 4 || coordinates.dim(3) != Dim(2) || coordinates.dim(0) != x.dim(0))
    op.wrong("x ", x.type(), " must be [B, C, H, W] and coordinates ", coordinates.type(), " [B, h, w, 2]");
  coordinates = convert(coordinates, x.dtype());
  std::string mode = lowered(op.word("coordinates_mode")), padding = lowered(op.word("padding_mode"));
  bool align = op.flag("align_corners");
  double value = op.number("padding_value");
  Value horizontal = from_coordinates(op, nth(coordinates, 0), mode, align, x.dim(3));
  Value vertical = from_coordinates(op, nth(coordinates, 1), mode, align, x.dim(2));
  return one(resampled(op, x, horizontal, vertical, lowered(op.word("sampling_mode")), padding, value, align));
}

MIL_OP(affine) {
  Value x = op("x"), matrix = convert(op("transform_matrix"), op("x").dtype());
  if (x.rank() != 4 || matrix.rank() != 2 || matrix.dim(1) != Dim(6))
    op.wrong("x ", x.type(), " must be [B, C, H, W] and transform_matrix ", matrix.type(), " [B or 1, 6]");
  int64_t h = op.integer("output_height"), w = op.integer("output_width");
  std::string mode = lowered(op.word("coordinates_mode")), padding = lowered(op.word("padding_mode"));
  bool align = op.flag("align_corners");
  double value = op.number("padding_value");
  if (mode != "normalized_minus_one_to_one") op.refuse("coordinates_mode '", mode, "' of affine");
  if (h < 1 || w < 1) op.wrong("an output of ", h, " by ", w);
  Dims places = {x.dim(0), h, w};
  auto line = [&](int64_t n, int64_t axis) {  // from -1 to 1
    Tensor t(x.dtype(), {n});
    for (int64_t i = 0; i < n; ++i) {
      double k = static_cast<double>(i), count = static_cast<double>(n);
      store<double>(t, static_cast<size_t>(i),
                    !align   ? (2 * k + 1) / count - 1
                    : n == 1 ? 0.0
                             : -1 + 2 * k / (count - 1));
    }
    return broadcast_in_dim(op.graph().constant(t), places, {axis});
  };
  Value u = line(w, 2), v = line(h, 1);
  matrix = broadcast_to(matrix, {x.dim(0), 6});
  auto coefficient = [&](int64_t i) { return broadcast_in_dim(nth(matrix, i), places, {0}); };
  Value horizontal = coefficient(0) * u + coefficient(1) * v + coefficient(2);
  Value vertical = coefficient(3) * u + coefficient(4) * v + coefficient(5);
  return one(resampled(op, x, from_coordinates(op, horizontal, mode, align, x.dim(3)),
                       from_coordinates(op, vertical, mode, align, x.dim(2)), lowered(op.word("sampling_mode")),
                       padding, value, align));
}

namespace {

/// Where along an axis each of `out` places of a box lies, [N, out]: as `grid`, between `from` and `to` [N].
Value box_grid(Call& op, const std::string& mode, Value from, Value to, int64_t out) {
  Dims dims = {from.dim(0), out};
  Value k = iota(op.graph(), {from.dtype(), dims}, 1), a = broadcast_in_dim(from, dims, {0}),
        span = broadcast_in_dim(to - from, dims, {0});
  double n = static_cast<double>(out);
  auto within = [&](Value at) { return maximum(zeros_like(at), minimum(at, span)) + a; };
  if (mode == "STRICT_ALIGN_CORNERS") return out == 1 ? a : a + k * span * (1 / (n - 1));
  if (mode == "ALIGN_CORNERS") return out == 1 ? a + span * 0.5 : a + k * span * (1 / (n - 1));
  if (mode == "DEFAULT") return within(k * (span + 1.0) * (1 / n));
  if (mode == "OFFSET_CORNERS") return a + (k + 0.5) * maximum(span, full_like(span, 1)) * (1 / n);
  if (mode == "UNALIGN_CORNERS") return within((k + 0.5) * (span + 1.0) * (1 / n) - 0.5);
  op.wrong("sampling_mode '", mode, "' is none of MIL's");
}

}  // namespace

MIL_OP(crop_resize) {
  Value x = op("x");
  if (x.rank() != 4) op.wrong("x ", x.type(), " must be [B, C, H, W]");
  int64_t h = op.integer("target_height", 1), w = op.integer("target_width", 1);
  bool normalized = op.flag("normalized_coordinates", false);
  double scale = op.number("spatial_scale", 1), outside = op.number("pad_value", 0);
  std::string order = op.word("box_coordinate_mode", "CORNERS_HEIGHT_FIRST"),
              mode = op.word("sampling_mode", "DEFAULT");
  if (h < 1 || w < 1) op.wrong("a target of ", h, " by ", w);
  // Up to iOS 16 the boxes are [N, 1, 4 or 5, 1, 1]: five numbers begin with the image, four are read in every image.
  Value boxes, image;
  bool every = false;
  if (op.opset() < 7) {
    Value roi = op("roi");
    if (roi.rank() != 5) op.wrong("roi ", roi.type(), " is not of rank 5");
    boxes = rlx::reshape(roi, {roi.dim(0), roi.dim(2)});
    if (boxes.dim(1) == Dim(5)) {
      image = convert(nth(boxes, 0), i32);
      boxes = slice_axis(boxes, 1, 1, 5);
    } else {
      every = true;
    }
  } else {
    boxes = op("boxes");
    if (op.has("box_indices")) image = convert(op("box_indices"), i32);
  }
  if (boxes.rank() != 2 || boxes.dim(1) != Dim(4)) op.wrong("boxes ", boxes.type(), " do not have 4 coordinates each");
  boxes = convert(boxes, x.dtype());
  Dim n = boxes.dim(0);
  if (!image && !every) image = iota(op.graph(), {i32, {n}}, 0);
  Value c[4];
  for (int64_t i = 0; i < 4; ++i) c[i] = nth(boxes, i);
  if (order == "CORNERS_WIDTH_FIRST" || order == "CENTER_SIZE_WIDTH_FIRST")
    std::swap(c[0], c[1]), std::swap(c[2], c[3]);
  else if (order != "CORNERS_HEIGHT_FIRST" && order != "CENTER_SIZE_HEIGHT_FIRST")
    op.wrong("box_coordinate_mode '", order, "' is none of MIL's");
  if (order.starts_with("CENTER"))
    for (int i = 0; i < 2; ++i) {
      Value half = c[i + 2] * 0.5;
      c[i + 2] = c[i] + half, c[i] = c[i] - half;
    }
  for (Value& each : c) each = each * scale;
  // Before there was a pad_value, what lies beyond the image as a whole read the whole of it, by coremltools' test.
  if (normalized && op.opset() < 6)
    for (int i = 0; i < 2; ++i) {
      Value low = minimum(c[i], c[i + 2]), high = maximum(c[i], c[i + 2]);
      Value before = rlx::logical_and(compare(high, zeros_like(high), Comparison::le),
                                      compare(low, zeros_like(low), Comparison::lt));
      Value behind = rlx::logical_and(compare(low, full_like(low, 1), Comparison::ge),
                                      compare(high, full_like(high, 1), Comparison::gt));
      Value beyond = rlx::logical_or(before, behind);
      c[i] = rlx::select(beyond, zeros_like(low), c[i]);
      c[i + 2] = rlx::select(beyond, full_like(low, 1), c[i + 2]);
    }
  for (int i = 0; normalized && i < 4; ++i)
    c[i] = c[i] * (rlx::extent(op.graph(), x.dim(i % 2 ? 3 : 2), x.dtype()) - 1.0);
  Value y_at = box_grid(op, mode, c[0], c[2], h), x_at = box_grid(op, mode, c[1], c[3], w);
  auto sample = [&](Value which) {  // [N]
    Dims places = {n, h, w};
    Sampler sampler{channels_last(x), broadcast_in_dim(which, places, {0}), {}};
    Value y = broadcast_in_dim(y_at, places, {0, 1}), z = broadcast_in_dim(x_at, places, {0, 2});
    // A place beyond the image as a whole is padding, as in TensorFlow; between its last pixels it is not.
    Value inside;
    Value yc = sampler.clamped(y, 1, &inside), zc = sampler.clamped(z, 2, &inside);
    Value read = sampler.bilinear(yc, zc);
    return channels_first(
        rlx::select(broadcast_in_dim(inside, read.dims(), {0, 1, 2}), read, full_like(read, outside)));
  };
  if (!every) {
    Value y = sample(image);
    if (op.opset() < 7) y = expand_dims(y, 1);
    return one(y);
  }
  std::vector<Value> all;
  for (int64_t b = 0; b < static_dim(op, x, 0); ++b)
    all.push_back(sample(full(op.graph(), static_cast<double>(b), {i32, {n}})));
  return one(rlx::stack(all, 1));
}

}  // namespace rlx::mlprogram
