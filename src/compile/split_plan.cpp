// See the header.
#include "compile/split_plan.h"

#include <algorithm>
#include <map>

#include "ir/leaves.h"

namespace rlx {
namespace {

struct SplitPlanner {
  const Split& split;
  SplitPlan plan = {};
  std::map<std::pair<size_t, size_t>, size_t> place_of = {};  // by value and memory
  std::map<size_t, size_t> maker = {};                        // by place, the step that fills it

  size_t place(size_t value, size_t memory) {
    const auto [at, is_new] = place_of.try_emplace({value, memory}, plan.places.size());
    if (is_new) plan.places.push_back({value, memory});
    return at->second;
  }
  void wait_for(SplitStep& step, size_t at) const {
    const auto made = maker.find(at);
    if (made != maker.end() && std::find(step.after.begin(), step.after.end(), made->second) == step.after.end())
      step.after.push_back(made->second);
  }
  void add(SplitStep step) {
    std::sort(step.after.begin(), step.after.end());
    plan.steps.push_back(std::move(step));
  }
  /// The value in this memory, to which it is copied if it is not there.
  size_t brought(size_t value, size_t home, size_t memory) {
    if (const auto there = place_of.find({value, memory}); there != place_of.end()) return there->second;
    const size_t from = memory == SplitPlan::kHost || home == SplitPlan::kHost ? place(value, home)
                                                                               : brought(value, home, SplitPlan::kHost);
    SplitStep copy;
    copy.from = from, copy.to = place(value, memory);
    wait_for(copy, from);
    maker[copy.to] = plan.steps.size();
    add(std::move(copy));
    return plan.steps.back().to;
  }
};

std::string memory_name(const Split& split, const SplitPlan& plan, size_t memory) {
  return memory == SplitPlan::kHost ? std::string(kHostMemory) : split.devices[plan.device_of[memory]].name();
}

}  // namespace

size_t SplitPlan::place(size_t value, size_t memory) const {
  const auto at = std::find(places.begin(), places.end(), SplitPlace{value, memory});
  if (at == places.end()) fail(ErrorCode::internal, "no step brings value ", value, " to memory ", memory);
  return static_cast<size_t>(at - places.begin());
}

SplitPlan plan_of(const Split& split, const std::vector<bool>& has_own_memory) {
  SplitPlanner planner{split};
  SplitPlan& plan = planner.plan;
  plan.device_of = {SIZE_MAX};
  for (size_t d = 0; d < split.devices.size(); ++d) {
    plan.memory_of.push_back(has_own_memory[d] ? plan.device_of.size() : SplitPlan::kHost);
    if (has_own_memory[d]) plan.device_of.push_back(d);
    else if (plan.device_of[0] == SIZE_MAX) plan.device_of[0] = d;
  }
  const size_t main = plan.memory_of[0];
  std::vector<size_t> home(split.values.size(), main);
  for (const SplitPart& part : split.parts)
    for (size_t value : part.outputs) home[value] = plan.memory_of[part.device];
  size_t inputs = split.values.size();
  for (const SplitPart& part : split.parts) inputs -= part.outputs.size();
  for (size_t i = 0; i < inputs; ++i) planner.place(i, main);
  for (size_t p = 0; p < split.parts.size(); ++p) {
    const SplitPart& part = split.parts[p];
    const size_t memory = plan.memory_of[part.device];
    SplitStep step;
    step.part = p;
    for (size_t value : part.inputs)
      if (value != SplitPart::kExtents) planner.wait_for(step, planner.brought(value, home[value], memory));
    for (size_t value : part.outputs) planner.maker[planner.place(value, memory)] = plan.steps.size();
    planner.add(std::move(step));
    // What the caller is given is brought home as soon as it is there.
    for (size_t value : part.outputs)
      if (std::find(split.outputs.begin(), split.outputs.end(), value) != split.outputs.end())
        planner.brought(value, memory, main);
  }
  return std::move(planner.plan);
}

std::vector<SplitCopyLine> copies_of(const Split& split, const SplitPlan& plan) {
  std::vector<SplitCopyLine> lines;
  for (const SplitStep& step : plan.steps) {
    if (step.part != SplitStep::kNone) continue;
    const SplitPlace &from = plan.places[step.from], &to = plan.places[step.to];
    const SplitValue& value = split.values[from.value];
    const bool is_known = is_static(value.type.dims);
    lines.push_back({value.text, text_of(value.type), memory_name(split, plan, from.memory),
                     memory_name(split, plan, to.memory),
                     is_known ? byte_count(value.type.dtype, shape_of(value.type.dims)) : 0});
  }
  return lines;
}

Plan plan_data(const Graph& g, const Split& split, const SplitPlan& plan, const Bindings& numbers,
               const std::set<std::string>& donated) {
  Plan data;
  data.name = g.name(), data.is_partial = true;
  for (size_t d = 0; d < split.devices.size(); ++d)
    data.devices.push_back({split.devices[d].name(), memory_name(split, plan, plan.memory_of[d])});
  if (plan.device_of[SplitPlan::kHost] == SIZE_MAX &&  // nobody computes there, and copies lead through it
      std::any_of(plan.places.begin(), plan.places.end(), [](SplitPlace at) { return at.memory == SplitPlan::kHost; }))
    data.devices.push_back({std::string(kHostMemory), std::string(kHostMemory)});
  const size_t inputs = g.inputs().size(), main = plan.memory_of[0];
  const auto type_of = [&](size_t value) {
    Type type = split.values[value].type;
    for (Dim& d : type.dims) d = d.bound(numbers);
    return type;
  };
  // A buffer for each place, but that an output which updates an input lies in the input's.
  std::vector<size_t> buffer_of(plan.places.size());
  for (size_t at = 0; at < plan.places.size(); ++at) {
    const auto [value, memory] = plan.places[at];
    const Type type = type_of(value);
    PlanBuffer buffer;
    buffer.memory = memory_name(split, plan, memory);
    buffer.bytes = static_cast<int64_t>(byte_count(type.dtype, shape_of(type.dims)));
    const auto output = std::find(split.outputs.begin(), split.outputs.end(), value);
    if (value < inputs && memory == main) {
      buffer.kind = RootKind::input, buffer.index = value, buffer.holds = static_cast<PlanValue>(value);
    } else if (output != split.outputs.end() && memory == main) {
      buffer.kind = RootKind::output, buffer.index = static_cast<size_t>(output - split.outputs.begin());
      const std::string& name = g.outputs()[buffer.index].name;
      if (donated.contains(name) && updates_in_place(split, g, donated)) {
        size_t input = 0;
        while (input < inputs && g.node(g.inputs()[input]).name != name) ++input;
        if (input < inputs && g.type(g.inputs()[input]) == g.type(g.outputs()[buffer.index].ref)) {
          buffer_of[at] = buffer_of[plan.place(input, main)];
          continue;
        }
      }
    } else {
      buffer.kind = RootKind::own, buffer.index = at;
    }
    buffer_of[at] = data.buffers.size();
    data.buffers.push_back(std::move(buffer));
  }
  auto values = static_cast<PlanValue>(split.values.size());
  std::map<std::pair<std::string, size_t>, std::pair<size_t, PlanValue>> params;  // by name and memory
  const auto slot_in = [&](size_t buffer, PlanValue value, Type type) {
    Dims strides(type.dims.size(), 1);
    for (size_t d = strides.size(); d-- > 1;)
      strides[d - 1] = strides[d] * (type.dims[d] == Dim(0) ? Dim(1) : type.dims[d]);
    return PlanSlot{buffer, value, std::move(type), 0, std::move(strides), false};
  };
  const auto slot = [&](size_t at) {
    const size_t value = plan.places[at].value;
    return slot_in(buffer_of[at], static_cast<PlanValue>(value), type_of(value));
  };
  for (const SplitStep& step : plan.steps) {
    PlanStep to;
    to.after = step.after;
    if (step.part == SplitStep::kNone) {
      const bool is_read = plan.places[step.to].memory == SplitPlan::kHost;
      to.kind = PlanStep::Kind::copy, to.op = is_read ? "read" : "write";
      to.node = split.values[plan.places[step.from].value].text;
      to.device = split.devices[plan.device_of[plan.places[is_read ? step.from : step.to].memory]].name();
      to.operands = {slot(step.from)}, to.results = {slot(step.to)};
    } else {
      const SplitPart& part = split.parts[step.part];
      const size_t memory = plan.memory_of[part.device];
      to.op = "part", to.node = part.first, to.device = split.devices[part.device].name();
      to.kernel = text_of(part.nodes, part.nodes == 1 ? " node" : " nodes");
      for (size_t value : part.inputs)
        if (value != SplitPart::kExtents) to.operands.push_back(slot(plan.place(value, memory)));
      for (Ref r : part.graph.params()) {
        const std::string& name = part.graph.node(r).name;
        const Type& type = part.graph.type(r);
        const auto [at, is_new] = params.try_emplace({name, memory}, data.buffers.size(), values);
        if (is_new) {
          size_t index = 0;
          while (g.node(g.params()[index]).name != name) ++index;
          data.buffers.push_back({RootKind::param, index, 0,
                                  static_cast<int64_t>(byte_count(type.dtype, shape_of(type.dims))), values++, 0,
                                  memory_name(split, plan, memory)});
        }
        to.operands.push_back(slot_in(at->second.first, at->second.second, type));
      }
      for (size_t value : part.outputs) to.results.push_back(slot(plan.place(value, memory)));
    }
    data.steps.push_back(std::move(to));
  }
  for (size_t o = 0; o < split.outputs.size(); ++o) {
    const size_t value = split.outputs[o];
    data.outputs.push_back({g.outputs()[o].name, buffer_of[plan.place(value, main)], static_cast<PlanValue>(value)});
  }
  verify(data);
  return data;
}

}  // namespace rlx
