// Runs element-wise programs: all steps on one tile, whose registers stay in the first-level cache, then the next tile.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/rounded_up.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/steps.h"
#include "kernels/elementwise/tile.h"
#include "kernels/memory/memory_traffic.h"

namespace rlx::kernels {
namespace {
using namespace elementwise;
using What = Step::What;

/// An f32 result of this size would be evicted from every cache before it is read again. Non-temporal stores avoid
/// that, and save reading its cache lines before they are written.
constexpr int64_t kStreamBytes = int64_t{32} << 20;
/// Arrays of so many elements do not fit in the cache of one core, so operands are prefetched, in pieces.
constexpr int64_t kFar = int64_t{128} << 10;
/// The distance in elements from what is read to what is prefetched.
constexpr int64_t kPrefetchDistance = 768;

}  // namespace

/// One call of `run`: the state that its tiles share.
class ElementwiseProgram::Run {
 public:
  Run(const ElementwiseProgram& program, const ElementwiseCall& call, void* scratch)
      : program_(program), call_(call), base_(static_cast<std::byte*>(scratch)), tile_{call} {
    raw_ = base_ + program.raw_at_;
    pointer_ = reinterpret_cast<std::byte**>(base_ + program.pointers_at_);
    operand_layout_ = reinterpret_cast<Layout*>(base_ + program.layouts_at_);
    result_layout_ = operand_layout_ + program.operands_;
    for (size_t r = 0; r < program.register_at_.size(); ++r) pointer_[r] = slot(r);
  }

  void range(int64_t begin, int64_t end) {
    const std::span<const Step> steps(program_.steps_), tiled = steps.subspan(program_.once_);
    is_far_ = call_.element_count() >= kFar;
    const bool is_large = call_.element_count() >= kStreamBytes / 4, all_simple = find_layouts(is_large);
    // The larger tiles of threaded code are used only if no operand has to be copied into a register first.
    only_threaded_code_ = program_.only_threaded_code_;
    for (int i = 0; i < program_.operands_; ++i)
      only_threaded_code_ = only_threaded_code_ && !is_overwritten(call_.operands[i]);
    // With strided buffers and rows (the last dim) of 64 elements or more, a tile ends where its row ends, so that each
    // buffer has one stride in it.
    const int64_t row = call_.rank > 0 ? call_.dims[call_.rank - 1] : 1;
    by_rows_ = !all_simple && row >= 64;
    const int64_t block = program_.threaded_target_.block, few = block / 2;
    const bool uses_threaded_code = block > 0 && end - begin >= few && threaded_code_pays(end - begin, row);
    tile_size_ = uses_threaded_code && all_simple && only_threaded_code_ ? program_.dense_tile_ : program_.tile_;
    const int64_t longest = std::min(program_.tile_, end - begin);
    fill_constants(!uses_threaded_code ? longest : only_threaded_code_ ? block : std::max(block, longest));
    if (uses_threaded_code) set_up_threaded_codes();
    for (at_ = begin, end_ = end; at_ < end; at_ += count_, parity_ = 1 - parity_) {
      count_ = std::min(tile_size_, end - at_);
      if (by_rows_) count_ = std::min(count_, row - at_ % row);
      if (all_simple) tile_.begin = at_, tile_.count = count_;
      else tile_.move_to(at_, count_);
      for (size_t i = 0; i < tiled.size(); ++i) {
        const Step& s = tiled[i];
        switch (s.what) {
          case What::op:
            // A single op is usually faster by its own kernel.
            if (uses_threaded_code && count_ >= few &&
                (s.threaded_steps > 1 ||
                 (s.threaded_steps == 1 && (only_threaded_code_ || (is_far_ && !s.interleaved))))) {
              run_threaded_code(tiled.subspan(i, s.threaded_steps));
              i += s.threaded_steps - size_t{1};
            } else {
              op(s);
            }
            break;
          case What::load: load(s); break;
          case What::store: store(s, i > 0 && tiled[i - 1].forwards && tiled[i - 1].buffer == s.buffer); break;
          case What::constant: break;
        }
      }
    }
    if (!is_large) return;
    for (size_t c = 0; c < threaded_codes_.size(); ++c) flush_pending(program_.threaded_codes_[c], threaded_codes_[c]);
    traffic_.flush();
    stream_fence();
  }

 private:
  /// Whether threaded code is faster than the kernels of the ops. It has to make up for the set-up of its instructions,
  /// and for the incomplete block at the end, which is copied and computed as a whole one. On arrays that do not fit in
  /// the cache it is always faster, because of the memory traffic that is interleaved with it; except for rows that
  /// leave more than a fifth of their blocks empty.
  bool threaded_code_pays(int64_t count, int64_t row) const {
    const int64_t block = program_.threaded_target_.block;
    if (by_rows_ && rounded_up(row, block) * 4 > row * 5) return false;
    if (is_far_) return true;
    const int64_t min_blocks = program_.min_threaded_blocks_, run = by_rows_ ? row : count;
    return count / block >= min_blocks && (run % block == 0 || run / block - min_blocks >= (min_blocks + 1) / 2);
  }
  std::byte* slot(size_t r) const { return base_ + program_.register_at_[r]; }

  /// Determines the layouts. Returns whether every operand is dense or a single element, and every result dense.
  bool find_layouts(bool is_large) {
    bool all_simple = true;
    for (int i = 0; i < program_.operands_; ++i) {
      operand_layout_[i] = layout_of(call_, call_.operands[i]);
      all_simple = all_simple && operand_layout_[i] != Layout::strided;
    }
    for (int i = 0; i < program_.results_; ++i) {
      result_layout_[i] = layout_of(call_, call_.results[i]);
      all_simple = all_simple && result_layout_[i] == Layout::dense;
      if (is_large && result_layout_[i] == Layout::dense) result_layout_[i] = Layout::dense_streamed;
    }
    return all_simple;
  }

  /// Fills the registers of constants, and of operands with a single element, with `longest` copies of the value.
  void fill_constants(int64_t longest) {
    const std::span<const Step> steps(program_.steps_);
    for (const Step& s : steps.first(program_.once_)) fill(s, s.value.data(), longest);
    for (const Step& s : steps.subspan(program_.once_)) {
      if (s.what != What::load || operand_layout_[s.buffer] != Layout::one_element) continue;
      const void* from = call_.operands[s.buffer].data;
      alignas(16) std::byte value[16];
      if (s.kernel) s.kernel(value, from, nullptr, nullptr, 1);
      else std::memcpy(value, from, s.register_bytes);
      fill(s, value, longest);
    }
  }
  void fill(const Step& s, const std::byte* value, int64_t count) {
    repeat_element(s.register_bytes, value, slot(s.dst), count);
  }

  /// Whether a result that shares the operand's memory may be written before the operand is read for the last time.
  bool is_overwritten(const ElementwiseBuffer& operand) const {
    bool shared = false;
    for (int i = 0; i < program_.results_ && !program_.stores_late_; ++i)
      shared = shared || call_.results[i].data == operand.data;
    return shared;
  }

  /// The address at which a step with `forwards` writes its result.
  std::byte* destination(const Step& s) const {
    const ElementwiseBuffer& result = call_.results[s.buffer];
    auto* data = static_cast<std::byte*>(result.data);
    if (result_layout_[s.buffer] == Layout::dense) return data + at_ * s.register_bytes;
    if (result_layout_[s.buffer] == Layout::dense_streamed)
      return base_ + s.stream_at + static_cast<size_t>(parity_ * program_.dense_tile_) * s.register_bytes;
    if (by_rows_ && result.strides[call_.rank - 1] == 1) return data + tile_.offset_of(result) * s.register_bytes;
    return slot(s.dst);
  }

  void apply(const Step& s, int64_t begin, int64_t count) const {
    std::byte* const to = pointer_[s.dst] + begin * s.register_bytes;
    const auto from = [&](size_t k) { return pointer_[s.operands[k]] + begin * s.operand_bytes[k]; };
    s.kernel(to, from(0), from(1), from(2), count);
    if (s.then) s.then(to, to, nullptr, nullptr, count);
  }

  void op(const Step& s) {
    if (s.forwards) pointer_[s.dst] = destination(s);
    if (s.interleaved && is_far_) {
      const auto cache_lines = traffic_.claim_cache_lines(static_cast<size_t>(count_) * sizeof(float) /
                                                          MemoryTraffic::kCacheLine * MemoryTraffic::kCacheLine);
      return s.interleaved(pointer_[s.dst], pointer_[s.operands[0]], count_, cache_lines);
    }
    const bool interleaves = is_far_ && s.is_costly;
    const int64_t piece = interleaves ? kPiece : count_;
    for (int64_t k = 0; k < count_; k += piece) {
      apply(s, k, std::min(piece, count_ - k));
      if (interleaves) traffic_.advance(program_.traffic_share_);
    }
  }

  /// Whether the operand is a single element, which fill_constants() has copied into a register. False for -1, which is
  /// no operand.
  bool is_one_element(int operand) const { return operand >= 0 && operand_layout_[operand] == Layout::one_element; }
  /// Sets up the instructions of all threaded code, with those of their pointers that stay the same in all tiles.
  void set_up_threaded_codes() {
    auto* running = reinterpret_cast<RunningThreadedCode*>(base_ + program_.threaded_codes_at_);
    threaded_codes_ = {running, program_.threaded_codes_.size()};
    size_t instruction_count = 0;
    for (const PlannedThreadedCode& planned : program_.threaded_codes_)
      instruction_count += planned.instructions.size();
    auto* instruction =
        reinterpret_cast<Instruction*>(base_ + program_.threaded_codes_at_ + aligned(threaded_codes_.size_bytes()));
    auto* moving = reinterpret_cast<MovingPointer*>(reinterpret_cast<std::byte*>(instruction) +
                                                    aligned(instruction_count * sizeof(Instruction)));
    for (const PlannedThreadedCode& planned : program_.threaded_codes_) {
      *running = {instruction, moving, 0, nullptr};
      for (size_t l = 0; l < planned.instructions.size(); ++l)
        instruction[l] = {planned.instructions[l], {nullptr, nullptr}, {nullptr}};
      if (is_far_)
        instruction[planned.interleaved_instruction].code = planned.interleaved_code,
        instruction[planned.interleaved_instruction].cache_lines = &cache_lines_;
      for (const PlannedPointer& p : planned.pointers) {
        std::byte** const pointer =
            p.which == 2 ? &instruction[p.instruction].to : &instruction[p.instruction].from[p.which];
        *pointer = p.moves ? slot(p.value) : base_ + p.at;
        if (p.moves && !is_one_element(p.operand))
          moving[running->moving_count++] = {pointer, static_cast<uint32_t>(p.bytes * program_.threaded_target_.block),
                                             static_cast<uint32_t>(&p - planned.pointers.data())};
      }
      instruction += planned.instructions.size(), moving += running->moving_count, ++running;
    }
  }

  /// Runs the threaded code that starts at ops[0] on the current tile.
  void run_threaded_code(std::span<const Step> ops) {
    const ThreadedCodeTarget& target = program_.threaded_target_;
    const PlannedThreadedCode& planned = program_.threaded_codes_[ops[0].threaded_code_index];
    RunningThreadedCode& running = threaded_codes_[ops[0].threaded_code_index];
    for (const Step& s : ops)
      if (s.forwards) pointer_[s.dst] = destination(s);
    const std::span<const MovingPointer> all(running.moving, running.moving_count);
    for (const MovingPointer& m : all) *m.pointer = pointer_[planned.pointers[m.index].value];
    const int64_t blocks = count_ / target.block, whole = blocks * target.block;
    cache_lines_ = {nullptr, base_ + planned.streamed_at, running.pending};
    BlockTraffic traffic;
    if (is_far_)
      traffic = {traffic_.claim_prefetch(), nullptr, &cache_lines_, traffic_.has_more() ? &traffic_ : nullptr,
                 program_.traffic_share_};
    std::span<const MovingPointer> moving = all;
    if (std::byte* const to = streamed_to(planned, ops)) {
      // Rows that did not start at a cache line were written by `store`, whose copy of the last tile may still be
      // pending.
      traffic_.flush(ops[planned.streamed_step].buffer);
      running.instructions[planned.streamed_instruction].to = base_ + planned.streamed_at;
      pointer_[ops[planned.streamed_step].dst] = traffic.stream_to = to;
      moving = moving.first(moving.size() - 1);
    }
    if (blocks > 0) target.run(running.instructions, blocks, moving, traffic);
    running.pending = cache_lines_.to;
    if (whole == count_) return;
    // The incomplete block at the end of the tile is computed as a whole block in scratch.
    for (const MovingPointer& m : all) *m.pointer = base_ + planned.pointers[m.index].at;
    const auto left = static_cast<size_t>(count_ - whole);
    for (const PlannedTail& p : planned.tails)
      if (!p.is_result && !is_one_element(p.operand))
        std::memcpy(base_ + p.at, pointer_[p.value] + whole * p.bytes, left * p.bytes);
    cache_lines_ = {};
    if (is_far_ && running.pending) flush_pending(planned, running);
    target.run(running.instructions, 1, {}, {});
    for (const PlannedTail& p : planned.tails)
      if (p.is_result) std::memcpy(pointer_[p.value] + whole * p.bytes, base_ + p.at, left * p.bytes);
  }
  /// Writes the block that still waits to be copied by non-temporal stores.
  void flush_pending(const PlannedThreadedCode& planned, RunningThreadedCode& running) const {
    if (std::byte* const to = std::exchange(running.pending, nullptr))
      stream_copy(to, base_ + planned.streamed_at,
                  static_cast<size_t>(program_.threaded_target_.block) * sizeof(float));
  }
  /// Where the streamed result of this tile starts. Null if it is not written one block late by non-temporal stores.
  std::byte* streamed_to(const PlannedThreadedCode& planned, std::span<const Step> ops) const {
    if (planned.streamed_instruction <= planned.interleaved_instruction) return nullptr;
    const int result = ops[planned.streamed_step].buffer;
    auto* const data = static_cast<std::byte*>(call_.results[result].data);
    const bool is_aligned =
        reinterpret_cast<uintptr_t>(data + at_ * int64_t{sizeof(float)}) % MemoryTraffic::kCacheLine == 0;
    return is_aligned && result_layout_[result] == Layout::dense_streamed ? data + at_ * int64_t{sizeof(float)}
                                                                          : nullptr;
  }

  void load(const Step& s) {
    const ElementwiseBuffer& operand = call_.operands[s.buffer];
    const Layout layout = operand_layout_[s.buffer];
    if (layout == Layout::one_element) return;
    auto* data = static_cast<std::byte*>(operand.data);
    std::byte* from = nullptr;
    if (layout == Layout::dense) {
      from = data + at_ * s.bytes;
      // Small arrays are in a near cache, where prefetching does not help. The prefetch is only queued here: done at
      // once, it would delay itself and evict what is read now.
      const int64_t next = is_far_ ? std::min(count_, end_ - at_ - kPrefetchDistance) : 0;
      if (next > 0) traffic_.read(s.buffer, from + kPrefetchDistance * s.bytes, static_cast<size_t>(next) * s.bytes);
    } else if (by_rows_ && operand.strides[call_.rank - 1] == 1) {
      from = data + tile_.offset_of(operand) * s.bytes;
    } else {
      from = s.kernel ? raw_ : slot(s.dst);
      std::byte* to = from;
      tile_.for_each_run(operand, [&](int64_t offset, int64_t stride, int64_t n) {
        if (stride == 0) repeat_element(s.bytes, data + offset * s.bytes, to, n);
        else gather_elements(s.bytes, data + offset * s.bytes, stride * s.bytes, to, n);
        to += n * s.bytes;
      });
    }
    pointer_[s.dst] = slot(s.dst);
    if (s.kernel) s.kernel(slot(s.dst), from, nullptr, nullptr, count_);
    else if (from == slot(s.dst)) return;
    else if (is_overwritten(operand)) std::memcpy(slot(s.dst), from, static_cast<size_t>(count_) * s.bytes);
    else pointer_[s.dst] = from;
  }

  void store(const Step& s, bool is_forwarded) {
    const ElementwiseBuffer& result = call_.results[s.buffer];
    auto* data = static_cast<std::byte*>(result.data);
    std::byte* from = pointer_[s.operands[0]];
    const bool is_streamed = result_layout_[s.buffer] == Layout::dense_streamed;
    const bool is_run = result_layout_[s.buffer] == Layout::dense || is_streamed;
    if (is_run || (by_rows_ && result.strides[call_.rank - 1] == 1)) {
      std::byte* to = data + (is_run ? at_ : tile_.offset_of(result)) * s.bytes;
      const auto bytes = static_cast<size_t>(count_) * s.bytes;
      if (from == to) return;  // the op has written it there
      if (s.kernel) {
        s.kernel(to, from, nullptr, nullptr, count_);
      } else if (is_streamed) {
        traffic_.write(s.buffer, to, from, bytes);
        if (!is_forwarded) traffic_.flush(s.buffer);  // because the register will be overwritten
      } else {
        std::memcpy(to, from, bytes);
      }
      return;
    }
    if (s.kernel) {
      s.kernel(raw_, from, nullptr, nullptr, count_);
      from = raw_;
    }
    tile_.for_each_run(result, [&](int64_t offset, int64_t stride, int64_t n) {
      scatter_elements(s.bytes, from, data + offset * s.bytes, stride * s.bytes, n);
      from += n * s.bytes;
    });
  }

  const ElementwiseProgram& program_;
  const ElementwiseCall& call_;
  std::byte* base_;
  std::byte* raw_;       ///< gathered elements of a strided operand or result
  std::byte** pointer_;  ///< current address of each register
  Layout *operand_layout_, *result_layout_;
  Tile tile_;
  MemoryTraffic traffic_;
  MemoryTraffic::CacheLines cache_lines_{};  ///< the memory traffic of the interleaved instruction
  std::span<RunningThreadedCode> threaded_codes_;
  int64_t at_ = 0, count_ = 0, end_ = 0, tile_size_ = 0;
  int parity_ = 0;
  bool is_far_ = false, by_rows_ = false, only_threaded_code_ = false;
};

void ElementwiseProgram::run(const ElementwiseCall& call, int64_t begin, int64_t end, void* scratch) const noexcept {
  if (begin < end) Run(*this, call, scratch).range(begin, end);
}

}  // namespace rlx::kernels
