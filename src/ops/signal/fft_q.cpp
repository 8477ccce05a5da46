// Transforms in parts and in fixed point: one radix-2 stage with gates, and the whole of it on i32.
#include <cmath>

#include "base/growth_limit.h"
#include "ops/core/composite_rules.h"
#include "ops/signal/root_of_unity.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/signal.h"
#include "rlx/ops/take.h"

namespace rlx {

Value fft_butterfly_stage(Value state, Value gate, Value reversed, Value twiddle_re, Value twiddle_im, int64_t stage) {
  return emit(op::fft_butterfly_stage, {state, gate, reversed, twiddle_re, twiddle_im}, ButterflyAttrs{stage});
}
Value fft_q(Value x, FftQAttrs attrs) { return emit(op::fft_q, {x}, attrs); }

namespace {

// ---- one stage ----
/// Of [..., places, ...] at `axis`, split into groups of two halves: [..., groups, 2, half, ...].
Value halves(Value x, int64_t axis, int64_t half) {
  Dims dims = x.dims();
  auto at = dims.begin() + axis;
  Dim groups = at->value() / (2 * half);
  *at = half;
  dims.insert(dims.begin() + axis, {groups, 2});
  return reshape(x, dims);
}
/// One half of that: [..., groups, half, ...].
Value half_of(Value x, int64_t axis, int64_t which) {
  return squeeze(slice_axis(x, axis + 1, which, which + 1), {axis + 1});
}
/// The halves [..., groups, half, ...] side by side again, as one dim.
Value rejoined(Value first, Value second, int64_t axis, int64_t places) {
  Value both = concatenate({expand_dims(first, axis + 1), expand_dims(second, axis + 1)}, axis + 1);
  Dims dims = both.dims();
  dims.erase(dims.begin() + axis, dims.begin() + axis + 2);
  dims[size_t(axis)] = places;
  return reshape(both, dims);
}
int64_t half_at(int64_t stage) { return int64_t{1} << stage; }

// ---- fixed point, in i64 ----
constexpr int kPoint = 30;  // bits of a factor behind the point

Value whole_constant(Graph& g, const std::vector<int64_t>& values) {
  Tensor t(i64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) store<int64_t>(t, i, values[i]);
  return g.constant(std::move(t));
}
int64_t fixed(double v) { return std::llround(std::ldexp(v, kPoint)); }
/// v / 2^bits, to the nearest, ties up.
Value halved(Value v, int64_t bits) {
  if (bits == 0) return v;
  Value up = v + std::ldexp(1.0, static_cast<int>(bits - 1));
  return shift_right_arithmetic(up, full_like(up, static_cast<double>(bits)));
}
/// What i32 makes of v, still as i64.
Value narrowed(Value v, FftQScale scale) {
  if (scale != FftQScale::none) v = maximum(minimum(v, full_like(v, 2147483647.0)), full_like(v, -2147483648.0));
  return convert(convert(v, i32), i64);
}

struct Complexes {
  Value re, im;
};
/// A stage of all butterflies with halves of `half` places, along the last dim.
Complexes stage_of(Complexes x, int64_t n, int64_t half, const FftQAttrs& a, bool halve) {
  Graph& g = x.re.graph();
  int64_t axis = x.re.rank() - 1;
  GrowthLimit::count_table(half, 4 * sizeof(int64_t));  // they grow by doubling
  std::vector<int64_t> cosines, sines;
  for (int64_t k = 0; k < half; ++k) {
    Complex w = root_of_unity(k, 2 * half);
    cosines.push_back(fixed(w.real())), sines.push_back(fixed(a.inverse ? -w.imag() : w.imag()));
  }
  Value re = halves(x.re, axis, half), im = halves(x.im, axis, half);
  Value pr = half_of(re, axis, 0), pi = half_of(im, axis, 0), qr = half_of(re, axis, 1), qi = half_of(im, axis, 1);
  Value wr = broadcast_to(whole_constant(g, cosines), qr.dims()),
        wi = broadcast_to(whole_constant(g, sines), qr.dims());
  Value tr = halved(qr * wr - qi * wi, kPoint), ti = halved(qr * wi + qi * wr, kPoint);
  auto done = [&](Value v) { return narrowed(halve ? halved(v, 1) : v, a.scale); };
  return {rejoined(done(pr + tr), done(pr - tr), axis, n), rejoined(done(pi + ti), done(pi - ti), axis, n)};
}
int64_t places_of(const Type& x) {
  require_rank(x, 1, SIZE_MAX, "x");
  if (x.dtype != i32) fail(ErrorCode::invalid_argument, "fft_q transforms i32, got ", x, "; fft is for floats");
  if (!x.dims.back().is_static())
    fail(ErrorCode::unsupported, "the last dim of ", x, " must be a number: its transform is made of constants");
  int64_t both = x.dims.back().value(), n = both / 2;
  if (both < 2 || both % 2 != 0 || (n & (n - 1)) != 0)
    fail(ErrorCode::shape_mismatch, "the last dim of ", x, " must be 2n, n real parts and n imaginary ones, with n a ",
         "power of two");
  return n;
}
Value fixed_transform(Value x, const FftQAttrs& a) {
  Graph& g = x.graph();
  int64_t n = places_of(x.type()), bits = 0;
  while (half_at(bits) < n) ++bits;
  GrowthLimit::count_table(n, sizeof(int64_t));
  std::vector<int64_t> mirrored(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t b = 0; b < bits; ++b) mirrored[size_t(i)] |= (i >> b & 1) << (bits - 1 - b);
  auto part = [&](int64_t from) {
    Value wide = convert(slice_axis(x, -1, from, from + n), i64);
    return n == 1 ? wide : take(wide, whole_constant(g, mirrored), -1);
  };
  Complexes y{part(0), part(n)};
  for (int64_t s = 0; s < bits; ++s) {
    bool halve = a.scale == FftQScale::per_stage || (a.scale == FftQScale::every_other && s % 2 == 0);
    y = stage_of(y, n, half_at(s), a, halve);
  }
  auto normed = [&](Value v) {
    if (!a.norm) return v;
    if (*a.norm == FftNorm::ortho) {
      int64_t factor = fixed(1 / std::sqrt(static_cast<double>(n)));
      return halved(v * static_cast<double>(factor), kPoint);
    }
    return a.inverse == (*a.norm == FftNorm::backward) ? halved(v, bits) : v;
  };
  return convert(concatenate({normed(y.re), normed(y.im)}, -1), i32);
}

}  // namespace

OpDef define_fft_butterfly_stage() {
  using A = ButterflyAttrs;
  return define<A>({
      .name = "fft_butterfly_stage",
      .doc =
          "butterfly j takes places p = 2 h floor(j / h) + j mod h and p + h of state[batch, n, 2], h = 2^stage, to "
          "x_p "
          "+ t and x_p - t, t = twiddle_j x_(p + h). gate_j goes from no change (0) to the butterfly (1), reversed_j "
          "from its two results to the two swapped",
      .source = "Cooley, Tukey, Math. Comp. 19 (1965); gates as in Dao et al., ICML 2019 (butterfly factorizations)",
      .operands = {"state", "gate", "reversed", "twiddle_re", "twiddle_im"},
      .covers = {"FftButterflyStage"},
      .infer =
          [](Types in, const A& a) {
            require_dtype(in, kReal);
            require_rank(in[0], 3, 3, "state");
            require_dims(in[0], {in[0].dims[0], in[0].dims[1], 2}, "state");
            if (!in[0].dims[1].is_static())
              fail(ErrorCode::unsupported, "the places of state ", in[0], " must be a number");
            int64_t n = in[0].dims[1].value();
            if (a.stage < 0 || a.stage > 40)
              fail(ErrorCode::invalid_argument, "stage is ", a.stage, "; it must be from 0 to 40");
            if (n % (2 * half_at(a.stage)) != 0)
              fail(ErrorCode::shape_mismatch, "stage ", a.stage, " joins groups of 2^", a.stage + 1,
                   " places, and state ", in[0], " has ", n);
            for (size_t i = 1; i < 5; ++i)
              require_dims(in[i], {n / 2}, std::array{"gate", "reversed", "twiddle_re", "twiddle_im"}[i - 1]);
            return in[0];
          },
      .decompose =
          [](Values in, const A& a) {
            int64_t n = in[0].dim(1).value(), half = half_at(a.stage);
            Value x = halves(in[0], 1, half), p = half_of(x, 1, 0), q = half_of(x, 1, 1);  // [batch, groups, half, 2]
            Dims part = {p.dim(0), p.dim(1), p.dim(2)};
            auto each = [&](Value v) { return broadcast_in_dim(reshape(v, {n / (2 * half), half}), part, {1, 2}); };
            auto of = [&](Value v, int64_t which) { return squeeze(slice_axis(v, 3, which, which + 1), {3}); };
            Value wr = each(in[3]), wi = each(in[4]), qr = of(q, 0), qi = of(q, 1);
            Value t = concatenate({expand_dims(qr * wr - qi * wi, 3), expand_dims(qr * wi + qi * wr, 3)}, 3);
            auto both = [&](Value v) { return broadcast_in_dim(each(v), p.dims(), {0, 1, 2}); };
            Value gate = both(in[1]), swap = both(in[2]);
            Value top = p + gate * t, bottom = q + gate * (p - t - q), across = swap * (bottom - top);
            return rejoined(top + across, bottom - across, 1, n);
          },
      .samples = {{.dims = {{2, 8, 2}, {4}, {4}, {4}, {4}}, .attrs = A{1}},
                  {.dims = {{1, 6, 2}, {3}, {3}, {3}, {3}}, .attrs = A{0}},
                  {.dims = {{3, 16, 2}, {8}, {8}, {8}, {8}}, .attrs = A{3}},
                  {.dims = {{2, 12, 2}, {6}, {6}, {6}, {6}}, .dtypes = {bf16, bf16, bf16, bf16, bf16}, .attrs = A{1}},
                  {.dims = {{0, 4, 2}, {2}, {2}, {2}, {2}}, .attrs = A{1}}},
  });
}

OpDef define_fft_q() {
  using A = FftQAttrs;
  return define<A>({
      .name = "fft_q",
      .doc =
          "the radix-2 transform of i32 in blocks [..., 2n], n a power of two: factors with 30 bits behind the point, "
          "products in i64, rounded once, ties up. Sums wrap (none), or are clipped; every_other and per_stage halve "
          "those of every second stage, from the first on, or of each, before that. Without a norm there is no factor "
          "in either direction",
      .source = "Welch, IEEE Trans. Audio Electroacoustics 17 (1969): the FFT in fixed point",
      .operands = {"x"},
      .covers = {"FftQ"},
      .infer = [](Types in, const A&) { return places_of(in[0]), in[0]; },
      .decompose = [](Values in, const A& a) { return fixed_transform(in[0], a); },
      .samples = {{.dims = {{3, 16}}, .dtypes = {i32}, .lo = -1e6, .hi = 1e6},
                  {.dims = {{2}}, .dtypes = {i32}, .attrs = A{.inverse = true}, .lo = -1e9, .hi = 1e9},
                  {.dims = {{2, 3, 8}},
                   .dtypes = {i32},
                   .attrs = A{false, FftQScale::saturating, FftNorm::ortho},
                   .lo = -2e9,
                   .hi = 2e9},
                  {.dims = {{64}}, .dtypes = {i32}, .attrs = A{true, FftQScale::every_other}, .lo = -2e9, .hi = 2e9},
                  {.dims = {{2, 32}},
                   .dtypes = {i32},
                   .attrs = A{true, FftQScale::per_stage, FftNorm::backward},
                   .lo = -2e9,
                   .hi = 2e9},
                  {.dims = {{3, 16}}, .dtypes = {i32}, .lo = -2e9, .hi = 2e9},
                  {.dims = {{0, 8}}, .dtypes = {i32}}},
  });
}

}  // namespace rlx
