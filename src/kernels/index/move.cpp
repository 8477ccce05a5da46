// See the header. Dims are sorted and merged first, so that transposes, slices and concatenations reduce to three inner
// loops: a contiguous run, a strided row, or a blocked two-dimensional transpose.
#include "kernels/index/move.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/element_bits.h"
#include "kernels/vector/highway_targets.h"

#include "hwy/highway.h"
#include "rlx/element.h"

// Vectors of 128 bits, which every target has, so that no dispatch is needed.
HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Transposes the n x n matrix at `from`, n elements being 16 bytes; strides are in elements. Interleaving the upper
/// half of the rows with the lower half rotates the bits of an element's (row, column) index by one; log2(n) rotations
/// swap row and column.
template <class T>
HWY_INLINE void transpose_square(const T* from, size_t from_stride, T* to, size_t to_stride) {
  constexpr size_t n = 16 / sizeof(T);
  const hn::Full128<T> d;
  hn::Vec<hn::Full128<T>> rows[n], mixed[n];
  for (size_t i = 0; i < n; ++i) rows[i] = hn::LoadU(d, from + i * from_stride);
  for (size_t stage = 1; stage < n; stage *= 2) {
    for (size_t i = 0; i < n / 2; ++i) {
      mixed[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + n / 2]);
      mixed[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + n / 2]);
    }
    for (size_t i = 0; i < n; ++i) rows[i] = mixed[i];
  }
  for (size_t i = 0; i < n; ++i) hn::StoreU(rows[i], d, to + i * to_stride);
}

/// dst[i][j] = src[j][i] for i < rows, j < cols; strides in bytes. Squares of one cache line by one cache line go
/// through a buffer, so that each cache line is touched once: with power-of-two strides the cache lines of a square
/// would evict each other.
template <class T>
void transpose_block(const std::byte* src, std::byte* dst, int64_t src_stride, int64_t dst_stride, int64_t rows,
                     int64_t cols) {
  constexpr int64_t bytes = sizeof(T), side = 64 / bytes;
  constexpr size_t n = 16 / sizeof(T);
  alignas(64) T in[static_cast<size_t>(side * side)];
  alignas(64) T out[static_cast<size_t>(side * side)];
  for (int64_t j = 0; j < cols; j += side) {
    const int64_t width = std::min(side, cols - j);
    for (int64_t i = 0; i < rows; i += side) {
      const int64_t height = std::min(side, rows - i);
      const auto in_bytes = static_cast<size_t>(height * bytes), out_bytes = static_cast<size_t>(width * bytes);
      const std::byte* from = src + j * src_stride + i * bytes;
      std::byte* to = dst + i * dst_stride + j * bytes;
      // Prefetch the rows of the next square: each is on another page, which the hardware prefetcher does not follow.
      for (int64_t b = side; b < std::min(2 * side, cols - j); ++b) __builtin_prefetch(from + b * src_stride);
      if (width == side && height == side) {
        for (int64_t b = 0; b < side; ++b) std::memcpy(in + b * side, from + b * src_stride, 64);
      } else {
        for (int64_t b = 0; b < width; ++b) std::memcpy(in + b * side, from + b * src_stride, in_bytes);
      }
      for (size_t a = 0; a < static_cast<size_t>(height); a += n)
        for (size_t b = 0; b < static_cast<size_t>(width); b += n)
          transpose_square(in + b * side + a, side, out + a * side + b, side);
      if (width == side && height == side) {
        for (int64_t a = 0; a < side; ++a) std::memcpy(to + a * dst_stride, out + a * side, 64);
      } else {
        for (int64_t a = 0; a < height; ++a) std::memcpy(to + a * dst_stride, out + a * side, out_bytes);
      }
    }
  }
}
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

namespace rlx::kernels {
namespace {

// How a chunk is moved. A chunk is one combination of indices of all dims but those that the inner loop runs over.
enum Walk : int {
  kRun,        // the last dim is contiguous on both sides
  kRow,        // the last dim is not contiguous and is copied element by element
  kTranspose,  // the last dim is contiguous in the destination, the one before it in the source
};
constexpr int64_t kRunElements = 4096;  // elements of a chunk, if the whole copy is one long run

template <class T>
void copy_row(const std::byte* src, std::byte* dst, int64_t src_stride, int64_t dst_stride, int64_t count) {
  if (src_stride == 0) {
    T value;
    std::memcpy(&value, src, sizeof(T));
    for (int64_t i = 0; i < count; ++i) std::memcpy(dst + i * dst_stride, &value, sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) std::memcpy(dst + i * dst_stride, src + i * src_stride, sizeof(T));
}

void copy_run(const std::byte* src, std::byte* dst, int64_t bytes) {
  if (bytes % 16 != 0 || bytes > 256) {
    std::memcpy(dst, src, static_cast<size_t>(bytes));
    return;
  }
  // For short rows (attention heads) memcpy would spend more time on choosing its method than on copying.
  for (int64_t i = 0; i < bytes; i += 16) std::memcpy(dst + i, src + i, 16);
}

/// The number of destination rows that one chunk of a transpose writes: they read 1024 contiguous bytes of the source.
int64_t block_rows(int64_t element_bytes) { return 1024 / element_bytes; }

int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

}  // namespace

CopyPlan plan_copy(int64_t element_bytes, int rank, const int64_t* dims, const int64_t* src_byte_strides,
                   const int64_t* dst_byte_strides) noexcept {
  CopyPlan p;
  p.element_bytes = element_bytes;
  for (int d = 0; d < rank; ++d) {
    if (dims[d] <= 0) return p;  // an empty box: no chunks
    if (dims[d] == 1) continue;
    p.dims[p.rank] = dims[d], p.src_strides[p.rank] = src_byte_strides[d], p.dst_strides[p.rank] = dst_byte_strides[d];
    ++p.rank;
  }
  // The destination is written in order: sort dims by descending destination stride.
  for (int i = 1; i < p.rank; ++i)
    for (int j = i; j > 0 && magnitude(p.dst_strides[j - 1]) < magnitude(p.dst_strides[j]); --j) {
      std::swap(p.dims[j - 1], p.dims[j]);
      std::swap(p.src_strides[j - 1], p.src_strides[j]);
      std::swap(p.dst_strides[j - 1], p.dst_strides[j]);
    }
  int kept = 0;
  for (int d = 0; d < p.rank; ++d) {
    const bool merges = kept > 0 && p.src_strides[kept - 1] == p.src_strides[d] * p.dims[d] &&
                        p.dst_strides[kept - 1] == p.dst_strides[d] * p.dims[d];
    const int to = merges ? kept - 1 : kept;
    p.dims[to] = merges ? p.dims[to] * p.dims[d] : p.dims[d];
    p.src_strides[to] = p.src_strides[d], p.dst_strides[to] = p.dst_strides[d];
    kept = to + 1;
  }
  p.rank = kept;
  if (p.rank == 0) {
    p.rank = 1, p.dims[0] = 1, p.src_strides[0] = p.dst_strides[0] = element_bytes;
  }
  const int last = p.rank - 1;
  p.kind = p.dst_strides[last] == element_bytes && p.src_strides[last] == element_bytes ? kRun : kRow;
  if (p.kind == kRow && p.rank > 1 && p.dst_strides[last] == element_bytes && element_bytes <= 8) {
    // If another dim is contiguous in the source this is a transpose: move that dim next to the last.
    for (int d = 0; d < last; ++d) {
      if (p.src_strides[d] != element_bytes || p.dims[d] < 4 || p.dims[last] < 4) continue;
      for (int k = d; k + 1 < last; ++k) {
        std::swap(p.dims[k], p.dims[k + 1]);
        std::swap(p.src_strides[k], p.src_strides[k + 1]);
        std::swap(p.dst_strides[k], p.dst_strides[k + 1]);
      }
      p.kind = kTranspose;
      break;
    }
  }
  p.chunks = 1;
  for (int d = 0; d < p.rank - (p.kind == kTranspose ? 2 : 1); ++d) p.chunks *= p.dims[d];
  p.chunk_elements = p.dims[last];
  if (p.kind == kTranspose) {
    const int64_t rows = block_rows(element_bytes);
    p.chunks *= (p.dims[last - 1] + rows - 1) / rows;
    p.chunk_elements = p.dims[last] * std::min(rows, p.dims[last - 1]);
  } else if (p.kind == kRun && p.rank == 1 && p.dims[0] > kRunElements) {
    // One long run is cut into chunks, so that threads can share it.
    p.chunk_elements = kRunElements;
    p.chunks = (p.dims[0] + kRunElements - 1) / kRunElements;
  }
  return p;
}

void copy_strided(const CopyPlan& p, const void* src_base, void* dst_base, int64_t begin, int64_t end) noexcept {
  if (begin >= end) return;
  const auto* src = static_cast<const std::byte*>(src_base);
  auto* dst = static_cast<std::byte*>(dst_base);
  const int last = p.rank - 1;
  if (p.kind == kRun && p.rank == 1) {
    const int64_t first = begin * p.chunk_elements, stop = std::min(end * p.chunk_elements, p.dims[0]);
    std::memcpy(dst + first * p.element_bytes, src + first * p.element_bytes,
                static_cast<size_t>((stop - first) * p.element_bytes));
    return;
  }
  // The indices of the outer dims; in a transpose the last of them counts blocks of rows.
  const bool transposes = p.kind == kTranspose;
  const int64_t block = block_rows(p.element_bytes);
  std::array<int64_t, kMaxCopyRank> extents{}, index{}, src_steps{}, dst_steps{};
  for (int d = 0; d < last; ++d) {
    const bool counts_blocks = transposes && d == last - 1;
    extents[d] = counts_blocks ? (p.dims[d] + block - 1) / block : p.dims[d];
    src_steps[d] = p.src_strides[d] * (counts_blocks ? block : 1);
    dst_steps[d] = p.dst_strides[d] * (counts_blocks ? block : 1);
  }
  int64_t rest = begin;
  for (int d = last - 1; d >= 0; --d) {
    index[d] = rest % extents[d];
    rest /= extents[d];
    src += index[d] * src_steps[d];
    dst += index[d] * dst_steps[d];
  }
  with_bits(p.element_bytes, [&]<class T>() {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      if (p.kind == kRun) {
        copy_run(src, dst, p.dims[last] * p.element_bytes);
      } else if (p.kind == kRow) {
        copy_row<T>(src, dst, p.src_strides[last], p.dst_strides[last], p.dims[last]);
      } else if constexpr (sizeof(T) <= 8) {
        const int64_t rows = std::min(block, p.dims[last - 1] - index[last - 1] * block);
        HWY_NAMESPACE::transpose_block<T>(src, dst, p.src_strides[last], p.dst_strides[last - 1], rows, p.dims[last]);
      }
      for (int d = last - 1; d >= 0; --d) {
        src += src_steps[d];
        dst += dst_steps[d];
        if (++index[d] < extents[d]) break;
        src -= index[d] * src_steps[d];
        dst -= index[d] * dst_steps[d];
        index[d] = 0;
      }
    }
  });
}

PadPlan plan_pad(int64_t element_bytes, int rank, const int64_t* x_dims, const int64_t* low, const int64_t* high,
                 const int64_t* interior) noexcept {
  PadPlan p;
  std::array<int64_t, kMaxCopyRank> dims{}, src{}, dst{};
  int64_t src_stride = element_bytes, dst_stride = element_bytes;
  for (int d = rank - 1; d >= 0; --d) {
    const int64_t step = interior[d] + 1;
    const int64_t spread = x_dims[d] > 0 ? (x_dims[d] - 1) * step + 1 : 0;
    const int64_t out = std::max<int64_t>(0, low[d] + spread + high[d]);
    // Elements i with 0 <= low + i * step < out.
    const int64_t first = low[d] >= 0 ? 0 : (-low[d] + step - 1) / step;
    const int64_t last = out - low[d] <= 0 ? 0 : std::min(x_dims[d], (out - low[d] - 1) / step + 1);
    dims[d] = std::max<int64_t>(0, last - first);
    src[d] = src_stride, dst[d] = dst_stride * step;
    p.src_offset += first * src_stride;
    p.dst_offset += (low[d] + first * step) * dst_stride;
    src_stride *= x_dims[d], dst_stride *= out;
  }
  p.copy = plan_copy(element_bytes, rank, dims.data(), src.data(), dst.data());
  return p;
}

void fill(void* out, const void* value, int64_t element_bytes, int64_t begin, int64_t end) noexcept {
  with_bits(element_bytes, [&]<class T>() {
    T v;
    std::memcpy(&v, value, sizeof(T));
    std::fill(static_cast<T*>(out) + begin, static_cast<T*>(out) + end, v);
  });
}

void iota(void* out, DType dtype, int64_t extent, int64_t inner, int64_t begin, int64_t end) noexcept {
  const auto position = [&](int64_t i) { return i / inner % extent; };
  const auto write = [&]<class T>(auto convert) {
    for (int64_t i = begin; i < end; ++i) static_cast<T*>(out)[i] = convert(position(i));
  };
  switch (kind_of(dtype)) {
    case Kind::boolean:
      return write.template operator()<uint8_t>([](int64_t v) { return static_cast<uint8_t>(v != 0); });
    case Kind::signed_int:
    case Kind::unsigned_int:
      return with_bits(static_cast<int64_t>(byte_size(dtype)), [&]<class T>() {
        if constexpr (!std::is_same_v<T, Bits128>)
          write.template operator()<T>([](int64_t v) { return static_cast<T>(v); });
      });
    case Kind::real: break;
    case Kind::complex:
      if (dtype == c64)
        return write.template operator()<std::complex<float>>([](int64_t v) { return static_cast<float>(v); });
      return write.template operator()<Complex>([](int64_t v) { return static_cast<double>(v); });
    case Kind::block: return;
  }
  if (dtype == f32) return write.template operator()<float>([](int64_t v) { return static_cast<float>(v); });
  if (dtype == f64) return write.template operator()<double>([](int64_t v) { return static_cast<double>(v); });
  with_bits(static_cast<int64_t>(byte_size(dtype)), [&]<class T>() {
    if constexpr (!std::is_same_v<T, Bits128>)
      write.template operator()<T>(
          [&](int64_t v) { return static_cast<T>(encode_float(dtype, static_cast<double>(v))); });
  });
}

}  // namespace rlx::kernels
