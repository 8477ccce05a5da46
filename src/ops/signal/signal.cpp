// Windows, short-time transforms, spectral densities, mel filters: builders, made of ops; see the header.
#include "rlx/ops/signal.h"

#include <cmath>

#include "base/growth_limit.h"
#include "ops/core/composite_rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/take.h"

namespace rlx {
namespace {

/// f(i) for n places of the symmetric window of n places, or of n + 1 if it is periodic.
template <class F>
std::vector<double> places(int64_t n, bool periodic, F f) {
  if (n < 1) fail(ErrorCode::invalid_argument, "a window of ", n, " places");
  GrowthLimit::count_table(n, sizeof(double));
  int64_t whole = periodic ? n + 1 : n;
  std::vector<double> w(static_cast<size_t>(n), 1.0);
  if (n > 1)  // a window of one place is 1, whatever its kind
    for (int64_t i = 0; i < n; ++i) w[size_t(i)] = f(static_cast<double>(i) / static_cast<double>(whole - 1));
  return w;
}
/// n numbers of a window, i / (n - 1) being `at`.
std::vector<double> window_numbers(Window kind, int64_t n, bool periodic) {
  return places(n, periodic, [&](double at) {
    double turn = 2 * M_PI * at;
    switch (kind) {
      case Window::rectangular: return 1.0;
      case Window::hann: return 0.5 - 0.5 * std::cos(turn);
      case Window::hamming: return 0.54 - 0.46 * std::cos(turn);
      case Window::blackman: return 0.42 - 0.5 * std::cos(turn) + 0.08 * std::cos(2 * turn);
      case Window::bartlett: return 1 - std::abs(2 * at - 1);
    }
    return 1.0;
  });
}
Value constant_of(Graph& g, const std::vector<double>& values, Shape shape, DType dtype) {
  Array<double> all(std::move(shape));
  all.data = values;
  return g.constant(all.rounded_to(dtype));
}
double bessel_i0(double x) {
  double term = 1, sum = 1;
  for (int k = 1; term > 1e-18 * sum; ++k) term *= x * x / (4.0 * k * k), sum += term;
  return sum;
}
int64_t length_of(Value x, std::string_view what) {
  require_rank(x.type(), 1, SIZE_MAX, what);
  if (!x.dim(-1).is_static())
    fail(ErrorCode::unsupported, "the last dim of ", what, " ", x.type(), " is cut into frames: it must be a number");
  return x.dim(-1).value();
}
void require_steps(int64_t length, int64_t hop) {
  if (length < 1 || hop < 1) fail(ErrorCode::invalid_argument, "frames of ", length, " places, ", hop, " apart");
}
/// i hop + j for frame i and place j.
Value frame_indices(Graph& g, int64_t frames, int64_t length, int64_t hop) {
  Tensor at(i64, {frames, length});
  for (int64_t i = 0; i < frames; ++i)
    for (int64_t j = 0; j < length; ++j) store<int64_t>(at, static_cast<size_t>(i * length + j), i * hop + j);
  return g.constant(std::move(at));
}

}  // namespace

Value window(Graph& g, Window kind, int64_t n, bool periodic, DType dtype) {
  return constant_of(g, window_numbers(kind, n, periodic), {n}, dtype);
}
Value kaiser_window(Graph& g, int64_t n, double beta, bool periodic, DType dtype) {
  if (!(std::abs(beta) <= 700)) fail(ErrorCode::invalid_argument, "a Kaiser window with beta ", beta);
  auto at = places(n, periodic, [&](double i) {
    return bessel_i0(beta * std::sqrt(std::max(0.0, 1 - (2 * i - 1) * (2 * i - 1)))) / bessel_i0(beta);
  });
  return constant_of(g, at, {n}, dtype);
}

Value framed(Value x, int64_t length, int64_t hop) {
  require_steps(length, hop);
  int64_t have = length_of(x, "x");
  if (have < length)
    fail(ErrorCode::shape_mismatch, "x ", x.type(), " is shorter than one frame of ", length, " places");
  return take(x, frame_indices(x.graph(), (have - length) / hop + 1, length, hop), -1);
}
Value overlap_added(Value frames, int64_t hop) {
  require_rank(frames.type(), 2, SIZE_MAX, "frames");
  int64_t length = length_of(frames, "frames");
  if (!frames.dim(-2).is_static() || frames.dim(-2).value() < 1)
    fail(ErrorCode::unsupported, "frames ", frames.type(), " must be a number of at least 1");
  int64_t count = frames.dim(-2).value();
  require_steps(length, hop);
  Dims flat(frames.dims().begin(), frames.dims().end() - 2);
  flat.push_back(count * length);
  Value at = reshape(frame_indices(frames.graph(), count, length, hop), {count * length});
  return scatter_add_rows(reshape(frames, flat), at, (count - 1) * hop + length, int64_t(flat.size()) - 1);
}

Value stft(Value x, const StftOptions& o) {
  require_steps(o.n_fft, o.hop);
  require_kind(x.type(), kReal, "x");
  if (o.center) {
    Dims around(x.dims().size(), 0);
    require_rank(x.type(), 1, SIZE_MAX, "x");
    around.back() = o.n_fft / 2;
    x = pad_mode(x, o.pad, around, around);
  }
  Value frames = framed(x, o.n_fft, o.hop);
  return rfft(frames * broadcast_to(window(x.graph(), o.window, o.n_fft, true, x.dtype()), frames.dims()));
}
Value istft(Value spectra, int64_t length, const StftOptions& o) {
  require_steps(o.n_fft, o.hop);
  require_kind(spectra.type(), kComplex, "spectra");
  require_rank(spectra.type(), 2, SIZE_MAX, "spectra");
  if (length < 1) fail(ErrorCode::invalid_argument, "a signal of ", length, " places");
  DType dtype = real_part(spectra.dtype());
  Graph& g = spectra.graph();
  Value frames = irfft(spectra, {-1}, o.n_fft);
  frames = frames * broadcast_to(window(g, o.window, o.n_fft, true, dtype), frames.dims());
  Value sum = overlap_added(frames, o.hop);
  // What the squared windows add up to; where that is nothing, nothing is known of the signal either.
  int64_t count = frames.dim(-2).value(), have = sum.dim(-1).value();
  GrowthLimit::count_table(have, sizeof(double));
  std::vector<double> w = window_numbers(o.window, o.n_fft, true), weight(static_cast<size_t>(have));
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < o.n_fft; ++j) weight[size_t(i * o.hop + j)] += w[size_t(j)] * w[size_t(j)];
  for (double& v : weight) v = v > 1e-11 ? 1 / v : 0;
  Value y = sum * broadcast_to(constant_of(g, weight, {have}, dtype), sum.dims());
  if (o.center) y = slice_axis(y, -1, std::min(o.n_fft / 2, have), have);
  return resized(y, -1, length);
}

Value psd(Value x, const PsdOptions& o) {
  require_kind(x.type(), kReal, "x");
  int64_t n = o.segment, overlap = o.overlap.value_or(n / 2);
  if (n < 1 || overlap < 0 || overlap >= n || !(o.sample_rate > 0))
    fail(ErrorCode::invalid_argument, "segments of ", n, " places that overlap by ", overlap, ", at a rate of ",
         o.sample_rate);
  Value frames = framed(x, n, n - overlap);
  int64_t last = frames.rank() - 1;
  if (o.detrend) frames = centered(frames, {last});
  std::vector<double> w = window_numbers(o.window, n, true);
  double energy = 0;
  for (double v : w) energy += v * v;
  Value spectra = rfft(frames * broadcast_to(constant_of(x.graph(), w, {n}, x.dtype()), frames.dims()));
  Value power = mean_over(complex_norm_sq(spectra), {last - 1});
  // Each frequency but 0, and the middle one of an even n, stands for its mirror image as well.
  std::vector<double> sides(static_cast<size_t>(n / 2 + 1), 2 / (o.sample_rate * energy));
  sides[0] /= 2;
  if (n % 2 == 0 && n > 1) sides.back() /= 2;
  return power * broadcast_to(constant_of(x.graph(), sides, {n / 2 + 1}, x.dtype()), power.dims());
}

Value mel_filters(Graph& g, int64_t n_mels, int64_t n_fft, double sample_rate, double low, std::optional<double> high,
                  bool htk, DType dtype) {
  double top = high.value_or(sample_rate / 2);
  if (n_mels < 1 || n_fft < 1 || !(sample_rate > 0) || !(low >= 0) || !(low < top))
    fail(ErrorCode::invalid_argument, n_mels, " mel filters of ", n_fft, " places at a rate of ", sample_rate,
         ", from ", low, " to ", top, " Hz");
  // Slaney's scale: 3 mels in 200 Hz up to 1 kHz, then 27 mels in a factor of 6.4.
  const double kKnee = 1000, kPerHertz = 3.0 / 200, kStep = std::log(6.4) / 27;
  auto mel_of = [&](double f) {
    if (htk) return 2595 * std::log10(1 + f / 700);
    return f < kKnee ? f * kPerHertz : kKnee * kPerHertz + std::log(f / kKnee) / kStep;
  };
  auto hertz_of = [&](double m) {
    if (htk) return 700 * (std::pow(10, m / 2595) - 1);
    return m < kKnee * kPerHertz ? m / kPerHertz : kKnee * std::exp(kStep * (m - kKnee * kPerHertz));
  };
  double from = mel_of(low), to = mel_of(top);
  auto corner = [&](int64_t i) {
    return hertz_of(from + (to - from) * static_cast<double>(i) / static_cast<double>(n_mels + 1));
  };
  int64_t bins = n_fft / 2 + 1;
  std::vector<double> filters;
  for (int64_t m = 0; m < n_mels; ++m) {
    double left = corner(m), peak = corner(m + 1), right = corner(m + 2);
    for (int64_t k = 0; k < bins; ++k) {
      double f = static_cast<double>(k) * sample_rate / static_cast<double>(n_fft);
      double v = std::max(0.0, std::min((f - left) / (peak - left), (right - f) / (right - peak)));
      filters.push_back(htk ? v : v * 2 / (right - left));
    }
  }
  return constant_of(g, filters, {n_mels, bins}, dtype);
}

}  // namespace rlx
