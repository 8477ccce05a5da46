// Judged by sums one by one, in the order of roundings that dynamic_quantize_matmul defines.
#include "kernels/quant/dynamic_product.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/int8_isas.h"
#include "kernels/kernel_test.h"
#include "kernels/memory/aligned_memory.h"
#include "kernels/vector/narrow_float.h"
#include "support/emulated_tiles.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

struct Case {
  int64_t m, k, n;
  bool bias = false, residual = false, transposed = false;
  Activation activation = Activation::none;
  int32_t largest = 127;  ///< of x's quantized values
  bool is_bf16 = false;   ///< of x, residual and y
  int32_t outliers = 0;   ///< values of a row that may be larger
  bool factor = false;
  DType dtype() const { return is_bf16 ? bf16 : f32; }
};

float rounded(const Case& c, double v) {
  const auto f = static_cast<float>(v);
  return c.is_bf16 ? to_f32(to_bf16(f)) : f;
}
/// As they lie in memory.
std::vector<char> stored(const Case& c, const std::vector<float>& numbers) {
  std::vector<char> bytes(numbers.size() * byte_size(c.dtype()) + 64);
  if (!c.is_bf16 && !numbers.empty()) std::memcpy(bytes.data(), numbers.data(), numbers.size() * sizeof(float));
  for (size_t i = 0; i < numbers.size() && c.is_bf16; ++i) {
    const BF16 v = to_bf16(numbers[i]);
    std::memcpy(bytes.data() + 2 * i, &v, 2);
  }
  return bytes;
}

struct Operands {
  std::vector<float> x, w_scale, bias, factor, residual;
  std::vector<int8_t> w;
  explicit Operands(const Case& c, Random& random) {
    // Rows of very different sizes: beside usual ones those of zeros, of the largest and of the least numbers.
    const double sizes[] = {1, 1e30, 0, 1e-44, 3e-39, 250, 1e-20};
    for (int64_t i = 0; i < c.m; ++i) {
      const double size = sizes[static_cast<size_t>(random.below(7))];
      for (int64_t p = 0; p < c.k; ++p) x.push_back(rounded(c, random.between(-size, size)));
      // Some that are larger than the others, by a little, by more than the values' 15 bits hold, and equal ones.
      const double times[] = {1.02, 20, -600, 1e5};
      for (int64_t o = 0; c.outliers > 0 && c.k > 0 && o < i % 6; ++o)
        x[x.size() - 1 - static_cast<size_t>(random.below(static_cast<uint64_t>(c.k)))] =
            rounded(c, size * times[static_cast<size_t>(random.below(4))]);
      if (c.k > 0 && i % 11 == 7) x.back() = i % 2 ? INFINITY : NAN;
      if (c.k > 0 && i % 5 == 2) x[x.size() - static_cast<size_t>(c.k)] = rounded(c, size);  // ties, and 127
    }
    for (int64_t j = 0; j < c.n; ++j) {
      // A column of them so large that it has to be multiplied after the scale of a row of tiny numbers.
      w_scale.push_back(static_cast<float>(random.between(1e-4, 0.1) * (j % 6 == 5 ? 1e35 : 1)));
      bias.push_back(static_cast<float>(random.between(-9, 9)));
      factor.push_back(static_cast<float>(random.between(-2, 2)));
    }
    for (int64_t i = 0; i < c.k * c.n; ++i) w.push_back(static_cast<int8_t>(random.below(255) - 127));
    for (int64_t i = 0; i < c.m * c.n; ++i) residual.push_back(rounded(c, random.between(-1, 1)));
  }
};

/// NaN for a row that is not finite.
float scale_of(const float* row, int64_t k, int32_t most, int32_t outliers) {
  std::vector<float> sizes;
  for (int64_t p = 0; p < k; ++p) {
    if (!std::isfinite(row[p])) return NAN;
    sizes.push_back(std::fabs(row[p]));
  }
  sizes.resize(std::max(sizes.size(), static_cast<size_t>(outliers) + 1));
  std::sort(sizes.rbegin(), sizes.rend());
  const float usual = sizes[static_cast<size_t>(outliers)] / static_cast<float>(most);
  return std::max({usual, outliers > 0 ? sizes[0] / 16383.0f : 0.0f, 0x1p-126f});
}
float activated(Activation a, float v) {
  if (std::isnan(v)) return v;
  if (a == Activation::relu) return std::max(v, 0.0f);
  return a == Activation::relu6 ? std::min(std::max(v, 0.0f), 6.0f) : v;
}

std::vector<float> wanted_of(const Case& c, const Operands& in) {
  std::vector<float> y;
  for (int64_t i = 0; i < c.m; ++i) {
    const float* row = in.x.data() + i * c.k;
    const float scale = scale_of(row, c.k, c.largest, c.outliers), factor = 1 / scale;
    for (int64_t j = 0; j < c.n; ++j) {
      int64_t sum = 0;
      for (int64_t p = 0; p < c.k && !std::isnan(scale); ++p)
        sum += static_cast<int64_t>(std::nearbyint(row[p] * factor)) *
               in.w[static_cast<size_t>(c.transposed ? j * c.k + p : p * c.n + j)];
      const float w_scale = in.w_scale[static_cast<size_t>(j)];
      float v = static_cast<float>(sum) * (w_scale < scale ? w_scale : scale);
      v = v * (w_scale < scale ? scale : w_scale);
      if (c.bias) v = v + in.bias[static_cast<size_t>(j)];
      v = activated(c.activation, v);
      if (c.factor) v = v * in.factor[static_cast<size_t>(j)];
      if (c.residual) v = v + in.residual[static_cast<size_t>(i * c.n + j)];
      y.push_back(rounded(c, v));
    }
  }
  return y;
}

/// How many results differ in a bit (NaN from a number), and how many places outside of the result are written.
int64_t wrong_results(const Case& c, const Operands& in, const std::vector<float>& wanted, Int8DotIsa isa) {
  DynamicProduct p;
  p.w.k = c.k, p.w.n = c.n, p.w.isa = isa, p.w.x_largest = c.largest, p.w.x_outliers = c.outliers;
  AlignedMemory packed = aligned_memory(int8_weights_bytes(p.w));
  pack_int8_weights(p.w, in.w.data(), c.transposed ? 1 : c.n, c.transposed ? c.k : 1, packed.get());
  p.w.packed = packed.get();
  const size_t scratch_bytes = quantized_rows_bytes(p.w, c.m);
  AlignedMemory scratch = aligned_memory(scratch_bytes + 64);
  std::memset(scratch.get(), 0x55, scratch_bytes + 64);
  const int64_t half = std::min<int64_t>(kQuantizedRows, c.m);
  const std::vector<char> x = stored(c, in.x), residual = stored(c, in.residual);
  quantize_rows(p.w, x.data(), c.dtype(), c.k, 0, half, c.m, scratch.get());
  quantize_rows(p.w, x.data(), c.dtype(), c.k, half, c.m, c.m, scratch.get());
  std::vector<char> stored_y = stored(c, std::vector<float>(static_cast<size_t>(c.m * c.n + 64), -77.0f));
  p.rows = c.m, p.x = scratch.get(), p.w_scale = in.w_scale.data(), p.dtype = c.dtype();
  p.bias = c.bias ? in.bias.data() : nullptr, p.factor = c.factor ? in.factor.data() : nullptr;
  p.residual = c.residual ? residual.data() : nullptr;
  p.activation = c.activation, p.y = stored_y.data(), p.y_stride = p.residual_stride = c.n;
  const int64_t middle = std::min<int64_t>(DynamicProduct::kColumns, c.n);
  multiply_quantized_rows(p, 0, c.m, 0, middle);
  if (middle < c.n) {
    multiply_quantized_rows(p, 0, half, middle, c.n);
    if (half < c.m) multiply_quantized_rows(p, half, c.m, middle, c.n);
  }
  std::vector<float> y(static_cast<size_t>(c.m * c.n + 64));
  for (size_t i = 0; i < y.size(); ++i) {
    if (c.is_bf16) y[i] = to_f32(reinterpret_cast<const BF16*>(stored_y.data())[i]);
    else y[i] = reinterpret_cast<const float*>(stored_y.data())[i];
  }
  int64_t wrong = std::count_if(y.end() - 64, y.end(), [](float v) { return v != -77.0f; }) +
                  std::count_if(scratch.get() + scratch_bytes, scratch.get() + scratch_bytes + 64,
                                [](char v) { return v != 0x55; });
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool is_same = std::isnan(wanted[i]) ? std::isnan(y[i]) : std::memcmp(&wanted[i], &y[i], sizeof(float)) == 0;
    wrong += !is_same;
  }
  return wrong;
}

}  // namespace

TEST_CASE_FIXTURE(MatrixTiles,
                  "products in 8 bits have the same bits with any instructions, for rows of any size, and any tails") {
  Random random(1);
  for (const int64_t m : {1, 2, 5, 6, 7, 31, 32, 33, 70, 130})
    for (const int64_t k : {0, 1, 2, 3, 16, 63, 64, 65, 200})
      for (const int64_t n : {1, 7, 8, 16, 17, 40, 64, 100}) {
        const Activation activations[] = {Activation::none, Activation::relu, Activation::relu6};
        const int32_t outliers = static_cast<int32_t>(random.below(4));
        const Case c{m,
                     k,
                     n,
                     random.below(2) != 0,
                     random.below(2) != 0,
                     random.below(2) != 0,
                     activations[static_cast<size_t>(random.below(3))],
                     outliers > 0 ? std::array{127, 90}[static_cast<size_t>(random.below(2))]
                                  : std::array{127, 1023, 300, 16383}[static_cast<size_t>(random.below(4))],
                     random.below(2) != 0,
                     outliers,
                     random.below(2) != 0};
        const Operands in(c, random);
        const std::vector<float> wanted = wanted_of(c, in);
        for_each_target([&] {
          for (const Int8DotIsa isa : int8_isas_here()) {
            INFO("isa ", static_cast<int>(isa), ": ", m, "x", k, "x", n, ", bias ", c.bias, ", residual ", c.residual,
                 ", transposed ", c.transposed, ", activation ", static_cast<int>(c.activation), ", values to ",
                 c.largest, ", outliers ", c.outliers, ", factor ", c.factor, ", of ", c.dtype());
            CHECK(wrong_results(c, in, wanted, isa) == 0);
          }
        });
      }
}

TEST_CASE_FIXTURE(MatrixTiles, "rows that do not fit the cache, and sums of the largest values, are exact") {
  Random random(2);
  const Case c{150, 4000, 33, true, false, false, Activation::none, 1023};
  const Operands in(c, random);
  const std::vector<float> wanted = wanted_of(c, in);
  const Case longest{1, 133'144, 3};
  Operands largest({1, 1, 1}, random);
  largest.x.assign(static_cast<size_t>(longest.k), -2.5f);
  largest.w.assign(static_cast<size_t>(longest.k * longest.n), 127);
  largest.w_scale.assign(3, 0.5f);
  const std::vector<float> wanted_largest = wanted_of(longest, largest);
  CHECK(wanted_largest[0] == doctest::Approx(-127.0 * 133'144 * 2.5 * 0.5));
  Case beside_outliers = longest;
  beside_outliers.k = 132'757, beside_outliers.outliers = 3;
  Operands with_outliers = largest;
  with_outliers.x.resize(static_cast<size_t>(beside_outliers.k));
  for (const size_t at : {0, 70'000, 132'756}) with_outliers.x[at] = -2.5f * 129;
  const std::vector<float> wanted_beside = wanted_of(beside_outliers, with_outliers);
  CHECK(wanted_beside[0] == doctest::Approx(-127.0 * (132'754 + 3 * 129) * 2.5 * 0.5));
  for (const Int8DotIsa isa : int8_isas_here()) {
    INFO("isa ", static_cast<int>(isa));
    CHECK(wrong_results(c, in, wanted, isa) == 0);
    CHECK(wrong_results(longest, largest, wanted_largest, isa) == 0);
    CHECK(wrong_results(beside_outliers, with_outliers, wanted_beside, isa) == 0);
  }
}

TEST_CASE_FIXTURE(MatrixTiles, "outliers are found wherever they are in a row, of any width") {
  Random random(3);
  // Whole and partial pieces of 64 numbers; and rows of more pieces than are marked at a time.
  for (const int64_t k : {1, 2, 3, 32, 64, 96, 127, 129, 4031, 4032, 4033, 4095, 4096, 4097, 5000})
    for (const bool is_bf16 : {false, true})
      for (const int32_t outliers : {1, 3}) {
        const Case c{7, k, 33, true, false, false, Activation::none, 127, is_bf16, outliers};
        Operands in(c, random);
        // The last row has its largest numbers at both ends, of either sign; the one before is not finite.
        float* const last = in.x.data() + (c.m - 1) * k;
        for (int64_t p = 0; p < k; ++p) last[p] = rounded(c, p % 2 == 0 ? 0.5 : -0.25);
        last[0] = rounded(c, -70.0), last[k - 1] = rounded(c, 60.0), last[k / 2] = rounded(c, -50.0);
        last[-1] = std::numeric_limits<float>::infinity();
        const std::vector<float> wanted = wanted_of(c, in);
        for (const Int8DotIsa isa : int8_isas_here()) {
          INFO("isa ", static_cast<int>(isa), ": ", k, " numbers, ", outliers, " outliers, of ", c.dtype());
          CHECK(wrong_results(c, in, wanted, isa) == 0);
        }
      }
}

TEST_CASE("transcendental activations are those of products in f32") {
  const Case c{9, 70, 37};
  Random random(3);
  Operands in(c, random);
  for (float& v : in.x) v = static_cast<float>(random.between(-1, 1));
  const std::vector<float> sums = wanted_of(c, in);
  const std::pair<Activation, double (*)(double)> kinds[] = {
      {Activation::gelu_erf, [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); }},
      {Activation::silu, [](double v) { return v / (1 + std::exp(-v)); }},
      {Activation::tanh, [](double v) { return std::tanh(v); }},
      {Activation::hard_swish, [](double v) { return v * std::clamp(v + 3, 0.0, 6.0) / 6; }}};
  for (const auto& kind : kinds)
    for_each_target([&] {
      DynamicProduct p;
      p.w.k = c.k, p.w.n = c.n, p.w.isa = Int8DotIsa::pairs, p.activation = kind.first;
      AlignedMemory packed = aligned_memory(int8_weights_bytes(p.w)),
                    rows = aligned_memory(quantized_rows_bytes(p.w, c.m));
      pack_int8_weights(p.w, in.w.data(), c.n, 1, packed.get());
      p.w.packed = packed.get();
      quantize_rows(p.w, in.x.data(), f32, c.k, 0, c.m, c.m, rows.get());
      std::vector<float> y(static_cast<size_t>(c.m * c.n));
      p.rows = c.m, p.x = rows.get(), p.w_scale = in.w_scale.data(), p.y = y.data(), p.y_stride = c.n;
      multiply_quantized_rows(p, 0, c.m, 0, c.n);
      for (size_t i = 0; i < y.size(); ++i)
        CHECK(std::fabs(y[i] - kind.second(sums[i])) <= 2e-6 * std::max(1.0, std::fabs(static_cast<double>(sums[i]))));
    });
}
