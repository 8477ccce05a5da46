// Selects the instruction sets that kernels are compiled for. Include this before any Highway header. On x86-64 it
// limits run-time dispatch to three targets, because each one costs a full compilation of every kernel file; SSE4 is
// the oldest that RLX supports. On aarch64 it is NEON alone, which every such processor has: kernels keep vectors in
// arrays, which C++ does not allow for SVE's vectors, whose length is known only at run time. What NEON's extensions
// add (products of int8, bf16) is chosen at run time by the kernels that use it (instruction_set.h).
#pragma once

#if defined(__x86_64__) || defined(_M_X64)
#ifndef HWY_BASELINE_TARGETS
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_EMU128 | HWY_SSSE3 | HWY_AVX3_DL)
#endif
#elif defined(__aarch64__) || defined(_M_ARM64)
// Says that Highway has nothing to find out at run time. Else it compiles for NEON with AES, which some of these
// processors lack, and GCC does not compile constructors that it makes itself for that.
#ifndef TOOLCHAIN_MISS_SYS_AUXV_H
#define TOOLCHAIN_MISS_SYS_AUXV_H
#endif
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
#endif

// For loops over an array of vectors: the compiler keeps the array in registers only if the loop is unrolled, which -O2
// alone does not do.
#if defined(__clang__)
#define RLX_UNROLL _Pragma("unroll")
#else
#define RLX_UNROLL _Pragma("GCC unroll 32")
#endif
