// The arguments of an op, as a MilBuilder is given them, as those of an operation in a program: what is no value
// becomes a constant of the dtype that the op wants, and what is left out gets its default.
#pragma once

#include "frontends/mil/check_operation.h"
#include "rlx/mil_builder.h"

namespace rlx {

struct MilCall {
  mil::Operation op;                                          ///< without outputs
  std::vector<std::pair<std::string, mil::Value>> constants;  ///< to be defined before it
  std::vector<std::pair<std::string, std::string>> findings;  ///< what is wrong: what kind it is, and what it is
  int opset = 0;                                              ///< by whose signature
  DType dtype = f32;                                          ///< of its first tensor that may be of floats
};

/// What a call has to know of the program that it is made for.
struct MilNames {
  mlprogram::KnownOf known_of;
  /// The constant of that name; null for what is none.
  std::function<const mil::Value*(const std::string& name)> constant_of;
  /// A name like that one, which nothing has.
  std::function<std::string(const std::string& hint)> fresh;
};
/// The call in that opset.
MilCall mil_call(const std::string& op, const std::string& name, const MilArguments& arguments, int opset,
                 const MilNames& names);

/// An operation that defines a constant.
mil::Operation mil_constant(const std::string& name, const mil::Value& value);
/// As programs up to iOS 17 have them: parameters of constexpr ops are attributes.
void take_form_of_opset(mil::Block& block, int opset);

}  // namespace rlx
