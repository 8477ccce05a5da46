// See the header.
#include "c_api/backend/plugin_device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "base/event_source.h"
#include "c_api/handles.h"

namespace rlx::c {
namespace {

using namespace std::chrono_literals;

// The id of a piece of work is the number of its device and a number within it, so that one which has ended is told
// from one that never was.
constexpr int kBitsOfWork = 44;
constexpr uint64_t kMostWork = uint64_t{1} << kBitsOfWork;

constexpr auto kBetweenLooks = 10ms;  // at whether pending work was cancelled

std::vector<std::string> words_of(const char* text) {
  std::vector<std::string> words;
  std::istringstream in(text ? text : "");
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

ErrorCode code_of(rlx_status status) { return c::code_of(status, ErrorCode::internal); }

Limits limits_of(const rlx_target& target) {
  Limits limits;
  limits.buffers_per_launch = target.buffers_per_launch;
  limits.largest_buffer = target.largest_buffer;
  if (target.index_bits) limits.index_bits = target.index_bits;
  if (limits.index_bits < 8 || limits.index_bits > 64)
    fail(ErrorCode::invalid_argument, "its index_bits are ", limits.index_bits,
         "; an index has 8 to 64 bits, and 0 is 64");
  for (const std::string& word : words_of(target.absent_dtypes)) {
    Scanner in(word);
    parse(in, limits.absent_dtypes.emplace_back());
    if (!in.at_end()) in.unexpected("the end of a dtype's name in absent_dtypes");
  }
  return limits;
}

}  // namespace

PluginTable::PluginTable(const rlx_backend& given) {
  // A struct may end between two of the versions that there were, and never within a pointer.
  if (given.struct_size < sizeof(size_t) || given.struct_size > 4096 || given.struct_size % alignof(rlx_backend) != 0)
    fail(ErrorCode::invalid_argument, "the struct_size of a backend's table is ", given.struct_size,
         "; set it to sizeof(rlx_backend)");
  functions = options_of(&given);
  if (!functions.name) fail(ErrorCode::invalid_argument, "a backend's table has no name");
  name = printable_text(functions.name);
  description = printable_text(functions.description ? functions.description : "a backend from outside of the library");
  version = functions.version ? functions.version : "";
  options = words_of(functions.options);
  const auto require = [&](bool is_there, const char* function) {
    if (!is_there)
      fail(ErrorCode::invalid_argument, "the table of the backend '", name, "' has no function '", function,
           "': it is NULL, or behind the end that struct_size says (", given.struct_size, ")");
  };
  require(functions.open, "open"), require(functions.supports, "supports");
  require(functions.compile, "compile"), require(functions.launch, "launch");
  const bool memory[] = {functions.allocate != nullptr, functions.free != nullptr, functions.write != nullptr,
                         functions.read != nullptr};
  if (std::find(std::begin(memory), std::end(memory), true) != std::end(memory)) {
    require(memory[0], "allocate"), require(memory[1], "free");
    require(memory[2], "write"), require(memory[3], "read");
  }
  if (functions.device_count < 0 || functions.device_count > 1024)
    fail(ErrorCode::invalid_argument, "the backend '", name, "' says that it has ", functions.device_count,
         " devices; it may have up to 1024, and 0 is one");
}

struct PluginDevice::Pending {
  Work work;
  EventSource source;
  std::chrono::steady_clock::time_point began = {};
  std::optional<std::chrono::steady_clock::time_point> cancelled = {};  // since when, as the watcher saw
  bool is_left = false;  // its event has ended, and the backend may still be at it
  int track = -1;        // of traces; -1: it has not begun

  /// Lets go of what it keeps before its event ends: whoever waited finds it unshared.
  void end(std::exception_ptr error) noexcept {
    work.begin = nullptr, work.keeps = nullptr;
    if (!error && work.at_end) work.at_end(began);
    work.at_end = nullptr;
    if (error) source.fail(std::move(error));
    else source.finish();
  }
};

/// A call of a function of the backend, on this thread. None begins once the process is ending, which waits for those
/// of other threads.
class PluginDevice::CallUnderWay {
 public:
  explicit CallUnderWay(const PluginDevice& device) : device_(device) {
    device_.refuse_in_child();  // before the lock, which a thread of the parent's may hold there
    std::scoped_lock lock(device_.mutex_);
    device_.refuse_as_closed();
    ++device_.calls_, ++of_this_thread;
  }
  ~CallUnderWay() {
    std::scoped_lock lock(device_.mutex_);
    --device_.calls_, --of_this_thread;
    if (device_.is_closed()) device_.changed_.notify_all();
  }
  CallUnderWay(const CallUnderWay&) = delete;
  CallUnderWay& operator=(const CallUnderWay&) = delete;

  static thread_local int of_this_thread;  // more than 0 where a backend ends the process

 private:
  const PluginDevice& device_;
};
thread_local int PluginDevice::CallUnderWay::of_this_thread = 0;

/// Never destroyed: work may end at any time.
struct PluginDevice::All {
  std::mutex mutex;
  std::vector<PluginDevice*> devices;
};
PluginDevice::All& PluginDevice::all() {
  static All& one = *new All;
  return one;
}

PluginDevice& PluginDevice::open(std::shared_ptr<const PluginTable> table, const Device& device) {
  const std::scoped_lock once(table->opening);
  All& there = all();
  size_t number = 0;
  {
    std::scoped_lock lock(there.mutex);
    for (PluginDevice* each : there.devices)
      if (each && each->table_ == table && each->name_ == device.name()) return *each;
    number = there.devices.size();
    there.devices.push_back(nullptr);
  }
  auto* made = new PluginDevice(std::move(table), device, number);
  std::atexit(close_all);  // after each was opened: what its library made then is destroyed later than it is closed
  std::scoped_lock lock(there.mutex);
  return *(there.devices[number] = made);
}

void PluginDevice::close_all() {
  std::vector<PluginDevice*> devices;
  {
    std::scoped_lock lock(all().mutex);
    devices = all().devices;
  }
  for (PluginDevice* each : devices)
    if (each) each->close();
}

PluginDevice::PluginDevice(std::shared_ptr<const PluginTable> table, const Device& device, size_t number)
    : table_(std::move(table)), name_(device.name()), number_(number), process_(getpid()),
      description_(table_->description) {
  std::string options;
  for (const std::string& option : device.options()) options += (options.empty() ? "" : " ") + option;
  target_.struct_size = sizeof target_;
  try {
    call("opening the device", [&](rlx_error** error) {
      return functions().open(functions().context, device.ordinal(), options.c_str(), &target_, &handle_, error);
    });
    if (target_.description) description_ = printable_text(target_.description);
    if (target_.unavailable) unavailable_ = printable_text(target_.unavailable);
    limits_ = limits_of(target_);
    if (target_.alignment & (target_.alignment - 1))
      fail(ErrorCode::invalid_argument, "its alignment is ", target_.alignment, ", which is no power of two");
    if (table_->has_memory() && unavailable_.empty())
      queue_ = std::make_unique<WorkQueue>(name_, target_.is_asynchronous ? 1 : 2, false);
  } catch (const std::exception& e) {
    unavailable_ = e.what();
  }
}

void PluginDevice::call(const std::string& what, const std::function<rlx_status(rlx_error**)>& function) const {
  struct Stored {
    rlx_error* error = nullptr;
    ~Stored() { rlx_error_free(error); }
  } stored;
  const CallUnderWay here(*this);
  rlx_status status = RLX_OK;
  const auto threw = [&](ErrorCode code, const char* text) {
    fail(code, "the backend '", table_->name, "' threw at ", what, ": ", text);
  };
  try {
    status = function(&stored.error);
  } catch (const Error& e) {
    threw(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    threw(ErrorCode::out_of_memory, "out of memory");
  } catch (const std::exception& e) {
    threw(ErrorCode::internal, e.what());
  } catch (...) {
    threw(ErrorCode::internal, "what is no std::exception");
  }
  if (status == RLX_OK) return;
  fail(code_of(status), "the backend '", table_->name, "' failed at ", what, ": ",
       stored.error ? stored.error->message
                    : text_of("it gave the status ", static_cast<int>(status), " and no reason"));
}

void PluginDevice::free(void (*function)(void*, void*), void* what) const noexcept {
  try {
    const CallUnderWay here(*this);
    function(handle_, what);
  } catch (...) {  // nobody can be told
  }
}

void PluginDevice::refuse_as_closed() const {
  if (is_closed()) fail(ErrorCode::device_lost, "the process is ending, and ", name_, " begins nothing any more");
}
void PluginDevice::refuse_in_child() const {
  if (getpid() != process_)
    fail(ErrorCode::device_lost, name_,
         " was opened by the parent of this process, and cannot be used in a child of fork; use it in the parent, or "
         "start "
         "the child as a new program (in Python: multiprocessing's \"spawn\")");
}
void PluginDevice::require_usable() const {
  refuse_in_child();
  refuse_as_closed();
  std::scoped_lock lock(mutex_);
  if (!lost_.empty()) fail(ErrorCode::device_lost, name_, " is lost: ", lost_);
}

Event PluginDevice::add(Work work, std::span<const Event> after) {
  require_usable();
  const bool must_wait =
      std::any_of(after.begin(), after.end(), [](const Event& e) { return !e.is_done() || e.error(); });
  const bool is_inline = !must_wait && (target_.is_asynchronous || !work.takes_long);
  EventSource source(name_, work.what);
  Event event = source.event();
  std::shared_ptr<Pending> pending(new Pending{std::move(work), std::move(source)});
  if (is_inline) {
    start(pending);
    return event;
  }
  const auto cancel = target_.is_asynchronous ? nullptr : pending->work.cancel;
  const Event begun = queue_->add(
      pending->work.what, [this, pending] { start(pending); }, after, cancel);
  EventSource::when_done(begun, [pending](std::exception_ptr error) {
    if (error) pending->end(std::move(error));  // it never began
  });
  return event;
}

void PluginDevice::start(const std::shared_ptr<Pending>& pending) noexcept {
  uint64_t id = 0;
  try {
    Work& work = pending->work;
    require_usable();
    if (rlx::is_cancelled(work.cancel.get()))
      fail(ErrorCode::cancelled, work.what, " on ", name_, " was cancelled before it began");
    // Of its own: the work may end before this function returns.
    const std::string what = work.what;
    const auto begin = work.begin;
    const CallUnderWay here(*this);  // until the work, if it has ended by then, has said so
    std::unique_lock lock(mutex_);
    refuse_as_closed();  // from then on the watcher is that of `close`, and there is no more work to wait for
    pending->track = free_track();
    if (target_.is_asynchronous) {
      if (work.cancel && work.may_be_left && !watcher_.joinable()) try {
          watcher_ = std::thread([this] { watch(); });
        } catch (const std::system_error& e) {
          fail(ErrorCode::out_of_memory, "there is no thread that looks after the work of ", name_, ": ", e.what());
        }
      id = next_++;
      pending_.emplace(id, pending);
    }
    lock.unlock();
    changed_.notify_all();
    pending->source.begin(pending->track);
    pending->began = std::chrono::steady_clock::now();
    call(what, [&](rlx_error** error) { return begin({(uint64_t{number_} << kBitsOfWork) | id}, error); });
    if (id == 0) end(*pending, nullptr);
  } catch (...) {
    if (id != 0 && !forget(id)) return;  // it was ended, too: see `forget`
    end(*pending, std::current_exception());
  }
}

/// The first that no work is on. With the lock.
int PluginDevice::free_track() {
  const auto found = std::find(tracks_.begin(), tracks_.end(), false);
  const auto track = static_cast<int>(found - tracks_.begin());
  if (found == tracks_.end()) tracks_.push_back(true);
  else *found = true;
  return track;
}

/// Its track is free after that, and not before: what comes next on it must not begin before this has ended.
void PluginDevice::end(Pending& pending, std::exception_ptr error) noexcept {
  pending.end(std::move(error));
  if (pending.track < 0) return;
  std::scoped_lock lock(mutex_);
  tracks_[static_cast<size_t>(pending.track)] = false;
}

/// Of work that failed to begin: true if it is still to be ended.
bool PluginDevice::forget(uint64_t id) {
  {
    std::scoped_lock lock(mutex_);
    const auto found = pending_.find(id);
    if (found != pending_.end()) {
      const bool is_left = found->second->is_left;
      pending_.erase(found);
      return !is_left;
    }
  }
  lose("its backend ended a piece of work whose beginning it said had failed");
  return false;
}

rlx_status PluginDevice::complete(rlx_completion completion, rlx_status status, const char* message) noexcept {
  try {
    PluginDevice* device = nullptr;
    {
      std::scoped_lock lock(all().mutex);
      const uint64_t number = completion.id >> kBitsOfWork;
      if (number < all().devices.size()) device = all().devices[number];
    }
    return device ? device->complete_here(completion.id & (kMostWork - 1), status, message) : RLX_INVALID_ARGUMENT;
  } catch (...) {
    return RLX_INTERNAL;
  }
}

rlx_status PluginDevice::complete_here(uint64_t id, rlx_status status, const char* message) {
  std::shared_ptr<Pending> ended;
  {
    std::scoped_lock lock(mutex_);
    if (id == 0 || id >= next_) return RLX_INVALID_ARGUMENT;  // no work ever had it
    if (const auto found = pending_.find(id); found != pending_.end()) {
      if (found->second->is_left && is_closed()) return RLX_OK;  // `close` gave up: what it keeps stays
      ended = std::move(found->second);
      pending_.erase(found);
      ++calls_;                                          // until its end is over, for which `close` waits
      if (ended->is_left) ended->work.at_end = nullptr;  // nobody waits for it any more
    }
  }
  if (!ended) {
    lose("its backend ended a piece of work a second time");
    return RLX_INVALID_ARGUMENT;
  }
  std::exception_ptr error;
  if (status != RLX_OK) try {
      fail(code_of(status), "the backend '", table_->name, "' failed at ", ended->work.what, ": ",
           message ? printable_text(message)
                   : text_of("it gave the status ", static_cast<int>(status), " and no reason"));
    } catch (...) {
      error = std::current_exception();
    }
  end(*ended, std::move(error));
  ended = nullptr;
  std::scoped_lock lock(mutex_);
  --calls_;
  if (is_closed()) changed_.notify_all();
  return RLX_OK;
}

void PluginDevice::lose(const std::string& why) noexcept {
  std::vector<std::shared_ptr<Pending>> left;
  std::exception_ptr error;
  try {
    std::scoped_lock lock(mutex_);
    if (lost_.empty()) lost_ = why;
    try {
      fail(ErrorCode::device_lost, name_, " is lost: ", lost_);
    } catch (...) {
      error = std::current_exception();
    }
    for (const auto& [id, pending] : pending_)
      if (pending->work.may_be_left && !pending->is_left) {
        left.push_back(pending);
        pending->is_left = true;
      }
  } catch (...) {  // no memory for the list: what is pending waits for the backend
  }
  // What the backend may still write is kept until it says that it has ended.
  for (const auto& pending : left) pending->source.fail(error);
}

std::chrono::milliseconds PluginDevice::time_to_cancel() const {
  return std::chrono::milliseconds(target_.cancel_milliseconds > 0 ? target_.cancel_milliseconds : 30'000);
}

void PluginDevice::watch() {
  std::unique_lock lock(mutex_);
  while (!is_closed()) {
    changed_.wait(lock, [this] { return is_closed() || !pending_.empty(); });
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::milliseconds room = time_to_cancel();
    std::string overdue;
    for (auto& [id, pending] : pending_) {
      if (pending->is_left || !pending->work.may_be_left || !rlx::is_cancelled(pending->work.cancel.get())) continue;
      if (!pending->cancelled) pending->cancelled = now;
      if (now - *pending->cancelled > room) overdue = pending->work.what;
    }
    if (!overdue.empty()) {
      lock.unlock();
      lose(text_of(overdue, " was cancelled, and its backend has not ended it within ", room.count(), " ms"));
      lock.lock();
    }
    changed_.wait_for(lock, kBetweenLooks, [this] { return is_closed(); });
  }
}

void PluginDevice::close() {
  if (getpid() != process_) return;  // its threads are the parent's
  bool is_over = false;
  {
    std::unique_lock lock(mutex_);
    if (is_closed_.exchange(true)) return;  // each device that was opened registered a call
    for (auto& [id, pending] : pending_)
      if (pending->work.cancel) pending->work.cancel->store(true, std::memory_order_relaxed);
    changed_.notify_all();
    // What the backend is at uses its variables, which the end of the process destroys next.
    const auto is_idle = [this] {
      return calls_ == 0 &&
             std::all_of(pending_.begin(), pending_.end(), [](const auto& each) { return each.second->is_left; });
    };
    // Of a backend that ends the process itself nothing is waited for: its own function would be.
    is_over = CallUnderWay::of_this_thread > 0 || changed_.wait_for(lock, time_to_cancel(), is_idle);
  }
  if (!is_over)
    lose(text_of("the process is ending, and its backend has not ended its work within ", time_to_cancel().count(),
                 " ms"));
  if (watcher_.joinable()) watcher_.join();
  if (queue_) queue_->close();
}

}  // namespace rlx::c
