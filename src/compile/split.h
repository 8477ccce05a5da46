// A graph taken apart for several devices: which device takes which node, and the graphs that come of it. What a device
// does not take runs on the first in a list that does; neighbours on one device stay together, as far as no part then
// waits in a circle for another.
//
//   before    %0 = input() @"x"  %1 = exp(%0)  %2 = sort(%1) ...  %3 = mul(%2, %2)  return %3 @"y"
//   after, where `tiny` does not take the sort and `cpu` does
//             part 0 on tiny  %0 = input() @"x"   %1 = exp(%0)       return %1 @"%1"
//             part 1 on cpu   %0 = input() @"%1"  %1 = sort(%0) ...  return %1 @"%2"
//             part 2 on tiny  %0 = input() @"%2"  %1 = mul(%0, %0)   return %1 @"y"
#pragma once

#include <optional>
#include <set>

#include "passes/target.h"
#include "rlx/compile.h"

namespace rlx {

/// A value that parts hand over: an input of the graph, or an output of a part.
struct SplitValue {
  std::string text;  ///< what errors and reports call it
  Type type;
};

struct SplitPart {
  /// Of a part's inputs: no value, but one without elements whose dims are the symbols that no other input tells.
  static constexpr size_t kExtents = SIZE_MAX;

  size_t device = 0;                              ///< among those of the split
  Graph graph;                                    ///< as it was given, nothing of it lowered
  std::vector<size_t> inputs = {}, outputs = {};  ///< which value is each of the graph's
  size_t nodes = 0;                               ///< without leaves, with the bound values that it computes for itself
  std::string first = {};                         ///< the first name among them
};

struct Split {
  std::vector<Device> devices;     ///< those of the parts; the first is the graph's own, where inputs and outputs are
  std::vector<SplitValue> values;  ///< first the graph's inputs in order, then what parts give
  std::vector<SplitPart> parts;    ///< each takes inputs of the graph, and what parts before it give
  std::vector<size_t> outputs;     ///< which value is each of the graph's
};

/// Devices that a compile may use, the graph's own first, and what they take.
struct SplitDevice {
  Device device;
  Target target;
  bool has_own_memory;
};

/// Fails for the first entry of the placement that names no node; with a CompileError that lists the nodes that were
/// placed on a device that does not take them; and with one that lists the nodes that no device takes. Of bound values
/// (of params and constants alone) each part computes what it reads, so that they stay weights, unless such a node was
/// placed or the part's device does not take it.
Split split_graph(const Graph& g, std::span<const SplitDevice> devices, const CompileOptions& options);

/// Whether every input of `donated` that has an output of its name and type becomes it in the same memory: within a
/// part on the graph's own device that alone reads it. Otherwise none does.
bool updates_in_place(const Split& split, const Graph& g, const std::set<std::string>& donated);
/// Whether a part may overwrite its input, if that is donated to the graph: nobody else reads it.
bool may_overwrite(const Split& split, size_t part, size_t input);

}  // namespace rlx
