// Recurrent layers and cells: the ops of rlx/ops/recurrent.h with params as torch.nn has them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "rlx/models/builder.h"

namespace rlx {

/// rnn_tanh and rnn_relu: Elman 1990. gru: Cho et al. 2014, as torch.nn.GRU computes it. lstm: Hochreiter, Schmidhuber
/// 1997, with forget gates (Gers et al. 2000).
enum class RecurrentCell { rnn_tanh, rnn_relu, gru, lstm };
constexpr std::array<std::string_view, 4> names_of(RecurrentCell) { return {"rnn_tanh", "rnn_relu", "gru", "lstm"}; }

struct RecurrentLayersConfig {
  RecurrentCell cell = RecurrentCell::lstm;
  int64_t hidden = 1, layers = 1;
  bool bidirectional = false, bias = true;
};
/// h[layers * directions, B, hidden], and for lstm c of the same dims; absent ones are zeros. A graph that is run step
/// by step declares each as an input and as an output of the same name, like KeyValueCache.
struct RecurrentState {
  Value h = {}, c = {};
};
/// x[B, S, in] to [B, S, directions * hidden], as torch.nn.LSTM, GRU and RNN with batch_first; `state` becomes that
/// after the last step. Params: NAME.weight_ih_l0 [G, in], weight_hh_l0 [G, hidden], bias_ih_l0, bias_hh_l0 [G], with
/// the suffix _reverse for the backward direction; G is 4, 3 or 1 times hidden. Gates are in PyTorch's order: i f g o,
/// r z n.
Value recurrent_layers(ModelBuilder& b, Value x, const std::string& name, const RecurrentLayersConfig& config,
                       RecurrentState* state = nullptr);
/// One step of one layer, as torch.nn.LSTMCell, GRUCell and RNNCell: x[B, in] and the state, h and c[B, hidden], to h.
/// `state` becomes the next one. Params: NAME.weight_ih, weight_hh, bias_ih, bias_hh.
Value recurrent_cell(ModelBuilder& b, Value x, const std::string& name, RecurrentCell cell, int64_t hidden,
                     RecurrentState& state, bool bias = true);

}  // namespace rlx
