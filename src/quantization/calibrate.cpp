// Ranges of a graph's activations; see rlx/quantization.h.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/atomic_file.h"
#include "io/json_tree.h"
#include "quantization/plan.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormat = "rlx calibration 1";

std::string_view name_of(CalibrationMethod m) { return names_of(m)[static_cast<size_t>(m)]; }

/// The member of an object; fails unless it is there and of that sort.
const JsonTree& member(const JsonTree& object, const char* key, bool (JsonTree::*is)() const) {
  const JsonTree* found = object.find(key);
  if (!found || !(found->*is)()) fail(ErrorCode::parse, "'", key, "' is missing, or is not what it should be");
  return *found;
}
double number(const JsonTree& object, const char* key) { return member(object, key, &JsonTree::is_number).number(); }
int64_t whole(const JsonTree& object, const char* key) {
  const JsonTree& found = member(object, key, &JsonTree::is_integer);
  if (found.is_natural() && found.natural() > uint64_t{std::numeric_limits<int64_t>::max()})
    fail(ErrorCode::parse, "'", key, "' is ", found.natural(), ", more than 64 bits with a sign hold");
  return found.integer();
}

/// " ('its name')", if it has one.
std::string name_in(const JsonTree& entry) {
  const JsonTree* name = entry.find("name");
  return name && name->is_string() ? " ('" + name->string() + "')" : "";
}

Calibration::Entry entry_of(const JsonTree& json) {
  if (!json.is_object()) fail(ErrorCode::parse, "it is no object");
  Calibration::Entry e{member(json, "name", &JsonTree::is_string).string(),
                       {number(json, "least"), number(json, "greatest")},
                       {number(json, "low"), number(json, "high")},
                       whole(json, "count")};
  if (!(e.range.low <= e.range.high)) fail(ErrorCode::parse, "the range goes from ", e.range.low, " to ", e.range.high);
  if (!(e.seen.low <= e.seen.high)) fail(ErrorCode::parse, "what was seen goes from ", e.seen.low, " to ", e.seen.high);
  if (e.count < 0) fail(ErrorCode::parse, "'count' is ", e.count, "; it must be at least 0");
  return e;
}

}  // namespace

const Calibration::Entry& Calibration::at(std::string_view name) const {
  std::string names;
  for (const Entry& e : activations) {
    if (e.name == name) return e;
    names += (names.empty() ? "'" : ", '") + e.name + "'";
  }
  fail(ErrorCode::not_found, "no range of '", name, "' was observed; there are ", names.empty() ? "none" : names);
}

std::string Calibration::table() const {
  size_t width = 10;
  for (const Entry& e : activations) width = std::max(width, e.name.size());
  std::ostringstream out;
  out << std::left << std::setw(static_cast<int>(width)) << "activation" << std::right;
  for (const char* head : {"least", "greatest", "low", "high", "scale"}) out << std::setw(12) << head;
  out << std::setw(12) << "zero point"
      << "\n";
  for (const Entry& e : activations) {
    out << std::left << std::setw(static_cast<int>(width)) << e.name << std::right << std::setprecision(5);
    for (double each : {e.seen.low, e.seen.high, e.range.low, e.range.high}) out << std::setw(12) << each;
    if (e.range.low == 0 && e.range.high == 0) {
      out << "  only zeros\n";
      continue;
    }
    if (!std::isfinite(e.range.high - e.range.low)) {
      out << "  too wide\n";
      continue;
    }
    const CodeScale scale = scale_for(e.range, -128, 127, false);
    out << std::setw(12) << scale.scale << std::setw(12) << scale.zero_point << "\n";
  }
  return out.str();
}

std::string Calibration::json() const {
  Json entries = Json::array();
  for (const Entry& e : activations)
    entries.push_back({{"name", e.name},
                       {"low", e.range.low},
                       {"high", e.range.high},
                       {"least", e.seen.low},
                       {"greatest", e.seen.high},
                       {"count", e.count}});
  Json all = {{"format", kFormat},
              {"method", name_of(options.method)},
              {"averaging", options.averaging},
              {"percentile", options.percentile},
              {"bins", options.bins},
              {"levels", options.levels},
              {"activations", entries}};
  return all.dump(2) + "\n";
}

Calibration Calibration::from_json(std::string_view text) {
  const JsonTree json = json_or_null(text);
  const JsonTree* format = json.find("format");
  if (!format || !format->is_string() || format->string() != kFormat)
    fail(ErrorCode::parse, "they are no ranges: \"format\" is not \"", kFormat, "\"");
  Calibration c;
  const std::string method = member(json, "method", &JsonTree::is_string).string();
  constexpr auto kMethods = names_of(CalibrationMethod{});
  auto known = std::find(kMethods.begin(), kMethods.end(), method);
  if (known == kMethods.end()) fail(ErrorCode::parse, "'", method, "' is no method of calibration");
  c.options = {static_cast<CalibrationMethod>(known - kMethods.begin()), number(json, "averaging"),
               number(json, "percentile"), whole(json, "bins"), whole(json, "levels")};
  const RangeObserver checked(c.options);
  for (const auto& each : member(json, "activations", &JsonTree::is_array).elements())
    c.activations.push_back(
        with_context([&] { return text_of("entry ", c.activations.size(), " of 'activations'", name_in(each)); },
                     [&] { return entry_of(each); }));
  return c;
}

void Calibration::save(const std::string& path) const {
  with_context([&] { return "writing the ranges '" + path + "'"; },
               [&] {
                 AtomicFile file(path);
                 file.write(json());
                 file.commit();
               });
}

Calibration Calibration::load(const std::string& path) {
  return with_context([&] { return "reading the ranges '" + path + "'"; },
                      [&] {
                        auto file = FileBytes::read(path);
                        return from_json({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
                      });
}

Calibration calibrate(const Graph& g, const NamedTensors& params, std::span<const std::vector<NamedTensor>> batches,
                      const QuantizationConfig& config, const CalibrationOptions& options, const Session& device) {
  const quantization::Plan plan = quantization::plan_of(g, config);
  if (batches.empty())
    fail(ErrorCode::invalid_argument, "there are no calibration data: the ranges of ", plan.activations.size(),
         " activations of graph '", g.name(), "' want one batch at least");
  std::vector<Ref> values;
  std::vector<RangeObserver> observers;
  for (const auto& a : plan.activations) {
    values.push_back(a.value);
    observers.emplace_back(options);
  }
  CompiledGraph compiled = device.compile(quantization::with_results(g, values));
  compiled.set_params(params);
  for (size_t b = 0; b < batches.size(); ++b) {
    auto results = compiled.run(batches[b]);
    for (size_t i = 0; i < results.size(); ++i)
      with_context([&] { return text_of("the activation '", plan.activations[i].name, "' in batch ", b); },
                   [&] { observers[i].observe(results[i]); });
  }
  Calibration c{options, {}};
  for (size_t i = 0; i < observers.size(); ++i)
    with_context([&] { return "the activation '" + plan.activations[i].name + "'"; },
                 [&] {
                   const RangeObserver& o = observers[i];
                   c.activations.push_back({plan.activations[i].name, o.seen(), o.range(), o.count()});
                 });
  return c;
}

}  // namespace rlx
