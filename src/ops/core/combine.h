// How the reference of the combining primitives (reduce, reduce_window, scatter, ...) combines elements: by name, or
// by a sub-graph over several operands at once.
#pragma once

#include <limits>

#include "ops/core/elementwise_rules.h"
#include "rlx/ops/contract.h"

namespace rlx {

/// x combined with y. Integers wrap; max and min of a NaN are NaN.
template <class T>
T combined(Reduction kind, T x, T y) {
  auto both = [&](auto f) -> T {
    if constexpr (std::is_same_v<T, int64_t>)
      return static_cast<int64_t>(f(static_cast<uint64_t>(x), static_cast<uint64_t>(y)));
    else return f(x, y);
  };
  switch (kind) {
    case Reduction::sum: return both([](auto a, auto b) { return a + b; });
    case Reduction::prod: return both([](auto a, auto b) { return a * b; });
    case Reduction::max:
    case Reduction::min:
      if constexpr (!std::is_same_v<T, Complex>) {
        if (x != x) return x;
        if (y != y) return y;
        return (kind == Reduction::max) == (x < y) ? y : x;
      }
      break;
    case Reduction::all: return T(x != T(0) && y != T(0));
    case Reduction::any: return T(x != T(0) || y != T(0));
    case Reduction::custom: break;
  }
  return x;
}

/// The result of a named reduction over no elements, as a tensor of rank 0.
Tensor initial_value(Reduction kind, DType dtype);
/// Fails unless the named reduction is defined for the dtype of `t`.
void require_reducible(const Type& t, Reduction kind);
/// Fails unless `body` maps n running scalars and n elements to n running scalars, of the dtypes of `xs`, and `inits`
/// are scalars of these dtypes.
void require_combiner(const Subgraph& body, Types xs, Types inits);

/// Combines elements of several operands at once with running scalars.
class Combiner {
 public:
  /// `inits` is empty for a named reduction.
  Combiner(Reduction kind, const Subgraph& body, Tensors xs, Tensors inits, const Run& run)
      : kind_(kind), body_(body), xs_(xs), inits_(inits.begin(), inits.end()), run_(run) {
    if (kind != Reduction::custom) inits_ = {initial_value(kind, xs[0].dtype())};
  }
  /// The running scalars, for each index of a shape.
  class Cells {
   public:
    Cells(Shape shape, const Combiner& combiner);
    /// Begins with these tensors instead of the initial values.
    Cells(std::vector<Tensor> start, const Combiner& combiner);
    /// Combines elements `at` of the operands into the cell at `index`.
    void add(const Axes& index, size_t at);
    std::vector<Tensor> results() const;

   private:
    const Combiner& combiner_;
    const Shape shape_;
    // The running scalars: numbers of the widest type of their kind, which are rounded once at the end (real_), or the
    // tensors that a body runs on (cells_).
    std::vector<Tensor> cells_;
    std::vector<double> real_;
  };

 private:
  Reduction kind_;
  const Subgraph& body_;
  Tensors xs_;
  std::vector<Tensor> inits_;
  const Run& run_;
};

}  // namespace rlx
