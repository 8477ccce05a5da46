// Sequences of models whose layers keep a state of fixed size: what goes back, fails or is copied. That their logits
// are those of transformers is tested with the other models (language_model_test.cpp).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "devices/simulated/faults.h"
#include "models/checks.h"
#include "rlx/io.h"
#include "rlx/language_model.h"
#include "support/io_files.h"

namespace rlx::test::recurrent_models {  // a unity build puts the tests of this folder into one file
namespace {

const std::string kGolden = "tests/golden/language_models/";
constexpr const char* kModels[] = {"mamba", "mamba2", "qwen3_next"};
constexpr float kTolerance = 1e-4F;

std::vector<int32_t> ids_of(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(kGolden + name + "/ids.json")).get<std::vector<int32_t>>();
}
/// The logits of transformers behind token i.
struct Golden {
  explicit Golden(const std::string& name) : all(read_npy(kGolden + name + "/logits.npy")), ids(ids_of(name)) {}
  Tensor row(size_t i) const {
    const auto width = static_cast<size_t>(all.shape()[1]);
    return Tensor::of<float>({all.shape()[1]}, all.values<float>().subspan(i * width, width));
  }
  Tensor all;
  std::vector<int32_t> ids;
};

}  // namespace

TEST_CASE("a recurrent sequence that goes back is read again, and is then what it would have been") {
  for (const char* name : kModels) {
    CAPTURE(name);
    const Golden golden(name);
    const std::span<const int32_t> text = golden.ids;
    const LanguageModel model = LanguageModel::load(kGolden + name, {.chunk = 9});
    CHECK(model.config().is_recurrent());
    LanguageModel::Sequence sequence = model.sequence();
    sequence.logits(text.first(30));
    sequence.rewind(0);
    CHECK(worst_difference(sequence.logits(text[30]), golden.row(30)) < kTolerance);
    // Another end first, which has to be forgotten.
    sequence.rewind(11);
    CHECK(sequence.position() == 20);
    sequence.logits(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7});
    sequence.rewind(7);
    CHECK(worst_difference(sequence.logits(text.subspan(20, 15)), golden.row(34)) < kTolerance);
    sequence.rewind(5);
    sequence.rewind(5);
    Tensor rest = sequence.all_logits(text.subspan(25));
    CHECK(worst_difference(rest, Tensor::of<float>(rest.shape(), golden.all.values<float>().last(
                                                                     rest.element_count()))) < kTolerance);
    // Back to nothing.
    sequence.rewind(sequence.position());
    CHECK(worst_difference(sequence.logits(text.first(3)), golden.row(2)) < kTolerance);
  }
}

TEST_CASE("a copy of a recurrent sequence goes on by itself, and its memory does not grow") {
  for (const char* name : kModels) {
    CAPTURE(name);
    const Golden golden(name);
    const std::span<const int32_t> text = golden.ids;
    const LanguageModel model = LanguageModel::load(kGolden + name, {.context = 512});
    LanguageModel::Sequence one = model.sequence();
    one.logits(text.first(40));
    const size_t bytes = one.memory_bytes();
    LanguageModel::Sequence other = one;
    CHECK(worst_difference(other.logits(std::vector<int32_t>{1, 2, 3}), golden.row(40)) > 0.01F);
    CHECK(worst_difference(one.logits(text[40]), golden.row(40)) < kTolerance);
    other.rewind(3);
    CHECK(worst_difference(other.logits(text.subspan(40, 2)), golden.row(41)) < kTolerance);
    CHECK(worst_difference(one.logits(text[41]), golden.row(41)) < kTolerance);
    for (int i = 0; i < 300; ++i) one.logits(int32_t{7});
    if (!model.config().has_attention()) CHECK(one.memory_bytes() == bytes);
    CHECK(!one.profile(text.first(1)).steps.empty());
    one.rewind(300);
    CHECK(worst_difference(one.logits(text[42]), golden.row(42)) < kTolerance);
  }
}

TEST_CASE("a recurrent sequence whose step fails is as long as before, and right with the next one") {
  const Device device = Device::parse("loopback");
  for (const char* name : kModels) {
    CAPTURE(name);
    const Golden golden(name);
    const std::span<const int32_t> text = golden.ids;
    const LanguageModel model = LanguageModel::load(kGolden + name, {.device = device, .chunk = 4});
    for (simulated::Fault fault :
         {simulated::Fault::launch, simulated::Fault::allocate, simulated::Fault::write, simulated::Fault::read})
      for (int64_t at : {1, 2, 3, 5}) {  // among the pieces of the text, some of which were read by then
        CAPTURE(static_cast<int>(fault));
        CAPTURE(at);
        LanguageModel::Sequence sequence = model.sequence();
        sequence.logits(text.first(10));
        simulated::loopback_faults().ask(fault, at);
        bool has_failed = false;
        try {
          sequence.logits(text.subspan(10, 13));
        } catch (const Error&) {
          has_failed = true;
        }
        simulated::loopback_faults().reset();
        CHECK(sequence.position() == (has_failed ? 10 : 23));
        if (has_failed) CHECK(worst_difference(sequence.logits(text.subspan(10, 13)), golden.row(22)) < kTolerance);
        CHECK(worst_difference(sequence.logits(text[23]), golden.row(23)) < kTolerance);
      }
  }
}

TEST_CASE("recurrences that do not fit together are refused with their numbers") {
  const auto refusal = [](const char* name, const nlohmann::json& change) {
    auto config = nlohmann::json::parse(file_content(kGolden + name + "/config.json"));
    config.merge_patch(change);
    return std::string(error_of([&] { LanguageModelConfig::from_json(config.dump()); }).what());
  };
  const auto says = [](const std::string& message, const char* part) {
    CAPTURE(message);
    CHECK(message.find(part) != message.npos);
  };
  says(refusal("mamba2", {{"num_heads", 5}}), "'num_heads' is 5 and 'head_dim' 8, which makes 40 elements");
  says(refusal("mamba2", {{"n_groups", 3}}), "32 elements in 4 heads of 3 groups");
  says(refusal("mamba2", {{"n_groups", 0}}), "'n_groups' in config.json is 0");
  says(refusal("mamba2", {{"state_size", 1 << 20}}), "'state_size' in config.json is 1048576; it must be 1 to");
  says(refusal("mamba2", {{"conv_kernel", 1}}), "'conv_kernel' in config.json is 1; it must be 2 to 64");
  says(refusal("mamba2", {{"expand", 1 << 30}}), "'expand' in config.json is 1073741824; it must be 1 to 64");
  says(refusal("mamba2", {{"time_step_limit", {2.0, 1.0}}}), "steps of recurrences go from 2 to 1");
  says(refusal("mamba2", {{"time_step_limit", {0.0}}}), "'time_step_limit' in config.json is an array of 1");
  says(refusal("mamba2", {{"time_step_limit", {-1.0, 1.0}}}), "an item of 'time_step_limit' in config.json is -1");
  says(refusal("mamba2", {{"hidden_act", "tan"}}), "'hidden_act' in config.json is 'tan'");
  says(refusal("mamba", {{"time_step_rank", "many"}}), "'time_step_rank' in config.json is \"many\"");
  says(refusal("mamba", {{"time_step_rank", 0}}), "'time_step_rank' in config.json is 0");
  says(refusal("mamba", {{"architectures", {"MambaModel"}}}), "but what is built here is MambaForCausalLM");
  says(refusal("qwen3_next", {{"layer_types", {1, 2, 3, 4}}}), "item 0 of 'layer_types' in config.json is 1");
  says(refusal("qwen3_next", {{"layer_types", {"full_attention"}}}), "'layer_types' in config.json has 1 items for 4");
  says(refusal("qwen3_next", {{"linear_num_key_heads", 3}}), "32 elements in 4 heads of 3 groups");
  says(refusal("qwen3_next", {{"linear_conv_kernel_dim", 1000}}), "'linear_conv_kernel_dim' in config.json is 1000");
  says(refusal("qwen3_next", {{"linear_value_head_dim", 0}}), "'linear_value_head_dim' in config.json is 0");
  says(refusal("qwen3_next", {{"num_local_experts", 9}}), "but 'num_local_experts', another name of it, is 9");
  says(refusal("qwen3_next", {{"shared_expert_intermediate_size", 0}}), "'shared_expert_intermediate_size' in");
  says(refusal("qwen3_next", {{"rope_parameters", {{"partial_rotary_factor", 0.4}}}}),
       "3 elements of a head of 8 turn");
  // Python's word for the infinite limit, as older files have it.
  std::string text = file_content(kGolden + "mamba2/config.json");
  const size_t from = text.find('{', text.find("time_step_limit"));
  text.replace(from, text.find('}', from) + 1 - from, "Infinity");
  CHECK(!LanguageModelConfig::from_json(text).recurrent.most_step);
  text.replace(text.find("Infinity"), 8, "0.25");
  CHECK(LanguageModelConfig::from_json(text).recurrent.most_step == 0.25);

  LanguageModelConfig config;
  config.vocabulary = 32, config.hidden = 16, config.layers = 1, config.context = 64, config.has_feed_forward = false;
  config.mixers = {TokenMixer::mamba2};
  config.recurrent = {.inner = 32, .state = 8, .heads = 4};
  CHECK(decoder_graph(config).outputs().size() == 3);
  config.recurrent = {.inner = 1 << 16, .state = 1 << 16, .heads = 4};
  says(error_of([&] { decoder_graph(config); }).what(), "a state of 65536 times 65536 elements is more than");
  config.recurrent = {.inner = 32, .state = 8, .heads = 3};
  says(error_of([&] { decoder_graph(config); }).what(), "32 elements in 3 heads of 1 groups");
  config.mixers = {TokenMixer::mamba2, TokenMixer::mamba};
  says(error_of([&] { decoder_graph(config); }).what(), "'mixers' has 2 items for 1 layers");
}

}  // namespace rlx::test::recurrent_models
