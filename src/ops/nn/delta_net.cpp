// gated_delta_net and its backward kind: a state that decays and is corrected towards v at k. Neighbour:
// state_space.cpp, whose states only decay and add.
#include <cmath>

#include "ops/core/composite_rules.h"
#include "ops/nn/recurrent_rules.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/recurrent.h"

namespace rlx {

std::vector<Value> gated_delta_net(Value q, Value k, Value v, Value g, Value beta, Value state) {
  std::vector<Value> operands = {q, k, v, g, beta};
  if (state) operands.push_back(state);
  return q.graph().emit(op::gated_delta_net, std::move(operands));
}
std::vector<Value> gated_delta_net_backward(Value q, Value k, Value v, Value g, Value beta, Value state, Value y_ct,
                                            Value state_ct) {
  return q.graph().emit(op::gated_delta_net_backward, {q, k, v, g, beta, state, y_ct, state_ct});
}

namespace {

struct DeltaDims {
  Dim batch, steps, heads, n, m;
  bool gate_per_channel;

  DeltaDims(const Type& q, const Type& v, const Type& g) {
    require_rank(q, 4, 4, "q");
    require_rank(v, 4, 4, "v");
    require_rank(g, 3, 4, "g");
    batch = q.dims[0], steps = q.dims[1], heads = q.dims[2], n = q.dims[3], m = v.dims[3];
    gate_per_channel = g.rank() == 4;
  }
  Dims state() const { return {batch, heads, n, m}; }
  Dims values() const { return {batch, steps, heads, m}; }
  /// 1 / sqrt(n), by which q is scaled.
  Value scaled(Value x) const {
    if (n.is_static()) return n == Dim(0) ? x : x * (1 / std::sqrt(static_cast<double>(n.value())));
    return x * rsqrt(extent(x.graph(), n, x.dtype()));
  }
};

DeltaDims checked(Types in) {
  require_dtype(in, kReal);
  DeltaDims d(in[0], in[2], in[3]);
  require_dims(in[1], in[0].dims, "k");
  require_dims(in[2], d.values(), "v");
  require_dims(in[3], d.gate_per_channel ? in[0].dims : Dims{d.batch, d.steps, d.heads}, "g");
  require_dims(in[4], {d.batch, d.steps, d.heads}, "beta");
  if (in.size() > 5) require_dims(in[5], d.state(), "state");
  return d;
}

/// sᵀ k for the states s[B, H, N, M] of all heads: [B, H, M].
Value read_state(Value s, Value k) { return dot_general(s, k, {{0, 1}, {0, 1}, {2}, {2}}); }
/// s v: [B, H, N].
Value read_back(Value s, Value v) { return dot_general(s, v, {{0, 1}, {0, 1}, {3}, {2}}); }
/// k vᵀ: [B, H, N, M].
Value outer_of(Value k, Value v) { return expand_dims(k, 3) * expand_dims(v, 2); }
/// What remains of each row of the state: [B, H, N or 1, 1], of [B, H, N] or [B, H].
Value as_rows(Value decay) { return expand_dims(decay.rank() == 2 ? expand_dims(decay, 2) : decay, 3); }

struct DeltaStep {
  Value decayed, correction, difference, next;
  /// s, k, v and decay are of one step; beta is [B, H].
  DeltaStep(Value s, Value k, Value v, Value decay, Value beta) {
    decayed = as_rows(decay) * s;
    difference = v - read_state(decayed, k);
    correction = difference * expand_dims(beta, 2);
    next = decayed + outer_of(k, correction);
  }
};

}  // namespace

OpDef define_gated_delta_net() {
  return define<>({
      .name = "gated_delta_net",
      .doc =
          "for each head: s = exp(g) s, d = beta (v - sᵀ k), s = s + k dᵀ, y = sᵀ q / sqrt(N); q and k[B, S, H, N], "
          "v[B, S, H, M], g and beta[B, S, H], or g[B, S, H, N] for a gate per key channel, state[B, H, N, M], zeros "
          "where it is left out. Results: y, the last state",
      .source = "Yang, Kautz, Hatamizadeh, arXiv:2412.06464; gate per channel: Kimi Linear, arXiv:2510.26692",
      .operands = {"q", "k", "v", "g", "beta", "state?"},
      .covers = {"GatedDeltaNet"},
      .infer = [](Types in) -> Many<Type> {
        DeltaDims d = checked(in);
        return {Type{in[0].dtype, d.values()}, Type{in[0].dtype, d.state()}};
      },
      .reference =
          [](Tensors in) {
            DeltaDims d(in[0].type(), in[2].type(), in[3].type());
            Array<double> q(in[0]), k(in[1]), v(in[2]), g(in[3]), beta(in[4]), y(in[2].shape());
            Array<double> state = in.size() > 5 ? Array<double>(in[5]) : Array<double>(shape_of(d.state()));
            int64_t n = d.n.value(), m = d.m.value();
            for_each_index(shape_of({d.batch, d.steps, d.heads}), [&](const Axes& t) {
              auto along = [&](int64_t j) { return Axes{t[0], t[1], t[2], j}; };
              for (int64_t j = 0; j < m; ++j) {
                double seen = 0, out = 0;
                for (int64_t i = 0; i < n; ++i) {
                  double& s = state.at({t[0], t[2], i, j});
                  s *= std::exp(d.gate_per_channel ? g.at(along(i)) : g.at(t));
                  seen += s * k.at(along(i));
                }
                double correction = (v.at(along(j)) - seen) * beta.at(t);
                for (int64_t i = 0; i < n; ++i) {
                  double& s = state.at({t[0], t[2], i, j});
                  s += k.at(along(i)) * correction;
                  out += s * q.at(along(i));
                }
                y.at(along(j)) = n == 0 ? 0 : out / std::sqrt(static_cast<double>(n));
              }
            });
            return Many<Tensor>{y.rounded_to(in[0].dtype()), state.rounded_to(in[0].dtype())};
          },
      .decompose =
          [](Values in) {
            DeltaDims d(in[0].type(), in[2].type(), in[3].type());
            Value state = in.size() > 5 ? in[5] : full(in[0].graph(), 0, {in[0].dtype(), d.state()});
            std::vector<Value> xs = {time_first(d.scaled(in[0])), time_first(in[1]), time_first(in[2]),
                                     time_first(exp(in[3])), time_first(in[4])};
            auto out = scan_of(in[0].graph(), {state}, xs, {}, d.steps, false, [](Values v) {
              DeltaStep step(v[0], v[2], v[3], v[4], v[5]);
              return std::vector{step.next, read_state(step.next, v[1])};
            });
            return Many<Value>{time_first(out[1]), out[0]};
          },
      .vjp =
          [](Values in, Values out, Values cts, const NoAttrs&, const Transforms&) {
            Value state = in.size() > 5 ? in[5] : zeros_like(out[1]);
            Many<Value> d = gated_delta_net_backward(in[0], in[1], in[2], in[3], in[4], state, or_zero(cts[0], out[0]),
                                                     or_zero(cts[1], out[1]));
            d.resize(in.size());
            return d;
          },
      .batch = [](Values in, const Mask& batched, const NoAttrs&,
                  const Transforms&) { return join_batches(op::gated_delta_net, in, batched, {}); },
      .samples = {{.dims = {{2, 3, 2, 3}, {2, 3, 2, 3}, {2, 3, 2, 3}, {2, 3, 2}, {2, 3, 2}}, .lo = -1, .hi = 1},
                  {.dims = {{1, 3, 2, 3}, {1, 3, 2, 3}, {1, 3, 2, 2}, {1, 3, 2}, {1, 3, 2}, {1, 2, 3, 2}},
                   .lo = -1,
                   .hi = 1},
                  {.dims = {{2, 2, 1, 3}, {2, 2, 1, 3}, {2, 2, 1, 4}, {2, 2, 1, 3}, {2, 2, 1}, {2, 1, 3, 4}},
                   .lo = -1,
                   .hi = 1},
                  {.dims = {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1}}},
                  {.dims = {{1, 0, 2, 3}, {1, 0, 2, 3}, {1, 0, 2, 2}, {1, 0, 2}, {1, 0, 2}, {1, 2, 3, 2}}}},
  });
}

OpDef define_gated_delta_net_backward() {
  return define<>({
      .name = "gated_delta_net_backward",
      .doc = "the cotangents of q, k, v, g, beta and state of gated_delta_net from those of its two results; the "
             "states are computed again, kept, and gone through from the last",
      .source = "the transpose of Yang, Kautz, Hatamizadeh, arXiv:2412.06464, step by step",
      .operands = {"q", "k", "v", "g", "beta", "state", "y_ct", "state_ct"},
      .covers = {"GatedDeltaNetBackward"},
      .infer = [](Types in) -> Many<Type> {
        DeltaDims d = checked(in.first(6));
        require_dtype(in, kReal);
        require_dims(in[6], d.values(), "y_ct");
        require_dims(in[7], d.state(), "state_ct");
        return std::vector<Type>(in.begin(), in.begin() + 6);
      },
      .decompose =
          [](Values in) {
            DeltaDims d(in[0].type(), in[2].type(), in[3].type());
            Value q = time_first(d.scaled(in[0])), k = time_first(in[1]), v = time_first(in[2]),
                  decay = time_first(exp(in[3])), beta = time_first(in[4]);
            auto states = scan_of(in[0].graph(), {in[5]}, {k, v, decay, beta}, {}, d.steps, false, [](Values x) {
              return std::vector{DeltaStep(x[0], x[1], x[2], x[3], x[4]).next, x[0]};  // each step's, as it found it
            })[1];
            bool per_channel = d.gate_per_channel;
            auto out = scan_of(in[0].graph(), {in[7]}, {states, q, k, v, decay, beta, time_first(in[6])}, {}, d.steps,
                               true, [per_channel](Values x) {
                                 Value before = x[1], query = x[2], key = x[3], rows = x[5], rate = x[6], y_ct = x[7];
                                 DeltaStep step(before, key, x[4], rows, rate);
                                 Value next_ct = x[0] + outer_of(query, y_ct);
                                 Value correction_ct = read_state(next_ct, key);
                                 Value v_ct = correction_ct * expand_dims(rate, 2);
                                 Value decayed_ct = next_ct - outer_of(key, v_ct);
                                 Value k_ct = read_back(next_ct, step.correction) - read_back(step.decayed, v_ct);
                                 Value g_ct = reduce_sum(decayed_ct * step.decayed, per_channel ? Axes{3} : Axes{2, 3});
                                 Value beta_ct = reduce_sum(step.difference * correction_ct, {2});
                                 return std::vector{
                                     as_rows(rows) * decayed_ct, read_back(step.next, y_ct), k_ct, v_ct, g_ct, beta_ct};
                               });
            return Many<Value>{d.scaled(time_first(out[1])), time_first(out[2]), time_first(out[3]),
                               time_first(out[4]),           time_first(out[5]), out[0]};
          },
      .batch = [](Values in, const Mask& batched, const NoAttrs&,
                  const Transforms&) { return join_batches(op::gated_delta_net_backward, in, batched, {}); },
      .samples = {{.dims = {{2, 2, 1, 2},
                            {2, 2, 1, 2},
                            {2, 2, 1, 3},
                            {2, 2, 1},
                            {2, 2, 1},
                            {2, 1, 2, 3},
                            {2, 2, 1, 3},
                            {2, 1, 2, 3}},
                   .lo = -1,
                   .hi = 1},
                  {.dims = {{1, 3, 2, 2},
                            {1, 3, 2, 2},
                            {1, 3, 2, 2},
                            {1, 3, 2, 2},
                            {1, 3, 2},
                            {1, 2, 2, 2},
                            {1, 3, 2, 2},
                            {1, 2, 2, 2}},
                   .lo = -1,
                   .hi = 1},
                  {.dims = {{1, 1, 1, 1},
                            {1, 1, 1, 1},
                            {1, 1, 1, 1},
                            {1, 1, 1},
                            {1, 1, 1},
                            {1, 1, 1, 1},
                            {1, 1, 1, 1},
                            {1, 1, 1, 1}}},
                  {.dims = {{1, 0, 1, 2},
                            {1, 0, 1, 2},
                            {1, 0, 1, 2},
                            {1, 0, 1},
                            {1, 0, 1},
                            {1, 1, 2, 2},
                            {1, 0, 1, 2},
                            {1, 1, 2, 2}}}},
  });
}

}  // namespace rlx
