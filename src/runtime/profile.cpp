// Profiles as a table and as a trace.
#include <algorithm>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/atomic_file.h"
#include "rlx/session.h"

namespace rlx {

std::string Profile::table() const {
  struct Sum {
    double us = 0;
    size_t count = 0;
  };
  std::map<std::string, Sum> by_op;
  size_t width = 4;
  for (const Step& s : steps) {
    std::string key = s.kernel.empty() || s.kernel == s.op ? s.op : s.op + " (" + s.kernel + ")";
    by_op[key].us += s.duration_us;
    ++by_op[key].count;
    width = std::max(width, key.size());
  }
  std::vector<std::pair<std::string, Sum>> rows(by_op.begin(), by_op.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
  std::ostringstream out;
  out << std::left << std::setw(static_cast<int>(width)) << "op" << std::right << std::setw(8) << "count"
      << std::setw(12) << "us" << std::setw(8) << "%"
      << "\n"
      << std::fixed;
  for (const auto& [op, sum] : rows)
    out << std::left << std::setw(static_cast<int>(width)) << op << std::right << std::setw(8) << sum.count
        << std::setw(12) << std::setprecision(1) << sum.us << std::setw(8)
        << (total_us > 0 ? 100 * sum.us / total_us : 0) << "\n";
  out << std::left << std::setw(static_cast<int>(width)) << "all" << std::right << std::setw(8) << steps.size()
      << std::setw(12) << total_us << std::setw(8) << 100.0 << "\n";
  if (transfers != Transfers())
    out << transfers.copies_to_device << " copies to the device (" << transfers.bytes_to_device << " bytes), "
        << transfers.copies_to_host << " to the host (" << transfers.bytes_to_host << " bytes), "
        << transfers.donated_copies << " of donated inputs; the host waited " << transfers.host_waits << " times\n";
  if (transfers.split_copies)
    out << "of them " << transfers.split_copies << " between the devices of the graph (" << transfers.split_bytes
        << " bytes)\n";
  return out.str();
}

std::string Profile::perfetto_json() const { return rlx::perfetto_json(std::span(this, 1)); }

std::string perfetto_json(std::span<const Profile> runs) {
  using nlohmann::ordered_json;
  auto begin = std::chrono::steady_clock::time_point::max();
  for (const Profile& run : runs) begin = std::min(begin, run.began);
  ordered_json events = ordered_json::array();
  // The steps of the first run are on track 1 of process 1, of the second on track 2; the device's queues are
  // process 2.
  for (size_t r = 0; r < runs.size(); ++r) {
    const Profile& run = runs[r];
    const double at = std::chrono::duration<double, std::micro>(run.began - begin).count();
    for (const Profile::Step& s : run.steps)
      events.push_back({{"name", s.node.empty() ? s.op : s.node},
                        {"cat", s.op},
                        {"ph", "X"},
                        {"ts", at + s.start_us},
                        {"dur", s.duration_us},
                        {"pid", 1},
                        {"tid", r + 1},
                        {"args", {{"op", s.op}, {"kernel", s.kernel}}}});
    for (const Profile::Work& w : run.work)
      events.push_back({{"name", w.name},
                        {"cat", "queue"},
                        {"ph", "X"},
                        {"ts", at + w.start_us},
                        {"dur", w.duration_us},
                        {"pid", 2},
                        {"tid", w.queue},
                        {"args", {{"run", r}}}});
  }
  return ordered_json{{"displayTimeUnit", "ns"}, {"traceEvents", events}}.dump(
      1, ' ', false, ordered_json::error_handler_t::replace);  // names may be any bytes
}

void Profile::write_perfetto(const std::string& path) const {
  with_context([&] { return "writing the trace '" + path + "'"; },
               [&] {
                 std::string trace = perfetto_json() + "\n";
                 AtomicFile file(path);
                 file.write(trace);
                 file.commit();
               });
}

}  // namespace rlx
