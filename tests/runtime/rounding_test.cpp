// The option `rounding`: strict rounds f16 and bf16 after each op, relaxed only where a fused op ends.
#include <doctest/doctest.h>

#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

CompileOptions with(Rounding rounding) {
  CompileOptions options;
  options.rounding = rounding;
  return options;
}
Tensor run(const Graph& g, Tensors inputs, Rounding rounding, int threads = 1) {
  return Session(Device::cpu(), {threads}).compile(g, with(rounding)).run_ordered(inputs)[0];
}
Tensor numbers(DType dtype, const std::vector<double>& values) {
  Tensor t(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) store<double>(t, i, values[i]);
  return t;
}
size_t count(const Graph& g, std::string_view op) {
  return static_cast<size_t>(
      std::count_if(g.nodes().begin(), g.nodes().end(), [&](const Node& n) { return n.op->name == op; }));
}

/// relu(x w + b) + x, its norm, and a chain behind it.
Graph layer(DType dtype) {
  Graph g("layer");
  Value x = g.input("x", dtype, {5, 16}), w = g.param("w", dtype, {16, 16}), b = g.param("b", dtype, {16});
  Value gamma = g.param("gamma", dtype, {16}), beta = g.param("beta", dtype, {16});
  Value y = relu(matmul(x, w) + b) + x;
  y = layer_norm(y + x, gamma, beta);
  g.output(tanh(y) * 0.5 + sqrt(abs(y)));
  return g;
}
std::map<std::string, Tensor> params_of(const Graph& g) {
  std::map<std::string, Tensor> all;
  for (Ref r : g.params()) {
    const Type& t = g.type(r);
    all[g.node(r).name] = random_tensor(t.dtype, shape_of(t.dims), hash_of(g.node(r).name), -0.5, 0.5);
  }
  return all;
}

}  // namespace

TEST_CASE("strict rounds between the ops of a fused chain, relaxed at its end") {
  struct Row {
    DType dtype;
    double large;  // the next number of the dtype is large + 2
  };
  for (Row row : {Row{f16, 2048}, Row{bf16, 256}}) {
    Graph g;
    Value x = g.input("x", row.dtype, {3});
    g.output((x + 1.0) - x);
    Tensor in = numbers(row.dtype, {row.large, 1, -row.large});
    CHECK(run(g, std::array{in}, Rounding::strict) == numbers(row.dtype, {0, 1, 1}));
    CHECK(run(g, std::array{in}, Rounding::relaxed) == numbers(row.dtype, {1, 1, 1}));
  }
}

TEST_CASE("what overflows between the ops of a chain overflows under strict alone") {
  Graph g;
  Value x = g.input("x", f16, {2});
  g.output(x * x / x);
  Tensor in = numbers(f16, {1000, 3});
  CHECK(run(g, std::array{in}, Rounding::strict) == numbers(f16, {INFINITY, 3}));
  CHECK(run(g, std::array{in}, Rounding::relaxed) == in);
}

TEST_CASE("ops of f16 and bf16 are fused under relaxed as those of f32 are, and agree with the reference") {
  Graph wide = legalize(layer(f32), Device::cpu());
  CHECK(count(wide, "fused_matmul") == 1);
  CHECK(count(wide, "fused_residual_layer_norm") == 1);
  for (DType dtype : {f16, bf16}) {
    Graph g = layer(dtype);
    CHECK(count(legalize(g, Device::cpu()), "fused_matmul") == 0);
    Graph legal = legalize(g, Device::cpu(), with(Rounding::relaxed));
    CHECK(count(legal, "fused_matmul") == 1);
    CHECK(count(legal, "fused_residual_layer_norm") == 1);
    CHECK(dispatch_report(g, Device::cpu(), with(Rounding::relaxed)).all_native());
    auto params = params_of(g);
    Tensor x = random_tensor(dtype, {5, 16}, 3);
    auto wanted = interpret(g, std::array{x}, params);
    for (int threads : {1, 3}) {
      CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g, with(Rounding::relaxed));
      for (const auto& [name, value] : params) compiled.set_param(name, value);
      CHECK(difference(compiled.run_ordered(std::array{x}), wanted) == "");
    }
  }
}

TEST_CASE("relaxed changes nothing in f32 and f64") {
  for (DType dtype : {f32, f64})
    CHECK(legalize(layer(dtype), Device::cpu(), with(Rounding::relaxed)) == legalize(layer(dtype), Device::cpu()));
}

TEST_CASE("the two policies do not share a compiled graph") {
  Session session;
  Graph g = layer(f16);
  CHECK(session.compile(g, with(Rounding::relaxed)).config().cache_key() != session.compile(g).config().cache_key());
  CHECK(!(session.compile(g, with(Rounding::relaxed)).lowered() == session.compile(g).lowered()));
}
