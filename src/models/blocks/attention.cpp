// Norms of tokens, attention and its caches; see rlx/models/transformer.h.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "models/blocks/cache_dtypes.h"
#include "rlx/models/transformer.h"
#include "rlx/ops/quantize_blocks.h"

namespace rlx {

Value token_norm(ModelBuilder& b, Value x, const std::string& name, const TokenNormConfig& c) {
  if (c.kind == TokenNorm::layer_norm) return b.layer_norm(x, name, c.epsilon, c.bias);
  if (!c.adds_one) return b.rms_norm(x, name, c.epsilon);
  return b.within(name, [&] { return rms_norm(x, b.param("weight", {x.dim(-1)}) + 1.0, {}, c.epsilon); });
}

std::span<const DType> cache_dtypes() {
  // Of the block formats those whose encoders need no search: each step makes some.
  static constexpr std::array kCacheDTypes = {f32, f16, bf16, q8_0, q4_0};
  return kCacheDTypes;
}

std::string names_of_cache_dtypes(std::string_view conjunction) {
  const std::span<const DType> all = cache_dtypes();
  std::string names(name_of(all[0]));
  for (size_t i = 1; i < all.size(); ++i)
    names += text_of(i + 1 < all.size() ? ", " : text_of(" ", conjunction, " "), all[i]);
  return names;
}

void check_cache_dtype(DType dtype, const Dim& head_dim) {
  const std::span<const DType> all = cache_dtypes();
  if (std::find(all.begin(), all.end(), dtype) == all.end())
    fail(ErrorCode::unsupported, "caches of ", dtype, "; there are ", names_of_cache_dtypes("and"));
  const int64_t length = info(dtype).block_elements;
  if (is_block(dtype) && !(head_dim.is_static() && head_dim.value() % length == 0))
    fail(ErrorCode::unsupported, "a cache of ", dtype, ", whose blocks have ", length, " elements, but heads have ",
         head_dim, ", which is no multiple of that; take f16");
}

KeyValueCache KeyValueCache::inputs(Graph& g, const std::string& name, const Dims& dims, DType dtype) {
  if (dims.size() != 4)
    fail(ErrorCode::shape_mismatch, "a cache of ", Type{dtype, dims}, "; it is [B, kv_heads, capacity, head_dim]");
  check_cache_dtype(dtype, dims[3]);
  return {g.input(name + ".keys", dtype, dims), g.input(name + ".values", dtype, dims)};
}
void KeyValueCache::output(const std::string& name) const {
  keys.graph().output(keys, name + ".keys");
  values.graph().output(values, name + ".values");
}

Value cached_attention(Value q, Value k, Value v, KeyValueCache& cache, const SequencePositions& positions,
                       AttentionAttrs attrs, Value mask) {
  if (!cache.keys || !cache.values || !positions.first)
    fail(ErrorCode::invalid_argument,
         "attention with a cache needs its keys and values, and the position of the first ",
         "token: KeyValueCache::inputs and SequencePositions::inputs declare them");
  // What is attended to and what attends have one dtype, that of the cache, but for queries of blocks; sums are f32 in
  // any case.
  const DType kept = cache.keys.dtype();
  const auto heads_first = [&](Value t) {
    t = transpose(t, {0, 2, 1, 3});
    return t.dtype() == kept || is_block(kept) ? t : convert(t, kept);
  };
  const auto as_kept = [&](Value t) { return is_block(kept) ? quantize_blocks(heads_first(t), kept) : heads_first(t); };
  cache.keys = dynamic_update_axis(cache.keys, as_kept(k), 2, positions.first);
  cache.values = dynamic_update_axis(cache.values, as_kept(v), 2, positions.first);
  attrs.layout = AttentionLayout::bhsd;
  Value seen = slice_axis(cache.keys, 2, 0, positions.total), carried = slice_axis(cache.values, 2, 0, positions.total);
  Value mixed =
      mask ? attention(heads_first(q), seen, carried, mask, attrs) : attention(heads_first(q), seen, carried, attrs);
  if (mixed.dtype() != q.dtype()) mixed = convert(mixed, q.dtype());
  return transpose(mixed, {0, 2, 1, 3});
}

namespace {

/// Queries, keys and values, [B, S, heads D] each.
struct Projected {
  Value q, k, v;
};
Projected projected(ModelBuilder& b, Value x, Value memory, const AttentionConfig& c, int64_t head_dim) {
  const int64_t queries = c.heads * head_dim, keys = c.kv_heads.value_or(c.heads) * head_dim, rows = queries + 2 * keys;
  if (c.names.packed.empty()) {
    Value read = memory ? memory : x;
    Value q = b.linear(x, c.names.query, queries, c.bias), k = b.linear(read, c.names.key, keys, c.bias);
    return {q, k, b.linear(read, c.names.value, keys, c.bias)};
  }
  if (memory)
    fail(ErrorCode::unsupported, "cross-attention with the packed weight '", c.names.packed,
         "', whose queries and keys have one source; give query, key and value names of their own");
  Value all;
  if (c.names.packed.back() == '_') {
    Value w = b.param(c.names.packed + "weight", {rows, x.dim(-1)});
    all = linear(x, w, c.bias ? b.param(c.names.packed + "bias", {rows}) : Value{});
  } else {
    all = b.linear(x, c.names.packed, rows, c.bias);
  }
  Value q = slice_axis(all, 2, 0, queries), k = slice_axis(all, 2, queries, queries + keys);
  return {q, k, slice_axis(all, 2, queries + keys, rows)};
}

int64_t checked_head_dim(Value x, const AttentionConfig& c) {
  if (x.rank() != 3) fail(ErrorCode::shape_mismatch, "attention reads tokens [B, S, W], got ", x.type());
  const int64_t width = x.dim(-1).value(), kv_heads = c.kv_heads.value_or(c.heads);
  if (c.heads < 1 || kv_heads < 1 || c.heads % kv_heads != 0)
    fail(ErrorCode::shape_mismatch, c.heads, " heads of queries cannot share ", kv_heads,
         " heads of keys and values evenly");
  if (!c.head_dim && width % c.heads != 0)
    fail(ErrorCode::shape_mismatch, "a width of ", width, " does not divide into ", c.heads,
         " heads; give AttentionConfig::head_dim");
  if (c.window < 0)
    fail(ErrorCode::invalid_argument, "a window of ", c.window, " tokens; give 1 or more, or 0 for all tokens");
  return c.head_dim.value_or(width / c.heads);
}

/// Everything between the projections: [B, S, heads D].
Value mixed(ModelBuilder& b, Projected in, const AttentionConfig& c, const AttentionContext& context) {
  const int64_t kv_heads = c.kv_heads.value_or(c.heads);
  auto [q, k, v] = in;
  const Dims dims = q.dims();
  // Heads stay side by side where nothing asks for them one by one.
  const bool is_split = context.cache || c.query_key_norm;
  if (is_split) {
    const auto split = [&](Value t, int64_t heads) {
      return reshape(t, {t.dim(0), t.dim(1), heads, t.dim(2) / heads});
    };
    q = split(q, c.heads), k = split(k, kv_heads), v = split(v, kv_heads);
  }
  if (c.query_key_norm) {
    q = token_norm(b, q, c.names.query_norm, *c.query_key_norm);
    k = token_norm(b, k, c.names.key_norm, *c.query_key_norm);
  }
  if (context.rope) q = turned(q, context.rope, c.heads), k = turned(k, context.rope, kv_heads);
  AttentionAttrs attrs{.heads = c.heads,
                       .kv_heads = c.kv_heads,
                       .layout = is_split ? AttentionLayout::bshd : AttentionLayout::packed,
                       .causal = c.causal};
  if (c.window > 0) attrs.window = c.window - 1;
  attrs.scale = c.scale, attrs.softcap = c.softcap;
  if (context.mask) attrs.mask = context.mask_kind;
  Value y;
  if (context.cache) y = cached_attention(q, k, v, *context.cache, context.positions, attrs, context.mask);
  else y = context.mask ? attention(q, k, v, context.mask, attrs) : attention(q, k, v, attrs);
  return is_split ? reshape(y, dims) : y;
}

}  // namespace

Value self_attention(ModelBuilder& b, Value x, const AttentionConfig& c, const AttentionContext& context) {
  const auto built = [&] {
    const Projected in = projected(b, x, context.memory, c, checked_head_dim(x, c));
    // Named after the part of the model that has the projections: BERT's "self" has self.query.
    const size_t dot = c.names.query.rfind('.');
    Value y = c.names.packed.empty() && dot != std::string::npos
                  ? b.within(c.names.query.substr(0, dot), [&] { return mixed(b, in, c, context); })
                  : mixed(b, in, c, context);
    return b.linear(y, c.names.output, x.dim(-1).value(), c.output_bias);
  };
  return c.names.scope.empty() ? built() : b.within(c.names.scope, built);
}

}  // namespace rlx
