// See the header.
#include "io/graph_symbols.h"

#include "io/names_in_messages.h"

namespace rlx {

std::set<std::string> symbols_of(const Graph& g) {
  std::set<std::string> names;
  for (const auto* leaves : {&g.inputs(), &g.params()})
    for (Ref r : *leaves)
      for (const Dim& d : g.type(r).dims) d.for_each_symbol([&](const std::string& symbol) { names.insert(symbol); });
  return names;
}

void require_symbols(const Graph& g, const Bindings& numbers, const std::string& who) {
  const std::set<std::string> known = symbols_of(g);
  for (const auto& [symbol, number] : numbers)
    if (!known.contains(symbol))
      fail(ErrorCode::invalid_argument, who, " has a number for ", quoted_name(symbol), ", and graph '", g.name(),
           "' has no such symbol", nearest_names(symbol, {known.begin(), known.end()}));
}

}  // namespace rlx
