// Metrics files and early stopping; see rlx/metrics.h.
#include "rlx/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "io/atomic_file.h"
#include "rlx/data.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;

bool ends_a_line(const std::string& path) {
  auto file = FileBytes::read(path);
  return file->bytes().empty() || file->bytes().back() == std::byte{'\n'};
}

/// Calls `see(text, object)` for each line of the file; one that its writer did not end is none.
template <class See>
void for_each_line(const std::string& path, See see) {
  with_context([&] { return "reading the metrics file '" + path + "'"; },
               [&] {
                 int64_t number = 0;
                 auto lines = read_lines(path);
                 if (!lines.empty() && !ends_a_line(path)) lines.pop_back();
                 for (const std::string& line : lines) {
                   Json object = Json::parse(line, nullptr, false);
                   if (++number, !object.is_object())
                     fail(ErrorCode::parse, "line ", number, " is no JSON object; delete the line, or the file");
                   see(line, object);
                 }
               });
}

}  // namespace

struct MetricsLog::File {
  std::string path;
  std::FILE* stream = nullptr;
  ~File() {
    if (stream) std::fclose(stream);
  }
};

MetricsLog::MetricsLog(const std::string& path, int64_t keep_steps) : file_(new File{path}) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    std::string kept;
    bool all = ends_a_line(path);
    for_each_line(path, [&](const std::string& line, const Json& object) {
      auto step = object.find("step");
      bool keep = step == object.end() || !step->is_number() || step->get<double>() <= static_cast<double>(keep_steps);
      if (keep) kept += line + "\n";
      else all = false;
    });
    if (!all) {
      AtomicFile whole(path);
      whole.write(kept);
      whole.commit();
    }
  }
  file_->stream = std::fopen(path.c_str(), "ab");
  if (!file_->stream)
    fail(ErrorCode::io, "cannot write the metrics file '", path, "': ", std::generic_category().message(errno));
}
MetricsLog::~MetricsLog() = default;

void MetricsLog::write(const Line& line) {
  Json object = Json::object();
  for (const auto& entry : line) std::visit([&](const auto& v) { object[entry.first] = v; }, entry.second);
  std::string text = object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), file_->stream) != text.size() || std::fflush(file_->stream) != 0)
    fail(ErrorCode::io, "cannot write the metrics file '", file_->path, "': ", std::generic_category().message(errno));
}

Curve read_curve(const std::string& path, const std::string& metric) {
  Curve curve{metric, {}, {}};
  for_each_line(path, [&](const std::string&, const Json& object) {
    auto step = object.find("step"), value = object.find(metric);
    if (step == object.end() || value == object.end() || !step->is_number()) return;
    curve.x.push_back(step->get<double>());
    curve.y.push_back(value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN());
  });
  return curve;
}

bool EarlyStop::improves(double measure) {
  bool better = !std::isnan(measure) && (!any_ || measure < best_ - least_gain_);
  if (better) best_ = measure, any_ = true, without_gain_ = 0;
  else ++without_gain_;
  return better;
}
std::string EarlyStop::state() const {
  std::array<char, 80> text;
  std::snprintf(text.data(), text.size(), "%d %a %lld", any_ ? 1 : 0, best_, static_cast<long long>(without_gain_));
  return text.data();
}
void EarlyStop::restore(std::string_view state) {
  std::string text(state);
  int any = 0, end = 0;
  double best = 0;
  long long without = 0;
  if (std::sscanf(text.c_str(), "%d %la %lld%n", &any, &best, &without, &end) != 3 ||
      static_cast<size_t>(end) != text.size() || any < 0 || any > 1 || without < 0)
    fail(ErrorCode::parse, "no state of an early stop: '", text.substr(0, 60), "'");
  any_ = any == 1, best_ = best, without_gain_ = without;
}

}  // namespace rlx
