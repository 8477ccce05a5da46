// RLX_DUMP=folder: writes the graph after each stage of a compile, as textual IR, into files whose names begin with a
// number and end with the pass ("03_fuse_matmul.rlx"). For people: constants of more than a few elements are left out.
// User: pipeline.cpp.
#pragma once

#include "compile/pipeline.h"

namespace rlx {

/// The stages of one compile. Does nothing if RLX_DUMP is not set, or if the trace is silent.
class StageDump {
 public:
  /// Writes `g` as the first stage, "given".
  StageDump(const Graph& g, const PipelineTrace& trace);
  /// Writes the graph that the pass `name` left. Fails if the file cannot be written.
  void stage(std::string_view name, const Graph& g);

 private:
  std::string folder_, part_;
  int count_ = 0;
};

}  // namespace rlx
