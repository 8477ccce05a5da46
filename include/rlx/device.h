// Devices, spelled one way everywhere: `rlx::Device::cpu()` in C++, "cpu" in strings and on the command line.
#pragma once

#include <array>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

/// Which of Apple's processors Core ML may use.
enum class ComputeUnits { all, cpu, gpu, ane };
constexpr std::array<std::string_view, 4> names_of(ComputeUnits) { return {"all", "cpu", "gpu", "ane"}; }

/// A device by name: the name of a backend, which of that backend's devices, and options that the backend understands.
/// A value: making one opens nothing, and says nothing of whether the device is there.
class Device {
 public:
  /// Fails, naming what there is, for a backend, an ordinal or an option that is not known.
  explicit Device(std::string backend, int ordinal = 0, std::vector<std::string> options = {});

  static Device cpu();
  static Device coreml(ComputeUnits units = ComputeUnits::all);
  static Device mlx();
  static Device cuda();
  static Device rocm();
  static Device metal();
  static Device wgpu();
  static Device tpu();
  /// Claims every primitive and runs none: for reports and for beginning a backend.
  static Device null();

  /// "cpu", "cuda:1", "coreml:ane": a backend, then its ordinal if that is not 0, then its options, with colons in
  /// between. Fails as the constructor does.
  static Device parse(std::string_view text);
  /// What RLX_DEVICE names; the first device of the list, the processor, where it is not set or empty.
  static Device from_environment();

  const std::string& backend() const { return backend_; }
  int ordinal() const { return ordinal_; }
  const std::vector<std::string>& options() const { return options_; }
  /// As `parse` reads it.
  std::string name() const;
  bool operator==(const Device&) const = default;

 private:
  std::string backend_;
  int ordinal_;
  std::vector<std::string> options_;
};
std::ostream& operator<<(std::ostream&, const Device&);

struct DeviceInfo {
  Device device;
  bool available;
  std::string description;  ///< what it is here, or why it is not available
  /// Whether it computes faster than the processor that runs this program, so that who has no wish wants it.
  bool accelerates = false;
  bool is_simulation = false;  ///< for tests: it computes on the processor and pretends to be something else
};
/// Every device that RLX knows, in the order of the list in src/devices/list.cpp.
std::vector<DeviceInfo> devices();
bool is_available(const Device&);

/// Something that a device's compiled graphs depend on beside the library: "processor", "x86-64 with AVX2".
struct TargetFact {
  std::string name, value;
  bool operator==(const TargetFact&) const = default;
};
/// What the compiler knows of a device, as a JSON object that docs/runtime.md ("What a device is, as data") describes:
/// its memory, limits, claimed ops, fusions, passes and facts. The hardware need not be there. Fails if this build has
/// no backend for the device.
std::string target_json(const Device&);

}  // namespace rlx
