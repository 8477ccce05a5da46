// Householder reflections: the packed QR, products of reflections, and QR made of both. Signs are LAPACK's: the
// reflection that clears a column makes its diagonal element -sign(Re x) times the column's norm; a column that has
// nothing to clear (and whose diagonal element is real) is left alone, with tau = 0.
#include "ops/control/subgraph_rules.h"
#include "ops/linalg/unblocked.h"
#include "rlx/ops/control.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/index.h"

namespace rlx {

Geqrf geqrf(Value x) {
  auto both = x.graph().emit(op::geqrf, {x});
  return {both[0], both[1]};
}
Value householder_product(Value x, Value taus) { return emit(op::householder_product, {x, taus}); }
Qr qr(Value x, bool full) {
  auto both = x.graph().emit(op::qr, {x}, FullAttrs{full});
  return {both[0], both[1]};
}

namespace plain {

template <class T>
std::vector<T> factorize_qr(Matrix<T>& x) {
  std::vector<T> taus;
  for (int64_t j = 0; j < std::min(x.rows, x.cols); ++j) {
    T alpha = x(j, j);
    double tail = 0;
    for (int64_t i = j + 1; i < x.rows; ++i) tail = std::hypot(tail, std::abs(x(i, j)));
    taus.push_back(0);
    if (tail == 0 && imag_of(alpha) == 0) continue;
    double beta = std::hypot(std::abs(alpha), tail) * (std::signbit(real_of(alpha)) ? 1 : -1);
    T tau = (beta - alpha) / beta;
    for (int64_t i = j + 1; i < x.rows; ++i) x(i, j) /= alpha - beta;
    for (int64_t k = j + 1; k < x.cols; ++k) {
      T sum = x(j, k);
      for (int64_t i = j + 1; i < x.rows; ++i) sum += conjugated(x(i, j)) * x(i, k);
      sum *= conjugated(tau);
      x(j, k) -= sum;
      for (int64_t i = j + 1; i < x.rows; ++i) x(i, k) -= x(i, j) * sum;
    }
    x(j, j) = beta, taus.back() = tau;
  }
  return taus;
}
template std::vector<double> factorize_qr(Matrix<double>&);
template std::vector<Complex> factorize_qr(Matrix<Complex>&);

template <class T>
Matrix<T> product_of_reflections(const Matrix<T>& packed, const std::vector<T>& taus, int64_t cols) {
  Matrix<T> q(packed.rows, cols);
  for (int64_t i = 0; i < std::min(q.rows, cols); ++i) q(i, i) = 1;
  for (int64_t j = static_cast<int64_t>(taus.size()); j-- > 0;)
    for (int64_t k = 0; k < cols; ++k) {
      T sum = q(j, k);
      for (int64_t i = j + 1; i < q.rows; ++i) sum += conjugated(packed(i, j)) * q(i, k);
      sum *= taus[static_cast<size_t>(j)];
      q(j, k) -= sum;
      for (int64_t i = j + 1; i < q.rows; ++i) q(i, k) -= packed(i, j) * sum;
    }
  return q;
}
template Matrix<double> product_of_reflections(const Matrix<double>&, const std::vector<double>&, int64_t);
template Matrix<Complex> product_of_reflections(const Matrix<Complex>&, const std::vector<Complex>&, int64_t);

}  // namespace plain

namespace {

/// Column j of a packed matrix as a reflection's vector: zeros, one at j, what stands below. [batch, m, 1].
Value reflection_vector(Value packed, Value j) {
  Value at = dynamic_slice_axis(packed, 2, j, 1), row = iota(packed.graph(), {i32, {packed.dim(1), 1}}, 0);
  return select(compare(row, j, Comparison::eq), full_like(at, 1),
                select(compare(row, j, Comparison::gt), at, zeros_like(at)));
}
Value from_left(Value v, Value tau, Value x) { return x - v * (tau * matmul(adjoint(v), x)); }

Many<Value> geqrf_parts(Graph& g, Value x) {
  Dim k = least_extent(x.type());
  Type type = x.type();
  if (k == Dim(0)) return {x, full(g, 0, {type.dtype, with_batch(type, {0})})};
  x = one_stack(x);
  Dim batch = x.dim(0), m = x.dim(1), n = x.dim(2);
  std::vector<Type> types = {x.type(), {i32, {}}};
  Graph step = trace(types, [&](Graph& b, Values in) {
    Value a = in[0], j = in[1];
    Value row = iota(b, {i32, {m, 1}}, 0), column = iota(b, {i32, {n}}, 0);
    Value below = compare(row, j, Comparison::gt);
    Value at = dynamic_slice_axis(a, 2, j, 1), alpha = dynamic_slice_axis(at, 1, j, 1);
    Value tail = select(below, at, zeros_like(at));
    // Of the column divided by its largest magnitude, so that no square overflows.
    Value scale = as_column(as_column(scale_of(select(compare(row, j, Comparison::ge), at, zeros_like(at)))));
    Value divisors = convert(scale, a.dtype());
    Value cleared = reduce_sum(squared_magnitude(tail / divisors), {1}, true);
    Value zero = zeros_like(cleared), nothing = compare(reduce_max(abs(tail), {1}, true), zero, Comparison::eq);
    if (is_complex(a.dtype())) nothing = bitwise_and(nothing, compare(imag(alpha), zero, Comparison::eq));
    // Where there is nothing to do, 1 stands for the norm, so that neither value nor derivative divides by 0.
    Value norm = sqrt(select(nothing, full_like(zero, 1), cleared + squared_magnitude(alpha / divisors))) * scale;
    Value beta = convert(select(compare(real_of(alpha), zero, Comparison::lt), norm, -norm), a.dtype());
    Value divisor = select(nothing, full_like(alpha, 1), alpha - beta);
    Value tau = select(nothing, zeros_like(alpha), (beta - alpha) / beta);
    Value v = select(compare(row, j, Comparison::eq), full_like(at, 1), tail / divisor);
    Value rest = from_left(v, conjugate(tau), a);
    Value made = select(below, v, select(compare(row, j, Comparison::eq), select(nothing, alpha, beta), at));
    a = select(compare(column, j, Comparison::gt), rest, select(compare(column, j, Comparison::eq), made, a));
    return std::vector{a, reshape(tau, {batch})};
  });
  auto out = scan(g, {x, iota(g, {i32, {k}}, 0)}, {.carries = 1, .xs = 1, .length = k, .body = step});
  return {unstacked(out[0], type), unstacked(transpose(out[1], {1, 0}), type, 1)};
}

Value product_parts(Graph& g, Value x, Value taus) {
  Type type = x.type();
  x = one_stack(x), taus = one_stack(taus, 1);
  Dim batch = x.dim(0), m = x.dim(1), n = x.dim(2), k = taus.dim(1);
  Value start = broadcast_to(
      convert(compare(iota(g, {i32, {m, n}}, 0), iota(g, {i32, {m, n}}, 1), Comparison::eq), x.dtype()), {batch, m, n});
  if (k == Dim(0)) return unstacked(start, type);
  std::vector<Type> types = {x.type(), {i32, {}}, {x.dtype(), {batch}}, x.type()};
  Graph step = trace(types, [&](Values v) {
    return from_left(reflection_vector(v[3], v[1]), reshape(v[2], {batch, 1, 1}), v[0]);
  });
  Value q = scan(g, {start, iota(g, {i32, {k}}, 0), transpose(taus, {1, 0}), x},
                 {.carries = 1, .xs = 2, .length = k, .reverse = true, .body = step})[0];
  return unstacked(q, type);
}

/// The bar of a matrix with at least as many rows as columns, for bars of its reduced factors.
Value qr_bar(Value q, Value r, Value q_bar, Value r_bar) {
  // dx R⁻¹ = W, P = Qᴴ W; dQ = Q (D - P) + W and dR = (P - D) R with D antihermitian made of P's lower triangle.
  Value qq = matmul(adjoint(q), q_bar), rr = matmul(r_bar, adjoint(r)), d = qq - rr;
  Value p = tril(d - adjoint(d), -1) + rr;
  if (is_complex(q.dtype())) {
    Value turning = complex(zeros_like(real(d)), imag(d));
    p = p + select(diagonal_mask(q.graph(), q.dim(-1)), turning, zeros_like(d));
  }
  Value w = q_bar + matmul(q, p - qq);
  return triangular_solve(r, w, {.left_side = false, .lower = false, .transposition = Transposition::adjoint});
}

Many<Value> qr_parts(Value x, bool full) {
  Dim m = x.dim(-2), n = x.dim(-1), k = least_extent(x.type());
  auto [packed, taus] = geqrf(x);
  Value r = triu(full ? packed : first_rows(packed, k));
  Value vectors = first_columns(packed, k);
  if (full) vectors = zero_padded(vectors, m, m);
  return {householder_product(vectors, taus), r};
}

}  // namespace

OpDef define_geqrf() {
  return define<>({
      .name = "geqrf",
      .doc =
          "Householder's QR, packed as LAPACK has it: R, below it the vectors v_i (without their leading 1), and the "
          "taus of the reflections I - tau v vᴴ whose product is Q",
      .source = "LAPACK xGEQRF; Golub, Van Loan, Matrix Computations, 5.2",
      .operands = {"x"},
      .infer = [](Types in) -> Many<Type> {
        require_matrices(in[0]);
        return {in[0], Type{in[0].dtype, with_batch(in[0], {least_extent(in[0])})}};
      },
      .reference = [](Tensors in) -> Many<Tensor> {
        return plain::with_field(in[0].dtype(), [&]<class T>() -> Many<Tensor> {
          Array<T> x(in[0]);
          int64_t k = std::min(x.shape[x.shape.size() - 2], x.shape.back());
          Array<T> taus(plain::with_batch(x.shape, {k}));
          for (int64_t b = 0; b < plain::stack_size(x.shape); ++b) {
            auto matrix = plain::matrix_at(x, b);
            plain::put(taus, b, plain::factorize_qr(matrix));
            plain::put(x, b, matrix);
          }
          return {x.rounded_to(in[0].dtype()), taus.rounded_to(in[0].dtype())};
        });
      },
      .decompose = [](Graph& g, Values in, const NoAttrs&) { return geqrf_parts(g, in[0]); },
      .batch = [](Values in) { return Many<Value>(in[0].graph().emit(op::geqrf, {in[0]})); },
      .samples =
          {{.dims = {{3, 3}}}, {.dims = {{4, 2}}}, {.dims = {{2, 3, 4}}}, {.dims = {{1, 1}}}, {.dims = {{3, 0}}}},
  });
}

OpDef define_householder_product() {
  return define<>({
      .name = "householder_product",
      .doc = "the first n columns of the product of the reflections I - tau_i v_i v_iᴴ, whose vectors stand below the "
             "diagonal of x[..., m, n], m >= n, as geqrf leaves them; taus[..., k], k <= n",
      .source = "LAPACK xORGQR",
      .operands = {"x", "taus"},
      .infer =
          [](Types in) {
            require_matrices(in[0]);
            require_dtype(in, kReal | kComplex);
            const Type &x = in[0], &taus = in[1];
            const Dim &m = rows_of(x), &n = cols_of(x);
            if (m != n && m.is_static() && n.is_static() && m.value() < n.value())
              fail(ErrorCode::shape_mismatch, "there are ", m, " columns of a product of reflections of ", m,
                   " rows, not ", n, " as ", x, " says");
            require_rank(taus, x.rank() - 1, x.rank() - 1, "taus");
            const Dim& k = taus.dims.back();
            if (batch_of(x.dims) != Dims(taus.dims.begin(), taus.dims.end() - 1) ||
                (k != n && k.is_static() && n.is_static() && k.value() > n.value()))
              fail(ErrorCode::shape_mismatch, "taus must be ", Type{x.dtype, with_batch(x, {n})}, " or fewer for x ", x,
                   ", got ", taus);
            return x;
          },
      .reference =
          [](Tensors in) {
            return plain::with_field(in[0].dtype(), [&]<class T>() {
              Array<T> x(in[0]), taus(in[1]);
              auto k = static_cast<std::ptrdiff_t>(taus.shape.back());
              for (int64_t b = 0; b < plain::stack_size(x.shape); ++b) {
                auto matrix = plain::matrix_at(x, b);
                std::vector<T> own(taus.data.begin() + b * k, taus.data.begin() + (b + 1) * k);
                plain::put(x, b, plain::product_of_reflections(matrix, own, matrix.cols));
              }
              return x.rounded_to(in[0].dtype());
            });
          },
      .decompose = [](Graph& g, Values in, const NoAttrs&) { return product_parts(g, in[0], in[1]); },
      .batch =
          [](Values in) {
            return Many<Value>(in[0].graph().emit(op::householder_product, {in[0], in[1]}));
          },
      .samples = {{.dims = {{3, 3}, {3}}},
                  {.dims = {{4, 2}, {2}}},
                  {.dims = {{2, 4, 3}, {2, 2}}},
                  {.dims = {{1, 1}, {1}}},
                  {.dims = {{3, 2}, {0}}}},
  });
}

OpDef define_qr() {
  return define<FullAttrs>({
      .name = "qr",
      .doc = "x = q r: min(m, n) orthonormal columns (`full`: m of them) and an upper triangle, whose diagonal is real "
             "and has the signs that Householder's reflections give it",
      .source = "LAPACK xGEQRF and xORGQR; derivative: Walter, Lehmann, Lamour, Optim. Methods Softw. 27 (2012)",
      .operands = {"x"},
      .covers = {"Qr"},
      .infer = [](Types in, const FullAttrs& a) -> Many<Type> {
        require_matrices(in[0]);
        const Dim &m = rows_of(in[0]), &n = cols_of(in[0]);
        Dim k = a.full ? m : least_extent(in[0]);
        return {Type{in[0].dtype, with_batch(in[0], {m, k})}, Type{in[0].dtype, with_batch(in[0], {k, n})}};
      },
      .reference = [](Tensors in, const FullAttrs& a) -> Many<Tensor> {
        return plain::with_field(in[0].dtype(), [&]<class T>() -> Many<Tensor> {
          Array<T> x(in[0]);
          int64_t m = x.shape[x.shape.size() - 2], n = x.shape.back(), k = a.full ? m : std::min(m, n);
          Array<T> q(plain::with_batch(x.shape, {m, k})), r(plain::with_batch(x.shape, {k, n}));
          for (int64_t b = 0; b < plain::stack_size(x.shape); ++b) {
            auto matrix = plain::matrix_at(x, b);
            auto taus = plain::factorize_qr(matrix);
            plain::put(q, b, plain::product_of_reflections(matrix, taus, k));
            for (int64_t i = 0; i < m; ++i)
              for (int64_t j = 0; j < std::min(i, n); ++j) matrix(i, j) = 0;
            plain::put(r, b, matrix.corner(k, n));
          }
          return {q.rounded_to(in[0].dtype()), r.rounded_to(in[0].dtype())};
        });
      },
      .decompose = [](Values in, const FullAttrs& a) { return qr_parts(in[0], a.full); },
      .vjp = [](Values in, Values out, Values cts, const FullAttrs& a, const Transforms& t) -> Many<Value> {
        Value q = out[0], r = out[1];
        if (q.dim(-1) != least_extent(in[0].type())) {
          // What stands in the other columns of a full q is settled by the reflections alone: through them.
          Graph parts = trace(std::array{in[0].type()}, [&](Values v) { return qr_parts(v[0], a.full); });
          std::vector<Value> operands = {in[0]};
          for (const Value& ct : cts)
            if (ct) operands.push_back(ct);
          return inlined(in[0].graph(), t.vjp(parts, {true}, {bool(cts[0]), bool(cts[1])}), operands);
        }
        Value q_bar = cts[0] ? bar_of(cts[0]) : zeros_like(q), r_bar = cts[1] ? bar_of(cts[1]) : zeros_like(r);
        Dim k = q.dim(-1);
        if (r.dim(-1) == k) return ct_of(qr_bar(q, r, q_bar, r_bar));
        // Columns beyond the square part only follow: R_2 = Qᴴ X_2.
        Value r2_bar = slice_axis(r_bar, -1, k, r.dim(-1)), x2 = slice_axis(in[0], -1, k, r.dim(-1));
        q_bar = q_bar + matmul(x2, adjoint(r2_bar));
        return ct_of(concatenate({qr_bar(q, first_columns(r, k), q_bar, first_columns(r_bar, k)), matmul(q, r2_bar)},
                                 r.rank() - 1));
      },
      .batch = batch_as_stack<FullAttrs>(op::qr),
      .samples = {{.dims = {{3, 3}}},
                  {.dims = {{4, 2}}},
                  {.dims = {{4, 2}}, .attrs = FullAttrs{true}},
                  {.dims = {{2, 2, 3}}},
                  {.dims = {{2, 1, 2, 2}}, .attrs = FullAttrs{true}},
                  {.dims = {{1, 1}}},
                  {.dims = {{0, 2}}},
                  {.dims = {{2, 0}}, .attrs = FullAttrs{true}}},
  });
}

}  // namespace rlx
