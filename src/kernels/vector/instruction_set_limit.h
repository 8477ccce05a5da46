// What an InstructionSetScope holds a thread to, for the two files that make it and look it up.
#pragma once

#include <cstdint>

#include "kernels/vector/instruction_set.h"

namespace hwy {
struct ChosenTarget;
}

namespace rlx::kernels {

struct InstructionSetLimit {
  InstructionSet most;
  bool is_below_process;      ///< the process uses more
  int64_t targets;            ///< Highway's, none beyond `most`
  hwy::ChosenTarget* chosen;  ///< of these, as kernels look it up
};

}  // namespace rlx::kernels
