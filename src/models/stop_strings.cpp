// The end of a text at a stop string; see rlx/sampler.h.
#include <algorithm>

#include <utility>

#include "rlx/error.h"
#include "rlx/sampler.h"

namespace rlx {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    if (stop.empty()) fail(ErrorCode::invalid_argument, "a stop string is empty: every text would end at once");
}

std::string StopStrings::put(std::string_view piece) {
  if (std::exchange(has_ended_, false)) found_.reset();
  for (char c : piece) {
    if (found_) return "";
    held_ += c;
    for (size_t i = 0; i < stops_.size(); ++i)
      if (held_.ends_with(stops_[i]) && (!found_ || stops_[i].size() > stops_[*found_].size())) found_ = i;
    if (found_) {
      std::string before = held_.substr(0, held_.size() - stops_[*found_].size());
      held_.clear();
      return before;
    }
  }
  // The longest end of the text that begins a stop string.
  size_t kept = 0;
  for (const std::string& stop : stops_)
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > kept; --size)
      if (held_.ends_with(std::string_view(stop).substr(0, size))) kept = size;
  std::string sure = held_.substr(0, held_.size() - kept);
  held_.erase(0, sure.size());
  return sure;
}

std::string StopStrings::finish() {
  std::string rest = std::move(held_);
  held_.clear();
  has_ended_ = true;
  return rest;
}

}  // namespace rlx
