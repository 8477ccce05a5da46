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
  direct,  ///< by pointers: it is the host's own memory, and a tensor of the host is in it without a copy
  mapped,  ///< after a mapping that takes time
  none,    ///< by copies alone
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
  /// Donated inputs whose memory something else still reads, so that they were copied first.
  uint64_t donated_copies = 0;

  bool operator==(const Transfers&) const = default;
  Transfers operator-(const Transfers& before) const;
};
/// All of it since the process began; all 0 for a device that computes in the host's memory. Fails if this build has no
/// backend for the device.
Transfers transfers_of(const Device& device);

struct TensorOnDevice;  // runtime/tensor_on_device.h

/// A dense, row-major tensor on a device. Copies are the same tensor: who writes to one writes to all. It can be handed
/// on while its elements are still being computed; reading them waits. Where the device's memory is the host's own,
/// nothing is copied on the way there and back.
///
/// A run may take the tensor away: as an input that was donated (CompileOptions::donate). Then it is gone, and using it
/// is an error that names the run. If a run fails or is cancelled, what it was writing is torn: reading that is an
/// error with the run's cause, until it is written anew.
class DeviceTensor {
 public:
  /// No tensor: `is_empty`. Everything else fails.
  DeviceTensor() = default;

  bool is_empty() const { return !state_; }
  DType dtype() const;
  const Shape& shape() const;
  size_t byte_count() const;
  Type type() const { return {dtype(), Dims(shape().begin(), shape().end())}; }
  Device device() const;

  /// Ends when the elements may be read.
  Event ready() const;
  /// The elements, copied unless they are in the host's memory. Waits until they are there; throws what prevented it.
  Tensor to_host() const;
  /// The same elements on another device, or this tensor if it is there already. Goes through the host.
  DeviceTensor to(const Device& device) const;
  /// Writes it anew, behind all work that still reads it; `value` has its type. What was torn or gone is whole again.
  void write(const Tensor& value);
  /// Why it is gone: which run it was donated to; empty if it is not. Waits for nothing.
  std::string why_gone() const;

  explicit DeviceTensor(std::shared_ptr<TensorOnDevice> state) : state_(std::move(state)) {}
  /// For the library: what stands behind it. Fails for an empty one.
  const std::shared_ptr<TensorOnDevice>& on_device() const;

 private:
  std::shared_ptr<TensorOnDevice> state_;
};

/// Begins to copy a tensor to a device, and returns. Shared, not copied, where the device's memory is the host's; the
/// elements are kept until they are there (borrowed ones without an owner are copied first). Fails if the device is not
/// available, or has no room.
DeviceTensor device_put(const Tensor& tensor, const Device& device);

}  // namespace rlx
