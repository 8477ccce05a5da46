// What an element-wise program does to each tile. program.cpp makes the steps, make_threaded_code.cpp joins f32 steps
// to threaded code, run.cpp executes both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/loops.h"

namespace rlx::kernels::elementwise {

/// One action on a tile. Each value has a register with the value's number. The register's pointer is a slot in
/// scratch, or the memory of an operand or result where that can be used directly.
struct Step {
  enum class What : uint8_t { load, constant, op, store } what = What::op;
  bool is_costly = false;      ///< the op has time for memory traffic between its pieces
  bool forwards = false;       ///< op: it writes directly to the memory of result `buffer`, if that is dense
  uint8_t bytes = 0;           ///< load, store: of an element in memory
  uint8_t register_bytes = 0;  ///< of an element of dst (store: of a)
  std::array<uint8_t, 3> operand_bytes{};  ///< op: of an element of each operand
  std::array<uint16_t, 3> operands{};      ///< op: missing ones repeat the first; store: only the first
  uint16_t dst = 0;
  int buffer = -1;
  size_t stream_at = 0;  ///< op that forwards: offset of two tiles in scratch; one is computed while the other is
                         ///< copied to the result by non-temporal stores
  Kernel kernel = nullptr, then = nullptr;
  InterleavedKernel interleaved = nullptr;
  std::array<std::byte, 16> value{};  ///< constant: in the register's representation

  // For threaded code.
  ElementwiseOp op{};
  uint8_t operand_count = 0;
  bool is_f32 = false;  ///< the kernel works on f32 registers (a comparison writes and a select reads booleans)
  int uses = 0;         ///< of its result, by ops and stores
  Instruction::Code instruction_then = nullptr;        ///< rounds the result to f16 or bf16
  size_t threaded_steps = 0, threaded_code_index = 0;  ///< first step of a threaded code: its number of steps; which

  /// The instruction for this op if operand `register_operand` is register-resident; null if there is none.
  Instruction::Code find_instruction(const ThreadedCodeTarget& target, int register_operand) const {
    return is_f32 ? target.find(op, register_operand) : nullptr;
  }
};

/// Elements that a costly op computes between two pieces of memory traffic.
inline constexpr int64_t kPiece = 192;
/// Elements of a tile of dense arrays that only threaded code works on.
inline constexpr int64_t kThreadedCodeTile = 4096;
inline constexpr size_t kMaxThreadedOps = 32;  ///< ops in one threaded code

/// A pointer of an instruction, as planned before a run supplies addresses.
struct PlannedPointer {
  uint16_t instruction;
  uint8_t which;   ///< 0: from[0], 1: from[1], 2: to
  uint8_t bytes;   ///< of an element
  uint16_t value;  ///< whose register it points to
  bool moves;      ///< it advances by a block with each block; else it stays at offset `at` of scratch
  size_t at;       ///< if it moves: offset of the scratch block that replaces it for the incomplete block of a tile
  int operand;     ///< number of the operand that the value is; -1 if it is none
};
/// A value in memory that threaded code reads or writes, and the scratch block that replaces it for the incomplete
/// block at the end of a tile.
struct PlannedTail {
  uint16_t value;
  uint8_t bytes;  ///< of an element
  bool is_result;
  size_t at;    ///< offset in scratch
  int operand;  ///< number of the operand that the value is; -1 if it is none
};
struct PlannedThreadedCode {
  std::vector<Instruction::Code> instructions;
  std::vector<PlannedPointer> pointers;
  std::vector<PlannedTail> tails;
  size_t interleaved_instruction = 0;            ///< the one that does the memory traffic too, over large arrays
  Instruction::Code interleaved_code = nullptr;  ///< its code then
  /// A result that can be written by non-temporal stores, one block late: the step that computes it (counted from the
  /// first of this code), the instruction that stores it, the scratch block where it waits. Instruction 0: there is
  /// none.
  size_t streamed_step = 0, streamed_instruction = 0, streamed_at = 0;
  /// How much sooner a block is computed than by the kernels of the ops, in nanoseconds; negative if it is later.
  double gain_ns = 0;
};

/// Threaded code in a run, in scratch.
struct RunningThreadedCode {
  Instruction* instructions;
  MovingPointer* moving;
  size_t moving_count;
  std::byte* pending;  ///< where the block that waits at `streamed_at` has to be copied; null if none waits
};

}  // namespace rlx::kernels::elementwise
