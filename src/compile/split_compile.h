// A compile that may use several devices: the whole graph for its own device where that takes it, else parts.
#pragma once

#include "compile/pipeline.h"
#include "compile/split.h"
#include "plan/plan.h"

namespace rlx {

/// What comes of a graph before it is lowered.
struct CompiledParts {
  std::optional<Split> split;  ///< nothing: the graph is whole
  std::vector<Graph> legal;    ///< the whole graph, or one for each part
  DispatchReport report;
};

/// The devices that these options name beside `main`, each once. Fails for a name that is none, or a device that cannot
/// be used here.
std::vector<Device> devices_besides(const Device& main, const CompileOptions& options);

/// Fails if CompileOptions::isa is given, and is no instruction set here, or none of the devices computes by one.
void require_instruction_set(std::vector<Device> devices, const std::string& isa);

/// Runs the pipeline for the graph or for its parts. Fails as `split_graph` does; what is missing for the device
/// alone, without permission for others, is in the report.
CompiledParts compile_parts(const Graph& g, const Device& main, const CompileOptions& options);

/// The plan of one run of such a graph, with numbers for its symbols; nothing if the graph is whole.
std::optional<Plan> split_plan_data(const Graph& g, const Device& main, const CompileOptions& options,
                                    const Bindings& numbers);

}  // namespace rlx
