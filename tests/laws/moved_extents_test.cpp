// A compiled graph with a symbol, run at one extent after another. The CPU, for one, moves its plan from each to the
// next (plan/movable_plan.h), and must give the bits that a graph compiled for that run alone gives, or refuse what it
// does.
#include <doctest/doctest.h>

#include <cstring>
#include <set>

#include "ir/rewrite.h"
#include "laws/varied_extents.h"
#include "rlx/ops/control.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::laws;

namespace {

/// What a run gives, or the code of its error.
struct RunOutcome {
  std::vector<Tensor> outputs;
  std::optional<ErrorCode> refused = {};
};
RunOutcome outcome_of(const CompiledGraph& compiled, Tensors inputs) {
  try {
    return {compiled.run_ordered(inputs)};
  } catch (const Error& e) {
    return {{}, e.code()};
  }
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.byte_count()) == 0;
}

std::string differs(const RunOutcome& got, const RunOutcome& wanted) {
  if (got.refused != wanted.refused) return got.refused ? "it is refused" : "it is not refused";
  for (size_t o = 0; o < wanted.outputs.size(); ++o)
    if (!same_bits(got.outputs[o], wanted.outputs[o])) return text_of("output ", o, " has other bits");
  return "";
}

/// The op with "N" in these places, if it takes a symbol there: in f32, if that stands for its floats.
std::optional<Case> with_symbol(const OpDef& op, const Sample& s, const std::vector<Place>& places) {
  for (bool in_attributes : {false, true}) {
    const Sample symbolic = with_extent(s, places, Dim::symbol("N"), in_attributes);
    if (!takes(op, symbolic)) continue;
    std::vector<Case> cases = cases_of(op, s);
    auto at = std::find_if(cases.begin(), cases.end(), [](const Case& c) { return c.types[0].dtype == f32; });
    Case found = at == cases.end() ? cases[0] : *at;
    found.attrs = symbolic.attrs;
    for (size_t i = 0; i < found.types.size(); ++i) found.types[i].dims = symbolic.dims[i];
    return found;
  }
  return {};
}

Case at_extent(Case c, int64_t extent) {
  const Bindings bindings{{"N", extent}};
  for (Type& type : c.types)
    for (Dim& dim : type.dims) dim = dim.bound(bindings);
  c.attrs = substitute(c.attrs, bindings);
  return c;
}

/// The case's inputs, and random cotangents for what a gradient has beyond them. Nothing where there are none, as of
/// blocks that do not fit or of an extent below 0.
std::optional<std::vector<Tensor>> inputs_at(const Case& c, const Graph& g, int64_t extent) try {
  std::vector<Tensor> inputs = at_extent(c, extent).inputs();
  const std::vector<Type> types = g.input_types();
  for (size_t i = inputs.size(); i < types.size(); ++i) {
    Shape shape;
    for (const Dim& dim : types[i].dims) shape.push_back(dim.bound({{"N", extent}}).value());
    inputs.push_back(random_tensor(types[i].dtype, shape, kSeed + i, -1, 1));
  }
  return inputs;
} catch (const Error& e) {
  if (e.code() == ErrorCode::internal) throw;
  return {};
}

/// Runs the graph at each of the extents, and compares with what is compiled for one run.
std::string moves_differ(const Case& c, const Graph& g, std::span<const int64_t> extents, size_t& runs) {
  const Session session(Device::from_environment(), {1});
  const CompiledGraph moved = session.compile(g);
  for (int64_t extent : extents) {
    const auto inputs = inputs_at(c, g, extent);
    if (!inputs) continue;
    const std::string why = differs(outcome_of(moved, *inputs), outcome_of(session.compile(g), *inputs));
    if (!why.empty()) return text_of("at N = ", extent, ": ", why);
    ++runs;
  }
  return "";
}

}  // namespace

TEST_CASE("a graph of any op, or of its gradient, moves from extent to extent as if compiled for each") {
  size_t graphs = 0, runs = 0;
  std::set<std::string_view> reached;
  for (const OpDef* op : all_ops()) {
    if (op == &op::checkpointed_scan) continue;  // its steps are cut into chunks before they are a number
    const auto samples = op->samples();
    for (size_t s = 0; s < std::min(samples.size(), test::sanitized() ? size_t{1} : size_t{2}); ++s) {
      for (const std::vector<Place>& places : choices(samples[s])) {
        const auto c = with_symbol(*op, samples[s], places);
        if (!c) continue;
        const int64_t own = samples[s].dims[places[0].operand][places[0].dim].value();
        const int64_t extents[] = {own, own + 1, 1, 2 * own, own};  // some ops refuse some of them
        std::string why;
        try {
          const Graph g = c->graph(*op);
          why = moves_differ(*c, g, extents, runs);
          ++graphs;
          if (const auto gradient = gradient_of(*op, g); gradient && why.empty()) {
            why = moves_differ(*c, *gradient, extents, runs);
            if (!why.empty()) why = "the gradient " + why;
            ++graphs;
          }
        } catch (const Error& e) {
          why = e.what();
        }
        reached.insert(op->name);
        CHECK_MESSAGE(why.empty(), op->name, " sample ", s, ", ", places.size(), " dims from operand ",
                      places[0].operand, ", dim ", places[0].dim, ": ", why);
      }
    }
  }
  CHECK(reached.size() > 300);
  CHECK(runs > 4 * graphs);  // of five extents, some ops refuse one or two
  MESSAGE(runs, " runs of ", graphs, " graphs of ", reached.size(), " ops");
}
