// The loops behind elementwise.h, one per op and domain; ElementwiseProgram::compile looks them up. A domain is how a
// register holds values: every float narrower than f64 as f32, every integer as 64 bits (sign- or zero-extended),
// booleans as the bytes 0 and 1. Each find_* function returns null for ops that are not defined for the dtype.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/elementwise/elementwise.h"
#include "kernels/memory/memory_traffic.h"
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

/// dst[i] = op(a[i], b[i], c[i]) for i in [0, n). dst may be one of the operands if their elements have the same size.
using Kernel = void (*)(void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept;

/// A kernel of one f32 operand that interleaves memory traffic with its arithmetic: for every 16 floats, which fill a
/// cache line, it prefetches one line and writes one by non-temporal stores.
using InterleavedKernel = void (*)(void* dst, const void* a, int64_t n,
                                   const MemoryTraffic::CacheLines& cache_lines) noexcept;

InterleavedKernel find_f32_interleaved(ElementwiseOp op);  ///< for costly ops of one operand, else null
Kernel find_f32(ElementwiseOp op);                         ///< vectorized; null where only `find_float` has a loop
Kernel find_float(ElementwiseOp op, DType);                ///< scalar reference loops for f32 and f64
Kernel find_narrow_fma();  ///< fma of f16 and narrower floats; its result still has to be narrowed to them
Kernel find_integer(ElementwiseOp op, DType);
Kernel find_boolean(ElementwiseOp op);
Kernel find_complex(ElementwiseOp op, DType);
Kernel find_select(size_t element_bytes);

/// Converts a register of one dtype to a register of another.
Kernel find_convert(DType from, DType to);
/// Rounds or wraps a register (dst = a) to the values that `dtype` can represent; null if that changes nothing.
Kernel find_narrow(DType dtype);
/// Convert contiguous memory to a register and back; null where both have the same representation.
Kernel find_load(DType dtype);
Kernel find_store(DType dtype);

// Vectorized loops for f16 and bf16, used by find_load, find_store and find_narrow.
Kernel find_load_f16(DType dtype);
Kernel find_store_f16(DType dtype);
Kernel find_narrow_f16(DType dtype);

}  // namespace rlx::kernels::elementwise
