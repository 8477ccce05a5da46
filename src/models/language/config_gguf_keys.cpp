// See the header. The table has the keys that llama.cpp knows (src/llama-arch.cpp) and that its architectures compute
// with; those that are read are in config_gguf.cpp.
#include "models/language/config_gguf_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "models/language/limits.h"

namespace rlx::language {
namespace {

/// A key that is not read, and what it may be: numbers that change nothing, among them what llama.cpp writes of a model
/// that has no such thing. A bool counts as 0 or 1; of a list each item has to be such a number.
struct Neutral {
  std::string_view key;
  std::array<double, 2> values;
};
constexpr Neutral same(std::string_view key, double value) { return {key, {value, value}}; }
constexpr Neutral kNeutral[] = {
    // attention
    same("attention.causal", 1),
    same("attention.clamp_kqv", 0),
    same("attention.group_norm_groups", 0),
    same("attention.indexer.head_count", 0),
    same("attention.key_length_mla", 0),
    same("attention.kv_lora_rank", 0),
    same("attention.max_alibi_bias", 0),
    {"attention.output_scale", {0, 1}},
    same("attention.q_lora_rank", 0),
    same("attention.recurrent_layers", 0),
    same("attention.relative_buckets_count", 0),
    same("attention.rope_pattern", 1),
    same("attention.shared_kv_layers", 0),
    same("attention.temperature_length", 0),
    same("attention.temperature_scale", 0),
    same("attention.value_length_mla", 0),
    {"attention.value_scale", {0, 1}},
    // rotary positions
    same("rope.dimension_sections", 0),
    same("rope.scaling.alpha", 0),
    same("rope.scaling.yarn_attn_factor", 1),
    {"rope.scaling.yarn_ext_factor", {-1, 1}},
    same("rope.scaling.yarn_log_multiplier", 0),
    // feed-forward and experts
    same("expert_chunk_feed_forward_length", 0),
    {"expert_gating_func", {0, 1}},  // none named, softmax
    {"expert_group_count", {0, 1}},
    {"expert_group_used_count", {0, 1}},
    same("expert_latent_length", 0),
    same("expert_shared_count", 0),
    same("expert_shared_feed_forward_length", 0),
    {"expert_weights_scale", {0, 1}},
    {"interleave_moe_layer_step", {0, 1}},
    same("leading_dense_block_count", 0),
    {"moe_every_n_layers", {0, 1}},
    same("moe_latent_size", 0),
    {"router_logit_softcapping", {0, 30}},
    same("swiglu_clamp_exp", 0),
    same("swiglu_clamp_shexp", 0),
    // the whole
    same("deepstack_mapping", -1),
    {"embedding_scale", {0, 1}},
    same("embedding_length_per_layer_input", 0),
    {"full_attention_interval", {0, 1}},
    {"logit_scale", {0, 1}},
    same("n_deepstack_layers", 0),
    same("nextn_predict_layers", 0),
    same("norm_before_residual", 0),
    {"num_loops", {0, 1}},
    {"residual_scale", {0, 1}},
    same("swin_norm", 0),
    same("use_parallel_residual", 0),
};

/// The numbers of a value; nullopt for texts and lists of lists.
std::optional<std::vector<double>> numbers_of(const GgufValue& value) {
  return std::visit(
      [](const auto& v) -> std::optional<std::vector<double>> {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_arithmetic_v<V>) {
          return std::vector<double>{static_cast<double>(v)};
        } else if constexpr (std::is_same_v<V, GgufArray>) {
          return std::visit(
              [](const auto& items) -> std::optional<std::vector<double>> {
                using Item = typename std::decay_t<decltype(items)>::value_type;
                if constexpr (std::is_arithmetic_v<Item>) {
                  std::vector<double> all;
                  for (const Item item : items) all.push_back(static_cast<double>(item));
                  return all;
                } else {
                  return std::nullopt;
                }
              },
              v.items);
        } else {
          return std::nullopt;
        }
      },
      value);
}

class Checked {
 public:
  Checked(const GgufMetadata& metadata, const LanguageModelConfig& c) : metadata_(metadata), c_(c) {}

  /// Fails if the key is there with other numbers. The last of `values` is what the message names.
  void key_is(std::string_view key, std::span<const double> values) const {
    const std::string name = text_of(c_.architecture, ".", key);
    const GgufValue* value = find_value(metadata_, name);
    if (!value) return;
    const auto is_neutral = [&](double v) {
      return std::any_of(values.begin(), values.end(),
                         [&](double n) { return std::abs(v - n) <= 1e-6 * std::max(1.0, std::abs(n)); });
    };
    const auto numbers = numbers_of(*value);
    if (numbers && std::all_of(numbers->begin(), numbers->end(), is_neutral)) return;
    const auto* list = std::get_if<GgufArray>(value);
    const bool is_long = list && list->size() > 16;
    fail(ErrorCode::unsupported, "'", name, "' is ",
         is_long ? text_of("a list of ", list->size(), " items") : shown_name(gguf_json(*value)), "; models of ",
         c_.architecture, " are built with ", values.back(), " alone");
  }
  void key_is(std::string_view key, double value) const { key_is(key, std::array{value}); }

 private:
  const GgufMetadata& metadata_;
  const LanguageModelConfig& c_;
};

}  // namespace

void check_unread_keys(const GgufMetadata& metadata, const LanguageModelConfig& c) {
  const Checked check(metadata, c);
  const bool is_hybrid = c.architecture == "qwen3next";  // whose keys of recurrent layers and of a shared expert count
  constexpr std::string_view kOfHybrids[] = {"attention.recurrent_layers", "full_attention_interval",
                                             "expert_shared_feed_forward_length"};
  for (const Neutral& row : kNeutral)
    if (!is_hybrid || std::find(std::begin(kOfHybrids), std::end(kOfHybrids), row.key) == std::end(kOfHybrids))
      check.key_is(row.key, row.values);
  if (!c.has_attention()) return;
  const double width = static_cast<double>(c.head_dim);
  check.key_is("attention.scale", std::array{0.0, c.attention_scale.value_or(1 / std::sqrt(width))});
  check.key_is("attention.key_length_swa", width);
  check.key_is("attention.value_length_swa", width);
  // llama.cpp takes that of the first layer for all of them, whichever kind it is.
  check.key_is("rope.dimension_count_swa", static_cast<double>(c.learned_positions ? c.head_dim : c.rope.dims));
  check.key_is("embedding_length_out", std::array{0.0, static_cast<double>(c.hidden)});
  // llama.cpp writes its own defaults, 50 and 30, of models that have no caps.
  if (c.architecture != "gemma2") check.key_is("attn_logit_softcapping", std::array{50.0, 0.0});
  if (c.architecture != "gemma2" && c.architecture != "gemma3")
    check.key_is("final_logit_softcapping", std::array{30.0, 0.0});
  if (c.experts == 0)
    for (const char* key : {"expert_count", "expert_used_count", "expert_feed_forward_length"}) check.key_is(key, 0);
  else check.key_is("expert_weights_norm", 1);  // llama.cpp normalizes the experts' weights whatever the file says
  if (c.architecture == "llama") check.key_is("rope.dimension_count", width);
  // 4: the model ranks documents, by an output of its own.
  check.key_is("pooling_type", std::array{-1.0, 1.0, 2.0, 3.0, 0.0});
}

}  // namespace rlx::language
