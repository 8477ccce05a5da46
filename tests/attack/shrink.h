// Makes a trial that fails smaller for as long as it fails in the same way, and keeps it in files.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "attack/trial.h"

namespace rlx::attack {

/// How long a child process has been at something, by the processor's time that it used: on a machine with other work a
/// graph that takes two seconds may take thirty.
class Stopwatch {
 public:
  explicit Stopwatch(pid_t process);
  /// Whether it used so many seconds since; or nine times as many went by, as one that waits for ever uses none.
  bool is_beyond(double seconds) const;

 private:
  double used() const;  ///< 0 on systems that do not tell

  pid_t process_;
  double used_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Runs a trial in a child process, which may crash or be ended for taking too long.
Outcome tried_apart(const Trial& trial, double most_seconds);
/// Without outputs, nodes, options and symbols that the fault does not need; for at most so many seconds.
Trial shrunk(Trial trial, Fault fault, double most_seconds, double most_seconds_of_a_try);

/// Writes PATH.rlx, and PATH.safetensors with what the graph is fed and the way it is compiled.
void save_trial(const std::string& path, const Trial& trial);
/// Reads what `save_trial` wrote; `path` ends in .rlx.
Trial load_trial(const std::string& path);

}  // namespace rlx::attack
