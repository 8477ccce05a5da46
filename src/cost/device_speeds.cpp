// The files of `rlx calibrate` for devices; see rlx/device_speed.h.
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backends/registry.h"
#include "base/hash.h"
#include "io/calibration_file.h"
#include "rlx/device_speed.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kSpeedsFormat = "rlx device speeds 1";

struct Speed {
  const char* name;
  double DeviceSpeeds::*value;
};
constexpr Speed kSpeeds[] = {
    {"product_64_gflops", &DeviceSpeeds::product_64_gflops},
    {"product_256_gflops", &DeviceSpeeds::product_256_gflops},
    {"product_1024_gflops", &DeviceSpeeds::product_1024_gflops},
    {"convolution_gflops", &DeviceSpeeds::convolution_gflops},
    {"attention_gflops", &DeviceSpeeds::attention_gflops},
    {"near_gbs", &DeviceSpeeds::near_gbs},
    {"middle_gbs", &DeviceSpeeds::middle_gbs},
    {"memory_gbs", &DeviceSpeeds::memory_gbs},
    {"function_gelements", &DeviceSpeeds::function_gelements},
    {"sort_gcompares", &DeviceSpeeds::sort_gcompares},
    {"run_us", &DeviceSpeeds::run_us},
    {"node_us", &DeviceSpeeds::node_us},
    {"copy_gbs", &DeviceSpeeds::copy_gbs},
};
constexpr double kMostOfASpeed = 1e9;  // more than any device reaches

std::string text_in(const Json& all, const char* name) {
  const auto found = all.find(name);
  if (found == all.end() || !found->is_string()) fail(ErrorCode::parse, "'", name, "' is missing, or no text");
  return found->get<std::string>();
}

}  // namespace

std::string DeviceSpeeds::json() const {
  Json all = {{"format", kSpeedsFormat}, {"device", device}, {"description", description}, {"threads", threads}};
  for (const Speed& s : kSpeeds) all[s.name] = this->*s.value;
  return all.dump(2) + "\n";
}

DeviceSpeeds DeviceSpeeds::parse(std::string_view json) {
  const Json all = Json::parse(json, nullptr, false);
  if (!all.is_object()) fail(ErrorCode::parse, "the speeds of a device are a JSON object, and this is none");
  if (const std::string format = text_in(all, "format"); format != kSpeedsFormat)
    fail(ErrorCode::parse, "'format' is \"", format, "\", not \"", kSpeedsFormat, "\"");
  DeviceSpeeds s;
  s.device = text_in(all, "device"), s.description = text_in(all, "description");
  const auto threads = all.find("threads");
  if (threads == all.end() || !threads->is_number_unsigned() || *threads < 1 || *threads > 4096)
    fail(ErrorCode::parse, "'threads' is missing, or none of 1 to 4096");
  s.threads = threads->get<int>();
  for (const Speed& field : kSpeeds) {
    const auto found = all.find(field.name);
    if (found == all.end() || !found->is_number())
      fail(ErrorCode::parse, "'", field.name, "' is missing, or no number");
    const auto value = found->get<double>();
    if (!(value >= 0 && value <= kMostOfASpeed))
      fail(ErrorCode::parse, "'", field.name, "' is ", value, ", not 0 to ", kMostOfASpeed);
    s.*field.value = value;
  }
  return s;
}

std::string device_speeds_file(const Device& device, int threads) {
  const std::filesystem::path folder = calibration_folder();
  if (folder.empty()) return "";
  const auto backend = backend_of(device);
  const char* isa = std::getenv("RLX_ISA");  // what was measured with fewer instructions holds for them alone
  std::string what = text_of(device, "|", backend->description(), "|", threads > 0 ? threads : backend->threads(), "|",
                             isa ? isa : "");
  for (const TargetFact& fact : backend->facts()) what += text_of("|", fact.name, "=", fact.value);
  return (folder / text_of(device.backend(), "-calib-", hex_text(fnv1a(what)), ".json")).string();
}

void save_device_speeds(const DeviceSpeeds& speeds, const std::string& path) {
  with_context([&] { return "keeping the speeds of " + speeds.device + " in '" + path + "'"; },
               [&] { write_calibration(path, speeds.json()); });
}

DeviceSpeeds load_device_speeds(const std::string& path) {
  return with_context([&] { return "reading the speeds in '" + path + "'"; },
                      [&] { return DeviceSpeeds::parse(read_calibration(path)); });
}

}  // namespace rlx
