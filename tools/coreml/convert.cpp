// `rlx convert`: a model in the format of another runtime. Nothing is run.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "devices/mlx/function.h"
#include "rlx/coreml.h"
#include "rlx/coreml_model.h"
#include "tools/convert_weights.h"
#include "tools/coreml/package_model.h"
#include "tools/dim_option.h"
#include "tools/model_graph.h"
#include "tools/model_params.h"
#include "tools/output.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

struct Convert {
  std::string model, weights, output;
  std::vector<std::string> dims, shapes, states, images, functions;
  std::string precision = "as_built", compute, classes;
  PackageOptions options;
  WeightsOptions of_weights;
  bool quiet = false, json = false;
  void run();
  void write_function();
};

/// NAME, NAME:bgr, NAME:rgb:SCALE, NAME:gray:SCALE:BIAS: the same scale and bias for each channel.
PackageImage image_of(const std::string& text) {
  std::istringstream parts(text);
  std::string part;
  PackageImage image;
  for (int i = 0; std::getline(parts, part, ':'); ++i) {
    double value = 0;
    bool number = i > 1 && CLI::detail::lexical_cast(part, value);
    if (i == 1 && (part == "rgb" || part == "bgr" || part == "gray"))
      image.color = part == "rgb"   ? PackageImage::Color::rgb
                    : part == "bgr" ? PackageImage::Color::bgr
                                    : PackageImage::Color::grayscale;
    else if (i == 2 && number) image.scale = value;
    else if (i == 3 && number) image.bias.assign(image.color == PackageImage::Color::grayscale ? 1 : 3, value);
    else if (i > 0) throw UsageError("--image takes NAME[:rgb|bgr|gray[:SCALE[:BIAS]]], and got '" + text + "'");
  }
  return image;
}

/// The options for a graph that was read from the package `path`: its inputs that are images stay images, and its
/// states states, unless the options name others. What cannot stay as it was is added to `notes`.
PackageOptions with_features_of(const std::string& path, const Graph& g, PackageOptions options,
                                std::vector<std::string>& notes) {
  const CoremlModel package = CoremlModel::load(path);
  const auto about = nlohmann::json::parse(package.description_json());
  for (const auto& feature : about.at("inputs")) {
    const auto name = feature.at("name").get<std::string>();
    if (feature.at("kind") != "image" || !options.images.empty()) continue;
    const auto color = feature.at("color_space").get<std::string>();
    if (color == "rgb" || color == "bgr" || color == "grayscale")  // the program itself scales what the image holds
      options.images[name].color = color == "rgb"   ? PackageImage::Color::rgb
                                   : color == "bgr" ? PackageImage::Color::bgr
                                                    : PackageImage::Color::grayscale;
    else notes.push_back("input '" + name + "' is an image of " + color + "; it becomes an array");
  }
  for (const auto& feature : about.at("outputs"))
    if (feature.at("kind") == "image")
      notes.push_back("output '" + feature.at("name").get<std::string>() + "' is an image; it becomes an array");
  const size_t states = package.states().size(), outputs = g.outputs().size();
  for (size_t i = 0; options.states.size() < states && i < states; ++i)
    options.states.push_back({package.states()[i].name, g.outputs()[outputs - states + i].name});
  if (const auto& label = about.at("predicted_feature"); label.is_string() && label != "" && options.classes.empty())
    notes.push_back("the package is a classifier, whose labels are not kept: '" + label.get<std::string>() +
                    "' becomes the label's number; --classes FILE writes labels");
  return options;
}

std::string report_json(const std::string& output, const PackageReport& report) {
  std::string notes;
  for (const std::string& note : report.notes) notes += (notes.empty() ? "" : ", ") + json_text(note);
  return text_of("{\"package\": ", json_text(output), ", \"minimum_ios\": ", report.minimum_ios,
                 ", \"needed_by\": ", json_text(report.needed_by), ", \"model_bytes\": ", report.model_bytes,
                 ", \"weight_bytes\": ", report.weight_bytes, ", \"notes\": [", notes,
                 "],\n \"dispatch\": ", report.dispatch.json(), "}\n");
}

/// `rlx convert MODEL -o X.mlxfn`.
void Convert::write_function() {
  const Graph g = load_model(model);
  const Signature signature = signature_of(g);
  const std::vector<std::string> files = weights.empty() ? std::vector<std::string>{} : std::vector{weights};
  write_mlx_function(output, g, read_params(signature, model, files), bindings_of("--dim", dims));
  const uint64_t bytes = std::filesystem::file_size(output);
  if (json)
    write_out(text_of("{\"function\": ", json_text(output), ", \"inputs\": ", signature.inputs.size(),
                      ", \"outputs\": ", signature.outputs.size(), ", \"bytes\": ", bytes, "}\n"));
  else if (!quiet)
    write_out(text_of("'", output, "': a function of MLX's, ", signature.inputs.size(), " inputs, ",
                      signature.outputs.size(), " outputs, ", bytes_text(static_cast<double>(bytes)), "\n"));
}

void Convert::run() {
  if (std::filesystem::path(output).extension() == ".mlxfn") return write_function();
  if (is_weights(output)) return convert_weights(model, output, of_weights, quiet, json);
  if (is_folder_of_gguf(model, output)) return convert_to_folder(model, output, of_weights, quiet, json);
  if (std::filesystem::path(output).extension() != ".mlpackage")
    throw UsageError("-o must name a .mlpackage, a .mlxfn, or a .gguf or .safetensors file of weights, and is '" +
                     output + "'");
  options.dims = bindings_of("--dim", dims);
  std::string all_shapes;
  for (const std::string& each : shapes) all_shapes += each + " ";
  options.shapes = package_shapes(all_shapes);
  for (const std::string& state : states) {
    size_t equals = state.find('=');
    if (equals == std::string::npos) throw UsageError("--state takes INPUT=OUTPUT, and got '" + state + "'");
    options.states.push_back({state.substr(0, equals), state.substr(equals + 1)});
  }
  for (const std::string& image : images) options.images[image.substr(0, image.find(':'))] = image_of(image);
  if (!classes.empty()) {
    std::ifstream lines(classes);
    if (!lines) fail(ErrorCode::not_found, "the file of labels '", classes, "' cannot be read");
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) options.classes.push_back(line);
  }
  auto names = names_of(PackagePrecision{});
  auto chosen = std::find(names.begin(), names.end(), precision);
  if (chosen == names.end()) throw UsageError("--precision is f16, f32 or mixed, and not '" + precision + "'");
  options.precision = static_cast<PackagePrecision>(chosen - names.begin());
  if (!compute.empty()) {
    const auto forms = names_of(PackageWeights{});
    const auto form = std::find(forms.begin(), forms.end(), compute);
    const auto floats = std::find(names.begin(), names.end(), compute);
    if (compute == "as_built" || (form == forms.end() && floats == names.end()))
      throw UsageError("--compute is f32, f16, mixed, int8, int4, palette8, palette6, palette4 or palette2, and not '" +
                       compute + "'");
    if (form != forms.end()) options.weights = static_cast<PackageWeights>(form - forms.begin());
    else if (options.precision != PackagePrecision::as_built && precision != compute)
      throw UsageError("--compute " + compute + " and --precision " + precision + " contradict each other");
    else options.precision = static_cast<PackagePrecision>(floats - names.begin());
  }
  Graph g = load_model(model);
  const std::string file = weights.empty() ? weights_of(model) : weights;
  if (!is_package(model) && shapes.empty())
    for (const Type& type : g.input_types())
      for (const Dim& dim : type.dims)
        dim.for_each_symbol([&](const std::string& symbol) {
          if (!options.dims.contains(symbol))
            throw UsageError("the model runs for any '" + symbol + "', and a package must say for which: --dim " +
                             symbol + "=1, or --shapes " + symbol + "=1..64");
        });
  NamedTensors params;
  if (!file.empty()) params = SafetensorsFile::open(file).tensors();
  std::vector<std::string> notes;
  const auto options_for = [&](const std::string& path, const Graph& graph) {
    return is_package(path) ? with_features_of(path, graph, options, notes) : options;
  };
  std::vector<PackageFunction> all;
  if (!functions.empty()) all.push_back({"main", g, options_for(model, g)});
  for (const std::string& function : functions) {
    size_t equals = function.find('=');
    if (equals == std::string::npos) throw UsageError("--function takes NAME=MODEL, and got '" + function + "'");
    const std::string path = function.substr(equals + 1);
    Graph graph = load_model(path);
    all.push_back({function.substr(0, equals), graph, options_for(path, graph)});
  }
  PackageReport report =
      all.empty() ? write_coreml(output, g, params, options_for(model, g)) : write_coreml(output, all, params);
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  if (json) write_out(report_json(output, report));
  else if (!quiet) write_out(text_of(report));
}

}  // namespace

Subcommand add_convert(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand(
      "convert", "Write a model as a Core ML package or a function of MLX's, or weights in another format");
  auto convert = std::make_shared<Convert>();
  app->add_option(
         "MODEL", convert->model,
         "a .rlx file, a model folder, a folder of `rlx train`, a Core ML package, or weights: .gguf, .safetensors, "
         "the Hugging Face folder of a language model")
      ->required();
  app->add_option("-o,--output", convert->output,
                  "the package to write, X.mlpackage, the function of MLX's, X.mlxfn, which holds the params, or the "
                  "file of weights, X.gguf or X.safetensors; one that is there is replaced. Of X.gguf any other name "
                  "is a new folder of a language model")
      ->required();
  app->add_option("--weights,--params", convert->weights,
                  "a .safetensors file with the params; default: that of the model's folder");
  app->add_option("--dim", convert->dims, "a number for a symbolic dim, NAME=NUMBER; once for each");
  app->add_option(
      "--shapes", convert->shapes,
      "sizes for a symbolic dim that stays open: NAME=LEAST..MOST, NAME=LEAST.., NAME=N,N,...; once for each");
  app->add_option("--minimum-ios", convert->options.minimum_ios, "15 to 18; default: the oldest that can run it");
  app->add_flag("--narrow", convert->options.narrow, "i64 becomes i32 and f64 becomes f32, which Core ML computes in");
  app->add_option("--precision", convert->precision,
                  "f16, f32, or mixed: products in f16, all else in f32; default: as the model has it");
  app->add_option(
      "--compute", convert->compute,
      "in fewer bits: f16, as --precision; int8 or int4: weights as integers with scales; palette8, 6, 4, 2: "
      "as indices of so many bits. With --precision f16 the scales are f16 too");
  app->add_flag("--nearest", convert->options.nearest,
                "blocks that the system asked for has no exact form for become the nearest ones in 8 bits, not floats");
  app->add_flag("--native-random", convert->options.native_random,
                "random numbers by Core ML's own operations: anew in each prediction, whatever the key");
  app->add_option("--state", convert->states, "INPUT=OUTPUT: what lives between predictions; once for each");
  app->add_option("--image", convert->images,
                  "an input that is an image, NAME[:rgb|bgr|gray[:SCALE[:BIAS]]]; once for each");
  app->add_option("--classes", convert->classes, "a file with a label a line: the output is the label of a classifier");
  app->add_option("--probabilities", convert->options.probabilities,
                  "the output with one probability for each label; default: the only output");
  app->add_option("--function", convert->functions,
                  "NAME=MODEL: one more function over the same weights; MODEL is then `main`");
  app->add_option("--description", convert->options.description, "what the package says of itself");
  app->add_option("--author", convert->options.author, "likewise");
  app->add_option(
      "--dequantize", convert->of_weights.dequantize,
      "of weights: write blocks such as q4_k, and packed matrices of folders, as f32, f16 or bf16, which safetensors "
      "needs");
  app->add_option("--quantize", convert->of_weights.quantize,
                  "of weights, to GGUF: write matrices of floats as blocks of q8_0, q4_0, q4_1, q5_0, q5_1, mxfp4 ...");
  app->add_option("--shard-size", convert->of_weights.shard_size,
                  "of weights: write several files, with at most so many bytes of tensors each (5GB, 500MB, 2GiB): "
                  "m-00001-of-00003.gguf, or safetensors with an index");
  app->add_option("--part-bytes", convert->of_weights.shard_size, "the former name of --shard-size")->group("");
  app->add_flag(
      "--json", convert->json,
      "print {file, tensors, bytes, notes} of weights, of a package {package, minimum_ios, needed_by, "
      "model_bytes, weight_bytes, notes, dispatch: {target, nodes}}, of a function {function, inputs, outputs, bytes}");
  app->add_flag("-q,--quiet", convert->quiet, "print nothing");
  app->footer(
      R"(Prints which op became what, which system the package needs and why, and what is not as it was in the model.

Examples:
  rlx convert model.rlx -o model.mlpackage
  rlx convert all-MiniLM-L6-v2 -o minilm.mlpackage --dim B=1 --dim S=128 --narrow
  rlx convert all-MiniLM-L6-v2 -o minilm.mlpackage --shapes B=1..8 --shapes S=1..512 --narrow
  rlx convert digits -o digits.mlpackage --dim N=1       # as `rlx train ... --out digits` left it
  rlx convert Model.mlpackage -o Half.mlpackage --precision f16
  rlx convert Model.mlpackage -o Small.mlpackage --precision f16 --compute int8
  rlx convert all-MiniLM-L6-v2 -o minilm.mlxfn --dim B=1 --dim S=128   # mx.import_function("minilm.mlxfn")
  rlx convert model.gguf -o model.safetensors --dequantize bf16
  rlx convert model.safetensors -o model.gguf --quantize q8_0
  rlx convert Qwen3-0.6B -o qwen3.gguf                   # a folder of a language model, with its tokenizer
  rlx convert Qwen3-0.6B -o qwen3-q8_0.gguf --quantize q8_0
  rlx convert Qwen3-0.6B -o qwen3.gguf --shard-size 2GB
  rlx convert qwen3-q4_k_m.gguf -o Qwen3-0.6B --dequantize bf16)");
  return {app, [convert] { convert->run(); }};
}

}  // namespace rlx::tools
