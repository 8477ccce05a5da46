// A GGUF file as a Hugging Face folder: the other way round than gguf_model.cpp. Blocks become what mlx-lm packs, where
// it has the same numbers: codes along the rows, and a scale and a bias for each 32 of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/tokenizer/gguf_tokenizer_writer.h"
#include "models/language/config_gguf.h"
#include "models/language/config_json_writer.h"
#include "models/language/limits.h"
#include "models/language/special_tokens.h"
#include "models/language/weight_files.h"
#include "models/language/weight_names.h"
#include "rlx/blocks.h"
#include "rlx/element.h"
#include "rlx/language_model.h"

namespace rlx {
namespace language::folder_model {  // a unity build puts all of the folder into one file
namespace {

using Json = nlohmann::ordered_json;
constexpr int64_t kGroup = 32;

float half_at(const std::byte* at) {
  Half half;
  std::memcpy(&half.bits, at, sizeof half.bits);
  return static_cast<float>(to_double(half));
}

/// A matrix as mlx-lm packs it: codes of `bits` bits in words of 32, the lowest first.
struct MlxMatrix {
  int64_t bits = 0;
  Tensor words, scales, biases;
};

/// What one block of 32 is: codes, and code * scale + bias.
struct Group {
  uint8_t codes[kGroup];
  float scale, bias;
};
/// The groups of one block of a kind, one behind the other.
using ReadGroups = void (*)(const std::byte* block, Group* to);

void nibbles(const std::byte* from, uint8_t* to) {
  for (int64_t i = 0; i < kGroup / 2; ++i) {
    const auto both = static_cast<uint8_t>(from[i]);
    to[i] = both & 15, to[i + kGroup / 2] = both >> 4;
  }
}
void read_q4_0(const std::byte* block, Group* to) {
  to->scale = half_at(block), to->bias = -8 * to->scale;
  nibbles(block + 2, to->codes);
}
void read_q4_1(const std::byte* block, Group* to) {
  to->scale = half_at(block), to->bias = half_at(block + 2);
  nibbles(block + 4, to->codes);
}
void read_q8_0(const std::byte* block, Group* to) {
  to->scale = half_at(block), to->bias = -128 * to->scale;
  for (int64_t i = 0; i < kGroup; ++i)
    to->codes[i] = static_cast<uint8_t>(static_cast<int>(static_cast<int8_t>(block[2 + i])) + 128);
}
/// Eight groups, whose scales and minima have 6 bits each (GGUF specification, "Q4_K").
void read_q4_k(const std::byte* block, Group* to) {
  const float scale = half_at(block), least = half_at(block + 2);
  const auto six = [&](int64_t i) { return static_cast<unsigned>(block[4 + i]); };
  for (int64_t g = 0; g < 8; ++g) {
    const unsigned s = g < 4 ? six(g) & 63 : (six(g + 4) & 15) | (six(g - 4) >> 6) << 4;
    const unsigned m = g < 4 ? six(g + 4) & 63 : six(g + 4) >> 4 | (six(g) >> 6) << 4;
    to[g].scale = scale * static_cast<float>(s), to[g].bias = -(least * static_cast<float>(m));
    const std::byte* codes = block + 16 + g / 2 * kGroup;
    for (int64_t i = 0; i < kGroup; ++i) {
      const auto both = static_cast<uint8_t>(codes[i]);
      to[g].codes[i] = g % 2 ? both >> 4 : both & 15;
    }
  }
}
struct Readable {
  DType dtype;
  int64_t bits, groups;
  ReadGroups read;
};
constexpr Readable kReadable[] = {
    {q4_0, 4, 1, read_q4_0}, {q4_1, 4, 1, read_q4_1}, {q8_0, 8, 1, read_q8_0}, {q4_k, 4, 8, read_q4_k}};

/// Of a matrix [out, in] of blocks.
MlxMatrix mlx_of(const Tensor& blocks, const std::string& name) {
  const auto* kind = std::find_if(std::begin(kReadable), std::end(kReadable),
                                  [&](const Readable& r) { return r.dtype == blocks.dtype(); });
  if (kind == std::end(kReadable) || blocks.rank() != 2)
    fail(ErrorCode::unsupported, "tensor '", name, "' is ", blocks.type(),
         ", and folders have no form with the same numbers for these blocks; dequantize them (--dequantize bf16)");
  const int64_t rows = blocks.shape()[0], columns = blocks.shape()[1], groups = columns / kGroup;
  MlxMatrix m{kind->bits, Tensor(u32, {rows, columns * kind->bits / 32}), Tensor(f32, {rows, groups}),
              Tensor(f32, {rows, groups})};
  auto* words = reinterpret_cast<uint8_t*>(m.words.mutable_data());
  float *scales = m.scales.mutable_values<float>().data(), *biases = m.biases.mutable_values<float>().data();
  const auto bytes = static_cast<int64_t>(info(kind->dtype).block_bytes);
  std::vector<Group> read(static_cast<size_t>(kind->groups));
  bool are_halves = true;
  const auto is_half = [](float v) { return static_cast<float>(to_double(to_half(static_cast<double>(v)))) == v; };
  for (int64_t g = 0; g < rows * groups; ++g) {
    if (g % kind->groups == 0) kind->read(blocks.data() + g / kind->groups * bytes, read.data());
    const Group& one = read[static_cast<size_t>(g % kind->groups)];
    scales[g] = one.scale, biases[g] = one.bias;
    are_halves &= is_half(one.scale) && is_half(one.bias);
    if (kind->bits == 8) std::memcpy(words + g * kGroup, one.codes, kGroup);
    else
      for (int64_t i = 0; i < kGroup / 2; ++i)
        words[g * kGroup / 2 + i] = static_cast<uint8_t>(one.codes[2 * i] | one.codes[2 * i + 1] << 4);
  }
  if (!are_halves) return m;
  for (Tensor* part : {&m.scales, &m.biases}) {
    Tensor half = Tensor::uninitialized(f16, part->shape());
    for (size_t i = 0; i < part->element_count(); ++i)
      half.mutable_values<Half>()[i] = to_half(static_cast<double>(part->values<float>()[i]));
    *part = half;
  }
  return m;
}

/// Numbers as f32.
Tensor plain_floats(const Tensor& t) {
  if (t.dtype() == f32) return t;
  if (is_block(t.dtype())) return dequantized(t, f32);
  Tensor all = Tensor::uninitialized(f32, t.shape());
  read_floats(t, all.mutable_values<float>().data());
  return all;
}

class Params {
 public:
  Params(const WeightFiles& files, const LanguageModelConfig& gguf, const LanguageModelConfig& folder,
         std::optional<DType> dequantize)
      : files_(files), gguf_(gguf), folder_(folder), dequantize_(dequantize) {}

  /// The value that a param of the folder's model has.
  Tensor value(const std::string& name, const Dims& dims) const {
    constexpr std::string_view kLog = "decay_log";
    if (name.ends_with(kLog)) {
      Tensor t = plain_floats(in_file(name.substr(0, name.size() - 4), dims));
      for (float& v : t.mutable_values<float>()) {
        if (!(v < 0))
          fail(ErrorCode::unsupported, "weight '", name, "' is the logarithm of a decay, which is ", v,
               " in the file; it must be less than 0");
        v = std::log(-v);
      }
      return t;
    }
    if (const size_t at = name.find(".mixer.in."); at != name.npos && has_parts()) return joined_groups(name, at);
    Tensor t = in_file(name, dims);
    if (gguf_.rope.style == RopeStyle::gptj && gguf_.has_attention() && !gguf_.learned_positions) {
      if (name.find(".attention.query.") != name.npos) t = halves(t, gguf_.heads);
      if (name.find(".attention.key.") != name.npos) t = halves(t, gguf_.kv_heads);
    }
    if (folder_.norm_adds_one && name.ends_with("norm.weight") && !name.ends_with(".mixer.norm.weight")) {
      t = plain_floats(t);
      for (float& v : t.mutable_values<float>()) v -= 1;
    }
    return t;
  }

 private:
  bool has_parts() const { return gguf_.architecture == "qwen3next" && !gguf_.recurrent.is_grouped; }
  Tensor in_file(const std::string& name, const Dims& dims) const {
    const WeightType type = files_.type(name);
    if (type.dtype != f32 && type.dtype != f16 && type.dtype != bf16 && !is_block(type.dtype))
      fail(ErrorCode::unsupported, "weight '", name, "' is of ", type.dtype, "; weights are f32, f16, bf16 or blocks");
    Tensor t = files_.value(name, {type.dtype, dims});
    return is_block(t.dtype()) && dequantize_ ? dequantized(t, *dequantize_) : t;
  }
  template <class F>
  static void copy_rows(const Tensor& from, Tensor& to, int64_t count, F place) {
    const size_t bytes = from.byte_count() / static_cast<size_t>(from.shape()[0]);
    std::byte* all = to.mutable_data();
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(all + static_cast<size_t>(place(i)) * bytes, from.data() + static_cast<size_t>(i) * bytes, bytes);
  }
  /// Rows of each head: those that stand turn by turn, as a first half and a second one.
  static Tensor halves(const Tensor& t, int64_t heads) {
    Tensor all = Tensor::uninitialized(t.dtype(), t.shape());
    const int64_t width = t.shape()[0] / heads;
    copy_rows(t, all, t.shape()[0], [&](int64_t i) { return i / width * width + i % 2 * (width / 2) + i % width / 2; });
    return all;
  }
  /// Queries, keys, values and gates, group by group.
  Tensor joined_groups(const std::string& name, size_t at) const {
    const RecurrentConfig& r = gguf_.recurrent;
    const std::string before = name.substr(0, at) + ".mixer.", behind = name.substr(name.rfind('.'));
    const int64_t values = r.inner / r.groups, keys = r.groups * r.state, group = 2 * r.state + 2 * values;
    const Tensor first = in_file(before + "query_key_value" + behind, {2 * keys + r.inner, gguf_.hidden});
    const Tensor gates = in_file(before + "gate" + behind, {r.inner, gguf_.hidden});
    if (first.dtype() != gates.dtype())
      fail(ErrorCode::unsupported, "weight '", name, "' is in the file as ", first.type(), " and ", gates.type(),
           ", which are of two dtypes; dequantize them (--dequantize bf16)");
    Tensor all = Tensor::uninitialized(first.dtype(), {r.groups * group, gguf_.hidden});
    const auto part = [&](int64_t i, int64_t from, int64_t size) { return i / size * group + from + i % size; };
    copy_rows(first, all, 2 * keys + r.inner, [&](int64_t i) {
      if (i < keys) return part(i, 0, r.state);
      if (i < 2 * keys) return part(i - keys, r.state, r.state);
      return part(i - 2 * keys, 2 * r.state, values);
    });
    copy_rows(gates, all, r.inner, [&](int64_t i) { return part(i, 2 * r.state + values, values); });
    return all;
  }

  const WeightFiles& files_;
  const LanguageModelConfig &gguf_, &folder_;
  std::optional<DType> dequantize_;
};

/// Adds tensors of a folder, and what they say of how they are packed.
class Added {
 public:
  Added(FolderModel& model, LanguageModelConfig& config) : model_(model), config_(config) {}

  void add(const std::string& param, const FileName& name, Tensor t) {
    if (name.form == WeightForm::transposed) t = transposed(t, name.name);
    // Convolutions of channels by themselves have a dim for the channels that each of them sees.
    if (name.form == WeightForm::reshaped && t.rank() == 2) t = t.reshaped({t.shape()[0], 1, t.shape()[1]});
    const size_t star = name.name.find('*');
    if (star == name.name.npos) return add_one(param, name.name, std::move(t));
    const int64_t experts = t.shape().at(0);
    const Shape one(t.shape().begin() + 1, t.shape().end());
    const size_t bytes = t.byte_count() / static_cast<size_t>(experts);
    for (int64_t e = 0; e < experts; ++e) {
      const auto part = t.bytes().subspan(static_cast<size_t>(e) * bytes, bytes);
      add_one(param, name.name.substr(0, star) + std::to_string(e) + name.name.substr(star + 1),
              Tensor::borrow(t.dtype(), one, part, std::make_shared<Tensor>(t)));
    }
  }
  /// The dtype of most numbers, as torch calls it.
  std::string_view dtype() const {
    const auto most = std::max_element(counts_.begin(), counts_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == counts_.end() || most->first == f32 ? "float32" : most->first == f16 ? "float16" : "bfloat16";
  }

 private:
  void add_one(const std::string& param, const std::string& name, Tensor t) {
    if (!is_block(t.dtype())) {
      if (t.rank() >= 2) counts_[t.dtype()] += t.element_count();
      return model_.tensors.emplace(name, std::move(t)), void();
    }
    constexpr std::string_view kWeight = ".weight";
    if (!param.ends_with(kWeight) || !name.ends_with(kWeight))
      fail(ErrorCode::unsupported, "tensor '", name, "' is ", t.type(), "; here it must be numbers");
    const std::string module = name.substr(0, name.size() - kWeight.size());
    MlxMatrix m = mlx_of(t, name);
    WeightPacking& packing = config_.packing;
    if (packing.method == WeightPacking::Method::none) packing = {WeightPacking::Method::mlx, m.bits, kGroup};
    if (m.bits != packing.bits) packing.modules[module] = {m.bits, kGroup};
    model_.tensors.emplace(name, std::move(m.words));
    model_.tensors.emplace(module + ".scales", std::move(m.scales));
    model_.tensors.emplace(module + ".biases", std::move(m.biases));
  }
  static Tensor transposed(const Tensor& t, const std::string& name) {
    if (is_block(t.dtype()))
      fail(ErrorCode::unsupported, "tensor '", name, "' stands the other way round in folders, and is ", t.type(),
           "; dequantize it (--dequantize bf16)");
    const auto bytes = static_cast<int64_t>(byte_size(t.dtype()));
    const int64_t strides[] = {bytes, t.shape()[1] * bytes};
    return Tensor::from_strided(t.dtype(), {t.shape()[1], t.shape()[0]}, t.data(), strides);
  }

  FolderModel& model_;
  LanguageModelConfig& config_;
  std::map<DType, size_t> counts_;
};

void add_texts(FolderModel& model, const GgufMetadata& metadata, const SpecialTokens& special, int64_t context) {
  Json generation = Json::object();
  if (special.bos_id) generation["bos_token_id"] = *special.bos_id;
  if (!special.stop_ids.empty()) generation["eos_token_id"] = special.stop_ids;
  const LanguageModel::Advice& advice = special.advice;
  const auto add = [&](const char* key, std::optional<double> v) {
    if (v) generation[key] = static_cast<double>(static_cast<float>(*v));
  };
  add("temperature", advice.temperature), add("top_p", advice.top_p), add("min_p", advice.min_p);
  add("repetition_penalty", advice.repetition_penalty);
  if (advice.top_k) generation["top_k"] = *advice.top_k;
  if (!generation.empty()) model.texts["generation_config.json"] = generation.dump(2) + "\n";
  const GgufValue* kind = find_value(metadata, "tokenizer.ggml.model");
  const auto* name = kind ? std::get_if<std::string>(kind) : nullptr;
  if (!name || *name == "no_vocab" || *name == "none") {
    model.notes.emplace_back("the file has no tokenizer, and so has the folder none");
    return;
  }
  model.texts["tokenizer.json"] = tokenizer::tokenizer_json_of_gguf(metadata);
  const auto* list = std::get_if<GgufArray>(find_value(metadata, "tokenizer.ggml.tokens"));  // a tokenizer was read
  const auto& tokens = std::get<std::vector<std::string>>(list->items);
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"model_max_length", context}};
  for (const auto& [key, id] : {std::pair("bos_token", "bos"), std::pair("eos_token", "eos"),
                                std::pair("unk_token", "unknown"), std::pair("pad_token", "padding")}) {
    const GgufValue* value = find_value(metadata, text_of("tokenizer.ggml.", id, "_token_id"));
    const auto* number = value ? std::get_if<uint32_t>(value) : nullptr;
    if (number && *number < tokens.size()) config[key] = tokens[*number];
  }
  if (const GgufValue* value = find_value(metadata, "tokenizer.chat_template"))
    if (const auto* text = std::get_if<std::string>(value)) config["chat_template"] = *text;
  model.texts["tokenizer_config.json"] = config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace
}  // namespace language::folder_model

FolderModel folder_model_of_gguf(const std::string& path, const GgufModelOptions& options) {
  using namespace language;  // NOLINT(google-build-using-namespace)
  return with_context(
      [&] { return text_of("converting the language model '", path, "' to a folder"); },
      [&] {
        if (options.dequantize && *options.dequantize != f32 && *options.dequantize != f16 &&
            *options.dequantize != bf16)
          fail(ErrorCode::invalid_argument, "blocks are dequantized to f32, f16 or bf16, not to ", *options.dequantize);
        const GgufFile file = GgufFile::open(path, options.access);
        const LanguageModelConfig gguf = LanguageModelConfig::from_gguf(file);
        LanguageModelConfig folder = config_as_in_folder(gguf);
        const auto files = open_gguf(file, gguf);
        const folder_model::Params params(*files, gguf, folder, options.dequantize);
        FolderModel model;
        LanguageModelConfig described = folder;
        folder_model::Added added(model, described);
        const auto names = folder_names_of(folder);
        const Graph graph = decoder_graph(folder);
        for (const Ref& ref : graph.params()) {
          const std::string& param = graph.node(ref).name;
          added.add(param, name_in_file(names, param), params.value(param, graph.type(ref).dims));
        }
        if (const auto unread = files->unread(); !unread.empty())
          fail(ErrorCode::unsupported, "the model has ", unread.size(), " tensors that its metadata have no use for: '",
               unread[0], "'", unread.size() > 1 ? ", ..." : "");
        const SpecialTokens special = special_tokens_of_gguf(file.metadata(), gguf.vocabulary);
        const std::string json = json_of_config(described, added.dtype(), special.bos_id, special.stop_ids);
        const auto read = LanguageModelConfig::from_json(json);
        const GgufArchitecture* back = gguf_architecture_of_folder(read.architecture);
        if (!back || back->name != gguf.architecture)
          fail(ErrorCode::internal, "'", read.architecture, "' is no folder of '", gguf.architecture, "'");
        LanguageModelConfig wanted = gguf;
        wanted.recurrent.is_grouped = false;  // how the file had it says nothing of the model
        require_same_model(wanted, config_as_in_gguf(read, *back), true);
        model.texts["config.json"] = json;
        folder_model::add_texts(model, file.metadata(), special, gguf.context);
        return model;
      });
}

}  // namespace rlx
