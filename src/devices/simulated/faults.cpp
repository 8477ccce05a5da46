// See the header.
#include "devices/simulated/faults.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "rlx/error.h"

namespace rlx::simulated {

Faults::Faults(std::string device, const char* variable) : device_(std::move(device)) {
  const char* text = variable ? std::getenv(variable) : nullptr;
  if (!text) return;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const size_t colon = one.find(':');
    const auto names = names_of(Fault{});
    const auto found = std::find(names.begin(), names.end(), one.substr(0, colon));
    int64_t nth = 0;
    const std::string_view number = colon == std::string_view::npos ? std::string_view() : one.substr(colon + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), nth);
    if (found == names.end() || error != std::errc() || end != number.data() + number.size() || nth < 1)
      fail(
          ErrorCode::invalid_argument, variable, " has '", one,
          "'; each fault is a kind (allocate, write, read, launch, compile, lose, stall), a colon and a number from 1");
    ask(static_cast<Fault>(found - names.begin()), nth);
  }
}

void Faults::ask(Fault fault, int64_t nth) {
  if (nth < 1) fail(ErrorCode::invalid_argument, "a fault happens at the first occasion or later, not at ", nth);
  std::scoped_lock lock(mutex_);
  left_[static_cast<size_t>(fault)] = nth;
}
void Faults::reset() {
  std::scoped_lock lock(mutex_);
  left_ = {};
  is_lost_ = false;
}
bool Faults::happens(Fault fault) {
  std::scoped_lock lock(mutex_);
  auto& left = left_[static_cast<size_t>(fault)];
  if (!left || --*left > 0) return false;
  left.reset();
  return true;
}
bool Faults::is_waiting(Fault fault) const {
  std::scoped_lock lock(mutex_);
  return left_[static_cast<size_t>(fault)].has_value();
}
void Faults::lose() {
  std::scoped_lock lock(mutex_);
  is_lost_ = true;
}
bool Faults::is_lost() const {
  std::scoped_lock lock(mutex_);
  return is_lost_;
}

void Faults::check(Fault fault, std::string_view doing) {
  if (is_lost())
    fail(ErrorCode::device_lost, device_, " is lost: ", doing, " cannot be done, and what was on it is gone");
  if (!happens(fault)) return;
  switch (fault) {
    case Fault::allocate: fail(ErrorCode::out_of_memory, device_, " has no memory left for ", doing);
    case Fault::lose: lose(); fail(ErrorCode::device_lost, device_, " was lost while it began ", doing);
    default: fail(ErrorCode::io, device_, " failed at ", doing);
  }
}

Faults& loopback_faults() {
  static auto& faults = *new Faults("loopback", "RLX_LOOPBACK_FAULTS");  // queues end after what is destroyed here
  return faults;
}

}  // namespace rlx::simulated
