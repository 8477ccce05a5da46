// The rules of an op, called: an op may be a user's, so whatever they throw, and too few or too many results of theirs,
// arrive as an rlx::Error that names the op.
#pragma once

#include "autodiff/transforms.h"
#include "base/user_code.h"

namespace rlx {

/// Floats and complex numbers, and blocks: numbers that follow from numbers, though no cotangent is one of blocks. What
/// makes them of a value that is differentiated ends the derivative, which is an error unless stop_gradient asks for
/// it.
inline bool carries_derivative(DType dtype) { return has_derivative(dtype) || is_block(dtype); }

template <class Rule>
std::vector<Value> ruled(std::string_view name, const OpDef& op, Rule rule) {
  return user_code([&] { return text_of("the rule `", name, "` of '", op.name, "'"); },
                   [&]() -> std::vector<Value> { return rule(); });
}
[[noreturn]] inline void wrong_count(std::string_view name, const OpDef& op, size_t got, std::string_view how,
                                     size_t wanted) {
  fail(ErrorCode::invalid_argument, "the rule `", name, "` of '", op.name, "' gives ", got, " values instead of ", how,
       wanted);
}

/// A cotangent for each of the first operands, at most for all; empty ones mean zero.
inline std::vector<Value> cotangents_by_rule(const OpDef& op, Values in, Values out, Values cts, const Attrs& attrs) {
  auto made = ruled("vjp", op, [&] { return op.vjp(in, out, cts, attrs, kTransforms); });
  if (made.size() > in.size()) wrong_count("vjp", op, made.size(), "at most ", in.size());
  return made;
}

/// The results, then the tangents of those that have a derivative.
inline std::vector<Value> tangents_by_rule(const OpDef& op, Values in, Values tangents, const Node& node) {
  auto made = ruled("jvp", op, [&] { return op.jvp(in, tangents, node.attrs, kTransforms); });
  size_t wanted = node.types.size();
  for (const Type& t : node.types) wanted += has_derivative(t.dtype);
  if (made.size() < wanted) wrong_count("jvp", op, made.size(), "", wanted);
  return made;
}

/// The results, then what the op's `vjp` wants kept beside them: the node itself where the op keeps nothing.
inline std::vector<Value> results_and_kept(Graph& to, const OpDef& op, Values in, const Attrs& attrs) {
  if (!op.save) return to.emit(op, {in.begin(), in.end()}, attrs);
  auto made = ruled("save", op, [&] { return op.save(in, attrs); });
  if (made.empty()) wrong_count("save", op, 0, "at least ", 1);
  return made;
}

/// The results for a batch, or nothing if the rule declines.
inline std::vector<Value> batched_by_rule(const OpDef& op, Values in, const Mask& batched, const Node& node) {
  auto made = ruled("batch", op, [&] { return op.batch(in, batched, node.attrs, kTransforms); });
  if (!made.empty() && made.size() != node.types.size()) wrong_count("batch", op, made.size(), "", node.types.size());
  return made;
}

}  // namespace rlx
