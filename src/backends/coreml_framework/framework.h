// CoreML.framework, as the rest of the library sees it: packages are compiled, kept, loaded and run by it. On Apple's
// systems framework.mm stands behind this header; elsewhere framework_absent.cpp, which says so.
#pragma once

#include <exception>
#include <functional>
#include <memory>

#include "rlx/device.h"
#include "rlx/tensor.h"

namespace rlx::coreml_framework {

/// Whether this system has it.
bool is_present();
/// The newest opset that it loads here: 5 (iOS 15, macOS 12) to 8 (iOS 18, macOS 15). Without the framework, 8.
int newest_opset();
/// "Apple M2 Pro", "Apple A17": what the system calls its processor. Empty if it does not say.
std::string chip_info();
/// Whether Core ML may use a neural engine here.
bool ane_available();

using Named = std::vector<std::pair<std::string, Tensor>>;

/// Where an operation of the program would run, by MLComputePlan (macOS 14.4, iOS 17.4 and later).
struct PlannedOp {
  std::string op, output;          ///< its type in the program, its first output
  std::string device;              ///< "cpu", "gpu", "ane"; empty if the plan does not say
  std::vector<std::string> other;  ///< that would be able to
  double cost = 0;                 ///< a part of the whole, as the plan estimates it
};

/// A package that was loaded. `predict` may be called from several threads at once.
class Model {
 public:
  virtual ~Model() = default;
  /// Inputs by name, f32, f16 or i32; all outputs by name. Fails with what the framework says.
  virtual Named predict(const Named& inputs) = 0;
  /// The same, begun now: `done` gets the outputs or what went wrong, once, on a thread of the framework's. It must not
  /// throw. The model may be dropped before.
  virtual void predict_async(const Named& inputs, std::function<void(Named, std::exception_ptr)> done) = 0;
  /// Where each operation would run; empty on systems without MLComputePlan.
  virtual std::vector<PlannedOp> plan() = 0;
};

/// Loads a package, compiled once for its content (compiled_cache.h). Fails where the framework is absent, or refuses
/// the package.
std::shared_ptr<Model> load(const std::string& package, ComputeUnits units, const std::string& function = {});

/// All of the above as values, so that a test can put something else in its place.
struct Framework {
  bool present = false;
  int newest_opset = 8;
  std::string chip = {};
  bool ane = false;
  std::function<std::shared_ptr<Model>(const std::string& package, ComputeUnits units, const std::string& function)>
      load = coreml_framework::load;
};
/// That of this system.
const Framework& system_framework();

}  // namespace rlx::coreml_framework
