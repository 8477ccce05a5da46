// Which values of two packages are the same value of one model, by what computes them and what reads them.
//
// From the inputs on, an operation of one is that of the other if both are the same operation, of aligned values, with
// like constants; where several are, as the products of queries, keys and values are, the names that a user gave tell
// them, what reads the results, and at last the results themselves. From the outputs back the same holds of what
// aligned operations read. Where one package has other operations than the other, fused or split ones, the order of
// what is left says where both go on alike, and the walk continues from there: a value that aligned operations read in
// the same place is one value, whatever made it. What contradicts what is aligned already, or could be several, stays
// alone.
#pragma once

#include <functional>

#include "tools/compare_structure.h"

namespace rlx::tools {

struct Alignment {
  /// For each value of the first package that of the second, and back; nothing where there is none.
  std::vector<std::optional<size_t>> b_of_a, a_of_b;
};

/// How far a value of the first is from one of the second, as a part of its largest magnitude; nothing if that is not
/// known. It only tells values apart that are the same to the structure.
using Likeness = std::function<std::optional<double>(size_t a, size_t b)>;

Alignment align(const ProgramStructure& a, const ProgramStructure& b, const Likeness& distance);

/// A name that is no mere number of an operation: "attention_out" and "encoder.3.bias", and not "linear_4" or "var_12".
/// What precisions add to it is taken off. Empty if there is none.
std::string given_name(const std::string& name, const std::string& op);

}  // namespace rlx::tools
