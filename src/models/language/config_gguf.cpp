// A decoder's description from the metadata of a GGUF file, as llama.cpp reads them (src/llama-model.cpp and
// src/models): what is left out has its defaults. Neighbours: config_json.cpp; config_gguf_writer.cpp says the same the
// other way round.
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "models/language/config_gguf.h"
#include "models/language/config_gguf_keys.h"
#include "models/language/limits.h"

namespace rlx {
namespace language::config_gguf {  // a unity build puts both configurations into one file
namespace {

/// The keys below "llama." or whatever the architecture is, each checked as it is read.
class Fields {
 public:
  Fields(const GgufMetadata& metadata, const TensorSource& tensors, std::string prefix)
      : metadata_(metadata), tensors_(tensors), prefix_(std::move(prefix)) {}

  const GgufValue* find(std::string_view key) const { return find_value(metadata_, name(key)); }
  std::string name(std::string_view key) const { return prefix_ + std::string(key); }

  int64_t size(std::string_view key, int64_t least, int64_t most) const {
    const GgufValue* value = find(key);
    if (!value) fail(ErrorCode::parse, "the metadata have no '", name(key), "'");
    return checked_size(key, *value, least, most);
  }
  int64_t size_or(std::string_view key, int64_t otherwise, int64_t least, int64_t most) const {
    const GgufValue* value = find(key);
    return value ? checked_size(key, *value, least, most) : otherwise;
  }
  /// A number, or a list with the same number for each of the layers.
  int64_t size_of_layers(std::string_view key, std::optional<int64_t> otherwise, int64_t layers, int64_t most) const {
    const GgufValue* value = find(key);
    if (!value && otherwise) return *otherwise;
    const auto* list = value ? std::get_if<GgufArray>(value) : nullptr;
    if (!list) return size(key, 1, most);
    std::optional<int64_t> all;
    if (static_cast<int64_t>(list->size()) < layers)
      fail(ErrorCode::parse, "'", name(key), "' has ", list->size(), " items for ", layers, " layers");
    std::visit(
        [&](const auto& items) {
          using Item = typename std::decay_t<decltype(items)>::value_type;
          if constexpr (std::is_integral_v<Item> && !std::is_same_v<Item, bool>) {
            for (int64_t i = 0; i < layers; ++i) {
              const int64_t v = checked_size(key, GgufValue(items[static_cast<size_t>(i)]), 1, most);
              if (all && *all != v)
                fail(ErrorCode::unsupported, "'", name(key), "' differs from layer to layer (", *all, ", ", v,
                     "); the layers here are alike");
              all = v;
            }
          } else {
            fail(ErrorCode::parse, "'", name(key), "' is a list of something else than whole numbers");
          }
        },
        list->items);
    if (!all) fail(ErrorCode::parse, "'", name(key), "' is an empty list");
    return *all;
  }
  std::optional<double> number(std::string_view key, double least, double most) const {
    const GgufValue* value = find(key);
    if (!value) return std::nullopt;
    double v = std::numeric_limits<double>::quiet_NaN();
    if (const auto* f = std::get_if<float>(value)) v = static_cast<double>(*f);
    else if (const auto* d = std::get_if<double>(value)) v = *d;
    else fail(ErrorCode::parse, "'", name(key), "' is of type ", gguf_type_name(*value), ", but should be an f32");
    if (!(v >= least && v <= most))
      fail(ErrorCode::parse, "'", name(key), "' is ", v, "; it must be ", least, " to ", most);
    return v;
  }
  double number_or(std::string_view key, double otherwise, double least, double most) const {
    return number(key, least, most).value_or(otherwise);
  }
  std::string text_or(std::string_view key, std::string otherwise) const {
    const GgufValue* value = find(key);
    if (!value) return otherwise;
    const auto* text = std::get_if<std::string>(value);
    if (!text)
      fail(ErrorCode::parse, "'", name(key), "' is of type ", gguf_type_name(*value), ", but should be a string");
    return *text;
  }
  bool flag_or(std::string_view key, bool otherwise) const {
    const GgufValue* value = find(key);
    if (!value) return otherwise;
    const auto* flag = std::get_if<bool>(value);
    if (!flag)
      fail(ErrorCode::parse, "'", name(key), "' is of type ", gguf_type_name(*value), ", but should be a bool");
    return *flag;
  }
  /// A list with a flag for each of the layers, or for more; nullopt if there is no such key.
  std::optional<std::vector<bool>> flags(std::string_view key, int64_t layers) const {
    const GgufValue* value = find(key);
    if (!value) return std::nullopt;
    const auto* list = std::get_if<GgufArray>(value);
    std::optional<std::vector<bool>> all;
    if (list)
      std::visit(
          [&](const auto& items) {
            using Item = typename std::decay_t<decltype(items)>::value_type;
            if constexpr (std::is_integral_v<Item>) all.emplace(items.begin(), items.end());
          },
          list->items);
    if (!all || static_cast<int64_t>(all->size()) < layers)
      fail(ErrorCode::parse, "'", name(key), "' is ", list ? text_of("a list of ", list->size(), " items") : "no list",
           ", but should be a flag for each of ", layers, " layers");
    return all;
  }
  bool has_tensor(const std::string& tensor) const { return tensors_.find(tensor).has_value(); }
  /// A vector of factors, as numbers; empty if there is no such tensor.
  std::vector<double> factors(const std::string& tensor) const {
    const auto entry = tensors_.find(tensor);
    if (!entry) return {};
    if (entry->dtype != f32 || entry->shape.size() != 1 || entry->shape[0] > kMostHeadDim)
      fail(ErrorCode::parse, "tensor '", tensor, "' is ", type_of(*entry),
           ", but should be a vector of f32 with a factor for each pair of a head");
    const Tensor t = tensors_.tensor(tensor);
    return {t.values<float>().begin(), t.values<float>().end()};
  }

 private:
  int64_t checked_size(std::string_view key, const GgufValue& value, int64_t least, int64_t most) const {
    return std::visit(
        [&](const auto& v) -> int64_t {
          using V = std::decay_t<decltype(v)>;
          if constexpr (std::is_integral_v<V> && !std::is_same_v<V, bool>) {
            const bool fits = std::in_range<int64_t>(v);
            if (!fits || static_cast<int64_t>(v) < least || static_cast<int64_t>(v) > most)
              fail(ErrorCode::parse, "'", name(key), "' is ", +v, "; it must be ", least, " to ", most);
            return static_cast<int64_t>(v);
          } else {
            fail(ErrorCode::parse, "'", name(key), "' is of type ", gguf_type_name(value),
                 ", but should be a whole number");
          }
        },
        value);
  }
  const GgufMetadata& metadata_;
  const TensorSource& tensors_;
  std::string prefix_;
};

constexpr double kMost = 1e30;

void fill_rope(LanguageModelConfig& c, const Fields& f) {
  RopeConfig& rope = c.rope;
  rope.theta = f.number_or("rope.freq_base", 10000, 1 + 1e-9, kMost);
  rope.dims = f.size_or("rope.dimension_count", c.head_dim, 1, kMostHeadDim);
  const std::string kind = f.text_or("rope.scaling.type", "linear");
  const double factor = f.number_or("rope.scaling.factor", f.number_or("rope.scale_linear", 0, 0, kMost), 0, kMost);
  rope.factor = factor == 0 ? 1 : factor;
  rope.original_context = f.size_or("rope.scaling.original_context_length", c.context, 1, kMostContext);
  rope.attention_factor = f.number_or("rope.scaling.attn_factor", 1, 1e-6, 1e6);
  rope.frequency_divisors = f.factors("rope_freqs.weight");
  rope.long_factors = f.factors("rope_factors_long.weight");
  rope.short_factors = f.factors("rope_factors_short.weight");
  if (!rope.long_factors.empty() || !rope.short_factors.empty()) {
    rope.scaling = RopeScaling::longrope;
    if (!rope.frequency_divisors.empty())
      fail(ErrorCode::unsupported, "there are both 'rope_freqs.weight' and 'rope_factors_",
           rope.long_factors.empty() ? "short" : "long", ".weight'; only one kind of factors counts");
    if (kind == "yarn" || (kind != "none" && rope.factor != 1))
      fail(ErrorCode::unsupported, "'", f.name("rope.scaling.type"), "' is '", shown_name(kind), "' with a factor of ",
           rope.factor, ", but there are factors of longrope, which stand alone");
  } else if (kind == "linear" || kind == "none") {
    rope.scaling = rope.factor == 1 || kind == "none" ? RopeScaling::plain : RopeScaling::linear;
  } else if (kind == "yarn") {
    rope.scaling = RopeScaling::yarn;
    rope.attention_factor *= yarn_attention_factor(rope.factor);
    rope.beta_fast = f.number_or("rope.scaling.yarn_beta_fast", 32, 1e-6, 1e9);
    rope.beta_slow = f.number_or("rope.scaling.yarn_beta_slow", 1, 1e-6, 1e9);
  } else {
    fail(ErrorCode::unsupported, "'", f.name("rope.scaling.type"), "' is '", shown_name(kind),
         "'; there are none, linear, yarn, and longrope by its tensors");
  }
}

/// Which layers have the window: a list of flags, or one in `period` has none.
void fill_window(LanguageModelConfig& c, const Fields& f, std::optional<int64_t> otherwise, int64_t period) {
  c.window = f.size_or("attention.sliding_window", otherwise.value_or(0), 0, kMostContext);
  const GgufValue* pattern = f.find("attention.sliding_window_pattern");
  const bool is_list = pattern && std::holds_alternative<GgufArray>(*pattern);
  const auto flags = is_list ? f.flags("attention.sliding_window_pattern", c.layers) : std::nullopt;
  if (pattern && !is_list) period = f.size("attention.sliding_window_pattern", 0, kMostLayers);
  for (int64_t i = 0; i < c.layers; ++i) {
    const bool has_window = flags ? bool((*flags)[static_cast<size_t>(i)]) : period == 0 || i % period < period - 1;
    c.windowed.push_back(c.window > 0 && has_window);
  }
}
/// As llama.cpp's Gemma 2 and 3: the largest of both divide by the width of all heads.
void fill_gemma_scale(LanguageModelConfig& c, int64_t layers_of_27b) {
  const double width = static_cast<double>(c.layers == layers_of_27b ? c.hidden / c.heads : c.head_dim);
  c.attention_scale = 1 / std::sqrt(width);
}

/// The positions of layers with a window: `otherwise`, but for a base of their own.
void fill_local_rope(LanguageModelConfig& c, const Fields& f, double theta, RopeConfig otherwise) {
  otherwise.theta = f.number_or("rope.freq_base_swa", theta, 1 + 1e-9, kMost);
  c.local_rope = std::move(otherwise);
}

void fill_llama(LanguageModelConfig& c, const Fields& f) {
  c.rope.style = RopeStyle::gptj;  // the converter turns the rows of queries and keys accordingly
  fill_window(c, f, {}, 0);
}
void fill_qwen2(LanguageModelConfig& c, const Fields& f) { fill_window(c, f, {}, 0); }
void fill_qwen3(LanguageModelConfig& c, const Fields& f) {
  c.query_key_norm = true;
  fill_window(c, f, {}, 0);
}
void fill_qwen3moe(LanguageModelConfig& c, const Fields& f) {
  fill_qwen3(c, f);
  c.experts = f.size("expert_count", 1, kMostExperts);
  c.experts_used = f.size("expert_used_count", 1, kMostExperts);
  c.expert_intermediate = f.size("expert_feed_forward_length", 1, kMostIntermediate);
  c.normalize_experts = true;
  for (int64_t i = 0; i < c.layers; ++i) c.sparse.push_back(f.has_tensor(text_of("blk.", i, ".ffn_gate_inp.weight")));
}
void fill_qwen3next(LanguageModelConfig& c, const Fields& f) {
  fill_qwen3moe(c, f);
  c.gated_attention = true;  // the norms' weights have their 1 already
  c.shared_expert_intermediate = f.size("expert_shared_feed_forward_length", 1, kMostIntermediate);
  RecurrentConfig& r = c.recurrent;
  r.inner = f.size("ssm.inner_size", 1, kMostWidth);
  r.state = f.size("ssm.state_size", 1, kMostHeadDim);
  r.kernel = f.size("ssm.conv_kernel", 2, kMostKernel);
  r.heads = f.size("ssm.time_step_rank", 1, kMostHeads);
  r.groups = f.size("ssm.group_count", 1, kMostHeads);
  r.decay_is_log = r.convolution_bias = false;
  // Before, the converter left the four parts in one tensor.
  r.is_grouped = f.has_tensor("blk.0.ssm_in.weight");
  const auto recurrent = f.flags("attention.recurrent_layers", c.layers);
  const int64_t period = f.size_or("full_attention_interval", 4, 1, kMostLayers);
  for (int64_t i = 0; i < c.layers; ++i) {
    const bool is_recurrent = recurrent ? bool((*recurrent)[static_cast<size_t>(i)]) : (i + 1) % period != 0;
    c.mixers.push_back(is_recurrent ? TokenMixer::gated_delta_net : TokenMixer::attention);
  }
}
void fill_gemma(LanguageModelConfig& c, const Fields&) {
  c.activation = Activation::gelu_tanh;
  c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));  // the norms' weights have their 1 already
  c.windowed.assign(static_cast<size_t>(c.layers), false);
}
void fill_gemma2(LanguageModelConfig& c, const Fields& f) {
  fill_gemma(c, f);
  c.windowed.clear();
  c.post_norms = true;
  fill_window(c, f, 4096, 2);
  c.attention_softcap = f.number_or("attn_logit_softcapping", 50, 1e-30, kMost);
  c.logits_softcap = f.number_or("final_logit_softcapping", 30, 1e-30, kMost);
  if (f.find("rope.freq_base_swa")) fill_local_rope(c, f, c.rope.theta, c.rope);
  fill_gemma_scale(c, 46);
}
void fill_gemma3(LanguageModelConfig& c, const Fields& f) {
  fill_gemma(c, f);
  c.windowed.clear();
  c.post_norms = c.query_key_norm = true;
  fill_window(c, f, {}, 6);
  if (const double cap = f.number_or("final_logit_softcapping", 0, 0, kMost); cap > 0) c.logits_softcap = cap;
  fill_local_rope(c, f, 10000,
                  {.dims = c.rope.dims, .attention_factor = f.number_or("rope.scaling.attn_factor", 1, 1e-6, 1e6)});
  fill_gemma_scale(c, 62);
}
void fill_phi3(LanguageModelConfig& c, const Fields& f) {
  c.fused_query_key_value = c.fused_gate_up = true;
  fill_window(c, f, {}, 0);
}
void fill_gpt2(LanguageModelConfig& c, const Fields&) {
  c.activation = Activation::gelu_tanh;
  c.layer_norm = c.learned_positions = c.fused_query_key_value = true;
  c.gated = false;
  c.windowed.assign(static_cast<size_t>(c.layers), false);
}

/// What Mamba and Mamba 2 share. The converter writes the decay itself, not its logarithm.
void fill_recurrent(LanguageModelConfig& c, const Fields& f, TokenMixer mixer) {
  c.has_feed_forward = false;
  c.mixers.assign(static_cast<size_t>(c.layers), mixer);
  c.windowed.assign(static_cast<size_t>(c.layers), false);
  RecurrentConfig& r = c.recurrent;
  r.inner = f.size("ssm.inner_size", 1, kMostWidth);
  r.state = f.size("ssm.state_size", 1, kMostState);
  r.kernel = f.size("ssm.conv_kernel", 2, kMostKernel);
  r.decay_is_log = false;
  r.bias = f.has_tensor("blk.0.ssm_in.bias");
  r.convolution_bias = f.has_tensor("blk.0.ssm_conv1d.bias");
}
void fill_mamba(LanguageModelConfig& c, const Fields& f) {
  fill_recurrent(c, f, TokenMixer::mamba);
  c.recurrent.step_rank = f.size("ssm.time_step_rank", 1, kMostWidth);
  if (f.flag_or("ssm.dt_b_c_rms", false))
    fail(ErrorCode::unsupported, "'", f.name("ssm.dt_b_c_rms"), "' is true: norms of Falcon Mamba, which is not built");
}
void fill_mamba2(LanguageModelConfig& c, const Fields& f) {
  fill_recurrent(c, f, TokenMixer::mamba2);
  c.recurrent.heads = f.size("ssm.time_step_rank", 1, kMostWidth);
  c.recurrent.groups = f.size("ssm.group_count", 1, kMostWidth);
}

struct Architecture {
  GgufArchitecture described;
  void (*fill)(LanguageModelConfig&, const Fields&);
};
constexpr Architecture kArchitectures[] = {
    {{.name = "llama",
      .folders = {"llama", "mistral"},
      .has_output_bias = true,
      .has_feed_forward_bias = true,
      .has_divisors = true,
      .has_longrope = true,
      .turns_neighbours = true},
     fill_llama},
    {{.name = "qwen2", .folders = {"qwen2"}, .has_own_head_dim = false}, fill_qwen2},
    {{.name = "qwen3", .folders = {"qwen3"}}, fill_qwen3},
    {{.name = "qwen3moe", .folders = {"qwen3_moe"}}, fill_qwen3moe},
    {{.name = "gemma", .folders = {"gemma"}, .has_output = false}, fill_gemma},
    {{.name = "gemma2", .folders = {"gemma2"}, .has_output = false, .reads_window = true, .window_period = 2},
     fill_gemma2},
    {{.name = "gemma3", .folders = {"gemma3_text"}, .reads_window = true, .window_period = 6}, fill_gemma3},
    {{.name = "phi3", .folders = {"phi3"}, .has_longrope = true, .has_own_head_dim = false}, fill_phi3},
    {{.name = "gpt2",
      .folders = {"gpt2"},
      .has_output_bias = true,
      .has_feed_forward_bias = true,
      .has_own_head_dim = false},
     fill_gpt2},
    {{.name = "mamba", .folders = {"mamba"}, .has_attention = false}, fill_mamba},
    {{.name = "mamba2", .folders = {"mamba2"}, .has_attention = false}, fill_mamba2},
    {{.name = "qwen3next", .folders = {"qwen3_next"}}, fill_qwen3next},
};

/// Sizes of attention and of the feed-forward.
void fill_attention(LanguageModelConfig& c, const Fields& f) {
  c.heads = f.size_of_layers("attention.head_count", {}, c.layers, kMostHeads);
  c.kv_heads = f.size_of_layers("attention.head_count_kv", c.heads, c.layers, kMostHeads);
  c.intermediate = f.size_of_layers("feed_forward_length", {}, c.layers, kMostIntermediate);
  if (!f.find("attention.key_length") && c.hidden % c.heads != 0)
    fail(ErrorCode::parse, "an embedding_length of ", c.hidden, " does not divide into ", c.heads,
         " heads, and there is no '", f.name("attention.key_length"), "'");
  c.head_dim = f.size_or("attention.key_length", c.hidden / c.heads, 1, kMostHeadDim);
  if (const int64_t v = f.size_or("attention.value_length", c.head_dim, 1, kMostHeadDim); v != c.head_dim)
    fail(ErrorCode::unsupported, "'", f.name("attention.value_length"), "' is ", v, ", but keys have ", c.head_dim,
         " elements a head; they are alike here");
}

LanguageModelConfig config_of(const Architecture& a, const GgufMetadata& metadata, const TensorSource& tensors) {
  const GgufArchitecture& described = a.described;
  const Fields f(metadata, tensors, std::string(described.name) + ".");
  LanguageModelConfig c;
  c.architecture = described.name;
  const auto table = tensors.find("token_embd.weight");
  if (!table || table->shape.size() != 2)
    fail(ErrorCode::parse,
         table ? "tensor 'token_embd.weight' is no matrix" : "there is no tensor 'token_embd.weight'");
  c.vocabulary = table->shape[0];
  if (c.vocabulary < 1 || c.vocabulary > kMostVocabulary)
    fail(ErrorCode::parse, "tensor 'token_embd.weight' has ", c.vocabulary, " rows; it must be 1 to ", kMostVocabulary);
  c.layers = f.size("block_count", 1, kMostLayers);
  c.hidden = f.size("embedding_length", 1, kMostWidth);
  c.context = f.size("context_length", 1, kMostContext);
  if (described.has_attention) fill_attention(c, f);
  const std::string_view epsilon = gguf_epsilon_key(described);
  const auto given = f.number(epsilon, 0, 1);
  if (!given) fail(ErrorCode::parse, "the metadata have no '", f.name(epsilon), "'");
  c.norm_epsilon = *given;
  c.tied_embeddings = !f.has_tensor("output.weight");
  c.query_key_value_bias = f.has_tensor("blk.0.attn_q.bias") || f.has_tensor("blk.0.attn_qkv.bias");
  c.attention_output_bias = f.has_tensor("blk.0.attn_output.bias");
  c.feed_forward_bias = f.has_tensor("blk.0.ffn_down.bias");
  if (described.has_attention) fill_rope(c, f);
  a.fill(c, f);
  check_sizes(c, "the metadata");
  check_unread_keys(metadata, c);
  return c;
}

/// The tensors of a file.
class TensorsOfFile final : public TensorSource {
 public:
  explicit TensorsOfFile(const GgufFile& file) : file_(file) {}
  std::optional<Found> find(const std::string& tensor) const override {
    const GgufFile::Entry* entry = file_.find(tensor);
    if (!entry) return std::nullopt;
    return Found{entry->dtype, entry->shape};
  }
  Tensor tensor(const std::string& tensor) const override { return file_.tensor(tensor); }
  std::string place() const override { return "'" + file_.paths().at(0) + "'"; }

 private:
  const GgufFile& file_;
};

}  // namespace
}  // namespace language::config_gguf

const language::GgufArchitecture* language::gguf_architecture(std::string_view name) {
  for (const config_gguf::Architecture& a : config_gguf::kArchitectures)
    if (a.described.name == name) return &a.described;
  return nullptr;
}

const language::GgufArchitecture* language::gguf_architecture_of_folder(std::string_view model_type) {
  for (const config_gguf::Architecture& a : config_gguf::kArchitectures)
    for (const std::string_view folder : a.described.folders)
      if (folder == model_type) return &a.described;
  return nullptr;
}

std::string_view language::gguf_epsilon_key(const GgufArchitecture& a) {
  return a.name == "gpt2" ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
}

LanguageModelConfig language::config_from_gguf(const GgufMetadata& metadata, const TensorSource& tensors) {
  const GgufValue* value = find_value(metadata, "general.architecture");
  const auto* name = value ? std::get_if<std::string>(value) : nullptr;
  if (!name)
    fail(ErrorCode::parse,
         value ? "'general.architecture' is no string" : "the metadata have no 'general.architecture'");
  std::string known;
  for (const config_gguf::Architecture& a : config_gguf::kArchitectures) {
    if (a.described.name == *name) return config_of(a, metadata, tensors);
    known += text_of(known.empty() ? "" : ", ", a.described.name);
  }
  fail(ErrorCode::unsupported, "'general.architecture' is '", shown_name(*name), "'; there are ", known);
}

LanguageModelConfig LanguageModelConfig::from_gguf(const GgufFile& file) {
  return language::config_from_gguf(file.metadata(), language::config_gguf::TensorsOfFile(file));
}

}  // namespace rlx
