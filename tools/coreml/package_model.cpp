// See the header.
#include "tools/coreml/package_model.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "io/mlpackage.h"
#include "rlx/element.h"
#include "rlx/io.h"
#include "tools/compare_values.h"
#include "tools/coreml/package_inputs.h"
#include "tools/output.h"
#include "tools/output_folder.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"
#include "tools/values_json.h"

namespace rlx::tools {
namespace fs = std::filesystem;

bool is_package(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  for (const char* extension : {".mlpackage", ".mlmodel", ".mlmodelc", ".zip"})
    if (name.ends_with(extension)) return true;
  return false;
}

namespace {

std::string type_text(const CoremlFeature& f) {
  std::string text = f.kind == "tensor" ? "" : f.kind + " ";
  text += text_of(f.dtype, "[");
  for (size_t i = 0; i < f.shape.size(); ++i)
    text += text_of(i ? ", " : "", f.shape[i] ? std::to_string(*f.shape[i]) : "?");
  return text + "]";
}

/// The folders of `path` whose names are numbers, in their order.
std::vector<std::string> step_folders(const std::string& path) {
  std::vector<std::pair<int64_t, std::string>> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    std::string name = entry.path().filename().string();
    if (!entry.is_directory() || name.empty() || name.size() > 9) continue;
    if (name.find_first_not_of("0123456789") == std::string::npos)
      all.emplace_back(std::stoll(name), entry.path().string());
  }
  if (all.empty()) fail(ErrorCode::not_found, "'", path, "' has no folders 0, 1, 2, ... with the inputs of the steps");
  std::sort(all.begin(), all.end());
  std::vector<std::string> paths;
  for (auto& [number, folder] : all) paths.push_back(std::move(folder));
  return paths;
}

std::string first_numbers(const Tensor& t) {
  std::string text;
  size_t n = t.element_count();
  for (size_t i = 0; i < std::min<size_t>(6, n); ++i) text += text_of(i ? " " : "", load_number(t, i));
  return text + (n > 6 ? " ..." : "");
}

}  // namespace

void run_package(const PackageRun& options, const std::vector<NamedTensor>& inputs) {
  if (!options.steps.empty() && !options.output_file.empty())
    throw UsageError("the outputs of several steps go to --output-dir");
  if (options.compare) {
    if (options.json) throw UsageError("--compare prints a table; `rlx compare --json` prints JSON");
    if (!options.steps.empty()) throw UsageError("--compare is for one prediction, not for --steps");
    auto trace = [&](bool f32) {
      Trace t = trace_package(options.model, options.function, f32, options.threads, inputs);
      t.structure.reset();  // one program: every name is the same value
      return t;
    };
    constexpr double kBound = 1e-2;  // some ten units in the last place of f16
    write_out("as it is written, and in f32:\n" +
              comparison_text(compare_traces(trace(false), trace(true)), kBound, 20));
  }
  CoremlOptions coreml;
  coreml.function = options.function, coreml.f32 = options.f32, coreml.threads = options.threads;
  CoremlModel model = CoremlModel::load(options.model, coreml);
  CoremlState state = model.make_state();
  auto write_step = [&](const std::vector<NamedTensor>& results, const std::string& folder) {
    std::vector<Signature::Entry> entries;
    std::vector<Tensor> tensors;
    NamedTensors named;
    TextTable table("lll");
    for (const auto& [name, tensor] : results) {
      entries.push_back({name, tensor.type()});
      tensors.push_back(tensor);
      named.emplace(name, tensor);
      table.add({name, text_of(tensor.type()), first_numbers(tensor)});
    }
    if (!folder.empty()) OutputFolder(folder, entries).write(tensors);
    if (!options.output_file.empty()) write_safetensors(options.output_file, named);
    const auto label = label_among(model, results);
    if (options.json) return write_out(values_json(entries, tensors, label));
    if (folder.empty() && options.output_file.empty()) write_out(table.text());
    if (label) write_out("label " + line_text(*label, 200) + "\n");
  };
  if (options.steps.empty()) return write_step(model.predict(as_wanted(model, inputs), &state), options.output_dir);
  for (const std::string& folder : step_folders(options.steps)) {
    std::vector<NamedTensor> all = inputs;
    for (const CoremlFeature& f : model.inputs()) {
      bool given = std::any_of(inputs.begin(), inputs.end(), [&](const NamedTensor& t) { return t.first == f.name; });
      if (!given) all.emplace_back(f.name, read_npy((fs::path(folder) / (f.name + ".npy")).string()));
    }
    std::string name = fs::path(folder).filename().string();
    if (options.output_dir.empty() && !options.json) write_out("step " + name + "\n");
    write_step(model.predict(as_wanted(model, all), &state),
               options.output_dir.empty() ? "" : (fs::path(options.output_dir) / name).string());
  }
}

namespace {

struct Weights {
  size_t count = 0;
  double elements = 0, bytes = 0;
};

void count_block(const mil::Block& block, const MlPackage& package, std::map<std::string, size_t>& ops,
                 std::map<std::string, Weights>& weights, std::set<std::pair<std::string, uint64_t>>& seen) {
  auto count = [&](const mil::Value& value) {
    Tensor t;
    if (const auto* blob = std::get_if<mil::BlobRef>(&value.data)) {
      if (!seen.insert({blob->file, blob->offset}).second) return;
      t = package.tensor(value);
    } else if (const auto* tensor = std::get_if<Tensor>(&value.data)) {
      t = *tensor;
    } else {
      return;
    }
    Weights& w = weights[text_of(t.dtype())];
    ++w.count, w.elements += static_cast<double>(t.element_count()), w.bytes += static_cast<double>(t.byte_count());
  };
  for (const mil::Operation& op : block.operations) {
    ++ops[op.type];
    for (const auto& [name, value] : op.attributes)
      if (name != "name") count(value);
    for (const auto& [name, argument] : op.inputs)
      for (const mil::Binding& binding : argument)
        if (const auto* value = std::get_if<mil::Value>(&binding)) count(*value);
    for (const mil::Block& inner : op.blocks) count_block(inner, package, ops, weights, seen);
  }
}

}  // namespace

void inspect_package(const std::string& path, bool all) {
  MlPackage package = MlPackage::open(path);
  const mil::Model& m = package.model();
  write_out(text_of("package '", line_text(path, 200), "': specification version ", m.specification_version, ", ",
                    m.program.functions.size(), " function", m.program.functions.size() == 1 ? "" : "s", "\n"));
  std::map<std::string, Weights> weights;
  std::set<std::pair<std::string, uint64_t>> seen;
  for (const auto& [name, function] : m.program.functions) {
    CoremlOptions options;
    options.function = name;
    CoremlModel model = CoremlModel::load(path, options);
    write_out(text_of("function '", line_text(name, 200), "' (", function.opset, ")\n"));
    TextTable table("lll");
    auto add = [&](const char* what, const std::vector<CoremlFeature>& features) {
      for (const CoremlFeature& f : features) table.add({what, line_text(f.name, 200), type_text(f)});
    };
    add("input", model.inputs()), add("output", model.outputs()), add("state", model.states());
    write_out(table.text(2));
    std::map<std::string, size_t> ops;
    count_block(function.body(), package, ops, weights, seen);
    std::vector<std::pair<size_t, std::string>> sorted;
    for (const auto& [op, count] : ops) sorted.emplace_back(count, op);
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    TextTable histogram("rl");
    for (size_t i = 0; i < sorted.size() && (all || i < 40); ++i)
      histogram.add({std::to_string(sorted[i].first), line_text(sorted[i].second, 200)});
    write_out("ops\n" + histogram.text(2));
    if (!all && sorted.size() > 40) write_out(text_of("  ... and ", sorted.size() - 40, " more; --all shows them\n"));
  }
  TextTable table("lrrr");
  for (const auto& [dtype, w] : weights)
    table.add({dtype, std::to_string(w.count), fixed_text(w.elements, 0) + " elements", bytes_text(w.bytes)});
  write_out("constants by dtype\n" + table.text(2));
  double bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(path, error))
    if (entry.is_regular_file(error)) bytes += static_cast<double>(entry.file_size(error));
  if (fs::is_regular_file(path, error)) bytes = static_cast<double>(fs::file_size(path, error));
  write_out(text_of("sizes\n  model ", bytes_text(static_cast<double>(package.model_bytes())), ", package ",
                    bytes_text(bytes), "\n"));
}

}  // namespace rlx::tools
