// See the header. Every value that was laid out anew stands in the new graph twice, as `last` and as `first`, its
// transpose back. Who knows what to do with `last` takes that; `first` is pruned where nobody wants it.
#include "passes/carry_channels_last.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ir/rewrite.h"
#include "passes/plain_convolution.h"
#include "passes/value_nodes.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

/// Result dim i is dim to_last[i]: batch, spatial dims, channels.
Axes to_last(size_t rank) {
  Axes p = axes_from(0, rank);
  std::rotate(p.begin() + 1, p.begin() + 2, p.end());
  return p;
}
Axes to_first(size_t rank) {
  Axes p = axes_from(0, rank);
  std::rotate(p.begin() + 1, p.end() - 1, p.end());
  return p;
}
/// Where a dim comes to stand.
int64_t moved(int64_t axis, size_t rank) {
  return axis == 0 ? 0 : axis == 1 ? static_cast<int64_t>(rank) - 1 : axis - 1;
}
template <class T>
std::vector<T> permuted(const std::vector<T>& v) {
  if (v.empty()) return v;
  std::vector<T> out;
  for (int64_t axis : to_last(v.size())) out.push_back(v[static_cast<size_t>(axis)]);
  return out;
}
/// Channels first and last are then the same memory.
bool is_one_place(const Dims& first) {
  return std::all_of(first.begin() + 2, first.end(), [](const Dim& d) { return d == Dim(1); });
}
/// Elements, a symbol counted as 8.
double size_of(const Type& t) {
  double n = 1;
  for (const Dim& d : t.dims) n *= d.is_static() ? static_cast<double>(d.value()) : 8;
  return n;
}

class Carrier {
 public:
  double carried = 0;  ///< elements that the convolutions read and write

  std::optional<std::vector<Value>> carry(const Site& site) {
    const Node& node = site.node;
    if (node.types.empty() || node.operands.empty()) return {};
    if (node.op == &op::reduce) return reduced(site);
    if (node.op == &op::transpose) return transposed(site);
    const size_t rank = node.types[0].dims.size();
    if (rank < 3) return {};
    if (const auto c = plain_convolution(node, site.operands)) return convolved(site, *c);
    if (node.op == &op::dynamic_quantize_conv) return convolved_in_integers(site);
    if (!is_worthwhile(site)) return {};
    if (node.op->elementwise) return elementwise(site);
    if (node.op == &op::reduce_window && node.operands.size() == 1) {
      auto a = node.attrs.as<ReduceWindowAttrs>();
      a.window_dims = permuted(a.window_dims), a.strides = permuted(a.strides);
      a.base_dilation = permuted(a.base_dilation), a.window_dilation = permuted(a.window_dilation);
      a.padding_low = permuted(a.padding_low), a.padding_high = permuted(a.padding_high);
      return one(emit(op::reduce_window, {last_of(site.operands[0])}, a));
    }
    if (node.op == &op::pad) {
      auto a = node.attrs.as<PadAttrs>();
      a.low = permuted(a.low), a.high = permuted(a.high), a.interior = permuted(a.interior);
      return one(emit(op::pad, {last_of(site.operands[0]), site.operands[1]}, a));
    }
    if (node.op == &op::slice) {
      auto a = node.attrs.as<SliceAttrs>();
      a.starts = permuted(a.starts), a.limits = permuted(a.limits), a.strides = permuted(a.strides);
      return one(emit(op::slice, {last_of(site.operands[0])}, a));
    }
    if (node.op == &op::concatenate) {
      std::vector<Value> in;
      for (Value v : site.operands) in.push_back(last_of(v));
      return one(concatenate(in, moved(valid_axis(node.attrs.as<AxisAttrs>().axis, rank), rank)));
    }
    return {};
  }

 private:
  /// `v` with channels first, of which `last` is known.
  Value first_of(Value last) {
    const Dims& dims = last.dims();
    Dims back;
    for (int64_t axis : to_first(dims.size())) back.push_back(dims[static_cast<size_t>(axis)]);
    const Value first = is_one_place(back) ? reshape(last, back) : transpose(last, to_first(dims.size()));
    last_[first.ref()] = last;
    return first;
  }
  std::vector<Value> one(Value last) { return {first_of(last)}; }
  bool is_carried(Value v) const { return last_.contains(v.ref()); }

  Value last_of(Value first) {
    if (const auto found = last_.find(first.ref()); found != last_.end()) return found->second;
    const size_t rank = first.dims().size();
    const Dims to = permuted(first.dims());
    const Value last = is_one_place(first.dims()) ? reshape(first, to)
                       : is_broadcast(first)      ? broadcast_last(first)
                                                  : transpose(first, to_last(rank));
    return last_[first.ref()] = last;
  }
  /// What is repeated is small, so it is turned around before.
  Value broadcast_last(Value first) {
    const size_t rank = first.dims().size();
    const Value x = operand(first);
    const Axes from = valid_axes(node_of(first).attrs.as<BroadcastAttrs>().axes, rank);
    Axes order = axes_from(0, from.size());
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return moved(from[static_cast<size_t>(a)], rank) < moved(from[static_cast<size_t>(b)], rank);
    });
    Axes axes;
    for (int64_t i : order) axes.push_back(moved(from[static_cast<size_t>(i)], rank));
    const Value turned = is_carried(x) && from.size() == rank         ? last_of(x)
                         : std::is_sorted(order.begin(), order.end()) ? x
                                                                      : transpose(x, order);
    return broadcast_in_dim(turned, permuted(first.dims()), axes);
  }

  /// Do at least half of the elements that the node reads stand so already?
  bool is_worthwhile(const Site& site) const {
    double stand = 0, stand_not = 0;
    for (Value v : site.operands)
      if (!is_broadcast(v)) (is_carried(v) ? stand : stand_not) += size_of(v.type());
    return stand > 0 && stand >= stand_not;
  }

  std::vector<Value> convolved(const Site& site, DirectConvolution c) {
    carried += size_of(c.x.type()) + size_of(site.node.types[0]);
    c.attrs.channels_last = true;
    c.x = last_of(c.x);
    if (c.residual) c.residual = last_of(c.residual);
    return one(c.emit());
  }
  std::optional<std::vector<Value>> convolved_in_integers(const Site& site) {
    auto a = site.node.attrs.as<DynamicQuantizeConvAttrs>();
    if (a.channels_last) return {};
    std::vector<Value> in(site.operands.begin(), site.operands.end());
    carried += size_of(in[0].type()) + size_of(site.node.types[0]);
    a.channels_last = true;
    in[0] = last_of(in[0]);
    if (a.has_residual) in.back() = last_of(in.back());
    return one(emit(op::dynamic_quantize_conv, std::move(in), std::move(a)));
  }
  std::optional<std::vector<Value>> elementwise(const Site& site) {
    const size_t rank = site.node.types[0].dims.size();
    std::vector<Value> in;
    for (Value v : site.operands) {
      if (v.dims().size() != rank) return {};
      in.push_back(last_of(v));
    }
    std::vector<Value> out;
    for (Value last : site.to.emit(*site.node.op, in, site.node.attrs)) out.push_back(first_of(last));
    return out;
  }
  /// Over all spatial dims, so that batch and channels stay in their order; or over the channels alone.
  std::optional<std::vector<Value>> reduced(const Site& site) {
    if (site.operands.size() != 1 || !is_carried(site.operands[0])) return {};
    auto a = site.node.attrs.as<ReduceAttrs>();
    const size_t rank = site.operands[0].dims().size();
    Axes axes = valid_axes(a.axes.empty() ? axes_from(0, rank) : a.axes, rank);
    const bool has_channels = std::find(axes.begin(), axes.end(), 1) != axes.end();
    const auto spatial = std::count_if(axes.begin(), axes.end(), [](int64_t axis) { return axis > 1; });
    if (!has_channels && spatial != static_cast<int64_t>(rank) - 2) return {};
    a.axes.clear();
    for (int64_t axis : axes) a.axes.push_back(moved(axis, rank));
    std::sort(a.axes.begin(), a.axes.end());
    return std::vector{emit(op::reduce, {last_of(site.operands[0])}, a)};
  }
  /// Somebody wants channels last: here they are.
  std::optional<std::vector<Value>> transposed(const Site& site) {
    if (!is_carried(site.operands[0])) return {};
    const size_t rank = site.operands[0].dims().size();
    if (valid_axes(site.node.attrs.as<TransposeAttrs>().permutation, rank) != to_last(rank)) return {};
    return std::vector{last_of(site.operands[0])};
  }

  std::map<Ref, Value> last_;  ///< by `first`, in the new graph
};

/// Elements that transposes between the two layouts move; those of a few channels are read where they lie.
double moved_elements(const Graph& g) {
  constexpr int64_t kFew = 4;
  double total = 0;
  for (const Node& node : g.nodes()) {
    if (node.op != &op::transpose || node.types[0].rank() < 3) continue;
    const size_t rank = node.types[0].dims.size();
    const Axes p = valid_axes(node.attrs.as<TransposeAttrs>().permutation, rank);
    if (p != to_last(rank) && p != to_first(rank)) continue;
    const Dim& channels = p == to_last(rank) ? node.types[0].dims.back() : node.types[0].dims[1];
    if (!channels.is_static() || channels.value() > kFew) total += size_of(node.types[0]);
  }
  return total;
}

}  // namespace

Graph carry_channels_last(const Graph& g) {
  if (!has_convolutions(g)) return g;
  Carrier carrier;
  Graph laid_out = rewritten(g, [&](const Site& site) { return carrier.carry(site); });
  if (carrier.carried == 0 || moved_elements(laid_out) - moved_elements(g) > 0.75 * carrier.carried) return g;
  return laid_out;
}

}  // namespace rlx
