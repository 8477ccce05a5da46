// Hard cases of the sequence models, by arithmetic that can be done by hand. PyTorch's and JAX's numbers are in
// tests/golden.
#include "ops/hard_cases.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("a relu RNN whose weights are 1 sums up, forwards and backwards") {
  Build build = [](Values v) { return rnn(v[0], v[1], v[1], v[2], {1, 1, true, true}); };
  CHECK(mismatch_of_floats(build, {{{1, 4, 1}, {1, 2, 3, 4}}, {{2}, {1, 1}}, {{2}, {0, 0}}},
                           {{{1, 4, 2}, {1, 10, 3, 9, 6, 7, 10, 4}}, {{2, 1, 1}, {10, 10}}}) == "");
}
TEST_CASE("the second layer of an RNN sees both directions of the first") {
  Build build = [](Values v) { return rnn(v[0], v[1], v[2], v[3], {1, 2, true, true}); };
  // Layer 0 as above; layer 1 takes forwards + 100 backwards, without a memory of its own.
  CHECK(mismatch_of_floats(
            build, {{{1, 2, 1}, {1, 2}}, {{6}, {1, 1, 1, 100, 1, 100}}, {{4}, {1, 1, 0, 0}}, {{4}, {0, 0, 0, 0}}},
            {{{1, 2, 2}, {301, 301, 203, 203}}, {{4, 1, 1}, {3, 3, 203, 301}}}) == "");
}
TEST_CASE("an LSTM without weights halves its cell; a GRU its state") {
  double c1 = 0.4, h1 = 0.5 * std::tanh(c1), c2 = 0.2, h2 = 0.5 * std::tanh(c2);
  CHECK(mismatch_of_floats([](Values v) { return lstm(v[0], v[1], v[1], v[1], {1}, v[2], v[3]); },
                           {{{1, 2, 1}, {5, -5}}, {{4}, {0, 0, 0, 0}}, {{1, 1, 1}, {3}}, {{1, 1, 1}, {0.8}}},
                           {{{1, 2, 1}, {h1, h2}}, {{1, 1, 1}, {h2}}, {{1, 1, 1}, {c2}}}, 1e-6) == "");
  CHECK(mismatch_of_floats([](Values v) { return gru(v[0], v[1], v[1], v[1], v[1], {1}, v[2]); },
                           {{{1, 2, 1}, {5, -5}}, {{3}, {0, 0, 0}}, {{1, 1, 1}, {0.8}}},
                           {{{1, 2, 1}, {0.4, 0.2}}, {{1, 1, 1}, {0.2}}}) == "");
}
TEST_CASE("inputs as large as there are saturate the gates and give no NaN") {
  CHECK(mismatch_of_floats([](Values v) { return lstm(v[0], v[1], v[2], v[2], {1}); },
                           {{{1, 2, 1}, {1e30, 1e30}}, {{4}, {1, 1, 1, 1}}, {{4}, {0, 0, 0, 0}}},
                           {{{1, 2, 1}, {std::tanh(1), std::tanh(2)}}, {{1, 1, 1}, {std::tanh(2)}}, {{1, 1, 1}, {2}}},
                           1e-6) == "");
  CHECK(mismatch_of_floats([](Values v) { return gru(v[0], v[1], v[2], v[2], v[2], {1}, v[3]); },
                           {{{1, 1, 1}, {-1e30}}, {{3}, {1, 1, 1}}, {{3}, {0, 0, 0}}, {{1, 1, 1}, {7}}},
                           {{{1, 1, 1}, {-1}}, {{1, 1, 1}, {-1}}}, 1e-6) == "");
}
TEST_CASE("a NaN stays in its own sequence") {
  CHECK(mismatch_of_floats(
            [](Values v) {
              return rnn(v[0], v[1], v[1], v[2], {1, 1, false, true});
            },
            {{{2, 2, 1}, {kNaN, 1, 1, 1}}, {{1}, {1}}, {{1}, {0}}},
            {{{2, 2, 1}, {kNaN, kNaN, 1, 2}}, {{1, 2, 1}, {kNaN, 2}}}) == "");
}
TEST_CASE("separate weights, as PyTorch keeps them, are packed layer by layer and direction by direction") {
  // Two layers, two directions, one unit: w_ih, w_hh, b_ih, b_hh of each, of which each differs.
  auto weight = [](double first, int64_t columns) {
    std::vector<double> values;
    for (int64_t i = 0; i < 4 * columns; ++i) values.push_back(0.1 * first + 0.01 * double(i));
    return values;
  };
  std::vector<Numbers> in = {{{1, 3, 2}, {1, -1, 0.5, 2, -0.5, 0.25}}};
  std::vector<double> w_ih, w_hh, bias;
  for (int64_t block = 0; block < 4; ++block) {
    auto w = weight(double(block), 2), u = weight(double(block) - 2, 1), b = weight(1, 1), c = weight(-2, 1);
    in.push_back({{4, 2}, w}), in.push_back({{4, 1}, u}), in.push_back({{4}, b}), in.push_back({{4}, c});
    w_ih.insert(w_ih.end(), w.begin(), w.end()), w_hh.insert(w_hh.end(), u.begin(), u.end());
    for (size_t i = 0; i < 4; ++i) bias.push_back(b[i] + c[i]);
  }
  auto separate = [](Values v) {
    std::vector<RecurrentWeights> all;
    for (size_t i = 1; i < v.size(); i += 4) all.push_back({v[i], v[i + 1], v[i + 2], v[i + 3]});
    return lstm(v[0], all, true);
  };
  std::vector<Tensor> packed = {tensor(f64, {1, 3, 2}, in[0].values), vector_of(f64, w_ih), vector_of(f64, w_hh),
                                vector_of(f64, bias)};
  Graph g = trace(std::vector{packed[0].type(), packed[1].type(), packed[2].type(), packed[3].type()}, [](Values v) {
    return lstm(v[0], v[1], v[2], v[3], {1, 2, true});
  });
  std::vector<Tensor> given;
  for (const Numbers& n : in) given.push_back(tensor(f64, n.shape, n.values));
  CHECK(mismatch(separate, given, interpret(g, packed)) == "");
}

TEST_CASE("selective_scan and mamba2 that forget nothing sum up; a state that is given comes first") {
  CHECK(mismatch_of_floats([](Values v) { return selective_scan(v[0], v[1], v[2], v[1], v[1], v[3]); },
                           {{{1, 3, 1}, {1, 2, 3}}, {{1, 3, 1}, {1, 1, 1}}, {{1, 1}, {0}}, {{1, 1, 1}, {10}}},
                           {{{1, 3, 1}, {11, 13, 16}}, {{1, 1, 1}, {16}}}) == "");
  CHECK(mismatch_of_floats([](Values v) { return mamba2(v[0], v[1], v[2], v[3], v[3]); },
                           {{{1, 3, 1, 1}, {1, 2, 3}}, {{1, 3, 1}, {1, 2, 1}}, {{1}, {0}}, {{1, 3, 1, 1}, {1, 1, 1}}},
                           {{{1, 3, 1, 1}, {1, 5, 8}}, {{1, 1, 1, 1}, {8}}}) == "");
}
TEST_CASE("a decay of minus infinity forgets everything, and a state that had grown too large with it") {
  CHECK(mismatch_of_floats([](Values v) { return selective_scan(v[0], v[1], v[2], v[1], v[1], v[3]); },
                           {{{1, 1, 1}, {3}}, {{1, 1, 1}, {1}}, {{1, 1}, {-kInf}}, {{1, 1, 1}, {1e30}}},
                           {{{1, 1, 1}, {3}}, {{1, 1, 1}, {3}}}) == "");
}
TEST_CASE("what a gated delta net writes at a key replaces what was there; other keys keep theirs") {
  Numbers q{{1, 3, 1, 2}, {1, 0, 0, 1, 1, 0}}, v{{1, 3, 1, 1}, {5, 6, 7}}, g{{1, 3, 1}, {0, 0, 0}},
      beta{{1, 3, 1}, {1, 1, 1}};
  double root = std::sqrt(2);
  CHECK(mismatch_of_floats([](Values x) { return gated_delta_net(x[0], x[0], x[1], x[2], x[3]); }, {q, v, g, beta},
                           {{{1, 3, 1, 1}, {5 / root, 6 / root, 7 / root}}, {{1, 1, 2, 1}, {7, 6}}}, 1e-6) == "");
  // Half as sure, it goes half of the way; a gate per channel lets go of one key only.
  Numbers half{{1, 3, 1}, {0.5, 0.5, 0.5}}, one{{1, 3, 1, 2}, {0, -kInf, 0, 0, 0, -kInf}};
  CHECK(mismatch_of_floats([](Values x) { return gated_delta_net(x[0], x[0], x[1], x[2], x[3]); }, {q, v, one, half},
                           {{{1, 3, 1, 1}, {2.5 / root, 3 / root, 4.75 / root}}, {{1, 1, 2, 1}, {4.75, 0}}},
                           1e-6) == "");
}

TEST_CASE("sequence models refuse operands that do not fit, and say which and why") {
  auto attrs = RecurrentAttrs{2, 2, true};
  auto build = [&](Values v) { return v[0].graph().emit(op::lstm, {v.begin(), v.end()}, attrs); };
  std::vector<Type> in = {{f32, {2, 3, 5}}, {f32, {144}}, {f32, {64}}, {f32, {32}}};
  CHECK(text_of(trace(in, build).output_types()[0]) == "f32[2, 3, 4]");
  auto with = [&](size_t i, Type t) {
    auto other = in;
    if (i < other.size()) other[i] = t;
    else other.push_back(t);
    return refusal(build, other);
  };
  CHECK(with(0, {f32, {3, 5}}) == "x must be of rank 3, got f32[3, 5]");
  CHECK(with(1, {f32, {8, 5}}) ==
        "w_ih must be f32[144]: 2 layers in 2 directions of 8 rows and 5 columns; got f32[8, 5]");
  CHECK(with(2, {f32, {63}}) == "w_hh must be f32[64]: 2 layers in 2 directions of 8 rows and 2 columns; got f32[63]");
  CHECK(with(3, {f64, {32}}) == "operands must have one dtype, got f32[2, 3, 5] and f64[32]; convert one of them");
  CHECK(with(4, {f32, {4, 2, 2}}) == "lstm takes 4 operands, or with initial states 6; got 5");
  CHECK(refusal([](Values v) { return lstm(v[0], v[1], v[1], v[1], {1}, v[2]); },
                {{f32, {1, 1, 1}}, {f32, {4}}, {f32, {1, 1, 1}}}) ==
        "lstm starts from all of its states or from none; 1 of 2 are given");
  CHECK(refusal([](Values v) { return rnn(v[0], v[1], v[1], v[1], {0}); }, {{f32, {1, 1, 1}}, {f32, {1}}}) ==
        "hidden_size and num_layers must be at least 1, got 0 and 1");
  CHECK(refusal([](Values v) { return selective_scan(v[0], v[0], v[1], v[0], v[0]); },
                {{f32, {1, 2, 3}}, {f32, {3, 2}}}) == "b must be f32[1, 2, 2], got f32[1, 2, 3]");
  CHECK(refusal([](Values v) { return gated_delta_net(v[0], v[0], v[0], v[1], v[1]); },
                {{f32, {1, 2, 3, 4}}, {f32, {1, 2, 3, 4}}}) == "beta must be f32[1, 2, 3], got f32[1, 2, 3, 4]");
}

TEST_CASE("sequence models work on any batch and any number of steps") {
  Dim b = Dim::symbol("B"), s = Dim::symbol("S");
  std::vector<Type> types = {{f64, {b, s, 2}}, {f64, {8}}, {f64, {4}}, {f64, {4}}};
  Graph g = trace(types, [](Values v) { return lstm(v[0], v[1], v[2], v[3], {1}); });
  std::vector<Tensor> in = {random_tensor(f64, {3, 4, 2}, 1), random_tensor(f64, {8}, 2), random_tensor(f64, {4}, 3),
                            random_tensor(f64, {4}, 4)};
  CHECK(text_of(g.output_types()[0]) == "f64[B, S, 1]");
  CHECK(difference(interpret(made_of_primitives(g), in), interpret(g, in)) == "");
}
