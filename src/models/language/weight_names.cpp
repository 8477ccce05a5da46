// See the header.
#include "models/language/weight_names.h"

#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "rlx/error.h"

namespace rlx::language {
namespace {

constexpr WeightName kFolder[] = {
    {"embedding", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"layers.#.attention_norm", "model.layers.#.input_layernorm"},
    {"layers.#.feed_forward_norm", "model.layers.#.post_attention_layernorm"},
    {"layers.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"layers.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"layers.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"layers.#.attention.query_key_value", "model.layers.#.self_attn.qkv_proj"},
    {"layers.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"layers.#.attention.query_norm", "model.layers.#.self_attn.q_norm"},
    {"layers.#.attention.key_norm", "model.layers.#.self_attn.k_norm"},
    {"layers.#.feed_forward.gate", "model.layers.#.mlp.gate_proj"},
    {"layers.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"layers.#.feed_forward.gate_up", "model.layers.#.mlp.gate_up_proj"},
    {"layers.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"layers.#.experts.router", "model.layers.#.mlp.gate"},
    {"layers.#.experts.gate", "model.layers.#.mlp.experts.*.gate_proj"},
    {"layers.#.experts.up", "model.layers.#.mlp.experts.*.up_proj"},
    {"layers.#.experts.down", "model.layers.#.mlp.experts.*.down_proj"},
    {"layers.#.experts.shared.router", "model.layers.#.mlp.shared_expert_gate"},
    {"layers.#.experts.shared.gate", "model.layers.#.mlp.shared_expert.gate_proj"},
    {"layers.#.experts.shared.up", "model.layers.#.mlp.shared_expert.up_proj"},
    {"layers.#.experts.shared.down", "model.layers.#.mlp.shared_expert.down_proj"},
    {"layers.#.mixer.in", "model.layers.#.linear_attn.in_proj_qkvz"},
    {"layers.#.mixer.write_decay", "model.layers.#.linear_attn.in_proj_ba"},
    {"layers.#.mixer.convolution", "model.layers.#.linear_attn.conv1d", WeightForm::reshaped},
    {"layers.#.mixer.norm", "model.layers.#.linear_attn.norm"},
    {"layers.#.mixer.out", "model.layers.#.linear_attn.out_proj"},
    {"layers.#.mixer.step.bias", "model.layers.#.linear_attn.dt_bias", WeightForm::plain, true},
    {"layers.#.mixer.decay_log", "model.layers.#.linear_attn.A_log", WeightForm::plain, true},
};
constexpr WeightName kGemma[] = {
    {"embedding", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"layers.#.attention_norm", "model.layers.#.input_layernorm"},
    {"layers.#.attention_post_norm", "model.layers.#.post_attention_layernorm"},
    {"layers.#.feed_forward_norm", "model.layers.#.pre_feedforward_layernorm"},
    {"layers.#.feed_forward_post_norm", "model.layers.#.post_feedforward_layernorm"},
    {"layers.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"layers.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"layers.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"layers.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"layers.#.attention.query_norm", "model.layers.#.self_attn.q_norm"},
    {"layers.#.attention.key_norm", "model.layers.#.self_attn.k_norm"},
    {"layers.#.feed_forward.gate", "model.layers.#.mlp.gate_proj"},
    {"layers.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"layers.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
};
constexpr WeightName kGpt2[] = {
    {"embedding", "transformer.wte"},
    {"positions", "transformer.wpe"},
    {"output_norm", "transformer.ln_f"},
    {"output", "lm_head"},
    {"layers.#.attention_norm", "transformer.h.#.ln_1"},
    {"layers.#.feed_forward_norm", "transformer.h.#.ln_2"},
    {"layers.#.attention.query_key_value", "transformer.h.#.attn.c_attn", WeightForm::transposed},
    {"layers.#.attention.output", "transformer.h.#.attn.c_proj", WeightForm::transposed},
    {"layers.#.feed_forward.up", "transformer.h.#.mlp.c_fc", WeightForm::transposed},
    {"layers.#.feed_forward.down", "transformer.h.#.mlp.c_proj", WeightForm::transposed},
};
constexpr WeightName kMamba[] = {
    {"embedding", "backbone.embeddings"},
    {"output_norm", "backbone.norm_f"},
    {"output", "lm_head"},
    {"layers.#.attention_norm", "backbone.layers.#.norm"},
    {"layers.#.mixer.in", "backbone.layers.#.mixer.in_proj"},
    {"layers.#.mixer.out", "backbone.layers.#.mixer.out_proj"},
    {"layers.#.mixer.convolution", "backbone.layers.#.mixer.conv1d", WeightForm::reshaped},
    {"layers.#.mixer.select", "backbone.layers.#.mixer.x_proj"},
    {"layers.#.mixer.norm", "backbone.layers.#.mixer.norm"},
    {"layers.#.mixer.step.bias", "backbone.layers.#.mixer.dt_bias", WeightForm::plain, true},  // Mamba 2 has this alone
    {"layers.#.mixer.step_projection", "backbone.layers.#.mixer.dt_proj"},
    {"layers.#.mixer.decay_log", "backbone.layers.#.mixer.A_log", WeightForm::plain, true},
    {"layers.#.mixer.skip", "backbone.layers.#.mixer.D", WeightForm::plain, true},
};
constexpr WeightName kGguf[] = {
    {"embedding", "token_embd"},
    {"positions", "position_embd"},
    {"output_norm", "output_norm"},
    {"output", "output"},
    {"layers.#.attention_norm", "blk.#.attn_norm"},
    {"layers.#.attention_post_norm", "blk.#.post_attention_norm"},
    {"layers.#.feed_forward_norm", "blk.#.ffn_norm"},
    {"layers.#.feed_forward_post_norm", "blk.#.post_ffw_norm"},
    {"layers.#.attention.query", "blk.#.attn_q"},
    {"layers.#.attention.key", "blk.#.attn_k"},
    {"layers.#.attention.value", "blk.#.attn_v"},
    {"layers.#.attention.query_key_value", "blk.#.attn_qkv"},
    {"layers.#.attention.output", "blk.#.attn_output"},
    {"layers.#.attention.query_norm", "blk.#.attn_q_norm"},
    {"layers.#.attention.key_norm", "blk.#.attn_k_norm"},
    {"layers.#.feed_forward.gate", "blk.#.ffn_gate"},
    {"layers.#.feed_forward.up", "blk.#.ffn_up"},
    {"layers.#.feed_forward.gate_up", "blk.#.ffn_up"},  // gate first, as in the folder
    {"layers.#.feed_forward.down", "blk.#.ffn_down"},
    {"layers.#.experts.router", "blk.#.ffn_gate_inp"},
    {"layers.#.experts.gate", "blk.#.ffn_gate_exps"},
    {"layers.#.experts.up", "blk.#.ffn_up_exps"},
    {"layers.#.experts.down", "blk.#.ffn_down_exps"},
    {"layers.#.experts.shared.router", "blk.#.ffn_gate_inp_shexp", WeightForm::reshaped},
    {"layers.#.experts.shared.gate", "blk.#.ffn_gate_shexp"},
    {"layers.#.experts.shared.up", "blk.#.ffn_up_shexp"},
    {"layers.#.experts.shared.down", "blk.#.ffn_down_shexp"},
    {"layers.#.mixer.query_key_value", "blk.#.attn_qkv"},
    {"layers.#.mixer.gate", "blk.#.attn_gate"},
    {"layers.#.mixer.write_decay", "blk.#.ssm_ba"},
    {"layers.#.mixer.in", "blk.#.ssm_in"},
    {"layers.#.mixer.out", "blk.#.ssm_out"},
    {"layers.#.mixer.convolution", "blk.#.ssm_conv1d", WeightForm::reshaped},
    {"layers.#.mixer.select", "blk.#.ssm_x"},
    {"layers.#.mixer.norm", "blk.#.ssm_norm", WeightForm::reshaped},
    {"layers.#.mixer.step.bias", "blk.#.ssm_dt.bias", WeightForm::plain, true},
    {"layers.#.mixer.step_projection", "blk.#.ssm_dt"},
    {"layers.#.mixer.decay", "blk.#.ssm_a", WeightForm::reshaped, true},
    {"layers.#.mixer.skip", "blk.#.ssm_d", WeightForm::reshaped, true},
};

/// The number where `pattern` has "#", if `text` is that pattern with a number.
std::optional<std::string_view> layer_in(std::string_view pattern, std::string_view text) {
  const size_t at = pattern.find('#');
  if (at == pattern.npos) return text == pattern ? std::optional<std::string_view>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, at), behind = pattern.substr(at + 1);
  if (text.size() <= before.size() + behind.size() || !text.starts_with(before) || !text.ends_with(behind))
    return std::nullopt;
  const std::string_view number = text.substr(at, text.size() - before.size() - behind.size());
  if (number.find_first_not_of("0123456789") != number.npos) return std::nullopt;
  return number;
}

}  // namespace

const std::span<const WeightName> kFolderNames = kFolder, kGemmaNames = kGemma, kGpt2Names = kGpt2,
                                  kMambaNames = kMamba;

std::span<const WeightName> folder_names_of(const LanguageModelConfig& config) {
  if (config.architecture == "mamba" || config.architecture == "mamba2") return kMambaNames;
  if (config.architecture == "gpt2") return kGpt2Names;
  return config.post_norms ? kGemmaNames : kFolderNames;
}

std::span<const WeightName> gguf_names_of(std::string_view architecture) {
  if (architecture != "qwen3next") return kGguf;
  static const std::vector<WeightName> names = [] {
    std::vector<WeightName> all(std::begin(kGguf), std::end(kGguf));
    for (WeightName& row : all)
      if (row.param == "layers.#.feed_forward_norm") row.file = "blk.#.post_attention_norm";
    return all;
  }();
  return names;
}

FileName name_in_file(std::span<const WeightName> table, std::string_view param) {
  const size_t dot = param.rfind('.');
  const std::string_view base = param.substr(0, dot), tail = param.substr(dot);
  for (const WeightName& row : table) {
    const auto layer = layer_in(row.param, row.is_whole ? param : base);
    if (!layer) continue;
    std::string name(row.file);
    if (const size_t at = name.find('#'); at != name.npos) name.replace(at, 1, *layer);
    if (row.is_whole) return {name, row.form};
    return {name + std::string(tail), tail == ".weight" ? row.form : WeightForm::plain};
  }
  fail(ErrorCode::internal, "no file's name is known for the weight '", param, "'");
}

}  // namespace rlx::language
