// The text of plans; see plan.h and docs/plan.md.
#include <array>
#include <ostream>
#include <sstream>
#include <utility>

#include "plan/plan.h"

namespace rlx {
namespace {

constexpr std::array<std::string_view, 6> kBufferKinds = {"arena", "input", "param", "constant", "output", "own"};
constexpr std::array<std::string_view, 3> kStepKinds = {"launch", "copy", "call"};

/// Strides that a slot without stated ones has.
Dims row_major(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * (dims[d] == Dim(0) ? Dim(1) : dims[d]);
  return strides;
}

void print_text(std::ostream& out, std::string_view before, const std::string& text) {
  if (text.empty()) return;
  write_quoted(out << before, text);
}

void print_slots(std::ostream& out, const std::vector<PlanSlot>& slots) {
  out << "(";
  const char* comma = "";
  for (const PlanSlot& slot : slots) {
    out << std::exchange(comma, ", ") << "%" << slot.buffer << " v" << slot.value << " " << slot.type;
    if (slot.offset != Dim(0)) out << " at " << slot.offset;
    if (slot.strides != row_major(slot.type.dims)) {
      const char* between = " strides [";
      for (const Dim& d : slot.strides) out << std::exchange(between, ", ") << d;
      out << "]";
    }
    if (slot.is_packed) out << " packed";
  }
  out << ")";
}

class PlanParser {
 public:
  explicit PlanParser(Scanner& in) : in_(in) {}

  Plan plan() {
    if (in_.depth >= Scanner::kMaxDepth) in_.unexpected(text_of("plans nested at most ", Scanner::kMaxDepth, " deep"));
    ++in_.depth;
    in_.expect("plan");
    in_.expect("@");
    made_.name = in_.quoted();
    made_.is_partial = in_.accept_word("partial");
    in_.expect("{");
    while (in_.accept_word("device")) {
      PlanDevice device;
      device.name = in_.quoted();
      in_.expect("in");
      device.memory = in_.quoted();
      made_.devices.push_back(std::move(device));
    }
    in_.expect("arena");
    made_.arena_bytes = dim();
    while (in_.accept("%")) buffer();
    while (in_.accept("#")) step();
    in_.expect("return");
    while (!in_.accept("}")) {
      if (!made_.outputs.empty()) in_.expect(",");
      in_.expect("%");
      PlanOutput output;
      output.buffer = buffer_number();
      output.value = value();
      in_.expect("@");
      output.name = in_.quoted();
      made_.outputs.push_back(std::move(output));
    }
    --in_.depth;
    return std::move(made_);
  }

 private:
  Dim dim() {
    Dim d;
    parse(in_, d);
    return d;
  }
  PlanValue value() {
    in_.expect("v");
    return in_.number<PlanValue>();
  }
  size_t buffer_number() {
    const auto number = in_.number<size_t>();
    if (number >= made_.buffers.size()) in_.unexpected(text_of("a buffer that was named above instead of %", number));
    return number;
  }
  template <size_t N>
  size_t one_of(const std::array<std::string_view, N>& names, const char* what) {
    for (size_t i = 0; i < N; ++i)
      if (in_.accept_word(names[i])) return i;
    std::string all;
    for (std::string_view name : names) all += text_of(all.empty() ? "" : ", ", name);
    in_.unexpected(text_of("a kind of ", what, " (", all, ")"));
  }

  void buffer() {
    PlanBuffer b;
    b.line = in_.line();
    const auto number = in_.number<size_t>();
    if (number != made_.buffers.size())
      in_.unexpected(text_of("buffer %", made_.buffers.size(), " instead of %", number));
    in_.expect("=");
    b.kind = static_cast<RootKind>(one_of(kBufferKinds, "buffer"));
    in_.expect("(");
    if (b.kind == RootKind::arena) b.offset = dim();
    else b.index = in_.number<size_t>();
    in_.expect(")");
    if (in_.accept_word("in")) b.memory = in_.quoted();
    in_.expect(":");
    b.bytes = dim();
    if (in_.accept_word("holds")) b.holds = value();
    made_.buffers.push_back(std::move(b));
  }

  std::vector<PlanSlot> slots() {
    std::vector<PlanSlot> all;
    in_.expect("(");
    while (!in_.accept(")")) {
      if (!all.empty()) in_.expect(",");
      in_.expect("%");
      PlanSlot slot;
      slot.buffer = buffer_number();
      slot.value = value();
      parse(in_, slot.type);
      if (in_.accept_word("at")) slot.offset = dim();
      slot.strides = row_major(slot.type.dims);
      if (in_.accept_word("strides")) {
        in_.expect("[");
        for (size_t d = 0; d < slot.strides.size(); ++d) {
          if (d) in_.expect(",");
          slot.strides[d] = dim();
        }
        in_.expect("]");
      }
      slot.is_packed = in_.accept_word("packed");
      all.push_back(std::move(slot));
    }
    return all;
  }

  void step() {
    PlanStep s;
    s.line = in_.line();
    const auto number = in_.number<size_t>();
    if (number != made_.steps.size()) in_.unexpected(text_of("step #", made_.steps.size(), " instead of #", number));
    in_.expect("=");
    s.kind = static_cast<PlanStep::Kind>(one_of(kStepKinds, "step"));
    s.op = in_.word();
    if (in_.accept("@")) s.node = in_.quoted();
    if (in_.peek() == '"') s.kernel = in_.quoted();
    if (in_.accept_word("on")) s.device = in_.quoted();
    s.operands = slots();
    in_.expect("->");
    s.results = slots();
    if (in_.accept_word("scratch")) {
      in_.expect("(");
      s.scratch_offset = dim();
      in_.expect(")");
      in_.expect(":");
      s.scratch_bytes = dim();
    }
    if (in_.accept_word("after")) {
      do {
        in_.expect("#");
        const auto before = in_.number<size_t>();
        if (before >= number) in_.unexpected(text_of("a step before #", number, " instead of #", before));
        s.after.push_back(before);
      } while (in_.accept(","));
    }
    if (in_.accept_word("by")) s.strategy = in_.quoted();
    if (in_.accept("{")) {
      while (!in_.accept("}")) {
        s.bodies.push_back(PlanParser(in_).plan());
      }
    }
    made_.steps.push_back(std::move(s));
  }

  Scanner& in_;
  Plan made_;
};

}  // namespace

void print(std::ostream& out, const Plan& plan, int indent) {
  const std::string margin(static_cast<size_t>(2 * indent), ' ');
  write_quoted(out << margin << "plan @", plan.name);
  out << (plan.is_partial ? " partial {\n" : " {\n");
  for (const PlanDevice& device : plan.devices) {
    write_quoted(out << margin << "  device ", device.name);
    write_quoted(out << " in ", device.memory);
    out << "\n";
  }
  out << margin << "  arena " << plan.arena_bytes << "\n";
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const PlanBuffer& buffer = plan.buffers[b];
    out << margin << "  %" << b << " = " << kBufferKinds[static_cast<size_t>(buffer.kind)] << "(";
    if (buffer.kind == RootKind::arena) out << buffer.offset;
    else out << buffer.index;
    out << ")";
    print_text(out, " in ", buffer.memory);
    out << " : " << buffer.bytes;
    if (buffer.holds != kNoValue) out << " holds v" << buffer.holds;
    out << "\n";
  }
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    out << margin << "  #" << s << " = " << kStepKinds[static_cast<size_t>(step.kind)] << " " << step.op;
    print_text(out, " @", step.node);
    print_text(out, " ", step.kernel);
    print_text(out, " on ", step.device);
    print_slots(out << " ", step.operands);
    print_slots(out << " -> ", step.results);
    if (step.scratch_bytes != Dim(0)) out << " scratch(" << step.scratch_offset << ") : " << step.scratch_bytes;
    const char* comma = " after ";
    for (size_t before : step.after) out << std::exchange(comma, ", ") << "#" << before;
    print_text(out, " by ", step.strategy);
    if (!step.bodies.empty()) {
      out << " {\n";
      for (const Plan& body : step.bodies) print(out, body, indent + 2);
      out << margin << "  }";
    }
    out << "\n";
  }
  const char* comma = " ";
  out << margin << "  return";
  for (const PlanOutput& output : plan.outputs)
    write_quoted(out << std::exchange(comma, ", ") << "%" << output.buffer << " v" << output.value << " @",
                 output.name);
  out << "\n" << margin << "}\n";
}

std::string text(const Plan& plan) {
  std::ostringstream out;
  print(out, plan);
  return out.str();
}

Plan parse_plan(std::string_view text) {
  Scanner in(text);
  Plan plan = PlanParser(in).plan();
  if (!in.at_end()) in.unexpected("the end of the text");
  return plan;
}

}  // namespace rlx
