// Blocks of transformers: attention with grouped heads, rotary positions, windows, soft caps and caches; feed-forward
// layers and mixtures of experts; the layer around them, and the head of a language model. Shapes: B batch, S or n
// tokens, W width of a token. Params are f32 unless the builder says otherwise, and have the names of Llama's weight
// files in the package `transformers` unless a `Names` says otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rlx/models/builder.h"
#include "rlx/models/rope.h"

namespace rlx {

struct Routing;

// ---- norms ----

/// layer_norm: Ba et al. 2016. rms_norm: Zhang, Sennrich 2019.
enum class TokenNorm { layer_norm, rms_norm };
constexpr std::array<std::string_view, 2> names_of(TokenNorm) { return {"layer_norm", "rms_norm"}; }
struct TokenNormConfig {
  TokenNorm kind = TokenNorm::rms_norm;
  double epsilon = 1e-6;
  bool bias = true;       ///< of layer_norm
  bool adds_one = false;  ///< rms_norm multiplies by 1 + weight (Gemma)
};
/// The norm of each token, over the last dim. Params: NAME.weight [W], NAME.bias [W].
Value token_norm(ModelBuilder& b, Value x, const std::string& name, const TokenNormConfig& config);

// ---- attention ----

/// Keys and values of the tokens that were read, [B, kv_heads, capacity, head_dim] each, for a graph that is run step
/// by step: inputs that a run updates, if they are donated (CompileOptions::donate; docs/runtime.md, "Carrying a
/// state").
struct KeyValueCache {
  Value keys = {}, values = {};
  /// Declares the inputs NAME.keys and NAME.values. Keys and values are rounded to `dtype`, one of cache_dtypes()
  /// (rlx/models/cache_dtypes.h). Fails for another one, and for blocks if a head is not made of whole ones.
  static KeyValueCache inputs(Graph& g, const std::string& name, const Dims& dims, DType dtype = f32);
  /// Declares what they have become, as outputs of the same names.
  void output(const std::string& name) const;
};
/// Attention of n tokens, q[B, n, heads, D], to the tokens of the cache and to themselves, k and v[B, n, kv_heads, D]:
/// [B, n, heads, D]. `cache` becomes the cache with the new tokens, in its own memory where it was donated. The
/// capacity must be at least positions.total. Queries are rounded to the dtype of the cache, unless that is of blocks;
/// sums are f32.
Value cached_attention(Value q, Value k, Value v, KeyValueCache& cache, const SequencePositions& positions,
                       AttentionAttrs attrs, Value mask = {});

struct AttentionConfig {
  int64_t heads = 1;
  std::optional<int64_t> kv_heads = {};  ///< fewer heads of keys and values, each for a group of queries (Ainslie 2023)
  std::optional<int64_t> head_dim = {};  ///< W / heads where left out
  bool bias = false, output_bias = false;  ///< of the projections to queries, keys, values; and of the last one
  bool causal = false;                     ///< no token sees a later one
  /// Tokens that one sees on either side (or, if causal, before it), itself included: `sliding_window` of Mistral
  /// (Beltagy et al. 2020). 0: all.
  int64_t window = 0;
  std::optional<double> scale = {};                    ///< 1 / sqrt(head_dim) where left out
  std::optional<double> softcap = {};                  ///< scores become cap tanh(score / cap) (Gemma 2)
  std::optional<TokenNormConfig> query_key_norm = {};  ///< over each head of queries and keys (Qwen3, Gemma 3)
  struct Names {
    std::string scope = "self_attn", query = "q_proj", key = "k_proj", value = "v_proj", output = "o_proj";
    std::string query_norm = "q_norm", key_norm = "k_norm";
    /// One weight for the three, [(heads + 2 kv_heads) head_dim, W]: "Wqkv" has Wqkv.weight and Wqkv.bias, and a name
    /// that ends with '_' ("in_proj_", of torch.nn.MultiheadAttention) in_proj_weight and in_proj_bias.
    std::string packed = "";
  };
  Names names = {};
};
/// What attention reads besides its tokens.
struct AttentionContext {
  Value mask = {};  ///< as the op's: which keys are seen, [B, S]; or what is added to scores, for `bias`
  AttentionMask mask_kind = AttentionMask::key_padding;
  RopeTables rope = {};              ///< absent: heads do not turn
  Value memory = {};                 ///< keys and values are of these tokens [B, Sk, W'] (cross-attention), not of x
  KeyValueCache* cache = nullptr;    ///< becomes the cache with the new tokens
  SequencePositions positions = {};  ///< with a cache
  std::vector<Routing>* routings = nullptr;  ///< mixtures of experts of a layer put their routing here
};
/// Vaswani et al. 2017: x[B, S, W] to [B, S, W]. Params: query.weight [heads D, W], key.weight and value.weight
/// [kv_heads D, W], output.weight [W, heads D], their biases, query_norm.weight and key_norm.weight [D].
Value self_attention(ModelBuilder& b, Value x, const AttentionConfig& config, const AttentionContext& context = {});

// ---- feed-forward ----

struct FeedForwardConfig {
  int64_t hidden = 0;  ///< the width in between
  Activation activation = Activation::silu;
  bool gated = true;  ///< down(activation(gate(x)) up(x)), instead of down(activation(up(x)))
  bool bias = false;
  struct Names {
    std::string scope = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
    std::string packed = "";  ///< gate and up as one weight [2 hidden, W], in this order: "gate_up_proj" (Phi-3)
  };
  Names names = {};
  /// Gated by silu, and by gelu (its tanh form: Gemma's "gelu_pytorch_tanh"): Shazeer 2020.
  static FeedForwardConfig swiglu(int64_t hidden) { return {.hidden = hidden}; }
  static FeedForwardConfig geglu(int64_t hidden, bool tanh_form = false) {
    return {.hidden = hidden, .activation = tanh_form ? Activation::gelu_tanh : Activation::gelu};
  }
};
/// x[..., W] to [..., W]. Params: gate.weight and up.weight [hidden, W], down.weight [W, hidden], their biases.
Value feed_forward(ModelBuilder& b, Value x, const FeedForwardConfig& config);

// ---- mixtures of experts ----

/// Which experts each of T tokens goes to, and what share each of them has of its result.
struct Routing {
  Value experts;        ///< i32[T, used], the most probable first
  Value shares;         ///< [T, used]
  Value probabilities;  ///< of all experts, [T, experts]
};
/// The `used` most probable experts by the router's logits[T, experts] (Shazeer et al. 2017). Shares are their
/// probabilities, if `normalize` divided by their sum (Mixtral). Gradients go through shares and probabilities.
Routing routed(Value logits, int64_t used, bool normalize);
/// The sum of what the experts of each token make of it, by their shares: x[T, W] to [T, W]. `expert` maps rows
/// [T used, W] to rows [T used, W], row i by the expert index[i], i32[T used].
Value mixed_by(const Routing& routing, Value x, const std::function<Value(Value rows, Value index)>& expert);
/// The loss that keeps experts equally busy, a scalar to be added to a model's loss with a small factor (Fedus et al.
/// 2021, equations 4 to 6, summed over the `used` places as `transformers` does for Mixtral): experts * sum over e of
/// f_e P_e, with f_e the mean number of places for which a token chose e, and P_e the mean probability of e. The tokens
/// of all layers count together. `mask` of T numbers or bools, of any dims, leaves tokens out: those with 0. With
/// equal probabilities it is `used`.
Value load_balancing_loss(std::span<const Routing> layers, Value mask = {});

struct MoeConfig {
  int64_t experts = 0, used = 0;  ///< of all, and for a token
  int64_t hidden = 0;             ///< of one expert
  Activation activation = Activation::silu;
  bool normalize = true;  ///< shares of a token's experts add up to 1
  int64_t shared_hidden =
      0;  ///< of an expert that all tokens share, times sigmoid(its gate) (Qwen2-MoE); 0: there is none
  struct Names {
    std::string scope = "mlp", router = "gate", gate_up = "experts.gate_up_proj", down = "experts.down_proj";
    std::string shared = "shared_expert", shared_gate = "shared_expert_gate";
  };
  Names names = {};
};
struct MoeResult {
  Value y;
  Routing routing;
};
/// Gated experts: x[..., W] to y[..., W]. Params: router.weight [experts, W], gate_up [experts, 2 hidden, W], down
/// [experts, W, hidden], shared.{gate_proj,up_proj,down_proj}.weight, shared_gate.weight [1, W].
MoeResult mixture_of_experts(ModelBuilder& b, Value x, const MoeConfig& config);

// ---- a layer ----

/// Where norms stand. before: x + f(norm(x)), as GPT-2, ViT and Llama have it. after: norm(x + f(x)), as BERT. both: x
/// + norm(f(norm(x))), as Gemma 2.
enum class NormPlacement { before, after, both };
constexpr std::array<std::string_view, 3> names_of(NormPlacement) { return {"before", "after", "both"}; }

struct TransformerLayerConfig {
  AttentionConfig attention = {};
  std::variant<FeedForwardConfig, MoeConfig> feed_forward = {};
  TokenNormConfig norm = {};
  NormPlacement placement = NormPlacement::before;
  struct Names {
    /// Without a name there is no norm: the first layer of ModernBERT reads what the embeddings' norm has made.
    std::string attention_norm = "input_layernorm", feed_forward_norm = "post_attention_layernorm";
    /// Of `both`, the norms of the results.
    std::string attention_post_norm = "", feed_forward_post_norm = "";
  };
  Names names = {};

  /// As weight files of `transformers` have the layers of Llama, Mistral, Qwen: pre-norm, causal, SwiGLU.
  static TransformerLayerConfig llama(int64_t heads, int64_t kv_heads, int64_t hidden, double epsilon = 1e-6);
  /// The same with experts, as Mixtral's.
  static TransformerLayerConfig mixtral(int64_t heads, int64_t kv_heads, const MoeConfig& experts,
                                        double epsilon = 1e-5);
  /// Norms on both sides, GEGLU: `attention.softcap` and `attention.window` are to be set.
  static TransformerLayerConfig gemma2(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t hidden,
                                       double epsilon = 1e-6);
  /// As `transformers` has BERT's: post-norm, with biases.
  static TransformerLayerConfig bert(int64_t heads, int64_t hidden, double epsilon = 1e-12);
  /// As torchvision has ViT's: pre-norm, with biases and one weight for queries, keys and values.
  static TransformerLayerConfig vit(int64_t heads, int64_t hidden, double epsilon = 1e-6);
  /// As torch.nn.TransformerEncoderLayer: post-norm, or with norm_first pre-norm.
  static TransformerLayerConfig torch_encoder(int64_t heads, int64_t hidden, bool norm_first = false,
                                              double epsilon = 1e-5);
};
/// x[B, S, W] to [B, S, W].
Value transformer_layer(ModelBuilder& b, Value x, const TransformerLayerConfig& config,
                        const AttentionContext& context = {});

/// The kinds of masks of a fused transformer layer. none: each token sees all. causal: no later one. sliding_window:
/// itself and `window` tokens before it, one more than AttentionConfig::window says. custom: the keys that `mask`
/// keeps, as the op: [B, S] of bools, or of numbers,
/// >= 0.5 keeps. bias: `mask` is added to scores, and broadcasts to [B, heads, S, S].
enum class MaskKind { none, causal, sliding_window, custom, bias };
constexpr std::array<std::string_view, 5> names_of(MaskKind) {
  return {"none", "causal", "sliding_window", "custom", "bias"};
}
struct TransformerLayerMask {
  MaskKind kind = MaskKind::none;
  int64_t window = 0;
  Value mask = {};
};
/// The op `fused_transformer_layer`, a post-norm layer of BERT whose weights are operands, with each kind of mask:
/// `custom` adds the op, the others the ops that it is composed of. hidden[B, S, W] to [B, S, W].
Value fused_transformer_layer(Value hidden, const TransformerLayerMask& mask, const TransformerLayerWeights& weights,
                              TransformerLayerAttrs attrs);

// ---- the head of a language model ----

/// cap tanh(x / cap).
Value soft_capped(Value x, double cap);
/// Logits x[..., W] wᵀ of the table NAME.weight [vocabulary, W]. With the name of the embedding (Press, Wolf 2017) its
/// table is read, as a param exists once; with another one ("lm_head") the head has its own.
Value language_model_head(ModelBuilder& b, Value x, const std::string& name, int64_t vocabulary,
                          std::optional<double> softcap = {});

}  // namespace rlx
