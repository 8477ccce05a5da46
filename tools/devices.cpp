// `rlx devices`: what this build can run on, here.
#include <CLI/CLI.hpp>

#include <memory>

#include "rlx/device.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

void print_devices(bool json) {
  std::string out;
  TextTable table("lll");
  for (const DeviceInfo& d : devices()) {
    table.add({d.device.name(), d.available ? "yes" : "no", d.description});
    out += (out.empty() ? "[{" : ",\n {") + ("\"device\": " + json_text(d.device.name())) +
           ", \"available\": " + (d.available ? "true" : "false") + ", \"description\": " + json_text(d.description) +
           "}";
  }
  write_out(json ? out + "]\n" : table.text());
}

}  // namespace

Subcommand add_devices(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("devices", "What RLX can run on here");
  auto json = std::make_shared<bool>(false);
  app->add_flag("--json", *json, "print a JSON array of {device, available, description}");
  app->footer(
      R"(Every device that RLX knows, whether it is available here, and what it is or why not. The names are those that
--device and --target take.)");
  return {app, [json] { print_devices(*json); }};
}

}  // namespace rlx::tools
