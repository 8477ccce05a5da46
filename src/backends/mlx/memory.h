// MLX's memory, behind the runtime's DeviceMemory. A block holds an array, which is replaced as a whole and never
// written to. So a copied block shares the elements, and a run stores the array of an output in the block given for it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "backends/device_memory.h"
#include "backends/mlx/carry.h"
#include "backends/mlx/module.h"

namespace rlx::mlx_backend {

class ArrayBlock final : public Block {
 public:
  explicit ArrayBlock(size_t bytes) : bytes_(bytes) {}
  size_t bytes() const { return bytes_; }
  /// The elements as an array of that type. Fails if there are none: nothing was written, or take() gave them away.
  mx::array get(DType dtype, const Shape& shape) const;
  /// As get(), and empties the block: MLX may write the values of a run over the elements.
  mx::array take(DType dtype, const Shape& shape);
  /// `value` must have been evaluated, and be dense in row-major order.
  void put(const mx::array& value);
  void put_bytes(std::span<const std::byte> from);
  void put_same(const ArrayBlock& other);
  void copy_to(std::span<std::byte> to, size_t offset) const;

 private:
  mx::array there() const;
  void set(mx::array value);
  const size_t bytes_;
  mutable std::mutex mutex_;
  std::optional<mx::array> value_;  // it has `bytes_` bytes; its shape and dtype are of no meaning
};

/// Fails for a buffer that is not of this device.
ArrayBlock& block_of(const Buffer& buffer);

/// The memory of the process, shared by devices of all modes (lazy, eager, compiled).
const std::shared_ptr<DeviceMemory>& mlx_memory();
/// Begins work on another thread once its events have ended well; set when the module is opened.
Background& background_of_device();

/// Does `work` at once if all of `after` have ended well, else in the background. Returns the event of its end.
Event at_once_or_later(std::string name, std::function<void()> work, std::span<const Event> after);

}  // namespace rlx::mlx_backend
