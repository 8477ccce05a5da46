// One op, used in an odd but valid way: a sample of the op with other dtypes, extents, ranks and attributes, as far as
// the op's `infer` takes them. What graphs are made of is random_graphs.h's affair.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "rlx/op_def.h"

namespace rlx::attack {

/// No std distribution: their algorithms differ between libraries, and with them the graphs.
struct Random {
  std::mt19937_64 bits;

  explicit Random(uint64_t seed) : bits(seed) {}
  size_t below(size_t n) { return static_cast<size_t>(bits() % n); }
  bool chance(size_t one_in) { return below(one_in) == 0; }
  double uniform(double lo, double hi) { return lo + (hi - lo) * static_cast<double>(bits() >> 11) * 0x1p-53; }
  template <class C>
  const auto& of(const C& choices) {
    return choices[below(std::size(choices))];
  }
};

/// What none of the library's functions may do, found while a graph was drawn.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// One of our own mistakes, or what a rule threw, instead of a refusal that tells a user of his operands.
bool is_our_mistake(const Error& e);

struct OpUse {
  const OpDef* op = nullptr;
  std::vector<Type> types = {};
  Attrs attrs = {};
  double lo = -2, hi = 2;  ///< of the operands, where the op computes something
};

/// Does `infer` take it, and are operands and results so small that the reference is done in no time? Throws Broken if
/// `infer` does anything but refuse.
bool is_accepted(const OpUse& use);
/// A sample of the op, varied; of its own if nothing else is accepted.
OpUse drawn_use(const OpDef& op, Random& random);

/// Odd extents, the small ones more often.
int64_t drawn_extent(Random& random);
/// Of rank 0 to 5 and few elements.
Dims drawn_dims(Random& random);
DType drawn_float(Random& random);

/// With every extent mapped: in the types of inputs, in attributes, in sub-graphs. Fails where that makes no graph.
Graph with_extents(const Graph& g, const std::function<Dim(const Dim&)>& mapped);
Attrs with_extents(const Attrs& attrs, const std::function<Dim(const Dim&)>& mapped);

/// The operands are small enough together, and each of them.
bool is_small(const std::vector<Type>& types);

}  // namespace rlx::attack
