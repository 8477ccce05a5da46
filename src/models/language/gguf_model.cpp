// A Hugging Face folder as a GGUF file: the description, the weights under their other names, the tokenizer. The params
// of the model stand in the middle: their names in both formats are the tables that the readers have
// (weight_names.cpp). Reference: llama.cpp, convert_hf_to_gguf.py and conversion/*.py.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/language/config_gguf.h"
#include "models/language/gguf_blocks.h"
#include "models/language/gguf_vocabulary.h"
#include "models/language/limits.h"
#include "models/language/special_tokens.h"
#include "models/language/weight_files.h"
#include "models/language/weight_names.h"
#include "rlx/blocks.h"
#include "rlx/language_model.h"

namespace rlx {
namespace language::gguf_model {  // a unity build puts all of the folder into one file
namespace {

constexpr size_t kMostConfigBytes = size_t{4} << 20;

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return name.ends_with(end); });
}

/// Numbers as f32.
Tensor as_floats(const Tensor& t) {
  if (t.dtype() == f32) return t;
  Tensor all = Tensor::uninitialized(f32, t.shape());
  read_floats(t, all.mutable_values<float>().data());
  return all;
}

/// Rows in another order: `from(i)` is which of them becomes the i-th.
template <class F>
Tensor with_rows(const Tensor& t, F from) {
  Tensor all = Tensor::uninitialized(t.dtype(), t.shape());
  const size_t rows = static_cast<size_t>(t.shape()[0]), bytes = t.byte_count() / std::max<size_t>(rows, 1);
  std::byte* to = all.mutable_data();
  for (size_t i = 0; i < rows; ++i) std::memcpy(to + i * bytes, t.data() + from(i) * bytes, bytes);
  return all;
}
/// `count` of the rows.
template <class F>
Tensor some_rows(const Tensor& t, int64_t count, F from) {
  Shape shape = t.shape();
  const size_t bytes = t.byte_count() / static_cast<size_t>(shape[0]);
  shape[0] = count;
  Tensor all = Tensor::uninitialized(t.dtype(), std::move(shape));
  std::byte* to = all.mutable_data();
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + static_cast<size_t>(i) * bytes, t.data() + static_cast<size_t>(from(i)) * bytes, bytes);
  return all;
}

class Weights {
 public:
  Weights(std::unique_ptr<const WeightFiles> files, LanguageModelConfig folder, LanguageModelConfig gguf,
          std::optional<DType> dequantize)
      : files_(std::move(files)), folder_(std::move(folder)), gguf_(std::move(gguf)), dequantize_(dequantize) {}

  const WeightFiles& files() const { return *files_; }
  /// The dtype of the value, after what can be wrong with it was looked for. Only packed weights are read.
  DType checked_dtype(const std::string& name, const Dims& dims) const {
    std::string source = name;
    Dims source_dims = dims;
    if (name.ends_with(".mixer.decay")) source += "_log";
    if (is_of_group(name)) {
      source = group_source(name);
      source_dims = group_dims();
    }
    const WeightType type = files_->type(source);
    if (type.group != 0) return value(name, dims).dtype();
    require_floats(source, type);
    files_->check_value(source, {type.dtype, source_dims});
    return name.ends_with(".mixer.decay") || adds_one(name) ? f32 : type.dtype;
  }

  /// The value that a param of the GGUF file's model has. What was read for the one before is released.
  Tensor value(const std::string& name, const Dims& dims) const {
    files_->release();
    if (name.ends_with(".mixer.decay")) {
      Tensor t = as_floats(in_folder(name + "_log", dims));
      for (float& v : t.mutable_values<float>()) v = -std::exp(v);
      return t;
    }
    if (is_of_group(name)) return of_group(name, name.find(".mixer.query_key_value.") != name.npos);
    Tensor t = in_folder(name, dims);
    if (gguf_.rope.style == RopeStyle::gptj && gguf_.has_attention() && !gguf_.learned_positions) {
      if (name.find(".attention.query.") != name.npos) t = neighbours(t, gguf_.heads);
      if (name.find(".attention.key.") != name.npos) t = neighbours(t, gguf_.kv_heads);
    }
    if (adds_one(name)) {
      t = as_floats(t);
      for (float& v : t.mutable_values<float>()) v += 1;
    }
    return t;
  }

 private:
  bool adds_one(const std::string& name) const {
    return folder_.norm_adds_one && name.ends_with("norm.weight") && !name.ends_with(".mixer.norm.weight");
  }
  static bool is_of_group(const std::string& name) {
    return name.find(".mixer.query_key_value.") != name.npos || name.find(".mixer.gate.") != name.npos;
  }
  static void require_floats(const std::string& name, const WeightType& type) {
    if (type.dtype != f32 && type.dtype != f16 && type.dtype != bf16)
      fail(ErrorCode::unsupported, "weight '", name, "' is of ", type.dtype, "; weights are f32, f16 or bf16");
  }
  Tensor in_folder(const std::string& name, const Dims& dims) const {
    const WeightType type = files_->type(name);
    if (type.group == 0) {
      require_floats(name, type);
      return files_->value(name, {type.dtype, dims});
    }
    constexpr std::string_view kWeight = ".weight";
    if (!name.ends_with(kWeight) || dims.size() < 2)
      fail(ErrorCode::unsupported, "weight '", name, "' is packed as codes of ", type.dtype,
           "; here it must be numbers: only matrices of products may be packed so");
    const std::string module = name.substr(0, name.size() - kWeight.size());
    Dims turned = dims;
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    Dims parts = turned;
    Dim& in = parts[parts.size() - 2];
    in = (in.value() + type.group - 1) / type.group;
    PackedWeight w{type, files_->value(name, {type.dtype, turned}), files_->value(module + ".scales", {f32, parts})};
    if (type.has_zero_points) w.zero_points = files_->value(module + ".zero_points", {u8, parts});
    if (type.has_biases) w.biases = files_->value(module + ".biases", {f32, parts});
    if (type.table > 0) w.table = files_->value(module + ".table", {f32, {type.table}});
    if (type.has_order) w.order = files_->value(module + ".order", {i32, Dims(turned.begin(), turned.end() - 1)});
    if (dequantize_) return floats_of_packed(w, *dequantize_);
    return blocks_of_packed(w, files_->module_names(module).back());
  }

  /// Rows of each head: the first half and the second one, turn by turn.
  Tensor neighbours(const Tensor& t, int64_t heads) const {
    const auto width = static_cast<size_t>(t.shape()[0] / heads);
    return with_rows(t, [&](size_t i) {
      const size_t head = i / width, within = i % width;
      return head * width + within % 2 * (width / 2) + within / 2;
    });
  }

  /// Of the matrix whose rows are, group by group, queries, keys, values and gates: the first three, or the gates.
  static std::string group_source(const std::string& name) {
    return name.substr(0, name.find(".mixer.")) + ".mixer.in" + name.substr(name.rfind('.'));
  }
  Dims group_dims() const {
    const RecurrentConfig& r = gguf_.recurrent;
    return {r.groups * (2 * r.state + 2 * (r.inner / r.groups)), gguf_.hidden};
  }
  Tensor of_group(const std::string& name, bool is_first) const {
    const RecurrentConfig& r = gguf_.recurrent;
    const int64_t values = r.inner / r.groups, group = 2 * r.state + 2 * values;
    Tensor all = in_folder(group_source(name), group_dims());
    const auto part = [&](int64_t i, int64_t first, int64_t size) { return i / size * group + first + i % size; };
    if (!is_first) return some_rows(all, r.inner, [&](int64_t i) { return part(i, 2 * r.state + values, values); });
    const int64_t keys = r.groups * r.state;
    return some_rows(all, 2 * keys + r.inner, [&](int64_t i) {
      if (i < keys) return part(i, 0, r.state);
      if (i < 2 * keys) return part(i - keys, r.state, r.state);
      return part(i - 2 * keys, 2 * r.state, values);
    });
  }

  const std::unique_ptr<const WeightFiles> files_;
  const LanguageModelConfig folder_, gguf_;
  const std::optional<DType> dequantize_;
};

/// Whether llama.cpp wants f32, whatever the folder has.
bool is_always_f32(const std::string& tensor, size_t rank) {
  return rank <= 1 || !tensor.ends_with(".weight") ||
         ends_with_any(tensor, {"_norm.weight", "ssm_conv1d.weight", "position_embd.weight", "ffn_gate_inp.weight",
                                "ffn_gate_inp_shexp.weight"});
}

/// As the file has it: what Mamba 2 has of each head or group is a matrix.
Shape shape_in_file(Shape shape, const std::string& param, const LanguageModelConfig& c) {
  if (c.architecture != "mamba2") return shape;
  if (param.ends_with(".mixer.decay") || param.ends_with(".mixer.skip")) return {shape.at(0), 1};
  if (param.ends_with(".mixer.norm.weight")) return {c.recurrent.groups, c.recurrent.inner / c.recurrent.groups};
  return shape;
}

using LazyTensors = std::vector<std::pair<std::string, LazyTensor>>;

/// Tensors that are to be written, for the reader of descriptions.
class Listed final : public TensorSource {
 public:
  explicit Listed(const LazyTensors& tensors) {
    for (const auto& [name, tensor] : tensors) tensors_.emplace(name, &tensor);
  }
  std::optional<Found> find(const std::string& name) const override {
    const auto at = tensors_.find(name);
    if (at == tensors_.end()) return std::nullopt;
    return Found{at->second->dtype(), at->second->shape()};
  }
  Tensor tensor(const std::string& name) const override { return tensors_.at(name)->make(); }
  std::string place() const override { return "what is to be written"; }

 private:
  std::map<std::string, const LazyTensor*> tensors_;
};

LazyTensors tensors_of(const std::shared_ptr<const Weights>& weights, const LanguageModelConfig& gguf) {
  LazyTensors all;
  for (auto& [name, tensor] : tensors_of_config(gguf)) all.emplace_back(name, std::move(tensor));
  const auto names = gguf_names_of(gguf.architecture);
  const Graph graph = decoder_graph(gguf);
  for (const Ref& ref : graph.params()) {
    const std::string& param = graph.node(ref).name;
    const Dims& dims = graph.type(ref).dims;
    std::string name = name_in_file(names, param).name;
    DType dtype = weights->checked_dtype(param, dims);
    const Shape shape = shape_in_file(shape_of(dims), param, gguf);
    if (is_always_f32(name, shape.size()) && !is_block(dtype)) dtype = f32;
    all.emplace_back(std::move(name), LazyTensor(dtype, shape, [weights, param, dims, dtype, shape] {
                       const Tensor t = weights->value(param, dims).reshaped(shape);
                       return dtype == f32 ? as_floats(t) : t;
                     }));
  }
  const std::vector<std::string> unread = weights->files().unread();
  weights->files().release();
  if (!unread.empty())
    fail(ErrorCode::unsupported, "the model has ", unread.size(), " tensors that its configuration has no use for: '",
         unread[0], "'", unread.size() > 1 ? ", ..." : "");
  return all;
}

// ---- general.* ----

/// The number that llama.cpp has for the kind of most matrices; nullopt for a kind that it has none for.
std::optional<uint32_t> file_type_of(const LazyTensors& tensors) {
  std::map<DType, size_t> elements;
  for (const auto& [name, t] : tensors)
    if (t.rank() >= 2 && !is_always_f32(name, t.rank())) elements[t.dtype()] += t.element_count();
  if (elements.empty()) return 0;
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  switch (most->first) {
    case f32: return 0;
    case f16: return 1;
    case q4_0: return 2;
    case q4_1: return 3;
    case q8_0: return 7;
    case q5_0: return 8;
    case q5_1: return 9;
    case bf16: return 32;
    default: return std::nullopt;
  }
}

/// "494M": two digits at least.
std::string count_text(uint64_t count) {
  const double n = static_cast<double>(count);
  const auto [divisor, unit] = n > 1e12  ? std::pair(1e12, "T")
                               : n > 1e9 ? std::pair(1e9, "B")
                               : n > 1e6 ? std::pair(1e6, "M")
                                         : std::pair(1e3, "K");
  const double scaled = n / divisor;
  char text[32];
  const int digits = std::nearbyint(scaled) == 0 ? 2 : std::nearbyint(scaled) < 10 ? 1 : 0;
  std::snprintf(text, sizeof text, "%.*f%s", digits, scaled, unit);
  return text;
}
/// "8B", of experts "8x7B".
std::string size_label(const LazyTensors& tensors) {
  uint64_t shared = 0, expert = 0, experts = 0, matrices = 0;
  for (const auto& [name, t] : tensors) {
    const bool is_stacked = name.find("_exps.") != name.npos && t.rank() == 3;
    if (!is_stacked) {
      shared += t.element_count();
      continue;
    }
    expert += t.element_count() / static_cast<uint64_t>(t.shape()[0]);
    experts += static_cast<uint64_t>(t.shape()[0]), ++matrices;
  }
  const std::string size = count_text(shared + expert);
  return matrices ? text_of(experts / matrices, "x", size) : size;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
/// The name of the folder as a title: "my-model-0.5b" becomes "My Model 0.5b".
std::string title_of(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = fs::weakly_canonical(folder, error);
  if (error) path = folder;
  std::string name = path.filename().string(), title, word;
  if (name.empty()) name = "model";
  const auto flush = [&] {
    if (word.empty()) return;
    const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
    const bool is_lower =
        std::none_of(word.begin(), word.end(), is_upper) && std::any_of(word.begin(), word.end(), is_letter);
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const bool is_version = is_digit(word[0]) || (word.size() > 1 && word[0] == 'v' &&
                                                  word.find_first_not_of("0123456789.", 1) == word.npos);
    if (is_lower && !is_version)
      for (size_t i = 0; i < word.size(); ++i)
        if (is_letter(word[i]) && (i == 0 || !is_letter(word[i - 1]))) word[i] = static_cast<char>(word[i] - 'a' + 'A');
    title += (title.empty() ? "" : " ") + word;
    word.clear();
  };
  for (const char c : name) {
    if (c == '-' || c == ' ' || c == '\t') flush();
    else word += c;
  }
  flush();
  return title.empty() ? name : title;
}

GgufMetadata general_metadata(const std::string& folder, const SpecialTokens& special, const LazyTensors& tensors) {
  GgufMetadata all;
  all.emplace_back("general.type", std::string("model"));
  const LanguageModel::Advice& advice = special.advice;
  const auto add = [&](const char* key, std::optional<double> v) {
    if (v) all.emplace_back(text_of("general.sampling.", key), static_cast<float>(*v));
  };
  if (advice.top_k && std::in_range<int32_t>(*advice.top_k))
    all.emplace_back("general.sampling.top_k", static_cast<int32_t>(*advice.top_k));
  add("top_p", advice.top_p), add("min_p", advice.min_p), add("temp", advice.temperature);
  add("penalty_repeat", advice.repetition_penalty);
  all.emplace_back("general.name", title_of(folder));
  all.emplace_back("general.size_label", size_label(tensors));
  if (const auto type = file_type_of(tensors)) all.emplace_back("general.file_type", *type);
  all.emplace_back("general.quantization_version", uint32_t{2});
  return all;
}

/// After some tensors became others. "general.file_type", the kind of most of them, is left out, which makes readers
/// look at the tensors; a file with blocks has to have "general.quantization_version".
void describe_changes(GgufModel& model, const std::map<std::pair<DType, DType>, size_t>& changes) {
  if (changes.empty()) return;
  std::vector<std::string> notes;
  for (const auto& [from_to, count] : changes)
    notes.push_back(text_of(count, count == 1 ? " tensor of " : " tensors of ", name_of(from_to.first), " became ",
                            name_of(from_to.second)));
  model.notes.insert(model.notes.begin(), notes.begin(), notes.end());
  std::erase_if(model.metadata, [](const auto& each) { return each.first == "general.file_type"; });
  const char* version = "general.quantization_version";
  for (const auto& each : model.tensors)
    if (is_block(each.second.dtype()) && !find_value(model.metadata, version))
      model.metadata.emplace_back(version, uint32_t{2});
}

void append(GgufMetadata& to, GgufMetadata more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace
}  // namespace language::gguf_model

GgufModel gguf_model_of_folder(const std::string& folder, const GgufModelOptions& options) {
  using namespace language;              // NOLINT(google-build-using-namespace)
  using namespace language::gguf_model;  // NOLINT(google-build-using-namespace)
  return with_context([&] { return text_of("converting the language model '", folder, "' to GGUF"); },
                      [&] {
                        if (options.dequantize && *options.dequantize != f32 && *options.dequantize != f16 &&
                            *options.dequantize != bf16)
                          fail(ErrorCode::invalid_argument,
                               "packed weights are dequantized to f32, f16 or bf16, not to ", *options.dequantize);
                        const std::string file = (std::filesystem::path(folder) / "config.json").string();
                        const auto config = LanguageModelConfig::from_json(text_of_file(file, kMostConfigBytes));
                        const GgufArchitecture* architecture = gguf_architecture_of_folder(config.architecture);
                        if (!architecture)
                          fail(ErrorCode::unsupported, "'model_type' in config.json is '", config.architecture,
                               "', for which GGUF has no architecture here");
                        const LanguageModelConfig gguf = config_as_in_gguf(config, *architecture);
                        GgufMetadata described = metadata_of_config(gguf, *architecture);
                        GgufModel model;
                        model.tensors =
                            tensors_of(std::make_shared<const Weights>(open_folder(folder, config, options.access),
                                                                       config, gguf, options.dequantize),
                                       gguf);
                        const SpecialTokens special = special_tokens_of_folder(folder, config.vocabulary);
                        model.metadata.emplace_back("general.architecture", std::string(architecture->name));
                        append(model.metadata, general_metadata(folder, special, model.tensors));
                        append(model.metadata, std::move(described));
                        require_same_model(gguf, config_from_gguf(model.metadata, Listed(model.tensors)));
                        model.notes = unread_by_llama_cpp(gguf, *architecture);
                        add_vocabulary(model, folder, config.vocabulary, special);
                        return model;
                      });
}

void dequantize_blocks(GgufModel& model, DType dtype) {
  if (dtype != f32 && dtype != f64 && dtype != f16 && dtype != bf16)
    fail(ErrorCode::invalid_argument, "blocks are dequantized to f32, f64, f16 or bf16, not to ", dtype);
  std::map<std::pair<DType, DType>, size_t> changes;
  for (auto& [name, x] : model.tensors) {
    if (!is_block(x.dtype())) continue;
    ++changes[{x.dtype(), dtype}];
    x = x.changed(dtype, x.shape(), [dtype](const Tensor& t) { return dequantized(t, dtype); });
  }
  language::gguf_model::describe_changes(model, changes);
}

void quantize_matrices(GgufModel& model, DType kind) {
  if (!is_block(kind) || !block_encoder(kind))
    fail(ErrorCode::unsupported, "matrices are quantized to kinds of blocks that there is an encoder for, not to ",
         kind);
  // As llama.cpp does: vectors (norms, biases) stay as they are, and what is no product though it has two dims.
  const auto is_product = [](const std::string& name) {
    for (const char* part : {"_norm.weight", "ssm_conv1d", "ffn_gate_inp", "position_embd"})
      if (name.find(part) != name.npos) return false;
    return !name.ends_with(".ssm_a") && !name.ends_with(".ssm_d");
  };
  std::map<std::pair<DType, DType>, size_t> changes;
  for (auto& [name, x] : model.tensors) {
    if (!is_float(x.dtype()) || x.rank() < 2 || !is_product(name) || x.shape().back() % info(kind).block_elements != 0)
      continue;
    ++changes[{x.dtype(), kind}];
    x = x.changed(kind, x.shape(), [kind](const Tensor& t) { return quantized(t, kind); });
  }
  language::gguf_model::describe_changes(model, changes);
}

void write_gguf_model(const std::string& path, const GgufModel& model, const GgufWriteOptions& options) {
  stream_gguf(path, model.tensors, model.metadata, options);
}

}  // namespace rlx
