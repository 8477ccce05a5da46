// One operation held to the signature of its op: that there is such an op, its arguments' names, their dtypes, which of
// them are constants. Whoever looks at a program that is there (lint.cpp) and whoever writes one (devices/coreml,
// mil_builder) say the same.
#pragma once

#include <functional>

#include "frontends/mil/lower.h"
#include "frontends/mil/signatures.h"
#include "io/mil.h"

namespace rlx::mlprogram {

constexpr int kFirstOpset = 5;
constexpr size_t kMostDims = 5;  // of a tensor in a program, weights apart

/// What is known of a name: its type, and whether it is known when the program is loaded.
struct Known {
  mil::ValueType type;
  bool constant = false;
};
/// Null for a name that nothing defines.
using KnownOf = std::function<const Known*(const std::string& name)>;
/// Is told of each thing that is wrong: one word for what kind it is, and what it is.
using OnFinding = std::function<void(const char* rule, const std::string& what)>;

/// Letters, digits, '_' and '@', no digit first.
bool is_identifier(std::string_view name);
/// Null, and a finding, if the opset has no such op.
const Signature* signature_of(const std::string& op, int opset, const OnFinding& found);
/// An operation that is no const.
void check_arguments(const mil::Operation& op, const Signature& signature, int opset, const KnownOf& known_of,
                     const TensorOf& tensor_of, const OnFinding& found);
/// A literal, wherever its data stand; what `tensor_of` throws is a finding.
void check_literal(const std::string& name, const mil::Value& value, const TensorOf& tensor_of, const OnFinding& found);
/// Whether the operation's results are known when the program is loaded.
bool has_constant_results(const mil::Operation& op, const KnownOf& known_of);

}  // namespace rlx::mlprogram
