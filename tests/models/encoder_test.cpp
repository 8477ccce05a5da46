// Encoders of texts beside `transformers` and `sentence_transformers`: tests/golden/encoders
// (tests/golden/generate/encoders.py) has small ones of random weights. scripts/judge_encoders.py holds larger ones to
// more texts.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/checks.h"
#include "rlx/element.h"
#include "rlx/io.h"
#include "rlx/models.h"
#include "support/io_files.h"

namespace rlx::test::encoders {  // a unity build puts the tests of this folder into one file
namespace {

using nlohmann::json;
using test::says;

const std::string kGolden = "tests/golden/encoders/";
constexpr float kTolerance = 1e-4F;

json config_of(const std::string& model) { return json::parse(file_content(kGolden + model + "/config.json")); }
/// What `from_json` says of a model's config.json after keys were changed; null takes one out.
std::string refusal(const std::string& model, const json& change) {
  json config = config_of(model);
  config.merge_patch(change);
  return error_of([&] { EncoderConfig::from_json(config.dump()); }).what();
}
ModernBertConfig read(const json& change) {
  json config = config_of("modernbert_mlm");
  config.merge_patch(change);
  return std::get<ModernBertConfig>(EncoderConfig::from_json(config.dump()).model);
}  /// A copy of a model's folder, of which files may be changed.
struct Copied {
  explicit Copied(const std::string& model) : path(folder / "model") {
    std::filesystem::copy(kGolden + model, path, std::filesystem::copy_options::recursive);
  }
  std::string error() const {
    return error_of([&] { SentenceEncoder::load(path); }).what();
  }
  TemporaryFolder folder;
  std::string path;
};

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("the logits of a padded batch are those of transformers, and so are those of each text alone") {
  for (const char* name : {"modernbert_mlm", "modernbert_biases", "modernbert_cls", "modernbert_cls_mean",
                           "modernbert_older_file", "bert_mlm", "bert_cls"}) {
    CAPTURE(name);
    REQUIRE(TextEncoder::is_one(kGolden + name));
    const TextEncoder model = TextEncoder::load(kGolden + name);
    const auto texts = json::parse(file_content(kGolden + name + "/ids.json")).get<std::vector<std::vector<int32_t>>>();
    const Tensor wanted = read_npy(kGolden + name + "/logits.npy");
    const auto truth = wanted.values<float>();
    size_t longest = 0;
    for (const auto& text : texts) longest = std::max(longest, text.size());
    const Shape shape = {static_cast<int64_t>(texts.size()), static_cast<int64_t>(longest)};
    Tensor ids(i64, shape), mask(i64, shape);
    for (size_t row = 0; row < texts.size(); ++row)
      for (size_t i = 0; i < texts[row].size(); ++i) {
        ids.mutable_values<int64_t>()[row * longest + i] = texts[row][i];
        mask.mutable_values<int64_t>()[row * longest + i] = 1;
      }
    const Tensor batch = model.logits(ids, mask);
    REQUIRE(batch.shape() == wanted.shape());
    const bool is_of_tokens = model.config().head == EncoderHead::masked_tokens;
    const auto width = static_cast<size_t>(wanted.shape().back());
    float worst = 0, worst_alone = 0;
    for (size_t row = 0; row < texts.size(); ++row) {
      const size_t rows = is_of_tokens ? texts[row].size() : 1, at = row * (is_of_tokens ? longest : 1) * width;
      const Tensor alone = model.logits(texts[row]);
      REQUIRE(alone.element_count() == rows * width);
      for (size_t i = 0; i < rows * width; ++i) {
        worst = std::max(worst, std::abs(batch.values<float>()[at + i] - truth[at + i]));
        worst_alone = std::max(worst_alone, std::abs(alone.values<float>()[i] - truth[at + i]));
      }
    }
    CHECK(worst < kTolerance);
    CHECK(worst_alone < kTolerance);
  }
}

TEST_CASE("embeddings are those of sentence_transformers, whatever makes one vector of the tokens") {
  for (const char* name : {"modernbert_first", "modernbert_all_modes"}) {
    CAPTURE(name);
    const SentenceEncoder model = SentenceEncoder::load(kGolden + name);
    const Tensor wanted = read_npy(kGolden + name + "/embeddings.npy");
    CHECK(model.width() == wanted.shape()[1]);
    const Tensor made = model.embed(lines_of(kGolden + name + "/sentences.txt"));
    REQUIRE(made.shape() == wanted.shape());
    float worst = 0;
    for (size_t i = 0; i < made.element_count(); ++i)
      worst = std::max(worst, std::abs(made.values<float>()[i] - wanted.values<float>()[i]));
    CHECK(worst < 1e-5F);
  }
}

TEST_CASE("weights of a language model, in halves, give embeddings too, without its head") {
  Copied model("modernbert_first");
  const auto weights = SafetensorsFile::open(kGolden + "modernbert_first/model.safetensors");
  NamedTensors changed;
  for (const auto& [name, tensor] : weights.tensors()) {
    Tensor halves = Tensor::uninitialized(bf16, tensor.shape());
    for (size_t i = 0; i < tensor.element_count(); ++i) store(halves, i, load<double>(tensor, i));
    changed.emplace("model." + name, halves);
  }
  changed.emplace("head.dense.weight", Tensor(f32, {16, 16}));
  changed.emplace("decoder.bias", Tensor(f32, {41}));
  write_safetensors(model.path + "/model.safetensors", changed);
  const Tensor wanted = read_npy(kGolden + "modernbert_first/embeddings.npy");
  const Tensor made = SentenceEncoder::load(model.path).embed(lines_of(kGolden + "modernbert_first/sentences.txt"));
  float worst = 0;
  for (size_t i = 0; i < made.element_count(); ++i)
    worst = std::max(worst, std::abs(made.values<float>()[i] - wanted.values<float>()[i]));
  CHECK(worst > 1e-5F);
  CHECK(worst < 0.05F);
  changed.emplace("layers.9.attn.Wo.weight", Tensor(f32, {16, 16}));
  write_safetensors(model.path + "/model.safetensors", changed);
  CHECK(
      says(model.error(), "the model has 1 tensors that its configuration has no use for: 'layers.9.attn.Wo.weight'"));
}

TEST_CASE("keys of ModernBERT mean what they mean in transformers") {
  ModernBertConfig c = read({{"layer_types", nullptr}, {"global_attn_every_n_layers", 2}, {"local_attention", 9}});
  CHECK(c.local == std::vector<bool>{false, true, false, true});
  CHECK(c.reach == 4);
  c = read({{"rope_parameters", nullptr}, {"global_rope_theta", 5e4}});
  CHECK(c.theta == 5e4);
  CHECK(c.local_theta == 1e4);
  // What stands with a kind of layers counts before the older key.
  c = read({{"rope_parameters", {{"full_attention", {{"rope_theta", 7.0}}}}}, {"global_rope_theta", 5e4}});
  CHECK(c.theta == 7);
  CHECK(EncoderConfig::from_json(config_of("modernbert_cls").dump()).classes.size() == 3);
  json config = config_of("modernbert_mlm");
  config["architectures"] = {"ModernBertModel"};
  CHECK(EncoderConfig::from_json(config.dump()).head == EncoderHead::none);
}

TEST_CASE("what is not built, or cannot be, is refused by the name of its key") {
  const std::string m = "modernbert_mlm";
  CHECK(says(refusal(m, {{"hidden_size", 0}}), "'hidden_size' in config.json is 0; it must be 1 to"));
  CHECK(says(refusal(m, {{"hidden_size", 1 << 30}}), "'hidden_size' in config.json is 1073741824; it must be"));
  CHECK(says(refusal(m, {{"num_attention_heads", 3}}), "does not divide into 3 heads"));
  CHECK(says(refusal(m, {{"num_attention_heads", 16}}), "does not divide into 16 heads of an even width"));
  CHECK(says(refusal(m, {{"head_dim", 4}}), "'head_dim' in config.json is 4, but heads of modernbert have 8"));
  CHECK(says(refusal(m, {{"layer_types", {"full_attention"}}}), "'layer_types' in config.json has 1 items for 4"));
  CHECK(says(refusal(m, {{"layer_types", {1, 2, 3, 4}}}), "item 0 of 'layer_types' in config.json is 1; there are"));
  CHECK(says(refusal(m, {{"sliding_window", 3}}), "'sliding_window' in config.json is 3, but half of"));
  CHECK(
      says(refusal(m, {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}}), "'rope_scaling' in config.json"));
  CHECK(
      says(refusal(m, {{"rope_parameters", {{"rope_theta", 5.0}}}}), "'rope_parameters.rope_theta' in config.json is"));
  CHECK(says(refusal(m, {{"rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}}), "'yarn'; there is"));
  CHECK(says(refusal(m, {{"rope_parameters", {{"full_attention", {{"factor", 2.0}}}}}}), "full_attention.factor'"));
  CHECK(says(refusal(m, {{"tie_word_embeddings", false}}), "'tie_word_embeddings' in config.json is false"));
  CHECK(says(refusal(m, {{"classifier_pooling", "max"}}), "'classifier_pooling' in config.json is 'max'"));
  CHECK(says(refusal(m, {{"hidden_activation", "tanhshrink"}}), "'hidden_activation' in config.json is 'tanhshrink'"));
  CHECK(says(refusal(m, {{"norm_bias", 1}}), "'norm_bias' in config.json is 1, not true or false"));
  CHECK(says(refusal(m, {{"quantization_config", {{"quant_method", "awq"}}}}), "'quantization_config' in config.json"));
  CHECK(
      says(refusal("modernbert_cls", {{"num_labels", 9}}), "'num_labels' in config.json is 9, but 'id2label' names 3"));
  CHECK(says(refusal("modernbert_cls", {{"id2label", {{"1", nullptr}}}}), "of which '1' is missing"));
  CHECK(says(error_of([] { TextEncoder::load(kGolden + "modernbert_first"); }).what(), "names no encoder with a head"));
  CHECK(says(error_of([] { EncoderConfig::from_json("[1"); }).what(), "config.json is no JSON object"));
}

TEST_CASE("ids out of the vocabulary, and more tokens than BERT has positions, are errors") {
  const TextEncoder modern = TextEncoder::load(kGolden + "modernbert_mlm"),
                    bert = TextEncoder::load(kGolden + "bert_mlm");
  for (const int32_t id : {-1, 41})
    CHECK(says(error_of([&] { modern.logits(std::vector<int32_t>{5, id}); }).what(), "token 1 is "));
  CHECK(says(error_of([&] { bert.logits(std::vector<int32_t>(257, 5)); }).what(), "257 tokens, but the model's table"));
  CHECK(modern.logits(std::vector<int32_t>(300, 5)).shape() == Shape{300, 41});  // rotary positions have no table
  CHECK(says(error_of([&] { modern.logits(std::vector<int32_t>{}); }).what(), "of at least one token"));
}

TEST_CASE("modules of sentence_transformers that are not built are refused by name") {
  const auto error_with = [](const char* file, const json& content) {
    const Copied model("modernbert_first");
    put_file(model.path + "/" + file, content.dump());
    return model.error();
  };
  json modules = json::parse(file_content(kGolden + "modernbert_first/modules.json"));
  json dense = modules;
  dense[2]["type"] = "sentence_transformers.models.Dense";
  CHECK(says(error_with("modules.json", dense), "module 2 is 'sentence_transformers.models.Dense'; there are"));
  json outside = modules;
  outside[1]["path"] = "../1_Pooling";
  CHECK(says(error_with("modules.json", outside), "the folder of module 1 is \"../1_Pooling\"; it must be"));
  CHECK(says(error_with("modules.json", json::array({modules[0]})), "no module makes one vector of the tokens"));
  CHECK(says(error_with("modules.json", 5), "it is 5, not a list of modules"));
  CHECK(says(error_with("1_Pooling/config.json", {{"pooling_mode", "median"}}), "'pooling_mode' is \"median\"; there"));
  CHECK(says(error_with("1_Pooling/config.json", {{"pooling_mode_cls_token", 1}}), "'pooling_mode_cls_token' is 1"));
  CHECK(says(error_with("1_Pooling/config.json", {{"pooling_mode", json::array()}}), "has 0 modes"));
  CHECK(says(error_with("1_Pooling/config.json", {{"pooling_mode", "cls"}, {"include_prompt", false}}),
             "'include_prompt' of the pooling is false"));
  CHECK(says(error_with("config_sentence_transformers.json", {{"default_prompt_name", "x"}, {"prompts", {{"y", ""}}}}),
             "'default_prompt_name' is \"x\", but 'prompts' has none of this name"));
  CHECK(says(error_with("sentence_bert_config.json", {{"max_seq_length", 1}}), "'max_seq_length' in"));
  // Older files have a flag for each mode, and may leave all of them out.
  const Copied model("modernbert_first");
  put_file(model.path + "/1_Pooling/config.json",
           R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})");
  CHECK(SentencePooling::load(model.path).modes == std::vector{SentencePooling::Mode::cls});
  put_file(model.path + "/1_Pooling/config.json", "{}");
  CHECK(SentencePooling::load(model.path).modes == std::vector{SentencePooling::Mode::mean});
}

}  // namespace rlx::test::encoders
