#include "kernels/linalg/lapack_widened.h"

#include "base/rounded_up.h"

#include <algorithm>

namespace rlx::kernels {
namespace {

struct WidenedKernel final : MatrixKernel {
  MatrixKernelPtr wide;
  std::array<int64_t, 4> counts;  // the operand's, then those of the results
  size_t wide_bytes;

  static size_t bytes(int64_t count) { return aligned(static_cast<size_t>(count) * sizeof(double)); }

  WidenedKernel(MatrixKernelPtr kernel, std::array<int64_t, 4> numbers)
      : wide(std::move(kernel)), counts(numbers), wide_bytes(aligned(wide->scratch_bytes())) {
    scratch_bytes_ = wide_bytes;
    for (int64_t count : counts) scratch_bytes_ += bytes(count);
    work_ns_ = 1.5 * wide->work_ns();
  }

  void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept override {
    std::array<double*, 4> at{};
    std::byte* next = scratch + wide_bytes;
    for (size_t i = 0; i < 4; ++i) at[i] = reinterpret_cast<double*>(next), next += bytes(counts[i]);
    const auto* x = static_cast<const float*>(in[0]);
    std::copy(x, x + counts[0], at[0]);
    const void* operand[] = {at[0]};
    void* results[3] = {};
    for (size_t r = 0; r < 3; ++r)
      if (counts[r + 1] > 0 && out[r]) results[r] = at[r + 1];
    wide->run(operand, results, scratch);
    for (size_t r = 0; r < 3; ++r)
      if (results[r])
        std::transform(at[r + 1], at[r + 1] + counts[r + 1], static_cast<float*>(out[r]),
                       [](double v) { return static_cast<float>(v); });
  }
};

}  // namespace

MatrixKernelPtr widened(MatrixKernelPtr wide, int64_t operand, std::array<int64_t, 3> results) {
  return std::make_unique<WidenedKernel>(std::move(wide), std::array{operand, results[0], results[1], results[2]});
}

}  // namespace rlx::kernels
