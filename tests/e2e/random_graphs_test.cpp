// Graphs drawn at random, compiled every way there is, against the reference. The draw favours what the passes look
// for: layers with bias, activation and residual, norms of sums, products that share an operand, attention written out,
// chains of element-wise ops and views between them. A failure prints the graph and the seed that draws it.
#include <doctest/doctest.h>

#include <random>

#include "ir/text.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/default_device.h"
#include "support/io_files.h"
#include "support/sanitized.h"
#include "support/tolerance.h"

using namespace rlx;

namespace {

struct Drawer {
  std::mt19937_64 bits;
  DType dtype;
  Graph g{"random"};
  std::vector<Value> pool = {};

  size_t below(size_t n) { return bits() % n; }
  bool chance(size_t one_in) { return below(one_in) == 0; }
  Value any() { return pool[below(pool.size())]; }
  /// Favours what was made last, so that graphs grow deep.
  Value recent() { return pool[pool.size() - 1 - std::min(below(pool.size()), below(4))]; }
  int64_t axis_of(Value x) { return static_cast<int64_t>(below(static_cast<size_t>(x.rank()))); }
  Value param(Dims dims) { return g.param(text_of("p", g.params().size()), dtype, std::move(dims)); }
  Value constant(const Shape& shape) { return g.constant(random_tensor(dtype, shape, bits(), -1, 1)); }
  Value weight(Dims dims) { return chance(4) ? constant(shape_of(dims)) : param(std::move(dims)); }
  Dim last(Value x) { return x.dims().back(); }
  Value like(Value x) {
    for (size_t i = 0; i < 8; ++i)
      if (Value y = any(); y.dims() == x.dims()) return y;
    return x;
  }

  Value layer(Value x) {
    Dim in = last(x), out = chance(2) ? in : Dim(static_cast<int64_t>(1 + below(9)));
    Value y;
    switch (below(3)) {
      case 0: y = linear(x, weight({out, in}), chance(2) ? weight({out}) : Value()); break;
      case 1: y = matmul(x, weight({in, out})); break;
      default: y = matmul(x, transpose(weight({out, in}), {1, 0})); break;
    }
    y = y * 0.3;
    if (chance(2)) y = y + weight({out});
    if (chance(2)) y = activation(y);
    if (out == in && chance(2)) y = chance(2) ? y + x : x + y;
    return y;
  }
  Value activation(Value x) {
    switch (below(9)) {
      case 0: return gelu(x);
      case 1: return relu(x);
      case 2: return silu(x);
      case 3: return tanh(x);
      case 4: return logistic(x);
      case 5: return x * logistic(x);
      case 6: return 0.5 * x * (1.0 + erf(x * 0.7071067811865476));
      case 7: return clamp(x, -0.5, 0.75);
      default: return leaky_relu(x, 0.1);
    }
  }
  Value norm(Value x) {
    // Rows of fewer than three have a variance that may vanish, and then the quotient is noise.
    if (last(x).value() < 3) return x;
    Value sum = chance(2) ? x + like(x) : x;
    sum = sum + broadcast_to(constant({last(x).value()}), x.dims());
    if (chance(3)) return rms_norm(sum, weight({last(x)}), {}, 0.1);
    return layer_norm(sum, weight({last(x)}), chance(2) ? weight({last(x)}) : Value(), 0.1);
  }
  Value written_out_attention(Value x) {
    if (x.rank() != 2) return x;
    Dim n = x.dim(0), d = 4;
    Value q = linear(x, weight({d, last(x)})), k = linear(x, weight({d, last(x)})), v = linear(x, weight({d, last(x)}));
    Value scores = matmul(q, transpose(k, {1, 0})) * 0.2;
    if (chance(2)) scores = scores + constant({n.value()});
    return matmul(softmax(scores), v);
  }
  Value shuffled(Value x) {
    auto rank = static_cast<size_t>(x.rank());
    switch (below(9)) {
      case 0: {
        Axes order = axes_from(0, rank);
        std::shuffle(order.begin(), order.end(), bits);
        return transpose(x, order);
      }
      case 1: return reshape(x, {-1});
      case 2: return rank == 2 ? reshape(x, {x.dim(1), x.dim(0)}) : expand_dims(x, 0);
      case 3: {
        int64_t axis = axis_of(x), extent = x.dim(axis).value();
        return extent < 2 ? x : slice_axis(x, axis, static_cast<int64_t>(below(2)), extent);
      }
      case 4: return reverse(x, {axis_of(x)});
      case 5: return concatenate({x, like(x)}, axis_of(x));
      case 6: return pad_mode(x, PadMode::constant, Dims(rank, 1), Dims(rank, 0), 0.25);
      case 7: return roll(x, {static_cast<int64_t>(below(5)) - 2}, {axis_of(x)});
      default: return tile(x, Dims(rank, chance(3) ? 2 : 1));
    }
  }
  Value reduced(Value x) {
    int64_t axis = axis_of(x);
    bool keep = chance(2);
    if (x.dim(axis).value() == 0) return x;
    Value y = below(3) == 0 ? reduce_max(x, {axis}, keep) : mean(x, {axis}, keep);
    return keep && chance(2) ? x - y : y;
  }
  Value chosen(Value x) {
    auto branch = [&](auto body) {
      Graph b;
      Value v = b.input("v", x.type());
      b.output(body(v));
      return b;
    };
    Value condition = g.constant(Tensor::scalar(chance(2)));
    return if_else(condition, {x}, branch([](Value v) { return tanh(v) - v; }),
                   branch([](Value v) { return v * v * 0.5; }))[0];
  }

  void step() {
    Value x = chance(3) ? any() : recent();
    Value y;
    switch (below(14)) {
      case 0:
      case 1:
      case 2: y = layer(x); break;
      case 3: y = activation(x); break;
      case 4: y = norm(x); break;
      case 5: y = written_out_attention(x); break;
      case 6:
      case 7: y = shuffled(x); break;
      case 8: y = reduced(x); break;
      case 9: y = x + like(x); break;
      case 10: y = x * like(x); break;
      case 11: y = softmax(x, axis_of(x)); break;
      case 12: y = chosen(x); break;
      default: y = take(x, g.constant(Tensor::of<int32_t>({3}, {0, 1, 0})), 0); break;
    }
    double elements = static_cast<double>(element_count(shape_of(y.dims())));
    // A product of values that are themselves products grows: bring everything back to where rounding is small.
    if (y.rank() > 0 && elements < 600) pool.push_back(chance(2) ? tanh(y) : clamp(y, -2, 2));
  }

  void draw() {
    pool = {g.input("a", dtype, {5, 6}), g.input("b", dtype, {2, 3, 4}), g.input("c", dtype, {6})};
    for (size_t i = 0, count = 4 + below(20); i < count; ++i) {
      if (chance(3)) g.set_scope(text_of("part.", below(3)));
      try {
        step();
      } catch (const Error&) {  // what does not fit is left out
      }
    }
    g.set_scope("");
    size_t outputs = 1 + below(3);
    for (size_t o = 0; o < outputs; ++o) g.output(pool[pool.size() - 1 - below(std::min<size_t>(pool.size(), 5))]);
  }
};

Graph drawn(uint64_t seed) {
  constexpr DType kDTypes[] = {f32, f32, f32, f64, f16, bf16};
  Drawer drawer{std::mt19937_64(seed), kDTypes[seed % 6]};
  drawer.draw();
  return std::move(drawer.g);
}

struct Way {
  std::string name;
  int threads = 1;
  CompileOptions options = {};
};
std::vector<Way> ways() {
  std::vector<Way> all = {{"one thread"}, {"three threads", 3}};
  Way common{"the common form"};
  common.options.kernel_dispatch = KernelDispatch::common;
  all.push_back(common);
  Way donating{"donated inputs"};
  donating.options.donate = {"a", "b", "c"};
  all.push_back(donating);
  return all;
}

}  // namespace

TEST_CASE(
    "graphs drawn at random give on the default device what they give by the reference, however they are compiled") {
  uint64_t first = std::strtoull(std::getenv("RLX_TEST_SEED"), nullptr, 10);
  const char* text_of_count = std::getenv("RLX_RANDOM_GRAPHS");
  uint64_t count = text_of_count ? std::strtoull(text_of_count, nullptr, 10) : test::sanitized() ? 60 : 250;
  size_t nodes = 0, taken = 0, refused = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Graph g = drawn(seed);
    nodes += g.nodes().size();
    std::vector<Tensor> inputs;
    std::map<std::string, Tensor> params;
    for (const Type& t : g.input_types())
      inputs.push_back(random_tensor(t.dtype, shape_of(t.dims), seed + inputs.size(), -1, 1));
    for (Ref r : g.params())
      params.emplace(g.node(r).name,
                     random_tensor(g.type(r).dtype, shape_of(g.type(r).dims), seed + 100 + params.size(), -1, 1));
    auto wanted = interpret(g, inputs, params);
    // Some twenty ops, each of which may round, one after another.
    double tolerance = 20 * tolerance_of(g.input_types()[0].dtype);
    for (const Way& way : ways()) {
      std::string why;
      try {
        test::DefaultDevice device(way.threads);
        auto compiled = device.compile(g, way.options);
        taken += device.taken(), refused += device.refused();
        if (!compiled) continue;
        for (const auto& [name, value] : params) compiled->set_param(name, value);
        why = difference(compiled->run_ordered(inputs), wanted, tolerance);
      } catch (const Error& e) {
        why = e.what();
      }
      CHECK_MESSAGE(why.empty(), "seed ", seed, ", ", way.name, ": ", why, "\n", text(g));
      if (!why.empty()) break;
    }
  }
  MESSAGE(count, " graphs of ", nodes / count, " nodes each; ", refused, " of ", taken + refused, " were refused");
  CHECK(taken > refused);
}

TEST_CASE("random graphs print, read back and are equal, and every stage of the pipeline computes the same") {
  uint64_t first = std::strtoull(std::getenv("RLX_TEST_SEED"), nullptr, 10);
  for (uint64_t seed = first; seed < first + (test::sanitized() ? 15 : 60); ++seed) {
    Graph g = drawn(seed);
    CHECK(parse_graph(text(g)) == g);
    Graph legal = legalize(g, Device::cpu());
    CHECK(parse_graph(text(legal)) == legal);
    CHECK(legal.output_types() == g.output_types());
  }
}
