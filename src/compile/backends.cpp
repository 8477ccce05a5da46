// Devices and their backends.
#include "compile/backends.h"

#include <map>

#include "backends/cpu/cpu.h"
#include "backends/null/null.h"
#include "compile/coreml_device.h"
#include "rlx/error.h"

namespace rlx {
namespace {

struct Row {
  DeviceKind kind;
  std::unique_ptr<Backend> (*make)();
};
const Row kRows[] = {
    {DeviceKind::cpu, cpu::make_backend},
    {DeviceKind::null, null::make_backend},
};

std::string_view name_of_kind(DeviceKind kind) { return names_of(kind)[static_cast<size_t>(kind)]; }

}  // namespace

std::shared_ptr<const Backend> find_backend(Device device) {
  static const std::map<DeviceKind, std::shared_ptr<const Backend>> backends = [] {
    std::map<DeviceKind, std::shared_ptr<const Backend>> made;
    for (const Row& row : kRows) made[row.kind] = row.make();
    return made;
  }();
  if (device.kind() == DeviceKind::coreml) {  // one for each choice of its processors
    static const auto coreml = [] {
      std::array<std::shared_ptr<const Backend>, names_of(ComputeUnits{}).size()> made;
      for (size_t u = 0; u < made.size(); ++u) made[u] = make_coreml_device(Device::coreml(ComputeUnits(u)));
      return made;
    }();
    return coreml[static_cast<size_t>(device.units())];
  }
  auto found = backends.find(device.kind());
  return found == backends.end() ? nullptr : found->second;
}
std::shared_ptr<const Backend> backend_of(Device device) {
  if (auto backend = find_backend(device)) return backend;
  std::string list;
  for (const DeviceInfo& d : devices())
    if (d.available) list += (list.empty() ? "" : ", ") + d.device.name();
  fail(ErrorCode::not_found, "device '", device,
       "' is not available: this build has no backend for it; available: ", list);
}
std::vector<std::shared_ptr<const Backend>> all_backends() {
  std::vector<std::shared_ptr<const Backend>> all;
  for (const Row& row : kRows) all.push_back(find_backend(Device::parse(name_of_kind(row.kind))));
  return all;
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
  for (std::string_view name : names_of(DeviceKind{})) {
    Device device = Device::parse(name);
    auto backend = find_backend(device);
    if (!backend) all.push_back({device, false, "this build has no backend for it"});
    else if (auto why = backend->unavailable(); !why.empty()) all.push_back({device, false, why});
    else all.push_back({device, true, backend->description()});
  }
  return all;
}
bool is_available(Device device) {
  auto backend = find_backend(device);
  return backend && backend->unavailable().empty();
}

}  // namespace rlx
