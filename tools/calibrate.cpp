// `rlx calibrate`: measures the machine once, for sessions to choose by.
#include <CLI/CLI.hpp>
#include <memory>

#include "rlx/error.h"
#include "rlx/machine.h"
#include "tools/output.h"
#include "tools/progress_bar.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

struct Calibrate {
  std::string out;
  bool json = false, show = false;

  void run() const {
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
};

}  // namespace

Subcommand add_calibrate(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("calibrate", "Measures this machine, for RLX to choose by");
  auto calibrate = std::make_shared<Calibrate>();
  app->add_option("--out", calibrate->out, "the file to write (default: where sessions look)")->option_text("FILE");
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
  rlx calibrate --show --json)");
  return {app, [calibrate] { calibrate->run(); }};
}

}  // namespace rlx::tools
