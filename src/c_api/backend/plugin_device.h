// An open device of a backend from outside: every call of the backend's functions goes through here, and so does the
// end of what they begin. Opened once for each device's name, and never closed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/cancel_flag.h"
#include "passes/target.h"
#include "rlx/backend.h"
#include "rlx/device.h"
#include "rlx/device_tensor.h"
#include "runtime/work_queue.h"

namespace rlx::c {

/// The table of a backend, with texts of its own.
struct PluginTable {
  explicit PluginTable(const rlx_backend& given);
  PluginTable(const PluginTable&) = delete;
  PluginTable& operator=(const PluginTable&) = delete;

  std::string name, description, version;
  std::vector<std::string> options;
  rlx_backend functions{};     // its texts are those of the plugin: not to be read
  mutable std::mutex opening;  // held while a device opens, so that each opens once
  bool has_memory() const { return functions.allocate != nullptr; }
};

/// What a launch looks at: an rlx_cancel is one.
struct PluginCancel {
  const CancelFlag* run;  // may be null
  const CancelFlag* process_ends;
  bool is_set() const { return is_cancelled(run) || is_cancelled(process_ends); }
};

class PluginDevice {
 public:
  /// Opens it. What fails makes it unavailable.
  static PluginDevice& open(std::shared_ptr<const PluginTable> table, const Device& device);

  const rlx_backend& functions() const { return table_->functions; }
  const PluginTable& table() const { return *table_; }
  void* handle() const { return handle_; }
  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const std::string& unavailable() const { return unavailable_; }
  /// As `open` left it; its texts may be gone.
  const rlx_target& data() const { return target_; }
  const Limits& limits() const { return limits_; }

  /// Calls a function of the backend: what it throws, and a status other than RLX_OK, is an rlx::Error that names the
  /// backend and `what` it was doing. Where nothing of it may be called any more, it fails: in a child of fork, which
  /// has neither the threads of the backend nor a device of its own, and while the process ends.
  void call(const std::string& what, const std::function<rlx_status(rlx_error**)>& function) const;
  /// Calls one of those that free something; where `call` would fail, what should be freed is left.
  void free(void (*function)(void* device, void* what), void* what) const noexcept;

  /// A piece of work of the device's.
  struct Work {
    std::string what;  ///< as errors call it: "a launch of 'g'"
    /// Begins it: calls a function of the backend.
    std::function<rlx_status(rlx_completion, rlx_error**)> begin;
    std::shared_ptr<void> keeps = {};         ///< until it has ended
    std::shared_ptr<CancelFlag> cancel = {};  ///< may be null
    bool takes_long = true;   ///< not to be done on the caller's thread, where the device is synchronous
    bool may_be_left = true;  ///< its event may end while the backend still goes on
    /// Called before the event ends well, with the time at which the backend began; must not throw.
    std::function<void(std::chrono::steady_clock::time_point)> at_end = {};
  };
  /// Begins it when those of `after` have ended well; the event ends with it.
  Event add(Work work, std::span<const Event> after);

  /// What api->complete does.
  static rlx_status complete(rlx_completion completion, rlx_status status, const char* message) noexcept;

  /// Set once the process is ending: what is under way is to stop.
  const CancelFlag& process_ends() const { return is_closed_; }

 private:
  struct Pending;
  class CallUnderWay;
  PluginDevice(std::shared_ptr<const PluginTable> table, const Device& device, size_t number);
  void start(const std::shared_ptr<Pending>& pending) noexcept;
  int free_track();
  void end(Pending& pending, std::exception_ptr error) noexcept;
  bool forget(uint64_t id);
  rlx_status complete_here(uint64_t id, rlx_status status, const char* message);
  void require_usable() const;
  void refuse_as_closed() const;
  void refuse_in_child() const;
  void lose(const std::string& why) noexcept;
  void watch();
  std::chrono::milliseconds time_to_cancel() const;
  bool is_closed() const { return is_closed_.load(std::memory_order_acquire); }
  void close();
  static void close_all();
  struct All;
  static All& all();

  const std::shared_ptr<const PluginTable> table_;
  const std::string name_;
  const size_t number_;  // among all devices
  const int process_;    // which opened it
  std::string description_, unavailable_;
  void* handle_ = nullptr;
  rlx_target target_{};
  Limits limits_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<uint64_t, std::shared_ptr<Pending>> pending_;  // of an asynchronous device: what api->complete will end
  uint64_t next_ = 1;
  mutable int calls_ = 0;     // of the backend, and of what it calls to end work, that have not returned
  std::vector<bool> tracks_;  // of traces: on which of them work is under way
  std::string lost_;          // why
  CancelFlag is_closed_{false};
  std::unique_ptr<WorkQueue> queue_;
  std::thread watcher_;
};

}  // namespace rlx::c
