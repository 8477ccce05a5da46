// Every op of the table as a Core ML package: each sample is written, read back, run, and compared with the reference;
// but for those without elements, which say why. With RLX_COREML_CASES=dir the packages stay there, as cases
// for `rlx conformance` and for others to judge; RLX_COREML_OPS=",add,sub," takes only some ops.
#include <map>

#include "backends/coreml/coreml.h"
#include "compile/pipeline.h"
#include "coreml/samples.h"
#include "rlx/coreml.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::test;

namespace {

struct Count {
  size_t samples = 0, lowered = 0;
  std::string why;  // the first reason of a sample that is not lowered
};

/// Why a graph is not written; empty if it is.
std::string reason_of_refusal(const Graph& g, const coreml::Options& options) try {
  Pipelined legal = run_pipeline(g, coreml::target(options), {});
  for (const DispatchLine& line : legal.report.lines)
    if (line.verdict == Verdict::missing) return text_of(line.op, ": ", line.reason);
  coreml::translate(legal.graph, options);
  return "";
} catch (const Error& error) {
  return error.what();
}

/// Core ML reads blocks that are constants, and computes none.
bool gives_blocks(const Graph& g) {
  const std::vector<Type> types = g.output_types();
  return std::any_of(types.begin(), types.end(), [](const Type& t) { return is_block(t.dtype); });
}

}  // namespace

TEST_CASE("every op of the table is written as an ML Program that gives its numbers") {
  TemporaryFolder temporary;
  coreml::Options options{.narrow = true};
  std::map<std::string, Count> ops;
  size_t without_elements = 0, of_blocks = 0;
  for (const OpDef* op : all_ops()) {
    if (op->samples().empty()) continue;
    if (left_out(*op)) continue;
    Count& count = ops[std::string(op->name)];
    auto samples = op->samples();
    // Sanitized: one sample an op, and what is not written is not counted.
    for (size_t s = 0; s < samples.size() && !(test::sanitized() && count.samples > 0); ++s) {
      CAPTURE(op->name);
      CAPTURE(s);
      laws::Case c = in_f32(samples[s]);
      std::optional<Graph> g;
      try {
        g = c.graph(*op);
      } catch (const Error&) {
        c = laws::case_of(samples[s]);  // an op with attributes of f64
        g = c.graph(*op);
      }
      auto inputs = c.inputs();
      if (gives_blocks(*g)) {
        ++of_blocks;
        std::string why = reason_of_refusal(with_blocks_bound(*g, inputs), options);
        CHECK_MESSAGE(why.find("Core ML computes nothing in q") != std::string::npos, op->name, " sample ", s, ": ",
                      why);
        continue;
      }
      if (!has_elements(*g)) {  // Core ML has no such tensors: refused, with that reason
        ++without_elements;
        std::string why = reason_of_refusal(with_blocks_bound(*g, inputs), options);
        CHECK_MESSAGE(why.find("has no elements") != std::string::npos, op->name, " sample ", s, ": ", why);
        continue;
      }
      ++count.samples;
      g = with_blocks_bound(*g, inputs);
      Pipelined legal = run_pipeline(*g, coreml::target(options), {});
      if (legal.report.count(Verdict::missing)) {
        for (const DispatchLine& line : legal.report.lines)
          if (line.verdict == Verdict::missing && count.why.empty()) count.why = text_of(line.op, ": ", line.reason);
        continue;
      }
      coreml::Translated made;
      try {
        made = coreml::translate(legal.graph, options);
      } catch (const Error& error) {
        if (count.why.empty()) count.why = text_of("translate: ", error.what());
        continue;
      }
      ++count.lowered;
      std::string why = judged(folder_for_cases(temporary) / text_of(op->name, ".", s), op->name, made, *g, inputs);
      CHECK_MESSAGE(why.empty(), op->name, " sample ", s, ", read back: ", why);
    }
  }
  size_t whole = 0, some = 0, samples = 0, lowered = 0;
  for (const auto& entry : ops) {  // no structured binding: the checks below are lambdas
    const std::string& name = entry.first;
    const Count& count = entry.second;
    samples += count.samples, lowered += count.lowered;
    whole += count.lowered == count.samples;
    some += count.lowered > 0;
    size_t refused = count.samples - count.lowered;
    if (refused) MESSAGE("without a lowering: ", name, ", ", refused, " of ", count.samples, " samples; ", count.why);
    if (test::sanitized()) continue;
    CHECK_MESSAGE(refused == 0, name, " has ", refused, " samples that are not written: ", count.why);
  }
  MESSAGE(whole, " of ", ops.size(), " ops with every sample, ", some, " with some; ", lowered, " of ", samples,
          " samples; ", without_elements, " more have inputs or outputs without elements, and ", of_blocks,
          " give blocks");
}
