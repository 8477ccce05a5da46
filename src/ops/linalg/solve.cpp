// Square systems, inverses and determinants, by LU. The references eliminate with complete pivoting instead.
#include "ops/linalg/unblocked.h"
#include "rlx/ops/control.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/sort.h"

namespace rlx {

Value solve(Value a, Value b, Transposition transposition) {
  return emit(op::solve, {a, b}, SolveAttrs{transposition});
}
Value inverse(Value x) { return emit(op::inverse, {x}); }
Value det(Value x) { return emit(op::det, {x}); }
SignedLog slogdet(Value x) {
  auto both = x.graph().emit(op::slogdet, {x});
  return {both[0], both[1]};
}
Value matrix_power(Value x, int64_t n) {
  require_square(x.type());
  if (n == 0) return broadcast_to(identity_like(x), x.dims());
  if (n < 0) {
    if (n == std::numeric_limits<int64_t>::min()) fail(ErrorCode::invalid_argument, "a power of ", n);
    x = inverse(x), n = -n;
  }
  Value y;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) y = y ? matmul(y, x) : x;
    if (n > 1) x = matmul(x, x);
  }
  return y;
}

namespace {

/// Gauss-Jordan with complete pivoting: b becomes x with a x = b, NaN if a is singular. Calls `pivot(p, swaps)` for
/// each pivot with the number of rows and columns that were swapped for it.
template <class T, class F>
void eliminate(plain::Matrix<T> a, plain::Matrix<T>& b, F pivot) {
  int64_t n = a.rows;
  std::vector<int64_t> place;
  for (int64_t i = 0; i < n; ++i) place.push_back(i);
  for (int64_t step = 0; step < n; ++step) {
    int64_t r = step, c = step, swaps = 0;
    for (int64_t i = step; i < n; ++i)
      for (int64_t j = step; j < n; ++j)
        if (std::abs(a(i, j)) > std::abs(a(r, c))) r = i, c = j;
    if (r != step) {
      ++swaps;
      for (int64_t j = 0; j < n; ++j) std::swap(a(step, j), a(r, j));
      for (int64_t j = 0; j < b.cols; ++j) std::swap(b(step, j), b(r, j));
    }
    if (c != step) {
      ++swaps;
      for (int64_t i = 0; i < n; ++i) std::swap(a(i, step), a(i, c));
      std::swap(place[size_t(step)], place[size_t(c)]);
    }
    T p = a(step, step);
    pivot(p, swaps);
    if (p == T(0)) {
      std::fill(b.data.begin(), b.data.end(), T(NAN));
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      if (i == step) continue;
      T factor = a(i, step) / p;
      for (int64_t j = step; j < n; ++j) a(i, j) -= factor * a(step, j);
      for (int64_t j = 0; j < b.cols; ++j) b(i, j) -= factor * b(step, j);
    }
    for (int64_t j = step; j < n; ++j) a(step, j) /= p;
    for (int64_t j = 0; j < b.cols; ++j) b(step, j) /= p;
  }
  plain::Matrix<T> x = b;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < b.cols; ++j) x(place[size_t(i)], j) = b(i, j);
  b = x;
}
template <class T>
plain::Matrix<T> solution(plain::Matrix<T> a, plain::Matrix<T> b, Transposition transposition) {
  if (transposition == Transposition::transpose) a = a.transposed();
  if (transposition == Transposition::adjoint) a = a.adjoint();
  eliminate(a, b, [](T, int64_t) {});
  return b;
}

Value solve_parts(Value a, Value b, Transposition transposition) {
  bool vectors = is_vectors(a.type(), b.type());
  if (vectors) b = as_column(b);
  auto [packed, pivots, permutation] = lu(a);
  Value x;
  if (transposition == Transposition::none) {
    x = triangular_solve(packed, permuted_rows(b, permutation), {.unit_diagonal = true});
    x = triangular_solve(packed, x, {.lower = false});
  } else {
    x = triangular_solve(packed, b, {.lower = false, .transposition = transposition});
    x = triangular_solve(packed, x, {.lower = true, .transposition = transposition, .unit_diagonal = true});
    x = permuted_rows(x, argsort(permutation));
  }
  return vectors ? squeeze(x, {-1}) : x;
}

/// -1 where the pivots make an odd number of swaps, else 1.
Value parity(const Lu& f, DType dtype) {
  Value swapped = compare(f.pivots, iota(f.pivots.graph(), {i32, {f.pivots.dim(-1)}}, 0), Comparison::ne);
  Value count = reduce_sum(convert(swapped, i32), {f.pivots.rank() - 1});
  Value odd = compare(bitwise_and(count, scalar(count.graph(), 1, i32)), zeros_like(count), Comparison::ne);
  return 1.0 - convert(odd, dtype) * 2.0;
}

/// The bar of x for a bar of 1 of det(x): the adjoint of the adjugate. det x⁻¹ where there is an inverse; else by
/// singular values, whose products without one of them do not divide.
Value cofactors(Value x) {
  Value on = diagonal(lu(x).lu);
  Value regular = reduce_all(compare(on, zeros_like(on), Comparison::ne), axes_from(0, size_t(on.rank())));
  Type type = x.type();
  auto each = [](Value v) { return as_column(as_column(v)); };
  Graph by_inverse = trace(std::array{type}, [&](Values v) { return adjoint(each(det(v[0])) * inverse(v[0])); });
  Graph by_singular_values = trace(std::array{type}, [&](Values v) {
    auto [u, s, vt] = svd(v[0]);
    Value others = cumprod(s, -1, true) * cumprod(s, -1, true, true);
    return conjugate(each(det(u) * det(vt))) * matmul(u * convert(as_row(others), u.dtype()), vt);
  });
  return if_else(regular, {x}, by_inverse, by_singular_values)[0];
}

}  // namespace

OpDef define_solve() {
  return define<SolveAttrs>({
      .name = "solve",
      .doc =
          "x with op(a) x = b for a[..., n, n] and b[..., n, k], or b[..., n] of one rank less than a; infinities or "
          "NaN if a is singular",
      .source = "LAPACK xGESV",
      .operands = {"a", "b"},
      .covers = {"DenseSolve", "BatchedDenseSolve"},
      .infer =
          [](Types in, const SolveAttrs&) {
            require_square(in[0], "a");
            require_dtype(in, kReal | kComplex);
            is_vectors(in[0], in[1]);
            return in[1];
          },
      .reference =
          [](Tensors in, const SolveAttrs& attrs) {
            return plain::with_field(in[0].dtype(), [&]<class T>() {
              Shape shape = in[1].shape();
              bool vectors = is_vectors(in[0].type(), in[1].type());
              Array<T> a(in[0]), b(in[1]);
              if (vectors) b.shape.push_back(1);
              for (int64_t i = 0; i < plain::stack_size(a.shape); ++i)
                plain::put(b, i, solution(plain::matrix_at(a, i), plain::matrix_at(b, i), attrs.transposition));
              b.shape = shape;
              return b.rounded_to(in[0].dtype());
            });
          },
      .decompose = [](Values in, const SolveAttrs& a) { return solve_parts(in[0], in[1], a.transposition); },
      .vjp = [](Values in, Value x, Value ct, const SolveAttrs& attrs) -> Many<Value> {
        bool vectors = is_vectors(in[0].type(), x.type()), transpose = attrs.transposition == Transposition::transpose;
        Value bar = bar_of(ct);
        if (vectors) x = as_column(x), bar = as_column(bar);
        bar = solve(transpose ? conjugate(in[0]) : in[0], bar,
                    attrs.transposition == Transposition::none ? Transposition::adjoint : Transposition::none);
        Value of_a = -matmul(bar, adjoint(x));
        if (transpose) of_a = transposed(of_a);
        if (attrs.transposition == Transposition::adjoint) of_a = adjoint(of_a);
        return {ct_of(of_a), ct_of(vectors ? squeeze(bar, {-1}) : bar)};
      },
      .batch = batch_as_stack<SolveAttrs>(op::solve),
      .samples = {{.dims = {{3, 3}, {3, 2}}},
                  {.dims = {{3, 3}, {3}}},
                  {.dims = {{2, 2, 2}, {2, 2}}, .attrs = SolveAttrs{Transposition::transpose}},
                  {.dims = {{2, 1, 2, 2}, {2, 1, 2, 3}}, .attrs = SolveAttrs{Transposition::adjoint}},
                  {.dims = {{1, 1}, {1}}, .lo = 1, .hi = 2},
                  {.dims = {{0, 0}, {0, 2}}}},
  });
}

OpDef define_inverse() {
  return define<>({
      .name = "inverse",
      .doc = "y with x y = 1; infinities or NaN if x is singular",
      .operands = {"x"},
      .infer = [](Types in) { return require_square(in[0]), in[0]; },
      .reference =
          [](Tensors in) {
            return plain::map_matrices(in[0], [](const auto& x) {
              return solution(x, std::remove_cvref_t<decltype(x)>::identity(x.rows), Transposition::none);
            });
          },
      .decompose = [](Values in) { return solve(in[0], broadcast_to(identity_like(in[0]), in[0].dims())); },
      .vjp = [](Values, Value y, Value ct) { return ct_of(-matmul(adjoint(y), matmul(bar_of(ct), adjoint(y)))); },
      .batch = [](Values in) { return inverse(in[0]); },
      .samples =
          {{.dims = {{3, 3}}}, {.dims = {{2, 1, 2, 2}}}, {.dims = {{1, 1}}, .lo = 1, .hi = 2}, {.dims = {{2, 0, 0}}}},
  });
}

OpDef define_det() {
  return define<>({
      .name = "det",
      .doc = "the determinant of each matrix; its gradient is that of the polynomial, also where x is singular",
      .source = "Golub, Van Loan, Matrix Computations, 3.4; Jacobi's formula",
      .operands = {"x"},
      .covers = {"Det"},
      .infer =
          [](Types in) {
            return require_square(in[0]), Type{in[0].dtype, batch_of(in[0].dims)};
          },
      .reference =
          [](Tensors in) {
            return plain::with_field(in[0].dtype(), [&]<class T>() {
              Array<T> x(in[0]), y(plain::with_batch(x.shape, {}), T(1));
              for (int64_t b = 0; b < plain::stack_size(x.shape); ++b) {
                auto a = plain::matrix_at(x, b);
                plain::Matrix<T> none(a.rows, 0);
                eliminate(a, none, [&](T p, int64_t swaps) { y.data[size_t(b)] *= swaps % 2 ? -p : p; });
              }
              return y.rounded_to(in[0].dtype());
            });
          },
      .decompose =
          [](Values in) {
            Lu f = lu(in[0]);
            return reduce_prod(diagonal(f.lu), {in[0].rank() - 2}) * parity(f, in[0].dtype());
          },
      .vjp = [](Values in, Value, Value ct) { return ct_of(as_column(as_column(bar_of(ct))) * cofactors(in[0])); },
      .batch = [](Values in) { return det(in[0]); },
      .samples = {{.dims = {{3, 3}}},
                  {.dims = {{2, 1, 2, 2}}},
                  {.dims = {{1, 1}}},
                  {.dims = {{2, 0, 0}}},
                  {.dims = {{2, 2}}, .lo = 1, .hi = 1}},
  });
}

OpDef define_slogdet() {
  return define<>({
      .name = "slogdet",
      .doc =
          "the determinant as sign * e^log: a sign of magnitude 1, and a real logarithm; 0 and -inf if x is singular",
      .source = "numpy.linalg.slogdet",
      .operands = {"x"},
      .covers = {"LogDet"},
      .infer = [](Types in) -> Many<Type> {
        require_square(in[0]);
        Dims batch = batch_of(in[0].dims);
        return {Type{in[0].dtype, batch}, Type{real_part(in[0].dtype), batch}};
      },
      .reference = [](Tensors in) -> Many<Tensor> {
        return plain::with_field(in[0].dtype(), [&]<class T>() -> Many<Tensor> {
          Array<T> x(in[0]), sign(plain::with_batch(x.shape, {}), T(1));
          Array<double> log(sign.shape);
          for (int64_t b = 0; b < plain::stack_size(x.shape); ++b) {
            auto a = plain::matrix_at(x, b);
            plain::Matrix<T> none(a.rows, 0);
            eliminate(a, none, [&](T p, int64_t swaps) {
              double size = std::abs(p);
              sign.data[size_t(b)] *= size == 0 ? T(0) : swaps % 2 ? -p / size : p / size;
              log.data[size_t(b)] += std::log(size);
            });
          }
          return {sign.rounded_to(in[0].dtype()), log.rounded_to(real_part(in[0].dtype()))};
        });
      },
      .decompose = [](Values in) -> Many<Value> {
        Lu f = lu(in[0]);
        Value on = diagonal(f.lu);
        int64_t axis = in[0].rank() - 2;
        return {reduce_prod(sign(on), {axis}) * parity(f, in[0].dtype()), reduce_sum(log(abs(on)), {axis})};
      },
      .vjp = [](Values in, Values out, Values cts) -> Many<Value> {
        Value bar;  // of log + i arg
        if (cts[1]) bar = convert(cts[1], in[0].dtype());
        if (cts[0] && is_complex(in[0].dtype())) {
          // sign' = i sign Im tr(x⁻¹ x'); the cotangent is the conjugate of the sign's bar.
          Value turning = -imag(cts[0] * out[0]);
          turning = complex(zeros_like(turning), turning);
          bar = bar ? bar + turning : turning;
        }
        if (!bar) return {Value{}};  // the sign of a real determinant does not change
        return ct_of(as_column(as_column(bar)) * adjoint(inverse(in[0])));
      },
      .batch = [](Values in) { return Many<Value>(in[0].graph().emit(op::slogdet, {in[0]})); },
      .samples =
          {{.dims = {{3, 3}}}, {.dims = {{2, 1, 2, 2}}}, {.dims = {{1, 1}}, .lo = 1, .hi = 2}, {.dims = {{0, 0}}}},
  });
}

}  // namespace rlx
