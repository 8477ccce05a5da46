// See the header.
#include "devices/coreml/description.h"

#include "rlx/fields.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;

const char* kind_name(mil::Feature::Kind kind) {
  switch (kind) {
    case mil::Feature::Kind::int64: return "int64";
    case mil::Feature::Kind::real64: return "double";
    case mil::Feature::Kind::string: return "string";
    case mil::Feature::Kind::image: return "image";
    case mil::Feature::Kind::array: return "array";
    case mil::Feature::Kind::dictionary: return "dictionary";
    case mil::Feature::Kind::sequence: return "sequence";
    case mil::Feature::Kind::state: return "state";
    case mil::Feature::Kind::unknown: break;
  }
  return "unknown";
}

const char* color_name(mil::Feature::ColorSpace color) {
  switch (color) {
    case mil::Feature::ColorSpace::grayscale: return "grayscale";
    case mil::Feature::ColorSpace::rgb: return "rgb";
    case mil::Feature::ColorSpace::bgr: return "bgr";
    case mil::Feature::ColorSpace::grayscale_f16: return "grayscale_f16";
    case mil::Feature::ColorSpace::unknown: break;
  }
  return "";
}

/// The tensor of a type, which may stand in a state.
const mil::ValueType& tensor_of(const mil::ValueType& type) {
  return type.kind == mil::ValueType::Kind::state && type.inner.size() == 1 ? type.inner[0] : type;
}

Json program_type(const mil::ValueType& type) {
  const mil::ValueType& t = tensor_of(type);
  Json dims = Json::array();
  for (const mil::Dimension& d : t.dims) dims.push_back(d.size ? Json(*d.size) : Json());
  return {{"dtype", t.kind == mil::ValueType::Kind::tensor ? mil::name_of(t.dtype) : "dictionary"},
          {"shape", std::move(dims)}};
}

Json feature_json(const mil::Feature& f, const std::map<std::string, mil::ValueType>& types) {
  Json ranges = Json::array();
  for (const mil::Feature::Range& r : f.flexibility.ranges)
    ranges.push_back({r.lower, r.upper ? Json(*r.upper) : Json()});
  Json json = {{"name", f.name},
               {"doc", f.doc},
               {"kind", kind_name(f.kind)},
               {"optional", f.optional},
               {"shape", f.shape},
               {"dtype", f.dtype ? Json(std::string(name_of(*f.dtype))) : Json()},
               {"color_space", color_name(f.color_space)},
               {"shapes", f.flexibility.shapes},
               {"ranges", std::move(ranges)},
               {"string_keys", f.string_keys}};
  auto type = types.find(f.name);
  json["program"] = type == types.end() ? Json() : program_type(type->second);
  return json;
}

void count_ops(const mil::Block& block, std::map<std::string, size_t>& counts) {
  for (const mil::Operation& op : block.operations) {
    ++counts[op.type];
    for (const mil::Block& inner : op.blocks) count_ops(inner, counts);
  }
}

}  // namespace

Json description_of(const mil::Model& model, const std::string& function) {
  Json functions = Json::array();
  std::map<std::string, mil::ValueType> types;
  std::vector<std::string> inputs, outputs, states;
  for (const auto& [name, f] : model.program.functions) {
    std::map<std::string, size_t> ops;
    count_ops(f.body(), ops);
    functions.push_back({{"name", name}, {"opset", f.opset}, {"ops", ops}});
    if (name != function) continue;
    for (const mil::NamedType& input : f.inputs) {
      types[input.name] = input.type;
      (input.type.kind == mil::ValueType::Kind::state ? states : inputs).push_back(input.name);
    }
    outputs = f.body().outputs;
    for (const mil::Operation& op : f.body().operations)
      for (const mil::NamedType& output : op.outputs) types[output.name] = output.type;
  }
  const mil::FunctionDescription* description = &model.main;
  for (const mil::FunctionDescription& d : model.functions)
    if (d.name == function) description = &d;
  // What the program takes or gives and the description passes over is an array.
  auto list = [&](const std::vector<mil::Feature>& features, const std::vector<std::string>& named) {
    Json all = Json::array();
    for (const mil::Feature& f : features) all.push_back(feature_json(f, types));
    for (const std::string& name : named)
      if (std::none_of(features.begin(), features.end(), [&](const mil::Feature& f) { return f.name == name; }))
        all.push_back(feature_json({.name = name, .shape = {}, .dtype = {}}, types));
    return all;
  };
  const mil::Metadata& m = model.metadata;
  Json user = Json::object();
  for (const auto& [key, value] : m.user) user[key] = value;
  return {{"specification_version", model.specification_version},
          {"type", "mlProgram"},
          {"function", function},
          {"default_function", std::string(model.default_function_name())},
          {"functions", std::move(functions)},
          {"metadata",
           {{"description", m.description},
            {"version", m.version},
            {"author", m.author},
            {"license", m.license},
            {"user", std::move(user)}}},
          {"predicted_feature", description->predicted_feature},
          {"predicted_probabilities", description->predicted_probabilities},
          {"inputs", list(description->inputs, inputs)},
          {"outputs", list(description->outputs, outputs)},
          {"states", list(description->states, states)}};
}

}  // namespace rlx
