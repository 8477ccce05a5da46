// What runs a package that Device::coreml wrote: CoreML.framework where there is one, elsewhere the MIL front end on
// the CPU. Inputs and outputs stand in the order of the package's description, and are of its types.
#pragma once

#include "backends/backend.h"
#include "backends/coreml_framework/framework.h"
#include "io/mil.h"

namespace rlx {

class CoremlRunner {
 public:
  virtual ~CoremlRunner() = default;
  virtual std::vector<Tensor> run(const std::vector<Tensor>& inputs, const RunOptions& options) = 0;
  /// Begins a run, as HostExecutable::begin does; false where nothing runs in the background by itself.
  virtual bool begin(const std::vector<Tensor>&, HostExecutable::Done) { return false; }
  virtual PlacementReport placement() = 0;
  virtual size_t memory_bytes() const = 0;
};

/// By the framework if it is present, which is given a package in a folder of its own until it has loaded it; else as
/// it would be read from a package, without one.
std::unique_ptr<CoremlRunner> make_coreml_runner(const mil::Model& model, ComputeUnits units,
                                                 const LoadOptions& options,
                                                 const coreml_framework::Framework& framework);

}  // namespace rlx
