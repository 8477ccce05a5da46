// Threaded code for sequences of f32 ops: their values stay in vector registers from op to op, a block of 8 vectors at
// a time, so that a value that only the next op reads never goes through memory. Each instruction is a function that
// takes the block as arguments, works on it (its other operands come from memory), and tail-calls the function of the
// next instruction (threaded code: Bell, Communications of the ACM 16 (1973)). make_threaded_code.cpp translates the
// ops of a program; f32-inl.h has the arithmetic of each op. What it gained on one thread (docs/performance.md):
// gelu(1.5 x + 0.5) x - relu(x) over 1000 elements 0.79 to 0.53 us, over 16.8 million 7.39 to 6.49 ms; the yardstick's
// ewchain 7.35 to between 5.9 and 6.5 ms.
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
  using Code = void (*)();  ///< threaded_code.cpp casts it to the real function type, which differs between targets
  Code code;
  std::byte* from[2];  ///< addresses of the operands that are not register-resident, in their order
  union {
    std::byte* to;                                 ///< where stores, and comparisons, write their result
    const MemoryTraffic::CacheLines* cache_lines;  ///< for interleaved instructions: the memory traffic of one block
  };
};
/// A pointer of an instruction that advances by `bytes` with each block. Pointers to constants and to scratch blocks do
/// not move.
struct MovingPointer {
  std::byte** pointer;
  uint32_t bytes;
  uint32_t index;  ///< the number of its PlannedPointer (steps.h); instructions do not read it
};
/// Memory traffic that is interleaved with a run of threaded code.
struct BlockTraffic {
  std::span<const std::byte> prefetch;  ///< memory that the interleaved instruction prefetches, a block at a time
  /// Where the interleaved instruction copies the first block of a result by non-temporal stores, one block late; null
  /// if there is no such result.
  std::byte* stream_to = nullptr;
  MemoryTraffic::CacheLines* cache_lines = nullptr;  ///< what the interleaved instruction reads; null: no traffic
  MemoryTraffic* more = nullptr;                     ///< traffic of other operands and results; null if there is none
  size_t share = 0;                                  ///< bytes of `more` per block, for each operand and result
};

/// The instructions of the best instruction set of this processor. All instructions of one program come from one
/// target.
struct ThreadedCodeTarget {
  int64_t block = 0;  ///< the elements that registers hold at a time; 0 if the target has no threaded code
  Instruction::Code load = nullptr, interleaved_load = nullptr, store = nullptr, end = nullptr;
  Instruction::Code narrow_f16 = nullptr, narrow_bf16 = nullptr;  ///< round the block to values of f16, bf16
  /// The code of an op whose operand `register_operand` (0, 1 or 2) is register-resident; null if there is none. The
  /// result replaces the block in registers; a comparison writes its result to memory and leaves the block as it was.
  Instruction::Code (*find)(ElementwiseOp op, int register_operand) = nullptr;
  /// The code of a costly op that also does memory traffic; null for other ops.
  Instruction::Code (*find_interleaved)(ElementwiseOp op) = nullptr;
  /// Whether the op's instruction computes the vectors of a block unrolled, which its kernel does not.
  bool (*is_unrolled)(ElementwiseOp op) = nullptr;
  /// Runs instructions, the last of which is `end`, on `blocks` blocks.
  void (*run)(const Instruction* instructions, int64_t blocks, std::span<const MovingPointer> moving,
              BlockTraffic traffic) noexcept = nullptr;
};
ThreadedCodeTarget threaded_code_target();

}  // namespace elementwise
}  // namespace rlx::kernels
