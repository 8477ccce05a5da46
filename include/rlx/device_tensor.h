// Tensors on devices: elements in a device's memory, and the event after which they may be read.
#pragma once

#include <memory>
#include <string>

#include "rlx/device.h"
#include "rlx/event.h"
#include "rlx/tensor.h"

namespace rlx {

/// How the host accesses a memory.
enum class HostAccess {
  direct,  ///< by pointers: it is the host's own memory, so tensors of the host need not be copied
  mapped,  ///< by pointers, after a mapping that takes time
  none,    ///< only by copies
};
constexpr std::array<std::string_view, 3> names_of(HostAccess) { return {"direct", "mapped", "none"}; }

/// A memory of a device, as data.
struct Memory {
  std::string name = "host";
  HostAccess host_access = HostAccess::direct;
  size_t alignment = 64;        ///< of buffers, in bytes
  uint64_t capacity = 0;        ///< bytes; 0: as the operating system allows
  uint64_t largest_buffer = 0;  ///< bytes; 0: as its capacity allows
};
/// The memory that a device's tensors are in. Fails if this build has no backend for the device.
Memory memory_of(const Device& device);

/// What the host and a device with memory of its own exchanged.
struct Transfers {
  uint64_t host_waits = 0;  ///< waits of the host: for elements, or for the end of a run that has none to give
  uint64_t copies_to_device = 0, bytes_to_device = 0;
  uint64_t copies_to_host = 0, bytes_to_host = 0;
  /// Donated inputs that were copied first, because something else still reads their memory or the run itself does when
  /// it writes the new value.
  uint64_t donated_copies = 0;
  /// Of the copies above, those between the devices of a graph that is split over several (CompileOptions::fallback):
  /// each is one from a device to the host, or one to a device.
  uint64_t split_copies = 0, split_bytes = 0;

  bool operator==(const Transfers&) const = default;
  Transfers operator-(const Transfers& before) const;
  Transfers operator+(const Transfers& more) const;
};
/// All of it since the process began; all 0 for a device that computes in the host's memory. Fails if this build has no
/// backend for the device.
Transfers transfers_of(const Device& device);

struct TensorOnDevice;  // runtime/tensor_on_device.h

/// A dense, row-major tensor on a device. Copies are the same tensor: writing to one writes to all. It can be passed on
/// while its elements are still being computed; whoever reads them waits. If the device's memory is the host's own,
/// nothing is copied on the way there and back.
///
/// A run may consume the tensor, as a donated input (CompileOptions::donate). After that it is gone, and using it is an
/// error that names the run. If a run fails or is cancelled, the tensors that it was writing are torn: reading one is
/// an error with the run's cause, until the tensor is written again.
class DeviceTensor {
 public:
  /// No tensor: `is_empty` is true, and everything else fails.
  DeviceTensor() = default;

  bool is_empty() const { return !state_; }
  DType dtype() const;
  const Shape& shape() const;
  size_t byte_count() const;
  Type type() const { return {dtype(), Dims(shape().begin(), shape().end())}; }
  Device device() const;

  /// An event that is done when the elements may be read.
  Event ready() const;
  /// The elements. They are copied unless they are in the host's memory. Waits until they are computed; throws the
  /// error that prevented it, if any.
  Tensor to_host() const;
  /// The same elements on another device, or this tensor if it is on that device. The copy goes through the host.
  DeviceTensor to(const Device& device) const;
  /// Writes the tensor again, after all work that still reads it. `value` must have its type. A tensor that was torn or
  /// gone is valid again.
  void write(const Tensor& value);
  /// Why the tensor is gone, that is, to which run it was donated; empty if it is not gone. Does not wait.
  std::string why_gone() const;

  explicit DeviceTensor(std::shared_ptr<TensorOnDevice> state) : state_(std::move(state)) {}
  /// For the library: what stands behind it. Fails for an empty one.
  const std::shared_ptr<TensorOnDevice>& on_device() const;

 private:
  std::shared_ptr<TensorOnDevice> state_;
};

/// Begins to copy a tensor to a device, and returns. If the device's memory is the host's, the elements are shared
/// instead. They are kept alive until they are copied; borrowed elements without an owner are copied first. Fails if
/// the device is not available or has not enough memory.
DeviceTensor device_put(const Tensor& tensor, const Device& device);

}  // namespace rlx
