// Which weights are packed as Ozaki splits (kernels/gemm/ozaki/split_plan.h), in how many, and how they are stored
// (kernels/gemm/ozaki/split_weights.h), with the processor's matrix tiles or emulated ones (support/emulated_tiles.h).
// The errors of products are tested in split_product_test.cpp.
#include "kernels/gemm/ozaki/split_weights.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/constant_product_test.h"
#include "kernels/gemm/backends.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/ozaki/split_plan.h"
#include "kernels/memory/aligned_memory.h"
#include "support/emulated_tiles.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

TEST_CASE_FIXTURE(MatrixTiles,
                  "weights of which some are 0 or negligible are not split: rows may be large there alone") {
  for (const float small : {0.0f, 1e-12f})
    for (const bool scattered : {false, true}) {
      ConstantProduct p(17, 96, 512);
      for (int64_t f = 0; f < p.k; ++f)
        for (int64_t j = 0; j < p.n; ++j)
          if (scattered ? (f + j) % 8 == 0 : (f < 256) != (j < 48)) p.w_at(f, j) = small;
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t f = 0; f < 256; ++f) p.x_at(i, f) *= 1e7f;
      CHECK(!p.is_split());
      p.run();
      CHECK(p.errors().worst < 0x1p-24 * 512);
    }
}

TEST_CASE_FIXTURE(MatrixTiles, "weights out of split range are multiplied by multiply-adds") {
  for (const float odd : {kNan, kInf, 1e30f, 0x1p-70f}) {
    ConstantProduct p(3, 64, 640);
    for (int64_t f = 0; f < (odd == 0x1p-70f ? p.k : 1); ++f) p.w_at(f, 40) = odd;
    INFO(odd);
    CHECK(!p.is_split());
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

namespace {

/// Weights of which one block of 16 columns, or none, is not to be split.
struct OddBlock {
  const char* what;
  int64_t fp32_block;  ///< -1: none
  std::function<void(ConstantProduct& p)> change;
};

/// Which blocks are stored as f32.
std::vector<int64_t> fp32_blocks(const ConstantProduct& p) {
  const auto packed = pack_split(p.spec(1), p.w.data());
  if (!packed) return {-1};
  const SplitLayout layout{p.k, p.n};
  const SplitColumns columns(layout, reinterpret_cast<const char*>(packed->packed().data()));
  std::vector<int64_t> found;
  for (int64_t b = 0; b < layout.blocks(); ++b)
    if (columns.is_f32(b)) found.push_back(b);
  return found;
}

void make_sparse(ConstantProduct& p, int64_t column) {
  for (int64_t f = 0; f < p.k; ++f)
    if (f % 4) p.w_at(f, column) = 0;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t f = 1; f < p.k; f += 4) p.x_at(i, f) *= 1e7f;  // what that column has nothing of
}

}  // namespace

TEST_CASE_FIXTURE(
    MatrixTiles,
    "one block of columns in eight may be out of split range: it takes the fp32 fallback, and the others are split") {
  const OddBlock kinds[] = {
      {"a sparse column, and large numbers beside its own", 2, [](auto& p) { make_sparse(p, 37); }},
      {"in the last block, of two columns", 8, [](auto& p) { make_sparse(p, 129); }},
      {"a column of zeros", -1,
       [](auto& p) {
         for (int64_t f = 0; f < p.k; ++f) p.w_at(f, 5) = 0;
       }},
      {"a weight that is NaN", 3, [](auto& p) { p.w_at(3, 50) = kNan; }},
      {"an infinite one", 0, [](auto& p) { p.w_at(p.k - 1, 0) = -kInf; }},
      {"a large one", 4, [](auto& p) { p.w_at(11, 70) = 1e30f; }},
      {"tiny ones", 5,
       [](auto& p) {
         for (int64_t f = 0; f < p.k; ++f) p.w_at(f, 95) *= 0x1p-130f;
       }},
      {"subnormal ones, in rows that are balanced", 3,
       [](auto& p) {
         for (int64_t f = 0; f < p.k; ++f)
           for (int64_t j = 0; j < p.n; ++j)
             p.w_at(f, j) = j == 60 ? (f % 8 ? 0 : 1e-41f) : p.w_at(f, j) * (f % 8 ? 1 : 0x1p20f);
         for (int64_t i = 0; i < p.m; ++i)
           for (int64_t f = 0; f < p.k; f += 8) p.x_at(i, f) *= 1e10f;
       }},
      {"numbers of all sizes", 1,
       [](auto& p) {
         for (int64_t f = 0; f < p.k; ++f) p.w_at(f, 16) *= std::ldexp(1.0f, static_cast<int>(f % 30) - 15);
       }},
      {"the only ones of some rows, which meet large numbers", 6,
       [](auto& p) {
         make_sparse(p, 100);
         for (int64_t f = 8; f < p.k; f += 64)
           for (int64_t j = 0; j < p.n; ++j) p.w_at(f, j) = j == 100 ? 1e9f : 0.0f;
         for (int64_t i = 0; i < p.m; ++i) p.x_at(i, 8) = 1e5f;
       }},
      {"a block of large ones in a row, by which no other is balanced", 7,
       [](auto& p) {
         for (int64_t j = 112; j < 128; ++j) p.w_at(5, j) = 1e36f;
       }},
  };
  for (const OddBlock& kind : kinds)
    for (const int64_t m : {1, 12, 16, 64, 130}) {
      ConstantProduct p(m, 130, 333, m % 32 == 0);
      kind.change(p);
      INFO(kind.what, ", ", m, " rows");
      if (are_there)
        CHECK(fp32_blocks(p) == (kind.fp32_block >= 0 ? std::vector{kind.fp32_block} : std::vector<int64_t>{}));
      p.run();
      int64_t wrong = 0;
      double worst = 0, worst_fp32 = 0;
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; ++j) {
          const ConstantProduct::Sum s = p.sum(i, j);
          const auto y = static_cast<double>(p.y_at(i, j));
          if (!std::isfinite(s.exact)) {
            wrong += std::isnan(s.exact) ? !std::isnan(y) : y != s.exact;
            continue;
          }
          // Of sums of zeros nothing may be off.
          const double off = y == s.exact ? 0 : std::fabs(y - s.exact) / s.magnitude;
          double& max = j / 16 == kind.fp32_block ? worst_fp32 : worst;
          max = std::max(max, off);
        }
      CHECK(wrong == 0);
      CHECK(worst < 0x1p-22);
      CHECK(worst_fp32 < 0x1p-24 * static_cast<double>(p.k));
      const std::vector<float> one = p.y;
      p.run(3);
      CHECK(std::memcmp(p.y.data(), one.data(), one.size() * sizeof(float)) == 0);
    }
  ConstantProduct two(16, 130, 333);
  make_sparse(two, 3), make_sparse(two, 20);
  CHECK(!two.is_split());
}

TEST_CASE_FIXTURE(MatrixTiles, "weights that are short along k are not split beside a block out of split range") {
  for (const int64_t k : {64, 127, 128}) {
    ConstantProduct p(16, 256, k);
    p.make_weights_alike();
    CHECK(p.is_split() == are_there);
    for (int64_t i = 0; i < k; i += 2) p.w_at(i, 40) = 0;
    INFO("k ", k);
    CHECK(p.is_split() == (are_there && k >= 128));
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "weights that balancing would round to 0 still make infinities of infinities") {
  ConstantProduct p(3, 64, 4096);
  for (int64_t j = 0; j < p.n; ++j) p.w_at(5, j) *= 0x1p30f;
  p.w_at(5, 7) = -1e-40f, p.w_at(5, 8) = 1e-40f, p.w_at(5, 9) = 0;
  p.x_at(1, 5) = kInf;
  p.run();
  for (int64_t j = 0; j < p.n; ++j) {
    INFO("column ", j);
    if (j == 9) CHECK(std::isnan(p.y_at(1, j)));
    else CHECK(p.y_at(1, j) == std::copysign(kInf, p.w_at(5, j)));
  }
}

TEST_CASE_FIXTURE(
    MatrixTiles,
    "weights of any extents are split and dequantized, all bytes are written, and none is read behind the last") {
  if (!are_there) return;  // the functions that split weights are compiled for AVX-512 alone
  for (const bool transposed : {false, true})
    for (const int64_t k : {1, 2, 16, 17, 63, 64, 65, 130})
      for (const int64_t n : {1, 15, 16, 17, 33}) {
        ConstantProduct p(1, n, k, transposed);
        p.make_weights_alike();
        p.w.insert(p.w.end(), 300, kNan);
        const StridedMatrix weights{p.w.data(), transposed ? 1 : n, transposed ? k : 1, f32};
        const SplitLayout layout{k, n};
        INFO(k, " x ", n, ", transposed ", transposed);
        SplitPlan plan;
        REQUIRE(plan_splits(weights, layout, 1, plan));
        for (const bool plain : {false, true}) {
          plan.fourth_blocks = plain ? 1 : 0;
          std::fill(plan.forms.begin(), plan.forms.end(), SplitLayout::kThreeSplits);
          if (plain) plan.forms.back() = SplitLayout::f32_block(0);
          const auto bytes = static_cast<size_t>(layout.bytes(plan.fourth_blocks));
          const AlignedMemory one = aligned_memory(bytes), other = aligned_memory(bytes);
          std::memset(one.get(), 0x11, bytes), std::memset(other.get(), 0xee, bytes);
          split_columns(weights, layout, plan, 1, one.get());
          split_columns(weights, layout, plan, 1, other.get());
          CHECK(std::memcmp(one.get(), other.get(), bytes) == 0);
          const SplitColumns columns(layout, one.get());
          const AlignedMemory restored = aligned_memory(static_cast<size_t>(layout.dequantized_bytes()));
          const auto* const f = reinterpret_cast<const float*>(restored.get());
          for (int64_t block = 0; block < layout.blocks(); ++block) {
            columns.dequantize(block, reinterpret_cast<float*>(restored.get()));
            int64_t wrong = 0;
            for (int64_t q = 0; q < k; ++q)
              for (int64_t j = 0; j < 16; ++j) {
                const float w = block * 16 + j < n ? p.w_at(q, block * 16 + j) : 0;
                wrong += columns.is_f32(block) ? f[q * 16 + j] != w : !(std::fabs(f[q * 16 + j] - w) < 1e-6f);
              }
            CHECK(wrong == 0);
          }
        }
      }
}

TEST_CASE_FIXTURE(MatrixTiles, "weights of extents beyond all memory overflow nothing") {
  WeightsSpec spec;
  spec.k = 1 << 14, spec.n = int64_t{1} << 50, spec.k_stride = spec.n, spec.n_stride = 1;
  spec.policy.row_relative = true;
  CHECK(rows_for_packing(spec, 1) == (are_there ? 1 : 0));
  alignas(64) std::byte kept[128] = {};
  std::memcpy(kept, SplitLayout::kMark, sizeof SplitLayout::kMark);
  for (const int64_t k : {1, 64}) {
    spec.k = k, spec.n = spec.k_stride = int64_t{1} << 53;
    CHECK(!PackedWeights::adopt(spec, kept, nullptr));
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "split weights that were stored are adopted, and others are not") {
  ConstantProduct p(18, 135, 650);
  p.w_at(100, 3) = 60;    // a fourth split
  p.w_at(0, 134) = kNan;  // f32
  const auto weights = PackedWeights::pack(p.spec(1), p.w.data());
  if (!are_there) return;
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
  CHECK(std::memcmp(p.y.data(), expected.data(), expected.size() * sizeof(float)) == 0);

  WeightsSpec narrow = p.spec(1);
  narrow.x_dtype = bf16;  // whose rows are half as long
  CHECK(!PackedWeights::adopt(narrow, kept, block));
  CHECK(!PackedWeights::adopt(p.spec(1), kept.first(kept.size() - 64), block));
  CHECK(!PackedWeights::adopt(p.spec(1), kept.first(32), block));
  const SplitLayout layout{p.k, p.n};
  auto* const forms = reinterpret_cast<int32_t*>(block.get() + layout.forms());
  CHECK(forms[0] == SplitLayout::four_splits(0));
  CHECK(forms[8] == SplitLayout::f32_block(1));
  for (const int32_t form : {1, 1 << 30, SplitLayout::f32_block(1), std::numeric_limits<int32_t>::min(), -1}) {
    forms[0] = form;
    INFO(form);
    CHECK(!PackedWeights::adopt(p.spec(1), kept, block));
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "weights are split only where errors relative to a row are accepted") {
  const ConstantProduct p(1, 64, 640);
  for (const ProductPolicy policy : {ProductPolicy{}, ProductPolicy{true, true}}) {
    WeightsSpec spec = p.spec(1);
    spec.policy = policy;
    CHECK(!PackedWeights::pack(spec, p.w.data())->are_split());
    CHECK(rows_for_packing(spec, 100) == 0);  // so that nothing is packed twice
  }
}
