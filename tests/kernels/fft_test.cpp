// Transforms against the sum that defines them, on every instruction set: lengths that use every radix and the
// convolution, one vector and many, along the last dim and others, forward and backward, real ends.
#include "kernels/signal/fft.h"

#include <complex>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/kernel_test.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

using Numbers = std::vector<std::complex<double>>;

Numbers summed(const Numbers& x, bool inverse) {
  const size_t n = x.size();
  Numbers y(n), root(n);
  for (size_t k = 0; k < n; ++k)
    root[k] = std::polar(1.0, (inverse ? 2 : -2) * M_PI * static_cast<double>(k) / static_cast<double>(n));
  const auto* values = x.data();
  for (size_t k = 0; k < n; ++k) {
    double real = 0, imag = 0;
    for (size_t j = 0, at = 0; j < n; ++j, at = at + k < n ? at + k : at + k - n) {  // at = j * k mod n
      const double a = values[j].real(), b = values[j].imag(), c = root[at].real(), d = root[at].imag();
      real += a * c - b * d, imag += a * d + b * c;
    }
    y[k] = {real, imag};
  }
  return y;
}

int64_t given(FftEnd end, int64_t n) { return end == FftEnd::half ? n / 2 + 1 : n; }
int64_t reals(FftEnd end) { return end == FftEnd::real ? 1 : 2; }

/// Vectors of n numbers, which f32 holds exactly, and their transforms.
struct Transforms {
  std::vector<double> in;  // as the kernel takes them
  std::vector<Numbers> out;
};
/// Made once for all dtypes and instruction sets: the sums take longer than the transforms.
const Transforms& transforms_of(int64_t n, FftVectors vectors) {
  static std::map<std::tuple<int64_t, int64_t, int64_t, FftEnd, bool>, Transforms> made;
  auto [entry, fresh] = made.try_emplace({n, vectors.outer, vectors.inner, vectors.in, vectors.inverse});
  Transforms& all = entry->second;
  if (!fresh) return all;
  Random random(static_cast<uint64_t>(n * 10 + vectors.inner));
  const int64_t rows = vectors.outer * vectors.inner, extent = given(vectors.in, n), count = reals(vectors.in);
  all.in.resize(static_cast<size_t>(rows * extent * count));
  for (double& v : all.in) v = static_cast<float>(random.between(-1, 1));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t o = row / vectors.inner, i = row % vectors.inner;
    Numbers x(static_cast<size_t>(n));
    for (int64_t k = 0; k < extent; ++k) {
      const double* at = all.in.data() + ((o * extent + k) * vectors.inner + i) * count;
      x[size_t(k)] = {at[0], count == 1 ? 0 : at[1]};
    }
    if (vectors.in == FftEnd::half) {
      x[0].imag(0);
      if (n % 2 == 0) x[size_t(n / 2)].imag(0);
      for (int64_t k = extent; k < n; ++k) x[size_t(k)] = std::conj(x[size_t(n - k)]);
    }
    all.out.push_back(summed(x, vectors.inverse));
  }
  return all;
}

/// The largest error of a transform of `outer` x n x `inner` numbers, over the root of n (what they are about as large
/// as). Work is done in two ranges.
template <class T>
double error_of(int64_t n, FftVectors vectors) {
  FftPlan<T> plan(n);
  const Transforms& wanted = transforms_of(n, vectors);
  const std::vector<T> in(wanted.in.begin(), wanted.in.end());
  const int64_t rows = vectors.outer * vectors.inner, extent = given(vectors.out, n), count = reals(vectors.out);
  constexpr T kUntouched = static_cast<T>(777);
  std::vector<T> out(static_cast<size_t>(rows * extent * count) + 3, kUntouched);
  std::vector<std::byte> scratch(fft_scratch_bytes(plan, vectors) + 64);
  auto* aligned = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  const int64_t tasks = fft_tasks(plan, vectors), middle = tasks / 2;
  fft(plan, vectors, in.data(), out.data(), 0, middle, aligned);
  fft(plan, vectors, in.data(), out.data(), middle, tasks, aligned);
  for (size_t i = out.size() - 3; i < out.size(); ++i) REQUIRE(out[i] == kUntouched);

  double max_error = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t o = row / vectors.inner, i = row % vectors.inner;
    for (int64_t k = 0; k < extent; ++k) {
      const auto want = wanted.out[size_t(row)][size_t(k)] * vectors.scale;
      const T* got = out.data() + ((o * extent + k) * vectors.inner + i) * count;
      max_error = std::max(max_error, std::abs(static_cast<double>(got[0]) - want.real()));
      if (count == 2) max_error = std::max(max_error, std::abs(static_cast<double>(got[1]) - want.imag()));
    }
  }
  return max_error / std::sqrt(static_cast<double>(n));
}

}  // namespace

TEST_CASE("transforms are the sums that define them, of every length up to 70 and of some longer ones") {
  for_each_target([] {
    for (int64_t n = 1; n <= 380; n += n < 70 ? 1 : 13)
      for (int64_t rows : {1, 3, 20})
        for (bool inverse : {false, true}) {
          FftVectors vectors{FftEnd::complex, FftEnd::complex, inverse, inverse ? 0.5 : 1.0, rows, 1};
          CHECK_MESSAGE(error_of<float>(n, vectors) < 2e-6, n, " x ", rows);
          CHECK_MESSAGE(error_of<double>(n, vectors) < 1e-14, n, " x ", rows);
        }
  });
}
TEST_CASE("transforms run along any dim, and their ends may be real or half of a spectrum") {
  for_each_target([] {
    for (int64_t n : {1, 2, 3, 8, 15, 34, 64, 100, 270, 1024})
      for (auto dims : {std::pair<int64_t, int64_t>{1, 1}, {1, 7}, {2, 16}, {3, 21}}) {
        if (test::sanitized() && n > 100 && dims.first != 3) continue;  // the sums beside them take the time
        const int64_t outer = dims.first, inner = dims.second;  // no structured binding: CHECK makes a lambda of them
        for (auto [in, out, inverse] :
             {std::tuple{FftEnd::complex, FftEnd::complex, false}, std::tuple{FftEnd::real, FftEnd::half, false},
              std::tuple{FftEnd::half, FftEnd::real, true}}) {
          FftVectors vectors{in, out, inverse, 0.25, outer, inner};
          CHECK_MESSAGE(error_of<float>(n, vectors) < 2e-6, n, " x ", outer, " x ", inner);
          CHECK_MESSAGE(error_of<double>(n, vectors) < 2e-14, n, " x ", outer, " x ", inner);
        }
      }
  });
}
