// Layers of transformers, made of attention.cpp and feed_forward.cpp, and heads of language models; see
// rlx/models/transformer.h.
#include <string>
#include <variant>
#include <vector>

#include "rlx/models/transformer.h"

namespace rlx {

Value transformer_layer(ModelBuilder& b, Value x, const TransformerLayerConfig& c, const AttentionContext& context) {
  const auto norm = [&](Value t, const std::string& name) { return name.empty() ? t : token_norm(b, t, name, c.norm); };
  const auto added = [&](const std::string& in, const std::string& out, auto body) {
    switch (c.placement) {
      case NormPlacement::before: return x + body(norm(x, in));
      case NormPlacement::after: return norm(body(x) + x, in);
      case NormPlacement::both: return x + norm(body(norm(x, in)), out);
    }
    fail(ErrorCode::invalid_argument, "there is no placement of norms ", static_cast<int>(c.placement));
  };
  x = added(c.names.attention_norm, c.names.attention_post_norm,
            [&](Value read) { return self_attention(b, read, c.attention, context); });
  return added(c.names.feed_forward_norm, c.names.feed_forward_post_norm, [&](Value read) {
    if (const auto* dense = std::get_if<FeedForwardConfig>(&c.feed_forward)) return feed_forward(b, read, *dense);
    MoeResult made = mixture_of_experts(b, read, std::get<MoeConfig>(c.feed_forward));
    if (context.routings) context.routings->push_back(made.routing);
    return made.y;
  });
}

TransformerLayerConfig TransformerLayerConfig::llama(int64_t heads, int64_t kv_heads, int64_t hidden, double epsilon) {
  return {.attention = {.heads = heads, .kv_heads = kv_heads, .causal = true},
          .feed_forward = FeedForwardConfig::swiglu(hidden),
          .norm = {.epsilon = epsilon}};
}
TransformerLayerConfig TransformerLayerConfig::mixtral(int64_t heads, int64_t kv_heads, const MoeConfig& experts,
                                                       double epsilon) {
  TransformerLayerConfig c = llama(heads, kv_heads, 1, epsilon);
  c.feed_forward = experts;
  return c;
}
TransformerLayerConfig TransformerLayerConfig::gemma2(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t hidden,
                                                      double epsilon) {
  return {.attention = {.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .causal = true},
          .feed_forward = FeedForwardConfig::geglu(hidden, true),
          .norm = {.epsilon = epsilon, .adds_one = true},
          .placement = NormPlacement::both,
          .names = {.feed_forward_norm = "pre_feedforward_layernorm",
                    .attention_post_norm = "post_attention_layernorm",
                    .feed_forward_post_norm = "post_feedforward_layernorm"}};
}

/// Of encoders: everything has a bias, and a feed-forward layer no gate.
static TransformerLayerConfig encoder(int64_t heads, int64_t hidden, NormPlacement placement, double epsilon) {
  return {
      .attention = {.heads = heads, .bias = true, .output_bias = true},
      .feed_forward = FeedForwardConfig{.hidden = hidden, .activation = Activation::gelu, .gated = false, .bias = true},
      .norm = {.kind = TokenNorm::layer_norm, .epsilon = epsilon},
      .placement = placement};
}
TransformerLayerConfig TransformerLayerConfig::bert(int64_t heads, int64_t hidden, double epsilon) {
  TransformerLayerConfig c = encoder(heads, hidden, NormPlacement::after, epsilon);
  c.attention.names = {
      .scope = "attention", .query = "self.query", .key = "self.key", .value = "self.value", .output = "output.dense"};
  std::get<FeedForwardConfig>(c.feed_forward).names = {.scope = "", .up = "intermediate.dense", .down = "output.dense"};
  c.names = {.attention_norm = "attention.output.LayerNorm", .feed_forward_norm = "output.LayerNorm"};
  return c;
}
TransformerLayerConfig TransformerLayerConfig::vit(int64_t heads, int64_t hidden, double epsilon) {
  TransformerLayerConfig c = encoder(heads, hidden, NormPlacement::before, epsilon);
  c.attention.names = {.scope = "self_attention", .output = "out_proj", .packed = "in_proj_"};
  std::get<FeedForwardConfig>(c.feed_forward).names = {.scope = "mlp", .up = "0", .down = "3"};
  c.names = {.attention_norm = "ln_1", .feed_forward_norm = "ln_2"};
  return c;
}
TransformerLayerConfig TransformerLayerConfig::torch_encoder(int64_t heads, int64_t hidden, bool norm_first,
                                                             double epsilon) {
  TransformerLayerConfig c = encoder(heads, hidden, norm_first ? NormPlacement::before : NormPlacement::after, epsilon);
  c.attention.names = {.output = "out_proj", .packed = "in_proj_"};
  auto& dense = std::get<FeedForwardConfig>(c.feed_forward);
  dense.activation = Activation::relu;
  dense.names = {.scope = "", .up = "linear1", .down = "linear2"};
  c.names = {.attention_norm = "norm1", .feed_forward_norm = "norm2"};
  return c;
}

Value soft_capped(Value x, double cap) { return tanh(x * (1 / cap)) * cap; }

Value language_model_head(ModelBuilder& b, Value x, const std::string& name, int64_t vocabulary,
                          std::optional<double> softcap) {
  Value logits = b.linear(x, name, vocabulary, false);
  return softcap ? soft_capped(logits, *softcap) : logits;
}

}  // namespace rlx
