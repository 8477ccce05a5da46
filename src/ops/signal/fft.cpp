// Discrete Fourier transforms. The decomposition is products with small DFT matrices, joined as Cooley and Tukey join
// them; a large prime becomes a convolution (Bluestein). The reference is the same idea on numbers, down to sums over
// prime lengths.
#include "rlx/ops/fft.h"

#include <cmath>

#include "base/growth_limit.h"
#include "ops/core/composite_rules.h"
#include "ops/signal/root_of_unity.h"
#include "rlx/ops/arrange.h"
#include "rlx/ops/complex.h"

namespace rlx {

static Value emit_fft(Value x, FftAttrs a) { return emit(op::fft, {x}, std::move(a)); }
static Value as_complex(Value x) {
  if (is_complex(x.dtype())) return x;
  return complex(x, zeros_like(x));
}
Value fft(Value x, Axes axes, FftNorm norm) { return emit_fft(as_complex(x), {FftKind::fft, std::move(axes), norm}); }
Value ifft(Value x, Axes axes, FftNorm norm) { return emit_fft(as_complex(x), {FftKind::ifft, std::move(axes), norm}); }
Value rfft(Value x, Axes axes, FftNorm norm) { return emit_fft(x, {FftKind::rfft, std::move(axes), norm}); }
Value irfft(Value x, Axes axes, int64_t length, FftNorm norm) {
  return emit_fft(as_complex(x), {FftKind::irfft, std::move(axes), norm, length});
}

namespace {

FftNorm swapped(FftNorm norm) {
  return norm == FftNorm::ortho ? norm : norm == FftNorm::forward ? FftNorm::backward : FftNorm::forward;
}

}  // namespace

Value hfft(Value x, int64_t axis, int64_t length, FftNorm norm) {
  return irfft(conjugate(as_complex(x)), {axis}, length, swapped(norm));
}
Value ihfft(Value x, int64_t axis, FftNorm norm) { return conjugate(rfft(x, {axis}, swapped(norm))); }
Value resized(Value x, int64_t axis, Dim length) {
  axis = valid_axis(axis, x.dims().size());
  PadAttrs a{Dims(x.dims().size(), 0), Dims(x.dims().size(), 0), {}};
  a.high[size_t(axis)] = length - x.dim(axis);  // negative cuts
  return a.high[size_t(axis)] == Dim(0) ? x : pad(x, scalar(x.graph(), 0, x.dtype()), std::move(a));
}
static Value shifted(Value x, Axes axes, bool back) {
  if (axes.empty()) axes = axes_from(0, x.dims().size());
  Axes shifts;
  for (int64_t axis : axes) shifts.push_back((back ? -1 : 1) * (x.dim(axis).value() / 2));
  return axes.empty() ? x : roll(x, shifts, axes);
}
Value fftshift(Value x, Axes axes) { return shifted(x, std::move(axes), false); }
Value ifftshift(Value x, Axes axes) { return shifted(x, std::move(axes), true); }
static Value frequencies(Graph& g, int64_t n, int64_t kept, double spacing, DType dtype, bool negative) {
  if (n < 1 || spacing == 0) fail(ErrorCode::invalid_argument, "frequencies of ", n, " places ", spacing, " apart");
  Array<double> f({kept});
  for (int64_t k = 0; k < kept; ++k)
    f.data[size_t(k)] =
        static_cast<double>(negative && k > (n - 1) / 2 ? k - n : k) / (static_cast<double>(n) * spacing);
  return g.constant(f.rounded_to(dtype));
}
Value fftfreq(Graph& g, int64_t n, double spacing, DType dtype) { return frequencies(g, n, n, spacing, dtype, true); }
Value rfftfreq(Graph& g, int64_t n, double spacing, DType dtype) {
  return frequencies(g, n, n / 2 + 1, spacing, dtype, false);
}

namespace {

bool is_inverse(FftKind kind) { return kind == FftKind::ifft || kind == FftKind::irfft; }
/// What one transform of length n is multiplied by.
double factor(FftKind kind, FftNorm norm, int64_t n) {
  auto count = static_cast<double>(n);
  if (norm == FftNorm::ortho) return 1 / std::sqrt(count);
  return is_inverse(kind) == (norm == FftNorm::backward) ? 1 / count : 1;
}
double factor(FftKind kind, FftNorm norm, const Shape& lengths) {
  double all = 1;
  for (int64_t n : lengths) all *= factor(kind, norm, n);
  return all;
}

Type fft_type(const Type& x, const FftAttrs& a) {
  Axes axes = valid_axes(a.axes, x.rank());
  if (axes.empty())
    fail(ErrorCode::invalid_argument, "axes is empty; name the axes to transform, or leave it out for the last");
  if (a.kind == FftKind::rfft) {
    if (x.dtype != f32 && x.dtype != f64)
      fail(ErrorCode::invalid_argument, "rfft transforms f32 and f64, got ", x,
           is_complex(x.dtype) ? "; fft transforms complex numbers" : "; convert it");
  } else {
    require_kind(x, kComplex);
  }
  Type t = x;
  if (a.kind == FftKind::rfft) t.dtype = x.dtype == f32 ? c64 : c128;
  if (a.kind == FftKind::irfft) t.dtype = real_part(x.dtype);
  for (int64_t axis : axes)
    if (x.dims[size_t(axis)] == Dim(0))
      fail(ErrorCode::shape_mismatch, "there is nothing to transform along axis ", axis, " of ", x);
  Dim& last = t.dims[size_t(axes.back())];
  if ((a.kind == FftKind::rfft || a.kind == FftKind::irfft) && !last.is_static())
    fail(ErrorCode::unsupported, "half of the spectrum is kept: ", last, " along axis ", axes.back(), " of ", x,
         " must be a number");
  if (a.kind == FftKind::rfft) last = last.value() / 2 + 1;
  if (a.kind == FftKind::irfft) {
    int64_t n = a.length ? a.length : 2 * (last.value() - 1);
    if (n < 1 || n / 2 + 1 != last.value())
      fail(ErrorCode::shape_mismatch, "a real signal of ", n, " places has ", n / 2 + 1, " in its spectrum, but ", x,
           " has ", last, " along axis ", axes.back(), a.length ? "; `resized` cuts or fills" : "; give its length");
    last = n;
  } else if (a.length) {
    fail(ErrorCode::invalid_argument, "`length` is irfft's; `resized` cuts or fills what others transform");
  }
  return t;
}
/// The lengths of the transforms along the axes.
Shape lengths_of(const Type& x, const FftAttrs& a) {
  Type wide = a.kind == FftKind::irfft ? fft_type(x, a) : x;
  return shape_of(pick(wide.dims, valid_axes(a.axes, x.rank())));
}

// ---- on numbers ----
/// Transforms of one length. A composite length is one of its least factor of others (Cooley, Tukey 1965), a prime one
/// the sum as it stands. Compiling a transform of a large prime takes one of millions of places, so its roots of unity
/// are computed once, and its places are joined where they stand.
class NumberTransform {
 public:
  NumberTransform(int64_t count, bool inverse) {
    roots_.reserve(static_cast<size_t>(count));
    for (int64_t k = 0; k < count; ++k)
      roots_.push_back(inverse ? std::conj(root_of_unity(k, count)) : root_of_unity(k, count));
  }
  std::vector<Complex> of(const std::vector<Complex>& x) {
    std::vector<Complex> y(x.size());
    transform(x.data(), std::ssize(x), 1, y.data());
    return y;
  }

 private:
  /// Of the `count` elements of x that are `stride` apart.
  void transform(const Complex* x, int64_t count, int64_t stride, Complex* y) {
    if (count == 1) {
      *y = *x;
      return;
    }
    int64_t prime = 2;
    while (prime * prime <= count && count % prime != 0) ++prime;
    if (count % prime != 0) prime = count;
    const int64_t part = count / prime, step = std::ssize(roots_) / count;
    for (int64_t r = 0; r < prime; ++r) transform(x + r * stride, part, stride * prime, y + r * part);
    // Place k of each part makes the places k, k + part, ...: they are where the former ones were.
    if (prime == 2) {
      join_halves(y, part, step);
      return;
    }
    terms_.resize(static_cast<size_t>(prime));
    for (int64_t k = 0; k < part; ++k) {
      for (int64_t r = 0; r < prime; ++r) terms_[size_t(r)] = y[k + r * part];
      for (int64_t place = k; place < count; place += part) {
        Complex sum = terms_[0];
        for (int64_t r = 1; r < prime; ++r)
          sum += terms_[size_t(r)] * roots_[static_cast<size_t>(r * place % count * step)];
        y[place] = sum;
      }
    }
  }
  /// By real and imaginary parts, which stand as an array of numbers: most of the time goes by here, and products of
  /// std::complex look for NaN.
  void join_halves(Complex* y, int64_t part, int64_t step) {
    auto *even = reinterpret_cast<double*>(y), *odd = even + 2 * part;
    const auto* root = reinterpret_cast<const double*>(roots_.data());
    for (int64_t k = 0; k < 2 * part; k += 2, root += 2 * step) {
      const double re = odd[k] * root[0] - odd[k + 1] * root[1], im = odd[k] * root[1] + odd[k + 1] * root[0];
      odd[k] = even[k] - re, odd[k + 1] = even[k + 1] - im;
      even[k] += re, even[k + 1] += im;
    }
  }

  std::vector<Complex> roots_, terms_;
};

Array<Complex> along_axis(const Array<Complex>& x, int64_t axis, bool inverse) {
  Array<Complex> y(x.shape);
  NumberTransform transform(x.shape[size_t(axis)], inverse);
  for (const auto& lane : lanes_of(x.shape, {axis})) {
    std::vector<Complex> values;
    for (size_t at : lane) values.push_back(x.data[at]);
    values = transform.of(values);
    for (size_t i = 0; i < lane.size(); ++i) y.data[lane[i]] = values[i];
  }
  return y;
}
/// Along `axis`, `from(index)` at each index of the new extent.
template <class F>
Array<Complex> with_extent(const Array<Complex>& x, int64_t axis, int64_t extent, F from) {
  Shape shape = x.shape;
  shape[size_t(axis)] = extent;
  Array<Complex> y(shape);
  for_each_index(shape, [&](const Axes& index) {
    Axes source = index;
    y.at(index) = from(x, source, source[size_t(axis)]);
  });
  return y;
}

Tensor fft_of(const Tensor& in, const FftAttrs& a) {
  Type type = fft_type(in.type(), a);
  Axes axes = valid_axes(a.axes, in.rank());
  int64_t last = axes.back(), n = lengths_of(in.type(), a).back();
  Array<Complex> x(in.shape());
  for (size_t i = 0; i < x.data.size(); ++i)
    x.data[i] = is_complex(in.dtype()) ? load<Complex>(in, i) : Complex(load<double>(in, i));
  if (a.kind == FftKind::irfft) {
    for (size_t i = 0; i + 1 < axes.size(); ++i) x = along_axis(x, axes[i], true);
    x = with_extent(x, last, n, [&](const Array<Complex>& half, Axes& index, int64_t& k) -> Complex {
      bool mirrored = k > n / 2, real_place = k == 0 || 2 * k == n;
      if (mirrored) k = n - k;
      Complex v = half.at(index);
      return mirrored ? std::conj(v) : real_place ? Complex(v.real()) : v;
    });
    x = along_axis(x, last, true);
  } else {
    for (size_t i = axes.size(); i-- > 0;) {
      x = along_axis(x, axes[i], a.kind == FftKind::ifft);
      if (a.kind == FftKind::rfft && i + 1 == axes.size())
        x = with_extent(x, last, n / 2 + 1,
                        [](const Array<Complex>& all, Axes& index, int64_t&) { return all.at(index); });
    }
  }
  double scale = factor(a.kind, a.norm, lengths_of(in.type(), a));
  for (Complex& v : x.data) v *= scale;
  if (is_complex(type.dtype)) return x.rounded_to(type.dtype);
  Array<double> real(x.shape);
  for (size_t i = 0; i < x.data.size(); ++i) real.data[i] = x.data[i].real();
  return real.rounded_to(type.dtype);
}

// ---- on graph values: along the last dim, whose extent is a number ----
constexpr int64_t kMostDirect = 64;  // the DFT matrix of so many places costs less than what joins two smaller ones

/// `f` gives the elements by their places in row-major order.
template <class F>
Value complex_constant(Graph& g, Shape shape, DType dtype, F f) {
  Tensor all = Tensor::uninitialized(dtype, std::move(shape));
  for (size_t i = 0; i < all.element_count(); ++i) store<Complex>(all, i, f(static_cast<int64_t>(i)));
  return g.constant(std::move(all));
}
Complex directed(Complex root, bool inverse) { return inverse ? std::conj(root) : root; }
Value by(Value x, Value row) { return x * broadcast_to(row, x.dims()); }
Value swap_last(Value x) { return move_axis(x, x.rank() - 2, x.rank() - 1); }

Value dft(Value x, bool inverse);

/// As a convolution with e^(pi i j^2 / n): j k = (j^2 + k^2 - (k - j)^2) / 2. Bluestein 1970.
Value by_convolution(Value x, int64_t n, bool inverse) {
  Graph& g = x.graph();
  static_cast<void>(Dim(4) * n);  // fails where it overflows, and m is less
  int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  GrowthLimit::count_table(m, 4 * sizeof(Complex));  // the wave, its spectrum, the roots, and half of them the chirps
  std::vector<Complex> chirp, wave(static_cast<size_t>(m));
  chirp.reserve(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) {
    chirp.push_back(directed(root_of_unity(j * j % (2 * n), 2 * n), inverse));
    wave[size_t(j)] = wave[size_t((m - j) % m)] = std::conj(chirp.back());
  }
  const std::vector<Complex> spectrum = NumberTransform(m, false).of(wave);
  Value chirps = complex_constant(g, {n}, x.dtype(), [&](int64_t j) { return chirp[size_t(j)]; });
  Value factors =
      complex_constant(g, {m}, x.dtype(), [&](int64_t k) { return spectrum[size_t(k)] / static_cast<double>(m); });
  Value y = dft(by(dft(resized(by(x, chirps), -1, m), false), factors), true);
  return by(resized(y, -1, n), chirps);
}
/// n = first * second: transforms of the columns, twisted, then of the rows. Cooley, Tukey, Math. Comp. 19 (1965).
Value by_factors(Value x, int64_t first, int64_t second, bool inverse) {
  Dims dims = x.dims(), split = dims;
  split.back() = first, split.push_back(second);
  Value columns = dft(swap_last(reshape(x, split)), inverse);
  Value twist = complex_constant(x.graph(), {second, first}, x.dtype(), [&](int64_t i) {
    return directed(root_of_unity(i / first * (i % first), first * second), inverse);
  });
  Value rows = dft(swap_last(by(columns, twist)), inverse);
  return reshape(swap_last(rows), dims);
}
/// Without a factor.
Value dft(Value x, bool inverse) {
  int64_t n = x.dim(-1).value();
  if (n == 1) return x;
  if (n <= kMostDirect) {
    Value matrix = complex_constant(x.graph(), {n, n}, x.dtype(),
                                    [&](int64_t i) { return directed(root_of_unity(i / n * (i % n), n), inverse); });
    return dot_general(x, matrix, {{}, {}, {x.rank() - 1}, {0}});
  }
  for (int64_t first = kMostDirect; first > 1; --first)
    if (n % first == 0) return by_factors(x, first, n / first, inverse);
  return by_convolution(x, n, inverse);
}
Value dft_along(Value x, int64_t axis, bool inverse) {
  int64_t last = x.rank() - 1;
  return move_axis(dft(move_axis(x, axis, last), inverse), last, axis);
}

/// The whole spectrum of a real signal of n places, from its half.
Value mirrored(Value half, int64_t axis, int64_t n) {
  int64_t kept = n / 2 + 1, inside = (n - 1) / 2;
  auto places = [&](int64_t from, int64_t to) { return slice_axis(half, axis, from, to); };
  auto real_places = [&](Value v) { return as_complex(real(v)); };
  std::vector<Value> all = {real_places(places(0, 1))};
  if (inside > 0) all.push_back(places(1, 1 + inside));
  if (n % 2 == 0) all.push_back(real_places(places(kept - 1, kept)));
  if (inside > 0) all.push_back(conjugate(reverse(places(1, 1 + inside), {axis})));
  return concatenate(all, axis);
}

Value fft_parts(Value x, const FftAttrs& a) {
  Axes axes = valid_axes(a.axes, x.dims().size());
  for (int64_t axis : axes)
    if (!x.dim(axis).is_static())
      fail(ErrorCode::unsupported, "a transform of ", x.dim(axis), " places (axis ", axis, " of ", x.type(),
           ") is made of others only if that is a number");
  Shape lengths = lengths_of(x.type(), a);
  double scale = factor(a.kind, a.norm, lengths);
  int64_t last = axes.back(), n = lengths.back();
  if (a.kind == FftKind::irfft) {
    for (size_t i = 0; i + 1 < axes.size(); ++i) x = dft_along(x, axes[i], true);
    x = real(dft_along(mirrored(x, last, n), last, true));
  } else {
    x = as_complex(x);
    for (size_t i = axes.size(); i-- > 0;) {
      x = dft_along(x, axes[i], a.kind == FftKind::ifft);
      if (a.kind == FftKind::rfft && i + 1 == axes.size()) x = slice_axis(x, last, 0, n / 2 + 1);
    }
  }
  return scale == 1 ? x : x * scale;
}

// ---- derivatives ----
/// v times `inner` along `axis`, but at 0 and, of an even n, at n / 2 as it is: those places have no mirror image.
Value weighted(Value v, int64_t axis, int64_t n, double inner) {
  Array<Complex> w({n / 2 + 1}, Complex(inner));
  w.data[0] = 1;
  if (n % 2 == 0) w.data.back() = 1;
  Value weights = v.graph().constant(w.rounded_to(v.dtype()));
  return v * broadcast_in_dim(weights, v.dims(), {axis});
}
/// The transposed transform, without a conjugation: docs/ir.md, "Derivatives of complex functions". A DFT matrix is
/// symmetric, so that of fft is fft; that of rfft drops what its result left out, where irfft counts it twice.
Value fft_transposed(const Type& x, Value ct, const FftAttrs& a) {
  if (a.kind == FftKind::fft || a.kind == FftKind::ifft) return emit_fft(ct, a);
  Axes axes = valid_axes(a.axes, x.rank());
  int64_t last = axes.back(), n = lengths_of(x, a).back();
  Axes others(axes.begin(), axes.end() - 1);
  auto other_axes_of = [&](Value v, FftKind kind) { return others.empty() ? v : emit_fft(v, {kind, others, a.norm}); };
  if (a.kind == FftKind::rfft) {
    Value v = conjugate(other_axes_of(ct, FftKind::fft));
    return irfft(weighted(v, last, n, 0.5), {last}, n, swapped(a.norm));
  }
  Value v = conjugate(rfft(ct, {last}, swapped(a.norm)));
  return other_axes_of(weighted(v, last, n, 2), FftKind::ifft);
}

}  // namespace

OpDef define_fft() {
  return define<FftAttrs>({
      .name = "fft",
      .doc =
          "discrete Fourier transforms along `axes`: y_k = sum_j x_j e^(-+2 pi i j k / n), - for fft and rfft, + for "
          "ifft and irfft; rfft takes real numbers and keeps places 0 ... n / 2 of the last of the axes, irfft "
          "gives them back (its `length` says whether n was odd) and ignores the imaginary parts of places 0 and n / "
          "2. norm `backward` divides ifft and irfft by n, `forward` the others, `ortho` all by sqrt n",
      .source = "NumPy's fft module; StableHLO specification, fft; Cooley, Tukey 1965; Bluestein 1970",
      .operands = {"x"},
      .covers = {"Fft"},
      .infer = [](Types in, const FftAttrs& a) { return fft_type(in[0], a); },
      .reference = [](Tensors in, const FftAttrs& a) { return fft_of(in[0], a); },
      .decompose = [](Values in, const FftAttrs& a) { return fft_parts(in[0], a); },
      .vjp = [](Values in, Value, Value ct, const FftAttrs& a) { return fft_transposed(in[0].type(), ct, a); },
      .jvp =
          [](Values in, Values tangents, const FftAttrs& a) {
            return Many<Value>{emit_fft(in[0], a), emit_fft(tangents[0], a)};
          },
      .batch =
          [](Values in, const FftAttrs& a) {
            FftAttrs wide = a;
            wide.axes = behind_batch(a.axes);
            return emit_fft(in[0], wide);
          },
      .samples = {{.dims = {{3, 8}}, .dtypes = {c128}},
                  {.dims = {{5}}, .dtypes = {c128}, .attrs = FftAttrs{FftKind::ifft}},
                  {.dims = {{1}}, .dtypes = {c128}, .attrs = FftAttrs{FftKind::ifft, {0}, FftNorm::ortho}},
                  {.dims = {{3, 6, 2}}, .dtypes = {c128}, .attrs = FftAttrs{FftKind::fft, {1}, FftNorm::ortho}},
                  {.dims = {{4, 3, 5}}, .dtypes = {c128}, .attrs = FftAttrs{FftKind::ifft, {-1, 0}, FftNorm::forward}},
                  {.dims = {{2, 6}}, .attrs = FftAttrs{FftKind::rfft}},
                  {.dims = {{7}}, .attrs = FftAttrs{FftKind::rfft, {0}, FftNorm::ortho}},
                  {.dims = {{4, 5, 3}}, .attrs = FftAttrs{FftKind::rfft, {0, 1}, FftNorm::forward}},
                  {.dims = {{0, 6}}, .attrs = FftAttrs{FftKind::rfft}},
                  {.dims = {{2, 4}}, .dtypes = {c128}, .attrs = FftAttrs{FftKind::irfft}},
                  {.dims = {{4, 3}}, .dtypes = {c128}, .attrs = FftAttrs{FftKind::irfft, {0}, FftNorm::ortho, 7}},
                  {.dims = {{3, 4, 2}},
                   .dtypes = {c128},
                   .attrs = FftAttrs{FftKind::irfft, {0, -1}, FftNorm::forward, 3}},
                  {.dims = {{2, 90}}, .dtypes = {c128}},
                  {.dims = {{67}}, .dtypes = {c128}, .attrs = FftAttrs{FftKind::ifft}},
                  {.dims = {{1, 134}}, .attrs = FftAttrs{FftKind::rfft}, .lo = -0.5, .hi = 0.5}},
  });
}

}  // namespace rlx
