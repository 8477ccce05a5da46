// Byte ranges, orders and sizes of plans; see plan.h.
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "plan/range_map.h"

namespace rlx {
namespace {

// A plan may come from a text, whose numbers can be anything.
int64_t byte_sum(int64_t a, int64_t b) {
  int64_t c = 0;
  if (__builtin_add_overflow(a, b, &c)) fail(ErrorCode::invalid_argument, "no memory has a byte ", a, " + ", b);
  return c;
}
int64_t byte_product(int64_t a, int64_t b) {
  int64_t c = 0;
  if (__builtin_mul_overflow(a, b, &c)) fail(ErrorCode::invalid_argument, "no memory has a byte ", a, " * ", b);
  return c;
}

}  // namespace

MemoryRange range_of(const Plan& plan, size_t buffer) {
  const PlanBuffer& b = plan.buffers[buffer];
  const bool in_arena = b.kind == RootKind::arena;
  const auto begin = in_arena ? static_cast<size_t>(b.offset.value()) : 0;
  return {in_arena ? MemoryRange::kArena : buffer, begin, begin + static_cast<size_t>(b.bytes.value())};
}

MemoryRange range_of(const Plan& plan, const PlanSlot& slot) {
  const MemoryRange whole = range_of(plan, slot.buffer);
  const Shape shape = shape_of(slot.type.dims);
  const size_t bytes = byte_count(slot.type.dtype, shape);
  const int64_t first = byte_sum(static_cast<int64_t>(whole.begin), slot.offset.value());
  int64_t begin = first, end = byte_sum(first, static_cast<int64_t>(bytes));
  const DTypeInfo& format = info(slot.type.dtype);
  if (bytes > 0 && (is_byte_sized(slot.type.dtype) || is_block(slot.type.dtype))) {
    end = byte_sum(first, format.block_bytes);
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t elements = byte_product(shape[d] - 1, slot.strides[d].value());
      const int64_t reach = byte_product(elements / format.block_elements, format.block_bytes);
      if (reach < 0) begin = byte_sum(begin, reach);
      else end = byte_sum(end, reach);
    }
  }
  // A negative begin wraps to a number that lies in no buffer.
  return {whole.memory, static_cast<size_t>(begin), static_cast<size_t>(end)};
}

MemoryRange scratch_of(const PlanStep& step) {
  const auto begin = static_cast<size_t>(step.scratch_offset.value());
  return {MemoryRange::kArena, begin, begin + static_cast<size_t>(step.scratch_bytes.value())};
}

Plan bound(const Plan& plan, const Bindings& numbers) {
  Plan made = plan;
  const auto bind = [&](Dim& d) { d = d.bound(numbers); };
  bind(made.arena_bytes);
  for (PlanBuffer& b : made.buffers) bind(b.offset), bind(b.bytes);
  for (PlanStep& step : made.steps) {
    bind(step.scratch_offset), bind(step.scratch_bytes);
    for (auto* slots : {&step.operands, &step.results})
      for (PlanSlot& slot : *slots) {
        bind(slot.offset);
        for (Dim& d : slot.type.dims) bind(d);
        for (Dim& d : slot.strides) bind(d);
      }
    for (Plan& body : step.bodies) body = bound(body, numbers);
  }
  return made;
}

StepOrder::StepOrder(const Plan& plan) : is_partial_(plan.is_partial) {
  if (!is_partial_) return;
  words_ = (plan.steps.size() + 63) / 64;
  ended_.assign(plan.steps.size() * words_, 0);
  for (size_t s = 0; s < plan.steps.size(); ++s)
    for (size_t first : plan.steps[s].after) {
      if (first >= s)
        fail(ErrorCode::invalid_argument, "step #", s, " of the plan '", plan.name, "' waits for #", first);
      for (size_t w = 0; w < words_; ++w) ended_[s * words_ + w] |= ended_[first * words_ + w];
      ended_[s * words_ + first / 64] |= uint64_t{1} << (first % 64);
    }
}

Plan with_partial_order(Plan plan) {
  struct Users {
    std::vector<size_t> writers = {},
                        readers = {};  // the last step that wrote the bytes, and those that read them since
  };
  std::map<size_t, RangeMap<Users>> memories;
  plan.is_partial = true;
  const size_t words = (plan.steps.size() + 63) / 64;
  std::vector<uint64_t> ended(plan.steps.size() * words);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    PlanStep& step = plan.steps[s];
    std::vector<size_t> wanted;
    const auto wait_for = [&](const std::vector<size_t>& steps) {
      for (size_t other : steps)
        if (other != s) wanted.push_back(other);
    };
    const auto reads = [&](const MemoryRange& r) {
      memories[r.memory].over(r.begin, r.end, [&](size_t, size_t, Users& users) {
        wait_for(users.writers);
        if (users.readers.empty() || users.readers.back() != s) users.readers.push_back(s);
      });
    };
    const auto writes = [&](const MemoryRange& r) {
      memories[r.memory].over(r.begin, r.end, [&](size_t, size_t, Users& users) {
        wait_for(users.writers), wait_for(users.readers);
        users = {{s}, {}};
      });
    };
    for (const PlanSlot& slot : step.operands)
      if (!slot.is_packed) reads(range_of(plan, slot));
    writes(scratch_of(step));
    for (const PlanSlot& slot : step.results) writes(range_of(plan, slot));
    // The latest first: what is waited for through one of them needs no edge.
    std::sort(wanted.rbegin(), wanted.rend());
    step.after.clear();
    for (size_t before : wanted) {
      if (ended[s * words + before / 64] >> (before % 64) & 1) continue;
      step.after.push_back(before);
      for (size_t w = 0; w < words; ++w) ended[s * words + w] |= ended[before * words + w];
      ended[s * words + before / 64] |= uint64_t{1} << (before % 64);
    }
    std::reverse(step.after.begin(), step.after.end());
    for (Plan& body : step.bodies) body = with_partial_order(std::move(body));
  }
  return plan;
}

}  // namespace rlx
