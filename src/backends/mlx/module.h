// What the core asks of the module librlx_mlx (librlx_mlx_c for librlx_c), which alone is linked to MLX. It is opened
// when a program first needs it (devices/mlx).
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace rlx::mlx_backend {

/// Begins work on a thread of the device's once all of the events have ended well; the event of its end.
using Background = std::function<Event(std::string name, std::function<void()> work, std::span<const Event> after,
                                       std::shared_ptr<CancelFlag> cancel)>;

class Module {
 public:
  virtual ~Module() = default;
  /// The address of the op `input` in the library that the module is linked to. Ops are told apart by their addresses,
  /// so that a graph of another copy of the library means nothing to it.
  virtual const void* ops() const = 0;
  /// Why MLX cannot be used, such as that it is of another version than the module was compiled with; empty if it can.
  virtual std::string unusable() const = 0;
  /// The device, its memory, MLX's version.
  virtual std::string description() const = 0;
  /// Whether there is a GPU, by Metal or CUDA.
  virtual bool has_gpu() const = 0;
  virtual Target target() const = 0;
  virtual std::shared_ptr<DeviceMemory> memory() const = 0;
  /// Before anything else is asked of the memory and of executables.
  virtual void set_background(Background background) = 0;
  /// `mode`: lazy, eager or compiled.
  virtual std::unique_ptr<Program> lower(Graph legal, const std::string& mode) const = 0;
  /// Writes a graph of static types as a function of MLX's (.mlxfn), with the values of its params in it. Fails, naming
  /// the node, for one that is no operation of MLX's.
  virtual void write_function(Graph legal, const NamedTensors& params, const std::string& path) const = 0;
};

/// The name of the function that gives the module: Module* f(int version). It returns null if `version` is not
/// kVersion.
constexpr const char* kEntry = "rlx_mlx_module";
/// The version of this interface.
constexpr int kVersion = 4;

}  // namespace rlx::mlx_backend
