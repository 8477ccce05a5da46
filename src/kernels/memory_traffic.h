// Memory that works while the processor computes: stores that bypass the caches, and what is read next, in pieces
// between other work. All at once they would fill the buffers of the core, and both would wait for each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace rlx::kernels {

/// memcpy whose stores bypass the caches where the target has such stores; end with `stream_fence`.
void stream_copy(void* to, const void* from, size_t bytes) noexcept;
void stream_fence() noexcept;

/// What is still to be written and to be asked for.
class MemoryTraffic {
 public:
  /// So many results and operands are worked on in pieces; further results are written at once.
  static constexpr int kMostLines = 8;
  static constexpr size_t kLine = 64;  ///< bytes of a line of the caches

  /// Result `line` is to be written; what was pending of it is written first. `from` stays until then.
  void write(int line, std::byte* to, const std::byte* from, size_t bytes) noexcept {
    if (line >= kMostLines) return stream_copy(to, from, bytes);
    while (write_lines_ <= line) writes_[write_lines_++] = {};
    finish(line);
    writes_[line] = {from, to, bytes};
  }
  void finish(int line) noexcept {
    if (line < write_lines_) copy(writes_[line], writes_[line].bytes);
  }
  void finish() noexcept {
    for (int i = 0; i < write_lines_; ++i) finish(i);
  }
  /// Operand `line` will be read there.
  void read(int line, const std::byte* from, size_t bytes) noexcept {
    if (line >= kMostLines) return;
    while (read_lines_ <= line) reads_[read_lines_++] = {};
    reads_[line] = {from, bytes};
  }
  /// For loops that move lines themselves.
  struct Lines {
    const std::byte* ahead;  ///< to ask for; null if there is nothing
    const std::byte* from;   ///< to write past the caches to `to`, which lies at a line; null if there is nothing
    std::byte* to;
  };
  /// `bytes` of the first operand and of the first result, if there are so many; they count as done.
  Lines take(size_t bytes) noexcept {
    Lines lines{};
    if (read_lines_ > 0 && reads_[0].bytes >= bytes) {
      Read& r = reads_[0];
      lines.ahead = r.from;
      r.from += bytes, r.bytes -= bytes;
    }
    if (write_lines_ > 0 && writes_[0].bytes >= bytes && reinterpret_cast<uintptr_t>(writes_[0].to) % kLine == 0) {
      Write& w = writes_[0];
      lines.from = w.from, lines.to = w.to;
      w.from += bytes, w.to += bytes, w.bytes -= bytes;
    }
    return lines;
  }
  /// All that is to be asked for of the first operand; it counts as done.
  std::span<const std::byte> take_ahead() noexcept {
    if (read_lines_ == 0) return {};
    return {reads_[0].from, std::exchange(reads_[0].bytes, 0)};
  }
  /// Whether there is anything but the first operand.
  bool has_more() const noexcept { return read_lines_ > 1 || write_lines_ > 0; }
  /// At most so many bytes of each.
  void advance(size_t bytes) noexcept {
    for (int i = 0; i < write_lines_; ++i) copy(writes_[i], std::min(bytes, writes_[i].bytes));
    for (int i = 0; i < read_lines_; ++i) ask(reads_[i], bytes);
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
  static void ask(Read& r, size_t bytes) noexcept {
    const size_t now = std::min(bytes, r.bytes);
    for (size_t at = 0; at < now; at += kLine) __builtin_prefetch(r.from + at);
    r.from += now, r.bytes -= now;
  }
  static void copy(Write& w, size_t bytes) noexcept {
    if (bytes == 0) return;
    stream_copy(w.to, w.from, bytes);
    w.from += bytes, w.to += bytes, w.bytes -= bytes;
  }

  // Only so many of them are set: runs over few elements are short.
  Write writes_[kMostLines];
  Read reads_[kMostLines];
  int write_lines_ = 0, read_lines_ = 0;
};

}  // namespace rlx::kernels
