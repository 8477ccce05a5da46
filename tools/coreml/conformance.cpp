// `rlx conformance`: runs recorded cases of Core ML models and judges the results. Each case runs in a process of its
// own, so that a crash costs only that case.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "tools/coreml/case_folder.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {
namespace fs = std::filesystem;

struct Conformance {
  std::string folder, json_file, outputs;
  int seconds = 60;
  bool f32 = false, quiet = false;
  std::vector<std::string> only;
  void run() const;
  CaseResult in_child(const CaseFolder& c, const std::string& to) const;
};

/// The case in a child process, whose last words come through a pipe.
CaseResult Conformance::in_child(const CaseFolder& c, const std::string& to) const {
  int ends[2];
  if (pipe(ends) != 0) fail(ErrorCode::io, "no pipe to another process could be made");
  flush_out();
  pid_t child = fork();
  if (child < 0) fail(ErrorCode::io, "no other process could be made");
  if (child == 0) {
    close(ends[0]);
    alarm(static_cast<unsigned>(seconds));  // its default action ends the process
    CaseResult r = run_case(c, to, f32);
    std::string words = (r.passed ? "+" : "-") + r.error;
    size_t written = 0;
    while (written < words.size()) {
      ssize_t n = ::write(ends[1], words.data() + written, words.size() - written);
      if (n <= 0) break;
      written += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string words;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) words.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    int signal = WTERMSIG(status);
    if (signal == SIGALRM) return {false, text_of("it took more than ", seconds, " seconds")};
    return {false, text_of("it crashed: signal ", signal)};
  }
  if (words.empty()) return {false, "it ended without a word"};
  return {words[0] == '+', words.substr(1)};
}

void Conformance::run() const {
  struct Counts {
    size_t passed = 0, failed = 0;
  };
  std::map<std::string, Counts> by_op;
  Counts all;
  std::vector<std::string> failures;
  nlohmann::json cases = nlohmann::json::array();
  if (!json_file.empty()) AtomicFile probe(json_file);
  const std::vector<std::string> paths = find_cases(folder);
  if (paths.empty()) fail(ErrorCode::not_found, "no case.json lies below '", folder, "'");
  for (const std::string& path : paths) {
    std::string name = fs::relative(path, folder).string();
    CaseFolder c;
    CaseResult result;
    try {
      c = CaseFolder::read(path);
      bool wanted = only.empty();
      for (const std::string& op : only) wanted = wanted || c.ops.count(op);
      if (!wanted) continue;
      result = in_child(c, outputs.empty() ? "" : (fs::path(outputs) / name).string());
    } catch (const Error& e) {
      result = {false, e.what()};
    }
    ++(result.passed ? all.passed : all.failed);
    for (const auto& [op, count] : c.ops)
      if (op != "const") ++(result.passed ? by_op[op].passed : by_op[op].failed);
    if (!result.passed) failures.push_back(name + ": " + result.error);
    if (!json_file.empty())
      cases.push_back(
          {{"case", name}, {"passed", result.passed}, {"error", result.error}, {"f16", c.f16}, {"ops", c.ops}});
  }
  if (all.passed + all.failed == 0) {
    std::string list;
    for (const std::string& op : only) list += (list.empty() ? "" : ", ") + op;
    fail(ErrorCode::not_found, "none of the ", paths.size(), " cases below '", folder, "' has the op ", list);
  }
  TextTable table("lrlrl");
  for (const auto& [op, counts] : by_op)
    table.add({op, std::to_string(counts.passed), "passed,", std::to_string(counts.failed), "failed"});
  write_out(table.text());
  for (const std::string& failure : failures) write_out("failed " + line_text(failure, quiet ? 200 : 1000) + "\n");
  write_out(text_of(all.passed, " passed, ", all.failed, " failed\n"));
  flush_out();
  if (!json_file.empty()) {
    nlohmann::json by = nlohmann::json::object();
    for (const auto& [op, counts] : by_op) by[op] = {{"passed", counts.passed}, {"failed", counts.failed}};
    nlohmann::json report = {{"passed", all.passed}, {"failed", all.failed}, {"ops", by}, {"cases", cases}};
    std::string text = report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    AtomicFile file(json_file);
    file.write(std::as_bytes(std::span(text)));
    file.commit();
  }
  if (all.failed) fail(ErrorCode::invalid_argument, all.failed, " of ", all.passed + all.failed, " cases failed");
}

}  // namespace

Subcommand add_conformance(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("conformance", "Runs recorded cases of Core ML models and judges the results");
  auto conformance = std::make_shared<Conformance>();
  Conformance& c = *conformance;
  app->add_option("DIR", c.folder, "where the cases are: folders with a case.json, at any depth")->required();
  app->add_option("--json", c.json_file, "write all details to FILE")->type_name("FILE");
  app->add_option("--outputs", c.outputs, "write each output to DIR/<case>/s<step>.out.<i>.npy")->type_name("DIR");
  app->add_option("--op", c.only, "only the cases that have this op; may be repeated")
      ->allow_extra_args(false)
      ->option_text("NAME");
  app->add_option("--timeout", c.seconds, "seconds that a case may take (default 60)")
      ->option_text("S")
      ->check(CLI::Range(1, 100000));
  app->add_flag("--f32", c.f32, "compute in f32 what a program computes in f16");
  app->footer(
      R"(An f32 case passes within its tolerance, an f16 case within its tight tolerance and the rounding of f16. Exit code 1 if any
case failed, and if there is none. docs/conformance.md describes the folder of a case.

Examples:
  rlx conformance cases
  rlx conformance cases --op lstm --json report.json)");
  return {app, [conformance] { conformance->run(); }};
}

}  // namespace rlx::tools
