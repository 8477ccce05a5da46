// `rlx calibrate`: measures the machine once, for sessions to choose by.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "rlx/device_speed.h"
#include "rlx/error.h"
#include "rlx/machine.h"
#include "tools/device_option.h"
#include "tools/encoder_options.h"
#include "tools/output.h"
#include "tools/progress_bar.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

struct Calibrate {
  std::string out;
  bool json = false, show = false;
  std::vector<std::string> devices;
  int threads = 0;

  void run() const {
    if (!devices.empty()) return measure_devices();
    const std::string path = out.empty() ? machine_file() : out;
    if (path.empty()) throw UsageError("there is no folder for the result: set RLX_CACHE_DIR, or give --out FILE");
    MachineSpeeds speeds;
    if (show) {
      speeds =
          with_context([&] { return "reading the calibration '" + path + "'"; }, [&] { return load_machine(path); });
    } else {
      ProgressBar bar("calibrate");
      speeds = measure_machine([&](size_t done, size_t all, std::string_view) { bar.show(done, all); });
      try {
        save_machine(speeds, path);
      } catch (const Error&) {  // what was measured is worth seeing all the same
        write_out(json ? speeds.json() : speeds.table());
        throw;
      }
    }
    write_out(json ? speeds.json() : speeds.table() + (show ? "read from " : "kept in ") + path + "\n");
  }

  void measure_devices() const {
    if (!out.empty())
      throw UsageError("--out is for the machine's figures; those of a device have a file of their own");
    std::vector<Device> chosen;
    for (const std::string& name : devices)
      if (name != "all") chosen.push_back(Device::parse(name));
      else
        for (const DeviceInfo& d : rlx::devices())
          if (d.available && !d.is_simulation) chosen.push_back(d.device);
    std::string all;
    for (const Device& device : chosen) {
      const std::string path = device_speeds_file(device, threads);
      if (path.empty()) throw UsageError("there is no folder for the result: set RLX_CACHE_DIR");
      if (show) {
        std::error_code ignored;
        if (std::filesystem::exists(path, ignored)) all += load_device_speeds(path).json();
        else if (!json) all += device.name() + " was not measured\n";
        continue;
      }
      DeviceSpeeds speeds;
      {
        ProgressBar bar("calibrate " + device.name());
        speeds = measure_device(device, threads, [&](size_t done, size_t n, std::string_view) { bar.show(done, n); });
      }
      save_device_speeds(speeds, path);
      all += json ? speeds.json() : speeds.json() + "kept in " + path + "\n";
    }
    write_out(all);
  }
};

}  // namespace

Subcommand add_calibrate(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("calibrate", "Measures this machine, for RLX to choose by");
  auto calibrate = std::make_shared<Calibrate>();
  app->add_option("--out", calibrate->out, "the file to write (default: where sessions look)")->option_text("FILE");
  app->add_option("--device", calibrate->devices,
                  "measure these devices instead, with commas in between, or all: what `rlx devices --for MODEL` and "
                  "pick_best_device(graph) predict by")
      ->delimiter(',')
      ->type_name("DEVICES");
  add_threads_option(*app, calibrate->threads);
  app->add_flag("--show", calibrate->show, "print what was measured before, and measure nothing");
  app->add_flag("--json", calibrate->json, "print the file instead of the table");
  app->footer(
      R"(Measures products small and large, attention, memory, reductions, what a run costs by itself and what it costs to hand
parts to other threads; a few seconds, in which the machine should do nothing else. The result is kept as
machine-KEY.json (KEY: the processor and its threads) in RLX_CACHE_DIR, else in ~/.cache/rlx. Each later process reads it once, and by it
decides how finely work is split over threads, how many of them sessions use that name no number, and from how many rows on
products go through matrix tiles. Without it the defaults stand. A file that is damaged, old, or of another processor is left aside with a word.

Examples:
  rlx calibrate
  rlx calibrate --show --json
  rlx calibrate --device all --threads 1)");
  return {app, [calibrate] { calibrate->run(); }};
}

}  // namespace rlx::tools
