// Makes a trial that fails smaller for as long as it fails in the same way, and keeps it in files.
#pragma once

#include "attack/trial.h"

namespace rlx::attack {

/// Runs a trial in a child process, which may crash or be ended for taking too long.
Outcome tried_apart(const Trial& trial, double most_seconds);
/// Without outputs, nodes, options and symbols that the fault does not need; for at most so many seconds.
Trial shrunk(Trial trial, Fault fault, double most_seconds, double most_seconds_of_a_try);

/// Writes PATH.rlx, and PATH.safetensors with what the graph is fed and the way it is compiled.
void save_trial(const std::string& path, const Trial& trial);
/// Reads what `save_trial` wrote; `path` ends in .rlx.
Trial load_trial(const std::string& path);

}  // namespace rlx::attack
