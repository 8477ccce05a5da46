// How far long work is, on standard error: only where that is a terminal, and only if it takes longer than a moment.
#pragma once

#include <chrono>
#include <string>

namespace rlx::tools {

class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  /// Takes the bar off the screen.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(size_t done, size_t all);
  /// Takes the bar that is on the screen off it, if there is one, before something else is written there; it comes back
  /// with the next `show`.
  static void lift();

 private:
  void erase();

  std::string what_;
  bool terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point begin_, last_;
};

}  // namespace rlx::tools
