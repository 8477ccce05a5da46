// Graphs as Core ML packages: an ML Program is written for any graph, on any host, and says what it could not keep.
#pragma once

#include <array>
#include <map>
#include <optional>

#include "rlx/compile.h"
#include "rlx/io.h"

namespace rlx {

/// In which floats a package computes.
enum class PackagePrecision {
  as_built,  ///< those of the graph
  single,    ///< f16 and bf16 become f32
  half,      ///< f32 and bf16 become f16, inputs and outputs with them; an op still rounds once, at its end
  mixed,     ///< products and their weights are of f16, all else and inputs and outputs of f32
};
constexpr std::array<std::string_view, 4> names_of(PackagePrecision) { return {"as_built", "f32", "f16", "mixed"}; }

/// What lives between predictions (iOS 18), as f16, zero at first: the next value of an input is an output.
struct PackageState {
  std::string input, output;
};
/// An input [1, channels, height, width] that is given as an image: the graph gets bytes * scale + bias.
struct PackageImage {
  enum class Color { rgb, bgr, grayscale };
  Color color = Color::rgb;
  double scale = 1;
  std::vector<double> bias = {};  ///< one for each channel, or none
};

/// The sizes that a symbol may have in a package of flexible shapes.
struct PackageSizes {
  int64_t least = 1;
  std::optional<int64_t> most = {};  ///< nothing: without bound
  /// If any, only these; the lists of all symbols are equally long, and what stands at one place belongs together.
  std::vector<int64_t> values = {};
};
/// "B=1..8 S=16,32,64 T=1..": a range, a list, a range without end; one symbol after another, by spaces.
std::map<std::string, PackageSizes> package_shapes(const std::string& text);

struct PackageOptions {
  /// The oldest iOS that must run it, 15 to 18 (macOS 12 to 15); 0: the oldest that can.
  int minimum_ios = 0;
  /// i64 and f64, which Core ML does not compute in, become i32 and f32. Without this they are refused.
  bool narrow = false;
  Bindings dims = {};  ///< numbers for the graph's symbols; all must have one, or sizes
  /// Sizes for symbols that stay open: ranges for all, or lists for all. Each is a dim of an input.
  std::map<std::string, PackageSizes> shapes = {};
  /// Blocks that no form of the asked-for system holds exactly become the nearest multiples of a scale in 8 bits, not
  /// floats; the report names the greatest change.
  bool nearest = false;
  /// Random numbers may be drawn by Core ML's own operations, which is faster: anew in each prediction, from a stream
  /// that Apple does not publish, whatever the key. Without this they are the numbers that the key gives everywhere.
  bool native_random = false;
  std::string description = {}, author = {}, version = {}, license = {};  ///< of the package
  std::map<std::string, std::string> feature_descriptions = {};           ///< of inputs, outputs and states
  PackagePrecision precision = PackagePrecision::as_built;
  std::vector<PackageState> states = {};
  std::map<std::string, PackageImage> images = {};
  /// Labels of a classifier: its outputs are then `classLabel` and, by label, `classLabel_probs`.
  std::vector<std::string> classes = {};
  std::string probabilities = {};  ///< the output with one for each label; the only one if empty
};

struct PackageReport {
  DispatchReport dispatch;              ///< which op is written as one operation, and which as several
  int minimum_ios = 15;                 ///< that the package needs
  std::string needed_by = {};           ///< the op that forced it; empty if it is the oldest there is
  std::vector<std::string> notes = {};  ///< what is not as the graph has it
  uint64_t model_bytes = 0, weight_bytes = 0;
  PackagePrecision precision = PackagePrecision::as_built;
};
std::ostream& operator<<(std::ostream&, const PackageReport&);

/// Writes the package `path`, replacing one that is there. `params` has a value for each of the graph's params. Fails,
/// before anything is written, where an op has no lowering (naming each with its reason), where a minimum is asked for
/// that an op does not allow, and where the model is too large for Core ML (TooLarge, src/io/mlpackage.h).
PackageReport write_coreml(const std::string& path, const Graph& g, const NamedTensors& params = {},
                           const PackageOptions& options = {});

/// A graph as one function of a package with several.
struct PackageFunction {
  std::string name;
  Graph graph;
  PackageOptions options = {};  ///< those of the package itself (description, author ...) are the first function's
};
/// Several functions over shared weights, which stand in the package once: prefill and decode, or a model with other
/// adapters. iOS 18. The first one runs when none is named.
PackageReport write_coreml(const std::string& path, const std::vector<PackageFunction>& functions,
                           const NamedTensors& params = {});

}  // namespace rlx
