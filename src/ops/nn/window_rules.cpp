// See the header.
#include "ops/nn/window_rules.h"

#include "ops/control/subgraph_rules.h"
#include "ops/core/combine.h"
#include "rlx/ops/take.h"

namespace rlx {
namespace {

/// `axis` as two: `parts`, then what is left.
Value split_axis(Value x, int64_t axis, const Dim& parts) {
  Dims dims = x.dims();
  dims[size_t(axis)] = dims[size_t(axis)] / parts;
  dims.insert(dims.begin() + axis, parts);
  return reshape(x, dims);
}
/// The axis `from` becomes the major part of the axis `into`, counted without it.
Value merge_axis(Value x, int64_t from, int64_t into) {
  Dims dims = x.dims();
  Dim parts = dims[size_t(from)];
  dims.erase(dims.begin() + from);
  dims[size_t(into)] = dims[size_t(into)] * parts;
  return reshape(move_axis(x, from, into), dims);
}
/// Groups that one axis is made of become the major part of another.
Value regrouped(Value x, int64_t groups, int64_t from, int64_t to) {
  return groups == 1 ? x : merge_axis(split_axis(x, from, groups), from, to);
}
/// A layout that reads the first dim as the second, and the other way round.
Axes swapped(Axes layout) { return std::swap(layout[0], layout[1]), layout; }

bool is_empty(const Value& x) {
  return std::any_of(x.dims().begin(), x.dims().end(), [](const Dim& d) { return d == Dim(0); });
}

}  // namespace

Value convolution_ct_of_lhs(const Type& lhs, Value rhs, Value ct, const ConvAttrs& a) {
  std::array types{lhs, rhs.type()};
  ConvLayout layout(a, types);
  int64_t groups = a.feature_group_count * a.batch_group_count;  // one of them is 1
  Value w = regrouped(convert(rhs, ct.dtype()), groups, layout.rhs[0], layout.rhs[1]);
  if (!layout.rhs_spatial.empty()) w = reverse(w, layout.rhs_spatial);
  ConvAttrs back = layout.sliding(a, types).back(pick(lhs.dims, layout.lhs_spatial)).conv_attrs();
  back.feature_group_count = groups;
  back.lhs_layout = layout.out, back.rhs_layout = swapped(layout.rhs), back.out_layout = layout.lhs;
  Value d = convolution(ct, w, back);
  return convert(regrouped(d, a.batch_group_count, layout.lhs[1], layout.lhs[0]), lhs.dtype);
}

Value convolution_ct_of_rhs(Value lhs, const Type& rhs, Value ct, const ConvAttrs& a) {
  if (is_empty(ct)) return full(ct.graph(), 0, rhs);  // a kernel cannot be empty
  std::array types{lhs.type(), rhs};
  ConvLayout layout(a, types);
  Sliding s = layout.sliding(a, types);
  ConvAttrs back{.strides = s.dilation, .padding_low = s.low, .lhs_dilation = s.base, .rhs_dilation = s.stride};
  for (size_t d = 0; d < s.window.size(); ++d)
    back.padding_high.push_back(dilated(ct.dims()[size_t(layout.out_spatial[d])], s.stride[d]) -
                                dilated(lhs.dims()[size_t(layout.lhs_spatial[d])], s.base[d]) +
                                dilated(s.window[d], s.dilation[d]) - s.low[d] - Dim(1));
  back.feature_group_count = a.batch_group_count, back.batch_group_count = a.feature_group_count;
  back.lhs_layout = swapped(layout.lhs), back.rhs_layout = swapped(layout.out), back.out_layout = swapped(layout.rhs);
  return convert(convolution(convert(lhs, ct.dtype()), ct, back), rhs.dtype);
}

Many<Value> batched_convolution(Values in, const Mask& batched, const ConvAttrs& a) {
  const Dim size = batch_size(in, batched);
  auto lane = [&](size_t i) {
    Type t = in[i].type();
    if (batched[i]) t.dims.erase(t.dims.begin());
    return t;
  };
  ConvLayout layout(a, std::array{lane(0), lane(1)});
  ConvAttrs wide = a;
  if (batched[0] && batched[1]) {  // each lane is a group
    if (!size.is_static() || size == Dim(0)) return {};
    bool groups_of_batch = a.batch_group_count > 1;
    (groups_of_batch ? wide.batch_group_count : wide.feature_group_count) *= size.value();
    Value x = merge_axis(in[0], 0, layout.lhs[groups_of_batch ? 0 : 1]), w = merge_axis(in[1], 0, layout.rhs[0]);
    return move_axis(split_axis(convolution(x, w, wide), layout.out[1], size), layout.out[1], 0);
  }
  if (batched[0]) {  // lanes are more batch, within each group of it
    Value x = in[0];
    int64_t groups = a.batch_group_count, axis = layout.lhs[0];
    if (groups == 1) {
      x = merge_axis(x, 0, axis);
    } else {
      x = merge_axis(split_axis(x, axis + 1, groups), 0, axis + 1);
      x = merge_axis(x, axis, axis);
    }
    return move_axis(split_axis(convolution(x, in[1], wide), layout.out[0], size), layout.out[0], 0);
  }
  // Lanes are more output features, within each group of them.
  int64_t groups = a.feature_group_count * a.batch_group_count, axis = layout.rhs[0], made = layout.out[1];
  Value w = in[1];
  if (groups == 1) {
    w = merge_axis(w, 0, axis);
    return move_axis(split_axis(convolution(in[0], w, wide), made, size), made, 0);
  }
  w = merge_axis(split_axis(w, axis + 1, groups), 0, axis + 1);
  w = merge_axis(w, axis, axis);
  Value y = split_axis(convolution(in[0], w, wide), made, groups);
  y = split_axis(y, made + 1, size);
  return move_axis(merge_axis(y, made, made + 1), made, 0);
}

Value window_sum_ct(const Type& x, Value ct, const ReduceWindowAttrs& a) {
  return reduce_window(ct, Sliding(a, x.rank()).back(x.dims).attrs(Reduction::sum));
}

Value window_extreme_ct(Value x, Value ct, const ReduceWindowAttrs& a) {
  size_t rank = x.dims().size();
  Sliding s(a, rank);
  auto scattered = [&](Value from) {
    return select_and_scatter(
        from, ct,
        {a.kind == Reduction::max ? Comparison::ge : Comparison::le, s.window, s.stride, s.dilation, s.low, s.high});
  };
  if (s.base == Axes(rank, 1)) return scattered(x);
  // select_and_scatter knows no gaps: fill them with what is never kept, and drop what falls there.
  PadAttrs spread{Dims(rank, Dim(0)), Dims(rank, Dim(0)), {}};
  for (int64_t apart : s.base) spread.interior.push_back(apart - 1);
  Value wide = pad(x, x.graph().constant(initial_value(a.kind, x.dtype())), spread);
  return slice(scattered(wide), Dims(rank, Dim(0)), wide.dims(), s.base);
}

Value unfolded(Value x, Value padding, const Sliding& s) {
  size_t rank = s.window.size();
  if (s.is_padded() || s.base != Axes(rank, 1)) {
    PadAttrs around{s.low, s.high, {}};
    for (int64_t apart : s.base) around.interior.push_back(apart - 1);
    x = pad(x, padding, around);
  }
  const Sliding bare(rank, s.window, s.stride, {}, s.dilation, {}, {});
  for (size_t d = rank; d-- > 0;) {  // the last dim first, so that axes stay put
    if (!s.window[d].is_static())
      fail(ErrorCode::unsupported, "the windows of ", x.type(), " have the extent ", s.window[d], " along dim ", d,
           ", which is no number; bind it first");
    Dim count = bare.count(d, x.dims()[d]);
    // Few taps are cut out and joined; of many, whose number must not be that of nodes, the places are read.
    constexpr int64_t kMostTaps = 64;
    if (s.window[d].value() > kMostTaps && count != Dim(0)) {
      const Dim& extent = x.dims()[d];
      const bool is_short = extent.is_static() && extent.value() <= std::numeric_limits<int32_t>::max();
      const Type places{is_short ? i32 : i64, {count, s.window[d]}};
      Value first = iota(x.graph(), places, 0) * double(s.stride[d]),
            tap = iota(x.graph(), places, 1) * double(s.dilation[d]);
      x = take(x, first + tap, int64_t(d), OutOfRange::clip);
      continue;
    }
    std::vector<Value> taps;
    for (int64_t k = 0; k < s.window[d].value(); ++k) {
      Dims starts(x.dims().size(), Dim(0)), limits = x.dims();
      Axes strides(x.dims().size(), 1);
      strides[d] = s.stride[d];
      if (count != Dim(0)) starts[d] = k * s.dilation[d];
      limits[d] = starts[d] + dilated(count, s.stride[d]);
      Value tap = limits == x.dims() && s.stride[d] == 1 && starts[d] == Dim(0) ? x : slice(x, starts, limits, strides);
      taps.push_back(expand_dims(tap, int64_t(d) + 1));
    }
    x = taps.size() == 1 ? taps[0] : concatenate(taps, int64_t(d) + 1);
  }
  return x;
}

Value kept_elements(Value x, Value values, const SelectAndScatterAttrs& a) {
  Graph& g = x.graph();
  size_t rank = x.dims().size();
  Sliding s(a, rank);
  bool greatest = a.select == Comparison::ge || a.select == Comparison::gt;
  bool first = a.select == Comparison::ge || a.select == Comparison::le;
  Reduction extreme = greatest ? Reduction::max : Reduction::min;
  Value in_window = unfolded(x, g.constant(initial_value(extreme, x.dtype())), s);
  Value candidates = unfolded(values, scalar(g, 0, values.dtype()), s);
  Axes taps;
  for (size_t d = 0; d < rank; ++d) taps.push_back(2 * int64_t(d) + 1);

  Value best = reduce(in_window, extreme, taps);
  Value hit = compare(in_window, broadcast_like(best, in_window, taps), Comparison::eq);
  if (s.is_padded())  // what lies outside is never kept, also if it compares equal
    hit = bitwise_and(hit, unfolded(full(g, 1, {boolean, x.dims()}), scalar(g, 0, boolean), s));
  Value place = full(g, 0, {i32, in_window.dims()});  // of the element within its window
  int64_t step = 1;
  for (size_t d = rank; d-- > 0; step *= s.window[d].value())
    if (s.window[d] != Dim(1)) place = place + iota(g, place.type(), taps[d]) * double(step);
  Value at = select(hit, place, full_like(place, first ? double(step) : -1.0));
  Value kept = reduce(at, first ? Reduction::min : Reduction::max, taps);
  hit = bitwise_and(hit, compare(place, broadcast_like(kept, place, taps), Comparison::eq));
  return reduce_sum(select(hit, candidates, zeros_like(candidates)), taps);
}

namespace {

/// Puts an entry for the batch in front of each list that is there.
template <class A>
A with_batch(A a) {
  auto front = [&](auto& list, auto value) {
    if (!list.empty()) list.insert(list.begin(), value);
  };
  front(a.strides, int64_t{1});
  front(a.window_dilation, int64_t{1});
  front(a.padding_low, Dim(0));
  front(a.padding_high, Dim(0));
  if constexpr (requires { a.base_dilation; }) front(a.base_dilation, int64_t{1});
  a.window_dims.insert(a.window_dims.begin(), Dim(1));
  return a;
}

}  // namespace

ReduceWindowAttrs behind_batch(const ReduceWindowAttrs& a) { return with_batch(a); }
SelectAndScatterAttrs behind_batch(const SelectAndScatterAttrs& a) { return with_batch(a); }

}  // namespace rlx
