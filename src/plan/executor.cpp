// Binding and running plans; see the header.
#include "plan/executor.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "base/large_pages.h"

namespace rlx {

Executor::Executor(const Plan& plan, std::vector<std::shared_ptr<Launch>> launches,
                   const std::vector<const Tensor*>& fixed)
    : launches_(std::make_shared<const std::vector<std::shared_ptr<Launch>>>(std::move(launches))),
      arena_bytes_(static_cast<size_t>(plan.arena_bytes.value())), outputs_(plan.outputs.size()) {
  if (plan.is_partial) fail(ErrorCode::internal, "the plan '", plan.name, "' has a partial order: this runs one queue");
  if (launches_->size() != plan.steps.size())
    fail(ErrorCode::internal, "the plan '", plan.name, "' has ", plan.steps.size(), " steps and ", launches_->size(),
         " launches");
  std::vector<bool> is_read(plan.buffers.size());
  for (const PlanStep& step : plan.steps)
    for (const PlanSlot& slot : step.operands)
      if (!slot.is_packed) is_read[slot.buffer] = true;
  std::vector<const std::byte*> starts(plan.buffers.size());
  std::vector<Tensor> kept;
  std::vector<Name> names;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    if (is_read[b] && fixed[b]) kept.push_back(*fixed[b]), starts[b] = kept.back().data();
    if (plan.buffers[b].kind == RootKind::input) inputs_ = std::max(inputs_, plan.buffers[b].index + 1);
  }
  const auto add = [&](const PlanSlot& slot) {
    const PlanBuffer& buffer = plan.buffers[slot.buffer];
    const auto offset = static_cast<size_t>(slot.offset.value());
    if (buffer.kind == RootKind::input || buffer.kind == RootKind::output)
      patches_.push_back({slots_.size(), buffer.kind == RootKind::output, buffer.index, offset});
    const std::byte* start = slot.is_packed ? nullptr : starts[slot.buffer];
    const bool in_arena = buffer.kind == RootKind::arena;
    slots_.push_back(
        {offset + (in_arena ? static_cast<size_t>(buffer.offset.value()) : 0), start ? start + offset : nullptr});
  };
  for (size_t s = 0; s < launches_->size(); ++s) {
    const PlanStep& step = plan.steps[s];
    const size_t first_operand = slots_.size();
    for (const PlanSlot& slot : step.operands) add(slot);
    bound_.push_back(
        {(*launches_)[s].get(), first_operand, slots_.size(), static_cast<size_t>(step.scratch_offset.value())});
    for (const PlanSlot& slot : step.results) add(slot);
    names.push_back({step.op, step.node});
  }
  names_ = std::make_shared<const std::vector<Name>>(std::move(names));
  fixed_ = std::make_shared<const std::vector<Tensor>>(std::move(kept));
}

void Executor::replace(size_t step, std::shared_ptr<Launch> launch) {
  bound_[step].launch = launch.get();
  for (auto& [at, replaced] : replaced_)
    if (at == step) {
      replaced = std::move(launch);
      return;
    }
  replaced_.emplace_back(step, std::move(launch));
}

void Executor::place(size_t step, std::span<const size_t> offsets, size_t scratch_offset) {
  bound_[step].scratch_offset = scratch_offset;
  const size_t first = bound_[step].first_operand;
  for (size_t i = 0; i < offsets.size(); ++i) {
    Slot& slot = slots_[first + i];
    if (slot.fixed) slot.fixed = slot.fixed - slot.offset + offsets[i];
    slot.offset = offsets[i];
  }
  auto patch = std::lower_bound(patches_.begin(), patches_.end(), first,
                                [](const Patch& p, size_t pointer) { return p.pointer < pointer; });
  for (; patch != patches_.end() && patch->pointer < first + offsets.size(); ++patch)
    patch->offset = offsets[patch->pointer - first];
}

std::unique_ptr<RunState> Executor::new_state() const {
  constexpr size_t kAlignment = 64;
  auto state = std::make_unique<RunState>();
  state->memory.reset(new (std::nothrow) std::byte[arena_bytes_ + kAlignment]);
  if (!state->memory) fail(ErrorCode::out_of_memory, "no memory for an arena of ", arena_bytes_, " bytes");
  prefer_large_pages(state->memory.get(), arena_bytes_);
  auto address = reinterpret_cast<uintptr_t>(state->memory.get());
  state->arena = state->memory.get() + (kAlignment - address % kAlignment) % kAlignment;
  state->pointers.resize(slots_.size());
  resolve(state->pointers.data(), state->arena);
  return state;
}

void Executor::resolve(void** pointers, std::byte* arena) const noexcept {
  for (size_t s = 0; s < slots_.size(); ++s)
    pointers[s] = slots_[s].fixed ? const_cast<std::byte*>(slots_[s].fixed) : arena + slots_[s].offset;
}

void Executor::run(void** pointers, std::byte* arena, std::span<void* const> inputs, std::span<void* const> outputs,
                   int width, RunControl& control, std::vector<StepTime>* profile) const noexcept {
  for (const Patch& patch : patches_)
    pointers[patch.pointer] = static_cast<std::byte*>((patch.is_output ? outputs : inputs)[patch.index]) + patch.offset;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = profile ? Clock::now() : Clock::time_point{};
  const auto since_begin = [&] { return std::chrono::duration<double, std::micro>(Clock::now() - begin).count(); };
  for (const Bound& bound : bound_) {
    if (control.ends()) return;
    const LaunchArgs args{pointers + bound.first_operand, pointers + bound.first_result, arena + bound.scratch_offset,
                          width, control};
    if (!profile) {
      bound.launch->run(args);
      continue;
    }
    const double start = since_begin();
    bound.launch->run(args);
    const double end = since_begin();
    const Name& name = (*names_)[static_cast<size_t>(&bound - bound_.data())];
    profile->push_back({name.op, name.node, bound.launch->kernel(), start, end - start});
  }
}

}  // namespace rlx
