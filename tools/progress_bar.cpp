// See the header.
#include "tools/progress_bar.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace rlx::tools {

namespace {

ProgressBar* on_screen = nullptr;  // the subcommands show one at a time, from one thread

}  // namespace

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) == 1), begin_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() { erase(); }

void ProgressBar::erase() {
  if (on_screen != this) return;
  std::fputs("\r\x1b[K", stderr);  // ECMA-48: erase to the end of the line
  on_screen = nullptr;
}

void ProgressBar::lift() {
  if (on_screen) on_screen->erase();
}

void ProgressBar::show(size_t done, size_t all) {
  using namespace std::chrono_literals;
  auto now = std::chrono::steady_clock::now();
  // Half a second is no long work; and twenty pictures a second are enough.
  if (!terminal_ || all == 0 || now - begin_ < 500ms || (drawn_ && now - last_ < 50ms && done < all)) return;
  last_ = now;
  drawn_ = true;
  on_screen = this;
  constexpr size_t kBarWidth = 30;
  size_t filled = done * kBarWidth / all;
  double seconds = std::chrono::duration<double>(now - begin_).count();
  double left = done ? seconds * static_cast<double>(all - done) / static_cast<double>(done) : 0;
  std::fprintf(stderr, "\r%s [%s%s] %zu of %zu, %.0f s left\x1b[K", what_.c_str(), std::string(filled, '#').c_str(),
               std::string(kBarWidth - filled, '.').c_str(), done, all, left);
}

}  // namespace rlx::tools
