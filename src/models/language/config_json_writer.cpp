// See the header. Keys are those of transformers before version 5 where it reads both ways (rope_theta, rope_scaling).
#include "models/language/config_json_writer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "models/language/config_gguf.h"
#include "models/language/limits.h"

namespace rlx::language {
namespace config_json_writer {  // a unity build puts all of the folder into one file
namespace {

using Json = nlohmann::ordered_json;

/// The parameters of llama3 whose divisors these are. They determine the original context and the factors up to a
/// common multiple: the low factor is taken for 1.
void recover_llama3(RopeConfig& rope) {
  const std::vector<double> divisors = std::exchange(rope.frequency_divisors, {});
  rope.scaling = RopeScaling::plain;
  const std::vector<float> frequencies = rope_frequencies(rope);
  rope.scaling = RopeScaling::llama3;
  rope.factor = std::round(*std::max_element(divisors.begin(), divisors.end()) * 1e4) / 1e4;
  rope.low_frequency_factor = 1;
  // Between the bounds a share grows with the frequency, on a line; beyond them there is 1, or the whole factor.
  double x[2] = {}, y[2] = {}, least = 0, most = 1e30;
  int count = 0;
  for (size_t i = 0; i < divisors.size() && i < frequencies.size(); ++i) {
    const double turns = static_cast<double>(frequencies[i]) / (2 * std::numbers::pi);
    if (divisors[i] <= 1 + 1e-6) most = std::min(most, turns);
    else if (divisors[i] >= rope.factor * (1 - 1e-6)) least = std::max(least, turns);
    else {
      const int at = count++ == 0 ? 0 : 1;  // the first and the last
      x[at] = turns, y[at] = (1 / divisors[i] - 1 / rope.factor) / (1 - 1 / rope.factor);
    }
  }
  double context = 0;
  rope.high_frequency_factor = 4;  // of all models so far
  if (count == 0) {                // any between two bounds; a power of two, if there is one
    context = std::sqrt(1 / std::max(least, 1e-30) * 4 / most);
    const double power = std::exp2(std::round(std::log2(context)));
    if (power > 4 / most && power * least < 1) context = power;
  }
  if (count == 1) context = (y[0] * 3 + 1) / x[0];
  if (count > 1) {
    const double slope = (y[1] - y[0]) / (x[1] - x[0]), at_zero = y[0] - slope * x[0];
    rope.high_frequency_factor = std::round((1 - 1 / at_zero) * 100) / 100;
    context = slope * (1 - 1 / at_zero - 1);
  }
  if (!(rope.factor > 1 && rope.high_frequency_factor > 1 && rope.high_frequency_factor < 1e9 && context >= 2 &&
        context <= static_cast<double>(kMostContext)))
    fail(ErrorCode::unsupported,
         "'rope_freqs.weight' has factors that are not those of 'llama3', and config.json has no word for others");
  rope.original_context = std::llround(context);
}

void write_sizes(Json& j, const LanguageModelConfig& c) {
  j["vocab_size"] = c.vocabulary, j["hidden_size"] = c.hidden, j["num_hidden_layers"] = c.layers;
  j["tie_word_embeddings"] = c.tied_embeddings;
}
void write_attention(Json& j, const LanguageModelConfig& c) {
  write_sizes(j, c);
  j["num_attention_heads"] = c.heads, j["num_key_value_heads"] = c.kv_heads, j["head_dim"] = c.head_dim;
  j["intermediate_size"] = c.intermediate, j["max_position_embeddings"] = c.context, j["rms_norm_eps"] = c.norm_epsilon;
}

Json scaling_of(const RopeConfig& rope, const LanguageModelConfig& c) {
  const std::string name(names_of(RopeScaling{})[static_cast<size_t>(rope.scaling)]);
  Json s = {{"rope_type", name}, {"type", name}};
  const auto is_near = [](double a, double b) { return std::abs(a - b) <= 1e-6 * std::abs(b); };
  switch (rope.scaling) {
    case RopeScaling::plain: return nullptr;
    case RopeScaling::linear: s["factor"] = rope.factor; break;
    case RopeScaling::yarn:
      s["factor"] = rope.factor, s["original_max_position_embeddings"] = rope.original_context;
      if (!is_near(rope.attention_factor, yarn_attention_factor(rope.factor)))
        s["attention_factor"] = rope.attention_factor;
      if (rope.beta_fast != 32) s["beta_fast"] = rope.beta_fast;
      if (rope.beta_slow != 1) s["beta_slow"] = rope.beta_slow;
      break;
    case RopeScaling::llama3:
      s["factor"] = rope.factor, s["original_max_position_embeddings"] = rope.original_context;
      s["low_freq_factor"] = rope.low_frequency_factor, s["high_freq_factor"] = rope.high_frequency_factor;
      break;
    case RopeScaling::longrope: {
      s["short_factor"] = rope.short_factors, s["long_factor"] = rope.long_factors;
      const auto original = static_cast<double>(rope.original_context);
      const double ratio = static_cast<double>(c.context) / original;
      const double advised = ratio <= 1 ? 1 : std::sqrt(1 + std::log(ratio) / std::log(original));
      if (!is_near(rope.attention_factor, advised)) s["attention_factor"] = rope.attention_factor;
      if (c.architecture != "phi3") s["original_max_position_embeddings"] = rope.original_context;
      break;
    }
    case RopeScaling::dynamic:
    case RopeScaling::proportional: break;  // no GGUF file says so
  }
  return s;
}
void write_rope(Json& j, const LanguageModelConfig& c) {
  j["rope_theta"] = c.rope.theta;
  j["rope_scaling"] = scaling_of(c.rope, c);
  if (c.rope.scaling == RopeScaling::longrope && c.architecture == "phi3")
    j["original_max_position_embeddings"] = c.rope.original_context;
  if (c.rope.dims != c.head_dim || c.architecture == "qwen3_next")
    j["partial_rotary_factor"] = static_cast<double>(c.rope.dims) / static_cast<double>(c.head_dim);
  if (c.local_rope) j["rope_local_base_freq"] = c.local_rope->theta;
}

Json layer_types_of(const LanguageModelConfig& c) {
  Json types = Json::array();
  for (int64_t i = 0; i < c.layers; ++i) {
    const bool is_windowed = !c.windowed.empty() && c.windowed[static_cast<size_t>(i)];
    types.push_back(c.mixer(i) != TokenMixer::attention ? "linear_attention"
                    : is_windowed                       ? "sliding_attention"
                                                        : "full_attention");
  }
  return types;
}
bool has_window(const LanguageModelConfig& c) {
  return c.window > 0 && std::find(c.windowed.begin(), c.windowed.end(), true) != c.windowed.end();
}

void write_experts(Json& j, const LanguageModelConfig& c) {
  j["num_experts"] = c.experts, j["num_experts_per_tok"] = c.experts_used;
  j["moe_intermediate_size"] = c.expert_intermediate, j["norm_topk_prob"] = c.normalize_experts;
  j["decoder_sparse_step"] = 1, j["mlp_only_layers"] = Json::array();
  for (size_t i = 0; i < c.sparse.size(); ++i)
    if (!c.sparse[i]) j["mlp_only_layers"].push_back(i);
}

void write_llama(Json& j, const LanguageModelConfig& c) {
  write_attention(j, c), write_rope(j, c);
  j["hidden_act"] = "silu", j["attention_bias"] = c.query_key_value_bias, j["mlp_bias"] = c.feed_forward_bias;
  if (c.architecture == "mistral") j["sliding_window"] = c.window;
}
void write_qwen(Json& j, const LanguageModelConfig& c) {
  write_attention(j, c), write_rope(j, c);
  j["hidden_act"] = "silu";
  if (c.architecture != "qwen2") j["attention_bias"] = c.query_key_value_bias;
  j["use_sliding_window"] = has_window(c);
  j["sliding_window"] = has_window(c) ? Json(c.window) : Json(nullptr);
  if (c.architecture != "qwen3_moe") j["max_window_layers"] = 0, j["layer_types"] = layer_types_of(c);
  if (c.experts > 0) write_experts(j, c);
}
void write_qwen3_next(Json& j, const LanguageModelConfig& c) {
  write_attention(j, c), write_rope(j, c), write_experts(j, c);
  j["hidden_act"] = "silu", j["attention_bias"] = c.query_key_value_bias;
  j["shared_expert_intermediate_size"] = c.shared_expert_intermediate;
  const RecurrentConfig& r = c.recurrent;
  j["linear_conv_kernel_dim"] = r.kernel, j["linear_key_head_dim"] = r.state, j["linear_num_key_heads"] = r.groups;
  j["linear_num_value_heads"] = r.heads, j["linear_value_head_dim"] = r.inner / r.heads;
  j["layer_types"] = layer_types_of(c);
}
void write_gemma(Json& j, const LanguageModelConfig& c) {
  write_attention(j, c), write_rope(j, c);
  const char* activation = "gelu_pytorch_tanh";
  j["hidden_act"] = activation, j["hidden_activation"] = activation;
  j["attention_bias"] = c.query_key_value_bias;
  if (!c.post_norms) return;
  const double scale = c.attention_scale.value_or(1 / std::sqrt(static_cast<double>(c.head_dim)));
  const double scalar = 1 / (scale * scale), whole = std::round(scalar);
  if (std::abs(scalar - whole) <= 1e-6 * scalar) j["query_pre_attn_scalar"] = static_cast<int64_t>(whole);
  else j["query_pre_attn_scalar"] = scalar;
  const auto cap = [](std::optional<double> v) { return v ? Json(*v) : Json(nullptr); };
  j["attn_logit_softcapping"] = cap(c.attention_softcap), j["final_logit_softcapping"] = cap(c.logits_softcap);
  j["sliding_window"] = std::max<int64_t>(c.window, 1), j["layer_types"] = layer_types_of(c);
}
void write_phi3(Json& j, const LanguageModelConfig& c) {
  write_attention(j, c);
  j["original_max_position_embeddings"] = c.context;
  write_rope(j, c);
  j["hidden_act"] = "silu";
  j["sliding_window"] = has_window(c) ? Json(c.window) : Json(nullptr);
}
void write_gpt2(Json& j, const LanguageModelConfig& c) {
  j["vocab_size"] = c.vocabulary, j["n_embd"] = c.hidden, j["n_layer"] = c.layers, j["n_head"] = c.heads;
  j["n_inner"] = c.intermediate, j["n_positions"] = c.context, j["n_ctx"] = c.context;
  j["layer_norm_epsilon"] = c.norm_epsilon, j["activation_function"] = "gelu_new";
  j["tie_word_embeddings"] = c.tied_embeddings;
}
void write_mamba(Json& j, const LanguageModelConfig& c) {
  write_sizes(j, c);
  const RecurrentConfig& r = c.recurrent;
  j["layer_norm_epsilon"] = c.norm_epsilon, j["intermediate_size"] = r.inner, j["expand"] = r.inner / c.hidden;
  j["state_size"] = r.state, j["conv_kernel"] = r.kernel, j["hidden_act"] = "silu";
  j["use_bias"] = r.bias, j["use_conv_bias"] = r.convolution_bias;
  if (c.architecture == "mamba") j["time_step_rank"] = r.step_rank;
  else j["num_heads"] = r.heads, j["head_dim"] = r.inner / r.heads, j["n_groups"] = r.groups;
}

struct Written {
  std::string_view model_type;
  void (*write)(Json&, const LanguageModelConfig&);
};
constexpr Written kWritten[] = {{"llama", write_llama}, {"mistral", write_llama},  {"qwen2", write_qwen},
                                {"qwen3", write_qwen},  {"qwen3_moe", write_qwen}, {"qwen3_next", write_qwen3_next},
                                {"gemma", write_gemma}, {"gemma2", write_gemma},   {"gemma3_text", write_gemma},
                                {"phi3", write_phi3},   {"gpt2", write_gpt2},      {"mamba", write_mamba},
                                {"mamba2", write_mamba}};

}  // namespace
}  // namespace config_json_writer

LanguageModelConfig config_as_in_folder(const LanguageModelConfig& gguf) {
  LanguageModelConfig c = gguf;
  const GgufArchitecture* a = gguf_architecture(gguf.architecture);
  if (!a) fail(ErrorCode::internal, "'", gguf.architecture, "' is no architecture of GGUF files");
  const bool is_second = !a->folders[1].empty() && config_json_writer::has_window(gguf);
  c.architecture = a->folders[is_second ? 1 : 0];
  c.norm_adds_one = c.architecture.starts_with("gemma") || c.architecture == "qwen3_next";
  c.rope.style = RopeStyle::neox;
  if (!c.rope.frequency_divisors.empty()) config_json_writer::recover_llama3(c.rope);
  c.recurrent.decay_is_log = c.recurrent.is_grouped = true;
  return c;
}

std::string json_of_config(const LanguageModelConfig& c, std::string_view dtype, std::optional<int32_t> bos_id,
                           const std::vector<int32_t>& stop_ids) {
  using config_json_writer::Json;
  Json j = {{"architectures", Json::array({folder_class_of(c.architecture)})}, {"model_type", c.architecture}};
  for (const auto& [type, write] : config_json_writer::kWritten)
    if (type == c.architecture) write(j, c);
  j["torch_dtype"] = dtype;
  // Null where there is none: classes of transformers have ids of their own otherwise.
  j["bos_token_id"] = bos_id ? Json(*bos_id) : Json(nullptr);
  j["eos_token_id"] = nullptr, j["pad_token_id"] = nullptr;
  if (stop_ids.size() == 1) j["eos_token_id"] = stop_ids[0];
  if (stop_ids.size() > 1) j["eos_token_id"] = stop_ids;
  if (c.packing.method == WeightPacking::Method::mlx) {
    Json packing = {{"group_size", c.packing.group}, {"bits", c.packing.bits}};
    for (const auto& [name, own] : c.packing.modules) packing[name] = {{"group_size", own.group}, {"bits", own.bits}};
    j["quantization"] = packing, j["quantization_config"] = packing;
  }
  return j.dump(2) + "\n";
}

}  // namespace rlx::language
