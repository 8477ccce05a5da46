// From a graph to a Core ML package: params become constants, passes run for the Core ML target, the program is
// written.
#include "backends/coreml/coreml.h"
#include "compile/coreml_pipeline.h"
#include "compile/with_values.h"
#include "io/mlpackage.h"
#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/change_floats.h"
#include "rlx/coreml.h"
#include "rlx/version.h"

namespace rlx {
namespace {

constexpr int kOldestIos = 15, kNewestIos = 18, kOldestOpset = 5;

/// The least elements of a constant that is worth a newer system: below that it hardly counts in bytes.
constexpr size_t kManyElements = 4096;

/// Whether weights are packed that only iOS 18 keeps packed: blocks, and codes that an op widens.
bool has_packed_weights(const Graph& g) {
  for (const Node& node : g.nodes()) {
    bool widens = node.op->name.find("dequant") != std::string_view::npos;
    for (Ref r : node.operands) {
      const Node& operand = g.node(r);
      if (operand.op != &op::constant) continue;
      const Tensor& t = operand.attrs.as<ConstantAttrs>().value;
      bool codes = is_integer(t.dtype()) && info(t.dtype()).bits <= 8 && t.dtype() != boolean;
      if ((is_block(t.dtype()) || (codes && widens)) && t.element_count() >= kManyElements) return true;
    }
  }
  return false;
}

Graph in_precision(const Graph& g, PackagePrecision precision) {
  switch (precision) {
    case PackagePrecision::single: return change_floats(g, {f16, bf16}, f32);
    case PackagePrecision::half: return change_floats(g, {f32, bf16}, f16);
    case PackagePrecision::mixed: return products_in_f16(g);
    default: return g;
  }
}

coreml::Interface interface_of(const PackageOptions& options) {
  coreml::Interface to;
  for (const PackageState& s : options.states) to.states.push_back({s.input, s.output});
  for (const auto& [name, image] : options.images) {
    using Color = mil::Feature::ColorSpace;
    Color color = image.color == PackageImage::Color::rgb   ? Color::rgb
                  : image.color == PackageImage::Color::bgr ? Color::bgr
                                                            : Color::grayscale;
    to.images[name] = {color, image.scale, image.bias};
  }
  to.classes = options.classes;
  to.probabilities = options.probabilities;
  to.descriptions = options.feature_descriptions;
  return to;
}

struct Made {
  coreml::Translated translated;
  DispatchReport dispatch;
};

/// The program of one graph, for `oldest` or, where that is 0, for the oldest system that can run it.
Made translated(const Graph& g, const NamedTensors& params, const PackageOptions& options, int oldest) {
  int minimum = std::max(options.minimum_ios, oldest);
  if (minimum && (minimum < kOldestIos || minimum > kNewestIos))
    fail(ErrorCode::invalid_argument, "a minimum of iOS ", minimum, " was asked for; ML Programs are written for iOS ",
         kOldestIos, " to ", kNewestIos);
  Graph bound =
      in_precision(with_values(options.dims.empty() ? g : substitute(g, options.dims), params), options.precision);
  coreml::Options newest{.newest_opset = (minimum ? minimum : kNewestIos) - kOldestIos + kOldestOpset,
                         .narrow = options.narrow};
  if (oldest) newest.oldest_opset = newest.newest_opset;
  auto made = [&](const coreml::Options& with) -> Made {
    std::vector<std::string> notes;
    Pipelined legal = coreml_pipeline(bound, with, &notes);
    require_complete(legal.report, false);
    Made result{coreml::translate(legal.graph, with, interface_of(options)), std::move(legal.report)};
    result.translated.notes.insert(result.translated.notes.begin(), notes.begin(), notes.end());
    return result;
  };
  if (minimum) {
    newest.oldest_opset = std::max(newest.oldest_opset, newest.newest_opset == 8 ? 8 : kOldestOpset);
    return made(newest);
  }
  // The oldest system that can run it: newer operations are used only where nothing older does, or where asked for.
  coreml::Options with = newest;
  std::string reason;
  if (options.precision == PackagePrecision::half) with.oldest_opset = kOldestOpset + 1, reason = "precision f16";
  if (has_packed_weights(bound)) with.oldest_opset = newest.newest_opset, reason = "packed weights";
  if (!options.states.empty()) with.oldest_opset = newest.newest_opset, reason = "states";
  for (with.newest_opset = with.oldest_opset;; ++with.newest_opset) try {
      Made result = made(with);
      if (result.translated.opset == with.oldest_opset && !reason.empty()) result.translated.opset_needed_by = reason;
      return result;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported || with.newest_opset == newest.newest_opset) throw;
    }
}

void describe(mil::Model& model, const PackageOptions& options) {
  model.metadata = {options.description, options.version, options.author, options.license};
  model.metadata.user.emplace("rlx.version", version());
}

}  // namespace

PackageReport write_coreml(const std::string& path, const Graph& g, const NamedTensors& params,
                           const PackageOptions& options) {
  Made made = translated(g, params, options, 0);
  describe(made.translated.model, options);
  MlPackageSizes sizes = write_mlpackage(path, made.translated.model);
  PackageReport report{std::move(made.dispatch),
                       made.translated.opset - kOldestOpset + kOldestIos,
                       made.translated.opset_needed_by,
                       made.translated.notes,
                       sizes.model,
                       sizes.weights};
  report.precision = options.precision;
  return report;
}

PackageReport write_coreml(const std::string& path, const std::vector<PackageFunction>& functions,
                           const NamedTensors& params) {
  if (functions.empty()) fail(ErrorCode::invalid_argument, "a package has at least one function, and none was given");
  mil::Model model;
  PackageReport report;
  report.minimum_ios = kNewestIos, report.needed_by = "several functions";
  report.precision = functions[0].options.precision;
  for (const PackageFunction& f : functions) {
    Made made = with_context([&] { return "writing the function '" + f.name + "'"; },
                             [&] { return translated(f.graph, params, f.options, kNewestIos); });
    mil::Model& one = made.translated.model;
    bool is_new = model.program.functions.emplace(f.name, std::move(one.program.functions.at("main"))).second;
    if (!is_new) fail(ErrorCode::invalid_argument, "two functions are called '", f.name, "'");
    one.main.name = f.name;
    model.functions.push_back(std::move(one.main));
    model.specification_version = one.specification_version;
    report.dispatch.target = made.dispatch.target;
    for (DispatchLine& line : made.dispatch.lines) report.dispatch.lines.push_back(std::move(line));
    for (std::string& note : made.translated.notes) report.notes.push_back(text_of(f.name, ": ", note));
  }
  model.default_function = functions[0].name;
  describe(model, functions[0].options);
  MlPackageSizes sizes = write_mlpackage(path, model);
  report.model_bytes = sizes.model, report.weight_bytes = sizes.weights;
  return report;
}

std::ostream& operator<<(std::ostream& out, const PackageReport& report) {
  out << report.dispatch << "Runs on iOS " << report.minimum_ios << " (macOS " << report.minimum_ios - 3
      << ") and later";
  if (!report.needed_by.empty()) out << "; needed by " << report.needed_by;
  if (report.precision != PackagePrecision::as_built)
    out << "; computes in " << names_of(report.precision)[static_cast<size_t>(report.precision)]
        << (report.precision == PackagePrecision::mixed ? " precision" : "");
  out << ".\n" << report.model_bytes << " bytes of model, " << report.weight_bytes << " bytes of weights.\n";
  for (const std::string& note : report.notes) out << "Note: " << note << ".\n";
  return out;
}

}  // namespace rlx
