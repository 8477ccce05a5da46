// `rlx where`: which device runs which node, and why not natively. Nothing is run.
#include <CLI/CLI.hpp>

#include "rlx/compile.h"
#include "tools/encoder_options.h"
#include "tools/model_graph.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

struct Where {
  std::string model, target = "cpu";
  bool strict = false, json = false, nodes = false;
  void run() const;
};

std::string nodes_text(const DispatchReport& report) {
  TextTable table("llll");
  table.add({"node", "op", "verdict", "reason"});
  for (const DispatchLine& line : report.lines)
    table.add({line.node.empty() ? "-" : line.node, line.op,
               std::string(names_of(line.verdict)[static_cast<size_t>(line.verdict)]), line.reason});
  return table.text();
}

void Where::run() const {
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
  app->add_option("MODEL", where->model, "a .rlx file, or a model folder")->required();
  add_device_option(*app, where->target, "--target");
  app->add_flag("--strict", where->strict, "exit code 1 unless every node is native");
  app->add_flag("--json", where->json, "print {target, nodes: [{node, op, verdict, reason}]}");
  app->add_flag("--nodes", where->nodes, "print a line for each node instead of one for each op");
  app->footer(
      R"(native: the device has a kernel for the node; composed: it is made of ops that the device has; rewritten: it runs in
another shape with the same meaning; interpreted: it runs by the op's own reference, slowly; missing: none of these, so
the model does not compile there, and the exit code is 1.

Examples:
  rlx where all-MiniLM-L6-v2 --strict
  rlx where model.rlx --target coreml:ane --json)");
  return {app, [where] { where->run(); }};
}

}  // namespace rlx::tools
