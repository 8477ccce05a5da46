// Every case of tests/golden/ops (see tests/golden/generate/README.md) through the reference, and, where an op has
// both, through its decomposition.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/text.h"
#include "reference/interpreter.h"
#include "rlx/io.h"
#include "rlx/op_def.h"
#include "support/compare.h"
#include "support/tolerance.h"

using namespace rlx;

namespace {

/// The graphs of a family's file, one text each.
std::vector<std::string> graphs_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<std::string> graphs;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("graph @")) graphs.emplace_back();
    if (!graphs.empty()) graphs.back() += line + "\n";
  }
  return graphs;
}
/// The op of the last node; those before are inputs.
std::string op_named(const std::string& graph) {
  std::string op;
  std::istringstream in(graph);
  for (std::string line; std::getline(in, line);)
    if (size_t at = line.find(" = "); line.starts_with("  %") && at != std::string::npos)
      op = line.substr(at + 3, line.find('(') - at - 3);
  return op;
}
bool is_known(const std::string& op) {
  auto all = all_ops();
  return std::any_of(all.begin(), all.end(), [&](const OpDef* known) { return known->name == op; });
}

}  // namespace

TEST_CASE("every op gives what the libraries of its field give") {
  size_t cases = 0, unknown = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/golden/ops")) {
    if (file.path().extension() != ".rlx") continue;
    auto arrays = SafetensorsFile::open(std::filesystem::path(file.path()).replace_extension(".safetensors").string());
    for (const std::string& text : graphs_of(file.path())) {
      std::string op = op_named(text);
      if (!is_known(op)) {
        ++unknown;
        MESSAGE("no op ", op);
        continue;
      }
      std::string why;
      try {
        Graph g = parse_graph(text);
        std::vector<Tensor> inputs, wanted;
        for (size_t i = 0; i < g.inputs().size(); ++i)
          inputs.push_back(golden_tensor(g.input_types()[i], arrays.tensor(text_of(g.name(), "/in", i))));
        for (size_t i = 0; i < g.outputs().size(); ++i)
          wanted.push_back(golden_tensor(g.output_types()[i], arrays.tensor(text_of(g.name(), "/out", i))));
        why = difference(interpret(g, inputs), wanted);
        const Node& node = g.nodes().back();
        bool alone = g.nodes().size() == g.inputs().size() + 1;
        if (why.empty() && alone && node.op->reference && node.op->decompose) {
          auto parts =
              trace(g.input_types(), [&](Graph& to, Values in) { return decompose(to, *node.op, in, node.attrs); });
          auto results = interpret(parts, inputs);
          std::vector<Tensor> asked;
          for (const Output& o : g.outputs()) asked.push_back(results[size_t(o.ref.result)]);
          // Each step of a decomposition rounds; on data far from zero that shows.
          why = difference(asked, wanted, 10 * tolerance_of(wanted[0].dtype()));
          if (!why.empty()) why = "decomposed: " + why;
        }
      } catch (const Error& error) {
        why = error.what();
      }
      ++cases;
      CHECK_MESSAGE(why.empty(), file.path().filename().string(), ": ", text.substr(0, text.find('{')), "(", op,
                    "): ", why);
    }
  }
  MESSAGE(cases, " cases; ", unknown, " of ops that are not there");
  CHECK(cases > 400);
}
