// Linear algebra on the CPU, of matrices that do not lie in memory as LAPACK wants them: stacks of parts of other
// arrays, transposed; with one thread and with three; against the reference. Values from NumPy and SciPy are in
// tests/golden.
#include "ops/hard_cases.h"
#include "rlx/session.h"
#include "support/tolerance.h"

using namespace rlx;
using namespace rlx::test;

namespace {

using Build = std::function<std::vector<Value>(Value x)>;

/// f of the inner 4 by 4 (or 4 by 3) parts of x[2, 3, 6, 6], transposed.
Graph of_parts(DType t, int64_t columns, const Build& f) {
  return trace(std::array{Type{t, {2, 3, 6, 6}}}, [&](Values v) {
    Value x = slice(v[0], {0, 1, 1, 1}, {2, 3, 1 + columns, 5});
    return f(swap_axes(x, 2, 3));
  });
}

struct Case {
  const char* name;
  Build build;
  int64_t columns = 4;
};
Value dominant(Value x) { return x + eye(x.graph(), {x.dtype(), {4, 4}}) * 8.0; }
std::vector<Case> all_cases() {
  return {
      {"lu",
       [](Value x) {
         auto p = lu(x);
         return std::vector{p.lu, p.pivots, p.permutation};
       },
       3},
      {"cholesky", [](Value x) { return std::vector{cholesky(dominant(x), true, Triangle::upper)}; }},
      {"geqrf",
       [](Value x) {
         auto p = geqrf(x);
         return std::vector{p.packed, p.taus};
       },
       3},
      {"householder_product",
       [](Value x) {
         return std::vector{householder_product(x, reshape(slice(x, {0, 0, 0, 0}, {2, 2, 1, 3}), {2, 2, 3}))};
       },
       3},
      {"qr",
       [](Value x) {
         auto p = qr(x);
         return std::vector{p.q, p.r};
       },
       3},
      {"triangular_solve", [](Value x) { return std::vector{triangular_solve(dominant(x), x)}; }},
      {"solve",
       [](Value x) {
         return std::vector{solve(dominant(x), x), solve(dominant(x), x, Transposition::adjoint)};
       }},
      {"inverse", [](Value x) { return std::vector{inverse(dominant(x))}; }},
      {"eigh",
       [](Value x) {
         auto p = eigh(x);
         return std::vector{p.values, p.vectors};
       }},
      {"svd",
       [](Value x) {
         auto p = svd(x);
         return std::vector{p.u, p.s, p.vt};
       },
       3},
      {"eig",
       [](Value x) {
         auto p = eig(x);
         return std::vector{p.values, p.vectors};
       }},
  };
}

}  // namespace

TEST_CASE("stacks of transposed parts of other arrays are factorized as the reference does") {
  for (const Case& c : all_cases())
    for (DType t : {f32, f64, c64, c128}) {
      Graph g = of_parts(t, c.columns, c.build);
      Tensor x = random_tensor(t, {2, 3, 6, 6}, 7);
      auto wanted = interpret(g, std::array{x});
      for (int threads : {1, 3}) {
        auto got = Session(Device::cpu(), {threads}).compile(g).run_ordered(std::array{x});
        // Condition numbers of random 4 by 4 matrices are some tens.
        std::string why = difference(got, wanted, 50 * tolerance_of(t));
        CHECK_MESSAGE(why.empty(), c.name, " ", t, " with ", threads, " threads: ", why);
      }
    }
}
