// Attention: one operation where the opset has it and means the same by it, else two products around a softmax.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "backends/coreml/lowerings.h"
#include "ops/nn/heads.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace {
constexpr int64_t kMostMasked = int64_t{1} << 20;  // numbers of an attention's mask that stands in the package
}

namespace when {
std::optional<std::string> can_attend(const Question& q) {
  const auto& a = q.node.attrs.as<AttentionAttrs>();
  if (a.layout != AttentionLayout::bhsd) return "the operation takes [B, H, S, D] only";
  if (a.kv_heads && *a.kv_heads != a.heads) return "the operation wants as many heads of keys as of queries";
  if (a.mask != AttentionMask::none) return "a query that sees no key is zero here, and undefined there";
  if (q.operands[0].rank() != 4 || q.operands[1].dims.back() != q.operands[2].dims.back())
    return "the operation wants rank 4, and values of the width of keys";
  if (a.softcap) return "the operation has no soft cap";
  if (a.causal || a.window) {
    // A mask of numbers; one that leaves a query no key would give NaN.
    const Dim queries = q.operands[0].dims.at(2), keys = q.operands[1].dims.at(2);
    if (!queries.is_static() || !keys.is_static()) return "the mask of open sizes is computed";
    if (queries.value() > keys.value()) return "a query that sees no key is zero here, and undefined there";
    if (queries.value() * keys.value() > kMostMasked)
      return text_of("the mask would hold ", queries.value() * keys.value(), " numbers in the package");
  }
  return is_float(q);
}
std::optional<std::string> can_attend_back(const Question& q) {
  // dP less its weighted sum cancels: what softmax rounds otherwise than exp and a quotient is more than a unit there.
  if (q.operands[0].dtype == f16) return "in f16 its parts round as the op's own do, one by one";
  return std::nullopt;
}
}  // namespace when

std::optional<std::string> open::attention(const Question& q) {
  if (q.operands[0].dims.back().is_static()) return std::nullopt;
  return "the width of its keys";
}

Lowered lower_attention(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<AttentionAttrs>();
  Var q = l.operand(0), k = l.operand(1), v = l.operand(2);
  auto width = static_cast<double>(q.shape.back());
  if (a.scale) q = e.mul(q, *a.scale * std::sqrt(width));  // the operation divides by the root itself
  Arguments arguments{{"query", q}, {"key", k}, {"value", v}};
  if (a.causal || a.window) {
    const int64_t queries = q.shape[2], keys = k.shape[2];
    Tensor mask(q.dtype, {1, 1, queries, keys});
    size_t to = 0;
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t j = 0; j < keys; ++j, ++to) {
        const int64_t ahead = j - (keys - queries + i);
        if ((a.causal && ahead > 0) || (a.window && std::abs(ahead) > *a.window))
          store<double>(mask, to, -std::numeric_limits<double>::infinity());
      }
    arguments.emplace_back("attn_mask", e.constant(mask));
  }
  return {e.emit("scaled_dot_product_attention", arguments, q.dtype, l.shape())};
}

namespace {

/// [B, H, S, D] of an operand in any layout.
Var by_heads(Emitter& e, const Var& x, const HeadDims& d) {
  if (d.layout == AttentionLayout::bhsd) return x;
  const Shape split{e.extent(d.batch), e.extent(d.length), d.heads, e.extent(d.width)};
  return e.transpose(e.reshape(x, split), {0, 2, 1, 3});
}
/// The inverse: a result of that shape.
Var in_layout(Emitter& e, const Var& x, AttentionLayout layout, const Shape& shape) {
  return layout == AttentionLayout::bhsd ? x : e.reshape(e.transpose(x, {0, 2, 1, 3}), shape);
}

/// What attention and its gradient share: the probabilities, by the operation `softmax`.
struct Probabilities {
  Emitter& e;
  const AttentionAttrs& a;
  HeadDims queries, keys, values;
  int64_t group;  ///< query heads that share a head of keys and values: they are more rows of one product
  int64_t rows;   ///< of a group
  Var q, k, v;    ///< [B, heads of k, rows or Sk, width]; q times the scale
  std::optional<Var> scale_of_width = {};  ///< where the width is open
  std::optional<Var> capped = {};          ///< tanh(s / softcap): [B, H, Sq, Sk]
  std::optional<Var> seeing =
      {};      ///< where some queries may see no key: those that see one, [B or 1, H or 1, Sq or 1, 1]
  Var p = {};  ///< [B, H, Sq, Sk]; of queries that see no key it is any

  /// `mask_at`: which operand the mask is, if there is one.
  Probabilities(Lowering& l, size_t mask_at)
      : e(l.e), a(l.attrs<AttentionAttrs>()), queries(l.types[0], a.layout, a.heads, "q"),
        keys(l.types[1], a.layout, a.kv_heads.value_or(a.heads), "k"),
        values(l.types[2], a.layout, a.kv_heads.value_or(a.heads), "v"), group(a.heads / keys.heads),
        rows(e.extent(queries.length * group)) {
    q = grouped(scaled(by_heads(e, l.operand(0), queries)));
    k = by_heads(e, l.operand(1), keys), v = by_heads(e, l.operand(2), values);
    Var s = per_head(e.matmul(q, k, false, true, {q.shape[0], q.shape[1], rows, k.shape[2]}));
    if (a.softcap) {
      capped = e.unary("tanh", e.binary("real_div", s, e.number(s.dtype, *a.softcap)));
      s = e.mul(*capped, *a.softcap);
    }
    p = e.emit("softmax", {{"x", masked(l, mask_at, s)}, {"axis", e.integer(3)}}, s.dtype, s.shape);
  }

  /// [B, H, Sq, n] as [B, heads of k, rows, n], and back.
  Var grouped(const Var& x) { return e.reshape(x, {x.shape[0], keys.heads, rows, x.shape[3]}); }
  Var per_head(const Var& x) { return e.reshape(x, {x.shape[0], a.heads, e.extent(queries.length), x.shape[3]}); }

  /// Before the product of f16 rather than behind it, where it would come too late for what exceeds f16.
  Var scaled(const Var& x) {
    if (a.scale) return e.mul(x, *a.scale);
    if (queries.width.is_static()) return e.mul(x, 1 / std::sqrt(static_cast<double>(queries.width.value())));
    if (!scale_of_width) {
      Var width = e.cast(e.size(e.extent(queries.width)), x.dtype);
      scale_of_width = e.emit("rsqrt", {{"x", width}, {"epsilon", e.number(x.dtype, 0)}}, x.dtype, {1});
    }
    return e.mul(x, *scale_of_width);
  }

  /// Zeros in the rows of queries that see no key.
  Var zero_where_blind(const Var& x) { return seeing ? e.select(*seeing, x, filled_like(x, 0)) : x; }

  /// What is repeated to the shape of a value, once for all layers: `select` takes operands of one shape only.
  Var repeated(const Var& small, const Var& like) {
    std::string key = text_of(small.name, " repeated to");
    for (int64_t extent : like.shape) key += text_of(" ", extent);
    Shape padded = small.shape;
    padded.insert(padded.begin(), like.shape.size() - padded.size(), 1);
    return e.once(key, [&] { return e.broadcast(e.reshape(small, padded), like.shape); });
  }
  Var filled_like(const Var& like, double value) {
    return repeated(e.once(text_of(like.dtype, " ", value),
                           [&] { return e.constant(full(like.dtype, Shape(like.shape.size(), 1), value)); }),
                    like);
  }

 private:
  /// The scores with a bias, and -inf for keys that are not seen. A row of -inf alone has no softmax: where there may
  /// be one its scores are left, or zeros, and `seeing` tells it.
  Var masked(Lowering& l, size_t mask_at, Var s) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    std::optional<Var> seen = by_place();
    if (a.mask == AttentionMask::key_padding)
      seen = seen ? e.both(*seen, kept_keys(l, mask_at)) : kept_keys(l, mask_at);
    if (a.mask == AttentionMask::bias) {
      s = e.add(s, e.cast(l.loose(mask_at), s.dtype));
      if (seen) s = e.select(*seen, s, filled_like(s, -kInfinity));
      if (is_moderate(l.tensor(mask_at)) && !may_see_nothing()) return s;
      seeing = e.test("not_equal", e.reduce("reduce_max", s, {3}, true), -kInfinity);
      return e.select(*seeing, s, filled_like(s, 0));
    }
    if (!seen) return s;
    if (a.mask == AttentionMask::key_padding) {
      seeing = e.cast(e.reduce("reduce_max", e.cast(*seen, i32), {3}, true), boolean);
      seen = e.either(*seen, e.negated(*seeing));
    } else {
      if (may_see_nothing()) {
        // By their places too: a reduction of constants is one that coremltools' reader fails to fold.
        seeing = e.once(seen->name + " by any", [&] {
          const Var query = places();
          const Var first = e.number(i32, a.causal ? 0 : -static_cast<double>(window()));
          return e.reshape(e.test("greater_equal", query, first), {1, 1, query.shape[0], 1});
        });
        seen = e.once(seen->name + " or by none", [&] {
          const Var all = e.reshape(*seen, {1, 1, seen->shape[0], seen->shape[1]});
          return e.either(all, e.negated(*seeing));
        });
      }
      seen = repeated(*seen, s);
    }
    return e.select(*seen, s, filled_like(s, -kInfinity));
  }

  /// Whether all numbers of a bias are known and such that no sum with a score is -inf, in f16 either.
  static bool is_moderate(const Tensor* bias) {
    constexpr double kMost = 1e4;
    if (!bias) return false;
    for (size_t i = 0; i < bias->element_count(); ++i)
      if (!(std::abs(load_number(*bias, i)) <= kMost)) return false;
    return true;
  }

  /// Whether places alone may leave a query no key. The first query stands at Sk - Sq.
  bool may_see_nothing() const {
    if (!a.causal && !a.window) return false;
    const Dim first = keys.length - queries.length;
    if (!first.is_static()) return true;
    return first.value() < 0 && (a.causal || first.value() + *a.window < 0);
  }

  /// Whether a query sees a key by their places, [Sq, Sk]; nothing if all do.
  std::optional<Var> by_place() {
    if (!a.causal && !a.window) return std::nullopt;
    const int64_t sq = e.extent(queries.length), sk = e.extent(keys.length);
    const auto key = text_of("places that are seen: ", sq, " ", sk, a.causal ? " causal " : " ",
                             a.window ? text_of("window ", *a.window) : "");
    return e.once(key, [&] { return is_open({sq, sk}) || sq * sk > kMostMasked ? computed(sk) : listed(sq, sk); });
  }
  /// Such that no sum with a place exceeds i32.
  int64_t window() const { return std::min<int64_t>(a.window.value_or(0), int64_t{1} << 30); }
  /// Where queries stand, [Sq, 1].
  Var places() {
    const int64_t sq = e.extent(queries.length);
    const Var query = e.reshape(e.counting(sq), {sq, 1});
    const Dim first = keys.length - queries.length;  // below 0 where there are more queries: no extent
    if (first == Dim(0)) return query;
    return e.add(query, first.is_static() ? e.integer(first.value()) : e.size(e.extent(first)));
  }
  Var listed(int64_t sq, int64_t sk) {
    Tensor seen(boolean, {sq, sk});
    for (int64_t i = 0; i < sq; ++i)
      for (int64_t j = 0; j < sk; ++j) {
        const int64_t ahead = j - (sk - sq + i);
        store<int64_t>(seen, static_cast<size_t>(i * sk + j),
                       !(a.causal && ahead > 0) && !(a.window && std::abs(ahead) > window()));
      }
    return e.constant(seen);
  }
  Var computed(int64_t sk) {
    const Var key = e.reshape(e.counting(sk), {1, sk}), query = places();
    std::optional<Var> seen;
    const auto narrow = [&](const Var& more) { seen = seen ? e.both(*seen, more) : more; };
    const auto far = static_cast<double>(window());
    if (a.causal) narrow(e.test("less_equal", key, query));
    if (a.window) narrow(e.test("greater_equal", key, e.sub(query, far)));
    if (a.window && !a.causal) narrow(e.test("less_equal", key, e.add(query, far)));
    return *seen;
  }

  /// The mask as [B or 1, 1, 1, Sk].
  Var kept_keys(Lowering& l, size_t mask_at) {
    Var x = l.operand(mask_at);
    if (x.dtype != boolean) {
      x = is_wide_unsigned(l.types[mask_at].dtype) ? real_of_unsigned(e, x) : e.cast(x, f32);
      x = e.test("greater_equal", x, 0.5);
    }
    return e.reshape(x, {x.shape.size() > 1 ? x.shape[0] : 1, 1, 1, x.shape.back()});
  }
};

}  // namespace

Lowered lower_attention_by_softmax(Lowering& l) {
  Emitter& e = l.e;
  Probabilities at(l, 3);
  const Shape shape{at.k.shape[0], at.keys.heads, at.rows, at.v.shape[3]};
  const Var y = at.per_head(e.matmul(at.grouped(at.p), at.v, false, false, shape));
  return {in_layout(e, at.zero_where_blind(y), at.a.layout, l.shape())};
}

// dV = P^T dY, dP = dY V^T, dS = P (dP - rowsum(P dP)), dQ = dS K, dK = dS^T Q: Vaswani et al., NIPS 2017.
Lowered lower_attention_backward(Lowering& l) {
  Emitter& e = l.e;
  Probabilities at(l, 4);
  const int64_t batch = at.k.shape[0], heads = at.keys.heads, keys = at.k.shape[2];
  const int64_t width = at.k.shape[3], v_width = at.v.shape[3];
  const Var dy = at.grouped(by_heads(e, l.operand(3), HeadDims(l.types[3], at.a.layout, at.a.heads, "ct")));
  const Var dp = at.per_head(e.matmul(dy, at.v, false, true, {batch, heads, at.rows, keys}));
  const Var p = at.zero_where_blind(at.p), weighted = e.mul(p, dp);
  Var ds = e.sub(weighted, e.mul(p, e.reduce("reduce_sum", weighted, {3}, true)));
  std::optional<Var> d_bias;
  if (at.a.mask == AttentionMask::bias) {
    const Type& bias = l.types[4];
    const Dims whole{at.queries.batch, at.a.heads, at.queries.length, at.keys.length};
    Axes summed;
    for (size_t d = 0; d < whole.size(); ++d) {
      const size_t missing = whole.size() - bias.rank();
      if (d < missing || bias.dims[d - missing] != whole[d]) summed.push_back(static_cast<int64_t>(d));
    }
    d_bias = summed.empty() ? ds : e.reduce("reduce_sum", ds, summed, true);
    d_bias = e.cast(e.reshape(*d_bias, l.shape(3)), l.dtype(3));
  }
  if (at.capped) {
    const Var one = e.number(ds.dtype, 1);
    ds = e.mul(ds, e.mul(e.sub(one, *at.capped), e.add(one, *at.capped)));
  }
  ds = at.grouped(ds);
  // q is scaled already, for dK; dQ is still to be.
  const Var dq = at.scaled(at.per_head(e.matmul(ds, at.k, false, false, {batch, heads, at.rows, width})));
  const Var dk = e.matmul(ds, at.q, true, false, {batch, heads, keys, width});
  const Var dv = e.matmul(at.grouped(p), dy, true, false, {batch, heads, keys, v_width});
  Lowered all{in_layout(e, dq, at.a.layout, l.shape(0)), in_layout(e, dk, at.a.layout, l.shape(1)),
              in_layout(e, dv, at.a.layout, l.shape(2))};
  if (d_bias) all.push_back(*d_bias);
  return all;
}

}  // namespace rlx::coreml
