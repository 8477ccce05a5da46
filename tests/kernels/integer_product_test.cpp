// 8-bit products whose multipliers are NaN or infinite; tests/ops and tests/golden cover the other values.
#include "kernels/quant/integer_product.h"

#include <cmath>

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

TEST_CASE("a multiplier that is NaN gives 0, in whole vectors and behind them") {
  for_each_target([] {
    constexpr int64_t kN = 19, kRows = 5, kK = 3;
    const std::vector<float> x(kRows * kK, 2);
    const std::vector<int8_t> w(kK * kN, 3);
    const std::vector<int32_t> bias(kN, 2);  // 2 + 3 * 2 * 3 = 20
    std::vector<float> multipliers(kN, 0.5);
    for (int64_t j : {0, 5, 15, 16, 18}) multipliers[static_cast<size_t>(j)] = NAN;
    multipliers[7] = multipliers[17] = INFINITY;
    for (DType dtype : {i8, u8}) {
      std::vector<uint8_t> y(kRows * kN, 77);
      IntegerProduct p{.rows = kRows, .k = kK, .n = kN, .x = x.data(), .w_dtype = i8, .y_dtype = dtype};
      p.w = w.data(), p.y_zero_point = 4, p.multipliers = multipliers.data(), p.bias = bias.data(), p.y = y.data();
      multiply_quantized(p, 0, kN);
      for (size_t i = 0; i < y.size(); ++i) {
        const float multiplier = multipliers[i % kN];
        INFO("row ", i / kN, ", column ", i % kN, ", ", std::string(name_of(dtype)));
        CHECK(y[i] == (std::isnan(multiplier) ? 0 : std::isinf(multiplier) ? (dtype == i8 ? 127 : 255) : 14));
      }
    }
  });
}
