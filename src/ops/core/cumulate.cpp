// Scans: running sums, products and maxima along an axis.
#include "ops/core/combine.h"
#include "ops/core/composite_rules.h"
#include "rlx/ops/reduction.h"

namespace rlx {

Value cumsum(Value x, int64_t axis, bool exclusive, bool reverse) {
  return emit(op::cumsum, {x}, CumulateAttrs{axis, exclusive, reverse});
}
Value cumprod(Value x, int64_t axis, bool exclusive, bool reverse) {
  return emit(op::cumprod, {x}, CumulateAttrs{axis, exclusive, reverse});
}
Value cummax(Value x, int64_t axis, bool exclusive, bool reverse) {
  return emit(op::cummax, {x}, CumulateAttrs{axis, exclusive, reverse});
}

namespace {

Value combine(Value x, Value y, Reduction kind) {
  return kind == Reduction::sum ? x + y : kind == Reduction::prod ? x * y : maximum(x, y);
}

/// An axis of known extent: log2(n) rounds, each combining x with itself moved by 1, 2, 4, ... places.
Value by_doubling(Value x, Reduction kind, int64_t axis, const CumulateAttrs& a) {
  Value first = x.graph().constant(initial_value(kind, x.dtype()));
  auto moved_by = [&](Value v, int64_t places) {
    PadAttrs to{Dims(v.dims().size(), Dim(0)), Dims(v.dims().size(), Dim(0)), {}};
    to.low[size_t(axis)] = a.reverse ? -places : places;
    to.high[size_t(axis)] = a.reverse ? places : -places;
    return pad(v, first, std::move(to));
  };
  int64_t n = x.dim(axis).value();
  if (a.exclusive) x = moved_by(x, 1);
  for (int64_t places = 1; places < n; places *= 2) x = combine(x, moved_by(x, places), kind);
  return x;
}

/// An axis of symbolic extent: each place reduces a copy of the axis in which what comes later is masked.
Value by_masking(Value x, Reduction kind, int64_t axis, const CumulateAttrs& a) {
  Graph& g = x.graph();
  Dims dims = x.dims();
  dims.insert(dims.begin() + axis, x.dim(axis));  // the place, then what is combined there
  Value place = iota(g, {i64, dims}, axis), source = iota(g, {i64, dims}, axis + 1);
  Comparison before =
      a.reverse ? (a.exclusive ? Comparison::gt : Comparison::ge) : (a.exclusive ? Comparison::lt : Comparison::le);
  Value all = broadcast_in_dim(x, dims, other_axes(dims.size(), {axis}));
  Value first = broadcast_to(g.constant(initial_value(kind, x.dtype())), dims);
  return reduce(select(compare(source, place, before), all, first), kind, {axis + 1});
}

OpDef define_scan(std::string_view name, std::string_view doc, Reduction kind) {
  std::vector<Sample> samples = {{.dims = {{3, 5}}},
                                 {.dims = {{4, 2, 3}}, .attrs = CumulateAttrs{0, true}},
                                 {.dims = {{2, 7}}, .attrs = CumulateAttrs{1, false, true}},
                                 {.dims = {{8}}, .attrs = CumulateAttrs{-1, true, true}},
                                 {.dims = {{2, 1}}, .attrs = CumulateAttrs{-1, true}},
                                 {.dims = {{2, 0}}, .attrs = CumulateAttrs{-1, true}},
                                 {.dims = {{9}}, .dtypes = {i32}, .attrs = CumulateAttrs{0, true}, .lo = -5, .hi = 5}};
  OpSpec<CumulateAttrs> spec{
      .name = name,
      .doc = doc,
      .source = "Hillis, Steele, Communications of the ACM 29 (1986): the decomposition",
      .operands = {"x"},
      .infer =
          [kind](Types in, const CumulateAttrs& a) {
            require_reducible(in[0], kind);
            return valid_axis(a.axis, in[0].rank()), in[0];
          },
      .reference =
          [kind](Tensors in, const CumulateAttrs& a) {
            DType dtype = in[0].dtype();
            Tensor first = initial_value(kind, dtype);
            return with_kinds<kBool | kNumber>(dtype, [&]<class T>() {
              Array<T> x(in[0]);
              for (auto lane : lanes_of(x.shape, {valid_axis(a.axis, in[0].rank())})) {
                if (a.reverse) std::reverse(lane.begin(), lane.end());
                T running = load<T>(first, 0);
                for (size_t at : lane) {
                  T next = combined(kind, running, x.data[at]);
                  x.data[at] = a.exclusive ? running : next;
                  running = next;
                }
              }
              return x.rounded_to(dtype);
            });
          },
      .decompose =
          [kind](Values in, const CumulateAttrs& a) {
            int64_t axis = valid_axis(a.axis, in[0].dims().size());
            return in[0].dim(axis).is_static() ? by_doubling(in[0], kind, axis, a) : by_masking(in[0], kind, axis, a);
          },
      .batch =
          [name](Values in, const CumulateAttrs& a) {
            return emit(find_op(name), {in[0]}, CumulateAttrs{behind_batch(a.axis), a.exclusive, a.reverse});
          },
      .samples = [samples] { return samples; },
  };
  if (kind == Reduction::sum) spec.covers = {"CumsumBackward"};  // in reverse
  if (kind == Reduction::sum)
    spec.vjp = [](Values, Value, Value ct, const CumulateAttrs& a) {
      return cumsum(ct, a.axis, a.exclusive, !a.reverse);
    };
  return define(std::move(spec));
}

}  // namespace

OpDef define_cumsum() {
  return define_scan("cumsum", "the running sum along `axis`; exclusive: 0 first, the total left out", Reduction::sum) |
         Covers{"Cumsum", "CumsumBackward"};
}
OpDef define_cumprod() {
  return define_scan("cumprod", "the running product along `axis`; exclusive: 1 first", Reduction::prod) |
         Covers{"CumProd"};
}
OpDef define_cummax() {
  return define_scan("cummax", "the running maximum along `axis`; exclusive: the lowest value first", Reduction::max) |
         Covers{"CumMax"};
}

}  // namespace rlx
