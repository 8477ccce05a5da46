// Samples of ops with other extents than they were written with: which dims can be changed together, and what an op
// says to that.
#pragma once

#include <algorithm>
#include <optional>

#include "autodiff/transforms.h"
#include "ir/leaves.h"
#include "support/laws.h"

namespace rlx::laws {

/// A dim of an operand of a sample.
struct Place {
  size_t operand, dim;
};

/// The sample with `extent` at `places`, which all have one extent now. If `in_attributes`, also in each dim of its
/// attributes that equals the old extent; sub-graphs stay as they are.
inline Sample with_extent(Sample s, const std::vector<Place>& places, const Dim& extent, bool in_attributes) {
  Dim old = s.dims[places[0].operand][places[0].dim];
  for (Place p : places) s.dims[p.operand][p.dim] = extent;
  if (in_attributes)
    s.attrs =
        s.attrs.mapped({[&](const Dim& d) { return d == old ? extent : d; }, [](const Subgraph& g) { return g; }});
  return s;
}

/// Sets of places to change together: each place alone, each two of equal extent, and all of one extent; none that is
/// 0.
inline std::vector<std::vector<Place>> choices(const Sample& s) {
  std::vector<Place> places;
  for (size_t i = 0; i < s.dims.size(); ++i)
    for (size_t d = 0; d < s.dims[i].size(); ++d)
      if (s.dims[i][d] != Dim(0)) places.push_back({i, d});
  auto extent = [&](Place p) { return s.dims[p.operand][p.dim]; };
  std::vector<std::vector<Place>> all;
  for (size_t p = 0; p < places.size(); ++p) {
    std::vector<Place> equal;
    for (size_t q = 0; q < places.size(); ++q)
      if (extent(places[p]) == extent(places[q])) equal.push_back(places[q]);
    all.push_back({places[p]});
    for (size_t q = p + 1; q < places.size(); ++q)
      if (equal.size() > 2 && extent(places[p]) == extent(places[q])) all.push_back({places[p], places[q]});
    if (equal.size() > 1 && equal[0].operand == places[p].operand && equal[0].dim == places[p].dim)
      all.push_back(std::move(equal));
  }
  return all;
}

inline std::vector<Type> types_of(const Sample& s) { return laws::case_of(s).types; }

/// Does the error tell users what is wrong with their operands? Not so internal errors, nor exceptions out of a rule,
/// whose messages say " threw" (base/user_code.h).
inline bool is_refusal(const Error& e) {
  return e.code() != ErrorCode::internal && std::string_view(e.what()).find(" threw") == std::string_view::npos;
}
/// False if the op refuses such operands.
inline bool takes(const OpDef& op, const Sample& s) {
  try {
    infer_types(op, types_of(s), s.attrs);
    return true;
  } catch (const Error& e) {
    if (!is_refusal(e)) throw;
    return false;
  }
}

/// With a cotangent for each result that takes one: the graph of the gradient, if the op has one.
inline std::optional<Graph> gradient_of(const OpDef& op, const Graph& g) {
  auto any = [](const Mask& mask) { return std::find(mask.begin(), mask.end(), true) != mask.end(); };
  Mask wrt = differentiable_inputs(g), given = differentiable_outputs(g);
  if (!op.differentiable || !any(wrt) || !any(given)) return std::nullopt;
  return vjp(g, wrt, given);
}

}  // namespace rlx::laws
