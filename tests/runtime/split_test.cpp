// Graphs that are split over several devices: the numbers are those of either device, whatever the split; what the
// report and the plan say is what runs; and what goes wrong is an error after which the session goes on.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <thread>

#include "compile/split_compile.h"
#include "devices/simulated/faults.h"
#include "judge/cases.h"
#include "rlx/artifact.h"
#include "rlx/element.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/race_checker.h"
#include "support/sanitized.h"

using namespace rlx;

namespace {

const char* const kSplitDevices[] = {"cpu", "loopback", "tiny"};

Tensor random_numbers(const Type& type, std::mt19937& random) {
  Tensor t(type.dtype, shape_of(type.dims));
  std::uniform_real_distribution<float> number(-1, 1);
  if (type.dtype == f32)
    for (float& v : t.mutable_values<float>()) v = number(random);
  else
    for (int32_t& v : t.mutable_values<int32_t>()) v = static_cast<int32_t>(random() % 4);
  return t;
}

/// A little of everything: products, norms, a loop, views, two outputs of one value, an output that is an input.
Graph mixed_graph() {
  Graph body("step"), g("mixed");
  Value v = body.input("v", f32, {4, 16}), w = body.input("w", f32, {16, 16});
  body.output(tanh(matmul(v, w)));
  body.output(w);
  Value x = g.input("x", f32, {4, 16}), ids = g.input("ids", i32, {4});
  g.set_scope("embed");
  Value e = take(g.param("table", f32, {8, 16}), ids, 0);
  g.set_scope("block.0");
  Value h = matmul(x + e, g.param("w0", f32, {16, 16}));
  Value n = softmax(h, -1);
  g.set_scope("block.1");
  Value a = matmul(n, transpose(g.param("w1", f32, {16, 16}), {1, 0}));
  Value s = sort_values(a, 1);
  g.set_scope("tail");
  Value looped = scan(g, {s, g.param("w2", f32, {16, 16})}, {2, 0, 3, false, body})[0];
  Value y = looped + n;
  g.output(y, "y");
  g.output(reduce_sum(y * a, {1}), "sum");
  g.output(y, "again");
  g.output(x, "given");
  return g;
}
struct Fed {
  std::vector<NamedTensor> inputs;
  std::map<std::string, Tensor, std::less<>> params;
};
Fed fed_for(const Graph& g, unsigned seed) {
  std::mt19937 random(seed);
  Fed fed;
  for (Ref r : g.inputs()) fed.inputs.emplace_back(g.node(r).name, random_numbers(g.type(r), random));
  for (Ref r : g.params()) fed.params.emplace(g.node(r).name, random_numbers(g.type(r), random));
  return fed;
}
CompiledGraph compiled_with(const Graph& g, const std::string& device, const Fed& fed, CompileOptions options) {
  CompiledGraph made = Session(Device::parse(device), {1}).compile(g, std::move(options));
  made.set_params(fed.params);
  return made;
}
void check_near(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t o = 0; o < got.size(); ++o) {
    CAPTURE(o);
    REQUIRE(got[o].type() == wanted[o].type());
    if (got[o].dtype() != f32) {
      CHECK(got[o] == wanted[o]);
      continue;
    }
    for (size_t i = 0; i < got[o].element_count(); ++i)
      CHECK(got[o].values<float>()[i] == doctest::Approx(wanted[o].values<float>()[i]).epsilon(1e-5));
  }
}
/// Each node on one of two devices.
std::vector<Placement> random_placement(const Graph& g, const std::string& a, const std::string& b,
                                        std::mt19937& random) {
  std::vector<Placement> all;
  for (size_t n = 0; n < g.nodes().size(); ++n)
    if (const Node& node = g.nodes()[n]; !node.operands.empty()) all.push_back({text_of("%", n), random() % 2 ? a : b});
  return all;
}

}  // namespace

TEST_CASE("500 random splits give the numbers of either device, and the profile counts the copies of the report") {
  const Graph g = mixed_graph();
  const Fed fed = fed_for(g, 1);
  const auto wanted = compiled_with(g, "cpu", fed, {}).run(fed.inputs);
  std::mt19937 random(7);
  size_t copies = 0, parts = 0;
  const int splits = test::sanitized() ? 60 : 500;
  for (int i = 0; i < splits; ++i) {
    const std::string main = kSplitDevices[i % 3], other = kSplitDevices[i % 2 ? 0 : 1 + i / 2 % 2];
    CAPTURE(i);
    CAPTURE(main);
    CAPTURE(other);
    CompileOptions options;
    options.placement = random_placement(g, main, other, random);
    const CompiledGraph split = compiled_with(g, main, fed, options);
    check_near(split.run(fed.inputs), wanted);
    const DispatchReport& report = split.report();
    parts += report.parts.size(), copies += report.copies.size();
    uint64_t bytes = 0;
    for (const SplitCopyLine& c : report.copies) bytes += c.bytes;
    const Transfers moved = split.profile(fed.inputs).transfers;
    CHECK(moved.split_copies == report.copies.size());
    CHECK(moved.split_bytes == bytes);
    if (!report.is_split()) continue;
    const auto plan = split_plan_data(g, Device::parse(main), options, {});
    REQUIRE(plan);
    CHECK(test::races_in(*plan).empty());
    const std::string said = text(*plan);
    CHECK(text(parse_plan(said)) == said);
    verify(parse_plan(said));
    CHECK(static_cast<size_t>(std::count_if(plan->steps.begin(), plan->steps.end(), [](const PlanStep& s) {
            return s.kind == PlanStep::Kind::copy;
          })) == report.copies.size());
  }
  MESSAGE(parts, " parts and ", copies, " copies");
  CHECK(parts > 4 * static_cast<size_t>(splits));
}

TEST_CASE("decompositions of the op table's samples, split at random, give the numbers of the processor") {
  std::mt19937 random(11);
  size_t split_graphs = 0, tried = 0, cases = 0;
  for (const OpDef* op : all_ops()) {
    if (!op->decompose) continue;
    for (const Sample& sample : op->samples())
      for (const Case& c : cases_of(*op, sample)) {
        const auto is_there = [](const Type& type) {
          return type.dtype == f32 || type.dtype == i32 || type.dtype == boolean;
        };
        if (!std::all_of(c.types.begin(), c.types.end(), is_there)) continue;
        if (test::sanitized() && ++cases % 8 != 0) continue;
        const std::string other = kSplitDevices[1 + random() % 2];
        std::vector<Tensor> wanted, got;
        CompileOptions options;
        try {
          const Graph g = trace(c.types, [&](Graph& to, Values v) {
            return decompose(to, *op, {v.begin(), v.end()}, c.attrs);
          });
          if (g.nodes().size() < 4 || !supports(g, Device::parse(other))) continue;
          ++tried;
          wanted = Session(Device::cpu(), {1}).compile(g, {}).run_ordered(c.inputs());
          options.placement = random_placement(g, "cpu", other, random);
          if (options.placement.empty()) continue;
          const CompiledGraph split = Session(Device::cpu(), {1}).compile(g, options);
          split_graphs += split.report().is_split();
          got = split.run_ordered(c.inputs());
        } catch (const CompileError&) {
          continue;  // a node alone may be what the device takes only within others
        } catch (const Error& e) {
          if (e.code() == ErrorCode::unsupported) continue;
          throw;
        }
        REQUIRE(got.size() == wanted.size());
        for (size_t o = 0; o < got.size(); ++o) {
          REQUIRE(got[o].type() == wanted[o].type());
          if (got[o] == wanted[o] || is_complex(got[o].dtype())) continue;
          for (size_t i = 0; i < got[o].element_count(); ++i) {
            const double a = load_number(got[o], i), b = load_number(wanted[o], i);
            const bool is_near =
                (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= 1e-5 * (1 + std::abs(b));
            CHECK_MESSAGE(is_near, op->name, c.text(), " output ", o, " element ", i, ": ", a, " in place of ", b);
            if (!is_near) break;
          }
        }
      }
  }
  MESSAGE(split_graphs, " of ", tried, " graphs were split");
  CHECK(split_graphs > (test::sanitized() ? 30 : 300));
}

TEST_CASE("without permission it is an error that says how to give it; with it the next device runs the node") {
  Graph g("wide");
  Value x = g.input("x", f32, {2, 3});
  g.set_scope("middle");
  Value d = convert(exp(x), f64);
  g.output(convert(d * d, f32) + 1.0, "y");
  CHECK_THROWS_WITH_AS(Session(Device::parse("tiny")).compile(g, {}), doctest::Contains("CompileOptions::fallback"),
                       CompileError);
  CompileOptions options;
  options.fallback = {"cpu"};
  const CompiledGraph split = Session(Device::parse("tiny")).compile(g, options);
  const Tensor in = Tensor::of<float>({2, 3}, std::array{0.F, 1.F, 2.F, -1.F, .5F, 3.F});
  check_near(split.run({{"x", in}}), Session(Device::cpu()).compile(g, {}).run({{"x", in}}));
  CHECK(split.report().is_split());
  CHECK(split.report().host_reads() == 1);
  CHECK(split.report().json().find("\"parts\"") != std::string::npos);
  // What the device takes whole is not split.
  Graph easy("easy");
  easy.output(exp(easy.input("x", f32, {2})), "y");
  CHECK(!Session(Device::parse("tiny")).compile(easy, options).report().is_split());
  options.fallback = {"loopback"};  // which lacks it as well
  CHECK_THROWS_WITH_AS(Session(Device::parse("tiny")).compile(g, options), doctest::Contains("tiny, loopback"),
                       CompileError);
}

TEST_CASE("a placement that names no node or what its device does not take is an error that says so") {
  Graph g("wide");
  g.set_scope("middle");
  g.output(convert(g.input("x", f32, {2, 3}), f64) * 2.0, "y");
  CompileOptions options;
  options.placement = {{"midle", "tiny"}};
  CHECK_THROWS_WITH_AS(Session(Device::cpu()).compile(g, options), doctest::Contains("names no node"), Error);
  options.placement = {{"mid*", "tiny"}};
  CHECK_THROWS_WITH_AS(Session(Device::cpu()).compile(g, options), doctest::Contains("it was placed on tiny by 'mid*'"),
                       CompileError);
  options.placement = {{"op:convert", "nowhere"}};
  CHECK_THROWS_AS(Session(Device::cpu()).compile(g, options), Error);
}

TEST_CASE("symbols serve all sizes, also where a part has no input that tells them") {
  Graph g("open");
  Value x = g.input("x", f32, {Dim::symbol("N"), Dim::symbol("M")});
  g.set_scope("flat");
  Value flat = reshape(x, {Dim::symbol("N") * Dim::symbol("M")});
  g.set_scope("rest");
  g.output(reshape(exp(flat), {Dim::symbol("M"), Dim::symbol("N")}), "y");
  CompileOptions options;
  options.placement = {{"rest", "loopback"}, {"flat", "cpu"}};
  for (const char* main : kSplitDevices) {
    CAPTURE(main);
    const CompiledGraph split = Session(Device::parse(main)).compile(g, options),
                        whole = Session(Device::cpu()).compile(g, {});
    for (const auto& [n, m] : {std::pair(2, 3), std::pair(5, 1), std::pair(0, 4), std::pair(7, 8)}) {
      std::mt19937 random(3);
      const Tensor in = random_numbers({f32, {n, m}}, random);
      check_near(split.run({{"x", in}}), whole.run({{"x", in}}));
    }
  }
}

TEST_CASE("states and donated inputs keep their numbers; in place where one part alone reads them") {
  Graph g("count");
  Value x = g.input("x", f32, {8}), by = g.input("by", f32, {8});
  g.set_scope("scale");
  Value scaled = by * 2.0;
  g.set_scope("add");
  g.output(x + scaled, "x");
  for (const char* main : kSplitDevices)
    for (const char* adds : kSplitDevices) {
      const std::string other = std::string(main) == "cpu" ? "tiny" : "cpu";
      CAPTURE(main);
      CAPTURE(adds);
      CompileOptions options;
      options.donate = {"x"};
      options.placement = {{"add", adds}, {"scale", adds == std::string(main) ? other : main}};
      const CompiledGraph split = Session(Device::parse(main), {1}).compile(g, options);
      CHECK(split.updates_in_place() == (adds == std::string(main)));
      Tensor ones(f32, {8});
      std::fill(ones.mutable_values<float>().begin(), ones.mutable_values<float>().end(), 1.F);
      GraphState state = split.new_state();
      for (int i = 0; i < 10; ++i) split.run({{"by", ones}}, state);
      for (int i = 0; i < 10; ++i) split.run_async({{"by", ones}}, state);
      CHECK(state.tensor("x").values<float>()[3] == 40);
      DeviceTensor sum = device_put(Tensor(f32, {8}), Device::parse(main));
      const DeviceTensor one = device_put(ones, Device::parse(main));
      for (int i = 0; i < 10; ++i) sum = split.submit(std::array{sum, one}).outputs()[0];
      CHECK(sum.to_host().values<float>()[5] == 20);
    }
}

TEST_CASE("a file of a split graph, and the cache, give the same graph again") {
  const Graph g = mixed_graph();
  const Fed fed = fed_for(g, 2);
  const auto folder = std::filesystem::temp_directory_path() / "rlx_split_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  CompileOptions options;
  options.placement = {{"block.*", "tiny"}};
  options.cache_dir = (folder / "kept").string();
  const CompiledGraph split = compiled_with(g, "cpu", fed, options);
  const auto wanted = split.run(fed.inputs);
  split.save((folder / "split.rlxc").string(), fed.params);
  const CompiledGraph loaded = Session(Device::cpu(), {1}).load((folder / "split.rlxc").string());
  check_near(loaded.run(fed.inputs), wanted);
  CHECK(loaded.report().json() == split.report().json());
  const ArtifactInfo info = artifact_info((folder / "split.rlxc").string());
  CHECK(info.form == "split");
  CHECK(info.options.placement == options.placement);
  const CompiledGraph again = compiled_with(g, "cpu", fed, options);  // another session: from the folder
  check_near(again.run(fed.inputs), wanted);
  CHECK(again.report().json() == split.report().json());
  CompileOptions other = options;
  other.placement = {{"tail", "tiny"}};
  CHECK(compiled_with(g, "cpu", fed, other).config().cache_key() != split.config().cache_key());
  std::filesystem::remove_all(folder);
}

TEST_CASE("a fault in the middle of a split run names the part and the device, and the session goes on") {
  using simulated::Fault;
  const Graph g = mixed_graph();
  const Fed fed = fed_for(g, 3);
  auto& faults = simulated::loopback_faults();
  for (const char* main : {"cpu", "loopback"}) {
    CompileOptions options;
    options.placement = {{"block.1", main == std::string("cpu") ? "loopback" : "cpu"}, {"*", main}};
    const CompiledGraph split = compiled_with(g, main, fed, options);
    const auto wanted = split.run(fed.inputs);
    for (const Fault fault : {Fault::lose, Fault::launch, Fault::read, Fault::write, Fault::allocate})
      for (int nth = 1; nth <= 3; ++nth) {
        faults.ask(fault, nth);
        std::string said;
        try {
          split.run(fed.inputs);
        } catch (const Error& e) {
          said = e.what();
        }
        const bool happened = !faults.is_waiting(fault) || faults.is_lost();
        faults.reset();
        CAPTURE(main);
        CAPTURE(nth);
        CAPTURE(said);
        CAPTURE(static_cast<int>(fault));
        CHECK(happened == !said.empty());
        if (happened) CHECK(said.find("loopback") != std::string::npos);
        check_near(split.run(fed.inputs), wanted);
      }
  }
}

TEST_CASE("runs that are cancelled at random end, leave nothing behind, and the next run is right") {
  const Graph g = mixed_graph();
  const Fed fed = fed_for(g, 4);
  std::mt19937 random(5);
  for (const char* main : kSplitDevices) {
    CompileOptions options;
    options.placement = {{"block.1", main == std::string("cpu") ? "loopback" : "cpu"}, {"*", main}};
    const CompiledGraph split = compiled_with(g, main, fed, options);
    const auto wanted = split.run(fed.inputs);
    int cancelled = 0;
    for (int i = 0; i < 340; ++i) {
      const PendingRun run = split.run_async(fed.inputs);
      if (random() % 2) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      run.cancel();
      try {
        check_near(run.get(), wanted);
      } catch (const Error& e) {
        CHECK(e.code() == ErrorCode::cancelled);
        ++cancelled;
      }
    }
    MESSAGE(std::string(main), ": ", cancelled, " of 340 were cancelled");
    check_near(split.run(fed.inputs), wanted);
  }
}
