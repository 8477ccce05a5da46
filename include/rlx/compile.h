// How a graph becomes a program for a device: the options of compiling, and what can be learnt about a graph without
// running it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "rlx/device.h"
#include "rlx/graph.h"
#include "rlx/report.h"
#include "rlx/rounding.h"

namespace rlx {

/// Which form of an op a backend is given: its own kernels where it has them (native), or the decomposition that all
/// backends share (common).
enum class KernelDispatch { native, common };
constexpr std::array<std::string_view, 2> names_of(KernelDispatch) { return {"native", "common"}; }

/// How far products of f32 (matrices, convolutions, attention) may be from the true sums. docs/runtime.md, "Products of
/// f32", has the figures.
///
/// as_f32 ("f32"): as far as sums of f32 are. The error of an element is bounded by the terms of its own sum.
///
/// exact: products, and all other ops that are not element-wise, are computed in f64 from operands of f32, and rounded
/// once. It needs a device that has f64, and is several times slower.
///
/// row_relative: an error may be relative to the largest number of the row and of the column, as in formats with a
/// common exponent. Processors with matrix tiles then keep weights as integers, which is up to 1.4 times as fast. It is
/// not for rows whose numbers differ much in size.
enum class Accuracy { as_f32, exact, row_relative };
constexpr std::array<std::string_view, 3> names_of(Accuracy) { return {"f32", "exact", "row_relative"}; }

/// In which type a graph of f32 is computed; docs/runtime.md, "Reduced precision", has the ops. Inputs, params and
/// outputs keep their types, sums and norms are made in f32, weights are kept once, in the narrow type.
///
/// as_f32 ("f32"): as the graph says. Nobody gets less without asking.
///
/// as_f16, as_bf16 ("f16", "bf16"): products, convolutions and attention, and what moves, activates and normalizes
/// their results. bf16 has 8 bits of precision and the range of f32; f16 has 11 and becomes infinite beyond 65,504.
///
/// as_i8 ("int8"): products and convolutions with weights, in integers: weights of 8 bits with a scale for each output
/// channel, the other operand of 11 bits with a scale for each row or image, which each run finds in its numbers. The
/// rest is in the float of `automatic`, except beside inputs of f32 and in some convolutions (docs/runtime.md, "int8").
///
/// automatic ("auto"): in the float that the device multiplies faster than f32, as `rlx devices --json` says of it
/// (`fast_float`), and in f32 where it has none. The report's target says which.
enum class Compute { as_f32, as_f16, as_bf16, as_i8, automatic };
constexpr std::array<std::string_view, 5> names_of(Compute) { return {"f32", "f16", "bf16", "int8", "auto"}; }

/// When the work is done. eager: passes and lowering in compile(). lazy: at the first run. aot: as eager, and the
/// weights are packed as soon as the last one is bound, so that the first run takes as long as every other.
enum class CompileMode { eager, lazy, aot };
constexpr std::array<std::string_view, 3> names_of(CompileMode) { return {"eager", "lazy", "aot"}; }

/// Nodes, and the device that is to run them.
struct Placement {
  /// Of the names that nodes have ("encoder.layer.0.attention"), where '*' stands for any characters and '?' for one;
  /// "op:softmax" means all nodes of that op, "%12" the node that the text of the graph calls so.
  std::string nodes;
  std::string device;

  /// "PATTERN=DEVICE". Fails for a text of another form.
  static Placement parse(std::string_view text);
  bool operator==(const Placement&) const = default;
};

struct CompileOptions {
  KernelDispatch kernel_dispatch = KernelDispatch::native;
  std::set<std::string> force_common = {};  ///< names of ops to decompose
  std::set<std::string> force_native = {};  ///< names of ops that must not be decomposed
  Rounding rounding = Rounding::strict;
  Accuracy accuracy = Accuracy::as_f32;
  /// Narrower than f32, fused ops round once, as under Rounding::relaxed. With Accuracy::exact f16, bf16 and int8
  /// are errors, and `automatic` is f32.
  Compute compute = Compute::as_f32;
  /// Products with weights add up in an order that depends on k and n alone, so that the bits of a row do not depend on
  /// how many rows are multiplied with it. docs/runtime.md says which ops this makes invariant, and what it costs.
  bool batch_invariant = false;
  CompileMode mode = CompileMode::eager;
  bool strict = false;  ///< compiling fails if a node is not native
  /// Permission to compute in i32 and f32 what the graph has in i64 and f64, on a device without numbers of 64 bits.
  /// Numbers of inputs and params that i32 does not hold are errors then; what the graph computes from them wraps.
  /// Nothing changes on a device that has them. docs/coreml.md, "Integers of 64 bits".
  bool narrow = false;
  /// The most that the CPU uses of the processor's instructions for this program, by the names that RLX_ISA has
  /// (docs/runtime.md): "avx2". Empty or "native": what the process may use. Programs of different sets can be in one
  /// process, and run at the same time. Fails for a set that the processor, the build or RLX_ISA does not give, and
  /// where none of the program's devices is the CPU.
  std::string isa = {};
  /// The most that symbols of the inputs' types can be, each at least 1. A run with more is an error on every device.
  /// Where all symbols of a graph have one, the CPU plans the memory of the first run for these numbers, if the
  /// process may have so much. Otherwise that memory grows as larger extents come, to twice what they need.
  Bindings bounds = {};
  std::set<std::string> donate = {};       ///< inputs whose memory a run may overwrite
  std::set<std::string> skip_passes = {};  ///< passes to leave out, by name; the results must not change
  std::string cache_dir = {};              ///< folder that keeps compiled graphs for later processes; empty: none
  /// Permission to run on other devices what the session's device does not take: names of devices, asked in this order.
  /// Empty: a node that it does not take is an error. docs/runtime.md, "Several devices in one graph".
  std::vector<std::string> fallback = {};
  /// Where nodes are to run, whoever else would take them; the first entry that names a node decides. A device here
  /// need not be one of `fallback`. An entry that names no node, or one that its device does not take, is an error.
  std::vector<Placement> placement = {};

  /// The defaults, changed by the environment variables RLX_KERNEL_DISPATCH, RLX_SKIP, RLX_CACHE_DIR and RLX_FALLBACK
  /// (names of devices with commas in between).
  static CompileOptions from_environment();
};

/// Where each node of `g` would run on `device`, and why. Nothing is lowered; an op that the device lacks is a line of
/// the report, not an error, unless `fallback` or `placement` is given: then what no device takes is one.
DispatchReport dispatch_report(const Graph& g, const Device& device, const CompileOptions& options = {});
/// The graph in ops that the device supports. Fails with a CompileError if one is missing, as every compile does.
Graph legalize(const Graph& g, const Device& device, const CompileOptions& options = {});
/// Whether every node can run on the device, natively or composed of other ops.
bool supports(const Graph& g, const Device& device);

/// What determines which program runs. Equal configurations share one.
struct ExecutionConfig {
  std::string variant;              ///< the device
  std::vector<std::string> shapes;  ///< types of the inputs, as text
  CompileMode mode = CompileMode::eager;
  KernelDispatch dispatch = KernelDispatch::native;
  size_t graph_hash = 0, options_hash = 0;

  /// A printable text that is the same in every process: "cpu-native-3f0c...".
  std::string cache_key() const;
};

}  // namespace rlx
