// The blocks of decoders, and the graph of one step; see rlx/language_model.h.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/blocks/cache_dtypes.h"
#include "models/language/cache_layout.h"
#include "models/language/limits.h"
#include "rlx/language_model.h"

namespace rlx {

/// A configuration that was made by hand may be anything.
static LanguageModelConfig checked(LanguageModelConfig c) {
  if (c.windowed.empty()) c.windowed.assign(static_cast<size_t>(std::max<int64_t>(c.layers, 0)), false);
  language::check_sizes(c, "the configuration");
  return c;
}

DecoderBlocks::DecoderBlocks(Graph& graph, const LanguageModelConfig& config, WeightTypes types)
    : graph_(graph), config_(checked(config)), types_(std::move(types)) {}

// ---- weights ----

Value DecoderBlocks::param(const std::string& name, Dims dims) {
  if (const auto known = params_.find(name); known != params_.end()) {
    if (known->second.dims() != dims)
      fail(ErrorCode::shape_mismatch, "param '", name, "' is ", known->second.type(), ", and ",
           Type{known->second.dtype(), dims}, " elsewhere");
    return known->second;
  }
  const WeightType type = type_of(name);
  const DType dtype = type.dtype;
  if (type.group > 0)
    fail(ErrorCode::unsupported, "weight '", name, "' is packed as codes of ", dtype,
         "; here it must be numbers: only matrices of products may be packed so");
  if (dtype != f32 && dtype != f16 && dtype != bf16 && !is_block(dtype))
    fail(ErrorCode::unsupported, "weight '", name, "' is of ", dtype,
         "; weights are f32, f16, bf16 or packed in blocks as GGUF has them");
  if (is_block(dtype) && dims.back().value() % info(dtype).block_elements != 0)
    fail(ErrorCode::shape_mismatch, "weight '", name, "' is of ", dtype, ", whose blocks have ",
         info(dtype).block_elements, " elements, but its rows have ", dims.back());
  return made_param(name, dtype, std::move(dims));
}
Value DecoderBlocks::made_param(const std::string& name, DType dtype, Dims dims) {
  if (const auto known = params_.find(name); known != params_.end()) return known->second;
  Value v = graph_.param(name, dtype, std::move(dims));
  params_.emplace(name, v);
  return v;
}

/// What stands beside the codes "NAME.weight" of these dims, [.., in, out].
CodeScales DecoderBlocks::code_scales(const std::string& name, const WeightType& type, Dims dims) {
  Dim& in = dims.at(dims.size() - 2);
  in = (in.value() + type.group - 1) / type.group;
  CodeScales s;
  s.scale = made_param(name + ".scales", f32, dims);
  if (type.has_zero_points) s.zero_point = made_param(name + ".zero_points", u8, dims);
  if (type.has_biases) s.bias = made_param(name + ".biases", f32, dims);
  if (type.table > 0) s.table = made_param(name + ".table", f32, {type.table});
  return s;
}
Value DecoderBlocks::packed_product(Value x, const std::string& name, int64_t out, const WeightType& type) {
  const Dims dims = {x.dim(-1), out};
  Value codes = made_param(name + ".weight", type.dtype, dims);
  const CodeScales scales = code_scales(name, type, dims);
  if (type.has_order) x = take(x, made_param(name + ".order", i32, {x.dim(-1)}), x.rank() - 1);
  return dequant_matmul(x, codes, scales, type.group);
}

Value DecoderBlocks::float_param(const std::string& name, Dims dims) {
  Value v = param(name, std::move(dims));
  if (is_block(v.dtype()))
    fail(ErrorCode::unsupported, "weight '", name, "' is of ", v.dtype(), "; here it must be f32, f16 or bf16");
  return v.dtype() == f32 ? v : convert(v, f32);
}

Value DecoderBlocks::linear(Value x, const std::string& name, int64_t out, bool bias) {
  const WeightType type = type_of(name + ".weight");
  Value w = type.group > 0 ? Value{} : param(name + ".weight", {out, x.dim(-1)});
  Value b = bias ? float_param(name + ".bias", {out}) : Value{};
  Value y;
  if (!w) y = packed_product(x, name, out, type);
  else if (w.dtype() == f32) y = rlx::linear(x, w, std::exchange(b, Value{}));
  else y = dequant_matmul(x, w);  // blocks, or halves: their product reads the file's bytes
  if (b) y = y + b;
  if (type.adapter_rank == 0) return y;
  Value low = rlx::linear(x, made_param(name + ".adapter_a", f32, {type.adapter_rank, x.dim(-1)}));
  return y + rlx::linear(low, made_param(name + ".adapter_b", f32, {out, type.adapter_rank}));
}

Value DecoderBlocks::rows(Value indices, const std::string& name, int64_t rows, int64_t width) {
  if (const WeightType type = type_of(name + ".weight"); type.group > 0 && type.dtype != i4 && width % 2 == 0)
    return packed_rows(indices, name, rows, width, type);
  Value found = take(param(name + ".weight", {rows, width}), indices);
  if (is_block(found.dtype())) return dequantize_blocks(found, f32);
  return found.dtype() == f32 ? found : convert(found, f32);
}

/// Codes of 4 bits, two in a byte, the first one in the low half: [..., n] as [..., 2 n].
static Value halves_of_bytes(Value bytes) {
  Dims one = bytes.dims(), both = bytes.dims();
  one.emplace_back(1), both.back() = both.back() * Dim(2);
  const auto part = [&](Value half) { return reshape(half, one); };
  Value low = bitwise_and(bytes, full_like(bytes, 15)), high = shift_right_logical(bytes, full_like(bytes, 4));
  return reshape(concatenate({part(low), part(high)}, bytes.rank()), both);
}
/// A table whose rows are taken stands as [rows, width], beside the one that products read as [width, rows]. Two codes
/// of 4 bits are a byte of a row: elements that are taken have an address.
Value DecoderBlocks::packed_rows(Value indices, const std::string& name, int64_t rows, int64_t width,
                                 const WeightType& type) {
  const int64_t groups = (width + type.group - 1) / type.group;
  const auto taken = [&](const char* part, DType dtype, int64_t columns) {
    return take(made_param(text_of(name, ".rows.", part), dtype, {rows, columns}), indices);
  };
  CodeScales s{taken("scales", f32, groups)};
  if (type.has_zero_points) s.zero_point = taken("zero_points", u8, groups);
  if (type.has_biases) s.bias = taken("biases", f32, groups);
  if (type.table > 0) s.table = made_param(name + ".table", f32, {type.table});
  Value codes = type.dtype == u4 ? halves_of_bytes(taken("weight", u8, width / 2)) : taken("weight", type.dtype, width);
  return dequantize_blockwise(codes, s, -1, type.group, f32);
}

Value DecoderBlocks::rms_norm(Value x, const std::string& name) {
  Value w = float_param(name + ".weight", {x.dim(-1)});
  return rlx::rms_norm(x, config_.norm_adds_one ? w + 1.0 : w, {}, config_.norm_epsilon);
}

Value DecoderBlocks::norm(Value x, const std::string& name) {
  if (!config_.layer_norm) return rms_norm(x, name);
  Value w = float_param(name + ".weight", {x.dim(-1)});
  return rlx::layer_norm(x, w, float_param(name + ".bias", {x.dim(-1)}), config_.norm_epsilon);
}

// ---- positions ----

Value DecoderBlocks::embedding(Value ids, const Positions& positions) {
  graph_.set_scope("embedding");
  Value x = rows(ids, "embedding", config_.vocabulary, config_.hidden);
  if (config_.embedding_scale != 1) x = x * config_.embedding_scale;
  if (!config_.learned_positions) return x;
  Value places = iota(graph_, {i32, {1, positions.count}}, 1) + positions.first;
  return x + rows(places, "positions", config_.context, config_.hidden);
}

RopeTables DecoderBlocks::angles(bool is_local, const Positions& positions) {
  std::optional<RopeTables>& known = angles_[is_local && config_.local_rope ? 1 : 0];
  if (!known)
    known = rope_tables(graph_, is_local && config_.local_rope ? *config_.local_rope : config_.rope, positions);
  return *known;
}

// ---- the parts of a layer ----

/// The last `rows` of what stands along an axis; all, if they are not given.
static Value last_of(Value x, int64_t axis, const std::optional<Dim>& rows) {
  return rows ? slice_axis(x, axis, x.dim(axis) - *rows, x.dim(axis)) : x;
}

Value DecoderBlocks::attention(Value x, int64_t layer, const Positions& positions, Cache& cache,
                               std::optional<Dim> rows) {
  const std::string at = text_of("layers.", layer, ".attention.");
  graph_.set_scope(text_of("layers.", layer, ".attention"));
  const bool is_windowed = config_.windowed.at(static_cast<size_t>(layer));
  const int64_t d = config_.head_dim, queries = config_.heads * d, keys = config_.kv_heads * d;
  const Dim n = positions.count, asking = rows.value_or(n);
  Value q, k, v;
  if (config_.fused_query_key_value) {
    Value all = linear(x, at + "query_key_value", queries + 2 * keys, config_.query_key_value_bias);
    q = slice_axis(last_of(all, 1, rows), 2, 0, queries);
    k = slice_axis(all, 2, queries, queries + keys);
    v = slice_axis(all, 2, queries + keys, queries + 2 * keys);
  } else {
    const int64_t with_gates = config_.gated_attention ? 2 * queries : queries;
    q = linear(last_of(x, 1, rows), at + "query", with_gates, config_.query_key_value_bias);
    k = linear(x, at + "key", keys, config_.query_key_value_bias);
    v = linear(x, at + "value", keys, config_.query_key_value_bias);
  }
  Value gate;
  if (config_.gated_attention) {
    Value both = reshape(q, {1, asking, config_.heads, 2 * d});
    q = slice_axis(both, 3, 0, d);
    gate = reshape(slice_axis(both, 3, d, 2 * d), {1, asking, queries});
  }
  q = reshape(q, {1, asking, config_.heads, d});
  k = reshape(k, {1, n, config_.kv_heads, d});
  v = reshape(v, {1, n, config_.kv_heads, d});
  if (config_.query_key_norm) q = rms_norm(q, at + "query_norm"), k = rms_norm(k, at + "key_norm");
  if (!config_.learned_positions) {
    const RopeTables table = angles(is_windowed, positions);
    k = turned(k, table, config_.kv_heads);
    RopeTables of_queries = table;
    of_queries.cosines = last_of(table.cosines, 0, rows), of_queries.sines = last_of(table.sines, 0, rows);
    q = turned(q, of_queries, config_.heads);
  }
  AttentionAttrs attrs{.heads = config_.heads, .kv_heads = config_.kv_heads, .causal = true};
  if (is_windowed) attrs.window = config_.window - 1;
  attrs.scale = config_.attention_scale, attrs.softcap = config_.attention_softcap;
  Value mixed = reshape(cached_attention(q, k, v, cache, positions, attrs), {1, asking, queries});
  if (gate) mixed = mixed * sigmoid(gate);
  return linear(mixed, at + "output", config_.hidden, config_.attention_output_bias);
}

Value DecoderBlocks::feed_forward(Value x, int64_t layer) {
  const std::string at = text_of("layers.", layer, ".feed_forward.");
  graph_.set_scope(text_of("layers.", layer, ".feed_forward"));
  const int64_t width = config_.intermediate;
  const bool bias = config_.feed_forward_bias;
  Value h;
  if (config_.fused_gate_up) {
    Value both = linear(x, at + "gate_up", 2 * width, bias);
    h = activate(slice_axis(both, 2, 0, width), config_.activation) * slice_axis(both, 2, width, 2 * width);
  } else if (config_.gated) {
    Value gate = activate(linear(x, at + "gate", width, bias), config_.activation);
    h = gate * linear(x, at + "up", width, bias);
  } else {
    h = activate(linear(x, at + "up", width, bias), config_.activation);
  }
  return linear(h, at + "down", config_.hidden, bias);
}

Value DecoderBlocks::experts(Value x, int64_t layer) {
  const std::string at = text_of("layers.", layer, ".experts.");
  graph_.set_scope(text_of("layers.", layer, ".experts"));
  const int64_t e = config_.experts, width = config_.expert_intermediate;
  const Dim n = x.dim(1), h = x.dim(2);
  const Routing routing =
      routed(reshape(linear(x, at + "router", e), {n, e}), config_.experts_used, config_.normalize_experts);
  const auto product = [&](Value rows, Value index, const char* name, const Dim& out) {
    const WeightType type = type_of(at + name + ".weight");
    if (type.group > 0) {
      const Dims dims = {e, rows.dim(1), out};
      Value codes = made_param(at + name + ".weight", type.dtype, dims);
      const CodeScales scales = code_scales(at + name, type, dims);
      if (type.has_order)
        rows = take_along_axis(rows, take(made_param(at + name + ".order", i32, {e, rows.dim(1)}), index), 1);
      return dequant_grouped_matmul(rows, codes, index, scales, type.group, true);
    }
    Value w = param(at + name + ".weight", {e, out, rows.dim(1)});
    if (is_block(w.dtype())) return dequant_grouped_matmul(rows, w, index);
    return grouped_matmul(rows, transpose(w.dtype() == f32 ? w : convert(w, f32), {0, 2, 1}), index);
  };
  const auto expert = [&](Value rows, Value index) {
    Value gate = activate(product(rows, index, "gate", width), config_.activation);
    return product(gate * product(rows, index, "up", width), index, "down", h);
  };
  Value sum = reshape(mixed_by(routing, reshape(x, {n, h}), expert), {1, n, h});
  return config_.shared_expert_intermediate > 0 ? sum + shared_expert(x, at + "shared.") : sum;
}

Value DecoderBlocks::shared_expert(Value x, const std::string& at) {
  const int64_t width = config_.shared_expert_intermediate;
  Value h = activate(linear(x, at + "gate", width), config_.activation) * linear(x, at + "up", width);
  Value share = reshape(sigmoid(linear(x, at + "router", 1)), {1, x.dim(1)});
  Value y = linear(h, at + "down", config_.hidden);
  return y * broadcast_in_dim(share, y.dims(), {0, 1});
}

Value DecoderBlocks::layer(Value x, int64_t layer, const Positions& positions, Cache& cache, std::optional<Dim> rows) {
  const std::string at = text_of("layers.", layer, ".");
  const auto within = [&] { graph_.set_scope(text_of("layers.", layer)); };
  within();
  Value read = norm(x, at + "attention_norm"), mixed;
  switch (config_.mixer(layer)) {
    case TokenMixer::attention: mixed = attention(read, layer, positions, cache, rows); break;
    case TokenMixer::mamba: mixed = last_of(mamba(read, layer, cache), 1, rows); break;
    case TokenMixer::mamba2: mixed = last_of(mamba2(read, layer, cache), 1, rows); break;
    case TokenMixer::gated_delta_net: mixed = last_of(gated_delta_net(read, layer, cache), 1, rows); break;
  }
  within();
  if (config_.post_norms) mixed = norm(mixed, at + "attention_post_norm");
  x = last_of(x, 1, rows) + mixed;
  if (!config_.has_feed_forward) return x;
  read = norm(x, at + "feed_forward_norm");
  const bool is_sparse = !config_.sparse.empty() && config_.sparse.at(static_cast<size_t>(layer));
  Value added = is_sparse ? experts(read, layer) : feed_forward(read, layer);
  within();
  if (config_.post_norms) added = norm(added, at + "feed_forward_post_norm");
  return x + added;
}

Value DecoderBlocks::logits(Value x) {
  graph_.set_scope("output");
  x = norm(x, "output_norm");
  Value y = linear(x, config_.tied_embeddings ? "embedding" : "output", config_.vocabulary);
  return config_.logits_softcap ? soft_capped(y, *config_.logits_softcap) : y;
}

Graph decoder_graph(const LanguageModelConfig& config, const DecoderBlocks::WeightTypes& types, DType cache) {
  checked(config);
  check_cache_dtype(cache, config.has_attention() ? config.head_dim : 0);  // states of recurrences are f32 in any case
  Graph g(config.architecture.empty() ? "decoder" : config.architecture);
  const Dim n = Dim::symbol("n"), rows = Dim::symbol("rows");
  Value ids = g.input("tokens", i32, {1, n});
  const auto positions = SequencePositions::inputs(g, n);
  g.input("rows", u8, {rows, 0});  // without bytes, as "total": it carries a number
  const std::vector<language::CacheInput> inputs = language::cache_inputs(config, cache);
  std::vector<Value> kept;
  for (const language::CacheInput& input : inputs)
    kept.push_back(g.input(input.name, input.type.dtype, input.type.dims));

  DecoderBlocks blocks(g, config, types);
  Value x = blocks.embedding(ids, positions);
  for (int64_t i = 0; i < config.layers; ++i) {
    Value &first = kept[2 * static_cast<size_t>(i)], &second = kept[2 * static_cast<size_t>(i) + 1];
    const bool has_attention = config.mixer(i) == TokenMixer::attention;
    DecoderBlocks::Cache one;
    (has_attention ? one.keys : one.convolution) = first, (has_attention ? one.values : one.state) = second;
    x = i + 1 < config.layers ? blocks.layer(x, i, positions, one) : blocks.layer(x, i, positions, one, rows);
    first = has_attention ? one.keys : one.convolution, second = has_attention ? one.values : one.state;
  }
  Value y = blocks.logits(x);
  g.output(reshape(y, {rows, config.vocabulary}), "logits");
  for (size_t i = 0; i < inputs.size(); ++i) g.output(kept[i], inputs[i].name);
  g.set_scope("");
  return g;
}

}  // namespace rlx
