// Chains of f32 ops whose values go from op to op in vector registers, block after block: no value goes through memory
// that only the next op reads. Each op is code that works on the block in registers, with memory beside it, and goes on
// to the code of the next link (threaded code: Bell, Communications of the ACM 16 (1973), with vectors as arguments).
// elementwise_links.cpp makes chains of a program's ops; elementwise_f32-inl.h has what the ops compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/memory_traffic.h"

namespace rlx::kernels {
enum class ElementwiseOp : uint8_t;

namespace elementwise {

/// One step of a chain and its memory: of the block that is under way.
struct Link {
  using Code = void (*)();  ///< of a type that only its target knows
  Code code;
  std::byte* from[2];  ///< the operands that are not in registers, in their order
  union {
    std::byte* to;                      ///< store, and ops whose results are booleans
    const MemoryTraffic::Lines* lines;  ///< a block's, which a busy link moves between its own work
  };
};
/// A pointer of a link that goes on by so many bytes with each block. Others stay: constants, and values of a block.
struct Moving {
  std::byte** pointer;
  uint32_t bytes;
  uint32_t index;  ///< for who makes them
};
/// Memory's work beside a chain.
struct BlockTraffic {
  std::span<const std::byte> ahead;  ///< what to ask for, a block's with each block; the busy link does it
  std::byte* stream_to =
      nullptr;  ///< where the first block of the result belongs that the busy link writes a block later
  MemoryTraffic::Lines* lines = nullptr;  ///< of the busy link; null without memory's work
  MemoryTraffic* more = nullptr;          ///< the rest, if any: `share` bytes of each with a block
  size_t share = 0;
};

/// What a target has for chains. Taken once: all codes of a chain are of one target.
struct ChainTarget {
  int64_t block = 0;  ///< elements in registers; 0 if the target has no chains
  Link::Code load = nullptr, busy_load = nullptr, store = nullptr, end = nullptr;
  Link::Code narrow_f16 = nullptr, narrow_bf16 = nullptr;  ///< round what is in registers
  /// The code of an op whose operand `held` (0, 1 or 2) is in registers; null if there is none. The result is in
  /// registers then; that of a comparison is in memory, and registers keep what they held.
  Link::Code (*find)(ElementwiseOp op, int held) = nullptr;
  /// The busy form of ops that take long; null of others.
  Link::Code (*find_busy)(ElementwiseOp op) = nullptr;
  /// So many blocks of a chain that closes with `end`.
  void (*run)(const Link* links, int64_t blocks, std::span<const Moving> moving,
              BlockTraffic traffic) noexcept = nullptr;
};
ChainTarget chain_target();

}  // namespace elementwise
}  // namespace rlx::kernels
