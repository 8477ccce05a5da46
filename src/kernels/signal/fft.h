// Fourier transforms of vectors of complex or real numbers along an axis. A plan holds what depends on the length
// alone: radices, twiddle factors, and for a length with a prime factor above 13 the convolution that replaces the
// transform (Bluestein 1970). Stages are in Stockham's order: there is no bit reversal, and every stage reads and
// writes contiguous runs. The scalar reference is src/ops/signal/fft.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace rlx::kernels {

/// The plan for vectors of one length. T is float or double.
template <class T>
class FftPlan {
 public:
  explicit FftPlan(int64_t length);
  int64_t length() const { return length_; }

  struct Stage {
    int radix;
    int64_t butterflies;  ///< the number of butterflies with different twiddles; each is computed `stride` times
    int64_t stride;       ///< the product of the radices of the stages before
    /// Where the stage's twiddles begin in the plan's: for k = 1 ... radix - 1, `butterflies` cosines, then the sines.
    size_t twiddles;
    /// Where the same begin with each number repeated `stride` times; only if `stride` is below a vector's lanes.
    size_t spread;
  };
  std::vector<Stage> stages;
  std::vector<T> twiddles;
  // For a length with a prime factor above 13: the plan of the convolution, with the chirp that the vector is
  // multiplied by and the spectrum of the other operand. Null and empty for other lengths.
  std::unique_ptr<FftPlan> convolution;
  std::vector<T> chirp_real, chirp_imag, spectrum_real, spectrum_imag;
  /// Complex numbers that one vector needs in scratch.
  int64_t work_length() const { return convolution ? convolution->length() : length_; }

 private:
  int64_t length_;
};

/// What the vectors of an operand or a result hold: all n numbers, complex or real, or the elements 0 ... n / 2 of a
/// Hermitian spectrum.
enum class FftEnd { complex, real, half };

/// Which vectors are transformed, and what they hold. The array is [outer, extent, inner]: elements of a vector are
/// `inner` apart, and vector (o, i) starts at o * extent * inner + i.
struct FftVectors {
  FftEnd in = FftEnd::complex, out = FftEnd::complex;
  bool inverse = false;
  double scale = 1;
  int64_t outer = 1, inner = 1;
};

/// The number of tasks into which the work can be split.
template <class T>
int64_t fft_tasks(const FftPlan<T>&, const FftVectors&);
/// The scratch of a calling thread.
template <class T>
size_t fft_scratch_bytes(const FftPlan<T>&, const FftVectors&);
/// Runs tasks [begin, end). `in` may be `out` if both ends are complex.
template <class T>
void fft(const FftPlan<T>&, const FftVectors&, const T* in, T* out, int64_t begin, int64_t end, T* scratch) noexcept;

}  // namespace rlx::kernels
