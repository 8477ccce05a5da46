// Writes the stages of a compile, if RLX_DUMP names a folder.
#pragma once

#include "rlx/graph.h"

namespace rlx {

class StageDump {
 public:
  explicit StageDump(const Graph& g);
  void stage(std::string_view name, const Graph& g);

 private:
  std::string folder_;
  int count_ = 0;
};

}  // namespace rlx
