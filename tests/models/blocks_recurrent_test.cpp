// Recurrent layers and cells beside torch.nn (tests/golden/generate/model_blocks.py).
#include "models/blocks_golden.h"
#include "support/io_files.h"

namespace rlx::test::blocks {
namespace {

constexpr RecurrentCell kCells[] = {RecurrentCell::rnn_tanh, RecurrentCell::rnn_relu, RecurrentCell::gru,
                                    RecurrentCell::lstm};
std::string name_of(RecurrentCell cell) { return std::string(names_of(RecurrentCell{})[static_cast<size_t>(cell)]); }

}  // namespace

TEST_CASE("recurrent layers are torch.nn's, from zeros and from a state, deep and in both directions or plain") {
  for (const RecurrentCell cell : kCells)
    for (const bool is_deep : {true, false}) {
      const std::string at = name_of(cell) + (is_deep ? "_deep" : "_plain");
      CAPTURE(at);
      const bool is_lstm = cell == RecurrentCell::lstm;
      const RecurrentLayersConfig config{
          .cell = cell, .hidden = 6, .layers = is_deep ? 2 : 1, .bidirectional = is_deep, .bias = is_deep};
      const std::vector<Tensor> out =
          made(at, {golden(at + "/in.x"), golden(at + "/in.h"), golden(at + "/in.c")},
               [&](ModelBuilder& b, const std::vector<Value>& in) {
                 RecurrentState state{.h = in[1], .c = is_lstm ? in[2] : Value{}};
                 Many<Value> all{recurrent_layers(b, in[0], "rnn", config),
                                 recurrent_layers(b, in[0], "rnn", config, &state), state.h};
                 if (is_lstm) all.push_back(state.c);
                 return all;
               });
      CHECK(worst_difference(out[0], golden(at + "/out.from_zeros")) < kTolerance);
      CHECK(worst_difference(out[1], golden(at + "/out.y")) < kTolerance);
      CHECK(worst_difference(out[2], golden(at + "/out.h")) < kTolerance);
      if (is_lstm) CHECK(worst_difference(out[3], golden(at + "/out.c")) < kTolerance);
    }
}

TEST_CASE("recurrent cells are torch.nn's") {
  for (const RecurrentCell cell : kCells) {
    const std::string at = name_of(cell) + "_cell";
    CAPTURE(at);
    const bool is_lstm = cell == RecurrentCell::lstm;
    const std::vector<Tensor> out = made(at, {golden(at + "/in.x"), golden(at + "/in.h"), golden(at + "/in.c")},
                                         [&](ModelBuilder& b, const std::vector<Value>& in) {
                                           RecurrentState state{.h = in[1], .c = is_lstm ? in[2] : Value{}};
                                           Value h = recurrent_cell(b, in[0], "cell", cell, 6, state);
                                           CHECK(h == state.h);
                                           Many<Value> all{h};
                                           if (is_lstm) all.push_back(state.c);
                                           return all;
                                         });
    CHECK(worst_difference(out[0], golden(at + "/out.h")) < kTolerance);
    if (is_lstm) CHECK(worst_difference(out[1], golden(at + "/out.c")) < kTolerance);
  }
}

TEST_CASE("a sequence that is read in parts, each from the state behind the last, is the whole sequence") {
  const std::string at = "lstm_plain";
  const Tensor x = golden(at + "/in.x");
  const std::vector<Tensor> out =
      made(at, {x, golden(at + "/in.h"), golden(at + "/in.c")}, [](ModelBuilder& b, const std::vector<Value>& in) {
        const RecurrentLayersConfig config{.hidden = 6, .bias = false};
        RecurrentState state{.h = in[1], .c = in[2]};
        Value first = recurrent_layers(b, slice_axis(in[0], 1, 0, 2), "rnn", config, &state);
        Value rest = recurrent_layers(b, slice_axis(in[0], 1, 2, 5), "rnn", config, &state);
        return Many<Value>{concatenate({first, rest}, 1), state.h, state.c};
      });
  CHECK(worst_difference(out[0], golden(at + "/out.y")) < kTolerance);
  CHECK(worst_difference(out[1], golden(at + "/out.h")) < kTolerance);
  CHECK(worst_difference(out[2], golden(at + "/out.c")) < kTolerance);
}

TEST_CASE("recurrent layers in halves are as near as their dtype allows") {
  for (const RecurrentCell cell : kCells)
    for (const DType dtype : {f16, bf16}) {
      const std::string at = name_of(cell) + "_deep";
      CAPTURE(at);
      CAPTURE(dtype);
      const RecurrentLayersConfig config{.cell = cell, .hidden = 6, .layers = 2, .bidirectional = true};
      const Tensor wanted = golden(at + "/out.from_zeros");
      const Tensor out = made(
          at, {as(golden(at + "/in.x"), dtype)},
          [&](ModelBuilder& b, const std::vector<Value>& in) { return recurrent_layers(b, in[0], "rnn", config); },
          dtype)[0];
      CHECK(worst_difference(out, wanted) < bound_of_halves(wanted, dtype, 8));
    }
}

TEST_CASE("recurrent blocks say what does not fit") {
  Graph g;
  ModelBuilder b(g);
  Value x = g.input("x", f32, {2, 3, 4}), h = g.input("h", f32, {1, 2, 5});
  const auto refusal = [&](auto build) { return std::string(error_of([&] { build(); }).what()); };
  RecurrentState half{.h = h}, none;
  CHECK(says(refusal([&] { recurrent_layers(b, x, "a", {.hidden = 5}, &half); }), "has h and c, or neither"));
  CHECK(says(refusal([&] { recurrent_layers(b, x, "b", {.layers = 0}); }), "0 recurrent layers"));
  CHECK(says(refusal([&] { recurrent_cell(b, x, "c", RecurrentCell::gru, 5, none); }),
             "one step [B, in], got f32[2, 3, 4]"));
}

}  // namespace rlx::test::blocks
