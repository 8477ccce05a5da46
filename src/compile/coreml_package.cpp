// From a graph to a Core ML package: params become constants, passes run for the Core ML target, the program is
// written.
#include "backends/coreml/coreml.h"
#include "compile/pipeline.h"
#include "io/mlpackage.h"
#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "rlx/coreml.h"
#include "rlx/version.h"

namespace rlx {
namespace {

constexpr int kOldestIos = 15, kNewestIos = 18, kOldestOpset = 5;

Graph with_values(const Graph& g, const NamedTensors& params) {
  Graph to(g.name());
  std::vector<std::vector<Value>> values(g.nodes().size());
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    if (node.op == &op::input) {
      values[n] = {to.input(node.name, node.types[0])};
      continue;
    }
    if (node.op == &op::param) {
      auto found = params.find(node.name);
      if (found == params.end())
        fail(ErrorCode::not_found, "the param '", node.name, "', ", node.types[0], ", has no value among the ",
             params.size(), " given");
      if (found->second.type() != node.types[0])
        fail(ErrorCode::shape_mismatch, "the param '", node.name, "' is ", node.types[0], ", and its value ",
             found->second.type());
      values[n] = {to.constant(found->second)};
      continue;
    }
    std::vector<Value> operands;
    for (Ref r : node.operands) operands.push_back(values[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]);
    to.set_scope(node.name);
    values[n] = to.emit(*node.op, std::move(operands), node.attrs);
  }
  to.set_scope("");
  for (const Output& o : g.outputs())
    to.output(values[static_cast<size_t>(o.ref.node)][static_cast<size_t>(o.ref.result)], o.name);
  return to;
}

}  // namespace

CoreMLReport write_coreml(const std::string& path, const Graph& g, const NamedTensors& params,
                          const CoreMLOptions& options) {
  if (options.minimum_ios && (options.minimum_ios < kOldestIos || options.minimum_ios > kNewestIos))
    fail(ErrorCode::invalid_argument, "a minimum of iOS ", options.minimum_ios,
         " was asked for; ML Programs are written for iOS ", kOldestIos, " to ", kNewestIos);
  coreml::Options for_target{
      .newest_opset = (options.minimum_ios ? options.minimum_ios : kNewestIos) - kOldestIos + kOldestOpset,
      .narrow = options.narrow};
  auto translate = [&](coreml::Options with) {
    auto backend = coreml::make_backend(with);
    Graph bound = with_values(options.dims.empty() ? g : substitute(g, options.dims), params);
    Pipelined legal = run_pipeline(bound, *backend, {});
    require_complete(legal.report, false);
    return std::pair(coreml::translate(legal.graph, with), std::move(legal.report));
  };
  // The oldest system that can run it: newer operations are used only where nothing older does, or where asked for.
  std::pair<coreml::Translated, DispatchReport> made;
  if (options.minimum_ios) {
    made = translate(for_target);
  } else {
    coreml::Options oldest = for_target;
    for (oldest.newest_opset = kOldestOpset;; ++oldest.newest_opset) try {
        made = translate(oldest);
        break;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported || oldest.newest_opset == for_target.newest_opset) throw;
      }
  }
  auto& [translated, dispatch] = made;
  mil::Model& model = translated.model;
  model.metadata = {options.description, options.version, options.author, options.license};
  model.metadata.user.emplace("rlx.version", version());
  MlPackageSizes sizes = write_mlpackage(path, model);
  return {std::move(dispatch),
          translated.opset - kOldestOpset + kOldestIos,
          translated.opset_needed_by,
          translated.notes,
          sizes.model,
          sizes.weights};
}

std::ostream& operator<<(std::ostream& out, const CoreMLReport& report) {
  out << report.dispatch << "Runs on iOS " << report.minimum_ios << " (macOS " << report.minimum_ios - 3
      << ") and later";
  if (!report.needed_by.empty()) out << "; needed by " << report.needed_by;
  out << ".\n" << report.model_bytes << " bytes of model, " << report.weight_bytes << " bytes of weights.\n";
  for (const std::string& note : report.notes) out << "Note: " << note << ".\n";
  return out;
}

}  // namespace rlx
