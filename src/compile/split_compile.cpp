// See the header.
#include "compile/split_compile.h"

#include <algorithm>

#include "backends/registry.h"
#include "compile/split_plan.h"

namespace rlx {
namespace {

SplitDevice split_device(const Device& device, const std::string& isa) {
  const auto backend = backend_with(device, isa);
  return {device, backend->target(), backend->has_own_memory()};
}

std::vector<bool> own_memories(const Split& split) {
  std::vector<bool> own;
  for (const Device& device : split.devices) own.push_back(backend_of(device)->has_own_memory());
  return own;
}

}  // namespace

std::vector<Device> devices_besides(const Device& main, const CompileOptions& options) {
  std::vector<Device> all;
  const auto add = [&](const std::string& name, std::string_view option) {
    with_context([&] { return text_of("reading the option ", option); },
                 [&] {
                   const Device device = Device::parse(name);
                   if (device == main || std::find(all.begin(), all.end(), device) != all.end()) return;
                   if (const auto why = backend_of(device)->unavailable(); !why.empty())
                     fail(ErrorCode::not_found, "device '", name, "' is not available: ", why);
                   all.push_back(device);
                 });
  };
  for (const std::string& name : options.fallback) add(name, "fallback");
  for (const Placement& entry : options.placement) add(entry.device, "placement");
  return all;
}

void require_instruction_set(std::vector<Device> devices, const std::string& isa) {
  if (isa.empty() || isa == "native") return;  // no limit
  std::string names;
  for (const Device& device : devices) {
    if (backend_of(device)->with_instruction_set(isa)) return;
    names += text_of(names.empty() ? "" : ", ", device);
  }
  fail(ErrorCode::invalid_argument, "isa=", isa, " is an option of the device cpu, and this is compiled for ", names,
       "; the environment variable RLX_ISA holds the whole process");
}

CompiledParts compile_parts(const Graph& g, const Device& main, const CompileOptions& options) {
  CompiledParts made;
  const std::vector<Device> others = devices_besides(main, options);
  std::vector<Device> all = {main};
  all.insert(all.end(), others.begin(), others.end());
  require_instruction_set(std::move(all), options.isa);
  if (options.placement.empty()) {
    Pipelined whole = run_pipeline(g, backend_with(main, options.isa)->target(), options);
    if (others.empty() || whole.report.count(Verdict::missing) == 0) {
      made.legal.push_back(std::move(whole.graph)), made.report = std::move(whole.report);
      return made;
    }
  }
  std::vector<SplitDevice> devices = {split_device(main, options.isa)};
  for (const Device& device : others) devices.push_back(split_device(device, options.isa));
  made.split = split_graph(g, devices, options);
  if (made.split->devices.size() == 1) {
    Pipelined whole = run_pipeline(g, devices[0].target, options);
    return {std::nullopt, {std::move(whole.graph)}, std::move(whole.report)};
  }
  for (size_t d = 0; d < made.split->devices.size(); ++d)
    made.report.target += (d ? ", " : "") + made.split->devices[d].name();
  if (!options.isa.empty()) made.report.target += ", isa " + options.isa;
  for (size_t p = 0; p < made.split->parts.size(); ++p) {
    const SplitPart& part = made.split->parts[p];
    const Device& device = made.split->devices[part.device];
    Pipelined legal = with_context([&] { return text_of("compiling part ", p, " of '", g.name(), "' for ", device); },
                                   [&] {
                                     return run_pipeline(part.graph, backend_with(device, options.isa)->target(),
                                                         options, {.part = text_of("part", p, "_")});
                                   });
    for (DispatchLine& line : legal.report.lines) {
      line.device = device.name();
      made.report.lines.push_back(std::move(line));
    }
    for (std::string& note : legal.report.notes) made.report.notes.push_back(text_of(device, ": ", note));
    made.report.parts.push_back({device.name(), part.nodes, part.first});
    made.legal.push_back(std::move(legal.graph));
  }
  made.report.copies = copies_of(*made.split, plan_of(*made.split, own_memories(*made.split)));
  return made;
}

std::optional<Plan> split_plan_data(const Graph& g, const Device& main, const CompileOptions& options,
                                    const Bindings& numbers) {
  const CompiledParts made = compile_parts(g, main, options);
  require_complete(made.report, options.strict);
  if (!made.split) return std::nullopt;
  return plan_data(g, *made.split, plan_of(*made.split, own_memories(*made.split)), numbers, options.donate);
}

}  // namespace rlx
