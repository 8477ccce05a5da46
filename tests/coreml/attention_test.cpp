// Attention where the operation of iOS 18 is not to be had, or means something else: products around MIL's `softmax`,
// which nothing writes out as exp and sums. Expected values are the reference's.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "backends/coreml/coreml.h"
#include "compile/pipeline.h"
#include "coreml/open_packages.h"
#include "coreml/samples.h"
#include "passes/legalize.h"
#include "rlx/ops.h"

using namespace rlx;
using namespace rlx::test;

namespace {

coreml::Translated attention_for(const Graph& g, int newest) {
  coreml::Options options{.newest_opset = newest, .narrow = true};
  Pipelined legal = run_pipeline(g, coreml::target(options), {});
  require_complete(legal.report, false);
  return coreml::translate(legal.graph, options);
}

/// How often the program has each operation.
std::map<std::string, int> operations_of_attention(const mil::Model& model) {
  std::map<std::string, int> counts;
  const mil::Function& main = model.program.functions.at("main");
  for (const mil::Operation& op : main.blocks.at(main.opset).operations) ++counts[op.type];
  return counts;
}

/// Nothing if the program has `softmaxes` of them and `products`, and nothing that composes one.
std::string wrong_operations(const mil::Model& model, int softmaxes, int products) {
  auto counts = operations_of_attention(model);
  std::string all;
  for (const auto& [op, n] : counts) all += text_of(op, " ", n, ", ");
  const bool composed = counts.contains("exp") || counts.contains("exp2") || counts.contains("reduce_log_sum_exp");
  return counts["softmax"] == softmaxes && counts["matmul"] == products && !composed ? "" : all;
}

Tensor random_of(const Type& t, unsigned seed) {
  Tensor x(t.dtype, shape_of(t.dims));
  uint64_t state = seed;
  for (size_t i = 0; i < x.element_count(); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const double v = static_cast<double>(state >> 40) / static_cast<double>(1 << 23) - 1;
    if (t.dtype == boolean) store<int64_t>(x, i, v > 0);
    else if (is_integer(t.dtype)) store<int64_t>(x, i, v > 0);
    else store<double>(x, i, v);
  }
  return x;
}

struct AttentionCase {
  const char* name;
  AttentionAttrs attrs;
  std::vector<Type> types;
  /// Changes the inputs.
  std::function<void(std::vector<Tensor>&)> change = [](std::vector<Tensor>&) {};
};

Graph graph_of(const AttentionCase& c, bool backward) {
  Graph g(c.name);
  std::vector<Value> in;
  const char* names[] = {"q", "k", "v", "mask"};
  for (size_t i = 0; i < c.types.size(); ++i) in.push_back(g.input(names[i], c.types[i]));
  Value y = in.size() > 3 ? attention(in[0], in[1], in[2], in[3], c.attrs) : attention(in[0], in[1], in[2], c.attrs);
  if (!backward) {
    g.output(y, "y");
    return g;
  }
  Value ct = g.input("ct", y.type());
  auto all = attention_backward(in[0], in[1], in[2], ct, in.size() > 3 ? in[3] : Value{}, c.attrs);
  g.output(all.q, "dq"), g.output(all.k, "dk"), g.output(all.v, "dv");
  if (all.bias) g.output(all.bias, "dbias");
  return g;
}

const float kNone = -std::numeric_limits<float>::infinity();
using enum AttentionLayout;
using Masks = AttentionMask;

std::vector<AttentionCase> attention_cases() {
  const Type q{f32, {2, 4, 3, 8}}, kv{f32, {2, 2, 5, 8}};
  auto first_row = [](size_t operand, double value) {
    return [operand, value](std::vector<Tensor>& in) {
      Tensor& t = in[operand];
      for (size_t i = 0; i < static_cast<size_t>(t.shape().back()); ++i) {
        if (t.dtype() == boolean) store<int64_t>(t, i, value != 0);
        else store<double>(t, i, value);
      }
    };
  };
  return {
      {"plain", {.heads = 4, .kv_heads = 2}, {q, kv, kv}},
      {"scaled and capped", {.heads = 4, .kv_heads = 2, .scale = 0.7, .softcap = 1.5}, {q, kv, kv}},
      {"causal", {.heads = 4, .kv_heads = 2, .causal = true}, {q, kv, kv}},
      {"window", {.heads = 4, .kv_heads = 2, .window = 1}, {q, kv, kv}},
      {"causal window", {.heads = 4, .kv_heads = 2, .causal = true, .window = 1}, {q, kv, kv}},
      {"a window beyond i32's sums", {.heads = 4, .kv_heads = 2, .window = INT32_MAX}, {q, kv, kv}},
      {"packed",
       {.heads = 2, .layout = packed, .causal = true},
       {{f32, {2, 3, 8}}, {f32, {2, 5, 8}}, {f32, {2, 5, 12}}}},
      {"packed, no batch", {.heads = 2, .layout = packed}, {{f32, {5, 4}}, {f32, {3, 4}}, {f32, {3, 6}}}},
      {"heads behind",
       {.heads = 4, .kv_heads = 2, .layout = bshd},
       {{f32, {2, 3, 4, 8}}, {f32, {2, 5, 2, 8}}, {f32, {2, 5, 2, 8}}}},
      // Queries that see no key give zeros.
      {"more queries than keys",
       {.heads = 2, .causal = true},
       {{f32, {1, 2, 5, 4}}, {f32, {1, 2, 3, 4}}, {f32, {1, 2, 3, 4}}}},
      {"beyond the window", {.heads = 2, .window = 1}, {{f32, {1, 2, 6, 4}}, {f32, {1, 2, 3, 4}}, {f32, {1, 2, 3, 4}}}},
      {"no key is kept",
       {.heads = 4, .kv_heads = 2, .mask = Masks::key_padding},
       {q, kv, kv, {boolean, {2, 5}}},
       first_row(3, 0)},
      {"no key is kept, causal",
       {.heads = 4, .kv_heads = 2, .causal = true, .mask = Masks::key_padding},
       {q, kv, kv, {f32, {2, 5}}},
       first_row(3, 0.4)},
      {"one mask of integers for all",
       {.heads = 4, .kv_heads = 2, .window = 2, .mask = Masks::key_padding},
       {q, kv, kv, {i32, {5}}}},
      {"a bias without a way out",
       {.heads = 4, .kv_heads = 2, .mask = Masks::bias},
       {q, kv, kv, {f32, {2, 4, 3, 5}}},
       first_row(3, kNone)},
      {"a bias beside a window",
       {.heads = 4, .kv_heads = 2, .causal = true, .window = 2, .mask = Masks::bias},
       {q, kv, kv, {f32, {2, 1, 3, 5}}},
       first_row(3, kNone)},
      {"one bias for all heads", {.heads = 4, .kv_heads = 2, .mask = Masks::bias}, {q, kv, kv, {f32, {3, 5}}}},
      // What is not seen may be anything.
      {"padding of NaN",
       {.heads = 4, .kv_heads = 2, .mask = Masks::key_padding},
       {q, kv, kv, {f32, {2, 5}}},
       [](std::vector<Tensor>& in) {
         for (size_t i = 0; i < 5; ++i) store<double>(in[3], i, i == 0 ? 0 : 1);
         store<double>(in[1], 0, std::numeric_limits<double>::quiet_NaN());
       }},
      {"numbers of f16",
       {.heads = 4, .kv_heads = 2, .causal = true, .softcap = 20},
       {{f16, {2, 4, 3, 8}}, {f16, {2, 2, 5, 8}}, {f16, {2, 2, 5, 8}}}},
      {"products beyond f16",
       {.heads = 1},
       {{f16, {1, 1, 3, 64}}, {f16, {1, 1, 5, 64}}, {f16, {1, 1, 5, 4}}},
       [](std::vector<Tensor>& in) {
         // Each score is near 64 * 40 * 32 / 8, and the product before it is scaled near 81920.
         for (size_t i = 0; i < in[0].element_count(); ++i) store<double>(in[0], i, 40);
         for (size_t i = 0; i < in[1].element_count(); ++i) store<double>(in[1], i, i < 64 ? 32 : 31);
       }},
  };
}

}  // namespace

TEST_CASE("attention below iOS 18 is two products around a softmax") {
  TemporaryFolder temporary;
  for (const AttentionCase& c : attention_cases())
    for (int newest : {5, 7}) {
      CAPTURE(std::string(c.name));
      CAPTURE(newest);
      Graph g = graph_of(c, false);
      coreml::Translated made = attention_for(g, newest);
      CHECK(made.opset <= newest);
      CHECK(wrong_operations(made.model, 1, 2) == "");
      std::vector<Tensor> in;
      for (size_t i = 0; i < c.types.size(); ++i) in.push_back(random_of(c.types[i], static_cast<unsigned>(i + 1)));
      c.change(in);
      const auto folder = folder_for_cases(temporary) / text_of("options.attention.", c.name, ".", newest);
      CHECK(judged(folder, "attention", made, g, in) == "");
    }
}

TEST_CASE("from iOS 18 on that is what the one operation does not do") {
  for (const AttentionCase& c : attention_cases()) {
    CAPTURE(std::string(c.name));
    auto counts = operations_of_attention(attention_for(graph_of(c, false), 8).model);
    CHECK(counts["scaled_dot_product_attention"] + counts["softmax"] == 1);
    CHECK(counts["exp"] == 0);
  }
}

TEST_CASE("its gradient has the same softmax") {
  TemporaryFolder temporary;
  for (const AttentionCase& c : attention_cases()) {
    if (std::string(c.name) == "padding of NaN") continue;  // of which the cotangents are NaN, and NaN is not compared
    // Of which the reference is the decomposition, whose sums of places wrap in i32.
    if (std::string(c.name) == "a window beyond i32's sums") continue;
    if (c.types[0].dtype == f16) continue;  // composed, and judged op by op: what f16 rounds in between cancels
    CAPTURE(std::string(c.name));
    Graph g = graph_of(c, true);
    coreml::Translated made = attention_for(g, 7);
    CHECK(wrong_operations(made.model, 1, 5) == "");
    std::vector<Tensor> in;
    for (size_t i = 0; i < c.types.size(); ++i) in.push_back(random_of(c.types[i], static_cast<unsigned>(i + 1)));
    c.change(in);
    in.push_back(random_of(g.input_types().back(), 9));
    const auto folder = folder_for_cases(temporary) / text_of("options.attention_backward.", c.name);
    CHECK(judged(folder, "attention_backward", made, g, in) == "");
  }
}

TEST_CASE("layers with one mask share it") {
  Graph g;
  const Type t{f32, {1, 2, 64, 8}};
  Value x = g.input("x", t);
  for (int layer = 0; layer < 3; ++layer) x = attention(x, x, x, {.heads = 2, .causal = true});
  g.output(x, "y");
  coreml::Translated made = attention_for(g, 7);
  CHECK(wrong_operations(made.model, 3, 6) == "");
  CHECK(operations_of_attention(made.model)["tile"] == 2);  // of the mask and of -inf
}

static bool reads_blocks(const Graph& g) {
  const std::vector<Type> types = g.input_types();
  return std::any_of(types.begin(), types.end(), [](const Type& t) { return is_block(t.dtype); });
}

TEST_CASE("what else is composed of attention has a softmax too") {
  for (const OpDef* op : all_ops()) {
    const std::string name(op->name);
    if (name.find("attention") == std::string::npos && name != "fused_transformer_layer" && name != "softmax") continue;
    auto samples = op->samples();
    for (size_t s = 0; s < samples.size(); ++s) {
      Graph g = in_f32(samples[s]).graph(*op);
      if (!has_elements(g) || reads_blocks(g)) continue;  // Core ML has neither: tests/coreml/lowering_test.cpp
      CAPTURE(name);
      CAPTURE(s);
      auto counts = operations_of_attention(attention_for(g, 7).model);
      CHECK(counts["softmax"] >= 1);
      CHECK(counts["exp"] == 0);
    }
  }
}

TEST_CASE("attention of open sizes sees what it sees of given ones") {
  struct Row {
    const char* name;
    AttentionAttrs attrs;
    bool masked;
  };
  const Row kRows[] = {
      {"plain", {.heads = 2, .layout = packed}, false},
      {"causal", {.heads = 2, .layout = packed, .causal = true, .window = 3}, false},
      {"padded", {.heads = 2, .layout = packed, .mask = Masks::key_padding}, true},
      {"capped", {.heads = 4, .kv_heads = 2, .layout = packed, .causal = true, .softcap = 2}, false},
  };
  for (const Row& row : kRows) {
    Graph g("attention");
    const int64_t heads = row.attrs.kv_heads.value_or(row.attrs.heads);
    Value q = g.input("q", {f32, {kB, kS, row.attrs.heads * 8}}), k = g.input("k", {f32, {kB, kS, heads * 8}});
    Value v = g.input("v", {f32, {kB, kS, heads * 8}});
    Value y =
        row.masked ? attention(q, k, v, g.input("mask", {i32, {kB, kS}}), row.attrs) : attention(q, k, v, row.attrs);
    g.output(y, "y");
    PackageOptions options{.shapes = {{"B", {1, 8}}, {"S", {2, std::nullopt}}}};
    options.minimum_ios = 15;  // which is the oldest that has to take it
    check_open(std::string("attention_") + row.name, g, kSizes, options);
  }
}
