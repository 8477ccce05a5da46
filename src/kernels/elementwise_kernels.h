// The loops behind elementwise.h, one per op and domain, found once when a program is finished. A domain is how a
// register holds values: every float narrower than f64 as f32, every integer as 64 bits (signed ones extended by
// their sign, unsigned ones by zeros), booleans as the bytes 0 and 1. Each finder gives null for what has no meaning.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/elementwise.h"
#include "kernels/memory_traffic.h"
#include "rlx/dtype.h"

namespace rlx::kernels::elementwise {

enum class Domain : uint8_t { f32, f64, integer, boolean, c64, c128 };

constexpr Domain domain_of(DType t) {
  switch (kind_of(t)) {
    case Kind::boolean: return Domain::boolean;
    case Kind::signed_int:
    case Kind::unsigned_int: return Domain::integer;
    case Kind::complex: return t == DType::c64 ? Domain::c64 : Domain::c128;
    default: return t == DType::f64 ? Domain::f64 : Domain::f32;
  }
}
constexpr size_t domain_bytes(Domain d) {
  return d == Domain::boolean ? 1 : d == Domain::f32 ? 4 : d == Domain::c128 ? 16 : 8;
}

/// dst[i] = op(a[i], b[i], c[i]) for i in [0, n). dst may be one of the operands if their elements have one size.
using Kernel = void (*)(void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept;

/// The same of one operand, with memory's work between the elements: n / 16 lines of each kind.
using BusyKernel = void (*)(void* dst, const void* a, int64_t n, const MemoryTraffic::Lines& lines) noexcept;

BusyKernel find_f32_busy(ElementwiseOp op);  ///< of ops of one operand that take long
Kernel find_f32(ElementwiseOp op);           ///< vectorized; null where only `find_float` has it
Kernel find_float(ElementwiseOp op, DType);  ///< plain, for f32 and f64
Kernel find_narrow_fma();                    ///< of f16 and less, whose result is still to be narrowed
Kernel find_integer(ElementwiseOp op, DType);
Kernel find_boolean(ElementwiseOp op);
Kernel find_complex(ElementwiseOp op, DType);
Kernel find_select(size_t element_bytes);

/// From a register of one dtype to a register of another.
Kernel find_convert(DType from, DType to);
/// Rounds or wraps a register (dst = a) to the values that `dtype` has; null if they all have one.
Kernel find_narrow(DType dtype);
/// From memory to a register and back, elements side by side; null where both look the same.
Kernel find_load(DType dtype);
Kernel find_store(DType dtype);

// f16 and bf16, vectorized: what the four above use.
Kernel find_load_f16(DType dtype);
Kernel find_store_f16(DType dtype);
Kernel find_narrow_f16(DType dtype);

}  // namespace rlx::kernels::elementwise
