// Recurrent layers. An operation runs one layer in one direction over sequences whose first dim is time, and has its
// weights as constants, gates in an order of its own; stacks and both directions are several.
#include <cstring>

#include "backends/coreml/lowerings.h"
#include "rlx/ops.h"

namespace rlx::coreml {

/// In the dtype that programs carry it in.
std::optional<std::string> when::is_f32(const Question& q) {
  if (carried(q.operands[0].dtype) != f32) return text_of("of f32 only, and not of ", q.operands[0].dtype);
  return std::nullopt;
}

namespace {

struct Cell {
  std::string_view operation;
  std::vector<int64_t> gates;  ///< which of our blocks of rows is the k-th of the operation's
  std::vector<std::string_view> biases, states;
};

class Layers {
 public:
  Layers(Lowering& l, const Cell& cell, int64_t hidden, int64_t layers, bool bidirectional, const Arguments& others)
      : l_(l), e_(l.e), cell_(cell), others_(others), hidden_(hidden), layers_(layers),
        directions_(bidirectional ? 2 : 1), rows_(hidden * std::ssize(cell.gates)) {}

  Lowered write() {
    Var x = e_.transpose(l_.operand(0), {1, 0, 2});  // time first
    std::vector<std::vector<Var>> last(cell_.states.size());
    for (int64_t layer = 0; layer < layers_; ++layer) {
      std::vector<Var> all;
      for (int64_t direction = 0; direction < directions_; ++direction) {
        std::vector<Var> out = run(direction ? backwards(x) : x, layer, direction);
        all.push_back(direction ? backwards(out[0]) : out[0]);
        for (size_t i = 0; i < last.size(); ++i) last[i].push_back(e_.reshape(out[i + 1], state_shape(1)));
      }
      x = e_.concat(all, 2);
    }
    Lowered results{e_.transpose(x, {1, 0, 2})};
    for (const std::vector<Var>& each : last) results.push_back(e_.concat(each, 0));
    return results;
  }

 private:
  Var backwards(const Var& x) { return e_.emit("reverse", {{"x", x}, {"axes", e_.integers({0})}}, x.dtype, x.shape); }
  int64_t batch() { return l_.shape(0).at(0); }
  Shape state_shape(int64_t blocks) { return {blocks, batch(), hidden_}; }

  std::vector<Var> run(const Var& x, int64_t layer, int64_t direction) {
    const int64_t block = layer * directions_ + direction, inputs = x.shape[2];
    const int64_t first = layer == 0 ? direction * rows_ * inputs
                                     : directions_ * rows_ * l_.types[0].dims[2].value() +
                                           (block - directions_) * rows_ * directions_ * hidden_;
    Arguments arguments = others_;
    arguments.emplace_back("x", x);
    arguments.emplace_back("weight_ih", weight(1, first, inputs));
    arguments.emplace_back("weight_hh", weight(2, block * rows_ * hidden_, hidden_));
    for (size_t i = 0; i < cell_.biases.size(); ++i) arguments.emplace_back(cell_.biases[i], bias(3 + i, block));
    std::vector<Var> results{{"", x.dtype, {x.shape[0], x.shape[1], hidden_}}};
    for (size_t i = 0; i < cell_.states.size(); ++i) {
      arguments.emplace_back(cell_.states[i], initial(3 + cell_.biases.size() + i, block, x.dtype));
      results.push_back({"", x.dtype, {batch(), hidden_}});
    }
    return e_.emit_many(cell_.operation, arguments, results);
  }

  Var initial(size_t operand, int64_t block, DType dtype) {
    if (operand >= l_.types.size()) return e_.broadcast(e_.constant(Tensor(dtype, {1, 1})), {batch(), hidden_});
    Var all = l_.operand(operand);
    Shape end = all.shape;
    end[0] = block + 1;
    return e_.reshape(e_.slice(all, {block, 0, 0}, end, {1, 1, 1}), {batch(), hidden_});
  }

  /// [rows, columns] from element `first` on, the gates in the operation's order; a bias is of one column.
  Tensor ordered_rows(size_t operand, int64_t first, int64_t columns) {
    Tensor all = carried_constant(*l_.tensor(operand));
    Tensor rows = Tensor::uninitialized(all.dtype(), {rows_, columns});
    const size_t gate_bytes = byte_count(all.dtype(), {hidden_, columns}), from = byte_count(all.dtype(), {first});
    for (size_t k = 0; k < cell_.gates.size(); ++k)
      std::memcpy(rows.mutable_data() + k * gate_bytes,
                  all.data() + from + static_cast<size_t>(cell_.gates[k]) * gate_bytes, gate_bytes);
    return rows;
  }
  Var weight(size_t operand, int64_t first, int64_t columns) {
    return e_.constant(ordered_rows(operand, first, columns));
  }
  Var bias(size_t operand, int64_t block) {
    return e_.constant(ordered_rows(operand, block * rows_, 1).reshaped({rows_}));
  }

  Lowering& l_;
  Emitter& e_;
  const Cell& cell_;
  const Arguments& others_;
  int64_t hidden_, layers_, directions_, rows_;
};

template <class A>
Lowered recurrent(Lowering& l, const Cell& cell, const A& a, Arguments others) {
  others.emplace_back("direction", l.e.text("forward"));
  others.emplace_back("output_sequence", l.e.flag(true));
  return Layers(l, cell, a.hidden_size, a.num_layers, a.bidirectional, others).write();
}

}  // namespace

Lowered lower_lstm(Lowering& l) {
  // i, f, g, o here; input, forget, output, cell there.
  const Cell cell{"lstm", {0, 1, 3, 2}, {"bias"}, {"initial_h", "initial_c"}};
  return recurrent(l, cell, l.attrs<RecurrentAttrs>(),
                   {{"recurrent_activation", l.e.text("sigmoid")},
                    {"cell_activation", l.e.text("tanh")},
                    {"activation", l.e.text("tanh")}});
}

/// From iOS 18 on the reset gate may multiply the product with the state, as it does here.
Lowered lower_gru(Lowering& l) {
  // r, z, n here; reset, new, update there.
  const Cell cell{"gru", {0, 2, 1}, {"input_bias", "bias"}, {"initial_h"}};
  return recurrent(l, cell, l.attrs<RecurrentAttrs>(),
                   {{"recurrent_activation", l.e.text("sigmoid")},
                    {"activation", l.e.text("tanh")},
                    {"reset_after", l.e.flag(true)}});
}

Lowered lower_rnn(Lowering& l) {
  const auto& a = l.attrs<RnnAttrs>();
  return recurrent(l, {"rnn", {0}, {"bias"}, {"initial_h"}}, a, {{"activation", l.e.text(a.relu ? "relu" : "tanh")}});
}

}  // namespace rlx::coreml
