// Recurrent layers and cells; see rlx/models/recurrent.h.
#include "rlx/models/recurrent.h"

#include <string>
#include <vector>

namespace rlx {
namespace {

int64_t gates_of(RecurrentCell cell) { return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1; }

/// The four params, whose names end with `suffix`.
RecurrentWeights weights_of(ModelBuilder& b, const Dim& in, RecurrentCell cell, int64_t hidden, bool bias,
                            const std::string& suffix) {
  const int64_t rows = gates_of(cell) * hidden;
  RecurrentWeights w{b.param("weight_ih" + suffix, {rows, in}), b.param("weight_hh" + suffix, {rows, hidden})};
  if (bias) w.b_ih = b.param("bias_ih" + suffix, {rows}), w.b_hh = b.param("bias_hh" + suffix, {rows});
  return w;
}

/// All steps of x; `state` becomes the last one.
Value unrolled(Value x, const std::vector<RecurrentWeights>& weights, RecurrentCell cell, bool bidirectional,
               RecurrentState& state) {
  if (cell == RecurrentCell::lstm && bool(state.h) != bool(state.c))
    fail(ErrorCode::invalid_argument, "the state of an lstm has h and c, or neither");
  std::vector<Value> made;
  switch (cell) {
    case RecurrentCell::lstm: made = lstm(x, weights, bidirectional, state.h, state.c); break;
    case RecurrentCell::gru: made = gru(x, weights, bidirectional, state.h); break;
    case RecurrentCell::rnn_tanh: made = rnn(x, weights, bidirectional, state.h); break;
    case RecurrentCell::rnn_relu: made = rnn(x, weights, bidirectional, state.h, true); break;
  }
  state.h = made[1];
  if (cell == RecurrentCell::lstm) state.c = made[2];
  return made[0];
}

void check(int64_t hidden, int64_t layers) {
  if (hidden < 1 || layers < 1)
    fail(ErrorCode::invalid_argument, layers, " recurrent layers of a hidden width of ", hidden,
         "; give 1 or more of both");
}

}  // namespace

Value recurrent_layers(ModelBuilder& b, Value x, const std::string& name, const RecurrentLayersConfig& c,
                       RecurrentState* state) {
  check(c.hidden, c.layers);
  const auto built = [&] {
    std::vector<RecurrentWeights> weights;
    const int64_t directions = c.bidirectional ? 2 : 1;
    for (int64_t layer = 0; layer < c.layers; ++layer)
      for (int64_t direction = 0; direction < directions; ++direction)
        weights.push_back(weights_of(b, layer == 0 ? x.dim(-1) : Dim(directions * c.hidden), c.cell, c.hidden, c.bias,
                                     text_of("_l", layer, direction == 1 ? "_reverse" : "")));
    RecurrentState none;
    return unrolled(x, weights, c.cell, c.bidirectional, state ? *state : none);
  };
  return name.empty() ? built() : b.within(name, built);
}

Value recurrent_cell(ModelBuilder& b, Value x, const std::string& name, RecurrentCell cell, int64_t hidden,
                     RecurrentState& state, bool bias) {
  check(hidden, 1);
  if (x.rank() != 2) fail(ErrorCode::shape_mismatch, "a recurrent cell reads one step [B, in], got ", x.type());
  const auto built = [&] {
    const std::vector<RecurrentWeights> weights = {weights_of(b, x.dim(-1), cell, hidden, bias, "")};
    RecurrentState one{state.h ? expand_dims(state.h, 0) : Value{}, state.c ? expand_dims(state.c, 0) : Value{}};
    unrolled(expand_dims(x, 1), weights, cell, false, one);
    state.h = reshape(one.h, {x.dim(0), hidden});
    if (one.c) state.c = reshape(one.c, {x.dim(0), hidden});
    return state.h;
  };
  return name.empty() ? built() : b.within(name, built);
}

}  // namespace rlx
