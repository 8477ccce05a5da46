// Devices, spelled one way everywhere: `rlx::Device::cpu()` in C++, "cpu" in strings and on the command line.
#pragma once

#include <array>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

enum class DeviceKind { cpu, coreml, mlx, cuda, rocm, metal, wgpu, tpu, null };
constexpr std::array<std::string_view, 9> names_of(DeviceKind) {
  return {"cpu", "coreml", "mlx", "cuda", "rocm", "metal", "wgpu", "tpu", "null"};
}
/// Which of Apple's processors Core ML may use.
enum class ComputeUnits { all, cpu, gpu, ane };
constexpr std::array<std::string_view, 4> names_of(ComputeUnits) { return {"all", "cpu", "gpu", "ane"}; }

class Device {
 public:
  static Device cpu() { return {DeviceKind::cpu}; }
  static Device coreml(ComputeUnits units = ComputeUnits::all) { return {DeviceKind::coreml, units}; }
  static Device mlx() { return {DeviceKind::mlx}; }
  static Device cuda() { return {DeviceKind::cuda}; }
  static Device rocm() { return {DeviceKind::rocm}; }
  static Device metal() { return {DeviceKind::metal}; }
  static Device wgpu() { return {DeviceKind::wgpu}; }
  static Device tpu() { return {DeviceKind::tpu}; }
  /// Claims every primitive and runs none: for reports and for beginning a backend.
  static Device null() { return {DeviceKind::null}; }
  /// "cpu", "coreml:ane". Fails, listing the devices, for anything else.
  static Device parse(std::string_view text);

  DeviceKind kind() const { return kind_; }
  ComputeUnits units() const { return units_; }
  std::string name() const;
  bool operator==(const Device&) const = default;

 private:
  Device(DeviceKind kind, ComputeUnits units = ComputeUnits::all) : kind_(kind), units_(units) {}
  DeviceKind kind_;
  ComputeUnits units_;
};
std::ostream& operator<<(std::ostream&, const Device&);

struct DeviceInfo {
  Device device;
  bool available;
  std::string description;  ///< what it is here, or why it is not available
};
/// Every device that RLX knows, in a fixed order.
std::vector<DeviceInfo> devices();
bool is_available(Device);

}  // namespace rlx
