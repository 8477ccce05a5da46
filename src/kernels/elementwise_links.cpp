// Makes chains (elementwise_chain.h) of the steps of an element-wise program.
#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/rounded_up.h"
#include "kernels/elementwise.h"
#include "kernels/elementwise_steps.h"

namespace rlx::kernels {
using namespace elementwise;

namespace {

/// An op that becomes links of a chain.
struct Part {
  Step* step;
  uint8_t held;  ///< the operand that is in vector registers
  bool loads;    ///< it has to be loaded, for it is not what the op before left there
  bool keeps;    ///< the result is written: more than the next op reads it
};

/// The links of `parts`. Values that no one else reads get a block of scratch from `offset` on: it stays in the
/// first-level cache, which a tile's worth of each would fill.
PlannedChain plan_chain(std::span<const Part> parts, const ChainTarget& target, size_t& offset) {
  PlannedChain chain;
  chain.busy_code = target.busy_load;  // a chain begins with a load
  const auto add_pointer = [&](int which, uint16_t value, size_t bytes) {
    chain.pointers.push_back({static_cast<uint16_t>(chain.links.size() - 1), static_cast<uint8_t>(which),
                              static_cast<uint8_t>(bytes), value, true, 0, -1});
  };
  const auto block_of = [&](size_t bytes) {
    const size_t at = offset;
    offset += aligned(static_cast<size_t>(target.block) * bytes);
    return at;
  };
  std::vector<std::pair<uint16_t, size_t>> blocks;  // of values, by offset
  for (size_t p = 0; p < parts.size(); ++p) {
    const Part& part = parts[p];
    const Step& s = *part.step;
    if (part.loads) {
      chain.links.push_back(target.load);
      add_pointer(0, s.operands[part.held], sizeof(float));
    }
    chain.links.push_back(s.find_link(target, part.held));
    if (const Link::Code busy = target.find_busy(s.op); busy && chain.busy_link == 0)
      chain.busy_link = chain.links.size() - 1, chain.busy_code = busy;
    for (size_t k = 0, n = 0; k < s.operand_count; ++k)
      if (k != part.held) add_pointer(static_cast<int>(n++), s.operands[k], s.operand_bytes[k]);
    const bool is_boolean = s.register_bytes == 1;
    if (is_boolean) add_pointer(2, s.dst, 1);
    if (s.link_then) chain.links.push_back(s.link_then);
    if (part.keeps) {
      chain.links.push_back(target.store);
      add_pointer(2, s.dst, sizeof(float));
      // Only the store reads it: it may lie past the caches.
      if (s.forwards && s.uses == 1) chain.streamed_step = p, chain.streamed_link = chain.links.size() - 1;
    }
    if (!part.keeps && !is_boolean) continue;
    int reads = 0;
    for (const Part& reader : parts)
      for (size_t k = 0; k < reader.step->operand_count; ++k) reads += reader.step->operands[k] == s.dst;
    if (reads < s.uses) continue;
    blocks.push_back({s.dst, block_of(s.register_bytes)});
  }
  chain.links.push_back(target.end);
  for (PlannedPointer& pointer : chain.pointers) {
    const auto own =
        std::find_if(blocks.begin(), blocks.end(), [&](const auto& b) { return b.first == pointer.value; });
    if (own != blocks.end()) {
      pointer.moves = false, pointer.at = own->second;
      continue;
    }
    auto part =
        std::find_if(chain.parts.begin(), chain.parts.end(), [&](const auto& q) { return q.value == pointer.value; });
    if (part == chain.parts.end()) {
      chain.parts.push_back({pointer.value, pointer.bytes, false, block_of(pointer.bytes), -1});
      part = chain.parts.end() - 1;
    }
    part->is_result = part->is_result || pointer.which == 2;
    pointer.at = part->at;
  }
  if (chain.streamed_link == 0) return chain;
  chain.streamed_at = block_of(sizeof(float));
  // Its pointer comes last: it may be the one that does not move.
  std::stable_partition(chain.pointers.begin(), chain.pointers.end(),
                        [&](const PlannedPointer& p) { return p.link != chain.streamed_link; });
  return chain;
}

}  // namespace

/// Makes chains of f32 ops that follow each other: which operand is in vector registers when an op begins, and whether
/// its result has to leave them.
void ElementwiseProgram::link_chains(size_t& offset) {
  if (chain_.block == 0) return;
  std::vector<Part> parts;
  const auto close = [&] {
    if (parts.empty()) return;
    parts.front().step->chain = parts.size(), parts.front().step->chain_index = chains_.size();
    chains_.push_back(plan_chain(parts, chain_, offset));
    parts.clear();
  };
  Value in_registers = kNone;
  for (Step& s : std::span(steps_).subspan(once_)) {
    if (parts.size() == kMostLinked) close();
    if (parts.empty()) in_registers = kNone;
    uint8_t held = 0;
    while (held < s.operand_count && !(s.operands[held] == in_registers && s.find_link(chain_, held))) ++held;
    const bool loads = held == s.operand_count;
    if (loads)
      for (held = 0; held < s.operand_count && !s.find_link(chain_, held);) ++held;
    if (held == s.operand_count) {
      close();
      continue;
    }
    // What only this op reads need not leave the registers.
    if (!loads && parts.back().step->dst == in_registers && parts.back().step->uses == 1) parts.back().keeps = false;
    const bool is_left_in_registers = s.register_bytes == sizeof(float);
    parts.push_back({&s, held, loads, is_left_in_registers});
    in_registers = is_left_in_registers ? s.dst : s.operands[held];
  }
  close();
}

}  // namespace rlx::kernels
