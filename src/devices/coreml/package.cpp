// From a graph to a Core ML package: params become constants, passes run for the Core ML target, the program is
// written.
#include <limits>
#include <optional>
#include <set>
#include <sstream>

#include "backends/coreml/coreml.h"
#include "backends/coreml/lowerings.h"
#include "backends/coreml/weights.h"
#include "backends/coreml_framework/framework.h"
#include "compile/pipeline.h"
#include "compile/with_values.h"
#include "devices/coreml/compress_weights.h"
#include "io/mlpackage.h"
#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/change_floats.h"
#include "passes/collapse_rank.h"
#include "rlx/coreml.h"
#include "rlx/version.h"

namespace rlx {
namespace {

constexpr int kOldestIos = 15, kNewestIos = 18, kOldestOpset = 5;

/// Whether iOS 16 has a smaller form for some weights: codes by channel, tables of few numbers, nearest codes.
bool has_weights_of_few_bits(const Graph& g, int opset_for_codes, bool nearest) {
  if (opset_for_codes == kOldestOpset + 1 || (nearest && opset_for_codes > 0)) return true;
  return std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& node) {
    return node.op == &op::constant && coreml::palette_of(node.attrs.as<ConstantAttrs>().value).has_value();
  });
}

/// Whether some constant may be codes.
bool may_have_codes(const Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& node) {
    if (node.op != &op::constant) return false;
    const Tensor& t = node.attrs.as<ConstantAttrs>().value;
    return coreml::are_codes(t.dtype()) && t.element_count() >= coreml::kManyWeights;
  });
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
  for (const auto& [symbol, sizes] : options.shapes) to.sizes[symbol] = {sizes.least, sizes.most, sizes.values};
  to.classes = options.classes;
  to.probabilities = options.probabilities;
  to.descriptions = options.feature_descriptions;
  return to;
}

/// Fails for numbers that are given to symbols which no function has.
void check_dims(const Bindings& dims, const std::vector<const Graph*>& graphs) {
  std::set<std::string> symbols;
  for (const Graph* g : graphs)
    for (const Type& t : g->input_types())
      for (const Dim& d : t.dims) d.for_each_symbol([&](const std::string& s) { symbols.insert(s); });
  std::string known;
  for (const std::string& s : symbols) known += (known.empty() ? "" : ", ") + s;
  for (const auto& entry : dims)
    if (!symbols.contains(entry.first))
      fail(ErrorCode::not_found, "a number is given for ", entry.first, ", which is no symbol of an input; there are ",
           known.empty() ? "none" : known);
}

/// Fails unless every symbol has a number or sizes that the graph takes.
void check_shapes(const Graph& g, const PackageOptions& options) {
  std::set<std::string> symbols;
  for (const Type& t : g.input_types())
    for (const Dim& d : t.dims) d.for_each_symbol([&](const std::string& s) { symbols.insert(s); });
  Bindings least, most;
  std::optional<size_t> length;
  for (const auto& [symbol, sizes] : options.shapes) {
    if (options.dims.contains(symbol))
      fail(ErrorCode::invalid_argument, "the symbol ", symbol, " has a number and sizes; it can have one of these");
    if (!symbols.contains(symbol))
      fail(ErrorCode::not_found, "sizes are given for ", symbol, ", which is no symbol of an input");
    if (length && *length != sizes.values.size())
      fail(ErrorCode::invalid_argument, "the sizes of ", symbol, " are ", sizes.values.size(), " numbers, those of ",
           options.shapes.begin()->first, " ", *length, "; a package has ranges, or lists that are equally long");
    length = sizes.values.size();
    auto bad = [&](int64_t n) { return n < 1 || n > std::numeric_limits<int32_t>::max(); };
    if (bad(sizes.least) || (sizes.most && (bad(*sizes.most) || *sizes.most < sizes.least)) ||
        std::any_of(sizes.values.begin(), sizes.values.end(), bad))
      fail(ErrorCode::invalid_argument, "the sizes of ", symbol, " are no numbers from 1 on, the least first");
    least[symbol] = sizes.values.empty() ? sizes.least : sizes.values.front();
    most[symbol] = !sizes.values.empty() ? sizes.values.back() : sizes.most.value_or(sizes.least);
  }
  for (const std::string& symbol : symbols)
    if (!options.shapes.contains(symbol) && !options.dims.contains(symbol))
      fail(ErrorCode::unsupported, "the symbol ", symbol,
           " has neither a number nor sizes, and a package wants one of these");
  for (const Bindings* bindings : {&least, &most}) {
    Bindings all = options.dims;
    all.insert(bindings->begin(), bindings->end());
    with_context([&] { return std::string("taking the sizes at one end"); }, [&] { return substitute(g, all); });
  }
}

/// What an input or output becomes: the same walk as the two passes take over the signature.
void note_signature(const Graph& before, const Graph& after, std::vector<std::string>& notes) {
  auto note = [&](std::string_view what, const std::string& name, const Type& from, const Type& to) {
    if (is_complex(from.dtype))
      notes.push_back(text_of("the ", what, " '", name, "' is ", from, " in the graph, and '", name, "_re' and '", name,
                              "_im' of ", to, " in the package"));
    else if (is_wide(from, coreml::kMostDims))
      notes.push_back(text_of("the ", what, " '", name, "' is ", from, " in the graph, and ", to,
                              " in the package: its leading dims are joined"));
    else if (from.dtype != to.dtype)
      notes.push_back(
          text_of("the ", what, " '", name, "' is ", from, " in the graph, and ", to.dtype, " in the package"));
  };
  auto in = before.input_types(), new_in = after.input_types();
  for (size_t i = 0, k = 0; i < in.size(); k += is_complex(in[i].dtype) ? 2 : 1, ++i)
    note("input", before.node(before.inputs()[i]).name, in[i], new_in.at(k));
  auto out = before.output_types(), new_out = after.output_types();
  for (size_t i = 0, k = 0; i < out.size(); k += is_complex(out[i].dtype) ? 2 : 1, ++i)
    note("output", before.outputs()[i].name, out[i], new_out.at(k));
}

struct Made {
  coreml::Translated translated;
  DispatchReport dispatch;
};

/// The program of one graph, for `oldest` or, where that is 0, for the oldest system that can run it.
Made translated(const Graph& g, const NamedTensors& params, const PackageOptions& options, int oldest) {
  int minimum = std::max(options.minimum_ios, oldest);
  if (g.outputs().empty())
    fail(ErrorCode::invalid_argument, "the graph '", g.name(), "' has no outputs, and Core ML takes no such program");
  if (minimum && (minimum < kOldestIos || minimum > kNewestIos))
    fail(ErrorCode::invalid_argument, "a minimum of iOS ", minimum, " was asked for; ML Programs are written for iOS ",
         kOldestIos, " to ", kNewestIos);
  if (!options.shapes.empty()) check_shapes(g, options);
  std::vector<std::string> weight_notes;
  const Graph bound = coreml::compress_weights(
      in_precision(with_values(options.dims.empty() ? g : substitute(g, options.dims), params), options.precision),
      options.weights, weight_notes);
  coreml::Options newest{.newest_opset = (minimum ? minimum : kNewestIos) - kOldestIos + kOldestOpset,
                         .narrow = options.narrow,
                         .open_dims = !options.shapes.empty(),
                         .nearest = options.nearest,
                         .native_random = options.native_random};
  if (oldest) newest.oldest_opset = newest.newest_opset;
  struct Legal {
    Pipelined pipelined;
    std::vector<std::string> notes;
  };
  auto legal_for = [&](const coreml::Options& with) {
    Legal legal;
    legal.pipelined = run_pipeline(bound, coreml::target(with), {});
    if (legal.pipelined.report.count(Verdict::missing) == 0) note_signature(bound, legal.pipelined.graph, legal.notes);
    return legal;
  };
  // What reads codes is known of a legal graph only. Claims follow from the newest opset, so the graph may serve again.
  std::optional<Legal> kept;
  int opset_for_codes = 0;
  if (may_have_codes(bound)) {
    kept = legal_for(newest);
    opset_for_codes = coreml::opset_for_weights(kept->pipelined.graph);
  }
  auto made = [&](const coreml::Options& with) -> Made {
    bool fits = kept && with.newest_opset == newest.newest_opset;
    Legal legal = fits ? std::move(*kept) : legal_for(with);
    if (fits) kept.reset();
    require_complete(legal.pipelined.report, false);
    Made result{coreml::translate(legal.pipelined.graph, with, interface_of(options)),
                std::move(legal.pipelined.report)};
    std::vector<std::string>& notes = result.translated.notes;
    notes.insert(notes.begin(), legal.notes.begin(), legal.notes.end());
    notes.insert(notes.begin(), weight_notes.begin(), weight_notes.end());
    return result;
  };
  if (minimum) {
    // Weights are smaller from iOS 16 on, and most of them from iOS 18 on: what was asked for is used for them.
    bool smaller = newest.newest_opset == 8 || has_weights_of_few_bits(bound, opset_for_codes, options.nearest);
    if (smaller) newest.oldest_opset = std::max(newest.oldest_opset, newest.newest_opset);
    return made(newest);
  }
  // The oldest system that can run it: newer operations are used only where nothing older does, or where asked for.
  coreml::Options with = newest;
  std::string reason;
  if (options.precision == PackagePrecision::half) with.oldest_opset = kOldestOpset + 1, reason = "precision f16";
  if (options.weights >= PackageWeights::palette8 && with.oldest_opset == kOldestOpset)
    with.oldest_opset = kOldestOpset + 1, reason = "packed weights";
  if (opset_for_codes > with.oldest_opset) with.oldest_opset = opset_for_codes, reason = "packed weights";
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

std::map<std::string, PackageSizes> package_shapes(const std::string& text) {
  std::map<std::string, PackageSizes> shapes;
  auto number = [](const std::string& word, const std::string& digits) {
    if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
      fail(ErrorCode::invalid_argument, "sizes are NAME=LEAST..MOST, NAME=LEAST.. or NAME=N,N,..., not '", word, "'");
    return std::stoll(digits);
  };
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    size_t equals = word.find('='), dots = word.find("..");
    std::string name = word.substr(0, equals), rest = equals == std::string::npos ? "" : word.substr(equals + 1);
    PackageSizes sizes;
    if (dots != std::string::npos && dots > equals) {
      sizes.least = number(word, word.substr(equals + 1, dots - equals - 1));
      if (dots + 2 < word.size()) sizes.most = number(word, word.substr(dots + 2));
    } else {
      std::istringstream parts(rest + ",");
      for (std::string part; std::getline(parts, part, ',');) sizes.values.push_back(number(word, part));
      if (sizes.values.empty()) number(word, "");
    }
    if (name.empty()) number(word, "");
    if (!shapes.emplace(name, sizes).second)
      fail(ErrorCode::invalid_argument, "the sizes of ", name, " are given twice");
  }
  return shapes;
}

PackageBytes check_model_size(const Graph& g, const NamedTensors& params, const PackageOptions& options) {
  check_dims(options.dims, {&g});
  Made made = translated(g, params, options, 0);
  describe(made.translated.model, options);
  const MlPackageSizes sizes = check_model_size(made.translated.model);
  return {sizes.model, sizes.weights};
}

ChipInfo chip_info() {
  ChipInfo chip{coreml_framework::chip_info(), coreml_framework::is_present(), coreml_framework::ane_available()};
  if (!chip.has_framework)
    chip.why_not =
        "CoreML.framework is on Apple's systems only, and this is none: packages are written, read and run without it";
  return chip;
}
bool ane_available() { return chip_info().has_neural_engine; }

PackageReport write_coreml(const std::string& path, const Graph& g, const NamedTensors& params,
                           const PackageOptions& options) {
  check_dims(options.dims, {&g});
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
  std::vector<const Graph*> graphs;
  for (const PackageFunction& f : functions) graphs.push_back(&f.graph);
  for (const PackageFunction& f : functions) check_dims(f.options.dims, graphs);
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
