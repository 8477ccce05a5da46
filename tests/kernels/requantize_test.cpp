// Requantization by multipliers that are NaN or infinite; tests/ops and tests/golden cover the other values.
#include "kernels/quant/requantize.h"

#include <cmath>

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

TEST_CASE("a multiplier that is NaN gives 0, in whole vectors and behind them") {
  for_each_target([] {
    constexpr int64_t kN = 19, kRows = 5;
    const std::vector<int32_t> sums(kRows * kN, 18), bias(kN, 5), row_terms(kRows, 3);  // 18 + 5 - 3 = 20
    std::vector<float> multipliers(kN, 0.5);
    for (int64_t j : {0, 5, 15, 16, 18}) multipliers[static_cast<size_t>(j)] = NAN;
    multipliers[7] = multipliers[17] = INFINITY;
    for (DType dtype : {i8, u8}) {
      std::vector<uint8_t> y(kRows * kN, 77);
      SumsToRequantize r;
      r.sums = sums.data(), r.stride = r.y_stride = kN, r.rows = kRows, r.columns = kN;
      r.bias = bias.data(), r.row_terms = row_terms.data(), r.multipliers = multipliers.data();
      r.y_dtype = dtype, r.y_zero_point = 4, r.y = y.data();
      requantize_sums(r);
      for (size_t i = 0; i < y.size(); ++i) {
        const float multiplier = multipliers[i % kN];
        INFO("row ", i / kN, ", column ", i % kN, ", ", std::string(name_of(dtype)));
        CHECK(y[i] == (std::isnan(multiplier) ? 0 : std::isinf(multiplier) ? (dtype == i8 ? 127 : 255) : 14));
      }
    }
  });
}
