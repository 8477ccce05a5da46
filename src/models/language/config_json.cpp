// A decoder's description from config.json, as the package `transformers` reads it: names of keys, what is left out,
// and what each architecture makes of it. Neighbour: config_gguf.cpp.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/language/config_json_keys.h"
#include "models/language/config_json_packing.h"
#include "models/language/config_json_rope.h"
#include "models/language/config_json_writer.h"

namespace rlx {
namespace language::config_json {  // a unity build puts both configurations into one file
namespace {

// ---- architectures ----

/// Sizes that files of an architecture leave out, as they are its class's in transformers; 0: the file has to say.
struct UsualSizes {
  int64_t vocabulary = 0, heads = 0, context = 0;
  int64_t kv_heads = 0;  ///< 0: as many as heads
};
void fill_sizes(LanguageModelConfig& c, const Keys& k, const UsualSizes& usual) {
  const auto size = [&](const char* key, int64_t otherwise, int64_t most) {
    return otherwise > 0 ? k.size_or(key, otherwise, 1, most) : k.size(key, 1, most);
  };
  c.vocabulary = size("vocab_size", usual.vocabulary, kMostVocabulary);
  c.hidden = k.size("hidden_size", 1, kMostWidth);
  c.layers = k.size("num_hidden_layers", 1, kMostLayers);
  c.heads = size("num_attention_heads", usual.heads, kMostHeads);
  const bool is_usual = usual.kv_heads > 0 && !k.is_null("num_key_value_heads");
  c.kv_heads = k.size_or("num_key_value_heads", is_usual ? usual.kv_heads : c.heads, 1, kMostHeads);
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
/// Of Mistral, Qwen2, Qwen3, Gemma 2 and 3 in transformers.
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
  fill_shared_rope(c, k);
}
void fill_mistral(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 0, false, 1e-6, {.kv_heads = 8});
  fill_window(c, k, kUsualWindow);
  window_everywhere(c);
  fill_shared_rope(c, k);
}
void fill_qwen_window(LanguageModelConfig& c, const Keys& k) {
  if (k.flag_or("use_sliding_window", false)) fill_window(c, k, kUsualWindow);
  const int64_t first = k.size_or("max_window_layers", 28, 0, kMostLayers);
  fill_layer_types(c, k, [&](int64_t layer) { return layer >= first; });
}
void fill_qwen2(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 0, false, 1e-6, {.kv_heads = 32});
  c.query_key_value_bias = true;
  fill_qwen_window(c, k);
  fill_shared_rope(c, k);
}
void fill_qwen3(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 128, false, 1e-6, {.kv_heads = 32});
  c.query_key_value_bias = c.attention_output_bias = k.flag_or("attention_bias", false);
  c.query_key_norm = true;
  fill_qwen_window(c, k);
  fill_shared_rope(c, k);
}
/// Experts of Qwen's mixtures, and in which layers they are.
void fill_experts(LanguageModelConfig& c, const Keys& k, int64_t usual_count, int64_t usual_used, int64_t usual_width,
                  bool normalized) {
  const auto size = [&](const char* key, int64_t otherwise, int64_t most) {
    return otherwise > 0 ? k.size_or(key, otherwise, 1, most) : k.size(key, 1, most);
  };
  const char* count = k.has("num_local_experts") ? "num_local_experts" : "num_experts";
  c.experts = size(count, usual_count, kMostExperts);
  c.experts_used = size("num_experts_per_tok", usual_used, kMostExperts);
  c.expert_intermediate = size("moe_intermediate_size", usual_width, kMostIntermediate);
  c.normalize_experts = k.flag_or("norm_topk_prob", normalized);
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
}
void fill_qwen3_moe(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 0, false, 1e-6, {.kv_heads = 4});
  c.query_key_value_bias = c.attention_output_bias = k.flag_or("attention_bias", false);
  c.query_key_norm = true;
  if (k.flag_or("use_sliding_window", false)) fill_window(c, k, kUsualWindow);
  window_everywhere(c);
  fill_experts(c, k, 0, 0, 0, false);
  fill_shared_rope(c, k);
}
void fill_qwen3_next(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 256, false, 1e-6, {.kv_heads = 2});
  c.query_key_value_bias = c.attention_output_bias = k.flag_or("attention_bias", false);
  c.query_key_norm = c.norm_adds_one = c.gated_attention = true;
  if (k.has("num_local_experts") && !k.has("num_experts"))
    fail(ErrorCode::unsupported, k.name("num_local_experts"), " is there; for qwen3_next it is called 'num_experts'");
  fill_experts(c, k, 512, 10, 512, true);
  c.shared_expert_intermediate = k.size_or("shared_expert_intermediate_size", 512, 1, kMostIntermediate);
  RecurrentConfig& r = c.recurrent;
  r.kernel = k.size_or("linear_conv_kernel_dim", 4, 2, kMostKernel);
  r.state = k.size_or("linear_key_head_dim", 128, 1, kMostHeadDim);
  r.groups = k.size_or("linear_num_key_heads", 16, 1, kMostHeads);
  r.heads = k.size_or("linear_num_value_heads", 32, 1, kMostHeads);
  r.inner = r.heads * k.size_or("linear_value_head_dim", 128, 1, kMostHeadDim);
  r.convolution_bias = false;
  r.activation = c.activation;
  const JsonTree* types = k.find("layer_types");
  const int64_t period = k.size_or("full_attention_interval", 4, 1, kMostLayers);
  if (types && !types->is_array())
    fail(ErrorCode::parse, k.name("layer_types"), " is ", types->shown(), ", not a list");
  if (types && static_cast<int64_t>(types->elements().size()) != c.layers)
    fail(ErrorCode::parse, k.name("layer_types"), " has ", types->elements().size(), " items for ", c.layers,
         " layers");
  for (int64_t i = 0; i < c.layers; ++i) {
    const JsonTree* type = types ? &types->elements()[static_cast<size_t>(i)] : nullptr;
    if (type && (!type->is_string() || (type->string() != "full_attention" && type->string() != "linear_attention")))
      fail(ErrorCode::unsupported, "item ", i, " of ", k.name("layer_types"), " is ", type->shown(),
           "; there are \"full_attention\" and \"linear_attention\"");
    const bool is_full = type ? type->string() == "full_attention" : (i + 1) % period == 0;
    c.mixers.push_back(is_full ? TokenMixer::attention : TokenMixer::gated_delta_net);
  }
  fill_shared_rope(c, k);
}
void fill_gemma(LanguageModelConfig& c, const Keys& k, const UsualSizes& usual) {
  fill_common(c, k, 256, true, 1e-6, usual);
  c.activation = activation_of(k.text_or("hidden_activation", "gelu_pytorch_tanh"), "hidden_activation", kFile);
  c.norm_adds_one = true;
  c.query_key_value_bias = c.attention_output_bias = k.flag_or("attention_bias", false);
  c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
}
void fill_gemma1(LanguageModelConfig& c, const Keys& k) {
  fill_gemma(c, k, {.vocabulary = 256000, .heads = 16, .context = 8192, .kv_heads = 16});
  // The first Gemma has its activation as hidden_act, where its files have "gelu" and mean the approximation.
  const Activation other = c.activation;
  const std::string name = k.text_or("hidden_act", "gelu_pytorch_tanh");
  c.activation = name == "gelu" ? Activation::gelu_tanh : activation_of(name, "hidden_act", kFile);
  if (k.has("hidden_activation") && other != c.activation)
    fail(ErrorCode::unsupported, k.name("hidden_activation"), " is ", k.find("hidden_activation")->shown(),
         ", and 'hidden_act', which counts for gemma, is another, '", shown_name(name), "'; leave one out");
  fill_shared_rope(c, k);
}
void fill_gemma2_blocks(LanguageModelConfig& c, const Keys& k, double default_scalar, const UsualSizes& usual) {
  fill_gemma(c, k, usual);
  c.post_norms = true;
  c.attention_scale = 1 / std::sqrt(k.number_or("query_pre_attn_scalar", default_scalar, kTiny, kHuge));
  if (k.is_null("sliding_window"))
    fail(ErrorCode::unsupported, k.name("sliding_window"), " is null, but layers of ", c.architecture,
         " have a window");
  fill_window(c, k, kUsualWindow);
}
void fill_gemma2(LanguageModelConfig& c, const Keys& k) {
  fill_gemma2_blocks(c, k, 256, {.vocabulary = 256000, .heads = 8, .context = 8192, .kv_heads = 4});
  const auto softcap = [&](const char* key, double otherwise) -> std::optional<double> {
    if (k.is_null(key)) return std::nullopt;
    return k.number_or(key, otherwise, kTiny, kHuge);
  };
  c.attention_softcap = softcap("attn_logit_softcapping", 50);
  c.logits_softcap = softcap("final_logit_softcapping", 30);
  fill_layer_types(c, k, [](int64_t layer) { return layer % 2 == 0; });
  fill_shared_rope(c, k);
}
void fill_gemma3(LanguageModelConfig& c, const Keys& k) {
  fill_gemma2_blocks(c, k, 256, {.vocabulary = 262208, .heads = 8, .context = 131072, .kv_heads = 4});
  c.query_key_norm = true;
  if (k.has("attn_logit_softcapping"))
    fail(ErrorCode::unsupported, k.name("attn_logit_softcapping"), " is ", k.find("attn_logit_softcapping")->shown(),
         "; Gemma 3 has none, and transformers leaves it out");
  if (k.has("final_logit_softcapping")) c.logits_softcap = k.number("final_logit_softcapping", kTiny, kHuge);
  const int64_t pattern = k.size_or("sliding_window_pattern", 6, 1, kMostLayers);
  fill_layer_types(c, k, [&](int64_t layer) { return (layer + 1) % pattern != 0; });
  fill_gemma3_ropes(c, k);
}
void fill_phi3(LanguageModelConfig& c, const Keys& k) {
  fill_common(c, k, 0, false, 1e-5);
  c.fused_query_key_value = c.fused_gate_up = true;
  fill_window(c, k, 0);
  window_everywhere(c);
  fill_shared_rope(c, k);
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
}

/// What llama.cpp's converter says of a recurrence, which has no table of positions to outgrow.
constexpr int64_t kUsualRecurrentContext = 1 << 20;
/// What Mamba and Mamba 2 share.
void fill_mamba_sizes(LanguageModelConfig& c, const Keys& k, TokenMixer mixer, const UsualSizes& usual, bool tied) {
  c.vocabulary = k.size_or("vocab_size", usual.vocabulary, 1, kMostVocabulary);
  c.hidden = k.size("hidden_size", 1, kMostWidth);
  c.layers = k.size("num_hidden_layers", 1, kMostLayers);
  c.context = kUsualRecurrentContext;
  c.norm_epsilon = k.number_or("layer_norm_epsilon", 1e-5, 0, 1);
  c.tied_embeddings = k.flag_or("tie_word_embeddings", tied);
  c.has_feed_forward = false;
  c.mixers.assign(static_cast<size_t>(c.layers), mixer);
  c.windowed.assign(static_cast<size_t>(c.layers), false);
  RecurrentConfig& r = c.recurrent;
  r.inner = c.hidden * k.size_or("expand", 2, 1, 64);
  r.kernel = k.size_or("conv_kernel", 4, 2, kMostKernel);
  r.bias = k.flag_or("use_bias", false);
  r.convolution_bias = k.flag_or("use_conv_bias", true);
  r.activation = activation_of(k.text_or("hidden_act", "silu"), "hidden_act", kFile);
}
void fill_mamba(LanguageModelConfig& c, const Keys& k) {
  fill_mamba_sizes(c, k, TokenMixer::mamba, {.vocabulary = 50280}, true);
  c.recurrent.state = k.size_or("state_size", 16, 1, kMostState);
  const JsonTree* rank = k.find("time_step_rank");
  const bool is_auto = !rank || (rank->is_string() && rank->string() == "auto");
  c.recurrent.step_rank = is_auto ? (c.hidden + 15) / 16 : k.size("time_step_rank", 1, kMostWidth);
}
/// One end of Mamba 2's limits of steps; nullopt for infinity.
std::optional<double> limit_of(const Keys& k, const JsonTree& item) {
  const JsonTree* text = item.find("__float__");
  if (text && text->is_string() && text->string() == "Infinity") return std::nullopt;
  if (!item.is_number() || !(item.number() >= 0 && item.number() <= kHuge))
    fail(ErrorCode::parse, "an item of ", k.name("time_step_limit"), " is ", item.shown(),
         "; it must be a number from 0 on, or infinity");
  return item.number();
}
void fill_mamba2(LanguageModelConfig& c, const Keys& k) {
  fill_mamba_sizes(c, k, TokenMixer::mamba2, {.vocabulary = 32768}, false);
  RecurrentConfig& r = c.recurrent;
  r.state = k.size_or("state_size", 128, 1, kMostState);
  r.heads = k.size_or("num_heads", 128, 1, kMostWidth);
  r.groups = k.size_or("n_groups", 8, 1, kMostWidth);
  const int64_t width = k.size_or("head_dim", 64, 1, kMostWidth);
  if (r.heads * width != r.inner)
    fail(ErrorCode::parse, kFile, ": 'num_heads' is ", r.heads, " and 'head_dim' ", width, ", which makes ",
         r.heads * width, " elements, but 'expand' times 'hidden_size' is ", r.inner);
  const JsonTree* limits = k.find("time_step_limit");
  if (!limits) return;
  if (!limits->is_array() || limits->elements().size() != 2)
    fail(ErrorCode::parse, k.name("time_step_limit"), " is ", limits->shown(), ", not a list of two numbers");
  const auto least = limit_of(k, limits->elements()[0]);
  if (!least) fail(ErrorCode::parse, k.name("time_step_limit"), " begins with infinity");
  r.least_step = *least, r.most_step = limit_of(k, limits->elements()[1]);
}

/// What transformers calls a model of an architecture that continues texts.
struct Architecture {
  std::string_view name;
  std::string_view model;
  void (*fill)(LanguageModelConfig&, const Keys&);
};
constexpr Architecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", fill_llama},
    {"mistral", "MistralForCausalLM", fill_mistral},
    {"qwen2", "Qwen2ForCausalLM", fill_qwen2},
    {"qwen3", "Qwen3ForCausalLM", fill_qwen3},
    {"qwen3_moe", "Qwen3MoeForCausalLM", fill_qwen3_moe},
    {"qwen3_next", "Qwen3NextForCausalLM", fill_qwen3_next},
    {"gemma", "GemmaForCausalLM", fill_gemma1},
    {"gemma2", "Gemma2ForCausalLM", fill_gemma2},
    {"gemma3_text", "Gemma3ForCausalLM", fill_gemma3},
    {"phi3", "Phi3ForCausalLM", fill_phi3},
    {"gpt2", "GPT2LMHeadModel", fill_gpt2},
    {"mamba", "MambaForCausalLM", fill_mamba},
    {"mamba2", "Mamba2ForCausalLM", fill_mamba2},
};
/// Gemma 3 with pictures, around a gemma3_text.
constexpr std::string_view kWithPictures = "Gemma3ForConditionalGeneration";

// ---- what is not built here ----

/// A key that the class in transformers reads, of which one value alone leaves the numbers as they are here.
struct NotBuilt {
  std::string_view architectures;  ///< with a space around each; empty: of all
  std::string_view key;
  enum class Neutral { is_false, is_true, is_empty } neutral;
  std::string_view meaning;
};
constexpr NotBuilt kNotBuilt[] = {
    {"", "is_encoder_decoder", NotBuilt::Neutral::is_false, "decoders stand alone here"},
    {"", "is_causal", NotBuilt::Neutral::is_true, "that is an encoder"},
    {"", "per_layer_config", NotBuilt::Neutral::is_empty, "layers are alike here"},
    {" gemma gemma2 gemma3_text ", "use_bidirectional_attention", NotBuilt::Neutral::is_false, "that is an encoder"},
    {" gpt2 ", "scale_attn_by_inverse_layer_idx", NotBuilt::Neutral::is_false, "this builds GPT-2 without it"},
    {" gpt2 ", "add_cross_attention", NotBuilt::Neutral::is_false, "this builds GPT-2 without it"},
};
void refuse_not_built(const std::string& architecture, const Keys& k) {
  for (const NotBuilt& row : kNotBuilt) {
    const JsonTree* found = k.find(row.key);
    if (!found || !(row.architectures.empty() || row.architectures.find(" " + architecture + " ") != std::string::npos))
      continue;
    const bool is_neutral = row.neutral == NotBuilt::Neutral::is_empty
                                ? (found->is_object() || found->is_array()) && found->elements().empty()
                                : k.flag_or(row.key, false) == (row.neutral == NotBuilt::Neutral::is_true);
    if (!is_neutral) fail(ErrorCode::unsupported, k.name(row.key), " is ", found->shown(), ": ", row.meaning);
  }
}

/// Two keys for one number: of GPT-2's, and the number of experts, transformers takes the longer name's.
void refuse_other_names(const std::string& architecture, const Keys& k) {
  struct Names {
    std::string_view architecture, key, other;
  };
  for (const Names& row :
       {Names{"gpt2", "n_embd", "hidden_size"}, Names{"gpt2", "n_positions", "max_position_embeddings"},
        Names{"gpt2", "n_head", "num_attention_heads"}, Names{"gpt2", "n_layer", "num_hidden_layers"},
        Names{"qwen3_moe", "num_experts", "num_local_experts"},
        Names{"qwen3_next", "num_experts", "num_local_experts"}}) {
    if (row.architecture != architecture || !k.has(row.key) || !k.has(row.other)) continue;
    const int64_t one = k.size(row.key, 0, kMostContext), two = k.size(row.other, 0, kMostContext);
    if (one != two)
      fail(ErrorCode::parse, k.name(row.key), " is ", one, ", but '", row.other, "', another name of it, is ", two);
  }
}

/// Windows of layers where the architecture's class has no such key, but its caches read it.
void refuse_other_windows(const LanguageModelConfig& c, const Keys& k) {
  if ((c.architecture == "llama" || c.architecture == "gemma") && k.has("sliding_window") &&
      k.size("sliding_window", 1, kMostContext) < c.context)
    fail(ErrorCode::unsupported, k.name("sliding_window"), " is ", k.find("sliding_window")->shown(), ", but ",
         c.architecture, " has no windows");
  if (k.has("attention_chunk_size"))
    fail(ErrorCode::unsupported, k.name("attention_chunk_size"), " is ", k.find("attention_chunk_size")->shown(),
         ", but ", c.architecture, " has no chunks");
  const JsonTree* types = k.find("layer_types");
  if (!types || c.windowed.empty()) return;
  if (!types->is_array()) fail(ErrorCode::parse, k.name("layer_types"), " is ", types->shown(), ", not a list");
  for (size_t i = 0; i < std::min(types->elements().size(), c.windowed.size()); ++i) {
    const JsonTree& type = types->elements()[i];
    const char* built = c.mixer(static_cast<int64_t>(i)) != TokenMixer::attention ? "linear_attention"
                        : c.windowed[i]                                           ? "sliding_attention"
                                                                                  : "full_attention";
    if (!type.is_string() || type.string() != built)
      fail(ErrorCode::unsupported, "item ", i, " of ", k.name("layer_types"), " is ", type.shown(), ", but layers of ",
           c.architecture, " have ", built);
  }
}

/// Names of classes: another task's weights, or code of the model's own, would give other numbers.
void check_classes(const Keys& outer, std::string_view model) {
  if (const JsonTree* names = outer.find("architectures")) {
    if (!names->is_array()) fail(ErrorCode::parse, outer.name("architectures"), " is ", names->shown(), ", not a list");
    for (const JsonTree& name : names->elements())
      if (!name.is_string() || name.string() != model)
        fail(ErrorCode::unsupported, outer.name("architectures"), " has ", name.shown(), ", but what is built here is ",
             model);
  }
  if (!outer.has("auto_map")) return;
  const Keys map(outer.object("auto_map"), "auto_map.");
  // The class of a file beside the model, "modeling_phi3.Phi3ForCausalLM": transformers has it as its own by now.
  const char* key = "AutoModelForCausalLM";
  if (map.has(key) && !map.text_or(key, "").ends_with("." + std::string(model)))
    fail(ErrorCode::unsupported, map.name(key), " is ", map.find(key)->shown(),
         ": that is code of its own, which is not run here; what is built is ", model);
}

/// Gemma 3 with pictures, whose class reads keys of its own and not all of the decoder's.
void check_outer(const Keys& outer, const Keys& inner) {
  const char* tied = "tie_word_embeddings";
  if (outer.flag_or(tied, true) != inner.flag_or(tied, true))
    fail(ErrorCode::unsupported, outer.name(tied), " is not as ", inner.name(tied), "; make them alike");
  if (inner.has("final_logit_softcapping"))
    fail(ErrorCode::unsupported, inner.name("final_logit_softcapping"), " is ",
         inner.find("final_logit_softcapping")->shown(), ", which transformers leaves out within gemma3");
}

/// Python's json writes infinity as a word that JSON does not have. Older files of Mamba 2 have it as a limit of steps;
/// there it becomes what transformers writes by now.
std::string with_infinite_limits(std::string_view text) {
  constexpr std::string_view kKey = "\"time_step_limit\"", kWord = "Infinity";
  std::string out(text);
  const size_t key = text.find(kKey);
  if (key == text.npos) return out;
  const size_t begin = text.find_first_not_of(": \t\r\n", key + kKey.size()), end = text.find(']', key);
  if (begin == text.npos || end == text.npos || text[begin] != '[') return out;
  std::string limits(text.substr(begin, end - begin));
  for (const char* mark : {"\"", "{"})
    if (limits.find(mark) != limits.npos) return out;
  const size_t at = limits.find(kWord);
  if (at == limits.npos) return out;
  limits.replace(at, kWord.size(), R"({"__float__": "Infinity"})");
  return out.replace(begin, end - begin, limits);
}

}  // namespace
}  // namespace language::config_json

std::string_view language::folder_class_of(std::string_view model_type) {
  for (const config_json::Architecture& a : config_json::kArchitectures)
    if (a.name == model_type) return a.model;
  return {};
}

LanguageModelConfig LanguageModelConfig::from_json(std::string_view text) {
  using namespace language::config_json;  // NOLINT(google-build-using-namespace)
  const JsonTree json = with_context([] { return text_of("reading '", kFile, "'"); },
                                     [&] { return parse_json(with_infinite_limits(text)); });
  if (!json.is_object()) fail(ErrorCode::parse, kFile, " is ", json.shown(), ", not an object");
  const Keys outer(json);
  std::string type = outer.text_or("model_type", "");
  if (type.empty()) fail(ErrorCode::parse, kFile, " has no 'model_type'");
  // Gemma 3 with pictures keeps its decoder in `text_config`.
  const bool is_inside = type == "gemma3" && outer.has("text_config");
  const Keys keys = is_inside ? Keys(outer.object("text_config"), "text_config.") : outer;
  if (is_inside) {
    type = keys.text_or("model_type", "gemma3_text");
    if (type != "gemma3_text")
      fail(ErrorCode::unsupported, keys.name("model_type"), " is '", language::shown_name(type),
           "'; within gemma3 it is gemma3_text");
    check_outer(outer, keys);
  }
  const WeightPacking packing = packing_of(outer, is_inside ? &keys : nullptr);
  std::string known;
  for (const Architecture& a : kArchitectures) {
    known += text_of(known.empty() ? "" : ", ", a.name);
    if (a.name != type) continue;
    check_classes(outer, is_inside ? kWithPictures : a.model);
    refuse_not_built(type, outer);
    if (is_inside) refuse_not_built(type, keys);
    refuse_other_names(type, keys);
    LanguageModelConfig c;
    c.architecture = type, c.packing = packing;
    a.fill(c, keys);
    refuse_other_windows(c, keys);
    language::check_sizes(c, kFile);
    return c;
  }
  fail(ErrorCode::unsupported, "'model_type' in ", kFile, " is '", language::shown_name(type), "'; there are ", known);
}

}  // namespace rlx
