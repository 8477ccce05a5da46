// `rlx calibrate`: measures the machine and its devices once, for sessions and users to choose by.
#include <algorithm>
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
    if (!devices.empty() && !out.empty())
      throw UsageError("--out is for the machine's figures; those of a device have a file of their own");
    std::vector<Device> chosen;
    for (const std::string& name : devices)
      if (name != "all") chosen.push_back(Device::parse(name));
    if (devices.empty() ? out.empty() : std::find(devices.begin(), devices.end(), "all") != devices.end())
      for (const DeviceInfo& d : rlx::devices())
        if (d.available && !d.is_simulation) chosen.push_back(d.device);
    if (devices.empty()) {
      const std::string machine = of_machine();
      if (!out.empty()) return write_out(machine);
      // Before the devices, which take longer: a reader sees what there is.
      write_out(json ? "{\"machine\": " + machine + ", \"devices\": [" : machine);
    }
    const std::vector<std::string> files = of_devices(chosen);
    const bool is_list = json && (devices.empty() || chosen.size() > 1);
    std::string all = is_list && !devices.empty() ? "[" : "";
    for (size_t i = 0; i < files.size(); ++i) all += (is_list && i ? ", " : "") + files[i];
    write_out(all + (is_list ? devices.empty() ? "]}\n" : "]\n" : ""));
  }

  std::string of_machine() const {
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
    return json ? speeds.json() : speeds.table() + (show ? "read from " : "kept in ") + path + "\n";
  }

  /// A text for each device; with --json and --show, for each that was measured.
  std::vector<std::string> of_devices(const std::vector<Device>& chosen) const {
    std::vector<std::string> all;
    for (const Device& device : chosen) {
      const std::string path = device_speeds_file(device, threads);
      if (path.empty()) throw UsageError("there is no folder for the result: set RLX_CACHE_DIR");
      if (show) {
        std::error_code ignored;
        if (std::filesystem::exists(path, ignored)) all.push_back(load_device_speeds(path).json());
        else if (!json) all.push_back(device.name() + " was not measured\n");
        continue;
      }
      DeviceSpeeds speeds;
      {
        ProgressBar bar("calibrate " + device.name());
        speeds = measure_device(device, threads, [&](size_t done, size_t n, std::string_view) { bar.show(done, n); });
      }
      save_device_speeds(speeds, path);
      all.push_back(json ? speeds.json() : speeds.json() + "kept in " + path + "\n");
    }
    return all;
  }
};

}  // namespace

Subcommand add_calibrate(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("calibrate", "Measures this machine and its devices, for RLX to choose by");
  auto calibrate = std::make_shared<Calibrate>();
  app->add_option("--out", calibrate->out,
                  "measure the machine alone, and write this file (default: where sessions look)")
      ->option_text("FILE");
  app->add_option("--device", calibrate->devices,
                  "measure these devices alone, with commas in between, or all that can run here")
      ->delimiter(',')
      ->type_name("DEVICES");
  add_threads_option(*app, calibrate->threads);
  app->add_flag("--show", calibrate->show, "print what was measured before, and measure nothing");
  app->add_flag("--json", calibrate->json,
                "print what the files hold as JSON: {machine, devices}; of one device its file, of several a list");
  app->footer(
      R"(Measures products small and large, attention, memory, reductions, what a run costs by itself and what it costs to hand
parts to other threads; then the like of each device that can run here, as a session computes on it. It takes some seconds for each, in
which the machine should do nothing else. The figures of the processor are kept as machine-KEY.json (KEY: the processor and its threads) in
RLX_CACHE_DIR, else in ~/.cache/rlx. Each later process reads them once, and by them decides how finely work is split over threads, how
many of them sessions use that name no number, and from how many rows on products go through matrix tiles. Those of the devices are
BACKEND-calib-KEY.json there, for one number of threads: `rlx devices --for MODEL` and pick_best_device(graph) predict times by them.
Without files the defaults stand. One that is damaged, old, or of another processor is left aside with a word.

Examples:
  rlx calibrate
  rlx calibrate --show --json
  rlx calibrate --device cpu,mlx --threads 1)");
  return {app, [calibrate] { calibrate->run(); }};
}

}  // namespace rlx::tools
