// Faults that a simulated accelerator is asked for: each happens at the n-th occasion, counted from the asking.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace rlx::simulated {

enum class Fault {
  allocate,  ///< no memory is left
  write,     ///< a copy to the device fails
  read,      ///< a copy from the device fails
  launch,    ///< a run fails
  compile,   ///< the device's own compiler fails
  lose,      ///< the device is lost when a run begins, and stays so until it is reset
  stall,     ///< a run does not begin: it waits until it is cancelled, or the device is gone
};
constexpr std::array<std::string_view, 7> names_of(Fault) {
  return {"allocate", "write", "read", "launch", "compile", "lose", "stall"};
}

/// The faults of one device. From the beginning those that the environment variable RLX_LOOPBACK_FAULTS asks for:
/// "allocate:3,lose:1" is the third allocation and the first run.
class Faults {
 public:
  /// `device`: as errors name it. `variable`: the environment variable, or null.
  Faults(std::string device, const char* variable);
  /// The n-th occasion from now on (1: the next), instead of what was asked for that kind before.
  void ask(Fault fault, int64_t nth);
  /// Forgets all, and a device that was lost is there again.
  void reset();
  /// Whether it was asked for and has not happened yet.
  bool is_waiting(Fault fault) const;
  /// Counts an occasion; true if the fault is to happen at this one.
  bool happens(Fault fault);
  /// Throws the fault's error if it is due, and device_lost once the device is lost.
  void check(Fault fault, std::string_view doing);
  void lose();
  bool is_lost() const;

 private:
  std::string device_;
  mutable std::mutex mutex_;
  std::array<std::optional<int64_t>, 7> left_ = {};  // occasions until it happens
  bool is_lost_ = false;
};

/// Those of the device "loopback".
Faults& loopback_faults();

}  // namespace rlx::simulated
