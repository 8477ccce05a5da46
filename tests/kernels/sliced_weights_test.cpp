// Which weights are sliced (kernels/slicing_plan.h), how finely, and how they are kept (kernels/sliced_weights.h). What
// products lose is in sliced_product_test.cpp.
#include "kernels/sliced_weights.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/constant_product_test.h"
#include "kernels/cost_model.h"
#include "kernels/gemm.h"
#include "kernels/gemm_backends.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

TEST_CASE("weights of which a part is 0 or next to nothing are multiplied as they are: rows may be large there alone") {
  for (const float small : {0.0f, 1e-12f})
    for (const bool scattered : {false, true}) {
      ConstantProduct p(17, 96, 512);
      for (int64_t f = 0; f < p.k; ++f)
        for (int64_t j = 0; j < p.n; ++j)
          if (scattered ? (f + j) % 8 == 0 : (f < 256) != (j < 48)) p.w_at(f, j) = small;
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t f = 0; f < 256; ++f) p.x_at(i, f) *= 1e7f;
      CHECK(!p.is_sliced());
      p.run();
      CHECK(p.errors().worst < 0x1p-24 * 512);
    }
}

TEST_CASE("weights that slices do not stand for are multiplied by multiply-adds") {
  for (const float odd : {kNan, kInf, 1e30f, 0x1p-70f}) {
    ConstantProduct p(3, 64, 640);
    for (int64_t f = 0; f < (odd == 0x1p-70f ? p.k : 1); ++f) p.w_at(f, 40) = odd;
    INFO(odd);
    CHECK(!p.is_sliced());
    p.run();
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        const ConstantProduct::Sum s = p.sum(i, j);
        const auto y = static_cast<double>(p.y_at(i, j));
        if (std::isnan(s.exact)) CHECK(std::isnan(y));
        else if (std::isinf(s.exact)) CHECK(y == s.exact);
        else CHECK(std::fabs(y - s.exact) <= 0x1p-20 * s.magnitude);
      }
  }
  ConstantProduct zeros(3, 64, 640);
  std::fill(zeros.w.begin(), zeros.w.end(), 0.0f);
  zeros.run();
  CHECK(std::all_of(zeros.y.begin(), zeros.y.end(), [](float v) { return v == 0; }));
}

TEST_CASE("sliced weights that were kept are taken, and others are not") {
  ConstantProduct p(18, 70, 650);
  p.w_at(100, 3) = 60;  // a fourth slice
  const auto weights = PackedWeights::pack(p.spec(1), p.w.data());
  if (!has_matrix_tiles()) return;
  p.run(*weights, 1);
  const std::vector<float> expected = p.y;
  const std::span<const std::byte> packed = weights->packed();
  const auto block = std::shared_ptr<std::byte>(static_cast<std::byte*>(std::aligned_alloc(64, packed.size() + 4096)),
                                                [](std::byte* b) { std::free(b); });
  std::copy(packed.begin(), packed.end(), block.get());
  const std::span<const std::byte> kept(block.get(), packed.size());
  const auto adopted = PackedWeights::adopt(p.spec(1), kept, block);
  REQUIRE(adopted);
  p.run(*adopted, 1);
  CHECK(p.y == expected);

  CHECK(!PackedWeights::adopt(p.spec(1), kept.first(kept.size() - 64), block));
  CHECK(!PackedWeights::adopt(p.spec(1), kept.first(32), block));
  const SlicedLayout layout{p.k, p.n};
  auto* const places = reinterpret_cast<int32_t*>(block.get() + layout.fourth_places());
  CHECK(places[0] == 0);
  for (const int32_t place : {1, 1 << 30, -2, -1}) {
    places[0] = place;
    INFO(place);
    CHECK(!PackedWeights::adopt(p.spec(1), kept, block));
  }
}

TEST_CASE("weights are left as they are where that is asked for") {
  const ConstantProduct p(1, 64, 640);
  CostModel model;
  model.weight_slices = false;
  const CostModelHere here(model);
  const auto weights = PackedWeights::pack(p.spec(1), p.w.data());
  CHECK(!weights->are_sliced());
  CHECK(rows_for_packing(p.spec(1), 100) == 0);  // so that nothing is packed twice
  CHECK(packed_form().find("slices") == std::string::npos);
}
