// What an Apple loader would refuse of a package, found without one: the rules that Core ML and coremltools hold
// programs to. Running a program here asks less (call.cpp reads a literal where Apple wants a name, and so on).
//
// Sources: the op registry of coremltools 9.0 (signatures.def), its milproto front end, Model.proto, MIL.proto.
#pragma once

#include "frontends/mil/lower.h"
#include "io/mil.h"

namespace rlx::mlprogram {

struct Finding {
  std::string rule;   ///< one word for what kind it is: "layout", "version", "name", "argument", "dtype", "blob" ...
  std::string where;  ///< "main", "main/relu 'act_1'", "input 'x'"; empty for the model as a whole
  std::string what;   ///< what is wrong, with the values
};

/// In the order of the program. `tensor_of` reads what stands in files; what it throws is a finding.
std::vector<Finding> lint(const mil::Model& model, const TensorOf& tensor_of);

}  // namespace rlx::mlprogram
