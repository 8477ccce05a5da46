// What a plan has to hold so that running it in its order gives the graph's values; see plan.h.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "rlx/ops/control.h"

namespace rlx {
namespace {

class PlanVerifier {
 public:
  explicit PlanVerifier(const Plan& plan) : plan_(plan), order_(plan) {}

  void run() {
    check_devices();
    check_buffers();
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      check_scratch(s);
      for (size_t i = 0; i < plan_.steps[s].operands.size(); ++i)
        check_slot(s, "operand", i, plan_.steps[s].operands[i]);
      for (size_t i = 0; i < plan_.steps[s].results.size(); ++i) check_slot(s, "result", i, plan_.steps[s].results[i]);
      check_bodies(s);
      check_places(s);
    }
    check_values();
    check_arena();
  }

 private:
  struct Access {
    size_t step;
    bool writes;
    PlanValue value;
  };

  static std::string line_of(int64_t line) { return line > 0 ? text_of("line ", line, ": ") : ""; }
  template <class... Parts>
  [[noreturn]] void fail_step(size_t s, const Parts&... parts) const {
    const PlanStep& step = plan_.steps[s];
    fail(ErrorCode::invalid_argument, line_of(step.line), "step #", s, " (", step.op,
         step.node.empty() ? "" : " of '" + step.node + "'", ") of the plan '", plan_.name, "' ", parts...);
  }
  template <class... Parts>
  [[noreturn]] void fail_buffer(size_t b, const Parts&... parts) const {
    fail(ErrorCode::invalid_argument, line_of(plan_.buffers[b].line), "buffer %", b, " of the plan '", plan_.name, "' ",
         parts...);
  }

  void check_buffers() const {
    if (plan_.arena_bytes.value() < 0)
      fail(ErrorCode::invalid_argument, "the plan '", plan_.name, "' has an arena of ", plan_.arena_bytes, " bytes");
    std::set<std::tuple<RootKind, size_t, std::string>> named;
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const PlanBuffer& buffer = plan_.buffers[b];
      if (buffer.bytes.value() < 0) fail_buffer(b, "has ", buffer.bytes, " bytes");
      const bool is_given =
          buffer.kind != RootKind::arena && buffer.kind != RootKind::output && buffer.kind != RootKind::own;
      if (memories_.empty() ? !buffer.memory.empty() : !memories_.contains(buffer.memory))
        fail_buffer(b, "lies in the memory '", buffer.memory, "', which no device of the plan has");
      if (buffer.kind == RootKind::own && memories_.empty())
        fail_buffer(b, "has memory of its own, and the plan is for one device, whose memory is the arena");
      if (buffer.kind == RootKind::arena && !memories_.empty())
        fail_buffer(b, "lies in the arena, and a plan for several devices has none");
      if (is_given != (buffer.holds != kNoValue))
        fail_buffer(b,
                    is_given ? "is given from outside and holds no value" : "holds a value before anything wrote one");
      if (buffer.kind == RootKind::arena) {
        if (buffer.offset.value() < 0 || buffer.offset.value() > plan_.arena_bytes.value() - buffer.bytes.value())
          fail_buffer(b, "lies at ", buffer.offset, " and has ", buffer.bytes, " bytes; the arena has ",
                      plan_.arena_bytes);
      } else if (!named
                      .emplace(buffer.kind, buffer.index,
                               // A param is bound once for each memory; all else is in one.
                               buffer.kind == RootKind::param ? buffer.memory : std::string())
                      .second) {
        fail_buffer(b, "is the second one of its kind with the number ", buffer.index);
      }
      if (buffer.kind == RootKind::output && buffer.index >= plan_.outputs.size())
        fail_buffer(b, "is output ", buffer.index, ", and the plan returns ", plan_.outputs.size());
    }
  }

  void check_devices() {
    for (const PlanDevice& device : plan_.devices) {
      if (!memory_of_.emplace(device.name, device.memory).second)
        fail(ErrorCode::invalid_argument, "the plan '", plan_.name, "' has the device '", device.name, "' twice");
      if (device.memory.empty())
        fail(ErrorCode::invalid_argument, "the plan '", plan_.name, "' gives the device '", device.name, "' no memory");
      memories_.insert(device.memory);
    }
  }

  /// Who computes reaches its own memory alone.
  void check_places(size_t s) const {
    const PlanStep& step = plan_.steps[s];
    const auto device = memory_of_.find(step.device);
    if (memories_.empty() ? !step.device.empty() : device == memory_of_.end())
      fail_step(s, "is done by '", step.device, "', which is no device of the plan");
    if (memories_.empty()) return;
    const bool is_copy = step.kind == PlanStep::Kind::copy;
    bool reaches_own = false;
    for (const auto* slots : {&step.operands, &step.results})
      for (const PlanSlot& slot : *slots) {
        const std::string& memory = plan_.buffers[slot.buffer].memory;
        reaches_own |= memory == device->second;
        if (!is_copy && memory != device->second)
          fail_step(s, "is done by '", step.device, "' in the memory '", device->second, "', and reaches %",
                    slot.buffer, " in '", memory, "'");
      }
    if (!is_copy) return;
    if (const std::string& from = plan_.buffers[step.operands[0].buffer].memory;
        from == plan_.buffers[step.results[0].buffer].memory)
      fail_step(s, "copies within the memory '", from, "': no step is needed to have a value where it is");
    if (!reaches_own)
      fail_step(s, "is a copy by '", step.device, "', whose memory '", device->second,
                "' is neither where it begins nor where it ends");
  }

  void check_scratch(size_t s) const {
    const PlanStep& step = plan_.steps[s];
    const int64_t begin = step.scratch_offset.value(), bytes = step.scratch_bytes.value();
    if (begin < 0 || bytes < 0 || begin > plan_.arena_bytes.value() - bytes)
      fail_step(s, "has its scratch of ", bytes, " bytes at ", begin, "; the arena has ", plan_.arena_bytes);
  }

  void check_slot(size_t s, const char* what, size_t i, const PlanSlot& slot) const {
    if (slot.buffer >= plan_.buffers.size())
      fail_step(s, "has a ", what, " in buffer %", slot.buffer, ", of ", plan_.buffers.size());
    if (slot.strides.size() != slot.type.rank())
      fail_step(s, "has ", slot.strides.size(), " strides for ", what, " ", i, ", which is ", slot.type);
    const MemoryRange whole = range_of(plan_, slot.buffer), part = range_of(plan_, slot);
    if (part.begin != part.end && (part.begin < whole.begin || part.end > whole.end || part.begin > part.end))
      fail_step(s, "has ", what, " ", i, " at bytes ", static_cast<int64_t>(part.begin - whole.begin), " to ",
                static_cast<int64_t>(part.end - whole.begin), " of %", slot.buffer, ", which has ",
                plan_.buffers[slot.buffer].bytes, " bytes");
    const RootKind kind = plan_.buffers[slot.buffer].kind;
    if (what[0] == 'r' && (kind == RootKind::param || kind == RootKind::constant))
      fail_step(s, "writes %", slot.buffer, ", which no run may change");
  }

  void check_bodies(size_t s) const {
    const PlanStep& step = plan_.steps[s];
    if ((step.kind == PlanStep::Kind::call) == step.bodies.empty())
      fail_step(s, step.bodies.empty() ? "is a call without bodies" : "has bodies and is no call");
    if (step.kind == PlanStep::Kind::copy && (step.operands.size() != 1 || step.results.size() != 1))
      fail_step(s, "is a copy of ", step.operands.size(), " operands to ", step.results.size(), " results");
    const bool is_if = step.op == op::if_else.name, is_while = step.op == op::while_loop.name,
               is_scan = step.op == op::scan.name;
    if ((is_if || is_while) && step.bodies.size() != 2)
      fail_step(s, "has ", step.bodies.size(), " bodies, and ", step.op, " has two");
    for (size_t b = 0; b < step.bodies.size(); ++b) {
      const Plan& body = step.bodies[b];
      with_context([&] { return text_of("verifying a body of step #", s, " of the plan '", plan_.name, "'"); },
                   [&] { verify(body); });
      const size_t first = is_if ? 1 : 0;  // operand 0 of an if is its predicate
      for (const PlanBuffer& input : body.buffers) {
        if (input.kind != RootKind::input) continue;
        if (is_if || is_while || is_scan) {
          if (input.index >= step.operands.size() - std::min(first, step.operands.size()))
            fail_step(s, "has ", step.operands.size(), " operands; its body '", body.name, "' reads input ",
                      input.index);
          const PlanSlot& operand = step.operands[first + input.index];
          const size_t bytes = byte_count(operand.type.dtype, shape_of(operand.type.dims));
          const auto taken = static_cast<size_t>(input.bytes.value());
          // A scan's body reads slices of some of them.
          if (is_scan ? taken > bytes && bytes > 0 : taken != bytes)
            fail_step(s, "gives ", bytes, " bytes for input ", input.index, " of its body '", body.name,
                      "', which takes ", taken);
        } else if (input.bytes.value() > 16) {
          fail_step(s, "has a body '", body.name, "' that takes ", input.bytes, " bytes, and no scalar");
        }
      }
      const bool gives_results = is_if || (is_while && b == 1);
      if (gives_results && body.outputs.size() != step.results.size())
        fail_step(s, "has ", step.results.size(), " results; its body '", body.name, "' gives ", body.outputs.size());
      if (is_while && b == 0 && body.outputs.size() != 1)
        fail_step(s, "has a condition '", body.name, "' with ", body.outputs.size(), " outputs");
      for (const PlanBuffer& output : body.buffers) {
        if (!gives_results || output.kind != RootKind::output) continue;
        const PlanSlot& result = step.results[output.index];
        const size_t bytes = byte_count(result.type.dtype, shape_of(result.type.dims));
        if (bytes != static_cast<size_t>(output.bytes.value()))
          fail_step(s, "takes ", bytes, " bytes for result ", output.index, "; its body '", body.name, "' gives ",
                    output.bytes);
      }
    }
  }

  /// In the text's order each value is read while it stands; and whoever made or replaces it is ordered with who reads.
  void check_values() {
    by_buffer_.resize(plan_.buffers.size());
    std::vector<PlanValue> holds;
    for (const PlanBuffer& b : plan_.buffers) holds.push_back(b.holds);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      for (size_t i = 0; i < step.operands.size(); ++i) {
        const PlanSlot& slot = step.operands[i];
        if (slot.is_packed) continue;
        if (holds[slot.buffer] == kNoValue)
          fail_step(s, "reads v", slot.value, " in %", slot.buffer, ", which nothing has written");
        if (holds[slot.buffer] != slot.value)
          fail_step(s, "reads v", slot.value, " in %", slot.buffer, ", which holds v", holds[slot.buffer], " by then");
        access(s, slot, false);
      }
      for (const PlanSlot& slot : step.results) {
        for (const PlanSlot& other : step.results)
          if (&other != &slot && other.buffer == slot.buffer) fail_step(s, "writes two results to %", slot.buffer);
        access(s, slot, true);
        holds[slot.buffer] = slot.value;
      }
    }
    for (size_t o = 0; o < plan_.outputs.size(); ++o) {
      const PlanOutput& out = plan_.outputs[o];
      const PlanBuffer& buffer = plan_.buffers[out.buffer];
      if (holds[out.buffer] != out.value)
        fail(ErrorCode::invalid_argument, "output ", o, " '", out.name, "' of the plan '", plan_.name, "' is v",
             out.value, "; %", out.buffer, " holds ",
             holds[out.buffer] == kNoValue ? "nothing" : text_of("v", holds[out.buffer]), " at the end");
      // An output that updates an input lies there.
      if (buffer.kind != RootKind::input && (buffer.kind != RootKind::output || buffer.index != o))
        fail(ErrorCode::invalid_argument, "output ", o, " '", out.name, "' of the plan '", plan_.name, "' lies in %",
             out.buffer, ", which is another buffer's memory");
    }
  }

  /// Notes an access, which has to be ordered with all earlier ones of the buffer that it could disturb.
  void access(size_t s, const PlanSlot& slot, bool writes) {
    const MemoryRange range = range_of(plan_, slot);
    if (range.begin == range.end) return;  // of no bytes: nobody can disturb it
    for (const Access& earlier : by_buffer_[slot.buffer]) {
      if ((!writes && !earlier.writes) || earlier.step == s || order_.before(earlier.step, s)) continue;
      fail_step(s, writes ? "writes v" : "reads v", slot.value, " in %", slot.buffer, " and does not wait for step #",
                earlier.step, ", which ", earlier.writes ? "writes" : "reads", " v", earlier.value, " there");
    }
    by_buffer_[slot.buffer].push_back({s, writes, slot.value});
  }

  bool all_before(const std::vector<Access>& first, const std::vector<Access>& second) const {
    for (const Access& a : first)
      for (const Access& b : second)
        if (!order_.before(a.step, b.step)) return false;
    return true;
  }

  /// Memory of the arena is one buffer's until its last access, and only then another's.
  void check_arena() const {
    struct Piece {
      size_t begin, end;
      std::vector<Access> accesses;
      std::string name;
      size_t first;  // step that accesses it
    };
    std::vector<Piece> pieces;
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const MemoryRange range = range_of(plan_, b);
      if (range.memory != MemoryRange::kArena || range.begin == range.end || by_buffer_[b].empty()) continue;
      // Of a total order, the first and the last say all.
      std::vector<Access> accesses = by_buffer_[b];
      if (!plan_.is_partial) accesses = {accesses.front(), accesses.back()};
      const size_t first = accesses.front().step;
      pieces.push_back({range.begin, range.end, std::move(accesses), text_of("%", b), first});
    }
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      if (const MemoryRange range = scratch_of(plan_.steps[s]); range.begin < range.end)
        pieces.push_back({range.begin, range.end, {{s, true, kNoValue}}, text_of("the scratch of #", s), s});
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    for (size_t i = 0; i < pieces.size(); ++i)
      for (size_t j = i + 1; j < pieces.size() && pieces[j].begin < pieces[i].end; ++j) {
        const Piece &a = pieces[i], &b = pieces[j];
        if (all_before(a.accesses, b.accesses) || all_before(b.accesses, a.accesses)) continue;
        fail_step(std::max(a.first, b.first), "uses ", a.name, " and ", b.name, " at the same time: both take bytes ",
                  b.begin, " to ", std::min(a.end, b.end), " of the arena");
      }
  }

  const Plan& plan_;
  StepOrder order_;
  std::map<std::string, std::string> memory_of_;  // by device
  std::set<std::string> memories_;
  std::vector<std::vector<Access>> by_buffer_;
};

}  // namespace

void verify(const Plan& plan) { PlanVerifier(plan).run(); }

}  // namespace rlx
