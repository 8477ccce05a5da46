// Products of tiles by dot products on vectors, judged by sums of integers, which f32 has exactly, too.
#include "kernels/gemm/fma/dot_tiles.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/kernel_test.h"
#include "kernels/memory/aligned_memory.h"
#include "kernels/quant/vnni.h"
#include "kernels/vector/narrow_float.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

constexpr int32_t kUnwritten = 0x5a5a5a5a;

/// How many sums are not those of the definition, or are written though nobody asked for them.
int64_t wrong_sums(DotValues values, int64_t count, int64_t tiles, int64_t steps, int64_t k_bytes, bool has_offsets,
                   Random& random) {
  const bool is_bf16 = values == DotValues::bf16;
  const int64_t size = is_bf16 ? 2 : 1, k = k_bytes / size, group = 4 / size;
  // Steps lie in any order, with gaps, or in theirs; the last one ends where its memory does, so that reading on is
  // noticed.
  std::vector<int64_t> offsets;
  for (int64_t s = 0; s < steps; ++s) offsets.push_back((has_offsets ? steps - 1 - s : s) * (k_bytes + 4));
  const auto row_bytes = static_cast<size_t>(std::max<int64_t>(0, steps * (k_bytes + 4) - 4));
  std::vector<std::unique_ptr<char[]>> rows;
  std::vector<std::vector<int64_t>> x(static_cast<size_t>(count)), w;
  DotTiles t;
  t.values = values, t.offsets = has_offsets ? offsets.data() : nullptr, t.step_bytes = k_bytes + 4, t.steps = steps,
  t.k_bytes = k_bytes;
  t.tile_stride = random.below(2) == 0 ? 16 : 16 * DotTiles::kMaxRows;
  const int64_t row_stride = t.tile_stride == 16 ? 16 * tiles : 16;
  std::vector<int64_t> sum_rows;
  for (int64_t i = 0; i < DotTiles::kMaxRows; ++i) sum_rows.push_back(i);
  for (size_t i = sum_rows.size(); i-- > 1;)
    std::swap(sum_rows[i], sum_rows[static_cast<size_t>(random.below(static_cast<int64_t>(i) + 1))]);
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(std::make_unique<char[]>(row_bytes));
    for (int64_t s = 0; s < steps; ++s)
      for (int64_t p = 0; p < k; ++p) {
        const int64_t v = is_bf16 ? random.below(33) - 16 : random.below(256);
        x[static_cast<size_t>(i)].push_back(v);
        char* const to = rows.back().get() + offsets[static_cast<size_t>(s)] + p * size;
        if (is_bf16) {
          const BF16 narrow = to_bf16(static_cast<float>(v));
          std::memcpy(to, &narrow, sizeof narrow);
        } else {
          *to = static_cast<char>(v);
        }
      }
    t.add_row(rows.back().get(), sum_rows[static_cast<size_t>(i)] * row_stride);
  }
  const auto right_bytes = static_cast<size_t>(steps * tiles * k_bytes * 16);
  const AlignedMemory right = aligned_memory(right_bytes);
  for (int64_t s = 0; s < steps; ++s)
    for (int64_t j = 0; j < tiles; ++j)
      for (int64_t p = 0; p < k; ++p) {
        w.emplace_back();
        for (int64_t c = 0; c < 16; ++c) {
          const int64_t v = is_bf16 ? random.below(33) - 16 : random.below(256) - 128;
          w.back().push_back(v);
          char* const to = right.get() + (s * tiles + j) * k_bytes * 16 + p / group * 64 + c * 4 + p % group * size;
          if (is_bf16) {
            const BF16 narrow = to_bf16(static_cast<float>(v));
            std::memcpy(to, &narrow, sizeof narrow);
          } else {
            *to = static_cast<char>(v);
          }
        }
      }
  t.right = right.get();
  const auto all = static_cast<size_t>(16 * DotTiles::kMaxRows * tiles);
  std::vector<int32_t> sums(all, kUnwritten), wanted = sums;
  const auto as_sum = [&](int64_t v) {
    if (!is_bf16) return static_cast<int32_t>(v);
    const auto f = static_cast<float>(v);
    int32_t bits = 0;
    std::memcpy(&bits, &f, sizeof bits);
    return bits;
  };
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < tiles; ++j)
      for (int64_t c = 0; c < 16; ++c) {
        const auto at = static_cast<size_t>(t.sum_rows[i] + j * t.tile_stride + c);
        int64_t sum = 0;
        for (int64_t s = 0; s < steps; ++s)
          for (int64_t p = 0; p < k; ++p)
            sum += x[static_cast<size_t>(i)][static_cast<size_t>(s * k + p)] *
                   w[static_cast<size_t>((s * tiles + j) * k + p)][static_cast<size_t>(c)];
        wanted[at] = as_sum(sum);
      }
  t.sums = sums.data();
  multiply_dot_tiles(t, tiles);
  int64_t wrong = 0;
  for (size_t i = 0; i < all; ++i) wrong += sums[i] != wanted[i];
  return wrong;
}

void check_sums(DotValues values) {
  Random random(7);
  for (const int64_t tiles : {2, 3, 4})
    for (const int64_t count : {1, 2, 3, 5, 6, 7, 8, 9, 11, 13, 16, 17, 23, 32, 47, 64})
      for (const int64_t steps : {0, 1, 2, 9, 40}) {
        const int64_t k_bytes = 4 * (1 + random.below(16));
        const bool has_offsets = random.below(2) == 1;
        INFO(tiles, " tiles, ", count, " rows, ", steps, " steps of ", k_bytes, " bytes, offsets ", has_offsets);
        CHECK(wrong_sums(values, count, tiles, steps, k_bytes, has_offsets, random) == 0);
      }
}

}  // namespace

TEST_CASE("products of tiles by dot products of bf16 are exact where f32 is") {
  if (has_bf16_tile_dots()) check_sums(DotValues::bf16);
  else MESSAGE("skipped: this processor has no AVX-512 with dot products of bf16, or RLX_ISA hides them");
}

TEST_CASE("products of tiles by dot products of u8 and i8 are exact") {
  if (has_int8_dot_isa(Int8DotIsa::avx512_vnni)) check_sums(DotValues::u8_by_i8);
  else MESSAGE("skipped: this processor has no AVX-512 VNNI, or RLX_ISA hides it");
}

TEST_CASE("long sums by dot products of bf16 are sums of partial sums") {
  if (!has_bf16_tile_dots()) {
    MESSAGE("skipped: this processor has no AVX-512 with dot products of bf16, or RLX_ISA hides them");
    return;
  }
  // Each product is 1 + 2^-7: f32 holds k of them exactly up to 2^17 of the last bit's unit, and a running sum beyond
  // 2^17 (1 + 2^-7) rounds each time, which partial sums do not.
  constexpr int64_t kSteps = 8192, kBytes = 64;
  std::vector<int64_t> offsets(kSteps, 0);
  std::vector<BF16> row(kBytes / 2, to_bf16(1.0f + 0x1p-7f));
  const auto bytes = static_cast<size_t>(kSteps * 2 * kBytes * 16);
  const AlignedMemory right = aligned_memory(bytes);
  for (size_t i = 0; i < bytes / 2; ++i) reinterpret_cast<BF16*>(right.get())[i] = to_bf16(1.0f + 0x1p-7f);
  std::vector<float> sums(32);
  DotTiles t;
  t.offsets = offsets.data(), t.steps = kSteps, t.k_bytes = kBytes, t.right = right.get(), t.sums = sums.data();
  t.add_row(reinterpret_cast<const char*>(row.data()), 0);
  multiply_dot_tiles(t, 2);
  const double product = (1 + 0x1p-7) * (1 + 0x1p-7), sum = product * kSteps * kBytes / 2;
  for (const float v : sums) CHECK(std::abs(v - sum) <= 0x1p-19 * sum);
}
