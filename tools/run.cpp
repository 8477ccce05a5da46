// `rlx run`: runs a graph on arrays from files, and writes what it gives to files.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/atomic_file.h"
#include "rlx/artifact.h"
#include "rlx/coreml_model.h"
#include "rlx/element.h"
#include "rlx/io.h"
#include "rlx/session.h"
#include "tools/coreml/package_inputs.h"
#include "tools/coreml/package_model.h"
#include "tools/device_option.h"
#include "tools/dim_option.h"
#include "tools/encoder_options.h"
#include "tools/execution_option.h"
#include "tools/image_input.h"
#include "tools/model_graph.h"
#include "tools/model_params.h"
#include "tools/npz_limit.h"
#include "tools/output.h"
#include "tools/output_folder.h"
#include "tools/run_pipeline.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"
#include "tools/values_json.h"

namespace rlx::tools {
namespace {

struct Run {
  explicit Run(CLI::App& app);
  void run();
  std::vector<NamedTensor> read_inputs(const WantedInputs& wanted) const;
  NamedTensor as_input(const std::string& name, Tensor array, bool is_image, const WantedInputs& wanted) const;
  void bind_params(CompiledGraph& compiled) const;
  CompiledGraph compiled_model() const;

  std::string model, output_dir, output_file, profile, device = default_device(), function, steps, precision = "f16";
  std::vector<std::string> params, inputs;
  int threads = 0;
  std::optional<double> white;
  bool compare = false, json = false;
  CompileOptions compile = CompileOptions::from_environment();
  const CLI::Option* device_option = nullptr;
  std::optional<ExecutionOption> execution;
};

Run::Run(CLI::App& app) {
  app.add_option("MODEL", model,
                 "a .rlx file, a model folder, a folder of `rlx train`, a compiled graph of `rlx compile`, or a Core "
                 "ML package "
                 "(.mlpackage), or a pipeline (.toml)")
      ->required();
  app.add_option(
         "--input", inputs,
         "an input's array: NAME=FILE.npy, or an image: NAME=FILE.png; or all at once: FILE.npz, FILE.safetensors; "
         "may be repeated")
      ->allow_extra_args(false)
      ->option_text("NAME=FILE");
  app.add_option_function<double>(
         "--white", [this](const double& x) { white = x; },
         "what 255 becomes where an image goes into an input of floats: 1 or 255, as the model was trained")
      ->option_text("X")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", json,
               "print one JSON object, {outputs: [{name, dtype, shape, values}]}, values in row-major order");
  app.add_option("--params", params, "safetensors files with the params, by name; may be repeated")
      ->allow_extra_args(false)
      ->option_text("FILE");
  app.add_option("--output-dir", output_dir, "write each output to DIR/<name>.npy")->type_name("DIR");
  app.add_option("--output", output_file, "write all outputs to one safetensors file")->type_name("FILE");
  app.add_option("--profile", profile, "time one run step by step: a trace for ui.perfetto.dev, and a table")
      ->type_name("FILE");
  app.add_option("--function", function, "of a Core ML package with several functions")->type_name("NAME");
  app.add_option("--steps", steps,
                 "of a Core ML package: a prediction for each of DIR/0, DIR/1, ... on their <input>.npy")
      ->type_name("DIR");
  app.add_option("--precision", precision, "of a Core ML package: f16 as it is written, or f32 (default f16)")
      ->option_text("P")
      ->check(CLI::IsMember({"f16", "f32"}));
  app.add_flag("--compare", compare, "of a Core ML package: a table of ops beside the same in f32 (more: rlx compare)");
  add_threads_option(app, threads);
  device_option = add_device_option(app, device);
  add_accuracy_options(app, compile);
  add_split_options(app, compile);
  add_bound_option(app, compile);
  execution.emplace(app);
  app.footer(
      R"(Params that stand in several files are taken from the first; a model folder and one that `rlx train` wrote have their own, and a
compiled graph those that it carries; it runs on the device that it was compiled for. Without --output-dir and --output, the outputs' types and
first values are printed. An image, a PNG file or an array of height x width x channels, gets the dims that its input
has: channels in front or behind, a first dim of 1 or none. It is not resized.

Examples:
  rlx run model.rlx --params weights.safetensors --input x=x.npy --output-dir out
  rlx run digits --input x=x.npy                         # as `rlx train mlp ... --out digits` left it
  rlx run model.rlx --input feeds.npz --output result.safetensors --profile trace.json
  rlx run model.rlx --params weights.safetensors --input x=x.npy --execution profile.toml:decode
  rlx run pipeline.toml --input texts=lines.txt --json   # a text a line; docs/pipelines.md
  rlx run model.rlxc --input x=x.npy                     # as `rlx compile model.rlx -o model.rlxc` left it
  rlx run Model.mlpackage --input x=x.npy
  rlx run digits --input x=seven.png --white 1
  rlx run Decoder.mlpackage --function decode --steps tokens --output-dir out)");
}

NamedTensor Run::as_input(const std::string& name, Tensor array, bool is_image, const WantedInputs& wanted) const {
  const auto found = wanted.find(name);
  if (found == wanted.end() ||
      (!is_image && (!is_image_for(array, found->second.type) || (found->second.white && array.dtype() != u8)))) {
    if (is_image) fail(ErrorCode::not_found, "the model has no input '", name, "' for the image");
    return {name, std::move(array)};
  }
  return {name, image_as_wanted(name, array, found->second, white)};
}

std::vector<NamedTensor> Run::read_inputs(const WantedInputs& wanted) const {
  std::vector<NamedTensor> all;
  auto add_all = [&](NamedTensors tensors) {
    for (auto& [name, tensor] : tensors) all.push_back(as_input(name, std::move(tensor), false, wanted));
  };
  for (const std::string& word : inputs) {
    size_t equals = word.find('=');
    if (equals != std::string::npos && equals > 0)
      with_context([&] { return text_of("reading input '", word.substr(0, equals), "'"); },
                   [&] {
                     const std::string name = word.substr(0, equals), file = word.substr(equals + 1);
                     const bool is_image = file.ends_with(".png") || file.ends_with(".PNG");
                     all.push_back(as_input(name, is_image ? read_png(file) : read_npy(file), is_image, wanted));
                   });
    else if (word.ends_with(".npz")) add_all(NpzFile::open(word, npz_limit).arrays());
    else if (word.ends_with(".safetensors")) add_all(SafetensorsFile::open(word).tensors());
    else throw UsageError("--input is NAME=FILE.npy, NAME=FILE.png, FILE.npz or FILE.safetensors, not '" + word + "'");
  }
  return all;
}

void Run::bind_params(CompiledGraph& compiled) const {
  if (compiled.all_params_bound() && params.empty()) return;  // as a compiled graph in a file may be
  const Signature& signature = compiled.signature();
  const std::vector<std::string> carried =
      is_artifact(model) ? artifact_info(model).params : std::vector<std::string>();
  const NamedTensors values = read_params(signature, model, params, carried);
  for (const auto& [name, value] : values)
    with_context([&name = name] { return text_of("binding param '", name, "'"); },
                 [&, &name = name, &value = value] { compiled.set_param(name, value); });
  if (compiled.all_params_bound()) return;
  fail(ErrorCode::invalid_argument, "params are not bound: ", missing_params(signature, values, carried),
       "; give a file that has them: --params FILE.safetensors");
}

/// The graph, compiled; or what `rlx compile` made of it.
CompiledGraph Run::compiled_model() const {
  if (!is_artifact(model))
    return Session(Device::parse(device), {threads}).compile(execution->specialized(load_model(model)), compile);
  if (asks_for_numbers(compile) || !compile.placement.empty() || execution->is_given())
    throw UsageError(
        "--execution, --accuracy, --compute, --batch-invariant, --narrow, --isa and --place are for `rlx compile`: '" +
        model + "' is compiled already");
  const std::string meant = device_option->count() > 0 ? device : artifact_info(model).device;
  return Session(Device::parse(meant), {threads}).load(model);
}

/// "f32[2, 3]  0.5 1.25 ..."
std::string first_values(const Tensor& tensor) {
  std::string text;
  auto add = [&](auto example) {
    using T = decltype(example);
    auto values = tensor.values<T>();
    for (size_t i = 0; i < std::min<size_t>(6, values.size()); ++i) text += text_of(i ? " " : "", +values[i]);
    if (values.size() > 6) text += " ...";
  };
  switch (tensor.dtype()) {
    case DType::f32: add(0.0f); break;
    case DType::f64: add(0.0); break;
    case DType::i64: add(int64_t{}); break;
    case DType::i32: add(int32_t{}); break;
    case DType::boolean: add(bool{}); break;
    default: break;  // the type says enough
  }
  return text;
}

void Run::run() {
  execution->apply(device, &threads, &compile);
  if (!output_dir.empty() && !output_file.empty()) throw UsageError("give either --output-dir or --output, not both");
  if (model.ends_with(".toml")) {
    if (!params.empty() || !profile.empty() || !function.empty() || !steps.empty() || compare || white)
      throw UsageError(
          "--params, --profile, --function, --steps, --compare and --white are not for pipelines, whose stages have "
          "settings of their own");
    return run_pipeline({model, inputs, output_dir, output_file, json, {Device::parse(device), threads, compile}});
  }
  if (is_package(model)) {
    if (!params.empty() || !profile.empty())
      throw UsageError("--params and --profile are for graphs, not for packages");
    if (asks_for_numbers(compile) || execution->is_given())
      throw UsageError(
          "--execution, --accuracy, --compute, --batch-invariant, --narrow and --isa are for graphs, not for packages; "
          "convert the package "
          "first: "
          "rlx convert PACKAGE GRAPH.rlx");
    CoremlOptions wanted_from;
    wanted_from.function = function;
    return run_package({model, function, steps, output_dir, output_file, precision == "f32", threads, compare, json},
                       read_inputs(inputs.empty() ? WantedInputs() : wanted_by(CoremlModel::load(model, wanted_from))));
  }
  if (!function.empty() || !steps.empty() || compare)
    throw UsageError("--function, --steps and --compare are for Core ML packages");
  CompiledGraph compiled = compiled_model();
  const Signature& signature = compiled.signature();
  // All that can be known to fail is tried before anything is run.
  std::optional<OutputFolder> folder;
  if (!output_dir.empty()) folder.emplace(output_dir, signature.outputs);
  for (const std::string& path : {output_file, profile})
    if (!path.empty()) AtomicFile probe(path);
  bind_params(compiled);
  WantedInputs wanted;
  for (const auto& input : signature.inputs) wanted.emplace(input.name, WantedInput{input.type, std::nullopt, false});
  std::vector<NamedTensor> given = read_inputs(wanted);
  std::vector<Tensor> results = compiled.run(given);

  if (folder) folder->write(results);
  NamedTensors named;
  TextTable table("lll");
  for (size_t i = 0; i < results.size(); ++i) {
    named.emplace(signature.outputs[i].name, results[i]);
    table.add({signature.outputs[i].name, text_of(results[i].type()), first_values(results[i])});
  }
  if (!output_file.empty()) write_safetensors(output_file, named);
  if (json) write_out(values_json(signature.outputs, results));
  else if (!folder && output_file.empty()) write_out(table.text());
  if (profile.empty()) return;
  Profile times = compiled.profile(given);
  times.write_perfetto(profile);
  if (!json) write_out(times.table());
}

}  // namespace

Subcommand add_run(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("run", "Runs a graph on arrays from files");
  auto run = std::make_shared<Run>(*app);
  return {app, [run] { run->run(); }};
}

}  // namespace rlx::tools
