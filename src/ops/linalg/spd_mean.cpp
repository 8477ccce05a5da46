// The Karcher mean M of positive definite matrices x_i: the root of sum_i w_i log(M^-½ x_i M^-½). Found by Richardson's
// iteration; differentiated at the root, whichever way it was found. Write W_i = M^-½ x_i M^-½, L_i for the derivative
// of the logarithm at W_i, and dM = M^½ z M^½. The equation's change is then
//
//   sum_i w_i L_i[M^-½ dx_i M^-½] + sum_i dw_i log W_i = H z,      H z = sum_i w_i L_i[(z W_i + W_i z) / 2],
//
// because any root C of M may stand in the place of M^½ (it turns all W_i alike), and M^½ (1 + z / 2) is one of the new
// mean to first order. H is symmetric, and its eigenvalues are at least 1: in the eigenbasis of W_i, L_i has the
// entries h coth h with h half the difference of two logarithms. So conjugate gradients solve it in few steps.
#include "ops/linalg/spd_rules.h"
#include "rlx/ops/control.h"
#include "rlx/ops/elementary.h"

namespace rlx {

namespace {

std::vector<Value> with_weights(std::initializer_list<Value> some, Value weights) {
  std::vector<Value> all = some;
  if (weights) all.push_back(weights);
  return all;
}

}  // namespace

Value spd_karcher_mean(Value x, Value weights, KarcherAttrs attrs) {
  return emit(op::spd_karcher_mean, with_weights({x}, weights), attrs);
}
KarcherCts spd_karcher_mean_backward(Value x, Value mean, Value ct, Value weights, KarcherAttrs attrs) {
  auto all = x.graph().emit(op::spd_karcher_mean_backward, with_weights({x, mean, ct}, weights), attrs);
  return {all[0], weights ? all[1] : Value{}};
}
Value spd_karcher_solve(Value x, Value weights, Value rhs) { return emit(op::spd_karcher_solve, {x, weights, rhs}); }

namespace {

using spd::congruence;
using spd::for_each;
using spd::inner;

/// v[...] as [..., 1, 1].
Value as_matrix(Value v) { return as_column(as_column(v)); }
/// The sum over the batch of w_i x_i.
Value weighted_sum(Value w, Value x) { return reduce_sum(as_matrix(w) * x, {x.rank() - 3}); }
Value any_of(Value mask) { return reduce_any(reshape(mask, {-1}), {0}); }

/// x[..., b, n, n] and weights[..., b]; the type of one matrix for each batch.
Type one_of(Types in, size_t weights, const Type& x) {
  spd::require_spd(x, "x");
  require_rank(x, 3, SIZE_MAX, "x");
  if (in.size() > weights) spd::require_same(in[weights], {x.dtype, batch_of(x.dims)}, "weights", "x");
  Type one = x;
  one.dims.erase(one.dims.end() - 3);
  return one;
}
void require_karcher(const KarcherAttrs& a) {
  spd::require_floor(a.floor);
  if (a.max_iterations < 1)
    fail(ErrorCode::invalid_argument, "max_iterations must be at least 1, got ", a.max_iterations);
  if (!(a.tolerance >= 0)) fail(ErrorCode::invalid_argument, "tolerance must not be negative, got ", a.tolerance);
}

/// Weights that sum to 1, [..., b].
struct Weights {
  Value given, sum, shares;
  Weights(Value x, Value weights) : given(weights) {
    Value w = weights ? weights : full(x.graph(), 1, {x.dtype(), batch_of(x.dims())});
    sum = reduce_sum(w, {w.rank() - 1}, true);
    shares = w / sum;
  }
  /// The cotangent of what was given, from one of the shares.
  Value bar(Value shares_bar) const {
    return (shares_bar - reduce_sum(shares_bar * shares, {shares.rank() - 1}, true)) / sum;
  }
};

/// h coth h, h half of the differences of the logarithms of w[..., n]: [..., n, n].
Value curvatures(Value w) {
  Dims dims = w.dims();
  dims.push_back(w.dim(-1));
  Value a = broadcast_to(as_column(w), dims), b = broadcast_to(as_row(w), dims);
  return (a + b) * 0.5 * spd::divided_difference(a, b, SpdFunction::log);
}

/// From the arithmetic mean on: M <- M^½ exp(t sum_i w_i log W_i) M^½ with the step t that converges fastest near the
/// mean: 2 / (1 + the largest eigenvalue that H can have).
Value karcher_mean_of(Value x, Value w, const KarcherAttrs& a) {
  Value start = spd::symmetric(weighted_sum(w, x));
  Dims each(start.dims().begin(), start.dims().end() - 2);
  double enough = std::max(a.tolerance, 32 * epsilon_of(x.dtype()));
  Value off = full(x.graph(), std::numeric_limits<double>::infinity(), {x.dtype(), each});
  std::vector<Type> types = {start.type(), off.type(), x.type(), w.type()};
  auto too_far = [enough](Value distance) { return compare(distance, full_like(distance, enough), Comparison::gt); };
  Graph unfinished = trace(types, [&](Values v) { return any_of(too_far(v[1])); });
  Graph step = trace(types, [&](Values v) {
    auto [m, before, points, weights] = std::tuple(v[0], v[1], v[2], v[3]);
    auto [values, vectors] = eigh(m);
    Value root = sqrt(values), r = spd::from_spectrum(root, vectors), s = spd::from_spectrum(1.0 / root, vectors);
    auto [white_values, white_vectors] = eigh(congruence(for_each(s), points));
    Value logs = log(white_values);
    Value direction = weighted_sum(weights, spd::from_spectrum(logs, white_vectors));
    Value h = (reduce_max(logs, {logs.rank() - 1}) - reduce_min(logs, {logs.rank() - 1})) * 0.5;
    Value flat = compare(h, zeros_like(h), Comparison::le);
    Value most = select(flat, full_like(h, 1), h / tanh(select(flat, full_like(h, 1), h)));
    Value t = 2.0 / (reduce_sum(most * weights, {weights.rank() - 1}) + 1.0);
    Value moved = congruence(r, spd_matrix_fn(direction * as_matrix(t), SpdFunction::exp));
    Value moves = too_far(before), all = broadcast_in_dim(moves, m.dims(), axes_from(0, moves.dims().size()));
    Value distance = sqrt(inner(direction, direction));
    return std::vector{select(all, spd::symmetric(moved), m), select(moves, distance, before)};
  });
  return while_loop({start, off, x, w}, {2, unfinished, step, a.max_iterations})[0];
}

/// Conjugate gradients, each batch until its residual is lost in rounding.
Value karcher_solution(Value x, Value w, Value rhs) {
  auto [values, vectors] = eigh(x);
  Value weighted = curvatures(values) * as_matrix(w);
  rhs = spd::symmetric(rhs);
  Value start = as_matrix(inner(rhs, rhs));
  double relative = 4 * epsilon_of(x.dtype());
  Value enough = start * (relative * relative);
  // z, the residual, the direction, the residual's square; then what stays.
  std::vector<Value> operands = {zeros_like(rhs), rhs, rhs, start, enough, weighted, vectors};
  std::vector<Type> types;
  for (const Value& v : operands) types.push_back(v.type());
  Graph unfinished = trace(types, [](Values v) { return any_of(compare(v[3], v[4], Comparison::gt)); });
  Graph step = trace(types, [](Values v) {
    Value z = v[0], residual = v[1], direction = v[2], square = v[3];
    Value image = spd::out_of_basis(v[5] * spd::into_basis(for_each(direction), v[6]), v[6]);
    image = reduce_sum(image, {image.rank() - 3});
    Value moves = compare(square, v[4], Comparison::gt), zero = zeros_like(square), one = full_like(square, 1);
    auto share = [&](Value part, Value whole) { return select(moves, part / select(moves, whole, one), zero); };
    Value along = share(square, as_matrix(inner(direction, image)));
    z = z + along * direction, residual = residual - along * image;
    Value next = as_matrix(inner(residual, residual));
    direction = residual + share(next, square) * direction;
    return std::vector{z, residual, direction, select(moves, next, square)};
  });
  constexpr int64_t kMostSteps = 256;
  return while_loop(operands, {4, unfinished, step, kMostSteps})[0];
}

std::vector<Sample> karcher_samples(const std::function<std::vector<Dims>(const Dims& x)>& operands, bool weighted) {
  auto sample = [&](Dims x, KarcherAttrs a, double lo, double hi) {
    auto dims = operands(x);
    if (weighted) dims.push_back(batch_of(x));
    return Sample{.dims = dims, .attrs = a, .lo = lo, .hi = hi};
  };
  return {sample({3, 3, 3}, {.floor = 0.5}, weighted ? 0.25 : -2, 2), sample({2, 2, 2, 2}, {.floor = 0.25}, 0, 4),
          sample({2, 1, 1}, {}, 1, 4), sample({1, 2, 2}, {.floor = 0.5}, 0.5, 2), sample({2, 0, 0}, {}, 1, 2)};
}

}  // namespace

OpDef define_spd_karcher_mean() {
  return define<KarcherAttrs>({
      .name = "spd_karcher_mean",
      .doc = "the matrix with the least sum of squared affine-invariant distances to x[..., b, n, n], weighted by "
             "weights[..., b]: sum_i w_i log(M^-½ x_i M^-½) = 0. Its derivative is that of this equation",
      .source = "Karcher, Comm. Pure Appl. Math. 30 (1977); iteration: Bini, Iannazzo, Linear Algebra Appl. 438 (2013)",
      .operands = {"x", "weights?"},
      .covers = {"SpdKarcherMean", "SpdKarcherMeanWeighted"},
      .infer =
          [](Types in, const KarcherAttrs& a) {
            require_karcher(a);
            return one_of(in, 1, in[0]);
          },
      .decompose =
          [](Values in, const KarcherAttrs& a) {
            Value x = spd::floored(in[0], a.floor);
            return karcher_mean_of(x, Weights(x, in.size() > 1 ? in[1] : Value{}).shares, a);
          },
      .vjp =
          [](Values in, Value y, Value ct, const KarcherAttrs& a) {
            auto [x, weights] = spd_karcher_mean_backward(in[0], y, ct, in.size() > 1 ? in[1] : Value{}, a);
            return weights ? Many<Value>({x, weights}) : Many<Value>(x);
          },
      .batch = batch_as_stack<KarcherAttrs>(op::spd_karcher_mean),
      .samples =
          [] {
            auto only_x = [](const Dims& x) { return std::vector<Dims>{x}; };
            auto all = karcher_samples(only_x, false);
            for (Sample& s : karcher_samples(only_x, true)) all.push_back(s);
            return all;
          },
  });
}

OpDef define_spd_karcher_mean_backward() {
  auto operands = [](const Dims& x) {
    Dims one = x;
    one.erase(one.end() - 3);
    return std::vector<Dims>{x, one, one};
  };
  return define<KarcherAttrs>({
      .name = "spd_karcher_mean_backward",
      .doc = "the cotangents of spd_karcher_mean's x and weights at M = `mean`, by implicit differentiation: w_i M^-½ "
             "L_i[z] M^-½ and <z, log W_i>, where z solves spd_karcher_solve with M^½ ct M^½",
      .source = "the implicit function theorem on Karcher's equation; Higham, Functions of Matrices (2008), 3.2",
      .operands = {"x", "mean", "ct", "weights?"},
      .covers = {"SpdKarcherMean", "SpdKarcherMeanWeighted"},
      .infer = [](Types in, const KarcherAttrs& a) -> Many<Type> {
        require_karcher(a);
        Type one = one_of(in, 3, in[0]);
        spd::require_same(in[1], one, "mean", "x");
        spd::require_same(in[2], one, "ct", "x");
        if (in.size() > 3) return {in[0], in[3]};
        return in[0];
      },
      .decompose =
          [](Values in, const KarcherAttrs& a) {
            Value x = spd::floored(in[0], a.floor), m = in[1];
            Weights w(x, in.size() > 3 ? in[3] : Value{});
            Value r = spd_matrix_fn(m, SpdFunction::sqrt, a.floor);
            Value s = for_each(spd_matrix_fn(m, SpdFunction::inverse_sqrt, a.floor));
            Value white = congruence(s, x);
            Value z = for_each(spd_karcher_solve(white, w.shares, congruence(r, spd::symmetric(in[2]))));
            Value each = broadcast_to(z, white.dims());
            Value bars = congruence(s, spd_matrix_fn_backward(white, each, {SpdFunction::log}));
            Many<Value> all = {spd::floored_backward(in[0], bars * as_matrix(w.shares), a.floor)};
            if (w.given) all.push_back(w.bar(inner(each, spd_matrix_fn(white, SpdFunction::log))));
            return all;
          },
      .batch = batch_as_stack<KarcherAttrs>(op::spd_karcher_mean_backward),
      .samples =
          [operands] {
            auto all = karcher_samples(operands, false);
            for (Sample& s : karcher_samples(operands, true)) all.push_back(s);
            return all;
          },
  });
}

OpDef define_spd_karcher_solve() {
  return define<>({
      .name = "spd_karcher_solve",
      .doc = "the symmetric z with sum_i w_i L_i[(z x_i + x_i z) / 2] = sym(rhs), for x[..., b, n, n], weights[..., b] "
             "with the sum 1 and the derivatives L_i of the logarithm at x_i: what changes of x move a Karcher mean by",
      .source = "Hestenes, Stiefel, J. Res. Nat. Bur. Standards 49 (1952): conjugate gradients",
      .operands = {"x", "weights", "rhs"},
      .covers = {"SpdKarcherMean", "SpdKarcherMeanWeighted"},
      .infer =
          [](Types in) {
            Type one = one_of(in, 1, in[0]);
            spd::require_same(in[2], one, "rhs", "x");
            return one;
          },
      .decompose = [](Values in) { return karcher_solution(in[0], in[1], in[2]); },
      .vjp =
          [](Values in, Value z, Value ct) {
            // Of H z = rhs: dz = H⁻¹ (d rhs - dH z), and H is its own transpose.
            Value x = in[0], w = in[1], y = spd_karcher_solve(x, w, ct), h = spd::symmetric(x);
            Value zs = for_each(z), half = (matmul(zs, h) + matmul(h, zs)) * 0.5;
            Value ys = broadcast_to(for_each(y), x.dims());
            Value image = spd_matrix_fn_backward(x, ys, {SpdFunction::log});
            Value bend = spd_matrix_fn_hessian(x, half, ys, {SpdFunction::log});
            Value bars = bend + (matmul(image, zs) + matmul(zs, image)) * 0.5;
            return Many<Value>({-(bars * as_matrix(w)), -inner(image, half), y});
          },
      .batch = batch_as_stack<NoAttrs>(op::spd_karcher_solve),
      // Ranges in which the laws' random matrices are positive definite, but for the third.
      .samples = {{.dims = {{1, 2, 2}, {1}, {2, 2}}, .lo = 0, .hi = 4},
                  {.dims = {{2, 1, 1}, {2}, {1, 1}}, .lo = 1, .hi = 2},
                  {.dims = {{2, 3, 3}, {2}, {3, 3}}, .lo = 0.5, .hi = 1},
                  {.dims = {{2, 1, 2, 2}, {2, 1}, {2, 2, 2}}, .lo = 0, .hi = 4},
                  {.dims = {{2, 0, 0}, {2}, {0, 0}}, .lo = 1, .hi = 2}},
  });
}

}  // namespace rlx
