// Signals, spectra, splines and codebooks that do not fit.
#include <doctest/doctest.h>

#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

template <class F>
std::string refusal_of(F f) {
  std::string text = message_of(f);
  return text.substr(0, text.find('\n'));
}

}  // namespace

TEST_CASE("a grid or coefficients that do not fit a spline activation are said") {
  Graph g;
  Value x = g.input("x", f32, {2, 4}), coeff = g.input("coeff", f32, {4, 5});
  CHECK(refusal_of([&] {
          spline_activation(x, g.input("others", f32, {3, 5}));
        }) == "x f32[2, 4] has 4 channels, coeff f32[3, 5] has 3; it is [channels, bumps]");
  CHECK(refusal_of([&] {
          spline_activation(x, coeff, {1, 1});
        }) == "the grid goes from 1 to 1; grid_min must be less than grid_max, and both finite");
  CHECK(refusal_of([&] { spline_activation_backward_coeff(x, x, {.num_basis = 0}); }) ==
        "a grid of 0 bumps: at least one is needed");
}

TEST_CASE("a codebook that does not fit is said") {
  Graph g;
  Value x = g.input("x", f32, {2, 8}), book = g.input("book", f32, {5, 3}), at = g.input("at", u8, {4, 2});
  CHECK(refusal_of([&] { synth_matmul(x, at, book); }) ==
        "inner dimensions differ: x f32[2, 8] has 8, the weights of indices u8[4, 2] and codebook f32[5, 3] have 6");
  CHECK(refusal_of([&] { synth_reconstruct(x, book); }) ==
        "an index of integer is needed, got f32[2, 8]; convert it first");
}

TEST_CASE("spectra that are in no blocks, and filters of other bins, are said") {
  Graph g;
  Value x = g.input("x", f32, {3, 16}), filters = g.input("filters", f32, {4, 6}), odd = g.input("odd", f32, {3, 15});
  CHECK(refusal_of([&] { log_mel(x, filters); }) ==
        "spectrum f32[3, 16] holds 8 places in blocks, of which 5 bins are no mirror images; filters f32[4, 6] want 6");
  CHECK(refusal_of([&] { log_mel(odd, filters); }) ==
        "the last dim of spectrum f32[3, 15] must be 2n: n real parts, then n imaginary ones");
  CHECK(refusal_of([&] {
          log_mel(g.input("z", c64, {3, 5}), filters);
        }) == "filters f32[4, 6] want 6 bins, spectrum c64[3, 5] has 5");
  CHECK(refusal_of([&] { welch_peaks(x, 6, 1); }) == "6 peaks are asked for, and spectra f32[3, 16] have 5 bins");
  CHECK(refusal_of([&] { welch_peaks(x, 1, 2); }) ==
        "n_segments is 2, which does not divide the 3 spectra of f32[3, 16]");
}

TEST_CASE("transforms in fixed point of other dtypes and lengths are said") {
  Graph g;
  CHECK(refusal_of([&] { fft_q(g.input("f", f32, {8})); }) == "fft_q transforms i32, got f32[8]; fft is for floats");
  CHECK(refusal_of([&] { fft_q(g.input("six", i32, {12})); }) ==
        "the last dim of i32[12] must be 2n, n real parts and n imaginary ones, with n a power of two");
  Value w = g.input("w", f32, {3});
  CHECK(refusal_of([&] {
          fft_butterfly_stage(g.input("s", f32, {1, 6, 2}), w, w, w, w, 1);
        }) == "stage 1 joins groups of 2^2 places, and state f32[1, 6, 2] has 6");
}

TEST_CASE("frames, windows and filters that cannot be are said") {
  Graph g;
  Value x = g.input("x", f32, {2, 30});
  CHECK(refusal_of([&] { framed(x, 31, 4); }) == "x f32[2, 30] is shorter than one frame of 31 places");
  CHECK(refusal_of([&] { framed(x, 8, 0); }) == "frames of 8 places, 0 apart");
  CHECK(refusal_of([&] { window(g, Window::hann, 0); }) == "a window of 0 places");
  CHECK(refusal_of([&] { psd(x, {.segment = 16, .overlap = 16}); }) ==
        "segments of 16 places that overlap by 16, at a rate of 1");
  CHECK(refusal_of([&] { mel_filters(g, 8, 64, 8000, 5000); }) ==
        "8 mel filters of 64 places at a rate of 8000, from 5000 to 4000 Hz");
  CHECK(refusal_of([&] { partitioned_conv(x, g.input("r", f32, {4}), 0); }) == "block is 0; it must be from 1 to 2^30");
  CHECK(refusal_of([&] { partitioned_conv(x, g.input("none", f32, {0})); }) ==
        "there is nothing to convolve in x f32[2, 30] with response f32[0]");
  CHECK(refusal_of([&] { fir(x, g.input("taps", f32, {0})); }) ==
        "the count of taps must be a number of at least 1, got f32[0]");
}
