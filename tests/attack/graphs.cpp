// Attacks the compiler and the CPU's kernels with odd graphs that are valid: drawn from the whole op table, with their
// gradients, compiled in all ways, and run beside the reference interpreter.
//
//     attack_graphs [--seconds S] [--seed N] [--first I] [--end J] [--findings M] [--keep DIR]
//                                                       graphs I, I+1, ... for a time, and none from J on
//     attack_graphs --seed N --graph I                  one graph, in this process
//     attack_graphs --file DIR/finding.rlx              what a finding was made into
//
// Seconds and seed may come from RLX_ATTACK_SECONDS and RLX_ATTACK_SEED. Graphs are tried in a child process, so that a
// crash, a loop without end or memory without end are findings like others. A finding is made smaller, kept in DIR
// (build/attack) and printed with the command that shows it. What differs only because rounding is enlarged is counted
// by reason (noise.h). The exit code is 1 if there were findings, or ops that no graph reached in time enough for all.
#define DOCTEST_CONFIG_IMPLEMENT  // no test of doctest's, but the tests' precompiled header refers to it
#include <doctest/doctest.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <random>
#include <thread>

#include "attack/shrink.h"
#include "ir/text.h"
#include "support/sanitized.h"

namespace rlx::attack {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  double seconds = 20;
  uint64_t seed = 0, first = 0, end = ~uint64_t{0};
  size_t most_findings = 20;
  std::string keep = "build/attack";
  std::string program;
  double most_seconds_of_a_phase() const { return test::sanitized() ? 200 : 20; }
};
constexpr rlim_t kMostMemory = rlim_t{4} << 30;  // beside what the process has

/// What parent and child both see.
struct Progress {
  std::atomic<uint64_t> at, steps;  // the graph, and how many phases were entered
  std::atomic<Phase> phase;
  std::atomic<int> trial;  // of the graph's trials, which
  std::atomic<Fault> fault;
  char why[1 << 13];
  Counts counts;
};

void limit_memory() {
  if (test::sanitized()) return;
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kMostMemory;
  const rlimit limit{most, most}, no_core{0, 0};
  setrlimit(RLIMIT_AS, &limit);
  setrlimit(RLIMIT_CORE, &no_core);
}

/// The trials of a graph, one after the other, until one fails.
Outcome tried_all(uint64_t seed, uint64_t index, Counts& counts, int& trial, const std::function<void(Phase)>& enter) {
  trial = 0;
  enter(Phase::drawing);
  std::vector<Trial> trials;
  try {
    trials = drawn_trials(seed, index);
  } catch (const std::exception& e) {
    return {Fault::drawing, e.what()};
  }
  ++counts.graphs;
  for (const Trial& each : trials) {
    if (Outcome outcome = tried(each, counts, enter); outcome.fault != Fault::none) return outcome;
    ++trial;
  }
  return {};
}

/// In the child: graphs from progress.at on, until the time is over or one fails.
[[noreturn]] void run_graphs(const Settings& settings, Progress& progress, Clock::time_point end) {
  limit_memory();
  for (; Clock::now() < end && progress.at < settings.end; ++progress.at) {
    int trial = 0;
    const Outcome outcome = tried_all(settings.seed, progress.at, progress.counts, trial, [&](Phase phase) {
      progress.trial = trial;
      progress.phase = phase;
      ++progress.steps;
    });
    if (outcome.fault == Fault::none) continue;
    std::snprintf(progress.why, sizeof progress.why, "%s", outcome.why.c_str());
    progress.fault = outcome.fault;
    _exit(3);
  }
  _exit(0);
}

/// In a child of its own: makes the trial smaller and keeps it.
void keep_finding(const Settings& settings, uint64_t index, int trial, Fault fault, const std::string& folder) {
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    int code = 0;
    try {
      const auto trials = drawn_trials(settings.seed, index);
      const Trial& found = trials.at(static_cast<size_t>(trial));
      save_trial(folder + "/whole", found);
      const Trial small = shrunk(found, fault, test::sanitized() ? 120 : 60, settings.most_seconds_of_a_phase());
      save_trial(folder + "/finding", small);
      std::printf("  %s, %s\n%s", text_of_way(small.way).c_str(),
                  std::string(names_of(small.transform)[size_t(small.transform)]).c_str(),
                  text(small.fed.graph).substr(0, 3000).c_str());
      const Outcome outcome = tried_apart(small, settings.most_seconds_of_a_phase());
      std::printf("  made smaller: %s: %s\n", std::string(names_of(outcome.fault)[size_t(outcome.fault)]).c_str(),
                  outcome.why.substr(0, 1000).c_str());
    } catch (const std::exception& e) {
      std::printf("  could not be made smaller: %s\n", e.what());
      code = 1;
    }
    std::fflush(stdout);
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) std::printf("  could not be made smaller: signal %d\n", WTERMSIG(status));
}

void report_finding(const Settings& settings, size_t number, uint64_t index, int trial, Fault fault, Phase phase,
                    const std::string& why) {
  const std::string folder = text_of(settings.keep, "/graph-", settings.seed, "-", index);
  std::filesystem::create_directories(folder);
  std::printf("FINDING %zu: %s while %s: %s\n  %s --seed %llu --graph %llu\n  %s --file %s/finding.rlx\n", number,
              std::string(names_of(fault)[size_t(fault)]).c_str(), std::string(names_of(phase)[size_t(phase)]).c_str(),
              why.c_str(), settings.program.c_str(), static_cast<unsigned long long>(settings.seed),
              static_cast<unsigned long long>(index), settings.program.c_str(), folder.c_str());
  std::fflush(stdout);
  if (fault != Fault::drawing) keep_finding(settings, index, trial, fault, folder);
  std::fflush(stdout);
}

void print_counts(const Counts& c, size_t findings) {
  const auto ops = all_ops();
  size_t drawable = 0, reached = 0, reached_by_transform = 0;
  std::string never;
  for (size_t i = 0; i < ops.size() && i < Counts::kMostOps; ++i) {
    const auto& all = drawable_ops();
    if (std::find(all.begin(), all.end(), ops[i]) == all.end()) continue;
    ++drawable, reached += c.reached[i] > 0, reached_by_transform += c.reached_by_transform[i] > 0;
    if (c.reached[i] + c.reached_by_transform[i] == 0) never += (never.empty() ? "" : ", ") + std::string(ops[i]->name);
  }
  if (!never.empty()) std::printf("ops that no graph reached: %s\n", never.c_str());
  for (size_t i = 0; i < std::size(kRefusals); ++i)
    if (c.refused[i])
      std::printf("refused by native alone, %zu times: %s\n", c.refused[i], std::string(kRefusals[i].why).c_str());
  if (c.refused_empty_symbol)
    std::printf("refused by native alone, %zu times: a symbol is 0, and the op's portable form has a step for it\n",
                c.refused_empty_symbol);
  std::string excused;
  size_t all_excused = 0;
  for (size_t e = 0; e < std::size(c.excused); ++e) {
    all_excused += c.excused[e];
    excused += text_of(e ? ", " : "", c.excused[e], " ", names_of(Excuse{})[e]);
  }
  std::printf(
      "%zu graphs, %zu with symbols; of them %zu gradients, %zu forward derivatives, %zu batches (%zu without a rule); "
      "%zu compiled and compared, %zu nodes; %zu of %zu ops reached, %zu in derivatives and batches; %zu elements, "
      "%zu finite, %zu beyond the tolerance, of which noise excuses %zu (%s); refused by both sides %zu; left out as "
      "slow: %zu by the reference, %zu by noise; %zu findings\n",
      c.graphs, c.symbolic, c.transformed[size_t(Transform::vjp)], c.transformed[size_t(Transform::jvp)],
      c.transformed[size_t(Transform::vmap)], c.without_rule, c.compiled, c.nodes, reached, drawable,
      reached_by_transform, c.elements, c.finite, c.beyond_tolerance, all_excused, excused.c_str(), c.refused_by_both,
      c.slow_reference, c.slow_noise, findings);
}

int attack(const Settings& settings) {
  void* shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  auto& progress = *new (shared) Progress{};
  progress.at = settings.first;
  std::printf("seed %llu, %g s\n", static_cast<unsigned long long>(settings.seed), settings.seconds);
  std::fflush(stdout);
  const auto end = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(settings.seconds * 1000));
  size_t findings = 0;
  while (Clock::now() < end && progress.at < settings.end && findings < settings.most_findings) {
    progress.fault = Fault::none;
    const pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) run_graphs(settings, progress, end);
    uint64_t seen = progress.steps;
    Stopwatch since(child);
    int status = 0;
    bool ended_late = false;
    while (waitpid(child, &status, WNOHANG) != child) {
      if (progress.steps != seen) seen = progress.steps, since = Stopwatch(child);
      if (since.is_beyond(settings.most_seconds_of_a_phase())) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        ended_late = true;
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ended_well) break;
    const Phase phase = progress.phase;
    const uint64_t at = progress.at;
    if (progress.fault != Fault::none) {
      report_finding(settings, ++findings, at, progress.trial, progress.fault, phase, progress.why);
    } else if (ended_late && phase == Phase::reference) {
      ++progress.counts.slow_reference;
    } else if (ended_late && phase == Phase::comparing) {
      ++progress.counts.slow_noise;
    } else {
      const std::string why = ended_late ? text_of("still running after ", settings.most_seconds_of_a_phase(), " s")
                              : WIFSIGNALED(status) ? text_of("signal ", WTERMSIG(status))
                                                    : text_of("exit code ", WEXITSTATUS(status));
      report_finding(settings, ++findings, at, progress.trial, ended_late ? Fault::hanging : Fault::crashing, phase,
                     why);
    }
    ++progress.at;
  }
  print_counts(progress.counts, findings);
  munmap(shared, sizeof(Progress));
  return findings ? 1 : 0;
}

int try_one(const std::function<Outcome(Counts&, const std::function<void(Phase)>&)>& run) {
  auto counts = std::make_unique<Counts>();
  auto since = Clock::now();
  const Outcome outcome = run(*counts, [&](Phase phase) {
    const auto now = Clock::now();
    std::printf("%8.3f s, then %s\n", std::chrono::duration<double>(now - std::exchange(since, now)).count(),
                std::string(names_of(phase)[size_t(phase)]).c_str());
    std::fflush(stdout);
  });
  print_counts(*counts, outcome.fault != Fault::none);
  std::printf("%s: %s\n", std::string(names_of(outcome.fault)[size_t(outcome.fault)]).c_str(), outcome.why.c_str());
  return outcome.fault != Fault::none;
}

int run(int argc, char** argv) {
  Settings settings;
  settings.program = argv[0];
  if (const char* seconds = std::getenv("RLX_ATTACK_SECONDS")) settings.seconds = std::atof(seconds);
  if (const char* seed = std::getenv("RLX_ATTACK_SEED")) settings.seed = std::strtoull(seed, nullptr, 10);
  std::optional<uint64_t> graph;
  std::string file;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--seconds") settings.seconds = std::atof(value);
    else if (name == "--seed") settings.seed = std::strtoull(value, nullptr, 10);
    else if (name == "--first") settings.first = std::strtoull(value, nullptr, 10);
    else if (name == "--end") settings.end = std::strtoull(value, nullptr, 10);
    else if (name == "--findings") settings.most_findings = std::strtoull(value, nullptr, 10);
    else if (name == "--keep") settings.keep = value;
    else if (name == "--graph") graph = std::strtoull(value, nullptr, 10);
    else if (name == "--file") file = value;
    else return std::fprintf(stderr, "%s is no option; see the head of tests/attack/graphs.cpp\n", argv[i]), 2;
  }
  if (argc % 2 == 0) return std::fprintf(stderr, "%s has no value\n", argv[argc - 1]), 2;
  if (settings.seed == 0) settings.seed = 1 + std::random_device{}() % 0x7fffffff;
  if (!file.empty()) {
    const Trial trial = load_trial(file);
    std::printf("%s\n%s", text_of_way(trial.way).c_str(), text(trial.fed.graph).c_str());
    return try_one([&](Counts& counts, const auto& enter) { return tried(trial, counts, enter); });
  }
  if (!graph) return attack(settings);
  int trial = 0;
  for (const Trial& each : drawn_trials(settings.seed, *graph))
    std::printf("%s, %s\n%s", text_of_way(each.way).c_str(),
                std::string(names_of(each.transform)[size_t(each.transform)]).c_str(), text(each.fed.graph).c_str());
  return try_one(
      [&](Counts& counts, const auto& enter) { return tried_all(settings.seed, *graph, counts, trial, enter); });
}

}  // namespace
}  // namespace rlx::attack

int main(int argc, char** argv) {
  try {
    return rlx::attack::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "attack_graphs: %s\n", e.what());
    return 2;
  }
}
