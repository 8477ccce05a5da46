// The table of element types. Everything that depends on a dtype alone (its name, kind, bits, block) is read
// from here; what reads and writes the elements is tensor/element.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string_view>

namespace rlx {

/// What an element means. Arithmetic is defined per kind: integers wrap, floats round to nearest, ties to even.
enum class Kind : uint8_t { boolean, signed_int, unsigned_int, real, complex, block };

// name in text, enumerator, kind, bits of an element, elements of a block, bytes of a block, exponent bits,
// mantissa bits. A "block" of a plain dtype is the fewest elements that fill whole bytes.
//   RLX_DTYPE(enumerator, "text", kind, bits, block_elements, block_bytes, exponent, mantissa)
// Block formats: GGUF specification (ggml types), OCP Microscaling 1.0; all elements of a block share scales.
#define RLX_DTYPES(RLX_DTYPE)                              \
  RLX_DTYPE(boolean, "bool", boolean, 8, 1, 1, 0, 0)       \
  RLX_DTYPE(i4, "i4", signed_int, 4, 2, 1, 0, 0)           \
  RLX_DTYPE(i8, "i8", signed_int, 8, 1, 1, 0, 0)           \
  RLX_DTYPE(i16, "i16", signed_int, 16, 1, 2, 0, 0)        \
  RLX_DTYPE(i32, "i32", signed_int, 32, 1, 4, 0, 0)        \
  RLX_DTYPE(i64, "i64", signed_int, 64, 1, 8, 0, 0)        \
  RLX_DTYPE(u1, "u1", unsigned_int, 1, 8, 1, 0, 0)         \
  RLX_DTYPE(u2, "u2", unsigned_int, 2, 4, 1, 0, 0)         \
  RLX_DTYPE(u3, "u3", unsigned_int, 3, 8, 3, 0, 0)         \
  RLX_DTYPE(u4, "u4", unsigned_int, 4, 2, 1, 0, 0)         \
  RLX_DTYPE(u6, "u6", unsigned_int, 6, 4, 3, 0, 0)         \
  RLX_DTYPE(u8, "u8", unsigned_int, 8, 1, 1, 0, 0)         \
  RLX_DTYPE(u16, "u16", unsigned_int, 16, 1, 2, 0, 0)      \
  RLX_DTYPE(u32, "u32", unsigned_int, 32, 1, 4, 0, 0)      \
  RLX_DTYPE(u64, "u64", unsigned_int, 64, 1, 8, 0, 0)      \
  RLX_DTYPE(f16, "f16", real, 16, 1, 2, 5, 10)             \
  RLX_DTYPE(bf16, "bf16", real, 16, 1, 2, 8, 7)            \
  RLX_DTYPE(f32, "f32", real, 32, 1, 4, 8, 23)             \
  RLX_DTYPE(f64, "f64", real, 64, 1, 8, 11, 52)            \
  RLX_DTYPE(f8e4m3fn, "f8e4m3fn", real, 8, 1, 1, 4, 3)     \
  RLX_DTYPE(f8e5m2, "f8e5m2", real, 8, 1, 1, 5, 2)         \
  RLX_DTYPE(f8e4m3fnuz, "f8e4m3fnuz", real, 8, 1, 1, 4, 3) \
  RLX_DTYPE(f8e5m2fnuz, "f8e5m2fnuz", real, 8, 1, 1, 5, 2) \
  RLX_DTYPE(f8e8m0fnu, "f8e8m0fnu", real, 8, 1, 1, 8, 0)   \
  RLX_DTYPE(f6e2m3fn, "f6e2m3fn", real, 6, 4, 3, 2, 3)     \
  RLX_DTYPE(f6e3m2fn, "f6e3m2fn", real, 6, 4, 3, 3, 2)     \
  RLX_DTYPE(f4e2m1fn, "f4e2m1fn", real, 4, 2, 1, 2, 1)     \
  RLX_DTYPE(c64, "c64", complex, 64, 1, 8, 8, 23)          \
  RLX_DTYPE(c128, "c128", complex, 128, 1, 16, 11, 52)     \
  RLX_DTYPE(q4_0, "q4_0", block, 4, 32, 18, 0, 0)          \
  RLX_DTYPE(q4_1, "q4_1", block, 4, 32, 20, 0, 0)          \
  RLX_DTYPE(q5_0, "q5_0", block, 5, 32, 22, 0, 0)          \
  RLX_DTYPE(q5_1, "q5_1", block, 5, 32, 24, 0, 0)          \
  RLX_DTYPE(q8_0, "q8_0", block, 8, 32, 34, 0, 0)          \
  RLX_DTYPE(q2_k, "q2_k", block, 2, 256, 84, 0, 0)         \
  RLX_DTYPE(q3_k, "q3_k", block, 3, 256, 110, 0, 0)        \
  RLX_DTYPE(q4_k, "q4_k", block, 4, 256, 144, 0, 0)        \
  RLX_DTYPE(q5_k, "q5_k", block, 5, 256, 176, 0, 0)        \
  RLX_DTYPE(q6_k, "q6_k", block, 6, 256, 210, 0, 0)        \
  RLX_DTYPE(q8_k, "q8_k", block, 8, 256, 292, 0, 0)        \
  RLX_DTYPE(iq1_s, "iq1_s", block, 1, 256, 50, 0, 0)       \
  RLX_DTYPE(iq1_m, "iq1_m", block, 1, 256, 56, 0, 0)       \
  RLX_DTYPE(iq2_xxs, "iq2_xxs", block, 2, 256, 66, 0, 0)   \
  RLX_DTYPE(iq2_xs, "iq2_xs", block, 2, 256, 74, 0, 0)     \
  RLX_DTYPE(iq2_s, "iq2_s", block, 2, 256, 82, 0, 0)       \
  RLX_DTYPE(iq3_xxs, "iq3_xxs", block, 3, 256, 98, 0, 0)   \
  RLX_DTYPE(iq3_s, "iq3_s", block, 3, 256, 110, 0, 0)      \
  RLX_DTYPE(iq4_nl, "iq4_nl", block, 4, 32, 18, 0, 0)      \
  RLX_DTYPE(iq4_xs, "iq4_xs", block, 4, 256, 136, 0, 0)    \
  RLX_DTYPE(tq1_0, "tq1_0", block, 2, 256, 54, 0, 0)       \
  RLX_DTYPE(tq2_0, "tq2_0", block, 2, 256, 66, 0, 0)       \
  RLX_DTYPE(q1_0, "q1_0", block, 1, 128, 18, 0, 0)         \
  RLX_DTYPE(q2_0, "q2_0", block, 2, 128, 34, 0, 0)         \
  RLX_DTYPE(mxfp4, "mxfp4", block, 4, 32, 17, 0, 0)        \
  RLX_DTYPE(nvfp4, "nvfp4", block, 4, 16, 9, 0, 0)

enum class DType : uint8_t {
#define RLX_DTYPE(name, text, kind, bits, elements, bytes, exponent, mantissa) name,
  RLX_DTYPES(RLX_DTYPE)
#undef RLX_DTYPE
};

// `rlx::f32` and so on, as graphs are written.
#define RLX_DTYPE(name, text, kind, bits, elements, bytes, exponent, mantissa) \
  inline constexpr DType name = DType::name;
RLX_DTYPES(RLX_DTYPE)
#undef RLX_DTYPE

struct DTypeInfo {
  std::string_view name;
  Kind kind;
  int bits;                ///< of one element; of a block format, of its quantized code
  int64_t block_elements;  ///< elements that stand together in `block_bytes` bytes
  int64_t block_bytes;
  int exponent_bits, mantissa_bits;  ///< of floats; of a complex dtype, of each part
};

inline constexpr DTypeInfo kDTypes[] = {
#define RLX_DTYPE(name, text, kind, bits, elements, bytes, exponent, mantissa) \
  {text, Kind::kind, bits, elements, bytes, exponent, mantissa},
    RLX_DTYPES(RLX_DTYPE)
#undef RLX_DTYPE
};
inline constexpr size_t kDTypeCount = sizeof(kDTypes) / sizeof(kDTypes[0]);

constexpr const DTypeInfo& info(DType t) { return kDTypes[static_cast<size_t>(t)]; }
constexpr std::string_view name_of(DType t) { return info(t).name; }
constexpr Kind kind_of(DType t) { return info(t).kind; }
constexpr bool is_integer(DType t) { return kind_of(t) == Kind::signed_int || kind_of(t) == Kind::unsigned_int; }
constexpr bool is_float(DType t) { return kind_of(t) == Kind::real; }
constexpr bool is_complex(DType t) { return kind_of(t) == Kind::complex; }
constexpr bool is_block(DType t) { return kind_of(t) == Kind::block; }
/// True if an element fills whole bytes, so that it has an address.
constexpr bool is_byte_sized(DType t) { return info(t).block_elements == 1; }
/// Bytes of one element of a byte-sized dtype.
constexpr size_t byte_size(DType t) { return static_cast<size_t>(info(t).block_bytes); }
/// Floats narrower than f32: computed in f32 and rounded once per op (docs/ir.md, "Low precision").
constexpr bool is_low_precision(DType t) { return is_float(t) && info(t).bits < 32; }
/// The float in which one part of a complex dtype is stored.
constexpr DType real_part(DType t) { return t == c64 ? f32 : t == c128 ? f64 : t; }

/// The dtype of that name; an rlx::Error (parse) that lists the names if there is none.
DType dtype_named(std::string_view name);
inline std::ostream& operator<<(std::ostream& out, DType t) { return out << name_of(t); }

}  // namespace rlx
