// See the header.
#include "frontends/mil/evaluate.h"

#include "ir/leaves.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/ops/control.h"
#include "rlx/ops/shape.h"

namespace rlx::mlprogram {
namespace {

using Budget = Evaluator::Budget;

std::vector<Tensor> run_node(const Node& node, const std::vector<Tensor>& operands, Budget& budget);

/// A body of control flow on its inputs.
std::vector<Tensor> run_body(const Graph& g, Tensors inputs, Budget& budget) {
  int64_t before = budget.bytes;
  std::vector<std::vector<Tensor>> values(g.nodes().size());
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(g.inputs()[i].node)] = {inputs[i]};
  auto value = [&](Ref r) { return values[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]; };
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    if (node.op == &op::input) continue;
    if (node.op == &op::constant) {
      values[n] = {node.attrs.as<ConstantAttrs>().value};
      continue;
    }
    std::vector<Tensor> operands;
    for (Ref r : node.operands) operands.push_back(value(r));
    values[n] = run_node(node, operands, budget);
  }
  std::vector<Tensor> outputs;
  for (const Output& o : g.outputs()) outputs.push_back(value(o.ref));
  budget.bytes = before;  // the values go; what stays is the node's, and taken there
  return outputs;
}

/// An op by its reference; control flow trip by trip, so that they are counted.
std::vector<Tensor> run_node(const Node& node, const std::vector<Tensor>& operands, Budget& budget) {
  budget.take(node.types);
  if (node.op == &op::while_loop) {
    const auto& a = node.attrs.as<WhileAttrs>();
    std::vector<Tensor> state = operands;
    for (int64_t trip = 0; !a.max_trips || trip < *a.max_trips; ++trip) {
      budget.take_trip();
      if (load_number(run_body(*a.condition, state, budget)[0], 0) == 0) break;
      std::vector<Tensor> next = run_body(*a.body, state, budget);
      std::move(next.begin(), next.end(), state.begin());
    }
    state.resize(static_cast<size_t>(a.carries));
    return state;
  }
  if (node.op == &op::if_else) {
    const auto& a = node.attrs.as<IfAttrs>();
    bool holds = load_number(operands[0], 0) != 0;
    return run_body(holds ? *a.then_branch : *a.else_branch, Tensors(operands).subspan(1), budget);
  }
  return run_op(*node.op, node.attrs, operands);
}

}  // namespace

void Evaluator::Budget::take_trip() {
  if (--trips < 0) fail(ErrorCode::unsupported, "loops that decide sizes make more than 100000 trips");
}
void Evaluator::Budget::take(const std::vector<Type>& results) {
  constexpr int64_t kElement = 16;  // what the reference computes with: a double, or two
  for (const Type& t : results) {
    if (!is_static(t.dims)) continue;
    int64_t needed = 0;
    if (__builtin_mul_overflow(element_count(shape_of(t.dims)), kElement, &needed) || (bytes -= needed) < 0)
      fail(ErrorCode::out_of_memory, "what decides sizes would take more than 2 GiB: ", t);
  }
}

Evaluator::Source Evaluator::source_of(int32_t node) {
  const auto& nodes = graph_->nodes();
  while (sources_.size() <= static_cast<size_t>(node)) {  // operands stand before their users
    const Node& n = nodes[sources_.size()];
    Source source = Source::constants;
    if (n.op == &op::input || n.op == &op::param) source = Source::inputs;
    for (const Type& t : n.types)
      if (!is_static(t.dims)) source = Source::inputs;
    if (n.op == &op::extent && !n.attrs.as<ExtentAttrs>().dim.is_static()) source = Source::inputs;
    for (Ref r : n.operands)
      if (sources_[static_cast<size_t>(r.node)] == Source::inputs) source = Source::inputs;
    sources_.push_back(source);
  }
  return sources_[static_cast<size_t>(node)];
}

bool Evaluator::is_constant(Ref r) { return source_of(r.node) == Source::constants; }

std::optional<Tensor> Evaluator::value(Ref wanted) {
  std::vector<Ref> open = {wanted};  // a stack instead of recursion: chains of nodes may be long
  while (!open.empty()) {
    Ref r = open.back();
    if (values_.count(r)) {
      open.pop_back();
      continue;
    }
    const Node& n = graph_->node(r);
    if (n.op == &op::input || n.op == &op::param) return std::nullopt;
    if (n.op == &op::extent && !n.attrs.as<ExtentAttrs>().dim.is_static()) return std::nullopt;
    for (const Type& t : n.types)
      if (!is_static(t.dims)) return std::nullopt;
    bool ready = true;
    for (Ref operand : n.operands)
      if (!values_.count(operand)) open.push_back(operand), ready = false;
    if (!ready) continue;
    open.pop_back();
    if (n.op == &op::constant) {
      values_[r] = n.attrs.as<ConstantAttrs>().value;
      continue;
    }
    std::vector<Tensor> operands;
    for (Ref operand : n.operands) operands.push_back(values_.at(operand));
    std::vector<Tensor> results = run_node(n, operands, budget_);
    for (size_t i = 0; i < results.size(); ++i) values_[{r.node, static_cast<int32_t>(i)}] = std::move(results[i]);
  }
  return values_.at(wanted);
}

}  // namespace rlx::mlprogram
