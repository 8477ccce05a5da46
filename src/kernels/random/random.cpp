// See the header. Each lane of a vector computes a block; all lanes run the same rounds.
#include "kernels/random/random.h"

#include <algorithm>
#include <cstring>

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/random/random.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<uint32_t>;
using Words = hn::Vec<Tag>;
using Wide = hn::ScalableTag<uint64_t>;

/// The high and the low 32 bits of the products x * m.
HWY_INLINE void wide_product(Words x, Words m, Words& high, Words& low) {
  const Tag d;
  auto even = hn::MulEven(x, m), odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(Wide(), x))), m);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::Mul(x, m);
}

HWY_INLINE void philox(Words& c0, Words& c1, Words& c2, Words& c3, uint32_t key0, uint32_t key1) {
  const Tag d;
  const Words m0 = hn::Set(d, 0xD2511F53u), m1 = hn::Set(d, 0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    Words high0, low0, high1, low1;
    wide_product(c0, m0, high0, low0);
    wide_product(c2, m1, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, key0));
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, key1));
    c1 = low1, c3 = low0;
    key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
  }
}

template <int kLeft>
HWY_INLINE void mix(Words& x0, Words& x1) {
  x0 = hn::Add(x0, x1);
  x1 = hn::Xor(hn::RotateRight<32 - kLeft>(x1), x0);
}
HWY_INLINE void threefry(Words& x0, Words& x1, const uint32_t* key) {
  const Tag d;
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  x0 = hn::Add(x0, hn::Set(d, keys[0])), x1 = hn::Add(x1, hn::Set(d, keys[1]));
  for (uint32_t group = 0; group < 5; ++group) {
    if (group % 2 == 0) mix<13>(x0, x1), mix<15>(x0, x1), mix<26>(x0, x1), mix<6>(x0, x1);
    else mix<17>(x0, x1), mix<29>(x0, x1), mix<16>(x0, x1), mix<24>(x0, x1);
    x0 = hn::Add(x0, hn::Set(d, keys[(group + 1) % 3]));
    x1 = hn::Add(x1, hn::Set(d, keys[(group + 2) % 3] + group + 1));
  }
}

constexpr size_t kMaxLanes = HWY_MAX_BYTES / sizeof(uint32_t);

/// The counters of the blocks that lie n, n + 1, ... behind the one that `start` holds in two halves, low one first.
HWY_INLINE void philox_counters(const uint64_t* start, uint64_t n, Words& c0, Words& c1, Words& c2, Words& c3) {
  const Tag d;
  const uint64_t low = start[0] + n, high = start[1] + (low < n);
  // A mask counts as -1.
  const Words first = hn::Set(d, static_cast<uint32_t>(low)), zero = hn::Zero(d);
  c0 = hn::Add(first, hn::Iota(d, 0));
  Words carry = hn::VecFromMask(d, hn::Lt(c0, first));
  c1 = hn::Sub(hn::Set(d, static_cast<uint32_t>(low >> 32)), carry);
  carry = hn::And(carry, hn::VecFromMask(d, hn::Eq(c1, zero)));
  c2 = hn::Sub(hn::Set(d, static_cast<uint32_t>(high)), carry);
  carry = hn::And(carry, hn::VecFromMask(d, hn::Eq(c2, zero)));
  c3 = hn::Sub(hn::Set(d, static_cast<uint32_t>(high >> 32)), carry);
}

void philox_bits(const uint32_t* key, const uint32_t* counter, size_t bytes, int64_t begin, int64_t end, char* out) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN uint32_t tail[4 * kMaxLanes];
  uint64_t start[2] = {0, 0};
  if (counter)
    for (size_t i : {0, 1}) start[i] = counter[2 * i] | uint64_t{counter[2 * i + 1]} << 32;
  for (int64_t n = begin; n < end; n += lanes) {
    Words c0, c1, c2, c3;
    philox_counters(start, static_cast<uint64_t>(n), c0, c1, c2, c3);
    philox(c0, c1, c2, c3, key[0], key[1]);
    size_t at = static_cast<size_t>(n) * 16, upto = std::min(bytes, static_cast<size_t>(std::min(n + lanes, end)) * 16);
    if (upto - at == static_cast<size_t>(lanes) * 16) {
      // `out` need not be aligned to words: elements may be bytes.
      hn::StoreInterleaved4(c0, c1, c2, c3, d, reinterpret_cast<uint32_t*>(out + at));
    } else {
      hn::StoreInterleaved4(c0, c1, c2, c3, d, tail);
      std::memcpy(out + at, tail, upto - at);
    }
  }
}

/// The two output words of blocks n, n + 1, ..., as arrays. The counter of a block is its number as two words.
HWY_INLINE void threefry_block(const uint32_t* key, uint64_t n, uint32_t* first, uint32_t* second) {
  const Tag d;
  Words x0 = hn::Set(d, static_cast<uint32_t>(n >> 32)), x1 = hn::Iota(d, static_cast<uint32_t>(n));
  threefry(x0, x1, key);
  hn::Store(x0, d, first);
  hn::Store(x1, d, second);
}
/// `element(first, second)` computes an element from the two words of its block.
template <class T, class F>
void threefry_elements(const uint32_t* key, int64_t begin, int64_t end, T* out, F element) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN uint32_t first[kMaxLanes], second[kMaxLanes];
  for (int64_t n = begin; n < end; n += lanes) {
    threefry_block(key, static_cast<uint64_t>(n), first, second);
    int64_t some = std::min(lanes, end - n);
    for (int64_t i = 0; i < some; ++i) out[n + i] = element(first[i], second[i]);
  }
}
template <class T>
void threefry_narrow(const uint32_t* key, int64_t begin, int64_t end, T* out) {
  threefry_elements(key, begin, end, out, [](uint32_t a, uint32_t b) { return static_cast<T>(a ^ b); });
}
void threefry_wide(const uint32_t* key, int64_t begin, int64_t end, uint64_t* out) {
  threefry_elements(key, begin, end, out, [](uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; });
}

/// The original form of Threefry. There are `words` words in all; block n generates the words n and n + half. For
/// 64-bit elements (`wide`) the first word is the high half.
void original_bits(const uint32_t* key, int64_t words, size_t bytes, bool wide, int64_t begin, int64_t end, char* out) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t half = (words + 1) / 2;
  HWY_ALIGN uint32_t first[kMaxLanes], second[kMaxLanes];
  auto put = [&](int64_t word, uint32_t value) {
    size_t at = static_cast<size_t>(word) * 4;
    if (at < bytes) std::memcpy(out + at, &value, std::min<size_t>(4, bytes - at));
  };
  for (int64_t n = begin; n < end; n += lanes) {
    const int64_t some = std::min(lanes, end - n);
    Words x0 = hn::Iota(d, static_cast<uint32_t>(n)), x1 = hn::Iota(d, static_cast<uint32_t>(n + half));
    // With an odd count of words, the last block has no second counter.
    x1 = hn::IfThenZeroElse(hn::Eq(x1, hn::Set(d, static_cast<uint32_t>(words))), x1);
    threefry(x0, x1, key);
    hn::Store(x0, d, first);
    hn::Store(x1, d, second);
    for (int64_t i = 0; i < some; ++i) {
      if (wide) {
        uint64_t value = uint64_t{first[i]} << 32 | second[i];
        std::memcpy(out + (n + i) * 8, &value, 8);
      } else {
        put(n + i, first[i]);
        if (n + i + half < words) put(n + i + half, second[i]);
      }
    }
  }
}

void random_bits_vectorized(BitGenerator generator, const uint32_t* key, int64_t count, size_t element_bytes,
                            int64_t begin, int64_t end, void* out, const uint32_t* counter) {
  auto bytes = static_cast<size_t>(count) * element_bytes;
  switch (generator) {
    case BitGenerator::philox: return philox_bits(key, counter, bytes, begin, end, static_cast<char*>(out));
    case BitGenerator::threefry_original:
      return original_bits(key, static_cast<int64_t>((bytes + 3) / 4), bytes, element_bytes == 8, begin, end,
                           static_cast<char*>(out));
    case BitGenerator::threefry: break;
  }
  if (element_bytes == 8) threefry_wide(key, begin, end, static_cast<uint64_t*>(out));
  else if (element_bytes == 4) threefry_narrow(key, begin, end, static_cast<uint32_t*>(out));
  else if (element_bytes == 2) threefry_narrow(key, begin, end, static_cast<uint16_t*>(out));
  else threefry_narrow(key, begin, end, static_cast<uint8_t*>(out));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(random_bits_vectorized);

int64_t random_blocks(BitGenerator generator, int64_t count, size_t element_bytes) {
  auto bytes = static_cast<int64_t>(element_bytes);
  if (generator == BitGenerator::philox) return (count * bytes + 15) / 16;
  return generator == BitGenerator::threefry ? count : ((count * bytes + 3) / 4 + 1) / 2;
}
void random_bits(BitGenerator generator, const uint32_t* key, int64_t count, size_t element_bytes, int64_t begin,
                 int64_t end, void* out, const uint32_t* counter) noexcept {
  HWY_DYNAMIC_DISPATCH(random_bits_vectorized)(generator, key, count, element_bytes, begin, end, out, counter);
}

}  // namespace rlx::kernels
#endif
