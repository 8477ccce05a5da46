// CompileOptions::accuracy and batch_invariant, from the outside: what a compile promises of products of f32, by op.
// Kernels: tests/kernels/product_accuracy_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "reference/interpreter.h"
#include "rlx/blocks.h"
#include "rlx/rlx.h"
#include "support/product_distributions.h"
#include "support/sanitized.h"
#include "support/tolerance.h"

namespace rlx {
namespace {

using accuracy::Matrix;

Tensor tensor_of(const Matrix& m, Shape shape) { return Tensor::of<float>(std::move(shape), m.values); }

CompileOptions with(Accuracy accuracy, bool batch_invariant = false) {
  CompileOptions options = CompileOptions::from_environment();
  options.accuracy = accuracy, options.batch_invariant = batch_invariant;
  return options;
}

std::vector<float> run(const Graph& g, const CompileOptions& options, const std::vector<NamedTensor>& inputs,
                       const std::vector<NamedTensor>& params = {}) {
  CompiledGraph compiled = Session(Device::cpu(), {2}).compile(g, options);
  for (const auto& [name, value] : params) compiled.set_param(name, value);
  const Tensor out = compiled.run(inputs)[0];
  return {out.values<float>().begin(), out.values<float>().end()};
}

double half_ulp(double exact) {
  const float nearest = std::fabs(static_cast<float>(exact));
  return static_cast<double>(std::nextafterf(nearest, INFINITY) - nearest) / 2 * (1 + 1e-6);
}

Matrix filled(const accuracy::Distribution& d, int64_t rows, int64_t cols, unsigned seed) {
  Matrix m(rows, cols);
  accuracy::Random random(seed);
  d.fill(m, random);
  return m;
}

Graph linear_graph(const Dim& rows, int64_t k, int64_t n) {
  Graph g("linear");
  g.output(linear(g.input("x", f32, {rows, k}), g.param("w", f32, {n, k})));
  return g;
}

}  // namespace

TEST_CASE("each element of a convolution is as exact as sums of f32 are, whatever stands beside it") {
  constexpr int64_t kSide = 9, kIn = 48, kOut = 40;
  Graph g("conv");
  g.output(conv(g.input("x", f32, {1, kIn, kSide, kSide}), g.param("w", f32, {kOut, kIn, 3, 3}), {.padding = {1, 1}}));
  size_t pair = 0;
  for (const auto& rows : accuracy::kRows)
    for (const auto& weights : accuracy::kWeights) {
      if (test::sanitized() && ++pair % 5 != 0) continue;  // the sums in double take minutes there
      const Matrix x = filled(rows, kIn, kSide * kSide, 1), w = filled(weights, kOut, kIn * 9, 2);
      const std::vector<float> y = run(g, with(Accuracy::as_f32), {{"x", tensor_of(x, {1, kIn, kSide, kSide})}},
                                       {{"w", tensor_of(w, {kOut, kIn, 3, 3})}});
      double worst = 0;
      for (int64_t o = 0; o < kOut; ++o)
        for (int64_t r = 0; r < kSide; ++r)
          for (int64_t c = 0; c < kSide; ++c) {
            double exact = 0, magnitude = 0;
            for (int64_t i = 0; i < kIn; ++i)
              for (int64_t t = 0; t < 9; ++t) {
                const int64_t row = r + t / 3 - 1, col = c + t % 3 - 1;
                if (row < 0 || row >= kSide || col < 0 || col >= kSide) continue;
                const double term =
                    static_cast<double>(x.at(i, row * kSide + col)) * static_cast<double>(w.at(o, i * 9 + t));
                exact += term, magnitude += std::fabs(term);
              }
            const double error =
                std::fabs(static_cast<double>(y[static_cast<size_t>((o * kSide + r) * kSide + c)]) - exact);
            const double bound = kProductErrorOfRoot * 0x1p-24 * std::sqrt(kIn * 9.0) * magnitude;
            const double of_bound = (error - half_ulp(exact)) / bound;
            if (!(of_bound <= worst)) worst = of_bound;  // also if it is NaN
          }
      INFO(std::string(rows.name), " * ", std::string(weights.name));
      CHECK(worst <= 1);
    }
}

TEST_CASE("exact products are the true sums, rounded once") {
  for (const auto& rows : accuracy::kRows) {
    const Matrix x = filled(rows, 13, 300, 1), w = filled(accuracy::kWeights[0], 24, 300, 2);
    const std::vector<float> y = run(linear_graph(13, 300, 24), with(Accuracy::exact), {{"x", tensor_of(x, {13, 300})}},
                                     {{"w", tensor_of(w, {24, 300})}});
    double worst = 0;
    for (int64_t i = 0; i < 13; ++i)
      for (int64_t j = 0; j < 24; ++j) {
        double exact = 0, magnitude = 0;
        for (int64_t p = 0; p < 300; ++p) {
          const double term = static_cast<double>(x.at(i, p)) * static_cast<double>(w.at(j, p));
          exact += term, magnitude += std::fabs(term);
        }
        const double error = std::fabs(static_cast<double>(y[static_cast<size_t>(i * 24 + j)]) - exact);
        const double beyond = error - half_ulp(exact) - 300 * 0x1p-53 * magnitude;
        if (!(beyond <= worst)) worst = beyond;  // also if it is NaN
      }
    INFO(std::string(rows.name));
    CHECK(worst <= 0);
  }
}

TEST_CASE("exact is meant of every op that sums, in loops and branches too") {
  // Large numbers that cancel and small ones that are left: f32 loses these in every order but one.
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.insert(values.end(), {0x1p30f, 3, -0x1p30f, 0x1p-20f});
  const std::vector<NamedTensor> given = {{"x", Tensor::of<float>({256}, values)}};
  const std::vector<float> expected = {64 * (3 + 0x1p-20f)};
  Graph sum("sum");
  sum.output(reduce_sum(sum.input("x", f32, {256}), {0}));
  CHECK(run(sum, with(Accuracy::exact), given) == expected);
  Graph branch("branch");
  const Value x = branch.input("x", f32, {256});
  Graph body("body");
  body.output(reduce_sum(body.input("x", f32, {256}), {0}));
  const Value most = reduce_max(x, {0});
  branch.output(if_else(compare(most, zeros_like(most), Comparison::gt), {x}, body, body)[0]);
  CHECK(run(branch, with(Accuracy::exact), given) == expected);
}

namespace {

/// An op on operands of one dtype.
struct ExactOp {
  const char* name;
  DType dtype;
  std::vector<Dims> operands;
  Value (*build)(const std::vector<Value>& v);
};
const ExactOp kExactOps[] = {
    {"attention",
     f32,
     {{1, 2, 7, 24}, {1, 2, 50, 24}, {1, 2, 50, 24}},
     [](const std::vector<Value>& v) {
       AttentionAttrs attrs;
       attrs.heads = 2, attrs.causal = true;
       return attention(v[0], v[1], v[2], attrs);
     }},
    {"conv",
     f32,
     {{2, 20, 7, 7}, {12, 20, 3, 3}},
     [](const std::vector<Value>& v) {
       return conv(v[0], v[1], {.padding = {1, 1}});
     }},
    {"depthwise conv",
     f32,
     {{2, 20, 7, 7}, {20, 1, 3, 3}},
     [](const std::vector<Value>& v) {
       return conv(v[0], v[1], {.padding = {1, 1}, .groups = 20});
     }},
    {"softmax", f32, {{3, 500}}, [](const std::vector<Value>& v) { return softmax(v[0] * 16.0); }},
    {"layer_norm",
     f32,
     {{3, 500}, {500}, {500}},
     [](const std::vector<Value>& v) { return layer_norm(v[0], v[1], v[2]); }},
    {"rms_norm", f32, {{3, 500}}, [](const std::vector<Value>& v) { return rms_norm(v[0]); }},
    {"lstm",
     f32,
     {{2, 9, 11}, {48 * 11}, {48 * 12}, {48}},
     [](const std::vector<Value>& v) { return lstm(v[0], v[1], v[2], v[3], RecurrentAttrs{12})[0]; }},
    {"cumsum", f32, {{3, 500}}, [](const std::vector<Value>& v) { return cumsum(v[0]); }},
    {"rfft", f32, {{3, 60}}, [](const std::vector<Value>& v) { return rfft(v[0]); }},
    {"fft", c64, {{3, 60}}, [](const std::vector<Value>& v) { return fft(v[0]); }},
    {"complex matmul", c64, {{5, 300}, {300, 6}}, [](const std::vector<Value>& v) { return matmul(v[0], v[1]); }},
    {"complex sum", c64, {{3, 500}}, [](const std::vector<Value>& v) { return reduce_sum(v[0], {1}); }},
};

}  // namespace

TEST_CASE("exact is meant of attention, convolutions, norms, recurrences, transforms and complex numbers") {
  // The reference in f64 or c128 of the same graph is the judge.
  for (const ExactOp& op : kExactOps) {
    const bool is_of_complex = op.dtype == c64;
    Graph narrow("narrow"), wide("wide");
    std::vector<Value> in_narrow, in_wide;
    std::vector<NamedTensor> inputs;
    std::vector<Tensor> wide_inputs;
    accuracy::Random random(7);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const std::string name = "x" + std::to_string(i);
      in_narrow.push_back(narrow.input(name, op.dtype, op.operands[i]));
      in_wide.push_back(wide.input(name, is_of_complex ? c128 : f64, op.operands[i]));
      Shape shape;
      for (const Dim& d : op.operands[i]) shape.push_back(d.value());
      Tensor values(op.dtype, shape), widened(is_of_complex ? c128 : f64, shape);
      auto* from = reinterpret_cast<float*>(values.mutable_data());
      auto* to = reinterpret_cast<double*>(widened.mutable_data());
      for (size_t j = 0; j < values.byte_count() / sizeof(float); ++j)
        to[j] = static_cast<double>(from[j] = accuracy::normal(random));
      inputs.emplace_back(name, values), wide_inputs.push_back(widened);
    }
    // `16.0` is of the op's dtype: what is element-wise stays in f32, and is exact here.
    narrow.output(op.build(in_narrow)), wide.output(op.build(in_wide));
    CompiledGraph compiled = Session(Device::cpu(), {2}).compile(narrow, with(Accuracy::exact));
    const Tensor got = compiled.run(inputs)[0], wanted = interpret(wide, wide_inputs)[0];
    REQUIRE(got.byte_count() * 2 == wanted.byte_count());
    const auto* y = reinterpret_cast<const float*>(got.data());
    const auto* exact = reinterpret_cast<const double*>(wanted.data());
    double most = 0, worst = 0;
    const size_t count = got.byte_count() / sizeof(float);
    for (size_t j = 0; j < count; ++j) most = std::max(most, std::fabs(exact[j]));
    for (size_t j = 0; j < count; ++j) {
      const double beyond = std::fabs(static_cast<double>(y[j]) - exact[j]) - half_ulp(exact[j]);
      if (!(beyond <= worst)) worst = beyond;
    }
    INFO(std::string(op.name));
    CHECK(worst <= 1e-11 * most);  // as f64 is compared anywhere: tolerance_of(f64)
  }
}

TEST_CASE("programs of unlike accuracy are not taken for each other") {
  const Graph g = linear_graph(4, 8, 4);
  std::vector<size_t> hashes;
  for (const CompileOptions& options :
       {with(Accuracy::as_f32), with(Accuracy::exact), with(Accuracy::row_relative), with(Accuracy::as_f32, true)}) {
    const size_t hash = Session().compile(g, options).config().options_hash;
    for (const size_t other : hashes) CHECK(other != hash);
    hashes.push_back(hash);
  }
}

namespace {

/// A product of m rows with something that stays the same: the graph, and what it is fed.
struct RowsProduct {
  const char* name;
  DType weights;
  bool turned;  ///< x is [k, m]
  Value (*build)(Value x, Value w);
};
constexpr int64_t kProductDepth = 704, kProductColumns = 130;
const RowsProduct kRowsProducts[] = {
    {"linear", f32, false, [](Value x, Value w) { return linear(x, w); }},
    {"linear of bf16", bf16, false, [](Value x, Value w) { return linear(convert(x, bf16), w); }},
    {"linear of q8_0", q8_0, false, [](Value x, Value w) { return linear(x, w); }},
    {"matmul", f32, false,
     [](Value x, Value w) {
       return matmul(x, transpose(w, {1, 0}));
     }},
    {"dot_general along rows", f32, true,
     [](Value x, Value w) {
       return dot_general(x, w, {{}, {}, {0}, {1}});
     }},
    {"linear with gelu", f32, false, [](Value x, Value w) { return gelu(linear(x, w)); }},
};

}  // namespace

TEST_CASE("batch-invariant rows have the same bits alone and among others, also for sizes that are open") {
  constexpr int64_t kAll = 64;
  const Matrix all = filled(accuracy::kRows[0], kAll, kProductDepth, 3),
               w = filled(accuracy::kWeights[0], kProductColumns, kProductDepth, 4);
  for (const RowsProduct& product : kRowsProducts)
    for (const bool bound : {true, false}) {
      if (product.weights == q8_0 && !bound) continue;  // blocks are weights
      const Dim rows = Dim::symbol("B");
      Graph g("rows");
      const Value x = g.input("x", f32, product.turned ? Dims{kProductDepth, rows} : Dims{rows, kProductDepth});
      const Type type{product.weights, {kProductColumns, kProductDepth}};
      g.output(product.build(x, bound ? g.param("w", type) : g.input("w", type)));
      Tensor weights = tensor_of(w, {kProductColumns, kProductDepth});
      if (product.weights == q8_0) weights = quantized(weights, q8_0);
      if (product.weights == bf16) {
        Tensor narrow(bf16, {kProductColumns, kProductDepth});
        for (size_t i = 0; i < w.values.size(); ++i) store<double>(narrow, i, static_cast<double>(w.values[i]));
        weights = narrow;
      }
      CompiledGraph compiled = Session(Device::cpu(), {2}).compile(g, with(Accuracy::as_f32, true));
      if (bound) compiled.set_param("w", weights);
      const auto run_rows = [&](int64_t m) {
        Matrix given = product.turned ? Matrix(kProductDepth, m) : Matrix(m, kProductDepth);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t p = 0; p < kProductDepth; ++p) (product.turned ? given.at(p, i) : given.at(i, p)) = all.at(i, p);
        std::vector<NamedTensor> inputs = {{"x", tensor_of(given, {given.rows, given.cols})}};
        if (!bound) inputs.emplace_back("w", weights);
        return compiled.run(inputs)[0];
      };
      const Tensor of_all = run_rows(kAll);
      for (const int64_t m : {1, 2, 3, 4, 5, 11, 12, 24, 33}) {
        const Tensor some = run_rows(m);
        INFO(std::string(product.name), std::string(bound ? ", bound, " : ", at run time, "), m, " rows");
        CHECK(std::memcmp(some.data(), of_all.data(), some.byte_count()) == 0);
      }
    }
}

namespace {

/// A product of rows that choose an expert each.
struct GroupedProduct {
  const char* name;
  /// Of w[experts, n, k] in f32: what the graph is given.
  std::vector<NamedTensor> (*params)(const Tensor& w);
  Value (*build)(Value x, Value index, const std::vector<Value>& params);
};

constexpr int64_t kExperts = 3, kExpertDepth = 256, kExpertColumns = 66, kCodesTogether = 32;

/// [experts, k, n] of w[experts, n, k], each element made from one by `of`.
template <class F>
Tensor along_columns(const Tensor& w, DType dtype, F of) {
  Tensor turned(dtype, {kExperts, kExpertDepth, kExpertColumns});
  for (int64_t e = 0; e < kExperts; ++e)
    for (int64_t p = 0; p < kExpertDepth; ++p)
      for (int64_t j = 0; j < kExpertColumns; ++j)
        of(turned, static_cast<size_t>((e * kExpertDepth + p) * kExpertColumns + j),
           w.values<float>()[static_cast<size_t>((e * kExpertColumns + j) * kExpertDepth + p)]);
  return turned;
}
const GroupedProduct kGroupedProducts[] = {
    {"grouped_matmul",
     [](const Tensor& w) {
       return std::vector<NamedTensor>{
           {"w", along_columns(w, f32, [](Tensor& t, size_t i, float v) { t.mutable_values<float>()[i] = v; })}};
     },
     [](Value x, Value index, const std::vector<Value>& params) { return grouped_matmul(x, params[0], index); }},
    {"grouped_matmul along k",
     [](const Tensor& w) {
       return std::vector<NamedTensor>{{"w", w}};
     },
     [](Value x, Value index, const std::vector<Value>& params) {
       return grouped_matmul(x, transpose(params[0], {0, 2, 1}), index);
     }},
    {"dequant_grouped_matmul of q8_0",
     [](const Tensor& w) {
       return std::vector<NamedTensor>{{"w", quantized(w, q8_0)}};
     },
     [](Value x, Value index, const std::vector<Value>& params) {
       return dequant_grouped_matmul(x, params[0], index);
     }},
    {"dequant_grouped_matmul of i8",
     [](const Tensor& w) {
       Tensor scales(f32, {kExperts, kExpertDepth / kCodesTogether, kExpertColumns});
       for (size_t i = 0; i < scales.element_count(); ++i)
         scales.mutable_values<float>()[i] = 0.01f + 0.001f * static_cast<float>(i % 7);
       return std::vector<NamedTensor>{{"w", along_columns(w, i8,
                                                           [](Tensor& t, size_t i, float v) {
                                                             store<int64_t>(t, i, static_cast<int64_t>(v * 1000) % 128);
                                                           })},
                                       {"scales", scales}};
     },
     [](Value x, Value index, const std::vector<Value>& params) {
       return dequant_grouped_matmul(x, params[0], index, {params[1]}, kCodesTogether, true);
     }},
};

}  // namespace

TEST_CASE("batch-invariant rows of experts have the same bits alone and among others of their expert") {
  constexpr int64_t kAll = 100;
  const Matrix all = filled(accuracy::kRows[0], kAll, kExpertDepth, 3),
               w = filled(accuracy::kWeights[0], kExperts * kExpertColumns, kExpertDepth, 4);
  // One expert has most of the rows, and rows are not in the order of their experts.
  const auto expert_of = [](int64_t row) { return static_cast<int32_t>(row % 5 < 3 ? 1 : row % 5 == 3 ? 0 : 2); };
  for (const GroupedProduct& product : kGroupedProducts) {
    const auto params = product.params(tensor_of(w, {kExperts, kExpertColumns, kExpertDepth}));
    Graph g("experts");
    const Dim rows = Dim::symbol("B");
    const Value x = g.input("x", f32, {rows, kExpertDepth}), index = g.input("index", i32, {rows});
    std::vector<Value> given;
    for (const auto& [name, value] : params) given.push_back(g.param(name, value.type()));
    g.output(product.build(x, index, given));
    CompiledGraph compiled = Session(Device::cpu(), {2}).compile(g, with(Accuracy::as_f32, true));
    for (const auto& [name, value] : params) compiled.set_param(name, value);
    const auto run_rows = [&](int64_t first, int64_t count) {
      Matrix some(count, kExpertDepth);
      std::vector<int32_t> chosen;
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t p = 0; p < kExpertDepth; ++p) some.at(i, p) = all.at(first + i, p);
        chosen.push_back(expert_of(first + i));
      }
      return compiled.run(
          {{"x", tensor_of(some, {count, kExpertDepth})}, {"index", Tensor::of<int32_t>({count}, chosen)}})[0];
    };
    const Tensor of_all = run_rows(0, kAll);
    const size_t row_bytes = of_all.byte_count() / kAll;
    const auto same_as_all = [&](int64_t first, int64_t count) {
      const Tensor some = run_rows(first, count);
      return std::memcmp(some.data(), of_all.data() + static_cast<size_t>(first) * row_bytes, some.byte_count()) == 0;
    };
    INFO(std::string(product.name));
    CHECK(std::all_of(of_all.values<float>().begin(), of_all.values<float>().end(),
                      [](float v) { return std::isfinite(v); }));
    for (int64_t row = 0; row < kAll; ++row) CHECK_MESSAGE(same_as_all(row, 1), "row ", row, " alone");
    for (const int64_t count : {2, 5, 12, 33, 64}) CHECK_MESSAGE(same_as_all(7, count), count, " rows");
  }
}

}  // namespace rlx
