// `while_loop`: runs the plans of condition and body in turn. A carry that the body can update in place is first
// copied to the result's buffer. Any other carry is read from its operand in the first iteration, and the iterations
// write it alternately to the result's buffer and to one in scratch.
#include "backends/cpu/loop_carries.h"
#include "backends/cpu/lowerings.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

std::vector<Update> updates_of(const WhileAttrs& a) {
  std::vector<Update> wanted;
  for (size_t i = 0; i < static_cast<size_t>(a.carries); ++i) wanted.push_back({i, i});
  return possible_updates(*a.body, storage_rules(*a.body), {}, wanted);
}

class WhileStep final : public Step {
 public:
  WhileStep(const LoweringContext& c, const WhileAttrs& a, const std::vector<Update>& updates)
      : condition_(c.body_plan({*a.condition, bound_captured(c, static_cast<size_t>(a.carries))})),
        body_(c.body_plan({*a.body, bound_captured(c, static_cast<size_t>(a.carries)), updates})),
        operands_(c.operands.size()), max_trips_(a.max_trips) {
    // The condition and the body run one after another: one arena serves both.
    arena_bytes_ = std::max(condition_.arena_bytes(), body_.arena_bytes());
    scratch_bytes_ = arena_bytes_ + condition_.table_bytes() + body_.table_bytes() + aligned(sizeof(bool));
    for (const Type& t : c.node.types) carries_.push_back({byte_count_of(t)});
    for (Update u : updates) carries_[u.input].is_updated = true;
    for (Carry& carry : carries_) {
      if (carry.is_updated) continue;
      carry.spare = scratch_bytes_;
      scratch_bytes_ += aligned(carry.bytes);
    }
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string kernel() const override { return "while"; }

  void run(const StepArgs& args) const noexcept override {
    std::byte* table = args.scratch + arena_bytes_;
    auto condition = condition_.ready(args.scratch, table);
    auto body = body_.ready(args.scratch, table + condition_.table_bytes());
    auto* goes_on = reinterpret_cast<bool*>(table + condition_.table_bytes() + body_.table_bytes());
    condition.outputs[0] = goes_on;
    std::copy_n(args.operands, operands_, body.inputs.begin());
    for (size_t i = 0; i < carries_.size(); ++i) {
      if (!carries_[i].is_updated) continue;
      copy_bytes(args.out<std::byte>(i), args.in<std::byte>(i), carries_[i].bytes);
      body.inputs[i] = body.outputs[i] = args.results[i];
    }
    std::copy_n(body.inputs.begin(), operands_, condition.inputs.begin());
    for (int64_t trip = 0; !max_trips_ || trip < *max_trips_; ++trip) {
      condition.run(args.width, args.control);
      if (args.control.ends() || !*goes_on) break;
      for (size_t i = 0; i < carries_.size(); ++i)
        if (!carries_[i].is_updated)
          body.outputs[i] = trip % 2 == 0 ? args.results[i] : args.scratch + carries_[i].spare;
      body.run(args.width, args.control);
      for (size_t i = 0; i < carries_.size(); ++i) condition.inputs[i] = body.inputs[i] = body.outputs[i];
    }
    for (size_t i = 0; i < carries_.size(); ++i)
      copy_bytes(args.out<std::byte>(i), static_cast<std::byte*>(body.inputs[i]), carries_[i].bytes);
  }

 private:
  struct Carry {
    size_t bytes;
    bool is_updated = false;
    size_t spare = 0;  // offset in scratch of the buffer that alternates with the result's
  };
  BodyPlan condition_, body_;
  size_t operands_;
  std::optional<int64_t> max_trips_;
  std::vector<Carry> carries_;
  size_t arena_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace

Prepared lower_while(const LoweringContext& c) {
  const auto& a = c.attrs<WhileAttrs>();
  return std::make_unique<WhileStep>(c, a, updates_of(a));
}

std::vector<bool> updated_while_carries(const WhileAttrs& a) {
  std::vector<bool> updated(static_cast<size_t>(a.carries));
  for (Update u : updates_of(a)) updated[u.input] = true;
  return updated;
}

}  // namespace rlx::cpu
