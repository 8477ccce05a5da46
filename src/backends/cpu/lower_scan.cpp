// `scan`: runs the body's plan once per step. The body reads the slices of the xs in their own memory, and writes
// the slices of the ys directly to the results. Carries are not copied from step to step either. Each is kept in one of
// four ways:
//
//   two_buffers   the steps write alternately to two buffers, so that the last one writes to the result's
//   in_place      the body updates it in the result's buffer
//   stacked_new   one of the ys stacks its new values (h of a recurrent network), so that a step reads it from the
//                 slice that the step before has written
//   stacked_old   one of the ys stacks the values that the steps read (saved for reverse mode), so that each step
//                 writes the new value to the slice of the next step
#include "backends/cpu/loop_carries.h"
#include "backends/cpu/lowerings.h"
#include "ir/rewrite.h"
#include "plan/byte_offset.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

enum class Home { two_buffers, in_place, stacked_new, stacked_old };

struct Carry {
  Home home = Home::two_buffers;
  size_t y = 0;                  // for stacked_*: the number of that y
  std::optional<size_t> output;  // its index among the outputs of ScanPlan::body; none for stacked_new
};

/// How each carry is kept, and the body without duplicate outputs: a value that is both a carry and a y is written only
/// once.
struct ScanPlan {
  std::vector<Carry> carries;
  std::vector<std::optional<size_t>> y_outputs;
  Graph body;
  std::vector<Update> updates;

  explicit ScanPlan(const ScanAttrs& a) : carries(static_cast<size_t>(a.carries)), body(a.body->name()) {
    const Graph& whole = *a.body;
    size_t n = carries.size(), ys = whole.outputs().size() - n;
    auto output = [&](size_t i) { return whole.outputs()[i].ref; };
    std::vector<bool> is_taken(ys);
    for (size_t i = 0; i < n; ++i) {
      if (output(i) == whole.inputs()[i]) continue;  // the body does not change it
      for (size_t y = 0; y < ys && carries[i].home == Home::two_buffers; ++y)
        if (output(n + y) == whole.inputs()[i]) carries[i] = {Home::stacked_old, y, {}}, is_taken[y] = true;
    }
    for (size_t i = 0; i < n; ++i) {
      if (output(i) == whole.inputs()[i]) continue;
      for (size_t y = 0; y < ys && carries[i].home == Home::two_buffers; ++y)
        if (output(n + y) == output(i) && !is_taken[y]) carries[i] = {Home::stacked_new, y, {}};
    }

    std::vector<Value> inputs;
    for (Ref r : whole.inputs()) inputs.push_back(body.input(whole.node(r).name, whole.type(r)));
    auto values = splice(body, whole, inputs);
    auto keep = [&](size_t i) {
      body.output(values[i], whole.outputs()[i].name);
      return body.outputs().size() - 1;
    };
    std::vector<Update> wanted;
    for (size_t i = 0; i < n; ++i) {
      if (carries[i].home == Home::stacked_new) continue;
      carries[i].output = keep(i);
      if (carries[i].home == Home::two_buffers) wanted.push_back({i, *carries[i].output});
    }
    for (size_t y = 0; y < ys; ++y) y_outputs.push_back(is_taken[y] ? std::nullopt : std::optional(keep(n + y)));
    updates = possible_updates(body, storage_rules(body), {}, wanted);
    for (Update u : updates) carries[u.input].home = Home::in_place;
  }
};

class ScanStep final : public Step {
 public:
  ScanStep(const LoweringContext& c, const ScanAttrs& a, const ScanPlan& plan)
      : body_(c.body_plan({plan.body, bound_captured(c, static_cast<size_t>(a.carries + a.xs)), plan.updates})),
        length_(a.length.value()), reverse_(a.reverse), operands_(c.operands.size()) {
    size_t n = plan.carries.size();
    scratch_bytes_ = body_.arena_bytes() + body_.table_bytes();
    for (size_t i = 0; i < n; ++i) {
      carries_.push_back({plan.carries[i], byte_count_of(c.node.types[i])});
      if (plan.carries[i].home != Home::two_buffers || length_ < 2) continue;
      carries_[i].spare = scratch_bytes_;
      scratch_bytes_ += aligned(carries_[i].bytes);
    }
    for (size_t x = n; x < n + static_cast<size_t>(a.xs); ++x)
      xs_.push_back(byte_offset(c.operands[x].dtype, c.operands[x].strides[0]));
    for (size_t y = 0; y < plan.y_outputs.size(); ++y)
      ys_.push_back({plan.y_outputs[y], byte_count_of(a.body->output_types()[n + y])});
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string kernel() const override { return text_of("scan ", length_); }

  void run(const StepArgs& args) const noexcept override {
    size_t n = carries_.size();
    if (length_ == 0) {
      for (size_t i = 0; i < n; ++i) copy_bytes(args.out<std::byte>(i), args.in<std::byte>(i), carries_[i].bytes);
      return;
    }
    auto body = body_.ready(args.scratch, args.scratch + body_.arena_bytes());
    std::copy_n(args.operands, operands_, body.inputs.begin());  // initial carries, xs, and captured operands
    for (size_t i = 0; i < n; ++i) {
      const Home home = carries_[i].home;
      if (home != Home::in_place && home != Home::stacked_old) continue;
      std::byte* first = home == Home::in_place ? args.out<std::byte>(i) : slice(args, carries_[i].y, 0);
      copy_bytes(first, args.in<std::byte>(i), carries_[i].bytes);
      body.inputs[i] = first;
    }
    for (int64_t step = 0; step < length_ && !args.control.ends(); ++step) {
      for (size_t i = 0; i < n; ++i)
        if (carries_[i].output) body.outputs[*carries_[i].output] = buffer_after(args, i, step);
      for (size_t x = 0; x < xs_.size(); ++x)
        body.inputs[n + x] = const_cast<std::byte*>(args.in<std::byte>(n + x)) + position(step) * xs_[x];
      for (size_t y = 0; y < ys_.size(); ++y)
        if (ys_[y].output) body.outputs[*ys_[y].output] = slice(args, y, step);
      body.run(args.width, args.control);
      for (size_t i = 0; i < n; ++i) body.inputs[i] = buffer_after(args, i, step);
    }
    for (size_t i = 0; i < n; ++i)
      copy_bytes(args.out<std::byte>(i), static_cast<std::byte*>(body.inputs[i]), carries_[i].bytes);
  }

 private:
  int64_t position(int64_t step) const { return reverse_ ? length_ - 1 - step : step; }
  std::byte* slice(const StepArgs& args, size_t y, int64_t step) const {
    return args.out<std::byte>(carries_.size() + y) + static_cast<size_t>(position(step)) * ys_[y].bytes;
  }
  /// The buffer that holds carry i after a step has run.
  std::byte* buffer_after(const StepArgs& args, size_t i, int64_t step) const {
    const BufferedCarry& c = carries_[i];
    bool is_last = step == length_ - 1;
    switch (c.home) {
      case Home::two_buffers: return (length_ - 1 - step) % 2 == 0 ? args.out<std::byte>(i) : args.scratch + c.spare;
      case Home::in_place: break;
      case Home::stacked_new: return slice(args, c.y, step);
      case Home::stacked_old:
        if (!is_last) return slice(args, c.y, step + 1);
    }
    return args.out<std::byte>(i);
  }

  struct BufferedCarry : Carry {
    size_t bytes;
    size_t spare = 0;  // offset in scratch of the buffer that alternates with the result's
    BufferedCarry(const Carry& c, size_t b) : Carry(c), bytes(b) {}
  };
  struct Stack {
    std::optional<size_t> output;
    size_t bytes;  // of one slice
  };
  BodyPlan body_;
  int64_t length_;
  bool reverse_;
  size_t operands_;
  std::vector<BufferedCarry> carries_;
  std::vector<int64_t> xs_;  // of each of the xs, the bytes from one slice to the next
  std::vector<Stack> ys_;
  size_t scratch_bytes_ = 0;
};

}  // namespace

bool scan_strided(const Node& node, size_t operand, const Shape& shape, std::span<const int64_t> strides) {
  const auto& a = node.attrs.as<ScanAttrs>();
  auto first = static_cast<size_t>(a.carries), xs = static_cast<size_t>(a.xs);
  return operand >= first && operand < first + xs &&
         rlx::is_dense(Shape(shape.begin() + 1, shape.end()), strides.subspan(1));
}

Prepared lower_scan(const LoweringContext& c) {
  const auto& a = c.attrs<ScanAttrs>();
  return std::make_unique<ScanStep>(c, a, ScanPlan(a));
}

std::vector<bool> updated_carries(const Node& node) {
  if (node.op == &op::while_loop) return updated_while_carries(node.attrs.as<WhileAttrs>());
  std::vector<bool> updated;
  for (const Carry& c : ScanPlan(node.attrs.as<ScanAttrs>()).carries) updated.push_back(c.home == Home::in_place);
  return updated;
}

}  // namespace rlx::cpu
