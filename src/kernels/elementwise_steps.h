// What an element-wise program does to each tile: elementwise_program.cpp makes these steps, elementwise_run.cpp does
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/elementwise_kernels.h"

namespace rlx::kernels::elementwise {

/// One thing to do for a tile. Each value has a register, numbered as the value; its pointer is a place in scratch,
/// which values share that do not live at one time, or memory of an operand or result that can stand in for it.
struct Step {
  enum class What : uint8_t { load, constant, op, store } what = What::op;
  bool is_costly = false;
  bool forwards = false;       ///< op: the result goes straight to the memory of result `buffer`, if it lies dense
  uint8_t bytes = 0;           ///< load, store: of an element in memory
  uint8_t register_bytes = 0;  ///< of an element of dst (store: of a)
  std::array<uint8_t, 3> operand_bytes{};  ///< op: of an element of each
  std::array<uint16_t, 3> operands{};      ///< op: the first also for those that there are not; store: the first
  uint16_t dst = 0;
  int buffer = -1;
  size_t stream_at = 0;  ///< op that forwards: two tiles in scratch, of which one is written past the caches
  Kernel kernel = nullptr, then = nullptr;
  BusyKernel busy = nullptr;
  std::array<std::byte, 16> value{};  ///< constant: as it stands in the register

  // What chains ask of an op.
  ElementwiseOp op{};
  uint8_t operand_count = 0;
  bool is_f32 = false;  ///< operands and result, or a comparison or choice of such
  int uses = 0;         ///< of its result, by ops and stores
  Link::Code link_then = nullptr;
  size_t chain = 0, chain_index = 0;  ///< on the first of a chain: how many steps it has, and which it is

  Link::Code find_link(const ChainTarget& target, int held) const { return is_f32 ? target.find(op, held) : nullptr; }
};

/// Elements that an op does between two pieces of memory's work.
inline constexpr int64_t kPiece = 192;
/// Elements of dense arrays that a chain works on before pointers are looked at again.
inline constexpr int64_t kChainTile = 4096;
inline constexpr size_t kMostLinked = 32;  ///< steps of a chain

/// A pointer of a chain's link, as it stands before a run has pointers.
struct PlannedPointer {
  uint16_t link;
  uint8_t which;   ///< from[0], from[1], to
  uint8_t bytes;   ///< of an element
  uint16_t value;  ///< whose register it is
  bool moves;      ///< through the tile; else it stays at offset `at` of scratch
  size_t at;       ///< of one that moves: where it is for what is left of a tile behind its blocks
  int operand;     ///< that the value is; -1 of others
};
/// A value in memory that a chain reads or writes, and the block in scratch where it stands for fewer elements than a
/// block has.
struct PlannedPart {
  uint16_t value;
  uint8_t bytes;  ///< of an element
  bool is_result;
  size_t at;
  int operand;  ///< that the value is; -1 of others
};
struct PlannedChain {
  std::vector<Link::Code> links;
  std::vector<PlannedPointer> pointers;
  std::vector<PlannedPart> parts;
  size_t busy_link = 0;            ///< that does memory's work too, over large arrays
  Link::Code busy_code = nullptr;  ///< then
  /// The result that can be written past the caches a block behind: its step in the chain, its store, the block.
  size_t streamed_step = 0, streamed_link = 0, streamed_at = 0;
};

/// A chain in a run, in scratch.
struct RunningChain {
  Link* links;
  Moving* moving;
  size_t moving_count;
  std::byte* pending;  ///< where the block that waits at `streamed_at` belongs; null if none waits
};

}  // namespace rlx::kernels::elementwise
