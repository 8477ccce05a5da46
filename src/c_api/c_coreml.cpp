// Core ML packages through the C ABI; see rlx/c.h.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "c_api/handles.h"
#include "rlx/coreml.h"

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;
using rlx::text_of;

namespace {

std::string text_or_empty(const char* text) { return text ? text : ""; }

/// Fails for a key that is not among `known`.
void check_keys(const nlohmann::json& object, const char* what, std::initializer_list<std::string_view> known) {
  if (!object.is_object()) fail(ErrorCode::invalid_argument, what, " are a JSON object, not ", object.type_name());
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(ErrorCode::invalid_argument, what, " have no '", key, "'");
}

rlx::PackageImage image_from(const std::string& name, const nlohmann::json& json) {
  check_keys(json, "the properties of an image", {"color", "scale", "bias"});
  rlx::PackageImage image;
  auto color = json.value("color", std::string("rgb"));
  if (color == "bgr") image.color = rlx::PackageImage::Color::bgr;
  else if (color == "gray") image.color = rlx::PackageImage::Color::grayscale;
  else if (color != "rgb")
    fail(ErrorCode::invalid_argument, "the image '", name, "' is rgb, bgr or gray, not '", color, "'");
  image.scale = json.value("scale", 1.0);
  image.bias = json.value("bias", std::vector<double>{});
  return image;
}

/// What the JSON of `rlx_coreml_write_options::features` says.
void read_features(const char* text, rlx::PackageOptions& options) {
  if (!text || !*text) return;
  try {
    auto all = nlohmann::json::parse(text);
    check_keys(all, "the features of a package",
               {"states", "images", "classes", "probabilities", "texts", "native_random", "weights"});
    options.native_random = all.value("native_random", false);
    if (const std::string weights = all.value("weights", std::string()); !weights.empty()) {
      const auto names = names_of(rlx::PackageWeights{});
      const auto found = std::find(names.begin(), names.end(), weights);
      if (found == names.end())
        fail(ErrorCode::invalid_argument, "weights of a package are as_built, int8, int4 or palette8, 6, 4, 2, not '",
             weights, "'");
      options.weights = static_cast<rlx::PackageWeights>(found - names.begin());
    }
    if (all.contains("states"))
      for (const auto& state : all["states"])
        options.states.push_back({state.at(0).get<std::string>(), state.at(1).get<std::string>()});
    if (all.contains("images"))
      for (const auto& [name, image] : all["images"].items()) options.images[name] = image_from(name, image);
    options.classes = all.value("classes", std::vector<std::string>{});
    options.probabilities = all.value("probabilities", std::string());
    options.feature_descriptions = all.value("texts", std::map<std::string, std::string>{});
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::invalid_argument, "the features of a package are not read: ", e.what());
  }
}

rlx::PackagePrecision precision_from(const char* text) {
  if (!text || !*text) return rlx::PackagePrecision::as_built;
  auto names = names_of(rlx::PackagePrecision{});
  auto found = std::find(names.begin(), names.end(), std::string_view(text));
  if (found == names.end())
    fail(ErrorCode::invalid_argument, "a package's precision is f32, f16 or mixed, not '", text, "'");
  return static_cast<rlx::PackagePrecision>(found - names.begin());
}

rlx::PackageOptions package_options_from(const rlx_coreml_write_options* options) {
  auto given = options_of(options);
  rlx::PackageOptions o;
  o.minimum_ios = given.minimum_ios, o.narrow = given.narrow != 0, o.dims = bindings_from(given.dims);
  o.description = text_or_empty(given.description), o.author = text_or_empty(given.author);
  o.version = text_or_empty(given.version), o.license = text_or_empty(given.license);
  o.precision = precision_from(given.precision), o.nearest = given.nearest != 0;
  o.shapes = rlx::package_shapes(text_or_empty(given.shapes));
  read_features(given.features, o);
  return o;
}
rlx::NamedTensors values_in(const char* const* names, const rlx_tensor* const* params, size_t count) {
  rlx::NamedTensors values;
  for (auto& [name, value] : named(names, params, count)) values[name] = std::move(value);
  return values;
}

}  // namespace

rlx::CoremlOptions rlx::c::coreml_options_from(const rlx_coreml_options* options) {
  auto given = options_of(options);
  CoremlOptions o;
  o.function = text_or_empty(given.function), o.f32 = given.f32 != 0, o.threads = given.threads;
  if (given.seeded) o.seed = given.seed;
  return o;
}

extern "C" {

rlx_status rlx_coreml_load(const char* path, const rlx_coreml_options* options, rlx_coreml** model, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(model, "model");
    result = new rlx_coreml{rlx::CoremlModel::load(required_text(path, "path"), coreml_options_from(options))};
  });
}
rlx_status rlx_coreml_description(rlx_coreml* model, const char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    auto& m = required(model, "model");
    std::scoped_lock lock(m.mutex);
    if (m.text.empty()) m.text = m.model.description_json();
    result = m.text.c_str();
  });
}
rlx_status rlx_coreml_placement(const rlx_coreml* model, const char* device, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    const rlx::CoremlModel& m = required(model, "model").model;
    result = own_text(placement_json(m.placement(rlx::Device::parse(required_text(device, "device")))));
  });
}
rlx_status rlx_coreml_make_state(const rlx_coreml* model, rlx_coreml_state** state, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(state, "state");
    result = new rlx_coreml_state{required(model, "model").model.make_state()};
  });
}
rlx_status rlx_coreml_state_read(const rlx_coreml_state* state, const char* name, rlx_tensor** tensor,
                                 rlx_error** error) {
  return guarded(error, [&] {
    const auto& values = required(state, "state").values;
    auto found = values.find(required_text(name, "name"));
    if (found == values.end()) fail(ErrorCode::not_found, "there is no state '", name, "'");
    auto& result = required(tensor, "tensor");
    result = new rlx_tensor{found->second};
  });
}
rlx_status rlx_coreml_state_write(rlx_coreml_state* state, const char* name, const rlx_tensor* tensor,
                                  rlx_error** error) {
  return guarded(error, [&] {
    auto& values = required(state, "state").values;
    auto found = values.find(required_text(name, "name"));
    if (found == values.end()) fail(ErrorCode::not_found, "there is no state '", name, "'");
    const rlx::Tensor& value = required(tensor, "tensor").tensor;
    if (value.type() != found->second.type())
      fail(ErrorCode::shape_mismatch, "the state '", name, "' is ", found->second.type(), ", got ", value.type());
    found->second = value;
  });
}
void rlx_coreml_state_free(rlx_coreml_state* state) { delete state; }

size_t rlx_coreml_output_count(const rlx_coreml* model) { return model ? model->model.outputs().size() : 0; }
const char* rlx_coreml_output_name(const rlx_coreml* model, size_t index) {
  return model && index < model->model.outputs().size() ? model->model.outputs()[index].name.c_str() : nullptr;
}
rlx_status rlx_coreml_predict(rlx_coreml* model, const char* const* names, const rlx_tensor* const* inputs,
                              size_t input_count, rlx_coreml_state* state, rlx_tensor** outputs, size_t output_count,
                              rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(model, "model").model;
    if (output_count != m.outputs().size())
      fail(ErrorCode::invalid_argument, "the model has ", m.outputs().size(), " outputs, got room for ", output_count);
    if (output_count) required(outputs, "outputs");
    auto given = named(names, inputs, input_count);
    auto results = m.predict(given, state ? &state->values : nullptr);
    std::vector<std::unique_ptr<rlx_tensor>> made;
    for (auto& [name, tensor] : results) made.push_back(std::make_unique<rlx_tensor>(rlx_tensor{std::move(tensor)}));
    for (size_t i = 0; i < made.size(); ++i) outputs[i] = made[i].release();
  });
}
rlx_status rlx_coreml_labels(rlx_coreml* model, const char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& m = required(model, "model");
    nlohmann::json labels = m.model.labels();
    if (labels.empty()) labels = m.model.label_numbers();
    auto& text = required(json, "json");
    std::scoped_lock lock(m.mutex);
    if (labels.empty()) text = "[]";  // not known yet, or no classifier
    else {
      if (m.labels.empty()) m.labels = labels.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      text = m.labels.c_str();
    }
  });
}
void rlx_coreml_free(rlx_coreml* model) { delete model; }

rlx_status rlx_coreml_write(const char* path, const rlx_graph* graph, const char* const* names,
                            const rlx_tensor* const* params, size_t param_count,
                            const rlx_coreml_write_options* options, char** report, rlx_error** error) {
  return guarded(error, [&] {
    std::string text = text_of(rlx::write_coreml(required_text(path, "path"), required(graph, "graph").graph,
                                                 values_in(names, params, param_count), package_options_from(options)));
    if (report) *report = own_text(text);
  });
}
rlx_status rlx_coreml_check_model_size(const rlx_graph* graph, const char* const* names,
                                       const rlx_tensor* const* params, size_t param_count,
                                       const rlx_coreml_write_options* options, uint64_t* model_bytes,
                                       uint64_t* weight_bytes, rlx_error** error) {
  return guarded(error, [&] {
    const rlx::PackageBytes sizes = rlx::check_model_size(
        required(graph, "graph").graph, values_in(names, params, param_count), package_options_from(options));
    if (model_bytes) *model_bytes = sizes.model;
    if (weight_bytes) *weight_bytes = sizes.weights;
  });
}
rlx_status rlx_coreml_chip(char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    const rlx::ChipInfo chip = rlx::chip_info();
    const auto truth = [](bool b) { return b ? "true" : "false"; };
    result =
        own_text(text_of("{\"name\": ", rlx::json_quoted(chip.name), ", \"has_framework\": ", truth(chip.has_framework),
                         ", \"has_neural_engine\": ", truth(chip.has_neural_engine),
                         ", \"why_not\": ", rlx::json_quoted(chip.why_not), "}"));
  });
}
void rlx_text_free(char* text) { delete[] text; }

}  // extern "C"
