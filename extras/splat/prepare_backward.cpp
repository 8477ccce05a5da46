// The derivative of gaussian_splat_prepare as the reference has it: the same formulas on numbers that carry their
// derivatives along, so nothing is shared with the transforms of graphs.
#include "extras/splat/plain.h"

namespace rlx::splat {
namespace {

/// Numbers on which one splat depends: of its Gaussian, then of the camera.
constexpr size_t kOwn = 3 + 3 + 4 + 1 + 3 + 16 * 3, kDirections = kOwn + 10;

struct Dual {
  double value = 0;
  std::array<double, kDirections> d{};

  /// value, with the derivatives of x times `slope`.
  static Dual along(double value, const Dual& x, double slope) {
    Dual r;
    r.value = value;
    for (size_t i = 0; i < kDirections; ++i) r.d[i] = x.d[i] * slope;
    return r;
  }
  static Dual along(double value, const Dual& x, double x_slope, const Dual& y, double y_slope) {
    Dual r;
    r.value = value;
    for (size_t i = 0; i < kDirections; ++i) r.d[i] = x.d[i] * x_slope + y.d[i] * y_slope;
    return r;
  }
};
Dual operator-(const Dual& x) { return Dual::along(-x.value, x, -1); }
Dual operator+(const Dual& x, const Dual& y) { return Dual::along(x.value + y.value, x, 1, y, 1); }
Dual operator-(const Dual& x, const Dual& y) { return Dual::along(x.value - y.value, x, 1, y, -1); }
Dual operator*(const Dual& x, const Dual& y) { return Dual::along(x.value * y.value, x, y.value, y, x.value); }
Dual operator+(const Dual& x, double y) { return Dual::along(x.value + y, x, 1); }
Dual operator-(double x, const Dual& y) { return Dual::along(x - y.value, y, -1); }
Dual operator*(const Dual& x, double y) { return Dual::along(x.value * y, x, y); }
Dual operator*(double x, const Dual& y) { return y * x; }
Dual operator/(double x, const Dual& y) { return Dual::along(x / y.value, y, -x / (y.value * y.value)); }

Dual square_root(const Dual& x) {
  double root = std::sqrt(x.value);
  return Dual::along(root, x, 0.5 / root);
}
Dual exponential(const Dual& x) {
  double e = std::exp(x.value);
  return Dual::along(e, x, e);
}
Dual tangent(const Dual& x) {
  double t = std::tan(x.value);
  return Dual::along(t, x, 1 + t * t);
}
Dual sigmoid(const Dual& x) {
  double s = splat::sigmoid(x.value);
  return Dual::along(s, x, s * (1 - s));
}
Dual at_least_zero(const Dual& x) { return x.value > 0 ? x : Dual{}; }
Dual constant_least(const Dual& x, const Dual& y) { return Dual{std::min(x.value, y.value), {}}; }
Dual zero_of(const Dual&) { return {}; }
bool is_between(const Dual& x, double low, double high) { return splat::is_between(x.value, low, high); }
Dual where(bool c, const Dual& x, double y) { return c ? x : Dual{y, {}}; }

/// Where the directions of each operand begin.
constexpr size_t kFirst[] = {0, 3, 6, 10, 11, 14, kOwn};

}  // namespace

Many<Tensor> prepare_backward_plainly(Tensors in, const Tensor& d_splats, const SplatAttrs& a) {
  PlainScene scene(in);
  const size_t per_splat[] = {3, 3, 4, 1, 3, 3 * scene.coefficients};
  auto seeded = [&](size_t operand, size_t at) {
    Dual x;
    x.value = scene.value(operand, at);
    x.d[kFirst[operand] + at % (operand == 6 ? 10 : per_splat[operand])] = 1;
    return x;
  };
  Array<int64_t> order(prepare_plainly(in, a)[1]);
  Array<double> ct(d_splats);
  std::vector<Array<double>> d;
  for (const Tensor& t : in.first(7)) d.emplace_back(t.shape());
  for (size_t row = 0; row < scene.batches * scene.n; ++row) {
    const size_t b = row / scene.n, i = b * scene.n + static_cast<size_t>(order.data[row]);
    Projection<Dual, bool> p(scene.gaussian<Dual>(i, seeded), scene.camera<Dual>(b, a.height, seeded), a);
    for (size_t k = 0; k < p.numbers.size(); ++k) {
      const double w = ct.data[row * p.numbers.size() + k];
      for (size_t operand = 0; operand < 6; ++operand)
        for (size_t j = 0; j < per_splat[operand]; ++j)
          d[operand].data[per_splat[operand] * i + j] += w * p.numbers[k].d[kFirst[operand] + j];
      for (size_t j = 0; j < 10; ++j) d[6].data[10 * b + j] += w * p.numbers[k].d[kOwn + j];
    }
  }
  Many<Tensor> all;
  for (const Array<double>& t : d) all.push_back(t.rounded_to(in[0].dtype()));
  return all;
}

}  // namespace rlx::splat
