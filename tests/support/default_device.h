// The device that a suite runs on: the one that RLX_DEVICE names, else the processor.
#pragma once

#include <cstdlib>
#include <optional>

#include "rlx/session.h"
#include "support/sanitized.h"

namespace rlx::test {

/// Whether a suite runs a part of its work: sanitized, and where RLX_DEVICE names a device, unless RLX_CHECK_ALL is set
/// (`make check-all`).
inline bool samples() {
  const char* device = std::getenv("RLX_DEVICE");
  return sanitized() || (device && *device && !checks_all());
}

/// Compiles and runs for the default device. It may lack a dtype, or an op, and refuse a graph: then the refusal is
/// what is tested, and counted.
class DefaultDevice {
 public:
  explicit DefaultDevice(int threads) : session_(Device::from_environment(), {threads}) {}

  const Session& session() const { return session_; }
  /// Nothing if the device refuses the graph: its report then names what is missing and why, and compiling fails with
  /// that. Fails if report and compile disagree.
  std::optional<CompiledGraph> compile(const Graph& g, const CompileOptions& options = {}) {
    const DispatchReport report = dispatch_report(g, session_.device(), options);
    const bool is_refused = report.count(Verdict::missing) > 0;
    try {
      std::optional<CompiledGraph> compiled = session_.compile(g, options);
      if (is_refused) fail(ErrorCode::internal, session_.device(), " compiles what its report refuses: ", report);
      ++taken_;
      return compiled;
    } catch (const CompileError& error) {
      if (!is_refused || error.report().json() != report.json())
        fail(ErrorCode::internal, session_.device(), " refuses what its report takes: ", error.what());
    }
    for (const DispatchLine& line : report.lines)
      if (line.verdict == Verdict::missing && line.reason.empty())
        fail(ErrorCode::internal, session_.device(), " refuses ", line.op, " and does not say why");
    ++refused_;
    return std::nullopt;
  }
  size_t taken() const { return taken_; }
  size_t refused() const { return refused_; }

 private:
  Session session_;
  size_t taken_ = 0, refused_ = 0;
};

}  // namespace rlx::test
