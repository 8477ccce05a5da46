// Graphs as Core ML packages. An ML Program can be written for any graph, on any host; a report says what could not be
// kept.
#pragma once

#include <array>
#include <map>
#include <optional>

#include "rlx/compile.h"
#include "rlx/io.h"
#include "rlx/too_large.h"

namespace rlx {

/// The float dtypes in which a package computes.
enum class PackagePrecision {
  as_built,  ///< those of the graph
  single,    ///< f16 and bf16 become f32
  half,      ///< f32 and bf16 become f16, also those of inputs and outputs; an op rounds once, at its end
  mixed,     ///< products and their weights are f16; inputs, outputs and everything else are f32
};
constexpr std::array<std::string_view, 4> names_of(PackagePrecision) { return {"as_built", "f32", "f16", "mixed"}; }

/// How a package stores its weights: constants of f32 or f16 that products, convolutions and lookups read, of at
/// least 2,048 elements (palettes: 4,096).
/// They are floats again when the program is loaded, and nothing else is rounded.
enum class PackageWeights {
  as_built,  ///< as the graph has them
  int8,      ///< integers of 8 bits, -127 to 127, and a scale for each output channel, or row of a table (iOS 16)
  int4,  ///< integers of 4 bits, -7 to 7, and a scale for each 32 numbers along the input channels, or for all of them
         ///< where 32 does not divide their number (iOS 18)
  palette8,  ///< indices of 8 bits into the 256 numbers that come nearest to all of a tensor, by k-means (iOS 16)
  palette6,  ///< likewise: 64 numbers
  palette4,  ///< 16 numbers
  palette2,  ///< 4 numbers
};
constexpr std::array<std::string_view, 7> names_of(PackageWeights) {
  return {"as_built", "int8", "int4", "palette8", "palette6", "palette4", "palette2"};
}

/// A state (iOS 18): a value of f16 that the package keeps between predictions, zero at first. A prediction reads it as
/// the input and replaces it by the output.
struct PackageState {
  std::string input, output;
};
/// An input [1, channels, height, width] that predictions give as an image. The graph receives bytes * scale + bias.
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
  /// If there are any, only these sizes are allowed. The lists of all symbols are equally long, and sizes with the same
  /// index belong together.
  std::vector<int64_t> values = {};
};
/// Parses "B=1..8 S=16,32,64 T=1..": a range, a list, and a range without end. Symbols are separated by spaces.
std::map<std::string, PackageSizes> package_shapes(const std::string& text);

struct PackageOptions {
  /// The oldest iOS that must run the package, 15 to 18 (macOS 12 to 15); 0: the oldest that can.
  int minimum_ios = 0;
  /// i64 and f64, which Core ML does not compute in, become i32 and f32. Without this they are refused.
  bool narrow = false;
  Bindings dims = {};  ///< numbers for the graph's symbols; a symbol must have a number or `shapes`
  /// Sizes for symbols that stay open: ranges for all of them, or lists for all. Each of these symbols must be a dim of
  /// an input.
  std::map<std::string, PackageSizes> shapes = {};
  /// Weights in block formats that the required system has no exact form for are rounded to multiples of a scale in 8
  /// bits, instead of being stored as floats. The report names the largest change.
  bool nearest = false;
  /// Random numbers may be drawn by Core ML's own operations, which is faster. They then differ in each prediction,
  /// whatever the key is, and come from a generator that Apple does not publish. Without this option they are the
  /// numbers that the key gives on every device.
  bool native_random = false;
  std::string description = {}, author = {}, version = {}, license = {};  ///< of the package
  std::map<std::string, std::string> feature_descriptions = {};           ///< of inputs, outputs and states
  PackagePrecision precision = PackagePrecision::as_built;
  PackageWeights weights = PackageWeights::as_built;  ///< the report says how far they are from the graph's
  std::vector<PackageState> states = {};
  std::map<std::string, PackageImage> images = {};
  /// The labels of a classifier. Its outputs are then `classLabel` and `classLabel_probs`, the probabilities by label.
  std::vector<std::string> classes = {};
  std::string probabilities = {};  ///< the output that has a probability for each label; the only output if empty
};

struct PackageReport {
  DispatchReport dispatch;              ///< which op is written as one operation, and which as several
  int minimum_ios = 15;                 ///< the oldest iOS that can run the package
  std::string needed_by = {};           ///< the op that needs that iOS; empty if every iOS can run it
  std::vector<std::string> notes = {};  ///< how the package differs from the graph
  uint64_t model_bytes = 0, weight_bytes = 0;
  PackagePrecision precision = PackagePrecision::as_built;
};
std::ostream& operator<<(std::ostream&, const PackageReport&);

/// Writes the package `path`, replacing one that is there. `params` must have a value for each of the graph's params.
/// Fails before anything is written if an op has no lowering (the message names each with its reason), if an op does
/// not allow the minimum that `options` require, or if the model is too large for Core ML (TooLarge).
PackageReport write_coreml(const std::string& path, const Graph& g, const NamedTensors& params = {},
                           const PackageOptions& options = {});

/// The bytes that a package would have.
struct PackageBytes {
  uint64_t model = 0;    ///< of model.mlmodel
  uint64_t weights = 0;  ///< of weight.bin; 0: there would be none
};
/// What write_coreml would write for these arguments, without writing anything. Fails where it would, with TooLarge if
/// the model is too large for Core ML: model.mlmodel of 2 GiB, or a single constant of more than 2^31 - 1 bytes.
PackageBytes check_model_size(const Graph& g, const NamedTensors& params = {}, const PackageOptions& options = {});

/// The processor that Core ML would use here.
struct ChipInfo {
  std::string name = {};           ///< what the system calls it, "Apple M2 Pro"; empty where it does not say
  bool has_framework = false;      ///< CoreML.framework is here
  bool has_neural_engine = false;  ///< and may use a neural engine
  std::string why_not = {};        ///< if there is no framework, why not
};
ChipInfo chip_info();
/// Whether Core ML may use a neural engine here; false on systems that are not Apple's.
bool ane_available();

/// A graph as one function of a package with several.
struct PackageFunction {
  std::string name;
  Graph graph;
  PackageOptions options = {};  ///< those of the package itself (description, author ...) are the first function's
};
/// Writes several functions that share weights, which the package holds once: prefill and decode, or a model with
/// several adapters. This needs iOS 18. The first function is the default one.
PackageReport write_coreml(const std::string& path, const std::vector<PackageFunction>& functions,
                           const NamedTensors& params = {});

}  // namespace rlx
