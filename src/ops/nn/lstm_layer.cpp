// lstm_layer and its backward kind: what of lstm goes from step to step. Gates and cells are results, so that the
// gradient neither runs the steps again nor keeps more than one product a step: all else it is made of is a product for
// all steps at once. Neighbour: recurrent.cpp, the layers.
#include "ops/core/composite_rules.h"
#include "ops/nn/recurrent_rules.h"
#include "rlx/ops/activation.h"
#include "rlx/ops/recurrent.h"

namespace rlx {

std::vector<Value> lstm_layer(Value products, Value w_hh, Value h0, Value c0, LstmLayerAttrs attrs) {
  return products.graph().emit(op::lstm_layer, {products, w_hh, h0, c0}, attrs);
}
std::vector<Value> lstm_layer_backward(Value gates, Value cells, Value w_hh, Value c0, Value y_ct, Value h_ct,
                                       Value c_ct, LstmLayerAttrs attrs, Value gates_ct, Value cells_ct) {
  std::vector<Value> operands = {gates, cells, w_hh, c0, y_ct, h_ct, c_ct};
  if (gates_ct) operands.push_back(gates_ct);
  if (cells_ct) operands.push_back(cells_ct);
  return gates.graph().emit(op::lstm_layer_backward, std::move(operands), attrs);
}

namespace {

struct LayerDims {
  Dim batch, steps, hidden;

  /// Of products or gates, called `name`, and w_hh.
  LayerDims(const Type& x, const Type& w_hh, std::string_view name) {
    require_rank(x, 3, 3, name);
    require_rank(w_hh, 2, 2, "w_hh");
    batch = x.dims[0], steps = x.dims[1], hidden = w_hh.dims[1];
    require_dims(w_hh, {hidden * 4, hidden}, "w_hh");
    require_dims(x, gates(), name);
  }
  Dims gates() const { return {batch, steps, hidden * 4}; }
  Dims y() const { return {batch, steps, hidden}; }
  Dims state() const { return {batch, hidden}; }
};

/// Part `i` of four of the last dim.
Value gate_of(Value all, int64_t i) {
  Dim width = all.dim(-1) / 4;
  return slice_axis(all, all.rank() - 1, width * i, width * (i + 1));
}
/// The derivative of logistic and of tanh, by their value.
Value logistic_slope(Value y) { return y * (1.0 - y); }
Value tanh_slope(Value y) { return 1.0 - y * y; }

/// What was there before each step: `first`, then all of `after[B, S, H]` but the last.
Value shifted(Value after, Value first, bool reverse) {
  Dim steps = after.dim(1);
  Value front = expand_dims(first, 1);
  return reverse ? slice_axis(concatenate({after, front}, 1), 1, 1, steps + 1)
                 : slice_axis(concatenate({front, after}, 1), 1, 0, steps);
}

Many<Value> layer_parts(Graph& g, Values in, const LstmLayerAttrs& a) {
  auto out = scan_of(g, {in[2], in[3]}, {time_first(in[0])}, {in[1]}, in[0].dim(1), a.reverse, [](Values v) {
    Value sums = v[2] + dot_general(v[0], v[3], {{}, {}, {1}, {1}});
    Value i = logistic(gate_of(sums, 0)), f = logistic(gate_of(sums, 1)), candidate = tanh(gate_of(sums, 2)),
          o = logistic(gate_of(sums, 3));
    Value c = f * v[1] + i * candidate, h = o * tanh(c);
    return std::vector{h, c, h, concatenate({i, f, candidate, o}, 1), c};
  });
  return {time_first(out[2]), out[0], out[1], time_first(out[3]), time_first(out[4])};
}

/// What each step multiplies its cotangents by is made of gates and cells for all steps at once.
Many<Value> layer_backward_parts(Graph& g, Values in, const LstmLayerAttrs& a) {
  Value gates = time_first(in[0]), cells = time_first(in[1]), before = time_first(shifted(in[1], in[3], a.reverse));
  Value i = gate_of(gates, 0), f = gate_of(gates, 1), candidate = gate_of(gates, 2), o = gate_of(gates, 3);
  Value squashed = tanh(cells);
  Value slopes = concatenate({logistic_slope(i), logistic_slope(f), tanh_slope(candidate), logistic_slope(o)}, 2);
  Value factors = concatenate({candidate, before, i, squashed}, 2) * slopes;
  const bool of_gates = in.size() > 7;
  std::vector<Value> xs = {time_first(in[4]), o * tanh_slope(squashed), f, factors};
  if (of_gates) xs.push_back(time_first(in[7]) * slopes), xs.push_back(time_first(in[8]));
  auto back = scan_of(g, {in[5], in[6]}, xs, {in[2]}, gates.dim(0), !a.reverse, [&](Values v) {
    Value d_h = v[0] + v[2], d_c = v[1] + d_h * v[3];
    if (of_gates) d_c = d_c + v[7];
    Value d = concatenate({d_c, d_c, d_c, d_h}, 1) * v[5];
    if (of_gates) d = d + v[6];
    return std::vector{dot_general(d, v.back(), {{}, {}, {1}, {0}}), d_c * v[4], d};
  });
  return {time_first(back[2]), back[0], back[1]};
}

}  // namespace

OpDef define_lstm_layer() {
  return define<LstmLayerAttrs>({
      .name = "lstm_layer",
      .doc = "one layer of lstm in one direction, behind the product with its inputs: products[B, S, 4 H] = w_ih x + "
             "bias, of gates i, f, g, o; w_hh[4 H, H], h0 and c0[B, H]. Results: y[B, S, H], the last h, the last c, "
             "the gates behind their activations [B, S, 4 H] and the cells behind each step [B, S, H], of which "
             "gradients are made",
      .source = "torch.nn.LSTM; Hochreiter, Schmidhuber, Neural Computation 9 (1997)",
      .operands = {"products", "w_hh", "h0", "c0"},
      .infer = [](Types in, const LstmLayerAttrs&) -> Many<Type> {
        DType dtype = require_dtype(in, kReal);
        LayerDims d(in[0], in[1], "products");
        require_dims(in[2], d.state(), "h0");
        require_dims(in[3], d.state(), "c0");
        return {Type{dtype, d.y()}, Type{dtype, d.state()}, Type{dtype, d.state()}, Type{dtype, d.gates()},
                Type{dtype, d.y()}};
      },
      .decompose = [](Graph& g, Values in, const LstmLayerAttrs& a) { return layer_parts(g, in, a); },
      .vjp = [](Values in, Values out, Values cts, const LstmLayerAttrs& a) -> Many<Value> {
        const bool of_gates = cts[3] || cts[4];
        auto back = lstm_layer_backward(out[3], out[4], in[1], in[3], or_zero(cts[0], out[0]), or_zero(cts[1], in[2]),
                                        or_zero(cts[2], in[3]), a, of_gates ? or_zero(cts[3], out[3]) : Value{},
                                        of_gates ? or_zero(cts[4], out[4]) : Value{});
        Value w_hh = dot_general(back[0], shifted(out[0], in[2], a.reverse), {{}, {}, {0, 1}, {0, 1}});
        return {back[0], w_hh, back[1], back[2]};
      },
      .batch = [](Values in, const Mask& batched, const LstmLayerAttrs& a,
                  const Transforms&) { return join_batches(op::lstm_layer, in, batched, a, 1); },
      .samples = {{.dims = {{2, 3, 8}, {8, 2}, {2, 2}, {2, 2}}},
                  {.dims = {{1, 4, 12}, {12, 3}, {1, 3}, {1, 3}}, .attrs = LstmLayerAttrs{true}},
                  {.dims = {{3, 1, 4}, {4, 1}, {3, 1}, {3, 1}}},
                  {.dims = {{2, 0, 4}, {4, 1}, {2, 1}, {2, 1}}}},
  });
}

OpDef define_lstm_layer_backward() {
  return define<LstmLayerAttrs>({
      .name = "lstm_layer_backward",
      .doc = "the cotangents of products, h0 and c0 of lstm_layer from its gates, its cells and the cotangents of its "
             "results, those of gates and cells both or neither",
      .source = "the transpose of Hochreiter, Schmidhuber, Neural Computation 9 (1997), step by step",
      .operands = {"gates", "cells", "w_hh", "c0", "y_ct", "h_ct", "c_ct", "gates_ct?", "cells_ct?"},
      .infer = [](Types in, const LstmLayerAttrs&) -> Many<Type> {
        DType dtype = require_dtype(in, kReal);
        LayerDims d(in[0], in[2], "gates");
        if (in.size() == 8)
          fail(ErrorCode::invalid_argument,
               "lstm_layer_backward takes 7 operands, or with the cotangents of gates and cells 9; got 8");
        require_dims(in[1], d.y(), "cells");
        require_dims(in[3], d.state(), "c0");
        require_dims(in[4], d.y(), "y_ct");
        require_dims(in[5], d.state(), "h_ct");
        require_dims(in[6], d.state(), "c_ct");
        if (in.size() > 7) require_dims(in[7], d.gates(), "gates_ct");
        if (in.size() > 7) require_dims(in[8], d.y(), "cells_ct");
        return {Type{dtype, d.gates()}, Type{dtype, d.state()}, Type{dtype, d.state()}};
      },
      .decompose = [](Graph& g, Values in, const LstmLayerAttrs& a) { return layer_backward_parts(g, in, a); },
      .batch = [](Values in, const Mask& batched, const LstmLayerAttrs& a,
                  const Transforms&) { return join_batches(op::lstm_layer_backward, in, batched, a, 2); },
      .samples = {{.dims = {{2, 3, 8}, {2, 3, 2}, {8, 2}, {2, 2}, {2, 3, 2}, {2, 2}, {2, 2}}, .lo = -1, .hi = 1},
                  {.dims = {{1, 2, 12}, {1, 2, 3}, {12, 3}, {1, 3}, {1, 2, 3}, {1, 3}, {1, 3}, {1, 2, 12}, {1, 2, 3}},
                   .attrs = LstmLayerAttrs{true},
                   .lo = -1,
                   .hi = 1},
                  {.dims = {{3, 1, 4}, {3, 1, 1}, {4, 1}, {3, 1}, {3, 1, 1}, {3, 1}, {3, 1}}, .lo = -1, .hi = 1},
                  {.dims = {{2, 0, 4}, {2, 0, 1}, {4, 1}, {2, 1}, {2, 0, 1}, {2, 1}, {2, 1}}}},
  });
}

}  // namespace rlx
