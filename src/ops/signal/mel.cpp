// Mel spectra, and the peaks of averaged ones; see signal.h.
#include <cmath>

#include "base/growth_limit.h"
#include "ops/core/composite_rules.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/signal.h"
#include "rlx/ops/sort.h"

namespace rlx {

Value log_mel(Value spectrum, Value filters, MelMaximum maximum) {
  return emit(op::log_mel, {spectrum, filters}, LogMelAttrs{maximum});
}
LogMelGradients log_mel_backward(Value spectrum, Value filters, Value ct, MelMaximum maximum) {
  auto d = spectrum.graph().emit(op::log_mel_backward, {spectrum, filters, ct}, LogMelAttrs{maximum});
  return {d[0], d[1]};
}
SpectralPeaks welch_peaks(Value spectra, int64_t k, int64_t n_segments) {
  auto peaks = spectra.graph().emit(op::welch_peaks, {spectra}, WelchPeaksAttrs{k, n_segments});
  return {peaks[0], peaks[1]};
}

namespace {

constexpr double kLeastEnergy = 1e-10, kDecades = 8;

/// The parts of the first `bins` of a spectrum, complex or in blocks.
struct Parts {
  Value re, im;
  Parts(Value spectrum, Dim bins) {
    if (is_complex(spectrum.dtype())) {
      Value kept = slice_axis(spectrum, -1, 0, bins);
      re = real(kept), im = imag(kept);
    } else {
      Dim n = spectrum.dim(-1).value() / 2;
      re = slice_axis(spectrum, -1, 0, bins), im = slice_axis(spectrum, -1, n, n + bins);
    }
  }
  Value power() const { return re * re + im * im; }
};
/// n of a spectrum in blocks [..., 2n].
int64_t places_of(const Type& t, std::string_view name) {
  if (!t.dims.back().is_static())
    fail(ErrorCode::unsupported, "the last dim of ", name, " ", t, " is halved: it must be a number");
  int64_t both = t.dims.back().value();
  if (both < 2 || both % 2 != 0)
    fail(ErrorCode::shape_mismatch, "the last dim of ", name, " ", t,
         " must be 2n: n real parts, then n imaginary ones");
  return both / 2;
}
Type log_mel_type(Types in, const LogMelAttrs& a) {
  const Type &x = in[0], &filters = in[1];
  require_kind(x, kReal | kComplex, "spectrum");
  require_rank(x, a.maximum == MelMaximum::clip ? 2 : 1, SIZE_MAX, "spectrum");
  require_rank(filters, 2, 2, "filters");
  if (filters.dtype != real_part(x.dtype))
    fail(ErrorCode::shape_mismatch, "filters must be of ", real_part(x.dtype), " for spectrum ", x, ", got ", filters);
  if (is_complex(x.dtype)) {
    const Dim &bins = filters.dims[1], &have = x.dims.back();
    if (!bins.is_static() || !have.is_static() ? bins != have : bins.value() > have.value())
      fail(ErrorCode::shape_mismatch, "filters ", filters, " want ", bins, " bins, spectrum ", x, " has ", have);
  } else if (int64_t n = places_of(x, "spectrum"); filters.dims[1] != Dim(n / 2 + 1)) {
    fail(ErrorCode::shape_mismatch, "spectrum ", x, " holds ", n, " places in blocks, of which ", n / 2 + 1,
         " bins are no mirror images; filters ", filters, " want ", filters.dims[1]);
  }
  if (filters.dims[0] == Dim(0)) fail(ErrorCode::shape_mismatch, "there is no filter in ", filters);
  Type t{filters.dtype, x.dims};
  t.dims.back() = filters.dims[0];
  return t;
}

/// What the forward op and its derivative share.
struct Mels {
  Value power, energy, mel, floor;
  Mels(const Parts& parts, Value filters, MelMaximum maximum) : power(parts.power()) {
    energy = dot_general(power, filters, {{}, {}, {power.rank() - 1}, {1}});
    mel = log10(rlx::maximum(energy, full_like(energy, kLeastEnergy)));
    int64_t last = mel.rank() - 1;
    Axes together = maximum == MelMaximum::clip ? Axes{last - 1, last} : Axes{last};
    floor = broadcast_like(stop_gradient(reduce_max(mel, together)), mel, together) - kDecades;
  }
};
/// `part` [..., bins] with zeros behind, up to `places`.
Value filled(Value part, const Dim& places) { return resized(part, -1, places); }

}  // namespace

OpDef define_log_mel() {
  using A = LogMelAttrs;
  return define<A>({
      .name = "log_mel",
      .doc =
          "(max(m, max m - 8) + 4) / 4 with m = log10(max(filters |spectrum|^2, 1e-10)), the maximum of each frame or "
          "of the whole clip; a constant to derivatives",
      .source = "Radford et al. 2022 (Whisper)",
      .operands = {"spectrum", "filters"},
      .covers = {"LogMel"},
      .infer = [](Types in, const A& a) { return log_mel_type(in, a); },
      .decompose =
          [](Values in, const A& a) {
            Mels m(Parts(in[0], in[1].dim(1)), in[1], a.maximum);
            return (maximum(m.mel, m.floor) + 4.0) / 4.0;
          },
      .vjp =
          [](Values in, Value, Value ct, const A& a) {
            LogMelGradients d = log_mel_backward(in[0], in[1], ct, a.maximum);
            return Many<Value>{d.spectrum, d.filters};
          },
      .samples = {{.dims = {{3, 8}, {2, 3}}, .lo = 0.1},
                  {.dims = {{2, 3, 10}, {4, 3}}, .attrs = A{MelMaximum::clip}, .lo = 0.1},
                  {.dims = {{3, 5}, {2, 4}}, .dtypes = {c128, f64}, .attrs = A{MelMaximum::clip}, .lo = 0.1},
                  {.dims = {{4}, {1, 2}}, .lo = 0.1},
                  {.dims = {{5, 14}, {3, 4}}, .dtypes = {bf16, bf16}, .lo = 0.1},
                  {.dims = {{0, 4}, {2, 2}}}},
  });
}

OpDef define_log_mel_backward() {
  using A = LogMelAttrs;
  return define<A>({
      .name = "log_mel_backward",
      .doc = "the cotangents of spectrum and filters from that of log_mel: none comes from what was floored, or from "
             "energies of at most 1e-10, and the maximum is a constant",
      .source = "log_mel, differentiated",
      .operands = {"spectrum", "filters", "ct"},
      .covers = {"LogMelBackward"},
      .infer =
          [](Types in, const A& a) {
            Type y = log_mel_type(in.first(2), a);
            if (in[2] != y) fail(ErrorCode::shape_mismatch, "ct must be ", y, ", as log_mel's result is, got ", in[2]);
            return Many<Type>{in[0], in[1]};
          },
      .decompose =
          [](Values in, const A& a) {
            Value spectrum = in[0], filters = in[1], ct = in[2];
            Parts parts(spectrum, filters.dim(1));
            Mels m(parts, filters, a.maximum);
            Value live = bitwise_and(compare(m.energy, full_like(m.energy, kLeastEnergy), Comparison::gt),
                                     compare(m.mel, m.floor, Comparison::ge));
            // What is not alive is divided by 1: its quotient could be infinite, also in derivatives of this.
            Value slope = ct / (select(live, m.energy, full_like(m.energy, 1)) * (4 * M_LN10));
            Value d_energy = select(live, slope, zeros_like(slope));
            Axes leading = axes_from(0, ct.dims().size() - 1);
            Value d_filters = dot_general(d_energy, m.power, {{}, {}, leading, leading});
            Value d_power = dot_general(d_energy, filters, {{}, {}, {ct.rank() - 1}, {0}}) * 2.0;
            Value re = d_power * parts.re, im = d_power * parts.im;
            if (is_complex(spectrum.dtype())) return Many<Value>{filled(complex(re, -im), spectrum.dim(-1)), d_filters};
            Dim n = spectrum.dim(-1).value() / 2;
            return Many<Value>{concatenate({filled(re, n), filled(im, n)}, -1), d_filters};
          },
      .samples =
          {{.dims = {{3, 8}, {2, 3}, {3, 2}}, .lo = 0.1},
           {.dims = {{2, 3, 10}, {4, 3}, {2, 3, 4}}, .attrs = A{MelMaximum::clip}, .lo = 0.1},
           {.dims = {{3, 5}, {2, 4}, {3, 2}}, .dtypes = {c128, f64, f64}, .attrs = A{MelMaximum::clip}, .lo = 0.1},
           {.dims = {{4}, {1, 2}, {1}}, .lo = 0.1},
           {.dims = {{5, 14}, {3, 4}, {5, 3}}, .dtypes = {bf16, bf16, bf16}, .lo = 0.1},
           {.dims = {{0, 4}, {2, 2}, {0, 2}}}},
  });
}

OpDef define_welch_peaks() {
  using A = WelchPeaksAttrs;
  return define<A>({
      .name = "welch_peaks",
      .doc =
          "bins and powers [batch, k], the largest first, of equal ones the lower bin: of the mean over segments of "
          "the one-sided power of spectra [batch n_segments, 2n] in blocks; all bins but 0 and, of an even n, the last "
          "count twice",
      .source = "Welch, IEEE Trans. Audio Electroacoustics 15 (1967)",
      .operands = {"spectra"},
      .covers = {"WelchPeaks"},
      .infer =
          [](Types in, const A& a) {
            require_kind(in[0], kReal, "spectrum in blocks");
            require_rank(in[0], 2, 2, "spectra");
            int64_t n = places_of(in[0], "spectra"), bins = n / 2 + 1;
            if (a.k < 1 || a.k > bins)
              fail(ErrorCode::invalid_argument, a.k, " peaks are asked for, and spectra ", in[0], " have ", bins,
                   " bins");
            const Dim& rows = in[0].dims[0];
            if (a.n_segments < 1 || (rows.is_static() && rows.value() % a.n_segments != 0))
              fail(ErrorCode::invalid_argument, "n_segments is ", a.n_segments, ", which does not divide the ", rows,
                   " spectra of ", in[0]);
            Dims dims = {rows / Dim(a.n_segments), a.k};
            return Many<Type>{{i64, dims}, {in[0].dtype, dims}};
          },
      .decompose =
          [](Values in, const A& a) {
            int64_t n = in[0].dim(1).value() / 2, bins = n / 2 + 1;
            Value power = Parts(in[0], bins).power();
            Value mean = mean_over(reshape(power, {in[0].dim(0) / Dim(a.n_segments), a.n_segments, bins}), {1});
            GrowthLimit::count_table(bins, sizeof(double));
            Array<double> sides({bins}, 2);
            sides.data[0] = 1;
            if (n % 2 == 0) sides.data.back() = 1;
            Value twice = power.graph().constant(sides.rounded_to(power.dtype()));
            TopK peaks = top_k(mean * broadcast_to(twice, mean.dims()), a.k);
            return Many<Value>{convert(peaks.indices, i64), peaks.values};
          },
      .samples = {{.dims = {{4, 16}}, .attrs = A{3, 2}},
                  {.dims = {{3, 14}}, .attrs = A{4, 1}},
                  {.dims = {{5, 2}}, .attrs = A{1, 5}},
                  {.dims = {{6, 20}}, .dtypes = {bf16}, .attrs = A{2, 3}},
                  {.dims = {{0, 8}}, .attrs = A{2, 2}}},
  });
}

}  // namespace rlx
