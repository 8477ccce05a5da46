// Chooses the instruction sets that kernels are compiled for. Include this before any Highway header: it keeps
// run-time dispatch to three targets on x86-64 (each one costs a full compile of every kernel file). SSE4 is the
// oldest that we support; elsewhere Highway's own choice stands.
#pragma once

#if defined(__x86_64__) || defined(_M_X64)
#ifndef HWY_BASELINE_TARGETS
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_EMU128 | HWY_SSSE3 | HWY_AVX3_DL)
#endif
#endif

// In front of a loop over an array of vectors: only when unrolled does the array become registers, and -O2 alone
// does not do that.
#if defined(__clang__)
#define RLX_UNROLL _Pragma("unroll")
#else
#define RLX_UNROLL _Pragma("GCC unroll 32")
#endif
