// Core ML: what ML Programs take of a graph, and the program that stands for a legal one. Nothing runs here: a package
// is written (io/mlpackage.h), and run by Core ML or by the MIL front end.
#pragma once

#include "io/mil.h"
#include "passes/target.h"

namespace rlx::coreml {

struct Options {
  /// The oldest opset for which to write: weights stay packed from 8 on.
  int oldest_opset = 5;
  /// The newest opset that may be used, 5 to 8: CoreML5 (iOS 15, macOS 12) to CoreML8 (iOS 18, macOS 15).
  int newest_opset = 8;
  /// Whether integers and floats of 64 bits may become those of 32.
  bool narrow = false;
  /// Whether dims may be symbols, whose numbers are those of the inputs of a prediction.
  bool open_dims = false;
  /// Whether blocks that no form holds exactly become the nearest multiples of a scale.
  bool nearest = false;
  /// Whether inputs and outputs of 64 bits are two of 32 each (passes/split_words.h), so that all bits arrive.
  bool words_in_signature = false;
  /// Whether inputs and outputs that can be i32 are so already (passes/narrow_integers.h), and the others stay.
  bool is_signature_narrowed = false;
  /// Whether random numbers may be of Core ML's own stream, whatever the key.
  bool native_random = false;
};
constexpr size_t kMostDims = 5;

/// What a model is to whoever calls it, beyond its graph. Inputs and outputs by their names in the graph.
struct Interface {
  struct State {
    std::string input, output;  ///< what the input is in the next prediction
  };
  struct Image {
    mil::Feature::ColorSpace color_space = mil::Feature::ColorSpace::rgb;
    double scale = 1;
    std::vector<double> bias = {};  ///< one for each channel, or none
  };
  std::vector<State> states = {};
  std::map<std::string, Image> images = {};
  /// Numbers that a symbol may have.
  struct Sizes {
    int64_t least = 1;
    std::optional<int64_t> most = {};  ///< nothing: without bound
    std::vector<int64_t> values = {};  ///< if any, only these; the k-th of all symbols belong together
  };
  std::map<std::string, Sizes> sizes = {};  ///< of symbols; those that are not named have any
  std::vector<std::string> classes = {};    ///< labels, if it is a classifier
  std::string probabilities = {};           ///< the output that has one for each label; the only one if empty
  std::map<std::string, std::string> descriptions = {};  ///< of features
};

/// What becomes a program with these options. Two stages: nodes of complex numbers, of more than kMostDims dims, of
/// integers of 64 bits and without elements are taken as they are by the first, and are then taken apart
/// (backends/coreml/take_apart.h). Of complex inputs and outputs there are two each then, and the leading dims of wide
/// ones are joined.
Target target(const Options& options = {});
/// The same for a device, which gives and takes tensors of the graph's own types: the second stage is only checked, and
/// the graph keeps the inputs and outputs that it came with.
Target whole_target(const Options& options = {});

struct Translated {
  mil::Model model;
  /// What is not as the graph has it: dtypes of inputs and outputs, names, narrowed values.
  std::vector<std::string> notes;
  int opset = 5;                ///< the lowest that works
  std::string opset_needed_by;  ///< the op that forced it; empty for the lowest there is
};
/// The ML Program of a legal graph without params, as a model with one function. Inputs and outputs keep their names as
/// far as Core ML's identifiers allow, have at least one dim, and are of f32, i32 or (from iOS 16 on) f16.
/// States are of f16, which is all that Core ML has.
Translated translate(const Graph& legal, const Options& options = {}, const Interface& interface = {});

/// Ranges or shapes of an array some of whose dims are symbols; what it is by default is the least or the first.
void make_flexible(mil::Feature& feature, const Type& type, const Interface& interface);
/// What is said of an array [1, channels, height, width] as an image's: [height, width], and ranges of width and
/// height.
void make_flexible_image(mil::Feature& feature);

/// Fails where a dim of an input is neither a number nor a symbol alone, which is all that a package says of inputs.
void check_open_inputs(const Graph& g);

}  // namespace rlx::coreml
