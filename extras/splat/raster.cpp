// See the header. The lanes of a vector are neighbouring pixels; a tile's transmitted light and colours stay in L1
// while its splats are composited. The gradient also runs front to back, twice: what the splats behind one contribute
// is the total of all splats less that of the splats so far. (Back to front, the hits of each pixel would have to be
// stored.) The file is longer than others because the image and the gradient composite the same tiles.
#include "extras/splat/raster.h"

#include <algorithm>
#include <cmath>

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "extras/splat/raster.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/vector_math-inl.h"

#ifndef RLX_EXTRAS_SPLAT_RASTER_ONCE
#define RLX_EXTRAS_SPLAT_RASTER_ONCE
namespace rlx::splat {
namespace {

constexpr int64_t kTile = 16, kTilePixels = kTile * kTile;
constexpr int64_t kTilesBetweenLooks = 8;  // splats between two checks whether a tile is done

// Index of each of a splat's numbers.
constexpr int64_t kCenter = 1, kConic = 3, kSlope = 6, kBend = 8, kOpacity = 11, kColor = 12;

}  // namespace
}  // namespace rlx::splat
#endif  // RLX_EXTRAS_SPLAT_RASTER_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::splat {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using kernels::HWY_NAMESPACE::Exp;
using kernels::HWY_NAMESPACE::Log;

template <class T>
using Tag = hn::CappedTag<T, kTile>;

template <class T>
struct Tile {
  int64_t x0, y0;
  HWY_ALIGN T light[kTilePixels], color[3][kTilePixels], steps[kTilePixels];

  /// Starts with full light; pixels outside of the image have none and so are done at once.
  void start(const SplatArgs& a) {
    for (int64_t y = 0; y < kTile; ++y)
      for (int64_t x = 0; x < kTile; ++x) light[y * kTile + x] = x0 + x < a.width && y0 + y < a.height ? T(1) : T(0);
    std::fill_n(&color[0][0], 3 * kTilePixels, T(0));
    std::fill_n(steps, kTilePixels, T(0));
  }
};

/// The response of a splat at a vector of neighbouring pixels.
template <class T>
struct Response {
  using V = hn::Vec<Tag<T>>;
  V dx, distance, divisor, fall, alpha;
  T dy;
  hn::Mask<Tag<T>> counts;
};

/// A splat's numbers and the rows and columns of a tile that its box covers.
template <class T>
struct Splat {
  const T* s;
  int64_t row0, row1, column0, column1;  ///< within the tile; column0 is a multiple of a vector's lanes

  Splat(const T* numbers, const SplatBox& box, int64_t x0, int64_t y0) : s(numbers) {
    const auto lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
    row0 = std::max<int64_t>(box.y0 - y0, 0), row1 = std::min<int64_t>(box.y1 - y0, kTile);
    column0 = std::max<int64_t>(box.x0 - x0, 0) / lanes * lanes, column1 = std::min<int64_t>(box.x1 - x0, kTile);
  }
};

/// Computes the response; returns false if the splat contributes to none of the pixels.
template <class T>
HWY_INLINE bool respond(const SplatArgs& a, const T* s, T x, T y, const T* light, const T* steps, Response<T>& r) {
  const Tag<T> d;
  auto set = [&](double v) HWY_ATTR { return hn::Set(d, static_cast<T>(v)); };
  r.dy = y - s[kCenter + 1];
  r.dx = hn::Add(hn::Iota(d, 0), hn::Set(d, x - s[kCenter]));
  const auto q = hn::MulAdd(r.dx, hn::MulAdd(hn::Set(d, s[kConic]), r.dx, hn::Set(d, 2 * s[kConic + 1] * r.dy)),
                            hn::Set(d, s[kConic + 2] * r.dy * r.dy));
  const auto before = hn::Load(d, light);
  auto inside = hn::And(hn::Ge(q, hn::Zero(d)), hn::Le(q, set(a.radius_squared)));
  inside = hn::And(inside, hn::Ge(before, set(a.threshold)));
  if (hn::AllFalse(d, inside)) return false;
  r.divisor = hn::MulAdd(r.dx, hn::MulAdd(hn::Set(d, s[kBend]), r.dx, hn::Set(d, s[kSlope] + 2 * s[kBend + 1] * r.dy)),
                         hn::Set(d, 1 + s[kSlope + 1] * r.dy + s[kBend + 2] * r.dy * r.dy));
  inside = hn::And(inside, hn::Gt(r.divisor, hn::Zero(d)));
  r.divisor = hn::IfThenElse(inside, r.divisor, set(1));
  r.distance = hn::Div(hn::IfThenElseZero(inside, q), r.divisor);
  r.fall = Exp(d, hn::Mul(r.distance, set(-0.5)));
  r.alpha = hn::Mul(hn::Set(d, s[kOpacity]), r.fall);
  r.counts = hn::And(inside, hn::Ge(r.alpha, set(a.alpha_cutoff)));
  r.counts = hn::And(r.counts, hn::Lt(hn::Load(d, steps), set(a.max_steps)));
  r.alpha = hn::IfThenElseZero(r.counts, r.alpha);
  return !hn::AllFalse(d, r.counts);
}

template <class T>
bool is_done(const SplatArgs& a, const Tile<T>& tile) {
  const Tag<T> d;
  for (int64_t i = 0; i < kTilePixels; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto passes = hn::Ge(hn::Load(d, tile.light + i), hn::Set(d, static_cast<T>(a.threshold)));
    if (!hn::AllFalse(d, hn::And(passes, hn::Lt(hn::Load(d, tile.steps + i), hn::Set(d, static_cast<T>(a.max_steps))))))
      return false;
  }
  return true;
}

/// Calls `f(splat, at, response)` for the splats of a tile, in order, at each vector of pixels they contribute to; `at`
/// is the index of its first pixel in the tile. Calls `done_with(row)` after the last vector of splat `row`, if there
/// was any.
template <class T, class F, class G>
HWY_INLINE void for_each_response(const SplatArgs& a, const SplatBox* boxes, const int32_t* list, int64_t count,
                                  const Tile<T>& tile, F f, G done_with) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  for (int64_t i = 0; i < count; ++i) {
    if (i % kTilesBetweenLooks == kTilesBetweenLooks - 1 && is_done(a, tile)) return;
    const int64_t row = list[i];
    const Splat<T> splat(static_cast<const T*>(a.splats) + row * kSplatNumbers, boxes[row], tile.x0, tile.y0);
    bool any = false;
    for (int64_t y = splat.row0; y < splat.row1; ++y)
      for (int64_t x = splat.column0; x < splat.column1; x += lanes) {
        const int64_t at = y * kTile + x;
        Response<T> r;
        if (!respond(a, splat.s, static_cast<T>(tile.x0 + x) + T(0.5), static_cast<T>(tile.y0 + y) + T(0.5),
                     tile.light + at, tile.steps + at, r))
          continue;
        any = true;
        f(splat.s, at, r);
      }
    if (any) done_with(row);
  }
}

/// Computes the light that all splats transmit and the colour that they add.
template <class T>
HWY_NOINLINE void composite(const SplatArgs& a, const SplatBox* boxes, const int32_t* list, int64_t count,
                            Tile<T>& tile) {
  const Tag<T> d;
  tile.start(a);
  for_each_response(
      a, boxes, list, count, tile,
      [&](const T* s, int64_t at, const Response<T>& r) HWY_ATTR {
        const auto light = hn::Load(d, tile.light + at), weight = hn::Mul(light, r.alpha);
        // Masked, so that a NaN colour affects only the pixels that the splat contributes to: 0 * NaN is NaN.
        for (int64_t i = 0; i < 3; ++i)
          hn::Store(hn::MulAdd(weight, hn::IfThenElseZero(r.counts, hn::Set(d, s[kColor + i])),
                               hn::Load(d, tile.color[i] + at)),
                    d, tile.color[i] + at);
        hn::Store(hn::Mul(light, hn::Sub(hn::Set(d, T(1)), r.alpha)), d, tile.light + at);
        hn::Store(hn::Add(hn::Load(d, tile.steps + at), hn::IfThenElseZero(r.counts, hn::Set(d, T(1)))), d,
                  tile.steps + at);
      },
      [](int64_t) {});
}

/// light^power where light is positive, else 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V power_of(D d, V light, double power) {
  const auto some = hn::Gt(light, hn::Zero(d));
  const V safe = hn::IfThenElse(some, light, hn::Set(d, hn::TFromD<D>(1)));
  return hn::IfThenElseZero(some, Exp(d, hn::Mul(Log(d, safe), hn::Set(d, static_cast<hn::TFromD<D>>(power)))));
}

/// Lists the splats whose boxes meet a row of tiles; returns how many.
int64_t list_of_row(const SplatArgs& a, const SplatBox* boxes, int64_t tile_row, int32_t* list) {
  const int64_t y0 = tile_row * kTile, y1 = y0 + kTile;
  int64_t count = 0;
  for (int64_t i = 0; i < a.n; ++i) {
    list[count] = static_cast<int32_t>(i);
    count += boxes[i].y0 < y1 && boxes[i].y1 > y0 && boxes[i].x1 > boxes[i].x0;
  }
  return count;
}
int64_t list_of_tile(const SplatBox* boxes, int64_t x0, const int32_t* row, int64_t row_count, int32_t* list) {
  int64_t count = 0;
  for (int64_t i = 0; i < row_count; ++i) {
    list[count] = row[i];
    count += boxes[row[i]].x0 < x0 + kTile && boxes[row[i]].x1 > x0;
  }
  return count;
}
/// Calls `f(tile's x0, list, count)` for each tile of a row.
template <class F>
void for_each_tile(const SplatArgs& a, const SplatBox* boxes, int64_t tile_row, void* scratch, F f) {
  auto* row = static_cast<int32_t*>(scratch);
  int32_t* list = row + a.n + 1;  // one slot more than splats: the slot behind the last is written and not counted
  const int64_t row_count = list_of_row(a, boxes, tile_row, row);
  for (int64_t x0 = 0; x0 < a.width; x0 += kTile) f(x0, list, list_of_tile(boxes, x0, row, row_count, list));
}

template <class T>
HWY_INLINE void forward(const SplatArgs& a, const SplatBox* boxes, int64_t tile_row, void* scratch) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* background = static_cast<const T*>(a.background);
  Tile<T> tile;
  tile.y0 = tile_row * kTile;
  for_each_tile(a, boxes, tile_row, scratch, [&](int64_t x0, const int32_t* list, int64_t count) HWY_ATTR {
    tile.x0 = x0;
    composite(a, boxes, list, count, tile);
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t at = 0; at < kTilePixels; at += lanes) {
        auto c = hn::MulAdd(hn::Load(d, tile.light + at), hn::Set(d, background[i]), hn::Load(d, tile.color[i] + at));
        if (a.gamma != 1) c = power_of(d, c, 1 / a.gamma);
        hn::Store(c, d, tile.color[i] + at);
      }
    for (int64_t y = 0; y < std::min(kTile, a.height - tile.y0); ++y) {
      T* out = static_cast<T*>(a.image) + ((tile.y0 + y) * a.width + x0) * 4;
      for (int64_t x = 0; x < std::min(kTile, a.width - x0); ++x, out += 4) {
        const int64_t at = y * kTile + x;
        out[0] = tile.color[0][at], out[1] = tile.color[1][at], out[2] = tile.color[2][at];
        out[3] = 1 - tile.light[at];
      }
    }
  });
}

template <class T>
struct Backward {
  HWY_ALIGN T d[3][kTilePixels];    // cotangent of the linear colour, before gamma
  HWY_ALIGN T rest[kTilePixels];    // what the remaining splats and the background contribute to the loss
  HWY_ALIGN T behind[kTilePixels];  // what the background alone would contribute if all light reached it

  /// Starts from a composited tile; adds to the background's cotangent.
  void start(const SplatArgs& a, const Tile<T>& tile, T* d_background) {
    const Tag<T> tag;
    const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
    const T* background = static_cast<const T*>(a.background);
    std::fill_n(&d[0][0], 3 * kTilePixels, T(0));
    std::fill_n(behind, kTilePixels, T(0));
    for (int64_t y = 0; y < std::min(kTile, a.height - tile.y0); ++y) {
      const T* ct = static_cast<const T*>(a.ct) + ((tile.y0 + y) * a.width + tile.x0) * 4;
      for (int64_t x = 0; x < std::min(kTile, a.width - tile.x0); ++x, ct += 4) {
        const int64_t at = y * kTile + x;
        d[0][at] = ct[0], d[1][at] = ct[1], d[2][at] = ct[2], behind[at] = -ct[3];
      }
    }
    for (int64_t at = 0; at < kTilePixels; at += lanes) hn::Store(hn::Zero(tag), tag, rest + at);
    for (int64_t i = 0; i < 3; ++i) {
      auto sum = hn::Zero(tag);
      for (int64_t at = 0; at < kTilePixels; at += lanes) {
        const auto own = hn::Load(tag, tile.color[i] + at), light = hn::Load(tag, tile.light + at);
        auto slope = hn::Load(tag, d[i] + at);
        if (a.gamma != 1) {
          const auto c = hn::MulAdd(light, hn::Set(tag, background[i]), own);
          slope = hn::Mul(slope, hn::Mul(power_of(tag, c, 1 / a.gamma - 1), hn::Set(tag, static_cast<T>(1 / a.gamma))));
          hn::Store(slope, tag, d[i] + at);
        }
        sum = hn::MulAdd(slope, light, sum);
        hn::Store(hn::MulAdd(slope, hn::Set(tag, background[i]), hn::Load(tag, behind + at)), tag, behind + at);
        hn::Store(hn::MulAdd(slope, own, hn::Load(tag, rest + at)), tag, rest + at);
      }
      d_background[i] += hn::GetLane(hn::SumOfLanes(tag, sum));
    }
    for (int64_t at = 0; at < kTilePixels; at += lanes) {
      const auto last = hn::Mul(hn::Load(tag, tile.light + at), hn::Load(tag, behind + at));
      hn::Store(hn::Add(hn::Load(tag, rest + at), last), tag, rest + at);
    }
  }
};

template <class T>
HWY_INLINE void backward(const SplatArgs& a, const SplatBox* boxes, int64_t tile_row, void* d_splats,
                         void* d_background, void* scratch) {
  using V = hn::Vec<Tag<T>>;
  const Tag<T> d;
  Tile<T> tile;
  Backward<T> b;
  tile.y0 = tile_row * kTile;
  for_each_tile(a, boxes, tile_row, scratch, [&](int64_t x0, const int32_t* list, int64_t count) HWY_ATTR {
    tile.x0 = x0;
    composite(a, boxes, list, count, tile);
    b.start(a, tile, static_cast<T*>(d_background));
    tile.start(a);
    const V zero = hn::Zero(d), one = hn::Set(d, T(1));
    V d_opacity = zero, d_color[3] = {zero, zero, zero};
    // Sums over pixels of the cotangents of q and of the divisor, each times 1 (only the divisor's), dx, dy, dx^2, dx
    // dy, dy^2.
    V q_x = zero, q_y = zero, q_xx = zero, q_xy = zero, q_yy = zero;
    V v_1 = zero, v_x = zero, v_y = zero, v_xx = zero, v_xy = zero, v_yy = zero;
    for_each_response(
        a, boxes, list, count, tile,
        [&](const T* s, int64_t at, const Response<T>& r) HWY_ATTR {
          const V light = hn::Load(d, tile.light + at), weight = hn::Mul(light, r.alpha);
          auto cotangent = [&](int64_t i) HWY_ATTR { return hn::IfThenElseZero(r.counts, hn::Load(d, b.d[i] + at)); };
          const V d0 = cotangent(0), d1 = cotangent(1), d2 = cotangent(2);
          const V own = hn::IfThenElseZero(
              r.counts, hn::MulAdd(d0, hn::Set(d, s[kColor]),
                                   hn::MulAdd(d1, hn::Set(d, s[kColor + 1]), hn::Mul(d2, hn::Set(d, s[kColor + 2])))));
          const V after = hn::Mul(light, hn::Sub(one, r.alpha));
          const V steps = hn::Add(hn::Load(d, tile.steps + at), hn::IfThenElseZero(r.counts, one));
          const V rest = hn::NegMulAdd(weight, own, hn::Load(d, b.rest + at));
          const auto stopped = hn::Or(hn::Lt(after, hn::Set(d, static_cast<T>(a.threshold))),
                                      hn::Ge(steps, hn::Set(d, static_cast<T>(a.max_steps))));
          const V behind =
              hn::IfThenElse(stopped, hn::Load(d, b.behind + at), hn::Div(rest, hn::IfThenElse(stopped, one, after)));
          hn::Store(after, d, tile.light + at);
          hn::Store(steps, d, tile.steps + at);
          hn::Store(rest, d, b.rest + at);
          const V d_alpha = hn::IfThenElseZero(r.counts, hn::Mul(light, hn::Sub(own, behind)));
          d_color[0] = hn::MulAdd(weight, d0, d_color[0]);
          d_color[1] = hn::MulAdd(weight, d1, d_color[1]);
          d_color[2] = hn::MulAdd(weight, d2, d_color[2]);
          d_opacity = hn::MulAdd(d_alpha, r.fall, d_opacity);
          const V d_q = hn::Div(hn::Mul(hn::Mul(d_alpha, r.alpha), hn::Set(d, T(-0.5))), r.divisor);
          const V d_v = hn::Neg(hn::Mul(d_q, r.distance));
          const V dy = hn::Set(d, r.dy), qx = hn::Mul(d_q, r.dx), qy = hn::Mul(d_q, dy), vx = hn::Mul(d_v, r.dx),
                  vy = hn::Mul(d_v, dy);
          q_x = hn::Add(q_x, qx), q_y = hn::Add(q_y, qy);
          q_xx = hn::MulAdd(qx, r.dx, q_xx), q_xy = hn::MulAdd(qx, dy, q_xy), q_yy = hn::MulAdd(qy, dy, q_yy);
          v_1 = hn::Add(v_1, d_v), v_x = hn::Add(v_x, vx), v_y = hn::Add(v_y, vy);
          v_xx = hn::MulAdd(vx, r.dx, v_xx), v_xy = hn::MulAdd(vx, dy, v_xy), v_yy = hn::MulAdd(vy, dy, v_yy);
        },
        [&](int64_t row) HWY_ATTR {
          const T* s = static_cast<const T*>(a.splats) + row * kSplatNumbers;
          T* g = static_cast<T*>(d_splats) + row * kSplatNumbers;
          auto taken = [&](V& sum) HWY_ATTR {
            const T value = hn::GetLane(hn::SumOfLanes(d, sum));
            sum = zero;
            return value;
          };
          const T qx = taken(q_x), qy = taken(q_y), v1 = taken(v_1), vx = taken(v_x), vy = taken(v_y);
          g[kCenter] -=
              2 * (s[kConic] * qx + s[kConic + 1] * qy) + s[kSlope] * v1 + 2 * (s[kBend] * vx + s[kBend + 1] * vy);
          g[kCenter + 1] -= 2 * (s[kConic + 1] * qx + s[kConic + 2] * qy) + s[kSlope + 1] * v1 +
                            2 * (s[kBend + 1] * vx + s[kBend + 2] * vy);
          g[kConic] += taken(q_xx), g[kConic + 1] += 2 * taken(q_xy), g[kConic + 2] += taken(q_yy);
          g[kSlope] += vx, g[kSlope + 1] += vy;
          g[kBend] += taken(v_xx), g[kBend + 1] += 2 * taken(v_xy), g[kBend + 2] += taken(v_yy);
          g[kOpacity] += taken(d_opacity);
          for (int64_t i = 0; i < 3; ++i) g[kColor + i] += taken(d_color[i]);
        });
  });
}

void tile_row(const SplatArgs& a, const SplatBox* boxes, int64_t row, void* scratch) {
  a.dtype == f64 ? forward<double>(a, boxes, row, scratch) : forward<float>(a, boxes, row, scratch);
}
void tile_row_backward(const SplatArgs& a, const SplatBox* boxes, int64_t row, void* d_splats, void* d_background,
                       void* scratch) {
  a.dtype == f64 ? backward<double>(a, boxes, row, d_splats, d_background, scratch)
                 : backward<float>(a, boxes, row, d_splats, d_background, scratch);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::splat
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::splat {

HWY_EXPORT(tile_row);
HWY_EXPORT(tile_row_backward);

namespace {

/// The box of a splat, in double: it may be too large, never too small.
template <class T>
SplatBox box_of(const SplatArgs& a, const T* s) {
  // alpha is at most the opacity, because distances are not negative.
  if (!(double(s[kOpacity]) >= static_cast<double>(static_cast<T>(a.alpha_cutoff)))) return {0, 0, 0, 0};
  const double conic[3] = {double(s[kConic]), double(s[kConic + 1]), double(s[kConic + 2])};
  const double determinant = conic[0] * conic[2] - conic[1] * conic[1];
  const auto width = static_cast<double>(a.width), height = static_cast<double>(a.height);
  if (!(determinant > 0) || !(conic[0] > 0)) return {0, 0, int32_t(a.width), int32_t(a.height)};  // no ellipse
  auto side = [&](double center, double variance, double pixels, int32_t& first, int32_t& behind) {
    constexpr double kMargin = 1;  // pixels, for rounding differences to f32
    const double reach = std::sqrt(a.radius_squared * variance) * (1 + 1e-3) + kMargin;
    const double low = center - reach, high = center + reach;
    if (!(low <= high)) return;  // the centre or the variance is NaN
    first = static_cast<int32_t>(std::clamp(std::floor(low), 0.0, pixels));
    behind = static_cast<int32_t>(std::clamp(std::ceil(high), 0.0, pixels));
  };
  SplatBox box{0, 0, 0, 0};
  side(double(s[kCenter]), conic[2] / determinant, width, box.x0, box.x1);
  side(double(s[kCenter + 1]), conic[0] / determinant, height, box.y0, box.y1);
  return box;
}

}  // namespace

int64_t SplatArgs::tile_rows() const { return (height + kTile - 1) / kTile; }

void splat_boxes(const SplatArgs& args, SplatBox* boxes, int64_t begin, int64_t end) noexcept {
  for (int64_t i = begin; i < end; ++i)
    boxes[i] = args.dtype == f64 ? box_of(args, static_cast<const double*>(args.splats) + i * kSplatNumbers)
                                 : box_of(args, static_cast<const float*>(args.splats) + i * kSplatNumbers);
}
size_t splat_scratch_bytes(int64_t n) { return 2 * (static_cast<size_t>(n) + 1) * sizeof(int32_t); }

void splat_tile_row(const SplatArgs& args, const SplatBox* boxes, int64_t tile_row, void* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(tile_row)(args, boxes, tile_row, scratch);
}
void splat_tile_row_backward(const SplatArgs& args, const SplatBox* boxes, int64_t tile_row, void* d_splats,
                             void* d_background, void* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(tile_row_backward)(args, boxes, tile_row, d_splats, d_background, scratch);
}

}  // namespace rlx::splat
#endif  // HWY_ONCE
