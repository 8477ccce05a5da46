// `rlx devices`: what this build can run on, here.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "backends/cpu/convolution_plan.h"
#include "kernels/attention/attention_plan.h"
#include "kernels/gemm/product_plan.h"
#include "kernels/linalg/blas_library.h"
#include "rlx/device_speed.h"
#include "rlx/error.h"
#include "rlx/machine.h"
#include "tools/dim_option.h"
#include "tools/encoder_options.h"
#include "tools/model_graph.h"
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
                   fixed_text(s.product_all_gflops, 0), " on ", s.threads, " (", path, ")");
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
  write_out(json ? out + "]\n"
                 : table.text() + "best: " + pick_best_device().name() + "; " + calibration() +
                       "\nLAPACK on the CPU: " + kernels::blas_description() + "\n");
}

/// The tables of the CPU's planners, in the order in which their rules are asked.
void print_rules(bool json) {
  std::string list;
  TextTable table("lll");
  table.add({"of", "kernel", "reason"});
  const auto add = [&](std::string_view family, const auto& rules) {
    for (const auto& rule : rules) {
      const std::string kernel(name_of(rule.kernel)), reason(rule.reason);
      table.add({std::string(family), kernel, reason});
      list += text_of(list.empty() ? "[" : ",\n ", "{\"of\": ", json_text(family), ", \"kernel\": ", json_text(kernel),
                      ", \"reason\": ", json_text(reason), "}");
    }
  };
  add("products", kernels::product_rules());
  add("convolutions", cpu::convolution_rules());
  add("attention", kernels::attention_rules());
  write_out(json ? list + "]\n" : table.text());
}

struct Devices {
  bool json = false, rules = false;
  std::string model;
  std::vector<std::string> dims;
  int threads = 0;

  void run() const {
    if (rules && !model.empty()) throw UsageError("--rules and --for print different things: give one of them");
    if (rules) return print_rules(json);
    if (!model.empty()) return predict();
    if (!dims.empty()) throw UsageError("--dim gives numbers to the symbolic dims of a model: --for MODEL");
    print_devices(json);
  }

  /// How long the model would take on each device.
  void predict() const {
    const Graph g = load_model(model);
    const Bindings numbers = bindings_of("--dim", dims);
    for (const Type& t : g.input_types())
      for (const Dim& d : t.dims)
        d.for_each_symbol([&](const std::string& symbol) {
          if (!numbers.contains(symbol))
            throw UsageError("--for needs a number for '" + symbol + "': --dim " + symbol + "=NUMBER");
        });
    const std::vector<DevicePrediction> all = predict_devices(g, numbers, threads);
    std::string out;
    TextTable table("lrl");
    table.add({"device", "predicted", "why"});
    for (const DevicePrediction& p : all) {
      const std::string time =
          !p.us ? "-" : text_of(fixed_text(*p.us < 1000 ? *p.us : *p.us / 1000, 1), *p.us < 1000 ? " us" : " ms");
      table.add({p.device.name(), time, p.why});
      out += (out.empty() ? "[{" : ",\n {") + ("\"device\": " + json_text(p.device.name())) +
             ", \"us\": " + (p.us ? text_of(*p.us) : "null") + ", \"why\": " + json_text(p.why) + "}";
    }
    write_out(json ? (out.empty() ? "[" : out) + "]\n" : table.text());
  }
};

}  // namespace

Subcommand add_devices(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("devices", "What RLX can run on here");
  auto devices = std::make_shared<Devices>();
  app->add_flag(
      "--json", devices->json,
      "print a JSON array of {device, available, description, target}; target is null of a device that this build "
      "has no backend for. With --for: of {device, us, why}; with --rules: of {of, kernel, reason}");
  app->add_flag(
      "--rules", devices->rules,
      "print the rules by which the CPU chooses kernels of products, convolutions and attention; the first that "
      "holds decides");
  app->add_option("--for", devices->model,
                  "predict how long a run of this model takes on each device that can run here")
      ->option_text("MODEL");
  app->add_option("--dim", devices->dims, "with --for: a number for a symbolic dim, NAME=NUMBER; once for each")
      ->option_text("NAME=NUMBER");
  add_threads_option(*app, devices->threads);
  app->footer(
      R"(Every device that RLX knows, whether it is available here, and what it is or why not. The names are those that
--device and --target take. Below them: the one for whoever has no wish, and what `rlx calibrate` has measured.
With --for, devices are sorted by the time that is predicted for a run of the model from what `rlx calibrate` has measured of each; where
nothing was, there is no prediction.

Examples:
  rlx devices
  rlx devices --for all-MiniLM-L6-v2 --dim B=1 --dim S=128
  rlx devices --rules                                     # rlx where --strategies says which one held)");
  return {app, [devices] { devices->run(); }};
}

}  // namespace rlx::tools
