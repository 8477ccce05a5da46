// `rlx compile`: a graph for a device, compiled once and kept in a file that runs without the compiler.
#include <CLI/CLI.hpp>

#include "rlx/artifact.h"
#include "tools/device_option.h"
#include "tools/dim_option.h"
#include "tools/encoder_options.h"
#include "tools/execution_option.h"
#include "tools/model_graph.h"
#include "tools/model_params.h"
#include "tools/output.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

struct Compile {
  std::string model, device = default_device(), output;
  std::vector<std::string> params;
  bool without_params = false, json = false;
  CompileOptions options = CompileOptions::from_environment();
  std::optional<ExecutionOption> execution;
  void run();
};

void Compile::run() {
  if (without_params && !params.empty()) throw UsageError("give either --params or --without-params, not both");
  execution->apply(device, nullptr, &options);
  const Graph graph = execution->specialized(load_model(model));
  const Signature signature = signature_of(graph);
  NamedTensors values;
  if (!without_params) {
    // Of one that is compiled again for something else, those that it carries.
    values = params.empty() && is_artifact(model) ? artifact_params(model) : read_params(signature, model, params);
  }
  const Session session(Device::parse(device));
  session.compile(graph, options).save(output, values);
  const ArtifactInfo info = artifact_info(output);
  if (json) return write_out(info.json() + "\n");
  write_out(text_of("'", line_text(output, 200), "': '", line_text(info.graph, 200), "' for ", info.device, ", ",
                    info.params.size(), " of ", signature.params.size(), " params, ",
                    bytes_text(static_cast<double>(info.bytes)), "\n"));
}

}  // namespace

Subcommand add_compile(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("compile", "Compiles a model for a device, to a file that `rlx run` takes");
  auto compile = std::make_shared<Compile>();
  app->add_option("MODEL", compile->model,
                  "a .rlx file, a model folder, a folder of `rlx train`, a Core ML package (.mlpackage), or a file of "
                  "`rlx compile`, which has the graph that it was made from")
      ->required();
  app->add_option("-o,--output", compile->output, "the file to write; its name ends in .rlxc by custom")
      ->required()
      ->option_text("FILE");
  app->add_option("--params", compile->params, "safetensors files with the params, by name; may be repeated")
      ->allow_extra_args(false)
      ->option_text("FILE");
  app->add_flag("--without-params", compile->without_params,
                "leave the params out of the file; they are given to `rlx run` by --params");
  add_device_option(*app, compile->device);
  add_accuracy_options(*app, compile->options);
  add_split_options(*app, compile->options);
  add_bound_option(*app, compile->options);
  app->add_flag("--json", compile->json, "print what the file holds as a JSON object");
  compile->execution.emplace(*app);
  app->add_flag("--strict", compile->options.strict, "fail unless every node is native");
  app->footer(
      R"(The file holds the program, the graph that it was made from, the dispatch report and, unless --without-params is given, the
params of a model that has weights. It is loaded without the compiler (`rlx run`, Session::load, rlx.load_compiled), by the
version of RLX and on the kind of processor that it was compiled for; elsewhere loading it fails and says what differs, and
`rlx compile FILE -o FILE` makes it anew from the graph in it. `rlx inspect FILE` and `rlx where FILE` show what it holds.

Examples:
  rlx compile all-MiniLM-L6-v2 -o minilm.rlxc
  rlx compile model.rlx --params weights.safetensors -o model.rlxc
  rlx compile model.rlx --params weights.safetensors --execution profile.toml:decode -o decode.rlxc
  rlx compile model.rlx --without-params --device coreml -o model.rlxc)");
  return {app, [compile] { compile->run(); }};
}

}  // namespace rlx::tools
