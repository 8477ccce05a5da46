// Texts of a package through the C ABI: they are made once and stay where they are, whoever else asks.
#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "rlx/c.h"
#include "rlx/coreml.h"
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
