// A decoder's description from config.json, as the package `transformers` reads it: names of keys, what is left out,
// and what each architecture makes of it. Neighbour: config_gguf.cpp.
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json_tree.h"
#include "models/language/limits.h"

namespace rlx {
namespace language::config_json {  // a unity build puts both configurations into one file
namespace {

constexpr const char* kFile = "config.json";

/// The members of an object, each checked as it is read. A null is no member, as in Python's dictionaries of options.
class Keys {
 public:
  explicit Keys(const JsonTree& json, std::string within = {}) : json_(json), within_(std::move(within)) {}

  const JsonTree* find(std::string_view key) const {
    const JsonTree* found = json_.find(key);
    return found && found->is_null() ? nullptr : found;
  }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// There, and null: some keys then mean "none" and not their default.
  bool is_null(std::string_view key) const { return json_.find(key) && json_.find(key)->is_null(); }
  std::string name(std::string_view key) const { return text_of("'", within_, key, "' in ", kFile); }

  int64_t size(std::string_view key, int64_t least, int64_t most) const {
    const JsonTree* found = find(key);
    if (!found) fail(ErrorCode::parse, kFile, " has no '", within_, key, "'");
    return checked_size(key, *found, least, most);
  }
  int64_t size_or(std::string_view key, int64_t otherwise, int64_t least, int64_t most) const {
    const JsonTree* found = find(key);
    return found ? checked_size(key, *found, least, most) : otherwise;
  }
  double number(std::string_view key, double least, double most) const {
    const JsonTree* found = find(key);
    if (!found) fail(ErrorCode::parse, kFile, " has no '", within_, key, "'");
    return checked_number(name(key), *found, least, most);
  }
  double number_or(std::string_view key, double otherwise, double least, double most) const {
    return has(key) ? number(key, least, most) : otherwise;
  }
  bool flag_or(std::string_view key, bool otherwise) const {
    const JsonTree* found = find(key);
    if (!found) return otherwise;
    if (!found->is_boolean()) fail(ErrorCode::parse, name(key), " is ", found->shown(), ", not true or false");
    return found->boolean();
  }
  std::string text_or(std::string_view key, std::string otherwise) const {
    const JsonTree* found = find(key);
    if (!found) return otherwise;
    if (!found->is_string()) fail(ErrorCode::parse, name(key), " is ", found->shown(), ", not a text");
    return found->string();
  }
  std::vector<double> numbers(std::string_view key, double least, double most) const {
    const JsonTree* found = find(key);
    if (!found) fail(ErrorCode::parse, kFile, " has no '", within_, key, "'");
    if (!found->is_array()) fail(ErrorCode::parse, name(key), " is ", found->shown(), ", not a list of numbers");
    std::vector<double> all;
    for (const JsonTree& item : found->elements())
      all.push_back(checked_number("an item of " + name(key), item, least, most));
    return all;
  }
  const JsonTree& object(std::string_view key) const {
    const JsonTree* found = find(key);
    if (!found) fail(ErrorCode::parse, kFile, " has no '", within_, key, "'");
    if (!found->is_object()) fail(ErrorCode::parse, name(key), " is ", found->shown(), ", not an object");
    return *found;
  }

 private:
  int64_t checked_size(std::string_view key, const JsonTree& value, int64_t least, int64_t most) const {
    if (!value.is_integer()) fail(ErrorCode::parse, name(key), " is ", value.shown(), ", not a whole number");
    if (value.is_natural() && value.natural() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      fail(ErrorCode::parse, name(key), " is ", value.shown(), "; it must be ", least, " to ", most);
    const int64_t v = value.integer();
    if (v < least || v > most) fail(ErrorCode::parse, name(key), " is ", v, "; it must be ", least, " to ", most);
    return v;
  }
  static double checked_number(const std::string& what, const JsonTree& value, double least, double most) {
    if (!value.is_number()) fail(ErrorCode::parse, what, " is ", value.shown(), ", not a number");
    const double v = value.number();
    if (!(v >= least && v <= most)) fail(ErrorCode::parse, what, " is ", v, "; it must be ", least, " to ", most);
    return v;
  }
  const JsonTree& json_;
  std::string within_;
};

constexpr double kTiny = 1e-30, kHuge = 1e30;

// ---- rotary positions ----

RopeScaling scaling_named(const std::string& name, bool is_phi) {
  if (name == "su" || (is_phi && name == "yarn")) return RopeScaling::longrope;  // as older Phi-3 files call it
  const auto& names = names_of(RopeScaling{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<RopeScaling>(i);
  fail(ErrorCode::unsupported, "'rope_type' in ", kFile, " is '", name,
       "'; there are default, linear, dynamic, yarn, llama3, longrope");
}

/// From `p` (rope_parameters, rope_scaling, or one of their members), beside the keys of the model.
RopeConfig rope_from(const Keys& model, const Keys& p, const LanguageModelConfig& c, double default_theta) {
  RopeConfig rope;
  rope.theta = p.number_or("rope_theta", default_theta, 1 + 1e-9, kHuge);
  const double part =
      p.number_or("partial_rotary_factor", model.number_or("partial_rotary_factor", 1, 1e-6, 1), 1e-6, 1);
  rope.dims = static_cast<int64_t>(static_cast<double>(c.head_dim) * part);
  rope.scaling = scaling_named(p.text_or("rope_type", p.text_or("type", "default")), c.architecture == "phi3");
  if (rope.scaling == RopeScaling::plain) return rope;
  const bool has_ratio = rope.scaling == RopeScaling::yarn || rope.scaling == RopeScaling::longrope;
  if (!has_ratio) rope.factor = p.number("factor", 1e-6, 1e9);
  if (rope.scaling == RopeScaling::linear) return rope;
  if (rope.scaling == RopeScaling::dynamic) {
    rope.original_context = c.context;
    return rope;
  }
  const char* kOriginal = "original_max_position_embeddings";
  rope.original_context =
      model.has(kOriginal) ? model.size(kOriginal, 2, kMostContext) : p.size_or(kOriginal, c.context, 2, kMostContext);
  const double ratio = static_cast<double>(c.context) / static_cast<double>(rope.original_context);
  if (has_ratio) rope.factor = p.number_or("factor", ratio, 1e-6, 1e9);
  if (rope.scaling == RopeScaling::llama3) {
    rope.low_frequency_factor = p.number("low_freq_factor", 1e-6, 1e9);
    rope.high_frequency_factor = p.number("high_freq_factor", 1e-6, 1e9);
    return rope;
  }
  if (rope.scaling == RopeScaling::yarn) {
    const double scale = p.number_or("mscale", 0, 0, 1e6), scale_all = p.number_or("mscale_all_dim", 0, 0, 1e6);
    const double advised = scale != 0 && scale_all != 0 ? yarn_attention_factor(rope.factor, scale) /
                                                              yarn_attention_factor(rope.factor, scale_all)
                                                        : yarn_attention_factor(rope.factor);
    rope.attention_factor = p.number_or("attention_factor", advised, 1e-6, 1e6);
    rope.beta_fast = p.number_or("beta_fast", 32, 1e-6, 1e9), rope.beta_slow = p.number_or("beta_slow", 1, 1e-6, 1e9);
    rope.truncate = p.flag_or("truncate", true);
    return rope;
  }
  rope.short_factors = p.numbers("short_factor", kTiny, kHuge);
  rope.long_factors = p.numbers("long_factor", kTiny, kHuge);
  const double advised =
      rope.factor <= 1 ? 1
                       : std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(rope.original_context)));
  rope.attention_factor = p.number_or("attention_factor", advised, 1e-6, 1e6);
  return rope;
}

/// `rope_parameters` (transformers 5) or `rope_scaling` beside `rope_theta` (before).
void fill_rope(LanguageModelConfig& c, const Keys& k) {
  const JsonTree nothing = {};
  const double theta = k.number_or("rope_theta", 10000, 1 + 1e-9, kHuge);
  const char* key = k.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const JsonTree& given = k.has(key) ? k.object(key) : nothing;
  c.rope = rope_from(k, Keys(given, std::string(key) + "."), c, theta);
}
/// Gemma 3: one for layers that see everything, one for those with a window.
void fill_ropes(LanguageModelConfig& c, const Keys& k) {
  const JsonTree nothing = {};
  const Keys none(nothing);
  const double theta = k.number_or("rope_theta", 1e6, 1 + 1e-9, kHuge);
  const double local = k.number_or("rope_local_base_freq", 1e4, 1 + 1e-9, kHuge);
  if (!k.has("rope_parameters")) {
    c.rope = rope_from(k, Keys(k.has("rope_scaling") ? k.object("rope_scaling") : nothing, "rope_scaling."), c, theta);
    c.local_rope = rope_from(k, none, c, local);
    return;
  }
  const Keys both(k.object("rope_parameters"), "rope_parameters.");
  const auto one = [&](const char* name, double otherwise) {
    return rope_from(k, Keys(both.has(name) ? both.object(name) : nothing, text_of("rope_parameters.", name, ".")), c,
                     otherwise);
  };
  c.rope = one("full_attention", theta), c.local_rope = one("sliding_attention", local);
}

// ---- architectures ----

/// Sizes that files of an architecture leave out, as they are its class's in transformers; 0: the file has to say.
struct UsualSizes {
  int64_t vocabulary = 0, heads = 0, kv_heads = 0, context = 0;
};
void fill_sizes(LanguageModelConfig& c, const Keys& k, const UsualSizes& usual) {
  const auto size = [&](const char* key, int64_t otherwise, int64_t most) {
    return otherwise > 0 ? k.size_or(key, otherwise, 1, most) : k.size(key, 1, most);
  };
  c.vocabulary = size("vocab_size", usual.vocabulary, kMostVocabulary);
  c.hidden = k.size("hidden_size", 1, kMostWidth);
  c.layers = k.size("num_hidden_layers", 1, kMostLayers);
  c.heads = size("num_attention_heads", usual.heads, kMostHeads);
  c.kv_heads = k.size_or("num_key_value_heads", usual.kv_heads > 0 ? usual.kv_heads : c.heads, 1, kMostHeads);
  c.intermediate = k.size("intermediate_size", 1, kMostIntermediate);
  c.context = size("max_position_embeddings", usual.context, kMostContext);
}
/// What most architectures share; `head_dim` is what counts where the file says none, 0: hidden / heads.
void fill_common(LanguageModelConfig& c, const Keys& k, int64_t head_dim, bool tied, double epsilon = 1e-6,
                 const UsualSizes& usual = {}) {
  fill_sizes(c, k, usual);
  if (!k.has("head_dim") && head_dim == 0 && c.hidden % c.heads != 0)
    fail(ErrorCode::parse, kFile, ": a hidden_size of ", c.hidden, " does not divide into ", c.heads,
         " heads, and there is no 'head_dim'");
  c.head_dim = k.size_or("head_dim", head_dim ? head_dim : c.hidden / c.heads, 1, kMostHeadDim);
  c.norm_epsilon = k.number_or("rms_norm_eps", epsilon, 0, 1);
  c.tied_embeddings = k.flag_or("tie_word_embeddings", tied);
  c.activation = activation_of(k.text_or("hidden_act", "silu"), "hidden_act", kFile);
  c.windowed.assign(static_cast<size_t>(c.layers), false);
}
/// Of Mistral, Qwen2 and Qwen3 in transformers.
constexpr int64_t kUsualWindow = 4096;
/// `usual` is the window of a file that does not name one; null is none.
void fill_window(LanguageModelConfig& c, const Keys& k, int64_t usual) {
  c.window = k.is_null("sliding_window") ? 0 : k.size_or("sliding_window", usual, 1, kMostContext);
}
void window_everywhere(LanguageModelConfig& c) {
  if (c.window > 0) c.windowed.assign(static_cast<size_t>(c.layers), true);
}
/// `layer_types`, if it is there; else what `has_window` says of each layer.
template <class F>
void fill_layer_types(LanguageModelConfig& c, const Keys& k, F has_window) {
  const JsonTree* types = k.find("layer_types");
  if (types && !types->is_array())
    fail(ErrorCode::parse, k.name("layer_types"), " is ", types->shown(), ", not a list");
  if (types && static_cast<int64_t>(types->elements().size()) != c.layers)
    fail(ErrorCode::parse, k.name("layer_types"), " has ", types->elements().size(), " items for ", c.layers,
         " layers");
  for (int64_t i = 0; i < c.layers; ++i) {
    const auto at = static_cast<size_t>(i);
    if (!types) {
      c.windowed[at] = c.window > 0 && has_window(i);
      continue;
    }
    const JsonTree& type = types->elements()[at];
    if (!type.is_string() || (type.string() != "full_attention" && type.string() != "sliding_attention"))
      fail(ErrorCode::unsupported, "item ", i, " of ", k.name("layer_types"), " is ", type.shown(),
           "; there are \"full_attention\" and \"sliding_attention\"");
    c.windowed[at] = type.string() == "sliding_attention";
    if (c.windowed[at] && c.window == 0)
      fail(ErrorCode::parse, "layer ", i, " in ", kFile, " has sliding_attention, but there is no 'sliding_window'");
  }
}

void fill_llama(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 0, false);
  c.query_key_value_bias = c.attention_output_bias = k.flag_or("attention_bias", false);
  c.feed_forward_bias = k.flag_or("mlp_bias", false);
  fill_rope(c, k);
}
void fill_mistral(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 0, false);
  fill_window(c, k, kUsualWindow);
  window_everywhere(c);
  fill_rope(c, k);
}
void fill_qwen_window(LanguageModelConfig& c, const Keys& k) {
  if (k.flag_or("use_sliding_window", false)) fill_window(c, k, kUsualWindow);
  const int64_t first = k.size_or("max_window_layers", 28, 0, kMostLayers);
  fill_layer_types(c, k, [&](int64_t layer) { return layer >= first; });
}
void fill_qwen2(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 0, false);
  c.query_key_value_bias = true;
  fill_qwen_window(c, k);
  fill_rope(c, k);
}
void fill_qwen3(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 128, false);
  c.query_key_value_bias = c.attention_output_bias = k.flag_or("attention_bias", false);
  c.query_key_norm = true;
  fill_qwen_window(c, k);
  fill_rope(c, k);
}
void fill_qwen3_moe(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 0, false);
  c.query_key_value_bias = c.attention_output_bias = k.flag_or("attention_bias", false);
  c.query_key_norm = true;
  if (k.flag_or("use_sliding_window", false)) fill_window(c, k, kUsualWindow);
  window_everywhere(c);
  const char* count = k.has("num_experts") ? "num_experts" : "num_local_experts";
  c.experts = k.size(count, 1, kMostExperts);
  c.experts_used = k.size("num_experts_per_tok", 1, kMostExperts);
  c.expert_intermediate = k.size("moe_intermediate_size", 1, kMostIntermediate);
  c.normalize_experts = k.flag_or("norm_topk_prob", false);
  const int64_t step = k.size_or("decoder_sparse_step", 1, 1, kMostLayers);
  for (int64_t i = 0; i < c.layers; ++i) c.sparse.push_back((i + 1) % step == 0);
  if (const JsonTree* dense = k.find("mlp_only_layers")) {
    if (!dense->is_array()) fail(ErrorCode::parse, k.name("mlp_only_layers"), " is ", dense->shown(), ", not a list");
    for (const JsonTree& layer : dense->elements()) {
      if (!layer.is_natural() || layer.natural() >= static_cast<uint64_t>(c.layers))
        fail(ErrorCode::parse, "an item of ", k.name("mlp_only_layers"), " is ", layer.shown(), "; it must be 0 to ",
             c.layers - 1);
      c.sparse[layer.natural()] = false;
    }
  }
  fill_rope(c, k);
}
void fill_gemma(LanguageModelConfig& c, const Keys& k, const UsualSizes& usual) {
  fill_common(c, k, 256, true, 1e-6, usual);
  // The first Gemma's files have "gelu" as hidden_act and mean its approximation (transformers 4, GemmaConfig).
  c.activation = activation_of(k.text_or("hidden_activation", "gelu_pytorch_tanh"), "hidden_activation", kFile);
  c.norm_adds_one = true;
  c.query_key_value_bias = c.attention_output_bias = k.flag_or("attention_bias", false);
  c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
}
void fill_gemma1(LanguageModelConfig& c, const Keys& k) {
  fill_gemma(c, k, {.vocabulary = 256000, .heads = 16, .kv_heads = 16, .context = 8192});
  fill_rope(c, k);
}
void fill_gemma2_blocks(LanguageModelConfig& c, const Keys& k, double default_scalar, const UsualSizes& usual) {
  fill_gemma(c, k, usual);
  c.post_norms = true;
  c.attention_scale = 1 / std::sqrt(k.number_or("query_pre_attn_scalar", default_scalar, kTiny, kHuge));
  c.window = k.size_or("sliding_window", 4096, 1, kMostContext);
}
void fill_gemma2(LanguageModelConfig& c, const Keys& k) {
  fill_gemma2_blocks(c, k, 256, {.vocabulary = 256000, .heads = 8, .kv_heads = 4, .context = 8192});
  const auto softcap = [&](const char* key, double otherwise) -> std::optional<double> {
    if (k.is_null(key)) return std::nullopt;
    return k.number_or(key, otherwise, kTiny, kHuge);
  };
  c.attention_softcap = softcap("attn_logit_softcapping", 50);
  c.logits_softcap = softcap("final_logit_softcapping", 30);
  fill_layer_types(c, k, [](int64_t layer) { return layer % 2 == 0; });
  fill_rope(c, k);
}
void fill_gemma3(LanguageModelConfig& c, const Keys& k) {
  fill_gemma2_blocks(c, k, 256, {.vocabulary = 262208, .heads = 8, .kv_heads = 4, .context = 131072});
  c.query_key_norm = true;
  if (k.has("attn_logit_softcapping"))
    fail(ErrorCode::unsupported, k.name("attn_logit_softcapping"), " is ", k.find("attn_logit_softcapping")->shown(),
         "; Gemma 3 has none, and transformers leaves it out");
  if (k.has("final_logit_softcapping")) c.logits_softcap = k.number("final_logit_softcapping", kTiny, kHuge);
  if (k.flag_or("use_bidirectional_attention", false))
    fail(ErrorCode::unsupported, k.name("use_bidirectional_attention"), " is true: that is an encoder");
  const int64_t pattern = k.size_or("sliding_window_pattern", 6, 1, kMostLayers);
  fill_layer_types(c, k, [&](int64_t layer) { return (layer + 1) % pattern != 0; });
  fill_ropes(c, k);
}
void fill_phi3(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 0, false, 1e-5);
  c.fused_query_key_value = c.fused_gate_up = true;
  fill_window(c, k, 0);
  window_everywhere(c);
  fill_rope(c, k);
}
void fill_gpt2(LanguageModelConfig& c, const Keys& k) {
  c.vocabulary = k.size("vocab_size", 1, kMostVocabulary);
  c.hidden = k.size("n_embd", 1, kMostWidth);
  c.layers = k.size("n_layer", 1, kMostLayers);
  c.heads = c.kv_heads = k.size("n_head", 1, kMostHeads);
  if (c.hidden % c.heads != 0)
    fail(ErrorCode::parse, kFile, ": an n_embd of ", c.hidden, " does not divide into ", c.heads, " heads");
  c.head_dim = c.hidden / c.heads;
  c.intermediate = k.size_or("n_inner", 4 * c.hidden, 1, kMostIntermediate);
  c.context = k.size("n_positions", 1, kMostContext);
  c.norm_epsilon = k.number_or("layer_norm_epsilon", 1e-5, 0, 1);
  c.activation = activation_of(k.text_or("activation_function", "gelu_new"), "activation_function", kFile);
  c.tied_embeddings = k.flag_or("tie_word_embeddings", true);
  c.layer_norm = c.learned_positions = c.fused_query_key_value = true;
  c.gated = false;
  c.query_key_value_bias = c.attention_output_bias = c.feed_forward_bias = true;
  c.windowed.assign(static_cast<size_t>(c.layers), false);
  if (!k.flag_or("scale_attn_weights", true)) c.attention_scale = 1;
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
    if (k.flag_or(key, false)) fail(ErrorCode::unsupported, k.name(key), " is true; this builds GPT-2 without it");
}

struct Architecture {
  std::string_view name;
  void (*fill)(LanguageModelConfig&, const Keys&);
};
constexpr Architecture kArchitectures[] = {
    {"llama", fill_llama},         {"mistral", fill_mistral}, {"qwen2", fill_qwen2},   {"qwen3", fill_qwen3},
    {"qwen3_moe", fill_qwen3_moe}, {"gemma", fill_gemma1},    {"gemma2", fill_gemma2}, {"gemma3_text", fill_gemma3},
    {"phi3", fill_phi3},           {"gpt2", fill_gpt2},
};

}  // namespace
}  // namespace language::config_json

LanguageModelConfig LanguageModelConfig::from_json(std::string_view text) {
  using namespace language::config_json;  // NOLINT(google-build-using-namespace)
  const JsonTree json = json_or_null(text);
  if (!json.is_object()) fail(ErrorCode::parse, kFile, " is no JSON object");
  const Keys outer(json);
  std::string type = outer.text_or("model_type", "");
  if (type.empty()) fail(ErrorCode::parse, kFile, " has no 'model_type'");
  // Gemma 3 with pictures keeps its decoder in `text_config`.
  const bool is_inside = type == "gemma3" && outer.has("text_config");
  const Keys keys = is_inside ? Keys(outer.object("text_config"), "text_config.") : outer;
  if (is_inside) {
    type = keys.text_or("model_type", "gemma3_text");
    if (type != "gemma3_text")
      fail(ErrorCode::unsupported, keys.name("model_type"), " is '", type, "'; within gemma3 it is gemma3_text");
  }
  for (const Keys* level : {&outer, &keys})
    for (const char* key : {"quantization_config", "compression_config"})
      if (level->has(key))
        fail(ErrorCode::unsupported, level->name(key), " is there (",
             Keys(level->object(key)).text_or("quant_method", "without a method"),
             "); such weights are not read yet: take the model in floats, or as GGUF");
  std::string known;
  for (const Architecture& a : kArchitectures) {
    known += text_of(known.empty() ? "" : ", ", a.name);
    if (a.name != type) continue;
    LanguageModelConfig c;
    c.architecture = type;
    a.fill(c, keys);
    language::check_sizes(c, kFile);
    return c;
  }
  fail(ErrorCode::unsupported, "'model_type' in ", kFile, " is '", type, "'; there are ", known);
}

}  // namespace rlx
