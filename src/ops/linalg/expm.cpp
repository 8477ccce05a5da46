// The exponential of a matrix by scaling and squaring.
#include "ops/linalg/unblocked.h"
#include "rlx/ops/control.h"
#include "rlx/ops/elementary.h"

namespace rlx {

Value expm(Value x) { return emit(op::expm, {x}); }

namespace {

/// Taylor's series of x / 2^s, squared s times.
template <class T>
plain::Matrix<T> expm_of(plain::Matrix<T> x) {
  double norm = 0;
  for (T element : x.data) norm += std::abs(element);
  if (!x.is_finite()) return {x.rows, x.cols, T(NAN)};
  norm = std::min(norm, std::numeric_limits<double>::max());
  int squarings = 0;
  for (; norm > 0.25; norm /= 2) ++squarings;
  for (T& element : x.data) element *= std::ldexp(1.0, -squarings);
  auto term = plain::Matrix<T>::identity(x.rows), sum = term;
  for (int k = 1; k < 20; ++k) {
    term = term * x;
    for (size_t i = 0; i < term.data.size(); ++i) sum.data[i] += term.data[i] /= double(k);
  }
  for (; squarings > 0; --squarings) sum = sum * sum;
  return sum;
}

/// The diagonal Padé approximant p(x) / p(-x), and the norm up to which its error is below a rounding.
struct Pade {
  std::vector<double> coefficients;
  double reach;
};
Pade pade_for(DType dtype) {
  if (real_part(dtype) == f32) return {{17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1}, 3.925724783138660};
  return {{64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
           670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1},
          5.371920351148152};
}

Value expm_parts(Graph& g, Value x) {
  Type type = x.type();
  x = one_stack(x);
  Dim batch = x.dim(0);
  auto [b, reach] = pade_for(x.dtype());
  Value bad = bitwise_not(all_finite(x));
  x = select(as_column(as_column(bad)), zeros_like(x), x);
  auto each = [](Value mask) { return as_column(as_column(mask)); };
  // Halved until the norm is within reach, each matrix as often as it needs; no norm is above 2^1100.
  constexpr int64_t kMostHalvings = 1100;
  Value norm = x.dim(-1) == Dim(0) ? full(g, 0, {real_part(x.dtype()), {batch}})
                                   : reduce_max(reduce_sum(abs(x) * 0x1p-64, {1}), {1});  // scaled: no sum overflows
  double limit = reach * 0x1p-64;
  Value halvings = full(g, 0, {i32, {batch}});
  std::vector<Type> types = {x.type(), norm.type(), halvings.type()};
  Graph too_large =
      trace(types, [&](Values v) { return reduce_any(compare(v[1], full_like(v[1], limit), Comparison::gt), {0}); });
  Graph halve = trace(types, [&](Values v) {
    Value large = compare(v[1], full_like(v[1], limit), Comparison::gt);
    return std::vector{select(each(large), v[0] * 0.5, v[0]), select(large, v[1] * 0.5, v[1]),
                       v[2] + convert(large, i32)};
  });
  auto scaled = while_loop({x, norm, halvings}, {3, too_large, halve, kMostHalvings});
  x = scaled[0];

  Value one = broadcast_to(identity_like(x), x.dims()), square = matmul(x, x), power = one, odd, even;
  for (size_t k = 0; k < b.size(); k += 2) {
    if (k > 0) power = k == 2 ? square : matmul(power, square);
    Value even_term = power * b[k], odd_term = power * b[k + 1];
    even = even ? even + even_term : even_term, odd = odd ? odd + odd_term : odd_term;
  }
  odd = matmul(x, odd);
  Value y = solve(even - odd, even + odd);

  std::vector<Type> carried = {y.type(), halvings.type()};
  Graph any_left =
      trace(carried, [](Values v) { return reduce_any(compare(v[1], zeros_like(v[1]), Comparison::gt), {0}); });
  Graph squared = trace(carried, [&](Values v) {
    Value left = compare(v[1], zeros_like(v[1]), Comparison::gt);
    return std::vector{select(each(left), matmul(v[0], v[0]), v[0]), v[1] - 1.0};
  });
  y = while_loop({y, scaled[2]}, {2, any_left, squared, kMostHalvings})[0];
  return unstacked(nan_where(bad, y, 2), type);
}

}  // namespace

OpDef define_expm() {
  return define<>({
      .name = "expm",
      .doc = "e^x of a square matrix, the sum of x^k / k!; NaN if x is not finite",
      .source = "Higham, SIAM J. Matrix Anal. Appl. 26 (2005); derivative: Al-Mohy, Higham, ibid. 30 (2009)",
      .operands = {"x"},
      .infer = [](Types in) { return require_square(in[0]), in[0]; },
      .reference = [](Tensors in) { return plain::map_matrices(in[0], [](const auto& x) { return expm_of(x); }); },
      .decompose = [](Graph& g, Values in, const NoAttrs&) { return expm_parts(g, in[0]); },
      .vjp =
          [](Values in, Value, Value ct) {
            // The derivative in a direction stands beside the diagonal blocks of e^[[x, direction], [0, x]].
            Value xh = adjoint(in[0]), bar = bar_of(ct);
            Value block =
                concatenate({concatenate({xh, bar}, xh.rank() - 1), concatenate({zeros_like(xh), xh}, xh.rank() - 1)},
                            xh.rank() - 2);
            const Dim& n = in[0].dim(-1);
            return ct_of(slice_axis(first_rows(expm(block), n), -1, n, n * 2));
          },
      .batch = [](Values in) { return expm(in[0]); },
      .samples = {{.dims = {{3, 3}}},
                  {.dims = {{2, 2}}, .lo = -8, .hi = 2},
                  {.dims = {{2, 1, 2, 2}}, .lo = -0.1, .hi = 0.1},
                  {.dims = {{1, 1}}},
                  {.dims = {{2, 0, 0}}}},
  });
}

}  // namespace rlx
