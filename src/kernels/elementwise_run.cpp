// Runs element-wise programs: one pass over tiles that stay in the first-level cache, step by step.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/rounded_up.h"
#include "kernels/elementwise.h"
#include "kernels/elementwise_steps.h"
#include "kernels/elementwise_tile.h"
#include "kernels/memory_traffic.h"

namespace rlx::kernels {
namespace {
using namespace elementwise;
using What = Step::What;

/// A result of this size leaves every cache before it is read again: written past them, it costs no reads either.
constexpr int64_t kStreamBytes = int64_t{32} << 20;
/// So many elements do not come from the cache of one core: what is read next is asked for in pieces.
constexpr int64_t kFar = int64_t{128} << 10;
/// So many elements ahead.
constexpr int64_t kAhead = 768;

}  // namespace

/// One call's passes over the tiles of a range.
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
    only_chains_ = program_.only_chains_;  // unless an operand is copied into its register
    for (int i = 0; i < program_.operands_; ++i) only_chains_ = only_chains_ && !is_overwritten(call_.operands[i]);
    tile_size_ = all_simple && only_chains_ ? program_.dense_tile_ : program_.tile_;
    // With strided buffers a tile ends where a row does, if rows are long enough to be worth their own tiles: each
    // buffer is then one run.
    const int64_t row = call_.rank > 0 ? call_.dims[call_.rank - 1] : 1;
    by_rows_ = !all_simple && row >= 64;
    // Kernels are done with fewer elements before links have their pointers, and with rows before blocks that they
    // fill by less than four fifths.
    const int64_t block = program_.chain_.block, few = block / 2;
    const bool links = block > 0 && end - begin >= few && !(by_rows_ && rounded_up(row, block) * 4 > row * 5);
    const int64_t longest = std::min(program_.tile_, end - begin);
    fill_constants(!links ? longest : only_chains_ ? block : std::max(block, longest));
    if (links) link_chains();
    for (at_ = begin, end_ = end; at_ < end; at_ += count_, parity_ = 1 - parity_) {
      count_ = std::min(tile_size_, end - at_);
      if (by_rows_) count_ = std::min(count_, row - at_ % row);
      if (all_simple) tile_.begin = at_, tile_.count = count_;
      else tile_.move_to(at_, count_);
      for (size_t i = 0; i < tiled.size(); ++i) {
        const Step& s = tiled[i];
        switch (s.what) {
          case What::op:
            // One op alone gains by a loop of its own.
            if (links && count_ >= few && (s.chain > 1 || (s.chain == 1 && (only_chains_ || (is_far_ && !s.busy))))) {
              chain(tiled.subspan(i, s.chain));
              i += s.chain - size_t{1};
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
    for (size_t c = 0; c < chains_.size(); ++c) finish(program_.chains_[c], chains_[c]);
    traffic_.finish();
    stream_fence();
  }

 private:
  std::byte* slot(size_t r) const { return base_ + program_.register_at_[r]; }

  /// Whether all operands and results are dense or one element.
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

  /// Registers of constants, and of operands of one element.
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

  /// Whether a result that shares the operand's memory is written while the operand is still wanted.
  bool is_overwritten(const ElementwiseBuffer& operand) const {
    bool shared = false;
    for (int i = 0; i < program_.results_ && !program_.stores_late_; ++i)
      shared = shared || call_.results[i].data == operand.data;
    return shared;
  }

  /// Where an op that forwards writes.
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
    if (s.busy && is_far_) {
      const auto lines =
          traffic_.take(static_cast<size_t>(count_) * sizeof(float) / MemoryTraffic::kLine * MemoryTraffic::kLine);
      return s.busy(pointer_[s.dst], pointer_[s.operands[0]], count_, lines);
    }
    const bool is_dealt = is_far_ && s.is_costly;
    const int64_t piece = is_dealt ? kPiece : count_;
    for (int64_t k = 0; k < count_; k += piece) {
      apply(s, k, std::min(piece, count_ - k));
      if (is_dealt) traffic_.advance(program_.share_);
    }
  }

  /// Whether the operand fills its register once and for all.
  bool is_one_element(int operand) const { return operand >= 0 && operand_layout_[operand] == Layout::one_element; }
  /// Links of all chains, with the pointers that stay as they are.
  void link_chains() {
    auto* chain = reinterpret_cast<RunningChain*>(base_ + program_.chains_at_);
    chains_ = {chain, program_.chains_.size()};
    size_t link_count = 0;
    for (const PlannedChain& planned : program_.chains_) link_count += planned.links.size();
    auto* link = reinterpret_cast<Link*>(base_ + program_.chains_at_ + aligned(chains_.size_bytes()));
    auto* moving = reinterpret_cast<Moving*>(reinterpret_cast<std::byte*>(link) + aligned(link_count * sizeof(Link)));
    for (const PlannedChain& planned : program_.chains_) {
      *chain = {link, moving, 0, nullptr};
      for (size_t l = 0; l < planned.links.size(); ++l) link[l] = {planned.links[l], {nullptr, nullptr}, {nullptr}};
      if (is_far_) link[planned.busy_link].code = planned.busy_code, link[planned.busy_link].lines = &lines_;
      for (const PlannedPointer& p : planned.pointers) {
        std::byte** const pointer = p.which == 2 ? &link[p.link].to : &link[p.link].from[p.which];
        *pointer = p.moves ? slot(p.value) : base_ + p.at;
        if (p.moves && !is_one_element(p.operand))
          moving[chain->moving_count++] = {pointer, static_cast<uint32_t>(p.bytes * program_.chain_.block),
                                           static_cast<uint32_t>(&p - planned.pointers.data())};
      }
      link += planned.links.size(), moving += chain->moving_count, ++chain;
    }
  }

  /// Block after block in vector registers.
  void chain(std::span<const Step> ops) {
    const ChainTarget& target = program_.chain_;
    const PlannedChain& planned = program_.chains_[ops[0].chain_index];
    RunningChain& running = chains_[ops[0].chain_index];
    for (const Step& s : ops)
      if (s.forwards) pointer_[s.dst] = destination(s);
    const std::span<const Moving> all(running.moving, running.moving_count);
    for (const Moving& m : all) *m.pointer = pointer_[planned.pointers[m.index].value];
    const int64_t blocks = count_ / target.block, whole = blocks * target.block;
    lines_ = {nullptr, base_ + planned.streamed_at, running.pending};
    BlockTraffic traffic;
    if (is_far_)
      traffic = {traffic_.take_ahead(), nullptr, &lines_, traffic_.has_more() ? &traffic_ : nullptr, program_.share_};
    std::span<const Moving> moving = all;
    if (std::byte* const to = streamed_to(planned, ops)) {
      traffic_.finish(ops[planned.streamed_step].buffer);  // rows before did not begin at a line: written by tiles
      running.links[planned.streamed_link].to = base_ + planned.streamed_at;
      pointer_[ops[planned.streamed_step].dst] = traffic.stream_to = to;
      moving = moving.first(moving.size() - 1);
    }
    if (blocks > 0) target.run(running.links, blocks, moving, traffic);
    running.pending = lines_.to;
    if (whole == count_) return;
    // What is left is done as one block in scratch.
    for (const Moving& m : all) *m.pointer = base_ + planned.pointers[m.index].at;
    const auto left = static_cast<size_t>(count_ - whole);
    for (const PlannedPart& p : planned.parts)
      if (!p.is_result && !is_one_element(p.operand))
        std::memcpy(base_ + p.at, pointer_[p.value] + whole * p.bytes, left * p.bytes);
    lines_ = {};
    if (is_far_ && running.pending) finish(planned, running);
    target.run(running.links, 1, {}, {});
    for (const PlannedPart& p : planned.parts)
      if (p.is_result) std::memcpy(pointer_[p.value] + whole * p.bytes, base_ + p.at, left * p.bytes);
  }
  /// The block that was to be written past the caches.
  void finish(const PlannedChain& planned, RunningChain& running) const {
    if (std::byte* const to = std::exchange(running.pending, nullptr))
      stream_copy(to, base_ + planned.streamed_at, static_cast<size_t>(program_.chain_.block) * sizeof(float));
  }
  /// Where the result that is written a block behind belongs; null if it is not written so.
  std::byte* streamed_to(const PlannedChain& planned, std::span<const Step> ops) const {
    if (planned.streamed_link <= planned.busy_link) return nullptr;
    const int result = ops[planned.streamed_step].buffer;
    auto* const data = static_cast<std::byte*>(call_.results[result].data);
    const bool is_at_line =
        reinterpret_cast<uintptr_t>(data + at_ * int64_t{sizeof(float)}) % MemoryTraffic::kLine == 0;
    return is_at_line && result_layout_[result] == Layout::dense_streamed ? data + at_ * int64_t{sizeof(float)}
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
      // What is near comes as fast unasked: asked for at once, it would wait for itself and push out what is read now.
      const int64_t next = is_far_ ? std::min(count_, end_ - at_ - kAhead) : 0;
      if (next > 0) traffic_.read(s.buffer, from + kAhead * s.bytes, static_cast<size_t>(next) * s.bytes);
    } else if (by_rows_ && operand.strides[call_.rank - 1] == 1) {
      from = data + tile_.offset_of(operand) * s.bytes;
    } else {
      from = s.kernel ? raw_ : slot(s.dst);
      std::byte* to = from;
      tile_.for_each_run(operand, [&](int64_t offset, int64_t stride, int64_t n) {
        gather_elements(s.bytes, data + offset * s.bytes, stride * s.bytes, to, n);
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
      if (from == to) return;  // written there by its op
      if (s.kernel) {
        s.kernel(to, from, nullptr, nullptr, count_);
      } else if (is_streamed) {
        traffic_.write(s.buffer, to, from, bytes);
        if (!is_forwarded) traffic_.finish(s.buffer);  // its register is used again
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
  std::byte* raw_;       ///< elements of a strided operand or result, side by side
  std::byte** pointer_;  ///< of each register
  Layout *operand_layout_, *result_layout_;
  Tile tile_;
  MemoryTraffic traffic_;
  MemoryTraffic::Lines lines_{};  ///< what a chain's busy link moves
  std::span<RunningChain> chains_;
  int64_t at_ = 0, count_ = 0, end_ = 0, tile_size_ = 0;
  int parity_ = 0;
  bool is_far_ = false, by_rows_ = false, only_chains_ = false;
};

void ElementwiseProgram::run(const ElementwiseCall& call, int64_t begin, int64_t end, void* scratch) const noexcept {
  if (begin < end) Run(*this, call, scratch).range(begin, end);
}

}  // namespace rlx::kernels
