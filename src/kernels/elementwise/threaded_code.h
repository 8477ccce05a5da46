// Threaded code for sequences of f32 ops: their values stay in vector registers from op to op, a block of 8 vectors at
// a time, so that a value that only the next op reads never goes through memory. Each instruction is a function that
// takes the block as arguments, works on it (its other operands come from memory), and tail-calls the function of the
// next instruction (threaded code: Bell, Communications of the ACM 16 (1973)). make_threaded_code.cpp translates the
// ops of a program; f32-inl.h has the arithmetic of each op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/memory/memory_traffic.h"

namespace rlx::kernels {
enum class ElementwiseOp : uint8_t;

namespace elementwise {

/// One instruction, and the addresses of its memory for the current block.
struct Instruction {
  using Code = void (*)();  ///< cast to the real function type by the target's code only
  Code code;
  std::byte* from[2];  ///< the operands that are not register-resident, in their order
  union {
    std::byte* to;                                 ///< for stores, and for comparisons, which write booleans
    const MemoryTraffic::CacheLines* cache_lines;  ///< for interleaved instructions: the memory traffic of one block
  };
};
/// A pointer of an instruction that advances by `bytes` with each block. The others stay: those to constants, and those
/// to scratch blocks.
struct MovingPointer {
  std::byte** pointer;
  uint32_t bytes;
  uint32_t index;  ///< of the planned pointer (steps.h); `run` does not read it
};
/// Memory traffic that is interleaved with a run of threaded code.
struct BlockTraffic {
  std::span<const std::byte> prefetch;  ///< prefetched by the interleaved instruction, one block's bytes per block
  /// Destination of the first block of the result that the interleaved instruction copies by non-temporal stores one
  /// block late; null if there is none.
  std::byte* stream_to = nullptr;
  MemoryTraffic::CacheLines* cache_lines = nullptr;  ///< of the interleaved instruction; null without memory traffic
  MemoryTraffic* more = nullptr;                     ///< other traffic, if any: `share` bytes of each stream per block
  size_t share = 0;
};

/// The instructions of the best instruction set of this processor. All instructions of one program come from one
/// target.
struct ThreadedCodeTarget {
  int64_t block = 0;  ///< elements in registers; 0 if the target has no threaded code
  Instruction::Code load = nullptr, interleaved_load = nullptr, store = nullptr, end = nullptr;
  Instruction::Code narrow_f16 = nullptr, narrow_bf16 = nullptr;  ///< round the block to values of f16, bf16
  /// The code of an op whose operand `register_operand` (0, 1 or 2) is register-resident; null if there is none. The
  /// result replaces the block in registers; a comparison writes its result to memory and leaves the block as it was.
  Instruction::Code (*find)(ElementwiseOp op, int register_operand) = nullptr;
  /// The code of a costly op that also does memory traffic; null for other ops.
  Instruction::Code (*find_interleaved)(ElementwiseOp op) = nullptr;
  /// Whether the op's instruction computes the vectors of a block unrolled, which its kernel does not.
  bool (*is_unrolled)(ElementwiseOp op) = nullptr;
  /// Runs instructions that close with `end` on `blocks` blocks.
  void (*run)(const Instruction* instructions, int64_t blocks, std::span<const MovingPointer> moving,
              BlockTraffic traffic) noexcept = nullptr;
};
ThreadedCodeTarget threaded_code_target();

}  // namespace elementwise
}  // namespace rlx::kernels
