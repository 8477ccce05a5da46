// `rlx where`: which device runs which node, and why not natively; and the memory and the kernels that the CPU plans.
// Nothing is run.
#include <algorithm>
#include <set>

#include <CLI/CLI.hpp>

#include "backends/cpu/lowering.h"
#include "backends/cpu/schedule.h"
#include "compile/split_compile.h"
#include "devices/coreml/device.h"
#include "devices/coreml/placement.h"
#include "io/mlpackage.h"
#include "ir/rewrite.h"
#include "kernels/vector/instruction_set.h"
#include "passes/hoist_params.h"
#include "rlx/artifact.h"
#include "rlx/compile.h"
#include "rlx/io.h"
#include "rlx/session.h"
#include "tools/coreml/package_model.h"
#include "tools/device_option.h"
#include "tools/dim_option.h"
#include "tools/encoder_options.h"
#include "tools/execution_option.h"
#include "tools/model_graph.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

struct Where {
  std::string model, target = default_device(), function;
  bool strict = false, json = false, nodes = false, memory = false, strategies = false, text = false;
  std::vector<std::string> dims;
  int threads = 1;
  const CLI::Option* target_option = nullptr;
  CompileOptions compile = CompileOptions::from_environment();
  std::optional<ExecutionOption> execution;
  void run();
  void predict() const;
  void plan() const;
};

std::string mib_text(size_t bytes) { return fixed_text(static_cast<double>(bytes) / (1 << 20), 2) + " MiB"; }

std::string nodes_text(const DispatchReport& report) {
  TextTable table(report.is_split() ? "llllll" : "lllll");
  std::vector<std::string> head = {"node", "op", "dtypes", "verdict", "reason"};
  if (report.is_split()) head.insert(head.begin() + 3, "device");
  table.add(head);
  for (const DispatchLine& line : report.lines) {
    std::vector<std::string> row = {line.node.empty() ? "-" : line.node, line.op, line.dtypes,
                                    std::string(names_of(line.verdict)[static_cast<size_t>(line.verdict)]),
                                    line.reason};
    if (report.is_split()) row.insert(row.begin() + 3, line.device);
    table.add(row);
  }
  return table.text();
}

/// Where Core ML runs the operations of a package: by its own plan on Apple's systems, elsewhere by published rules.
void Where::predict() const {
  Device device = Device::parse(target);
  MlPackage package = MlPackage::open(model);
  PlacementReport report = mlprogram::placement_of(model, package.model(), function, coreml_units(device));
  const std::vector<PlacedOp>& placed = report.ops;
  size_t other = 0;
  std::string wanted(names_of(ComputeUnits{})[static_cast<size_t>(coreml_units(device))]), list;
  std::map<std::string, size_t> counts;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> groups;
  TextTable table("llll");
  table.add({"name", "op", "device", "reason"});
  for (const auto& p : placed) {
    ++counts[p.device];
    other += coreml_units(device) != ComputeUnits::all && p.device != wanted && p.device != "load";
    ++groups[{p.op, p.device, p.reason}];
    table.add({line_text(p.name, 80), line_text(p.op, 80), p.device, p.reason});
    if (json)
      list += (list.empty() ? "" : ",\n ") +
              ("{\"name\": " + json_text(p.name) + ", \"op\": " + json_text(p.op) + ", \"device\": \"" + p.device +
               "\", \"reason\": " + json_text(p.reason) + "}");
  }
  if (json) {
    write_out("{\"target\": \"" + device.name() + "\", \"prediction\": " + (report.predicted ? "true" : "false") +
              ", \"ops\": [" + list + "]}\n");
  } else {
    write_out((report.predicted ? "A prediction from published rules, not what a device said ("
                                : "What Core ML plans on this system (") +
              device.name() + "):\n");
    if (nodes) {
      write_out(table.text());
    } else {
      TextTable summary("rlll");
      for (const auto& [group, count] : groups)
        summary.add({std::to_string(count), line_text(std::get<0>(group), 80), std::get<1>(group), std::get<2>(group)});
      write_out(summary.text());
    }
    std::string sum;
    for (const auto& [name, count] : counts) sum += text_of(sum.empty() ? "" : ", ", count, " ", name);
    write_out(sum + "\n");
  }
  flush_out();
  if (strict && other) fail(ErrorCode::unsupported, other, " of ", placed.size(), " ops would not run on the ", wanted);
}

void print_memory(const cpu::Schedule& schedule, size_t packed_bytes, size_t param_bytes, bool json) {
  const size_t arena = schedule.executor.arena_bytes(), live = schedule.live_bytes;
  if (json) {
    write_out(text_of("{\"steps\": ", schedule.executor.step_count(), ", \"arena_bytes\": ", arena,
                      ", \"largest_live_bytes\": ", live, ", \"packed_bytes\": ", packed_bytes,
                      ", \"param_bytes\": ", param_bytes, "}\n"));
    return;
  }
  TextTable table("lr");
  table.add({"params", mib_text(param_bytes)});
  table.add({"of them packed", mib_text(packed_bytes)});
  table.add({"arena", mib_text(arena)});
  table.add({"largest live set", mib_text(live)});
  write_out(table.text());
  if (live > 0)
    write_out(text_of("The arena of ", schedule.executor.step_count(), " steps is ",
                      fixed_text(100.0 * (static_cast<double>(arena) / static_cast<double>(live) - 1), 1),
                      " % above the least that any plan needs.\n"));
}

void print_strategies(const cpu::Schedule& schedule, bool json) {
  TextTable table("llll");
  table.add({"node", "op", "kernel", "strategy"});
  std::string list;
  for (const PlanStep& p : schedule.plan.steps) {
    if (p.strategy.empty()) continue;
    table.add({p.node.empty() ? "-" : p.node, p.op, p.kernel, p.strategy});
    list += text_of(list.empty() ? "" : ",\n ", "{\"node\": ", json_text(p.node), ", \"op\": ", json_text(p.op),
                    ", \"kernel\": ", json_text(p.kernel), ", \"strategy\": ", json_text(p.strategy), "}");
  }
  write_out(json ? text_of("{\"target\": \"cpu\", \"steps\": [", list, "]}\n") : table.text());
}

/// The CPU's plan for inputs of known sizes: the arena of one run beside the least that any plan needs, how each
/// product, convolution and attention is computed, or the plan's text. Weights are packed as for a run, from zeros, or
/// for
/// --strategies and --plan from ones, which Ozaki splits represent; the values of a model's own weights can rule those
/// out.
void Where::plan() const {
  const std::string_view option = memory ? "--memory" : strategies ? "--strategies" : "--plan";
  const bool may_split = text && (!compile.fallback.empty() || !compile.placement.empty());
  if (Device::parse(target) != Device::cpu() && !may_split)
    throw UsageError(text_of(option, " is for --target cpu",
                             text ? ", and for graphs that --fallback or --place divides among devices" : ""));
  if (memory + strategies + text > 1)
    throw UsageError("--memory, --strategies and --plan print different things: give one of them");
  if (text && json) throw UsageError("--plan prints a text of its own, not JSON: leave out --json");
  if (strict || nodes)
    throw UsageError(text_of("--strict and --nodes are about dispatch, which ", option, " does not print"));
  const Graph given = load_model(model);
  std::set<std::string> known, open;
  for (const Type& type : given.input_types())
    for (const Dim& dim : type.dims) dim.for_each_symbol([&](const std::string& symbol) { known.insert(symbol); });
  Bindings numbers = bindings_of("--dim", dims);
  if (!execution->shapes().empty()) (void)execution->specialized(given);  // names what it has not
  numbers.insert(execution->shapes().begin(), execution->shapes().end());
  for (const auto& [symbol, number] : numbers)
    if (!known.contains(symbol)) throw UsageError("--dim: the model has no symbolic dim '" + symbol + "'");
  const Graph g = substitute(given, numbers);
  for (const Type& type : g.input_types())
    for (const Dim& dim : type.dims) dim.for_each_symbol([&](const std::string& symbol) { open.insert(symbol); });
  if (!open.empty())
    throw UsageError(text_of(option, " needs a number for '", *open.begin(), "': --dim ", *open.begin(), "=NUMBER"));
  if (may_split) {
    if (const auto split = split_plan_data(g, Device::parse(target), compile, {})) return write_out(rlx::text(*split));
    if (Device::parse(target) != Device::cpu())
      throw UsageError(
          text_of(target, " takes all of this graph by itself, and --plan prints no plan of its own but the CPU's"));
  }
  const kernels::InstructionSetScope held(kernels::instruction_set_limit(compile.isa, "isa"));
  const Graph lowered = Session(Device::cpu(), {threads}).compile(g, compile).lowered();
  const Hoisted parts = hoist_params(lowered);
  NamedTensors params;
  size_t param_bytes = 0;
  for (Ref r : parts.main.params()) {
    const Type& type = parts.main.type(r);
    auto [at, is_new] = params.emplace(parts.main.node(r).name, Tensor(type.dtype, shape_of(type.dims)));
    if (!is_new) continue;
    param_bytes += at->second.byte_count();
    if (!memory && type.dtype == f32)
      std::fill_n(reinterpret_cast<float*>(at->second.mutable_data()), at->second.byte_count() / sizeof(float), 1.0f);
  }
  cpu::PackedCache packed;
  const kernels::ProductPolicy policy{compile.accuracy == Accuracy::row_relative, compile.batch_invariant};
  const cpu::Schedule schedule = cpu::schedule(
      {parts.main, threads, policy, packed, [&](const std::string& name) { return &params.at(name); }}, true);
  if (strategies) print_strategies(schedule, json);
  else if (text) write_out(rlx::text(schedule.plan));
  else print_memory(schedule, packed.bytes(), param_bytes, json);
}

void Where::run() {
  execution->apply(target, &threads, &compile);
  strict = strict || compile.strict;
  compile.strict = false;  // the report comes first
  if (memory || strategies || text) return plan();
  if (!dims.empty()) throw UsageError("--dim is for --memory, --strategies and --plan");
  if (is_package(model) && !execution->is_given() && Device::parse(target).backend() == "coreml") return predict();
  if (!function.empty()) throw UsageError("--function is for Core ML packages and --target coreml");
  // Of a compiled graph: what it says of the device that it was compiled for, unless another one is asked for.
  const bool is_compiled = target_option->count() == 0 && !execution->is_given() && is_artifact(model);
  if (is_compiled && asks_for_numbers(compile))
    throw UsageError(text_of("--accuracy, --compute, --batch-invariant, --narrow and --isa are for `rlx compile`: '",
                             model, "' is compiled already"));
  DispatchReport report =
      is_compiled ? artifact_info(model).report
                  : dispatch_report(execution->specialized(load_model(model)), Device::parse(target), compile);
  write_out(json ? report.json() + "\n" : nodes ? nodes_text(report) : text_of(report));
  size_t other = report.lines.size() - report.count(Verdict::native), missing = report.count(Verdict::missing);
  if (strict && other)
    fail(ErrorCode::unsupported, other, " of ", report.lines.size(), " nodes are not native on ", report.target);
  if (missing)
    fail(ErrorCode::unsupported, missing, " of ", report.lines.size(), " nodes cannot run on ", report.target);
}

}  // namespace

Subcommand add_where(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("where", "Where each node of a model runs, and why");
  auto where = std::make_shared<Where>();
  app->add_option("MODEL", where->model,
                  "a .rlx file, a model folder, a folder of `rlx train`, a file of `rlx compile`, which says what it "
                  "was compiled "
                  "to unless --target is given, or a Core ML package (.mlpackage)")
      ->required();
  where->target_option = add_device_option(*app, where->target, "--target");
  app->add_flag("--strict", where->strict, "exit code 1 unless every node is native");
  app->add_flag("--json", where->json, "print {target, nodes: [{node, op, verdict, reason, dtypes}]}");
  app->add_flag("--nodes", where->nodes, "print a line for each node instead of one for each op");
  app->add_flag("--memory", where->memory, "print the memory of a run on the CPU instead, and the least it could be");
  app->add_flag("--strategies", where->strategies,
                "print for each matrix product, convolution and attention on the CPU how it is computed, and why");
  app->add_flag(
      "--plan", where->text,
      "print the plan of a run on the CPU, or of a graph that is split over devices, as text: buffers, launches, "
      "memory (docs/plan.md)");
  app->add_option("--dim", where->dims,
                  "with --memory, --strategies or --plan: a number for a symbolic dim; once for each")
      ->type_name("NAME=NUMBER");
  app->add_option("--threads", where->threads, "with --memory, --strategies or --plan: threads to plan for (default 1)")
      ->option_text("T")
      ->check(CLI::Range(1, 256));
  add_accuracy_options(*app, where->compile);
  add_split_options(*app, where->compile);
  where->execution.emplace(*app);
  app->add_option("--function", where->function, "of a Core ML package with several")->type_name("NAME");
  app->footer(
      R"(native: the device has a kernel for the node; composed: it is made of ops that the device has; rewritten: it runs in
another shape with the same meaning; interpreted: it runs by the op's own reference, slowly; missing: none of these, so
the model does not compile there, and the exit code is 1. Of a Core ML package with --target coreml, coreml:ane, coreml:gpu or
coreml:cpu, where Core ML would run each op is predicted from published rules (on Apple's systems MLComputePlan says it); --strict
holds that all run there.

Examples:
  rlx where all-MiniLM-L6-v2 --strict
  rlx where all-MiniLM-L6-v2 --memory --dim B=8 --dim S=128
  rlx where all-MiniLM-L6-v2 --strategies --dim B=1 --dim S=128 --threads 2
  rlx where all-MiniLM-L6-v2 --plan --dim B=1 --dim S=128
  rlx where model.rlx --target coreml --json
  rlx where all-MiniLM-L6-v2 --execution profile.toml:decode
  rlx where minilm.rlxc                                  # as `rlx compile` left it
  rlx where Model.mlpackage --target coreml:ane --nodes)");
  return {app, [where] { where->run(); }};
}

}  // namespace rlx::tools
