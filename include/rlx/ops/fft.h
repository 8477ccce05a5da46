// Discrete Fourier transforms of complex and of real numbers. The spectrum of real numbers is its own mirror image, so
// only half of it is kept.
#pragma once

#include "rlx/ops/shape.h"

namespace rlx {

namespace op {
extern const OpDef fft;
}  // namespace op

/// `rfft` transforms real numbers along the last of the axes, of whose n frequencies it keeps the first n / 2 + 1, and
/// then complex ones along the other axes. `irfft` is its inverse.
enum class FftKind { fft, ifft, rfft, irfft };
constexpr std::array<std::string_view, 4> names_of(FftKind) { return {"fft", "ifft", "rfft", "irfft"}; }
/// Which transforms are divided by n: the backward ones, both by sqrt(n), or the forward ones.
enum class FftNorm { backward, ortho, forward };
constexpr std::array<std::string_view, 3> names_of(FftNorm) { return {"backward", "ortho", "forward"}; }

struct FftAttrs {
  FftKind kind = FftKind::fft;
  Axes axes = {-1};
  FftNorm norm = FftNorm::backward;
  int64_t length = 0;  ///< of irfft's result along the last axis; 0: 2 (n - 1), the even one of two possible lengths
  RLX_FIELDS(FftAttrs, field("kind", &FftAttrs::kind), field("axes", &FftAttrs::axes), field("norm", &FftAttrs::norm),
             field("length", &FftAttrs::length));
};
/// y_k = sum_j x_j e^(-2 pi i j k / n). Real operands become complex first.
Value fft(Value x, Axes axes = {-1}, FftNorm norm = FftNorm::backward);
/// x_j = 1/n sum_k y_k e^(2 pi i j k / n).
Value ifft(Value x, Axes axes = {-1}, FftNorm norm = FftNorm::backward);
Value rfft(Value x, Axes axes = {-1}, FftNorm norm = FftNorm::backward);
Value irfft(Value x, Axes axes = {-1}, int64_t length = 0, FftNorm norm = FftNorm::backward);
/// The real spectrum of a signal that is its own mirror image, of which x is the first half. ihfft is the inverse.
Value hfft(Value x, int64_t axis = -1, int64_t length = 0, FftNorm norm = FftNorm::backward);
Value ihfft(Value x, int64_t axis = -1, FftNorm norm = FftNorm::backward);

/// Cuts `axis` to its first `length` elements, or appends zeros up to that length: what NumPy's `n` does before a
/// transform.
Value resized(Value x, int64_t axis, Dim length);
/// Moves frequency 0 to the middle of each of the axes (of all axes if none are given). ifftshift moves it back.
Value fftshift(Value x, Axes axes = {});
Value ifftshift(Value x, Axes axes = {});
/// The frequencies of a transform of n samples that are `spacing` apart, 0 first. For an even n the middle one is
/// negative, as in NumPy. rfftfreq gives the n / 2 + 1 frequencies that rfft keeps, the middle one positive.
Value fftfreq(Graph&, int64_t n, double spacing = 1, DType dtype = DType::f32);
Value rfftfreq(Graph&, int64_t n, double spacing = 1, DType dtype = DType::f32);

}  // namespace rlx
