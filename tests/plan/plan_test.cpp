// Plans as data: their text, their verifier, and the race checker, which finds the mistakes that are planted here.
#include "plan/plan.h"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <random>

#include "autodiff/transforms.h"
#include "ir/text.h"
#include "judge/cases.h"
#include "plan/cpu_plans.h"
#include "plan/range_map.h"
#include "rlx/ops.h"
#include "support/io_files.h"
#include "support/sanitized.h"

using namespace rlx;

namespace {

/// Graphs of tests/golden: single ops with their derivatives, and small models.
std::vector<Graph> golden_graphs() {
  std::vector<std::string> paths;
  for (const char* folder : {"tests/golden/ops", "tests/golden/models"})
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".rlx") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::vector<Graph> graphs;
  for (const std::string& path : paths) {
    const std::string content = test::file_content(path);
    Scanner in(content);
    in.expect("rlx");
    in.number<int64_t>();
    while (!in.at_end()) graphs.push_back(parse_graph(in));
  }
  return graphs;
}

/// Small graphs with chains that fork and join, updates in place, views, loops and branches.
std::vector<Graph> graphs_to_break() {
  std::vector<Graph> all;
  for (int variant = 0; variant < 4; ++variant) {
    Graph g("fork");
    Value x = g.input("x", f32, {8, 16}), w = g.param("w", f32, {16, 16}), u = g.param("u", f32, {16, 16});
    Value a = matmul(x, w), b = matmul(x, u);
    Value sum = a;
    for (int i = 0; i <= variant; ++i) {
      Value c = softmax(matmul(sum, w)), d = matmul(b, u);
      sum = matmul(c, w) + softmax(d);
      b = cumsum(d, 1);
    }
    g.output(sum, "sum");
    g.output(reduce_sum(b, Axes{0}), "b");
    g.output(transpose(a, {1, 0}), "a");
    all.push_back(g);
  }
  return all;
}

std::string report_of(const Plan& plan) {
  const auto found = test::races_in(plan);
  return found.empty() ? "" : found[0];
}
bool is_refused(const Plan& plan) {
  try {
    verify(plan);
  } catch (const Error&) {
    return true;
  }
  return false;
}

/// Steps that read or write a buffer, in order: (step, whether it writes).
std::vector<std::pair<size_t, bool>> accesses_of(const Plan& plan, size_t buffer) {
  std::vector<std::pair<size_t, bool>> all;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (const PlanSlot& slot : plan.steps[s].operands)
      if (slot.buffer == buffer && !slot.is_packed) all.emplace_back(s, false);
    for (const PlanSlot& slot : plan.steps[s].results)
      if (slot.buffer == buffer) all.emplace_back(s, true);
  }
  return all;
}
bool is_in_arena(const Plan& plan, size_t b) {
  return plan.buffers[b].kind == RootKind::arena && plan.buffers[b].bytes.value() > 0;
}
bool reads_first_byte(const Plan& plan, size_t s, size_t b) {
  for (const PlanSlot& slot : plan.steps[s].operands)
    if (slot.buffer == b && !slot.is_packed && range_of(plan, slot).begin == range_of(plan, b).begin) return true;
  return false;
}
void enlarge_arena(Plan& plan) { plan.arena_bytes = plan.arena_bytes * 4; }

using Planted = std::vector<std::pair<std::string, Plan>>;

/// Each edge of the weakest order in turn is left out.
void missing_waits(const Plan& plan, Planted& planted) {
  const Plan partial = with_partial_order(plan);
  for (size_t s = 0; s < partial.steps.size(); ++s)
    for (size_t e = 0; e < partial.steps[s].after.size(); ++e) {
      Plan broken = partial;
      broken.steps[s].after.erase(broken.steps[s].after.begin() + static_cast<std::ptrdiff_t>(e));
      planted.emplace_back(text_of("#", s, " no longer waits for #", partial.steps[s].after[e]), std::move(broken));
    }
}

/// A buffer's memory goes to another one that is first written while the first is still to be read.
void early_frees(const Plan& plan, Planted& planted) {
  for (size_t a = 0; a < plan.buffers.size(); ++a)
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      if (a == b || !is_in_arena(plan, a) || !is_in_arena(plan, b)) continue;
      const auto of_a = accesses_of(plan, a), of_b = accesses_of(plan, b);
      if (of_a.empty() || of_b.empty() || of_a.back().second || !reads_first_byte(plan, of_a.back().first, a)) continue;
      if (of_b.front().first <= of_a.front().first || of_b.front().first > of_a.back().first) continue;
      Plan broken = plan;
      enlarge_arena(broken);
      broken.buffers[b].offset = broken.buffers[a].offset;
      // Whoever makes a plan that way waits for what it reuses; the value is lost all the same.
      planted.emplace_back(text_of("%", b, " takes %", a, " too early"), with_partial_order(broken));
    }
}

/// An operand or a result is looked for in a buffer that holds something else.
void wrong_slots(const Plan& plan, Planted& planted) {
  for (size_t s = 0; s < plan.steps.size(); ++s)
    for (bool is_result : {false, true}) {
      const auto& slots = is_result ? plan.steps[s].results : plan.steps[s].operands;
      for (size_t i = 0; i < slots.size(); ++i) {
        if (slots[i].is_packed) continue;
        for (size_t b = 0; b < plan.buffers.size(); ++b) {
          if (b == slots[i].buffer || !is_in_arena(plan, b)) continue;
          Plan broken = plan;
          (is_result ? broken.steps[s].results : broken.steps[s].operands)[i].buffer = b;
          planted.emplace_back(text_of("#", s, is_result ? " writes" : " reads", " slot ", i, " in %", b),
                               std::move(broken));
        }
      }
    }
}

/// A buffer, or a step's scratch, is moved over the middle of another one that lives at the same time.
void overlaps(const Plan& plan, Planted& planted) {
  for (size_t a = 0; a < plan.buffers.size(); ++a) {
    if (!is_in_arena(plan, a)) continue;
    const auto of_a = accesses_of(plan, a);
    if (of_a.empty() || of_a.back().second || !reads_first_byte(plan, of_a.back().first, a)) continue;
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      const auto of_b = accesses_of(plan, b);
      if (a == b || !is_in_arena(plan, b) || of_b.empty() || plan.buffers[b].bytes.value() < 128) continue;
      if (of_b.front().first <= of_a.front().first || of_b.front().first > of_a.back().first) continue;
      Plan broken = plan;
      enlarge_arena(broken);
      broken.buffers[a].offset = broken.arena_bytes / 2 + 64;
      broken.buffers[b].offset = broken.arena_bytes / 2;
      planted.emplace_back(text_of("%", b, " reaches into %", a), std::move(broken));
    }
    Plan broken = plan;
    PlanStep& last = broken.steps[of_a.back().first];
    enlarge_arena(broken);
    last.scratch_offset = plan.buffers[a].offset, last.scratch_bytes = 64;
    planted.emplace_back(text_of("the scratch of #", of_a.back().first, " is what it reads"), std::move(broken));
  }
}

constexpr std::string_view kText = R"(plan @"small" {
  arena 192
  %0 = input(0) : 64 holds v0
  %1 = param(0) : 1024 holds v1
  %2 = arena(0) : 64
  %3 = output(0) : 64
  #0 = launch matmul @"head" "f32 1x16x16" (%0 v0 f32[1, 16], %1 v1 f32[16, 16]) -> (%2 v2 f32[1, 16]) scratch(64) : 128 by "one task: small"
  #1 = launch tanh (%2 v2 f32[1, 16]) -> (%3 v3 f32[1, 16])
  return %3 v3 @"y"
}
)";

std::string refusal(std::string_view from, std::string_view to) {
  std::string changed(kText);
  const size_t at = changed.find(from);
  REQUIRE(at != std::string::npos);
  changed.replace(at, from.size(), to);
  return test::message_of([&] { verify(parse_plan(changed)); });
}

}  // namespace

TEST_CASE("a plan reads back from its text, with symbols in its sizes too") {
  const Plan plan = parse_plan(kText);
  CHECK(text(plan) == kText);
  CHECK(test::wrong_in(plan) == "");
  CHECK(plan.steps[0].strategy == "one task: small");
  const std::string symbolic = R"(plan @"grows" partial {
  arena 64*N
  %0 = input(0) : 64*N holds v0
  %1 = output(0) : 64*N
  #0 = launch tanh (%0 v0 f32[N, 16]) -> (%1 v1 f32[N, 16])
  return %1 v1 @"y"
}
)";
  const Plan grows = parse_plan(symbolic);
  CHECK(text(parse_plan(text(grows))) == text(grows));
  CHECK(test::message_of([&] { verify(grows); }).find("N") != std::string::npos);
  const Plan seven = bound(grows, {{"N", 7}});
  CHECK(seven.buffers[1].bytes == Dim(448));
  CHECK(test::wrong_in(seven) == "");
}

TEST_CASE("the plans that docs/plan.md shows are verified and read back as they are printed there") {
  const std::string document = test::file_content("docs/plan.md"), fence = "```plan\n";
  size_t shown = 0;
  for (size_t at = document.find(fence); at != std::string::npos; at = document.find(fence, at + 1), ++shown) {
    const size_t begin = at + fence.size(), end = document.find("```", begin);
    const Plan plan = parse_plan(document.substr(begin, end - begin));
    CHECK(text(plan) == document.substr(begin, end - begin));
    CHECK(test::wrong_in(plan) == "");
  }
  CHECK(shown == 4);
}

TEST_CASE("what is wrong in a plan's text is named with its line") {
  const auto says = [](std::string_view from, std::string_view to, std::string_view wanted) {
    const std::string got = refusal(from, to);
    CHECK_MESSAGE(got.find(wanted) != std::string::npos, got);
  };
  says("%2 = arena(0) : 64", "%2 = arena(160) : 64", "line 5: buffer %2 of the plan 'small' lies at 160");
  says("%2 = arena(0)", "%4 = arena(0)", "buffer %2 instead of %4");
  says("%3 = output(0) : 64", "%3 = output(1) : 64", "is output 1, and the plan returns 1");
  says("(%2 v2 f32[1, 16]) -> (%3", "(%9 v2 f32[1, 16]) -> (%3", "a buffer that was named above instead of %9");
  says("(%2 v2 f32[1, 16]) -> (%3", "(%2 v2 f32[1, 17]) -> (%3",
       "line 8: step #1 (tanh) of the plan 'small' has operand 0 at bytes 0 to 68 of %2, which has 64 bytes");
  says("(%2 v2 f32[1, 16]) -> (%3", "(%2 v1 f32[1, 16]) -> (%3", "reads v1 in %2, which holds v2 by then");
  says("(%2 v2 f32[1, 16]) -> (%3", "(%3 v2 f32[1, 16]) -> (%3", "reads v2 in %3, which nothing has written");
  says("-> (%3 v3", "-> (%1 v3", "writes %1, which no run may change");
  says("return %3 v3", "return %3 v2", "%3 holds v3 at the end");
  says("scratch(64)", "scratch(32)",
       "line 7: step #0 (matmul of 'head') of the plan 'small' uses %2 and the scratch of #0 at the same time");
  says("launch tanh", "call tanh", "is a call without bodies");
  says("launch tanh", "jump tanh", "a kind of step (launch, copy, call)");
  says("\n  return", " after #1\n  return", "a step before #1 instead of #1");
  says("@\"small\" {", "@\"small\" partial {", "does not wait for step #0, which writes v2 there");
  says("holds v1", "", "is given from outside and holds no value");
}

TEST_CASE("hostile texts of plans are refused or read, and never more than that") {
  std::mt19937_64 bits(std::strtoull(std::getenv("RLX_TEST_SEED"), nullptr, 10));
  size_t read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string changed(kText);
    for (int n = 0; n < 1 + i % 3; ++n) {
      const size_t at = bits() % changed.size();
      if (bits() % 2) changed[at] = "0123456789-%#v(){}[],@\"x "[bits() % 25];
      else changed.erase(at, 1 + bits() % 6);
      if (changed.empty()) changed = "plan";
    }
    try {
      const Plan plan = parse_plan(changed);
      verify(plan);
      ++read;
    } catch (const Error&) {
    }
  }
  CHECK(read > 0);
}

TEST_CASE("ranges of bytes are split where they have to be, and no byte is named twice") {
  RangeMap<int> map;
  map.over(10, 20, [](size_t, size_t, int& known) { known = 1; });
  map.over(15, 30, [](size_t, size_t, int& known) { known += 2; });
  std::vector<std::array<size_t, 3>> seen;
  map.over(0, 40, [&](size_t from, size_t to, int& known) { seen.push_back({from, to, static_cast<size_t>(known)}); });
  CHECK(seen == std::vector<std::array<size_t, 3>>{{0, 10, 0}, {10, 15, 1}, {15, 20, 3}, {20, 30, 2}, {30, 40, 0}});
}

TEST_CASE("the plans of all golden graphs are verified, read back from their text, and have no race") {
  size_t plans = 0, calls = 0, copies = 0, edges = 0;
  for (const Graph& g : golden_graphs()) {
    const Plan plan = test::planned(g, 1 + static_cast<int>(plans % 2));
    const std::string why = test::wrong_in(plan);
    CHECK_MESSAGE(why.empty(), g.name(), ": ", why);
    for (const PlanStep& step : plan.steps) calls += !step.bodies.empty(), copies += step.kind == PlanStep::Kind::copy;
    for (const PlanStep& step : with_partial_order(plan).steps) edges += step.after.size();
    ++plans;
  }
  MESSAGE(plans, " plans with ", calls, " calls, ", copies, " copies, and ", edges, " waits in their weakest order");
  CHECK(plans > 300);
  CHECK(calls > 0);
  CHECK(copies > 0);
}

TEST_CASE("the plans of samples of all ops have no race") {
  size_t plans = 0;
  for (const OpDef* op : all_ops())
    for (size_t number = 0; const Sample& sample : op->samples()) {
      if (test::sanitized() && number++ > 0) continue;  // planning is the same code for each
      const Case c = case_of(sample);
      Graph g;
      try {
        g = c.graph(*op);
        if (!supports(g, Device::cpu())) continue;
      } catch (const Error&) {
        continue;  // the samples' own test says what a graph cannot be made of
      }
      const std::string why = test::wrong_in(test::planned(g));
      CHECK_MESSAGE(why.empty(), op->name, c.text(), ": ", why);
      ++plans;
    }
  MESSAGE(plans, " plans");
  CHECK(plans > (test::sanitized() ? 200 : 800));
}

TEST_CASE("every planted mistake is found by the race checker, and refused by the verifier") {
  std::map<std::string, Planted> planted;
  for (const Graph& g : graphs_to_break()) {
    const Plan plan = test::planned(g);
    REQUIRE(test::wrong_in(plan) == "");
    missing_waits(plan, planted["a missing wait"]);
    early_frees(plan, planted["an early free"]);
    wrong_slots(plan, planted["a wrong slot"]);
    overlaps(plan, planted["an overlap"]);
  }
  size_t all = 0;
  for (const auto& each : planted) {  // clang captures no structured bindings
    const std::string& kind = each.first;
    const Planted& plans = each.second;
    for (const auto& one : plans) {
      const auto& what = one.first;
      const Plan& plan = one.second;
      CHECK_MESSAGE(report_of(plan) != "", kind, ", ", what, ", is not reported in\n", text(plan));
      CHECK_MESSAGE(is_refused(plan), kind, ", ", what, ", is not refused in\n", text(plan));
      ++all;
    }
    MESSAGE(kind, ": ", plans.size(), " planted, for instance: ", plans.empty() ? "" : report_of(plans[0].second));
    CHECK(plans.size() >= 18);
  }
  CHECK(planted.size() == 4);
  CHECK(all >= 70);
}

TEST_CASE("a step that reaches another device's memory, and a copy that leads nowhere, are found") {
  const std::string_view right = R"(plan @"two" partial {
  device "tiny" in "tiny"
  device "cpu" in "host"
  arena 0
  %0 = input(0) in "host" : 24 holds v0
  %1 = own(1) in "tiny" : 24
  %2 = output(0) in "tiny" : 24
  #0 = copy write on "tiny" (%0 v0 f32[2, 3]) -> (%1 v0 f32[2, 3])
  #1 = launch part on "tiny" (%1 v0 f32[2, 3]) -> (%2 v1 f32[2, 3]) after #0
  return %2 v1 @"y"
}
)";
  CHECK(test::wrong_in(parse_plan(right)) == "");
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string text(right);
    text.replace(text.find(from), from.size(), to);
    return parse_plan(text);
  };
  const auto refused = [&](std::string_view from, std::string_view to, const char* why) {
    CHECK_THROWS_WITH_AS(verify(changed(from, to)), doctest::Contains(why), Error);
  };
  refused("part on \"tiny\"", "part on \"cpu\"", "and reaches %1 in 'tiny'");
  CHECK(!test::races_in(changed("part on \"tiny\"", "part on \"cpu\"")).empty());
  refused("part on \"tiny\"", "part on \"gpu\"", "which is no device of the plan");
  refused("%1 = own(1) in \"tiny\"", "%1 = own(1) in \"host\"", "copies within the memory 'host'");
  refused("%1 = own(1) in \"tiny\"", "%1 = own(1) in \"moon\"", "which no device of the plan has");
  refused("%1 = own(1) in", "%1 = arena(0) in", "has none");
  refused(" after #0", "", "does not wait for step #0");
  refused("device \"cpu\" in", "device \"tiny\" in", "twice");
}
