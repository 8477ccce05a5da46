// See the header.
#include "plan/movable_plan.h"

#include <algorithm>

#include "base/rounded_up.h"
#include "ir/leaves.h"
#include "rlx/ops/control.h"

namespace rlx {
namespace {

void for_each_symbol(const Graph& g, const std::function<void(const std::string&)>& f);
void for_each_symbol(const Node& node, const std::function<void(const std::string&)>& f) {
  for (const Type& type : node.types)
    for (const Dim& dim : type.dims) dim.for_each_symbol(f);
  if (node.attrs.empty()) return;
  node.attrs.mapped({[&](const Dim& dim) {
                       dim.for_each_symbol(f);
                       return dim;
                     },
                     [&](const Subgraph& body) {
                       if (body) for_each_symbol(*body, f);
                       return body;
                     }});
}
void for_each_symbol(const Graph& g, const std::function<void(const std::string&)>& f) {
  for (const Node& node : g.nodes()) for_each_symbol(node, f);
}

/// Puts other numbers into these nodes of `numbered`: in order, all that have a symbol whose number is another one now,
/// or an operand with one, since an op may refuse its operand's new extents where its own result has none. If it fails,
/// some nodes have the new numbers.
void resubstitute(Graph& numbered, const Graph& symbolic, const Bindings& bindings, std::span<const size_t> nodes) {
  for (size_t n : nodes) {
    // Graphs are not changed once they are built: this one is the plan's own, and nobody else sees it.
    auto& node = const_cast<Node&>(numbered.nodes()[n]);
    const Node& from = symbolic.nodes()[n];
    if (is_leaf(from) && from.op != &op::constant) {
      for (size_t d = 0; d < from.types[0].dims.size(); ++d)
        node.types[0].dims[d] = from.types[0].dims[d].bound(bindings);
      byte_count(node.types[0].dtype, shape_of(node.types[0].dims));  // fails if it overflows
      continue;
    }
    std::vector<Type> operands;
    for (Ref r : node.operands) operands.push_back(numbered.type(r));
    node.attrs = substitute(from.attrs, bindings);
    // Inferred again, as numbers can be wrong where symbols were not: a slice may end behind its operand.
    node.types = infer_types(*node.op, operands, node.attrs);
    for (const Type& type : node.types) byte_count(type.dtype, shape_of(type.dims));  // fails if it overflows
  }
}

bool is_view(const StoragePlan& storage, size_t n) {
  return !storage.places[n].empty() && storage.places[n][0].is_view;
}

}  // namespace

bool MovablePlan::can_move(const Graph& symbolic, const Planned& planned) {
  std::set<std::string> symbols;
  for_each_symbol(symbolic, [&](const std::string& symbol) { symbols.insert(symbol); });
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
    SymbolSet own = 0, all = 0;
    for_each_symbol(node, [&](const std::string& symbol) { own |= symbol_bits_.at(symbol); });
    for (Ref r : node.operands) {
      const auto from = static_cast<size_t>(r.node);
      all |= own_of[from];
      // The strides of a view have the symbols of what it looks at.
      if (is_view(storage_, from)) all |= prepared_for_[from];
    }
    own_of.push_back(own), prepared_for_.push_back(own | all);
  }
  // Whether a value may be a view is a question about its users, behind barriers too.
  placed_for_ = prepared_for_;
  for (size_t n = nodes.size(); n-- > 0;)
    for (Ref r : nodes[n].operands)
      placed_for_[static_cast<size_t>(r.node)] |=
          nodes[n].op == &op::optimization_barrier ? placed_for_[n] : prepared_for_[n];
  add_answers(numbered_, uses_, maker_.storage_rules(), nodes_with(placed_for_, ~SymbolSet{0}), storage_);
}

std::vector<size_t> MovablePlan::nodes_with(const std::vector<SymbolSet>& symbols, SymbolSet changed) const {
  std::vector<size_t> nodes;
  for (size_t n = 0; n < symbols.size(); ++n)
    if (symbols[n] & changed) nodes.push_back(n);
  return nodes;
}

bool MovablePlan::move(const Bindings& bindings) {
  SymbolSet changed = 0;
  for (const auto& [symbol, number] : bindings)
    if (bindings_.at(symbol) != number) changed |= symbol_bits_.at(symbol);
  fresh_.assign(launches_.size(), false);
  if (!changed) return true;
  const std::vector<std::shared_ptr<Launch>> launches = launches_;
  const std::vector<BufferLife> lives = lives_;
  const auto go_back = [&] {
    resubstitute(numbered_, symbolic_, bindings_, nodes_with(prepared_for_, changed));
    const std::vector<size_t> placed = nodes_with(placed_for_, changed);
    if (!move_storage(numbered_, uses_, maker_.storage_rules(), placed, storage_))
      fail(ErrorCode::internal, "the plan of '", numbered_.name(), "' does not go back to the extents it was made for");
    launches_ = launches, lives_ = lives;
    fresh_.assign(launches_.size(), false);
  };
  if (!move_all(bindings, changed)) return go_back(), false;
  bindings_ = bindings;
  return true;
}

bool MovablePlan::move_all(const Bindings& bindings, SymbolSet changed) {
  resubstitute(numbered_, symbolic_, bindings, nodes_with(prepared_for_, changed));
  if (!move_storage(numbered_, uses_, maker_.storage_rules(), nodes_with(placed_for_, changed), storage_)) return false;
  for (Update u : updates_)
    if (!lies_in_input(numbered_, storage_, u)) return false;
  if (!make_launches(changed)) return false;
  for (size_t r = 0; r < storage_.roots.size(); ++r)
    if (storage_.roots[r].kind == RootKind::arena) lives_[r].bytes = storage_.roots[r].bytes;
  for (size_t s = 0; s < launches_.size(); ++s) lives_[storage_.roots.size() + s].bytes = launches_[s]->scratch_bytes();
  fit_arena();
  collect_offsets();
  executor_ = executor_.moved(launches_, offsets_, scratch_offsets_, arena_.bytes);
  return true;
}

bool MovablePlan::make_launches(SymbolSet changed) {
  for (size_t s = 0; s < sources_.size(); ++s) {
    const StepSource& source = sources_[s];
    const bool is_copy = source.output != SIZE_MAX;
    const Ref copied = is_copy ? numbered_.outputs()[source.output].ref : Ref{};
    const size_t n = is_copy ? static_cast<size_t>(copied.node) : source.node;
    if (!(prepared_for_[n] & changed)) continue;
    std::unique_ptr<Launch> launch;
    if (is_copy) {
      const auto [from, to] = copied_views(numbered_, storage_, source.output);
      launch = maker_.copy(from, to);
    } else {
      launch = std::move(maker_.launch(placed_node(numbered_, storage_, read_, n)).launch);
    }
    for (size_t i = 0; i < (is_copy ? 1 : numbered_.nodes()[n].operands.size()); ++i)
      if (launch->reads_operand(i) != launches_[s]->reads_operand(i)) return false;
    launches_[s] = std::move(launch), fresh_[s] = true;
  }
  return true;
}

/// What grows beyond its room gets twice what it needs, so that a cache that grows by a token seldom plans its arena,
/// but not more than this on top: memory that is large is not to be asked for twice.
constexpr size_t kMostSlackBytes = size_t{64} << 20;

void MovablePlan::fit_arena() {
  std::vector<BufferLife> room = room_;
  bool fits = true;
  for (size_t i = 0; i < lives_.size(); ++i) {
    if (aligned(lives_[i].bytes) <= aligned(room[i].bytes)) continue;
    fits = false;
    room[i].bytes = lives_[i].bytes + std::min(lives_[i].bytes, kMostSlackBytes);
  }
  if (fits) return;
  arena_ = plan_arena(room);
  room_ = std::move(room);
  ++arena_count_;
}

void MovablePlan::collect_offsets() {
  offsets_.clear(), scratch_offsets_.clear();
  const auto add = [&](Ref r) {
    const Place& place = storage_.of(r);
    const DType dtype = numbered_.type(r).dtype;
    const size_t element = is_byte_sized(dtype) ? byte_size(dtype) : 1;
    const bool in_arena = storage_.roots[place.root].kind == RootKind::arena;
    offsets_.push_back(static_cast<size_t>(place.offset) * element + (in_arena ? arena_.offsets[place.root] : 0));
  };
  for (size_t s = 0; s < sources_.size(); ++s) {
    scratch_offsets_.push_back(arena_.offsets[storage_.roots.size() + s]);
    if (sources_[s].output != SIZE_MAX) {
      add(numbered_.outputs()[sources_[s].output].ref);
      offsets_.push_back(0);
      continue;
    }
    const size_t n = sources_[s].node;
    for (Ref r : numbered_.nodes()[n].operands) add(r);
    for (size_t r = 0; r < numbered_.nodes()[n].types.size(); ++r) add({int32_t(n), int32_t(r)});
  }
}

}  // namespace rlx
