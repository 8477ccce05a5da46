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
  bool is_below_process;      ///< the process uses sets beyond `most`
  int64_t targets;            ///< Highway's, none beyond `most`
  hwy::ChosenTarget* chosen;  ///< made of `targets`: what hwy::GetChosenTarget() gives within the scope
};

}  // namespace rlx::kernels
