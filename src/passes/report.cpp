// The dispatch report as a table and as JSON.
#include "rlx/report.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <sstream>

#include "base/printable_text.h"

namespace rlx {

size_t DispatchReport::count(Verdict wanted) const {
  size_t n = 0;
  for (const DispatchLine& line : lines) n += line.verdict == wanted;
  return n;
}

size_t DispatchReport::host_reads() const {
  return static_cast<size_t>(
      std::count_if(copies.begin(), copies.end(), [](const SplitCopyLine& c) { return c.to == kHostMemory; }));
}

std::string DispatchReport::table() const {
  constexpr size_t kVerdicts = names_of(Verdict{}).size();
  using Counts = std::array<size_t, kVerdicts>;
  std::map<std::pair<std::string, std::string>, Counts> by_op;  // and by its dtypes
  std::map<std::string, size_t> reasons;
  size_t width = 2, dtypes_width = 6;
  for (const DispatchLine& line : lines) {
    ++by_op[{line.op, line.dtypes}][static_cast<size_t>(line.verdict)];
    width = std::max(width, line.op.size()), dtypes_width = std::max(dtypes_width, line.dtypes.size());
    if (line.verdict != Verdict::native || !line.reason.empty())
      ++reasons[line.op + " " + std::string(names_of(line.verdict)[static_cast<size_t>(line.verdict)]) + ": " +
                line.reason];
  }
  std::ostringstream out;
  auto row = [&](const std::string& name, const std::string& dtypes, auto cell) {
    out << std::left << std::setw(static_cast<int>(width)) << name << "  " << std::setw(static_cast<int>(dtypes_width))
        << dtypes << std::right;
    for (size_t v = 0; v < kVerdicts; ++v) out << std::setw(13) << cell(v);
    out << "\n";
  };
  row("op", "dtypes", [](size_t v) { return names_of(Verdict{})[v]; });
  auto cell = [](size_t n) { return n ? std::to_string(n) : std::string("-"); };
  Counts total{};
  for (const auto& entry : by_op) {
    const auto& counts = entry.second;
    row(entry.first.first, entry.first.second, [&](size_t v) { return cell(counts[v]); });
    for (size_t v = 0; v < kVerdicts; ++v) total[v] += counts[v];
  }
  row("all", "", [&](size_t v) { return cell(total[v]); });
  for (const auto& [reason, n] : reasons) out << n << " x " << reason << "\n";
  for (const std::string& note : notes) out << "note: " << note << "\n";
  if (!is_split()) return out.str();
  out << "split into " << parts.size() << " parts; each run makes " << copies.size() << " copies between them, "
      << host_reads() << " of them to the host:\n";
  for (size_t p = 0; p < parts.size(); ++p)
    out << "part " << p << " on " << parts[p].device << ": " << parts[p].nodes << " nodes"
        << (parts[p].first.empty() ? "" : " from '" + parts[p].first + "'") << "\n";
  for (const SplitCopyLine& c : copies) {
    out << "copy of " << c.value << " (" << c.type << ") from " << c.from << " to " << c.to;
    if (c.bytes) out << ": " << c.bytes << " bytes";
    out << "\n";
  }
  return out.str();
}

std::string DispatchReport::json() const {
  std::string out = "{\n  \"target\": " + json_quoted(target) + ",\n  \"nodes\": [";
  for (const DispatchLine& line : lines) {
    out += &line == lines.data() ? "\n    {\n" : ",\n    {\n";
    out += "      \"node\": " + json_quoted(line.node) + ",\n      \"op\": " + json_quoted(line.op);
    out += ",\n      \"verdict\": " + json_quoted(names_of(line.verdict)[static_cast<size_t>(line.verdict)]);
    out += ",\n      \"reason\": " + json_quoted(line.reason);
    out += ",\n      \"dtypes\": " + json_quoted(line.dtypes);
    if (is_split()) out += ",\n      \"device\": " + json_quoted(line.device);
    out += "\n    }";
  }
  out += lines.empty() ? "]" : "\n  ]";
  if (!notes.empty()) {
    out += ",\n  \"notes\": [";
    for (const std::string& note : notes) out += (&note == notes.data() ? "\n    " : ",\n    ") + json_quoted(note);
    out += "\n  ]";
  }
  if (!is_split()) return out + "\n}";
  out += ",\n  \"parts\": [";
  for (const SplitPartLine& p : parts)
    out += (&p == parts.data() ? "\n    " : ",\n    ") + ("{\"device\": " + json_quoted(p.device)) +
           ", \"nodes\": " + std::to_string(p.nodes) + ", \"first\": " + json_quoted(p.first) + "}";
  out += "\n  ],\n  \"copies\": [";
  for (const SplitCopyLine& c : copies)
    out += (&c == copies.data() ? "\n    " : ",\n    ") + ("{\"value\": " + json_quoted(c.value)) +
           ", \"type\": " + json_quoted(c.type) + ", \"from\": " + json_quoted(c.from) +
           ", \"to\": " + json_quoted(c.to) + ", \"bytes\": " + (c.bytes ? std::to_string(c.bytes) : "null") + "}";
  return out + (copies.empty() ? "]" : "\n  ]") + ",\n  \"host_reads\": " + std::to_string(host_reads()) + "\n}";
}

std::ostream& operator<<(std::ostream& out, const DispatchReport& report) {
  return out << "on " << report.target << ":\n" << report.table();
}

}  // namespace rlx
