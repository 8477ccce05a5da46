// The verifier; see the header.
#include "ir/verify.h"

#include <unordered_set>

#include "ir/leaves.h"
#include "rlx/op_def.h"

namespace rlx {
namespace {

void verify_graph(const Graph& g, bool is_subgraph) {
  std::unordered_set<std::string_view> names;
  auto check_ref = [&](Ref r, size_t before, const char* what) {
    bool defined = r.node >= 0 && static_cast<size_t>(r.node) < before && r.result >= 0 &&
                   static_cast<size_t>(r.result) < g.node(r).types.size();
    if (!defined) fail(ErrorCode::internal, what, " (", r.node, ".", r.result, ") is not defined before its use");
  };
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    auto describe = [&] {
      return text_of("verifying node ", n, " '", node.op->name, "'", node.name.empty() ? "" : " of '" + node.name + "'",
                     " in graph '", g.name(), "'");
    };
    with_context(describe, [&] {
      if (node.op == &op::input || node.op == &op::param) {
        if (node.op == &op::param && is_subgraph)
          fail(ErrorCode::invalid_argument, "a sub-graph is closed: it cannot have the param '", node.name,
               "'; capture it as an operand");
        if (!names.insert(node.name).second)
          fail(ErrorCode::invalid_argument, "two leaves are named '", node.name, "'");
        return;
      }
      std::vector<Type> types;
      for (Ref r : node.operands) {
        check_ref(r, n, "an operand");
        types.push_back(g.type(r));
      }
      auto inferred = infer_types(*node.op, types, node.attrs);
      if (inferred != node.types) {
        std::ostringstream out;
        print(out << "its types are ", node.types);
        print(out << ", but its operands give ", inferred);
        fail(ErrorCode::internal, out.str());
      }
      if (!node.attrs.empty())
        node.attrs.mapped({[](const Dim& d) { return d; },
                           [](const Subgraph& body) {
                             verify_graph(*body, true);
                             return body;
                           }});
    });
  }
  for (const Output& o : g.outputs()) check_ref(o.ref, g.nodes().size(), "an output");
}

}  // namespace

void verify(const Graph& g) { verify_graph(g, false); }

}  // namespace rlx
