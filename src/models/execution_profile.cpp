// Execution profiles: TOML to settings, settings to the options of sessions, compiles and language models; see the
// header.
#include "rlx/execution_profile.h"

#include <algorithm>
#include <set>

#include "io/atomic_file.h"
#include "io/graph_symbols.h"
#include "io/toml_fields.h"
#include "ir/rewrite.h"
#include "models/blocks/cache_dtypes.h"

namespace rlx {
namespace {

constexpr std::string_view kPhases = "phase";

/// Fails for an unknown device, naming the known ones, and for one that is listed twice.
void check_devices(const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names)
    if (const std::string full = Device::parse(name).name(); !seen.insert(full).second)
      fail(ErrorCode::invalid_argument, "device '", full, "' stands there twice");
}

/// Whether the value that `key` has just got makes sense, by itself and beside the others.
void check_setting(const ExecutionSettings& s, std::string_view key) {
  const auto within = [&](int64_t value, int64_t most) {
    if (value < 0 || value > most)
      fail(ErrorCode::invalid_argument, "'", key, "' is ", value, "; it must be 0 to ", most);
  };
  if (key == "device") check_devices(s.device);
  if (key == "threads") within(s.threads, 256);
  if (key == "context") within(s.context, int64_t{1} << 28);
  if (key == "chunk") within(s.chunk, int64_t{1} << 28);
  if (key == "placement")
    for (const std::string& each : s.placement) Device::parse(Placement::parse(each).device);
  if (const auto kept = cache_dtypes(); key == "cache" && std::find(kept.begin(), kept.end(), s.cache) == kept.end())
    fail(ErrorCode::invalid_argument, "'cache' is ", s.cache, "; keys and values are kept in ",
         names_of_cache_dtypes("or"));
  if (key == "shapes" || key == "bounds")
    for (const auto& [symbol, number] : s.shapes)
      if (s.bounds.contains(symbol))
        fail(ErrorCode::invalid_argument, "'", symbol, "' is ", number, " by 'shapes' and at most ",
             s.bounds.at(symbol), " by 'bounds'; give one of them");
}

void check_phase_name(const TomlTree& phase) {
  const bool is_word = !phase.key.empty() && std::all_of(phase.key.begin(), phase.key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (!is_word)
    fail(ErrorCode::parse, "line ", phase.line, ": a phase is called ", quoted_name(phase.key),
         "; its name is made of letters, digits, '_' and '-'");
}

/// The first key for which the two say something different; empty if they agree.
std::string_view difference(const ExecutionSettings& a, const ExecutionSettings& b) {
  std::string_view found;
  for_each_field<ExecutionSettings>([&](auto f) {
    if (found.empty() && f.name != "chunk" && !(a.*f.member == b.*f.member)) found = f.name;
  });
  return found;
}

/// The first device that is available, and what comes before it.
void choose_device(const ExecutionSettings& s, ExecutionOptions& o) {
  if (s.device.empty()) return;
  const std::vector<DeviceInfo> known = devices();
  for (size_t i = 0; i < s.device.size(); ++i) {
    const Device device = Device::parse(s.device[i]);
    if (is_available(device)) {
      o.device = device;
      if (s.device.size() > 1) o.compile.fallback = {s.device.begin() + static_cast<ptrdiff_t>(i) + 1, s.device.end()};
      return;
    }
    const auto same = std::find_if(known.begin(), known.end(), [&](const DeviceInfo& d) { return d.device == device; });
    o.passed_over.push_back(device.name() + ": " + (same != known.end() ? same->description : "it is not available"));
  }
  std::string reasons;
  for (const std::string& each : o.passed_over) reasons += "\n  " + each;
  fail(ErrorCode::unsupported, "none of the devices is available here:", reasons);
}

ExecutionOptions options_of(const ExecutionSettings& s, std::string phase) {
  ExecutionOptions o;
  o.phase = std::move(phase);
  choose_device(s, o);
  o.session = {static_cast<int>(s.threads), s.narrow};
  o.compile.compute = s.compute, o.compile.accuracy = s.accuracy, o.compile.rounding = s.rounding;
  // The environment's choice stays where the settings leave it to the default.
  if (s.kernel_dispatch != KernelDispatch::native) o.compile.kernel_dispatch = s.kernel_dispatch;
  o.compile.mode = s.mode, o.compile.batch_invariant = s.batch_invariant;
  o.compile.strict = s.strict, o.compile.narrow = s.narrow, o.compile.isa = s.isa;
  for (const std::string& each : s.placement) o.compile.placement.push_back(Placement::parse(each));
  o.compile.bounds = s.bounds, o.shapes = s.shapes;
  return o;
}

ExecutionProfile profile_of(const TomlTree& tree) {
  ExecutionProfile profile;
  ExecutionSettings& common = profile.common;
  read_toml_fields(tree, "the head of a profile", common, {kPhases},
                   [&](std::string_view key) { check_setting(common, key); });
  const TomlTree* phases = tree.find(kPhases);
  if (!phases) return profile;
  if (phases->kind != TomlTree::Kind::table)
    fail(ErrorCode::parse, "line ", phases->line, ": 'phase' is ", phases->kind_text(),
         "; phases are tables: [phase.decode]");
  for (const TomlTree& phase : phases->items) {
    check_phase_name(phase);
    ExecutionSettings settings = common;
    read_toml_fields(phase, "[phase." + phase.key + "]", settings, {},
                     [&](std::string_view key) { check_setting(settings, key); });
    profile.phases.emplace_back(phase.key, std::move(settings));
  }
  return profile;
}

}  // namespace

ExecutionProfile ExecutionProfile::parse(std::string_view toml) { return profile_of(parse_toml(toml)); }

ExecutionProfile ExecutionProfile::load(const std::string& path) {
  return with_context([&] { return "reading the execution profile '" + path + "'"; },
                      [&] { return profile_of(read_toml(path)); });
}

std::string ExecutionProfile::toml() const {
  std::string text = toml_fields(common, ExecutionSettings());
  for (const auto& [name, settings] : phases)
    text += (text.empty() ? "[phase." : "\n[phase.") + name + "]\n" + toml_fields(settings, common);
  return text;
}

void ExecutionProfile::save(const std::string& path) const {
  AtomicFile file(path);
  file.write(toml());
  file.commit();
}

const ExecutionSettings& ExecutionProfile::phase(std::string_view name) const {
  if (name.empty() && phases.empty()) return common;
  if (name.empty() && phases.size() == 1) return phases[0].second;
  std::vector<std::string_view> names;
  std::string list;
  for (const auto& [each, settings] : phases) {
    if (each == name) return settings;
    names.push_back(each);
    list += (list.empty() ? "'" : ", '") + each + "'";
  }
  if (name.empty()) fail(ErrorCode::invalid_argument, "the profile has several phases, ", list, ": name one of them");
  fail(ErrorCode::not_found, "the profile has no phase ", quoted_name(name), nearest_names(name, names));
}

ExecutionOptions ExecutionProfile::options(std::string_view name) const {
  const ExecutionSettings& settings = phase(name);
  std::string found(name);
  if (found.empty() && !phases.empty()) found = phases[0].first;
  return with_context(
      [&] { return found.empty() ? std::string("using the execution profile") : "using phase '" + found + "'"; },
      [&] { return options_of(settings, found); });
}

LanguageModel::Options ExecutionProfile::language_model_options(std::string_view name) const {
  const auto of_phase = [&](std::string_view wanted) {
    const auto found =
        std::find_if(phases.begin(), phases.end(), [&](const auto& each) { return each.first == wanted; });
    return found == phases.end() ? nullptr : &found->second;
  };
  const ExecutionSettings *prefill = of_phase("prefill"), *decode = of_phase("decode");
  const bool is_both = name.empty() && prefill && decode;
  if (is_both)
    if (const std::string_view key = difference(*prefill, *decode); !key.empty())
      fail(
          ErrorCode::invalid_argument, "the phases prefill and decode have different values for '", key,
          "', and a language model runs both with one compiled graph; name a phase, or say it at the head of the file");
  const ExecutionSettings& s = is_both ? *prefill : phase(name);
  for (const Bindings* numbers : {&s.shapes, &s.bounds})
    if (!numbers->empty())
      fail(ErrorCode::invalid_argument, "'", numbers == &s.shapes ? "shapes" : "bounds", "' has a number for '",
           numbers->begin()->first,
           "', and a language model has no such sizes to be set: 'chunk' is how many tokens of a prompt it reads at "
           "once, 'context' the most tokens in all");
  const ExecutionOptions o = is_both ? options_of(s, "prefill") : options(name);
  LanguageModel::Options all;
  all.device = o.device, all.threads = o.session.threads, all.compile = o.compile;
  all.context = s.context, all.cache = s.cache;
  if (s.chunk > 0) all.chunk = s.chunk;
  return all;
}

Graph ExecutionOptions::specialized(const Graph& g) const {
  const std::string who = phase.empty() ? "the profile" : "phase '" + phase + "' of the profile";
  for (const Bindings* numbers : {&shapes, &compile.bounds}) require_symbols(g, *numbers, who);
  return shapes.empty() ? g : substitute(g, shapes);
}

CompiledGraph ExecutionOptions::compiled(const Graph& g) const {
  return Session(device, session).compile(specialized(g), compile);
}

}  // namespace rlx
