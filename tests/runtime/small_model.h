// A graph that has a little of everything a run can meet: products with packed weights, norms, attention, a lookup,
// views, element-wise chains, control flow, several outputs, a symbolic length. For the tests of this folder.
#pragma once

#include <map>

#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

namespace rlx::test {

using Params = std::map<std::string, Tensor, std::less<>>;

/// tokens i32[length], gate bool[] -> "hidden" f32[length, 16], "pooled" f32[16], "best" i32[length, 2]
inline Graph small_model(Dim length = Dim::symbol("N")) {
  Graph g("small_model");
  Value tokens = g.input("tokens", i32, {length}), gate = g.input("gate", boolean, {});
  Value table = g.param("table", f32, {50, 16});
  auto weight = [&](const std::string& name, Dims dims) { return g.param(name, f32, std::move(dims)); };
  Value x = take(table, tokens);
  g.set_scope("attention");
  auto heads = [&](const std::string& name) {
    Value y = linear(x, weight(name + ".weight", {16, 16}), weight(name + ".bias", {16}));
    return transpose(reshape(y, {length, 4, 4}), {1, 0, 2});
  };
  Value q = heads("q"), k = heads("k"), v = heads("v");
  Value scores = softmax(matmul(q, transpose(k, {0, 2, 1})) * 0.5);
  Value mixed = reshape(transpose(matmul(scores, v), {1, 0, 2}), {length, 16});
  Value attended =
      layer_norm(x + linear(mixed, weight("o.weight", {16, 16})), weight("gamma", {16}), weight("beta", {16}));
  g.set_scope("ffn");
  Value inner = gelu(linear(attended, weight("in.weight", {64, 16}), weight("in.bias", {64})));
  Value hidden = attended + linear(inner, weight("out.weight", {16, 64}));
  g.set_scope("choice");
  auto branch = [&](const char* name, auto body) {
    Graph b(name);
    Value h = b.input("h", hidden.type());
    b.output(body(h));
    return b;
  };
  Value chosen = if_else(gate, {hidden}, branch("scaled", [](Value h) { return tanh(h) * 3.0; }),
                         branch("turned", [](Value h) { return reverse(h, {1}) - 1.0; }))[0];
  g.set_scope("");
  g.output(chosen, "hidden");
  g.output(l2_normalize(mean(chosen, {0})), "pooled");
  g.output(top_k(chosen, 2).indices, "best");
  return g;
}

inline Params small_params(uint64_t seed = 1) {
  Params all;
  Graph g = small_model();
  for (Ref r : g.params())
    all.emplace(g.node(r).name, random_tensor(g.type(r).dtype, shape_of(g.type(r).dims), seed + all.size(), -0.5, 0.5));
  return all;
}
inline std::vector<Tensor> small_inputs(int64_t length, uint64_t seed = 1) {
  Tensor tokens(i32, {length});
  for (int64_t i = 0; i < length; ++i)
    tokens.mutable_values<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>((static_cast<uint64_t>(i) * 2654435761u + seed * 40503u) % 50);
  return {tokens, Tensor::scalar(seed % 2 == 0)};
}

inline std::vector<Tensor> by_reference(const Graph& g, Tensors inputs, const Params& params = {}) {
  return interpret(g, inputs, {params.begin(), params.end()});
}

/// Products of f32 inside: sums of some hundred terms.
constexpr double kSmallModelTolerance = 2e-5;

}  // namespace rlx::test
