// Products with weights in blocks under compute = int8, from the outside: the other operand may be rounded to integers
// of 15 bits, with a scale for 256 numbers (docs/runtime.md, "int8"). The kernel: kernels/quant/split_blocks.h.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/quant/split_blocks.h"
#include "rlx/rlx.h"
#include "support/io_files.h"

namespace rlx {
namespace {

constexpr int64_t kSharedScale = 256;  // numbers of x that share a scale

CompileOptions in_int8() {
  CompileOptions options = CompileOptions::from_environment();
  options.compute = Compute::as_i8;
  return options;
}
/// Numbers from -1 to 1, a few of them `outlier` times as large.
Tensor numbers(Shape shape, unsigned seed, float outlier = 1) {
  Tensor t(f32, std::move(shape));
  unsigned state = seed * 2654435761u + 1;
  for (float& v : t.mutable_values<float>()) {
    state = state * 1664525u + 1013904223u;
    v = (state >> 4) % 97 == 0 ? outlier : 1;
    v *= static_cast<float>(state >> 8) / 8388608.0f - 1;
  }
  return t;
}
Tensor run(const Graph& g, const Tensor& x, const std::map<std::string, Tensor>& params, const CompileOptions& options,
           int threads = 1) {
  CompiledGraph compiled = Session(Device::from_environment(), {threads}).compile(g, options);
  for (const auto& [name, value] : params) compiled.set_param(name, value);
  return compiled.run({{"x", x}})[0];
}
/// How far a result may be from the sum of the decoded weights in f64. A number of x may be off by 2^-15 times a power
/// of two that is up to twice the largest of its 256 numbers, or by twice that where it is the largest itself, and may
/// be limited. Sums are f32's; the minima of q4_k are subtracted from one, which may be much larger than what remains.
double bound(std::span<const float> x, std::span<const float> w) {
  double most = 0, terms = 0;
  for (size_t i = 0; i < x.size(); i += kSharedScale) {
    double largest = 0, weights = 0, heaviest = 0;
    for (size_t j = i; j < std::min(i + kSharedScale, x.size()); ++j) {
      largest = std::max(largest, std::fabs(static_cast<double>(x[j])));
      heaviest = std::max(heaviest, std::fabs(static_cast<double>(w[j])));
      weights += std::fabs(static_cast<double>(w[j]));
    }
    most += largest * weights, terms += largest * heaviest * kSharedScale;
  }
  return 0x1p-14 * most + 0x1p-20 * terms;
}
double sum_of(std::span<const float> x, std::span<const float> w) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(x[i]) * static_cast<double>(w[i]);
  return sum;
}

}  // namespace

TEST_CASE("int8 beside weights in blocks: each row is within a rounding of the largest of 256 numbers") {
  constexpr int64_t columns = 70;
  for (const DType format : {q8_0, q4_k, q6_k, q5_k, q4_0})
    for (const int64_t k : {256, 768, 4096})
      for (const int64_t m : {1, 3, 40}) {
        Graph g("product");
        g.output(dequant_matmul(g.input("x", f32, {m, k}), g.param("w", format, {columns, k})), "y");
        const Tensor x = numbers({m, k}, 1, 80), w = quantized(numbers({columns, k}, 2), format),
                     plain = dequantized(w);
        const Tensor y = run(g, x, {{"w", w}}, in_int8());
        REQUIRE(y.type() == Type{f32, {m, columns}});
        double worst = 0;
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < columns; ++j) {
            const auto row = x.values<float>().subspan(static_cast<size_t>(i * k), static_cast<size_t>(k));
            const auto column = plain.values<float>().subspan(static_cast<size_t>(j * k), static_cast<size_t>(k));
            const double off = std::fabs(static_cast<double>(y.values<float>()[static_cast<size_t>(i * columns + j)]) -
                                         sum_of(row, column));
            worst = std::max(worst, off / bound(row, column));
          }
        INFO(std::string(name_of(format)), ", ", m, " rows of ", k);
        CHECK(worst <= 1);
        if (m > 1) continue;
        if (kernels::splits_rows_beside(kernels::SplitDigits::two, format, k)) {  // else the case would pass in f32
          CompileOptions in_f32;
          CompiledGraph f = Session(Device::cpu(), {1}).compile(g, in_f32),
                        i = Session(Device::cpu(), {1}).compile(g, in_int8());
          f.set_param("w", w), i.set_param("w", w);
          const Tensor exact = f.run({{"x", x}})[0], rounded = i.run({{"x", x}})[0];
          CHECK(std::memcmp(exact.bytes().data(), rounded.bytes().data(), exact.bytes().size()) != 0);
        }
        const Tensor again = run(g, x, {{"w", w}}, in_int8(), 3);
        CHECK(std::memcmp(again.bytes().data(), y.bytes().data(), y.bytes().size()) == 0);
      }
}

TEST_CASE("int8 beside experts in blocks: rows that choose an expert alone, and several that share one") {
  constexpr int64_t columns = 35, k = 512, experts = 4;
  for (const DType format : {q8_0, q4_k, q6_k})
    for (const int64_t m : {1, 4, 19}) {
      Graph g("experts");
      const Value x = g.input("x", f32, {m, k}), index = g.param("index", i32, {m});
      g.output(dequant_grouped_matmul(x, g.param("w", format, {experts, columns, k}), index), "y");
      const Tensor in = numbers({m, k}, 3, 20), w = quantized(numbers({experts, columns, k}, 4), format),
                   plain = dequantized(w);
      Tensor which(i32, {m});
      // Row 0 is the only one of expert 2; row 3 has no expert; all others share expert 1.
      for (int64_t i = 0; i < m; ++i)
        which.mutable_values<int32_t>()[static_cast<size_t>(i)] = i == 0 ? 2 : i == 3 ? -1 : 1;
      const Tensor y = run(g, in, {{"w", w}, {"index", which}}, in_int8());
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          const float got = y.values<float>()[static_cast<size_t>(i * columns + j)];
          const int64_t expert = which.values<int32_t>()[static_cast<size_t>(i)];
          INFO(std::string(name_of(format)), ", row ", i, " of ", m, ", column ", j);
          if (expert < 0) {
            CHECK(std::isnan(got));
            continue;
          }
          const auto row = in.values<float>().subspan(static_cast<size_t>(i * k), k);
          const auto column = plain.values<float>().subspan(static_cast<size_t>((expert * columns + j) * k), k);
          CHECK(std::fabs(static_cast<double>(got) - sum_of(row, column)) <= bound(row, column));
        }
    }
}

TEST_CASE("int8 beside weights in blocks: numbers that integers cannot hold are multiplied as they are") {
  constexpr int64_t columns = 40, k = 512;
  Graph g("product");
  g.output(dequant_matmul(g.input("x", f32, {1, k}), g.param("w", q4_k, {columns, k})), "y");
  const Tensor w = quantized(numbers({columns, k}, 5), q4_k), plain = dequantized(w);
  for (const float odd : {std::numeric_limits<float>::infinity(), std::nanf(""), 0x1p100f, 0x1p-140f}) {
    Tensor x = numbers({1, k}, 6);
    for (float& v : x.mutable_values<float>()) v = odd < 1 ? v * 0x1p-130f : v;
    x.mutable_values<float>()[300] = odd;
    const Tensor y = run(g, x, {{"w", w}}, in_int8());
    for (int64_t j = 0; j < columns; ++j) {
      const auto column = plain.values<float>().subspan(static_cast<size_t>(j * k), k);
      const double want = sum_of(x.values<float>(), column);
      const auto got = static_cast<double>(y.values<float>()[static_cast<size_t>(j)]);
      INFO("beside ", odd, ", column ", j);
      if (std::isnan(want)) CHECK(std::isnan(got));
      else if (std::isinf(want)) CHECK(got == want);
      else CHECK(std::fabs(got - want) <= bound(x.values<float>(), column) + 0x1p-126);
    }
  }
}

}  // namespace rlx
