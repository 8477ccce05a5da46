// A GGUF file as a Hugging Face folder: the other way round than gguf_model.cpp. Blocks become what mlx-lm packs, where
// it has the same numbers: codes along the rows, and a scale and a bias for each 32 of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/atomic_file.h"
#include "io/file_stamp.h"
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
const Readable& readable(const LazyTensor& blocks, const std::string& name) {
  const auto* kind = std::find_if(std::begin(kReadable), std::end(kReadable),
                                  [&](const Readable& r) { return r.dtype == blocks.dtype(); });
  if (kind == std::end(kReadable) || blocks.rank() != 2)
    fail(ErrorCode::unsupported, "tensor '", name, "' is ", blocks.type(),
         ", and folders have no form with the same numbers for these blocks; dequantize them (--dequantize bf16)");
  return *kind;
}
bool is_half(float v) { return static_cast<float>(to_double(to_half(static_cast<double>(v)))) == v; }
/// Whether all scales and biases are.
bool are_halves(const Tensor& blocks, const Readable& kind) {
  const auto bytes = static_cast<int64_t>(info(kind.dtype).block_bytes);
  std::vector<Group> read(static_cast<size_t>(kind.groups));
  for (int64_t at = 0; at < static_cast<int64_t>(blocks.byte_count()); at += bytes) {
    kind.read(blocks.data() + at, read.data());
    for (const Group& one : read)
      if (!is_half(one.scale) || !is_half(one.bias)) return false;
  }
  return true;
}
template <class F>
void for_each_group(const Tensor& blocks, const Readable& kind, F f) {
  const auto bytes = static_cast<int64_t>(info(kind.dtype).block_bytes);
  std::vector<Group> read(static_cast<size_t>(kind.groups));
  int64_t g = 0;
  for (int64_t at = 0; at < static_cast<int64_t>(blocks.byte_count()); at += bytes) {
    kind.read(blocks.data() + at, read.data());
    for (const Group& one : read) f(g++, one);
  }
}
/// The codes of a matrix as mlx-lm packs it: of `bits` bits in words of 32, the lowest first.
Tensor mlx_words(const Tensor& blocks, const Readable& kind) {
  Tensor all(u32, {blocks.shape()[0], blocks.shape()[1] * kind.bits / 32});
  auto* words = reinterpret_cast<uint8_t*>(all.mutable_data());
  for_each_group(blocks, kind, [&](int64_t g, const Group& one) {
    if (kind.bits == 8) std::memcpy(words + g * kGroup, one.codes, kGroup);
    else
      for (int64_t i = 0; i < kGroup / 2; ++i)
        words[g * kGroup / 2 + i] = static_cast<uint8_t>(one.codes[2 * i] | one.codes[2 * i + 1] << 4);
  });
  return all;
}
/// Its scales or biases, as f16 or f32.
Tensor mlx_numbers(const Tensor& blocks, const Readable& kind, DType dtype, float Group::*which) {
  Tensor all = Tensor::uninitialized(dtype, {blocks.shape()[0], blocks.shape()[1] / kGroup});
  if (dtype == f16) {
    auto* to = all.mutable_values<Half>().data();
    for_each_group(blocks, kind,
                   [&](int64_t g, const Group& one) { to[g] = to_half(static_cast<double>(one.*which)); });
  } else {
    auto* to = all.mutable_values<float>().data();
    for_each_group(blocks, kind, [&](int64_t g, const Group& one) { to[g] = one.*which; });
  }
  return all;
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
  Params(std::unique_ptr<const WeightFiles> files, LanguageModelConfig gguf, LanguageModelConfig folder,
         std::optional<DType> dequantize)
      : files_(std::move(files)), gguf_(std::move(gguf)), folder_(std::move(folder)), dequantize_(dequantize) {}

  const WeightFiles& files() const { return *files_; }
  /// The dtype of the value, after what can be wrong with it was looked for; only decays are read for it.
  DType checked_dtype(const std::string& name, const Dims& dims) const {
    if (name.ends_with(kLog)) return value(name, dims).dtype();
    if (is_of_parts(name)) {
      const DType first = checked_in_file(part_of(name, "query_key_value"), first_dims()),
                  gates = checked_in_file(part_of(name, "gate"), gate_dims());
      if (first != gates)
        fail(ErrorCode::unsupported, "weight '", name, "' is in the file as ", first, " and ", gates,
             ", which are of two dtypes; dequantize them (--dequantize bf16)");
      return first;
    }
    const DType dtype = checked_in_file(name, dims);
    return adds_one(name) ? f32 : dtype;
  }
  /// One of the experts' matrices of such a param.
  Tensor expert(const std::string& name, const Dims& dims, int64_t at) const {
    files_->release();
    const Tensor all = stack(name, dims);
    const size_t bytes = all.byte_count() / static_cast<size_t>(all.shape()[0]);
    return numbers(Tensor::borrow(all.dtype(), Shape(all.shape().begin() + 1, all.shape().end()),
                                  all.bytes().subspan(static_cast<size_t>(at) * bytes, bytes), all.owner()));
  }

  /// The value that a param of the folder's model has. What was read for the one before is released.
  Tensor value(const std::string& name, const Dims& dims) const {
    files_->release();
    stacks_.clear();
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
    if (is_of_parts(name)) return joined_groups(name);
    Tensor t = in_file(name, dims);
    if (gguf_.rope.style == RopeStyle::gptj && gguf_.has_attention() && !gguf_.learned_positions) {
      if (name.find(".attention.query.") != name.npos) t = halves(t, gguf_.heads);
      if (name.find(".attention.key.") != name.npos) t = halves(t, gguf_.kv_heads);
    }
    if (adds_one(name)) {
      t = plain_floats(t);
      for (float& v : t.mutable_values<float>()) v -= 1;
    }
    return t;
  }

 private:
  static constexpr std::string_view kLog = "decay_log";
  bool adds_one(const std::string& name) const {
    return folder_.norm_adds_one && name.ends_with("norm.weight") && !name.ends_with(".mixer.norm.weight");
  }
  bool is_of_parts(const std::string& name) const {
    return name.find(".mixer.in.") != name.npos && gguf_.architecture == "qwen3next" && !gguf_.recurrent.is_grouped;
  }
  DType checked_in_file(const std::string& name, const Dims& dims) const {
    const DType dtype = known_dtype(name);
    files_->check_value(name, {dtype, dims});
    return is_block(dtype) && dequantize_ ? *dequantize_ : dtype;
  }
  DType known_dtype(const std::string& name) const {
    const WeightType type = files_->type(name);
    if (type.dtype != f32 && type.dtype != f16 && type.dtype != bf16 && !is_block(type.dtype))
      fail(ErrorCode::unsupported, "weight '", name, "' is of ", type.dtype, "; weights are f32, f16, bf16 or blocks");
    return type.dtype;
  }
  Tensor as_in_file(const std::string& name, const Dims& dims) const {
    return files_->value(name, {known_dtype(name), dims});
  }
  /// All of the experts' matrices. One that is copied (of another byte order, NVFP4, odd alignment) stays until a
  /// param of something else is asked for: writers ask for the three matrices of an expert, then for the next one's.
  Tensor stack(const std::string& name, const Dims& dims) const {
    const std::string layer = name.substr(0, name.find(".experts."));
    if (layer != layer_of_stacks_) stacks_.clear(), layer_of_stacks_ = layer;
    if (const auto found = stacks_.find(name); found != stacks_.end()) return found->second;
    Tensor all = as_in_file(name, dims);
    if (!file_origin(all.bytes())) stacks_.emplace(name, all);
    return all;
  }
  Tensor numbers(const Tensor& t) const {
    return is_block(t.dtype()) && dequantize_ ? dequantized(t, *dequantize_) : t;
  }
  Tensor in_file(const std::string& name, const Dims& dims) const { return numbers(as_in_file(name, dims)); }
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
  static std::string part_of(const std::string& name, const char* part) {
    return name.substr(0, name.find(".mixer.")) + ".mixer." + part + name.substr(name.rfind('.'));
  }
  Dims first_dims() const {
    const RecurrentConfig& r = gguf_.recurrent;
    return {2 * r.groups * r.state + r.inner, gguf_.hidden};
  }
  Dims gate_dims() const { return {gguf_.recurrent.inner, gguf_.hidden}; }
  /// Queries, keys, values and gates, group by group.
  Tensor joined_groups(const std::string& name) const {
    const RecurrentConfig& r = gguf_.recurrent;
    const int64_t values = r.inner / r.groups, keys = r.groups * r.state, group = 2 * r.state + 2 * values;
    const Tensor first = in_file(part_of(name, "query_key_value"), first_dims());
    const Tensor gates = in_file(part_of(name, "gate"), gate_dims());
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

  const std::unique_ptr<const WeightFiles> files_;
  const LanguageModelConfig gguf_, folder_;
  const std::optional<DType> dequantize_;
  mutable std::string layer_of_stacks_;
  mutable std::map<std::string, Tensor> stacks_;
};

/// Adds tensors of a folder, and what they say of how they are packed.
class Added {
 public:
  Added(FolderModel& model, LanguageModelConfig& config, std::shared_ptr<const Params> params)
      : model_(model), config_(config), params_(std::move(params)) {}

  void add(const std::string& param, const FileName& name, const Dims& dims) {
    const DType dtype = params_->checked_dtype(param, dims);
    Shape shape = shape_of(dims);
    const size_t star = name.name.find('*');
    if (star != name.name.npos) {
      const Shape one(shape.begin() + 1, shape.end());
      for (int64_t e = 0; e < shape[0]; ++e)
        add_one(param, name.name.substr(0, star) + std::to_string(e) + name.name.substr(star + 1),
                {dtype, one, [params = params_, param, dims, e] { return params->expert(param, dims, e); }});
      return;
    }
    const bool is_transposed = name.form == WeightForm::transposed;
    if (is_transposed && is_block(dtype))
      fail(ErrorCode::unsupported, "tensor '", name.name, "' stands the other way round in folders, and is ",
           Type{dtype, dims}, "; dequantize it (--dequantize bf16)");
    if (is_transposed) std::swap(shape.at(0), shape.at(1));
    // Convolutions of channels by themselves have a dim for the channels that each of them sees.
    if (name.form == WeightForm::reshaped && shape.size() == 2) shape.insert(shape.begin() + 1, 1);
    add_one(param, name.name, {dtype, shape, [params = params_, param, dims, shape, is_transposed] {
                                 const Tensor t = params->value(param, dims);
                                 return is_transposed ? transposed(t) : t.reshaped(shape);
                               }});
  }
  /// The dtype of most numbers, as torch calls it.
  std::string_view dtype() const {
    const auto most = std::max_element(counts_.begin(), counts_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == counts_.end() || most->first == f32 ? "float32" : most->first == f16 ? "float16" : "bfloat16";
  }

 private:
  void add_one(const std::string& param, const std::string& name, const LazyTensor& t) {
    if (!is_block(t.dtype())) {
      if (t.rank() >= 2) counts_[t.dtype()] += t.element_count();
      return model_.tensors.emplace(name, t), void();
    }
    constexpr std::string_view kWeight = ".weight";
    if (!param.ends_with(kWeight) || !name.ends_with(kWeight))
      fail(ErrorCode::unsupported, "tensor '", name, "' is ", t.type(), "; here it must be numbers");
    const std::string module = name.substr(0, name.size() - kWeight.size());
    const Readable& kind = readable(t, name);
    WeightPacking& packing = config_.packing;
    if (packing.method == WeightPacking::Method::none) packing = {WeightPacking::Method::mlx, kind.bits, kGroup};
    if (kind.bits != packing.bits) packing.modules[module] = {kind.bits, kGroup};
    const bool has_halves = are_halves(t.make(), kind);
    const int64_t rows = t.shape()[0], columns = t.shape()[1];
    const DType scales = has_halves ? f16 : f32;
    // Each is made by itself: in the file they do not stand together.
    model_.tensors.emplace(name, t.changed(u32, {rows, columns * kind.bits / 32},
                                           [&kind](const Tensor& blocks) { return mlx_words(blocks, kind); }));
    for (const auto& [called, which] : {std::pair(".scales", &Group::scale), std::pair(".biases", &Group::bias)})
      model_.tensors.emplace(module + called, t.changed(scales, {rows, columns / kGroup},
                                                        [&kind, scales, which = which](const Tensor& blocks) {
                                                          return mlx_numbers(blocks, kind, scales, which);
                                                        }));
  }
  static Tensor transposed(const Tensor& t) {
    const auto bytes = static_cast<int64_t>(byte_size(t.dtype()));
    const int64_t strides[] = {bytes, t.shape()[1] * bytes};
    return Tensor::from_strided(t.dtype(), {t.shape()[1], t.shape()[0]}, t.data(), strides);
  }

  FolderModel& model_;
  LanguageModelConfig& config_;
  std::shared_ptr<const Params> params_;
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
        const auto params =
            std::make_shared<const folder_model::Params>(open_gguf(file, gguf), gguf, folder, options.dequantize);
        FolderModel model;
        LanguageModelConfig described = folder;
        folder_model::Added added(model, described, params);
        const auto names = folder_names_of(folder);
        const Graph graph = decoder_graph(folder);
        for (const Ref& ref : graph.params()) {
          const std::string& param = graph.node(ref).name;
          added.add(param, name_in_file(names, param), graph.type(ref).dims);
        }
        params->files().release();
        if (const auto unread = params->files().unread(); !unread.empty())
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

void write_folder_model(const std::string& folder, const FolderModel& model, uint64_t most_file_bytes) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(folder, error) && !(fs::is_directory(folder, error) && fs::is_empty(folder, error)))
    fail(ErrorCode::invalid_argument, "'", folder, "' is there, and not an empty folder");
  if (!fs::create_directories(folder, error) && error)
    fail(ErrorCode::io, "cannot make the folder '", folder, "': ", error.message());
  stream_safetensors_shards((fs::path(folder) / "model.safetensors").string(), model.tensors, {{"format", "pt"}},
                            most_file_bytes);
  for (const auto& [name, text] : model.texts) {
    AtomicFile file((fs::path(folder) / name).string());
    file.write(text);
    file.commit();
  }
}

}  // namespace rlx
