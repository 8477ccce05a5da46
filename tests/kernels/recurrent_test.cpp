// The kernels of the sequence models at extents that are and are not multiples of vectors and tiles, on every
// instruction set, against the scalar references of the ops.
#include "kernels/kernel_test.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/emulated_tiles.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// Weights of recurrent layers get smaller as there are more of them: if a layer amplified rounding errors, the test
/// would compare them and not the arithmetic.
Tensor numbers(const Type& type, double size, uint64_t seed) {
  return random_tensor(type.dtype, shape_of(type.dims), seed, -size, size);
}

/// The graph on the CPU and by its references.
void check(const Graph& g, int threads, int64_t inputs_of_a_unit = 1) {
  std::vector<Tensor> inputs;
  std::map<std::string, Tensor> params;
  uint64_t seed = 1;
  double size = 0.7 / std::sqrt(static_cast<double>(std::max<int64_t>(inputs_of_a_unit, 4)) / 4);
  for (Ref r : g.inputs()) inputs.push_back(numbers(g.type(r), size, ++seed));
  for (Ref r : g.params()) params[g.node(r).name] = numbers(g.type(r), size, ++seed);
  CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g);
  for (const auto& [name, value] : params) compiled.set_param(name, value);
  INFO(g.name());
  REQUIRE(compiled.report().count(Verdict::composed) == 0);
  const std::vector<Tensor> got = compiled.run_ordered(inputs);
  if (test::sanitized()) return;  // its memory was judged; the reference takes ten times as long as the kernel
  CHECK(difference(got, interpret(g, inputs, params)) == "");
}

Graph stacked(const OpDef& op, DType t, int64_t batch, int64_t steps, int64_t width, int64_t hidden, int64_t layers,
              bool both, bool states, bool bound, bool relu) {
  bool is_lstm = &op == &op::lstm, is_gru = &op == &op::gru;
  int64_t d = both ? 2 : 1, rows = hidden * (is_lstm ? 4 : is_gru ? 3 : 1), blocks = layers * d;
  Graph g(text_of(op.name, " ", t, " batch ", batch, " steps ", steps, " in ", width, " hidden ", hidden, " layers ",
                  layers, both ? " both" : "", states ? " states" : "", bound ? " bound" : ""));
  auto weights = [&](const char* name, int64_t count) {
    return bound ? g.param(name, t, {count}) : g.input(name, t, {count});
  };
  std::vector<Value> in = {g.input("x", t, {batch, steps, width}),
                           weights("w_ih", rows * d * (width + (layers - 1) * d * hidden)),
                           weights("w_hh", blocks * rows * hidden), weights("bias", blocks * rows)};
  if (is_gru) in.push_back(weights("b_hh", blocks * rows));
  if (states) in.push_back(g.input("h0", t, {blocks, batch, hidden}));
  if (states && is_lstm) in.push_back(g.input("c0", t, {blocks, batch, hidden}));
  Attrs attrs = RecurrentAttrs{hidden, layers, both};
  if (&op == &op::rnn) attrs = RnnAttrs{hidden, layers, both, relu};
  for (const Value& v : g.emit(op, in, attrs)) g.output(v);
  return g;
}

}  // namespace

TEST_CASE("lstm, gru and rnn equal their references at any extents, weights bound or not") {
  for_each_target([] {
    Random random(3);
    for (const OpDef* op : {&op::lstm, &op::gru, &op::rnn})
      for (DType t : {f32, f64})
        for (int64_t hidden : {1, 5, 16, 17, 40, 70})
          for (int64_t batch : {1, 2, 7, 13}) {
            auto coin = [&] { return random.below(2) == 1; };
            int64_t layers = 1 + random.below(3), width = 1 + random.below(20), steps = 1 + random.below(4);
            check(stacked(*op, t, batch, steps, width, hidden, layers, coin(), coin(), coin(), coin()),
                  1 + static_cast<int>(random.below(3)), hidden);
          }
  });
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "lstm, gru and rnn of f16 and bf16 are the references in f64, rounded, by tiles and without") {
  for_each_target([] {
    Random random(6);
    for (const OpDef* op : {&op::lstm, &op::gru, &op::rnn})
      for (DType t : {f16, bf16})
        for (int64_t hidden : {1, 5, 16, 17, 40, 70, 150})
          for (int64_t batch : {1, 2, 7, 16, 35}) {
            auto coin = [&] { return random.below(2) == 1; };
            int64_t layers = 1 + random.below(2), width = 1 + random.below(20), steps = 1 + random.below(4);
            check(stacked(*op, t, batch, steps, width, hidden, layers, coin(), coin(), coin(), coin()),
                  1 + static_cast<int>(random.below(3)), hidden);
          }
  });
  // More than 1024 units are summed up in parts.
  check(stacked(op::lstm, bf16, 3, 2, 8, 1100, 1, false, true, true, false), 1, 1100);
  check(stacked(op::gru, bf16, 3, 2, 8, 1100, 1, true, true, true, false), 2, 1100);
}

TEST_CASE_FIXTURE(MatrixTiles,
                  "gates of bf16 are right for every sum, up to infinity, and a NaN stays with its sequence") {
  // One step from given states without weights: the sums are the bias.
  constexpr int64_t kUnits = 48, kBatch = 3;
  for (const OpDef* op : {&op::lstm, &op::gru}) {
    const bool is_lstm = op == &op::lstm;
    const int64_t rows = (is_lstm ? 4 : 3) * kUnits;
    Graph g("gates");
    std::vector<Value> in = {g.input("x", bf16, {kBatch, 1, 1}), g.param("w_ih", bf16, {rows}),
                             g.param("w_hh", bf16, {rows * kUnits}), g.param("bias", bf16, {rows})};
    if (!is_lstm) in.push_back(g.param("b_hh", bf16, {rows}));
    in.push_back(g.input("h0", bf16, {1, kBatch, kUnits}));
    if (is_lstm) in.push_back(g.input("c0", bf16, {1, kBatch, kUnits}));
    for (const Value& v : g.emit(*op, in, RecurrentAttrs{kUnits, 1, false})) g.output(v);
    const double sums[] = {0,    1e-38,    -1e-30, 1e-20, -1e-6, 0.01, -0.06, 0.0624, 0.126, -0.124, 0.5,
                           -1,   2,        -3.5,   6,     -9,    20,   -40,   87,     -89,   120,    -3e38,
                           3e38, INFINITY, -0.0,   0.7,   -0.26, 1.1,  -1.7,  4.2,    -5.1,  1e-3,   -INFINITY};
    std::map<std::string, Tensor> params;
    for (Ref r : g.params()) params[g.node(r).name] = Tensor(bf16, shape_of(g.type(r).dims));
    for (int64_t i = 0; i < rows; ++i)
      store(params["bias"], static_cast<size_t>(i),
            sums[static_cast<size_t>(i * 7 + i / kUnits * 5) % std::size(sums)]);
    std::vector<Tensor> inputs;
    for (Ref r : g.inputs()) inputs.push_back(numbers(g.type(r), 1, 3));
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
    for (const auto& [name, value] : params) compiled.set_param(name, value);
    CHECK(difference(compiled.run_ordered(inputs), interpret(g, inputs, params)) == "");
    // A NaN of a state is in all of its sequence then, and in no other.
    store(inputs[1], 0, std::nan(""));
    const std::vector<Tensor> got = compiled.run_ordered(inputs), wanted = interpret(g, inputs, params);
    for (size_t i = 0; i < wanted[0].element_count(); ++i) {
      INFO(op->name, ' ', i);
      CHECK(std::isnan(load<double>(got[0], i)) == std::isnan(load<double>(wanted[0], i)));
    }
  }
}

TEST_CASE("a layer of lstm and its way back equal what they are made of at any extents") {
  for_each_target([] {
    Random random(4);
    for (DType t : {f32, f64})
      for (int64_t hidden : {1, 5, 16, 17, 64, 70, 150})
        for (int64_t batch : {0, 1, 2, 7, 13}) {
          const int64_t steps = random.below(5);
          const bool reverse = random.below(2) == 1;
          const Dims gates = {batch, steps, 4 * hidden}, y = {batch, steps, hidden}, state = {batch, hidden},
                     w_hh = {4 * hidden, hidden};
          auto run = [&](const OpDef& op, const std::vector<Dims>& dims) {
            Graph g(text_of(op.name, " ", t, " batch ", batch, " steps ", steps, " hidden ", hidden,
                            reverse ? " reverse" : ""));
            std::vector<Value> in;
            for (const Dims& d : dims) in.push_back(g.input(text_of("x", in.size()), t, d));
            for (const Value& v : g.emit(op, in, LstmLayerAttrs{reverse})) g.output(v);
            check(g, 1 + static_cast<int>(random.below(3)), hidden);
          };
          run(op::lstm_layer, {gates, w_hh, state, state});
          run(op::lstm_layer_backward, {gates, y, w_hh, state, y, state, state});
        }
  });
}

TEST_CASE("no steps, no sequences and no inputs leave the states as they were") {
  for (const OpDef* op : {&op::lstm, &op::gru, &op::rnn})
    for (bool bound : {false, true})
      for (bool states : {false, true}) {
        check(stacked(*op, f32, 2, 0, 3, 4, 2, true, states, bound, false), 2);
        check(stacked(*op, f32, 0, 3, 3, 4, 2, true, states, bound, false), 2);
        check(stacked(*op, f32, 2, 3, 0, 4, 1, false, states, bound, false), 2);
      }
}

TEST_CASE("selective_scan, mamba2 and gated_delta_net equal their references at any extents") {
  for_each_target([] {
    Random random(5);
    for (DType t : {f32, f64})
      for (int64_t columns : {1, 15, 16, 17, 64, 65, 130})
        for (int64_t n : {0, 1, 2, 5, 16}) {
          int64_t batch = 1 + random.below(2), steps = random.below(4), heads = 1 + random.below(3);
          bool state = random.below(2) == 1, per_channel = random.below(2) == 1;
          auto run = [&](const OpDef& op, std::vector<Dims> dims, const Dims& last) {
            Graph g(text_of(op.name, " ", t, " columns ", columns, " n ", n, " steps ", steps, " heads ", heads));
            std::vector<Value> in;
            if (state) dims.push_back(last);
            for (const Dims& d : dims) in.push_back(g.input(text_of("x", in.size()), t, d));
            for (const Value& v : g.emit(op, in)) g.output(v);
            check(g, 1 + static_cast<int>(random.below(3)));
          };
          Dims x = {batch, steps, columns}, row = {batch, steps, n}, gate = {batch, steps, heads};
          run(op::selective_scan, {x, x, {columns, n}, row, row}, {batch, columns, n});
          Dims wide = {batch, steps, heads, columns}, key = {batch, steps, heads, n};
          run(op::mamba2, {wide, gate, {heads}, key, key}, {batch, heads, columns, n});
          run(op::gated_delta_net, {key, key, wide, per_channel ? key : gate, gate}, {batch, heads, n, columns});
        }
  });
}
