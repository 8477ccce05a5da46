// Memory that works while the processor computes: stores that bypass the caches, and what is read next, in pieces
// between other work. All at once they would fill the buffers of the core, and both would wait for each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace rlx::kernels {

/// memcpy whose stores bypass the caches where the target has such stores; end with `stream_fence`.
void stream_copy(void* to, const void* from, size_t bytes) noexcept;
void stream_fence() noexcept;

/// Lines of 64 bytes for a loop that deals them out itself, one of each kind for every 64 bytes that it computes: what
/// it asks for, and what it writes past the caches, where `to` is at a line.
struct TrafficLines {
  const std::byte* read = nullptr;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t reads = 0, writes = 0;
};

/// What is still to be written and to be asked for.
class MemoryTraffic {
 public:
  /// So many results and operands are worked on in pieces; further results are written at once.
  static constexpr int kMostLines = 8;

  /// Result `line` is to be written; what was pending of it is written first. `from` stays until then.
  void write(int line, std::byte* to, const std::byte* from, size_t bytes) noexcept {
    if (line >= kMostLines) return stream_copy(to, from, bytes);
    finish(line);
    writes_[line] = {from, to, bytes};
    write_lines_ = std::max(write_lines_, line + 1);
  }
  void finish(int line) noexcept {
    if (line < kMostLines) copy(writes_[line], writes_[line].bytes);
  }
  void finish() noexcept {
    for (int i = 0; i < write_lines_; ++i) finish(i);
  }
  /// Operand `line` will be read there.
  void read(int line, const std::byte* from, size_t bytes) noexcept {
    if (line >= kMostLines) return;
    reads_[line] = {from, bytes};
    read_lines_ = std::max(read_lines_, line + 1);
  }
  /// Whether there is one operand and one result at most: what take() can give.
  bool is_simple() const noexcept { return read_lines_ <= 1 && write_lines_ <= 1; }
  /// Up to `most` lines of the first operand and of the first result; they count as done.
  TrafficLines take(int64_t most) noexcept {
    Read& r = reads_[0];
    Write& w = writes_[0];
    TrafficLines lines{r.from, w.from, w.to, std::min(most, static_cast<int64_t>((r.bytes + 63) / 64)), 0};
    const size_t read = std::min(r.bytes, static_cast<size_t>(lines.reads) * 64);
    r.from += read, r.bytes -= read;
    if (reinterpret_cast<uintptr_t>(w.to) % 64 != 0) return lines;
    lines.writes = std::min(most, static_cast<int64_t>(w.bytes / 64));
    const size_t written = static_cast<size_t>(lines.writes) * 64;
    w.from += written, w.to += written, w.bytes -= written;
    return lines;
  }
  /// At most so many bytes of each.
  void advance(size_t bytes) noexcept {
    for (int i = 0; i < write_lines_; ++i) copy(writes_[i], std::min(bytes, writes_[i].bytes));
    for (int i = 0; i < read_lines_; ++i) {
      Read& r = reads_[i];
      const size_t now = std::min(bytes, r.bytes);
      for (size_t at = 0; at < now; at += 64) __builtin_prefetch(r.from + at);
      r.from += now, r.bytes -= now;
    }
  }

 private:
  struct Write {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    size_t bytes = 0;
  };
  struct Read {
    const std::byte* from = nullptr;
    size_t bytes = 0;
  };
  static void copy(Write& w, size_t bytes) noexcept {
    if (bytes == 0) return;
    stream_copy(w.to, w.from, bytes);
    w.from += bytes, w.to += bytes, w.bytes -= bytes;
  }

  Write writes_[kMostLines];
  Read reads_[kMostLines];
  int write_lines_ = 0, read_lines_ = 0;
};

}  // namespace rlx::kernels
