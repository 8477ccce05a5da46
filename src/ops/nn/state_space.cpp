// selective_scan and mamba2: linear recurrences whose coefficients are data. Neighbours: recurrent.cpp, delta_net.cpp.
#include <cmath>

#include "ops/core/composite_rules.h"
#include "ops/nn/recurrent_rules.h"
#include "rlx/ops/recurrent.h"

namespace rlx {

namespace {

std::vector<Value> emit_with_state(const OpDef& op, std::vector<Value> operands, Value state) {
  if (state) operands.push_back(state);
  Graph& g = operands[0].graph();
  return g.emit(op, std::move(operands));
}
/// The state that a sequence starts from: the operand behind `operands` others, or zeros.
Value first_state(Values in, size_t operands, const Dims& dims) {
  return in.size() > operands ? in[operands] : full(in[0].graph(), 0, {in[0].dtype(), dims});
}
Array<double> first_state(Tensors in, size_t operands, const Dims& dims) {
  return in.size() > operands ? Array<double>(in[operands]) : Array<double>(shape_of(dims));
}

struct SelectiveDims {
  Dim batch, steps, channels, n;
  explicit SelectiveDims(const Type& x, const Type& a) {
    require_rank(x, 3, 3, "x");
    require_rank(a, 2, 2, "a");
    batch = x.dims[0], steps = x.dims[1], channels = x.dims[2], n = a.dims[1];
  }
  Dims state() const { return {batch, channels, n}; }
};

Many<Type> selective_types(Types in) {
  DType dtype = require_dtype(in, kReal);
  SelectiveDims d(in[0], in[2]);
  require_dims(in[1], in[0].dims, "delta");
  require_dims(in[2], {d.channels, d.n}, "a");
  require_dims(in[3], {d.batch, d.steps, d.n}, "b");
  require_dims(in[4], {d.batch, d.steps, d.n}, "c");
  if (in.size() > 5) require_dims(in[5], d.state(), "state");
  return {in[0], Type{dtype, d.state()}};
}

struct Mamba2Dims {
  Dim batch, steps, heads, width, n;
  explicit Mamba2Dims(const Type& x, const Type& b) {
    require_rank(x, 4, 4, "x");
    require_rank(b, 4, 4, "b");
    batch = x.dims[0], steps = x.dims[1], heads = x.dims[2], width = x.dims[3], n = b.dims[3];
  }
  Dims state() const { return {batch, heads, width, n}; }
};

Many<Type> mamba2_types(Types in) {
  DType dtype = require_dtype(in, kReal);
  Mamba2Dims d(in[0], in[3]);
  require_dims(in[1], {d.batch, d.steps, d.heads}, "dt");
  require_dims(in[2], {d.heads}, "a");
  require_dims(in[3], {d.batch, d.steps, d.heads, d.n}, "b");
  require_dims(in[4], {d.batch, d.steps, d.heads, d.n}, "c");
  if (in.size() > 5) require_dims(in[5], d.state(), "state");
  return {in[0], Type{dtype, d.state()}};
}

}  // namespace

std::vector<Value> selective_scan(Value x, Value delta, Value a, Value b, Value c, Value state) {
  return emit_with_state(op::selective_scan, {x, delta, a, b, c}, state);
}
std::vector<Value> mamba2(Value x, Value dt, Value a, Value b, Value c, Value state) {
  return emit_with_state(op::mamba2, {x, dt, a, b, c}, state);
}

OpDef define_selective_scan() {
  return define<>({
      .name = "selective_scan",
      .doc = "for each channel of x[B, S, C]: s = exp(delta a) s + delta x b, y = the sum of s c; delta[B, S, C], "
             "a[C, N], b and c[B, S, N], state[B, C, N], zeros where it is left out. Results: y, the last state",
      .source = "Gu, Dao, arXiv:2312.00752, algorithm 2",
      .operands = {"x", "delta", "a", "b", "c", "state?"},
      .covers = {"SelectiveScan"},
      .infer = [](Types in) { return selective_types(in); },
      .reference =
          [](Tensors in) {
            SelectiveDims d(in[0].type(), in[2].type());
            Array<double> x(in[0]), delta(in[1]), a(in[2]), b(in[3]), c(in[4]), y(in[0].shape());
            Array<double> state = first_state(in, 5, d.state());
            int64_t channels = d.channels.value(), n = d.n.value();
            for_each_index(shape_of({d.batch, d.steps, d.channels}), [&](const Axes& i) {
              auto token = static_cast<size_t>(i[0] * d.steps.value() + i[1]);
              size_t at = token * static_cast<size_t>(channels) + static_cast<size_t>(i[2]);
              double sum = 0;
              for (int64_t j = 0; j < n; ++j) {
                double& s = state.at({i[0], i[2], j});
                size_t column = token * static_cast<size_t>(n) + static_cast<size_t>(j);
                s = std::exp(delta.data[at] * a.at({i[2], j})) * s + delta.data[at] * x.data[at] * b.data[column];
                sum += s * c.data[column];
              }
              y.data[at] = sum;
            });
            return Many<Tensor>{y.rounded_to(in[0].dtype()), state.rounded_to(in[0].dtype())};
          },
      .decompose =
          [](Values in) {
            SelectiveDims d(in[0].type(), in[2].type());
            std::vector<Value> xs = {time_first(in[0]), time_first(in[1]), time_first(in[3]), time_first(in[4])};
            auto out =
                scan_of(in[0].graph(), {first_state(in, 5, d.state())}, xs, {in[2]}, d.steps, false, [](Values v) {
                  Value delta = expand_dims(v[2], 2), a = v[5], row = expand_dims(v[3], 1),
                        column = expand_dims(v[4], 1);
                  Value s = exp(delta * a) * v[0] + expand_dims(v[2] * v[1], 2) * row;
                  return std::vector{s, reduce_sum(s * column, {2})};
                });
            return Many<Value>{time_first(out[1]), out[0]};
          },
      .batch = [](Values in, const Mask& batched, const NoAttrs&,
                  const Transforms&) { return join_batches(op::selective_scan, in, batched, {}, 2); },
      .samples = {{.dims = {{2, 3, 4}, {2, 3, 4}, {4, 2}, {2, 3, 2}, {2, 3, 2}}, .lo = -1, .hi = 1},
                  {.dims = {{2, 4, 2}, {2, 4, 2}, {2, 3}, {2, 4, 3}, {2, 4, 3}, {2, 2, 3}}, .lo = -1, .hi = 1},
                  {.dims = {{1, 1, 1}, {1, 1, 1}, {1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}},
                  {.dims = {{2, 0, 3}, {2, 0, 3}, {3, 2}, {2, 0, 2}, {2, 0, 2}, {2, 3, 2}}},
                  {.dims = {{1, 2, 3}, {1, 2, 3}, {3, 0}, {1, 2, 0}, {1, 2, 0}}}},
  });
}

OpDef define_mamba2() {
  return define<>({
      .name = "mamba2",
      .doc =
          "for each head of x[B, S, H, P]: s = exp(dt a) s + (dt x) bᵀ, y = s c; dt[B, S, H], a[H], b and c[B, S, H, "
          "N], state[B, H, P, N], zeros where it is left out. Results: y, the last state",
      .source = "Dao, Gu, arXiv:2405.21060, section 6",
      .operands = {"x", "dt", "a", "b", "c", "state?"},
      .covers = {"Mamba2"},
      .infer = [](Types in) { return mamba2_types(in); },
      .reference =
          [](Tensors in) {
            Mamba2Dims d(in[0].type(), in[3].type());
            Array<double> x(in[0]), dt(in[1]), a(in[2]), b(in[3]), c(in[4]), y(in[0].shape());
            Array<double> state = first_state(in, 5, d.state());
            for_each_index(in[0].shape(), [&](const Axes& i) {
              double step = dt.at({i[0], i[1], i[2]}), decay = std::exp(step * a.at({i[2]})), sum = 0;
              for (int64_t j = 0; j < d.n.value(); ++j) {
                double& s = state.at({i[0], i[2], i[3], j});
                s = decay * s + step * x.at(i) * b.at({i[0], i[1], i[2], j});
                sum += s * c.at({i[0], i[1], i[2], j});
              }
              y.at(i) = sum;
            });
            return Many<Tensor>{y.rounded_to(in[0].dtype()), state.rounded_to(in[0].dtype())};
          },
      .decompose =
          [](Values in) {
            Mamba2Dims d(in[0].type(), in[3].type());
            // The decays and the increments' left factors do not depend on the state: all steps at once.
            Value decay = exp(in[1] * in[2]), left = expand_dims(in[1], 3) * in[0];
            std::vector<Value> xs = {time_first(left), time_first(decay), time_first(in[3]), time_first(in[4])};
            auto out = scan_of(in[0].graph(), {first_state(in, 5, d.state())}, xs, {}, d.steps, false, [](Values v) {
              Value keep = expand_dims(expand_dims(v[2], 2), 3);
              Value s = keep * v[0] + expand_dims(v[1], 3) * expand_dims(v[3], 2);
              return std::vector{s, reduce_sum(s * expand_dims(v[4], 2), {3})};
            });
            return Many<Value>{time_first(out[1]), out[0]};
          },
      .batch = [](Values in, const Mask& batched, const NoAttrs&,
                  const Transforms&) { return join_batches(op::mamba2, in, batched, {}, 2); },
      .samples = {{.dims = {{2, 3, 2, 3}, {2, 3, 2}, {2}, {2, 3, 2, 4}, {2, 3, 2, 4}}, .lo = -1, .hi = 1},
                  {.dims = {{2, 4, 3, 2}, {2, 4, 3}, {3}, {2, 4, 3, 2}, {2, 4, 3, 2}, {2, 3, 2, 2}}, .lo = -1, .hi = 1},
                  {.dims = {{1, 1, 1, 1}, {1, 1, 1}, {1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}},
                  {.dims = {{2, 0, 1, 3}, {2, 0, 1}, {1}, {2, 0, 1, 2}, {2, 0, 1, 2}, {2, 1, 3, 2}}}},
  });
}

}  // namespace rlx
