// See the header.
#include "backends/coreml/take_apart.h"

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/collapse_rank.h"
#include "passes/integer_ranges.h"
#include "passes/narrow_integers.h"
#include "passes/split_complex.h"
#include "passes/split_words.h"
#include "passes/subgraphs.h"
#include "rlx/ops/shape.h"

namespace rlx::coreml {
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
  bool complex = false, wide = false, empty = false, words = false;
};
void look(const Graph& g, Found& found) {
  for (const Node& node : g.nodes()) {
    for (const Type& t : node.types) {
      found.complex |= is_complex(t.dtype);
      found.wide |= is_wide(t, kMostDims);
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

bool holds_any(const Graph& g, bool narrow) {
  const Found found = found_in(g, narrow);
  return found.complex || found.wide || found.empty || found.words;
}

/// Adds a line for each node of `g`, and of the graphs in it, whose integers of 64 bits nothing is done about.
void add_integers_that_stay(const Graph& g, const IntegerRanges& ranges, std::vector<DispatchLine>& lines) {
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    const auto& entries = ranges.subgraph_inputs(n);
    if (!entries.empty()) {
      size_t which = 0;
      with_subgraphs(node.attrs, [&](const Graph& body) {
        RangeFacts facts = ranges.facts();
        facts.inputs.assign(entries[which].begin(), entries[which].end());
        ++which;
        add_integers_that_stay(body, IntegerRanges(body, std::move(facts)), lines);
        return body;
      });
    }
    if (node.op == &op::input || node.op == &op::param) continue;
    std::vector<Type> types;
    for (Ref r : node.operands) types.push_back(g.type(r));
    if (entries.empty() && !cannot_split_words({node, types})) continue;
    // The value that is to blame: one that i32 may not hold, else any.
    std::optional<std::string> what;
    bool is_found = false;
    const auto look = [&](Ref r, std::string name) {
      const DType t = g.type(r).dtype;
      const bool fits = ranges.of(r).fits(i32);
      if ((t != i64 && t != u64) || is_found || (what && fits)) return;
      what = text_of(std::move(name), ", ", g.type(r), ", is known to be in ", ranges.of(r));
      is_found = !fits;
    };
    for (size_t i = 0; i < node.operands.size(); ++i) look(node.operands[i], text_of("its operand ", i));
    for (size_t i = 0; i < node.types.size(); ++i)
      look({static_cast<int32_t>(n), static_cast<int32_t>(i)}, text_of("its result ", i));
    if (!what) continue;
    lines.push_back(
        {node.name, std::string(node.op->name), Verdict::missing,
         text_of("Core ML has no integers of 64 bits, and no rule makes two words of 32 of them here; ", *what,
                 ": where its numbers are those of i32, convert or clamp it to that, or permit that all of them "
                 "are narrowed (--narrow, narrow=True, CompileOptions::narrow)")});
  }
}

}  // namespace

std::vector<DispatchLine> integers_that_stay(const Graph& g) {
  std::vector<DispatchLine> lines;
  if (!has_double_words(g)) return lines;
  const Graph narrowed = narrow_integers(g, NarrowSignature::yes).graph;
  add_integers_that_stay(narrowed, IntegerRanges(narrowed), lines);
  return lines;
}

bool is_taken_apart(const Graph& g) { return holds_any(g, false); }
bool is_taken_apart_where_narrowed(const Graph& g) { return holds_any(g, true); }

Graph with_inputs_for_odd_params(const Graph& g) {
  return with_leaves(g, [](Graph& to, const Node& leaf) {
    const Type& t = leaf.types[0];
    const bool is_input = leaf.op == &op::input || is_complex(t.dtype) || is_wide(t, kMostDims);
    return is_input ? to.input(leaf.name, t) : to.param(leaf.name, t);
  });
}

std::vector<Pass> passes_that_take_apart(const Options& options) {
  const bool narrow = options.narrow;
  const auto where = [](bool(Found::*sort), Graph (*run)(const Graph&)) {
    return [=](const Graph& g) { return found_in(g, false).*sort ? run(g) : g; };
  };
  std::vector<Pass> passes = {
      // Before dims are joined: two words may be one dim more.
      {"split_words", [narrow](const Graph& g) { return found_in(g, narrow).words ? split_words(g, !narrow) : g; }},
      {"drop_empty_parts", where(&Found::empty, without_empty_parts)},
      {"split_complex", where(&Found::complex, split_complex)},
      {"collapse_rank", where(&Found::wide, [](const Graph& g) { return collapse_rank(g, kMostDims); })},
  };
  if (options.words_in_signature && !narrow)
    passes.insert(passes.begin(), {"split_word_signature", split_word_signature});
  const NarrowSignature signature = options.is_signature_narrowed ? NarrowSignature::no : NarrowSignature::yes;
  if (!narrow)
    passes.insert(passes.begin(),
                  {"narrow_integers", [signature](const Graph& g) { return narrow_integers(g, signature).graph; }});
  return passes;
}

}  // namespace rlx::coreml
