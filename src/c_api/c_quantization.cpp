// The C ABI of quantization; see rlx/c.h. Configs come as text in the form of attributes, ranges as JSON.
#include <nlohmann/json.hpp>

#include "c_api/handles.h"

namespace {

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;
using rlx::field;

struct ClassText {
  std::string op;
  bool quantize = true;
  int64_t weight_bits = 8, activation_bits = 8;
  RLX_FIELDS(ClassText, field("op", &ClassText::op), field("quantize", &ClassText::quantize),
             field("weight_bits", &ClassText::weight_bits), field("activation_bits", &ClassText::activation_bits));
};
struct QatText {
  rlx::ScaleKind activations = rlx::ScaleKind::fixed, weights = rlx::ScaleKind::per_batch;
  rlx::SteKind ste = rlx::SteKind::clipped_identity;
  bool symmetric = false;
  double decay = 0.99;
  std::vector<std::string> skip;
  std::vector<ClassText> classes;
  RLX_FIELDS(QatText, field("activations", &QatText::activations), field("weights", &QatText::weights),
             field("ste", &QatText::ste), field("symmetric", &QatText::symmetric), field("decay", &QatText::decay),
             field("skip", &QatText::skip), field("classes", &QatText::classes));
};
struct OptionsText {
  rlx::CalibrationMethod method = rlx::CalibrationMethod::min_max;
  double averaging = 0.01, percentile = 99.99;
  int64_t bins = 2048, levels = 128;
  RLX_FIELDS(OptionsText, field("method", &OptionsText::method), field("averaging", &OptionsText::averaging),
             field("percentile", &OptionsText::percentile), field("bins", &OptionsText::bins),
             field("levels", &OptionsText::levels));
};

rlx::QuantizationConfig qat_config_from(const char* text) {
  rlx::QuantizationConfig config;
  if (!text) return config;
  auto c = read_over(QatText{}, text, "config");
  config.activations = c.activations, config.weights = c.weights, config.ste = c.ste;
  config.symmetric = c.symmetric, config.decay = c.decay, config.skip = c.skip;
  for (const ClassText& each : c.classes)
    config.classes[each.op] = {each.quantize, each.weight_bits, each.activation_bits};
  return config;
}
rlx::CalibrationOptions options_from(const char* text) {
  if (!text) return {};
  auto o = read_over(OptionsText{}, text, "options of calibration");
  return {o.method, o.averaging, o.percentile, o.bins, o.levels};
}

}  // namespace

extern "C" {

rlx_status rlx_calibrate(rlx_session* session, const rlx_graph* graph, const char* const* names,
                         const rlx_tensor* const* params, size_t param_count, const char* const* inputs,
                         size_t input_count, const rlx_tensor* const* batches, size_t batch_count, const char* config,
                         const char* options, char** ranges, rlx_error** error) {
  return guarded(error, [&] {
    required(ranges, "ranges");
    if (input_count == 0 && batch_count)
      fail(ErrorCode::invalid_argument, "there are ", batch_count, " batches of no inputs; name those of the graph");
    array_from(inputs, input_count, "inputs");
    if (input_count) check_count(batch_count, input_count * sizeof *batches, "batches");
    if (batch_count) required(batches, "batches");
    std::vector<std::vector<rlx::NamedTensor>> all;
    for (size_t b = 0; b < batch_count; ++b) all.push_back(named(inputs, batches + b * input_count, input_count));
    *ranges =
        own_text(rlx::calibrate(required(graph, "graph").graph, params_from(names, params, param_count), all,
                                qat_config_from(config), options_from(options), required(session, "session").session)
                     .json());
  });
}

rlx_status rlx_ranges_table(const char* ranges, char** table, rlx_error** error) {
  return guarded(error, [&] {
    required(table, "table");
    *table = own_text(rlx::Calibration::from_json(required_text(ranges, "ranges")).table());
  });
}

rlx_status rlx_quantize(const rlx_graph* graph, const char* config, int training, rlx_quantization** quantization,
                        rlx_error** error) {
  return guarded(error, [&] {
    required(quantization, "quantization");
    *quantization = new rlx_quantization{
        rlx::add_quantization(required(graph, "graph").graph, qat_config_from(config), training != 0), {}};
  });
}

rlx_status rlx_quantization_graph(const rlx_quantization* quantization, rlx_graph** graph, rlx_error** error) {
  return guarded(error, [&] {
    required(graph, "graph");
    *graph = new rlx_graph{required(quantization, "quantization").made.graph, {}};
  });
}

rlx_status rlx_quantization_describe(rlx_quantization* quantization, const char** json, rlx_error** error) {
  return guarded(error, [&] {
    required(json, "json");
    rlx_quantization& q = required(quantization, "quantization");
    nlohmann::ordered_json points = nlohmann::ordered_json::array(), groups = nlohmann::ordered_json::array();
    for (const auto& p : q.made.points)
      points.push_back({{"name", p.name}, {"is_weight", p.is_weight}, {"low", p.low}, {"high", p.high}});
    for (const auto& g : q.made.groups())
      groups.push_back({{"params", g.params},
                        {"weight_decay", g.weight_decay ? nlohmann::ordered_json(*g.weight_decay) : nullptr},
                        {"frozen", g.frozen}});
    nlohmann::ordered_json written = nlohmann::ordered_json::object();
    for (const auto& [param, output] : q.made.written) written[param] = output;
    q.json = nlohmann::ordered_json{{"points", points}, {"written", written}, {"groups", groups}}.dump();
    *json = q.json.c_str();
  });
}

rlx_status rlx_quantization_initial(rlx_quantization* quantization, const char* const* names,
                                    const rlx_tensor* const* params, size_t param_count, const char* ranges,
                                    const char** made_names, rlx_tensor** made, size_t room, size_t* count,
                                    rlx_error** error) {
  return guarded(error, [&] {
    rlx_quantization& q = required(quantization, "quantization");
    const auto given = params_from(names, params, param_count);
    const auto values = ranges ? q.made.initial(given, rlx::Calibration::from_json(ranges)) : q.made.initial(given);
    store_named(values, q.json, made_names, made, room, count);
  });
}

void rlx_quantization_free(rlx_quantization* quantization) { delete quantization; }

rlx_status rlx_export_int8(rlx_session* session, const rlx_graph* graph, const char* const* names,
                           const rlx_tensor* const* params, size_t param_count, rlx_graph** int8, char** table,
                           rlx_error** error) {
  return guarded(error, [&] {
    required(int8, "int8");
    auto model = rlx::export_int8(required(graph, "graph").graph, params_from(names, params, param_count),
                                  required(session, "session").session);
    auto made = std::make_unique<rlx_graph>(rlx_graph{std::move(model.graph), {}});
    if (table) *table = own_text(model.table());
    *int8 = made.release();
  });
}

}  // extern "C"
