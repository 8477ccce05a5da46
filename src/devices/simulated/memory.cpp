// See the header.
#include "devices/simulated/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/rounded_up.h"

namespace rlx::simulated {
namespace {

constexpr size_t kPatterned = 4096;  // bytes of a block that are filled, so that nobody takes them for zeros

}  // namespace

struct SimulatedMemory::NumberedBlock final : Block {
  NumberedBlock(std::shared_ptr<SimulatedMemory> memory, uint32_t n) : of(std::move(memory)), number(n) {}
  ~NumberedBlock() override { of->give_back(number); }
  const std::shared_ptr<SimulatedMemory> of;
  const uint32_t number;
};

SimulatedMemory::SimulatedMemory(Memory about, WorkQueue& queue, Faults* faults)
    : about_(std::move(about)), queue_(queue), faults_(faults) {
  const size_t bytes = about_.capacity;
#ifdef __linux__
  const int file = memfd_create("rlx-simulated-memory", MFD_CLOEXEC);
  const bool has_file = file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0;
  void* base =
      has_file ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0) : MAP_FAILED;
  if (file >= 0) close(file);
#else
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
#endif
  if (base == MAP_FAILED) fail(ErrorCode::out_of_memory, "no memory of ", bytes, " bytes can be mapped for the device");
  base_ = static_cast<std::byte*>(base);
  free_.emplace(0, bytes);
}
SimulatedMemory::~SimulatedMemory() { munmap(base_, about_.capacity); }

std::shared_ptr<Block> SimulatedMemory::allocate(size_t bytes) {
  if (faults_) faults_->check(Fault::allocate, text_of(bytes, " bytes"));
  const size_t wanted = std::max(rounded_up(bytes, about_.alignment), about_.alignment);
  uint32_t number = 0;
  {
    std::scoped_lock lock(mutex_);
    const auto found =
        std::find_if(free_.begin(), free_.end(), [&](const auto& piece) { return piece.second >= wanted; });
    if (found == free_.end()) {
      size_t left = 0;
      for (const auto& [offset, size] : free_) left += size;
      fail(ErrorCode::out_of_memory, "the device has no piece of ", bytes, " bytes: ", left, " of its ",
           about_.capacity, " bytes are free");
    }
    const auto [offset, size] = *found;
    number = next_++;
    const auto made = allocated_.emplace(number, std::pair(offset, wanted)).first;
    try {
      if (size > wanted) free_.emplace(offset + wanted, size - wanted);
    } catch (...) {  // no memory of the host's: the piece stays free
      allocated_.erase(made);
      throw;
    }
    free_.erase(found);
    std::memset(base_ + offset, 0xff, std::min(wanted, kPatterned));  // NaN, and -1
  }
  try {
    return std::make_shared<NumberedBlock>(shared_from_this(), number);
  } catch (...) {
    give_back(number);
    throw;
  }
}

void SimulatedMemory::give_back(uint32_t number) noexcept {
  std::scoped_lock lock(mutex_);
  const auto found = allocated_.find(number);
  auto [offset, size] = found->second;
  std::memset(base_ + offset, 0xa5, std::min(size, kPatterned));
  allocated_.erase(found);
  const auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin())
    if (auto before = std::prev(after); before->first + before->second == offset) {
      before->second += size;
      return;
    }
  try {
    free_.emplace(offset, size);
  } catch (const std::bad_alloc&) {  // then the piece is lost to the device; nobody can be told
  }
}

std::byte* SimulatedMemory::address(const Buffer& buffer) const {
  if (!WorkQueue::is_own_thread()) fail(ErrorCode::internal, "the host points into the memory of a device");
  const auto* block = dynamic_cast<const NumberedBlock*>(buffer.block.get());
  if (!block || block->of.get() != this)
    fail(ErrorCode::internal, "a buffer of another device, or of none, was handed over");
  std::scoped_lock lock(mutex_);
  const auto [offset, size] = allocated_.at(block->number);
  if (buffer.offset > size || buffer.bytes > size - buffer.offset)
    fail(ErrorCode::internal, "a buffer of ", buffer.bytes, " bytes at ", buffer.offset, " leaves its block of ", size);
  return base_ + offset + buffer.offset;
}

size_t SimulatedMemory::blocks() const {
  std::scoped_lock lock(mutex_);
  return allocated_.size();
}

Event SimulatedMemory::write(Buffer to, HostBytes from, std::span<const Event> after) {
  return queue_.add(
      text_of("a copy of ", from.bytes.size(), " bytes to the device"),
      [this, to = std::move(to), from = std::move(from)] {
        if (faults_) faults_->check(Fault::write, "a copy to it");
        if (!from.bytes.empty()) std::memcpy(address(to), from.bytes.data(), from.bytes.size());
      },
      after);
}
Event SimulatedMemory::read(WritableHostBytes to, Buffer from, std::span<const Event> after) {
  return queue_.add(
      text_of("a copy of ", to.bytes.size(), " bytes from the device"),
      [this, to = std::move(to), from = std::move(from)] {
        if (faults_) faults_->check(Fault::read, "a copy from it");
        if (!to.bytes.empty()) std::memcpy(to.bytes.data(), address(from), to.bytes.size());
      },
      after);
}
Event SimulatedMemory::copy(Buffer to, Buffer from, std::span<const Event> after) {
  return queue_.add(
      text_of("a copy of ", from.bytes, " bytes on the device"),
      [this, to = std::move(to), from = std::move(from)] {
        if (faults_) faults_->check(Fault::write, "a copy on it");
        if (from.bytes) std::memmove(address(to), address(from), from.bytes);
      },
      after);
}

}  // namespace rlx::simulated
