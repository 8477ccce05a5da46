// The memory of a simulated accelerator: an anonymous file mapping whose addresses only work on a simulated queue is
// told. Everybody else holds blocks, which are small numbers.
#pragma once

#include <map>
#include <mutex>

#include "backends/device_memory.h"
#include "devices/simulated/faults.h"
#include "runtime/work_queue.h"

namespace rlx::simulated {

class SimulatedMemory final : public DeviceMemory, public std::enable_shared_from_this<SimulatedMemory> {
 public:
  /// `faults` may be null, and lives as long as this.
  SimulatedMemory(Memory about, WorkQueue& queue, Faults* faults);
  ~SimulatedMemory() override;

  Memory about() const override { return about_; }
  std::shared_ptr<Block> allocate(size_t bytes) override;
  Event write(Buffer to, HostBytes from, std::span<const Event> after) override;
  Event read(WritableHostBytes to, Buffer from, std::span<const Event> after) override;
  Event copy(Buffer to, Buffer from, std::span<const Event> after) override;

  /// The address of a buffer's first byte. Fails on any thread that is no simulated queue's: the host must not point
  /// there.
  std::byte* address(const Buffer& buffer) const;
  /// Blocks that are allocated.
  size_t blocks() const;

 private:
  struct NumberedBlock;
  void give_back(uint32_t number) noexcept;

  const Memory about_;
  WorkQueue& queue_;
  Faults* const faults_;
  std::byte* base_ = nullptr;
  mutable std::mutex mutex_;
  std::map<size_t, size_t> free_;                            // offset, bytes
  std::map<uint32_t, std::pair<size_t, size_t>> allocated_;  // number: offset, bytes
  uint32_t next_ = 1;
};

}  // namespace rlx::simulated
