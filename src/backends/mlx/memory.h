// The memory of MLX, as the runtime has it: a block holds an array, which is replaced as a whole and never written to.
// So a copy shares the elements, and a run that is given a block for an output puts what it computed there.
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
  /// The elements, as a value of that type. Fails if there are none: nothing was written, or a run was given them.
  mx::array get(DType dtype, const Shape& shape) const;
  /// The same, and gives them away: MLX may write the run's values over them.
  mx::array take(DType dtype, const Shape& shape);
  /// An array that was computed, and is dense in row-major order.
  void put(const mx::array& value);
  void put_bytes(std::span<const std::byte> from);
  void put_same(const ArrayBlock& other);
  void copy_to(std::span<std::byte> to, size_t offset) const;

 private:
  mx::array there() const;
  void set(mx::array value);
  const size_t bytes_;
  mutable std::mutex mutex_;
  std::optional<mx::array> value_;  // of these bytes; its shape and dtype say nothing
};

/// Fails for a buffer that is not of this device.
ArrayBlock& block_of(const Buffer& buffer);

/// The memory of the process: one for all modes.
const std::shared_ptr<DeviceMemory>& mlx_memory();
/// Who runs what nobody waits for at once: set when the module is opened.
Background& background_of_device();

/// `work` at once if all of `after` is over, else in the background. The event of its end.
Event at_once_or_later(std::string name, std::function<void()> work, std::span<const Event> after);

}  // namespace rlx::mlx_backend
