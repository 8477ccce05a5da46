// See the header.
#include "runtime/extent_bounds.h"

#include <algorithm>
#include <set>

#include "ir/rewrite.h"

namespace rlx {
namespace {

size_t rank_of(const Tensor& t) { return t.rank(); }
size_t rank_of(const Type& t) { return t.rank(); }
int64_t extent_of(const Tensor& t, size_t d) { return t.shape()[d]; }
int64_t extent_of(const Type& t, size_t d) { return t.dims[d].value(); }

void require_within(const Graph& g, const std::string& symbol, int64_t number, int64_t most) {
  if (number > most)
    fail(ErrorCode::invalid_argument, "'", symbol, "' is ", number, " in a run of '", g.name(),
         "', which was compiled for at most ", most, " (CompileOptions::bounds)");
}

}  // namespace

ExtentBounds::ExtentBounds(const Graph& g, const Bindings& bounds) : bounds_(bounds) {
  if (bounds.empty()) return;
  std::set<std::string> symbols, plain;
  const std::vector<Type> types = g.input_types();
  for (size_t i = 0; i < types.size(); ++i)
    for (size_t d = 0; d < types[i].rank(); ++d) {
      const Dim& dim = types[i].dims[d];
      dim.for_each_symbol([&](const std::string& symbol) { symbols.insert(symbol); });
      for (const auto& [symbol, most] : bounds)
        if (dim == Dim::symbol(symbol)) plain_.push_back({i, d, symbol, most}), plain.insert(symbol);
    }
  for (const auto& [symbol, most] : bounds) {
    if (!symbols.contains(symbol)) {
      std::string list;
      for (const std::string& each : symbols) list += (list.empty() ? "'" : ", '") + each + "'";
      fail(ErrorCode::not_found, "bounds: the inputs of '", g.name(), "' have no symbol '", symbol, "'; they have ",
           list.empty() ? "none" : list);
    }
    if (most < 1)
      fail(ErrorCode::invalid_argument, "bounds: the most that '", symbol, "' can be is ", most, "; it is at least 1");
    must_solve_ |= !plain.contains(symbol);
  }
}

template <class Given>
void ExtentBounds::check_extents(const Graph& g, std::span<const Given> inputs) const {
  for (const PlainDim& p : plain_)
    if (p.input < inputs.size() && p.dim < rank_of(inputs[p.input]))
      require_within(g, p.symbol, extent_of(inputs[p.input], p.dim), p.most);
  if (!must_solve_) return;
  const Bindings numbers = solve_symbols(g, inputs);
  for (const auto& [symbol, most] : bounds_) require_within(g, symbol, numbers.at(symbol), most);
}

template void ExtentBounds::check_extents(const Graph&, Tensors) const;
template void ExtentBounds::check_extents(const Graph&, Types) const;

}  // namespace rlx
