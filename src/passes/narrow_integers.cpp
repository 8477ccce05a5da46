// See the header.
#include "passes/narrow_integers.h"

#include <algorithm>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/integer_ranges.h"
#include "passes/subgraphs.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

bool is_of_64_bits(DType t) { return t == i64 || t == u64; }

bool holds_64_bits(const Graph& g) {
  bool found = false;
  for (const Node& node : g.nodes()) {
    for (const Type& t : node.types) found |= is_of_64_bits(t.dtype);
    if (!node.attrs.empty() && holds_subgraph(node.attrs))
      with_subgraphs(node.attrs, [&](const Graph& body) { return found |= holds_64_bits(body), body; });
  }
  return found;
}

bool is_listed(const OpDef* op, std::initializer_list<const OpDef*> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

/// Which operands are places, from the first such on; nothing if none are.
std::optional<std::pair<size_t, size_t>> place_operands(const Node& node) {
  const size_t count = node.operands.size();
  if (node.op == &op::gather) return std::pair<size_t, size_t>{1, 2};
  if (node.op == &op::scatter && node.attrs.as<ScatterAttrs>().kind != ScatterKind::custom)
    return std::pair<size_t, size_t>{1, 2};
  if (node.op == &op::dynamic_slice) return std::pair<size_t, size_t>{1, count};
  if (node.op == &op::dynamic_update_slice) return std::pair<size_t, size_t>{2, count};
  return std::nullopt;
}

/// Ops of which the same numbers come out in i32 as in 64 bits, if all that goes in and comes out is within i32: what
/// wraps on the way (a sum's parts) wraps back.
bool means_the_same(const Node& node, const IntegerRanges& ranges) {
  const OpDef* op = node.op;
  if (op == &op::reduce) return node.attrs.as<ReduceAttrs>().kind != Reduction::custom;
  if (op == &op::reduce_window) return node.attrs.as<ReduceWindowAttrs>().kind != Reduction::custom;
  if (op == &op::scatter) return node.attrs.as<ScatterAttrs>().kind != ScatterKind::custom;
  if (op == &op::sort) return !node.attrs.as<SortAttrs>().comparator;
  if (is_listed(op, {&op::shift_left, &op::shift_right_logical, &op::shift_right_arithmetic})) {
    const IntegerRange by = ranges.of(node.operands[1]);
    return by.least >= 0 && by.most < 32 && (op != &op::shift_right_logical || ranges.of(node.operands[0]).least >= 0);
  }
  return is_listed(op, {&op::constant,
                        &op::iota,
                        &op::extent,
                        &op::convert,
                        &op::compare,
                        &op::select,
                        &op::add,
                        &op::sub,
                        &op::mul,
                        &op::div,
                        &op::rem,
                        &op::neg,
                        &op::abs,
                        &op::sign,
                        &op::maximum,
                        &op::minimum,
                        &op::bitwise_and,
                        &op::bitwise_or,
                        &op::bitwise_xor,
                        &op::bitwise_not,
                        &op::broadcast_in_dim,
                        &op::reshape,
                        &op::transpose,
                        &op::slice,
                        &op::pad,
                        &op::concatenate,
                        &op::reverse,
                        &op::gather,
                        &op::dynamic_slice,
                        &op::dynamic_update_slice,
                        &op::dot_general,
                        &op::convolution,
                        &op::stop_gradient,
                        &op::optimization_barrier});
}

std::string name_in_notes(const Node& node) {
  return node.name.empty() ? std::string(node.op->name) : text_of(node.op->name, " '", node.name, "'");
}

class IntegerNarrower {
 public:
  IntegerNarrower(const Graph& from, const IntegerRanges& ranges) : from_(from), ranges_(ranges) {}

  /// `inputs`: which of them are i32 in the new graph. `outputs`: which are; the others have the dtype that they had.
  Graph run(const Mask& inputs, const Mask& outputs) {
    Graph to(from_.name());
    size_t next = 0;
    const auto leaf = [&](Ref r) {
      const Node& node = from_.node(r);
      Type type = node.types[0];
      if (node.op == &op::param) return to.param(node.name, type);
      if (inputs[next++]) type.dtype = i32;
      return to.input(node.name, type);
    };
    const std::vector<Value> made = replay(to, from_, leaf, [&](const Site& site) { return emitted(site); });
    for (size_t i = 0; i < made.size(); ++i) {
      const DType was = from_.type(from_.outputs()[i].ref).dtype;
      to.output(convert(made[i], outputs[i] ? i32 : was), from_.outputs()[i].name);
    }
    return prune(std::move(to));
  }
  std::vector<std::string> narrowed, kept;  ///< what values became i32, and what did not

 private:
  bool fits(Ref r) const { return ranges_.of(r).fits(i32); }
  bool is_wide(Ref r) const { return is_of_64_bits(from_.type(r).dtype); }

  std::optional<std::vector<Value>> emitted(const Site& site) {
    const Node& node = site.node;
    if (is_listed(node.op, {&op::if_else, &op::while_loop, &op::scan})) return control(site);
    bool any = false, all_fit = true;
    for (Ref r : node.operands)
      if (is_wide(r)) any = true, all_fit &= fits(r);
    for (size_t i = 0; i < node.types.size(); ++i)
      if (is_of_64_bits(node.types[i].dtype)) any = true, all_fit &= fits(result(site, i));
    if (!any) return std::nullopt;
    note(site, all_fit && means_the_same(node, ranges_));
    if (!all_fit || !means_the_same(node, ranges_)) return as_it_was(site);
    std::vector<Value> operands(site.operands.begin(), site.operands.end());
    for (Value& v : operands)
      if (is_of_64_bits(v.dtype())) v = convert(v, i32);
    if (node.op == &op::constant) return std::vector{site.to.constant(as_i32(node.attrs.as<ConstantAttrs>().value))};
    if (node.op == &op::convert && node.attrs.as<ConvertAttrs>().dtype == operands[0].dtype()) return operands;
    std::vector<Value> out = site.to.emit(*node.op, operands, in_i32(node));
    for (size_t i = 0; i < out.size(); ++i)
      if (const DType wanted = node.types[i].dtype; !is_of_64_bits(wanted)) out[i] = convert(out[i], wanted);
    return out;
  }
  static Ref result(const Site& site, size_t i) { return {static_cast<int32_t>(site.index), static_cast<int32_t>(i)}; }

  /// With operands of the dtypes that it had.
  std::vector<Value> as_it_was(const Site& site) const {
    std::vector<Value> operands;
    for (size_t i = 0; i < site.operands.size(); ++i)
      operands.push_back(convert(site.operands[i], from_.type(site.node.operands[i]).dtype));
    return site.to.emit(*site.node.op, std::move(operands), site.node.attrs);
  }
  static Tensor as_i32(const Tensor& t) {
    Tensor y = Tensor::uninitialized(i32, t.shape());
    for (size_t i = 0; i < t.element_count(); ++i)
      y.mutable_values<int32_t>()[i] = static_cast<int32_t>(load_index(t, i));
    return y;
  }
  /// Attributes that name a dtype of 64 bits name i32.
  static Attrs in_i32(const Node& node) {
    const auto other = [](DType t) { return is_of_64_bits(t) ? i32 : t; };
    if (node.op == &op::convert) return ConvertAttrs{other(node.attrs.as<ConvertAttrs>().dtype)};
    if (node.op == &op::iota) {
      IotaAttrs a = node.attrs.as<IotaAttrs>();
      a.type.dtype = other(a.type.dtype);
      return a;
    }
    if (node.op == &op::extent) {
      ExtentAttrs a = node.attrs.as<ExtentAttrs>();
      a.dtype = other(a.dtype);
      return a;
    }
    if (node.op == &op::dot_general) {
      DotAttrs a = node.attrs.as<DotAttrs>();
      if (a.accumulate) a.accumulate = other(*a.accumulate);
      return a;
    }
    if (node.op == &op::convolution) {
      ConvAttrs a = node.attrs.as<ConvAttrs>();
      if (a.accumulate) a.accumulate = other(*a.accumulate);
      return a;
    }
    return node.attrs;
  }

  // ---- graphs in attributes ----

  std::vector<Value> control(const Site& site) {
    const auto& entries = ranges_.subgraph_inputs(site.index);
    const Node& node = site.node;
    const size_t skipped = node.op == &op::if_else ? 1 : 0;  // the condition, which is no input of a branch
    Mask inputs, outputs;
    for (size_t i = skipped; i < node.operands.size(); ++i)
      inputs.push_back(is_wide(node.operands[i]) && entries[0][i - skipped].fits(i32));
    for (size_t i = 0; i < node.types.size(); ++i) {
      const bool is_carry = node.op == &op::while_loop ||
                            (node.op == &op::scan && i < static_cast<size_t>(node.attrs.as<ScanAttrs>().carries));
      outputs.push_back(is_carry ? static_cast<bool>(inputs[i])
                                 : is_of_64_bits(node.types[i].dtype) && fits(result(site, i)));
    }
    std::vector<Value> operands;
    for (size_t i = 0; i < site.operands.size(); ++i) {
      const bool is_narrow = i >= skipped && inputs[i - skipped];
      operands.push_back(convert(site.operands[i], is_narrow ? i32 : from_.type(node.operands[i]).dtype));
    }
    const auto body = [&](const Graph& g, size_t which, const Mask& out) {
      RangeFacts facts = ranges_.facts();
      facts.inputs.assign(entries[which].begin(), entries[which].end());
      const IntegerRanges ranges(g, std::move(facts));
      IntegerNarrower inside(g, ranges);
      Graph made = inside.run(inputs, out);
      narrowed.insert(narrowed.end(), inside.narrowed.begin(), inside.narrowed.end());
      kept.insert(kept.end(), inside.kept.begin(), inside.kept.end());
      return Subgraph(std::move(made));
    };
    if (node.op == &op::if_else) {
      const auto& a = node.attrs.as<IfAttrs>();
      return site.to.emit(*node.op, operands,
                          IfAttrs{body(*a.then_branch, 0, outputs), body(*a.else_branch, 1, outputs)});
    }
    if (node.op == &op::while_loop) {
      WhileAttrs a = node.attrs.as<WhileAttrs>();
      a.condition = body(*a.condition, 0, Mask(1, false)), a.body = body(*a.body, 1, outputs);
      return site.to.emit(*node.op, operands, a);
    }
    ScanAttrs a = node.attrs.as<ScanAttrs>();
    a.body = body(*a.body, 0, outputs);
    return site.to.emit(*node.op, operands, a);
  }

  void note(const Site& site, bool is_narrow) {
    for (size_t i = 0; i < site.node.types.size(); ++i)
      if (is_of_64_bits(site.node.types[i].dtype))
        (is_narrow ? narrowed : kept).push_back(text_of(name_in_notes(site.node), " ", ranges_.of(result(site, i))));
  }

  const Graph& from_;
  const IntegerRanges& ranges_;
};

/// "3 integers of 64 bits WHAT: add [0, 4], 2 x iota [0, 511]".
std::string listed(const std::vector<std::string>& values, std::string_view what) {
  constexpr size_t kMostShown = 12;
  std::vector<std::pair<std::string, size_t>> counted;
  for (const std::string& v : values) {
    const auto found = std::find_if(counted.begin(), counted.end(), [&](const auto& each) { return each.first == v; });
    if (found != counted.end()) ++found->second;
    else counted.emplace_back(v, 1);
  }
  std::string text = text_of(values.size(), values.size() == 1 ? " integer" : " integers", " of 64 bits ", what, ": ");
  for (size_t i = 0; i < counted.size() && i < kMostShown; ++i)
    text += text_of(i ? ", " : "", counted[i].second > 1 ? text_of(counted[i].second, " x ") : "", counted[i].first);
  return text + (counted.size() > kMostShown ? ", ..." : "");
}

}  // namespace

Mask inputs_used_as_indices(const Graph& g) {
  // From the last node back: a value is no place as soon as one of its uses is something else.
  std::vector<std::vector<bool>> other(g.nodes().size()), used = other;
  for (size_t n = 0; n < g.nodes().size(); ++n)
    other[n].assign(g.nodes()[n].types.size(), false), used[n].assign(g.nodes()[n].types.size(), false);
  const auto mark = [&](std::vector<std::vector<bool>>& marks, Ref r) {
    marks[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)] = true;
  };
  for (const Output& o : g.outputs()) mark(other, o.ref);
  for (size_t n = g.nodes().size(); n-- > 0;) {
    const Node& node = g.nodes()[n];
    const auto places = place_operands(node);
    const bool hands_on =
        node.types.size() == 1 && !other[n][0] &&
        (is_listed(node.op,
                   {&op::broadcast_in_dim, &op::reshape, &op::transpose, &op::slice, &op::pad, &op::concatenate,
                    &op::reverse, &op::select, &op::stop_gradient, &op::compare, &op::add, &op::sub, &op::maximum,
                    &op::minimum, &op::bitwise_and, &op::gather, &op::dynamic_slice}) ||
         (node.op == &op::convert && (is_integer(node.types[0].dtype) || node.types[0].dtype == boolean))) &&
        (is_integer(node.types[0].dtype) || node.types[0].dtype == boolean);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const bool is_place = places && i >= places->first && i < places->second;
      const bool is_data = !places || i == 0;
      // Bits and logic are something else, but for conditions.
      const bool is_logic = node.op == &op::bitwise_and && node.types[0].dtype != boolean;
      if (!is_place && (!hands_on || !is_data || is_logic)) mark(other, node.operands[i]);
      if (is_place || used[n][0]) mark(used, node.operands[i]);
    }
  }
  Mask all;
  for (Ref r : g.inputs()) {
    const auto n = static_cast<size_t>(r.node);
    all.push_back(g.type(r).dtype == i64 && used[n][0] && !other[n][0]);
  }
  return all;
}

NarrowedIntegers narrow_integers(const Graph& g, NarrowSignature signature) {
  if (!holds_64_bits(g)) return {g, {}};
  std::vector<std::string> notes;
  RangeFacts facts;
  Mask inputs(g.inputs().size(), false), outputs(g.outputs().size(), false);
  if (signature == NarrowSignature::yes) inputs = inputs_used_as_indices(g);
  for (size_t i = 0; i < inputs.size(); ++i) {
    facts.inputs.emplace_back();
    if (!inputs[i]) continue;
    facts.inputs[i] = all_numbers_of(i32);
    const Ref r = g.inputs()[i];
    notes.push_back(text_of("the input '", g.node(r).name, "' (", g.type(r),
                            ") is i32, for only places are read of it: a number that i32 does not hold is an error of "
                            "the run"));
  }
  const IntegerRanges ranges(g, std::move(facts));
  if (signature == NarrowSignature::yes)
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Output& o = g.outputs()[i];
      outputs[i] = is_of_64_bits(g.type(o.ref).dtype) && ranges.of(o.ref).fits(i32);
      if (outputs[i])
        notes.push_back(text_of("the output '", o.name, "' (", g.type(o.ref),
                                ") is computed in i32: its numbers are in ", ranges.of(o.ref)));
    }
  IntegerNarrower narrower(g, ranges);
  Graph made = narrower.run(inputs, outputs);
  if (!narrower.narrowed.empty())
    notes.push_back(listed(narrower.narrowed, "are i32, which holds all of their numbers"));
  if (!narrower.kept.empty()) notes.push_back(listed(narrower.kept, "stay, for i32 is not known to hold them"));
  return {std::move(made), std::move(notes)};
}

}  // namespace rlx
