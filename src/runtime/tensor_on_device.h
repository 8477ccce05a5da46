// What stands behind an rlx::DeviceTensor: its place, the work that makes it, and the work that still reads it.
#pragma once

#include <mutex>

#include "backends/backend.h"
#include "backends/device_memory.h"

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

/// A tensor that nothing has been written to, with memory where the device has its own. Fails with out_of_memory.
std::shared_ptr<TensorOnDevice> new_tensor_on(const Device& device, std::shared_ptr<const Backend> backend, DType dtype,
                                              const Shape& shape);
/// Memory for that many bytes. Fails with out_of_memory, or if it is larger than any buffer there may be.
Buffer new_buffer(DeviceMemory& memory, const Device& device, size_t bytes);
/// Begins to copy the elements to the host: `to`, which the copy keeps, holds them once the event has ended. Fails if
/// the tensor is gone.
Event begin_copy_to_host(const std::shared_ptr<TensorOnDevice>& from, const std::shared_ptr<Tensor>& to);
/// The tensor itself, or a copy of elements that are borrowed from nobody who would keep them.
Tensor with_owner(const Tensor& tensor);
/// An event that ends well when that one has ended in any way: for ordering alone.
Event after_end(const Event& event);

}  // namespace rlx
