// Adapters that the package PEFT made (tests/golden/generate/peft_adapters.py): read, applied, merged, and written
// again as they were.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "rlx/element.h"
#include "rlx/lora.h"
#include "rlx/models.h"
#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

const std::string kFolder = "tests/golden/peft/";

double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.type() == b.type());
  double worst = 0;
  for (size_t i = 0; i < a.element_count(); ++i)
    worst = std::max(worst, std::abs(load_number(a, i) - load_number(b, i)));
  return worst;
}

/// What a file has under names that begin with this.
NamedTensors tensors_in(const SafetensorsFile& file, const std::string& front) {
  NamedTensors found;
  for (const std::string& name : file.names())
    if (name.starts_with(front)) found.emplace(name.substr(front.size()), file.tensor(name));
  return found;
}

void check_merged(const Lora& lora, const NamedTensors& params, const SafetensorsFile& model) {
  NamedTensors merged = merge_lora(lora, params);
  for (const auto& wanted : tensors_in(model, "merged/")) {
    const std::string& name = wanted.first;
    CHECK_MESSAGE(distance(merged.at(name), wanted.second) < 1e-6, name);
    CHECK_MESSAGE(distance(merged.at(name), params.at(name)) > 1e-3, name);
  }
  for (const auto& weight : merged) {
    const std::string& name = weight.first;
    if (!model.find("merged/" + name)) CHECK_MESSAGE(weight.second == params.at(name), name);
  }
}

nlohmann::json json_of(const std::string& path) { return nlohmann::json::parse(test::file_content(path)); }

}  // namespace

TEST_CASE("an adapter that PEFT made for BERT does what it does there, merges as there, and is written as it was") {
  auto model = SafetensorsFile::open(kFolder + "bert/model.safetensors");
  BertConfig config{50, 16, 2, 4, 32, 12, 2, 1e-12, Activation::gelu};
  Graph g("bert");
  ModelBuilder b(g);
  Dims dims = {2, 6};
  Value ids = g.input("ids", i64, dims), mask = g.input("mask", i64, dims), types = g.input("types", i64, dims);
  g.output(bert_encoder(b, ids, mask, types, config), "hidden");
  Lora lora = add_lora(g, {.targets = {"query", "value", "output.dense"}, .rank = 3, .alpha = 7});
  REQUIRE(lora.modules.size() == 8);
  NamedTensors params = tensors_in(model, "base/"), adapter = load_lora(kFolder + "bert", lora);
  params.merge(NamedTensors(adapter));

  const std::vector<NamedTensor> batch = {
      {"ids", model.tensor("ids")}, {"mask", model.tensor("mask")}, {"types", Tensor(i64, {2, 6})}};
  auto hidden = [&](const Graph& graph, const NamedTensors& values) {
    CompiledGraph compiled = Session().compile(graph);
    compiled.set_params(values);
    return compiled.run(batch)[0];
  };
  CHECK(distance(hidden(lora.graph, params), model.tensor("hidden")) < 2e-6);
  CHECK(distance(hidden(g, merge_lora(lora, params)), model.tensor("hidden")) < 2e-6);
  CHECK(distance(hidden(g, tensors_in(model, "base/")), model.tensor("hidden")) > 0.01);
  check_merged(lora, params, model);

  test::TemporaryFolder temporary;
  const char* kept = std::getenv("RLX_PEFT_FOLDER");  // for PEFT to read: tests/golden/generate/peft_adapters.py FOLDER
  const std::string folder = kept ? kept : temporary / "adapter";
  save_lora(folder, lora, params);
  auto ours = SafetensorsFile::open(folder + "/adapter_model.safetensors"),
       theirs = SafetensorsFile::open(kFolder + "bert/adapter_model.safetensors");
  CHECK(ours.names() == theirs.names());
  for (const std::string& name : theirs.names()) CHECK(ours.tensor(name) == theirs.tensor(name));
  auto written = json_of(folder + "/adapter_config.json"), read = json_of(kFolder + "bert/adapter_config.json");
  for (const char* key : {"peft_type", "r", "lora_alpha", "lora_dropout", "bias", "fan_in_fan_out"})
    CHECK_MESSAGE(written.at(key) == read.at(key), key);
}

TEST_CASE("an adapter that PEFT made for Llama merges as there") {
  auto model = SafetensorsFile::open(kFolder + "llama/model.safetensors");
  Graph g("products");
  NamedTensors params = tensors_in(model, "base/");
  for (const auto& [name, weight] : params) {
    Dims dims(weight.shape().begin(), weight.shape().end());
    g.output(linear(g.input("x." + name, f32, {1, dims[1]}), g.param(name, f32, dims)), "y." + name);
  }
  Lora lora = add_lora(g, {.targets = {"q_proj", "v_proj", "down_proj"}, .rank = 4, .alpha = 4});
  REQUIRE(lora.modules.size() == 6);
  params.merge(load_lora(kFolder + "llama", lora));
  check_merged(lora, params, model);
}

TEST_CASE("settings by which newer versions of PEFT compute otherwise are refused") {
  Graph g("bert");
  ModelBuilder b(g);
  Value x = g.input("x", f32, {1, 16});
  g.output(b.linear(x, "query", 16), "y");
  Lora lora = add_lora(g, {.targets = {"query"}, .rank = 3, .alpha = 7});
  test::TemporaryFolder folder;
  save_lora(folder / "adapter", lora, lora.initial());
  const auto plain = json_of(folder / "adapter/adapter_config.json");
  const std::pair<const char*, nlohmann::json> settings[] = {{"use_qalora", true},
                                                             {"use_bdlora", {{"nblocks", 2}}},
                                                             {"target_parameters", {"experts.weight"}},
                                                             {"alora_invocation_tokens", {1, 2}},
                                                             {"arrow_config", {{"top_k", 1}}}};
  for (const auto& setting : settings) {
    auto changed = plain;
    changed[setting.first] = setting.second;
    test::put_file(folder / "adapter/adapter_config.json", changed.dump());
    CHECK_THROWS_WITH_AS(load_lora(folder / "adapter", lora), doctest::Contains(setting.first), Error);
  }
  test::put_file(folder / "adapter/adapter_config.json", plain.dump());
  CHECK(load_lora(folder / "adapter", lora) == lora.initial());
}
