// See the header. Every dtype is mapped to unsigned keys that order as the values do. Long vectors are radix-sorted,
// short ones and complex numbers merge-sorted. top_k sorts the keys below a bound, or keeps the best k in a heap.
#include "kernels/index/sort.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstring>
#include <utility>

#include "kernels/index/sort_keys.h"
#include "kernels/vector/narrow_float.h"
#include "rlx/element.h"

namespace rlx::kernels {
namespace {

/// The bits of a float as an unsigned number that orders as the values do; -0 as 0, NaN above all numbers.
template <class U, class F>
U ordered(F v) {
  constexpr U sign = U{1} << (sizeof(U) * 8 - 1);
  if (v != v) return ~U{0};
  const U bits = v == 0 ? 0 : std::bit_cast<U>(v);
  return bits & sign ? ~bits : bits | sign;
}

struct ComplexKey {
  uint64_t real, imag;
  bool operator<(const ComplexKey& o) const { return real != o.real ? real < o.real : imag < o.imag; }
  ComplexKey operator~() const { return {~real, ~imag}; }
};
template <class Key>
struct Entry {
  Key key;
  uint32_t index;
};

uint32_t key_of(DType t, const void* base, int64_t i, uint32_t) {
  switch (t) {
    case DType::boolean:
    case DType::u8: return static_cast<const uint8_t*>(base)[i];
    case DType::u16: return static_cast<const uint16_t*>(base)[i];
    case DType::u32: return static_cast<const uint32_t*>(base)[i];
    case DType::i8: return static_cast<uint32_t>(static_cast<const int8_t*>(base)[i]) ^ 0x80000000u;
    case DType::i16: return static_cast<uint32_t>(static_cast<const int16_t*>(base)[i]) ^ 0x80000000u;
    case DType::i32: return static_cast<uint32_t>(static_cast<const int32_t*>(base)[i]) ^ 0x80000000u;
    case DType::f32: return ordered<uint32_t>(static_cast<const float*>(base)[i]);
    case DType::f16: return ordered<uint32_t>(to_f32(static_cast<const F16*>(base)[i]));
    case DType::bf16: return ordered<uint32_t>(to_f32(static_cast<const BF16*>(base)[i]));
    default: return ordered<uint32_t>(static_cast<float>(decode_float(t, static_cast<const uint8_t*>(base)[i])));
  }
}
uint64_t key_of(DType t, const void* base, int64_t i, uint64_t) {
  if (t == f64) return ordered<uint64_t>(static_cast<const double*>(base)[i]);
  const uint64_t bits = static_cast<const uint64_t*>(base)[i];
  return t == i64 ? bits ^ (uint64_t{1} << 63) : bits;
}
ComplexKey key_of(DType t, const void* base, int64_t i, ComplexKey) {
  const Complex v =
      t == c64 ? Complex(static_cast<const std::complex<float>*>(base)[i]) : static_cast<const Complex*>(base)[i];
  return {ordered<uint64_t>(v.real()), ordered<uint64_t>(v.imag())};
}

/// Whether a comes before b: by key, equal keys by index.
template <class Key>
bool before(const Entry<Key>& a, const Entry<Key>& b) {
  if (a.key < b.key) return true;
  return !(b.key < a.key) && a.index < b.index;
}

/// Merge sort back and forth between `from` and `to`; returns the one that holds the result.
template <class Key>
Entry<Key>* merge_sort(Entry<Key>* from, Entry<Key>* to, int64_t n) {
  constexpr int64_t kRun = 16;
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t end = std::min(n, begin + kRun);
    for (int64_t i = begin + 1; i < end; ++i) {
      const Entry<Key> e = from[i];
      int64_t j = i;
      for (; j > begin && e.key < from[j - 1].key; --j) from[j] = from[j - 1];
      from[j] = e;
    }
  }
  for (int64_t width = kRun; width < n; width *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
      const int64_t middle = std::min(n, begin + width), end = std::min(n, begin + 2 * width);
      std::merge(from + begin, from + middle, from + middle, from + end, to + begin,
                 [](const Entry<Key>& a, const Entry<Key>& b) { return a.key < b.key; });
    }
    std::swap(from, to);
  }
  return from;
}

/// Radix sort by bytes, the lowest first, back and forth between `from` and `to`; returns the one that holds the
/// result. A byte that all keys share is skipped.
template <class Key>
Entry<Key>* radix_sort(Entry<Key>* from, Entry<Key>* to, int64_t n) {
  constexpr int kBytes = sizeof(Key);
  uint32_t counts[kBytes][256] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int b = 0; b < kBytes; ++b) ++counts[b][from[i].key >> (8 * b) & 255];
  for (int b = 0; b < kBytes; ++b) {
    const int shift = 8 * b;
    if (counts[b][from[0].key >> shift & 255] == n) continue;
    uint32_t begin = 0;
    for (uint32_t& count : counts[b]) begin += std::exchange(count, begin);
    for (int64_t i = 0; i < n; ++i) to[counts[b][from[i].key >> shift & 255]++] = from[i];
    std::swap(from, to);
  }
  return from;
}
template <class Key>
Entry<Key>* sorted_entries(Entry<Key>* from, Entry<Key>* to, int64_t n) {
  constexpr int64_t kLong = 16 * sizeof(Key);
  if constexpr (std::is_integral_v<Key>)
    if (n >= kLong) return radix_sort(from, to, n);
  return merge_sort(from, to, n);
}

/// Writes the first k entries of the order, sorted, to `best`, for 32-bit keys in `keys`. `indices` has room for n
/// numbers.
void select_by_bound(const uint32_t* keys, int64_t n, int64_t k, uint32_t* indices, Entry<uint32_t>* best) {
  const int64_t count = top_k_candidates(keys, n, k, reinterpret_cast<uint32_t*>(best), indices);
  for (int64_t i = 0; i < count; ++i) best[i] = {keys[indices[i]], indices[i]};
  std::partial_sort(best, best + k, best + count, before<uint32_t>);
}

/// Writes the first k entries of the order, sorted, to `best`, with a heap whose top is the worst entry kept.
template <class Key, class At>
void select(At at, int64_t n, Entry<Key>* best, int64_t k) {
  for (int64_t i = 0; i < k; ++i) best[i] = at(i);
  std::make_heap(best, best + k, before<Key>);
  for (int64_t i = k; i < n; ++i) {
    const Entry<Key> e = at(i);
    if (!(e.key < best[0].key)) continue;  // an equal key has a larger index
    std::pop_heap(best, best + k, before<Key>);
    best[k - 1] = e;
    std::push_heap(best, best + k, before<Key>);
  }
  std::sort_heap(best, best + k, before<Key>);
}

template <class Key>
void sort_vectors(const SortArgs& a, int64_t begin, int64_t end, void* scratch) {
  constexpr bool kNarrow = std::is_same_v<Key, uint32_t>;
  auto* entries = static_cast<Entry<Key>*>(scratch);
  const auto bytes = static_cast<int64_t>(byte_size(a.dtype));
  for (int64_t vector = begin; vector < end; ++vector) {
    const int64_t outer = vector / a.inner, inner = vector % a.inner;
    const auto* base = static_cast<const std::byte*>(a.x) + (outer * a.outer_stride + inner) * bytes;
    const auto key_at = [&](int64_t i) {
      const Key key = key_of(a.dtype, base, i * a.axis_stride, Key{});
      return a.descending ? static_cast<Key>(~key) : key;
    };
    // 32-bit keys are computed first, into the second half of the entries' memory.
    auto* keys = reinterpret_cast<uint32_t*>(entries + a.extent);
    if constexpr (kNarrow) {
      if (a.dtype == f32 && a.axis_stride == 1)
        keys_of_f32(reinterpret_cast<const float*>(base), a.extent, a.descending, keys);
      else
        for (int64_t i = 0; i < a.extent; ++i) keys[i] = key_at(i);
    }
    const auto at = [&](int64_t i) {
      if constexpr (kNarrow) return Entry<Key>{keys[i], static_cast<uint32_t>(i)};
      else return Entry<Key>{key_at(i), static_cast<uint32_t>(i)};
    };
    const Entry<Key>* sorted = entries;
    if (a.k * 8 > a.extent) {
      for (int64_t i = 0; i < a.extent; ++i) entries[i] = at(i);
      sorted = sorted_entries(entries, entries + a.extent, a.extent);
    } else if (a.k > 0 && (!kNarrow || a.extent < kMinTopKKeys)) {
      select<Key>(at, a.extent, entries, a.k);
    } else if constexpr (kNarrow) {
      if (a.k > 0) select_by_bound(keys, a.extent, a.k, keys + a.extent, entries);
    }
    for (int64_t i = 0; i < a.k; ++i) {
      const int64_t to = (outer * a.k + i) * a.inner + inner;
      if (a.index_dtype == i64) static_cast<int64_t*>(a.indices)[to] = sorted[i].index;
      else static_cast<int32_t*>(a.indices)[to] = static_cast<int32_t>(sorted[i].index);
    }
  }
}

enum class Width { narrow, wide, complex };
Width width_of(DType t) { return is_complex(t) ? Width::complex : byte_size(t) == 8 ? Width::wide : Width::narrow; }

}  // namespace

size_t sort_scratch_bytes(DType dtype, int64_t extent) {
  const auto count = static_cast<size_t>(extent) * 2;
  switch (width_of(dtype)) {
    case Width::narrow: return count * sizeof(Entry<uint32_t>);
    case Width::wide: return count * sizeof(Entry<uint64_t>);
    default: return count * sizeof(Entry<ComplexKey>);
  }
}

void argsort(const SortArgs& args, int64_t begin, int64_t end, void* scratch) noexcept {
  switch (width_of(args.dtype)) {
    case Width::narrow: return sort_vectors<uint32_t>(args, begin, end, scratch);
    case Width::wide: return sort_vectors<uint64_t>(args, begin, end, scratch);
    case Width::complex: return sort_vectors<ComplexKey>(args, begin, end, scratch);
  }
}

}  // namespace rlx::kernels
