// The leaves of a graph. `input` and `param` carry their type in the node: no rule could infer it.
#include "ir/leaves.h"

namespace rlx {
namespace {

OpDef leaf(std::string_view name, std::string_view doc, std::string_view covers) {
  return define<>({
      .name = name,
      .doc = doc,
      .covers = {covers},
      .infer = [name](Types) -> Type {
        fail(ErrorCode::invalid_argument, "an ", name, " is made by Graph::", name,
             ", which gives it a name and a type");
      },
  });
}

}  // namespace

OpDef define_input() { return leaf("input", "a value that is fed at each run, by name", "Input"); }
OpDef define_param() { return leaf("param", "a value that is bound once, after compiling, by name", "Param"); }
OpDef define_constant() {
  return define<ConstantAttrs>({
      .name = "constant",
      .doc = "a literal",
      .covers = {"Constant"},
      .moves_data = true,
      .infer = [](Types, const ConstantAttrs& a) { return a.value.type(); },
      .reference = [](Tensors, const ConstantAttrs& a) { return a.value; },
  });
}

bool is_leaf(const Node& node) { return node.op == &op::input || node.op == &op::param || node.op == &op::constant; }

}  // namespace rlx
