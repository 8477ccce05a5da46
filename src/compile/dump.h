// Writes the stages of a compile, if RLX_DUMP names a folder.
#pragma once

#include "compile/pipeline.h"

namespace rlx {

class StageDump {
 public:
  StageDump(const Graph& g, const PipelineTrace& trace);
  void stage(std::string_view name, const Graph& g);

 private:
  std::string folder_, part_;
  int count_ = 0;
};

}  // namespace rlx
