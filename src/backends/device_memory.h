// What a device with memory of its own does with it. Host pointers are never pointers into that memory.
#pragma once

#include <atomic>

#include "rlx/device_tensor.h"

namespace rlx {

/// A piece of a device's memory. Destroying it gives the memory back; whoever uses it in work that is under way keeps
/// it until that work has ended.
class Block {
 public:
  virtual ~Block() = default;
};

/// Dense elements in a device's memory.
struct Buffer {
  std::shared_ptr<Block> block;
  size_t offset = 0, bytes = 0;
};

/// Elements of the host that a copy reads or writes later: `owner` keeps them.
struct HostBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
struct WritableHostBytes {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner;
};

/// What was exchanged with a memory, counted by the runtime.
struct TransferCounts {
  std::atomic<uint64_t> host_waits{0}, copies_to_device{0}, bytes_to_device{0}, copies_to_host{0}, bytes_to_host{0},
      donated_copies{0}, split_copies{0}, split_bytes{0};
};

/// The verbs of memory that the host cannot point into. Each copy waits for the events that it is given, keeps blocks
/// and owners until it ends, and fails with the first cause if one of them failed. Called from several threads at once.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual Memory about() const = 0;
  /// At least `bytes`. Fails with out_of_memory, which may be tried again when other blocks are gone.
  virtual std::shared_ptr<Block> allocate(size_t bytes) = 0;
  virtual Event write(Buffer to, HostBytes from, std::span<const Event> after) = 0;
  virtual Event read(WritableHostBytes to, Buffer from, std::span<const Event> after) = 0;
  virtual Event copy(Buffer to, Buffer from, std::span<const Event> after) = 0;

  /// For the runtime, which counts.
  TransferCounts& counts() const { return counts_; }

 private:
  mutable TransferCounts counts_;
};

}  // namespace rlx
