// Two rounds where they are needed: the first leaves ops that have a rule, of complex numbers or of many dims, as they
// are, and parts without elements; the second makes what is left of those legal.
#include "compile/coreml_pipeline.h"

#include "passes/collapse_rank.h"
#include "passes/split_complex.h"
#include "passes/subgraphs.h"
#include "rlx/ops/shape.h"

namespace rlx {
namespace {

bool is_empty(const Type& t) { return std::find(t.dims.begin(), t.dims.end(), Dim(0)) != t.dims.end(); }

/// Concatenations without the operands that have no elements; those go, if nothing else wants them.
Graph without_empty_parts(const Graph& g) {
  return with_bodies(g, [](const Graph& body) {
    return rewritten(body, [](const Site& site) -> std::optional<std::vector<Value>> {
      if (site.node.op != &op::concatenate) return std::nullopt;
      std::vector<Value> parts;
      for (const Value& v : site.operands)
        if (!is_empty(v.type())) parts.push_back(v);
      if (parts.empty() || parts.size() == site.operands.size()) return std::nullopt;
      return std::vector{concatenate(parts, site.node.attrs.as<AxisAttrs>().axis)};
    });
  });
}

struct Found {
  bool complex = false, wide = false, empty = false;
};
void look(const Graph& g, Found& found) {
  for (const Node& node : g.nodes()) {
    for (const Type& t : node.types) {
      found.complex |= is_complex(t.dtype);
      found.wide |= is_wide(t, coreml::kMostDims);
      found.empty |= is_empty(t);
    }
    if (!node.attrs.empty()) with_subgraphs(node.attrs, [&](const Graph& body) { return look(body, found), body; });
  }
}

}  // namespace

Pipelined coreml_pipeline(const Graph& g, const coreml::Options& options) {
  coreml::Options first = options;
  first.before_split = true;
  Pipelined legal = run_pipeline(g, *coreml::make_backend(first), {});
  if (legal.report.count(Verdict::missing)) return legal;
  Found found;
  look(legal.graph, found);
  if (!found.complex && !found.wide && !found.empty) return legal;
  Graph plain = std::move(legal.graph);
  if (found.empty) plain = without_empty_parts(plain);
  if (found.complex) plain = split_complex(plain);
  if (found.wide) plain = collapse_rank(plain, coreml::kMostDims);
  Pipelined second = run_pipeline(plain, *coreml::make_backend(options), {});
  for (DispatchLine& line : second.report.lines)
    if (line.verdict == Verdict::missing) legal.report.lines.push_back(std::move(line));
  return {std::move(second.graph), std::move(legal.report)};
}

}  // namespace rlx
