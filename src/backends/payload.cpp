// Programs in files, for backends that have nothing better than the legal graph: how it is written and read back.
#include "backends/backend.h"
#include "io/names_in_messages.h"
#include "ir/text.h"

namespace rlx {
namespace {

/// Fails for a node that the target does not take as it is, in a body too: somebody else may have written the graph.
/// Where numbers of 64 bits may be narrowed is an option of the compile, so either form of the target will do.
void require_legal(const Graph& legal, const Target& whole) {
  const bool is_narrowed = whole.narrowed && legalize(legal, whole).report.count(Verdict::missing) > 0;
  const Target& target = is_narrowed ? *whole.narrowed : whole;
  for (const DispatchLine& line : legalize(legal, target).report.lines)
    if (line.verdict != Verdict::native && line.verdict != Verdict::interpreted)
      fail(ErrorCode::unsupported, target.name, " does not run its op '", line.op, "' as it is: ", line.reason);
}

}  // namespace

Payload Program::payload() const {
  GraphFile file = graph_file_of(graph());
  return {kGraphForm, std::move(file.text), std::move(file.constants)};
}

std::vector<std::string> Program::registered_kernels(const Backend& backend) const {
  return backend.registered_kernels(&graph());
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
  require_legal(legal, target());
  return lower(std::move(legal));
}

}  // namespace rlx
