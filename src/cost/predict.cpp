// Predictions of how long a graph will run; see rlx/device_speed.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <set>
#include <sstream>

#include "backends/registry.h"
#include "base/log.h"
#include "cost/graph_work.h"
#include "ir/rewrite.h"
#include "passes/hoist_params.h"
#include "rlx/device_speed.h"
#include "rlx/machine.h"
#include "rlx/ops/control.h"
#include "rlx/session.h"

namespace rlx {
namespace {

/// Between two measured sizes the speed follows the logarithm of the size; outside it is the nearest one's.
double speed_at(double size, const std::array<double, 3>& sizes, const std::array<double, 3>& speeds) {
  if (size <= sizes[0]) return speeds[0];
  for (size_t i = 1; i < 3; ++i)
    if (size <= sizes[i])
      return speeds[i - 1] +
             (speeds[i] - speeds[i - 1]) * std::log(size / sizes[i - 1]) / std::log(sizes[i] / sizes[i - 1]);
  return speeds[2];
}
double product_speed(const DeviceSpeeds& s, double flops) {
  const auto of = [](double n) { return 2 * n * n * n; };
  return speed_at(flops, {of(64), of(256), of(1024)},
                  {s.product_64_gflops, s.product_256_gflops, s.product_1024_gflops});
}
double memory_speed(const DeviceSpeeds& s, double bytes) {
  constexpr double kMiB = 1 << 20;
  return speed_at(bytes, {0.75 * kMiB, 12 * kMiB, 192 * kMiB}, {s.near_gbs, s.middle_gbs, s.memory_gbs});
}

/// Microseconds of `amount` at 10^9 a second; none where nothing was measured, or there is nothing to do.
double us_of(double amount, double giga_a_second) {
  return amount > 0 && giga_a_second > 0 ? amount / giga_a_second * 1e-3 : 0;
}

/// What takes the time, by kind.
struct Parts {
  double products = 0, convolutions = 0, attention = 0, elements = 0, nodes = 0, copies = 0, run = 0;
  double sum() const { return products + convolutions + attention + elements + nodes + copies + run; }

  std::string text() const {
    std::vector<std::pair<double, const char*>> all = {{products, "products"},    {convolutions, "convolutions"},
                                                       {attention, "attention"},  {elements, "element-wise and memory"},
                                                       {nodes, "nodes"},          {copies, "copies to and fro"},
                                                       {run, "the run by itself"}};
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::ostringstream out;
    for (const auto& [us, what] : all) {
      const double percent = sum() > 0 ? 100 * us / sum() : 0;
      if (percent >= 1) out << (out.tellp() > 0 ? ", " : "") << what << " " << std::lround(percent) << " %";
    }
    return out.str();
  }
};

Parts predicted(const Graph& g, const DeviceSpeeds& s) {
  Parts parts;
  parts.run = s.run_us;
  bool is_first = true;
  for (const NodeWork& w : work_of(g)) {
    if (w.launches == 0) continue;
    // A node takes as long as the longer of what it computes and what it moves.
    const double moved = us_of(w.bytes, memory_speed(s, w.bytes));
    const double products = us_of(w.product_flops, product_speed(s, w.product_flops));
    const double convolutions = us_of(w.convolution_flops, s.convolution_gflops);
    const double attention = us_of(w.attention_flops, s.attention_gflops);
    const double elements = us_of(w.function_elements, s.function_gelements) +
                            us_of(4 * w.simple_elements, s.near_gbs) + us_of(w.sort_compares, s.sort_gcompares);
    const double contracted = products + convolutions + attention;
    const double rest = std::max(contracted + elements, moved) - contracted;
    parts.products += products, parts.convolutions += convolutions, parts.attention += attention;
    parts.elements += contracted > 0 ? std::min(rest, std::max(elements, moved - contracted)) : rest;
    parts.nodes += s.node_us * (w.launches - std::exchange(is_first, false));
  }
  if (s.copy_gbs > 0)
    for (const auto& types : {g.input_types(), g.output_types()})
      for (const Type& t : types)
        parts.copies += us_of(static_cast<double>(byte_count(t.dtype, shape_of(t.dims))), s.copy_gbs);
  return parts;
}

std::string time_text(double us) {
  std::ostringstream out;
  out << std::setprecision(3) << (us < 1000 ? us : us / 1000) << (us < 1000 ? " us" : " ms");
  return out.str();
}

DevicePrediction prediction_for(const Graph& fixed, const Device& device, int threads, CompileOptions options) {
  if (backend_with(device, options.isa)->target().detail != backend_of(device)->target().detail)
    return {device,
            {},
            text_of("speeds are measured by what the process uses of the processor, not by isa=", options.isa,
                    "; the environment variable RLX_ISA holds the process")};
  options.isa.clear();  // which asks nothing of the other devices
  const DispatchReport report = dispatch_report(fixed, device, options);
  for (const DispatchLine& line : report.lines)
    if (line.verdict == Verdict::missing)
      return {device,
              {},
              text_of("it does not run ", line.op, line.node.empty() ? "" : " '" + line.node + "'", ": ", line.reason)};
  const std::string path = device_speeds_file(device, threads);
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored))
    return {device,
            {},
            threads == 0 ? text_of("it was not measured here: `rlx calibrate` does so")
                         : text_of("it was not measured here with ", threads, threads == 1 ? " thread" : " threads",
                                   ": `rlx calibrate --threads ", threads, "` does so")};
  try {
    const DeviceSpeeds speeds = load_device_speeds(path);
    if (speeds.device != device.name())
      return {device,
              {},
              text_of("the speeds in '", path, "' are those of ", speeds.device, ": `rlx calibrate` makes them anew")};
    const Graph main = hoist_params(legalize(fixed, device, options)).main;
    const Parts parts = predicted(main, speeds);
    const bool has_open_loop = std::any_of(main.nodes().begin(), main.nodes().end(),
                                           [](const Node& node) { return node.op == &op::while_loop; });
    return {device, parts.sum(),
            text_of(time_text(parts.sum()), ": ", parts.text(),
                    has_open_loop ? "; a loop whose trips depend on data counts once" : "")};
  } catch (const Error& e) {
    return {device, {}, e.what()};
  }
}

}  // namespace

std::vector<DevicePrediction> predict_devices(const Graph& g, const Bindings& numbers, int threads,
                                              const CompileOptions& options) {
  std::set<std::string> symbols;
  for (const Type& t : g.input_types())
    for (const Dim& d : t.dims) d.for_each_symbol([&](const std::string& symbol) { symbols.insert(symbol); });
  for (const std::string& symbol : symbols)
    if (!numbers.contains(symbol))
      fail(ErrorCode::invalid_argument, "a prediction for '", g.name(), "' needs a number for its symbol '", symbol,
           "'");
  for (const auto& [symbol, number] : numbers) {
    if (!symbols.contains(symbol))
      fail(ErrorCode::not_found, "a number is given for '", symbol, "', which is no symbol of an input of '", g.name(),
           "'");
    if (number < 1) fail(ErrorCode::invalid_argument, "'", symbol, "' is ", number, "; it is at least 1");
  }
  const Graph fixed = substitute(g, numbers);
  std::vector<DevicePrediction> all;
  for (const DeviceInfo& d : devices())
    if (d.available && !d.is_simulation) all.push_back(prediction_for(fixed, d.device, threads, options));
  std::stable_sort(all.begin(), all.end(), [](const DevicePrediction& a, const DevicePrediction& b) {
    return a.us && (!b.us || *a.us < *b.us);
  });
  return all;
}

Device pick_best_device(const Graph& g, const Bindings& numbers, int threads, std::string* why) {
  const std::vector<DevicePrediction> all = predict_devices(g, numbers, threads);
  const Graph fixed = substitute(g, numbers);
  std::string reasons;
  for (const DevicePrediction& p : all) reasons += text_of("\n  ", p.device, ": ", p.why);
  const auto picked = [&](const Device& device, const char* by) {
    const std::string said = text_of(device, " for '", g.name(), "', ", by, ":", reasons);
    log_message(LogLevel::info, said);
    if (why) *why = said;
    return device;
  };
  if (!all.empty() && all[0].us) return picked(all[0].device, "by the predicted times");
  const Device wished = pick_best_device();
  constexpr const char* kUnmeasured = "the first that runs it, as none of those was measured";
  if (supports(fixed, wished)) return picked(wished, kUnmeasured);
  for (const DevicePrediction& p : all)
    if (supports(fixed, p.device)) return picked(p.device, kUnmeasured);
  fail(ErrorCode::unsupported, "no device here runs all of '", g.name(), "':", reasons);
}

}  // namespace rlx
