// Primitives that combine over dims: reduce and dot_general.
#include "rlx/ops/contract.h"

#include <cmath>

#include "ops/control/subgraph_rules.h"
#include "ops/core/combine.h"
#include "ops/core/composite_rules.h"
#include "rlx/ops/control.h"
#include "rlx/ops/reduction.h"

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
  require_accumulator(in[0].dtype, t.dtype);
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

/// The dims that are reduced, as one dim at the end.
Value with_reduced_last(Value x, const Axes& axes) {
  size_t rank = x.dims().size();
  Axes reduced = valid_axes(axes, rank), kept = other_axes(rank, reduced);
  Dims dims = pick(x.dims(), kept);
  dims.push_back(element_count(pick(x.dims(), reduced)));
  return reshape(transpose(x, joined(kept, reduced)), dims);
}
/// The inverse, for a value like x.
Value with_reduced_in_place(Value flat, Value x, const Axes& axes) {
  size_t rank = x.dims().size();
  Axes reduced = valid_axes(axes, rank), order = joined(other_axes(rank, reduced), reduced), inverse(rank);
  for (size_t d = 0; d < rank; ++d) inverse[size_t(order[d])] = int64_t(d);
  return transpose(reshape(flat, pick(x.dims(), order)), inverse);
}

/// Of a product: that of all the other factors, without a division, for there may be zeros.
Value product_vjp(Value x, Value ct, const Axes& axes) {
  Value flat = with_reduced_last(x, axes);
  Value others = cumprod(flat, -1, true, false) * cumprod(flat, -1, true, true);
  return with_reduced_in_place(others, x, axes) * broadcast_like(ct, x, axes);
}

/// Of a reduction by a sub-graph: that of the fold, a scan whose carries are the running scalars of all results.
Many<Value> folded_vjp(Values in, Values cts, const ReduceAttrs& a, const Transforms& t) {
  size_t n = in.size() / 2;
  Value x = in[0];
  Dims kept = pick(x.dims(), other_axes(x.dims().size(), valid_axes(a.axes, x.dims().size())));
  Dim cells = element_count(kept), length = element_count(pick(x.dims(), valid_axes(a.axes, x.dims().size())));
  Graph fold = trace(types_of_values(in), [&](Graph& g, Values v) {
    std::vector<Value> operands;
    for (size_t i = 0; i < n; ++i) operands.push_back(broadcast_in_dim(v[n + i], {cells}, {}));
    for (size_t i = 0; i < n; ++i)
      operands.push_back(transpose(reshape(with_reduced_last(v[i], a.axes), {cells, length}), {1, 0}));
    auto out = scan(g, operands, {int64_t(n), int64_t(n), length, false, t.batch(*a.body, Mask(2 * n, true), cells)});
    out.resize(n);
    for (Value& y : out) y = reshape(y, kept);
    return out;
  });
  Mask wrt = floats(in);
  return spread(inlined(x.graph(), t.vjp(fold, wrt, mask_of(cts)), joined(in, present(cts))), wrt);
}

/// What a cotangent of the result, dims batch, lhs free, rhs free, means for lhs.
Value dot_ct_of_lhs(Value lhs, Value rhs, Value ct, const DotAxes& axes) {
  auto b = axes.lhs_batch.size(), l = axes.lhs_free.size(), r = axes.rhs_free.size();
  DotAttrs back{axes_from(0, b), axes.rhs_batch, axes_from(int64_t(b + l), r), axes.rhs_free};
  Value d = dot_general(ct, convert(rhs, ct.dtype()), back);
  // Its dims: batch, free of lhs, then the contracted ones in the order in which they stand in rhs.
  Axes contracted = axes.rhs_contract, order = joined(axes.lhs_batch, axes.lhs_free);
  std::sort(contracted.begin(), contracted.end());
  for (int64_t axis : contracted) {
    auto pair = std::find(axes.rhs_contract.begin(), axes.rhs_contract.end(), axis) - axes.rhs_contract.begin();
    order.push_back(axes.lhs_contract[size_t(pair)]);
  }
  Axes inverse(order.size());
  for (size_t d_at = 0; d_at < order.size(); ++d_at) inverse[size_t(order[d_at])] = int64_t(d_at);
  return convert(transpose(d, inverse), lhs.dtype());
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
      .covers = {"Reduce"},
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
      .vjp = [](Values in, Values out, Values cts, const ReduceAttrs& a, const Transforms& t) -> Many<Value> {
        if (a.kind == Reduction::custom) return folded_vjp(in, cts, a, t);
        Value x = in[0], y = out[0], ct = cts[0];
        switch (a.kind) {
          case Reduction::sum: return broadcast_like(ct, x, a.axes);
          case Reduction::prod: return product_vjp(x, ct, a.axes);
          case Reduction::max:
          case Reduction::min: {  // equals share
            Value won = convert(compare(x, broadcast_like(y, x, a.axes), Comparison::eq), ct.dtype());
            return won * broadcast_like(ct / reduce(won, Reduction::sum, a.axes), x, a.axes);
          }
          default: return Value{};
        }
      },
      .batch = [](Values in, const Mask& batched, const ReduceAttrs& a) -> Many<Value> {
        ReduceAttrs wide = a;
        wide.axes = behind_batch(valid_axes(a.axes, in[0].dims().size() - batched[0]));
        if (a.kind != Reduction::custom) return emit(op::reduce, {in[0]}, wide);
        size_t n = in.size() / 2;
        for (size_t i = n; i < in.size(); ++i)
          if (batched[i]) return {};  // initial values are scalars
        auto operands = all_batched(in.first(n), Mask(batched.begin(), batched.begin() + std::ptrdiff_t(n)));
        operands.insert(operands.end(), in.begin() + std::ptrdiff_t(n), in.end());
        return in[0].graph().emit(op::reduce, operands, wide);
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
      .covers = {"DotGeneral"},
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
      .vjp = [](Values in, Value, Value ct, const DotAttrs& a) -> Many<Value> {
        DotAxes axes(a, in[0].dims().size(), in[1].dims().size());
        DotAxes swapped = axes;
        std::swap(swapped.lhs_batch, swapped.rhs_batch), std::swap(swapped.lhs_contract, swapped.rhs_contract);
        std::swap(swapped.lhs_free, swapped.rhs_free);
        // The cotangent with the free dims of rhs before those of lhs.
        auto b = int64_t(axes.lhs_batch.size()), l = int64_t(axes.lhs_free.size()), r = int64_t(axes.rhs_free.size());
        Axes order = joined(joined(axes_from(0, size_t(b)), axes_from(b + l, size_t(r))), axes_from(b, size_t(l)));
        return {dot_ct_of_lhs(in[0], in[1], ct, axes), dot_ct_of_lhs(in[1], in[0], transpose(ct, order), swapped)};
      },
      .batch = [](Values in, const Mask& batched, const DotAttrs& a) -> Value {
        DotAxes axes(a, in[0].dims().size() - batched[0], in[1].dims().size() - batched[1]);
        DotAttrs b{axes.lhs_batch, axes.rhs_batch, axes.lhs_contract, axes.rhs_contract, a.accumulate};
        if (batched[0]) b.lhs_batch = behind_batch(b.lhs_batch), b.lhs_contract = behind_batch(b.lhs_contract);
        if (batched[1]) b.rhs_batch = behind_batch(b.rhs_batch), b.rhs_contract = behind_batch(b.rhs_contract);
        if (batched[0] && batched[1]) {
          b.lhs_batch.insert(b.lhs_batch.begin(), 0);
          b.rhs_batch.insert(b.rhs_batch.begin(), 0);
          return dot_general(in[0], in[1], b);
        }
        // One operand alone has the batch: it is that operand's first free dim. Weights are not repeated.
        size_t at = axes.lhs_batch.size() + (batched[1] ? axes.lhs_free.size() : 0);
        return move_axis(dot_general(in[0], in[1], b), int64_t(at), 0);
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
