// Pipelines: stages on the host and in graphs, of the library, of a user's own, and ops; and each mistake by its stage.
#include "rlx/pipeline.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <stdexcept>
#include <string>

#include "rlx/graph_file.h"
#include "rlx/io.h"
#include "rlx/models.h"
#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

struct ScaleSettings {
  double by = 2;
  RLX_FIELDS(ScaleSettings, field("by", &ScaleSettings::by));
};
StageDef scale_stage() {
  return define_stage<ScaleSettings>({
      .name = "test_scale",
      .doc = "x times `by`",
      .names = {{"x"}, {"x"}},
      .build = [](StageGraph& g, Values in, const ScaleSettings& s, const StagePlace&) -> Many<Value> {
        return in[0] * g.param("by", Tensor::of<float>({}, std::vector<float>{static_cast<float>(s.by)}));
      },
  });
}
/// Texts to the numbers of their letters: a stage on the host.
StageDef lengths_stage() {
  return define_stage({
      .name = "test_lengths",
      .doc = "the bytes of each text",
      .names = {{"texts"}, {"lengths"}},
      .open = [](std::span<const StageType> taken, const NoAttrs&, const StagePlace&) -> HostStage {
        if (taken[0]) fail(ErrorCode::invalid_argument, "it takes texts, got ", *taken[0]);
        return {{Type{f32, {Dim::symbol("N")}}}, [](std::span<const StageValue> in) -> std::vector<StageValue> {
                  std::vector<float> lengths;
                  for (const std::string& text : std::get<1>(in[0])) {
                    if (text == "throw") throw std::runtime_error("a text that it does not like");
                    lengths.push_back(static_cast<float>(text.size()));
                  }
                  return {Tensor::of<float>({static_cast<int64_t>(lengths.size())}, lengths)};
                }};
      },
  });
}
struct Registered {
  Registered() { register_stage(scale_stage()), register_stage(lengths_stage()); }
  ~Registered() { unregister_stage("test_scale"), unregister_stage("test_lengths"); }
};

std::vector<float> floats(const StageValues& values, const std::string& name) {
  const auto span = std::get<Tensor>(values.at(name)).values<float>();
  return {span.begin(), span.end()};
}

}  // namespace

TEST_CASE("stages on the host and in graphs follow one another, and those of graphs are compiled as one") {
  const Registered registered;
  const Pipeline p({{"texts", std::nullopt}},
                   {{"test_lengths"},
                    {"test_scale", "{by = 0.5}", {"lengths"}, {"half"}},
                    {"exp", "{}", {"half"}, {"grown"}},
                    {"add", "{}", {"grown", "lengths"}, {"sum"}}},
                   {"sum", "half"});
  REQUIRE(p.parts().size() == 2);
  CHECK(!p.parts()[0].compiled);
  CHECK(p.parts()[1].stages == std::vector<std::string>{"test_scale", "exp", "add"});
  CHECK(p.parts()[1].compiled->signature().params[0].name == "test_scale_2.by");
  for (const auto& texts : {std::vector<std::string>{"a", "four"}, {"sixsix"}}) {
    const StageValues out = p.run({{"texts", texts}});
    CHECK(out.size() == 2);
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto n = static_cast<float>(texts[i].size());
      CHECK(floats(out, "half")[i] == n / 2);
      CHECK(floats(out, "sum")[i] == doctest::Approx(std::exp(n / 2) + n));
    }
  }
}

TEST_CASE("a name that is given again is the later value from then on") {
  const Registered registered;
  const Pipeline p({{"x", Type{f32, {2}}}}, {{"test_scale"}, {"test_scale", "{by = 10.0}"}});
  CHECK(p.outputs() == std::vector<std::string>{"x"});
  CHECK(floats(p.run({{"x", Tensor::of<float>({2}, std::vector<float>{1, 2})}}), "x") == std::vector<float>{20, 40});
}

TEST_CASE("a pipeline from a file runs a graph with its params, normalizes, and uses an execution profile") {
  const Registered registered;
  test::TemporaryFolder folder;
  Graph g("model");
  g.output(matmul(g.input("image", f32, {Dim::symbol("N"), 2}), g.param("w", f32, {2, 2})), "hidden");
  save_graph(folder / "model.rlx", g);
  write_safetensors(folder / "w.safetensors", {{"w", Tensor::of<float>({2, 2}, std::vector<float>{1, 0, 0, 2})}});
  std::ofstream(folder / "profile.toml") << "device = \"cpu\"\n[phase.serve]\nthreads = 1\n";
  std::ofstream(folder / "pipeline.toml") << R"(inputs = {x = "f32[N, 2]"}
outputs = ["unit", "class"]
execution = "profile.toml"

[[stage]]
name = "normalize"
settings = {mean = [1, 2], std = [0.5, 2]}

[[stage]]
name = "graph"
settings = {path = "model.rlx", params = "w.safetensors"}
takes = ["x"]

[[stage]]
name = "normalize"
takes = ["hidden"]
gives = ["unit"]

[[stage]]
name = "argmax"
settings = {axis = -1}
takes = ["unit"]
gives = ["class"]
)";
  const Pipeline p = Pipeline::load(folder / "pipeline.toml");
  CHECK(p.inputs().at(0).name == "x");
  CHECK(p.parts().at(0).compiled->threads() == 1);
  // (x - mean) / std = {3 / 0.5, 4 / 2} = {6, 2}; times w {6, 4}; divided by the norm.
  const StageValues out = p.run({{"x", Tensor::of<float>({1, 2}, std::vector<float>{4, 6})}});
  CHECK(floats(out, "unit")[0] == doctest::Approx(6 / std::sqrt(52.0)));
  CHECK(floats(out, "unit")[1] == doctest::Approx(4 / std::sqrt(52.0)));
  CHECK(std::get<Tensor>(out.at("class")).element_count() == 1);
}

TEST_CASE("a mistake in a pipeline names the stage, and what was meant") {
  const Registered registered;
  const auto made = [](std::vector<PipelineInput> inputs, std::vector<PipelineStage> stages,
                       std::vector<std::string> outputs = {}) {
    return message_of([&] { (void)Pipeline(std::move(inputs), stages, std::move(outputs)); });
  };
  const PipelineInput x{"x", Type{f32, {2}}}, texts{"texts", std::nullopt};
  CHECK(
      made({x}, {{"test_scal"}}).starts_with("there is no stage and no op 'test_scal'; the nearest are 'test_scale'"));
  CHECK(made({x}, {{"test_scal"}}).ends_with("while opening stage 1, 'test_scal'"));
  CHECK(made({x}, {{"test_scale", "{bye = 2.0}"}}).find("a known attribute (by) instead of 'bye'") !=
        std::string::npos);
  CHECK(made({x}, {{"test_scale"}, {"test_scale", "{}", {"y"}}}) ==
        "nothing before it gives 'y'; the nearest is 'x'\n  while building stage 2, 'test_scale'");
  CHECK(made({x}, {{"exp", "{}", {"x"}}}).starts_with("it has no names for what it gives; give 'gives'"));
  CHECK(made({x}, {{"test_scale", "{}", {"x", "x"}}})
            .starts_with("it takes 1 values ('x'), and 'takes' has 2 names\n  while opening stage 1"));
  CHECK(made({x}, {{"test_scale"}}, {"z"}) == "no stage gives the output 'z'; the nearest is 'x'");
  CHECK(made({texts, x}, {{"exp", "{}", {"x"}, {"y"}}, {"test_lengths"}}, {"lengths"})
            .starts_with("stage 1, 'exp' gives nothing that a later stage takes or that is an output"));
  CHECK(made({texts}, {{"test_scale", "{}", {"texts"}}}).starts_with("'texts' is texts, and it takes arrays"));
  CHECK(made({x}, {{"test_lengths", "{}", {"x"}}}) ==
        "it takes texts, got f32[2]\n  while opening stage 1, 'test_lengths'");
  CHECK(made({x}, {}).starts_with("a pipeline has one stage at least"));
  CHECK(made({x, x}, {{"test_scale"}}) == "there are two inputs 'x'");
  CHECK(made({x}, {{"softmax", "{axis = 3}", {"x"}, {"y"}}}).ends_with("while building stage 1, 'softmax'"));

  const Pipeline p({texts}, {{"test_lengths"}});
  CHECK(message_of([&] {
          (void)p.run({{"texts", std::vector<std::string>{"throw"}}});
        }) == "the stage threw: a text that it does not like\n  while running stage 1, 'test_lengths'");
  CHECK(message_of([&] { (void)p.run({}); }) == "the pipeline's input 'texts' is missing");
  CHECK(message_of([&] { (void)p.run({{"texts", Tensor(f32, {1})}}); }) == "'texts' is f32[1], and texts is wanted");
  CHECK(message_of([&] {
          (void)p.run({{"texts", std::vector<std::string>{}}, {"text", std::vector<std::string>{}}});
        }) == "the pipeline has no input 'text'; the nearest is 'texts'");
}

TEST_CASE("a file of a pipeline that is wrong is refused with the line") {
  const Registered registered;
  test::TemporaryFolder folder;
  const auto message = [&](const std::string& text) {
    std::ofstream(folder / "p.toml") << text;
    return message_of([&] { (void)Pipeline::load(folder / "p.toml"); });
  };
  const std::string head = "inputs = {x = \"f32[2]\"}\n";
  CHECK(message("inputs = {x = \"f32[2\"}\n[[stage]]\nname = \"exp\"\n").find("reading input 'x' in line 1") !=
        std::string::npos);
  CHECK(message(head + "[[stage]]\nnaem = \"exp\"\n")
            .starts_with("line 3: [[stage]] has no key 'naem'; the nearest are 'name'"));
  CHECK(message(head + "[[stage]]\n").starts_with("line 2: the stage has no 'name'"));
  CHECK(message(head + "[[stage]]\nname = \"test_scale\"\nsettings = {buy = 2}\n")
            .starts_with("line 4: stage 'test_scale' has no setting 'buy'; the nearest is 'by'"));
  CHECK(message(head).starts_with("a pipeline has stages, each a table: [[stage]]"));
  CHECK(message("[[stage]]\nname = \"exp\"\n").starts_with("a pipeline has 'inputs'"));
  CHECK(message(head + "phase = \"decode\"\n[[stage]]\nname = \"exp\"\n")
            .starts_with("'phase' is one of an execution profile"));
}

TEST_CASE("stages are registered by name once, and what is no stage is refused") {
  const Registered registered;
  CHECK(message_of([] { register_stage(scale_stage()); }) ==
        "there is a stage 'test_scale' already; choose another name");
  StageDef op = scale_stage();
  op.name = "softmax";
  CHECK(message_of([&] { register_stage(op); }) == "there is an op 'softmax', which is a stage; choose another name");
  op.name = "tokenize";
  CHECK(message_of([&] { register_stage(op); }) == "there is a stage 'tokenize' already; choose another name");
  op.name = "a stage";
  CHECK(message_of([&] { register_stage(op); }).starts_with("a stage's name is a word"));
  CHECK(message_of([] { register_stage(define_stage({.name = "empty"})); }).find("needs either `open` or `build`") !=
        std::string::npos);
  CHECK(message_of([] { unregister_stage("none"); }) == "stage 'none' is not registered");
}

TEST_CASE("texts become the vectors that a sentence encoder makes of them") {
  const char* home = std::getenv("HOME");
  const std::string model = std::string(home ? home : "") + "/.cache/rlx/all-MiniLM-L6-v2";
  std::error_code error;
  if (!std::filesystem::is_directory(model, error)) {
    MESSAGE("skipped: no model in " << model);
    return;
  }
  const Pipeline p({{"texts", std::nullopt}}, {{"tokenize", "{model = \"" + model + "\", max_tokens = 256}"},
                                               {"graph", "{path = \"" + model + "\"}"}});
  CHECK(p.outputs() == std::vector<std::string>{"embedding"});
  const std::vector<std::string> texts = {"a cat sat on the mat", "graphs", "the quick brown fox jumps"};
  const StageValues out = p.run({{"texts", texts}});
  const Tensor wanted = SentenceEncoder::load(model).embed(texts);
  const auto values = floats(out, "embedding");
  REQUIRE(values.size() == wanted.element_count());
  for (size_t i = 0; i < values.size(); ++i)
    CHECK(values[i] == doctest::Approx(wanted.values<float>()[i]).epsilon(1e-4));
}
