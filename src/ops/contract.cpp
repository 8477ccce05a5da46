// Primitives that combine over dims: reduce and dot_general.
#include "rlx/ops/contract.h"

#include <cmath>

#include "ops/combine.h"

namespace rlx {

Value reduce(Value x, Reduction kind, Axes axes) {
  axes = valid_axes(axes, x.dims().size());
  std::sort(axes.begin(), axes.end());
  return emit(op::reduce, {x}, ReduceAttrs{kind, std::move(axes)});
}
std::vector<Value> reduce_custom(std::vector<Value> xs, std::vector<Value> inits, Axes axes, Graph body) {
  if (xs.empty()) fail(ErrorCode::invalid_argument, "reduce_custom needs at least one operand");
  Graph& g = xs[0].graph();
  xs.insert(xs.end(), inits.begin(), inits.end());
  return g.emit(op::reduce, std::move(xs), ReduceAttrs{Reduction::custom, std::move(axes), Subgraph(std::move(body))});
}
Value dot_general(Value lhs, Value rhs, DotAttrs attrs) { return emit(op::dot_general, {lhs, rhs}, std::move(attrs)); }

namespace {

Axes joined(Axes a, const Axes& b) { return a.insert(a.end(), b.begin(), b.end()), a; }

Type dot_type(Types in, const DotAttrs& a) {
  DotAxes axes(a, in[0].rank(), in[1].rank());
  for (const Type& t : in) require_kind(t, kBool | kNumber);
  if (in[0].dtype != in[1].dtype)
    fail(ErrorCode::invalid_argument, "the operands' dtypes differ: lhs ", in[0], ", rhs ", in[1],
         "; convert one of them");
  auto compare_dims = [&](const Axes& lhs, const Axes& rhs, const char* what) {
    for (size_t i = 0; i < lhs.size(); ++i) {
      const Dim &l = in[0].dims[size_t(lhs[i])], &r = in[1].dims[size_t(rhs[i])];
      if (l != r)
        fail(ErrorCode::shape_mismatch, what, " dimensions differ: lhs ", in[0], " has ", l, ", rhs ", in[1], " has ",
             r, "; transpose one operand, or use dot_general to name the contracted axes");
    }
  };
  compare_dims(axes.lhs_batch, axes.rhs_batch, "batch");
  compare_dims(axes.lhs_contract, axes.rhs_contract, "inner");
  Type t{a.accumulate.value_or(in[0].dtype), pick(in[0].dims, joined(axes.lhs_batch, axes.lhs_free))};
  for (const Dim& d : pick(in[1].dims, axes.rhs_free)) t.dims.push_back(d);
  if (kind_of(t.dtype) != kind_of(in[0].dtype))
    fail(ErrorCode::invalid_argument, "products of ", in[0].dtype, " cannot be accumulated in ", t.dtype);
  return t;
}

/// How many operands (and results) a reduction has, and what they are.
size_t reduced_operands(Types in, const ReduceAttrs& a) {
  size_t n = a.kind == Reduction::custom ? in.size() / 2 : 1;
  if (in.size() != (a.kind == Reduction::custom ? 2 * n : 1) || n == 0)
    fail(ErrorCode::invalid_argument,
         a.kind == Reduction::custom ? "a custom reduction takes operands, then as many initial scalars; got "
                                     : "a reduction takes one operand, got ",
         in.size());
  return n;
}

}  // namespace

DotAxes::DotAxes(const DotAttrs& a, size_t lhs_rank, size_t rhs_rank) {
  Axes lhs = valid_axes(joined(a.lhs_batch, a.lhs_contract), lhs_rank),
       rhs = valid_axes(joined(a.rhs_batch, a.rhs_contract), rhs_rank);
  if (a.lhs_batch.size() != a.rhs_batch.size() || a.lhs_contract.size() != a.rhs_contract.size())
    fail(ErrorCode::invalid_argument, "lhs and rhs must name equally many batch axes (", a.lhs_batch.size(), ", ",
         a.rhs_batch.size(), ") and contracted axes (", a.lhs_contract.size(), ", ", a.rhs_contract.size(), ")");
  auto batch = static_cast<std::ptrdiff_t>(a.lhs_batch.size());
  lhs_batch.assign(lhs.begin(), lhs.begin() + batch), lhs_contract.assign(lhs.begin() + batch, lhs.end());
  rhs_batch.assign(rhs.begin(), rhs.begin() + batch), rhs_contract.assign(rhs.begin() + batch, rhs.end());
  lhs_free = other_axes(lhs_rank, lhs), rhs_free = other_axes(rhs_rank, rhs);
}

OpDef define_reduce() {
  return define<ReduceAttrs>({
      .name = "reduce",
      .doc = "elements combined over `axes`: sum, prod, max, min of numbers; all, any of bools; or several operands at "
             "once by "
             "`body`, from initial scalars on. Over no elements: 0, 1, the lowest and the highest value, true, false",
      .source = "StableHLO specification, reduce",
      .operands = {"xs..."},
      .infer = [](Types in, const ReduceAttrs& a) -> Many<Type> {
        size_t n = reduced_operands(in, a);
        Axes kept = other_axes(in[0].rank(), valid_axes(a.axes, in[0].rank()));
        require_reducible(in[0], a.kind);
        Many<Type> result;
        for (const Type& t : in.first(n)) {
          if (t.dims != in[0].dims)
            fail(ErrorCode::shape_mismatch, "operands differ in their dims: ", in[0], " and ", t);
          result.push_back({t.dtype, pick(t.dims, kept)});
        }
        if (a.kind == Reduction::custom) require_combiner(a.body, in.first(n), in.subspan(n));
        return result;
      },
      .reference = [](Tensors in, const ReduceAttrs& a, const Run& run) -> Many<Tensor> {
        size_t n = a.kind == Reduction::custom ? in.size() / 2 : 1;
        const Shape& shape = in[0].shape();
        Axes kept = other_axes(shape.size(), valid_axes(a.axes, shape.size()));
        Combiner combine(a.kind, a.body, in.first(n), in.subspan(n), run);
        Combiner::Cells cells(pick(shape, kept), combine);
        for_each_index(shape, [&](const Axes& i) { cells.add(pick(i, kept), offset_of(shape, i)); });
        return cells.results();
      },
      .samples =
          [] {
            Type scalar{f64, {}};
            Graph product_sum = trace(std::vector{scalar, scalar, scalar, scalar}, [](Values v) {
              return std::vector{v[0] + v[2], maximum(v[1], v[3])};
            });
            return std::vector<Sample>{
                {.dims = {{3, 4}}, .attrs = ReduceAttrs{Reduction::sum, {1}}},
                {.dims = {{2, 3, 4}}, .attrs = ReduceAttrs{Reduction::max, {0, 2}}},
                {.dims = {{3}}, .attrs = ReduceAttrs{Reduction::min, {0}}},
                {.dims = {{2, 5}}, .attrs = ReduceAttrs{Reduction::prod, {0}}},
                {.dims = {{2, 0}}, .attrs = ReduceAttrs{Reduction::sum, {-1}}},
                {.dims = {{2, 3}}, .dtypes = {i32}, .attrs = ReduceAttrs{Reduction::max, {1}}, .lo = -9, .hi = 9},
                {.dims = {{2, 3}}, .dtypes = {boolean}, .attrs = ReduceAttrs{Reduction::all, {1}}},
                {.dims = {{2, 3}}, .dtypes = {boolean}, .attrs = ReduceAttrs{Reduction::any, {0}}},
                {.dims = {{2, 3}, {2, 3}, {}, {}}, .attrs = ReduceAttrs{Reduction::custom, {1}, product_sum}},
            };
          },
  });
}

OpDef define_dot_general() {
  return define<DotAttrs>({
      .name = "dot_general",
      .doc = "sums products over the contracted dims, for each index of the batch dims; result dims: batch, free of "
             "lhs, free "
             "of rhs. f16 and bf16 accumulate in f32",
      .source = "StableHLO specification, dot_general",
      .operands = {"lhs", "rhs"},
      .infer = [](Types in, const DotAttrs& a) { return dot_type(in, a); },
      .reference =
          [](Tensors in, const DotAttrs& a) {
            const Tensor &lhs = in[0], &rhs = in[1];
            DotAxes axes(a, lhs.rank(), rhs.rank());
            Type result = dot_type(std::array{lhs.type(), rhs.type()}, a);
            return with_kinds<kBool | kNumber>(lhs.dtype(), [&]<class T>() {
              Array<T> x(lhs), w(rhs), y(shape_of(result.dims));
              Axes l(lhs.rank()), r(rhs.rank());
              size_t batch = axes.lhs_batch.size(), lhs_end = batch + axes.lhs_free.size();
              for_each_index(y.shape, [&](const Axes& i) {
                for (size_t d = 0; d < batch; ++d) l[size_t(axes.lhs_batch[d])] = r[size_t(axes.rhs_batch[d])] = i[d];
                for (size_t d = batch; d < lhs_end; ++d) l[size_t(axes.lhs_free[d - batch])] = i[d];
                for (size_t d = lhs_end; d < i.size(); ++d) r[size_t(axes.rhs_free[d - lhs_end])] = i[d];
                T sum{};
                for_each_index(pick(lhs.shape(), axes.lhs_contract), [&](const Axes& k) {
                  for (size_t d = 0; d < k.size(); ++d)
                    l[size_t(axes.lhs_contract[d])] = r[size_t(axes.rhs_contract[d])] = k[d];
                  T product = combined(Reduction::prod, x.at(l), w.at(r));
                  sum = lhs.dtype() == boolean ? combined(Reduction::any, sum, product)
                                               : combined(Reduction::sum, sum, product);
                });
                y.at(i) = sum;
              });
              return y.rounded_to(result.dtype);
            });
          },
      .samples = {{.dims = {{3, 4}, {4, 2}}, .attrs = DotAttrs{{}, {}, {1}, {0}}},
                  {.dims = {{2, 3, 4}, {4, 5, 2}}, .attrs = DotAttrs{{0}, {2}, {2}, {0}}},
                  {.dims = {{3, 2, 4}, {4, 5, 3}}, .attrs = DotAttrs{{}, {}, {0, 2}, {2, 0}}},
                  {.dims = {{4}, {4}}, .attrs = DotAttrs{{}, {}, {0}, {0}}},
                  {.dims = {{3, 4}, {4, 2}}, .dtypes = {bf16, bf16}, .attrs = DotAttrs{{}, {}, {1}, {0}, f32}},
                  {.dims = {{3, 4}, {4, 2}},
                   .dtypes = {i8, i8},
                   .attrs = DotAttrs{{}, {}, {1}, {0}, i32},
                   .lo = -99,
                   .hi = 99},
                  {.dims = {{3, 0}, {0, 2}}, .attrs = DotAttrs{{}, {}, {1}, {0}}}},
  });
}

}  // namespace rlx
