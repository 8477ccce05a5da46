// Programs in files, for backends that have nothing better than the legal graph: how it is written and read back.
#include "backends/backend.h"
#include "io/names_in_messages.h"
#include "ir/leaves.h"
#include "ir/text.h"
#include "passes/bound_values.h"

namespace rlx {
namespace {

/// Fails for a node that the target does not take: somebody else may have written the graph.
void require_taken(const Graph& legal, const Target& target) {
  for (const Node& node : legal.nodes()) {
    if (node.op == &op::input || node.op == &op::param || node.op == &op::constant) continue;
    std::vector<Type> types;
    for (Ref r : node.operands) types.push_back(legal.type(r));
    if (auto why = target.refuses({node, types, [&](size_t i) { return is_weight(legal, node.operands[i]); }}))
      fail(ErrorCode::unsupported, target.name, " does not run its op '", node.op->name, "': ", *why);
  }
}

}  // namespace

Payload Program::payload() const {
  GraphFile file = graph_file_of(graph());
  return {kGraphForm, std::move(file.text), std::move(file.constants)};
}

std::unique_ptr<Program> Backend::read(const Payload& payload) const {
  if (payload.form != kGraphForm)
    fail(ErrorCode::unsupported, "its form is ", quoted_name(payload.form), ", and ", name(), " reads '", kGraphForm,
         "'");
  Graph legal = parse_graph_file(payload.text, [&](std::string_view name) {
    const auto found = payload.tensors.find(name);
    if (found == payload.tensors.end())
      fail(ErrorCode::parse, "the constant ", quoted_name(name), " that it names is not there");
    return found->second;
  });
  require_taken(legal, target());
  return lower(std::move(legal));
}

}  // namespace rlx
