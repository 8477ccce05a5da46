// See the header.
#include "tools/coreml/package_inputs.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "rlx/element.h"

namespace rlx::tools {
namespace {

Tensor with_dtype(const std::string& name, const Tensor& t, DType dtype) {
  Tensor out = Tensor::uninitialized(dtype, t.shape());
  for (size_t i = 0; i < t.element_count(); ++i) {
    double value = load_number(t, i);
    if (is_float(dtype)) {
      store<double>(out, i, value);
      continue;
    }
    // A number beyond every integer is stored as none; what is stored is compared.
    bool fits = std::abs(value) < 0x1p53 && value == std::trunc(value);
    if (dtype == boolean) out.mutable_values<bool>()[i] = value != 0;
    else if (fits) store<int64_t>(out, i, static_cast<int64_t>(value));
    if (!fits || load_number(out, i) != value)
      fail(ErrorCode::shape_mismatch, "input '", name, "' is of ", dtype, ", and the array of ", t.dtype(), " holds ",
           value);
  }
  return out;
}

}  // namespace

bool is_number(DType dtype) { return is_byte_sized(dtype) && !is_complex(dtype) && info(dtype).bits <= 64; }

std::vector<NamedTensor> as_wanted(const CoremlModel& model, const std::vector<NamedTensor>& given) {
  std::vector<Signature::Entry> inputs;
  for (const CoremlFeature& f : model.inputs()) inputs.push_back({f.name, {f.dtype, {}}});
  return as_wanted(inputs, given);
}

std::vector<NamedTensor> as_wanted(const std::vector<Signature::Entry>& inputs, const std::vector<NamedTensor>& given) {
  std::vector<NamedTensor> all = given;
  for (auto& [name, tensor] : all)
    for (const Signature::Entry& input : inputs)
      if (const DType dtype = input.type.dtype;
          input.name == name && tensor.dtype() != dtype && is_number(tensor.dtype()) && is_number(dtype))
        tensor = with_dtype(name, tensor, dtype);
  return all;
}

WantedInputs wanted_by(const CoremlModel& model) {
  WantedInputs all;
  const auto about = nlohmann::json::parse(model.description_json());
  for (const CoremlFeature& f : model.inputs()) {
    WantedInput wanted{{f.dtype, {}}, std::nullopt, false};
    for (size_t i = 0; i < f.shape.size(); ++i)
      wanted.type.dims.push_back(f.shape[i] ? Dim(*f.shape[i]) : Dim::symbol("n" + std::to_string(i)));
    if (f.kind == "image") wanted.white = 255;
    for (const auto& described : about.at("inputs"))
      if (described.at("name") == f.name && described.contains("color_space"))
        wanted.is_bgr = described.at("color_space") == "bgr";
    all.emplace(f.name, std::move(wanted));
  }
  return all;
}

std::optional<std::string> label_among(const CoremlModel& model, const std::vector<NamedTensor>& results) {
  std::vector<std::string> labels = model.labels();
  if (labels.empty()) return std::nullopt;
  auto described = nlohmann::json::parse(model.description_json());
  auto predicted = described.at("predicted_feature").get<std::string>();
  for (const auto& [name, tensor] : results) {
    if (name != predicted || !is_integer(tensor.dtype()) || tensor.element_count() != 1) continue;
    int64_t place = load_index(tensor, 0);
    if (place >= 0 && place < static_cast<int64_t>(labels.size())) return labels[static_cast<size_t>(place)];
  }
  return std::nullopt;
}

}  // namespace rlx::tools
