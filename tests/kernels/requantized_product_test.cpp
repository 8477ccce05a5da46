// Judged by 32-bit sums that wrap, computed one by one and rounded as the op says.
#include "kernels/quant/requantized_product.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/int8_isas.h"
#include "kernels/kernel_test.h"
#include "kernels/memory/aligned_memory.h"
#include "support/emulated_tiles.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct Case {
  DType x = i8, w = i8;
  int64_t m = 1, k = 1, n = 1;
  int32_t x_zero = 0, w_zero = 0, y_zero = 0;
};

int32_t value_at(DType t, const std::vector<uint8_t>& values, int64_t i) {
  const uint8_t v = values[static_cast<size_t>(i)];
  return t == i8 ? static_cast<int8_t>(v) : v;
}

/// How many results differ from the reference, and how many bytes are written outside of the result.
int64_t wrong_values(const Case& c, std::mt19937& random, Int8DotIsa isa = best_int8_dot_isa()) {
  const auto draw = [&](int64_t count) {
    std::vector<uint8_t> values(static_cast<size_t>(count));
    for (uint8_t& v : values) v = static_cast<uint8_t>(random());
    return values;
  };
  const std::vector<uint8_t> x = draw(c.m * c.k), w = draw(c.k * c.n);
  std::vector<int32_t> bias;
  std::vector<float> multipliers;
  for (int64_t j = 0; j < c.n; ++j) {
    bias.push_back(j % 7 == 3 ? INT32_MAX - static_cast<int32_t>(random() % 99)
                              : static_cast<int32_t>(random() % 2001) - 1000);
    multipliers.push_back(0.00003f * static_cast<float>(random() % 1000));
  }
  PackedQuantizedWeights weights{c.w, c.w_zero, c.k, c.n};
  weights.isa = isa;
  AlignedMemory packed = aligned_memory(packed_quantized_bytes(weights));
  pack_quantized(weights, w.data(), c.n, 1, packed.get());
  weights.packed = packed.get();
  const size_t scratch_bytes = requantized_product_scratch_bytes(weights, c.m);
  AlignedMemory scratch = aligned_memory(scratch_bytes + 64);
  std::fill_n(scratch.get() + scratch_bytes, 64, '\x55');
  constexpr int64_t kBehind = 64;
  std::vector<uint8_t> y(static_cast<size_t>(c.m * c.n + kBehind), 0x77);
  RequantizedProduct p;
  p.w = weights, p.dtype = c.x, p.rows = c.m, p.x = x.data(), p.x_stride = c.k;
  p.x_zero_point = c.x_zero, p.y_zero_point = c.y_zero;
  p.multipliers = multipliers.data(), p.bias = bias.data(), p.y = y.data(), p.y_stride = c.n;
  const int64_t middle = std::min<int64_t>(RequantizedProduct::kColumns, c.n);
  multiply_packed_quantized(p, 0, middle, scratch.get());
  if (middle < c.n) multiply_packed_quantized(p, middle, c.n, scratch.get());

  int64_t wrong = std::count_if(y.end() - kBehind, y.end(), [](uint8_t v) { return v != 0x77; }) +
                  std::count_if(scratch.get() + scratch_bytes, scratch.get() + scratch_bytes + 64,
                                [](char v) { return v != '\x55'; });
  const float low = c.x == i8 ? -128.0f : 0.0f;
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      auto sum = static_cast<uint32_t>(bias[static_cast<size_t>(j)]);
      for (int64_t q = 0; q < c.k; ++q)
        sum += static_cast<uint32_t>((value_at(c.x, x, i * c.k + q) - c.x_zero) *
                                     (value_at(c.w, w, q * c.n + j) - c.w_zero));
      float v = std::nearbyint(static_cast<float>(static_cast<int32_t>(sum)) * multipliers[static_cast<size_t>(j)]) +
                static_cast<float>(c.y_zero);
      v = std::clamp(v, low, low + 255);
      wrong += value_at(c.x, y, i * c.n + j) != static_cast<int32_t>(v);
    }
  return wrong;
}

}  // namespace

TEST_CASE_FIXTURE(MatrixTiles,
                  "8-bit products are exact, whatever the instructions, signs, zero points and tails, and sums wrap") {
  for_each_target([] {
    for (const Int8DotIsa isa : int8_isas_here()) {
      std::mt19937 random(1);
      for (DType x : {i8, u8})
        for (DType w : {i8, u8})
          for (int64_t m : {1, 5, 16, 17, 33, 70})
            for (int64_t k : {0, 1, 3, 64, 65, 130})
              for (int64_t n : {1, 15, 16, 33, 64, 100}) {
                const auto zero = [&](DType t) { return static_cast<int32_t>(random() % 256) - (t == i8 ? 128 : 0); };
                const Case c{x, w, m, k, n, zero(x), random() % 2 ? zero(w) : 0, zero(x)};
                INFO("isa ", static_cast<int>(isa), ": ", x, " times ", w, ", ", m, "x", k, "x", n, ", zero points ",
                     c.x_zero, ", ", c.w_zero);
                CHECK(wrong_values(c, random, isa) == 0);
              }
    }
  });
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "the largest values of either sign do not saturate on their way, with any instructions") {
  for (const Int8DotIsa isa : int8_isas_here()) {
    for (DType x_dtype : {i8, u8})
      for (DType w_dtype : {i8, u8})
        for (const uint8_t x_bits : {uint8_t{0x7f}, uint8_t{0x80}, uint8_t{0xff}})
          for (const uint8_t w_bits : {uint8_t{0x7f}, uint8_t{0x80}, uint8_t{0xff}}) {
            constexpr int64_t kDepth = 256, kColumns = 32;
            const std::vector<uint8_t> x(kDepth, x_bits), w(kDepth * kColumns, w_bits);
            const std::vector<int32_t> bias(kColumns);
            std::vector<uint8_t> y(kColumns);
            RequantizedProduct p;
            p.w.dtype = w_dtype, p.w.k = kDepth, p.w.n = kColumns, p.w.isa = isa;
            AlignedMemory packed = aligned_memory(packed_quantized_bytes(p.w)),
                          scratch = aligned_memory(requantized_product_scratch_bytes(p.w, 1));
            pack_quantized(p.w, w.data(), kColumns, 1, packed.get());
            p.w.packed = packed.get(), p.dtype = x_dtype, p.rows = 1, p.x = x.data(), p.x_stride = kDepth;
            p.multiplier = 1.0f / 65536, p.bias = bias.data(), p.y = y.data(), p.y_stride = kColumns;
            multiply_packed_quantized(p, 0, kColumns, scratch.get());
            const int64_t sum = kDepth * value_at(x_dtype, x, 0) * value_at(w_dtype, w, 0);
            const float low = x_dtype == i8 ? -128.0f : 0.0f;
            const float wanted = std::clamp(std::nearbyint(static_cast<float>(sum) / 65536), low, low + 255);
            for (int64_t j = 0; j < kColumns; ++j) CHECK(value_at(x_dtype, y, j) == static_cast<int32_t>(wanted));
          }
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "rows that do not fit the cache are packed in pieces") {
  std::mt19937 random(2);
  for (const Int8DotIsa isa : int8_isas_here()) CHECK(wrong_values({i8, i8, 300, 4000, 20, 3, 0, 1}, random, isa) == 0);
}
