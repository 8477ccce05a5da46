// Conjugate gradients on a symmetric, positive definite sparse matrix. The portable form is a loop of sparse products;
// its incomplete factors are dense. Differentiated at the solution: with l the solution for ct, an entry (r, c) below
// the diagonal stands for two places and gets -(l_r x_c + l_c x_r), one on it -l_r x_r.
#include "extras/sparse/pattern.h"

namespace rlx {

CgResult sparse_cg(const SparseValue& a, Value b, const CgOptions& o) {
  auto all = b.graph().emit(op::sparse_cg, {a.first, a.second, a.values, b},
                            sparse::attrs_of<SparseCgAttrs>(a, {.tolerance = o.tolerance,
                                                                .max_iterations = o.max_iterations,
                                                                .preconditioner = o.preconditioner,
                                                                .shift = o.shift}));
  return {all[0], all[1]};
}

namespace {

using namespace sparse;
using A = SparseCgAttrs;

double epsilon_of(DType t) { return t == f64 ? 0x1p-52 : 0x1p-23; }

/// u[..., n, k] and v: [..., 1, k], the inner products of their columns.
Value inner(Value u, Value v) { return reduce_sum(u * v, {u.rank() - 2}, true); }

/// What the matrix multiplies by, with its entries on and below the diagonal standing for both triangles.
struct Symmetric {
  SparseValue lower, strict;
  double shift;
  Value times(Value x) const {
    Value y = sparse_matmul(lower, x) + sparse_matmul(strict, x, true);
    return shift == 0 ? y : y + x * shift;
  }
};

/// Indices of rows and columns of n by n, [n, n].
std::pair<Value, Value> indices_of(Graph& g, const Dim& n) {
  return {iota(g, {i32, {n, n}}, 0), iota(g, {i32, {n, n}}, 1)};
}

/// L D Lᵀ without fill, column by column: m[..., n, n] holds the lower triangle, `pattern` [n, n] where entries may be.
/// Returns the unit lower L, its diagonal included, and D [..., n, 1].
std::pair<Value, Value> incomplete_factors(Value m, Value pattern) {
  Dim n = m.dim(-1);
  Dims stack = m.dims(), column = stack;
  column.back() = 1;
  std::vector<Type> types = {m.type(), {m.dtype(), column}, {i32, {}}, {m.dtype(), {n, n}}};
  Graph step = trace(types, [&](Values v) {
    Value k = v[2], factors = v[0];
    auto [rows, columns] = indices_of(k.graph(), n);
    Value at = broadcast_to(k, rows.dims());
    auto chosen = [&](Value mask, Value x) { return select(broadcast_to(mask, stack), x, zeros_like(x)); };
    Value here = compare(columns, at, Comparison::eq), below = compare(rows, at, Comparison::gt);
    Value line = reduce_sum(chosen(here, factors), {factors.rank() - 1}, true);  // column k, [..., n, 1]
    Value on = slice_axis(compare(rows, at, Comparison::eq), 1, 0, 1), under = slice_axis(below, 1, 0, 1);
    Value pivot = reduce_sum(select(broadcast_to(on, column), line, zeros_like(line)), {line.rank() - 2}, true);
    Value l = select(broadcast_to(under, column), line / broadcast_to(pivot, column), zeros_like(line));
    Value update = matmul(l * broadcast_to(pivot, column), swap_axes(l, -1, -2));
    Value kept = logical_and(compare(v[3], zeros_like(v[3]), Comparison::ne), compare(columns, at, Comparison::gt));
    Value next = factors - chosen(kept, update);
    next = select(broadcast_to(logical_and(here, below), stack), broadcast_to(l, stack), next);
    Value d = select(broadcast_to(on, column), broadcast_to(pivot, column), v[1]);
    return std::vector{next, d};
  });
  Graph& g = m.graph();
  auto made = scan(g, {m, full(g, 1, {m.dtype(), column}), iota(g, {i32, {n}}, 0), pattern},
                   {.carries = 2, .xs = 1, .length = n, .body = step});
  return {made[0], made[1]};
}

/// The portable form of the preconditioners: what a residual is turned into.
struct Conditioner {
  std::vector<Value> operands;
  Preconditioner kind;
  /// `held`: the operands, as the loop's body sees them.
  Value operator()(Value r, Values held) const {
    if (kind == Preconditioner::none) return r;
    if (kind == Preconditioner::jacobi) return r / broadcast_to(held[0], r.dims());
    TriangularSolveAttrs forward{.lower = true, .unit_diagonal = true}, back = forward;
    back.transposition = Transposition::transpose;
    Value z = triangular_solve(held[0], r, forward) / broadcast_to(held[1], r.dims());
    return triangular_solve(held[0], z, back);
  }
};

Conditioner conditioner_of(const Symmetric& a, Value b, Value on_diagonal, Value in_lower, const A& attrs) {
  if (attrs.preconditioner == Preconditioner::none) return {{}, attrs.preconditioner};
  if (attrs.preconditioner == Preconditioner::jacobi) {
    // Sums over the diagonal's entries alone: the product with a vector of ones.
    SparseValue diagonal = a.lower.with_values(masked(a.lower.values, on_diagonal));
    Dims ones = {a.lower.columns, 1};
    Dims front(a.lower.values.dims().begin(), a.lower.values.dims().end() - 1);
    ones.insert(ones.begin(), front.begin(), front.end());
    Value d = sparse_matmul(diagonal, full(b.graph(), 1, {b.dtype(), ones})) + a.shift;
    return {{d}, attrs.preconditioner};
  }
  Dims stack = batch_dims(b.dims()), matrix = {attrs.rows, attrs.columns};
  stack.insert(stack.end(), matrix.begin(), matrix.end());
  Value unit = eye(b.graph(), {b.dtype(), matrix});
  Value dense = broadcast_to(sparse_to_dense(a.lower), stack);
  if (a.shift != 0) dense = dense + broadcast_to(unit * a.shift, stack);
  Value ones = masked(full(b.graph(), 1, {b.dtype(), {in_lower.dim(0)}}), in_lower);
  auto [l, d] = incomplete_factors(dense, sparse_to_dense(a.lower.with_values(ones)) + unit);
  return {{l, d}, attrs.preconditioner};
}

std::vector<Value> iterated(Values in, const A& attrs) {
  Value b = in[3];
  auto [rows, columns, valid] = places_of(in[0], in[1], shape_of_matrix(attrs));
  Value in_lower = logical_and(valid, compare(rows, columns, Comparison::ge));
  Value on_diagonal = logical_and(valid, compare(rows, columns, Comparison::eq));
  SparseValue m = value_of(in, attrs);
  Symmetric a{m.with_values(masked(in[2], in_lower)),
              m.with_values(masked(in[2], logical_and(valid, compare(rows, columns, Comparison::gt)))), attrs.shift};
  Conditioner precondition = conditioner_of(a, b, on_diagonal, in_lower, attrs);
  double relative = std::max(attrs.tolerance, 4 * epsilon_of(b.dtype()));
  Value enough = inner(b, b) * (relative * relative);
  // x, the residual, the direction, <r, z>, <r, r>, the steps, whether it goes on; then what stays.
  Value z = precondition(b, precondition.operands), square = inner(b, b);
  Type counts{i32, square.dims()};
  std::vector<Value> operands = {zeros_like(b),
                                 b,
                                 z,
                                 inner(b, z),
                                 square,
                                 full(b.graph(), 0, counts),
                                 compare(square, enough, Comparison::gt),
                                 enough,
                                 in[0],
                                 in[1],
                                 a.lower.values,
                                 a.strict.values};
  size_t fixed = operands.size();
  operands.insert(operands.end(), precondition.operands.begin(), precondition.operands.end());
  std::vector<Type> types;
  for (const Value& v : operands) types.push_back(v.type());
  Graph unfinished = trace(types, [](Values v) { return reduce_any(reshape(v[6], {-1}), {0}); });
  Graph step = trace(types, [&](Values v) {
    auto with = [&](Value values) { return SparseValue{attrs.format, attrs.rows, attrs.columns, v[8], v[9], values}; };
    Value x = v[0], r = v[1], p = v[2], rz = v[3], moves = v[6];
    Value image = Symmetric{with(v[10]), with(v[11]), attrs.shift}.times(p);
    Value curvature = inner(p, image), zero = zeros_like(rz), one = full_like(rz, 1);
    // Where the matrix turns out not to be positive, the column stays as it is.
    Value sound = logical_and(moves, compare(curvature, zero, Comparison::gt));
    auto share = [&](Value part, Value whole) {
      return broadcast_to(select(sound, part / select(sound, whole, one), zero), x.dims());
    };
    Value along = share(rz, curvature);
    x = x + along * p, r = r - along * image;
    Value conditioned = precondition(r, v.subspan(fixed)), next = inner(r, conditioned), left = inner(r, r);
    p = conditioned + share(next, rz) * p;
    Value goes_on = logical_and(sound, compare(left, v[7], Comparison::gt));
    Value steps = v[5] + convert(sound, i32);
    return std::vector{x, r, p, next, left, steps, goes_on};
  });
  auto made = while_loop(operands, {7, unfinished, step, attrs.max_iterations});
  Value reached = compare(made[4], enough, Comparison::le), steps = made[5];
  // Where the residual is not finite no step is made, and 0 would look like a solution: 0 times it is NaN.
  Value x = made[0] + broadcast_to(made[4] * 0.0, b.dims());
  return {x, squeeze(select(reached, steps, -steps), {-2})};
}

}  // namespace

OpDef define_sparse_cg() {
  constexpr auto csr = SparseFormat::csr, csc = SparseFormat::csc, coo = SparseFormat::coo;
  return define<A>({
      .name = "sparse_cg",
      .doc =
          "x with (a + shift) x = b by conjugate gradients from 0 on, each column of b[..., n, k] for itself, until "
          "its "
          "residual's norm is at most `tolerance` times b's; and the steps it took, i32[..., k], negative where it "
          "ended "
          "before. a is symmetric, positive definite; its entries on and below the diagonal stand for both triangles",
      .source = "Hestenes, Stiefel, J. Res. NBS 49 (1952); Saad (2003), algorithm 9.1; gradient: implicit functions",
      .operands = {"first", "second", "values", "b"},
      .infer = [](Types in, const A& a) -> Many<Type> {
        Dim entries = require_pattern(in, shape_of_matrix(a));
        require_square(shape_of_matrix(a));
        if (is_complex(require_numbers(in)))
          fail(ErrorCode::unsupported, "conjugate gradients are of real matrices; got ", in[2],
               " (sparse_solve takes complex ones)");
        require_rows(in[3], a.rows, "b", "a row for each of the matrix's");
        require_values(in[2], entries, in[3], "b");
        if (a.max_iterations < 1)
          fail(ErrorCode::invalid_argument, "max_iterations must be at least 1, got ", a.max_iterations);
        if (!(a.tolerance >= 0)) fail(ErrorCode::invalid_argument, "tolerance must not be negative, got ", a.tolerance);
        Dims columns = batch_dims(in[3].dims);
        columns.push_back(in[3].dims.back());
        return {in[3], Type{i32, columns}};
      },
      .decompose = [](Values in, const A& a) -> Many<Value> { return iterated(in, a); },
      .vjp = [](Values in, Values out, Values cts, const A& a) -> Many<Value> {
        if (!cts[0]) return {Value{}, Value{}, Value{}, Value{}};
        SparseValue m = value_of(in, a, in[2]);
        Value b = sparse_cg(m, cts[0], {a.tolerance, a.max_iterations, a.preconditioner, a.shift}).x;
        auto [rows, columns, valid] = places_of(in[0], in[1], shape_of_matrix(a));
        Value one = masked(sparse_sampled_matmul(m, b, out[0]), compare(rows, columns, Comparison::ge));
        Value other = masked(sparse_sampled_matmul(m, out[0], b), compare(rows, columns, Comparison::gt));
        return {Value{}, Value{}, of_values(-(one + other), in[2]), b};
      },
      .batch = [](Values in, const Mask& batched, const A& a, const Transforms&) -> Many<Value> {
        auto all = batched_operands(in, batched);
        if (all.empty()) return {};
        return all[3].graph().emit(op::sparse_cg, all, a);
      },
      .samples = {{.dims = {{5}, {5}, {5}, {3, 2}},
                   .dtypes = {i32, i32},
                   .attrs = A{coo, 3, 3, 1e-9, 20, Preconditioner::none, 12},
                   .lo = 0,
                   .hi = 3},
                  {.dims = {{4}, {6}, {6}, {3, 1}},
                   .dtypes = {i64, i64},
                   .attrs = A{csr, 3, 3, 1e-9, 20, Preconditioner::jacobi, 24},
                   .lo = 0,
                   .hi = 5},
                  {.dims = {{4}, {6}, {2, 6}, {2, 3, 2}},
                   .dtypes = {i32, i32},
                   .attrs = A{csc, 3, 3, 1e-9, 20, Preconditioner::ilu0, 20},
                   .lo = 0,
                   .hi = 4},
                  {.dims = {{3}, {3}, {3}, {1, 2}}, .dtypes = {i32, i32}, .attrs = A{coo, 1, 1}, .lo = 0.5, .hi = 1}},
  });
}

}  // namespace rlx
