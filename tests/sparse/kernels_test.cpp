// The CPU's kernels on matrices large enough that threads share them and patterns that nobody should give: compared
// with dense ops, which know nothing of them. Values by SciPy are in tests/golden.
#include <doctest/doctest.h>

#include <cmath>

#include "rlx/autodiff.h"
#include "rlx/extras/sparse_matrix.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

/// A pattern of `n` random entries, the last tenth of them out of range; for compressed formats pointers that neither
/// start at 0 nor end at n.
struct Pattern {
  SparseFormat format;
  int64_t rows, columns;
  Tensor first, second;
};
Pattern random_pattern(SparseFormat format, int64_t rows, int64_t columns, int64_t n, DType index) {
  int64_t lines = format == SparseFormat::csr ? rows : columns, others = format == SparseFormat::csr ? columns : rows;
  if (format == SparseFormat::coo)
    return {format, rows, columns, random_tensor(index, {n}, 1, -2, double(rows) + 2),
            random_tensor(index, {n}, 2, 0, double(columns))};
  Tensor pointers = random_tensor(index, {lines + 1}, 1, 3, double(n) - 3);
  Tensor sorted = pointers;
  if (index == i32) std::sort(sorted.mutable_values<int32_t>().begin(), sorted.mutable_values<int32_t>().end());
  else std::sort(sorted.mutable_values<int64_t>().begin(), sorted.mutable_values<int64_t>().end());
  return {format, rows, columns, sorted, random_tensor(index, {n}, 2, -1, double(others) + 1)};
}

std::vector<Tensor> run(const Graph& g, Tensors in, int threads, KernelDispatch dispatch) {
  CompileOptions options;
  options.kernel_dispatch = dispatch;
  return Session(Device::cpu(), {threads}).compile(g, options).run_ordered(in);
}

/// The Laplacian on a square grid, csr.
SparseMatrix grid(int64_t side, DType index = i32) {
  std::vector<int64_t> r, c;
  std::vector<double> v;
  for (int64_t y = 0; y < side; ++y)
    for (int64_t x = 0; x < side; ++x)
      for (auto [dy, dx] : {std::pair{0, 0}, {-1, 0}, {1, 0}, {0, -1}, {0, 1}}) {
        if (y + dy < 0 || y + dy >= side || x + dx < 0 || x + dx >= side) continue;
        r.push_back(y * side + x), c.push_back((y + dy) * side + x + dx), v.push_back(dy == 0 && dx == 0 ? 4 : -1);
      }
  int64_t n = std::ssize(v);
  return SparseMatrix(SparseFormat::coo, side * side, side * side, Tensor::of<int64_t>({n}, r),
                      Tensor::of<int64_t>({n}, c), Tensor::of<double>({n}, v))
      .to(SparseFormat::csr)
      .with_indices(index);
}

}  // namespace

TEST_CASE("products of large patterns are those of the dense matrix, with one thread and with three") {
  for (SparseFormat format : {SparseFormat::csr, SparseFormat::csc, SparseFormat::coo})
    for (DType index : {i32, i64})
      for (int64_t width : {1, 5, 64})
        for (bool transposed : {false, true}) {
          Pattern p = random_pattern(format, 300, 200, 20000, index);
          Graph g;
          Value first = g.input("first", index, {p.first.shape()[0]}), second = g.input("second", index, {20000});
          Value v = g.input("v", f64, {20000}), x = g.input("x", f64, {transposed ? 300 : 200, width});
          SparseValue a{format, 300, 200, first, second, v};
          g.output(sparse_matmul(a, x, transposed));
          Value dense = sparse_to_dense(a);
          g.output(matmul(transposed ? swap_axes(dense, 0, 1) : dense, x));
          std::array in{p.first, p.second, random_tensor(f64, {20000}, 5, -1, 1),
                        random_tensor(f64, {transposed ? 300 : 200, width}, 6, -1, 1)};
          Tensor wanted = run(g, in, 1, KernelDispatch::common)[1];
          for (int threads : {1, 3})
            for (const Tensor& got : run(g, in, threads, KernelDispatch::native)) CHECK(difference(got, wanted) == "");
        }
}
TEST_CASE("all ops of the family are native on the CPU in f32 and f64, and the reason stands in the report elsewhere") {
  for (DType dtype : {f64, f32, f16}) {
    Graph g;
    SparseMatrix m = grid(3);
    SparseValue a = m.in(g, convert(g.constant(m.values()), dtype));
    Value b = g.input("b", dtype, {9, 2});
    g.output(sparse_matmul(a, b) + sparse_triangular_solve(a, b) + sparse_cg(a, b).x);
    g.output(sparse_sampled_matmul(a, b, b) + sparse_sample(a, sparse_to_dense(a)));
    DispatchReport report = dispatch_report(g, Device::cpu());
    for (const DispatchLine& line : report.lines) {
      if (!line.op.starts_with("sparse_")) continue;
      if (dtype == f16) {
        CHECK(line.verdict == Verdict::composed);
        CHECK(line.reason.find("no sparse kernel takes ") != std::string::npos);
      } else {
        CHECK(line.verdict == Verdict::native);
        CHECK(line.reason.starts_with("by the registered kernel '"));
      }
    }
  }
}
TEST_CASE("a system of 10,000 unknowns is solved by LU and by conjugate gradients, and its residual is small") {
  SparseMatrix m = grid(100, i64);
  Tensor b = random_tensor(f64, {10000, 1}, 3, -1, 1);
  for (Preconditioner kind : {Preconditioner::none, Preconditioner::jacobi, Preconditioner::ilu0})
    for (int threads : {1, 2}) {
      Graph g;
      SparseValue a = m.in(g);
      Value right = g.input("b", f64, {10000, 1});
      auto [x, iterations] = sparse_cg(a, right, {.tolerance = 1e-12, .preconditioner = kind});
      g.output(sparse_matmul(a, x) - right);
      g.output(iterations);
      auto out = run(g, std::array{b}, threads, KernelDispatch::native);
      double largest = 0;
      for (double r : out[0].values<double>()) largest = std::max(largest, std::abs(r));
      CHECK(largest < 1e-10);
      CHECK(out[1].values<int32_t>()[0] > 0);
      CHECK(out[1].values<int32_t>()[0] < (kind == Preconditioner::ilu0 ? 150 : 450));
    }
  SparseLu lu(m);
  lu.factor(m.values());
  Tensor x = lu.solve(b);
  Graph g;
  Value at = g.input("x", f64, {10000, 1});
  g.output(sparse_matmul(m.in(g), at));
  CHECK(difference(run(g, std::array{x}, 1, KernelDispatch::native)[0], b) == "");
}
TEST_CASE("a solver in a graph meets new values and new patterns, from run to run") {
  Graph g;
  Value first = g.input("rows", i32, {5}), second = g.input("columns", i32, {5});
  Value v = g.input("v", f64, {5}), b = g.input("b", f64, {3, 1});
  SparseValue a{SparseFormat::coo, 3, 3, first, second, v};
  g.output(sparse_solve(a, b));
  g.output(solve(sparse_to_dense(a), b));
  CompiledGraph compiled = Session().compile(g);
  for (int round = 0; round < 6; ++round) {
    auto ints = [](std::initializer_list<int32_t> list) { return Tensor::of<int32_t>({5}, list); };
    std::array in{round % 2 ? ints({0, 1, 2, 0, 1}) : ints({2, 1, 0, 1, 2}),
                  round % 2 ? ints({1, 2, 0, 2, 1}) : ints({0, 1, 2, 0, 2}),
                  random_tensor(f64, {5}, uint64_t(round), 1, 3), random_tensor(f64, {3, 1}, 9, -1, 1)};
    auto out = compiled.run_ordered(in);
    CHECK(difference(out[0], out[1]) == "");
  }
}
TEST_CASE("a singular matrix makes NaN or infinities, never numbers that look like a solution") {
  Graph g;
  SparseMatrix m(SparseFormat::csr, 2, 2, Tensor::of<int32_t>({3}, {0, 1, 1}), Tensor::of<int32_t>({1}, {0}),
                 Tensor::of<double>({1}, {2}));
  Value b = g.input("b", f64, {2, 1});
  g.output(sparse_solve(m.in(g), b));
  g.output(sparse_triangular_solve(m.in(g), b));
  for (KernelDispatch dispatch : {KernelDispatch::native, KernelDispatch::common})
    for (const Tensor& x : run(g, std::array{Tensor::of<double>({2, 1}, {1, 1})}, 1, dispatch))
      CHECK(!std::isfinite(x.values<double>()[1]));
}
TEST_CASE("conjugate gradients for what is not finite give NaN, not the 0 that they begin with") {
  Graph g;
  SparseMatrix m(SparseFormat::coo, 2, 2, Tensor::of<int32_t>({2}, {0, 1}), Tensor::of<int32_t>({2}, {0, 1}),
                 Tensor::of<double>({2}, {2, 2}));
  const double nan = std::nan("");
  g.output(sparse_cg(m.in(g), g.constant(Tensor::of<double>({2, 3}, {1, nan, HUGE_VAL, 3, 1, 1}))).x);
  for (KernelDispatch dispatch : {KernelDispatch::native, KernelDispatch::common})
    CHECK(difference(run(g, {}, 1, dispatch)[0], Tensor::of<double>({2, 3}, {0.5, nan, nan, 1.5, nan, nan})) == "");
}
TEST_CASE("conjugate gradients say that they did not get there, and stop where the matrix is not positive") {
  auto solved = [](std::initializer_list<double> diagonal, const CgOptions& options) {
    Graph g;
    SparseMatrix m(SparseFormat::coo, 2, 2, Tensor::of<int32_t>({2}, {0, 1}), Tensor::of<int32_t>({2}, {0, 1}),
                   Tensor::of<double>({2}, diagonal));
    auto [x, iterations] = sparse_cg(m.in(g), g.constant(Tensor::of<double>({2, 2}, {1, 0, 3, 0})), options);
    g.output(x);
    g.output(iterations);
    auto native = run(g, {}, 1, KernelDispatch::native), common = run(g, {}, 1, KernelDispatch::common);
    CHECK(difference(native, common) == "");
    return native;
  };
  // Two different eigenvalues need two steps; a column of zeros needs none.
  CHECK(difference(solved({1, 4}, {})[0], Tensor::of<double>({2, 2}, {1, 0, 0.75, 0})) == "");
  CHECK(solved({1, 4}, {})[1] == Tensor::of<int32_t>({2}, {2, 0}));
  CHECK(solved({1, 4}, {.max_iterations = 1})[1] == Tensor::of<int32_t>({2}, {-1, 0}));
  CHECK(solved({1, 4}, {.preconditioner = Preconditioner::jacobi})[1] == Tensor::of<int32_t>({2}, {1, 0}));
  auto wrong = solved({1, -4}, {});
  CHECK(wrong[0] == Tensor::of<double>({2, 2}, {0, 0, 0, 0}));
  CHECK(wrong[1].values<int32_t>()[0] <= 0);
}
