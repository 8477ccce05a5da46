// Keys of configurations that change numbers: read as transformers 5.24 and llama.cpp read them, or refused by name.
// scripts/judge_language_models.py holds the logits of those that are read to transformers'.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/checks.h"
#include "rlx/language_model.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;
using nlohmann::json;

namespace {

const std::string kGoldenModels = "tests/golden/language_models/";

/// A model's configuration without keys of rotary positions, and with those of `change`; null removes.
json changed(const std::string& model, const json& change) {
  json config = json::parse(std::ifstream(kGoldenModels + model + "/config.json"));
  for (const char* key : {"rope_parameters", "original_max_position_embeddings"}) config.erase(key);
  for (const auto& [key, value] : change.items()) config[key] = value;
  return config;
}
LanguageModelConfig read(const std::string& model, const json& change) {
  return LanguageModelConfig::from_json(changed(model, change).dump());
}
std::string refusal(const std::string& model, const json& change) {
  return message_of([&] { read(model, change); });
}

const json kLinear = {{"rope_type", "linear"}, {"factor", 2.0}};
const json kYarn = {{"rope_type", "yarn"}, {"factor", 4.0}};
const json kLong = {{"rope_type", "longrope"}, {"short_factor", {1.0, 1.5}}, {"long_factor", {2.0, 5.0}}};

}  // namespace

TEST_CASE("rope_scaling counts before rope_parameters, and neither takes members of the other") {
  const json plain = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  // convert_rope_params_to_dict: `rope_scaling or rope_parameters`.
  RopeConfig rope = read("llama3", {{"rope_parameters", plain}, {"rope_scaling", kLinear}}).rope;
  CHECK(rope.scaling == RopeScaling::linear);
  CHECK(rope.factor == 2);
  CHECK(rope.theta == 10000);  // not that of the other
  rope = read("llama3", {{"rope_parameters", plain}, {"rope_scaling", kLinear}, {"rope_theta", 3e5}}).rope;
  CHECK(rope.theta == 3e5);
  for (const json& nothing : {json(nullptr), json::object()}) {
    rope = read("llama3", {{"rope_parameters", plain}, {"rope_scaling", nothing}}).rope;
    CHECK(rope.scaling == RopeScaling::plain);
    CHECK(rope.theta == 5e5);
  }
  CHECK(says(refusal("llama3", {{"rope_scaling", 3}}), "'rope_scaling' in config.json is 3, not an object"));
}

TEST_CASE("plain positions turn whole heads whatever partial_rotary_factor says, but for Phi-3's") {
  for (const char* model : {"llama3", "qwen2", "qwen3_yarn", "qwen3_moe", "mistral_window", "gemma2_plain_scale"}) {
    CAPTURE(model);
    const LanguageModelConfig c = read(model, {{"partial_rotary_factor", 0.5}});
    CHECK(c.rope.dims == c.head_dim);
    // Of another type transformers makes fewer angles than its heads have, and fails.
    CHECK(says(refusal(model, {{"partial_rotary_factor", 0.5}, {"rope_parameters", kLinear}}),
               "'partial_rotary_factor' in config.json is 0.5, but"));
    json inside = kLinear;
    inside["partial_rotary_factor"] = 0.25;
    CHECK(says(refusal(model, {{"partial_rotary_factor", 0.5}, {"rope_scaling", inside}}),
               "'rope_scaling.partial_rotary_factor' in config.json is 0.25, but"));
  }
  CHECK(says(refusal("gemma3", {{"partial_rotary_factor", 0.5}, {"rope_scaling", kLinear}}),
             "'partial_rotary_factor' in config.json is 0.5, but gemma3_text turns whole heads"));
  const LanguageModelConfig phi = read("phi3_longrope", {{"partial_rotary_factor", 0.5}});
  CHECK(phi.rope.dims == phi.head_dim / 2);
}

TEST_CASE("a factor without a type is refused by name") {
  for (const char* place : {"rope_parameters", "rope_scaling"}) {
    CHECK(says(refusal("llama3", {{place, {{"factor", 8.0}}}}),
               text_of("'", place, ".factor' in config.json is 8.0, but no 'rope_type' beside it says")));
    CHECK(says(refusal("qwen2", {{place, {{"long_factor", {1.0}}}}}), text_of("'", place, ".long_factor' in")));
    // With one, the factor of plain positions is left out, as transformers does.
    const json plain = {{"rope_type", "default"}, {"factor", 8.0}};
    CHECK(read("llama3", {{place, plain}}).rope.factor == 1);
    CHECK(read("llama3", {{place, {{"type", "linear"}, {"factor", 8.0}}}}).rope.scaling == RopeScaling::linear);
  }
}

TEST_CASE("positions of kinds of layers are Gemma 3's alone, and Gemma 3 has no others") {
  const json nested = {{"full_attention", kLinear}, {"sliding_attention", {{"rope_type", "default"}}}};
  for (const char* model : {"llama3", "mistral_window", "qwen2", "gemma2_plain_scale", "phi3_longrope"})
    CHECK(says(refusal(model, {{"rope_parameters", nested}}),
               "'rope_parameters.full_attention' in config.json is an object of 2 members, but all layers of"));
  CHECK(says(refusal("gemma3", {{"rope_parameters", kLinear}}),
             "'rope_parameters.factor' in config.json is 2.0, but gemma3_text has 'full_attention' and"));
  CHECK(says(refusal("gemma3", {{"rope_scaling", nested}}),
             "'rope_scaling.full_attention' in config.json is an object of 2 members, which has no meaning there"));
  // Gemma3TextConfig: members of rope_scaling replace those for full attention.
  const json both = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 5e5}}}};
  LanguageModelConfig c = read("gemma3", {{"rope_parameters", both}, {"rope_scaling", kLinear}});
  CHECK(c.rope.scaling == RopeScaling::linear);
  CHECK(c.rope.factor == 2);
  CHECK(c.rope.theta == 5e5);
  REQUIRE(c.local_rope);
  CHECK(c.local_rope->scaling == RopeScaling::plain);
  CHECK(c.local_rope->theta == 1e4);
  c = read("gemma3", {{"rope_parameters", nullptr}});
  CHECK(c.rope.theta == 1e6);
  // Beside the default "rope_type" that stands there by then, the older name is not read.
  CHECK(says(refusal("gemma3", {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
             "'rope_scaling.type' in config.json is \"linear\", which transformers does not read for gemma3_text"));
  json yarn = kYarn;
  yarn["truncate"] = false;
  CHECK(says(refusal("gemma3", {{"rope_parameters", {{"full_attention", yarn}}}}),
             "'rope_parameters.full_attention.truncate' in config.json is false"));
}

TEST_CASE("the original context is the model's key, and 4096 for Phi-3") {
  CHECK(read("phi3_longrope", {{"rope_parameters", kLong}}).rope.original_context == 4096);
  json with = kLong;
  with["original_max_position_embeddings"] = 64;
  CHECK(read("phi3_longrope", {{"rope_parameters", with}}).rope.original_context == 4096);
  CHECK(read("phi3_longrope", {{"rope_parameters", with}, {"original_max_position_embeddings", 48}})
            .rope.original_context == 48);
  CHECK(says(refusal("phi3_longrope", {{"rope_parameters", kLinear}}), "there are default, longrope for phi3"));
  CHECK(read("qwen3_yarn", {{"rope_parameters", kYarn}}).rope.original_context == 256);  // max_position_embeddings
  json su = kLong;
  su["rope_type"] = "su";
  CHECK(read("phi3_longrope", {{"rope_parameters", su}}).rope.scaling == RopeScaling::longrope);
  CHECK(
      says(refusal("qwen2", {{"rope_parameters", su}}), "'rope_type' in config.json is 'su'; there are default, lin"));
  json yarn = kYarn;
  yarn["original_max_position_embeddings"] = 64;
  CHECK(read("qwen3_yarn", {{"rope_parameters", yarn}}).rope.original_context == 64);
  CHECK(
      read("qwen3_yarn", {{"rope_parameters", yarn}, {"original_max_position_embeddings", 32}}).rope.original_context ==
      32);
}

TEST_CASE("keys that change numbers and are not built are refused by name, unless they are neutral") {
  struct Row {
    const char* model;
    json change;
    const char* message;
  };
  const std::vector<Row> rows = {
      {"gemma2_plain_scale",
       {{"use_bidirectional_attention", true}},
       "'use_bidirectional_attention' in config.json is"},
      {"gemma3", {{"use_bidirectional_attention", true}}, "'use_bidirectional_attention' in config.json is true"},
      {"qwen3_moe", {{"is_causal", false}}, "'is_causal' in config.json is false: that is an encoder"},
      {"llama3", {{"is_encoder_decoder", true}}, "'is_encoder_decoder' in config.json is true"},
      {"llama3",
       {{"per_layer_config", {{"0", {{"sliding_window", 4}}}}}},
       "'per_layer_config' in config.json is an obj"},
      {"llama3", {{"sliding_window", 4}}, "'sliding_window' in config.json is 4, but llama has no windows"},
      {"llama3",
       {{"layer_types", {"sliding_attention", "full_attention"}}},
       "item 0 of 'layer_types' in config.json is"},
      {"mistral_window", {{"layer_types", {"sliding_attention", "full_attention"}}}, "item 1 of 'layer_types' in"},
      {"gpt2", {{"num_attention_heads", 4}}, "'n_head' in config.json is 2, but 'num_attention_heads', another name"},
      {"gpt2", {{"max_position_embeddings", 2}}, "but 'max_position_embeddings', another name of it, is 2"},
      {"qwen3_moe", {{"num_experts", 4}, {"num_local_experts", 8}}, "'num_experts' in config.json is 4, but"},
      {"gemma2_plain_scale", {{"sliding_window", nullptr}}, "'sliding_window' in config.json is null, but layers of"},
      {"llama3",
       {{"architectures", {"LlamaForSequenceClassification"}}},
       "has \"LlamaForSequenceClassification\", but"},
      {"llama3", {{"architectures", {"MistralForCausalLM"}}}, "but what is built here is LlamaForCausalLM"},
      {"llama3",
       {{"architectures", "LlamaForCausalLM"}},
       "'architectures' in config.json is \"LlamaForCausalLM\", not"},
      {"llama3", {{"auto_map", {{"AutoModelForCausalLM", "modeling_odd.OddForCausalLM"}}}}, "code of its own"},
      {"llama3", {{"auto_map", 3}}, "'auto_map' in config.json is 3, not an object"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.model);
    CAPTURE(row.change.dump());
    CHECK(says(refusal(row.model, row.change), row.message));
  }
  read("gemma3", {{"use_bidirectional_attention", nullptr}});
  read("llama3", {{"is_causal", true},
                  {"is_encoder_decoder", false},
                  {"per_layer_config", json::object()},
                  {"sliding_window", 4096}});
  read("llama3", {{"layer_types", {"full_attention", "full_attention"}}, {"architectures", nullptr}});
  read("gpt2", {{"num_attention_heads", 2}});
  // Phi-3's own files name the class that transformers has by now.
  read(
      "phi3_longrope",
      {{"auto_map",
        {{"AutoConfig", "configuration_phi3.Phi3Config"}, {"AutoModelForCausalLM", "modeling_phi3.Phi3ForCausalLM"}}}});
}

TEST_CASE("Gemma 3 with pictures: what its class reads elsewhere is refused") {
  const json inner = changed("gemma3", json::object());
  const auto outer = [&](const json& change, const json& inside) {
    json config = {{"model_type", "gemma3"}, {"text_config", inner}};
    for (const auto& [key, value] : change.items()) config[key] = value;
    for (const auto& [key, value] : inside.items()) config["text_config"][key] = value;
    return config.dump();
  };
  LanguageModelConfig::from_json(outer({{"architectures", {"Gemma3ForConditionalGeneration"}}}, {}));
  const auto message = [&](const json& change, const json& inside) {
    return message_of([&] { LanguageModelConfig::from_json(outer(change, inside)); });
  };
  CHECK(says(message({{"tie_word_embeddings", false}}, {}), "'tie_word_embeddings' in config.json is not as"));
  CHECK(says(message({}, {{"final_logit_softcapping", 30.0}}), "'text_config.final_logit_softcapping' in config"));
  CHECK(says(message({}, {{"use_bidirectional_attention", true}}), "'text_config.use_bidirectional_attention'"));
  CHECK(says(message({{"architectures", {"Gemma3ForSequenceClassification"}}}, {}), "Gemma3ForConditionalGenerat"));
}

TEST_CASE("the first Gemma has its activation as hidden_act") {
  json gemma = changed("gemma2_plain_scale", {{"model_type", "gemma"}, {"architectures", {"GemmaForCausalLM"}}});
  for (const char* key : {"hidden_activation", "layer_types", "sliding_window"}) gemma.erase(key);
  const auto activation = [&](const json& change) {
    json config = gemma;
    config.update(change);
    return LanguageModelConfig::from_json(config.dump()).activation;
  };
  CHECK(activation(json::object()) == Activation::gelu_tanh);
  CHECK(activation({{"hidden_act", "gelu"}}) == Activation::gelu_tanh);
  CHECK(activation({{"hidden_act", "silu"}}) == Activation::silu);
  CHECK(activation({{"hidden_act", "gelu"}, {"hidden_activation", "gelu_pytorch_tanh"}}) == Activation::gelu_tanh);
  CHECK(says(message_of([&] {
               activation({{"hidden_act", "silu"}, {"hidden_activation", "gelu"}});
             }),
             "'hidden_activation' in config.json is \"gelu\", and 'hidden_act', which counts for gemma, is another"));
}

namespace {

/// A model's GGUF file with other metadata.
class Changed {
 public:
  explicit Changed(const std::string& model) : file_(GgufFile::open(kGoldenModels + model + ".gguf")) {
    for (const std::string& name : file_.names()) tensors.emplace_back(name, file_.tensor(name));
  }
  LanguageModelConfig with(const std::string& key, const std::optional<GgufValue>& value,
                           const GgufMetadata& more = {}) const {
    GgufMetadata metadata;
    for (const auto& [name, old] : file_.metadata())
      if (name != key) metadata.emplace_back(name, old);
    if (value) metadata.emplace_back(key, *value);
    metadata.insert(metadata.end(), more.begin(), more.end());
    write_gguf(folder_ / "model.gguf", tensors, metadata);
    return LanguageModelConfig::from_gguf(GgufFile::open(folder_ / "model.gguf"));
  }
  std::string message(const std::string& key, const std::optional<GgufValue>& value,
                      const GgufMetadata& more = {}) const {
    return message_of([&] { with(key, value, more); });
  }
  std::vector<std::pair<std::string, Tensor>> tensors;

 private:
  GgufFile file_;
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("keys of GGUF files that change numbers and are not built are refused by name, unless they are neutral") {
  struct Row {
    const char* key;
    GgufValue other, neutral;
  };
  const std::vector<Row> rows = {
      {"attention.causal", false, true},
      {"attention.clamp_kqv", 30.0F, 0.0F},
      {"attention.max_alibi_bias", 8.0F, 0.0F},
      {"attention.scale", 0.1F, 0.5F},  // 1 / sqrt(4)
      {"attention.output_scale", 0.5F, 1.0F},
      {"attention.temperature_scale", 0.1F, 0.0F},
      {"attention.key_length_swa", uint32_t{8}, uint32_t{4}},
      {"attn_logit_softcapping", 20.0F, 50.0F},
      {"final_logit_softcapping", 20.0F, 30.0F},
      {"embedding_scale", 12.0F, 1.0F},
      {"residual_scale", 0.2F, 1.0F},
      {"logit_scale", 0.1F, 0.0F},
      {"use_parallel_residual", true, false},
      {"expert_count", uint32_t{4}, uint32_t{0}},
      {"expert_used_count", uint32_t{2}, uint32_t{0}},
      {"expert_shared_count", uint32_t{1}, uint32_t{0}},
      {"expert_weights_scale", 2.5F, 1.0F},
      {"expert_gating_func", uint32_t{2}, uint32_t{1}},
      {"nextn_predict_layers", uint32_t{1}, uint32_t{0}},
      {"pooling_type", uint32_t{4}, uint32_t{3}},
      {"rope.scaling.alpha", 2.0F, 0.0F},
      {"rope.scaling.yarn_log_multiplier", 0.1F, 0.0F},
      {"rope.scaling.yarn_ext_factor", 0.5F, -1.0F},
      {"rope.scaling.yarn_attn_factor", 1.2F, 1.0F},
      {"rope.dimension_sections", GgufArray{std::vector<int32_t>{1, 1, 0, 0}}, GgufArray{std::vector<int32_t>(4)}},
      {"swiglu_clamp_exp", GgufArray{std::vector<float>{0, 7}}, GgufArray{std::vector<float>{0, 0}}},
      {"logit_scale", std::string("1"), 1.0F},
  };
  const Changed qwen("qwen2");
  for (const Row& row : rows) {
    CAPTURE(row.key);
    const std::string key = text_of("qwen2.", row.key);
    CHECK(says(qwen.message(key, row.other), text_of("'", key, "' is ", gguf_json(row.other), "; models of qwen2")));
    qwen.with(key, row.neutral);
  }
  const std::string wordy = qwen.message("qwen2.swiglu_clamp_exp", GgufArray{std::vector<float>(100000, 1.0F)});
  CHECK(says(wordy, "'qwen2.swiglu_clamp_exp' is a list of 100000 items"));
  CHECK(qwen.message("qwen2.rope.scaling.type", std::string(100000, 'x')).size() < 400);
  CHECK(qwen.message("general.architecture", std::string(100000, 'x')).size() < 400);
  const Changed moe("qwen3_moe");
  CHECK(moe.with("qwen3moe.expert_weights_norm", true).normalize_experts);
  CHECK(says(moe.message("qwen3moe.expert_weights_norm", false), "'qwen3moe.expert_weights_norm' is false"));
  CHECK(says(moe.message("qwen3moe.expert_shared_count", uint32_t{1}), "'qwen3moe.expert_shared_count' is 1"));
  Changed llama("llama3");
  std::erase_if(llama.tensors, [](const auto& t) { return t.first == "rope_freqs.weight"; });
  CHECK(says(llama.message("llama.rope.dimension_count", uint32_t{4}), "'llama.rope.dimension_count' is 4"));
}

TEST_CASE("factors of rotary positions in GGUF files are read as llama.cpp reads them") {
  const Changed qwen("qwen2");
  const GgufMetadata yarn = {{"qwen2.rope.scaling.type", std::string("yarn")}, {"qwen2.rope.scaling.factor", 4.0F}};
  const LanguageModelConfig c = qwen.with("qwen2.rope.scaling.attn_factor", 1.5F, yarn);
  CHECK(c.rope.attention_factor == doctest::Approx(1.5 * (0.1 * std::log(4.0) + 1)));
  CHECK(qwen.with("qwen2.rope.scaling.yarn_beta_fast", 16.0F, yarn).rope.beta_fast == 16);
  // The epsilon of the norm that the architecture has, and no other.
  CHECK(says(qwen.message("qwen2.attention.layer_norm_rms_epsilon", std::nullopt),
             "the metadata have no 'qwen2.attention.layer_norm_rms_epsilon'"));
  CHECK(Changed("gpt2").with("gpt2.attention.layer_norm_rms_epsilon", 0.5F).norm_epsilon < 1e-3);

  const Changed gemma("gemma3");
  CHECK(!gemma.with("gemma3.final_logit_softcapping", 0.0F).logits_softcap);
  CHECK(gemma.with("gemma3.rope.dimension_count", uint32_t{4}).local_rope->dims == 4);
  CHECK(gemma.with("gemma3.rope.dimension_count_swa", uint32_t{8}).local_rope->dims == 8);
  CHECK(says(gemma.message("gemma3.rope.dimension_count_swa", uint32_t{4}), "'gemma3.rope.dimension_count_swa' is 4;"));
  CHECK(gemma.with("gemma3.rope.scaling.attn_factor", 1.5F).local_rope->attention_factor == 1.5);
  CHECK(gemma.with("gemma3.attention.sliding_window_pattern", GgufArray{std::vector<uint32_t>{0, 1, 0, 1, 1, 1, 0}})
            .windowed == std::vector<bool>{false, true, false, true, true, true, false});
  const Changed gemma2("gemma2_plain_scale");
  CHECK(!gemma2.with("none", std::nullopt).local_rope);
  CHECK(gemma2.with("gemma2.rope.freq_base_swa", 500.0F).local_rope->theta == 500);

  Changed phi("phi3_longrope");
  CHECK(says(phi.message("phi3.rope.scaling.factor", 2.0F), "with a factor of 2, but there are factors of longrope"));
  CHECK(says(phi.message("phi3.rope.scaling.type", std::string("yarn")), "'phi3.rope.scaling.type' is 'yarn' with"));
  phi.tensors.emplace_back("rope_freqs.weight", Tensor(f32, {2}));
  CHECK(says(phi.message("none", std::nullopt), "there are both 'rope_freqs.weight' and 'rope_factors_long.weight'"));
}
