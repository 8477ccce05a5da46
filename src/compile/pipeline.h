// From a graph to a legal graph for a target: the order of the passes is the list in pipeline.cpp.
#pragma once

#include "passes/target.h"
#include "rlx/compile.h"

namespace rlx {

struct Pipelined {
  Graph graph;  ///< what the backend lowers
  DispatchReport report;
};
/// What a run of the pipeline leaves for people to read.
struct PipelineTrace {
  bool is_silent = false;  ///< nothing: the graph is only asked about
  std::string part = {};   ///< stands in the names of dumped stages, so that those of several parts do not meet
};
/// Runs every pass, the shared ones and the target's own, verifying after each. RLX_VERBOSE=1 prints how long each took
/// and what it left, and then the report's table; RLX_DUMP=dir writes each stage as dir/<part>NN_<pass>.rlx. A missing
/// op is in the report, not an error.
Pipelined run_pipeline(const Graph& g, const Target& target, const CompileOptions& options,
                       const PipelineTrace& trace = {});

/// The type in which ops of f32 are computed where they may be: f16, bf16 or i8; f32 if nothing less was asked for.
DType computed_in(const CompileOptions& options, const Target& target);

/// Names of the passes that may be skipped: all but those of targets' own, without which a graph is not theirs.
std::vector<std::string> pass_names();

}  // namespace rlx
