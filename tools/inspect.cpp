// `rlx inspect`: what is in a file: a graph's signature, ops and layers; a weight file's tensors; arrays.
#include <algorithm>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>

#include "rlx/artifact.h"
#include "rlx/gguf.h"
#include "rlx/io.h"
#include "rlx/language_model.h"
#include "rlx/op_def.h"
#include "rlx/session.h"
#include "rlx/tokenizer.h"
#include "tools/coreml/package_model.h"
#include "tools/manifest.h"
#include "tools/model_graph.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

struct Inspect {
  std::string model, svg;
  std::vector<std::string> dims;
  bool all = false, json = false, manifest = false;
  void run() const;

  void graph() const;
  void language_model() const;
  void safetensors(const std::string& path) const;
  void gguf() const;
  void npy() const;
  void npz() const;
  void compiled() const;
  std::string as_json() const;
  /// A table of many rows, cut unless all of them were asked for.
  template <class Rows, class Row>
  void list(const std::string& title, const Rows& rows, const std::string& alignment, Row row) const;
};

constexpr size_t kMostRows = 40;

template <class Rows, class Row>
void Inspect::list(const std::string& title, const Rows& rows, const std::string& alignment, Row row) const {
  write_out(title + "\n");
  TextTable table(alignment);
  size_t shown = 0;
  for (const auto& each : rows) {
    if (shown++ == kMostRows && !all) break;
    table.add(row(each));
  }
  write_out(table.text(2));
  if (rows.size() > kMostRows && !all)
    write_out(text_of("  ... and ", rows.size() - kMostRows, " more; --all shows them\n"));
}

std::string storage_text(const Type& type) {
  return is_static(type.dims) ? bytes_text(static_cast<double>(byte_count(type.dtype, shape_of(type.dims)))) : "";
}

/// "add x12, gelu x6"
std::string counted(const std::vector<std::string>& names) {
  std::map<std::string, size_t> counts;
  for (const std::string& name : names) ++counts[name];
  std::string text;
  for (const auto& [name, n] : counts) text += (text.empty() ? "" : ", ") + name + (n > 1 ? text_of(" x", n) : "");
  return text;
}

void Inspect::graph() const {
  Graph g = load_model(model);
  Signature signature = signature_of(g);
  std::vector<std::string> ops;
  for (const Node& node : g.nodes())
    if (!node.op->operands.empty()) ops.emplace_back(node.op->name);
  double elements = 0, bytes = 0;
  for (const auto& param : signature.params)
    if (is_static(param.type.dims)) {
      Shape shape = shape_of(param.type.dims);
      elements += static_cast<double>(element_count(shape));
      bytes += static_cast<double>(byte_count(param.type.dtype, shape));
    }
  write_out(text_of("graph '", line_text(g.name(), 200), "': ", ops.size(), " ops, ", signature.params.size(),
                    " params of ", fixed_text(elements, 0), " elements (", bytes_text(bytes), ")\n"));
  auto entry = [](const Signature::Entry& e) {
    return std::vector<std::string>{line_text(e.name, 200), text_of(e.type), storage_text(e.type)};
  };
  list("inputs", signature.inputs, "lll", entry);
  list("outputs", signature.outputs, "lll", entry);
  list("params", signature.params, "llr", entry);
  write_out("ops\n  " + counted(ops) + "\n");
  list("layers", layers_of(g), "ll", [](const Layer& l) {
    return std::vector<std::string>{line_text(l.name, 200), counted(l.ops)};
  });
  if (const std::string own = weights_of(model); is_folder(model) && own.ends_with(kTrainedParams)) {
    safetensors(own);
  } else if (is_folder(model)) {
    write_out(text_of("tokenizer\n  ", Tokenizer::load(model).vocab_size(), " tokens\n"));
    safetensors((std::filesystem::path(model) / "model.safetensors").string());
  }
}

/// The files of a folder with its weights, in the order of their names.
std::vector<std::string> weight_parts(const std::string& folder) {
  std::vector<std::string> parts;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string();
        name.starts_with("model") && name.ends_with(".safetensors"))
      parts.push_back(entry.path().string());
  std::sort(parts.begin(), parts.end());
  return parts;
}
/// A folder with a language model: what it is, how its matrices are packed, and its tensors.
void Inspect::language_model() const {
  const LanguageModelConfig c = *decoder_config(model);
  const std::string packed = c.packing.text();
  write_out(text_of("language model '", line_text(model, 200), "': ", c.architecture, ", ", c.layers,
                    " layers, hidden ", c.hidden, ", vocabulary ", c.vocabulary, ", context ", c.context, "\n"));
  write_out(text_of("weights\n  ", packed.empty() ? "not packed" : packed, "\n"));
  for (const std::string& part : weight_parts(model)) safetensors(part);
}

void Inspect::safetensors(const std::string& path) const {
  auto file = SafetensorsFile::open(path);
  double bytes = 0;
  for (const auto& entry : file.entries()) bytes += static_cast<double>(entry.byte_count);
  list(text_of("'", path, "': ", file.entries().size(), " tensors, ", bytes_text(bytes)), file.entries(), "llr",
       [](const auto& e) {
         return std::vector<std::string>{line_text(e.name, 200),
                                         text_of(Type{e.dtype, {e.shape.begin(), e.shape.end()}}),
                                         bytes_text(static_cast<double>(e.byte_count))};
       });
  if (!file.metadata().empty())
    list("metadata", file.metadata(), "ll", [](const auto& pair) {
      return std::vector<std::string>{line_text(pair.first, 200), line_text(pair.second, 200)};
    });
}

/// A value on a line: the first items of an array alone, of which there may be 150,000.
std::vector<std::string> metadata_row(const std::string& key, const GgufValue& value) {
  std::string type(gguf_type_name(value)), text;
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    constexpr size_t kShown = 8;
    GgufArray shown = *array;
    std::visit([&](auto& items) { items.resize(std::min(items.size(), kShown)); }, shown.items);
    text = gguf_json(GgufValue(std::move(shown)));
    if (array->size() > kShown) text = text_of(text.substr(0, text.size() - 1), ", ...]");
    type = text_of(array->size(), " values");
  } else if (const auto* own = std::get_if<std::string>(&value)) {
    text = *own;
  } else {
    text = gguf_json(value);
  }
  return {line_text(key, 200), type, line_text(text, 200)};
}

void Inspect::gguf() const {
  const auto file = GgufFile::open(model);
  double bytes = 0;
  for (const auto& entry : file.entries()) bytes += static_cast<double>(entry.byte_count);
  const std::string parts = file.paths().size() > 1 ? text_of(" in ", file.paths().size(), " files") : "";
  list(text_of("'", model, "': GGUF version ", file.version(),
               file.byte_order() == std::endian::big ? ", big-endian" : "", ", ", file.entries().size(), " tensors, ",
               bytes_text(bytes), parts),
       file.entries(), "llr", [](const auto& e) {
         return std::vector<std::string>{line_text(e.name, 200),
                                         text_of(Type{e.dtype, {e.shape.begin(), e.shape.end()}}),
                                         bytes_text(static_cast<double>(e.byte_count))};
       });
  if (!file.metadata().empty())
    list("metadata", file.metadata(), "lll", [](const auto& pair) { return metadata_row(pair.first, pair.second); });
}

std::vector<std::string> array_row(const std::string& name, const Type& type) {
  return {line_text(name, 200), text_of(type), storage_text(type)};
}

void Inspect::npy() const {
  TextTable table("lll");
  table.add(array_row(model, read_npy_type(model)));
  write_out(table.text());
}

void Inspect::npz() const {
  auto file = NpzFile::open(model);
  list(text_of("'", model, "': ", file.names().size(), " arrays"), file.names(), "llr",
       [&](const std::string& name) { return array_row(name, file.type(name)); });
}

/// What a compiled graph says of itself; it need not fit this machine.
void Inspect::compiled() const {
  const ArtifactInfo info = artifact_info(model);
  write_out(text_of("compiled graph '", line_text(info.graph, 200), "' for ", line_text(info.device, 200), " by rlx ",
                    line_text(info.version, 200), ", ", bytes_text(static_cast<double>(info.bytes)), ", ",
                    info.params.size(), " of ", info.signature.params.size(), " params in it\n"));
  list("compiled for", info.facts, "ll", [](const TargetFact& fact) {
    return std::vector<std::string>{line_text(fact.name, 200), line_text(fact.value, 200)};
  });
  if (!info.registered_kernels.empty())
    list("registered kernels", info.registered_kernels, "l",
         [](const std::string& kernel) { return std::vector<std::string>{line_text(kernel, 200)}; });
  auto entry = [](const Signature::Entry& e) {
    return std::vector<std::string>{line_text(e.name, 200), text_of(e.type), storage_text(e.type)};
  };
  list("inputs", info.signature.inputs, "lll", entry);
  list("outputs", info.signature.outputs, "lll", entry);
  list("params", info.signature.params, "llr", entry);
  write_out("ops\n");
  for (const std::string& op : info.ops) write_out("  " + line_text(op, 200) + "\n");
}

/// "[{"name": ..., "type": ...}, ...]"
template <class Rows, class Entry>
std::string json_list(const Rows& rows, Entry entry) {
  std::string text;
  for (const auto& each : rows) {
    const auto [name, type] = entry(each);
    text += (text.empty() ? "" : ",\n  ") +
            ("{\"name\": " + json_text(name) + ", \"type\": " + json_text(text_of(type)) + "}");
  }
  return "[" + text + "]";
}

std::string Inspect::as_json() const {
  using Named = std::pair<std::string, Type>;
  if (is_package(model))
    return "{\"kind\": \"package\", \"description\": " + CoremlModel::load(model).description_json() + "}\n";
  if (is_artifact(model)) return artifact_info(model).json() + "\n";
  if (model.ends_with(".safetensors")) {
    const auto file = SafetensorsFile::open(model);
    std::string metadata;
    for (const auto& [key, text] : file.metadata())
      metadata += (metadata.empty() ? "" : ", ") + json_text(key) + ": " + json_text(text);
    return "{\"kind\": \"safetensors\", \"metadata\": {" + metadata + "}, \"tensors\": " +
           json_list(file.entries(),
                     [](const auto& e) {
                       return Named(e.name, {e.dtype, {e.shape.begin(), e.shape.end()}});
                     }) +
           "}\n";
  }
  if (model.ends_with(".gguf")) {
    const auto file = GgufFile::open(model);
    return text_of("{\"kind\": \"gguf\", \"version\": ", file.version(), ", \"byte_order\": \"",
                   file.byte_order() == std::endian::big ? "big" : "little", "\", \"files\": ", file.paths().size(),
                   ",\n \"metadata\": ", gguf_json(file.metadata()), ",\n \"tensors\": ") +
           json_list(file.entries(),
                     [](const auto& e) {
                       return Named(e.name, {e.dtype, {e.shape.begin(), e.shape.end()}});
                     }) +
           "}\n";
  }
  if (model.ends_with(".npy"))
    return "{\"kind\": \"npy\", \"type\": " + json_text(text_of(read_npy_type(model))) + "}\n";
  if (model.ends_with(".npz")) {
    const auto file = NpzFile::open(model);
    return "{\"kind\": \"npz\", \"arrays\": " +
           json_list(file.names(), [&](const std::string& name) { return Named(name, file.type(name)); }) + "}\n";
  }
  if (const auto config = is_folder(model) ? decoder_config(model) : std::nullopt) {
    const WeightPacking& p = config->packing;
    std::string tensors;
    for (const std::string& part : weight_parts(model)) {
      const auto file = SafetensorsFile::open(part);
      const std::string list = json_list(file.entries(), [](const auto& e) {
        return Named(e.name, {e.dtype, {e.shape.begin(), e.shape.end()}});
      });
      if (!file.entries().empty()) tensors += (tensors.empty() ? "" : ",\n  ") + list.substr(1, list.size() - 2);
    }
    return text_of(
        "{\"kind\": \"language model\", \"architecture\": ", json_text(config->architecture),
        ", \"layers\": ", config->layers, ", \"hidden\": ", config->hidden, ", \"vocabulary\": ", config->vocabulary,
        ", \"context\": ", config->context,
        ",\n \"packing\": {\"method\": ", json_text(std::string(names_of(p.method)[static_cast<size_t>(p.method)])),
        ", \"bits\": ", p.bits, ", \"group\": ", p.group, "},\n \"tensors\": [", tensors, "]}\n");
  }
  const Graph g = load_model(model);
  const Signature signature = signature_of(g);
  std::map<std::string, size_t> counts;
  for (const Node& node : g.nodes())
    if (!node.op->operands.empty()) ++counts[std::string(node.op->name)];
  std::string ops;
  for (const auto& [name, n] : counts) ops += text_of(ops.empty() ? "" : ", ", json_text(name), ": ", n);
  const auto entry = [](const Signature::Entry& e) { return Named(e.name, e.type); };
  return "{\"kind\": \"graph\", \"name\": " + json_text(g.name()) + ", \"ops\": {" + ops +
         "},\n \"inputs\": " + json_list(signature.inputs, entry) +
         ",\n \"outputs\": " + json_list(signature.outputs, entry) +
         ",\n \"params\": " + json_list(signature.params, entry) + "}\n";
}

void Inspect::run() const {
  if (manifest) return print_manifest({model, svg, dims, json, all});
  if (!svg.empty() || !dims.empty()) throw UsageError("--svg and --dim are for --manifest");
  if (json) return write_out(as_json());
  if (is_package(model)) inspect_package(model, all);
  else if (is_folder(model) && decoder_config(model)) language_model();
  else if (is_folder(model)) graph();
  else if (is_artifact(model)) compiled();
  else if (model.ends_with(".safetensors")) safetensors(model);
  else if (model.ends_with(".gguf")) gguf();
  else if (model.ends_with(".npy")) npy();
  else if (model.ends_with(".npz")) npz();
  else graph();
}

}  // namespace

Subcommand add_inspect(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("inspect", "What is in a model or weight file");
  auto inspect = std::make_shared<Inspect>();
  app->add_option(
         "MODEL", inspect->model,
         "a .rlx file, a model folder, a file of `rlx compile`, a Core ML package, or a .safetensors, .gguf, .npy or "
         ".npz file")
      ->required();
  app->add_flag("--all", inspect->all, "show all rows of long lists");
  app->add_flag("--json", inspect->json,
                "print one JSON object: of a graph {kind, name, ops, inputs, outputs, params}, of files of arrays "
                "their names and "
                "types, of a package its description, of a compiled graph what it was compiled for, its types, options "
                "and report; with --manifest the layers, as docs/manifest.md describes them");
  app->add_flag("--manifest", inspect->manifest,
                "of a graph or a language model: its layers with their params, shapes, flops and bytes moved");
  app->add_option("--svg", inspect->svg, "with --manifest: write the layers as a picture, too")->option_text("FILE");
  app->add_option("--dim", inspect->dims, "with --manifest: a number for a symbolic dim; once for each")
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false);
  app->footer(
      R"(Of a graph: inputs, outputs, params with their sizes, ops, and layers by name. `rlx where` says where they run.

Examples:
  rlx inspect all-MiniLM-L6-v2
  rlx inspect Qwen3-8B-AWQ                               # how its matrices are packed, and its tensors
  rlx inspect digits --json                              # as `rlx train ... --out digits` left it
  rlx inspect all-MiniLM-L6-v2 --manifest --dim B=1 --dim S=128 --svg minilm.svg
  rlx inspect weights.safetensors --all
  rlx inspect Qwen3-0.6B-Q4_K_M.gguf                     # one of several parts shows all of them)");
  return {app, [inspect] { inspect->run(); }};
}

}  // namespace rlx::tools
