// What an element-wise program does to each tile. program.cpp makes the steps, make_threaded_code.cpp translates runs
// of f32 steps to threaded code, run.cpp executes both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/loops.h"

namespace rlx::kernels::elementwise {

/// One action on a tile: it loads an operand, fills in a constant, computes an op or stores a result. Each value has a
/// register with the value's number; the register's pointer is a slot in scratch, or the memory of an operand or result
/// where that can be used directly. Some fields belong to some kinds of steps only; their comments begin with these
/// kinds.
struct Step {
  enum class What : uint8_t { load, constant, op, store } what = What::op;
  bool is_costly = false;      ///< op: it takes so long that memory traffic can be interleaved with it
  bool forwards = false;       ///< op: it writes to the memory of result `buffer` instead of a slot, if that is dense
  uint8_t bytes = 0;           ///< load, store: size of an element in memory
  uint8_t register_bytes = 0;  ///< size of an element in the register: of dst, or of what a store reads
  std::array<uint8_t, 3> operand_bytes{};  ///< op: size of an element of each operand
  std::array<uint16_t, 3> operands{};      ///< op: the values it reads, missing ones repeat the first; store: one value
  uint16_t dst = 0;
  int buffer = -1;       ///< number of the operand or result that the step reads or writes
  size_t stream_at = 0;  ///< op that forwards to a large result: offset of two tiles in scratch, one of which is
                         ///< computed while the other is copied to the result by non-temporal stores
  Kernel kernel = nullptr, then = nullptr;  ///< `then` rounds the kernel's result to the dtype; either may be null
  InterleavedKernel interleaved = nullptr;
  std::array<std::byte, 16> value{};  ///< constant: the value as a register holds it

  // The fields from here on are for ops that may become threaded code.
  ElementwiseOp op{};
  uint8_t operand_count = 0;
  bool is_f32 = false;  ///< the op works on f32 (though a comparison writes booleans and a select reads them)
  int uses = 0;         ///< how many ops and stores read the result
  Instruction::Code instruction_then = nullptr;  ///< rounds the result to f16 or bf16
  /// In the first step of a sequence that runs as threaded code: the number of its steps, and the index of its code.
  size_t threaded_steps = 0, threaded_code_index = 0;

  /// The instruction for this op if operand `register_operand` is register-resident; null if there is none.
  Instruction::Code find_instruction(const ThreadedCodeTarget& target, int register_operand) const {
    return is_f32 ? target.find(op, register_operand) : nullptr;
  }
};

/// Number of elements that a costly op computes between two pieces of memory traffic.
inline constexpr int64_t kPiece = 192;
/// Number of elements of a tile if all arrays are dense and all ops run as threaded code.
inline constexpr int64_t kThreadedCodeTile = 4096;
inline constexpr size_t kMaxThreadedOps = 32;  ///< the most ops in one piece of threaded code

/// A pointer of an instruction, as it is planned before a run supplies addresses.
struct PlannedPointer {
  uint16_t instruction;
  uint8_t which;   ///< 0: Instruction::from[0], 1: from[1], 2: to
  uint8_t bytes;   ///< size of an element
  uint16_t value;  ///< whose register it points to
  bool moves;      ///< it advances by a block with each block; else it stays at offset `at` of scratch
  size_t at;       ///< if it moves: offset of the scratch block that replaces it for the incomplete block of a tile
  int operand;     ///< number of the operand that the value is; -1 if it is none
};
/// A value in memory that threaded code reads or writes, and the scratch block that replaces it for the incomplete
/// block at the end of a tile.
struct PlannedTail {
  uint16_t value;
  uint8_t bytes;  ///< size of an element
  bool is_result;
  size_t at;    ///< offset in scratch
  int operand;  ///< number of the operand that the value is; -1 if it is none
};
struct PlannedThreadedCode {
  std::vector<Instruction::Code> instructions;
  std::vector<PlannedPointer> pointers;
  std::vector<PlannedTail> tails;
  /// The instruction that also does the memory traffic of large arrays, and the code that it then has.
  size_t interleaved_instruction = 0;
  Instruction::Code interleaved_code = nullptr;
  /// A result that can be written by non-temporal stores, one block late: the step that computes it (counted from the
  /// first step of this code), the instruction that stores it, and the scratch block where it waits. The instruction is
  /// 0 if there is no such result.
  size_t streamed_step = 0, streamed_instruction = 0, streamed_at = 0;
  /// How much sooner a block is computed than by the kernels of the ops, in nanoseconds; negative if the kernels are
  /// faster.
  double gain_ns = 0;
};

/// The state of threaded code in a run; it is in scratch.
struct RunningThreadedCode {
  Instruction* instructions;
  MovingPointer* moving;
  size_t moving_count;
  std::byte* pending;  ///< where the block that waits at `streamed_at` has to be copied; null if none waits
};

}  // namespace rlx::kernels::elementwise
