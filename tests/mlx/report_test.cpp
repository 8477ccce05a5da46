// What a report says of a graph on mlx, and what then runs: the same, node by node.
#include <doctest/doctest.h>

#include <set>
#include <sstream>

#include "judge/cases.h"
#include "mlx/modes.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

const Device kEager("mlx", 0, {"eager"});

/// The ops that a profile says were run by their reference.
std::set<std::string> by_reference(const Profile& profile) {
  std::set<std::string> ops;
  for (const Profile::Step& step : profile.steps)
    if (step.kernel == "reference") ops.insert(step.op);
  return ops;
}
/// The ops that the report says are: as nodes, or as parts of nodes that are composed.
std::set<std::string> said_to_be_interpreted(const DispatchReport& report) {
  constexpr std::string_view kParts = "these run by their reference: ";
  std::set<std::string> ops;
  for (const DispatchLine& line : report.lines) {
    if (line.verdict == Verdict::interpreted) ops.insert(line.op);
    const size_t at = line.reason.find(kParts);
    if (at == std::string::npos) continue;
    std::istringstream names(line.reason.substr(at + kParts.size()));
    for (std::string name; std::getline(names >> std::ws, name, ',');) ops.insert(name);
  }
  return ops;
}
std::string joined(const std::set<std::string>& all) {
  std::string text;
  for (const std::string& each : all) text += each + " ";
  return text;
}

}  // namespace

TEST_CASE("of each op's samples, what the report says is interpreted is what runs by its reference") {
  if (!test::mlx_is_here()) return;
  size_t compared = 0, interpreted = 0;
  for (const OpDef* op : all_ops()) {
    for (const Sample& sample : op->samples()) {
      const Case c = case_of(sample);
      CAPTURE(op->name);
      CAPTURE(c.text());
      const Graph g = c.graph(*op);
      // What has no elements is not computed.
      const auto is_empty = [](const Type& t) { return element_count(shape_of(t.dims)) == 0; };
      if (std::any_of(c.types.begin(), c.types.end(), is_empty)) continue;
      const std::vector<Type> outputs = g.output_types();
      if (!std::all_of(outputs.begin(), outputs.end(), [](const Type& t) { return is_static(t.dims); })) continue;
      if (std::any_of(outputs.begin(), outputs.end(), is_empty)) continue;
      if (!supports(g, kEager)) continue;
      const CompiledGraph compiled = Session(kEager).compile(g);
      std::vector<NamedTensor> inputs;
      size_t i = 0;
      for (Tensor& t : c.inputs()) inputs.emplace_back(g.node(g.inputs()[i++]).name, t);
      Profile profile;
      try {
        profile = compiled.profile(inputs);
      } catch (const Error&) {
        continue;  // a sample that is an error when it runs
      }
      const auto ran = by_reference(profile), said = said_to_be_interpreted(compiled.report());
      ++compared, interpreted += !ran.empty();
      for (const std::string& each : ran)
        if (!said.contains(each)) FAIL_CHECK("'", each, "' ran by its reference; interpreted are: ", joined(said));
    }
  }
  MESSAGE(compared, " samples, of which ", interpreted, " with nodes by reference");
  CHECK(compared > 1000);
}

TEST_CASE("weights that are moved before they are multiplied are packed all the same") {
  if (!test::mlx_is_here()) return;
  const Tensor whole = quantized(random_tensor(f32, {8, 64}, 1), q8_0), x = random_tensor(f32, {3, 64}, 2);
  const Tensor codes = random_tensor(u8, {4, 64}, 3, 0, 255), scales = random_tensor(f32, {4, 1}, 4, 0.01, 0.1);
  using Build = Value (*)(Graph&, Value);
  const auto check = [&](const char* what, Build build) {
    CAPTURE(std::string(what));
    Graph g("moved");
    const Dim rows = Dim::symbol("N");
    g.output(build(g, g.input("x", f32, {rows, 64})));
    std::map<std::string, Tensor> params = {{"w", whole}, {"codes", codes}, {"scales", scales}}, bound;
    for (Ref r : g.params()) bound[g.node(r).name] = params.at(g.node(r).name);
    const Tensor wanted = interpret(g, std::span(&x, 1), bound)[0];
    for (const char* mode : {"lazy", "eager", "compiled"}) {
      CAPTURE(std::string(mode));
      CompiledGraph compiled = Session(Device("mlx", 0, {mode})).compile(g);
      for (const auto& [name, value] : bound) compiled.set_param(name, value);
      size_t lines = 0;
      for (const DispatchLine& line : compiled.report().lines)
        if (line.op == "dequant_matmul") {
          ++lines;
          CHECK(line.verdict == Verdict::native);
        }
      CHECK(lines == 1);
      CHECK(difference(compiled.run({{"x", x}})[0], wanted, 2e-5) == "");
      if (std::string(mode) == "eager") CHECK(!by_reference(compiled.profile({{"x", x}})).contains("dequant_matmul"));
      // Another shape shares them; other values do not.
      const Tensor one = random_tensor(f32, {1, 64}, 5);
      const size_t held = compiled.memory_bytes();
      CHECK(difference(compiled.run({{"x", one}})[0], interpret(g, std::span(&one, 1), bound)[0], 2e-5) == "");
      CHECK(compiled.memory_bytes() == held);
      if (!bound.contains("w")) continue;
      auto other = bound;
      other["w"] = quantized(random_tensor(f32, {8, 64}, 6), q8_0);
      compiled.set_param("w", other.at("w"));
      CHECK(difference(compiled.run({{"x", x}})[0], interpret(g, std::span(&x, 1), other)[0], 2e-5) == "");
    }
  };
  check("sliced", [](Graph& g, Value in) {
    return dequant_matmul(in, slice_axis(g.param("w", q8_0, {8, 64}), 0, 2, 5));
  });
  check("joined", [](Graph& g, Value in) {
    const Value w = g.param("w", q8_0, {8, 64});
    return dequant_matmul(in, concatenate({slice_axis(w, 0, 4, 8), slice_axis(w, 0, 0, 4)}, 0));
  });
  check("broadcast scales", [](Graph& g, Value in) {
    const Value scale = slice_axis(g.param("scales", f32, {4, 1}), 0, 1, 2);
    return dequant_matmul(in, g.param("codes", u8, {4, 64}), {.scale = broadcast_to(scale, {4, 1})}, 0, true);
  });
  check("transposed", [](Graph& g, Value in) {
    return dequant_matmul(in, transpose(g.param("codes", u8, {4, 64}), {1, 0}),
                          {.scale = transpose(g.param("scales", f32, {4, 1}), {1, 0})}, 0, false);
  });
}
