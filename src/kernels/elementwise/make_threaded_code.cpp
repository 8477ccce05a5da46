// Translates steps of an element-wise program to threaded code (threaded_code.h).
#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/rounded_up.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/steps.h"

namespace rlx::kernels {
using namespace elementwise;

namespace {

/// An op that becomes one or more instructions.
struct ThreadedOp {
  Step* step;
  uint8_t register_operand;  ///< the operand that is register-resident when the op begins
  bool loads;                ///< that operand has to be loaded, because the op before left another value in registers
  bool stores;               ///< the result is also written to memory, because not only the next op reads it
};

/// The instructions of `ops`. A value that nothing outside of `ops` reads gets one block of scratch, from `offset` on:
/// that stays in the first-level cache, where a whole tile for each such value would not fit.
PlannedThreadedCode plan_threaded_code(std::span<const ThreadedOp> ops, const ThreadedCodeTarget& target,
                                       size_t& offset) {
  PlannedThreadedCode planned;
  planned.interleaved_code = target.interleaved_load;  // instruction 0 is a load
  const auto add_pointer = [&](int which, uint16_t value, size_t bytes) {
    planned.pointers.push_back({static_cast<uint16_t>(planned.instructions.size() - 1), static_cast<uint8_t>(which),
                                static_cast<uint8_t>(bytes), value, true, 0, -1});
  };
  const auto block_of = [&](size_t bytes) {
    const size_t at = offset;
    offset += aligned(static_cast<size_t>(target.block) * bytes);
    return at;
  };
  std::vector<std::pair<uint16_t, size_t>> blocks;  // value, offset of its block in scratch
  for (size_t p = 0; p < ops.size(); ++p) {
    const ThreadedOp& op = ops[p];
    const Step& s = *op.step;
    if (op.loads) {
      planned.instructions.push_back(target.load);
      add_pointer(0, s.operands[op.register_operand], sizeof(float));
    }
    planned.instructions.push_back(s.find_instruction(target, op.register_operand));
    if (const Instruction::Code interleaved = target.find_interleaved(s.op);
        interleaved && planned.interleaved_instruction == 0)
      planned.interleaved_instruction = planned.instructions.size() - 1, planned.interleaved_code = interleaved;
    for (size_t k = 0, n = 0; k < s.operand_count; ++k)
      if (k != op.register_operand) add_pointer(static_cast<int>(n++), s.operands[k], s.operand_bytes[k]);
    const bool is_boolean = s.register_bytes == 1;
    if (is_boolean) add_pointer(2, s.dst, 1);
    if (s.instruction_then) planned.instructions.push_back(s.instruction_then);
    if (op.stores) {
      planned.instructions.push_back(target.store);
      add_pointer(2, s.dst, sizeof(float));
      // Nothing but the store reads the value, so that it may be written by non-temporal stores.
      if (s.forwards && s.uses == 1)
        planned.streamed_step = p, planned.streamed_instruction = planned.instructions.size() - 1;
    }
    if (!op.stores && !is_boolean) continue;
    int reads = 0;
    for (const ThreadedOp& reader : ops)
      for (size_t k = 0; k < reader.step->operand_count; ++k) reads += reader.step->operands[k] == s.dst;
    if (reads < s.uses) continue;
    blocks.push_back({s.dst, block_of(s.register_bytes)});
  }
  planned.instructions.push_back(target.end);
  for (PlannedPointer& pointer : planned.pointers) {
    const auto own =
        std::find_if(blocks.begin(), blocks.end(), [&](const auto& b) { return b.first == pointer.value; });
    if (own != blocks.end()) {
      pointer.moves = false, pointer.at = own->second;
      continue;
    }
    auto tail = std::find_if(planned.tails.begin(), planned.tails.end(),
                             [&](const auto& q) { return q.value == pointer.value; });
    if (tail == planned.tails.end()) {
      planned.tails.push_back({pointer.value, pointer.bytes, false, block_of(pointer.bytes), -1});
      tail = planned.tails.end() - 1;
    }
    tail->is_result = tail->is_result || pointer.which == 2;
    pointer.at = tail->at;
  }
  if (planned.streamed_instruction == 0) return planned;
  planned.streamed_at = block_of(sizeof(float));
  // The pointer of the streamed result comes last, because a run may leave it out of the moving ones.
  std::stable_partition(planned.pointers.begin(), planned.pointers.end(),
                        [&](const PlannedPointer& p) { return p.instruction != planned.streamed_instruction; });
  return planned;
}

/// PlannedThreadedCode::gain_ns of these instructions. The figures were measured with data in the second-level cache
/// (Zen 5, AVX-512): an instruction costs its jump and the load of its other operand, a kernel costs the loads of all
/// operands and the store of its result.
double gain_of(std::span<const ThreadedOp> ops, size_t instruction_count, const ThreadedCodeTarget& target) {
  constexpr double kKernel_ns = 4.4, kInstruction_ns = 2.5, kUnrolled_ns = 10, kLong_ns = 4.5, kDivision_ns = 4;
  double gain = -kInstruction_ns * static_cast<double>(instruction_count);
  for (const ThreadedOp& op : ops) {
    gain += op.step->then ? 2 * kKernel_ns : kKernel_ns;
    const ElementwiseOp o = op.step->op;
    // The divider works while the other instructions of the code run.
    if (o == ElementwiseOp::div || o == ElementwiseOp::sqrt || o == ElementwiseOp::rsqrt ||
        o == ElementwiseOp::reciprocal)
      gain += kDivision_ns;
    if (target.is_unrolled(o)) gain += kUnrolled_ns;
    else if (target.find_interleaved(o)) gain -= kLong_ns;  // its block goes through memory
  }
  return gain;
}

}  // namespace

/// Translates sequences of consecutive f32 ops to threaded code. Decides for each op which operand is register-resident
/// when it begins, and whether its result has to be stored.
void ElementwiseProgram::make_threaded_code(size_t& offset) {
  if (threaded_target_.block == 0) return;
  std::vector<ThreadedOp> ops;
  const auto end_code = [&] {
    if (ops.empty()) return;
    ops.front().step->threaded_steps = ops.size(), ops.front().step->threaded_code_index = threaded_codes_.size();
    PlannedThreadedCode& code = threaded_codes_.emplace_back(plan_threaded_code(ops, threaded_target_, offset));
    code.gain_ns = gain_of(ops, code.instructions.size(), threaded_target_);
    ops.clear();
  };
  Value in_registers = kNone;
  for (Step& s : std::span(steps_).subspan(once_)) {
    if (ops.size() == kMaxThreadedOps) end_code();
    if (ops.empty()) in_registers = kNone;
    uint8_t register_operand = 0;
    while (register_operand < s.operand_count &&
           !(s.operands[register_operand] == in_registers && s.find_instruction(threaded_target_, register_operand)))
      ++register_operand;
    const bool loads = register_operand == s.operand_count;
    if (loads)
      for (register_operand = 0;
           register_operand < s.operand_count && !s.find_instruction(threaded_target_, register_operand);)
        ++register_operand;
    if (register_operand == s.operand_count) {
      end_code();
      continue;
    }
    // If only this op reads the previous result, that result need not be stored.
    if (!loads && ops.back().step->dst == in_registers && ops.back().step->uses == 1) ops.back().stores = false;
    const bool is_left_in_registers = s.register_bytes == sizeof(float);
    ops.push_back({&s, register_operand, loads, is_left_in_registers});
    in_registers = is_left_in_registers ? s.dst : s.operands[register_operand];
  }
  end_code();
  for (const PlannedThreadedCode& code : threaded_codes_) threaded_gain_ns_ += code.gain_ns;
  // Threaded code interleaves the non-temporal stores of one result only. With several results it is therefore slower
  // on large arrays too, unless it is faster in the cache (two ops, two results of 16.8 million elements: 63 ms, by the
  // kernels 39).
  if (results_ < 2 || threaded_gain_ns_ > 0) return;
  threaded_codes_.clear();
  for (Step& s : steps_) s.threaded_steps = 0;
}

}  // namespace rlx::kernels
