// What can be asked of graphs, devices and runs: reports, reflection, profiles, keys, and what the environment asks
// for.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/vector/instruction_set.h"
#include "plan/plan.h"
#include "rlx/graph_file.h"
#include "runtime/small_model.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

/// Sets an environment variable for a scope.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("a compiled graph tells its inputs, params and outputs with their types, in the order of the graph") {
  CompiledGraph compiled = Session().compile(test::small_model());
  const Signature& s = compiled.signature();
  REQUIRE(s.inputs.size() == 2);
  CHECK(s.inputs[0].name == "tokens");
  CHECK(s.inputs[0].type == Type{i32, {Dim::symbol("N")}});
  CHECK(s.inputs[1].name == "gate");
  CHECK(s.params.front().name == "table");
  CHECK(s.params.size() == test::small_params().size());
  REQUIRE(s.outputs.size() == 3);
  CHECK(s.outputs[1].name == "pooled");
  CHECK(s.outputs[1].type == Type{f32, {16}});
  CHECK(s.outputs[2].type == Type{i32, {Dim::symbol("N"), 2}});
}

TEST_CASE("a compiled graph tells its layers: each scope with its ops, as the user built them") {
  auto layers = Session().compile(test::small_model()).layers();
  REQUIRE(layers.size() == 3);
  CHECK(layers[0].name == "attention");
  CHECK(layers[1].name == "ffn");
  CHECK(layers[2].name == "choice");
  CHECK(std::count(layers[0].ops.begin(), layers[0].ops.end(), "softmax") == 1);
  CHECK(std::count(layers[0].ops.begin(), layers[0].ops.end(), "linear") == 4);
  CHECK(std::count(layers[1].ops.begin(), layers[1].ops.end(), "gelu") == 1);
  CHECK(layers[2].ops == std::vector<std::string>{"if_else"});
}

TEST_CASE("params are bound one by one until none is left") {
  CompiledGraph compiled = Session().compile(test::small_model());
  CHECK(!compiled.all_params_bound());
  auto params = test::small_params();
  for (const auto& [name, value] : params) {
    CHECK(!compiled.all_params_bound());
    compiled.set_param(name, value);
  }
  CHECK(compiled.all_params_bound());
}

TEST_CASE("a report can be had without compiling, names every node of the user's graph, and compiling gives the same") {
  Graph g = test::small_model();
  DispatchReport report = dispatch_report(g, Device::cpu());
  const std::string on = text_of("cpu (", kernels::used_instruction_set(), ")");
  CHECK(report.target == on);
  CHECK(report.count(Verdict::missing) == 0);
  CHECK(report.count(Verdict::native) + report.count(Verdict::composed) + report.count(Verdict::rewritten) ==
        report.lines.size());
  CHECK(report.json() == Session().compile(g).report().json());
  auto json = nlohmann::json::parse(report.json());
  CHECK(json.at("target") == on);
  REQUIRE(json.at("nodes").size() == report.lines.size());
  for (const auto& node : json.at("nodes"))
    for (const char* key : {"node", "op", "verdict", "reason", "dtypes"}) CHECK(node.contains(key));
  CHECK(report.table().find("all") != std::string::npos);
  CHECK(text_of(report).starts_with(text_of("on ", on, ":\n")));
}

TEST_CASE("legalize gives the graph that would be lowered, and supports says if there is one") {
  Graph g = test::small_model();
  Graph legal = legalize(g, Device::cpu());
  CHECK(legal == Session().compile(g).lowered());
  CHECK(legal.output_types() == g.output_types());
  CHECK(supports(g, Device::cpu()));
  CHECK(!supports(g, Device::cuda()));  // there is no backend for it here
  CHECK(message_of([&] { dispatch_report(g, Device::cuda()); }).starts_with("device 'cuda' is not available"));
  auto inputs = test::small_inputs(5);
  CHECK(difference(test::by_reference(legal, inputs, test::small_params()),
                   test::by_reference(g, inputs, test::small_params()), test::kSmallModelTolerance) == "");
}

TEST_CASE("strict takes a graph whose every node is native and refuses any other, naming the node and why") {
  CompileOptions strict;
  strict.strict = true;
  Graph native("native");
  native.output(exp(native.input("x", f32, {2})));
  Session().compile(native, strict);
  strict.force_common = {"softmax"};
  Graph composed("composed");
  Value x = composed.input("x", f32, {2, 3});
  composed.set_scope("head");
  composed.output(softmax(x));
  std::string message = message_of([&] { Session().compile(composed, strict); });
  CHECK(message.find("softmax 'head': composed") != std::string::npos);
  CHECK(message.find("the common form was asked for") != std::string::npos);
  CHECK(message.find("while compiling 'composed' for cpu") != std::string::npos);
}

TEST_CASE("a profile has each step once, in order, within the time of the run, and Perfetto can read its trace") {
  CompiledGraph compiled = Session(Device::cpu(), {2}).compile(test::small_model());
  compiled.set_params(test::small_params());
  auto inputs = test::small_inputs(20);
  Profile profile = compiled.profile({{"tokens", inputs[0]}, {"gate", inputs[1]}});
  REQUIRE(!profile.steps.empty());
  double end = 0, sum = 0;
  bool named = false;
  for (const Profile::Step& step : profile.steps) {
    CHECK(!step.op.empty());
    CHECK(step.start_us >= end);
    CHECK(step.duration_us >= 0);
    end = step.start_us + step.duration_us;
    sum += step.duration_us;
    named = named || step.node == "attention";
  }
  CHECK(named);
  CHECK(end <= profile.total_us);
  CHECK(sum <= profile.total_us);
  CHECK(profile.table().find("all") != std::string::npos);

  // The Trace Event Format: complete events need name, ph "X", ts, dur, pid and tid.
  auto trace = nlohmann::json::parse(profile.perfetto_json());
  REQUIRE(trace.at("traceEvents").size() == profile.steps.size());
  for (const auto& event : trace.at("traceEvents")) {
    CHECK(event.at("ph") == "X");
    CHECK(event.at("name").is_string());
    for (const char* key : {"ts", "dur", "pid", "tid"}) CHECK(event.at(key).is_number());
  }
  test::TemporaryFolder folder;
  profile.write_perfetto(folder / "trace.json");
  CHECK(nlohmann::json::parse(test::file_content(folder / "trace.json")) == trace);
}

TEST_CASE("a profile of nothing is a table and a trace of nothing, and names with odd characters stay valid JSON") {
  CHECK(nlohmann::json::parse(Profile().perfetto_json()).at("traceEvents").empty());
  CHECK(Profile().table().find("all") != std::string::npos);
  Graph g("g");
  Value x = g.input("x", f32, {2});
  g.set_scope("a \"quoted\"\n\xff name");
  g.output(exp(x));
  CompiledGraph compiled = Session().compile(g);
  Profile profile = compiled.profile({{"x", Tensor(f32, {2})}});
  CHECK(nlohmann::json::parse(profile.perfetto_json()).contains("traceEvents"));
  CHECK(nlohmann::json::parse(compiled.report().json()).contains("nodes"));
}

TEST_CASE("equal graphs and options have one cache key, which does not change from process to process") {
  auto key = [](const Graph& g, const CompileOptions& options = {}) {
    return Session().compile(g, options).config().cache_key();
  };
  Graph g("g");
  g.output(softmax(g.input("x", f32, {2, 3}), 0));
  CHECK(key(g) == key(g));
  CHECK(key(g).starts_with("cpu-native-eager-"));
  Graph renamed("g");
  renamed.output(softmax(renamed.input("y", f32, {2, 3}), 0));
  Graph reshaped("g");
  reshaped.output(softmax(reshaped.input("x", f32, {2, 4}), 0));
  Graph other_axis("g");
  other_axis.output(softmax(other_axis.input("x", f32, {2, 3}), 1));
  for (const Graph& other : {renamed, reshaped, other_axis}) CHECK(key(other) != key(g));
  CompileOptions common;
  common.kernel_dispatch = KernelDispatch::common;
  CHECK(key(g, common) != key(g));
  auto config = Session().compile(g).config();
  CHECK(config.variant == "cpu");
  CHECK(config.shapes == std::vector<std::string>{"f32[2, 3]"});
  CHECK(config.mode == CompileMode::eager);
  CHECK(config.dispatch == KernelDispatch::native);
}

TEST_CASE(
    "the environment chooses the dispatch, passes to skip and the cache folder for those who do not say themselves") {
  Graph g("g");
  g.output(softmax(g.input("x", f32, {2, 3})));
  {
    Environment dispatch("RLX_KERNEL_DISPATCH", "common");
    CHECK(CompileOptions::from_environment().kernel_dispatch == KernelDispatch::common);
    CHECK(Session().compile(g).report().count(Verdict::composed) == 1);
    CHECK(Session().compile(g, CompileOptions()).report().count(Verdict::native) == 1);
  }
  {
    Environment dispatch("RLX_KERNEL_DISPATCH", "fast");
    CHECK(message_of([&] { Session().compile(g); }) == "RLX_KERNEL_DISPATCH is 'fast'; it is native or common");
  }
  {
    Environment skip("RLX_SKIP", "simplify,,fuse_matmul");
    CHECK(CompileOptions::from_environment().skip_passes == std::set<std::string>{"simplify", "fuse_matmul"});
  }
  {
    Environment skip("RLX_SKIP", "simplfy");
    CHECK(message_of([&] { Session().compile(g); }).starts_with("there is no pass 'simplfy' to skip; there are "));
  }
  {
    test::TemporaryFolder folder;
    Environment cache("RLX_CACHE_DIR", folder / "kept");
    Session().compile(g);
    CHECK(std::filesystem::exists(folder / "kept"));
  }
  for (const char* name : {"RLX_KERNEL_DISPATCH", "RLX_SKIP", "RLX_CACHE_DIR"}) {
    Environment empty(name, "");
    CHECK(CompileOptions::from_environment().kernel_dispatch == KernelDispatch::native);
    CHECK(CompileOptions::from_environment().skip_passes.empty());
    CHECK(CompileOptions::from_environment().cache_dir.empty());
  }
}

TEST_CASE("a trace and a dumped stage take the place of older ones whole: who reads an old one keeps it") {
  test::TemporaryFolder folder;
  const std::string trace = folder / "trace.json", kept = folder / "kept.json", stage = folder / "00_given.rlx";
  test::put_file(trace, "old"), test::put_file(stage, "old");
  std::filesystem::create_hard_link(trace, kept), std::filesystem::create_hard_link(stage, folder / "kept.rlx");
  Graph g("one");
  g.output(g.input("x", f32, {2}) * 2.0, "y");
  Profile profile = Session().compile(g).profile({{"x", Tensor(f32, {2})}});
  profile.write_perfetto(trace);
  CHECK(test::file_content(kept) == "old");
  CHECK(nlohmann::json::parse(test::file_content(trace)).contains("traceEvents"));
  {
    Environment dump("RLX_DUMP", folder / "");
    Session().compile(g);
  }
  CHECK(test::file_content(folder / "kept.rlx") == "old");
  CHECK(test::file_content(stage).find("graph @one") != std::string::npos);
  CHECK(test::message_of([&] {
          profile.write_perfetto(folder / "none/trace.json");
        }).find("while writing the trace '" + (folder / "none/trace.json")) != std::string::npos);
}

TEST_CASE(
    "each stage of a compile can be dumped, and each is a graph that reads back and computes the same, and so can the "
    "plan") {
  test::TemporaryFolder folder;
  Graph g = test::small_model(7);
  {
    Environment dump("RLX_DUMP", folder / "stages");
    CompiledGraph compiled = Session(Device::cpu()).compile(g);
    compiled.set_params(test::small_params());
    compiled.run_ordered(test::small_inputs(7));
  }
  size_t stages = 0, plans = 0;
  auto inputs = test::small_inputs(7);
  auto wanted = test::by_reference(g, inputs, test::small_params());
  for (const auto& entry : std::filesystem::directory_iterator(folder / "stages")) {
    std::string content = test::file_content(entry.path().string());
    if (content.find("left out of this dump") != std::string::npos) continue;
    if (content.starts_with("plan")) {  // the CPU's, made of the last stage
      verify(parse_plan(content));
      ++plans;
      continue;
    }
    Graph stage = content.starts_with("rlx") ? parse_graph_text(content) : parse_graph_text("rlx 1\n" + content);
    CHECK_MESSAGE(
        difference(test::by_reference(stage, inputs, test::small_params()), wanted, test::kSmallModelTolerance) == "",
        entry.path().filename().string());
    ++stages;
  }
  CHECK(stages > 5);
  CHECK(plans > 0);
}

TEST_CASE("devices are listed, parsed and printed under one name each") {
  for (const DeviceInfo& d : devices()) {
    CHECK(Device::parse(d.device.name()) == d.device);
    CHECK(is_available(d.device) == d.available);
    CHECK(!d.description.empty());
  }
  CHECK(is_available(Device::cpu()));
  CHECK(!is_available(Device::tpu()));
  CHECK(Device::parse("coreml:ane") == Device::coreml(ComputeUnits::ane));
  CHECK(Device::coreml(ComputeUnits::gpu).name() == "coreml:gpu");
  CHECK(Session().device() == Device::cpu());
}

TEST_CASE("a compile that fails for a node carries the report of all nodes, through every context around it") {
  Graph g("mixed");
  const Value x = g.input("x", f32, {4});
  g.output(softmax(relu(x)), "y");
  const auto checked = [&](const CompileOptions& options, auto compile) {
    try {
      with_context("asking", [&] { compile(options); });
      FAIL("it compiled");
    } catch (const CompileError& e) {
      CHECK(e.code() == ErrorCode::unsupported);
      CHECK(std::string(e.what()).find("while asking") != std::string::npos);
      CHECK(e.report().json() == dispatch_report(g, Device::cpu(), options).json());
      REQUIRE(e.report().lines.size() == 2);  // relu is at no fault, and is in it
      CHECK(e.report().lines[0].verdict == Verdict::native);
      CHECK(e.report().lines[1].op == "softmax");
      CHECK(e.report().lines[1].verdict == Verdict::composed);
    }
  };
  CompileOptions options;
  options.strict = true, options.force_common = {"softmax"};
  checked(options, [&](const CompileOptions& o) { Session().compile(g, o); });
  checked(options, [&](const CompileOptions& o) { legalize(g, Device::cpu(), o); });
  Graph wide("wide");
  wide.output(exp(wide.input("x", f64, {4})), "y");
  try {
    Session(Device::coreml()).compile(wide);
    FAIL("it compiled");
  } catch (const CompileError& e) {
    CHECK(e.report().count(Verdict::missing) > 0);
  }
}
