// See the header. Dims whose table is the identity are merged into their neighbours; a row of y that reads the same row
// of x as the row before it is copied from there.
#include "kernels/index/outer_gather.h"

#include <bit>
#include <cstring>
#include <utility>

#include "kernels/element_bits.h"

namespace rlx::kernels {
namespace {

bool is_whole(const std::vector<int64_t>& table, int64_t extent) {
  if (static_cast<int64_t>(table.size()) != extent) return false;
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i] != static_cast<int64_t>(i)) return false;
  return true;
}

/// Whether with_bits() knows blocks of so many bytes.
bool has_bits(int64_t bytes) { return bytes <= 16 && std::has_single_bit(static_cast<uint64_t>(bytes)); }

void gather_blocks(const OuterGatherPlan& p, const OuterGatherRun& run, const std::byte* x, std::byte* y) {
  const int64_t* from = p.blocks.data() + run.first;
  std::byte* to = y + run.to;
  if (has_bits(p.block_bytes))
    return with_bits(p.block_bytes, [&]<class T>() {
      for (int64_t i = 0; i < run.count; ++i) std::memcpy(to + i * int64_t{sizeof(T)}, x + from[i], sizeof(T));
    });
  for (int64_t i = 0; i < run.count; ++i)
    std::memcpy(to + i * p.block_bytes, x + from[i], static_cast<size_t>(p.block_bytes));
}

void repeat_blocks(const OuterGatherPlan& p, const std::byte* x, std::byte* y) {
  const int64_t count = p.row_bytes / (p.block_bytes * p.repeat);
  if (has_bits(p.block_bytes))
    return with_bits(p.block_bytes, [&]<class T>() {
      for (int64_t i = 0; i < count; ++i) {
        T v[2];
        std::memcpy(v, x + i * int64_t{sizeof(T)}, sizeof(T));
        v[1] = v[0];
        if (p.repeat == 2) {
          std::memcpy(y + 2 * i * int64_t{sizeof(T)}, v, sizeof v);
          continue;
        }
        for (int64_t k = 0; k < p.repeat; ++k) std::memcpy(y + (i * p.repeat + k) * int64_t{sizeof(T)}, v, sizeof(T));
      }
    });
  for (int64_t i = 0; i < count * p.repeat; ++i)
    std::memcpy(y + i * p.block_bytes, x + i / p.repeat * p.block_bytes, static_cast<size_t>(p.block_bytes));
}

}  // namespace

OuterGatherPlan plan_outer_gather(int64_t element_bytes, const std::vector<int64_t>& x_dims,
                                  const std::vector<std::vector<int64_t>>& tables) {
  OuterGatherPlan p;
  p.block_bytes = element_bytes;
  size_t last = tables.size();
  while (last > 0 && is_whole(tables[last - 1], x_dims[last - 1])) p.block_bytes *= x_dims[--last];
  p.rows = 1;
  for (const auto& table : tables) p.rows *= table.empty() ? 0 : 1;
  if (p.rows == 0) return p;
  std::vector<int64_t> row = {0};  // byte offsets in x of the blocks of a row
  int64_t stride = p.block_bytes;
  constexpr int64_t kRowBytes = 256;  // a block of at least this many bytes is a row by itself
  if (last > 0 && p.block_bytes < kRowBytes) {
    row = tables[last - 1];
    for (int64_t& at : row) at *= p.block_bytes;
    stride *= x_dims[--last];
  }
  p.row_bytes = static_cast<int64_t>(row.size()) * p.block_bytes;
  for (size_t d = last; d-- > 0;) {  // innermost dim first
    const bool whole = is_whole(tables[d], x_dims[d]);
    std::vector<int64_t> offsets = tables[d];
    for (int64_t& at : offsets) at *= stride;
    if (whole && d + 1 < last && is_whole(tables[d + 1], x_dims[d + 1])) {
      std::vector<int64_t> merged;
      for (int64_t at : offsets)
        for (int64_t inner : p.outer.front()) merged.push_back(at + inner);
      p.outer.front() = std::move(merged);
    } else {
      p.outer.insert(p.outer.begin(), std::move(offsets));
    }
    stride *= x_dims[d];
    p.rows *= static_cast<int64_t>(tables[d].size());
  }

  const auto n = static_cast<int64_t>(row.size());
  for (int64_t k = 2; k <= n && row[0] == 0 && row[1] == 0 && p.repeat == 0; ++k) {
    if (n % k != 0) continue;
    bool repeats = true;
    for (int64_t i = 0; i < n && repeats; ++i) repeats = row[static_cast<size_t>(i)] == i / k * p.block_bytes;
    if (repeats) p.repeat = k;
  }
  constexpr int64_t kMinRunBlocks = 4;  // fewer contiguous blocks are gathered one by one
  for (int64_t i = 0; i < n && p.repeat == 0;) {
    const int64_t from = row[static_cast<size_t>(i)];
    int64_t length = 1;
    while (i + length < n && row[static_cast<size_t>(i + length)] == from + length * p.block_bytes) ++length;
    if (length >= kMinRunBlocks || length == n || p.block_bytes > 16) {
      p.runs.push_back({from, i * p.block_bytes, length * p.block_bytes, 0, 0});
    } else {
      if (p.runs.empty() || p.runs.back().bytes != 0)
        p.runs.push_back({0, i * p.block_bytes, 0, static_cast<int64_t>(p.blocks.size()), 0});
      for (int64_t k = 0; k < length; ++k) p.blocks.push_back(from + k * p.block_bytes);
      p.runs.back().count += length;
    }
    i += length;
  }
  return p;
}

void outer_gather(const OuterGatherPlan& p, const void* x, void* y, int64_t begin, int64_t end) noexcept {
  if (begin >= end) return;
  // The index in each outer dim of the row that is written.
  constexpr size_t kMaxDims = 32;
  const size_t dims = p.outer.size();
  size_t index[kMaxDims] = {};
  int64_t rest = begin;
  for (size_t d = dims; d-- > 0;) {
    const auto extent = static_cast<int64_t>(p.outer[d].size());
    index[d] = static_cast<size_t>(rest % extent);
    rest /= extent;
  }
  // Byte offsets in x: one for the indices of all outer dims but the innermost, and that of the row of y before this
  // one.
  int64_t outer_offset = 0, previous = -1;
  for (size_t d = 0; d + 1 < dims; ++d) outer_offset += p.outer[d][index[d]];
  auto* to = static_cast<std::byte*>(y) + begin * p.row_bytes;
  for (int64_t row = begin; row < end; ++row, to += p.row_bytes) {
    const int64_t at = outer_offset + (dims > 0 ? p.outer[dims - 1][index[dims - 1]] : 0);
    const std::byte* from = static_cast<const std::byte*>(x) + at;
    if (at == previous) {
      std::memcpy(to, to - p.row_bytes, static_cast<size_t>(p.row_bytes));
    } else if (p.repeat > 0) {
      repeat_blocks(p, from, to);
    } else {
      for (const OuterGatherRun& run : p.runs) {
        if (run.bytes > 0) std::memcpy(to + run.to, from + run.from, static_cast<size_t>(run.bytes));
        else gather_blocks(p, run, from, to);
      }
    }
    previous = at;
    for (size_t d = dims; d-- > 0;) {
      if (++index[d] < p.outer[d].size()) break;
      index[d] = 0;
    }
    if (dims > 1 && index[dims - 1] == 0) {
      outer_offset = 0;
      for (size_t d = 0; d + 1 < dims; ++d) outer_offset += p.outer[d][index[d]];
    }
  }
}

}  // namespace rlx::kernels
