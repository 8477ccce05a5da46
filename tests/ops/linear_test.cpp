// Hard cases of the matrix products. The values are small enough to be computed by hand, or by a loop beside them.
#include "autodiff/transforms.h"
#include "ops/hard_cases.h"
#include "rlx/blocks.h"
#include "rlx/session.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string product(Numbers lhs, Numbers rhs, Numbers wanted) {
  return mismatch_of_floats([](Values v) { return matmul(v[0], v[1]); }, {std::move(lhs), std::move(rhs)},
                            {std::move(wanted)});
}

}  // namespace

TEST_CASE("matmul broadcasts batch dims on both sides") {
  Numbers lhs{{2, 1, 1, 2}, {1, 2, 3, 4}}, rhs{{2, 2, 1}, {1, 10, 100, 1000}};
  CHECK(product(lhs, rhs, {{2, 2, 1, 1}, {21, 2100, 43, 4300}}) == "");
  CHECK(product({{1, 2}, {1, 2}}, rhs, {{2, 1, 1}, {21, 2100}}) == "");
  CHECK(product(lhs, {{2, 1}, {1, 10}}, {{2, 1, 1, 1}, {21, 43}}) == "");
  CHECK(product(lhs, {{1, 1, 1, 2, 1}, {1, 10}}, {{1, 2, 1, 1, 1}, {21, 43}}) == "");
}
TEST_CASE("matmul takes an operand of rank 1 for a row or a column, as NumPy does") {
  CHECK(product({{3}, {1, 2, 3}}, {{3}, {4, 5, 6}}, {{}, {32}}) == "");
  CHECK(product({{2}, {1, 2}}, {{2, 2, 1}, {1, 10, 100, 1000}}, {{2, 1}, {21, 2100}}) == "");
  CHECK(product({{2, 1, 2}, {1, 2, 3, 4}}, {{2}, {1, 10}}, {{2, 1}, {21, 43}}) == "");
}
TEST_CASE("matmul over nothing is zeros, and of nothing nothing") {
  CHECK(product({{2, 0}, {}}, {{0, 3}, {}}, {{2, 3}, {0, 0, 0, 0, 0, 0}}) == "");
  CHECK(product({{0, 2}, {}}, {{2, 1}, {1, 1}}, {{0, 1}, {}}) == "");
  CHECK(product({{0, 1, 2}, {}}, {{2, 1}, {1, 1}}, {{0, 1, 1}, {}}) == "");
  CHECK(product({{0}, {}}, {{0}, {}}, {{}, {0}}) == "");
}
TEST_CASE("a linear layer of packed blocks over no features is its bias, for any number of rows") {
  for (int64_t rows : {1, 8, 9, 200})
    for (bool batch_invariant : {false, true}) {
      Graph g;
      Value x = g.input("x", f32, {rows, 0}), w = g.input("w", q4_k, {3, 0}), bias = g.input("bias", f32, {3});
      g.output(linear(x, w, bias));
      CompileOptions options;
      options.batch_invariant = batch_invariant;
      const std::vector<Tensor> in = {Tensor(f32, {rows, 0}), Tensor(q4_k, {3, 0}), Tensor::of<float>({3}, {1, -2, 3})};
      const Tensor y = Session(Device::cpu(), {2}).compile(g, options).run_ordered(in)[0];
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < 3; ++c) CHECK(y.values<float>()[size_t(3 * r + c)] == in[2].values<float>()[size_t(c)]);
    }
}
TEST_CASE("rows of bf16 beside packed blocks: errors are those of rounding weights and results to bf16") {
  constexpr int64_t kK = 512;
  for (DType format : {q8_0, q4_k, q6_k, q5_0, tq1_0})
    for (int64_t rows : {9, 40, 131})
      for (int64_t columns : {5, 96, 101, 200}) {
        Graph g;
        Value x = g.input("x", bf16, {rows, kK}), w = g.input("w", format, {columns, kK});
        g.output(linear(x, w, g.input("bias", bf16, {columns})));
        std::vector<Tensor> in = {Tensor(bf16, {rows, kK}), Tensor(f32, {columns, kK}), Tensor(bf16, {columns})};
        for (size_t t = 0; t < in.size(); ++t)
          for (size_t i = 0; i < in[t].element_count(); ++i)
            store<double>(in[t], i, std::sin(static_cast<double>(i * (t + 1)) * 0.7 + static_cast<double>(t)));
        in[1] = quantized(in[1], format);
        const Tensor y = Session(Device::cpu(), {2}).compile(g).run_ordered(in)[0], numbers = dequantized(in[1]);
        double worst = 0;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < columns; ++j) {
            double sum = load<double>(in[2], static_cast<size_t>(j)), magnitude = std::abs(sum);
            for (int64_t i = 0; i < kK; ++i) {
              const double term = load<double>(in[0], static_cast<size_t>(r * kK + i)) *
                                  load<double>(numbers, static_cast<size_t>(j * kK + i));
              sum += term, magnitude += std::abs(term);
            }
            const double error = std::abs(load<double>(y, static_cast<size_t>(r * columns + j)) - sum);
            worst = std::max(worst, error / (0x1p-9 * (magnitude + std::abs(sum))));
          }
        INFO(std::string(name_of(format)), ", ", rows, " rows, ", columns, " columns");
        CHECK(worst < 1.01);
      }
}
TEST_CASE("infinities in a matmul follow arithmetic") {
  CHECK(product({{1, 2}, {kInf, 1}}, {{2, 2}, {1, 0, 1, 1}}, {{1, 2}, {kInf, kNaN}}) == "");
}
TEST_CASE("integer products wrap") {
  CHECK(mismatch([](Values v) { return matmul(v[0], v[1]); },
                 {tensor(i8, {1, 2}, {100, 100}), tensor(i8, {2, 1}, {2, 1})}, {tensor(i8, {1, 1}, {44})}) == "");
}
TEST_CASE("a bf16 product sums in f32") {
  // 300 ones: a running bf16 sum would stop at 256
  CHECK(mismatch([](Values v) { return matmul(v[0], v[1]); }, {full(bf16, {1, 300}, 1), full(bf16, {300, 1}, 1)},
                 {tensor(bf16, {1, 1}, {300})}, 0) == "");
}
TEST_CASE("matmul says which dims do not fit") {
  auto build = [](Values v) { return matmul(v[0], v[1]); };
  CHECK(refusal(build, {{f32, {8, 64}}, {f32, {32, 64}}}) ==
        "inner dimensions differ: lhs f32[8, 64] has 64, rhs f32[32, 64] has 32; transpose one operand, or use "
        "dot_general to name the "
        "contracted axes");
  CHECK(refusal(build, {{f32, {2, 3, 4}}, {f32, {5, 4, 1}}}) ==
        "batch dimensions of lhs f32[2, 3, 4] and rhs f32[5, 4, 1] do not broadcast: 2 meets 5");
  CHECK(refusal(build, {{f32, {3}}, {f64, {3}}}) ==
        "operands must have one dtype, got f32[3] and f64[3]; convert one of them");
  CHECK(refusal(build, {{f32, {}}, {f32, {3}}}) == "lhs must be of rank at least 1, got f32[]");
}
TEST_CASE("matmul of unknown batch and rows needs no number") {
  Dim b = Dim::symbol("b"), m = Dim::symbol("m");
  Graph g = trace(std::vector{Type{f64, {b, m, 2}}, Type{f64, {b, 2, 1}}}, [](Values v) { return matmul(v[0], v[1]); });
  CHECK(g.output_types()[0] == Type{f64, {b, m, 1}});
  std::array in = {tensor(f64, {2, 1, 2}, {1, 2, 3, 4}), tensor(f64, {2, 2, 1}, {1, 10, 100, 1000})};
  CHECK(difference(interpret(made_of_primitives(g), in)[0], tensor(f64, {2, 1, 1}, {21, 4300})) == "");
}

TEST_CASE("linear multiplies by the transposed weight") {
  Numbers x{{2, 2}, {1, 2, 3, 4}}, w{{3, 2}, {1, 0, 0, 1, 1, 1}}, bias{{3}, {10, 20, 30}};
  auto with_bias = [](Values v) { return linear(v[0], v[1], v[2]); };
  CHECK(mismatch_of_floats(with_bias, {x, w, bias}, {{{2, 3}, {11, 22, 33, 13, 24, 37}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return linear(v[0], v[1]); }, {x, w}, {{{2, 3}, {1, 2, 3, 3, 4, 7}}}) == "");
  CHECK(mismatch_of_floats(with_bias, {{{2, 0}, {}}, {{3, 0}, {}}, bias}, {{{2, 3}, {10, 20, 30, 10, 20, 30}}}) == "");
  CHECK(mismatch_of_floats(with_bias, {{{2}, {1, 2}}, w, bias}, {{{3}, {11, 22, 33}}}) == "");
  CHECK(refusal(with_bias, {{f32, {2, 2}}, {f32, {3, 2}}, {f32, {2}}}) == "bias must be f32[3], got f32[2]");
}

TEST_CASE("fused_matmul adds the bias before the activation and the residual behind it") {
  Numbers x{{1, 2}, {1, 2}}, w{{2, 2}, {1, -1, 1, -1}}, bias{{2}, {1, 1}}, residual{{1, 2}, {0.5, 0.25}};
  auto all = [](Values v) { return fused_matmul(v[0], v[1], v[2], v[3], Activation::relu); };
  CHECK(mismatch_of_floats(all, {x, w, bias, residual}, {{{1, 2}, {4.5, 0.25}}}) == "");
  auto no_bias = [](Values v) { return fused_matmul(v[0], v[1], {}, v[2], Activation::relu); };
  CHECK(mismatch_of_floats(no_bias, {x, w, residual}, {{{1, 2}, {3.5, 0.25}}}) == "");
  auto transposed = [](Values v) { return fused_matmul(v[0], v[1], {}, {}, Activation::none, true); };
  CHECK(mismatch_of_floats(transposed, {x, w}, {{{1, 2}, {-1, -1}}}) == "");
  CHECK(refusal(all, {{f32, {1, 2}}, {f32, {2, 2}}, {f32, {2}}, {f32, {2}}}) ==
        "residual must be f32[1, 2], got f32[2]");
}

TEST_CASE("lora_matmul scales the low-rank part alone") {
  auto build = [](Values v) { return lora_matmul(v[0], v[1], v[2], v[3], 0.5); };
  CHECK(mismatch_of_floats(build, {{{1, 2}, {1, 2}}, {{2, 2}, {1, 0, 0, 1}}, {{2, 1}, {1, 1}}, {{1, 2}, {2, 4}}},
                           {{{1, 2}, {4, 8}}}) == "");
}

TEST_CASE("grouped_matmul gives each row its own matrix, and NaN for one that is not there") {
  Numbers x{{4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}, w{{2, 2, 1}, {1, 10, 100, kInf}};
  for (DType index : {i32, i64, u8}) {
    std::vector<double> rows = {0, 1, 0, 7};
    auto why = mismatch([](Values v) { return grouped_matmul(v[0], v[1], v[2]); },
                        {tensor(f32, x.shape, x.values), tensor(f32, w.shape, w.values), vector_of(index, rows)},
                        {tensor(f32, {4, 1}, {21, kInf, 65, kNaN})});
    CHECK(why == "");
  }
}

TEST_CASE("the gradients of grouped_matmul see no matrix that a row did not choose, and are zero where there is none") {
  for (bool primitives : {false, true}) {
    Graph g = trace(std::vector{Type{f64, {4, 2}}, Type{f64, {3, 2, 1}}, Type{i32, {4}}},
                    [](Values v) { return grouped_matmul(v[0], v[1], v[2]); });
    Graph back = vjp(g, {true, true, false}, {true});
    if (primitives) back = made_of_primitives(back);
    const std::vector<Tensor> in = {tensor(f64, {4, 2}, {1, 2, kNaN, kInf, 3, 4, 5, 6}),
                                    tensor(f64, {3, 2, 1}, {10, 20, kNaN, kInf, 30, 40}), vector_of(i32, {2, 7, 0, 2}),
                                    tensor(f64, {4, 1}, {1, kNaN, 2, 3})};
    const auto d = interpret(back, in);
    // The second matrix is chosen by no row: its gradient is zero, as is that of the second row.
    CHECK(difference(d[0], tensor(f64, {4, 2}, {30, 40, 0, 0, 20, 40, 90, 120})) == "");
    CHECK(difference(d[1], tensor(f64, {3, 2, 1}, {6, 8, 0, 0, 16, 20})) == "");
  }
}

TEST_CASE("segment_matmul adds up outer products by segment, and rows of none are in no sum") {
  for (DType index : {i32, i64, i8}) {
    auto why = mismatch([](Values v) { return segment_matmul(v[0], v[1], v[2], 3); },
                        {tensor(f32, {5, 2}, {1, 2, 3, 4, kInf, 5, kNaN, 6, 7, 8}),
                         tensor(f32, {5, 1}, {1, 10, kNaN, 0, 100}), vector_of(index, {2, 0, -1, 3, 2})},
                        {tensor(f32, {3, 2, 1}, {30, 40, 0, 0, 701, 802})});
    CHECK(why == "");
  }
  CHECK(mismatch([](Values v) { return segment_matmul(v[0], v[1], v[2], 2); },
                 {tensor(f32, {2, 1}, {2, kInf}), tensor(f32, {2, 1}, {0.5, 1}), vector_of(u8, {0, 1})},
                 {tensor(f32, {2, 1, 1}, {1, kInf})}) == "");
}
TEST_CASE("segment_matmul says which rows do not fit, and counts segments") {
  auto build = [](Values v) { return segment_matmul(v[0], v[1], v[2], 2); };
  CHECK(refusal(build, {{f32, {5, 2}}, {f32, {4, 2}}, {i32, {5}}}) ==
        "rows differ: x f32[5, 2] has 5, y f32[4, 2] has 4; row i of x is multiplied with row i of y");
  CHECK(refusal(build, {{f32, {5, 2}}, {f32, {5, 2}}, {i32, {4}}}) == "index must be i32[5], got i32[4]");
  CHECK(refusal([](Values v) { return segment_matmul(v[0], v[1], v[2], -1); },
                {{f32, {5, 2}}, {f32, {5, 2}}, {i32, {5}}}) == "segments is -1; it counts sums and cannot be negative");
}
TEST_CASE("a mixture of experts of unknown rows stays one in its gradients, in batches and on the CPU") {
  const Dim m = Dim::symbol("m"), e = Dim::symbol("e");
  Graph g = trace(std::vector{Type{f64, {m, 2}}, Type{f64, {e, 2, 1}}, Type{i64, {m}}},
                  [](Values v) { return grouped_matmul(v[0], v[1], v[2]); });
  const auto names = [](const Graph& of) {
    std::string all;
    for (const Node& node : of.nodes())
      if (std::string_view name = node.op->name; name.find("matmul") != name.npos || name == "dot_general")
        all += (all.empty() ? "" : " ") + std::string(name);
    return all;
  };
  Graph back = vjp(g, {true, true, false}, {true});
  CHECK(names(back) == "grouped_matmul segment_matmul");
  CHECK(back.output_types()[1] == Type{f64, {e, 2, 1}});
  CHECK(names(batch(back, {true, true, true, true}, 3)) == "grouped_matmul segment_matmul");
  CHECK(names(batch(g, {true, false, false}, 3)) == "grouped_matmul");
  CHECK(names(jvp(g, {true, true, false})) == "grouped_matmul grouped_matmul grouped_matmul");
  for (const DispatchLine& line : dispatch_report(back, Device::cpu()).lines)
    CHECK_MESSAGE(line.verdict == Verdict::native, line.op, ": ", line.reason);
  const std::vector<Tensor> in = {tensor(f64, {3, 2}, {1, 2, 3, 4, 5, 6}), tensor(f64, {2, 2, 1}, {1, 10, 100, 1000}),
                                  vector_of(i64, {1, 0, 1}), tensor(f64, {3, 1}, {1, 2, 3})};
  const auto d = Session(Device::cpu()).compile(back).run_ordered(in);
  CHECK(difference(d[0], tensor(f64, {3, 2}, {100, 1000, 2, 20, 300, 3000})) == "");
  CHECK(difference(d[1], tensor(f64, {2, 2, 1}, {6, 8, 16, 20})) == "");
}

TEST_CASE("outer multiplies each by each") {
  CHECK(mismatch_of_floats([](Values v) { return outer(v[0], v[1]); }, {{{2}, {1, 2}}, {{3}, {1, 10, 100}}},
                           {{{2, 3}, {1, 10, 100, 2, 20, 200}}}) == "");
}
