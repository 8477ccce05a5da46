// See the header. For one graph; the caller goes into bodies first (with_bodies), so that what an inner loop gives up
// may leave the outer one in turn. A walk backwards over the body decides where the cut is, as in hoist_params.
#include "passes/hoist_invariants.h"

#include <map>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/subgraphs.h"
#include "rlx/ops/control.h"
#include "rlx/ops/shape.h"

namespace rlx {
namespace {

bool is_one_of(const Node& node, std::initializer_list<const OpDef*> ops) {
  return std::find(ops.begin(), ops.end(), node.op) != ops.end();
}

/// Which nodes of a body leave it.
struct Cut {
  const Graph& body;
  size_t first_captured;
  std::vector<bool> invariant, stays, leaves;  // by node; those that leave are read inside

  Cut(const Graph& b, size_t first)
      : body(b), first_captured(first), invariant(b.nodes().size()), stays(invariant), leaves(invariant) {
    for (size_t i = first; i < b.inputs().size(); ++i) invariant[size_t(b.inputs()[i].node)] = true;
    for (size_t n = 0; n < invariant.size(); ++n) {
      const Node& node = b.nodes()[n];
      if (is_one_of(node, {&op::input, &op::optimization_barrier}) || holds_programs(node)) continue;
      invariant[n] =
          std::all_of(node.operands.begin(), node.operands.end(), [&](Ref r) { return invariant[size_t(r.node)]; });
    }
    for (const Output& o : b.outputs()) stays[size_t(o.ref.node)] = true;
    for (size_t n = invariant.size(); n-- > 0;) {
      if (!stays[n]) continue;
      if (may_leave(n)) stays[n] = false, leaves[n] = true;
      else
        for (Ref r : b.nodes()[n].operands) stays[size_t(r.node)] = true;
    }
  }

  bool may_leave(size_t n) const {
    const Node& node = body.nodes()[n];
    return invariant[n] && !node.operands.empty() &&
           !is_one_of(node, {&op::reshape, &op::transpose, &op::slice, &op::broadcast_in_dim}) &&
           std::all_of(node.types.begin(), node.types.end(), [&](const Type& t) { return is_worth_keeping(t); });
  }
  bool is_worth_keeping(const Type& t) const {
    constexpr size_t kFewBytes = 1 << 16;
    auto bytes = [](const Type& type) { return byte_count(type.dtype, shape_of(type.dims)); };
    if (is_static(t.dims) && bytes(t) <= kFewBytes) return true;
    auto types = body.input_types();
    return std::any_of(types.begin() + std::ptrdiff_t(first_captured), types.end(), [&](const Type& c) {
      if (is_static(t.dims) && is_static(c.dims)) return bytes(t) <= bytes(c);
      return t.dims == c.dims && is_byte_sized(t.dtype) && is_byte_sized(c.dtype) &&
             byte_size(t.dtype) <= byte_size(c.dtype);
    });
  }
};

/// A loop whose bodies are handed what was computed in front of it.
struct Hoisting {
  const Site& site;
  size_t first_captured;
  std::vector<Value> operands{site.operands.begin(), site.operands.end()};
  std::vector<Type> added = {};

  /// Emits in front of the loop what leaves `body`, and returns for each such value its place among the operands.
  std::map<Ref, size_t> computed(const Graph& body, const Cut& cut) {
    std::vector<bool> needed = cut.leaves;
    for (size_t n = needed.size(); n-- > 0;)
      if (needed[n])
        for (Ref r : body.nodes()[n].operands) needed[size_t(r.node)] = true;
    Uses uses(body);
    std::map<Ref, Value> values;
    std::map<Ref, size_t> places;
    for (size_t i = cut.first_captured; i < body.inputs().size(); ++i) values[body.inputs()[i]] = site.operands[i];
    std::string scope = site.to.scope();
    for (size_t n = 0; n < needed.size(); ++n) {
      const Node& node = body.nodes()[n];
      if (!needed[n] || node.op == &op::input) continue;
      std::vector<Value> in;
      for (Ref r : node.operands) in.push_back(values.at(r));
      if (!node.name.empty()) site.to.set_scope(node.name);
      auto out = site.to.emit(*node.op, std::move(in), node.attrs);
      site.to.set_scope(scope);
      for (size_t r = 0; r < out.size(); ++r) {
        Ref ref{int32_t(n), int32_t(r)};
        values[ref] = out[r];
        if (!cut.leaves[n]) continue;
        const auto& users = uses.of(ref);
        if (uses.outputs(ref) == 0 &&
            std::none_of(users.begin(), users.end(), [&](int32_t u) { return cut.stays[size_t(u)]; }))
          continue;
        places[ref] = operands.size();
        operands.push_back(out[r]);
        added.push_back(out[r].type());
      }
    }
    return places;
  }

  /// `body` with the added inputs; `places` of what it finds there.
  Graph rewired(const Graph& body, const Cut& cut, const std::map<Ref, size_t>& places) const {
    Graph to(body.name());
    std::map<Ref, Value> values;
    for (Ref r : body.inputs()) values[r] = to.input(body.node(r).name, body.type(r));
    std::vector<Value> inputs;
    for (const Type& type : added) {
      std::string name;
      for (size_t number = to.inputs().size(); name.empty() || names_an_input(to, name); ++number)
        name = text_of("hoisted.", number);
      inputs.push_back(to.input(name, type));
    }
    for (auto [ref, place] : places) values[ref] = inputs[place - site.operands.size()];
    for (size_t n = 0; n < body.nodes().size(); ++n) {
      const Node& node = body.nodes()[n];
      if (!cut.stays[n] || node.op == &op::input) continue;
      std::vector<Value> in;
      for (Ref r : node.operands) in.push_back(values.at(r));
      to.set_scope(node.name);
      auto out = to.emit(*node.op, std::move(in), node.attrs);
      for (size_t r = 0; r < out.size(); ++r) values[{int32_t(n), int32_t(r)}] = out[r];
    }
    to.set_scope("");
    for (const Output& o : body.outputs()) to.output(values.at(o.ref), o.name);
    return to;
  }
  static bool names_an_input(const Graph& body, const std::string& name) {
    return std::any_of(body.inputs().begin(), body.inputs().end(), [&](Ref r) { return body.node(r).name == name; });
  }
};

std::optional<std::vector<Value>> hoist_from(const Site& site, size_t first_captured,
                                             const std::vector<const Graph*>& bodies,
                                             const std::function<Attrs(const std::vector<Graph>&)>& with) {
  Hoisting hoisting{site, first_captured};
  std::vector<Cut> cuts;
  std::vector<std::map<Ref, size_t>> places;
  for (const Graph* body : bodies) {
    cuts.emplace_back(*body, first_captured);
    places.push_back(hoisting.computed(*body, cuts.back()));
  }
  if (hoisting.added.empty()) return std::nullopt;
  std::vector<Graph> rewired;
  for (size_t b = 0; b < bodies.size(); ++b) rewired.push_back(hoisting.rewired(*bodies[b], cuts[b], places[b]));
  return site.to.emit(*site.node.op, hoisting.operands, with(rewired));
}

}  // namespace

Graph hoist_invariants(const Graph& g) {
  if (std::none_of(g.nodes().begin(), g.nodes().end(),
                   [](const Node& node) { return node.op == &op::scan || node.op == &op::while_loop; }))
    return g;
  return rewritten(g, [](const Site& site) -> std::optional<std::vector<Value>> {
    if (site.node.op == &op::scan) {
      const auto& a = site.node.attrs.as<ScanAttrs>();
      return hoist_from(site, static_cast<size_t>(a.carries + a.xs), {&*a.body}, [&](const auto& bodies) {
        ScanAttrs rewired = a;
        rewired.body = bodies[0];
        return Attrs(rewired);
      });
    }
    if (site.node.op == &op::while_loop) {
      const auto& a = site.node.attrs.as<WhileAttrs>();
      return hoist_from(site, static_cast<size_t>(a.carries), {&*a.condition, &*a.body}, [&](const auto& bodies) {
        return Attrs(WhileAttrs{a.carries, bodies[0], bodies[1], a.max_trips});
      });
    }
    return std::nullopt;
  });
}

}  // namespace rlx
