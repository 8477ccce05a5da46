// `scan`: one schedule, step by step. Slices of the xs are read, and those of the ys written, where they lie. A carry
// is not copied from step to step; it lives in one of four ways:
//
//   buffers   two take turns, so that the last step writes into the result's
//   updated   the body writes it over the old one, in the result's buffer
//   after     it is also stacked as one of the ys (h of a recurrent net): each step finds it in the slice before
//   before    one of the ys stacks it as each step found it (what reverse mode keeps): each step writes it into the
//             slice behind
#include "backends/cpu/loop_carries.h"
#include "backends/cpu/lowerings.h"
#include "ir/rewrite.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

enum class Home { buffers, updated, after, before };

struct Carry {
  Home home = Home::buffers;
  size_t y = 0;                  // of `after` and `before`: which
  std::optional<size_t> output;  // of the body without what is written by others; nothing for `after`
};

/// Where each carry lives, and the body without the outputs that need not be written: of two that are one value, one.
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
      if (output(i) == whole.inputs()[i]) continue;  // never changes
      for (size_t y = 0; y < ys && carries[i].home == Home::buffers; ++y)
        if (output(n + y) == whole.inputs()[i]) carries[i] = {Home::before, y, {}}, is_taken[y] = true;
    }
    for (size_t i = 0; i < n; ++i) {
      if (output(i) == whole.inputs()[i]) continue;
      for (size_t y = 0; y < ys && carries[i].home == Home::buffers; ++y)
        if (output(n + y) == output(i) && !is_taken[y]) carries[i] = {Home::after, y, {}};
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
      if (carries[i].home == Home::after) continue;
      carries[i].output = keep(i);
      if (carries[i].home == Home::buffers) wanted.push_back({i, *carries[i].output});
    }
    for (size_t y = 0; y < ys; ++y) y_outputs.push_back(is_taken[y] ? std::nullopt : std::optional(keep(n + y)));
    updates = possible_updates(body, wanted);
    for (Update u : updates) carries[u.input].home = Home::updated;
  }
};

class ScanStep final : public Step {
 public:
  ScanStep(const LoweringContext& c, const ScanAttrs& a, const ScanPlan& plan)
      : body_(c, {plan.body, bound_captured(c, static_cast<size_t>(a.carries + a.xs)), plan.updates}),
        length_(a.length.value()), reverse_(a.reverse), operands_(c.operands.size()) {
    size_t n = plan.carries.size();
    scratch_bytes_ = body_.arena_bytes() + body_.table_bytes();
    for (size_t i = 0; i < n; ++i) {
      carries_.push_back({plan.carries[i], byte_count_of(c.node.types[i])});
      if (plan.carries[i].home != Home::buffers || length_ < 2) continue;
      carries_[i].spare = scratch_bytes_;
      scratch_bytes_ += aligned(carries_[i].bytes);
    }
    for (size_t x = n; x < n + static_cast<size_t>(a.xs); ++x)
      xs_.push_back(c.operands[x].strides[0] * static_cast<int64_t>(c.operands[x].element_bytes()));
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
    std::copy_n(args.operands, operands_, body.inputs.begin());  // where carries begin, and what is captured
    for (size_t i = 0; i < n; ++i) {
      const Home home = carries_[i].home;
      if (home != Home::updated && home != Home::before) continue;
      std::byte* first = home == Home::updated ? args.out<std::byte>(i) : slice(args, carries_[i].y, 0);
      copy_bytes(first, args.in<std::byte>(i), carries_[i].bytes);
      body.inputs[i] = first;
    }
    for (int64_t step = 0; step < length_; ++step) {
      for (size_t i = 0; i < n; ++i)
        if (carries_[i].output) body.outputs[*carries_[i].output] = place_after(args, i, step);
      for (size_t x = 0; x < xs_.size(); ++x)
        body.inputs[n + x] = const_cast<std::byte*>(args.in<std::byte>(n + x)) + position(step) * xs_[x];
      for (size_t y = 0; y < ys_.size(); ++y)
        if (ys_[y].output) body.outputs[*ys_[y].output] = slice(args, y, step);
      body.run(args.width);
      for (size_t i = 0; i < n; ++i) body.inputs[i] = place_after(args, i, step);
    }
    for (size_t i = 0; i < n; ++i)
      copy_bytes(args.out<std::byte>(i), static_cast<std::byte*>(body.inputs[i]), carries_[i].bytes);
  }

 private:
  int64_t position(int64_t step) const { return reverse_ ? length_ - 1 - step : step; }
  std::byte* slice(const StepArgs& args, size_t y, int64_t step) const {
    return args.out<std::byte>(carries_.size() + y) + static_cast<size_t>(position(step)) * ys_[y].bytes;
  }
  /// Where a carry is when the step has run.
  std::byte* place_after(const StepArgs& args, size_t i, int64_t step) const {
    const PlacedCarry& c = carries_[i];
    bool is_last = step == length_ - 1;
    switch (c.home) {
      case Home::buffers: return (length_ - 1 - step) % 2 == 0 ? args.out<std::byte>(i) : args.scratch + c.spare;
      case Home::updated: break;
      case Home::after: return slice(args, c.y, step);
      case Home::before:
        if (!is_last) return slice(args, c.y, step + 1);
    }
    return args.out<std::byte>(i);
  }

  struct PlacedCarry : Carry {
    size_t bytes;
    size_t spare = 0;  // in the scratch: the buffer that takes turns with the result's
    PlacedCarry(const Carry& c, size_t b) : Carry(c), bytes(b) {}
  };
  struct Stack {
    std::optional<size_t> output;
    size_t bytes;  // of a slice
  };
  Nested body_;
  int64_t length_;
  bool reverse_;
  size_t operands_;
  std::vector<PlacedCarry> carries_;
  std::vector<int64_t> xs_;  // bytes from slice to slice
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
  for (const Carry& c : ScanPlan(node.attrs.as<ScanAttrs>()).carries) updated.push_back(c.home == Home::updated);
  return updated;
}

}  // namespace rlx::cpu
