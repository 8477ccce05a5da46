// Finds accesses of a plan's steps that its order does not order, and memory that does not hold what its reader
// expects, with vector clocks and a shadow of every byte. It shares with the plan's verifier (src/plan/plan_verify.cpp)
// only the ranges of slots: the verifier compares lives of buffers, this looks at each byte.
//
// Steps stand in chains, each of which is ordered in itself. A step's clock says of each chain how many of its steps
// have ended when the step begins (Lamport 1978; Fidge 1988, Mattern 1989).
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/range_map.h"

namespace rlx::test {

class RaceChecker {
 public:
  explicit RaceChecker(const Plan& plan) : plan_(plan) {}

  /// What is wrong, bodies included; empty if nothing is.
  std::vector<std::string> reports() {
    make_clocks();
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (plan_.buffers[b].holds != kNoValue) {
        const MemoryRange r = range_of(plan_, b);
        memories_[r.memory].over(
            r.begin, r.end, [&](size_t, size_t, Byte& byte) { byte.owner = b, byte.value = plan_.buffers[b].holds; });
      }
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      for (const auto* slots : {&step.operands, &step.results})
        for (const PlanSlot& slot : *slots) reach(s, slot.buffer);
      for (const PlanSlot& slot : step.operands)
        if (!slot.is_packed) read(s, slot.buffer, slot.value, range_of(plan_, slot));
      write(s, kScratch, kNoValue, scratch_of(step));
      for (const PlanSlot& slot : step.results) write(s, slot.buffer, slot.value, range_of(plan_, slot));
      for (const Plan& body : step.bodies)
        for (std::string& why : RaceChecker(body).reports()) found_.push_back(text_of("in a body of #", s, ": ", why));
    }
    for (const PlanOutput& output : plan_.outputs)
      read(plan_.steps.size(), output.buffer, output.value, range_of(plan_, output.buffer));
    return found_;
  }

 private:
  static constexpr size_t kNobody = SIZE_MAX, kScratch = SIZE_MAX - 1;
  struct Byte {
    size_t owner = kNobody;  // the buffer that was written last, or a step's scratch
    PlanValue value = kNoValue;
    size_t writer = kNobody;
    std::vector<size_t> readers = {};  // since then
  };

  /// Of a plan for several devices: a launch reaches what is in its device's memory, a copy may begin or end elsewhere.
  void reach(size_t s, size_t buffer) {
    for (const PlanDevice& device : plan_.devices)
      if (device.name == plan_.steps[s].device && device.memory != plan_.buffers[buffer].memory &&
          plan_.steps[s].kind != PlanStep::Kind::copy)
        report("#", s, " reaches %", buffer, ", which is not in the memory of ", device.name);
  }

  void make_clocks() {
    std::vector<size_t> ends;  // the last step of each chain
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      std::vector<size_t> after = plan_.steps[s].after;
      if (!plan_.is_partial) after = s == 0 ? std::vector<size_t>{} : std::vector{s - 1};
      std::vector<size_t> clock;
      size_t chain = kNobody;
      for (size_t first : after) {
        clock.resize(std::max(clock.size(), clocks_[first].size()));
        for (size_t c = 0; c < clocks_[first].size(); ++c) clock[c] = std::max(clock[c], clocks_[first][c]);
        if (ends[chains_[first]] == first) chain = chains_[first];
      }
      if (chain == kNobody) chain = ends.size(), ends.push_back(s);
      ends[chain] = s;
      clock.resize(std::max(clock.size(), chain + 1));
      ticks_.push_back(++clock[chain]);
      chains_.push_back(chain);
      clocks_.push_back(std::move(clock));
    }
  }
  bool before(size_t first, size_t second) const {
    if (second == plan_.steps.size()) return true;  // the end waits for all
    return first != second && chains_[first] < clocks_[second].size() &&
           clocks_[second][chains_[first]] >= ticks_[first];
  }

  template <class... Parts>
  void report(const Parts&... parts) {
    if (found_.size() < 20) found_.push_back(text_of(parts...));
  }
  bool lies_in_its_buffer(size_t s, size_t buffer, const MemoryRange& r) {
    const MemoryRange whole = range_of(plan_, buffer);
    if (r.begin == r.end || (r.begin >= whole.begin && r.end <= whole.end && r.begin <= r.end)) return true;
    report("#", s, " goes beyond %", buffer);
    return false;
  }

  void read(size_t s, size_t buffer, PlanValue value, const MemoryRange& r) {
    if (!lies_in_its_buffer(s, buffer, r)) return;
    memories_[r.memory].over(r.begin, r.end, [&](size_t from, size_t, Byte& byte) {
      if (byte.owner == kNobody) report("#", s, " reads byte ", from, " of %", buffer, " before anything wrote it");
      else if (byte.owner != buffer) report("#", s, " reads byte ", from, " of %", buffer, " after others took it");
      else if (byte.value != value) report("#", s, " reads v", byte.value, " in %", buffer, " in place of v", value);
      if (byte.writer != kNobody && !before(byte.writer, s))
        report("#", s, " reads %", buffer, " and is not ordered with #", byte.writer, ", which writes there");
      byte.readers.push_back(s);
    });
  }
  void write(size_t s, size_t owner, PlanValue value, const MemoryRange& r) {
    if (owner != kScratch && !lies_in_its_buffer(s, owner, r)) return;
    memories_[r.memory].over(r.begin, r.end, [&](size_t from, size_t, Byte& byte) {
      if (byte.writer == s) report("#", s, " writes byte ", from, " twice");
      else if (byte.writer != kNobody && !before(byte.writer, s))
        report("#", s, " writes byte ", from, " and is not ordered with #", byte.writer, ", which does too");
      for (size_t reader : byte.readers)
        if (reader == s ? byte.owner != owner : !before(reader, s))
          report("#", s, " writes byte ", from, " and is not ordered with #", reader, ", which reads it");
      byte = {owner, value, s, {}};
    });
  }

  const Plan& plan_;
  std::vector<std::vector<size_t>> clocks_;
  std::vector<size_t> chains_, ticks_;
  std::map<size_t, RangeMap<Byte>> memories_;
  std::vector<std::string> found_;
};

inline std::vector<std::string> races_in(const Plan& plan) { return RaceChecker(plan).reports(); }

}  // namespace rlx::test
