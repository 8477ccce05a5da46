// gaussian_splat_rasterize and its derivative: splats in an image, composited front to back. Neighbour: prepare.cpp,
// which makes the splats. Decomposed, they are a loop over the splats, each step of which works on all pixels: memory
// for the image, and for nothing of n times its size.
#include <algorithm>
#include <cmath>

#include "extras/splat/plain.h"
#include "rlx/ops/arrange.h"
#include "rlx/ops/contract.h"
#include "rlx/ops/control.h"
#include "rlx/ops/elementary.h"

namespace rlx {

Value gaussian_splat_rasterize(Value splats, Value background, SplatAttrs attrs) {
  return emit(op::gaussian_splat_rasterize, {splats, background}, attrs);
}
SplatRasterCts gaussian_splat_rasterize_backward(Value splats, Value background, Value ct, SplatAttrs attrs) {
  auto out = splats.graph().emit(op::gaussian_splat_rasterize_backward, {splats, background, ct}, attrs);
  return {out[0], out[1]};
}

namespace splat {
namespace {

using namespace splat_field;

// ---- one pixel at a time, plainly ----

/// What a splat is at a pixel.
struct Response {
  double dx, dy, distance, divisor, fall, alpha;  ///< alpha = opacity * fall
  bool counts;

  Response(const double* s, double x, double y, const SplatAttrs& a) : dx(x - s[center]), dy(y - s[center + 1]) {
    double q = s[conic] * dx * dx + 2 * s[conic + 1] * dx * dy + s[conic + 2] * dy * dy;
    divisor =
        1 + s[slope] * dx + s[slope + 1] * dy + s[bend] * dx * dx + 2 * s[bend + 1] * dx * dy + s[bend + 2] * dy * dy;
    distance = q / divisor;
    fall = std::exp(-0.5 * distance);
    alpha = s[opacity] * fall;
    counts = q >= 0 && q <= a.radius_scale * a.radius_scale && divisor > 0 && alpha >= a.alpha_cutoff;
  }
};
/// A splat that counts at a pixel, and how much light still passes in front of it.
struct Hit {
  size_t row;
  Response response;
  double light;
};
struct Pixel {
  std::vector<Hit> hits;
  double light = 1;  ///< that passes all of them
  double color[3];   ///< of the light itself, before gamma

  Pixel(const double* splats, size_t n, const double* background, double x, double y, const SplatAttrs& a) {
    for (size_t row = 0; row < n; ++row) {
      if (light < a.transmittance_threshold || int64_t(hits.size()) >= a.max_splat_steps) break;
      Response r(splats + row * count, x, y, a);
      if (!r.counts) continue;
      hits.push_back({row, r, light});
      light *= 1 - r.alpha;
    }
    for (int64_t i = 0; i < 3; ++i) {
      color[i] = light * background[i];
      for (const Hit& hit : hits)
        color[i] += hit.light * hit.response.alpha * splats[hit.row * count + splat_field::color + i];
    }
  }
};
double shown(double light, double gamma) { return gamma == 1 ? light : light > 0 ? std::pow(light, 1 / gamma) : 0; }
double shown_slope(double light, double gamma) {
  return gamma == 1 ? 1 : light > 0 ? std::pow(light, 1 / gamma - 1) / gamma : 0;
}

/// Calls `f(b, x, y, pixel)` for each pixel of each batch: b counts the batches, pixel all of them.
template <class F>
void for_each_pixel(size_t batches, const SplatAttrs& a, F f) {
  size_t pixel = 0;
  for (size_t b = 0; b < batches; ++b)
    for (int64_t y = 0; y < a.height; ++y)
      for (int64_t x = 0; x < a.width; ++x) f(b, static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5, pixel++);
}

}  // namespace

Tensor rasterize_plainly(Tensors in, const SplatAttrs& a) {
  Array<double> splats(in[0]), background(in[1]);
  Dims batch(in[1].shape().begin(), in[1].shape().end() - 1);
  Array<double> image(shape_of(image_dims(batch, a)));
  auto n = static_cast<size_t>(in[0].shape()[batch.size()]);
  for_each_pixel(background.data.size() / 3, a, [&](size_t b, double x, double y, size_t at) {
    Pixel p(splats.data.data() + b * n * count, n, background.data.data() + 3 * b, x, y, a);
    for (size_t i = 0; i < 3; ++i) image.data[4 * at + i] = shown(p.color[i], a.gamma);
    image.data[4 * at + 3] = 1 - p.light;
  });
  return image.rounded_to(in[0].dtype());
}

Many<Tensor> rasterize_backward_plainly(Tensors in, const SplatAttrs& a) {
  Array<double> splats(in[0]), background(in[1]), ct(in[2]), d_splats(in[0].shape()), d_background(in[1].shape());
  auto n = static_cast<size_t>(in[0].shape()[in[1].rank() - 1]);
  for_each_pixel(background.data.size() / 3, a, [&](size_t b, double x, double y, size_t at) {
    const double* rows = splats.data.data() + b * n * count;
    const double* behind_all = background.data.data() + 3 * b;
    Pixel p(rows, n, behind_all, x, y, a);
    // What is behind a splat, as it contributes to the loss: at first the background, and that nothing is opaque there.
    double d[3], behind = -ct.data[4 * at + 3];
    for (size_t i = 0; i < 3; ++i) {
      d[i] = ct.data[4 * at + i] * shown_slope(p.color[i], a.gamma);
      behind += d[i] * behind_all[i];
      d_background.data[3 * b + i] += d[i] * p.light;
    }
    for (size_t h = p.hits.size(); h-- > 0;) {
      const auto& [row, r, light] = p.hits[h];
      const double* s = rows + row * count;
      double* g = d_splats.data.data() + (b * n + row) * count;
      double own = 0;
      for (int64_t i = 0; i < 3; ++i) {
        own += d[i] * s[color + i];
        g[color + i] += light * r.alpha * d[i];
      }
      double d_alpha = light * (own - behind);
      behind = r.alpha * own + (1 - r.alpha) * behind;
      g[opacity] += d_alpha * r.fall;
      double d_q = -0.5 * d_alpha * r.alpha / r.divisor, d_divisor = -d_q * r.distance;
      g[conic] += d_q * r.dx * r.dx, g[conic + 1] += d_q * 2 * r.dx * r.dy, g[conic + 2] += d_q * r.dy * r.dy;
      g[slope] += d_divisor * r.dx, g[slope + 1] += d_divisor * r.dy;
      g[bend] += d_divisor * r.dx * r.dx, g[bend + 1] += d_divisor * 2 * r.dx * r.dy;
      g[bend + 2] += d_divisor * r.dy * r.dy;
      g[center] -= d_q * 2 * (s[conic] * r.dx + s[conic + 1] * r.dy) +
                   d_divisor * (s[slope] + 2 * (s[bend] * r.dx + s[bend + 1] * r.dy));
      g[center + 1] -= d_q * 2 * (s[conic + 1] * r.dx + s[conic + 2] * r.dy) +
                       d_divisor * (s[slope + 1] + 2 * (s[bend + 1] * r.dx + s[bend + 2] * r.dy));
    }
  });
  return {d_splats.rounded_to(in[0].dtype()), d_background.rounded_to(in[0].dtype())};
}

namespace {

// ---- all pixels at a time, splat by splat ----

Value both(Value x, Value y) { return bitwise_and(x, y); }
Value is_at_least(Value x, double y) { return compare(x, full_like(x, y), Comparison::ge); }
Value is_less(Value x, double y) { return compare(x, full_like(x, y), Comparison::lt); }
/// Number i of the last dim, as [..., 1].
Value number(Value x, int64_t i) { return slice_axis(x, x.rank() - 1, i, i + 1); }

/// One splat of each batch, [..., 15], at all pixels: each value is [..., pixels].
struct Responses {
  Value dx, dy, distance, divisor, fall, alpha;  ///< alpha is 0 where the splat does not count
  Value counts, light, steps;                    ///< `light` and `steps` behind it

  Responses(Value s, Value x, Value y, Value light_before, Value steps_before, const SplatAttrs& a) {
    dx = x - number(s, center), dy = y - number(s, center + 1);
    Value q = number(s, conic) * dx * dx + 2.0 * (number(s, conic + 1) * dx * dy) + number(s, conic + 2) * dy * dy;
    divisor = 1.0 + number(s, slope) * dx + number(s, slope + 1) * dy + number(s, bend) * dx * dx +
              2.0 * (number(s, bend + 1) * dx * dy) + number(s, bend + 2) * dy * dy;
    Value inside = both(is_at_least(q, 0), compare(q, full_like(q, a.radius_scale * a.radius_scale), Comparison::le));
    inside = both(inside, compare(divisor, zeros_like(divisor), Comparison::gt));
    // Elsewhere the distance is 0, so that no derivative meets an infinite number.
    divisor = select(inside, divisor, full_like(divisor, 1));
    distance = select(inside, q, zeros_like(q)) / divisor;
    fall = exp(distance * -0.5);
    alpha = number(s, opacity) * fall;
    counts = both(both(inside, is_at_least(alpha, a.alpha_cutoff)),
                  both(is_at_least(light_before, a.transmittance_threshold),
                       is_less(steps_before, static_cast<double>(a.max_splat_steps))));
    alpha = select(counts, alpha, zeros_like(alpha));
    light = light_before * (1.0 - alpha);
    steps = steps_before + convert(counts, steps_before.dtype());
  }
};

/// The scan over the splats[..., n, 15] with these first carries and captured values. `body` maps carries, one splat of
/// each batch and the captured values to carries and results.
template <class F>
std::vector<Value> over_splats(Value splats, std::vector<Value> carries, std::vector<Value> captured, F body) {
  Value rows = move_axis(splats, splats.rank() - 2, 0);
  ScanAttrs scanned;
  scanned.carries = int64_t(carries.size()), scanned.xs = 1, scanned.length = rows.dim(0);
  std::vector<Value> operands = std::move(carries);
  operands.push_back(rows);
  operands.insert(operands.end(), captured.begin(), captured.end());
  std::vector<Type> types;
  for (const Value& v : operands) types.push_back(v.type());
  auto& row = types[size_t(scanned.carries)];
  row.dims.erase(row.dims.begin());
  scanned.body = trace(types, body);
  return scan(splats.graph(), std::move(operands), std::move(scanned));
}

/// What both directions begin with.
struct Raster {
  Type plane;  ///< one number for each pixel of each batch: [..., height * width]
  Value x, y;  ///< where the pixels are
  Value light, color[3];

  Raster(Value splats, Value background, const SplatAttrs& a) {
    Graph& g = splats.graph();
    Dims dims(background.dims().begin(), background.dims().end() - 1);
    dims.emplace_back(a.height * a.width);
    plane = {splats.dtype(), dims};
    Type image{splats.dtype(), {a.height, a.width}};
    x = reshape(iota(g, image, 1), {a.height * a.width}) + 0.5;
    y = reshape(iota(g, image, 0), {a.height * a.width}) + 0.5;
    Value none = full(g, 0, plane), all = full(g, 1, plane);
    auto out = over_splats(splats, {all, none, none, none, none}, {x, y}, [&a](Values v) {
      Value s = v[5];
      Responses r(s, v[6], v[7], v[0], v[4], a);
      Value weight = v[0] * r.alpha;
      std::vector<Value> next = {r.light};
      // A colour that is no number spoils the pixels it is seen at, and no others: 0 * NaN would.
      for (int64_t i = 0; i < 3; ++i) {
        Value shown = weight * number(s, splat_field::color + i);
        next.push_back(v[size_t(1 + i)] + select(r.counts, shown, zeros_like(shown)));
      }
      next.push_back(r.steps);
      return next;
    });
    light = out[0];
    for (size_t i = 0; i < 3; ++i) color[i] = out[1 + i] + light * number(background, int64_t(i));
  }
};

/// light^power where there is light, else 0.
Value power_of(Value light, double power) {
  Value some = compare(light, zeros_like(light), Comparison::gt);
  Value raised = exp(log(select(some, light, full_like(light, 1))) * power);
  return select(some, raised, zeros_like(raised));
}

Value rasterize(Values in, const SplatAttrs& a) {
  Raster r(in[0], in[1], a);
  std::vector<Value> channels;
  for (const Value& c : r.color) channels.push_back(a.gamma == 1 ? c : power_of(c, 1 / a.gamma));
  channels.push_back(1.0 - r.light);
  Dims batch(in[1].dims().begin(), in[1].dims().end() - 1);
  return reshape(stack(channels, int64_t(r.plane.rank())), image_dims(batch, a));
}

Many<Value> rasterize_backward(Values in, const SplatAttrs& a) {
  Value splats = in[0], background = in[1];
  Raster whole(splats, background, a);
  int64_t pixels = int64_t(whole.plane.rank()) - 1;
  Dims flat = whole.plane.dims;
  flat.emplace_back(4);
  Value ct = reshape(in[2], flat), d[3], total, behind_all = -squeeze(number(ct, 3), {pixels + 1});
  std::vector<Value> d_background;
  for (int64_t i = 0; i < 3; ++i) {
    Value given = squeeze(number(ct, i), {pixels + 1});
    d[i] = a.gamma == 1 ? given : given * (power_of(whole.color[i], 1 / a.gamma - 1) / a.gamma);
    behind_all = behind_all + d[i] * number(background, i);
    d_background.push_back(reduce_sum(d[i] * whole.light, {pixels}));
    Value own = d[i] * (whole.color[i] - whole.light * number(background, i));
    total = i == 0 ? own : total + own;
  }
  total = total + whole.light * behind_all;

  // `done` is what the splats so far have contributed to the loss; the rest of `total` is what is behind, dimmed.
  Value none = full(splats.graph(), 0, whole.plane), all = full(splats.graph(), 1, whole.plane);
  auto out =
      over_splats(splats, {all, none, none}, {whole.x, whole.y, d[0], d[1], d[2], total, behind_all}, [&](Values v) {
        Value light = v[0], s = v[3];
        Responses r(s, v[4], v[5], light, v[2], a);
        auto where_it_counts = [&](Value x) { return select(r.counts, x, zeros_like(x)); };
        Value own =
            where_it_counts(v[6] * number(s, color) + v[7] * number(s, color + 1) + v[8] * number(s, color + 2));
        Value weight = light * r.alpha, done = v[1] + weight * own;
        Value stopped = bitwise_or(is_less(r.light, a.transmittance_threshold),
                                   is_at_least(r.steps, static_cast<double>(a.max_splat_steps)));
        Value passes = select(stopped, full_like(r.light, 1), r.light);
        Value behind = select(stopped, v[10], (v[9] - done) / passes);
        Value d_alpha = where_it_counts(light * (own - behind));
        Value d_q = d_alpha * r.alpha * -0.5 / r.divisor, d_divisor = -(d_q * r.distance);
        auto sum = [&](Value x) { return reduce_sum(x, {pixels}); };
        Value q_dx = d_q * r.dx, q_dy = d_q * r.dy, divisor_dx = d_divisor * r.dx, divisor_dy = d_divisor * r.dy;
        Value d_x = 2.0 * (number(s, conic) * q_dx + number(s, conic + 1) * q_dy) + d_divisor * number(s, slope) +
                    2.0 * (number(s, bend) * divisor_dx + number(s, bend + 1) * divisor_dy);
        Value d_y = 2.0 * (number(s, conic + 1) * q_dx + number(s, conic + 2) * q_dy) +
                    d_divisor * number(s, slope + 1) +
                    2.0 * (number(s, bend + 1) * divisor_dx + number(s, bend + 2) * divisor_dy);
        Value d_opacity = sum(d_alpha * r.fall);
        Value row =
            stack({zeros_like(d_opacity), -sum(d_x), -sum(d_y), sum(q_dx * r.dx), 2.0 * sum(q_dx * r.dy),
                   sum(q_dy * r.dy), sum(divisor_dx), sum(divisor_dy), sum(divisor_dx * r.dx),
                   2.0 * sum(divisor_dx * r.dy), sum(divisor_dy * r.dy), d_opacity, sum(where_it_counts(weight * v[6])),
                   sum(where_it_counts(weight * v[7])), sum(where_it_counts(weight * v[8]))},
                  d_opacity.rank());
        return std::vector{r.light, done, r.steps, row};
      });
  return {move_axis(out[3], 0, splats.rank() - 2), stack(d_background, in[1].rank() - 1)};
}

std::vector<Sample> raster_samples(bool with_ct) {
  std::vector<Sample> all;
  auto add = [&](Dims batch, int64_t n, SplatAttrs a, DType dtype = f64, double lo = 0.1, double hi = 0.9) {
    // The laws differentiate the derivative twice more, element by element: fewer of them there.
    if (with_ct) n = std::min<int64_t>(n, 2), a.width = std::min<int64_t>(a.width, 2);
    Sample s{{joined(batch, {n, count}), joined(batch, {3})}, {}, a, lo, hi};
    if (with_ct) s.dims.push_back(image_dims(batch, a));
    s.dtypes.assign(s.dims.size(), dtype);
    all.push_back(std::move(s));
  };
  add({}, 4, {.width = 3, .height = 2, .tile_size = 2});
  add({2}, 3, {.width = 2, .height = 3, .gamma = 1});
  add({}, 5, {.width = 2, .height = 1, .max_splat_steps = 2, .transmittance_threshold = 0.2});
  add({1, 2}, 2, {.width = 5, .height = 1, .radius_scale = 1.5, .alpha_cutoff = 0.2, .gamma = 1.5});
  add({}, 3, {.width = 3, .height = 1}, bf16);
  add({}, 4, {.width = 3, .height = 3}, f64, -1, 2);
  add({}, 0, {.width = 1, .height = 2});
  return all;
}

}  // namespace
}  // namespace splat

OpDef define_gaussian_splat_rasterize() {
  using A = SplatAttrs;
  return define<A>({
      .name = "gaussian_splat_rasterize",
      .doc =
          "image[..., height, width, 4] of splats[..., n, 15], composited in their order over background[..., 3]: at "
          "the "
          "middle of each pixel, alpha = opacity exp(-q / 2), q = (a dx^2 + 2 b dx dy + c dy^2) / (1 + gx dx + gy dy + "
          "hxx dx^2 + 2 hxy dx dy + hyy dy^2), of those with 0 <= a dx^2 + 2 b dx dy + c dy^2 <= radius_scale^2 and "
          "alpha >= alpha_cutoff, until less than transmittance_threshold of the light passes or max_splat_steps have "
          "counted. Colours to the power of 1 / gamma; the last channel is 1 - the light that passes",
      .source = "Kerbl et al., ACM TOG 42(4) (2023)",
      .operands = {"splats", "background"},
      .covers = {"GaussianSplatRasterize"},
      .infer =
          [](Types in, const A& a) {
            splat::require_attrs(a);
            return Type{in[0].dtype, splat::image_dims(splat::require_splats(in), a)};
          },
      .reference = [](Tensors in, const A& a) { return splat::rasterize_plainly(in, a); },
      .decompose = [](Values in, const A& a) { return splat::rasterize(in, a); },
      .vjp =
          [](Values in, Value, Value ct, const A& a) {
            SplatRasterCts d = gaussian_splat_rasterize_backward(in[0], in[1], ct, a);
            return Many<Value>{d.splats, d.background};
          },
      .batch = [](Values in, const A& a) { return gaussian_splat_rasterize(in[0], in[1], a); },
      .samples = [] { return splat::raster_samples(false); },
  });
}

OpDef define_gaussian_splat_rasterize_backward() {
  using A = SplatAttrs;
  return define<A>({
      .name = "gaussian_splat_rasterize_backward",
      .doc = "the cotangents of splats and background from that of gaussian_splat_rasterize: what a pixel left out or "
             "never reached gets none, depth is not looked at",
      .source = "gaussian_splat_rasterize, differentiated",
      .operands = {"splats", "background", "ct"},
      .covers = {"GaussianSplatRenderBackward"},
      .infer =
          [](Types in, const A& a) {
            splat::require_attrs(a);
            splat::require_one_float(in);
            Dims batch = splat::require_splats(in.first(2));
            splat::require_dims(in[2], splat::image_dims(batch, a), {}, "ct");
            return Many<Type>{in[0], in[1]};
          },
      .reference = [](Tensors in, const A& a) { return splat::rasterize_backward_plainly(in, a); },
      .decompose = [](Values in, const A& a) { return splat::rasterize_backward(in, a); },
      .batch =
          [](Values in, const A& a) {
            SplatRasterCts d = gaussian_splat_rasterize_backward(in[0], in[1], in[2], a);
            return Many<Value>{d.splats, d.background};
          },
      .samples = [] { return splat::raster_samples(true); },
  });
}

}  // namespace rlx
