// `rlx ops --used-by`: what a library with the ops of some models alone (RLX_OPS, docs/building.md) has to hold.
#pragma once

#include <string>
#include <vector>

namespace rlx::tools {

/// Compiles each model for the CPU and runs it once where it says itself with what (an encoder, a language model). The
/// ops that this took, decompositions and what passes wrote included, one a line behind a line of comment.
std::string used_ops_text(const std::vector<std::string>& models);

}  // namespace rlx::tools
