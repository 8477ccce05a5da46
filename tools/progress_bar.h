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

 private:
  std::string what_;
  bool terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point begin_, last_;
};

}  // namespace rlx::tools
