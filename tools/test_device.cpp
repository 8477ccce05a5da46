// `rlx test-device`: every op on one device, beside the reference interpreter.
#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "judge/judge.h"
#include "tools/output.h"
#include "tools/progress_bar.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

constexpr size_t kReasonWidth = 100;

/// The cases of one op.
struct Row {
  size_t agrees = 0, refused = 0, wrong = 0;
  std::map<std::string_view, size_t> verdicts;
  double error = 0, microseconds = 0;
  std::string why;  // of the first that is wrong, else of the first that is refused

  void add(const JudgedCase& one) {
    const Judged& j = one.judged;
    (j.judgement == Judgement::agrees ? agrees : j.judgement == Judgement::refused ? refused : wrong)++;
    if (j.judgement == Judgement::agrees) ++verdicts[names_of(Verdict{})[static_cast<size_t>(j.verdict)]];
    error = std::max(error, j.error), microseconds += one.microseconds;
    if (j.judgement == Judgement::wrong && wrong == 1) why = said_of(one);
    else if (why.empty() && !j.why.empty()) why = said_of(one);
  }
  static std::string said_of(const JudgedCase& one) {
    return text_of(one.is_gradient ? "gradient of " : "", one.are_params ? "params " : "", one.operands, ": ",
                   one.judged.why);
  }
};

struct TestDevice {
  std::string device, json;
  std::vector<std::string> ops;
  bool gradients = false, params = false, times = false;

  void run() const {
    const Device tested = Device::parse(device);
    JudgeOptions options;
    options.ops = {ops.begin(), ops.end()};
    options.gradients = gradients, options.params = params, options.times = times;
    std::vector<JudgedCase> cases;
    {
      ProgressBar bar("test-device");
      cases = judge_device(tested, options, [&](size_t done, size_t all, std::string_view) { bar.show(done, all); });
    }
    if (!json.empty()) {
      AtomicFile file(json);
      file.write(json_of(cases));
      file.commit();
    }
    write_out(table_of(cases));
    size_t passed = 0, failed = 0, skipped = 0;
    for (const JudgedCase& one : cases)
      (one.judged.judgement == Judgement::agrees    ? passed
       : one.judged.judgement == Judgement::refused ? skipped
                                                    : failed)++;
    write_out(text_of(passed, " passed, ", failed, " failed, ", skipped, " skipped\n"));
    if (failed > 0)
      fail(ErrorCode::internal, failed, " of ", cases.size(), " cases on ", tested,
           " are wrong; --op NAME tries one op, --json FILE keeps every case");
  }

  std::string table_of(const std::vector<JudgedCase>& cases) const {
    std::map<std::string, Row> rows;
    for (const JudgedCase& one : cases) rows[one.op].add(one);
    TextTable table(times ? "lrrrlrrl" : "lrrrlrl");
    std::vector<std::string> head = {"op", "agrees", "refused", "wrong", "runs", "error"};
    if (times) head.emplace_back("us");
    head.emplace_back("why");
    table.add(head);
    for (const auto& [op, row] : rows) {
      std::string runs;
      for (const auto& [verdict, count] : row.verdicts)
        runs += (runs.empty() ? "" : ", ") +
                (row.verdicts.size() == 1 ? std::string(verdict) : text_of(count, " ", verdict));
      std::vector<std::string> cells = {op,
                                        text_of(row.agrees),
                                        text_of(row.refused),
                                        text_of(row.wrong),
                                        runs,
                                        row.agrees ? text_of(row.error) : std::string()};
      if (times)
        cells.push_back(fixed_text(row.microseconds / static_cast<double>(std::max<size_t>(1, row.agrees)), 1));
      cells.push_back(line_text(row.why, kReasonWidth));
      table.add(cells);
    }
    return table.text();
  }

  static std::string json_of(const std::vector<JudgedCase>& cases) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const JudgedCase& one : cases) {
      all.push_back({{"op", one.op},
                     {"operands", one.operands},
                     {"gradient", one.is_gradient},
                     {"params", one.are_params},
                     {"dtype", std::string(name_of(one.dtype))},
                     {"judgement", names_of(Judgement{})[static_cast<size_t>(one.judged.judgement)]},
                     {"runs", names_of(Verdict{})[static_cast<size_t>(one.judged.verdict)]},
                     {"error", one.judged.error},
                     {"microseconds", one.microseconds},
                     {"why", one.judged.why}});
    }
    return all.dump(1) + "\n";
  }
};

}  // namespace

Subcommand add_test_device(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("test-device", "Runs every op on a device, beside the reference");
  auto test = std::make_shared<TestDevice>();
  app->add_option("device", test->device, "the device, as `rlx devices` names it")->required()->option_text("NAME");
  app->add_option("--op", test->ops, "only this op; may be given several times")->option_text("OP");
  app->add_flag("--grad", test->gradients, "the gradients of each case too");
  app->add_flag("--params", test->params, "each case once more with its operands as params");
  app->add_flag("--perf", test->times, "how long a run takes on one thread: the mean over an op's cases, in us");
  app->add_option("--json", test->json, "write every case to this file, as a JSON array")->option_text("FILE");
  app->footer(
      R"(Every sample of every op in each dtype that the op takes, on one thread and on three (once on mlx, which has threads of its own). A case agrees if the device's report
takes it, it compiles and runs, and the numbers are those of the reference interpreter within the tolerance of their
dtype (a gradient of f32 may instead be as near to that of the same graph in f64 as the tolerance and 4 times f32's own
error, at most 9e-5 (1 + |wanted|)); it is refused if the report names what is missing and compiling fails with it; anything else is wrong. `error` is the
largest |got - wanted| / (1 + |wanted|). The row (contract) is about what a device keeps beside numbers: tensors that come back,
the order of runs, donated inputs, cancelling, limits, threads. The last line counts: passed, failed, skipped (refused). Exit code 1 if any failed.

Examples:
  rlx test-device cpu
  rlx test-device coreml --op softmax --grad
  rlx --load ./mybackend.so test-device mine --perf --json mine.json)");
  return {app, [test] { test->run(); }};
}

}  // namespace rlx::tools
