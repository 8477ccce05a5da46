// The list of devices: the one place that names backends. What is not registered elsewhere is built in here.
#include "backends/cpu/cpu.h"
#include "backends/null/null.h"
#include "backends/registry.h"
#include "devices/coreml/device.h"
#include "devices/mlx/device.h"
#include "devices/simulated/device.h"
#include "rlx_choices.h"

namespace rlx {

// The first one is where graphs run that name no device. Of accelerators the first that is there is the one for whoever
// has no wish (pick_best_device).
std::vector<BackendEntry> built_in_backends() {
  return {
    {"cpu", [](const Device&) { return std::shared_ptr<const Backend>(cpu::make_backend()); }}, {"cuda"}, {"rocm"},
        {"metal"},
#if RLX_PART_MLX
        {"mlx",
         [](const Device& device) { return std::shared_ptr<const Backend>(make_mlx_device(device)); },
         {"lazy", "eager", "compiled"}},
#else
        {"mlx"},
#endif
        {"tpu"},
#if RLX_PART_COREML
        {"coreml",
         [](const Device& device) { return std::shared_ptr<const Backend>(make_coreml_device(device)); },
         {"cpu", "gpu", "ane"}},
#else
        {"coreml"},
#endif
        {"wgpu"},
#if RLX_PART_SIMULATED
        {"loopback",
         [](const Device&) { return std::shared_ptr<const Backend>(simulated::make_loopback()); },
         {},
         1,
         true},
        {"tiny", [](const Device&) { return std::shared_ptr<const Backend>(simulated::make_tiny()); }, {}, 1, true},
#endif
        {"null", [](const Device&) { return std::shared_ptr<const Backend>(null::make_backend()); }},
  };
}

Device Device::cpu() { return Device("cpu"); }
Device Device::coreml(ComputeUnits units) {
  if (units == ComputeUnits::all) return Device("coreml");
  return Device("coreml", 0, {std::string(names_of(units)[static_cast<size_t>(units)])});
}
Device Device::mlx() { return Device("mlx"); }
Device Device::cuda() { return Device("cuda"); }
Device Device::rocm() { return Device("rocm"); }
Device Device::metal() { return Device("metal"); }
Device Device::wgpu() { return Device("wgpu"); }
Device Device::tpu() { return Device("tpu"); }
Device Device::null() { return Device("null"); }

}  // namespace rlx
