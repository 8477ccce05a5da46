// Fused composites of several families; see the header.
#include "rlx/ops/fused_blocks.h"

#include <algorithm>

#include "ir/leaves.h"
#include "ops/control/subgraph_rules.h"
#include "ops/core/composite_rules.h"
#include "rlx/ops/arrange.h"
#include "rlx/ops/image.h"
#include "rlx/ops/linear.h"
#include "rlx/ops/norm.h"

namespace rlx {

Value fused_conv(Value x, Value w, Value bias, Value residual, FusedConvAttrs attrs) {
  attrs.has_bias = bool(bias), attrs.has_residual = bool(residual);
  return emit(op::fused_conv, present(std::array{x, w, bias, residual}), attrs);
}

ConvAttrs as_convolution(const FusedConvAttrs& a, size_t rank) {
  ConvAttrs c{.strides = a.stride, .rhs_dilation = a.dilation, .feature_group_count = a.groups};
  for (int64_t p : a.padding) c.padding_low.emplace_back(p);
  for (int64_t p : a.padding_high.empty() ? a.padding : a.padding_high) c.padding_high.emplace_back(p);
  if (!a.padding_high.empty() && c.padding_low.empty()) c.padding_low.assign(c.padding_high.size(), Dim(0));
  if (a.channels_last && rank > 1) {
    c.lhs_layout = axes_from(0, rank);
    std::rotate(c.lhs_layout.begin() + 1, c.lhs_layout.end() - 1, c.lhs_layout.end());
    c.out_layout = c.lhs_layout;
  }
  return c;
}

Value fused_attention_block(Value hidden, Value mask, AttentionBlockWeights w, AttentionBlockAttrs attrs, Value cos,
                            Value sin) {
  if (bool(w.qkv_b) != bool(w.out_b)) fail(ErrorCode::invalid_argument, "qkv_b and out_b come together, or neither");
  if (bool(cos) != bool(sin)) fail(ErrorCode::invalid_argument, "cos and sin come together, or neither");
  attrs.has_bias = bool(w.qkv_b), attrs.has_rope = bool(cos);
  if (!mask) attrs.mask = AttentionMask::none;
  return emit(op::fused_attention_block,
              present(std::array{hidden, mask, w.qkv_w, w.out_w, w.qkv_b, w.out_b, cos, sin}), attrs);
}
Value fused_attention_block(Value hidden, Value mask, AttentionBlockWeights w, int64_t heads, Value cos, Value sin,
                            RopeStyle style) {
  return fused_attention_block(hidden, mask, w, {.heads = heads, .rope_style = style}, cos, sin);
}

Value fused_transformer_layer(Value hidden, Value mask, TransformerLayerWeights w, TransformerLayerAttrs attrs) {
  std::array biases = {w.qkv_b, w.out_b, w.ln1_beta, w.fc1_b, w.fc2_b, w.ln2_beta};
  auto given = present(biases);
  if (!given.empty() && given.size() != biases.size())
    fail(ErrorCode::invalid_argument, "a transformer layer has all of its six biases or none; ", given.size(),
         " are given");
  attrs.has_bias = !given.empty();
  if (!mask) attrs.mask = AttentionMask::none;
  const auto required = present(std::array{hidden, mask, w.qkv_w, w.out_w, w.ln1_gamma, w.fc1_w, w.fc2_w, w.ln2_gamma});
  return emit(op::fused_transformer_layer, joined(required, given), attrs);
}

std::vector<Value> transform_region(std::vector<Value> operands, Graph body) {
  if (operands.empty()) fail(ErrorCode::invalid_argument, "transform_region needs an operand to know its graph");
  Graph& g = operands[0].graph();
  return g.emit(op::transform_region, std::move(operands), RegionAttrs{Subgraph(std::move(body))});
}
std::vector<Value> batch_elementwise_region(std::vector<Value> operands, Graph body) {
  if (operands.empty())
    fail(ErrorCode::invalid_argument, "batch_elementwise_region needs an operand to know its graph");
  Graph& g = operands[0].graph();
  return g.emit(op::batch_elementwise_region, std::move(operands), RegionAttrs{Subgraph(std::move(body))});
}

namespace {

size_t channel_axis(const FusedConvAttrs& a, size_t rank) { return a.channels_last ? rank - 1 : 1; }

/// `rows` by any number of columns, which it returns.
Dim require_matrix(const Type& w, const Dim& rows, std::string_view name) {
  require_rank(w, 2, 2, name);
  if (w.dims[0] != rows)
    fail(ErrorCode::shape_mismatch, name, " must have ", rows, " rows, one for each of its inputs; got ", w);
  return w.dims[1];
}

/// The checks of the projections; the attention in between checks its own operands.
void require_projections(const Type& hidden, const Type& qkv_w, const Type& out_w, int64_t heads) {
  require_rank(hidden, 3, 3, "hidden");
  Dim all = require_matrix(qkv_w, hidden.dims[2], "qkv_w");
  if (heads < 1 || (all.is_static() && (all.value() % 3 != 0 || all.value() / 3 % heads != 0)))
    fail(ErrorCode::shape_mismatch, "the columns of qkv_w ", qkv_w, " do not divide into q, k and v of ", heads,
         " heads");
  require_dims(out_w, {all / 3, hidden.dims[2]}, "out_w");
}

AttentionAttrs attention_of(const AttentionBlockAttrs& a) {
  return {.heads = a.heads, .layout = AttentionLayout::packed, .causal = a.causal, .window = a.window, .mask = a.mask};
}
AttentionBlockAttrs attention_block_of(const TransformerLayerAttrs& a) {
  return {.heads = a.heads, .has_bias = a.has_bias, .causal = a.causal, .window = a.window, .mask = a.mask};
}

/// The operands with a place for a mask behind the first one, if they have none.
template <class T>
std::vector<T> with_mask_place(std::span<const T> in, AttentionMask mask) {
  std::vector<T> all(in.begin(), in.end());
  if (mask == AttentionMask::none) all.insert(all.begin() + 1, T{});
  return all;
}
/// How many operands there are of `most`, and which attribute says so.
void require_block_operands(Types in, size_t most, AttentionMask mask, const std::string& flags) {
  const bool has_none = mask == AttentionMask::none;
  require_operands(in.size(), most - has_none,
                   text_of("mask = ", names_of(AttentionMask{})[static_cast<size_t>(mask)], " and ", flags));
}

Value attention_block(Value hidden, Value mask, const AttentionBlockWeights& w, const AttentionBlockAttrs& a, Value cos,
                      Value sin) {
  Value qkv = fused_matmul(hidden, w.qkv_w, w.qkv_b);
  auto parts = split_evenly(qkv, 3, -1);
  if (cos) {
    RopeAttrs turn{.heads = a.heads, .layout = AttentionLayout::packed, .style = a.rope_style};
    for (size_t i : {0, 1}) parts[i] = rope(parts[i], cos, sin, turn);
  }
  Value y = mask ? attention(parts[0], parts[1], parts[2], mask, attention_of(a))
                 : attention(parts[0], parts[1], parts[2], attention_of(a));
  return fused_matmul(y, w.out_w, w.out_b);
}

Many<Type> batch_region_types(Types in, const RegionAttrs& a) {
  const Graph& body = required(a.body, "body");
  size_t inputs = body.inputs().size();
  if (inputs == 0 || in.empty() || in.size() % inputs != 0)
    fail(ErrorCode::invalid_argument, in.size(), " operands are no whole number of parts: the body takes ", inputs,
         " inputs");
  auto parts = static_cast<int64_t>(in.size() / inputs);
  ElementwiseRegionAttrs one{a.body};
  Many<Type> out;
  for (size_t first = 0; first < in.size(); first += inputs)
    out = infer_types(op::elementwise_region, in.subspan(first, inputs), one);
  for (Type& t : out) {
    if (t.rank() == 0) fail(ErrorCode::shape_mismatch, "results of the body have no dim 0 to be concatenated along");
    t.dims[0] = t.dims[0] * parts;
  }
  return out;
}

}  // namespace

OpDef define_fused_conv() {
  return define<FusedConvAttrs>({
      .name = "fused_conv",
      .doc = "activation(conv(x, w) + bias + residual): bias[O] if has_bias, residual of the result's dims if "
             "has_residual. With channels_last x [N, spatial..., C], and the result likewise. f16 and bf16 round once, "
             "at the end",
      .operands = {"x", "w", "bias?", "residual?"},
      .covers = {"FusedConvBiasAct"},
      .infer =
          [](Types in, const FusedConvAttrs& a) {
            require_dtype(in, kReal);
            require_operands(in.size(), size_t{2} + a.has_bias + a.has_residual,
                             flag_text("has_bias", a.has_bias) + " and " + flag_text("has_residual", a.has_residual));
            Type t = infer_types(op::convolution, in.first(2), as_convolution(a, in[0].rank()))[0];
            if (a.has_bias) require_dims(in[2], {t.dims[channel_axis(a, t.rank())]}, "bias");
            if (a.has_residual) require_dims(in.back(), t.dims, "residual");
            return t;
          },
      .decompose =
          [](Values in, const FusedConvAttrs& a) {
            Value y = convolution(in[0], in[1], as_convolution(a, in[0].dims().size()));
            auto channels = static_cast<int64_t>(channel_axis(a, y.dims().size()));
            if (a.has_bias) y = y + broadcast_in_dim(in[2], y.dims(), {channels});
            if (a.has_residual) y = y + in.back();
            return activate(y, a.activation);
          },
      .samples = {{.dims = {{2, 3, 5, 4}, {4, 3, 3, 3}, {4}},
                   .attrs = FusedConvAttrs{.padding = {1, 1}, .has_bias = true, .activation = Activation::silu}},
                  {.dims = {{1, 4, 6}, {6, 2, 3}, {6}, {1, 6, 3}},
                   .attrs = FusedConvAttrs{.stride = {2},
                                           .padding = {1},
                                           .groups = 2,
                                           .has_bias = true,
                                           .has_residual = true,
                                           .activation = Activation::tanh}},
                  {.dims = {{1, 2, 3, 3}, {2, 2, 2, 2}, {1, 2, 2, 2}},
                   .attrs = FusedConvAttrs{.has_residual = true, .activation = Activation::gelu}},
                  {.dims = {{0, 2, 3}, {1, 2, 1}}},
                  {.dims = {{2, 5, 4, 3}, {4, 3, 3, 2}, {4}, {2, 2, 4, 4}},
                   .attrs = FusedConvAttrs{.stride = {2, 1},
                                           .padding = {0, 1},
                                           .padding_high = {1, 0},
                                           .has_bias = true,
                                           .has_residual = true,
                                           .activation = Activation::hard_swish,
                                           .channels_last = true}},
                  {.dims = {{1, 4, 3, 6}, {6, 1, 3, 3}, {6}},
                   .attrs = FusedConvAttrs{.padding = {1, 1},
                                           .groups = 6,
                                           .has_bias = true,
                                           .activation = Activation::relu6,
                                           .channels_last = true},
                   .lo = -3,
                   .hi = 3},
                  {.dims = {{2, 3, 4}, {5, 4, 1}, {5}, {2, 3, 5}},
                   .attrs = FusedConvAttrs{.has_bias = true,
                                           .has_residual = true,
                                           .activation = Activation::gelu,
                                           .channels_last = true}}},
  });
}

OpDef define_fused_attention_block() {
  return define<AttentionBlockAttrs>({
      .name = "fused_attention_block",
      .doc = "q | k | v = hidden qkv_w + qkv_b, rotary positions of q and k if has_rope, attention (causal, window and "
             "mask "
             "as that op has them), times out_w, + out_b; biases if has_bias, no operand `mask` if mask is none. "
             "hidden[B, "
             "S, E], qkv_w[E, 3 heads D], out_w[heads D, E]",
      .source = "Vaswani et al., NIPS 2017, section 3.2.2",
      .operands = {"hidden", "mask?", "qkv_w", "out_w", "qkv_b?", "out_b?", "cos?", "sin?"},
      .covers = {"FusedAttentionBlock"},
      .infer =
          [](Types given, const AttentionBlockAttrs& a) {
            require_block_operands(given, size_t{4} + (a.has_bias ? 2 : 0) + (a.has_rope ? 2 : 0), a.mask,
                                   flag_text("has_bias", a.has_bias) + " and " + flag_text("has_rope", a.has_rope));
            const std::vector<Type> in = with_mask_place(given, a.mask);
            require_dtype(std::array{in[0], in[2], in[3]}, kReal);
            require_projections(in[0], in[2], in[3], a.heads);
            Type part{in[0].dtype, {in[0].dims[0], in[0].dims[1], in[3].dims[0]}};
            if (a.has_bias) {
              require_dtype(std::array{in[0], in[4], in[5]}, kReal);
              require_dims(in[4], {in[2].dims[1]}, "qkv_b");
              require_dims(in[5], {in[0].dims[2]}, "out_b");
            }
            if (a.has_rope)
              infer_types(op::rope, std::array{part, in[in.size() - 2], in.back()},
                          RopeAttrs{.heads = a.heads, .layout = AttentionLayout::packed});
            std::vector<Type> attended = {part, part, part};
            if (a.mask != AttentionMask::none) attended.push_back(in[1]);
            infer_types(op::attention, attended, attention_of(a));
            return in[0];
          },
      .decompose =
          [](Values given, const AttentionBlockAttrs& a) {
            const std::vector<Value> in = with_mask_place(given, a.mask);
            AttentionBlockWeights w{in[2], in[3]};
            if (a.has_bias) w.qkv_b = in[4], w.out_b = in[5];
            Value cos = a.has_rope ? in[in.size() - 2] : Value(), sin = a.has_rope ? in.back() : Value();
            return attention_block(in[0], in[1], w, a, cos, sin);
          },
      .samples = {{.dims = {{2, 3, 4}, {2, 3}, {4, 12}, {4, 4}}, .attrs = AttentionBlockAttrs{2}, .lo = -1, .hi = 1},
                  {.dims = {{1, 3, 4}, {1, 3}, {4, 12}, {4, 4}, {12}, {4}, {3, 1}, {3, 1}},
                   .dtypes = {f64, boolean},
                   .attrs = AttentionBlockAttrs{2, true, true},
                   .lo = -1,
                   .hi = 1},
                  {.dims = {{2, 2, 3}, {2, 2}, {3, 12}, {4, 3}, {2, 2}, {2, 2}},
                   .attrs = AttentionBlockAttrs{1, false, true, RopeStyle::gptj},
                   .lo = -1,
                   .hi = 1},
                  {.dims = {{1, 0, 2}, {1, 0}, {2, 6}, {2, 2}, {6}, {2}}, .attrs = AttentionBlockAttrs{1, true}},
                  {.dims = {{2, 4, 4}, {4, 12}, {4, 4}, {4, 1}, {4, 1}},
                   .attrs =
                       AttentionBlockAttrs{
                           .heads = 2, .has_rope = true, .causal = true, .window = 1, .mask = AttentionMask::none},
                   .lo = -1,
                   .hi = 1},
                  {.dims = {{2, 3, 4}, {2, 1, 3, 3}, {4, 12}, {4, 4}},
                   .attrs = AttentionBlockAttrs{.heads = 2, .mask = AttentionMask::bias},
                   .lo = -1,
                   .hi = 1}},
  });
}

OpDef define_fused_transformer_layer() {
  return define<TransformerLayerAttrs>({
      .name = "fused_transformer_layer",
      .doc = "h = layer_norm(hidden + fused_attention_block(hidden)), layer_norm(h + activation(h fc1_w + fc1_b) fc2_w "
             "+ fc2_b); all biases and betas if has_bias; causal, window and mask are those of the attention",
      .source = "Devlin et al., NAACL 2019: the layer of BERT",
      .operands = {"hidden", "mask?", "qkv_w", "out_w", "ln1_gamma", "fc1_w", "fc2_w", "ln2_gamma", "qkv_b?", "out_b?",
                   "ln1_beta?", "fc1_b?", "fc2_b?", "ln2_beta?"},
      .covers = {"FusedTransformerLayer"},
      .infer =
          [](Types given, const TransformerLayerAttrs& a) {
            require_block_operands(given, a.has_bias ? 14 : 8, a.mask, flag_text("has_bias", a.has_bias));
            const std::vector<Type> in = with_mask_place(given, a.mask);
            std::vector<Type> block(given.begin(), given.begin() + 3 + (a.mask != AttentionMask::none));
            std::vector<Type> floats(in.begin() + 2, in.end());
            if (a.has_bias) block.insert(block.end(), in.begin() + 8, in.begin() + 10);
            infer_types(op::fused_attention_block, block, attention_block_of(a));
            floats.push_back(in[0]);
            require_dtype(floats, kReal);
            const Dim& width = in[0].dims[2];
            Dim inner = require_matrix(in[5], width, "fc1_w");
            require_dims(in[6], {inner, width}, "fc2_w");
            require_dims(in[4], {width}, "ln1_gamma");
            infer_types(op::layer_norm, std::array{in[0], in[4]},
                        LayerNormAttrs{.epsilon = a.epsilon, .has_beta = false});
            require_dims(in[7], {width}, "ln2_gamma");
            if (a.has_bias) {
              require_dims(in[10], {width}, "ln1_beta");
              require_dims(in[11], {inner}, "fc1_b");
              require_dims(in[12], {width}, "fc2_b");
              require_dims(in[13], {width}, "ln2_beta");
            }
            return in[0];
          },
      .decompose =
          [](Values given, const TransformerLayerAttrs& a) {
            const std::vector<Value> in = with_mask_place(given, a.mask);
            auto bias = [&](size_t i) { return a.has_bias ? in[8 + i] : Value(); };
            Value y = attention_block(in[0], in[1], {in[2], in[3], bias(0), bias(1)}, attention_block_of(a), {}, {});
            Value h = fused_residual_layer_norm(y, in[0], {}, in[4], bias(2), a.epsilon).norm;
            y = fused_matmul(fused_matmul(h, in[5], bias(3), {}, a.activation), in[6], bias(4));
            return fused_residual_layer_norm(y, h, {}, in[7], bias(5), a.epsilon).norm;
          },
      .samples =
          {{.dims = {{2, 3, 4}, {2, 3}, {4, 12}, {4, 4}, {4}, {4, 6}, {6, 4}, {4}},
            .attrs = TransformerLayerAttrs{2},
            .lo = -1,
            .hi = 1},
           {.dims = {{1, 2, 4}, {1, 2}, {4, 12}, {4, 4}, {4}, {4, 3}, {3, 4}, {4}, {12}, {4}, {4}, {3}, {4}, {4}},
            .dtypes = {f64, boolean},
            .attrs = TransformerLayerAttrs{.heads = 1, .has_bias = true, .activation = Activation::gelu_tanh},
            .lo = -1,
            .hi = 1},
           {.dims = {{2, 1, 3}, {2, 1}, {3, 6}, {2, 3}, {3}, {3, 2}, {2, 3}, {3}},
            .attrs = TransformerLayerAttrs{.heads = 2, .activation = Activation::tanh},
            .lo = -1,
            .hi = 1},
           {.dims = {{1, 0, 2}, {1, 0}, {2, 6}, {2, 2}, {2}, {2, 2}, {2, 2}, {2}}},
           {.dims = {{2, 4, 4}, {4, 12}, {4, 4}, {4}, {4, 6}, {6, 4}, {4}},
            .attrs = TransformerLayerAttrs{.heads = 2, .causal = true, .window = 1, .mask = AttentionMask::none},
            .lo = -1,
            .hi = 1},
           {.dims = {{2, 3, 4}, {2, 3, 3}, {4, 12}, {4, 4}, {4}, {4, 6}, {6, 4}, {4}},
            .attrs = TransformerLayerAttrs{.heads = 2, .mask = AttentionMask::bias},
            .lo = -1,
            .hi = 1}},
  });
}

OpDef define_transform_region() {
  return define<RegionAttrs>({
      .name = "transform_region",
      .doc = "the results of `body`, which holds constants and ops that only move elements",
      .operands = {"xs..."},
      .covers = {"TransformRegion"},
      .moves_data = true,
      .infer =
          [](Types in, const RegionAttrs& a) {
            require_types("body's input", required(a.body, "body").input_types(), in);
            for (const Node& node : a.body->nodes())
              if (!node.op->moves_data && node.op != &op::constant && node.op != &op::input)
                fail(ErrorCode::invalid_argument, "a transform region cannot hold '", node.op->name,
                     "'; it takes ops that only move elements, and constants");
            return Many<Type>(a.body->output_types());
          },
      .decompose = [](Graph& g, Values in, const RegionAttrs& a) { return Many<Value>(inlined(g, *a.body, in)); },
      .samples =
          [] {
            auto region = [](std::vector<Type> types, auto body) {
              Sample s{.attrs = RegionAttrs{Subgraph(trace(types, body))}};
              for (const Type& t : types) s.dims.push_back(t.dims), s.dtypes.push_back(t.dtype);
              return s;
            };
            return std::vector<Sample>{region({{f64, {1, 2, 3, 2}}}, [](Values v) { return resize_nearest2x(v[0]); }),
                                       region({{f64, {2, 3}}, {f64, {2, 1}}},
                                              [](Values v) {
                                                return transpose(concatenate({v[0], v[1]}, 1), {1, 0});
                                              }),
                                       region({{i32, {4}}},
                                              [](Values v) {
                                                return std::vector{reverse(v[0], {0}), reshape(v[0], {2, 2})};
                                              }),
                                       region({{f16, {}}}, [](Values v) {
                                         return reshape(v[0], {1, 1});
                                       })};
          },
  });
}

OpDef define_batch_elementwise_region() {
  return define<RegionAttrs>({
      .name = "batch_elementwise_region",
      .doc = "an elementwise_region for each part of a batch: operands part after part, results concatenated along "
             "dim 0",
      .operands = {"xs..."},
      .covers = {"BatchElementwiseRegion"},
      .infer = [](Types in, const RegionAttrs& a) { return batch_region_types(in, a); },
      .decompose = [](Values in, const RegionAttrs& a) -> Many<Value> {
        size_t inputs = a.body->inputs().size();
        std::vector<std::vector<Value>> parts(a.body->outputs().size());
        for (size_t first = 0; first < in.size(); first += inputs) {
          Values part = in.subspan(first, inputs);
          auto out = elementwise_region({part.begin(), part.end()}, *a.body);
          for (size_t r = 0; r < out.size(); ++r) parts[r].push_back(out[r]);
        }
        Many<Value> results;
        for (auto& all : parts) results.push_back(concatenate(all, 0));
        return results;
      },
      .samples =
          [] {
            auto region = [](std::vector<Type> types, size_t parts, auto body) {
              Sample s{.attrs = RegionAttrs{Subgraph(trace(types, body))}};
              for (size_t i = 0; i < parts; ++i)
                for (const Type& t : types) s.dims.push_back(t.dims), s.dtypes.push_back(t.dtype);
              return s;
            };
            return std::vector<Sample>{
                region({{f64, {1, 4}}, {f64, {4}}}, 3, [](Values v) { return tanh(v[0] * v[1] + v[0]); }),
                region({{f64, {2, 3}}}, 1,
                       [](Values v) {
                         return std::vector{v[0] * v[0], sin(v[0])};
                       }),
                region({{f16, {2}}, {f16, {2}}}, 2, [](Values v) { return (v[0] + v[1]) * v[1]; }),
                region({{f64, {0, 3}}}, 2, [](Values v) { return exp(v[0]); })};
          },
  });
}

}  // namespace rlx
