// Language models whose matrices are packed as AutoGPTQ, AutoAWQ, bitsandbytes and mlx-lm do it, and adapters beside
// them: tests/golden/packed_language_models (tests/golden/generate/packed_language_models.py) has small ones, and the
// logits that transformers and PEFT make of the numbers which the packed matrices stand for.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/checks.h"
#include "rlx/language_model.h"
#include "rlx/op_def.h"
#include "support/io_files.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::test;
using nlohmann::json;

namespace {

const std::string kPacked = "tests/golden/packed_language_models/";
const char* const kKinds[] = {"gptq", "gptq_order", "gptq_column", "gptq_3", "gptq_8", "gptq_order_moe", "awq",
                              "nf4",  "nf4_odd",    "fp4",         "int8",   "mlx_4",  "mlx_6"};
constexpr float kPackedTolerance = 1e-4F;

std::vector<int32_t> packed_ids() {
  return json::parse(std::ifstream(kPacked + "awq/ids.json")).get<std::vector<int32_t>>();
}
Tensor logits_of(const std::string& path, std::vector<LanguageModel::Adapter> adapters = {}, int64_t chunk = 512) {
  return LanguageModel::load(path, {.chunk = chunk, .adapters = std::move(adapters)}).all_logits(packed_ids());
}

/// A copy of a golden folder that a test may spoil.
class PackedCopy {
 public:
  explicit PackedCopy(const std::string& name) {
    for (const auto& entry : std::filesystem::directory_iterator(kPacked + name))
      std::filesystem::copy_file(entry.path(), folder_ / entry.path().filename().string());
  }
  std::string path() const { return folder_ / ""; }
  std::string operator/(const std::string& file) const { return folder_ / file; }
  /// With some of its tensors, or keys of a JSON file, changed.
  template <class Change>
  void tensors(Change change, const std::string& file = "model.safetensors") const {
    NamedTensors all;
    for (auto& [name, t] : SafetensorsFile::open(folder_ / file).tensors()) all.emplace(name, t);
    change(all);
    write_safetensors(folder_ / file, all);
  }
  template <class Change>
  void keys(Change change, const std::string& file = "config.json") const {
    json all = json::parse(file_content(folder_ / file));
    change(all);
    put_file(folder_ / file, all.dump());
  }
  std::string message() const {
    return message_of([&] { LanguageModel::load(path()); });
  }

 private:
  TemporaryFolder folder_;
};

const std::string kQuery = "model.layers.0.self_attn.q_proj";

}  // namespace

TEST_CASE("packed models have the logits of the numbers that their matrices stand for") {
  for (const char* kind : kKinds) {
    CAPTURE(kind);
    const std::string path = kPacked + kind;
    const Tensor wanted = read_npy(path + "/logits.npy");
    for (const int64_t chunk : {512, 7, 1}) {
      CAPTURE(chunk);
      CHECK(worst_difference(logits_of(path, {}, chunk), wanted) < kPackedTolerance);
    }
  }
}

TEST_CASE("packed matrices stay packed in memory") {
  for (const char* kind : kKinds) {
    CAPTURE(kind);
    if (std::string(kind) == "nf4_odd") continue;  // codes of a byte, whose table no kernel reads
    const LanguageModel model = LanguageModel::load(kPacked + kind);
    size_t packed = 0;
    for (const auto& param : model.compiled().signature().params) {
      const std::string& name = param.name;
      const bool is_projection = name.ends_with(".weight") &&
                                 (name.find(".attention.") != name.npos || name.find(".feed_forward.") != name.npos);
      if (!is_projection || name.find("_norm.") != name.npos) continue;
      CAPTURE(name);
      CHECK(info(param.type.dtype).bits <= 8);
      ++packed;
    }
    CHECK(packed >= 4);
    // No step dequantizes a matrix by itself: the products read the codes.
    for (const auto& line : model.compiled().report().lines) {
      CAPTURE(line.op);
      CHECK((line.op != "dequantize_blockwise" || std::string(kind).starts_with("mlx")));
    }
  }
}

TEST_CASE("how a folder is packed is told") {
  const auto text = [](const char* kind) {
    const auto file = file_content(kPacked + kind + "/config.json");
    return LanguageModelConfig::from_json(file).packing.text();
  };
  CHECK(text("gptq") == "GPTQ, 4 bits, groups of 32");
  CHECK(text("gptq_column") == "GPTQ, 4 bits, a group for each column");
  CHECK(text("awq") == "AWQ, 4 bits, groups of 32");
  CHECK(text("nf4") == "bitsandbytes, 4 bits");
  CHECK(text("int8") == "bitsandbytes, 8 bits");
  CHECK(text("mlx_6") == "MLX, 6 bits, groups of 32");
  CHECK(LanguageModelConfig{}.packing.text().empty());
}

TEST_CASE("quantization that is not read is refused by its key and value") {
  struct Row {
    const char* kind;
    json change;  // merged into quantization_config or quantization
    const char* message;
  };
  const Row rows[] = {
      {"awq",
       {{"quant_method", "quip"}},
       "'quantization_config.quant_method' in config.json is 'quip'; what is read is awq"},
      {"awq", {{"quant_method", nullptr}}, "'quantization_config.quant_method' in config.json is missing"},
      {"awq", {{"bits", 3}}, "'quantization_config.bits' in config.json is 3; what is read is 4"},
      {"awq", {{"group_size", 0}}, "'quantization_config.group_size' in config.json is 0; it must be 1 or more"},
      {"awq", {{"version", "gemv"}}, "'quantization_config.version' in config.json is 'gemv'; what is read is gemm"},
      {"awq", {{"zero_point", false}}, "'quantization_config.zero_point' in config.json is false"},
      {"gptq", {{"bits", 5}}, "'quantization_config.bits' in config.json is 5; what is read is 2, 3, 4, 8"},
      {"gptq", {{"group_size", 0}}, "'quantization_config.group_size' in config.json is 0"},
      {"gptq", {{"group_size", -2}}, "'quantization_config.group_size' in config.json is -2; it must be -1"},
      {"gptq", {{"checkpoint_format", "marlin"}}, "'quantization_config.checkpoint_format' in config.json is 'marlin'"},
      {"gptq", {{"dynamic", {{"lm_head", {{"bits", 8}}}}}}, "'quantization_config.dynamic' in config.json is"},
      {"nf4", {{"load_in_8bit", true}}, "are both true"},
      {"nf4", {{"bnb_4bit_quant_storage", "bfloat16"}}, "is 'bfloat16'; what is read is uint8"},
      {"mlx_4", {{"bits", 5}}, "'quantization.bits' in config.json is 5; what is read is 2, 3, 4, 6, 8"},
      {"mlx_4", {{"group_size", -1}}, "'quantization.group_size' in config.json is -1; it must be 1 or more"},
      {"mlx_4", {{"mode", "mxfp4"}}, "'quantization.mode' in config.json is 'mxfp4'; what is read is affine"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    json config = json::parse(std::ifstream(kPacked + row.kind + "/config.json"));
    config[std::string(row.kind).starts_with("mlx") ? "quantization" : "quantization_config"].merge_patch(row.change);
    CHECK(says(message_of([&] { LanguageModelConfig::from_json(config.dump()); }), row.message));
  }
}

TEST_CASE("tensors of packed matrices that do not fit each other are errors that name them") {
  struct Row {
    const char *kind, *tensor;
    std::optional<Tensor> value;  // none: left out
    std::string message;
  };
  const auto filled = [](DType dtype, const Shape& shape) { return Tensor(dtype, shape); };
  Tensor far(i32, {32}), uneven(i32, {32});
  far.mutable_values<int32_t>()[17] = 40;
  Tensor negative = far;
  negative.mutable_values<int32_t>()[17] = -1;
  const Row rows[] = {
      {"gptq", ".scales", std::nullopt, "there is no tensor '" + kQuery + ".scales'"},
      {"gptq", ".qzeros", std::nullopt, "there is no tensor '" + kQuery + ".qzeros'"},
      {"gptq", ".qweight", filled(i32, {4, 31}), "tensor '" + kQuery + ".scales'"},
      {"gptq", ".qweight", filled(i32, {5, 32}), "tensor '" + kQuery + ".qzeros'"},
      {"gptq", ".qweight", filled(i32, {4}), "tensor '" + kQuery + ".qweight'"},
      {"gptq", ".qweight", filled(f32, {4, 32}), "it must be i32 [inputs * bits / 32, outputs]"},
      {"gptq", ".qweight", filled(i32, {0, 32}), "it must be i32 [inputs * bits / 32, outputs]"},
      {"gptq", ".scales", filled(f16, {2, 32}), "is f16[2, 32]; it must be"},
      {"gptq", ".scales", filled(i32, {1, 32}), "is i32[1, 32]; it must be f16[1, 32] or bf16[1, 32] or f32[1, 32]"},
      {"gptq", ".g_idx", far, "has 40 at 17; there are groups 0 to 0"},
      {"gptq", ".g_idx", negative, "has -1 at 17; there are groups 0 to 0"},
      {"gptq", ".g_idx", filled(i32, {31}), "is i32[31]; it must be i32"},
      {"awq", ".qzeros", filled(i32, {1, 5}), "is i32[1, 5]; it must be i32"},
      {"awq", ".qweight", filled(i32, {40, 4}), "tensor '" + kQuery + ".qzeros'"},
      {"awq", ".scales", std::nullopt, "there is no tensor '" + kQuery + ".scales'"},
      {"nf4", ".weight", filled(u8, {511, 1}), "is u8[511, 1]; it must be u8[512, 1]"},
      {"nf4", ".weight.absmax", std::nullopt, "there is no tensor '" + kQuery + ".weight.absmax'"},
      {"nf4", ".weight.absmax", filled(u8, {3}), "is u8[3]; it must be"},
      {"nf4", ".weight.quant_map", filled(f32, {15}), "is f32[15]; it must be"},
      {"nf4", ".weight.nested_absmax", filled(f32, {2}), "is f32[2]; it must be"},
      {"nf4", ".weight.quant_state.bitsandbytes__nf4", std::nullopt,
       "there is no tensor '" + kQuery + ".weight.quant_state"},
      {"nf4", ".weight.quant_state.bitsandbytes__nf4", filled(u8, {3}),
       "reading tensor '" + kQuery + ".weight.quant_state"},
      {"int8", ".weight", filled(i8, {32, 40}), "is packed from [32, 40], which makes weight of i8[40, 32], but"},
      {"int8", ".SCB", std::nullopt, "there is no tensor '" + kQuery + ".SCB'"},
      {"int8", ".SCB", filled(f32, {31}), "is f32[31]; it must be f32"},
      {"mlx_6", ".biases", std::nullopt, "there is no tensor '" + kQuery + ".biases'"},
      {"mlx_6", ".scales", filled(f16, {32, 3}), "is f16[32, 3]; it must be"},
      {"mlx_6", ".weight", filled(u32, {32, 7}), "are no whole groups of 32 codes of 6 bits"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.kind);
    CAPTURE(row.tensor);
    CAPTURE(row.message);
    const PackedCopy copy(row.kind);
    copy.tensors([&](NamedTensors& all) {
      const std::string name = kQuery + row.tensor;
      REQUIRE(all.contains(name));
      all.erase(name);
      if (row.value) all.emplace(name, *row.value);
    });
    CHECK(says(copy.message(), row.message));
  }
}

TEST_CASE("groups of GPTQ that g_idx makes uneven are refused") {
  const PackedCopy copy("gptq_order");
  const std::string name = "model.layers.0.mlp.down_proj.g_idx";
  copy.tensors([&](NamedTensors& all) {
    auto values = all.at(name).mutable_values<int32_t>();
    const size_t at = static_cast<size_t>(std::find(values.begin(), values.end(), 0) - values.begin());
    values[at] = 1;
  });
  CHECK(says(copy.message(), "tensor '" + name + "' in"));
  CHECK(says(copy.message(), "gives group 0 31 rows; it must have 32"));
}

TEST_CASE("a bias of zeros that AutoGPTQ wrote beside a matrix is nothing; another one is refused") {
  const PackedCopy copy("gptq");
  copy.tensors([&](NamedTensors& all) { all.emplace(kQuery + ".bias", Tensor(f16, {32})); });
  CHECK(worst_difference(logits_of(copy.path()), read_npy(kPacked + "gptq/logits.npy")) < kPackedTolerance);
  copy.tensors([&](NamedTensors& all) {
    all.insert_or_assign(kQuery + ".bias", Tensor::of<float>({32}, std::vector<float>(32, 1)));
  });
  CHECK(says(copy.message(), kQuery + ".bias"));
}

TEST_CASE("adapters beside plain and packed matrices have PEFT's logits") {
  for (const std::string name : {"lora", "rslora"})
    for (const std::string base : {"llama3", "awq"}) {
      CAPTURE(name);
      CAPTURE(base);
      const std::string path = base == "awq" ? kPacked + base : "tests/golden/language_models/" + base;
      const std::string adapter = kPacked + name + "_" + base;
      const Tensor wanted = read_npy(adapter + ".npy");
      CHECK(worst_difference(logits_of(path, {{adapter}}), wanted) < kPackedTolerance);
      CHECK(worst_difference(logits_of(path, {{adapter}}, 5), wanted) < kPackedTolerance);
      // Half of it twice is the whole of it, and none of it is the model.
      CHECK(worst_difference(logits_of(path, {{adapter, 0.5}, {adapter, 0.5}}), wanted) < kPackedTolerance);
      CHECK(worst_difference(logits_of(path, {{adapter, 0}}), logits_of(path)) == 0);
      CHECK(worst_difference(logits_of(path), wanted) > 0.1F);
    }
}

TEST_CASE("a GGUF adapter stands beside the GGUF file of its model") {
  // The same numbers as PEFT's, under the names of llama.cpp's converter. Of Qwen 2 it turns no rows.
  const TemporaryFolder folder;
  const std::string model = "tests/golden/language_models/qwen2";
  std::vector<float> a(2 * 16), b(16 * 2);
  for (size_t i = 0; i < a.size(); ++i) a[i] = 0.1F * static_cast<float>(i % 7) - 0.3F;
  for (size_t i = 0; i < b.size(); ++i) b[i] = 0.2F * static_cast<float>(i % 5) - 0.4F;
  const Tensor ta = Tensor::of<float>({2, 16}, a), tb = Tensor::of<float>({16, 2}, b);
  const std::string module = "base_model.model.model.layers.1.self_attn.q_proj.lora_";
  write_safetensors(folder / "adapter_model.safetensors", {{module + "A.weight", ta}, {module + "B.weight", tb}});
  put_file(folder / "adapter_config.json", R"({"peft_type": "LORA", "r": 2, "lora_alpha": 3})");
  const GgufMetadata metadata = {{"general.architecture", std::string("qwen2")},
                                 {"general.type", std::string("adapter")},
                                 {"adapter.type", std::string("lora")},
                                 {"adapter.lora.alpha", 3.0F}};
  write_gguf(folder / "adapter.gguf", {{"blk.1.attn_q.weight.lora_a", ta}, {"blk.1.attn_q.weight.lora_b", tb}},
             metadata);
  const Tensor by_folder = logits_of(model, {{folder / ""}}),
               by_file = logits_of(model + ".gguf", {{folder / "adapter.gguf"}});
  CHECK(worst_difference(by_folder, by_file) < kPackedTolerance);
  CHECK(worst_difference(by_folder, logits_of(model)) > 0.01F);

  const auto message = [&](GgufMetadata changed) {
    write_gguf(folder / "other.gguf", {{"blk.1.attn_q.weight.lora_a", ta}, {"blk.1.attn_q.weight.lora_b", tb}},
               changed);
    return message_of([&] { logits_of(model + ".gguf", {{folder / "other.gguf"}}); });
  };
  GgufMetadata other = metadata;
  other[0].second = std::string("llama");
  CHECK(says(message(other), "'general.architecture' is 'llama', but the model is qwen2"));
  other = metadata, other[1].second = std::string("model");
  CHECK(says(message(other), "'general.type' is 'model'; of an adapter it is 'adapter'"));
  other = metadata, other.pop_back();
  CHECK(says(message(other), "'adapter.lora.alpha' is missing"));
  other = metadata, other.back().second = std::numeric_limits<float>::infinity();
  CHECK(says(message(other), "'adapter.lora.alpha' is"));
}

TEST_CASE("adapters that are not built are refused by the name of their key or tensor") {
  const std::string model = "tests/golden/language_models/llama3";
  const auto message = [&](const PackedCopy& copy, double scale = 1) {
    return message_of([&] { logits_of(model, {{copy.path(), scale}}); });
  };
  struct Row {
    json change;
    const char* message;
  };
  const Row rows[] = {
      {{{"peft_type", "IA3"}}, "'peft_type' in adapter_config.json is \"IA3\"; what is read is \"LORA\""},
      {{{"use_dora", true}}, "'use_dora' in adapter_config.json is true, which is not built"},
      {{{"lora_bias", true}}, "'lora_bias' in adapter_config.json is true"},
      {{{"bias", "all"}}, "'bias' in adapter_config.json is \"all\""},
      {{{"modules_to_save", {"lm_head"}}}, "'modules_to_save' in adapter_config.json is"},
      {{{"alpha_pattern", {{"q_proj", 3}}}}, "'alpha_pattern' in adapter_config.json is"},
      {{{"init_lora_weights", "pissa_niter_4"}}, "'init_lora_weights' in adapter_config.json is \"pissa_niter_4\""},
      {{{"lora_alpha", "x"}}, "'lora_alpha' in adapter_config.json is \"x\"; it must be a number"},
      {{{"lora_alpha", nullptr}}, "'lora_alpha' in adapter_config.json is missing"},
      {{{"use_rslora", 1}}, "'use_rslora' in adapter_config.json is 1, not true or false"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    const PackedCopy copy("lora_llama3");
    copy.keys([&](json& all) { all.merge_patch(row.change); }, "adapter_config.json");
    CHECK(says(message(copy), row.message));
  }
  const std::string file = "adapter_model.safetensors", at = "base_model.model.model.layers.0.self_attn.q_proj.";
  struct Spoilt {
    std::string removed, added;
    Tensor tensor;
    std::string message;
  };
  const Spoilt spoilt[] = {
      {at + "lora_B.weight", "", Tensor(), "there is no tensor '" + at + "lora_B.weight'"},
      {"", at + "lora_magnitude_vector", Tensor(f32, {32}), "lora_magnitude_vector' in"},
      {"", "base_model.model.model.norm.lora_A.weight", Tensor(f32, {1, 16}),
       "there is no tensor 'base_model.model.model.norm.lora_B.weight'"},
      {at + "lora_A.weight", at + "lora_A.weight", Tensor(f32, {4, 16}),
       "they must be [rank, inputs] and [outputs, rank]"},
      {at + "lora_A.weight", at + "lora_A.weight", Tensor(f32, {3, 15}), "has 15 inputs, the module 16"},
      {at + "lora_B.weight", at + "lora_B.weight", Tensor(f32, {31, 3}), "has 31 outputs, the module 32"},
      {at + "lora_A.weight", at + "lora_A.weight", Tensor(i32, {3, 16}), "it must be a matrix of f32, f16 or bf16"},
      {at + "lora_A.weight", at + "lora_A.weight", Tensor(f32, {3}), "it must be a matrix of f32, f16 or bf16"},
  };
  for (const Spoilt& row : spoilt) {
    CAPTURE(row.message);
    const PackedCopy copy("lora_llama3");
    copy.tensors(
        [&](NamedTensors& all) {
          all.erase(row.removed);
          if (!row.added.empty()) all.insert_or_assign(row.added, row.tensor);
        },
        file);
    CHECK(says(message(copy), row.message));
  }
  const PackedCopy unused("lora_llama3");
  unused.tensors(
      [&](NamedTensors& all) {
        for (const char* part : {"lora_A.weight", "lora_B.weight"})
          all.emplace(std::string("base_model.model.model.layers.7.self_attn.q_proj.") + part, all.at(at + part));
      },
      file);
  CHECK(says(message(unused), "has 'model.layers.7.self_attn.q_proj', which is no product of this model"));
  const PackedCopy changed("rslora_llama3");
  changed.tensors(
      [&](NamedTensors& all) { all.at("base_model.model.lm_head.base_layer.weight").mutable_values<float>()[3] += 1; },
      file);
  CHECK(says(message(changed), "has weights of 'lm_head' itself"));
  CHECK(says(message(PackedCopy("lora_llama3"), std::numeric_limits<double>::infinity()), "its scale is inf"));
  CHECK(says(message_of([&] { logits_of(model, {{"no/such"}}); }), "there is no such folder or file"));
  CHECK(says(message_of([&] { logits_of(kPacked + "lora_llama3"); }), "config.json"));
}
