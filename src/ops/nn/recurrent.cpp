// lstm, gru, rnn: stacked layers in one or both directions. A layer multiplies the inputs of all steps at once; what
// remains for its scan is the product with the hidden state. Neighbours: lstm_layer.cpp, that scan of lstm;
// state_space.cpp, delta_net.cpp.
#include "rlx/ops/recurrent.h"

#include <cmath>

#include "ops/core/composite_rules.h"
#include "ops/nn/recurrent_rules.h"
#include "rlx/ops/activation.h"

namespace rlx {
namespace {

/// Which of the three it is, by what differs between them.
struct Cell {
  std::string_view name;
  int64_t gates;          // blocks of rows in a weight matrix
  size_t biases, states;  // operands of that role
  size_t first_state() const { return 3 + biases; }
};
constexpr Cell kLstm{"lstm", 4, 1, 2}, kGru{"gru", 3, 2, 1}, kRnn{"rnn", 1, 1, 1};

struct RecurrentDims {
  Dim batch, steps, input;
  int64_t hidden, layers, directions, rows;

  template <class A>
  RecurrentDims(const Type& x, const A& a, const Cell& cell)
      : hidden(a.hidden_size), layers(a.num_layers), directions(a.bidirectional ? 2 : 1), rows(0) {
    require_rank(x, 3, 3, "x");
    batch = x.dims[0], steps = x.dims[1], input = x.dims[2];
    if (hidden < 1 || layers < 1)
      fail(ErrorCode::invalid_argument, "hidden_size and num_layers must be at least 1, got ", hidden, " and ", layers);
    // A product of dims fails where it overflows, and none of numbers below is larger than this one.
    static_cast<void>(Dim(cell.gates) * hidden * hidden * layers * 4);
    rows = cell.gates * hidden;
  }
  int64_t blocks() const { return layers * directions; }
  Dim inputs_of(int64_t layer) const { return layer == 0 ? input : Dim(directions * hidden); }
  /// Where the block of a layer and direction begins in w_ih; behind the last layer: its size.
  Dim w_ih_at(int64_t layer, int64_t direction) const {
    if (layer == 0) return input * (direction * rows);
    return input * (directions * rows) + ((layer - 1) * directions + direction) * rows * directions * hidden;
  }
  Dims state() const { return {blocks(), batch, hidden}; }
};

template <class A>
Many<Type> recurrent_types(Types in, const A& a, const Cell& cell) {
  DType dtype = require_dtype(in, kReal);
  RecurrentDims d(in[0], a, cell);
  if (in.size() != cell.first_state() && in.size() != cell.first_state() + cell.states)
    fail(ErrorCode::invalid_argument, cell.name, " takes ", cell.first_state(), " operands, or with initial states ",
         cell.first_state() + cell.states, "; got ", in.size());
  auto require_packed = [&](const Type& t, const Dim& count, const char* name, const Dim& columns) {
    if (t.dims != Dims{count})
      fail(ErrorCode::shape_mismatch, name, " must be ", Type{dtype, {count}}, ": ", d.layers, " layers in ",
           d.directions, " directions of ", d.rows, " rows and ", columns, " columns; got ", t);
  };
  require_packed(in[1], d.w_ih_at(d.layers, 0), "w_ih", d.input);
  require_packed(in[2], d.blocks() * d.rows * d.hidden, "w_hh", d.hidden);
  for (size_t i = 3; i < cell.first_state(); ++i) require_packed(in[i], d.blocks() * d.rows, "a bias", 1);
  for (size_t i = cell.first_state(); i < in.size(); ++i) require_dims(in[i], d.state(), "an initial state");
  Many<Type> out = {Type{dtype, {d.batch, d.steps, d.directions * d.hidden}}};
  for (size_t i = 0; i < cell.states; ++i) out.push_back({dtype, d.state()});
  return out;
}

/// Part `i` of `count` equal ones of the last dim.
Value part(Value x, int64_t i, int64_t count) {
  Dim width = x.dim(-1) / count;
  return slice_axis(x, x.rank() - 1, width * i, width * (i + 1));
}

// ---- a step: the state before, w_ih x + b_ih, w_hh h (+ b_hh) -> the state behind ----
Value gru_step(Value state, Value x, Value h) {
  Value r = logistic(part(x, 0, 3) + part(h, 0, 3)), z = logistic(part(x, 1, 3) + part(h, 1, 3));
  Value n = tanh(part(x, 2, 3) + r * part(h, 2, 3));
  return (1.0 - z) * n + z * state;
}
Value rnn_step(Value x, Value h, bool relu_cell) { return relu_cell ? relu(x + h) : tanh(x + h); }

/// One layer in one direction, behind the product with its inputs.
struct LayerParts {
  Value products, w_hh, b_hh;  // [B, S, rows]; [rows, H]; [rows], of gru
  std::vector<Value> states;   // [B, H]
  bool reverse;
};
/// By a scan over its steps: y and the last state. `step(state, x, h)` as above.
template <class Step>
std::vector<Value> layer_by_scan(const LayerParts& p, Step step) {
  std::vector<Value> captured = {p.w_hh};
  if (p.b_hh) captured.push_back(p.b_hh);
  auto out = scan_of(p.products.graph(), p.states, {time_first(p.products)}, captured, p.products.dim(1), p.reverse,
                     [&](Values v) {
                       Value h = dot_general(v[0], v[2], {{}, {}, {1}, {1}});
                       if (v.size() > 3) h = h + v[3];
                       Value next = step(v[0], v[1], h);
                       return std::vector{next, next};
                     });
  return {time_first(out[1]), out[0]};
}

/// `run` makes y and the last states, h first, of a layer's parts.
template <class A, class Run>
Many<Value> recurrent_parts(Graph& g, Values in, const A& a, const Cell& cell, Run run) {
  RecurrentDims d(in[0].type(), a, cell);
  DType dtype = in[0].dtype();
  std::vector<std::vector<Value>> last(cell.states);  // of all layers and directions
  Value y = in[0];
  for (int64_t layer = 0; layer < d.layers; ++layer) {
    std::vector<Value> directions;
    for (int64_t direction = 0; direction < d.directions; ++direction) {
      int64_t block = layer * d.directions + direction;
      auto rows_of = [&](Value bias) { return slice_axis(bias, 0, block * d.rows, (block + 1) * d.rows); };
      Dim from = d.w_ih_at(layer, direction), columns = d.inputs_of(layer);
      Value w_ih = reshape(slice_axis(in[1], 0, from, from + columns * d.rows), {d.rows, columns});
      int64_t square = d.rows * d.hidden;
      Value w_hh = reshape(slice_axis(in[2], 0, block * square, (block + 1) * square), {d.rows, d.hidden});
      Value products = dot_general(y, w_ih, {{}, {}, {2}, {1}}) + rows_of(in[3]);
      std::vector<Value> states;
      for (size_t i = 0; i < cell.states; ++i) {
        bool given = in.size() > cell.first_state();
        states.push_back(given ? squeeze(slice_axis(in[cell.first_state() + i], 0, block, block + 1), {0})
                               : full(g, 0, {dtype, {d.batch, d.hidden}}));
      }
      auto out = run(LayerParts{products, w_hh, cell.biases == 2 ? rows_of(in[4]) : Value{}, states, direction == 1});
      for (size_t i = 0; i < cell.states; ++i) last[i].push_back(expand_dims(out[i + 1], 0));
      directions.push_back(out[0]);
    }
    y = directions.size() == 1 ? directions[0] : concatenate(directions, 2);
  }
  Many<Value> results = {y};
  for (auto& all : last) results.push_back(all.size() == 1 ? all[0] : concatenate(all, 0));
  return results;
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// `step(x, h, state, j)`: the products of one sequence with the weights, biases included, and the new state of unit j,
/// h first, from the old one.
template <class A, class Step>
Many<Tensor> recurrent_of(Tensors in, const A& a, const Cell& cell, Step step) {
  RecurrentDims d(in[0].type(), a, cell);
  DType dtype = in[0].dtype();
  int64_t batch = d.batch.value(), steps = d.steps.value(), units = d.hidden;
  Array<double> w_ih(in[1]), w_hh(in[2]), b_ih(in[3]), y(in[0]);
  std::vector<Array<double>> states;
  for (size_t i = 0; i < cell.states; ++i)
    states.push_back(in.size() > cell.first_state() ? Array<double>(in[cell.first_state() + i])
                                                    : Array<double>(shape_of(d.state())));
  std::optional<Array<double>> b_hh;
  if (cell.biases == 2) b_hh.emplace(in[4]);
  std::vector<double> from_x(static_cast<size_t>(d.rows)), from_h(from_x);
  auto product = [&](std::vector<double>& sums, const double* w, const double* x, int64_t columns, const double* bias) {
    for (int64_t row = 0; row < d.rows; ++row) {
      double sum = bias ? bias[row] : 0;
      for (int64_t i = 0; i < columns; ++i) sum += w[row * columns + i] * x[i];
      sums[size_t(row)] = sum;
    }
  };
  for (int64_t layer = 0; layer < d.layers; ++layer) {
    int64_t columns = d.inputs_of(layer).value(), width = d.directions * units;
    Array<double> x = std::exchange(y, Array<double>({batch, steps, width}));
    for_each_index({d.directions, batch}, [&](const Axes& i) {
      int64_t block = layer * d.directions + i[0];
      std::vector<double*> state;
      for (auto& all : states) state.push_back(all.data.data() + (block * batch + i[1]) * units);
      for (int64_t s = 0; s < steps; ++s) {
        int64_t t = i[1] * steps + (i[0] == 1 ? steps - 1 - s : s);
        product(from_x, w_ih.data.data() + d.w_ih_at(layer, i[0]).value(), x.data.data() + t * columns, columns,
                b_ih.data.data() + block * d.rows);
        product(from_h, w_hh.data.data() + block * d.rows * units, state[0], units,
                b_hh ? b_hh->data.data() + block * d.rows : nullptr);
        for (int64_t j = 0; j < units; ++j) {
          step(from_x.data() + j, from_h.data() + j, state, j);
          y.data[size_t(t * width + i[0] * units + j)] = state[0][j];
        }
      }
    });
  }
  Many<Tensor> out = {y.rounded_to(dtype)};
  for (auto& all : states) out.push_back(all.rounded_to(dtype));
  return out;
}

/// A batch of x and the states joins their own; weights with a batch are left to the decomposition.
template <class A>
Many<Value> recurrent_batch(const OpDef& op, const Cell& cell, Values in, const Mask& batched, const A& a) {
  for (size_t i = 1; i < cell.first_state(); ++i)
    if (batched[i]) return {};
  Dim size = batch_size(in, batched);
  if (size == Dim(0)) return {};
  std::vector<Value> operands(in.begin(), in.end());
  auto all_lanes = [&](size_t i) { return batched[i] ? in[i] : repeat_front(in[i], size); };
  operands[0] = merge_front(all_lanes(0));
  for (size_t i = cell.first_state(); i < in.size(); ++i) {  // [N, L D, B, H] to [L D, N B, H]
    Value state = move_axis(all_lanes(i), 0, 1);
    operands[i] = reshape(state, {state.dim(0), size * state.dim(2), state.dim(3)});
  }
  auto out = in[0].graph().emit(op, operands, a);
  out[0] = split_front(out[0], size);
  for (size_t i = 1; i < out.size(); ++i) {
    const Dims& dims = out[i].dims();
    out[i] = move_axis(reshape(out[i], {dims[0], size, dims[1] / size, dims[2]}), 1, 0);
  }
  return out;
}

// ---- weights as PyTorch keeps them ----
struct Packed {
  Value w_ih, w_hh, b_ih, b_hh;
  int64_t hidden, layers;
};
Packed packed(const std::vector<RecurrentWeights>& weights, bool bidirectional) {
  size_t directions = bidirectional ? 2 : 1;
  if (weights.empty() || weights.size() % directions != 0)
    fail(ErrorCode::invalid_argument, "weights of ", weights.size(), " layers and directions; each layer has ",
         directions);
  std::vector<Value> w_ih, w_hh, b_ih, b_hh;
  for (const RecurrentWeights& w : weights) {
    if (!w.w_ih || !w.w_hh)
      fail(ErrorCode::invalid_argument, "the weights of layer ", w_ih.size() / directions, " are absent");
    require_rank(w.w_ih.type(), 2, 2, "w_ih");
    require_rank(w.w_hh.type(), 2, 2, "w_hh");
    Value none = full(w.w_hh.graph(), 0, {w.w_hh.dtype(), {w.w_hh.dim(0)}});
    w_ih.push_back(reshape(w.w_ih, {-1})), w_hh.push_back(reshape(w.w_hh, {-1}));
    b_ih.push_back(w.b_ih ? w.b_ih : none), b_hh.push_back(w.b_hh ? w.b_hh : none);
  }
  auto together = [](const std::vector<Value>& all) { return all.size() == 1 ? all[0] : concatenate(all, 0); };
  return {together(w_ih),
          together(w_hh),
          together(b_ih),
          together(b_hh),
          weights[0].w_hh.dim(1).value(),
          static_cast<int64_t>(weights.size() / directions)};
}

std::vector<Value> emit_recurrent(const OpDef& op, std::vector<Value> operands, Attrs attrs,
                                  std::initializer_list<Value> states) {
  auto given = static_cast<size_t>(std::count_if(states.begin(), states.end(), [](const Value& v) { return bool(v); }));
  if (given != 0 && given != states.size())
    fail(ErrorCode::invalid_argument, op.name, " starts from all of its states or from none; ", given, " of ",
         states.size(), " are given");
  if (given) operands.insert(operands.end(), states.begin(), states.end());
  Graph& g = operands[0].graph();
  return g.emit(op, std::move(operands), std::move(attrs));
}

}  // namespace

std::vector<Value> lstm(Value x, Value w_ih, Value w_hh, Value bias, RecurrentAttrs attrs, Value h0, Value c0) {
  return emit_recurrent(op::lstm, {x, w_ih, w_hh, bias}, attrs, {h0, c0});
}
std::vector<Value> gru(Value x, Value w_ih, Value w_hh, Value b_ih, Value b_hh, RecurrentAttrs attrs, Value h0) {
  return emit_recurrent(op::gru, {x, w_ih, w_hh, b_ih, b_hh}, attrs, {h0});
}
std::vector<Value> rnn(Value x, Value w_ih, Value w_hh, Value bias, RnnAttrs attrs, Value h0) {
  return emit_recurrent(op::rnn, {x, w_ih, w_hh, bias}, attrs, {h0});
}
std::vector<Value> lstm(Value x, const std::vector<RecurrentWeights>& weights, bool bidirectional, Value h0, Value c0) {
  Packed p = packed(weights, bidirectional);
  return lstm(x, p.w_ih, p.w_hh, p.b_ih + p.b_hh, {p.hidden, p.layers, bidirectional}, h0, c0);
}
std::vector<Value> gru(Value x, const std::vector<RecurrentWeights>& weights, bool bidirectional, Value h0) {
  Packed p = packed(weights, bidirectional);
  return gru(x, p.w_ih, p.w_hh, p.b_ih, p.b_hh, {p.hidden, p.layers, bidirectional}, h0);
}
std::vector<Value> rnn(Value x, const std::vector<RecurrentWeights>& weights, bool bidirectional, Value h0,
                       bool relu_cell) {
  Packed p = packed(weights, bidirectional);
  return rnn(x, p.w_ih, p.w_hh, p.b_ih + p.b_hh, {p.hidden, p.layers, bidirectional, relu_cell}, h0);
}

OpDef define_lstm() {
  return define<RecurrentAttrs>({
      .name = "lstm",
      .doc =
          "layers of long short-term memory over x[B, S, in]; gates i, f, g, o: c = sigmoid(f) c + sigmoid(i) "
          "tanh(g), h = sigmoid(o) tanh(c). w_ih, w_hh and bias hold all layers and directions, row by row; states "
          "are [layers directions, B, hidden_size]. Results: y[B, S, directions hidden_size], the last h, the last c",
      .source = "torch.nn.LSTM; Hochreiter, Schmidhuber, Neural Computation 9 (1997)",
      .operands = {"x", "w_ih", "w_hh", "bias", "h0?", "c0?"},
      .covers = {"Lstm"},
      .infer = [](Types in, const RecurrentAttrs& a) { return recurrent_types(in, a, kLstm); },
      .reference =
          [](Tensors in, const RecurrentAttrs& a) {
            int64_t n = a.hidden_size;
            return recurrent_of(in, a, kLstm, [n](double* x, double* h, const std::vector<double*>& state, int64_t j) {
              double &hidden = state[0][j], &c = state[1][j];
              c = sigmoid_of(x[n] + h[n]) * c + sigmoid_of(x[0] + h[0]) * std::tanh(x[2 * n] + h[2 * n]);
              hidden = sigmoid_of(x[3 * n] + h[3 * n]) * std::tanh(c);
            });
          },
      .decompose =
          [](Graph& g, Values in, const RecurrentAttrs& a) {
            return recurrent_parts(g, in, a, kLstm, [](const LayerParts& p) {
              return lstm_layer(p.products, p.w_hh, p.states[0], p.states[1], {p.reverse});
            });
          },
      .batch = [](Values in, const Mask& batched, const RecurrentAttrs& a,
                  const Transforms&) { return recurrent_batch(op::lstm, kLstm, in, batched, a); },
      .samples = {{.dims = {{2, 3, 3}, {24}, {16}, {8}}, .attrs = RecurrentAttrs{2}},
                  {.dims = {{2, 3, 2}, {48}, {48}, {24}, {3, 2, 2}, {3, 2, 2}},
                   .attrs = RecurrentAttrs{2, 3},
                   .lo = -1,
                   .hi = 1},
                  {.dims = {{1, 3, 2}, {32}, {32}, {16}, {2, 1, 2}, {2, 1, 2}}, .attrs = RecurrentAttrs{2, 1, true}},
                  {.dims = {{2, 2, 3}, {40}, {16}, {16}}, .attrs = RecurrentAttrs{1, 2, true}},
                  {.dims = {{2, 0, 3}, {12}, {4}, {4}, {1, 2, 1}, {1, 2, 1}}},
                  {.dims = {{1, 1, 1}, {4}, {4}, {4}}}},
  });
}

OpDef define_gru() {
  return define<RecurrentAttrs>({
      .name = "gru",
      .doc = "layers of gated recurrent units over x[B, S, in]; gates r, z, n: n = tanh(w_in x + b_in + sigmoid(r) "
             "(w_hn h + b_hn)), h = (1 - sigmoid(z)) n + sigmoid(z) h. Weights and states as in lstm, with two "
             "biases. Results: y, the last h",
      .source = "torch.nn.GRU; Cho et al., EMNLP 2014",
      .operands = {"x", "w_ih", "w_hh", "b_ih", "b_hh", "h0?"},
      .covers = {"Gru"},
      .infer = [](Types in, const RecurrentAttrs& a) { return recurrent_types(in, a, kGru); },
      .reference =
          [](Tensors in, const RecurrentAttrs& a) {
            int64_t n = a.hidden_size;
            return recurrent_of(in, a, kGru, [n](double* x, double* h, const std::vector<double*>& state, int64_t j) {
              double r = sigmoid_of(x[0] + h[0]), z = sigmoid_of(x[n] + h[n]);
              state[0][j] = (1 - z) * std::tanh(x[2 * n] + r * h[2 * n]) + z * state[0][j];
            });
          },
      .decompose =
          [](Graph& g, Values in, const RecurrentAttrs& a) {
            return recurrent_parts(g, in, a, kGru, [](const LayerParts& p) { return layer_by_scan(p, gru_step); });
          },
      .batch = [](Values in, const Mask& batched, const RecurrentAttrs& a,
                  const Transforms&) { return recurrent_batch(op::gru, kGru, in, batched, a); },
      .samples = {{.dims = {{2, 3, 3}, {18}, {12}, {6}, {6}}, .attrs = RecurrentAttrs{2}},
                  {.dims = {{2, 3, 2}, {24}, {24}, {12}, {12}, {2, 2, 2}}, .attrs = RecurrentAttrs{2, 2}},
                  {.dims = {{1, 3, 2}, {24}, {24}, {12}, {12}, {2, 1, 2}}, .attrs = RecurrentAttrs{2, 1, true}},
                  {.dims = {{2, 2, 3}, {30}, {12}, {12}, {12}}, .attrs = RecurrentAttrs{1, 2, true}},
                  {.dims = {{0, 2, 3}, {9}, {3}, {3}, {3}, {1, 0, 1}}},
                  {.dims = {{1, 1, 1}, {3}, {3}, {3}, {3}}}},
  });
}

OpDef define_rnn() {
  return define<RnnAttrs>({
      .name = "rnn",
      .doc = "layers of h = tanh(w_ih x + w_hh h + bias), or of relu, over x[B, S, in]. Weights and states as in lstm. "
             "Results: y, the last h",
      .source = "torch.nn.RNN; Elman, Cognitive Science 14 (1990)",
      .operands = {"x", "w_ih", "w_hh", "bias", "h0?"},
      .covers = {"Rnn"},
      .infer = [](Types in, const RnnAttrs& a) { return recurrent_types(in, a, kRnn); },
      .reference =
          [](Tensors in, const RnnAttrs& a) {
            bool relu_cell = a.relu;
            return recurrent_of(in, a, kRnn,
                                [relu_cell](double* x, double* h, const std::vector<double*>& state, int64_t j) {
                                  double sum = x[0] + h[0];
                                  state[0][j] = !relu_cell ? std::tanh(sum) : sum < 0 ? 0 : sum;
                                });
          },
      .decompose =
          [](Graph& g, Values in, const RnnAttrs& a) {
            return recurrent_parts(g, in, a, kRnn, [&](const LayerParts& p) {
              return layer_by_scan(p, [&](Value, Value x, Value h) { return rnn_step(x, h, a.relu); });
            });
          },
      .batch = [](Values in, const Mask& batched, const RnnAttrs& a,
                  const Transforms&) { return recurrent_batch(op::rnn, kRnn, in, batched, a); },
      .samples = {{.dims = {{2, 3, 3}, {6}, {4}, {2}}, .attrs = RnnAttrs{2}},
                  {.dims = {{2, 4, 2}, {8}, {8}, {4}, {2, 2, 2}}, .attrs = RnnAttrs{2, 2}},
                  {.dims = {{1, 3, 2}, {8}, {8}, {4}, {2, 1, 2}}, .attrs = RnnAttrs{2, 1, true}},
                  {.dims = {{2, 2, 3}, {10}, {4}, {4}}, .attrs = RnnAttrs{1, 2, true, true}, .lo = 0.1},
                  {.dims = {{2, 0, 3}, {3}, {1}, {1}, {1, 2, 1}}}},
  });
}

}  // namespace rlx
