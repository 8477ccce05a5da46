// What combines by a function of one's own is spelled out first. Two rounds where they are needed: the first leaves ops
// that have a rule, of complex numbers or of many dims, as they are, and parts without elements; the second makes what
// is left of those legal.
#include "compile/coreml_pipeline.h"

#include "compile/spell_out_combiners.h"
#include "passes/collapse_rank.h"
#include "passes/split_complex.h"
#include "passes/split_words.h"
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

/// A pass that the runner of passes does not run, within the same bounds.
template <class Pass>
Graph limited(const Graph& g, Pass pass) {
  const GrowthLimit limit(room_to_grow(g), [&] { return text_of("graph '", g.name(), "'"); });
  return pass(g);
}

struct Found {
  bool complex = false, wide = false, empty = false, words = false;
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

bool has_double_words(const Graph& g) {
  bool found = false;
  for (const Node& node : g.nodes()) {
    for (const Type& t : node.types) found |= t.dtype == i64 || t.dtype == u64;
    if (!node.attrs.empty())
      with_subgraphs(node.attrs, [&](const Graph& body) { return found |= has_double_words(body), body; });
  }
  return found;
}

/// Where the caller lets integers be narrowed, only those are kept whole whose high halves are read.
Found found_in(const Graph& g, bool narrow) {
  Found found;
  look(g, found);
  found.words = narrow ? reads_high_words(g) : has_double_words(g);
  return found;
}

/// What an input or output becomes: the same walk as the two passes take over the signature.
void note_signature(const Graph& before, const Graph& after, std::vector<std::string>& notes) {
  auto note = [&](std::string_view what, const std::string& name, const Type& from, const Type& to) {
    if (is_complex(from.dtype))
      notes.push_back(text_of("the ", what, " '", name, "' is ", from, " in the graph, and '", name, "_re' and '", name,
                              "_im' of ", to, " in the package"));
    else if (is_wide(from, coreml::kMostDims))
      notes.push_back(text_of("the ", what, " '", name, "' is ", from, " in the graph, and ", to,
                              " in the package: its leading dims are joined"));
  };
  auto in = before.input_types(), new_in = after.input_types();
  for (size_t i = 0, k = 0; i < in.size(); k += is_complex(in[i].dtype) ? 2 : 1, ++i)
    note("input", before.node(before.inputs()[i]).name, in[i], new_in.at(k));
  auto out = before.output_types(), new_out = after.output_types();
  for (size_t i = 0, k = 0; i < out.size(); k += is_complex(out[i].dtype) ? 2 : 1, ++i)
    note("output", before.outputs()[i].name, out[i], new_out.at(k));
}

}  // namespace

bool is_to_be_split(const Graph& g) {
  Found found = found_in(g, false);
  return found.complex || found.wide || found.empty || found.words;
}

Pipelined coreml_pipeline(const Graph& g, const coreml::Options& options, std::vector<std::string>* notes) {
  coreml::Options first = options;
  first.before_split = true;
  Pipelined legal = run_pipeline(limited(g, spell_out_combiners), *coreml::make_backend(first), {});
  if (legal.report.count(Verdict::missing)) return legal;
  Found found = found_in(legal.graph, options.narrow);
  if (!found.complex && !found.wide && !found.empty && !found.words) return legal;
  Graph plain = std::move(legal.graph);
  if (found.words) plain = limited(plain, [&](const Graph& before) { return split_words(before, !options.narrow); });
  if (found.empty) plain = without_empty_parts(plain);
  if (found.complex) plain = limited(plain, split_complex);
  if (found.wide) plain = limited(plain, [](const Graph& before) { return collapse_rank(before, coreml::kMostDims); });
  Pipelined second = run_pipeline(plain, *coreml::make_backend(options), {});
  for (DispatchLine& line : second.report.lines)
    if (line.verdict == Verdict::missing) legal.report.lines.push_back(std::move(line));
  if (notes) note_signature(g, second.graph, *notes);
  return {std::move(second.graph), std::move(legal.report)};
}

}  // namespace rlx
