// Fused composites that span several families: convolutions with what follows them, blocks of a transformer, regions of
// ops that move elements. Neighbours: fused.h (element-wise ones), linear.h (fused_matmul), norm.h (residual norms).
#pragma once

#include "rlx/ops/attention.h"
#include "rlx/ops/conv.h"
#include "rlx/ops/fused.h"

namespace rlx {

namespace op {
extern const OpDef fused_conv, fused_attention_block, fused_transformer_layer, transform_region,
    batch_elementwise_region;
}  // namespace op

struct FusedConvAttrs {
  Axes stride = {}, padding = {}, dilation = {};  ///< as in ConvNdAttrs
  Axes padding_high = {};                         ///< after x, where it is not as much as before
  int64_t groups = 1;
  bool has_bias = false, has_residual = false;
  Activation activation = Activation::none;
  bool channels_last = false;  ///< x, residual and the result are [N, spatial..., C]; w is [O, C / groups, kernel...]
  RLX_FIELDS(FusedConvAttrs, field("stride", &FusedConvAttrs::stride), field("padding", &FusedConvAttrs::padding),
             field("padding_high", &FusedConvAttrs::padding_high), field("dilation", &FusedConvAttrs::dilation),
             field("groups", &FusedConvAttrs::groups), field("has_bias", &FusedConvAttrs::has_bias),
             field("has_residual", &FusedConvAttrs::has_residual), field("activation", &FusedConvAttrs::activation),
             field("channels_last", &FusedConvAttrs::channels_last));
};
/// The convolution in it, of operands as they lie.
ConvAttrs as_convolution(const FusedConvAttrs& attrs, size_t rank);
/// activation(conv(x, w) + bias + residual): bias[O], residual of the result's dims. (A fused_matmul adds its residual
/// behind the activation.) The builder sets `has_bias` and `has_residual` from what is given.
Value fused_conv(Value x, Value w, Value bias = {}, Value residual = {}, FusedConvAttrs attrs = {});

struct AttentionBlockAttrs {
  int64_t heads = 1;
  bool has_bias = false, has_rope = false;
  RopeStyle rope_style = RopeStyle::neox;
  bool causal = false;  ///< as in AttentionAttrs, and so are the next two
  std::optional<int64_t> window = {};
  AttentionMask mask = AttentionMask::key_padding;  ///< what the operand `mask` is; there is one unless `none`
  RLX_FIELDS(AttentionBlockAttrs, field("heads", &AttentionBlockAttrs::heads),
             field("has_bias", &AttentionBlockAttrs::has_bias), field("has_rope", &AttentionBlockAttrs::has_rope),
             field("rope_style", &AttentionBlockAttrs::rope_style), field("causal", &AttentionBlockAttrs::causal),
             field("window", &AttentionBlockAttrs::window), field("mask", &AttentionBlockAttrs::mask));
};
struct AttentionBlockWeights {
  Value qkv_w, out_w;            ///< [E, 3 heads D] with q, k, v side by side; [heads D, E]
  Value qkv_b = {}, out_b = {};  ///< both or none
};
/// q | k | v = hidden qkv_w + qkv_b, rotary positions of q and k if there are tables, attention with the `mask`, times
/// out_w, + out_b. hidden[B, S, E] -> [B, S, E]. All elements of a head turn. The builder sets `has_bias` and
/// `has_rope` from what is given; if no mask operand is given, the attribute `mask` becomes `none`.
Value fused_attention_block(Value hidden, Value mask, AttentionBlockWeights weights, AttentionBlockAttrs attrs,
                            Value cos = {}, Value sin = {});
/// The same with a key padding mask.
Value fused_attention_block(Value hidden, Value mask, AttentionBlockWeights weights, int64_t heads, Value cos = {},
                            Value sin = {}, RopeStyle style = RopeStyle::neox);

struct TransformerLayerAttrs {
  int64_t heads = 1;
  double epsilon = 1e-5;
  bool has_bias = false;
  Activation activation = Activation::gelu;
  bool causal = false;  ///< as in AttentionAttrs, and so are the next two
  std::optional<int64_t> window = {};
  AttentionMask mask = AttentionMask::key_padding;  ///< what the operand `mask` is; there is one unless `none`
  RLX_FIELDS(TransformerLayerAttrs, field("heads", &TransformerLayerAttrs::heads),
             field("epsilon", &TransformerLayerAttrs::epsilon), field("has_bias", &TransformerLayerAttrs::has_bias),
             field("activation", &TransformerLayerAttrs::activation), field("causal", &TransformerLayerAttrs::causal),
             field("window", &TransformerLayerAttrs::window), field("mask", &TransformerLayerAttrs::mask));
};
struct TransformerLayerWeights {
  Value qkv_w, out_w, ln1_gamma, fc1_w, fc2_w, ln2_gamma;                              ///< products: [in, out]
  Value qkv_b = {}, out_b = {}, ln1_beta = {}, fc1_b = {}, fc2_b = {}, ln2_beta = {};  ///< all or none
};
/// A layer of BERT, which normalizes behind each residual: h = norm1(hidden + block(hidden)), norm2(h + activation(h
/// fc1_w + fc1_b) fc2_w + fc2_b); block is fused_attention_block. The builder sets `has_bias` from what is given; if
/// no mask operand is given, the attribute `mask` becomes `none`. For a sliding window set `causal` and `window`.
Value fused_transformer_layer(Value hidden, Value mask, TransformerLayerWeights weights, TransformerLayerAttrs attrs);

struct RegionAttrs {
  Subgraph body;
  RLX_FIELDS(RegionAttrs, field("body", &RegionAttrs::body));
};
/// The results of `body`, which only moves elements: reshape, transpose, slice, resize_nearest2x, concatenate, ...
std::vector<Value> transform_region(std::vector<Value> operands, Graph body);
/// An element-wise region over several parts of a batch: the operands are the body's inputs for the first part, those
/// for the second, ...; the results are the parts' results, concatenated along dim 0.
std::vector<Value> batch_elementwise_region(std::vector<Value> operands, Graph body);

}  // namespace rlx
