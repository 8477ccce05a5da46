// Singular values by one-sided Jacobi rotations (products xᴴ x would lose half of the digits), and what is made of
// them: pseudo-inverses and least squares.
#include <numeric>

#include "ops/control/subgraph_rules.h"
#include "ops/linalg/jacobi.h"
#include "ops/linalg/unblocked.h"
#include "rlx/ops/control.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/sort.h"
#include "rlx/ops/take.h"

namespace rlx {

Svd svd(Value x, bool full) {
  auto all = x.graph().emit(op::svd, {x}, FullAttrs{full});
  return {all[0], all[1], all[2]};
}
Value pinv(Value x, double cutoff) { return emit(op::pinv, {x}, CutoffAttrs{cutoff}); }
Value lstsq(Value a, Value b, double cutoff) { return emit(op::lstsq, {a, b}, CutoffAttrs{cutoff}); }

namespace {

template <class T>
struct PlainSvd {
  plain::Matrix<T> u, v;  // v, not its adjoint
  std::vector<double> s;
};

template <class T>
double column_norm(const plain::Matrix<T>& x, int64_t j) {
  double largest = 0, sum = 0;
  for (int64_t i = 0; i < x.rows; ++i) largest = std::max(largest, std::abs(x(i, j)));
  for (int64_t i = 0; i < x.rows && largest > 0; ++i) sum += plain::squared(x(i, j) / largest);
  return largest * std::sqrt(sum);
}
/// Orthonormal columns beside those of q: those that Householder's reflections of q have there.
template <class T>
plain::Matrix<T> completed(const plain::Matrix<T>& q, int64_t cols) {
  auto packed = q;
  auto taus = plain::factorize_qr(packed);
  auto all = plain::product_of_reflections(packed, taus, cols);
  for (int64_t i = 0; i < q.rows; ++i)
    for (int64_t j = 0; j < q.cols; ++j) all(i, j) = q(i, j);
  return all;
}

/// Rotates pairs of columns until all are orthogonal: x v = u s then. Columns are compared by their lengths' ratio and
/// their angle, not by squares, so that those which have almost vanished beside others become orthogonal too.
template <class T>
PlainSvd<T> svd_of_tall(plain::Matrix<T> x) {
  int64_t n = x.cols;
  // What is shorter (beside 1) has lost digits to the end of the exponents: a direction of it means nothing.
  constexpr double kVanished = std::numeric_limits<double>::min() / std::numeric_limits<double>::epsilon();
  double scale = plain::scale_of(x);
  plain::divide(x, scale);
  auto v = plain::Matrix<T>::identity(n);
  for (int sweep = 0; sweep < 80; ++sweep) {
    bool done = true;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        double alpha = column_norm(x, p), beta = column_norm(x, q);
        if (alpha < kVanished || beta < kVanished) continue;
        T w = 0;
        for (int64_t i = 0; i < x.rows; ++i) w += plain::conjugated(x(i, p) / alpha) * (x(i, q) / beta);
        if (!(std::abs(w) > 1e-16)) continue;
        done = done && std::abs(w) <= 1e-15;
        plain::Rotation<T> rotation(alpha / beta, beta / alpha, w);
        rotation.columns(x, p, q), rotation.columns(v, p, q);
      }
    if (done) break;
  }
  std::vector<double> norms;
  std::vector<int64_t> order(size_t(n), 0);
  for (int64_t j = 0; j < n; ++j) norms.push_back(column_norm(x, j));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return norms[size_t(i)] > norms[size_t(j)]; });
  PlainSvd<T> r{plain::columns_at(x, order), plain::columns_at(v, order), {}};
  int64_t rank = 0;
  for (int64_t j = 0; j < n; ++j) {
    double norm = norms[size_t(order[size_t(j)])];
    r.s.push_back(norm * scale);
    if (norm < kVanished) continue;
    ++rank;
    for (int64_t i = 0; i < x.rows; ++i) r.u(i, j) /= norm;
  }
  if (rank < n) r.u = completed(r.u.corner(x.rows, rank), n);
  return r;
}
template <class T>
PlainSvd<T> svd_of(const plain::Matrix<T>& x, bool full) {
  PlainSvd<T> r;
  int64_t k = std::min(x.rows, x.cols);
  if (!x.is_finite())
    return {
        {x.rows, full ? x.rows : k, T(NAN)}, {x.cols, full ? x.cols : k, T(NAN)}, std::vector<double>(size_t(k), NAN)};
  if (x.rows >= x.cols) {
    r = svd_of_tall(x);
  } else {
    r = svd_of_tall(x.adjoint());
    std::swap(r.u, r.v);
  }
  auto phases = plain::phases(r.u);
  plain::turn_columns(r.u, phases), plain::turn_columns(r.v, phases);
  if (full) r.u = completed(r.u, x.rows), r.v = completed(r.v, x.cols);
  return r;
}

Value norms_of_columns(Value x) { return sqrt(reduce_sum(squared_magnitude(x), {x.rank() - 2})); }

/// u, s, v of x[batch, m, n] with m >= n and finite elements.
std::array<Value, 3> tall_parts(Graph& g, Value x) {
  Dim batch = x.dim(0);
  int64_t m = known_extent(x.dim(1), "svd"), n = known_extent(x.dim(2), "svd"), even = jacobi::even(n), half = even / 2;
  Value q, scale = scale_of(x);
  x = divided_by(x, scale);
  if (m > n) {
    Qr parts = qr(x);
    q = parts.q, x = parts.r;
  }
  x = zero_padded(x, n, even);
  Value identity = broadcast_to(eye(g, {x.dtype(), {even, even}}), {batch, even, even});
  double enough = epsilon_of(x.dtype()) * double(std::max<int64_t>(n, 10));

  // Carried: the columns, the rotations so far, and the largest cosine between two columns met in this sweep.
  std::vector<Type> types = {x.type(), identity.type(), {real_part(x.dtype()), {batch}}};
  Graph round = trace(types, [&](Values v) {
    Value p = slice_axis(v[0], 2, 0, half), q2 = slice_axis(v[0], 2, half, even);
    Value alpha = reduce_sum(squared_magnitude(p), {1}), beta = reduce_sum(squared_magnitude(q2), {1});
    Value w = reduce_sum(conjugate(p) * q2, {1});
    jacobi::Rotations rotations(alpha, beta, w);
    Value norms = sqrt(alpha) * sqrt(beta), none = compare(norms, zeros_like(norms), Comparison::eq);
    Value cosine = select(none, zeros_like(norms), abs(w) / select(none, full_like(norms, 1), norms));
    return std::vector{jacobi::next_round(rotations.columns(v[0]), 2), jacobi::next_round(rotations.columns(v[1]), 2),
                       maximum(v[2], reduce_max(cosine, {1}))};
  });
  Graph unfinished =
      trace(types, [&](Values v) { return reduce_any(compare(v[2], full_like(v[2], enough), Comparison::gt), {0}); });
  Graph sweep = trace(types, [&](Graph& b, Values v) {
    return scan(b, {v[0], v[1], zeros_like(v[2])}, {.carries = 3, .length = even - 1, .body = round});
  });
  Value start = full(g, 1, types[2]);
  auto out = while_loop({x, identity, start}, {3, unfinished, sweep, jacobi::kMostSweeps});
  Value u = slice_axis(out[0], 2, 0, n), v = slice(out[1], {0, 0, 0}, {batch, n, n});
  Value s = norms_of_columns(u), order = argsort(s, 1, true);
  s = take_along_axis(s, order, 1), u = permuted_columns(u, order), v = permuted_columns(v, order);
  // Directions of columns that vanish are free: those that the reflections of the others have there. As vanished
  // counts what is so short beside 1 that its squares may have lost digits.
  double eps = epsilon_of(x.dtype());
  Value none = compare(s, full_like(s, eps * eps), Comparison::lt);
  u = select(as_row(none), zeros_like(u), u / convert(as_row(select(none, full_like(s, 1), s)), u.dtype()));
  u = select(as_row(none), qr(u).q, u);
  return {q ? matmul(q, u) : u, s * as_column(scale), v};
}

/// Orthonormal columns beside those of q, as the reference has them.
Value completed(Value q) {
  Dim m = q.dim(-2), k = q.dim(-1);
  return m == k ? q : concatenate({q, slice_axis(qr(q, true).q, -1, k, m)}, q.rank() - 1);
}
Many<Value> full_parts(Value x) {
  auto [u, s, vt] = svd(x);
  return {completed(u), s, adjoint(completed(adjoint(vt)))};
}

Many<Value> svd_parts(Graph& g, Value x, bool full) {
  if (full) return full_parts(x);
  Type type = x.type();
  int64_t m = known_extent(x.dim(-2), "svd"), n = known_extent(x.dim(-1), "svd"), k = std::min(m, n);
  x = one_stack(x);
  Dim batch = x.dim(0);
  DType part = real_part(type.dtype);
  if (k == 0)
    return {rlx::full(g, 0, {type.dtype, with_batch(type, {m, 0})}), rlx::full(g, 0, {part, with_batch(type, {0})}),
            rlx::full(g, 0, {type.dtype, with_batch(type, {0, n})})};
  Value finite = all_finite(x), bad = bitwise_not(finite);
  x = select(as_column(as_column(finite)), x, zeros_like(x));
  std::array<Value, 3> parts = tall_parts(g, m < n ? adjoint(x) : x);
  auto& [u, s, v] = parts;
  if (m < n) std::swap(u, v);
  Value turn = conjugate(phase_of(at_place(u, leading_place(u))));
  u = u * turn, v = v * turn;
  return {unstacked(nan_where(bad, u, 2), type), unstacked(nan_where(bad, s, 1), type, 1),
          unstacked(nan_where(bad, adjoint(v), 2), type)};
}

/// The bar of x for those of u, s and v (each may be absent), of the thin decomposition.
Value svd_bar(Value u, Value s, Value v, Value u_bar, Value s_bar, Value v_bar) {
  DType dtype = u.dtype();
  Value inner;
  auto add = [&](Value term) { inner = inner ? inner + term : term; };
  Value outer;  // what leaves the spaces of u and v
  if (u_bar || v_bar) {
    // Of s / scale: no square overflows or vanishes. What is made of it is divided by the scale in the end.
    Value largest = reduce_max(s, {s.rank() - 1}, true);
    Value scale =
        stop_gradient(select(compare(largest, zeros_like(largest), Comparison::eq), full_like(largest, 1), largest));
    // Gaps are taken before they are scaled: then they are exact.
    Value gap = (as_row(s) - as_column(s)) / as_column(scale), sum = (as_row(s) + as_column(s)) / as_column(scale);
    s = s / scale;
    Value none = compare(s, zeros_like(s), Comparison::eq);
    Value inverse = convert(select(none, zeros_like(s), 1.0 / select(none, full_like(s, 1), s)), dtype);
    // 1 / (s_j^2 - s_i^2), and 0 where the gap is lost in rounding.
    Value lost = compare(abs(gap), full_like(gap, 4 * epsilon_of(s.dtype())), Comparison::le);
    Value f = convert(select(lost, zeros_like(gap), 1.0 / select(lost, full_like(gap, 1), gap * sum)), dtype);
    Value size = convert(s, dtype);
    if (is_complex(dtype)) {
      Value turning;
      if (u_bar) turning = turning_of(u_bar, u);
      if (v_bar) turning = turning ? turning + turning_of(v_bar, v) : turning_of(v_bar, v);
      Value turn = phase_bar(u, turning);
      u_bar = u_bar ? u_bar + turn : turn;
    }
    if (u_bar) {
      Value x = matmul(adjoint(u), u_bar), fx = f * x;
      add((fx + adjoint(fx)) * as_row(size));
      if (is_complex(dtype)) {
        Value turning = imag(diagonal(x));
        add(diag(complex(zeros_like(turning), turning) * inverse));
      }
      if (u.dim(-2) != u.dim(-1)) outer = matmul((u_bar - matmul(u, x)) * as_row(inverse), adjoint(v));
    }
    if (v_bar) {
      Value y = matmul(adjoint(v), v_bar), fy = f * y;
      add(as_column(size) * (fy + adjoint(fy)));
      if (v.dim(-2) != v.dim(-1)) {
        Value beyond = matmul(u, adjoint((v_bar - matmul(v, y)) * as_row(inverse)));
        outer = outer ? outer + beyond : beyond;
      }
    }
    Value divisor = convert(as_column(scale), dtype);
    inner = inner / divisor;
    if (outer) outer = outer / divisor;
  }
  if (s_bar) add(diag(convert(s_bar, dtype)));
  Value x = matmul(matmul(u, inner), adjoint(v));
  return outer ? x + outer : x;
}

double cutoff_of(const CutoffAttrs& a, const Type& x) {
  if (a.cutoff >= 0) return a.cutoff;
  int64_t larger = std::max(known_extent(rows_of(x), "pinv"), known_extent(cols_of(x), "pinv"));
  return epsilon_of(x.dtype) * double(larger);
}

}  // namespace

OpDef define_svd() {
  return define<FullAttrs>({
      .name = "svd",
      .doc =
          "x = u diag(s) vt, s descending. In each column of u the first component of at least 0.45 times the largest "
          "magnitude is real and positive. `full`: square u and vt; their other columns are those of the full `qr` of "
          "the first ones. NaN if x is not finite",
      .source = "one-sided Jacobi: Hestenes (1958), Golub, Van Loan, 8.6; LAPACK xGESDD. Derivative: Townsend, "
                "Differentiating the singular value decomposition (2016); Wan, Zhang, arXiv 1909.02659",
      .operands = {"x"},
      .covers = {"Svd"},
      .infer = [](Types in, const FullAttrs& a) -> Many<Type> {
        require_matrices(in[0]);
        const Dim &m = rows_of(in[0]), &n = cols_of(in[0]);
        Dim k = least_extent(in[0]);
        DType t = in[0].dtype;
        return {Type{t, with_batch(in[0], {m, a.full ? m : k})}, Type{real_part(t), with_batch(in[0], {k})},
                Type{t, with_batch(in[0], {a.full ? n : k, n})}};
      },
      .reference = [](Tensors in, const FullAttrs& a) -> Many<Tensor> {
        return plain::with_field(in[0].dtype(), [&]<class T>() -> Many<Tensor> {
          Array<T> x(in[0]);
          int64_t m = x.shape[x.shape.size() - 2], n = x.shape.back(), k = std::min(m, n);
          Array<T> u(plain::with_batch(x.shape, {m, a.full ? m : k})),
              vt(plain::with_batch(x.shape, {a.full ? n : k, n}));
          Array<double> s(plain::with_batch(x.shape, {k}));
          for (int64_t b = 0; b < plain::stack_size(x.shape); ++b) {
            auto r = svd_of(plain::matrix_at(x, b), a.full);
            plain::put(u, b, r.u), plain::put(s, b, r.s), plain::put(vt, b, r.v.adjoint());
          }
          DType t = in[0].dtype();
          return {u.rounded_to(t), s.rounded_to(real_part(t)), vt.rounded_to(t)};
        });
      },
      .decompose = [](Graph& g, Values in, const FullAttrs& a) { return svd_parts(g, in[0], a.full); },
      .vjp = [](Values in, Values out, Values cts, const FullAttrs&, const Transforms& t) -> Many<Value> {
        Dim k = out[1].dim(-1);
        if (out[0].dim(-1) != k || out[2].dim(-2) != k) {
          Graph parts = trace(std::array{in[0].type()}, [&](Values v) { return full_parts(v[0]); });
          return inlined(in[0].graph(), t.vjp(parts, {true}, mask_of(cts)), joined(in, present(cts)));
        }
        Value vt_bar = bar_of(cts[2]);
        return ct_of(
            svd_bar(out[0], out[1], adjoint(out[2]), bar_of(cts[0]), cts[1], vt_bar ? adjoint(vt_bar) : vt_bar));
      },
      .batch = batch_as_stack<FullAttrs>(op::svd),
      .samples = {{.dims = {{3, 3}}},
                  {.dims = {{4, 2}}},
                  {.dims = {{2, 3}}},
                  {.dims = {{3, 2}}, .attrs = FullAttrs{true}},
                  {.dims = {{1, 3}}, .attrs = FullAttrs{true}},
                  {.dims = {{2, 1, 2, 2}}},
                  {.dims = {{1, 1}}},
                  {.dims = {{2, 0, 3}}}},
  });
}

OpDef define_pinv() {
  return define<CutoffAttrs>({
      .name = "pinv",
      .doc =
          "the Moore-Penrose inverse; singular values of at most `cutoff` times the largest count as 0 (negative: eps "
          "max(m, n))",
      .source = "derivative: Golub, Pereyra, SIAM J. Numer. Anal. 10 (1973)",
      .operands = {"x"},
      .infer =
          [](Types in, const CutoffAttrs&) {
            require_matrices(in[0]);
            least_extent(in[0]);
            return Type{in[0].dtype, with_batch(in[0], {cols_of(in[0]), rows_of(in[0])})};
          },
      .decompose =
          [](Values in, const CutoffAttrs& a) {
            auto [u, s, vt] = svd(in[0]);
            if (s.dim(-1) == Dim(0)) return matmul(adjoint(vt), adjoint(u));
            Value least = reduce_max(s, {s.rank() - 1}, true) * cutoff_of(a, in[0].type());
            // NaN is kept: it is not less than anything.
            Value none = compare(s, least, Comparison::le);
            Value inverse = select(none, zeros_like(s), 1.0 / select(none, full_like(s, 1), s));
            return matmul(adjoint(vt) * convert(as_row(inverse), vt.dtype()), adjoint(u));
          },
      .vjp =
          [](Values in, Value p, Value ct) {
            Value x = in[0], bar = bar_of(ct), h = adjoint(p);
            Value y = -matmul(h, matmul(bar, h));
            Value left = matmul(p, matmul(h, bar));  // (p pᴴ bar)(1 - x p)
            left = left - matmul(matmul(left, x), p);
            Value right = matmul(matmul(bar, h), p);  // (1 - p x)(bar pᴴ p)
            right = right - matmul(p, matmul(x, right));
            return ct_of(y + adjoint(left) + adjoint(right));
          },
      .batch = batch_as_stack<CutoffAttrs>(op::pinv),
      .samples = {{.dims = {{3, 2}}},
                  {.dims = {{2, 3}}},
                  {.dims = {{2, 1, 2, 2}}},
                  {.dims = {{1, 1}}, .lo = 1, .hi = 2},
                  {.dims = {{2, 0}}}},
  });
}

OpDef define_lstsq() {
  return define<CutoffAttrs>({
      .name = "lstsq",
      .doc = "x of least norm among those that make |a x - b| least: pinv(a) b, for b[..., m, k] or b[..., m]",
      .source = "numpy.linalg.lstsq",
      .operands = {"a", "b"},
      .infer =
          [](Types in, const CutoffAttrs&) {
            require_matrices(in[0], "a");
            require_dtype(in, kReal | kComplex);
            least_extent(in[0]);
            Dims dims = in[1].dims;
            dims[dims.size() - (is_vectors(in[0], in[1]) ? 1 : 2)] = cols_of(in[0]);
            return Type{in[0].dtype, dims};
          },
      .decompose =
          [](Values in, const CutoffAttrs& a) {
            bool vectors = is_vectors(in[0].type(), in[1].type());
            Value x = matmul(pinv(in[0], a.cutoff), vectors ? as_column(in[1]) : in[1]);
            return vectors ? squeeze(x, {-1}) : x;
          },
      .batch = batch_as_stack<CutoffAttrs>(op::lstsq),
      .samples = {{.dims = {{3, 2}, {3}}},
                  {.dims = {{2, 3}, {2, 2}}},
                  {.dims = {{2, 3, 2}, {2, 3, 1}}},
                  {.dims = {{1, 1}, {1}}, .lo = 1, .hi = 2}},
  });
}

}  // namespace rlx
