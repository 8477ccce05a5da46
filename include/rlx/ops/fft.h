// Discrete Fourier transforms: of complex numbers, and of real ones, whose spectrum is its own mirror image and is kept
// to half.
#pragma once

#include "rlx/ops/shape.h"

namespace rlx {

namespace op {
extern const OpDef fft;
}  // namespace op

/// `rfft` transforms real numbers along the last of the axes (and complex ones along the others), of which it keeps
/// n / 2 + 1 places; `irfft` is its inverse.
enum class FftKind { fft, ifft, rfft, irfft };
constexpr std::array<std::string_view, 4> names_of(FftKind) { return {"fft", "ifft", "rfft", "irfft"}; }
/// Where the factor 1/n stands: at the backward transforms, half of it (1 / sqrt n) at both, at the forward ones.
enum class FftNorm { backward, ortho, forward };
constexpr std::array<std::string_view, 3> names_of(FftNorm) { return {"backward", "ortho", "forward"}; }

struct FftAttrs {
  FftKind kind = FftKind::fft;
  Axes axes = {-1};
  FftNorm norm = FftNorm::backward;
  int64_t length = 0;  ///< of irfft's result along the last of the axes; 0: 2 (n - 1), the even one of the two
  RLX_FIELDS(FftAttrs, field("kind", &FftAttrs::kind), field("axes", &FftAttrs::axes), field("norm", &FftAttrs::norm),
             field("length", &FftAttrs::length));
};
/// y_k = sum_j x_j e^(-2 pi i j k / n). Real operands become complex first.
Value fft(Value x, Axes axes = {-1}, FftNorm norm = FftNorm::backward);
/// x_j = 1/n sum_k y_k e^(2 pi i j k / n).
Value ifft(Value x, Axes axes = {-1}, FftNorm norm = FftNorm::backward);
Value rfft(Value x, Axes axes = {-1}, FftNorm norm = FftNorm::backward);
Value irfft(Value x, Axes axes = {-1}, int64_t length = 0, FftNorm norm = FftNorm::backward);
/// The real spectrum of a signal that is its own mirror image, of which x is the first half; and the inverse.
Value hfft(Value x, int64_t axis = -1, int64_t length = 0, FftNorm norm = FftNorm::backward);
Value ihfft(Value x, int64_t axis = -1, FftNorm norm = FftNorm::backward);

/// The first `length` places of `axis`, zeros behind where there are fewer: what NumPy's `n` does before transforming.
Value resized(Value x, int64_t axis, Dim length);
/// Frequency 0 moved to the middle of each of the axes (all of them if left out), and back.
Value fftshift(Value x, Axes axes = {});
Value ifftshift(Value x, Axes axes = {});
/// The frequencies of n places that are `spacing` apart, 0 first; of an even n the middle one is negative, as NumPy has
/// it. Of rfft the n / 2 + 1 that it keeps, the middle one positive.
Value fftfreq(Graph&, int64_t n, double spacing = 1, DType dtype = DType::f32);
Value rfftfreq(Graph&, int64_t n, double spacing = 1, DType dtype = DType::f32);

}  // namespace rlx
