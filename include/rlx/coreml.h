// Graphs as Core ML packages: an ML Program is written for any graph, on any host, and says what it could not keep.
#pragma once

#include "rlx/compile.h"
#include "rlx/io.h"

namespace rlx {

struct CoreMLOptions {
  /// The oldest iOS that must run it, 15 to 18 (macOS 12 to 15); 0: the oldest that can.
  int minimum_ios = 0;
  /// i64 and f64, which Core ML does not compute in, become i32 and f32. Without this they are refused.
  bool narrow = false;
  Bindings dims = {};  ///< numbers for the graph's symbols; all must have one
  std::string description = {}, author = {}, version = {}, license = {};  ///< of the package
};

struct CoreMLReport {
  DispatchReport dispatch;              ///< which op is written as one operation, and which as several
  int minimum_ios = 15;                 ///< that the package needs
  std::string needed_by = {};           ///< the op that forced it; empty if it is the oldest there is
  std::vector<std::string> notes = {};  ///< what is not as the graph has it
  uint64_t model_bytes = 0, weight_bytes = 0;
};
std::ostream& operator<<(std::ostream&, const CoreMLReport&);

/// Writes the package `path`, replacing one that is there. `params` has a value for each of the graph's params. Fails,
/// before anything is written, where an op has no lowering (naming each with its reason), where a minimum is asked for
/// that an op does not allow, and where the model is too large for Core ML (TooLarge, src/io/mlpackage.h).
CoreMLReport write_coreml(const std::string& path, const Graph& g, const NamedTensors& params = {},
                          const CoreMLOptions& options = {});

}  // namespace rlx
