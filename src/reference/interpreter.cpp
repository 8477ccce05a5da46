// Runs graphs; see the header.
#include "reference/interpreter.h"

#include "base/user_code.h"
#include "ir/leaves.h"

namespace rlx {
namespace {

std::vector<Tensor> run_graph(const Graph& g, Tensors inputs) { return interpret(g, inputs); }

}  // namespace

std::vector<Tensor> run_op(const OpDef& op, const Attrs& attrs, Tensors inputs) {
  if (op.reference)
    return user_code([&] { return text_of("the reference of '", op.name, "'"); },
                     [&] { return op.reference(inputs, attrs, run_graph); });
  std::vector<Type> types;
  for (const Tensor& t : inputs) types.push_back(t.type());
  return interpret(trace(types, [&](Graph& g, Values in) { return decompose(g, op, in, attrs); }), inputs);
}

std::vector<Tensor> run_op(const OpDef& op, const Attrs& attrs, Tensors inputs, std::span<const Type> results) {
  std::vector<Tensor> made = run_op(op, attrs, inputs);
  if (made.size() != results.size())
    fail(ErrorCode::invalid_argument, "the reference gives ", made.size(), " results, its inference ", results.size());
  for (size_t r = 0; r < made.size(); ++r)
    if (made[r].type() != results[r])
      fail(ErrorCode::invalid_argument, "result ", r, " of the reference is ", made[r].type(), "; its inference says ",
           results[r]);
  return made;
}

std::vector<Tensor> interpret(const Graph& g, Tensors inputs, const std::map<std::string, Tensor>& params) {
  Bindings bindings = solve_symbols(g, inputs);
  std::vector<std::vector<Tensor>> values;
  size_t next_input = 0;
  for (const Node& node : g.nodes()) {
    if (node.op == &op::input) {
      values.push_back({inputs[next_input++]});
      continue;
    }
    if (node.op == &op::param) {
      auto found = params.find(node.name);
      if (found == params.end())
        fail(ErrorCode::invalid_argument, "param '", node.name, "' of '", g.name(), "' is not bound");
      if (found->second.type() != node.types[0])
        fail(ErrorCode::shape_mismatch, "param '", node.name, "' is ", node.types[0], ", got ", found->second.type());
      values.push_back({found->second});
      continue;
    }
    std::vector<Tensor> operands;
    for (Ref r : node.operands) operands.push_back(values[size_t(r.node)][size_t(r.result)]);
    values.push_back(run_op(*node.op, substitute(node.attrs, bindings), operands));
  }
  std::vector<Tensor> outputs;
  for (const Output& o : g.outputs()) outputs.push_back(values[size_t(o.ref.node)][size_t(o.ref.result)]);
  return outputs;
}

}  // namespace rlx
