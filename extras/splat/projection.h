// From a Gaussian in space to a splat in an image: the formulas, for T = double (one Gaussian, as the reference
// computes it) and T = Value (all at once, as it is decomposed).
//
// Let P be the precision matrix of a Gaussian at m, in the camera's axes (x right, y down, z forward), and d = (x, y,
// 1) the ray of a pixel. Along the ray the squared distance from m, in standard deviations, is least
//     q = min over t of (t d - m)' P (t d - m) = m' P m - (m' P d)^2 / (d' P d).
// With c = m / m_z, d = c + e and e = (ex, ey, 0) this is (e' C e) / (1 + g e + e' H e), where
//     C = m_z^2 (P - P c c' P / (c' P c)),  g = 2 P c / (c' P c),  H = P / (c' P c),  of which x and y are used,
// and C is the inverse of J S J', the covariance S = inverse(P) seen through the derivative J of the projection at m:
// the matrix of EWA. So EWA is what is left without g and H.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "rlx/extras/splat.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/elementwise.h"

namespace rlx::splat {

// The few functions that double lacks to be written like a Value.
inline double square_root(double x) { return std::sqrt(x); }
inline Value square_root(Value x) { return sqrt(x); }
inline double exponential(double x) { return std::exp(x); }
inline Value exponential(Value x) { return exp(x); }
inline double tangent(double x) { return std::tan(x); }
inline Value tangent(Value x) { return tan(x); }
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline Value sigmoid(Value x) { return logistic(x); }
inline double at_least_zero(double x) { return std::max(x, 0.0); }
/// Of 0 the derivative is 0, not half as that of a maximum of two.
inline Value at_least_zero(Value x) {
  Value zero = zeros_like(x);
  return select(compare(x, zero, Comparison::le), zero, x);
}
inline double constant_least(double x, double y) { return std::min(x, y); }
inline Value constant_least(Value x, Value y) { return stop_gradient(minimum(x, y)); }
inline double zero_of(double) { return 0; }
inline Value zero_of(Value x) { return zeros_like(x); }
inline bool is_between(double x, double low, double high) { return low < x && x < high; }
inline Value is_between(Value x, double low, double high) {
  return bitwise_and(compare(full_like(x, low), x, Comparison::lt), compare(x, full_like(x, high), Comparison::lt));
}
inline double where(bool c, double x, double y) { return c ? x : y; }
inline Value where(Value c, Value x, double y) { return select(c, x, full_like(x, y)); }

template <class T>
struct Point {
  T x, y, z;
};
template <class T>
Point<T> operator-(const Point<T>& a, const Point<T>& b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class T>
Point<T> operator*(const Point<T>& a, const T& s) {
  return {a.x * s, a.y * s, a.z * s};
}
template <class T>
T dot(const Point<T>& a, const Point<T>& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}
template <class T>
Point<T> cross(const Point<T>& a, const Point<T>& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
template <class T>
struct CameraFrame {
  Point<T> position, right{}, down{}, forward{};
  T focal{};  ///< in pixels

  /// One that stands in what it looks at, has "up" ahead, or opens by an angle of 0 sees nothing: `forward` is 0. What
  /// is divided by is 1 there, for a quotient that is infinite is NaN in derivatives.
  CameraFrame(const std::array<T, 10>& c, int64_t height) : position{c[0], c[1], c[2]} {
    auto is_length = [](const T& squared) { return is_between(squared, 0, std::numeric_limits<double>::infinity()); };
    Point<T> ahead = Point<T>{c[3], c[4], c[5]} - position;
    T squared = dot(ahead, ahead);
    forward = ahead * (1.0 / square_root(where(is_length(squared), squared, 1.0)));
    Point<T> across = cross(forward, {c[6], c[7], c[8]});
    squared = dot(across, across);
    auto stands = is_length(squared);
    right = across * (1.0 / square_root(where(stands, squared, 1.0)));
    down = cross(forward, right);
    T slope = tangent(c[9] * 0.5);
    auto opens = is_length(slope * slope);
    focal = (static_cast<double>(height) / 2) / where(opens, slope, 1.0);
    for (T* part : {&forward.x, &forward.y, &forward.z}) *part = where(opens, where(stands, *part, 0.0), 0.0);
  }
};

template <class T>
struct Gaussian {
  Point<T> position;
  std::array<T, 3> log_scale;
  std::array<T, 4> rotation;
  T opacity;
  std::array<T, 3> color;
  std::vector<std::array<T, 3>> sh;
};

/// The real spherical harmonics of a direction of length 1, the first `count` of them, band after band and from -l to
/// l: with the signs of the associated Legendre functions (Condon and Shortley), as splat files have them.
template <class T>
std::vector<T> harmonics(const Point<T>& d, size_t count) {
  const double pi = std::acos(-1.0);
  auto scale = [&](double numerator, double denominator) { return std::sqrt(numerator / (denominator * pi)); };
  std::vector<T> all;
  all.push_back(zero_of(d.x) + scale(1, 4));
  if (count > 1) {
    all.push_back(d.y * -scale(3, 4));
    all.push_back(d.z * scale(3, 4));
    all.push_back(d.x * -scale(3, 4));
  }
  T xx = d.x * d.x, yy = d.y * d.y, zz = d.z * d.z;
  if (count > 4) {
    all.push_back(d.x * d.y * scale(15, 4));
    all.push_back(d.y * d.z * -scale(15, 4));
    all.push_back((2.0 * zz - xx - yy) * scale(5, 16));
    all.push_back(d.x * d.z * -scale(15, 4));
    all.push_back((xx - yy) * scale(15, 16));
  }
  if (count > 9) {
    all.push_back(d.y * (3.0 * xx - yy) * -scale(35, 32));
    all.push_back(d.x * d.y * d.z * scale(105, 4));
    all.push_back(d.y * (4.0 * zz - xx - yy) * -scale(21, 32));
    all.push_back(d.z * (2.0 * zz - 3.0 * xx - 3.0 * yy) * scale(7, 16));
    all.push_back(d.x * (4.0 * zz - xx - yy) * -scale(21, 32));
    all.push_back(d.z * (xx - yy) * scale(105, 16));
    all.push_back(d.x * (xx - 3.0 * yy) * -scale(35, 32));
  }
  return all;
}

/// T = double: `Condition` is bool; T = Value: a Value.
template <class T, class Condition>
struct Projection {
  std::array<T, splat_field::count> numbers;  ///< of the splat; 0 where it is not `seen`
  Condition seen;                             ///< between near and far
  T depth, reach_x, reach_y;                  ///< half the sides of the box around one standard deviation

  Projection(const Gaussian<T>& gaussian, const CameraFrame<T>& camera, const SplatAttrs& a) {
    Gaussian<T> g = gaussian;
    Point<T> from = g.position - camera.position;
    depth = dot(camera.forward, from);
    seen = is_between(depth, a.near, a.far);
    // What is not seen is divided by 1, and is round: its quotients could be infinite, also in derivatives.
    T per_depth = 1.0 / where(seen, depth, 1.0);
    for (T* part : {&from.x, &from.y, &from.z}) *part = where(seen, *part, 0.0);
    for (T& scale : g.log_scale) scale = where(seen, scale, 0.0);
    for (size_t i = 0; i < 4; ++i) g.rotation[i] = where(seen, g.rotation[i], i == 0 ? 1.0 : 0.0);
    T u = dot(camera.right, from) * per_depth, v = dot(camera.down, from) * per_depth;
    const T& focal = camera.focal;
    T scale = focal * per_depth;

    auto axes = axes_of(g.rotation);
    T smallest = constant_least(constant_least(g.log_scale[0], g.log_scale[1]), g.log_scale[2]);
    std::array<T, 3> jx{}, jy{};  // one standard deviation along each axis, in the image
    T n0{}, px{}, py{}, hxx{}, hxy{}, hyy{};
    for (size_t i = 0; i < 3; ++i) {
      Point<T> b = {dot(camera.right, axes[i]), dot(camera.down, axes[i]), dot(camera.forward, axes[i])};
      T length = scale * exponential(g.log_scale[i]);
      jx[i] = length * (b.x - u * b.z), jy[i] = length * (b.y - v * b.z);
      // P is known up to a factor, which cancels: that of the smallest axis is 1, so nothing overflows.
      Point<T> e = b * exponential(smallest - g.log_scale[i]);
      T t = e.x * u + e.y * v + e.z;
      auto add = [&](T& sum, T term) { sum = i == 0 ? term : sum + term; };
      add(n0, t * t), add(px, t * e.x), add(py, t * e.y);
      add(hxx, e.x * e.x), add(hxy, e.x * e.y), add(hyy, e.y * e.y);
    }
    auto minor = [&](size_t i, size_t k) {
      T m = jx[i] * jy[k] - jx[k] * jy[i];
      return m * m;
    };
    T xx = jx[0] * jx[0] + jx[1] * jx[1] + jx[2] * jx[2], yy = jy[0] * jy[0] + jy[1] * jy[1] + jy[2] * jy[2];
    T xy = jx[0] * jy[0] + jx[1] * jy[1] + jx[2] * jy[2];
    // The determinant as a sum of squares (Cauchy and Binet): a difference would lose it for long, thin splats.
    T determinant = minor(0, 1) + minor(0, 2) + minor(1, 2);
    if (a.low_pass > 0) {
      determinant = determinant + (xx + yy) * a.low_pass + a.low_pass * a.low_pass;
      xx = xx + a.low_pass, yy = yy + a.low_pass;
    }
    reach_x = square_root(xx), reach_y = square_root(yy);

    determinant = where(seen, determinant, 1.0), n0 = where(seen, n0, 1.0);
    T per_determinant = 1.0 / determinant, per_n0 = 1.0 / n0, per_focal = 1.0 / focal, zero = zero_of(depth);
    T bend = per_n0 * per_focal * per_focal, slope = 2.0 * (per_n0 * per_focal);
    bool ray = a.footprint == SplatFootprint::ray;
    auto color = color_of(g, from);
    numbers = {depth,
               focal * u + static_cast<double>(a.width) / 2,
               focal * v + static_cast<double>(a.height) / 2,
               yy * per_determinant,
               -xy * per_determinant,
               xx * per_determinant,
               ray ? px * slope : zero,
               ray ? py * slope : zero,
               ray ? hxx * bend : zero,
               ray ? hxy * bend : zero,
               ray ? hyy * bend : zero,
               sigmoid(g.opacity),
               color[0],
               color[1],
               color[2]};
    for (T& number : numbers) number = where(seen, number, 0.0);
  }

 private:
  static std::array<Point<T>, 3> axes_of(const std::array<T, 4>& q) {
    T unit = 1.0 / square_root(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    T x = q[0] * unit, y = q[1] * unit, z = q[2] * unit, w = q[3] * unit;
    return {Point<T>{1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)},
            Point<T>{2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)},
            Point<T>{2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)}};
  }
  std::array<T, 3> color_of(const Gaussian<T>& g, const Point<T>& from) {
    std::array<T, 3> color = g.color;
    if (!g.sh.empty()) {
      Point<T> direction = from * (1.0 / square_root(where(seen, dot(from, from), 1.0)));
      auto basis = harmonics(direction, g.sh.size());
      for (size_t k = 0; k < g.sh.size(); ++k)
        for (size_t i = 0; i < 3; ++i) color[i] = color[i] + g.sh[k][i] * basis[k];
    }
    for (T& c : color) c = at_least_zero(c);
    return color;
  }
};

}  // namespace rlx::splat
