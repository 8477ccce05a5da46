// Attention as a composite; see the header. The reference goes through queries and keys one by one.
#include "rlx/ops/attention.h"

#include <cmath>

#include "ops/core/composite_rules.h"
#include "ops/nn/heads.h"
#include "rlx/blocks.h"
#include "rlx/ops/backward.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/quantize.h"
#include "rlx/ops/reduction.h"

namespace rlx {

Value attention(Value q, Value k, Value v, AttentionAttrs attrs) { return emit(op::attention, {q, k, v}, attrs); }
Value attention(Value q, Value k, Value v, Value mask, AttentionAttrs attrs) {
  return emit(op::attention, {q, k, v, mask}, attrs);
}
AttentionGradients attention_backward(Value q, Value k, Value v, Value ct, Value mask, AttentionAttrs attrs) {
  std::vector<Value> operands = {q, k, v, ct};
  if (mask) operands.push_back(mask);
  auto all = q.graph().emit(op::attention_backward, operands, attrs);
  return {all[0], all[1], all[2], all.size() > 3 ? all[3] : Value{}};
}

namespace {

struct AttentionDims {
  HeadDims q, k, v;
  int64_t group;  // query heads that share a head of k and v
  AttentionDims(const Type& q_type, const Type& k_type, const Type& v_type, const AttentionAttrs& a)
      : q(q_type, a.layout, a.heads, "q"), k(k_type, a.layout, a.kv_heads.value_or(a.heads), "k"),
        v(v_type, a.layout, a.kv_heads.value_or(a.heads), "v"), group(a.heads / k.heads) {
    if (a.heads % k.heads != 0)
      fail(ErrorCode::invalid_argument, a.heads, " query heads cannot share ", k.heads, " heads of k and v evenly");
    if (k.batch != q.batch || v.batch != q.batch)
      fail(ErrorCode::shape_mismatch, "the batches differ: q ", q_type, ", k ", k_type, ", v ", v_type);
    if (k.width != q.width)
      fail(ErrorCode::shape_mismatch, "heads of q ", q_type, " and k ", k_type, " differ in width: ", q.width, " and ",
           k.width);
    if (q.width == Dim(0) && !a.scale)
      fail(ErrorCode::invalid_argument, "heads of q ", q_type, " have no element, so that there is no scale ",
           "1 / sqrt(0); give `scale`");
    if (k.length != v.length)
      fail(ErrorCode::shape_mismatch, "k ", k_type, " and v ", v_type, " differ in length: ", k.length, " and ",
           v.length);
  }
  Dims scores() const { return {q.batch, q.heads, q.length, k.length}; }
};

void require_mask(const Type& mask, const AttentionAttrs& a, const AttentionDims& d) {
  if (a.mask == AttentionMask::bias) {
    require_kind(mask, kReal, "bias");
    return require_broadcasts(mask, d.scores(), "the bias");
  }
  require_kind(mask, kBool | kInteger | kReal, "key padding mask");
  require_rank(mask, 1, 4, "the key padding mask");
  bool fits = mask.dims.back() == d.k.length;
  for (size_t i = 0; i + 1 < mask.rank(); ++i)
    fits = fits && (mask.dims[i] == Dim(1) || (i == 0 && mask.dims[0] == d.q.batch));
  if (!fits)
    fail(ErrorCode::shape_mismatch, "a key padding mask must be ", Type{mask.dtype, {d.q.batch, d.k.length}}, ", got ",
         mask, "; what differs between queries or heads is a bias");
}

/// Whether the keys are kept, as [B or 1, 1, 1, Sk].
Value kept_keys(Value mask) {
  if (mask.dtype() != boolean) {
    if (!is_float(mask.dtype())) mask = convert(mask, f32);
    mask = compare(mask, full_like(mask, 0.5), Comparison::ge);
  }
  return reshape(mask, {mask.rank() > 1 ? mask.dim(0) : Dim(1), 1, 1, mask.dim(-1)});
}
/// Whether query i may see key j by their places, as [Sq, Sk].
Value visible_places(Graph& g, const AttentionDims& d, const AttentionAttrs& a) {
  Type type{i32, {d.q.length, d.k.length}};
  Value key = iota(g, type, 1), query = iota(g, type, 0);
  if (d.q.length != d.k.length) query = query + extent(g, d.k.length - d.q.length, i32);
  Value visible;
  auto restrict = [&](Value also) { visible = visible ? bitwise_and(visible, also) : also; };
  if (a.causal) restrict(compare(key, query, Comparison::le));
  if (a.window) {
    // Differences of places, which i32 holds for any window: a place plus a large window is beyond it.
    const auto within = [&](Value distance) {
      restrict(compare(distance, full_like(distance, static_cast<double>(*a.window)), Comparison::le));
    };
    within(query - key);
    if (!a.causal) within(key - query);
  }
  return visible;
}

Value scaled(Value x, const AttentionDims& d, const AttentionAttrs& a) {
  if (a.scale) return x * *a.scale;
  if (d.q.width.is_static()) return x * (1 / std::sqrt(static_cast<double>(d.q.width.value())));
  return x * rsqrt(extent(x.graph(), d.q.width, x.dtype()));
}

/// What attention and its gradient share. The queries of a group share a head of k: they stand one behind the other, as
/// more rows of one product.
struct Attended {
  AttentionDims d;
  Dim rows;
  Value q, k, v;  ///< [B, heads of k, rows or Sk, width]
  Value capped;   ///< tanh(s / softcap), if there is a soft cap: [B, H, Sq, Sk]
  Value p;        ///< the probabilities: [B, H, Sq, Sk]

  Attended(Graph& g, Value q_in, Value k_in, Value v_in, Value mask, const AttentionAttrs& a);
  Dims grouped(const Dim& last) const { return {d.q.batch, d.k.heads, rows, last}; }
};

Attended::Attended(Graph& g, Value q_in, Value k_in, Value v_in, Value mask, const AttentionAttrs& a)
    : d(q_in.type(), k_in.type(), v_in.type(), a), rows(d.q.length * d.group) {
  q = reshape(to_bhsd(q_in, d.q), grouped(d.q.width)), k = to_bhsd(k_in, d.k), v = to_bhsd(v_in, d.v);
  DType dtype = q.dtype();
  Value s = reshape(dot_general(q, k, {{0, 1}, {0, 1}, {3}, {3}}), d.scores());
  s = scaled(s, d, a);
  if (a.softcap) capped = tanh(s / *a.softcap), s = capped * *a.softcap;
  if (a.mask == AttentionMask::bias) s = s + convert(mask, dtype);
  Value none = scalar(g, -INFINITY, dtype);
  if (a.causal || a.window) s = select(visible_places(g, d, a), s, none);
  if (a.mask == AttentionMask::key_padding) s = select(kept_keys(mask), s, none);
  // A row of -inf alone: its maximum counts as 0, so that its terms are 0 and not NaN, and its sum as 1.
  Value max = stop_gradient(reduce_max(s, {3}));
  max = select(is_finite(max), max, zeros_like(max));
  Value e = exp(s - broadcast_like(max, s, {3}));
  Value sum = reduce_sum(e, {3});
  sum = select(compare(sum, zeros_like(sum), Comparison::eq), full_like(sum, 1), sum);
  p = e / broadcast_like(sum, s, {3});
}

/// Keys or values as numbers of q's dtype.
Value dequantized_operand(Value x, Value q) { return is_block(x.dtype()) ? dequantize_blocks(x, q.dtype()) : x; }

Value attention_parts(Graph& g, Values in, const AttentionAttrs& a) {
  Attended at(g, in[0], dequantized_operand(in[1], in[0]), dequantized_operand(in[2], in[0]),
              in.size() > 3 ? in[3] : Value{}, a);
  const AttentionDims& d = at.d;
  Value y = dot_general(reshape(at.p, at.grouped(d.k.length)), at.v, {{0, 1}, {0, 1}, {3}, {2}});
  return from_bhsd(reshape(y, {d.q.batch, d.q.heads, d.q.length, d.v.width}), d.q, in[0]);
}

/// With P the probabilities, made again: dV = Pᵀ dY, dP = dY Vᵀ, dS = P (dP - rowsum(P dP)), dQ = dS K, dK = dSᵀ Q.
Many<Value> attention_backward_parts(Graph& g, Values in, const AttentionAttrs& a) {
  Value ct = in[3], mask = in.size() > 4 ? in[4] : Value{};
  Attended at(g, in[0], in[1], in[2], mask, a);
  const AttentionDims& d = at.d;
  Value dy = reshape(to_bhsd(ct, HeadDims(ct.type(), a.layout, a.heads, "ct")), at.grouped(d.v.width));
  Value dp = reshape(dot_general(dy, at.v, {{0, 1}, {0, 1}, {3}, {3}}), d.scores());
  Value weighted = at.p * dp;
  Value ds = weighted - at.p * broadcast_like(reduce_sum(weighted, {3}), at.p, {3}), d_bias;
  if (a.mask == AttentionMask::bias) d_bias = convert(summed_to(ds, mask.dims()), mask.dtype());
  if (a.softcap) ds = ds * ((1.0 - at.capped) * (1.0 + at.capped));
  ds = reshape(scaled(ds, d, a), at.grouped(d.k.length));
  Value dq = dot_general(ds, at.k, {{0, 1}, {0, 1}, {3}, {2}});
  Value dk = dot_general(ds, at.q, {{0, 1}, {0, 1}, {2}, {2}});
  Value dv = dot_general(reshape(at.p, at.grouped(d.k.length)), dy, {{0, 1}, {0, 1}, {2}, {2}});
  Many<Value> all = {from_bhsd(reshape(dq, {d.q.batch, d.q.heads, d.q.length, d.q.width}), d.q, in[0]),
                     from_bhsd(dk, d.k, in[1]), from_bhsd(dv, d.v, in[2])};
  if (d_bias) all.push_back(d_bias);
  return all;
}

Type attention_type(Types in, const AttentionAttrs& a) {
  std::vector<Type> numbers = {in[0]};
  for (const Type& t : in.subspan(1, 2))
    if (!is_block(t.dtype)) numbers.push_back(t);
  require_dtype(numbers, kReal);
  AttentionDims d(in[0], in[1], in[2], a);
  if (in.size() != size_t{3} + (a.mask != AttentionMask::none))
    fail(ErrorCode::invalid_argument, "the mask is '", names_of(a.mask)[size_t(a.mask)], "', but there are ", in.size(),
         " operands; the fourth is the mask");
  if (a.mask != AttentionMask::none) require_mask(in[3], a, d);
  if (a.window && (*a.window < 0 || *a.window > INT32_MAX))
    fail(ErrorCode::invalid_argument, "window is ", *a.window, "; it counts positions, from 0 to ", INT32_MAX);
  if (a.scale && !std::isfinite(*a.scale))
    fail(ErrorCode::invalid_argument, "scale is ", *a.scale, "; it must be a finite number");
  if (a.softcap && (!(*a.softcap > 0) || std::isinf(*a.softcap)))
    fail(ErrorCode::invalid_argument, "a soft cap must be above 0 and finite, got ", *a.softcap,
         "; leave it out for none");
  Type t = in[0];
  t.dims.back() = a.layout == AttentionLayout::packed ? d.v.width * a.heads : d.v.width;
  return t;
}

/// The fourth operand, wherever it broadcasts from.
struct MaskElements {
  Array<double> mask;
  explicit MaskElements(const Tensor& t) : mask(t.shape()) {
    for (size_t i = 0; i < mask.data.size(); ++i) mask.data[i] = load_number(t, i);
  }
  double at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    Axes all = {b, h, i, j}, index;
    for (size_t d = 0; d < mask.shape.size(); ++d)
      index.push_back(mask.shape[d] == 1 ? 0 : all[4 - mask.shape.size() + d]);
    return mask.at(index);
  }
  double padding_at(int64_t b, int64_t j) const {
    Axes index(mask.shape.size());
    if (index.size() > 1 && mask.shape[0] > 1) index[0] = b;
    index.back() = j;
    return mask.at(index);
  }
};

Tensor attention_of(Tensors in, const AttentionAttrs& a) {
  AttentionDims d(in[0].type(), in[1].type(), in[2].type(), a);
  std::vector<Type> types;
  for (const Tensor& t : in) types.push_back(t.type());
  Type type = attention_type(types, a);
  const auto numbers = [](const Tensor& t) { return is_block(t.dtype()) ? dequantized(t, f64) : t; };
  Array<double> q(in[0]), k(numbers(in[1])), v(numbers(in[2])), y(shape_of(type.dims));
  std::optional<MaskElements> mask;
  if (a.mask != AttentionMask::none) mask.emplace(in[3]);
  HeadDims out(type, a.layout, a.heads, "the result");
  int64_t queries = d.q.length.value(), keys = d.k.length.value(), width = d.q.width.value(),
          v_width = d.v.width.value();
  double scale = a.scale.value_or(1 / std::sqrt(static_cast<double>(width)));
  std::vector<double> s(static_cast<size_t>(keys));
  for_each_index({d.q.batch.value(), a.heads, queries}, [&](const Axes& row) {
    int64_t b = row[0], h = row[1], i = row[2], shared = h / d.group, place = keys - queries + i;
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t e = 0; e < width; ++e) score += q.data[d.q.at(b, i, h, e)] * k.data[d.k.at(b, j, shared, e)];
      score *= scale;
      if (a.softcap) score = *a.softcap * std::tanh(score / *a.softcap);
      if (a.mask == AttentionMask::bias) score += mask->at(b, h, i, j);
      if (a.causal && j > place) score = -INFINITY;
      if (a.window && std::abs(j - place) > *a.window) score = -INFINITY;
      if (a.mask == AttentionMask::key_padding && !(mask->padding_at(b, j) >= 0.5)) score = -INFINITY;
      s[size_t(j)] = score;
      if (!(score <= max) && !std::isnan(max)) max = score;  // NaN stays, though masked keys follow
    }
    if (max == -INFINITY) return;  // no key: zeros
    for (double& score : s) sum += score = std::exp(score - max);
    for (int64_t e = 0; e < v_width; ++e) {
      double value = 0;
      for (int64_t j = 0; j < keys; ++j) value += s[size_t(j)] / sum * v.data[d.v.at(b, j, shared, e)];
      y.data[out.at(b, i, h, e)] = value;
    }
  });
  return y.rounded_to(type.dtype);
}

std::vector<Sample> attention_samples() {
  using enum AttentionLayout;
  using Masks = AttentionMask;
  auto attrs = [](int64_t heads, AttentionLayout layout, auto set) {
    AttentionAttrs a{.heads = heads, .layout = layout};
    set(a);
    return a;
  };
  auto plain = [](AttentionAttrs&) {};
  return {{.dims = {{2, 3, 4, 5}, {2, 3, 6, 5}, {2, 3, 6, 5}}, .attrs = attrs(3, bhsd, plain)},
          {.dims = {{2, 4, 3, 5}, {2, 4, 3, 5}, {2, 4, 3, 2}},
           .attrs = attrs(3, bshd, [](auto& a) { a.causal = true, a.scale = 0.7; })},
          {.dims = {{2, 3, 8}, {2, 5, 8}, {2, 5, 8}},
           .attrs = attrs(2, packed, [](auto& a) { a.causal = true, a.softcap = 1.5; })},
          {.dims = {{5, 4}, {3, 4}, {3, 6}}, .attrs = attrs(2, packed, [](auto& a) { a.causal = true; })},
          {.dims = {{2, 4, 3, 2}, {2, 2, 5, 2}, {2, 2, 5, 3}},
           .attrs = attrs(4, bhsd, [](auto& a) { a.kv_heads = 2, a.window = 1; })},
          {.dims = {{2, 3, 8}, {2, 3, 4}, {2, 3, 4}},
           .attrs = attrs(4, packed, [](auto& a) { a.kv_heads = 2, a.causal = true, a.window = 1; })},
          {.dims = {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}, {2, 5}},
           .attrs = attrs(2, packed, [](auto& a) { a.mask = Masks::key_padding; })},
          {.dims = {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}, {2, 1, 1, 5}},
           .dtypes = {f64, f64, f64, boolean},
           .attrs = attrs(1, packed, [](auto& a) { a.mask = Masks::key_padding, a.causal = true; })},
          {.dims = {{2, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}, {5}},
           .dtypes = {f64, f64, f64, i32},
           .attrs = attrs(2, bhsd, [](auto& a) { a.mask = Masks::key_padding, a.window = 2; })},
          {.dims = {{2, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}, {2, 2, 3, 5}},
           .attrs = attrs(2, bhsd, [](auto& a) { a.mask = Masks::bias, a.causal = true; })},
          {.dims = {{2, 3, 2, 4}, {2, 5, 1, 4}, {2, 5, 1, 4}, {2, 1, 5}},
           .dtypes = {f64, f64, f64, f32},
           .attrs = attrs(2, bshd, [](auto& a) { a.mask = Masks::bias, a.kv_heads = 1; })},
          {.dims = {{1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}, {}},
           .attrs = attrs(2, bhsd, [](auto& a) { a.mask = Masks::bias, a.window = 1; })},
          // One query a head, as when a sequence grows by a token.
          {.dims = {{2, 4, 1, 20}, {2, 2, 9, 20}, {2, 2, 9, 18}},
           .attrs = attrs(4, bhsd, [](auto& a) { a.kv_heads = 2, a.causal = true, a.window = 3; })},
          {.dims = {{2, 1, 6, 16}, {2, 5, 2, 16}, {2, 5, 2, 16}, {2, 6, 1, 5}},
           .attrs = attrs(6, bshd, [](auto& a) { a.kv_heads = 2, a.window = 2, a.mask = Masks::bias; })},
          {.dims = {{2, 1, 32}, {2, 5, 16}, {2, 5, 16}, {2, 5}},
           .attrs = attrs(4, packed, [](auto& a) { a.kv_heads = 2, a.window = 3, a.mask = Masks::key_padding; })},
          {.dims = {{1, 2, 3, 4}, {1, 2, 0, 4}, {1, 2, 0, 4}}, .attrs = attrs(2, bhsd, plain)},
          {.dims = {{2, 1, 3, 4}, {2, 1, 3, 4}, {2, 1, 3, 4}}, .attrs = attrs(1, bhsd, plain), .lo = -99, .hi = 99}};
}

/// Keys and values of a packed cache: one query a head, several, and values alone.
std::vector<Sample> attention_samples_of_blocks() {
  using enum AttentionLayout;
  auto causal = [](int64_t heads, int64_t kv_heads, AttentionLayout layout) {
    return AttentionAttrs{.heads = heads, .kv_heads = kv_heads, .layout = layout, .causal = true};
  };
  return {{.dims = {{1, 4, 1, 32}, {1, 2, 9, 32}, {1, 2, 9, 64}},
           .dtypes = {f64, q8_0, q8_0},
           .attrs = causal(4, 2, bhsd),
           .lo = -0.5,
           .hi = 0.5},
          {.dims = {{2, 3, 2, 32}, {2, 5, 1, 32}, {2, 5, 1, 32}, {2, 5}},
           .dtypes = {f64, q4_0, q4_0, boolean},
           .attrs = AttentionAttrs{.heads = 2, .kv_heads = 1, .layout = bshd, .mask = AttentionMask::key_padding},
           .lo = -0.5,
           .hi = 0.5},
          {.dims = {{3, 64}, {4, 64}, {4, 64}},
           .dtypes = {f64, f64, q8_0},
           .attrs = causal(2, 2, packed),
           .lo = -0.5,
           .hi = 0.5}};
}

}  // namespace

OpDef define_attention() {
  return define<AttentionAttrs>({
      .name = "attention",
      .doc =
          "softmax of q kᵀ scale, soft-capped, biased and masked in this order, times v. Query i stands at "
          "Sk - Sq + i; causal: it "
          "sees no key behind it; window: none further away than that. A query that sees no key gives zeros. k and v "
          "are of q's dtype, or each of a block format, whose numbers count as q's dtype",
      .source = "Vaswani et al., NIPS 2017; grouped heads: Ainslie et al., EMNLP 2023",
      .operands = {"q", "k", "v", "mask?"},
      .covers = {"Attention"},
      .infer = [](Types in, const AttentionAttrs& a) { return attention_type(in, a); },
      .reference = [](Tensors in, const AttentionAttrs& a) { return attention_of(in, a); },
      .decompose = [](Graph& g, Values in, const AttentionAttrs& a) { return attention_parts(g, in, a); },
      .vjp = [](Values in, Value, Value ct, const AttentionAttrs& a) -> Many<Value> {
        auto d = attention_backward(in[0], dequantized_operand(in[1], in[0]), dequantized_operand(in[2], in[0]), ct,
                                    in.size() > 3 ? in[3] : Value{}, a);
        if (is_block(in[1].dtype())) d.k = {};
        if (is_block(in[2].dtype())) d.v = {};
        Many<Value> all = {d.q, d.k, d.v, d.bias};
        return all.resize(in.size()), all;
      },
      .samples =
          [] {
            auto all = attention_samples();
            for (Sample& s : attention_samples_of_blocks()) all.push_back(std::move(s));
            return all;
          },
  });
}

OpDef define_attention_backward() {
  return define<AttentionAttrs>({
      .name = "attention_backward",
      .doc = "the cotangents of q, k and v of attention, whose attributes it takes, and of the bias if there is one; "
             "the probabilities are computed again",
      .source = "Vaswani et al., NIPS 2017; the recomputation: Dao et al., NeurIPS 2022",
      .operands = {"q", "k", "v", "ct", "mask?"},
      .covers = {"AttentionBackward", "AttentionBackwardAll"},
      .infer = [](Types in, const AttentionAttrs& a) -> Many<Type> {
        if (in.size() < 4) fail(ErrorCode::invalid_argument, "q, k, v and ct are needed, got ", in.size(), " operands");
        require_dtype(in.first(3), kReal);
        std::vector<Type> forward(in.begin(), in.begin() + 3);
        if (in.size() > 4) forward.push_back(in[4]);
        Type y = attention_type(forward, a);
        if (in[3] != y) fail(ErrorCode::shape_mismatch, "ct must be ", y, " as attention's result, got ", in[3]);
        forward.resize(size_t{3} + (a.mask == AttentionMask::bias));
        return forward;
      },
      .decompose = [](Graph& g, Values in, const AttentionAttrs& a) { return attention_backward_parts(g, in, a); },
      .samples =
          [] {
            auto all = attention_samples();
            // One number added to all scores changes no weight: its gradient is 0, and what rounding leaves of it.
            std::erase_if(all, [](const Sample& s) { return s.dims.size() > 3 && s.dims[3].empty(); });
            for (Sample& s : all) {
              std::vector<Type> forward;
              for (size_t i = 0; i < s.dims.size(); ++i)
                forward.push_back({i < s.dtypes.size() ? s.dtypes[i] : f64, s.dims[i]});
              s.dims.insert(s.dims.begin() + 3, attention_type(forward, s.attrs.as<AttentionAttrs>()).dims);
              if (s.dtypes.size() > 3) s.dtypes.insert(s.dtypes.begin() + 3, f64);
            }
            return all;
          },
  });
}

}  // namespace rlx
