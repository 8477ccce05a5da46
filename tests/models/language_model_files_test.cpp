// Configurations and weights of language models that are wrong, and what is read beside them.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "rlx/language_model.h"
#include "support/io_files.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::test;
using nlohmann::json;

namespace {

const std::string kModels = "tests/golden/language_models/";

json config_of(const std::string& name) { return json::parse(std::ifstream(kModels + name + "/config.json")); }
/// A copy of a golden model that a test may spoil.
class Copy {
 public:
  explicit Copy(const std::string& name) {
    for (const auto& entry : std::filesystem::directory_iterator(kModels + name))
      std::filesystem::copy_file(entry.path(), folder_ / entry.path().filename().string());
  }
  std::string operator/(const std::string& file) const { return folder_ / file; }
  std::string path() const { return folder_ / ""; }
  json read(const std::string& file) const { return json::parse(file_content(folder_ / file)); }
  void write(const std::string& file, const json& content) const { put_file(folder_ / file, content.dump()); }
  std::string message() const {
    return message_of([&] { LanguageModel::load(path()); });
  }

 private:
  TemporaryFolder folder_;
};

/// As another dtype, by the op.
Tensor cast_elements(const Tensor& t, DType to) {
  Graph g;
  g.output(convert(g.input("x", t.dtype(), Dims(t.shape().begin(), t.shape().end())), to));
  return Session().compile(g).run({{"x", t}})[0];
}

bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != text.npos) return true;
  MESSAGE("got: " << text);
  return false;
}

/// `change` of a configuration gives an error with that text.
struct Refusal {
  const char* model;
  json change;  // merged into the configuration: null removes
  const char* message;
};

}  // namespace

TEST_CASE("a configuration that no decoder has is refused, with its key and value") {
  const json huge = json::parse("18446744073709551615");
  const std::vector<Refusal> refusals = {
      {"llama3", {{"hidden_size", 0}}, "'hidden_size' in config.json is 0; it must be 1 to 131072"},
      {"llama3", {{"hidden_size", -16}}, "'hidden_size' in config.json is -16; it must be"},
      {"llama3", {{"hidden_size", 16.5}}, "'hidden_size' in config.json is 16.5, not a whole number"},
      {"llama3", {{"hidden_size", "16"}}, "'hidden_size' in config.json is \"16\", not a whole number"},
      {"llama3", {{"hidden_size", nullptr}}, "config.json has no 'hidden_size'"},
      {"llama3", {{"hidden_size", huge}}, "'hidden_size' in config.json is 18446744073709551615; it must be"},
      {"llama3", {{"vocab_size", int64_t{1} << 60}}, "'vocab_size' in config.json is 1152921504606846976; it must be"},
      {"llama3", {{"num_hidden_layers", 1 << 30}}, "'num_hidden_layers' in config.json is 1073741824; it must be"},
      {"llama3", {{"num_attention_heads", nullptr}}, "config.json has no 'num_attention_heads'"},
      {"llama3", {{"num_key_value_heads", 3}}, "4 heads of queries cannot share 3 heads of keys and values evenly"},
      {"llama3", {{"head_dim", 7}}, "7 elements of a head of 7 turn with the position; it must be an even number"},
      {"llama3", {{"head_dim", nullptr}, {"hidden_size", 18}}, "a hidden_size of 18 does not divide into 4 heads"},
      {"llama3", {{"intermediate_size", false}}, "'intermediate_size' in config.json is false, not a whole number"},
      {"llama3", {{"max_position_embeddings", nullptr}}, "config.json has no 'max_position_embeddings'"},
      {"llama3", {{"rms_norm_eps", "tiny"}}, "'rms_norm_eps' in config.json is \"tiny\", not a number"},
      {"llama3", {{"rms_norm_eps", -1.0}}, "'rms_norm_eps' in config.json is -1; it must be 0 to 1"},
      {"llama3", {{"tie_word_embeddings", 1}}, "'tie_word_embeddings' in config.json is 1, not true or false"},
      {"llama3", {{"hidden_act", "tanhshrink"}}, "'hidden_act' in config.json is 'tanhshrink'; there are silu, gelu"},
      {"llama3", {{"model_type", "rwkv"}}, "'model_type' in config.json is 'rwkv'; there are llama, mistral, qwen2"},
      {"llama3", {{"model_type", nullptr}}, "config.json has no 'model_type'"},
      {"llama3", {{"model_type", 3}}, "'model_type' in config.json is 3, not a text"},
      {"llama3", {{"rope_parameters", {{"rope_type", "spiral"}}}}, "'rope_type' in config.json is 'spiral'; there are"},
      {"llama3", {{"rope_parameters", {{"factor", nullptr}}}}, "config.json has no 'rope_parameters.factor'"},
      {"llama3", {{"rope_parameters", {{"factor", 0}}}}, "'rope_parameters.factor' in config.json is 0; it must be"},
      {"llama3", {{"rope_parameters", {{"high_freq_factor", 0.5}}}}, "'high_freq_factor' is 0.5, which must be more"},
      {"llama3", {{"rope_parameters", 5}}, "'rope_parameters' in config.json is 5, not an object"},
      {"llama3", {{"quantization_config", {{"quant_method", "awq"}}}}, "config.json has no 'quantization_config.bits'"},
      {"phi3_longrope", {{"rope_parameters", {{"long_factor", {1.0}}}}}, "long_factor has 1 factors, but 2 pairs"},
      {"phi3_longrope", {{"rope_parameters", {{"long_factor", {1.0, "x"}}}}}, "is \"x\", not a number"},
      {"qwen2", {{"layer_types", {"full_attention"}}}, "'layer_types' in config.json has 1 items for 2 layers"},
      {"qwen2", {{"layer_types", {"full_attention", "ssm"}}}, "item 1 of 'layer_types' in config.json is \"ssm\""},
      {"qwen2", {{"layer_types", {"full_attention", "sliding_attention"}}}, "but there is no 'sliding_window'"},
      {"qwen3_moe", {{"num_experts_per_tok", 5}}, "5 experts are used for a token, but there are 4"},
      {"qwen3_moe", {{"mlp_only_layers", {2}}}, "an item of 'mlp_only_layers' in config.json is 2; it must be 0 to 1"},
      {"gpt2", {{"n_head", 3}}, "an n_embd of 16 does not divide into 3 heads"},
      {"gpt2", {{"scale_attn_by_inverse_layer_idx", true}}, "'scale_attn_by_inverse_layer_idx' in config.json is true"},
  };
  for (const Refusal& r : refusals) {
    CAPTURE(r.message);
    json config = config_of(r.model);
    config.merge_patch(r.change);
    CHECK(contains(message_of([&] { LanguageModelConfig::from_json(config.dump()); }), r.message));
  }
  const std::vector<std::pair<const char*, const char*>> no_objects = {
      {"", "reading 'config.json'"},
      {"", "parse error at line 1, column 1"},
      {"[]", "config.json is an array of 0 elements, not an object"},
      {"3", "config.json is 3, not an object"},
      {"{\"model_type\": \"llama\",\n  \"hidden_size\" 16}", "parse error at line 2, column 18"},
      {"\xff", "parse error at line 1, column 1"}};
  for (const auto& row : no_objects) {
    CAPTURE(row.first);
    CHECK(contains(message_of([&] { LanguageModelConfig::from_json(row.first); }), row.second));
  }
}

TEST_CASE("configurations as transformers wrote them before version 5 mean the same") {
  json config = config_of("llama3");
  const LanguageModelConfig now = LanguageModelConfig::from_json(config.dump());
  json rope = config.at("rope_parameters");
  config["rope_theta"] = rope.at("rope_theta");
  rope.erase("rope_theta");
  config["rope_scaling"] = rope;
  config.erase("rope_parameters");
  const LanguageModelConfig before = LanguageModelConfig::from_json(config.dump());
  CHECK(before.rope.scaling == RopeScaling::llama3);
  CHECK(before.rope.theta == now.rope.theta);
  CHECK(before.rope.factor == now.rope.factor);
  CHECK(before.rope.original_context == now.rope.original_context);
  CHECK(before.rope.high_frequency_factor == 4);

  json gemma = config_of("gemma3");
  gemma.erase("rope_parameters"), gemma.erase("layer_types");
  gemma["rope_theta"] = 1e6, gemma["rope_local_base_freq"] = 1e4;
  gemma["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  const LanguageModelConfig old = LanguageModelConfig::from_json(gemma.dump());
  CHECK(old.rope.scaling == RopeScaling::linear);
  CHECK(old.rope.factor == 8);
  REQUIRE(old.local_rope);
  CHECK(old.local_rope->theta == 1e4);
  CHECK(old.windowed == std::vector<bool>{true, true, true, true, true, false, true});
}

TEST_CASE("weights that do not fit the configuration are refused by name") {
  {
    Copy copy("llama3");
    json config = copy.read("config.json");
    config["intermediate_size"] = 25;
    copy.write("config.json", config);
    CHECK(contains(copy.message(), "tensor 'model.layers.0.mlp.gate_proj.weight' in"));
  }
  {
    Copy copy("llama3");
    json config = copy.read("config.json");
    config["num_hidden_layers"] = 3;
    copy.write("config.json", config);
    CHECK(contains(copy.message(), "there is no tensor 'model.layers.2."));
  }
  {
    Copy copy("llama3");
    json config = copy.read("config.json");
    config["num_hidden_layers"] = 1;
    copy.write("config.json", config);
    CHECK(contains(copy.message(), "the model has 9 tensors that its configuration has no use for: 'model.layers.1."));
  }
  {
    Copy copy("llama3");
    NamedTensors tensors = SafetensorsFile::open(copy / "model.safetensors").tensors();
    tensors["model.norm.weight"] = Tensor(i32, {16});
    write_safetensors(copy / "model.safetensors", tensors);
    CHECK(contains(copy.message(), "weight 'output_norm.weight' is of i32; weights are f32, f16, bf16 or packed"));
    tensors["model.norm.weight"] = Tensor(f32, {17});
    write_safetensors(copy / "model.safetensors", tensors);
    CHECK(contains(copy.message(), "is f32[17], but the weight 'output_norm.weight' of this model is f32[16]"));
  }
  {
    Copy copy("llama3");
    std::filesystem::remove(copy / "model.safetensors");
    CHECK(contains(copy.message(), "there is neither model.safetensors nor model.safetensors.index.json"));
    std::filesystem::remove(copy / "config.json");
    CHECK(contains(copy.message(), "config.json"));
  }
  CHECK(contains(message_of([] { LanguageModel::load("no/such/model"); }), "there is no such folder or file"));
}

TEST_CASE("an index names files of its folder, and each tensor is where it says") {
  const auto with_index = [](auto change) {
    Copy copy("qwen2");
    json index = copy.read("model.safetensors.index.json");
    change(index);
    copy.write("model.safetensors.index.json", index);
    return copy.message();
  };
  for (const char* file : {"../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", ".", "", "a\\b"}) {
    CAPTURE(file);
    CHECK(contains(with_index([&](json& i) { i["weight_map"]["lm_head.weight"] = file; }),
                   "it must be the name of a file beside the index"));
  }
  CHECK(contains(with_index([](json& i) { i["weight_map"]["lm_head.weight"] = 7; }), "'lm_head.weight' is 7"));
  CHECK(contains(with_index([](json& i) { i["weight_map"]["x"] = "model-00001-of-00003.safetensors"; }),
                 "there is no tensor 'x' in 'model-00001-of-00003.safetensors', where the index has it"));
  CHECK(contains(with_index([](json& i) { i["weight_map"].erase("lm_head.weight"); }), "is not in the index"));
  CHECK(contains(with_index([](json& i) { i["weight_map"]["lm_head.weight"] = "gone.safetensors"; }),
                 "gone.safetensors"));
  CHECK(contains(with_index([](json& i) { i.erase("weight_map"); }), "'weight_map' is missing"));
  CHECK(contains(with_index([](json& i) { i = 5; }), "'weight_map' is missing"));
}

TEST_CASE("a tensor that stands in two parts, or in another than the index has, is refused with both") {
  Copy copy("qwen2");
  json index = copy.read("model.safetensors.index.json");
  const std::string part = index["weight_map"]["lm_head.weight"];
  std::string other;
  for (const auto& [name, file] : index["weight_map"].items())
    if (file != part) other = file;
  NamedTensors tensors = SafetensorsFile::open(copy / other).tensors();
  const Tensor output = SafetensorsFile::open(copy / part).tensors().at("lm_head.weight");
  tensors["lm_head.weight"] = output;
  write_safetensors(copy / other, tensors);
  CHECK(contains(copy.message(),
                 "tensor 'lm_head.weight' stands in '" + other + "', but the index has it in '" + part + "'"));
  index["weight_map"]["lm_head.weight"] = other;  // the index has the copy, and the first is there as well
  copy.write("model.safetensors.index.json", index);
  CHECK(contains(copy.message(),
                 "tensor 'lm_head.weight' stands in '" + part + "', but the index has it in '" + other + "'"));
}

TEST_CASE("tensors are left out by their whole names alone") {
  const auto with = [](const std::string& model, const std::string& name, const std::string& as = {}) {
    Copy copy(model);
    NamedTensors tensors = SafetensorsFile::open(copy / "model.safetensors").tensors();
    tensors[name] = as.empty() ? Tensor(f32, {2}) : tensors.at(as);
    write_safetensors(copy / "model.safetensors", tensors);
    try {
      LanguageModel::load(copy.path());
      return std::string("loaded");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  CHECK(with("llama3", "model.layers.1.self_attn.rotary_emb.inv_freq") == "loaded");
  CHECK(with("gpt2", "transformer.h.0.attn.bias") == "loaded");
  CHECK(with("gpt2", "transformer.h.1.attn.masked_bias") == "loaded");
  CHECK(with("gpt2", "lm_head.weight", "transformer.wte.weight") == "loaded");
  const std::vector<std::pair<const char*, const char*>> others = {
      {"llama3", "other.rotary_emb.inv_freq"},
      {"llama3", "model.layers.2.self_attn.rotary_emb.inv_freq"},
      {"llama3", "model.layers.01.self_attn.rotary_emb.inv_freq"},
      {"llama3", "model.layers.0.attn.bias"},
      {"llama3", "vision_tower.patches.weight"},
      {"llama3", "model.layers.0.vision_tower.weight"},
      {"gpt2", "transformer.h.0.crossattention.attn.bias"},
      {"gpt2", "transformer.h.2.attn.bias"},
      {"gpt2", "second_lm_head.weight"},
      {"gemma3", "model.embed_vision_tower.weight"},
      {"gemma3", "vision_tower.weight"},  // of a model without pictures
  };
  for (const auto& [model, name] : others)
    CHECK(contains(with(model, name), text_of("1 tensors that its configuration has no use for: '", name, "'")));
  // transformers then takes each for what it is.
  CHECK(contains(with("gpt2", "lm_head.weight"), "tensor 'lm_head.weight' in '"));
  CHECK(contains(with("gpt2", "lm_head.weight"), "is another than 'transformer.wte.weight'; if it counts"));

  // A second norm under the table's own name, beside a decoder that stands deeper.
  Copy copy("gemma3");
  NamedTensors tensors;
  for (auto& [name, t] : SafetensorsFile::open(copy / "model.safetensors").tensors())
    tensors["language_model." + name] = t;
  tensors["vision_tower.weight"] = Tensor(f32, {2});
  write_safetensors(copy / "model.safetensors", tensors);
  LanguageModel::load(copy.path());
  tensors["model.norm.weight"] = Tensor(f32, {8});
  write_safetensors(copy / "model.safetensors", tensors);
  CHECK(contains(copy.message(), "no use for: 'model.norm.weight'"));

  put_file(copy / "adapter_config.json", "{}");
  CHECK(contains(copy.message(), "this is an adapter; give the folder of the model"));
}

TEST_CASE("texts from files are bounded in messages") {
  const std::string wordy(100000, 'x');
  json config = config_of("llama3");
  for (const char* key : {"model_type", "hidden_act"}) {
    CAPTURE(key);
    json changed = config;
    changed[key] = wordy;
    CHECK(message_of([&] { LanguageModelConfig::from_json(changed.dump()); }).size() < 400);
  }
  config["rope_parameters"]["rope_type"] = wordy;
  CHECK(message_of([&] { LanguageModelConfig::from_json(config.dump()); }).size() < 400);
  config["quantization_config"] = {{"quant_method", wordy}};
  CHECK(message_of([&] { LanguageModelConfig::from_json(config.dump()); }).size() < 400);
  Copy copy("qwen2");
  json index = copy.read("model.safetensors.index.json");
  index["weight_map"][wordy] = "model-00001-of-00003.safetensors";
  copy.write("model.safetensors.index.json", index);
  CHECK(copy.message().size() < 1000);
  Copy other("llama3");
  NamedTensors tensors = SafetensorsFile::open(other / "model.safetensors").tensors();
  tensors[wordy.substr(0, 5000) + "\x1b[2J"] = Tensor(f32, {2});
  write_safetensors(other / "model.safetensors", tensors);
  CHECK(contains(other.message(), "has no use for: 'xxx"));
  CHECK(other.message().size() < 1000);
}

TEST_CASE("the metadata of a GGUF file are checked as a configuration is") {
  const GgufFile file = GgufFile::open(kModels + "qwen2.gguf");
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const std::string& name : file.names()) tensors.emplace_back(name, file.tensor(name));
  TemporaryFolder folder;
  const auto message = [&](std::string_view key, std::optional<GgufValue> value) {
    GgufMetadata metadata;
    for (const auto& [name, old] : file.metadata())
      if (name != key) metadata.emplace_back(name, old);
    if (value) metadata.emplace_back(key, *value);
    write_gguf(folder / "model.gguf", tensors, metadata);
    return message_of([&] { LanguageModel::load(folder / "model.gguf"); });
  };
  CHECK(contains(message("general.architecture", std::nullopt), "the metadata have no 'general.architecture'"));
  CHECK(contains(message("general.architecture", uint32_t{3}), "'general.architecture' is no string"));
  CHECK(contains(message("general.architecture", std::string("rwkv6")), "is 'rwkv6'; there are llama, qwen2"));
  CHECK(contains(message("qwen2.block_count", std::nullopt), "the metadata have no 'qwen2.block_count'"));
  CHECK(contains(message("qwen2.block_count", uint32_t{0}), "'qwen2.block_count' is 0; it must be 1 to 1024"));
  CHECK(contains(message("qwen2.block_count", uint32_t{3}), "there is no tensor 'blk.2."));
  CHECK(
      contains(message("qwen2.block_count", 2.0F), "'qwen2.block_count' is of type f32, but should be a whole number"));
  CHECK(contains(message("qwen2.embedding_length", uint64_t{1} << 63), "is 9223372036854775808; it must be"));
  CHECK(contains(message("qwen2.attention.head_count", int32_t{-4}), "'qwen2.attention.head_count' is -4; it must be"));
  CHECK(contains(message("qwen2.attention.head_count_kv", uint32_t{3}), "4 heads of queries cannot share 3"));
  CHECK(contains(message("qwen2.attention.head_count_kv", GgufArray{std::vector<uint32_t>{2, 4}}),
                 "differs from layer to layer"));
  CHECK(contains(message("qwen2.attention.head_count_kv", GgufArray{std::vector<uint32_t>{2}}),
                 "has 1 items for 2 layers"));
  CHECK(contains(message("qwen2.attention.head_count_kv", GgufArray{std::vector<float>{2, 2}}),
                 "something else than whole numbers"));
  CHECK(contains(message("qwen2.rope.freq_base", std::string("x")), "'qwen2.rope.freq_base' is of type string"));
  CHECK(contains(message("qwen2.rope.freq_base", -1.0F), "'qwen2.rope.freq_base' is -1; it must be"));
  CHECK(
      contains(message("qwen2.rope.scaling.type", std::string("su")), "'qwen2.rope.scaling.type' is 'su'; there are"));
  CHECK(contains(message("qwen2.attention.value_length", uint32_t{8}), "is 8, but keys have 4 elements a head"));
  CHECK(contains(message("tokenizer.ggml.eos_token_id", uint32_t{41}), "is 41; it must be a token, 0 to 40"));
  tensors.pop_back();
  CHECK(contains(message("none", std::nullopt), "there is no tensor '"));
}

TEST_CASE("ids, templates and advice are read from beside the weights") {
  Copy copy("llama3");
  copy.write("generation_config.json",
             {{"eos_token_id", {3, 7, 3}}, {"temperature", 0.6}, {"top_k", 20}, {"top_p", 0.95}});
  copy.write("tokenizer_config.json",
             {{"bos_token", {{"content", "<s>"}}}, {"eos_token", "</s>"}, {"chat_template", "{{ messages }}"}});
  LanguageModel model = LanguageModel::load(copy.path());
  CHECK(model.bos_id() == 1);  // of config.json
  CHECK(model.stop_ids() == std::vector<int32_t>{3, 7});
  if (has_chat_templates()) {
    CHECK(model.chat_template()->text() == "{{ messages }}");
    CHECK(model.chat_template()->bos_token() == "<s>");
    CHECK(model.chat_template()->eos_token() == "</s>");
  }
  CHECK(model.advice().temperature == 0.6);
  CHECK(model.advice().top_k == 20);
  CHECK(!model.advice().min_p);
  CHECK_THROWS_AS(model.tokenizer(), Error);  // there is none; logits need none
  put_file(copy / "chat_template.jinja", "of the file");
  if (has_chat_templates()) CHECK(model.chat_template()->text() == "of the file");
  copy.write("generation_config.json", {{"eos_token_id", 41}});
  CHECK(contains(copy.message(), "'eos_token_id' in generation_config.json is 41; it must be a token, 0 to 40"));
}

TEST_CASE("progress counts the weights") {
  size_t calls = 0, last = 0, all = 0;
  LanguageModel::load(kModels + "gpt2", {.progress = [&](size_t done, size_t of) { ++calls, last = done, all = of; }});
  CHECK(calls == last);
  CHECK(last == all);
  CHECK(all == 2 * 12 + 4);
}

TEST_CASE("weights of 16 bits are the numbers that they are") {
  for (DType narrow : {f16, bf16}) {
    CAPTURE(narrow);
    Copy copy("qwen3_yarn"), wide("qwen3_yarn");
    NamedTensors tensors = SafetensorsFile::open(copy / "model.safetensors").tensors();
    for (auto& [name, t] : tensors) t = cast_elements(t, narrow);
    write_safetensors(copy / "model.safetensors", tensors);
    for (auto& [name, t] : tensors) t = cast_elements(t, f32);
    write_safetensors(wide / "model.safetensors", tensors);
    const std::vector<int32_t> ids = {3, 1, 4, 1, 5};
    CHECK(LanguageModel::load(copy.path()).all_logits(ids) == LanguageModel::load(wide.path()).all_logits(ids));
  }
}

TEST_CASE("a decoder is found under the names that files have for its part of a model") {
  const auto renamed = [](const std::string& model, auto rename) {
    Copy copy(model);
    NamedTensors tensors;
    for (auto& [name, t] : SafetensorsFile::open(copy / "model.safetensors").tensors()) tensors[rename(name)] = t;
    write_safetensors(copy / "model.safetensors", tensors);
    return LanguageModel::load(copy.path()).all_logits(std::vector<int32_t>{3, 1, 4});
  };
  const auto same = [](const std::string& name) { return name; };
  const auto without = [](std::string_view prefix) {
    return [prefix](const std::string& name) { return name.starts_with(prefix) ? name.substr(prefix.size()) : name; };
  };
  CHECK(renamed("gpt2", without("transformer.")) == renamed("gpt2", same));
  CHECK(renamed("llama3", without("model.")) == renamed("llama3", same));
  CHECK(renamed("gemma3", [](const std::string& name) { return "language_model." + name; }) == renamed("gemma3", same));
  CHECK(renamed("gemma3", [](const std::string& name) { return "model.language_model." + name.substr(6); }) ==
        renamed("gemma3", same));
  // As a part of a model that sees pictures: its own keys stand in an object of the configuration.
  Copy copy("gemma3");
  json config = copy.read("config.json");
  copy.write("config.json", {{"model_type", "gemma3"}, {"eos_token_id", 2}, {"text_config", config}});
  CHECK(LanguageModel::load(copy.path()).all_logits(std::vector<int32_t>{3, 1, 4}) == renamed("gemma3", same));
  config["hidden_size"] = 0;
  copy.write("config.json", {{"model_type", "gemma3"}, {"text_config", config}});
  CHECK(contains(copy.message(), "'text_config.hidden_size' in config.json is 0"));
}

TEST_CASE("the tokenizer beside a model is its own") {
  Copy copy("llama3");
  copy.write("tokenizer.json",
             {{"model", {{"type", "WordLevel"}, {"vocab", {{"a", 3}, {"b", 4}, {"?", 0}}}, {"unk_token", "?"}}},
              {"pre_tokenizer", {{"type", "Whitespace"}}}});
  const LanguageModel model = LanguageModel::load(copy.path());
  CHECK(model.tokenizer().encode("b a c").ids == std::vector<int32_t>{4, 3, 0});
  CHECK(&model.tokenizer() == &model.tokenizer());
}

// Of the keys of all files together every so many are tried: each loads a model 17 or 20 times.
const size_t kKeyStride = test::checks_all() ? 1 : sanitized() ? 20 : 4;

TEST_CASE("whatever a key of a configuration is, a model loads or says what is wrong") {
  const std::vector<json> odd = {0,
                                 -1,
                                 1,
                                 2,
                                 3,
                                 7,
                                 1 << 20,
                                 int64_t{1} << 40,
                                 json::parse("18446744073709551615"),
                                 0.5,
                                 1e-300,
                                 1e300,
                                 "x",
                                 "",
                                 nullptr,
                                 true,
                                 json::array(),
                                 json::object(),
                                 json::array({1}),
                                 json::array({"full_attention", "sliding_attention"})};
  size_t refused = 0, loaded = 0, place_number = 0;
  for (const std::string name : {"gemma3", "phi3_longrope", "qwen3_moe", "gpt2", "llama_dynamic"}) {
    Copy copy(name);
    const json config = copy.read("config.json");
    std::vector<json::json_pointer> places;
    const json flat = config.flatten();
    for (const auto& [place, value] : flat.items()) places.emplace_back(place);
    for (const auto& [key, value] : config.items()) places.emplace_back("/" + key);
    for (const json::json_pointer& place : places) {
      if (place.to_string().starts_with("/layer_types/") && !place.to_string().ends_with("/0")) continue;
      if (place_number++ % kKeyStride != 0) continue;
      for (const json& value : odd) {
        json changed = config;
        changed[place] = value;
        copy.write("config.json", changed);
        CAPTURE(name);
        CAPTURE(place.to_string());
        CAPTURE(value.dump());
        try {
          LanguageModel::load(copy.path()).sequence().logits(int32_t{0});
          ++loaded;
        } catch (const Error& error) {
          ++refused;
          CHECK(error.code() != ErrorCode::internal);
        }
      }
    }
  }
  CHECK(refused > 500 / kKeyStride);
  CHECK(loaded > 500 / kKeyStride);
}

TEST_CASE("whatever a key of a GGUF file is, a model loads or says what is wrong") {
  const std::vector<GgufValue> odd = {uint32_t{0},
                                      uint32_t{1},
                                      uint32_t{3},
                                      int32_t{-1},
                                      uint64_t{1} << 40,
                                      ~uint64_t{0},
                                      0.0F,
                                      -1.0F,
                                      1e30F,
                                      std::numeric_limits<float>::quiet_NaN(),
                                      2.5,
                                      true,
                                      std::string(),
                                      std::string("yarn"),
                                      GgufArray{std::vector<uint32_t>{}},
                                      GgufArray{std::vector<int32_t>{2, 2}},
                                      GgufArray{std::vector<bool>{true, false}}};
  size_t refused = 0, loaded = 0, number = 0;
  TemporaryFolder folder;
  for (const std::string name : {"gemma3", "phi3_longrope", "qwen3_moe", "llama3", "gpt2"}) {
    const GgufFile file = GgufFile::open(kModels + name + ".gguf");
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const std::string& tensor : file.names()) tensors.emplace_back(tensor, file.tensor(tensor));
    for (size_t key = 0; key < file.metadata().size(); ++key) {
      if (file.metadata()[key].first == "general.alignment") continue;  // the writer's own
      if (number++ % kKeyStride != 0) continue;
      for (const GgufValue& value : odd) {
        GgufMetadata metadata = file.metadata();
        metadata[key].second = value;
        CAPTURE(name);
        CAPTURE(metadata[key].first);
        CAPTURE(gguf_json(value));
        write_gguf(folder / "model.gguf", tensors, metadata);
        try {
          LanguageModel::load(folder / "model.gguf").sequence().logits(int32_t{0});
          ++loaded;
        } catch (const Error& error) {
          ++refused;
          CHECK(error.code() != ErrorCode::internal);
        }
      }
    }
  }
  CHECK(refused > 200 / kKeyStride);
  CHECK(loaded > 200 / kKeyStride);
}
