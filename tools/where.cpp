// `rlx where`: which device runs which node, and why not natively. Nothing is run.
#include <CLI/CLI.hpp>

#include "compile/coreml_placement.h"
#include "io/mlpackage.h"
#include "rlx/compile.h"
#include "tools/encoder_options.h"
#include "tools/model_graph.h"
#include "tools/output.h"
#include "tools/package_model.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

struct Where {
  std::string model, target = "cpu", function;
  bool strict = false, json = false, nodes = false;
  void run() const;
  void predict() const;
};

std::string nodes_text(const DispatchReport& report) {
  TextTable table("llll");
  table.add({"node", "op", "verdict", "reason"});
  for (const DispatchLine& line : report.lines)
    table.add({line.node.empty() ? "-" : line.node, line.op,
               std::string(names_of(line.verdict)[static_cast<size_t>(line.verdict)]), line.reason});
  return table.text();
}

/// Where Core ML would run the operations of a package, by published rules.
void Where::predict() const {
  Device device = Device::parse(target);
  MlPackage package = MlPackage::open(model);
  auto placed = mlprogram::predict_placement(package.model(), function, device.units());
  size_t other = 0;
  std::string wanted(names_of(ComputeUnits{})[static_cast<size_t>(device.units())]), list;
  std::map<std::string, size_t> counts;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> groups;
  TextTable table("llll");
  table.add({"name", "op", "device", "reason"});
  for (const auto& p : placed) {
    ++counts[p.device];
    other += device.units() != ComputeUnits::all && p.device != wanted && p.device != "load";
    ++groups[{p.op, p.device, p.reason}];
    table.add({line_text(p.name, 80), line_text(p.op, 80), p.device, p.reason});
    if (json)
      list += (list.empty() ? "" : ",\n ") +
              ("{\"name\": " + json_text(p.name) + ", \"op\": " + json_text(p.op) + ", \"device\": \"" + p.device +
               "\", \"reason\": " + json_text(p.reason) + "}");
  }
  if (json) {
    write_out("{\"target\": \"" + device.name() + "\", \"prediction\": true, \"ops\": [" + list + "]}\n");
  } else {
    write_out("A prediction from published rules, not what a device said (" + device.name() + "):\n");
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

void Where::run() const {
  if (is_package(model) && Device::parse(target).kind() == DeviceKind::coreml) return predict();
  if (!function.empty()) throw UsageError("--function is for Core ML packages and --target coreml");
  DispatchReport report = dispatch_report(load_model(model), Device::parse(target), CompileOptions::from_environment());
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
  app->add_option("MODEL", where->model, "a .rlx file, a model folder, or a Core ML package (.mlpackage)")->required();
  add_device_option(*app, where->target, "--target");
  app->add_flag("--strict", where->strict, "exit code 1 unless every node is native");
  app->add_flag("--json", where->json, "print {target, nodes: [{node, op, verdict, reason}]}");
  app->add_flag("--nodes", where->nodes, "print a line for each node instead of one for each op");
  app->add_option("--function", where->function, "of a Core ML package with several")->type_name("NAME");
  app->footer(
      R"(native: the device has a kernel for the node; composed: it is made of ops that the device has; rewritten: it runs in
another shape with the same meaning; interpreted: it runs by the op's own reference, slowly; missing: none of these, so
the model does not compile there, and the exit code is 1. Of a Core ML package with --target coreml, coreml:ane, coreml:gpu or
coreml:cpu, where Core ML would run each op is predicted from published rules; --strict holds that all run there.

Examples:
  rlx where all-MiniLM-L6-v2 --strict
  rlx where model.rlx --target coreml --json
  rlx where Model.mlpackage --target coreml:ane --nodes)");
  return {app, [where] { where->run(); }};
}

}  // namespace rlx::tools
