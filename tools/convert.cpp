// `rlx convert`: a model in the format of another runtime. Nothing is run.
#include <CLI/CLI.hpp>
#include <filesystem>

#include "rlx/coreml.h"
#include "tools/model_graph.h"
#include "tools/output.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

struct Convert {
  std::string model, weights, output;
  std::vector<std::string> dims;
  CoreMLOptions options;
  bool quiet = false;
  void run();
};

void Convert::run() {
  if (std::filesystem::path(output).extension() != ".mlpackage")
    throw UsageError("-o must name a .mlpackage, and is '" + output + "'");
  for (const std::string& dim : dims) {
    size_t equals = dim.find('=');
    int64_t value = 0;
    if (equals == std::string::npos || !CLI::detail::lexical_cast(dim.substr(equals + 1), value) || value <= 0)
      throw UsageError("--dim takes NAME=NUMBER, and got '" + dim + "'");
    options.dims[dim.substr(0, equals)] = value;
  }
  Graph g = load_model(model);
  std::string file = !weights.empty() ? weights : is_folder(model) ? model + "/model.safetensors" : "";
  NamedTensors params;
  if (!file.empty()) params = SafetensorsFile::open(file).tensors();
  CoreMLReport report = write_coreml(output, g, params, options);
  if (!quiet) write_out(text_of(report));
}

}  // namespace

Subcommand add_convert(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("convert", "Write a model as a Core ML package");
  auto convert = std::make_shared<Convert>();
  app->add_option("MODEL", convert->model, "a .rlx file, or a model folder")->required();
  app->add_option("-o,--output", convert->output, "the package to write, X.mlpackage; one that is there is replaced")
      ->required();
  app->add_option("--weights", convert->weights,
                  "a .safetensors file with the params; default: model.safetensors of the folder");
  app->add_option("--dim", convert->dims, "a number for a symbolic dim, NAME=NUMBER; once for each");
  app->add_option("--minimum-ios", convert->options.minimum_ios, "15 to 18; default: the oldest that can run it");
  app->add_flag("--narrow", convert->options.narrow, "i64 becomes i32 and f64 becomes f32, which Core ML computes in");
  app->add_option("--description", convert->options.description, "what the package says of itself");
  app->add_option("--author", convert->options.author, "likewise");
  app->add_flag("-q,--quiet", convert->quiet, "print nothing");
  app->footer(
      R"(Prints which op became what, which system the package needs and why, and what is not as it was in the model.

Examples:
  rlx convert model.rlx -o model.mlpackage
  rlx convert all-MiniLM-L6-v2 -o minilm.mlpackage --dim B=1 --dim S=128 --narrow)");
  return {app, [convert] { convert->run(); }};
}

}  // namespace rlx::tools
