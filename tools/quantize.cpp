// `rlx quantize`: post-training quantization. A trained model and some of its data become an int8 model, with a table
// of what it did before and what it does now.
#include <algorithm>
#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>

#include "rlx/element.h"
#include "rlx/graph_file.h"
#include "tools/device_option.h"
#include "tools/encoder_options.h"
#include "tools/output.h"
#include "tools/quantization.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"
#include "tools/train/options.h"
#include "tools/train/session.h"
#include "tools/train/verify.h"

namespace rlx::tools {
namespace {

namespace fs = std::filesystem;

bool is_wanted(const Setting& s) {
  const auto keys = {"hold_out", "batch_size", "seed", "out", "missing", "text_columns"};
  if (s.key == "activation_scales" || s.key == "weight_scales" || s.key == "ste" || s.key == "scale_decay")
    return false;
  return s.section == "model" || s.section == "quantize" || std::find(keys.begin(), keys.end(), s.key) != keys.end();
}

struct Quantize {
  explicit Quantize(CLI::App& app)
      : options(app, "linear, mlp, cnn, char_lm, or a .rlx file, with an input 'x' and whatever else has --data",
                is_wanted) {
    app.add_option("--ranges", ranges, "a ranges.json of an earlier run, instead of calibration")->type_name("FILE");
    add_threads_option(app, threads);
    add_device_option(app, device);
    app.add_flag("--json", json,
                 "print {model, examples, float: {loss, accuracy}, int8: {loss, accuracy}}, or of other outputs "
                 "{model, examples, outputs: [{name, moved_by, of}]}");
    app.footer(
        R"(MODEL, data and sections are those of `rlx train`, whose config serves as it is; the params are those of --params, or
of params.safetensors in the folder of --out. What an output named "correct" counts is the accuracy, and a first output that
is one number the loss; of other outputs the table has how far they moved, beside their own root mean square.

The folder of --out gets int8.rlx and int8.safetensors (a graph without params) and ranges.json.

Examples:
  rlx quantize --config examples/mnist_cnn.toml
  rlx quantize model.rlx --params model.safetensors --data x=x.npy --calibration entropy --keep-float 'head*' --out small)");
  }
  void run() const;

  SettingsOptions options;
  std::string ranges, device = default_device();
  int threads = 0;
  bool json = false;
};

/// Every param's value, from the file; a model that nobody trained is not worth quantizing.
void require_trained(const TrainSettings& s, const TrainModel& model) {
  auto file = SafetensorsFile::open(s.params);
  for (Ref r : model.tested.params())
    if (const std::string& name = model.tested.node(r).name; !file.find(name))
      fail(ErrorCode::not_found, "'", s.params, "' has no '", name, "', a param of graph '", model.tested.name(), "'");
}

struct Moved {
  std::string output;
  double difference = 0, size = 0;  // root mean squares
};
/// How far the outputs of one graph are from those of another, over the examples for testing.
std::vector<Moved> moved(const CompiledGraph& before, const CompiledGraph& after, const TrainModel& model,
                         const TrainSettings& s) {
  std::vector<Moved> all;
  std::vector<double> counts;
  for (const auto& o : before.signature().outputs) all.push_back({o.name});
  counts.resize(all.size());
  Loader loader = test_loader(model, s);
  for (int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
    auto inputs = inputs_of(model.tested, loader.next().tensors, s.seed, 0);
    auto x = before.run(inputs), y = after.run(inputs);
    for (size_t i = 0; i < x.size(); ++i) {
      if (!is_float(x[i].dtype())) continue;
      for (size_t e = 0; e < x[i].element_count(); ++e) {
        all[i].difference += std::pow(load_number(x[i], e) - load_number(y[i], e), 2);
        all[i].size += std::pow(load_number(x[i], e), 2);
      }
      counts[i] += static_cast<double>(x[i].element_count());
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const double count = std::max(counts[i], 1.0);
    all[i].difference = std::sqrt(all[i].difference / count), all[i].size = std::sqrt(all[i].size / count);
  }
  return all;
}

void Quantize::run() const {
  TrainSettings s = options.settings();
  check_settings(s);
  if (s.params.empty()) s.params = (fs::path(s.out) / "params.safetensors").string();
  s.params = with_home(s.params);
  const Session session(Device::parse(device), {threads});
  TrainModel model = make_model(s);
  require_trained(s, model);
  const QuantizationConfig config = quantization_config(s, "fixed");
  for (const auto& made : add_quantization(model.tested, config).points)  // of training with fake quantization
    for (const char* of : {".scale", ".zero_point", ".range"})
      if (model.beside.erase(made.name + of) && !json)
        write_out(text_of("'", made.name, of, "' of ", s.params, " is left aside: scales are calibrated anew\n"));
  require_nothing_beside(model);
  const Calibration seen =
      ranges.empty() ? calibrated(model, model.initial, s, config, session) : Calibration::load(ranges);
  Quantization q = add_quantization(model.tested, config);
  NamedTensors params = model.initial;
  params.merge(q.initial(model.initial, seen));
  const Int8Model int8 = export_int8(q.graph, params, session);
  const Graph written = model.answering
                            ? export_int8(add_quantization(*model.answering, config).graph, params, session).graph
                            : int8.graph;

  std::error_code error;
  fs::create_directories(s.out, error);
  const std::string path = (fs::path(s.out) / "int8.rlx").string();
  seen.save((fs::path(s.out) / "ranges.json").string());
  save_graph(path, written);

  CompiledGraph before = session.compile(model.tested);
  before.set_params(model.initial);
  CompiledGraph after = session.compile(int8.graph);
  if (!json) write_out(seen.table() + "\n" + int8.table() + "\n");
  const auto& outputs = model.tested.outputs();
  const Type& first = model.tested.type(outputs.at(0).ref);
  const auto examples = model.data.test ? model.data.test->size() : model.data.train->size();
  std::string told = text_of("{\"model\": ", json_text(path), ", \"examples\": ", examples);
  if (json && first.rank() == 0 && is_float(first.dtype)) {
    for (const auto& [name, graph] : {std::pair("float", &before), {"int8", &after}}) {
      const TestMeans means = test_means(*graph, model, s, 0);
      told += text_of(", \"", name, "\": {\"loss\": ", number_text(means.loss),
                      ", \"accuracy\": ", means.accuracy ? number_text(*means.accuracy) : "null", "}");
    }
    return write_out(told + "}\n");
  }
  if (json) {
    std::string list;
    for (const Moved& m : moved(before, after, model, s))
      list += text_of(list.empty() ? "" : ", ", "{\"name\": ", json_text(m.output),
                      ", \"moved_by\": ", number_text(m.difference), ", \"of\": ", number_text(m.size), "}");
    return write_out(told + ", \"outputs\": [" + list + "]}\n");
  }
  if (first.rank() == 0 && is_float(first.dtype)) {
    TextTable table("ll");
    table.add({"float", test_means(before, model, s, 0).text()});
    table.add({"int8", test_means(after, model, s, 0).text()});
    write_out(table.text());
  } else {
    TextTable table("lrr");
    table.add({"output", "moved by", "of"});
    for (const Moved& m : moved(before, after, model, s))
      table.add({m.output, number_text(static_cast<float>(m.difference)), number_text(static_cast<float>(m.size))});
    write_out(table.text());
  }
  write_out(
      text_of(examples, " examples", model.data.test ? "" : ", those of the calibration", "; ", path, " is written\n"));
}

}  // namespace

Subcommand add_quantize(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("quantize", "Makes an int8 model of a trained one");
  auto quantize = std::make_shared<Quantize>(*app);
  return {app, [quantize] { quantize->run(); }};
}

}  // namespace rlx::tools
