// Device::coreml with something in the place of CoreML.framework: a model that runs packages by the MIL front end,
// answers in another order, in the background, or not at all. What stands in Objective-C++ is not tested here
// (shim_test.py).
#include "devices/coreml/device.h"

#include <doctest/doctest.h>

#include <future>
#include <thread>

#include "compile/pipeline.h"
#include "devices/coreml/placement.h"
#include "io/mlpackage.h"
#include "rlx/coreml.h"
#include "rlx/coreml_model.h"
#include "rlx/element.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/io_files.h"

using namespace rlx;
using coreml_framework::Framework;
using coreml_framework::Named;
using coreml_framework::PlannedOp;

namespace {

/// How the stand-in behaves, and what it was asked.
struct Behaviour {
  std::vector<PlannedOp> plan = {};
  std::string forget = {}, refuse = {};  ///< an output that it does not give; what it says instead of any
  std::shared_future<void> wait = {};    ///< before it answers in the background
  int specification = 0;                 ///< of the package that it loaded
  std::string function = {};
  std::vector<std::thread> threads = {};
  ~Behaviour() {
    for (std::thread& t : threads) t.join();
  }
};

class StandIn final : public coreml_framework::Model {
 public:
  StandIn(const std::string& package, Behaviour& b) : model_(CoremlModel::load(package, {.threads = 1})), b_(b) {
    model_.predict(zeros());  // weights are read now: the package goes when it is loaded
  }
  Named predict(const Named& inputs) override {
    if (!b_.refuse.empty()) fail(ErrorCode::unsupported, "the prediction failed: ", b_.refuse);
    Named outputs = model_.predict(inputs);
    std::reverse(outputs.begin(), outputs.end());
    std::erase_if(outputs, [&](const auto& each) { return each.first == b_.forget; });
    return outputs;
  }
  void predict_async(const Named& inputs, std::function<void(Named, std::exception_ptr)> done) override {
    b_.threads.emplace_back([model = model_, this_one = *this, inputs, done]() mutable {
      if (this_one.b_.wait.valid()) this_one.b_.wait.wait();
      Named outputs;
      std::exception_ptr wrong;
      try {
        outputs = this_one.predict(inputs);
      } catch (...) {
        wrong = std::current_exception();
      }
      done(std::move(outputs), wrong);
    });
  }
  std::vector<PlannedOp> plan() override { return b_.plan; }

 private:
  std::vector<NamedTensor> zeros() const {
    std::vector<NamedTensor> all;
    for (const CoremlFeature& f : model_.inputs()) {
      Shape shape;
      for (auto extent : f.shape) shape.push_back(extent.value_or(1));
      all.emplace_back(f.name, Tensor(f.dtype, shape));
    }
    return all;
  }
  CoremlModel model_;
  Behaviour& b_;
};

Framework framework_of(Behaviour& b, bool ane = true, int newest_opset = 8) {
  Framework f{true, newest_opset, "Apple M9", ane};
  f.load = [&b](const std::string& package, ComputeUnits, const std::string& function) {
    b.specification = MlPackage::open(package).model().specification_version;
    b.function = function;
    return std::make_shared<StandIn>(package, b);
  };
  return f;
}

/// Two outputs and a param.
Graph small() {
  Graph g("small");
  Value x = g.input("x", f32, {2, 3}), w = g.param("w", f32, {3, 2});
  g.output(matmul(x, w), "product");
  g.output(compare(x, full_like(x, 1.0), Comparison::gt), "above");
  return g;
}

std::unique_ptr<HostExecutable> loaded(const Graph& g, const Framework& framework, Device device = Device::coreml()) {
  auto backend = make_coreml_device(device, framework);
  return load_on_host(*backend->lower(run_pipeline(g, backend->target(), {}).graph), {});
}

const Tensor kX = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}), kW = Tensor::of<float>({3, 2}, {1, 0, 0, 1, 2, 2});
const Tensor kProduct = Tensor::of<float>({2, 2}, {7, 8, 16, 17});

/// A run in the background, as a future.
std::future<std::vector<Tensor>> begun(HostExecutable& e, std::vector<Tensor> inputs) {
  auto promise = std::make_shared<std::promise<std::vector<Tensor>>>();
  bool in_background = e.begin(inputs, {}, [promise](std::vector<Tensor> outputs, std::exception_ptr error) {
    if (error) promise->set_exception(error);
    else promise->set_value(std::move(outputs));
  });
  CHECK(in_background);
  return promise->get_future();
}

}  // namespace

TEST_CASE("a device says which chip it is, whether it has a neural engine, and what it loads") {
  Behaviour b;
  auto with = make_coreml_device(Device::coreml(), framework_of(b)),
       without = make_coreml_device(Device::coreml(ComputeUnits::ane), framework_of(b, false, 6)),
       none = make_coreml_device(Device::coreml(ComputeUnits::ane), Framework{});
  CHECK(with->description() ==
        "CoreML.framework, Apple M9, with a neural engine; ML Programs of iOS 18 (macOS 15) and before");
  CHECK(without->description() ==
        "CoreML.framework, Apple M9, without a neural engine; ML Programs of iOS 16 (macOS 13) and before");
  CHECK(with->unavailable().empty());
  CHECK(without->unavailable() ==
        "Core ML says that this system (Apple M9) has no neural engine; coreml takes what there is");
  CHECK(none->unavailable().empty());  // the CPU runs it, and says so
  CHECK(none->description().find("no CoreML.framework here") == 0);
  CHECK(with->target().name == "coreml");
  CHECK(with->target().detail == "an ML Program, by CoreML.framework");
}

TEST_CASE("the framework's outputs are found by name, in dtypes of the graph") {
  Behaviour b;
  auto e = loaded(small(), framework_of(b));
  e->bind("w", kW);
  std::vector<Tensor> out(2);
  e->run(std::array{kX}, out, {});
  CHECK(out[0] == kProduct);
  CHECK(out[1] == Tensor::of<bool>({2, 3}, {false, true, true, true, true, true}));
  b.forget = "above";
  CHECK_THROWS_WITH_AS(e->run(std::array{kX}, out, {}), doctest::Contains("gave no output 'above'"), Error);
}

TEST_CASE("a package is of an opset that the system loads") {
  Behaviour b;
  Graph g("half");
  Value x = g.input("x", f16, {2, 4});
  g.output(x + x, "y");
  std::vector<Tensor> out(1);
  for (int newest : {5, 8}) {
    auto e = loaded(g, framework_of(b, true, newest));
    e->run(std::array{full(f16, {2, 4}, 1.5)}, out, {});
    CHECK(out[0].dtype() == f16);
    CHECK(b.specification == (newest == 5 ? 6 : 7));
  }
}

TEST_CASE("a run in the background gives the outputs, or what went wrong, also when the program is gone") {
  Behaviour b;
  std::promise<void> go;
  b.wait = go.get_future().share();
  auto e = loaded(small(), framework_of(b));
  e->bind("w", kW);
  auto first = begun(*e, {kX}), second = begun(*e, {kX});
  CHECK(first.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  e.reset();
  go.set_value();
  CHECK(first.get()[0] == kProduct);
  CHECK(second.get()[1].dtype() == boolean);
  e = loaded(small(), framework_of(b));
  e->bind("w", kW);
  e->prepare();
  b.refuse = "the neural engine is on fire";
  CHECK_THROWS_WITH_AS(begun(*e, {kX}).get(), doctest::Contains("the neural engine is on fire"), Error);
  b.refuse = "", b.forget = "product";
  CHECK_THROWS_WITH_AS(begun(*e, {kX}).get(), doctest::Contains("gave no output 'product'"), Error);
  // What is wrong at once is said at once.
  auto never = [](std::vector<Tensor>, std::exception_ptr) { FAIL("was begun"); };
  CHECK_THROWS_WITH_AS(e->begin(std::array{Tensor(f32, {3, 3})}, {}, never), doctest::Contains("got f32[3, 3]"), Error);
}

TEST_CASE("where operations run is what the framework plans, and a prediction where it has no plan") {
  Behaviour b;
  b.plan = {{"const", "w", "", {}, 0},
            {"constexpr_lut_to_dense", "table", "", {}, 0},
            {"matmul", "product", "ane", {"gpu", "cpu"}, 0.8125},
            {"greater", "above", "", {}, 0}};
  auto e = loaded(small(), framework_of(b));
  e->bind("w", kW);
  PlacementReport planned = e->placement();
  CHECK(!planned.predicted);
  REQUIRE(planned.ops.size() == 3);
  CHECK(planned.ops[0].device == "load");
  CHECK(planned.ops[1].op == "matmul");
  CHECK(planned.ops[1].name == "product");
  CHECK(planned.ops[1].device == "ane");
  CHECK(planned.ops[1].reason == "the plan prefers it; possible too: gpu, cpu; 81.3 % of the estimated cost");
  CHECK(planned.ops[2].device.empty());
  CHECK(planned.ops[2].reason == "the plan names no processor");
  b.plan.clear();  // systems before macOS 14.4
  PlacementReport predicted = e->placement();
  CHECK(predicted.predicted);
  CHECK(!predicted.ops.empty());
  // A package: the function that is asked for is what the framework loads; of a plain one it is left out.
  test::TemporaryFolder folder;
  Graph one("one"), two("two");
  one.output(one.input("x", f32, {4}) + 1.0, "y"), two.output(exp(two.input("x", f32, {4})), "y");
  std::string several = folder / "several.mlpackage", plain = folder / "plain.mlpackage";
  write_coreml(several, std::vector<PackageFunction>{{"first", one}, {"second", two}}, {});
  write_coreml(plain, one, {});
  b.plan = {{"exp", "y", "gpu", {}, 1}};
  Framework framework = framework_of(b);
  auto placed = [&](const std::string& path, const std::string& function) {
    return mlprogram::placement_of(path, MlPackage::open(path).model(), function, ComputeUnits::all, framework);
  };
  CHECK(placed(several, "second").ops[0].device == "gpu");
  CHECK(b.function == "second");
  placed(several, "");
  CHECK(b.function == "first");
  placed(plain, "");
  CHECK(b.function.empty());
  CHECK_THROWS_WITH_AS(placed(plain, "third"), doctest::Contains("third"), Error);
  framework = {};
  CHECK(placed(plain, "").predicted);
}

TEST_CASE("a compiled graph runs in the background on every device, and places operations where there is a choice") {
  for (Device device : {Device::cpu(), Device::coreml()}) {
    CAPTURE(device.name());
    CompiledGraph compiled = Session(device, {1}).compile(small());
    compiled.set_param("w", kW);
    std::vector<PendingRun> all;
    for (int i = 0; i < 4; ++i) all.push_back(compiled.run_async({{"x", kX}}));
    CHECK_THROWS_WITH_AS(compiled.run_async({{"z", kX}}), doctest::Contains("no input 'z'"), Error);
    CHECK_THROWS_WITH_AS(compiled.run_async({{"x", Tensor(f32, {1, 3})}}), doctest::Contains("f32[1, 3]"), Error);
    compiled = Session().compile(Graph("empty"));  // what was begun keeps its program
    for (auto& each : all) CHECK(each.get()[0] == kProduct);
  }
  CompiledGraph coreml = Session(Device::coreml(ComputeUnits::ane)).compile(small());
  coreml.set_param("w", kW);
  PlacementReport placement = coreml.placement();
  CHECK(placement.predicted == !coreml_framework::is_present());
  CHECK(std::any_of(placement.ops.begin(), placement.ops.end(), [](const PlacedOp& p) { return p.op == "matmul"; }));
  CHECK_THROWS_WITH_AS(Session().compile(Graph("empty")).placement(), doctest::Contains("does not choose"), Error);
}
