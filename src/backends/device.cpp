// The names of devices. Which of them this build has is src/compile/backends.cpp's.
#include "rlx/device.h"

#include "rlx/error.h"

namespace rlx {

std::string Device::name() const {
  std::string text(names_of(kind_)[static_cast<size_t>(kind_)]);
  if (kind_ == DeviceKind::coreml && units_ != ComputeUnits::all)
    text += ":" + std::string(names_of(units_)[static_cast<size_t>(units_)]);
  return text;
}
std::ostream& operator<<(std::ostream& out, const Device& d) { return out << d.name(); }

Device Device::parse(std::string_view text) {
  std::string_view kind = text.substr(0, text.find(':'));
  std::string_view units = kind.size() == text.size() ? std::string_view() : text.substr(kind.size() + 1);
  auto kinds = names_of(DeviceKind{});
  for (size_t k = 0; k < kinds.size(); ++k) {
    if (kinds[k] != kind) continue;
    Device device(static_cast<DeviceKind>(k));
    if (units.empty() && kind.size() == text.size()) return device;
    auto all = names_of(ComputeUnits{});
    for (size_t u = 0; u < all.size(); ++u)
      if (device.kind_ == DeviceKind::coreml && all[u] == units) return coreml(static_cast<ComputeUnits>(u));
  }
  std::string list;
  for (std::string_view name : kinds) list += (list.empty() ? "" : ", ") + std::string(name);
  fail(ErrorCode::not_found, "there is no device '", text, "'; there are ", list,
       ", and coreml:cpu, coreml:gpu, coreml:ane");
}

}  // namespace rlx
