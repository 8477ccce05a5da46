// The sum of products of two vectors, against f64.
#include "kernels/gemm/dot.h"

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

TEST_CASE("a dot product of any length is that of f64, within what f32 keeps of a piece") {
  for (int64_t n : {0, 1, 15, 16, 17, 63, 64, 65, 4095, 4096, 4097, 100000}) {
    const Elements a = Elements::random(f32, n, 1), b = Elements::random(f32, n, 2);
    double wanted = 0, size = 0;
    for (int64_t i = 0; i < n; ++i) wanted += a[i] * b[i], size += std::abs(a[i] * b[i]);
    CHECK(std::abs(dot(static_cast<const float*>(a.data()), static_cast<const float*>(b.data()), n) - wanted) <=
          1e-6 * size);
  }
}
