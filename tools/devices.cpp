// `rlx devices`: what this build can run on, here.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "rlx/device.h"
#include "rlx/error.h"
#include "rlx/machine.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

/// What sessions know of how fast the processor is.
std::string calibration() {
  const std::string path = machine_file();
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return "not measured (`rlx calibrate`)";
  try {
    const MachineSpeeds s = load_machine(path);
    return text_of("measured: products ", fixed_text(s.product_gflops, 0), " GF/s on one thread, ",
                   fixed_text(s.product_all_gflops, 0), " on ", s.threads, ", memory ", fixed_text(s.read_gbs, 1),
                   " GB/s (", path, ")");
  } catch (const Error& why) {
    return text_of("the calibration ", path, " is left aside: ", why.what());
  }
}

void print_devices(bool json) {
  std::string out;
  TextTable table("lll");
  for (const DeviceInfo& d : devices()) {
    table.add({d.device.name(), d.available ? "yes" : "no", d.description});
    if (!json) continue;
    std::string target = "null";
    try {
      target = target_json(d.device);
    } catch (const Error&) {  // no backend, as the description says
    }
    out += (out.empty() ? "[{" : ",\n {") + ("\"device\": " + json_text(d.device.name())) +
           ", \"available\": " + (d.available ? "true" : "false") + ", \"description\": " + json_text(d.description) +
           ",\n  \"target\": " + target + "}";
  }
  write_out(json ? out + "]\n" : table.text() + "best: " + pick_best_device().name() + "; " + calibration() + "\n");
}

}  // namespace

Subcommand add_devices(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("devices", "What RLX can run on here");
  auto json = std::make_shared<bool>(false);
  app->add_flag(
      "--json", *json,
      "print a JSON array of {device, available, description, target}; target is null of a device that this build "
      "has no backend for");
  app->footer(
      R"(Every device that RLX knows, whether it is available here, and what it is or why not. The names are those that
--device and --target take. Below them: the one for whoever has no wish, and what `rlx calibrate` has measured.)");
  return {app, [json] { print_devices(*json); }};
}

}  // namespace rlx::tools
