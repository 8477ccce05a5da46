// See the header.
#include "frontends/mil/evaluate.h"

#include "ir/leaves.h"
#include "reference/interpreter.h"
#include "rlx/ops/shape.h"

namespace rlx::mlprogram {

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
    std::vector<Tensor> results = run_op(*n.op, n.attrs, operands);
    for (size_t i = 0; i < results.size(); ++i) values_[{r.node, static_cast<int32_t>(i)}] = std::move(results[i]);
  }
  return values_.at(wanted);
}

}  // namespace rlx::mlprogram
