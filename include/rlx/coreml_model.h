// Core ML models on any host: an ML Program is read from a package and run in the dtypes that it states. The interface
// has the names of coremltools' MLModel, which runs such models on a Mac.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rlx/session.h"

namespace rlx {

struct CoremlOptions {
  std::string function = {};          ///< the function of the package; the default one if empty
  bool f32 = false;                   ///< compute in f32 what the program computes in f16
  int threads = 0;                    ///< 0: as for a session
  std::optional<uint64_t> seed = {};  ///< for random ops without a seed; if absent, each run has a new one
  /// Makes an output of every tensor that an op of the function computes, in the order of the program: for finding out
  /// where two models differ. Tensors inside of control flow, compressed weights and constants are left out.
  bool all_values = false;
};

/// An input, an output or a state, as the package describes it.
struct CoremlFeature {
  std::string name;
  std::string kind;  ///< "tensor", "image", "string", "dictionary"; description_json() has others
  DType dtype = DType::f32;
  std::vector<std::optional<int64_t>> shape = {};  ///< an absent extent is up to the caller
};

class PackageInMemory;  // a package that was built in memory, without a file

/// The states by name: values that a model keeps from one prediction to the next.
using CoremlState = std::map<std::string, Tensor>;

/// A function of a package. Copies share what was compiled. `predict` may be called from several threads.
class CoremlModel {
 public:
  /// Reads the package. Fails if it is damaged, if it holds no ML Program, or if it has no such function.
  static CoremlModel load(const std::string& path, CoremlOptions options = {});

  const std::string& function() const;
  const std::vector<CoremlFeature>& inputs() const;
  const std::vector<CoremlFeature>& outputs() const;
  const std::vector<CoremlFeature>& states() const;
  /// All states, with zeros.
  CoremlState make_state() const;

  /// Runs the function. Inputs are given by name, in any order; outputs are in the order of the program. Sizes may
  /// change from call to call. A scalar may be given as [1]. `state` is read and written; a function with states fails
  /// without one. A classifier returns the index of the label in `labels` (or the label itself if it is a number) and
  /// the probabilities.
  std::vector<NamedTensor> predict(const std::vector<NamedTensor>& inputs, CoremlState* state = nullptr) const;
  /// The strings that a classifier chooses from; empty for any other model. Known after the first prediction.
  std::vector<std::string> labels() const;
  /// The integers that a classifier chooses from, where its labels are integers; empty for any other model. Known after
  /// the first prediction.
  std::vector<int64_t> label_numbers() const;
  /// What the package says of itself, as a JSON object: `specification_version`, `type` ("mlProgram"), `function` (this
  /// one), `default_function`, `functions` (each with its `name`, `opset`, `ops`: how many of each), `metadata`
  /// (`description`, `version`, `author`, `license`, `user`), `predicted_feature`, `predicted_probabilities`, and
  /// `inputs`, `outputs`, `states`: lists of {name, doc, kind, optional, shape, dtype, color_space, shapes, ranges,
  /// string_keys, program: {dtype, shape}}. `kind` is "array", "image", "string", "int64", "double", "dictionary",
  /// "sequence" or "state"; the shape of an image is [height, width]; an extent or a bound that is open is null.
  std::string description_json() const;
  /// Where Core ML runs each operation of the function, if it may use what `device` names (Device::coreml(...)). It is
  /// what MLComputePlan says, on Apple's systems that have that; elsewhere, and for a model built in memory, it is
  /// `predicted` from published rules.
  PlacementReport placement(const Device& device = Device::coreml()) const;

 private:
  struct State;
  explicit CoremlModel(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static CoremlModel of(std::shared_ptr<State> state);
  friend CoremlModel coreml_model_of(PackageInMemory package, CoremlOptions options);
  std::shared_ptr<State> state_;
};

/// The graph of a function of a package. Dims that the package leaves open are symbols, `<input>_<axis>`, unless `dims`
/// gives them; `widen` makes f32 of all f16. After the function's inputs stand its states, after its outputs the
/// states' new values. Fails, naming the op, where the program needs numbers that are known only in a run: CoremlModel
/// runs such programs.
Graph load_mlpackage_graph(const std::string& path, const std::string& function = {},
                           const std::map<std::string, Dims>& dims = {}, bool widen = false);

}  // namespace rlx
