// Reads and writes the file of `rlx calibrate`, and derives the kernels' cost model from it. The measurements are in
// measure_machine.cpp.
#include "backends/cpu/machine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstring>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "base/hash.h"
#include "base/log.h"
#include "io/calibration_file.h"
#include "kernels/cost_model.h"
#include "kernels/threads/thread_pool.h"
#include "rlx/error.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kMachineFormat = "rlx machine 3";

struct Measured {
  const char *name, *what, *unit;
  double MachineSpeeds::*value;
  double max;  ///< more than any machine reaches; a larger number means that the file is damaged
};
constexpr Measured kFields[] = {
    {"small_product_gflops", "f32 product, 64 x 64 x 64", "GF/s", &MachineSpeeds::small_product_gflops, 1e6},
    {"product_gflops", "f32 product, 1024 x 1024 x 1024", "GF/s", &MachineSpeeds::product_gflops, 1e6},
    {"product_half_gflops", "the same by half of the threads", "GF/s", &MachineSpeeds::product_half_gflops, 1e8},
    {"product_all_gflops", "the same by all threads", "GF/s", &MachineSpeeds::product_all_gflops, 1e8},
    {"attention_gflops", "attention, 12 heads, 256 positions", "GF/s", &MachineSpeeds::attention_gflops, 1e6},
    {"reduction_gbs", "sums of rows in the cache", "GB/s", &MachineSpeeds::reduction_gbs, 1e5},
    {"hand_over_us", "handing tasks to all threads", "us", &MachineSpeeds::hand_over_us, 1e6},
    {"tile_rows", "rows that pay for matrix tiles", "", &MachineSpeeds::tile_rows, 1 << 20},
};

}  // namespace

kernels::CostModel cost_model_of(const MachineSpeeds& s) {
  // A task should take several times as long as handing it to another thread. Estimates of work other than products are
  // nanoseconds on a machine that sums rows in its cache at 137 GB/s; slower machines need fewer of them to fill a
  // task.
  constexpr double kHandOvers = 4, kReduction_gbs = 137;
  kernels::CostModel model;
  const double task_us = kHandOvers * s.hand_over_us;
  if (task_us > 0 && s.small_product_gflops > 0)
    model.task_work = static_cast<int64_t>(std::clamp(task_us * s.small_product_gflops * 500, double{1 << 16},
                                                      double{1 << 22}));  // a multiply-add is two operations
  if (task_us > 0 && s.reduction_gbs > 0)
    model.split_ns = std::clamp(task_us * 1000 * s.reduction_gbs / kReduction_gbs, 1000.0, 100000.0);
  if (s.attention_gflops > 0) model.attention_ns = std::clamp(2 / s.attention_gflops, 0.0005, 2.0);
  if (s.tile_rows > 0) model.tile_rows = static_cast<int64_t>(std::max(1.0, std::round(s.tile_rows)));
  // Two threads of one core share its multipliers (simultaneous multithreading). If all threads are then no faster than
  // half of them, the other half only costs time for handing work over.
  constexpr double kNoFaster = 0.97;
  if (s.threads > 1 && s.product_all_gflops > 0 && s.product_half_gflops >= kNoFaster * s.product_all_gflops)
    model.threads = s.threads / 2;
  return model;
}

std::string processor_name() {
#if defined(__x86_64__)
  unsigned r[4] = {};
  char brand[49] = {};
  for (unsigned i = 0; i < 3; ++i)
    if (__get_cpuid(0x80000002 + i, &r[0], &r[1], &r[2], &r[3])) std::memcpy(brand + 16 * i, r, 16);
  unsigned model = 0, rest = 0;
  __get_cpuid(1, &model, &rest, &rest, &rest);
  std::string name(brand);
  while (!name.empty() && (name.back() == ' ' || name.back() == '\0')) name.pop_back();
  std::ostringstream text;
  text << name << ", model " << std::hex << model;
  return text.str();
#elif defined(__APPLE__)
  char brand[128] = {};
  size_t size = sizeof brand - 1;
  return sysctlbyname("machdep.cpu.brand_string", brand, &size, nullptr, 0) == 0 ? brand : "unknown processor";
#else
  // The processor's name is "model name". ARM has none; there it is the numbers of the implementer and the part.
  std::ifstream in("/proc/cpuinfo");
  std::string name;
  for (std::string line; std::getline(in, line) && !line.empty();)
    for (const char* key : {"model name", "CPU implementer", "CPU part", "uarch"})
      if (line.starts_with(key)) name += (name.empty() ? "" : ", ") + line.substr(line.find(':') + 1);
  return name.empty() ? "unknown processor" : name;
#endif
}

std::string machine_file() {
  const std::filesystem::path folder = calibration_folder();
  if (folder.empty()) return "";
  // What was measured with fewer instructions holds for them alone.
  const char* isa = std::getenv("RLX_ISA");
  const std::string limit = isa && *isa ? text_of(", at most ", isa) : "";
  const uint64_t key = fnv1a(text_of(processor_name(), ", ", kernels::ThreadPool::hardware_threads(), limit));
  return (folder / ("machine-" + hex_text(key) + ".json")).string();
}

std::string MachineSpeeds::json() const {
  Json all = {{"format", kMachineFormat}, {"processor", processor}, {"threads", threads}};
  for (const Measured& f : kFields) all[f.name] = this->*f.value;
  return all.dump(1) + "\n";
}

MachineSpeeds MachineSpeeds::parse(std::string_view text) {
  const Json all = Json::parse(text, nullptr, false);
  if (!all.is_object()) fail(ErrorCode::parse, "it is not a JSON object");
  if (auto format = all.find("format"); format == all.end() || *format != kMachineFormat)
    fail(ErrorCode::parse, "its format is ",
         format == all.end()   ? std::string("missing")
         : format->is_string() ? format->get<std::string>()
                               : std::string("no text"),
         ", not \"", kMachineFormat, "\"");
  MachineSpeeds s;
  auto processor = all.find("processor"), threads = all.find("threads");
  if (processor == all.end() || !processor->is_string()) fail(ErrorCode::parse, "'processor' is missing, or no text");
  if (threads == all.end() || !threads->is_number_unsigned() || *threads < 1 || *threads > 4096)
    fail(ErrorCode::parse, "'threads' is missing, or none of 1 to 4096");
  s.processor = processor->get<std::string>(), s.threads = threads->get<int>();
  for (const Measured& f : kFields) {
    auto found = all.find(f.name);
    if (found == all.end() || !found->is_number()) fail(ErrorCode::parse, "'", f.name, "' is missing, or no number");
    const auto v = found->get<double>();
    if (!(v >= 0 && v <= f.max)) fail(ErrorCode::parse, "'", f.name, "' is ", v, ", not 0 to ", f.max);
    s.*f.value = v;
  }
  return s;
}

std::string MachineSpeeds::table() const {
  std::ostringstream out;
  out << processor << ", " << threads << (threads == 1 ? " thread\n" : " threads\n");
  for (const Measured& f : kFields) {
    const double v = this->*f.value;
    out << std::left << std::setw(34) << f.what << std::right << std::setw(10) << std::fixed
        << std::setprecision(v < 10    ? 2
                             : v < 100 ? 1
                                       : 0)
        << v << " " << f.unit << "\n";
  }
  return out.str();
}

void save_machine(const MachineSpeeds& speeds, const std::string& path) {
  with_context([&] { return "keeping the measurements in '" + path + "'"; },
               [&] { write_calibration(path, speeds.json()); });
}

MachineSpeeds load_machine(const std::string& path) {
  MachineSpeeds s = MachineSpeeds::parse(read_calibration(path));
  if (s.processor != processor_name())
    fail(ErrorCode::invalid_argument, "it is of '", s.processor, "', and this is '", processor_name(), "'");
  if (s.threads != kernels::ThreadPool::hardware_threads())
    fail(ErrorCode::invalid_argument, "it is of ", s.threads, " threads, and there are ",
         kernels::ThreadPool::hardware_threads());
  return s;
}

/// The cost model of the file of `rlx calibrate`; the default one if there is no file, or if it cannot be used.
static kernels::CostModel kept_cost_model() {
  const std::string path = machine_file();
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return {};
  try {
    return cost_model_of(load_machine(path));
  } catch (const std::exception& e) {
    log_message(LogLevel::warning, "the calibration '", path, "' is left aside: ", e.what(),
                "; `rlx calibrate` makes it anew");
    return {};
  }
}

void use_measured_machine() {
  static std::once_flag once;
  std::call_once(once, [] { kernels::set_cost_model(kept_cost_model()); });
}

}  // namespace rlx
