// Recurrent layers: time is dim 0 of x [s, b, I]. Products with the inputs are taken for all steps at once, and a scan
// carries the states.
#include "frontends/mil/handlers.h"

namespace rlx::mlprogram {
namespace {

using Activate = std::function<Value(Value)>;

Activate activation(Call& op, const std::string& parameter, const std::string& otherwise) {
  std::string name = op.word(parameter, otherwise);
  std::string lower;
  for (char c : name) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (lower == "tanh") return [](Value x) { return rlx::tanh(x); };
  if (lower == "sigmoid") return [](Value x) { return logistic(x); };
  if (lower == "relu") return [](Value x) { return rlx::relu(x); };
  if (lower == "linear") return [](Value x) { return x; };
  if (lower == "hard_sigmoid" || lower == "sigmoid_hard") return [](Value x) { return hard_sigmoid(x, 0.2, 0.5); };
  if (lower == "scaled_tanh") return [](Value x) { return rlx::tanh(x); };  // its factors default to 1
  op.wrong(parameter, " '", name, "' is none of tanh, sigmoid, relu, linear, hard_sigmoid and scaled_tanh");
}

Value transposed(Value w) { return rlx::transpose(w, {1, 0}); }

/// Part `i` of equal parts along the last dim.
Value part(Value x, int64_t i, const Dim& size) { return slice_axis(x, -1, size * Dim(i), size * Dim(i + 1)); }

void expect_layer(Call& op, Value x, Value w_ih, Value w_hh, int64_t gates) {
  if (x.rank() != 3 || w_ih.rank() != 2 || w_hh.rank() != 2)
    op.wrong("x ", x.type(), " must be [s, b, I], weights ", w_ih.type(), " and ", w_hh.type(), " matrices");
  if (w_hh.dim(0) != w_hh.dim(1) * Dim(gates) || w_ih.dim(0) != w_hh.dim(0) || w_ih.dim(1) != x.dim(2))
    op.wrong("weights ", w_ih.type(), " and ", w_hh.type(), " are not [", gates, " H, I] and [", gates, " H, H] for x ",
             x.type());
}

/// The initial state `name`: a row of `width` for each sequence of x. MIL asks for as many rows as x has sequences, but
/// its results take their batch from x alone, and coremltools writes more rows for a PackedSequence (the longest length
/// in place of the count of sequences): the first ones are read.
Value initial_state(Call& op, const std::string& name, Value x, const Dim& width) {
  Value state = op(name);
  if (state.rank() != 2 || state.dim(1) != width)
    op.wrong(name, " ", state.type(), " is not [b, ", width, "] for x ", x.type());
  Dim rows = state.dim(0), batch = x.dim(1);
  if (!rows.is_static() || !batch.is_static() || rows == batch) return state;
  if (rows.value() < batch.value())
    op.wrong(name, " ", state.type(), " has ", rows, " rows for the ", batch, " sequences of x ", x.type(),
             ": give it a row for each");
  return slice_axis(state, 0, 0, batch);
}

/// x wᵀ + bias for all steps: [s, b, G].
Value inputs_product(Value x, Value w, Value bias) {
  Value y = rlx::matmul(x, transposed(w));
  return bias ? y + bias : y;
}

struct Run {
  std::vector<Value> last;  ///< states
  Value all;  ///< the first state after each step, in the order of the steps: backwards, the last slice first
};
/// `step`: states, the slice, what is captured -> states.
template <class F>
Run run_steps(Graph& g, std::vector<Value> states, Value xs, std::vector<Value> captured, bool backward, F step) {
  std::vector<Type> types;
  for (Value s : states) types.push_back(s.type());
  Type slice = xs.type();
  slice.dims.erase(slice.dims.begin());
  types.push_back(slice);
  for (Value c : captured) types.push_back(c.type());
  size_t n = states.size();
  Graph body = trace(Types(types), [&](Values in) {
    std::vector<Value> next = step(in.subspan(0, n), in[n], in.subspan(n + 1));
    next.push_back(next[0]);
    return next;
  });
  std::vector<Value> operands = states;
  operands.push_back(xs);
  operands.insert(operands.end(), captured.begin(), captured.end());
  ScanAttrs a;
  a.carries = static_cast<int64_t>(n), a.xs = 1, a.length = xs.dim(0), a.reverse = backward, a.body = std::move(body);
  std::vector<Value> out = scan(g, operands, a);
  Run r;
  r.all = backward ? rlx::reverse(out.back(), {0}) : out.back();
  out.pop_back();
  r.last = std::move(out);
  return r;
}

bool is_reverse(Call& op, bool both_allowed, bool* both = nullptr) {
  std::string direction = op.word("direction", "forward");
  if (direction == "forward") return false;
  if (direction == "reverse") return true;
  if (both_allowed && direction == "bidirectional") return *both = true, false;
  op.wrong("direction '", direction, "' is none of forward, reverse", both_allowed ? " and bidirectional" : "");
}

/// All steps, or the last one as [1, b, H].
Value sequence(Call& op, const Run& r) {
  if (op.flag("output_sequence", false)) return r.all;
  return expand_dims(r.last[0], 0);
}

Value as(Value v, Value like) { return v && v.dtype() != like.dtype() ? convert(v, like.dtype()) : v; }

}  // namespace

MIL_OP(rnn) {
  Value x = op("x"), w_ih = as(op("weight_ih"), x), w_hh = as(op("weight_hh"), x);
  expect_layer(op, x, w_ih, w_hh, 1);
  Value h = initial_state(op, "initial_h", x, w_hh.dim(1));
  Activate act = activation(op, "activation", "tanh");
  Value xs = inputs_product(x, w_ih, as(op.maybe("bias"), x));
  Run r = run_steps(
      op.graph(), {h}, xs, {transposed(w_hh)}, is_reverse(op, false),
      [&](Values states, Value x_t, Values w) { return std::vector<Value>{act(x_t + rlx::matmul(states[0], w[0]))}; });
  return several({sequence(op, r), r.last[0]});
}

// Gates reset, new, update. `reset_after`: the reset gate multiplies the product with the state, and its bias, instead
// of the state. Before iOS 18 there is one bias; `input_bias` is that of the inputs, and `bias` then that of the
// states.
MIL_OP(gru) {
  Value x = op("x"), w_ih = as(op("weight_ih"), x), w_hh = as(op("weight_hh"), x);
  expect_layer(op, x, w_ih, w_hh, 3);
  Value h0 = initial_state(op, "initial_h", x, w_hh.dim(1));
  Activate gate = activation(op, "recurrent_activation", "sigmoid"), act = activation(op, "activation", "tanh");
  bool reset_after = op.opset() >= 8 && op.flag("reset_after", false);
  Value bias = as(op.maybe("bias"), x), input_bias = op.opset() >= 8 ? as(op.maybe("input_bias"), x) : Value();
  Dim size = w_hh.dim(1);
  // Where the reset gate stands between the two products, their biases must stay apart; else they are one.
  if (!reset_after && bias) input_bias = input_bias ? input_bias + bias : bias;
  Value state_bias = reset_after && bias ? bias : full(op.graph(), 0, {x.dtype(), {size * Dim(3)}});
  Value xs = inputs_product(x, w_ih, input_bias);
  Run r = run_steps(op.graph(), {h0}, xs, {transposed(w_hh), state_bias}, is_reverse(op, false),
                    [&](Values states, Value x_t, Values w) {
                      Value h = states[0], fresh;
                      Value r_and_z_r = part(w[0], 0, size), w_o = part(w[0], 1, size), w_z = part(w[0], 2, size);
                      auto b = [&](int64_t i) { return part(w[1], i, size); };
                      Value reset = gate(part(x_t, 0, size) + rlx::matmul(h, r_and_z_r) + b(0));
                      Value update = gate(part(x_t, 2, size) + rlx::matmul(h, w_z) + b(2));
                      if (reset_after) fresh = act(part(x_t, 1, size) + reset * (rlx::matmul(h, w_o) + b(1)));
                      else fresh = act(part(x_t, 1, size) + rlx::matmul(reset * h, w_o) + b(1));
                      return std::vector<Value>{(1.0 - update) * fresh + update * h};
                    });
  return several({sequence(op, r), r.last[0]});
}

// Gates input, forget, output, cell. `clip` bounds the cell state. With peepholes the first two see the old cell state
// and the output gate the new one.
MIL_OP(lstm) {
  Value x = op("x");
  Activate gate = activation(op, "recurrent_activation", "sigmoid"), cell = activation(op, "cell_activation", "tanh"),
           act = activation(op, "activation", "tanh");
  bool both = false, reverse = is_reverse(op, true, &both);
  std::optional<double> clip;
  if (op.has("clip")) clip = op.number("clip");
  expect_layer(op, x, op("weight_ih"), op("weight_hh"), 4);
  if (both) expect_layer(op, x, op("weight_ih_back"), op("weight_hh_back"), 4);
  Dim size = op("weight_hh").dim(1), width = both ? size * Dim(2) : size;
  Value h0 = initial_state(op, "initial_h", x, width), c0 = initial_state(op, "initial_c", x, width);
  auto layer = [&](const std::string& suffix, Value h, Value c, bool backward) {
    Value w_ih = as(op("weight_ih" + suffix), x), w_hh = as(op("weight_hh" + suffix), x);
    Value bias = as(op.maybe("bias" + suffix), x), peephole = as(op.maybe("peephole" + suffix), x);
    std::vector<Value> captured = {transposed(w_hh)};
    if (peephole) captured.push_back(peephole);
    return run_steps(op.graph(), {h, c}, inputs_product(x, w_ih, bias), captured, backward,
                     [&](Values states, Value x_t, Values w) {
                       Value old = states[1], all = x_t + rlx::matmul(states[0], w[0]);
                       auto gated = [&](int64_t i, Value seen) {
                         Value z = part(all, i, size);
                         return gate(w.size() > 1 ? z + seen * part(w[1], i, size) : z);
                       };
                       Value now = gated(1, old) * old + gated(0, old) * cell(part(all, 3, size));
                       if (clip) now = clamp(now, -*clip, *clip);
                       return std::vector<Value>{gated(2, now) * act(now), now};
                     });
  };
  if (!both) {
    for (const char* name : {"weight_ih_back", "weight_hh_back", "bias_back", "peephole_back"}) op.ignore(name);
    Run r = layer("", h0, c0, reverse);
    return several({sequence(op, r), r.last[0], r.last[1]});
  }
  Run forth = layer("", part(h0, 0, size), part(c0, 0, size), false);
  Run back = layer("_back", part(h0, 1, size), part(c0, 1, size), true);
  auto side_by_side = [](Value a, Value b) { return concatenate({a, b}, a.rank() - 1); };
  back.all = rlx::reverse(back.all, {0});  // beside the same slice of the other direction
  return several({side_by_side(sequence(op, forth), sequence(op, back)), side_by_side(forth.last[0], back.last[0]),
                  side_by_side(forth.last[1], back.last[1])});
}

}  // namespace rlx::mlprogram
