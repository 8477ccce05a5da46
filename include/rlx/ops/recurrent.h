// Sequence models, which carry a state from step to step. Dim 0 of x is the batch, dim 1 is time. The states before the
// first step may be left out; they are zeros then. The states after the last step are results.
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef lstm, gru, rnn, lstm_layer, lstm_layer_backward, selective_scan, mamba2, gated_delta_net,
    gated_delta_net_backward;
}  // namespace op

struct RecurrentAttrs {
  int64_t hidden_size = 1, num_layers = 1;
  bool bidirectional = false;  ///< each layer also runs from the last step to the first
  RLX_FIELDS(RecurrentAttrs, field("hidden_size", &RecurrentAttrs::hidden_size),
             field("num_layers", &RecurrentAttrs::num_layers), field("bidirectional", &RecurrentAttrs::bidirectional));
};
struct RnnAttrs {
  int64_t hidden_size = 1, num_layers = 1;
  bool bidirectional = false;
  bool relu = false;  ///< relu instead of tanh
  RLX_FIELDS(RnnAttrs, field("hidden_size", &RnnAttrs::hidden_size), field("num_layers", &RnnAttrs::num_layers),
             field("bidirectional", &RnnAttrs::bidirectional), field("relu", &RnnAttrs::relu));
};

// Shapes, with H = hidden_size, L = num_layers, D = 2 directions or 1, and G = 4 H (lstm), 3 H (gru) or H (rnn) rows of
// gates: x[B, S, in] -> y[B, S, D H], the forward direction before the backward one; states[L D, B, H]. The weights of
// all layers and directions are one vector each: layer after layer, in a layer direction after direction, each matrix
// row by row. w_ih consists of [G, in] matrices ([G, D H] from the second layer on), w_hh of [G, H] matrices; biases
// are [L D G].

/// Gates i, f, g, o: c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c). Returns y, h_n, c_n.
std::vector<Value> lstm(Value x, Value w_ih, Value w_hh, Value bias, RecurrentAttrs attrs, Value h0 = {},
                        Value c0 = {});
/// Gates r, z, n: n = tanh(w_in x + b_in + sigmoid(r) (w_hn h + b_hn)), h = (1 - sigmoid(z)) n + sigmoid(z) h. Returns
/// y, h_n.
std::vector<Value> gru(Value x, Value w_ih, Value w_hh, Value b_ih, Value b_hh, RecurrentAttrs attrs, Value h0 = {});
/// h = tanh(w_ih x + w_hh h + bias). Returns y, h_n.
std::vector<Value> rnn(Value x, Value w_ih, Value w_hh, Value bias, RnnAttrs attrs, Value h0 = {});

struct LstmLayerAttrs {
  bool reverse = false;  ///< the layer runs from the last step to the first
  RLX_FIELDS(LstmLayerAttrs, field("reverse", &LstmLayerAttrs::reverse));
};
/// The recurrence that lstm consists of: one layer in one direction, after the product with its inputs, products[B, S,
/// 4 H] = w_ih x + bias. w_hh is [4 H, H], h0 and c0 are [B, H]. Returns y[B, S, H], h_n, c_n, and what gradients need:
/// the gates[B, S, 4 H] after their activations, and the cells[B, S, H] after each step.
std::vector<Value> lstm_layer(Value products, Value w_hh, Value h0, Value c0, LstmLayerAttrs attrs = {});
/// The cotangents of products, h0 and c0, from those of the results. (The cotangent of w_hh is a product of the first
/// with the states.) The cotangents of gates and cells, which occur only in gradients of gradients, must be given
/// together or not at all.
std::vector<Value> lstm_layer_backward(Value gates, Value cells, Value w_hh, Value c0, Value y_ct, Value h_ct,
                                       Value c_ct, LstmLayerAttrs attrs = {}, Value gates_ct = {}, Value cells_ct = {});

/// The tensors of one layer in one direction, as PyTorch keeps them: weight_ih_l0[G, in], weight_hh_l0[G, H],
/// bias_ih_l0 and bias_hh_l0[G]. Biases may be absent.
struct RecurrentWeights {
  Value w_ih, w_hh, b_ih = {}, b_hh = {};
};
/// The same ops, which pack the weights themselves. The weights are those of layer 0, of its backward direction if
/// there is one, of layer 1, and so on. Sizes and counts are read from their types.
std::vector<Value> lstm(Value x, const std::vector<RecurrentWeights>& weights, bool bidirectional = false,
                        Value h0 = {}, Value c0 = {});
std::vector<Value> gru(Value x, const std::vector<RecurrentWeights>& weights, bool bidirectional = false,
                       Value h0 = {});
std::vector<Value> rnn(Value x, const std::vector<RecurrentWeights>& weights, bool bidirectional = false, Value h0 = {},
                       bool relu = false);

/// x and delta[B, S, C], a[C, N], b and c[B, S, N], state[B, C, N]. For each channel: s = exp(delta a) s + delta x b,
/// y = the sum of s c. (No skip by D, no softplus: those are ops of their own.) Returns y[B, S, C] and the last state.
std::vector<Value> selective_scan(Value x, Value delta, Value a, Value b, Value c, Value state = {});

/// x[B, S, H, P], dt[B, S, H], a[H], b and c[B, S, H, N], state[B, H, P, N]. For each head: s = exp(dt a) s + (dt x)
/// bᵀ, y = s c. Returns y[B, S, H, P] and the last state.
std::vector<Value> mamba2(Value x, Value dt, Value a, Value b, Value c, Value state = {});

/// q and k[B, S, H, N], v[B, S, H, M], beta[B, S, H], state[B, H, N, M]; g is the logarithm of what remains of the
/// state: [B, S, H], or [B, S, H, N] for one per key channel. For each head: s = exp(g) s, d = beta (v - sᵀ k), s = s +
/// k dᵀ, y = sᵀ q / sqrt(N). q and k are normalized, if at all, by who calls. Returns y[B, S, H, M] and the last state.
std::vector<Value> gated_delta_net(Value q, Value k, Value v, Value g, Value beta, Value state = {});
/// The cotangents of gated_delta_net's operands, state included, from those of its results: one scan forwards that
/// keeps the states, one back.
std::vector<Value> gated_delta_net_backward(Value q, Value k, Value v, Value g, Value beta, Value state, Value y_ct,
                                            Value state_ct);

}  // namespace rlx
