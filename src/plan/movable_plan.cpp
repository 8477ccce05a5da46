// See the header.
#include "plan/movable_plan.h"

#include <algorithm>
#include <unordered_map>

#include "base/rounded_up.h"
#include "ir/leaves.h"
#include "passes/bound_values.h"
#include "plan/byte_offset.h"
#include "rlx/ops/control.h"

namespace rlx {
namespace {

bool is_view(const StoragePlan& storage, size_t n) {
  return !storage.places[n].empty() && storage.places[n][0].is_view;
}

}  // namespace

bool MovablePlan::can_move(const Graph& symbolic, const Planned& planned) {
  std::set<std::string> symbols;
  for (const Node& node : symbolic.nodes())
    for_each_symbol(node, [&](const std::string& symbol) { symbols.insert(symbol); });
  return !planned.has_joined && !symbols.empty() && symbols.size() <= 64;
}

MovablePlan::MovablePlan(const Graph& symbolic, Graph& numbered, Bindings bindings, LaunchMaker& maker, Planned planned,
                         std::vector<Update> updates, const std::vector<const Tensor*>& fixed)
    : symbolic_(symbolic), numbered_(numbered), bindings_(std::move(bindings)), maker_(maker),
      updates_(std::move(updates)), storage_(std::move(planned.storage)), uses_(numbered), read_(read_values(numbered)),
      sources_(std::move(planned.sources)), lives_(std::move(planned.lives)),
      room_(lives_), arena_{std::move(planned.offsets), static_cast<size_t>(planned.plan.arena_bytes.value())},
      launches_(std::move(planned.launches)), fresh_(launches_.size()), executor_(planned.plan, launches_, fixed) {
  const auto& nodes = symbolic_.nodes();
  for (const auto& [symbol, number] : bindings_) symbol_bits_.emplace(symbol, SymbolSet{1} << symbol_bits_.size());
  std::vector<SymbolSet> own_of;  // by node: the symbols in its types and attributes
  for (const Node& node : nodes) {
    SymbolSet own = 0, attrs = 0, all = 0;
    for_each_symbol(node.types, [&](const std::string& symbol) { own |= symbol_bits_.at(symbol); });
    for_each_symbol(node.attrs, [&](const std::string& symbol) { attrs |= symbol_bits_.at(symbol); });
    for (Ref r : node.operands) {
      const auto from = static_cast<size_t>(r.node);
      all |= own_of[from];
      // The strides of a view have the symbols of what it looks at.
      if (is_view(storage_, from)) all |= prepared_for_[from];
    }
    own_of.push_back(own | attrs), attrs_have_.push_back(attrs), prepared_for_.push_back(own | attrs | all);
  }
  // Whether a value is a view is a question about its users, behind barriers too.
  placed_for_ = prepared_for_;
  for (size_t n = nodes.size(); n-- > 0;)
    for (Ref r : nodes[n].operands)
      if (const auto from = static_cast<size_t>(r.node); may_be_view(*nodes[from].op))
        placed_for_[from] |= nodes[n].op == &op::optimization_barrier ? placed_for_[n] : prepared_for_[n];
  add_answers(numbered_, uses_, maker_.storage_rules(), affected_by(~SymbolSet{0}).placed, storage_);
  find_alike();
}

void MovablePlan::find_alike() {
  const auto& nodes = symbolic_.nodes();
  const auto are_alike = [&](size_t a, size_t b) {
    if (nodes[a].op != nodes[b].op || nodes[a].operands.size() != nodes[b].operands.size()) return false;
    for (size_t i = 0; i < nodes[a].operands.size(); ++i)
      if (symbolic_.type(nodes[a].operands[i]) != symbolic_.type(nodes[b].operands[i]) ||
          numbered_.type(nodes[a].operands[i]) != numbered_.type(nodes[b].operands[i]))
        return false;
    return nodes[a].attrs == nodes[b].attrs && numbered_.nodes()[a].attrs == numbered_.nodes()[b].attrs;
  };
  std::unordered_map<size_t, std::vector<size_t>> firsts;  // by hash
  for (size_t n = 0; n < nodes.size(); ++n) {
    alike_.push_back(n);
    if (!prepared_for_[n] || is_leaf(nodes[n])) continue;
    size_t hash = mix(std::hash<const void*>{}(nodes[n].op), hash_of(nodes[n].attrs));
    for (Ref r : nodes[n].operands) hash = mix(hash, hash_of(symbolic_.type(r)));
    std::vector<size_t>& seen = firsts[hash];
    const auto first = std::find_if(seen.begin(), seen.end(), [&](size_t m) { return are_alike(m, n); });
    if (first != seen.end()) alike_[n] = *first;
    else seen.push_back(n);
  }

  alike_as_views_ = alike_as_launches_ = alike_;
  step_of_.assign(nodes.size(), SIZE_MAX);
  for (size_t s = 0; s < sources_.size(); ++s)
    if (sources_[s].output == SIZE_MAX) step_of_[sources_[s].node] = s;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const size_t first = alike_[n];
    if (first == n) continue;
    if (!may_be_view(*nodes[n].op) || !has_alike_users(n, first)) alike_as_views_[n] = n;
    bool is_same_launch = step_of_[n] != SIZE_MAX && step_of_[first] != SIZE_MAX;
    for (size_t i = 0; i < nodes[n].operands.size(); ++i)
      for (size_t m : {n, first}) {
        const Node& from = symbolic_.node(nodes[m].operands[i]);
        is_same_launch &= from.op != &op::param && from.op != &op::constant;
      }
    for (size_t r = 0; r < nodes[n].types.size(); ++r)
      is_same_launch &= read_.contains({int32_t(n), int32_t(r)}) == read_.contains({int32_t(first), int32_t(r)});
    if (!is_same_launch) alike_as_launches_[n] = n;
  }
}

/// Whether the users of both nodes' first results are alike, in order, and read them as the same operands. A barrier
/// passes on what its users ask for, so none may be among them.
bool MovablePlan::has_alike_users(size_t node, size_t other) const {
  const Ref a{int32_t(node), 0}, b{int32_t(other), 0};
  const auto& of_a = uses_.of(a);
  const auto& of_b = uses_.of(b);
  if (uses_.outputs(a) > 0 || uses_.outputs(b) > 0 || of_a.size() != of_b.size()) return false;
  for (size_t u = 0; u < of_a.size(); ++u) {
    const Node &user = symbolic_.nodes()[size_t(of_a[u])], &other_user = symbolic_.nodes()[size_t(of_b[u])];
    if (user.op == &op::optimization_barrier || alike_[size_t(of_a[u])] != alike_[size_t(of_b[u])]) return false;
    for (size_t i = 0; i < user.operands.size(); ++i)
      if ((user.operands[i] == a) != (other_user.operands[i] == b)) return false;
  }
  return true;
}

/// Whether the operands and results of both nodes, which are alike, have the same strides.
bool MovablePlan::has_layout_of(size_t node, size_t other) const {
  const Node &a = numbered_.nodes()[node], &b = numbered_.nodes()[other];
  for (size_t i = 0; i < a.operands.size(); ++i)
    if (storage_.of(a.operands[i]).strides != storage_.of(b.operands[i]).strides) return false;
  for (size_t r = 0; r < a.types.size(); ++r)
    if (storage_.places[node][r].strides != storage_.places[other][r].strides) return false;
  return true;
}

const MovablePlan::Affected& MovablePlan::affected_by(SymbolSet symbols) {
  if (affected_.symbols == symbols) return affected_;
  affected_ = {symbols, {}, {}, {}};
  for (size_t n = 0; n < prepared_for_.size(); ++n) {
    if (prepared_for_[n] & symbols) affected_.prepared.push_back(n);
    if (placed_for_[n] & symbols) affected_.placed.push_back(n);
  }
  for (size_t s = 0; s < sources_.size(); ++s) {
    const StepSource& source = sources_[s];
    const bool is_copy = source.output != SIZE_MAX;
    const size_t n = is_copy ? static_cast<size_t>(symbolic_.outputs()[source.output].ref.node) : source.node;
    if (prepared_for_[n] & symbols) affected_.steps.push_back(s);
  }
  return affected_;
}

bool MovablePlan::move(const Bindings& bindings) {
  SymbolSet changed = 0;
  for (const auto& [symbol, number] : bindings)
    if (bindings_.at(symbol) != number) changed |= symbol_bits_.at(symbol);
  fresh_.assign(launches_.size(), false);
  if (!changed) return true;
  const Affected& affected = affected_by(changed);
  std::vector<std::shared_ptr<Launch>> launches;
  for (size_t s : affected.steps) launches.push_back(launches_[s]);
  try {
    if (move_all(bindings, affected)) {
      bindings_ = bindings;
      return true;
    }
  } catch (const Error&) {
    if (!most_reserved_) throw;  // it is not used any more
  }
  go_back(affected, std::move(launches));
  return false;
}

/// To where it was: nothing but these was changed.
void MovablePlan::go_back(const Affected& affected, std::vector<std::shared_ptr<Launch>> launches) {
  resubstitute(bindings_, affected);
  if (!move_storage(numbered_, uses_, maker_.storage_rules(), affected.placed, alike_as_views_, storage_))
    fail(ErrorCode::internal, "the plan of '", numbered_.name(), "' does not go back to the extents it was made for");
  for (size_t i = 0; i < launches.size(); ++i) launches_[affected.steps[i]] = std::move(launches[i]);
  update_lives(affected);
  fresh_.assign(launches_.size(), false);
}

bool MovablePlan::reserve(const Bindings& most, size_t most_bytes) {
  const Bindings here = bindings_;
  most_reserved_ = most_bytes;
  const bool is_there = move(most);
  most_reserved_.reset();
  if (is_there && !move(here))
    fail(ErrorCode::internal, "the plan of '", numbered_.name(), "' does not go back to the extents it was made for");
  return is_there;
}

bool MovablePlan::move_all(const Bindings& bindings, const Affected& affected) {
  resubstitute(bindings, affected);
  if (!move_storage(numbered_, uses_, maker_.storage_rules(), affected.placed, alike_as_views_, storage_)) return false;
  for (Update u : updates_)
    if (!lies_in_input(numbered_, storage_, u)) return false;
  if (!make_launches(affected)) return false;
  const bool fits = update_lives(affected);
  if (!fits) plan_arena_anew();
  for (size_t s : affected.steps) executor_.replace(s, launches_[s]);
  if (fits)
    for (size_t s : affected.steps) place_step(s);
  else
    for (size_t s = 0; s < sources_.size(); ++s) place_step(s);
  return true;
}

/// Whether the arena still has room for all.
bool MovablePlan::update_lives(const Affected& affected) {
  bool fits = true;
  const auto update = [&](size_t life, size_t bytes) {
    lives_[life].bytes = bytes;
    fits &= aligned(bytes) <= aligned(room_[life].bytes);
  };
  for (size_t n : affected.placed)
    for (size_t r = 0; r < numbered_.nodes()[n].types.size(); ++r) {
      const size_t root = storage_.of({int32_t(n), int32_t(r)}).root;
      if (storage_.roots[root].kind == RootKind::arena) update(root, storage_.roots[root].bytes);
    }
  for (size_t s : affected.steps) update(storage_.roots.size() + s, launches_[s]->scratch_bytes());
  return fits;
}

/// Puts other numbers into the nodes of the plan's graph: in order, all that have a symbol whose number is another one
/// now, or an operand with one, since an op may refuse its operand's new extents where its own result has none. If it
/// fails, some nodes have the new numbers.
void MovablePlan::resubstitute(const Bindings& bindings, const Affected& affected) {
  for (size_t n : affected.prepared) {
    // Graphs are not changed once they are built: this one is the plan's own, and nobody else sees it.
    auto& node = const_cast<Node&>(numbered_.nodes()[n]);
    const Node& from = symbolic_.nodes()[n];
    if (const size_t first = alike_[n]; first != n) {
      // It is in order before this one, and has the same symbols.
      if (attrs_have_[n] & affected.symbols) node.attrs = numbered_.nodes()[first].attrs;
      node.types = numbered_.nodes()[first].types;
      continue;
    }
    if (is_leaf(from) && from.op != &op::constant) {
      for (size_t d = 0; d < from.types[0].dims.size(); ++d)
        node.types[0].dims[d] = from.types[0].dims[d].bound(bindings);
    } else {
      // Assigned to what is there, which seldom allocates.
      operand_types_.resize(node.operands.size());
      for (size_t i = 0; i < node.operands.size(); ++i) operand_types_[i] = numbered_.type(node.operands[i]);
      if (attrs_have_[n] & affected.symbols) node.attrs = substitute(from.attrs, bindings);
      // Inferred again, as numbers can be wrong where symbols were not: a slice may end behind its operand.
      node.types = infer_types(*node.op, operand_types_, node.attrs);
    }
    for (const Type& type : node.types) {
      shape_.clear();
      for (const Dim& dim : type.dims) shape_.push_back(dim.value());
      byte_count(type.dtype, shape_);  // fails if it overflows
    }
  }
}

bool MovablePlan::make_launches(const Affected& affected) {
  for (size_t s : affected.steps) {
    const StepSource& source = sources_[s];
    std::shared_ptr<Launch> launch;
    size_t operands = 1;
    if (source.output != SIZE_MAX) {
      const auto [from, to] = copied_views(numbered_, storage_, source.output);
      launch = maker_.copy(from, to);
    } else {
      const size_t first = alike_as_launches_[source.node];
      if (first != source.node && fresh_[step_of_[first]] && has_layout_of(source.node, first))
        launch = launches_[step_of_[first]];
      else launch = std::move(maker_.launch(placed_node(numbered_, storage_, read_, source.node)).launch);
      operands = numbered_.nodes()[source.node].operands.size();
    }
    for (size_t i = 0; i < operands; ++i)
      if (launch->reads_operand(i) != launches_[s]->reads_operand(i)) return false;
    launches_[s] = std::move(launch), fresh_[s] = true;
  }
  return true;
}

/// What grows beyond its room gets twice what it needs, so that a cache that grows by a token seldom plans its arena,
/// but not more than this on top: memory that is large is not to be asked for twice.
constexpr size_t kMostSlackBytes = size_t{64} << 20;

/// Fails before anything has changed.
void MovablePlan::plan_arena_anew() {
  std::vector<BufferLife> room = room_;
  for (size_t i = 0; i < lives_.size(); ++i)
    if (aligned(lives_[i].bytes) > aligned(room_[i].bytes))
      room[i].bytes = lives_[i].bytes + (most_reserved_ ? 0 : std::min(lives_[i].bytes, kMostSlackBytes));
  ArenaPlan arena = plan_arena(room);
  if (most_reserved_ && arena.bytes > *most_reserved_)
    fail(ErrorCode::out_of_memory, "an arena of ", arena.bytes, " bytes");
  arena_ = std::move(arena);
  room_ = std::move(room);
  ++arena_count_;
  executor_.set_arena_bytes(arena_.bytes);
}

void MovablePlan::place_step(size_t s) {
  offsets_.clear();
  const auto add = [&](Ref r) {
    const Place& place = storage_.of(r);
    const auto offset = static_cast<size_t>(byte_offset(numbered_.type(r).dtype, place.offset));
    const bool in_arena = storage_.roots[place.root].kind == RootKind::arena;
    offsets_.push_back(offset + (in_arena ? arena_.offsets[place.root] : 0));
  };
  if (const size_t output = sources_[s].output; output != SIZE_MAX) {
    add(numbered_.outputs()[output].ref);
    offsets_.push_back(0);
  } else {
    const size_t n = sources_[s].node;
    for (Ref r : numbered_.nodes()[n].operands) add(r);
    for (size_t r = 0; r < numbered_.nodes()[n].types.size(); ++r) add({int32_t(n), int32_t(r)});
  }
  executor_.place(s, offsets_, arena_.offsets[storage_.roots.size() + s]);
}

}  // namespace rlx
