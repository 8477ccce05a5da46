// What the published system is known to get wrong, op by op, and what is right: one row a mistake, with numbers that
// can be worked out by hand or are in the source that the row names. By the reference and on the CPU, whole and in
// parts.
#include <doctest/doctest.h>

#include "ops/tables.h"
#include "rlx/session.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const Row kRows[] = {
    {"a cast copied bits: it converts values, and truncates",
     "convert",
     "{dtype = i32}",
     {"f32[3] [1.9, -1.9, 300]"},
     {"i32[3] [1, -1, 300]"}},
    {"to bool: whether it is not 0",
     "convert",
     "{dtype = bool}",
     {"f32[3] [0, 0.25, -2]"},
     {"bool[3] [false, true, true]"}},
    {"rounding went away from zero: halves go to even",
     "round_nearest_even",
     "",
     {"f32[6] [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]"},
     {"f32[6] [0, 2, 2, -0, -2, -2]"}},
    {"quantizing rounded away from zero: halves go to even",
     "quantize",
     "",
     {"f32[4] [0.5, 1.5, 2.5, -2.5]", "f32[] [1]"},
     {"i8[4] [0, 2, 2, -2]"}},
    {"the quantized product rounded away from zero: halves go to even",
     "qmatmul",
     "{multiplier = 0.5}",
     {"i8[1, 1] [1]", "i8[1, 3] [1, 3, 5]", "i32[3] [0, 0, 0]"},
     {"i8[1, 3] [0, 2, 2]"}},
    {"erf was a polynomial of seven digits",
     "erf",
     "",
     {"f64[2] [0.5, 1]"},
     {"f64[2] [0.5204998778130465, 0.8427007929497149]"}},
    {"a reduction over axes that are not neighbours did nothing",
     "reduce",
     "{axes = [0, 2]}",
     {"f32[2, 2, 2] [1, 2, 3, 4, 5, 6, 7, 8]"},
     {"f32[2] [14, 22]"}},
    {"softmax took the last axis for every one",
     "softmax",
     "{axis = 0}",
     {"f64[2, 2] [0, 5, 0, 5]"},
     {"f64[2, 2] [0.5, 0.5, 0.5, 0.5]"}},
    {"running sums knew the last axis only",
     "cumsum",
     "{axis = 0}",
     {"f32[3, 2] [1, 2, 3, 4, 5, 6]"},
     {"f32[3, 2] [1, 2, 4, 6, 9, 12]"}},
    {"exclusive running maxima begin with the lowest value",
     "cummax",
     "{axis = 0, exclusive = true}",
     {"f32[3] [1, 5, 2]"},
     {"f32[3] [-inf, 1, 5]"}},
    {"layer_norm knew the last axis only",
     "layer_norm",
     "{axis = 0, epsilon = 0, has_gamma = false, has_beta = false}",
     {"f64[2, 2] [1, 1, 3, 3]"},
     {"f64[2, 2] [-1, -1, 1, 1]"}},
    {"a product flattened unequal batches: they broadcast",
     "matmul",
     "",
     {"f32[2, 1, 1, 1] [1, 10]", "f32[3, 1, 1] [1, 2, 3]"},
     {"f32[2, 3, 1, 1] [1, 2, 3, 10, 20, 30]"}},
    {"gathering along an inner axis lost the dims in front of it",
     "take",
     "{axis = 1}",
     {"f32[2, 3] [1, 2, 3, 4, 5, 6]", "i32[2] [2, 0]"},
     {"f32[2, 2] [3, 1, 6, 4]"}},
    {"indices were not checked: out of range reads as NaN",
     "take",
     "",
     {"f32[2] [1, 2]", "i32[3] [1, 2, -1]"},
     {"f32[3] [2, nan, nan]"}},
    {"of equals the first is the greatest", "argmax", "{axis = 0}", {"f32[4] [1, 7, 7, 0]"}, {"i32[] [1]"}},
    {"top_k gave places alone, as floats: values and integers, of equals the smaller place",
     "top_k",
     "{k = 2}",
     {"f32[4] [3, 9, 1, 9]"},
     {"f32[2] [9, 9]", "i32[2] [1, 3]"}},
    {"a histogram's last bin is closed, and what lies outside is not counted",
     "histogram",
     "{bins = 2, min = 0, max = 2}",
     {"f32[6] [0, 0.5, 1, 2, 2.5, -1]"},
     {"i32[2] [2, 2]"}},
    {"min and prod pools were sums",
     "pool",
     "{kind = min, kernel_size = [2]}",
     {"f32[1, 1, 4] [3, 2, 5, 7]"},
     {"f32[1, 1, 2] [2, 5]"}},
    {"and so was prod",
     "pool",
     "{kind = prod, kernel_size = [2]}",
     {"f32[1, 1, 4] [3, 2, 5, 7]"},
     {"f32[1, 1, 2] [6, 35]"}},
    {"a batch beyond the first was read from the wrong place: resizing",
     "resize_nearest2x",
     "",
     {"f32[2, 1, 1, 1] [1, 2]"},
     {"f32[2, 1, 2, 2] [1, 1, 1, 1, 2, 2, 2, 2]"}},
    {"and group_norm",
     "group_norm",
     "{num_groups = 1, epsilon = 0, has_gamma = false, has_beta = false}",
     {"f64[2, 2, 1, 1] [1, 3, 10, 30]"},
     {"f64[2, 2, 1, 1] [-1, 1, -1, 1]"}},
    {"and axial_rope2d: the tokens of each batch begin at 0; the second stands at x = 1",
     "axial_rope2d",
     "{end_x = 2}",
     {"f64[2, 2, 4] [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]"},
     {"f64[2, 2, 4] [1, 0, 1, 0, 0.5403023058681398, 0.8414709848078965, 1, 0, 1, 0, 1, 0, 0.5403023058681398, "
      "0.8414709848078965, 1, 0]"}},
    // dx = r (ct - x r^2 mean(ct x)), r = 1 / sqrt(12.5), mean(ct x) = 1.5.
    {"the gradient of rms_norm had r^4 for r^3",
     "rms_norm_backward",
     "{epsilon = 0, has_gamma = false, has_beta = false}",
     {"f64[1, 2] [3, 4]", "f64[1, 2] [1, 0]"},
     {"f64[1, 2] [0.18101933598375616, -0.13576450198781712]"}},
    {"rope strode its tables by half a head: by their own rows",
     "rope",
     "{layout = packed, rotary_dims = 2}",
     {"f64[1, 2, 4] [1, 2, 3, 4, 1, 2, 3, 4]", "f64[2, 1] [1, 0]", "f64[2, 1] [0, 1]"},
     {"f64[1, 2, 4] [1, 2, 3, 4, -2, 1, 3, 4]"}},
    // Weights e^-20 / (1 + e^-20): far below 1e-8, and the whole result.
    {"probabilities below 1e-8 were left out of attention",
     "attention",
     "{scale = 1}",
     {"f64[1, 1, 1, 1] [1]", "f64[1, 1, 2, 1] [0, -20]", "f64[1, 1, 2, 1] [0, 1e9]"},
     {"f64[1, 1, 1, 1] [2.0611536181902037]"}},
    {"masked keys had scores of -1e9: a query that sees none gives zeros",
     "attention",
     "{mask = key_padding}",
     {"f64[1, 1, 1, 1] [1]", "f64[1, 1, 2, 1] [1, 2]", "f64[1, 1, 2, 1] [5, 7]", "bool[1, 2] [false, false]"},
     {"f64[1, 1, 1, 1] [0]"}},
    {"causal masks count from the last key: one query behind a cache sees all of it",
     "attention",
     "{causal = true, scale = 0}",
     {"f64[1, 1, 1, 1] [1]", "f64[1, 1, 3, 1] [1, 2, 3]", "f64[1, 1, 3, 1] [3, 6, 9]"},
     {"f64[1, 1, 1, 1] [6]"}},
    {"a window of w shows w + 1 keys, counted from the query's own place",
     "attention",
     "{causal = true, window = 1, scale = 0}",
     {"f64[1, 1, 1, 1] [1]", "f64[1, 1, 3, 1] [1, 2, 3]", "f64[1, 1, 3, 1] [3, 6, 9]"},
     {"f64[1, 1, 1, 1] [7.5]"}},
    // Scores 4 and 0: scaled to 2 and 0, capped to tanh(2) and 0; the weight of the first is 1 / (1 + e^-tanh(2)).
    {"scale and soft-cap were ignored: first the scale, then the cap",
     "attention",
     "{scale = 0.5, softcap = 1}",
     {"f64[1, 1, 1, 1] [1]", "f64[1, 1, 2, 1] [4, 0]", "f64[1, 1, 2, 1] [1, 0]"},
     {"f64[1, 1, 1, 1] [0.7239274686640463]"}},
    {"f8e4m3 ended at 240: codes of the highest exponent are numbers, up to 448",
     "convert",
     "{dtype = f32}",
     {"f8e4m3fn[3] [256, 448, -448]"},
     {"f32[3] [256, 448, -448]"}},
    {"four bits were unsigned: i4 has a sign",
     "convert",
     "{dtype = f32}",
     {"i4[4] [-8, -1, 0, 7]"},
     {"f32[4] [-8, -1, 0, 7]"}},
    // Random123 1.14, kat_vectors: philox 4x32 10, key and counter 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
    {"philox had a multiplier of its own",
     "rng_bits",
     "{dims = [4]}",
     {"u32[2] [0, 0]"},
     {"u32[4] [1713891541, 3781805453, 3159862348, 2600524760]"}},
    {"the inverse transform was unscaled: ifft undoes fft",
     "fft",
     "{kind = ifft}",
     {"c128[2] [(3, 0), (-1, 0)]"},
     {"c128[2] [(1, 0), (2, 0)]"}},
    {"kv_append is the cache with the row in it",
     "kv_append",
     "{axis = 0}",
     {"f32[3] [1, 2, 3]", "f32[1] [9]", "i32[] [1]"},
     {"f32[3] [1, 9, 3]"}},
};

std::string on_the_cpu(const Graph& g, Tensors inputs, Tensors wanted, double tolerance) {
  return difference(Session(Device::cpu(), {2}).compile(g).run_ordered(inputs), wanted, tolerance);
}

}  // namespace

TEST_CASE("what the published system gets wrong is right, by the reference and on the CPU") {
  for (const Row& row : kRows) {
    std::string why;
    try {
      const OpDef& op = find_op(row.op);
      Attrs attrs = attrs_of(op, row.attrs);
      std::vector<Tensor> inputs, wanted;
      for (std::string_view text : row.inputs) inputs.push_back(tensor_of(text));
      for (std::string_view text : row.wanted) wanted.push_back(tensor_of(text));
      auto build = [&](Values v) { return Many<Value>(v[0].graph().emit(op, {v.begin(), v.end()}, attrs)); };
      why = mismatch(build, inputs, wanted, 1e-14);
      std::vector<Type> types;
      for (const Tensor& t : inputs) types.push_back(t.type());
      if (why.empty()) why = on_the_cpu(trace(types, build), inputs, wanted, 1e-14);
    } catch (const Error& error) {
      why = error.what();
    }
    CHECK_MESSAGE(why.empty(), row.title, " (", row.op, "): ", why);
  }
}

TEST_CASE("comparisons and choices broadcast") {
  auto build = [](Values v) { return select(compare(v[0], v[1], Comparison::gt), v[0], v[1]); };
  std::vector<Tensor> inputs = {vector_of(f32, {1, 5, 3}), tensor(f32, {}, {3})}, wanted = {vector_of(f32, {3, 5, 3})};
  CHECK(mismatch(build, inputs, wanted) == "");
  CHECK(on_the_cpu(trace(std::array{inputs[0].type(), inputs[1].type()}, build), inputs, wanted, -1) == "");
}

TEST_CASE("a singular system does not abort: its solution is not finite") {
  Tensor x =
      run_op(op::solve, SolveAttrs{}, std::array{tensor(f64, {2, 2}, {1, 2, 2, 4}), tensor(f64, {2}, {1, 1})})[0];
  CHECK(!std::isfinite(load<double>(x, 0)));
}

TEST_CASE("what stretches an extent other than 1 is refused") {
  CHECK(refusal([](Values v) { return expand(v[0], {4}); }, {{f32, {2}}}).find("2") != std::string::npos);
}

TEST_CASE("the gradient of attention knows scale and soft-cap") {
  // y = the weight of the first of two keys, of scores s k and 0: weight w = 1 / (1 + e^-c), c = tanh(q k / 2), so that
  // dy / dq = w (1 - w) (1 - c^2) k / 2.
  AttentionAttrs attrs{.scale = 0.5, .softcap = 1.0};
  double c = std::tanh(1.0), w = 1 / (1 + std::exp(-c)), wanted = w * (1 - w) * (1 - c * c) * 4 / 2;
  std::vector<Tensor> in = {tensor(f64, {1, 1, 1, 1}, {0.5}), tensor(f64, {1, 1, 2, 1}, {4, 0}),
                            tensor(f64, {1, 1, 2, 1}, {1, 0}), tensor(f64, {1, 1, 1, 1}, {1})};
  auto got = run_op(op::attention_backward, attrs, in);
  CHECK(load<double>(got[0], 0) == doctest::Approx(wanted).epsilon(1e-13));
}

TEST_CASE("a token without probability is never drawn, and two draws with two keys differ") {
  Graph g = trace(std::array{Type{u32, {2}}, Type{f32, {64, 2}}}, [](Values v) { return sample(v[0], v[1]); });
  std::vector<double> logits;
  for (int i = 0; i < 64; ++i) logits.insert(logits.end(), {-INFINITY, 0});
  for (double seed = 0; seed < 8; ++seed) {
    Tensor tokens = interpret(g, std::array{tensor(u32, {2}, {seed, 0}), tensor(f32, {64, 2}, logits)})[0];
    for (size_t i = 0; i < 64; ++i) CHECK(load<int64_t>(tokens, i) == 1);
  }
  auto bits = [](double seed) {
    return run_op(op::rng_bits, RngBitsAttrs{RngAlgorithm::philox, {8}}, std::array{tensor(u32, {2}, {seed, 0})})[0];
  };
  CHECK(!(bits(1) == bits(2)));
}
