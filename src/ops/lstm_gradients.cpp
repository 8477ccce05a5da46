// The gradients of lstm. All hidden states are known from its result, so the gates of all steps come from one product,
// and what the loop backwards multiplies its cotangents by is made of them at once: it keeps one product a step, with
// the hidden state. The cells, which are no result, are summed up again; of several layers the lower ones are run
// again.
#include "ops/recurrent_rules.h"
#include "rlx/ops/activation.h"
#include "rlx/ops/contract.h"
#include "rlx/ops/recurrent.h"
#include "rlx/ops/reduction.h"

namespace rlx {
namespace {

/// One direction of a layer. x[B, S, in] and y[B, S, H] are its operand and result.
struct LstmBlock {
  Value w_ih, w_hh, bias, h0, c0;
};
/// Absent cotangents are zero.
struct LstmCotangents {
  Value y, h, c;
};
struct LstmGradients {
  Value x, w_ih, w_hh, bias, h0, c0;
};

/// The derivative of logistic and of tanh, by their value.
Value logistic_slope(Value y) { return y * (1.0 - y); }
Value tanh_slope(Value y) { return 1.0 - y * y; }

LstmGradients gradients_of(const LstmBlock& w, Value x, Value y, const LstmCotangents& ct, bool reverse) {
  Graph& g = x.graph();
  Dim steps = x.dim(1);
  Value first = expand_dims(w.h0, 1);
  Value h = reverse ? slice_axis(concatenate({y, first}, 1), 1, 1, steps + 1)
                    : slice_axis(concatenate({first, y}, 1), 1, 0, steps);  // before each step
  Value products = dot_general(x, w.w_ih, {{}, {}, {2}, {1}}) + w.bias + dot_general(h, w.w_hh, {{}, {}, {2}, {1}});
  Value gates = time_first(products);  // [S, B, 4 H]
  Dim width = gates.dim(2) / 4;
  auto gate = [&](int64_t i) { return slice_axis(gates, 2, width * i, width * (i + 1)); };
  Value in = logistic(gate(0)), forget = logistic(gate(1)), candidate = tanh(gate(2)), out = logistic(gate(3));

  Value added = in * candidate;
  auto cells = scan_of(g, {w.c0}, {forget, added}, {}, steps, reverse, [](Values v) {
    return std::vector{v[1] * v[0] + v[2], v[0]};
  });
  Value before = cells[1], squashed = tanh(forget * before + added);
  Value to_cell = out * tanh_slope(squashed);
  Value factors = concatenate({candidate * logistic_slope(in), before * logistic_slope(forget),
                               in * tanh_slope(candidate), squashed * logistic_slope(out)},
                              2);
  auto back =
      scan_of(g, {or_zero(ct.h, w.h0), or_zero(ct.c, w.c0)}, {time_first(or_zero(ct.y, y)), to_cell, forget, factors},
              {w.w_hh}, steps, !reverse, [](Values v) {
                Value d_h = v[0] + v[2], d_c = v[1] + d_h * v[3];
                Value d = concatenate({d_c, d_c, d_c, d_h}, 1) * v[5];
                return std::vector{dot_general(d, v[6], {{}, {}, {1}, {0}}), d_c * v[4], d};
              });
  Value d = time_first(back[2]);  // [B, S, 4 H]
  const DotAttrs over_steps{{}, {}, {0, 1}, {0, 1}};
  return {dot_general(d, w.w_ih, {{}, {}, {2}, {0}}),
          dot_general(d, x, over_steps),
          dot_general(d, h, over_steps),
          reduce_sum(d, {0, 1}),
          back[0],
          back[1]};
}

}  // namespace

Many<Value> lstm_gradients(Values in, Values out, Values cts, const RecurrentAttrs& a) {
  const int64_t rows = 4 * a.hidden_size, directions = a.bidirectional ? 2 : 1, layers = a.num_layers;
  const bool is_given = in.size() > 4;
  const Type state{in[0].dtype(), {in[0].dim(0), a.hidden_size}};
  auto state_of = [&](Value all, int64_t block) { return squeeze(slice_axis(all, 0, block, block + 1), {0}); };
  std::vector<LstmBlock> blocks;
  std::vector<Value> xs = {in[0]};  // of each layer, then the last result
  Dim at = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    Dim columns = layer == 0 ? in[0].dim(2) : Dim(directions * a.hidden_size), size = columns * rows;
    const int64_t first = layer * directions, end = first + directions, square = rows * a.hidden_size;
    if (layer + 1 < layers) {
      std::vector<Value> operands = {xs.back(), slice_axis(in[1], 0, at, at + size * directions),
                                     slice_axis(in[2], 0, first * square, end * square),
                                     slice_axis(in[3], 0, first * rows, end * rows)};
      for (size_t i = 4; i < in.size(); ++i) operands.push_back(slice_axis(in[i], 0, first, end));
      xs.push_back(in[0].graph().emit(op::lstm, operands, RecurrentAttrs{a.hidden_size, 1, a.bidirectional})[0]);
    }
    for (int64_t block = first; block < end; ++block, at = at + size)
      blocks.push_back({reshape(slice_axis(in[1], 0, at, at + size), {rows, columns}),
                        reshape(slice_axis(in[2], 0, block * square, (block + 1) * square), {rows, a.hidden_size}),
                        slice_axis(in[3], 0, block * rows, (block + 1) * rows),
                        is_given ? state_of(in[4], block) : full(in[0].graph(), 0, state),
                        is_given ? state_of(in[5], block) : full(in[0].graph(), 0, state)});
  }
  xs.push_back(out[0]);

  std::vector<LstmGradients> found(blocks.size());
  Value ct = cts[0];
  for (int64_t layer = layers; layer-- > 0;) {
    Value d_x;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t block = layer * directions + direction;
      auto own = [&](Value y) { return slice_axis(y, 2, direction * a.hidden_size, (direction + 1) * a.hidden_size); };
      const LstmCotangents of_block{ct ? own(ct) : ct, cts[1] ? state_of(cts[1], block) : cts[1],
                                    cts[2] ? state_of(cts[2], block) : cts[2]};
      LstmGradients& d = found[size_t(block)];
      d = gradients_of(blocks[size_t(block)], xs[size_t(layer)], own(xs[size_t(layer) + 1]), of_block, direction == 1);
      d_x = d_x ? d_x + d.x : d.x;
    }
    ct = d_x;
  }
  auto together = [&](auto part) {
    std::vector<Value> all;
    for (const LstmGradients& d : found) all.push_back(part(d));
    return all.size() == 1 ? all[0] : concatenate(all, 0);
  };
  Many<Value> d = {ct, together([](const LstmGradients& p) { return reshape(p.w_ih, {-1}); }),
                   together([](const LstmGradients& p) { return reshape(p.w_hh, {-1}); }),
                   together([](const LstmGradients& p) { return p.bias; })};
  if (!is_given) return d;
  d.push_back(together([](const LstmGradients& p) { return expand_dims(p.h0, 0); }));
  d.push_back(together([](const LstmGradients& p) { return expand_dims(p.c0, 0); }));
  return d;
}

}  // namespace rlx
