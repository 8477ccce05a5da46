// Control flow. The blocks of `cond` and `while_loop` become closed graphs that capture what they read from outside.
// Where that cannot be (branches of unequal types, carries that change their shape, sizes that depend on data), and the
// data of a run are at hand, the branch that was taken and the trips that were made are written out instead.
#include "frontends/mil/handlers.h"
#include "rlx/element.h"

namespace rlx::mlprogram {
namespace {

constexpr int64_t kMostUnrolled = 100'000;

/// Names that blocks read and do not define themselves, and states that they write.
struct Free {
  std::set<std::string> names, states;
  bool random = false;

  void add(const mil::Block& block, std::set<std::string> bound) {
    for (const mil::NamedType& input : block.inputs) bound.insert(input.name);
    for (const mil::Operation& op : block.operations) {
      for (const auto& [parameter, argument] : op.inputs)
        for (const mil::Binding& binding : argument)
          if (const auto* name = std::get_if<std::string>(&binding)) {
            if (!bound.count(*name)) names.insert(*name);
            if (op.type == "write_state" && parameter == "input") states.insert(*name);
          }
      if (op.type.starts_with("random_")) random = true;
      for (const mil::Block& inner : op.blocks) add(inner, bound);
      for (const mil::NamedType& output : op.outputs) bound.insert(output.name);
    }
    for (const std::string& name : block.outputs)
      if (!bound.count(name)) names.insert(name);
  }
};

/// An item as the values that carry it through a graph's inputs and outputs, and back.
std::vector<Value> values_of(Scope& scope, const ItemPtr& item, const std::string& name) {
  if (item->list) {
    if (!item->list->stacked)
      fail(ErrorCode::unsupported, "the list '", name, "' is carried before its elements are known");
    return {item->list->stacked};
  }
  return {scope.value_of(item, name)};
}
ItemPtr rebuilt(const ItemPtr& like, Value value) {
  if (!like->list) return make_item(value);
  ListItem l = *like->list;
  l.stacked = value;
  return make_item(Item(std::move(l)));
}

/// What blocks take from outside: names in a fixed order, the values that must be handed in, and the states.
struct Captured {
  std::vector<std::pair<std::string, ItemPtr>> constants;  // written again inside
  std::vector<std::pair<std::string, ItemPtr>> names;      // handed in
  std::vector<std::string> states;                         // handed in, by the names of the states
  std::vector<std::string> written;                        // and those that come out again
  std::vector<Value> values;                               // of `names`, then of `states` that are not written

  Captured(Scope& scope, const Free& free) {
    std::set<std::string> read;
    for (const std::string& name : free.states) {
      ItemPtr item = scope.find(name);
      if (!item->state.empty()) written.push_back(item->state);
    }
    if (free.random) {
      scope.state(kRandomKey);
      written.push_back(kRandomKey);
    }
    for (const std::string& name : free.names) {
      ItemPtr item = scope.find(name);
      if (!item->state.empty()) {
        constants.emplace_back(name, item);
        bool out = std::find(written.begin(), written.end(), item->state) != written.end();
        if (!out) states.push_back(item->state);
      } else if (item->constant || item->strings || !item->members.empty()) {
        constants.emplace_back(name, item);
      } else if (item->list && !item->list->stacked) {
        constants.emplace_back(name, item);
      } else {
        names.emplace_back(name, item);
        for (Value v : values_of(scope, item, name)) values.push_back(v);
      }
    }
    for (const std::string& state : states) values.push_back(scope.state(state));
  }

  std::vector<Type> types() const {
    std::vector<Type> all;
    for (Value v : values) all.push_back(v.type());
    return all;
  }
  /// Makes it all known in the scope of a closed graph, whose inputs stand for `values`.
  void enter(Scope& scope, Values inputs) const {
    for (const auto& [name, item] : constants) {
      Item copy = *item;
      copy.value = {};
      scope.define(name, make_item(std::move(copy)));
    }
    size_t i = 0;
    for (const auto& [name, item] : names) scope.define(name, rebuilt(item, inputs[i++]));
    for (const std::string& state : states) scope.set_state(state, inputs[i++]);
  }
};

std::vector<Value> tensors_of(Scope& scope, const std::vector<ItemPtr>& items, const std::vector<std::string>& names) {
  std::vector<Value> values;
  for (size_t i = 0; i < items.size(); ++i)
    for (Value v : values_of(scope, items[i], names[i])) values.push_back(v);
  return values;
}

void expect_blocks(Call& op, size_t inputs) {
  if (op.op().blocks.size() != 2) op.wrong("the op has two blocks, got ", op.op().blocks.size());
  for (const mil::Block& b : op.op().blocks)
    if (b.inputs.size() != inputs) op.wrong("a block has ", b.inputs.size(), " inputs, ", inputs, " are handed to it");
}

/// The element of a condition, if anything says it now.
std::optional<bool> decided(Scope& scope, Value condition, const char* what) {
  std::optional<Tensor> found = scope.elements(condition, what);
  if (!found) return {};
  return load_number(*found, 0) != 0;
}
bool can_write_out(Scope& scope) {
  return scope.lowering().main == &scope.graph() && !scope.lowering().options.data.empty();
}

Value as_scalar(Value v) { return v.rank() == 0 ? v : rlx::reshape(v, {}); }

/// A block in place of the op: its graph is the one around it.
std::vector<ItemPtr> in_place(Call& op, const mil::Block& block, const std::vector<ItemPtr>& inputs) {
  Scope inner(op.scope().lowering(), op.graph(), &op.scope());
  for (size_t i = 0; i < inputs.size(); ++i) inner.define(block.inputs[i].name, inputs[i]);
  return inner.run(block);
}

std::vector<ItemPtr> closed_cond(Call& op, Value pred) {
  Scope& scope = op.scope();
  const auto& blocks = op.op().blocks;
  Free free;
  for (const mil::Block& b : blocks) free.add(b, {});
  Captured captured(scope, free);
  std::vector<Value> operands = captured.values;
  for (const std::string& state : captured.written) operands.push_back(scope.state(state));
  std::vector<Type> types;
  for (Value v : operands) types.push_back(v.type());
  std::vector<ItemPtr> like;
  auto branch = [&](const mil::Block& block) {
    return trace(Types(types), [&](Graph& g, Values in) {
      Scope inner(scope.lowering(), g);
      captured.enter(inner, in);
      for (size_t i = 0; i < captured.written.size(); ++i)
        inner.set_state(captured.written[i], in[captured.values.size() + i]);
      like = inner.run(block);
      std::vector<Value> out = tensors_of(inner, like, block.outputs);
      for (const std::string& state : captured.written) out.push_back(inner.state(state));
      return out;
    });
  };
  Graph then_branch = branch(blocks[0]), else_branch = branch(blocks[1]);
  std::vector<Value> out = if_else(pred, operands, std::move(then_branch), std::move(else_branch));
  std::vector<ItemPtr> results;
  for (size_t i = 0; i < like.size(); ++i) results.push_back(rebuilt(like[i], out[i]));
  for (size_t i = 0; i < captured.written.size(); ++i) scope.set_state(captured.written[i], out[like.size() + i]);
  return results;
}

std::vector<ItemPtr> closed_loop(Call& op, const std::vector<ItemPtr>& vars) {
  Scope& scope = op.scope();
  const mil::Block &condition = op.op().blocks[0], &body = op.op().blocks[1];
  Free free;
  free.add(condition, {}), free.add(body, {});
  Captured captured(scope, free);
  std::vector<std::string> names;
  for (const mil::NamedType& input : body.inputs) names.push_back(input.name);
  std::vector<Value> carries = tensors_of(scope, vars, names);
  for (const std::string& state : captured.written) carries.push_back(scope.state(state));
  std::vector<Value> operands = carries;
  operands.insert(operands.end(), captured.values.begin(), captured.values.end());
  std::vector<Type> types;
  for (Value v : operands) types.push_back(v.type());
  auto enter = [&](Scope& inner, const mil::Block& block, Values in) {
    captured.enter(inner, in.subspan(carries.size()));
    for (size_t i = 0; i < vars.size(); ++i) inner.define(block.inputs[i].name, rebuilt(vars[i], in[i]));
    for (size_t i = 0; i < captured.written.size(); ++i) inner.set_state(captured.written[i], in[vars.size() + i]);
  };
  WhileAttrs a;
  a.carries = static_cast<int64_t>(carries.size());
  a.condition = trace(Types(types), [&](Graph& g, Values in) {
    Scope inner(scope.lowering(), g);
    enter(inner, condition, in);
    std::vector<ItemPtr> out = inner.run(condition);
    if (out.size() != 1) op.wrong("the condition has ", out.size(), " outputs");
    return as_scalar(inner.value_of(out[0], condition.outputs[0]));
  });
  a.body = trace(Types(types), [&](Graph& g, Values in) {
    Scope inner(scope.lowering(), g);
    enter(inner, body, in);
    std::vector<Value> out = tensors_of(inner, inner.run(body), body.outputs);
    for (const std::string& state : captured.written) out.push_back(inner.state(state));
    return out;
  });
  std::vector<Value> out = while_loop(operands, a);
  std::vector<ItemPtr> results;
  for (size_t i = 0; i < vars.size(); ++i) results.push_back(rebuilt(vars[i], out[i]));
  for (size_t i = 0; i < captured.written.size(); ++i) scope.set_state(captured.written[i], out[vars.size() + i]);
  return results;
}

/// Whether the program declares that a var's size may change from trip to trip.
bool has_open_vars(Call& op) {
  const auto& inputs = op.op().blocks[1].inputs;
  return std::any_of(inputs.begin(), inputs.end(), [](const mil::NamedType& input) {
    return input.type.kind == mil::ValueType::Kind::tensor && !input.type.shape();
  });
}

std::vector<ItemPtr> written_out_loop(Call& op, std::vector<ItemPtr> vars) {
  Scope& scope = op.scope();
  for (;;) {
    std::vector<ItemPtr> condition = in_place(op, op.op().blocks[0], vars);
    if (condition.size() != 1) op.wrong("the condition has ", condition.size(), " outputs");
    Value c = as_scalar(scope.value_of(condition[0], op.op().blocks[0].outputs[0]));
    std::optional<bool> again = decided(scope, c, "whether a loop goes on");
    if (!again) throw NeedsData(ErrorCode::unsupported, "how often a loop runs depends on what is fed");
    if (!*again) return vars;
    if (++scope.lowering().unrolled > kMostUnrolled)
      op.refuse("the loop must be written out trip by trip, and makes more than ", kMostUnrolled, " of them");
    vars = in_place(op, op.op().blocks[1], vars);
  }
}

}  // namespace

MIL_OP(cond) {
  expect_blocks(op, 0);
  Value pred = as_scalar(op("pred"));
  const auto& blocks = op.op().blocks;
  if (op.scope().lowering().main == &op.graph() && op.scope().lowering().evaluator->is_constant(pred.ref()))
    return Results(in_place(op, blocks[*decided(op.scope(), pred, "a condition") ? 0 : 1], {}));
  if (!can_write_out(op.scope())) return Results(closed_cond(op, pred));
  try {
    return Results(closed_cond(op, pred));
  } catch (const Error&) {
    std::optional<bool> taken = decided(op.scope(), pred, "which branch is taken");
    if (!taken) throw;
    return Results(in_place(op, blocks[*taken ? 0 : 1], {}));
  }
}

MIL_OP(while_loop) {
  std::vector<ItemPtr> vars = op.items("loop_vars");
  expect_blocks(op, vars.size());
  for (const mil::Block& b : op.op().blocks)
    if (&b == &op.op().blocks[1] && b.outputs.size() != vars.size())
      op.wrong("the body has ", b.outputs.size(), " outputs for ", vars.size(), " loop_vars");
  const bool can = can_write_out(op.scope());
  try {
    return Results(closed_loop(op, vars));
  } catch (const Error& e) {
    if (can) return Results(written_out_loop(op, vars));
    if (e.code() != ErrorCode::shape_mismatch || !has_open_vars(op)) throw;
    throw NeedsData(ErrorCode::unsupported,
                    "the loop may change the sizes of what it carries: run the package with its data");
  }
}

}  // namespace rlx::mlprogram
