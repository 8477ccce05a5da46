// Fourier transforms of lines of complex or real numbers. A plan holds what the length decides: factors, twiddles, and
// for a length with a large prime factor the convolution that takes its place (Bluestein 1970). Stockham's order: no
// bits are reversed, every stage reads and writes runs. Plain code stands in src/ops/fft.cpp, the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace rlx::kernels {

/// Of T, float or double.
template <class T>
class FftPlan {
 public:
  explicit FftPlan(int64_t length);
  int64_t length() const { return length_; }

  struct Stage {
    int radix;
    int64_t parts;    ///< so many butterflies, `stride` times
    int64_t stride;   ///< the product of the radices before
    size_t twiddles;  ///< for k = 1 ... radix - 1: parts cosines, parts sines
    size_t spread;    ///< the same, each repeated `stride` times; only if the stride is below a vector's lanes
  };
  std::vector<Stage> stages;
  std::vector<T> twiddles;
  // Of a length with a large prime factor: a convolution of length convolution->length().
  std::unique_ptr<FftPlan> convolution;
  std::vector<T> chirp_real, chirp_imag, spectrum_real, spectrum_imag;
  /// Complex numbers of a line in scratch.
  int64_t work_length() const { return convolution ? convolution->length() : length_; }

 private:
  int64_t length_;
};

enum class FftEnd { complex, real, half };  ///< half: the places 0 ... n / 2 of a spectrum that mirrors itself

/// Which lines, and what stands in them. The elements of a line stand `inner` apart; lines (o, i) start at o * extent *
/// inner + i.
struct FftLines {
  FftEnd in = FftEnd::complex, out = FftEnd::complex;
  bool inverse = false;
  double scale = 1;
  int64_t outer = 1, inner = 1;
};

/// How many calls' worth of work there are, and the bytes of scratch that one thread needs.
template <class T>
int64_t fft_units(const FftPlan<T>&, const FftLines&);
template <class T>
size_t fft_scratch_bytes(const FftPlan<T>&, const FftLines&);
/// Units [begin, end). `in` may be `out` if both ends are complex.
template <class T>
void fft(const FftPlan<T>&, const FftLines&, const T* in, T* out, int64_t begin, int64_t end, T* scratch) noexcept;

}  // namespace rlx::kernels
