// Texts of a package through the C ABI: they are made once and stay where they are, whoever else asks.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "rlx/c.h"
#include "rlx/coreml.h"
#include "rlx/coreml_model.h"
#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("labels and description keep their place while others ask for them") {
  TemporaryFolder folder;
  std::string path = folder / "classifier.mlpackage";
  Graph g;
  g.output(softmax(g.input("x", f32, {1, 3})), "scores");
  write_coreml(path, g, {}, {.classes = {"a first label of many letters", "a second one", "and a third"}});
  rlx_coreml* model = nullptr;
  REQUIRE(rlx_coreml_load(path.c_str(), nullptr, &model, nullptr) == RLX_OK);
  const char *early = nullptr, *labels = nullptr, *again = nullptr;
  REQUIRE(rlx_coreml_labels(model, &early, nullptr) == RLX_OK);
  CHECK(std::string(early) == "[]");  // known after the first prediction
  float numbers[] = {0, 2, 1};
  int64_t dims[] = {1, 3};
  rlx_tensor *x = nullptr, *outputs[2] = {};
  REQUIRE(rlx_tensor_create("f32", dims, 2, numbers, sizeof numbers, &x, nullptr) == RLX_OK);
  const char* name = "x";
  REQUIRE(rlx_coreml_predict(model, &name, &x, 1, nullptr, outputs, 2, nullptr) == RLX_OK);
  REQUIRE(rlx_coreml_labels(model, &labels, nullptr) == RLX_OK);
  std::string held = labels;
  CHECK(held == R"(["a first label of many letters","a second one","and a third"])");
  const char* description = nullptr;
  REQUIRE(rlx_coreml_description(model, &description, nullptr) == RLX_OK);
  auto ask = [&] {
    for (int i = 0; i < 200; ++i) {
      const char* text = nullptr;
      rlx_coreml_labels(model, &text, nullptr);
      rlx_coreml_description(model, &text, nullptr);
    }
  };
  std::thread one(ask), other(ask);
  one.join(), other.join();
  REQUIRE(rlx_coreml_labels(model, &again, nullptr) == RLX_OK);
  CHECK(again == labels);
  CHECK(held == labels);
  for (rlx_tensor* t : {x, outputs[0], outputs[1]}) rlx_tensor_free(t);
  rlx_coreml_free(model);
}

TEST_CASE("where the operations of a package run is told in C++ and in C, for each choice of processors") {
  TemporaryFolder folder;
  const std::string path = folder / "halves.mlpackage";
  Graph g;
  const Value x = g.input("x", f16, {4, 4});
  g.output(tanh(matmul(x, x)), "y");
  write_coreml(path, g, {}, {.minimum_ios = 16});
  const CoremlModel model = CoremlModel::load(path);
  rlx_coreml* handle = nullptr;
  REQUIRE(rlx_coreml_load(path.c_str(), nullptr, &handle, nullptr) == RLX_OK);
  for (const auto& [units, wanted] :
       {std::pair{ComputeUnits::ane, "ane"}, {ComputeUnits::gpu, "gpu"}, {ComputeUnits::cpu, "cpu"}}) {
    const Device device = Device::coreml(units);
    const PlacementReport placed = model.placement(device);
    CHECK(placed.predicted == !chip_info().has_framework);
    const auto product =
        std::find_if(placed.ops.begin(), placed.ops.end(), [](const PlacedOp& p) { return p.op == "matmul"; });
    REQUIRE(product != placed.ops.end());
    if (placed.predicted) CHECK(product->device == wanted);
    char* json = nullptr;
    REQUIRE(rlx_coreml_placement(handle, device.name().c_str(), &json, nullptr) == RLX_OK);
    CHECK(std::string(json).find("\"op\": \"matmul\"") != std::string::npos);
    CHECK(std::string(json).find(text_of("{\"predicted\": ", placed.predicted ? "true" : "false")) == 0);
    rlx_text_free(json);
  }
  char* json = nullptr;
  rlx_error* error = nullptr;
  CHECK(rlx_coreml_placement(handle, "cpu", &json, &error) == RLX_INVALID_ARGUMENT);
  CHECK(std::string(rlx_error_message(error)).find("not of 'cpu'") != std::string::npos);
  rlx_error_free(error);
  rlx_coreml_free(handle);
}
