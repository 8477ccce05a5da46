// Core ML: what ML Programs take of a graph, and the program that stands for a legal one. Nothing runs here: a package
// is written (io/mlpackage.h), and run by Core ML or by the MIL front end.
#pragma once

#include "backends/backend.h"
#include "io/mil.h"

namespace rlx::coreml {

struct Options {
  /// The newest opset that may be used, 5 to 8: CoreML5 (iOS 15, macOS 12) to CoreML8 (iOS 18, macOS 15).
  int newest_opset = 8;
  /// Whether i64 and f64 may become i32 and f32.
  bool narrow = false;
};

/// Claims with these options; `lower` fails, for nothing runs here.
std::unique_ptr<Backend> make_backend(const Options& options = {});

struct Translated {
  mil::Model model;
  /// What is not as the graph has it: dtypes of inputs and outputs, names, narrowed values.
  std::vector<std::string> notes;
  int opset = 5;                ///< the lowest that works
  std::string opset_needed_by;  ///< the op that forced it; empty for the lowest there is
};
/// The ML Program of a legal graph without params, as a model with one function. Inputs and outputs keep their names as
/// far as Core ML's identifiers allow, have at least one dim, and are of f32, i32 or (from iOS 16 on) f16.
Translated translate(const Graph& legal, const Options& options = {});

}  // namespace rlx::coreml
