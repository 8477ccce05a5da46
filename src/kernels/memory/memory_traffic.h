// Memory traffic of a loop that is interleaved with its arithmetic in small pieces: prefetches of what it reads next,
// and non-temporal stores (which bypass the caches) of what it has computed. All at once, these would fill the core's
// buffers for outstanding cache lines, and arithmetic and memory would wait for each other. User: kernels/elementwise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace rlx::kernels {

/// memcpy by non-temporal stores where the target has them. Call `stream_fence` after the last one.
void stream_copy(void* to, const void* from, size_t bytes) noexcept;
void stream_fence() noexcept;

/// The prefetches and non-temporal stores that are still to be done, for one thread.
class MemoryTraffic {
 public:
  /// The number of operands, and of results, that are handled in pieces. Results beyond that are written at once, and
  /// operands beyond it are not prefetched.
  static constexpr int kMaxStreams = 8;
  static constexpr size_t kCacheLine = 64;  ///< bytes

  /// Queues a non-temporal copy to result `result`, after completing the pending one. `from` must stay valid until it
  /// is complete.
  void write(int result, std::byte* to, const std::byte* from, size_t bytes) noexcept {
    if (result >= kMaxStreams) return stream_copy(to, from, bytes);
    while (write_count_ <= result) writes_[write_count_++] = {};
    flush(result);
    writes_[result] = {from, to, bytes};
  }
  /// Completes the pending copy of a result.
  void flush(int result) noexcept {
    if (result < write_count_) copy(writes_[result], writes_[result].bytes);
  }
  /// Completes the pending copies of all results.
  void flush() noexcept {
    for (int i = 0; i < write_count_; ++i) flush(i);
  }
  /// Queues a prefetch for operand `operand`; it replaces the pending one.
  void read(int operand, const std::byte* from, size_t bytes) noexcept {
    if (operand >= kMaxStreams) return;
    while (read_count_ <= operand) reads_[read_count_++] = {};
    reads_[operand] = {from, bytes};
  }
  /// Whole cache lines of traffic, for a loop that prefetches and stores them itself (move_cache_line in
  /// memory_traffic-inl.h).
  struct CacheLines {
    const std::byte* prefetch;  ///< null: nothing to prefetch
    const std::byte* from;      ///< to be copied to `to` by non-temporal stores
    std::byte* to;              ///< starts at a cache line; null: nothing to copy
  };
  /// Hands over the next `bytes` bytes of operand 0's prefetch and of result 0's copy. The prefetch is left out if
  /// fewer bytes are pending; so is the copy, which is also left out if its next byte does not start a cache line.
  CacheLines claim_cache_lines(size_t bytes) noexcept {
    CacheLines cache_lines{};
    if (read_count_ > 0 && reads_[0].bytes >= bytes) {
      Read& r = reads_[0];
      cache_lines.prefetch = r.from;
      r.from += bytes, r.bytes -= bytes;
    }
    if (write_count_ > 0 && writes_[0].bytes >= bytes && reinterpret_cast<uintptr_t>(writes_[0].to) % kCacheLine == 0) {
      Write& w = writes_[0];
      cache_lines.from = w.from, cache_lines.to = w.to;
      w.from += bytes, w.to += bytes, w.bytes -= bytes;
    }
    return cache_lines;
  }
  /// Hands over the whole pending prefetch of operand 0.
  std::span<const std::byte> claim_prefetch() noexcept {
    if (read_count_ == 0) return {};
    return {reads_[0].from, std::exchange(reads_[0].bytes, 0)};
  }
  /// Whether there may be traffic besides the prefetch of operand 0.
  bool has_more() const noexcept { return read_count_ > 1 || write_count_ > 0; }
  /// Continues every pending copy and prefetch by at most `bytes` bytes.
  void advance(size_t bytes) noexcept {
    for (int i = 0; i < write_count_; ++i) copy(writes_[i], std::min(bytes, writes_[i].bytes));
    for (int i = 0; i < read_count_; ++i) prefetch(reads_[i], bytes);
  }

 private:
  struct Write {
    const std::byte* from;
    std::byte* to;
    size_t bytes;
  };
  struct Read {
    const std::byte* from;
    size_t bytes;
  };
  static void prefetch(Read& r, size_t bytes) noexcept {
    const size_t now = std::min(bytes, r.bytes);
    for (size_t at = 0; at < now; at += kCacheLine) __builtin_prefetch(r.from + at);
    r.from += now, r.bytes -= now;
  }
  static void copy(Write& w, size_t bytes) noexcept {
    if (bytes == 0) return;
    stream_copy(w.to, w.from, bytes);
    w.from += bytes, w.to += bytes, w.bytes -= bytes;
  }

  // Only the first *_count_ entries are initialized: clearing all would cost too much in runs over few elements.
  Write writes_[kMaxStreams];
  Read reads_[kMaxStreams];
  int write_count_ = 0, read_count_ = 0;
};

}  // namespace rlx::kernels
