// See the header.
#include "tools/coreml/case_folder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/mlpackage.h"
#include "rlx/element.h"
#include "rlx/io.h"
#include "tools/coreml/package_inputs.h"
#include "tools/image_input.h"

namespace rlx::tools {
namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> find_cases(const std::string& root) {
  std::error_code error;
  if (!fs::is_directory(root, error)) fail(ErrorCode::not_found, "'", root, "' is no folder");
  std::vector<std::string> all;
  auto options = fs::directory_options::skip_permission_denied;
  for (auto it = fs::recursive_directory_iterator(root, options); it != fs::recursive_directory_iterator(); ++it) {
    if (it->path().extension() == ".mlpackage") it.disable_recursion_pending();
    else if (it->path().filename() == "case.json") all.push_back(it->path().parent_path().string());
  }
  std::sort(all.begin(), all.end());
  return all;
}

CaseFolder CaseFolder::read(const std::string& path) {
  std::string file = (fs::path(path) / "case.json").string();
  std::ifstream in(file);
  if (!in) fail(ErrorCode::not_found, "'", file, "' cannot be read");
  try {
    json j = json::parse(in);
    CaseFolder c;
    c.path = path;
    c.f16 = j.at("precision") == "fp16" || j.value("fp16_inside", false);
    c.inside_unknown = !j.contains("fp16_inside");
    c.atol = j.at("atol"), c.rtol = j.at("rtol");
    if (j.contains("tight") && j["tight"].is_array()) {
      c.tight_atol = j["tight"].at(0), c.tight_rtol = j["tight"].at(1);
    } else {
      c.tight_atol = c.atol, c.tight_rtol = c.rtol;
    }
    if (j.contains("allow_mismatch_ratio") && j["allow_mismatch_ratio"].is_number())
      c.mismatch_ratio = j["allow_mismatch_ratio"];
    if (j.contains("function") && j["function"].is_string()) c.function = j["function"];
    if (j.contains("ops")) c.ops = j["ops"].get<std::map<std::string, int64_t>>();
    for (const json& step : j.at("steps"))
      c.steps.push_back({step.at("in").get<std::map<std::string, std::string>>(),
                         step.at("out").get<std::map<std::string, std::string>>(), step.value("label", std::string())});
    if (std::all_of(c.steps.begin(), c.steps.end(),
                    [](const CaseStep& step) { return step.out.empty() && step.label.empty(); }))
      fail(ErrorCode::parse, "'", file, "' has no step with an output, so there is nothing to compare");
    for (const CaseStep& step : c.steps)
      for (const auto& files : {step.in, step.out})
        for (const auto& [name, each] : files)
          if (fs::path(each).filename() != each || each == "." || each == "..")
            fail(ErrorCode::parse, "'", file, "': '", each, "', the file of '", name, "', is no name in its folder");
    return c;
  } catch (const json::exception& e) {
    fail(ErrorCode::parse, "'", file, "': ", e.what());
  }
}

Difference compare_outputs(const CaseFolder& c, const Tensor& got, const Tensor& expected) {
  // A scalar comes out as [] or as [1]: the same thing here.
  bool same_shape = got.shape() == expected.shape() || (got.element_count() == 1 && expected.element_count() == 1 &&
                                                        got.rank() <= 1 && expected.rank() <= 1);
  if (!same_shape) return {false, text_of("it has ", got.type(), ", expected is ", expected.type()), INFINITY};
  size_t n = expected.element_count();
  double largest = 0x1p-14;
  for (size_t i = 0; i < n; ++i) {
    double e = std::fabs(load_number(expected, i));
    if (std::isfinite(e)) largest = std::max(largest, e);
  }
  bool exact = !is_float(expected.dtype());
  double atol = c.f16 ? c.tight_atol : c.atol, rtol = c.f16 ? c.tight_rtol : c.rtol;
  size_t wrong = 0, worst_at = 0;
  double worst = 0;
  for (size_t i = 0; i < n; ++i) {
    double g = load_number(got, i), e = load_number(expected, i);
    if (g == e || (std::isnan(g) && std::isnan(e))) continue;
    double bound = exact ? 0 : atol + rtol * std::fabs(e);
    if (!exact && c.f16) bound += 4 * 0x1p-10 * std::max(std::fabs(e), largest);
    double away = std::fabs(g - e);
    if (std::isfinite(g) && std::isfinite(e) && away <= bound) continue;  // an infinite number has an infinite bound
    ++wrong;
    double excess = std::isfinite(away) && bound > 0 ? away / bound : INFINITY;
    if (excess > worst || wrong == 1) worst = excess, worst_at = i;
  }
  if (static_cast<double>(wrong) <= c.mismatch_ratio * static_cast<double>(n)) return {};
  std::string place = "[";
  size_t rest = worst_at;
  std::vector<size_t> index;
  for (size_t d = expected.rank(); d-- > 0;) {
    size_t extent = static_cast<size_t>(expected.shape()[d]);
    index.insert(index.begin(), rest % extent), rest /= extent;
  }
  for (size_t d = 0; d < index.size(); ++d) place += text_of(d ? ", " : "", index[d]);
  return {false,
          text_of(wrong, " of ", n, " elements differ, most at ", place, "]: ", load_number(got, worst_at),
                  ", expected ", load_number(expected, worst_at)),
          worst};
}

namespace {
bool holds_f16(const mil::ValueType& type) {
  if (type.dtype == mil::DataType::float16) return true;
  return std::any_of(type.inner.begin(), type.inner.end(), holds_f16);
}
bool holds_f16(const mil::Block& block) {
  for (const mil::Operation& op : block.operations) {
    for (const mil::NamedType& output : op.outputs)
      if (holds_f16(output.type)) return true;
    for (const mil::Block& inner : op.blocks)
      if (holds_f16(inner)) return true;
  }
  return false;
}
/// Cases from before the mark "fp16_inside" do not say it: their programs do.
bool holds_f16(const MlPackage& package) {
  for (const auto& [name, function] : package.model().program.functions) {
    for (const mil::NamedType& input : function.inputs)
      if (holds_f16(input.type)) return true;
    if (holds_f16(function.body())) return true;
  }
  return false;
}
/// An array, or an image: a .png file, or bytes of height x width x channels.
NamedTensor case_input(const std::string& name, const fs::path& file, const WantedInputs& wanted) {
  const bool is_png = file.extension() == ".png";
  Tensor given = is_png ? read_png(file.string()) : read_npy(file.string());
  const auto found = wanted.find(name);
  const bool takes_image = found != wanted.end() && found->second.white.has_value();
  if (is_png && !takes_image)
    fail(ErrorCode::invalid_argument, "the model has no image '", name, "' for the .png file");
  if (takes_image && given.dtype() == u8 && (is_png || is_image_for(given, found->second.type)))
    given = image_as_wanted(name, given, found->second, std::nullopt);
  return {name, std::move(given)};
}
}  // namespace

CaseResult run_case(const CaseFolder& given, const std::string& outputs, bool widen) {
  try {
    CaseFolder c = given;
    CoremlOptions options;
    options.function = c.function, options.f32 = widen, options.threads = 1, options.seed = 0;
    std::string package = (fs::path(c.path) / "model.mlpackage").string();
    if (!c.f16 && c.inside_unknown) c.f16 = holds_f16(MlPackage::open(package));
    CoremlModel model = CoremlModel::load(package, options);
    CoremlState state = model.make_state();
    const WantedInputs wanted = wanted_by(model);
    std::string wrong;  // the first that is; the other steps go on, for who reads the outputs
    for (size_t s = 0; s < c.steps.size(); ++s) {
      std::vector<NamedTensor> inputs;
      for (const auto& [name, file] : c.steps[s].in)
        inputs.push_back(case_input(name, fs::path(c.path) / file, wanted));
      std::vector<NamedTensor> results = model.predict(as_wanted(model, inputs), &state);
      for (const auto& entry : c.steps[s].out) {
        const std::string &name = entry.first, &file = entry.second;
        auto it = std::find_if(results.begin(), results.end(), [&](const NamedTensor& r) { return r.first == name; });
        if (it == results.end()) return {false, text_of("step ", s, ": there is no output '", name, "'")};
        if (!outputs.empty()) {
          fs::create_directories(outputs);
          write_npy((fs::path(outputs) / file).string(), it->second);
        }
        if (!wrong.empty()) continue;
        Difference d = compare_outputs(c, it->second, read_npy((fs::path(c.path) / file).string()));
        if (!d.ok)
          wrong = text_of(c.steps.size() > 1 ? text_of("step ", s, ", ") : "", "output '", name, "': ", d.worst);
      }
      if (c.steps[s].label.empty() || !wrong.empty()) continue;
      const std::optional<std::string> label = label_among(model, results);
      if (!label)
        wrong = text_of("step ", s, ": the label '", c.steps[s].label, "' is expected, and the model has none");
      else if (*label != c.steps[s].label)
        wrong = text_of("step ", s, ": the label is '", *label, "', expected is '", c.steps[s].label, "'");
    }
    return {wrong.empty(), wrong};
  } catch (const std::exception& e) {
    return {false, e.what()};
  }
}

}  // namespace rlx::tools
