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
  std::string otherwise = {};  ///< what it is if it is left out, where that is known: see signatures.def
};
struct Signature {
  int opset = 5;  ///< the first that has it so
  std::vector<Parameter> parameters;
  std::map<std::string, std::vector<std::string>> domains;  ///< dtypes for each letter, "fp16" ...
  const Parameter* find(std::string_view name) const;
};
/// Its parameters: "clip(x, alpha, beta)"; one that may be left out has a '?' behind it.
std::string parameters_of(std::string_view op, const Signature& signature);

/// The op's signature in that opset; null if the opset has no such op. `first` is then the opset that has, or 0.
const Signature* find_signature(std::string_view op, int opset, int* first = nullptr);
/// All ops that have one, sorted.
const std::vector<std::string_view>& ops_with_signatures();

}  // namespace rlx::mlprogram
