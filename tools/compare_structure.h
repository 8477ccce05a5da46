// What a package's function computes, without the names that its writer happened to give: the operations, and which
// reads what. Alignment (compare_alignment.h) tells by it which values of two packages are the same.
//
// Seen through is what says only how numbers are stored: casts, identities, quantize and dequantize, and everything
// that is computed of constants alone. A value is named as the operation that makes it names it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/mlpackage.h"

namespace rlx::tools {

/// An argument that is a constant: integers, bools and strings as they are, floats by their shape, as precisions differ
/// in them, and the number of a single one.
struct Literal {
  std::string text;
  std::optional<double> number = {};
  /// Equal but for the rounding of a number to f16, or for what f16 has instead of it.
  bool is_like(const Literal& other) const;
};

struct ProgramStructure {
  struct Operand {
    std::string argument;  ///< "x", or "values.2" of several
    size_t value;
  };
  struct Node {
    std::string op;  ///< "input" for what is fed
    std::map<std::string, Literal> literals = {};
    std::vector<Operand> operands = {};  ///< by their arguments' names
    size_t first = 0, results = 0;       ///< its values
    bool has_blocks = false;
  };
  struct Value {
    size_t node;
    std::string name;
    std::string shape;  ///< as it is declared, without the dtype
  };
  struct Output {
    std::string name;
    size_t value;
  };
  std::vector<Node> nodes = {};  ///< each after those that it reads
  std::vector<Value> values = {};
  std::vector<Output> outputs = {};
};

/// The main block of a function.
ProgramStructure structure_of(const MlPackage& package, const std::string& function);

}  // namespace rlx::tools
