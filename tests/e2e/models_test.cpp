// Small whole models: loaded from a file with their params, compiled every way, against what NumPy computes in f64.
// tests/golden/generate/models.py wrote them; the convolutional ones are PyTorch's (tests/golden/generate/vision.py).
#include <doctest/doctest.h>

#include <set>

#include "compile/pipeline.h"
#include "kernels/conv/onednn.h"
#include "reference/interpreter.h"
#include "rlx/graph_file.h"
#include "rlx/io.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

struct Recorded {
  std::vector<Tensor> inputs, outputs;
};
struct Model {
  Graph graph;
  std::map<std::string, Tensor, std::less<>> params;
  std::vector<Recorded> runs;
};

Model load(const std::string& name) {
  std::string path = "tests/golden/" + name;
  Model model{load_graph(path + ".rlx"), {}, {}};
  auto tensors = SafetensorsFile::open(path + ".safetensors");
  Signature s = signature_of(model.graph);
  for (const auto& entry : s.params) model.params.emplace(entry.name, tensors.tensor(entry.name));
  for (size_t i = 0; tensors.find(text_of("in", i, "/", s.inputs[0].name)); ++i) {
    Recorded run;
    for (const auto& entry : s.inputs) run.inputs.push_back(tensors.tensor(text_of("in", i, "/", entry.name)));
    for (const auto& entry : s.outputs) run.outputs.push_back(tensors.tensor(text_of("out", i, "/", entry.name)));
    model.runs.push_back(std::move(run));
  }
  return model;
}

/// f32 inside against f64: products of some hundred terms, six layers deep.
constexpr double kTolerance = 1e-5;

void check(const std::string& name, int threads, const CompileOptions& options, const std::string& way) {
  Model model = load(name);
  CompiledGraph compiled = Session(Device::from_environment(), {threads}).compile(model.graph, options);
  compiled.set_params(model.params);
  for (const Recorded& run : model.runs) {
    std::string why = difference(compiled.run_ordered(run.inputs), run.outputs, kTolerance);
    CHECK_MESSAGE(why.empty(), name, ", ", way, ": ", why);
  }
}

constexpr const char* kModels[] = {"models/mlp", "models/cnn", "models/encoder", "vision/residual", "vision/inverted"};

}  // namespace

TEST_CASE("small models give NumPy's numbers by the reference") {
  for (const char* name : kModels) {
    Model model = load(name);
    CHECK(!model.runs.empty());
    for (const Recorded& run : model.runs)
      CHECK(difference(interpret(model.graph, run.inputs, {model.params.begin(), model.params.end()}), run.outputs,
                       kTolerance) == "");
  }
}

TEST_CASE("small models give NumPy's numbers on the default device, for every way to compile them") {
  for (const char* name : kModels) {
    for (int threads : {1, 2}) check(name, threads, {}, text_of(threads, " threads"));
    CompileOptions options;
    options.kernel_dispatch = KernelDispatch::common;
    check(name, 1, options, "the common form");
    for (CompileMode mode : {CompileMode::lazy, CompileMode::aot}) {
      options = {};
      options.mode = mode;
      check(name, 1, options, std::string(names_of(mode)[static_cast<size_t>(mode)]));
    }
    for (const std::string& pass : pass_names()) {
      options = {};
      options.skip_passes = {pass};
      check(name, 1, options, "without " + pass);
    }
    test::TemporaryFolder folder;
    options = {};
    options.cache_dir = folder / "";
    check(name, 1, options, "into the cache");
    check(name, 1, options, "from the cache");
  }
}

// What follows is of the CPU: which kernels it has, and what its passes find.

TEST_CASE("every node of the small models has its place on the CPU, and those that have no kernel say so") {
  const std::set<std::string> made_of_others = {"batch_norm_inference", "conv", "mean", "pool", "take"};
  for (const char* name : kModels) {
    DispatchReport report = dispatch_report(load(name).graph, Device::cpu());
    for (const DispatchLine& line : report.lines) {
      Verdict wanted = made_of_others.contains(line.op) ? Verdict::composed : Verdict::native;
      CHECK_MESSAGE(line.verdict == wanted, name, ": ", line.op, " ", line.reason);
      CHECK(line.reason.empty() == (wanted == Verdict::native));
    }
  }
}

TEST_CASE("the passes find in the encoder what they are there for") {
  Graph legal = legalize(load("models/encoder").graph, Device::cpu());
  auto count = [&](std::string_view op) {
    return std::count_if(legal.nodes().begin(), legal.nodes().end(), [&](const Node& n) { return n.op->name == op; });
  };
  CHECK(count("gelu") == 0);                                                   // into the product before it
  CHECK(count("fused_residual_layer_norm") + count("fused_matmul") == 2 * 3);  // with o, up and down
}

TEST_CASE("convolutions take in what follows them, and channels stay side by side from the image to the mean") {
  for (const char* name : {"vision/residual", "vision/inverted"}) {
    CompiledGraph compiled = Session(Device::cpu()).compile(load(name).graph);
    std::map<std::string_view, int> count;
    for (const Node& node : compiled.lowered().nodes()) ++count[node.op->name];
    CAPTURE(name);
    CHECK(count["convolution"] + count["batch_norm_inference"] + count["relu"] == 0);
    CHECK(count["fused_conv"] == (name == std::string("vision/residual") ? 7 : 10));
    if (kernels::has_onednn()) CHECK(count["transpose"] == 1);  // of the image, which is read where it lies
  }
}

TEST_CASE("a model that is saved and loaded again, with its params beside it, is the same model") {
  test::TemporaryFolder folder;
  for (const char* name : kModels) {
    Model model = load(name);
    save_graph(folder / "again.rlx", model.graph);
    CHECK(load_graph(folder / "again.rlx") == model.graph);
    CHECK(load_graph(folder / "again.rlx") == parse_graph_text(graph_text(model.graph)));
  }
}
