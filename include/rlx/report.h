// What compiling reports: for each node of the user's graph, where it runs, and why not elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/error.h"

namespace rlx {

/// How a node runs. native: the backend has a kernel for it. composed: it is decomposed into ops that the backend has.
/// rewritten: it is replaced by an equal op of another form that the backend has. interpreted: its reference
/// implementation runs, which is slow; the reason of a composed or rewritten node names those of its parts for which it
/// does. missing: none of these, so the graph does not compile.
enum class Verdict { native, composed, rewritten, interpreted, missing };
constexpr std::array<std::string_view, 5> names_of(Verdict) {
  return {"native", "composed", "rewritten", "interpreted", "missing"};
}

struct DispatchLine {
  std::string node;  ///< what the user calls this part of the model; may be empty
  std::string op;
  Verdict verdict = Verdict::native;
  std::string reason;       ///< why it is not native; of a native one, which kernel it is, or empty
  std::string device = {};  ///< where it runs, of a graph that is split over devices; else empty
  /// Of operands and results, each dtype once a side: "f32, i8 -> f32" of a product with quantized weights, "f32" where
  /// both sides are that. Empty of an input or output whose type the device refuses. With CompileOptions::compute these
  /// are the dtypes of the graph that runs, not of the one given.
  std::string dtypes = {};
};

/// Of a graph that is split over devices: neighbouring nodes that one device runs as one graph.
struct SplitPartLine {
  std::string device;
  size_t nodes = 0;   ///< of the graph as it was given, those that only params decide included
  std::string first;  ///< the first name among its nodes; may be empty
};
/// The host's memory, as SplitCopyLine names it.
constexpr std::string_view kHostMemory = "host";
/// A value that each run of such a graph copies from one memory to another.
struct SplitCopyLine {
  std::string value;     ///< an input by its name, else what computes it
  std::string type;      ///< with the graph's symbols
  std::string from, to;  ///< a device whose memory it is, or "host"
  uint64_t bytes = 0;    ///< 0 where a symbol decides it
};

struct DispatchReport {
  std::string target;
  std::vector<DispatchLine> lines;  ///< in the order of the graph; of a split one, part by part
  /// Of a graph that is split over devices (CompileOptions::fallback, placement): in an order in which they can run.
  std::vector<SplitPartLine> parts = {};
  std::vector<SplitCopyLine> copies = {};
  /// What the device makes of the graph that no line of a node says, as sentences without a full stop.
  std::vector<std::string> notes = {};

  bool is_split() const { return !parts.empty(); }
  /// Copies to the host's memory: what computes there waits for the device that they come from.
  size_t host_reads() const;
  size_t count(Verdict) const;
  bool all_native() const { return count(Verdict::native) == lines.size(); }
  /// A table: ops with their verdicts and counts, then one line for each reason.
  std::string table() const;
  std::string json() const;
};
std::ostream& operator<<(std::ostream&, const DispatchReport&);

/// A compile that failed because the device does not run all of the graph: the message lists the nodes that are at
/// fault, the report has a line for every node.
class CompileError : public Error {
 public:
  CompileError(const std::string& message, DispatchReport report)
      : Error(ErrorCode::unsupported, message), report_(std::make_shared<const DispatchReport>(std::move(report))) {}
  const DispatchReport& report() const { return *report_; }

 private:
  std::shared_ptr<const DispatchReport> report_;  // shared: an exception may be copied, which must not throw
};

/// The processor on which one operation of a program runs, if the device has several.
struct PlacedOp {
  std::string op, name;
  std::string device;  ///< "ane", "gpu", "cpu"; "load": computed when the model is loaded; empty if it is not known
  std::string reason;
};
struct PlacementReport {
  /// Whether the placement is predicted from published rules; otherwise the device itself reports it.
  bool predicted = true;
  std::vector<PlacedOp> ops = {};  ///< in the order of the program, nested blocks included
};

}  // namespace rlx
