// What bench/product_accuracy measures: an op with its operands, its exact result, and what one unit of error is for
// each element of it. Each op's file (matmul.cpp, convolution.cpp, ...) makes such cases, of sizes that stand in the
// table and of random ones, and derives its unit; table.cpp and search.cpp know no op.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rlx/rlx.h"
#include "tests/support/product_distributions.h"

namespace rlx::accuracy {

/// Whose products ours stand beside.
enum class Peer { openblas, onednn };

struct Operand {
  std::string name;
  Shape dims;
  std::vector<float> values;
  bool is_weight = false;  ///< may be a constant
};

struct Case {
  std::vector<Operand> operands;
  std::vector<double> exact;  ///< of each element of the result
  std::vector<double> unit;   ///< what an error of 1 means
  int64_t terms = 1;          ///< of the longest sum
  bool is_exact = false;      ///< each sum has one term: nothing may be lost but by the rounding of the result

  virtual ~Case() = default;
  /// Its results, one behind the other, are what `exact` holds.
  virtual std::vector<Value> build(const std::vector<Value>& operands) const = 0;
  /// The same in f32 with that peer's products. Empty if the peer does not offer it.
  virtual std::vector<float> by_peer(Peer peer) const = 0;
};

/// What the operands hold: those on the left, row by row, and those on the right.
struct Filling {
  std::function<void(Matrix&, Random&)> rows, weights;
  bool one_hot = false;  ///< each of the rows has one number that is not 0
};

/// One size of an op.
struct Problem {
  std::string size;
  unsigned seed = 0;  ///< of its operands in the table
  std::function<std::unique_ptr<Case>(const Filling&, Random&)> make;
};

struct Op {
  const char* name;
  std::vector<Problem> (*problems)();  ///< of the table
  Problem (*random)(Random&);
};
extern const Op kMatmul, kLinear, kConvolution, kAttention, kLstm;

struct Errors {
  double worst = 0, thousandth = 0;  ///< in units: of all elements, and what one in a thousand exceeds
  double worst_of_root = 0;          ///< worst over sqrt(terms)
};
/// By how many units each element of y is further off than half an ulp.
std::vector<double> errors_in_units(const Case& c, const std::vector<float>& y);
/// Zeros without elements. `terms`: of the longest sum.
Errors summary(std::vector<double> errors, int64_t terms);

std::vector<float> by_rlx(const Case& c, bool constant, const CompileOptions& options);

/// Each of the rows has one number that is not 0.
bool is_one_hot(const Distribution& rows);

/// A whole number from `low` to `high`.
inline int64_t between(Random& r, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(r() % (high - low + 1));
}
/// The same, small ones more often.
inline int64_t mostly_small(Random& r, int64_t low, int64_t high) { return between(r, low, between(r, low, high)); }

}  // namespace rlx::accuracy
