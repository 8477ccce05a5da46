// Folders of language models as GGUF files. tests/golden/language_models has, beside small models of transformers, the
// files that llama.cpp's converter makes of them; scripts/judge_gguf_models.py asks llama.cpp itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "models/checks.h"
#include "models/language/weight_files.h"
#include "rlx/blocks.h"
#include "rlx/element.h"
#include "rlx/language_model.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;
using nlohmann::json;

namespace {

const std::string kFolders = "tests/golden/language_models/", kPackedFolders = "tests/golden/packed_language_models/";
const char* const kConverted[] = {"llama3",     "qwen2",         "qwen3_yarn", "gemma2_plain_scale",
                                  "gemma3",     "phi3_longrope", "gpt2",       "qwen3_moe",
                                  "qwen3_next", "mamba",         "mamba2"};

std::vector<int32_t> text_of_folder(const std::string& folder) {
  return json::parse(std::ifstream(folder + "/ids.json")).get<std::vector<int32_t>>();
}
/// The same text by the folder, and by the file that it becomes.
struct Both {
  Tensor folder, file;
  std::set<DType> kinds;  // of the file's tensors
};
Both both_of(const std::string& folder, const GgufModelOptions& options = {}) {
  const TemporaryFolder made;
  const GgufModel model = gguf_model_of_folder(folder, options);
  write_gguf_model(made / "model.gguf", model);
  const auto ids = text_of_folder(folder);
  Both both{LanguageModel::load(folder, {.context = 256}).all_logits(ids),
            LanguageModel::load(made / "model.gguf", {.context = 256}).all_logits(ids),
            {}};
  for (const auto& each : model.tensors) both.kinds.insert(each.second.dtype());
  return both;
}

/// A copy of a folder that a test may change.
class FolderCopy {
 public:
  explicit FolderCopy(const std::string& from) {
    for (const auto& entry : std::filesystem::directory_iterator(from))
      std::filesystem::copy_file(entry.path(), folder_ / entry.path().filename().string());
  }
  std::string path() const { return folder_ / ""; }
  std::string operator/(const std::string& file) const { return folder_ / file; }
  void change(const json& patch) const {
    json config = json::parse(file_content(folder_ / "config.json"));
    config.merge_patch(patch);
    put_file(folder_ / "config.json", config.dump());
  }
  std::string refused(const GgufModelOptions& options = {}) const {
    return message_of([&] { gguf_model_of_folder(path(), options); });
  }

 private:
  TemporaryFolder folder_;
};

bool is_near(const GgufValue& a, const GgufValue& b) {
  const auto *x = std::get_if<float>(&a), *y = std::get_if<float>(&b);
  return x && y ? std::abs(*x - *y) <= 1e-6F * std::abs(*y) : a == b;
}

}  // namespace

TEST_CASE("a folder becomes the tensors and the metadata that llama.cpp's converter writes") {
  for (const std::string name : kConverted) {
    CAPTURE(name);
    const GgufModel made = gguf_model_of_folder(kFolders + name);
    const GgufFile wanted = GgufFile::open(kFolders + name + ".gguf");
    CHECK(made.tensors.size() == wanted.entries().size());
    for (const auto& each : made.tensors) {
      const auto& tensor = each.first;
      const Tensor value = each.second.make();
      CAPTURE(tensor);
      REQUIRE(wanted.find(tensor) != nullptr);
      const Tensor other = wanted.tensor(tensor);
      // exp, and the factors of llama3, may be rounded otherwise; all else is copied, or 1 is added.
      if (tensor.ends_with("ssm_a") || tensor == "rope_freqs.weight") {
        REQUIRE(value.type() == other.type());
        for (size_t i = 0; i < value.element_count(); ++i)
          CHECK(value.values<float>()[i] == doctest::Approx(other.values<float>()[i]).epsilon(1e-6));
      } else {
        CHECK(value == other);
      }
    }
    for (const auto& each : wanted.metadata()) {
      const auto& key = each.first;
      const auto& value = each.second;
      CAPTURE(key);
      const GgufValue* found = find_value(made.metadata, key);
      REQUIRE(found != nullptr);
      CHECK_MESSAGE(is_near(*found, value), gguf_json(*found) << " and not " << gguf_json(value));
    }
    // What readers take for granted there is said here.
    for (const auto& each : made.metadata) {
      const auto& key = each.first;
      bool is_usual = false;
      for (const char* end : {".vocab_size", ".key_length", ".value_length", ".freq_base", ".dimension_count"})
        is_usual |= key.ends_with(end);
      CHECK_MESSAGE((wanted.value(key) || is_usual), key);
    }
  }
}

TEST_CASE("the file that a folder becomes has the folder's logits") {
  for (const std::string name : kConverted) {
    CAPTURE(name);
    const Both both = both_of(kFolders + name);
    CHECK(worst_difference(both.file, both.folder) < 1e-5F);
  }
  for (const char* name : {"llama_biases_tied", "mistral_window"}) {
    CAPTURE(name);
    const Both both = both_of(kFolders + std::string(name));
    CHECK(worst_difference(both.file, both.folder) < 1e-5F);
  }
}

TEST_CASE("what llama.cpp leaves out of a file is noted") {
  const GgufModel made = gguf_model_of_folder(kFolders + "mistral_window");
  REQUIRE(made.notes.size() == 2);
  CHECK(says(made.notes[0], "the window of 5 tokens is in the file, and llama.cpp reads none for 'llama'"));
  CHECK(says(made.notes[1], "the folder has no tokenizer"));
}

TEST_CASE("what GGUF has no word for is refused, by the key of config.json") {
  struct Refusal {
    const char* model;
    json change;
    const char* message;
  };
  const std::vector<Refusal> refusals = {
      {"llama_dynamic", {}, "'rope_type' in config.json is 'dynamic', for which GGUF has no word"},
      {"llama3", {{"hidden_act", "gelu"}}, "what 'hidden_act' in config.json says (gelu) has no word in GGUF files of"},
      {"qwen3_yarn",
       {{"rope_parameters", {{"truncate", false}}}},
       "what 'truncate' in config.json says (false) has no word"},
      {"qwen2",
       {{"rope_parameters",
         {{"rope_type", "llama3"},
          {"factor", 2.0},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", 16}}}},
       "'rope_type' in config.json is 'llama3', whose divisors GGUF files of this architecture have no place for"},
      {"gemma2_plain_scale", {{"query_pre_attn_scalar", 24}}, "what 'query_pre_attn_scalar' in config.json says ("},
      {"gemma2_plain_scale", {{"attn_logit_softcapping", nullptr}}, "'attn_logit_softcapping'"},
      {"gpt2", {{"scale_attn_weights", false}}, "what 'scale_attn_weights' in config.json says (1)"},
      {"gpt2", {{"activation_function", "gelu"}}, "what 'hidden_act' in config.json says (gelu)"},
      {"qwen3_moe", {{"norm_topk_prob", false}}, "what 'norm_topk_prob' in config.json says (false)"},
      {"mamba2", {{"time_step_limit", {0.5, 0.9}}}, "what 'time_step_limit' in config.json says (0.5)"},
  };
  for (const Refusal& r : refusals) {
    CAPTURE(r.message);
    const FolderCopy copy(kFolders + r.model);
    // merge_patch removes what is null; there it has to stay.
    json config = json::parse(file_content(copy / "config.json"));
    if (r.change.is_object()) {
      for (const auto& [key, value] : r.change.items()) {
        if (value.is_object()) config[key].update(value);
        else config[key] = value;
      }
    }
    put_file(copy / "config.json", config.dump());
    CHECK(says(copy.refused(), r.message));
  }
}

TEST_CASE("packed matrices become blocks of the same numbers, bit for bit, or are refused") {
  struct Row {
    const char* name;
    DType kind;
  };
  // GPTQ with zero points in the middle, AWQ's and other zero points, MLX's biases.
  for (const Row& row : {Row{"gptq", q4_0}, Row{"awq", q5_0}, Row{"gptq_3", q4_0}, Row{"mlx_4", q4_1}}) {
    CAPTURE(row.name);
    const std::string folder = kPackedFolders + row.name;
    const GgufModel blocks = gguf_model_of_folder(folder), floats = gguf_model_of_folder(folder, {.dequantize = f32});
    size_t packed = 0;
    for (size_t i = 0; i < blocks.tensors.size(); ++i) {
      const Tensor b = blocks.tensors[i].second.make(), f = floats.tensors[i].second.make();
      CAPTURE(blocks.tensors[i].first);
      if (!is_block(b.dtype())) continue;
      ++packed;
      CHECK(b.dtype() == row.kind);
      CHECK(dequantized(b) == f);
    }
    CHECK(packed >= 7);
    const Both both = both_of(folder);
    CHECK(both.kinds.contains(row.kind));
    CHECK(worst_difference(both.file, read_npy(folder + "/logits.npy")) < 1e-4F);
  }
  const auto refused = [](const std::string& name) { return FolderCopy(kPackedFolders + name).refused(); };
  CHECK(says(refused("gptq_order"), "groups lie across the inputs (g_idx, desc_act)"));
  CHECK(says(refused("nf4"), "their numbers come from a table; dequantize packed weights (--dequantize bf16)"));
  CHECK(says(refused("mlx_6"), "with a bias fit no kind"));
  CHECK(says(refused("int8"), "is no number of f16"));
  for (const std::string name : {"gptq_order", "gptq_order_moe", "nf4", "mlx_6", "int8", "fp4", "gptq_8"}) {
    CAPTURE(name);
    const Both both = both_of(kPackedFolders + name, {.dequantize = f32});
    CHECK(worst_difference(both.file, read_npy(kPackedFolders + name + "/logits.npy")) < 1e-4F);
  }
  CHECK(gguf_model_of_folder(kPackedFolders + "nf4", {.dequantize = bf16}).tensors.size() > 10);
  CHECK(says(FolderCopy(kPackedFolders + "nf4").refused({.dequantize = i8}), "to f32, f16 or bf16, not to i8"));
}

TEST_CASE("halves stay halves, and vectors become f32") {
  const FolderCopy copy(kFolders + "llama3");
  NamedTensors tensors;
  for (const auto& [name, t] : SafetensorsFile::open(copy / "model.safetensors").tensors()) {
    Tensor half = Tensor::uninitialized(bf16, t.shape());
    for (size_t i = 0; i < t.element_count(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, t.values<float>().data() + i, sizeof bits);
      half.mutable_values<BFloat16>()[i] = {static_cast<uint16_t>(bits >> 16)};
    }
    tensors.emplace(name, half);
  }
  write_safetensors(copy / "model.safetensors", tensors);
  const Both both = both_of(copy.path());
  CHECK(worst_difference(both.file, both.folder) < 1e-5F);
  const GgufModel made = gguf_model_of_folder(copy.path());
  for (const auto& each : made.tensors) {
    const auto& name = each.first;
    const LazyTensor& t = each.second;
    CAPTURE(name);
    CHECK(t.dtype() == (t.rank() == 1 ? f32 : bf16));
  }
  CHECK(std::get<uint32_t>(*find_value(made.metadata, "general.file_type")) == 32);
}

TEST_CASE("folders that lack a tensor, or have another, are refused") {
  const FolderCopy copy(kFolders + "llama3");
  NamedTensors tensors = SafetensorsFile::open(copy / "model.safetensors").tensors();
  const Tensor kept = tensors.at("model.layers.1.mlp.up_proj.weight");
  tensors.erase("model.layers.1.mlp.up_proj.weight");
  write_safetensors(copy / "model.safetensors", tensors);
  CHECK(says(copy.refused(), "there is no tensor 'model.layers.1.mlp.up_proj.weight'"));
  tensors.emplace("model.layers.1.mlp.up_proj.weight", Tensor(f32, {3, 5}));
  write_safetensors(copy / "model.safetensors", tensors);
  CHECK(says(copy.refused(), "is f32[3, 5], but the weight"));
  tensors.at("model.layers.1.mlp.up_proj.weight") = kept;
  tensors.emplace("model.layers.2.mlp.up_proj.weight", kept);
  write_safetensors(copy / "model.safetensors", tensors);
  CHECK(says(copy.refused(), "1 tensors that its configuration has no use for"));
  CHECK(says(copy.refused(), "converting the language model"));
  std::filesystem::remove(copy / "config.json");
  CHECK(says(copy.refused(), "config.json"));
}

// ---- tokenizers: tests/golden/gguf_tokenizers, by the package tokenizers ----

namespace {

const std::string kTokenizers = "tests/golden/gguf_tokenizers/";

/// The small Llama with a table of `vocabulary` rows, and the files of a tokenizer.
class WithTokenizer : public FolderCopy {
 public:
  explicit WithTokenizer(const std::string& name, int64_t vocabulary = 640) : FolderCopy(kFolders + "llama3") {
    NamedTensors tensors = SafetensorsFile::open(*this / "model.safetensors").tensors();
    for (const char* table : {"model.embed_tokens.weight", "lm_head.weight"}) {
      const int64_t width = tensors.at(table).shape()[1];
      tensors.at(table) = Tensor(f32, {vocabulary, width});
    }
    write_safetensors(*this / "model.safetensors", tensors);
    change({{"vocab_size", vocabulary}});
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy_file(kTokenizers + name + "/" + file, *this / file);
  }
  void change_tokenizer(const std::function<void(json&)>& by) const {
    json all = json::parse(file_content(*this / "tokenizer.json"));
    by(all);
    put_file(*this / "tokenizer.json", all.dump());
  }
};

template <class Item>
const std::vector<Item>& items_of(const GgufMetadata& metadata, const char* key) {
  const GgufValue* value = find_value(metadata, key);
  REQUIRE(value != nullptr);
  return std::get<std::vector<Item>>(std::get<GgufArray>(*value).items);
}
template <class T>
T value_of(const GgufMetadata& metadata, const std::string& key) {
  const GgufValue* value = find_value(metadata, key);
  REQUIRE_MESSAGE(value != nullptr, key);
  return std::get<T>(*value);
}

}  // namespace

TEST_CASE("the file's tokenizer makes the tokens of the package tokenizers") {
  const std::vector<std::array<const char*, 3>> kinds = {
      {"gpt2", "gpt2", "gpt-2"},      {"llama3", "gpt2", "llama-bpe"},     {"qwen2", "gpt2", "qwen2"},
      {"llama2", "llama", "default"}, {"deepseek", "gpt2", "deepseek-v3"}, {"gemma", "llama", "default"},
      {"t5", "t5", "default"},        {"bert", "bert", "default"},         {"bert_cased", "bert", "default"}};
  for (const auto& each : kinds) {
    const char *name = each[0], *model = each[1], *pre = each[2];
    CAPTURE(name);
    const WithTokenizer folder(name);
    const GgufModel made = gguf_model_of_folder(folder.path());
    const Tokenizer tokenizer = Tokenizer::from_gguf(made.metadata);
    for (const json& row : json::parse(file_content(kTokenizers + name + "/ids.json"))) {
      CAPTURE(row[0].dump());
      CHECK(tokenizer.encode(row[0].get<std::string>()).ids == row[1].get<std::vector<int32_t>>());
    }
    CHECK(value_of<std::string>(made.metadata, "tokenizer.ggml.model") == model);
    CHECK(value_of<std::string>(made.metadata, "tokenizer.ggml.pre") == pre);
    CHECK(value_of<std::string>(made.metadata, "tokenizer.chat_template").starts_with("{{ bos_token }}"));
    const auto& texts = items_of<std::string>(made.metadata, "tokenizer.ggml.tokens");
    const auto& types = items_of<int32_t>(made.metadata, "tokenizer.ggml.token_type");
    CHECK(texts.size() == 640);
    CHECK(texts.back() == "[PAD639]");
    CHECK(types.back() == 5);
    const uint32_t bos = value_of<uint32_t>(made.metadata, "tokenizer.ggml.bos_token_id"),
                   eos = value_of<uint32_t>(made.metadata, "tokenizer.ggml.eos_token_id");
    CHECK(types[bos] == 3);
    CHECK(types[eos] == 3);
    const bool has_bos = std::string(name) != "gpt2" && std::string(name) != "qwen2" && std::string(name) != "t5";
    CHECK(value_of<bool>(made.metadata, "tokenizer.ggml.add_bos_token") == has_bos);
    CHECK(value_of<bool>(made.metadata, "tokenizer.ggml.add_eos_token") ==
          (std::string(name) == "deepseek" || std::string(model) == "t5" || std::string(model) == "bert"));
    if (std::string(model) != "llama") continue;
    CHECK(value_of<bool>(made.metadata, "tokenizer.ggml.add_space_prefix") == (std::string(name) == "llama2"));
    // Two tokens stand to each other as their scores in SentencePiece's own file.
    const auto wanted = json::parse(file_content(kTokenizers + name + "/scores.json")).get<std::vector<float>>();
    const auto& scores = items_of<float>(made.metadata, "tokenizer.ggml.scores");
    std::vector<size_t> merged;
    for (size_t id = 0; id < wanted.size(); ++id)
      if (types[id] == 1 && wanted[id] > -10000 && scores[id] > -1000) merged.push_back(id);
    CHECK(merged.size() > 200);
    const auto order = [](std::vector<size_t> ids, const std::vector<float>& by) {
      std::stable_sort(ids.begin(), ids.end(), [&](size_t a, size_t b) { return by[a] > by[b]; });
      return ids;
    };
    CHECK(order(merged, scores) == order(merged, wanted));
    CHECK(std::count(types.begin(), types.end(), 6) == 256);
  }
  CHECK(says(gguf_model_of_folder(WithTokenizer("qwen2").path()).notes.at(0), "normal form C"));
}

TEST_CASE(
    "tokens of Unigram keep their scores and table of characters, those of WordPiece begin with U+2581 or nothing") {
  const GgufModel t5 = gguf_model_of_folder(WithTokenizer("t5").path());
  const json source = json::parse(file_content(kTokenizers + "t5/tokenizer.json"));
  const auto& scores = items_of<float>(t5.metadata, "tokenizer.ggml.scores");
  const auto& types = items_of<int32_t>(t5.metadata, "tokenizer.ggml.token_type");
  for (size_t id = 0; id < 500; ++id)
    CHECK(scores[id] == static_cast<float>(source["model"]["vocab"][id][1].get<double>()));
  CHECK(scores.back() == -10000);
  CHECK((types[0] == 3 && types[1] == 3 && types[2] == 2 && types[3] == 1));
  CHECK(value_of<uint32_t>(t5.metadata, "tokenizer.ggml.unknown_token_id") == 2);
  CHECK(items_of<uint8_t>(t5.metadata, "tokenizer.ggml.precompiled_charsmap").size() > 200'000);
  CHECK(value_of<bool>(t5.metadata, "tokenizer.ggml.remove_extra_whitespaces"));

  for (const bool is_cased : {false, true}) {
    const GgufModel bert = gguf_model_of_folder(WithTokenizer(is_cased ? "bert_cased" : "bert").path());
    const auto& texts = items_of<std::string>(bert.metadata, "tokenizer.ggml.tokens");
    CHECK(texts[1] == "[UNK]");
    CHECK(std::find(texts.begin(), texts.end(), "\u2581the") != texts.end());
    CHECK(std::find(texts.begin(), texts.end(), "ing") != texts.end());
    CHECK(std::none_of(texts.begin(), texts.end(), [](const std::string& text) { return text.starts_with("##"); }));
    CHECK(value_of<bool>(bert.metadata, "tokenizer.ggml.normalizer.lowercase") == !is_cased);
    CHECK(value_of<bool>(bert.metadata, "tokenizer.ggml.normalizer.strip_accents") == !is_cased);
    CHECK(value_of<uint32_t>(bert.metadata, "tokenizer.ggml.cls_token_id") == 2);
    CHECK(value_of<uint32_t>(bert.metadata, "tokenizer.ggml.seperator_token_id") == 3);
  }
}

TEST_CASE(
    "a model is called Phi-3 if its special tokens take the spaces behind them, as llama.cpp knows it by the name") {
  const auto name_of = [](bool strips, bool has_all) {
    const WithTokenizer folder("llama2");
    folder.change_tokenizer([&](json& all) {
      json end = all["added_tokens"][2];
      end["content"] = has_all ? "<|endoftext|>" : "<|other|>", end["id"] = 600, end["rstrip"] = strips;
      all["added_tokens"].push_back(end);
    });
    const std::filesystem::path renamed = folder / "Phi-3-mini";
    std::filesystem::create_directory(renamed);
    for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
      std::filesystem::rename(folder / file, renamed / file);
    return value_of<std::string>(gguf_model_of_folder(renamed.string()).metadata, "general.name");
  };
  CHECK(name_of(true, true) == "Phi-3 Mini");
  CHECK(name_of(false, true) == "Phi 3 Mini");
  CHECK(name_of(true, false) == "Phi 3 Mini");
}

TEST_CASE("ends of texts and advice for sampling come from generation_config.json") {
  const WithTokenizer folder("llama3");
  put_file(
      folder / "generation_config.json",
      R"({"bos_token_id": 0, "eos_token_id": [1, 7, 9], "temperature": 0.5, "top_k": 20, "repetition_penalty": 1.5})");
  const GgufModel made = gguf_model_of_folder(folder.path());
  CHECK(value_of<float>(made.metadata, "general.sampling.temp") == 0.5F);
  CHECK(value_of<int32_t>(made.metadata, "general.sampling.top_k") == 20);
  CHECK(value_of<float>(made.metadata, "general.sampling.penalty_repeat") == 1.5F);
  const TemporaryFolder out;
  write_gguf_model(out / "m.gguf", made);
  const LanguageModel read = LanguageModel::load(out / "m.gguf"), original = LanguageModel::load(folder.path());
  CHECK(read.stop_ids() == original.stop_ids());
  CHECK(read.bos_id() == original.bos_id());
  CHECK(read.advice().temperature == 0.5);
}

TEST_CASE("tokenizers that no tokenizer.ggml.model is are refused") {
  const auto refused = [](const char* name, const std::function<void(json&)>& change, int64_t vocabulary = 640) {
    const WithTokenizer folder(name, vocabulary);
    folder.change_tokenizer(change);
    return folder.refused();
  };
  CHECK(says(refused(
                 "gpt2", [](json&) {}, 400),
             "the tokenizer has a token 400, but the model's table has 400 rows"));
  CHECK(says(refused("gpt2", [](json& all) { all["pre_tokenizer"]["add_prefix_space"] = true; }),
             "no kind of tokenizer.ggml.pre splits text as the pre_tokenizer of tokenizer.json does"));
  CHECK(says(refused("llama3",
                     [](json& all) {
                       all["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{N}{1,7}|\\s+|[a-z]+";
                     }),
             "no kind of tokenizer.ggml.pre splits text"));
  CHECK(says(refused("llama3",
                     [](json& all) {
                       all["model"] = {{"type", "WordLevel"}, {"vocab", {{"a", 0}}}, {"unk_token", "a"}};
                       all["added_tokens"] = json::array(), all["post_processor"] = nullptr;
                     }),
             "the tokenizer's model is WordLevel"));
  CHECK(says(refused("llama2", [](json& all) { all["model"]["merges"].erase(all["model"]["merges"].size() / 2); }),
             "but no merge joins them, as SentencePiece's scores would"));
  CHECK(says(refused("llama2",
                     [](json& all) {
                       all["normalizer"]["normalizers"].push_back({{"type", "Lowercase"}});
                     }),
             "the tokenizer has no form in GGUF that gives the same tokens: of '"));
  CHECK(says(refused("llama3",
                     [](json& all) {
                       const json twice = all["post_processor"]["single"][0];
                       all["post_processor"]["single"].insert(all["post_processor"]["single"].begin(), twice);
                     }),
             "puts 2 tokens in front of a text"));
  CHECK(says(refused("t5", [](json& all) { all["model"]["byte_fallback"] = true; }),
             "'byte_fallback' in tokenizer.json"));
  CHECK(says(refused("t5",
                     [](json& all) {
                       all["normalizer"]["normalizers"].push_back({{"type", "Lowercase"}});
                     }),
             "the tokenizer has no form in GGUF that gives the same tokens: of '"));
  CHECK(
      says(refused("bert", [](json& all) { all["post_processor"] = nullptr; }), "WordPiece without a token in front"));
  CHECK(says(refused("bert",
                     [](json& all) {
                       all["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
                     }),
             "the tokenizer has no form in GGUF that gives the same tokens: of '"));
  const WithTokenizer bare("gpt2");
  std::filesystem::rename(bare / "tokenizer.json", bare / "vocab.txt");
  CHECK(says(bare.refused(), "there is a vocab.txt in"));
}

// ---- GGUF files as folders ----

TEST_CASE("special tokens of Phi-3 take the space behind them in the folder, too, as its file says by its name alone") {
  const TemporaryFolder files;
  const WithTokenizer folder("llama2");
  GgufModel made = gguf_model_of_folder(folder.path());
  const auto tokens_of_folder = [&](const std::string& name) {
    std::erase_if(made.metadata, [](const auto& each) { return each.first == "general.name"; });
    made.metadata.emplace_back("general.name", name);
    write_gguf_model(files / "m.gguf", made);
    for (const auto& [file, text] : folder_model_of_gguf(files / "m.gguf").texts) put_file(files / file, text);
    const std::vector<int32_t> ids = Tokenizer::load(files / "tokenizer.json").encode("</s>  a").ids;
    CHECK(ids == Tokenizer::from_gguf(made.metadata).encode("</s>  a").ids);
    return ids;
  };
  CHECK(tokens_of_folder("Phi-3 mini") != tokens_of_folder("Llama 2"));
}

namespace {

/// The folder that a file becomes, written.
class MadeFolder {
 public:
  explicit MadeFolder(const std::string& gguf, const GgufModelOptions& options = {}, uint64_t most_file_bytes = 0) {
    write_folder_model(folder_ / "", folder_model_of_gguf(gguf, options), most_file_bytes);
  }
  std::string path() const { return folder_ / ""; }
  std::string operator/(const std::string& file) const { return folder_ / file; }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("the folder that llama.cpp's file becomes has the tensors and the logits of the one that it was made of") {
  for (const std::string name : kConverted) {
    CAPTURE(name);
    const MadeFolder made(kFolders + name + ".gguf");
    const Tensor wanted = read_npy(kFolders + name + "/logits.npy");
    const auto logits = LanguageModel::load(made.path(), {.context = 256}).all_logits(text_of_folder(kFolders + name));
    CHECK(worst_difference(logits, wanted) < 1e-4F);
    // Of folders in several files one of them is enough here.
    if (!std::filesystem::exists(kFolders + name + "/model.safetensors")) continue;
    const NamedTensors tensors = SafetensorsFile::open(made / "model.safetensors").tensors(),
                       originals = SafetensorsFile::open(kFolders + name + "/model.safetensors").tensors();
    CHECK(tensors.size() == originals.size());
    for (const auto& each : originals) {
      const auto& tensor = each.first;
      const auto& value = each.second;
      CAPTURE(tensor);
      REQUIRE(tensors.contains(tensor));
      const Tensor& other = tensors.at(tensor);
      REQUIRE(other.type() == value.type());
      // A norm's weight had 1 added, a decay was no logarithm for a while.
      const bool is_rounded = tensor.ends_with("norm.weight") || tensor.ends_with("A_log");
      if (is_rounded) CHECK(worst_difference(other, value) < 1e-5F);
      else CHECK(other == value);
    }
  }
}

TEST_CASE("tensors that are copied from a file are not kept beside the model's") {
  const FolderCopy folder(kFolders + "llama3");
  const std::string text = file_content(folder / "model.safetensors");
  uint64_t size = 0;
  std::memcpy(&size, text.data(), sizeof size);
  std::string odd = text.substr(0, 8 + size) + " " + text.substr(8 + size);  // no tensor is aligned
  ++size;
  std::memcpy(odd.data(), &size, sizeof size);
  put_file(folder / "model.safetensors", odd);
  const auto config = LanguageModelConfig::from_json(file_content(folder / "config.json"));
  for (const FileAccess access : {FileAccess::copied, FileAccess::when_read, FileAccess::mapped}) {
    const auto weights = language::open_folder(folder.path(), config, access);
    const Graph graph = decoder_graph(config);
    for (const Ref& ref : graph.params()) {
      CAPTURE(graph.node(ref).name);
      Tensor value = weights->value(graph.node(ref).name, graph.type(ref));
      const std::weak_ptr<const void> bytes = value.owner();
      value = Tensor();
      CHECK(bytes.expired());
    }
  }
}

TEST_CASE("a stack of experts that has to be copied is copied once, and not kept") {
  const TemporaryFolder files;
  const GgufFile file = GgufFile::open(kFolders + "qwen3_moe.gguf");
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const GgufFile::Entry& entry : file.entries()) tensors.emplace_back(entry.name, file.tensor(entry.name));
  write_gguf(files / "big.gguf", tensors, file.metadata(), {.byte_order = std::endian::big});
  const FolderModel model = folder_model_of_gguf(files / "big.gguf"),
                    same = folder_model_of_gguf(kFolders + "qwen3_moe.gguf");
  std::map<std::string, const std::byte*> ends;  // of the expert before, by its name without a number
  std::weak_ptr<const void> stack;
  int64_t behind = 0;
  for (const auto& each : model.tensors) {
    const std::string& name = each.first;
    CAPTURE(name);
    const Tensor made = each.second.make();
    CHECK(made == same.tensors.at(name).make());
    const size_t at = name.find(".experts.");
    if (at == name.npos) {
      CHECK(stack.expired());
      continue;
    }
    const size_t number = at + 9;
    auto& end = ends[name.substr(0, number) + name.substr(name.find('.', number))];
    if (end) {
      CHECK(made.data() == end);
      ++behind;
    }
    end = made.data() + made.byte_count();
    stack = made.owner();
  }
  CHECK(behind > 6);
}

TEST_CASE("blocks become what mlx-lm packs, with the same numbers, or are refused") {
  const TemporaryFolder files;
  for (const auto& each : {std::pair(q4_0, "gptq"), std::pair(q4_1, "mlx_4")}) {
    const DType kind = each.first;
    const std::string folder = each.second;
    CAPTURE(name_of(kind));
    const GgufModel model = gguf_model_of_folder(kPackedFolders + folder);
    write_gguf_model(files / "m.gguf", model);
    const MadeFolder made(files / "m.gguf");
    const Tensor wanted = read_npy(kPackedFolders + folder + "/logits.npy");
    const LanguageModel read = LanguageModel::load(made.path());
    CHECK(read.config().packing.text() == "MLX, 4 bits, groups of 32");
    CHECK(worst_difference(read.all_logits(text_of_folder(kPackedFolders + folder)), wanted) < 1e-4F);
  }
  GgufModel model = gguf_model_of_folder(kPackedFolders + "awq");
  write_gguf_model(files / "awq.gguf", model);
  CHECK(says(message_of([&] { folder_model_of_gguf(files / "awq.gguf"); }),
             "and folders have no form with the same numbers for these blocks; dequantize them (--dequantize bf16)"));
  CHECK(MadeFolder(files / "awq.gguf", {.dequantize = bf16}).path() != "");
  const MadeFolder floats(files / "awq.gguf", {.dequantize = f32});
  CHECK(worst_difference(LanguageModel::load(floats.path()).all_logits(text_of_folder(kPackedFolders + "awq")),
                         read_npy(kPackedFolders + "awq/logits.npy")) < 1e-4F);
}

TEST_CASE("a folder in several files has an index as Hugging Face has it, and the same logits") {
  const std::string gguf = kFolders + "llama3.gguf";
  const MadeFolder whole(gguf), parts(gguf, {}, 10'000);
  CHECK(!std::filesystem::exists(parts / "model.safetensors"));
  const json index = json::parse(file_content(parts / "model.safetensors.index.json"));
  const NamedTensors tensors = SafetensorsFile::open(whole / "model.safetensors").tensors();
  size_t bytes = 0;
  std::map<std::string, size_t> files;
  for (const auto& named : tensors) {
    const std::string& name = named.first;
    const Tensor& tensor = named.second;
    CAPTURE(name);
    const auto file = index["weight_map"][name].get<std::string>();
    files[file] += tensor.byte_count(), bytes += tensor.byte_count();
    CHECK(SafetensorsFile::open(parts / file).tensor(name) == tensor);
  }
  CHECK(index["metadata"]["total_size"] == bytes);
  REQUIRE(files.size() == 3);
  CHECK(files.begin()->first == "model-00001-of-00003.safetensors");
  for (const auto& file : files) CHECK(file.second <= 10'000);
  const auto ids = text_of_folder(kFolders + "llama3");
  CHECK(LanguageModel::load(parts.path()).all_logits(ids) == LanguageModel::load(whole.path()).all_logits(ids));
  // Back to a file, of which the parts are read by one.
  write_gguf_model(parts / "p.gguf", gguf_model_of_folder(parts.path()), {.most_part_bytes = 10'000});
  CHECK(LanguageModel::load(parts / "p-00002-of-00003.gguf").all_logits(ids) ==
        LanguageModel::load(gguf).all_logits(ids));
  CHECK(says(message_of([&] { write_folder_model(parts.path(), folder_model_of_gguf(gguf)); }), "not an empty folder"));
  CHECK(says(message_of([&] {
               stream_safetensors_shards(whole / "model.safetensors",
                                         {{"a", Tensor(f32, {9})}, {"b", Tensor(f32, {9})}}, {}, 40);
             }),
             "would say otherwise than what is to be written beside it (2 files); remove it first"));
  CHECK(says(message_of([&] {
               stream_safetensors_shards(parts / "model.safetensors", {{"a", Tensor(f32, {9})}}, {}, 0);
             }),
             "would say otherwise than what is to be written beside it (1 file); remove it first"));
}

TEST_CASE("each number of a packed folder is that of its block") {
  // The small Llama, with rows of 256.
  const FolderCopy wide(kFolders + "llama3");
  wide.change({{"hidden_size", 256}, {"intermediate_size", 256}, {"num_hidden_layers", 1}, {"head_dim", 64}});
  NamedTensors tensors;
  uint32_t state = 1;
  const auto add = [&](const std::string& name, Shape shape) {
    Tensor t(f32, std::move(shape));
    for (float& v : t.mutable_values<float>()) {
      state = state * 1664525 + 1013904223;  // Knuth 1981, volume 2, 3.3.4
      v = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-33F;
    }
    tensors.emplace(name, t);
  };
  add("model.embed_tokens.weight", {41, 256}), add("lm_head.weight", {41, 256}), add("model.norm.weight", {256});
  const std::string at = "model.layers.0.";
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) add(at + norm + ".weight", {256});
  for (const char* matrix : {"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
    add(at + matrix + ".weight", {256, 256});
  for (const char* matrix : {"self_attn.k_proj", "self_attn.v_proj"}) add(at + matrix + ".weight", {128, 256});
  write_safetensors(wide / "model.safetensors", tensors);
  for (const DType kind : {q4_0, q4_1, q8_0, q4_k}) {
    CAPTURE(name_of(kind));
    GgufModel model = gguf_model_of_folder(wide.path());
    Tensor gate;
    for (auto& [name, t] : model.tensors) {
      if (t.rank() == 2) t = quantized(t.make(), kind);
      if (name == "blk.0.ffn_gate.weight") gate = t.make();
    }
    const TemporaryFolder files;
    write_gguf_model(files / "m.gguf", model);
    const FolderModel folder = folder_model_of_gguf(files / "m.gguf");
    const Tensor words = folder.tensors.at(at + "mlp.gate_proj.weight").make(),
                 scales = folder.tensors.at(at + "mlp.gate_proj.scales").make(),
                 biases = folder.tensors.at(at + "mlp.gate_proj.biases").make();
    const Tensor numbers = dequantized(gate);
    const size_t bits = kind == q8_0 ? 8 : 4;
    REQUIRE(words.shape() == Shape{256, static_cast<int64_t>(256 * bits / 32)});
    CHECK(scales.dtype() == (kind == q4_k ? f32 : f16));
    size_t wrong = 0;
    for (size_t i = 0; i < numbers.element_count(); ++i) {
      const auto byte = static_cast<unsigned>(words.data()[i * bits / 8]);
      const unsigned code = bits == 8 ? byte : i % 2 ? byte >> 4 : byte & 15;
      const auto scale = static_cast<float>(load_number(scales, i / 32)),
                 bias = static_cast<float>(load_number(biases, i / 32));
      wrong += static_cast<float>(code) * scale + bias != numbers.values<float>()[i];
    }
    CHECK(wrong == 0);
    const MadeFolder made(files / "m.gguf");
    const std::vector<int32_t> ids = {1, 5, 9, 30, 2, 17, 40};
    CHECK(worst_difference(LanguageModel::load(made.path()).all_logits(ids),
                           LanguageModel::load(files / "m.gguf").all_logits(ids)) < 1e-4F);
  }
}

TEST_CASE("a folder whose files cannot all be written stays as it was") {
  const TemporaryFolder folder;
  const auto write = [&](float number, bool fails) {
    Tensor t(f32, {9});
    t.mutable_values<float>()[0] = number;
    const LazyTensor second(f32, {9}, [t, fails] {
      if (fails) throw std::runtime_error("no such tensor");
      return t;
    });
    stream_safetensors_shards(folder / "m.safetensors", {{"a", t}, {"b", second}}, {}, 40);
  };
  const auto content = [&] {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder / ""))
      all[entry.path().filename().string()] = file_content(entry.path().string());
    return all;
  };
  write(1, false);
  const auto before = content();
  CHECK(before.size() == 3);
  CHECK_THROWS(write(2, true));
  CHECK(content() == before);
  write(2, false);
  CHECK(content().size() == 3);
  CHECK(SafetensorsFile::open(folder / "m-00002-of-00002.safetensors").tensor("b").values<float>()[0] == 2);
}

TEST_CASE("a folder and back has the tokens, ends and advice that it had") {
  for (const char* name : {"gpt2", "llama3", "qwen2", "llama2", "deepseek", "gemma", "t5", "bert", "bert_cased"}) {
    CAPTURE(name);
    const WithTokenizer folder(name);
    put_file(folder / "generation_config.json", R"({"eos_token_id": [2, 7], "temperature": 0.5, "top_k": 20})");
    const GgufModel model = gguf_model_of_folder(folder.path());
    const TemporaryFolder files;
    write_gguf_model(files / "m.gguf", model);
    const MadeFolder made(files / "m.gguf");
    const LanguageModel read = LanguageModel::load(made.path());
    for (const json& row : json::parse(file_content(kTokenizers + name + "/ids.json"))) {
      CAPTURE(row[0].dump());
      CHECK(read.tokenizer().encode(row[0].get<std::string>()).ids == row[1].get<std::vector<int32_t>>());
    }
    const LanguageModel file = LanguageModel::load(files / "m.gguf");
    CHECK(read.stop_ids() == file.stop_ids());
    CHECK(read.advice().temperature == 0.5);
    CHECK(read.chat_template()->text() == file.chat_template()->text());
  }
}

TEST_CASE("scores that JSON has no number for are refused by the token's name") {
  GgufModel model = gguf_model_of_folder(WithTokenizer("t5").path());
  std::string token;
  for (auto& [key, value] : model.metadata) {
    if (key == "tokenizer.ggml.tokens") token = std::get<std::vector<std::string>>(std::get<GgufArray>(value).items)[9];
    if (key == "tokenizer.ggml.scores")
      std::get<std::vector<float>>(std::get<GgufArray>(value).items)[9] = -std::numeric_limits<float>::infinity();
  }
  const TemporaryFolder files;
  write_gguf_model(files / "m.gguf", model);
  CHECK(says(message_of([&] { folder_model_of_gguf(files / "m.gguf"); }),
             "the score of token 9, '" + token + "', is -inf, for which JSON has no number"));
}
