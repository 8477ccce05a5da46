// Vector decoders of block formats (GGUF), compiled once for each instruction set: blocks.cpp includes this file. A
// format is a class with a template `decode`, which passes vectors of decoded elements to a consumer, with the number
// of the first of them within the block and one of four accumulators as a template argument. The values are those of
// the scalar decoders (src/tensor/blocks) bit by bit: scale times quantized value is exact in f32, or is rounded once
// in both.
//
// Q8_0, Q4_0 and Q4_K are decoded in registers. The other formats unpack their quantized values to bytes first, many at
// a time. Formats whose quantized values are points of a grid (IQ1 to IQ3), TQ1_0, Q1_0, Q2_0 and Q8_K are not here.
// The file is longer than others because it has a class for each format, and all users want all of them.
#if defined(RLX_BLOCK_FORMATS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_BLOCK_FORMATS_INL_H
#undef RLX_BLOCK_FORMATS_INL_H
#else
#define RLX_BLOCK_FORMATS_INL_H
#endif

#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"
#include "rlx/dtype.h"
#include "tensor/blocks/block_bits.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using D = hn::CappedTag<float, 16>;  // a sub-block of Q6_K has 16 elements
using DI = hn::Rebind<int32_t, D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
using DB = hn::CappedTag<uint8_t, 32>;  // a run of values that share their shift has 32 bytes
using VB = hn::Vec<DB>;

HWY_INLINE VI load_bytes(const uint8_t* from) { return hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<uint8_t, D>(), from)); }
HWY_INLINE VI load_signed(const uint8_t* from) {
  return hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<int8_t, D>(), reinterpret_cast<const int8_t*>(from)));
}
HWY_INLINE VI low_nibble(VI v) { return hn::And(v, hn::Set(DI(), 15)); }
HWY_INLINE V as_float(VI v) { return hn::ConvertTo(D(), v); }

/// to[i] = d * byte i, for the eight signed bytes of a word.
HWY_INLINE void scaled(uint64_t word, float d, float* to) {
  using DWord = hn::CappedTag<float, 8>;
  const DWord dw;
  // One store of eight bytes can be forwarded to the loads; stores of single bytes cannot.
  int8_t bytes[8];
  std::memcpy(bytes, &word, sizeof bytes);
  for (size_t i = 0; i < 8; i += hn::Lanes(dw)) {
    const auto q = hn::PromoteTo(hn::Rebind<int32_t, DWord>(), hn::LoadU(hn::Rebind<int8_t, DWord>(), bytes + i));
    hn::Store(hn::Mul(hn::Set(dw, d), hn::ConvertTo(dw, q)), dw, to + i);
  }
}
HWY_INLINE uint64_t word_of(uint32_t low, uint32_t high) { return static_cast<uint64_t>(high) << 32 | low; }
/// In each byte 32 is subtracted from a value of at most 63.
HWY_INLINE uint64_t less_32(uint64_t word) {
  constexpr uint64_t kTop = 0x8080808080808080, k32 = 0x2020202020202020;
  return ((word | kTop) - k32) ^ kTop;
}

/// Six bits each: the scales of eight sub-blocks, then their mins.
HWY_INLINE void unpack_six_bits(const uint8_t* b, uint64_t& scales, uint64_t& mins) {
  constexpr uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x30303030;
  const auto w0 = blocks::read<uint32_t>(b + 4), w1 = blocks::read<uint32_t>(b + 8),
             w2 = blocks::read<uint32_t>(b + 12);
  scales = word_of(w0 & kSix, (w2 & kFour) | (w0 >> 2 & kTwo));
  mins = word_of(w1 & kSix, (w2 >> 4 & kFour) | (w1 >> 2 & kTwo));
}
/// What Q4_K and Q5_K have in front of their quantized values: scales and mins of eight sub-blocks of 32 elements, as
/// floats.
HWY_INLINE void unpack_scales_and_mins(const uint8_t* b, float* scale, float* min) {
  uint64_t scales = 0, mins = 0;
  unpack_six_bits(b, scales, mins);
  scaled(scales, blocks::half_at(b), scale), scaled(mins, blocks::half_at(b + 2), min);
}

/// blocks::half_at(b) in all lanes.
HWY_INLINE V half_everywhere(const uint8_t* b) {
#if HWY_TARGET <= HWY_AVX3
  return V{_mm512_cvtph_ps(_mm256_set1_epi16(blocks::read<int16_t>(b)))};
#elif HWY_TARGET == HWY_AVX2
  return V{_mm256_cvtph_ps(_mm_set1_epi16(blocks::read<int16_t>(b)))};
#else
  return hn::Set(D(), blocks::half_at(b));
#endif
}

struct Q8_0 {
  static constexpr int64_t kElements = 32, kBytes = 34;
  template <class Consumer>
  static HWY_INLINE void decode(const uint8_t* b, Consumer& consume) {
    const V d = half_everywhere(b);
    const size_t lanes = hn::Lanes(D());
    for (size_t i = 0; i < 32; i += 2 * lanes) {
      consume.template operator()<0>(i, hn::Mul(d, as_float(load_signed(b + 2 + i))));
      consume.template operator()<1>(i + lanes, hn::Mul(d, as_float(load_signed(b + 2 + i + lanes))));
    }
  }
};

struct Q4_0 {
  static constexpr int64_t kElements = 32, kBytes = 18;
  template <class Consumer>
  static HWY_INLINE void decode(const uint8_t* b, Consumer& consume) {
    const V d = half_everywhere(b);
    const VI eight = hn::Set(DI(), 8);
    for (size_t i = 0; i < 16; i += hn::Lanes(D())) {
      const VI q = load_bytes(b + 2 + i);
      consume.template operator()<0>(i, hn::Mul(d, as_float(hn::Sub(low_nibble(q), eight))));
      consume.template operator()<1>(16 + i, hn::Mul(d, as_float(hn::Sub(hn::ShiftRight<4>(q), eight))));
    }
  }
};

#if HWY_TARGET <= HWY_AVX3
/// With 16 lanes the 16 numbers of a sub-block are a vector, and its elements are looked up there. The instruction
/// reads the lowest four bits of an index alone, so that low nibbles need no mask, and nothing is converted to floats.
struct Q4_K {
  static constexpr int64_t kElements = 256, kBytes = 144;
  /// Scales, then minima, of the eight sub-blocks.
  static HWY_INLINE void unpack_head(const uint8_t* b, float* to) {
    uint64_t six[2];
    unpack_six_bits(b, six[0], six[1]);
    const V both{
        _mm512_permutexvar_ps(_mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi32(1), 1),
                              _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi32_si128(blocks::read<int32_t>(b)))))};
    const __m128i bytes = _mm_set_epi64x(static_cast<int64_t>(six[1]), static_cast<int64_t>(six[0]));
    hn::Store(hn::Mul(as_float(VI{_mm512_cvtepu8_epi32(bytes)}), both), D(), to);
  }
  template <class Consumer>
  static HWY_INLINE void decode(const uint8_t* b, Consumer& consume) {
    HWY_ALIGN float scales[16];  // and minima
    unpack_head(b, scales);
    const V numbers = hn::Iota(D(), 0);
    RLX_UNROLL for (size_t chunk = 0; chunk < 4; ++chunk) {
      const auto table = [&](size_t run) HWY_ATTR {
        return hn::MulSub(hn::Set(D(), scales[run]), numbers, hn::Set(D(), scales[8 + run]));
      };
      const auto element = [](V table, VI index) HWY_ATTR { return V{_mm512_permutexvar_ps(index.raw, table.raw)}; };
      const V low = table(2 * chunk), high = table(2 * chunk + 1);
      const VI q0 = load_bytes(b + 16 + 32 * chunk), q1 = load_bytes(b + 32 + 32 * chunk);
      const size_t at = 64 * chunk;
      consume.template operator()<0>(at, element(low, q0));
      consume.template operator()<1>(at + 16, element(low, q1));
      consume.template operator()<2>(at + 32, element(high, hn::ShiftRight<4>(q0)));
      consume.template operator()<3>(at + 48, element(high, hn::ShiftRight<4>(q1)));
    }
  }
};
#else
struct Q4_K {
  static constexpr int64_t kElements = 256, kBytes = 144;
  template <class Consumer>
  static HWY_INLINE void decode(const uint8_t* b, Consumer& consume) {
    HWY_ALIGN float scale[8], min[8];
    unpack_scales_and_mins(b, scale, min);
    const size_t lanes = hn::Lanes(D());
    for (size_t chunk = 0; chunk < 4; ++chunk) {
      // d * scale * q is exact in f32 (11 + 6 + 4 bits), so the order of its factors does not matter, and there is one
      // rounding.
      const V low_scale = hn::Set(D(), scale[2 * chunk]), low_min = hn::Set(D(), min[2 * chunk]),
              high_scale = hn::Set(D(), scale[2 * chunk + 1]), high_min = hn::Set(D(), min[2 * chunk + 1]);
      const uint8_t* quants = b + 16 + 32 * chunk;
      const size_t at = 64 * chunk;
      for (size_t i = 0; i < 32; i += 2 * lanes) {
        const VI q0 = load_bytes(quants + i), q1 = load_bytes(quants + i + lanes);
        consume.template operator()<0>(at + i, hn::MulSub(low_scale, as_float(low_nibble(q0)), low_min));
        consume.template operator()<1>(at + i + lanes, hn::MulSub(low_scale, as_float(low_nibble(q1)), low_min));
        consume.template operator()<2>(at + 32 + i, hn::MulSub(high_scale, as_float(hn::ShiftRight<4>(q0)), high_min));
        consume.template operator()<3>(at + 32 + i + lanes,
                                       hn::MulSub(high_scale, as_float(hn::ShiftRight<4>(q1)), high_min));
      }
    }
  }
};
#endif

/// Halves, as blocks of so many that each accumulator gets one vector or more.
template <class T>
struct Halves {
  static constexpr int64_t kElements = 64, kBytes = 128;
  template <class Consumer>
  static HWY_INLINE void decode(const uint8_t* b, Consumer& consume) {
    const size_t lanes = hn::Lanes(D());
    const auto value = [b](size_t i) HWY_ATTR { return load_f32(D(), reinterpret_cast<const T*>(b) + i); };
    for (size_t i = 0; i < kElements; i += 4 * lanes) {
      consume.template operator()<0>(i, value(i));
      consume.template operator()<1>(i + lanes, value(i + lanes));
      consume.template operator()<2>(i + 2 * lanes, value(i + 2 * lanes));
      consume.template operator()<3>(i + 3 * lanes, value(i + 3 * lanes));
    }
  }
};

/// A format that is decoded in two steps. `Layout::unpack` writes the block's quantized values as bytes with a sign, in
/// the order of the elements, and the scale of each run of Layout::kRun elements; if Layout::kHasMin, also what is
/// subtracted.
template <class Layout>
struct Unpacked {
  static constexpr int64_t kElements = Layout::kElements, kBytes = Layout::kBytes;
  struct Block {
    HWY_ALIGN uint8_t value[kElements];
    HWY_ALIGN float scale[kElements / Layout::kRun], min[kElements / Layout::kRun];
  };
  template <class Consumer>
  static HWY_INLINE void decode(const uint8_t* b, Consumer& consume) {
    Block block;
    Layout::unpack(b, block);
    const auto value = [&block](size_t i) HWY_ATTR {
      const V q = as_float(load_signed(block.value + i)), scale = hn::Set(D(), block.scale[i / Layout::kRun]);
      if constexpr (Layout::kHasMin) return hn::MulSub(scale, q, hn::Set(D(), block.min[i / Layout::kRun]));
      else return hn::Mul(scale, q);
    };
    const size_t lanes = hn::Lanes(D());
    if constexpr (kElements < 64) {
      for (size_t i = 0; i < kElements; i += lanes)
        if (i / lanes % 2 == 0) consume.template operator()<0>(i, value(i));
        else consume.template operator()<1>(i, value(i));
    } else {
      for (size_t i = 0; i < kElements; i += 4 * lanes) {
        consume.template operator()<0>(i, value(i));
        consume.template operator()<1>(i + lanes, value(i + lanes));
        consume.template operator()<2>(i + 2 * lanes, value(i + 2 * lanes));
        consume.template operator()<3>(i + 3 * lanes, value(i + 3 * lanes));
      }
    }
  }
};

/// Each byte shifted right by kBits, or left by -kBits. Bits of its neighbour come in: mask the result.
template <int kBits>
HWY_INLINE VB shifted_right(VB v) {
  const hn::Repartition<uint16_t, DB> words;
  if constexpr (kBits > 0) return hn::BitCast(DB(), hn::ShiftRight<kBits>(hn::BitCast(words, v)));
  else if constexpr (kBits < 0) return hn::BitCast(DB(), hn::ShiftLeft<-kBits>(hn::BitCast(words, v)));
  else return v;
}
/// The bits of each byte that kMask << kFrom selects, moved to place kTo; all others are 0.
template <int kFrom, int kTo, int kMask = 1>
HWY_INLINE VB bits_at(VB v) {
  return hn::And(shifted_right<kFrom - kTo>(v), hn::Set(DB(), static_cast<uint8_t>(kMask << kTo)));
}
HWY_INLINE VB bytes_at(const uint8_t* from) { return hn::LoadU(DB(), from); }
HWY_INLINE void put(VB v, uint8_t* to) { hn::StoreU(v, DB(), to); }
HWY_INLINE VB all_of(int v) { return hn::Set(DB(), static_cast<uint8_t>(v)); }

/// 16 bytes of nibbles as 32 values: the low ones, then the high ones.
HWY_INLINE void split_nibbles(const uint8_t* from, uint8_t* to) {
  const hn::CappedTag<uint8_t, 16> half;
  for (size_t i = 0; i < 16; i += hn::Lanes(half)) {
    const auto q = hn::LoadU(half, from + i);
    hn::StoreU(hn::And(q, hn::Set(half, uint8_t{15})), half, to + i);
    hn::StoreU(hn::ShiftRight<4>(q), half, to + 16 + i);
  }
}
/// The same, and the values looked up in a table of 16 bytes.
HWY_INLINE void look_up_nibbles(const uint8_t* from, int count, const int8_t* table, uint8_t* to) {
  const hn::FixedTag<uint8_t, 16> sixteen;
  const auto levels = hn::LoadU(sixteen, reinterpret_cast<const uint8_t*>(table));
  HWY_ALIGN uint8_t bytes[16] = {};
  std::memcpy(bytes, from, static_cast<size_t>(count));
  const auto q = hn::Load(sixteen, bytes);
  HWY_ALIGN uint8_t low[16], high[16];
  hn::Store(hn::TableLookupBytes(levels, hn::And(q, hn::Set(sixteen, uint8_t{15}))), sixteen, low);
  hn::Store(hn::TableLookupBytes(levels, hn::ShiftRight<4>(q)), sixteen, high);
  std::memcpy(to, low, static_cast<size_t>(count));
  std::memcpy(to + count, high, static_cast<size_t>(count));
}
/// Sets the fifth bit of each of 32 elements whose bit in `bits` is set.
HWY_INLINE void add_fifth_bits(const uint8_t* bits, uint8_t* values) {
  const size_t lanes = hn::Lanes(DB());
  for (size_t i = 0; i < 32; i += lanes) {
    // LoadMaskBits may read 8 bytes, more than are left at the block's end: they are copied first.
    uint8_t own[8] = {};
    std::memcpy(own, bits + i / 8, (32 - i) / 8);
    const VB fifth = hn::IfThenElseZero(hn::LoadMaskBits(DB(), own), all_of(16));
    put(hn::Or(bytes_at(values + i), fifth), values + i);
  }
}

struct Q4_1Layout {
  static constexpr int64_t kElements = 32, kBytes = 20, kRun = 32;
  static constexpr bool kHasMin = true;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    to.scale[0] = blocks::half_at(b), to.min[0] = -blocks::half_at(b + 2);
    split_nibbles(b + 4, to.value);
  }
};
struct Q5_0Layout {
  static constexpr int64_t kElements = 32, kBytes = 22, kRun = 32;
  static constexpr bool kHasMin = false;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    to.scale[0] = blocks::half_at(b);
    split_nibbles(b + 6, to.value);
    add_fifth_bits(b + 2, to.value);
    for (size_t i = 0; i < 32; i += hn::Lanes(DB())) put(hn::Sub(bytes_at(to.value + i), all_of(16)), to.value + i);
  }
};
struct Q5_1Layout {
  static constexpr int64_t kElements = 32, kBytes = 24, kRun = 32;
  static constexpr bool kHasMin = true;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    to.scale[0] = blocks::half_at(b), to.min[0] = -blocks::half_at(b + 2);
    split_nibbles(b + 8, to.value);
    add_fifth_bits(b + 4, to.value);
  }
};
struct Iq4NlLayout {
  static constexpr int64_t kElements = 32, kBytes = 18, kRun = 32;
  static constexpr bool kHasMin = false;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    to.scale[0] = blocks::half_at(b);
    look_up_nibbles(b + 2, 16, blocks::kNonLinear, to.value);
  }
};
struct Iq4XsLayout {
  static constexpr int64_t kElements = 256, kBytes = 136, kRun = 32;
  static constexpr bool kHasMin = false;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    const uint64_t high = blocks::read<uint16_t>(b + 2);
    uint64_t scales = 0;
    for (int s = 0; s < 8; ++s) {
      const uint64_t low = (b[4 + s / 2] >> (4 * (s % 2))) & 15;
      scales |= (low | (high >> (2 * s) & 3) << 4) << (8 * s);
      look_up_nibbles(b + 8 + 16 * s, 16, blocks::kNonLinear, to.value + 32 * s);
    }
    scaled(less_32(scales), blocks::half_at(b), to.scale);
  }
};
struct Mxfp4Layout {
  static constexpr int64_t kElements = 32, kBytes = 17, kRun = 32;
  static constexpr bool kHasMin = false;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    to.scale[0] = blocks::half_of_e8m0(b[0]);
    look_up_nibbles(b + 1, 16, blocks::kTwiceE2m1, to.value);
  }
};
struct Nvfp4Layout {
  static constexpr int64_t kElements = 16, kBytes = 9, kRun = 16;
  static constexpr bool kHasMin = false;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    to.scale[0] = 0.5f * blocks::e4m3(b[0]);
    look_up_nibbles(b + 1, 8, blocks::kTwiceE2m1, to.value);
  }
};

/// 64 bytes of 2-bit values in the order of Q2_K: bit pair p of 32 bytes is a run of 32 elements.
template <class Store>
HWY_INLINE void unpack_pairs(const uint8_t* from, Store store) {
  for (size_t half = 0; half < 2; ++half)
    for (size_t i = 0; i < 32; i += hn::Lanes(DB())) {
      const VB q = bytes_at(from + 32 * half + i);
      const size_t at = 128 * half + i;
      store(half, i, at, bits_at<0, 0, 3>(q), bits_at<2, 0, 3>(q), bits_at<4, 0, 3>(q), bits_at<6, 0, 3>(q));
    }
}
struct Q2KLayout {
  static constexpr int64_t kElements = 256, kBytes = 84, kRun = 16;
  static constexpr bool kHasMin = true;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    constexpr uint64_t kFour = 0x0f0f0f0f0f0f0f0f;
    for (int s = 0; s < 16; s += 8) {
      const auto both = blocks::read<uint64_t>(b + s);
      scaled(both & kFour, blocks::half_at(b + 80), to.scale + s);
      scaled(both >> 4 & kFour, blocks::half_at(b + 82), to.min + s);
    }
    unpack_pairs(b + 16, [&](size_t, size_t, size_t at, VB q0, VB q1, VB q2, VB q3) HWY_ATTR {
      put(q0, to.value + at), put(q1, to.value + at + 32), put(q2, to.value + at + 64), put(q3, to.value + at + 96);
    });
  }
};
struct Q3KLayout {
  static constexpr int64_t kElements = 256, kBytes = 110, kRun = 16;
  static constexpr bool kHasMin = false;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    constexpr uint32_t kFour = 0x0f0f0f0f, kTwo = 0x30303030;
    const auto w0 = blocks::read<uint32_t>(b + 96), w1 = blocks::read<uint32_t>(b + 100),
               w2 = blocks::read<uint32_t>(b + 104);
    const float d = blocks::half_at(b + 108);
    scaled(less_32(word_of((w0 & kFour) | (w2 << 4 & kTwo), (w1 & kFour) | (w2 << 2 & kTwo))), d, to.scale);
    scaled(less_32(word_of((w0 >> 4 & kFour) | (w2 & kTwo), (w1 >> 4 & kFour) | (w2 >> 2 & kTwo))), d, to.scale + 8);
    // The high bit of a value is its third one; the three bits stand for 4 less than they say.
    const auto put_value = [&](VB low, VB high, size_t at)
                               HWY_ATTR { put(hn::Sub(hn::Or(low, high), all_of(4)), to.value + at); };
    unpack_pairs(b + 32, [&](size_t half, size_t i, size_t at, VB q0, VB q1, VB q2, VB q3) HWY_ATTR {
      const VB high = bytes_at(b + i);
      put_value(q0, half == 0 ? bits_at<0, 2>(high) : bits_at<4, 2>(high), at);
      put_value(q1, half == 0 ? bits_at<1, 2>(high) : bits_at<5, 2>(high), at + 32);
      put_value(q2, half == 0 ? bits_at<2, 2>(high) : bits_at<6, 2>(high), at + 64);
      put_value(q3, half == 0 ? bits_at<3, 2>(high) : bits_at<7, 2>(high), at + 96);
    });
  }
};
struct Q5KLayout {
  static constexpr int64_t kElements = 256, kBytes = 176, kRun = 32;
  static constexpr bool kHasMin = true;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    unpack_scales_and_mins(b, to.scale, to.min);
    unpack_values(b, to.value);
  }
  static HWY_INLINE void unpack_values(const uint8_t* b, uint8_t* to) {
    for (size_t i = 0; i < 32; i += hn::Lanes(DB())) {
      const VB high = bytes_at(b + 16 + i);
      const auto two_runs = [&](size_t run, VB low_fifth, VB high_fifth) HWY_ATTR {
        const VB q = bytes_at(b + 48 + 32 * run + i);
        put(hn::Or(bits_at<0, 0, 15>(q), low_fifth), to + 64 * run + i);
        put(hn::Or(bits_at<4, 0, 15>(q), high_fifth), to + 64 * run + 32 + i);
      };
      two_runs(0, bits_at<0, 4>(high), bits_at<1, 4>(high));
      two_runs(1, bits_at<2, 4>(high), bits_at<3, 4>(high));
      two_runs(2, bits_at<4, 4>(high), bits_at<5, 4>(high));
      two_runs(3, bits_at<6, 4>(high), bits_at<7, 4>(high));
    }
  }
};
struct Q6KLayout {
  static constexpr int64_t kElements = 256, kBytes = 210, kRun = 16;
  static constexpr bool kHasMin = false;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    const float d = blocks::half_at(b + 208);
#if HWY_TARGET <= HWY_AVX3
    hn::Store(hn::Mul(hn::Set(D(), d), as_float(load_signed(b + 192))), D(), to.scale);
    // The high bits of 64 elements are two pairs of each of 32 bytes: of elements 0 to 63 the lowest, of 64 to 127 the
    // others.
    const __m512i four = _mm512_set1_epi8(15), pair = _mm512_set1_epi8(0x30), offset = _mm512_set1_epi8(32);
    const __m512i left = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1),
                  right = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
    RLX_UNROLL for (size_t half = 0; half < 2; ++half) {
      const __m512i low = _mm512_loadu_si512(b + 64 * half);
      const __m512i pairs =
          _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 128 + 32 * half)));
      const auto put_values = [&](__m512i nibbles, __m512i high, size_t at) HWY_ATTR {
        const __m512i six = _mm512_or_si512(_mm512_and_si512(nibbles, four), _mm512_and_si512(high, pair));
        _mm512_store_si512(to.value + at, _mm512_sub_epi8(six, offset));
      };
      put_values(low, _mm512_sllv_epi16(pairs, left), 128 * half);
      put_values(_mm512_srli_epi16(low, 4), _mm512_srlv_epi16(pairs, right), 128 * half + 64);
    }
#else
    scaled(blocks::read<uint64_t>(b + 192), d, to.scale), scaled(blocks::read<uint64_t>(b + 200), d, to.scale + 8);
    for (size_t half = 0; half < 2; ++half)
      for (size_t i = 0; i < 32; i += hn::Lanes(DB())) {
        const VB low0 = bytes_at(b + 64 * half + i), low1 = bytes_at(b + 64 * half + 32 + i);
        const VB high = bytes_at(b + 128 + 32 * half + i);
        const auto put_value = [&](VB low, VB pair, size_t run) HWY_ATTR {
          put(hn::Sub(hn::Or(low, pair), all_of(32)), to.value + 128 * half + 32 * run + i);
        };
        put_value(bits_at<0, 0, 15>(low0), bits_at<0, 4, 3>(high), 0);
        put_value(bits_at<0, 0, 15>(low1), bits_at<2, 4, 3>(high), 1);
        put_value(bits_at<4, 0, 15>(low0), bits_at<4, 4, 3>(high), 2);
        put_value(bits_at<4, 0, 15>(low1), bits_at<6, 4, 3>(high), 3);
      }
#endif
  }
};
struct Tq2_0Layout {
  static constexpr int64_t kElements = 256, kBytes = 66, kRun = 256;
  static constexpr bool kHasMin = false;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    to.scale[0] = blocks::half_at(b + 64);
    unpack_pairs(b, [&](size_t, size_t, size_t at, VB q0, VB q1, VB q2, VB q3) HWY_ATTR {
      const VB one = all_of(1);
      put(hn::Sub(q0, one), to.value + at), put(hn::Sub(q1, one), to.value + at + 32);
      put(hn::Sub(q2, one), to.value + at + 64), put(hn::Sub(q3, one), to.value + at + 96);
    });
  }
};

/// Calls f.operator()<Format>() if the format has a vector decoder, as halves have.
template <class F>
HWY_INLINE bool with_format(DType format, F f) {
  switch (format) {
    case DType::f16: f.template operator()<Halves<F16>>(); return true;
    case DType::bf16: f.template operator()<Halves<BF16>>(); return true;
    case DType::q4_0: f.template operator()<Q4_0>(); return true;
    case DType::q4_1: f.template operator()<Unpacked<Q4_1Layout>>(); return true;
    case DType::q5_0: f.template operator()<Unpacked<Q5_0Layout>>(); return true;
    case DType::q5_1: f.template operator()<Unpacked<Q5_1Layout>>(); return true;
    case DType::q8_0: f.template operator()<Q8_0>(); return true;
    case DType::iq4_nl: f.template operator()<Unpacked<Iq4NlLayout>>(); return true;
    case DType::iq4_xs: f.template operator()<Unpacked<Iq4XsLayout>>(); return true;
    case DType::mxfp4: f.template operator()<Unpacked<Mxfp4Layout>>(); return true;
    case DType::nvfp4: f.template operator()<Unpacked<Nvfp4Layout>>(); return true;
    case DType::q2_k: f.template operator()<Unpacked<Q2KLayout>>(); return true;
    case DType::q3_k: f.template operator()<Unpacked<Q3KLayout>>(); return true;
    case DType::q4_k: f.template operator()<Q4_K>(); return true;
    case DType::q5_k: f.template operator()<Unpacked<Q5KLayout>>(); return true;
    case DType::q6_k: f.template operator()<Unpacked<Q6KLayout>>(); return true;
    case DType::tq2_0: f.template operator()<Unpacked<Tq2_0Layout>>(); return true;
    default: return false;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
