// What stands behind an rlx::DeviceTensor: its place, the work that makes it, and the work that still reads it.
#pragma once

#include <mutex>

#include "backends/backend.h"
#include "backends/device_memory.h"
#include "rlx/session.h"

namespace rlx {

struct TensorOnDevice {
  const Device device;
  const std::shared_ptr<const Backend> backend;
  const DType dtype;
  const Shape shape;

  TensorOnDevice(Device on, std::shared_ptr<const Backend> by, DType type, Shape extents)
      : device(std::move(on)), backend(std::move(by)), dtype(type), shape(std::move(extents)) {}

  std::mutex mutex;                 // guards what follows
  Buffer buffer = {};               // on a device with memory of its own
  Tensor host = {};                 // elsewhere; may be read once `ready` has ended
  Event ready = {};                 // ends when the elements may be read
  std::vector<Event> readers = {};  // of work that reads them, which whoever overwrites them waits for
  std::string gone = {};            // why it cannot be used any more: a run was given it
  bool is_param = false;            // a compiled graph reads the buffer from now on: nobody overwrites it

  // With the lock.
  void require_there() const;
  void add_reader(const Event& event);
  /// What has to end, well or not, before the elements are overwritten.
  std::vector<Event> before_writing() const;
  DeviceArgument argument() const { return {buffer, dtype, shape}; }
};

/// What is noted of one run on a device: what it copied, and the ends of its work. Threads may share it.
class RunRecord final : public RunObserver {
 public:
  void moved(const Transfers& what) override;
  void worked(const Event& event) override;
  void count(uint64_t Transfers::*what, uint64_t n = 1);
  void add_work(Event event);
  /// The end of the run itself.
  void set_run(Event event);
  /// What was copied so far, and the work that has ended, from `began` on.
  Profile profile() const;
  /// When the run itself began, in microseconds from `began`; 0 until it has ended.
  double run_start_us() const;

  const std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();

 private:
  mutable std::mutex mutex_;
  Transfers transfers_;
  std::vector<Event> work_;
  Event run_;
};

/// Counts a wait of the host, if the device has memory of its own.
void count_wait(const Backend& backend, RunRecord* record);
/// device_put, noted in `record` unless that is null. What goes wrong, now or in the copy, says that it did while
/// `doing`.
DeviceTensor put_on_device(const Tensor& tensor, const Device& device, RunRecord* record, const std::string& doing);
/// Ends as that event does; an error of it says that it came while `doing`.
Event in_context(const Event& event, std::string doing);
/// A tensor that nothing has been written to, with memory where the device has its own. Fails with out_of_memory.
std::shared_ptr<TensorOnDevice> new_tensor_on(const Device& device, std::shared_ptr<const Backend> backend, DType dtype,
                                              const Shape& shape);
/// Memory for that many bytes. Fails with out_of_memory, or if it is larger than any buffer there may be.
Buffer new_buffer(DeviceMemory& memory, const Device& device, size_t bytes);
/// Begins to copy the elements to the host: `to`, which the copy keeps, holds them once the event has ended. Fails if
/// the tensor is gone. Noted in `record` unless that is null.
Event begin_copy_to_host(const std::shared_ptr<TensorOnDevice>& from, const std::shared_ptr<Tensor>& to,
                         RunRecord* record = nullptr);
/// The elements of all of them on the host: one wait for each. Waits for all before it throws the first error, which
/// says that it came while `doing(i)`.
std::vector<std::shared_ptr<Tensor>> read_all(std::span<const DeviceTensor> tensors, RunRecord* record,
                                              const std::function<std::string(size_t)>& doing);
/// The tensor itself, or a copy of elements that are borrowed from nobody who would keep them.
Tensor with_owner(const Tensor& tensor);
/// An event that ends well when that one has ended in any way: for ordering alone.
Event after_end(const Event& event);

}  // namespace rlx
