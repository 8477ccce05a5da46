// What ops of MIL take, by opset; see signatures.def.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::mlprogram {

struct Parameter {
  std::string name;
  /// "list", "tuple", "state", "any", or a letter: parameters of one letter have one dtype.
  std::string kind;
  bool constant = false;  ///< to be known when the program is loaded
  bool optional = false;
};
struct Signature {
  int opset = 5;  ///< the first that has it so
  std::vector<Parameter> parameters;
  std::map<std::string, std::vector<std::string>> domains;  ///< dtypes for each letter, "fp16" ...
  const Parameter* find(std::string_view name) const;
};

/// The op's signature in that opset; null if the opset has no such op. `first` is then the opset that has, or 0.
const Signature* find_signature(std::string_view op, int opset, int* first = nullptr);

}  // namespace rlx::mlprogram
