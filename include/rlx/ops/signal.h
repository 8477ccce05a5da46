// Signals and sound: windows, short-time transforms, filters, mel spectra, and transforms in fixed point. Ops where the
// field has one; the rest are builders, made of ops. Neighbour: fft.h.
//
// Time is the last dim. A spectrum in blocks is [..., 2n]: n real parts, then n imaginary ones.
#pragma once

#include "rlx/ops/arrange.h"
#include "rlx/ops/fft.h"

namespace rlx {

namespace op {
extern const OpDef fft_q, fft_butterfly_stage, log_mel, log_mel_backward, welch_peaks, partitioned_conv;
}  // namespace op

// ---- windows, as constants of n numbers ----
enum class Window { rectangular, hann, hamming, blackman, bartlett };
constexpr std::array<std::string_view, 5> names_of(Window) {
  return {"rectangular", "hann", "hamming", "blackman", "bartlett"};
}
/// Periodic ones are those of n + 1 places without the last: they suit transforms. The others are symmetric.
Value window(Graph&, Window kind, int64_t n, bool periodic = true, DType dtype = DType::f32);
/// I0(beta sqrt(1 - (2 i / (n - 1) - 1)^2)) / I0(beta).
Value kaiser_window(Graph&, int64_t n, double beta, bool periodic = true, DType dtype = DType::f32);

// ---- short-time transforms ----
/// Windows of `length` places, `hop` apart, along the last dim: [..., t] -> [..., frames, length]; what is left over is
/// dropped. The extents are numbers.
Value framed(Value x, int64_t length, int64_t hop);
/// Frames [..., frames, length] laid `hop` apart and added: [..., (frames - 1) hop + length].
Value overlap_added(Value frames, int64_t hop);

struct StftOptions {
  int64_t n_fft = 400, hop = 160;
  Window window = Window::hann;  ///< periodic, of n_fft places
  bool center = true;            ///< n_fft / 2 places are added on both sides, so that frame i is about place i hop
  PadMode pad = PadMode::reflect;
};
/// The spectra of windowed frames of real x[..., t]: complex [..., frames, n_fft / 2 + 1]. (PyTorch has the last two
/// swapped.)
Value stft(Value x, const StftOptions& options = {});
/// The signal of `length` places whose stft this is: frames are added and divided by the sum of squared windows.
Value istft(Value spectra, int64_t length, const StftOptions& options = {});

/// Welch's estimate of the power spectral density of real x[..., t] -> [..., n / 2 + 1]: the mean over segments of n
/// places, n - overlap apart, of the squared spectrum of the windowed segment (less its mean, if `detrend`), by
/// frequency.
struct PsdOptions {
  int64_t segment = 256;
  std::optional<int64_t> overlap = {};  ///< half of the segment where left out
  Window window = Window::hann;
  double sample_rate = 1;
  bool detrend = true;
};
Value psd(Value x, const PsdOptions& options = {});

// ---- mel spectra ----
/// Triangles on the mel scale [n_mels, n_fft / 2 + 1], each of area 1: Slaney's scale (linear below 1 kHz), as librosa
/// and Whisper have it; or, if `htk`, 2595 log10(1 + f / 700) with peaks of 1.
Value mel_filters(Graph&, int64_t n_mels, int64_t n_fft, double sample_rate, double low = 0,
                  std::optional<double> high = {}, bool htk = false, DType dtype = DType::f32);

/// Of what log_mel's floor is 8 decades below: of each frame, or of the whole clip, the last two dims, as Whisper has
/// it.
enum class MelMaximum { frame, clip };
constexpr std::array<std::string_view, 2> names_of(MelMaximum) { return {"frame", "clip"}; }
struct LogMelAttrs {
  MelMaximum maximum = MelMaximum::frame;
  RLX_FIELDS(LogMelAttrs, field("maximum", &LogMelAttrs::maximum));
};
/// (max(m, max m - 8) + 4) / 4 with m = log10(max(filters power, 1e-10)): a spectrum in blocks [..., 2n] with filters
/// [n_mels, n / 2 + 1], or a complex one of at least as many bins as the filters have -> [..., n_mels].
Value log_mel(Value spectrum, Value filters, MelMaximum maximum = MelMaximum::frame);
struct LogMelGradients {
  Value spectrum, filters;
};
/// The cotangents from that of log_mel; the maximum counts as a constant.
LogMelGradients log_mel_backward(Value spectrum, Value filters, Value ct, MelMaximum maximum = MelMaximum::frame);

struct WelchPeaksAttrs {
  int64_t k = 1, n_segments = 1;
  RLX_FIELDS(WelchPeaksAttrs, field("k", &WelchPeaksAttrs::k), field("n_segments", &WelchPeaksAttrs::n_segments));
};
struct SpectralPeaks {
  Value bins, powers;  ///< [batch, k]; bins are i64
};
/// The k largest of the one-sided power, averaged over segments, of spectra [batch n_segments, 2n] in blocks; the
/// larger first, of equal ones the lower bin.
SpectralPeaks welch_peaks(Value spectra, int64_t k, int64_t n_segments);

// ---- filters ----
/// sum_j taps[j] x[..., i - j], zeros before the start: x's dims.
Value fir(Value x, Value taps);
/// b and a [order + 1], a[0] != 0: a_0 y_i = sum_j b_j x_(i - j) - sum_(j > 0) a_j y_(i - j), zeros before the start.
Value iir(Value x, Value b, Value a);
struct PartitionedConvAttrs {
  int64_t block = 512;
  RLX_FIELDS(PartitionedConvAttrs, field("block", &PartitionedConvAttrs::block));
};
/// The whole convolution of x[..., l] with response[m] -> [..., l + m - 1], by transforms of twice the next power of
/// two of `block` places: what a long response costs does not depend on its length squared.
Value partitioned_conv(Value x, Value response, int64_t block = 512);

// ---- transforms in parts and in fixed point ----
struct ButterflyAttrs {
  int64_t stage = 0;
  RLX_FIELDS(ButterflyAttrs, field("stage", &ButterflyAttrs::stage));
};
/// One stage of a radix-2 transform of state[batch, n, 2]: butterfly j takes places p = 2 h floor(j / h) + j mod h and
/// p + h, h = 2^stage, to x_p + t and x_p - t with t = twiddle_j x_(p + h). gate[n / 2] goes from no change (0) to the
/// butterfly (1), reversed[n / 2] from the two results to the two swapped.
Value fft_butterfly_stage(Value state, Value gate, Value reversed, Value twiddle_re, Value twiddle_im, int64_t stage);

/// What keeps sums within i32. none: nothing, they wrap. saturating: they are clipped. every_other, per_stage: every
/// second stage, from the first on, or each halves its results, ties up; then they are clipped.
enum class FftQScale { none, saturating, every_other, per_stage };
constexpr std::array<std::string_view, 4> names_of(FftQScale) {
  return {"none", "saturating", "every_other", "per_stage"};
}
struct FftQAttrs {
  bool inverse = false;
  FftQScale scale = FftQScale::none;
  std::optional<FftNorm> norm = {};  ///< no factor in either direction where left out
  RLX_FIELDS(FftQAttrs, field("inverse", &FftQAttrs::inverse), field("scale", &FftQAttrs::scale),
             field("norm", &FftQAttrs::norm));
};
/// The radix-2 transform, decimation in time, of i32 spectra in blocks [..., 2n], n a power of two: twiddles of 30 bits
/// behind the point, products in i64, rounded once, ties up. Of a norm, 1/n is a shift and 1/sqrt(n) a product, rounded
/// so as well.
Value fft_q(Value x, FftQAttrs attrs = {});

}  // namespace rlx
