// Passes on graphs that nobody thought of: built from random ops, run before and after through the reference.
#include <doctest/doctest.h>

#include <random>

#include "backends/registry.h"
#include "compile/pipeline.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/fold_constants.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_elementwise.h"
#include "passes/fuse_matmul.h"
#include "passes/fuse_residual_norm.h"
#include "passes/fuse_rows.h"
#include "passes/hoist_params.h"
#include "passes/merge_equal_nodes.h"
#include "passes/simplify.h"
#include "passes/simplify_products.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "support/compare.h"

namespace rlx {
namespace {

/// Values are f32, of 0 to 3 dims that are 1, 3, 4 or the symbol S; now and then f16, i32 or bool for a while.
class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : bits_(seed) {
    for (int i = 0; i < 2; ++i) values_.push_back(graph.input(text_of("x", i), f32, {s_, 4}));
    values_.push_back(graph.input("v", f32, {4}));
    values_.push_back(graph.input("stack", f32, {3, s_, 4}));
    for (int i = 0; i < 4; ++i) values_.push_back(graph.param(text_of("w", i), f32, {4, 4}));
    values_.push_back(graph.param("gamma", f32, {4}));
    for (double c : {-0.0, 0.0, 1.0, 2.0, 0.5}) values_.push_back(scalar(graph, c, f32));
    size_t leaves = values_.size(), wanted = leaves + 10 + pick(30);
    while (values_.size() < wanted) try {
        step();
      } catch (const Error&) {  // these operands do not fit: others will
      }
    Uses uses(graph);
    for (size_t i = leaves; i < values_.size(); ++i)
      if (Value v = values_[i]; uses.of(v.ref()).empty() || pick(20) == 0) graph.output(v);
  }
  Graph graph;

 private:
  size_t pick(size_t n) { return static_cast<size_t>(bits_() % n); }
  /// Recent values more often, so that graphs grow deep.
  Value any() {
    return values_[pick(2) ? values_.size() - 1 - pick(std::min<size_t>(values_.size(), 5)) : pick(values_.size())];
  }
  void add(Value v) { values_.push_back(v); }
  Value weights() { return values_[4 + pick(4)]; }
  /// A layer as models write it, or a part of one.
  Value layer(Value x) {
    Value y = pick(2) ? matmul(x, weights()) : linear(x, weights());
    if (pick(3)) y = y + values_[8];
    if (pick(2)) y = gelu(y);
    return pick(2) ? y + x : y;
  }
  /// Attention of the heads of [B, S, 4], spelled out.
  Value attended(Value q, Value k, Value v) {
    auto heads = [](Value x, const Axes& order) { return transpose(reshape(x, {x.dim(0), x.dim(1), 2, 2}), order); };
    Value s = matmul(heads(q, {0, 2, 1, 3}), heads(k, {0, 2, 3, 1}));
    if (pick(2)) s = s * 0.5;
    if (pick(2)) s = s + reshape(reduce_sum(k, {2}), {k.dim(0), 1, 1, k.dim(1)});
    return reshape(transpose(matmul(softmax(s), heads(v, {0, 2, 1, 3})), {0, 2, 1, 3}), q.dims());
  }

  void step() {
    Value x = any(), y = any();
    switch (pick(26)) {
      case 0: return add(x + y);
      case 1: return add(tanh(x) * y);
      case 2: return add(x - y);
      case 3: return add(maximum(x, y));
      case 4: return add(neg(x));
      case 5: return add(tanh(x));
      case 6: return add(gelu(tanh(x)));
      case 7: return add(select(compare(x, y, Comparison::lt), x, y));
      case 8: return add(convert(convert(x, pick(2) ? f16 : f64), f32));
      case 9: return add(matmul(tanh(x), y));
      case 10: return add(linear(tanh(x), y));
      case 11: return add(rlx::relu(x));
      case 12: {
        Axes permutation = axes_from(0, x.dims().size());
        std::shuffle(permutation.begin(), permutation.end(), bits_);
        return add(transpose(x, permutation));
      }
      case 13: return add(reverse(x, {int64_t(pick(x.dims().size() + 1)) - 1}));
      case 14: return add(slice_axis(x, -1, 1, 3));
      case 15: return add(concatenate({x, y}, int64_t(pick(2)) - 1));
      case 16: return add(reduce_sum(tanh(x), {-1}, pick(2) == 0));
      case 17: return add(layer_norm(x + y, values_[8], {}));
      case 18: return add(softmax(x, -1));
      case 19: return add(expand_dims(x, int64_t(pick(x.dims().size() + 1))));
      case 20: return add(broadcast_to(x, y.dims()));
      case 21:
      case 22: return add(layer(tanh(x)));
      case 23: return add(attended(tanh(x), tanh(y), x));
      case 24: {
        Value h = tanh(x);
        add(linear(h, weights()));
        return add(linear(h, weights()));
      }
      default: return add(dot_general(tanh(x), tanh(y), {{}, {}, {x.rank() - 1}, {int64_t(pick(2))}}));
    }
  }

  std::mt19937_64 bits_;
  Dim s_ = Dim::symbol("S");
  std::vector<Value> values_;
};

struct Data {
  std::vector<Tensor> inputs;
  std::map<std::string, Tensor> params;
  Data(const Graph& g, uint64_t seed) {
    auto drawn = [&](Ref r) {
      Shape shape;
      for (const Dim& d : g.type(r).dims) shape.push_back(d.bound({{"S", 5}}).value());
      return random_tensor(g.type(r).dtype, shape, seed + size_t(r.node));
    };
    for (Ref r : g.inputs()) inputs.push_back(drawn(r));
    for (Ref r : g.params()) params[g.node(r).name] = drawn(r);
  }
};

constexpr uint64_t kSeed = 20261121, kGraphs = 200;
// Sums of a few dozen products that were rounded to f16 now and then: a last bit of f16 is 1e-3.
constexpr double kTolerance = 4e-3;

TEST_CASE("no pass changes the numbers of a random graph") {
  Graph (*const passes[])(const Graph&) = {
      simplify,
      fold_constants,
      merge_equal_nodes,
      simplify_products,
      fuse_attention,
      fuse_matmul,
      fuse_residual_norm,
      fuse_rows,
      [](const Graph& g) { return fuse_elementwise(g, [](const Node& node) { return node.op->elementwise; }); },
  };
  for (uint64_t seed = kSeed; seed < kSeed + kGraphs; ++seed) {
    CAPTURE(seed);
    Graph g = RandomGraph(seed).graph;
    Data data(g, seed);
    auto wanted = interpret(g, data.inputs, data.params);
    Graph all = g;
    for (size_t p = 0; p < std::size(passes); ++p) {
      CAPTURE(p);
      for (Graph* from : {&g, &all}) {
        Graph made = passes[p](*from);
        verify(made);
        if (auto why = difference(interpret(made, data.inputs, data.params), wanted, kTolerance); !why.empty())
          FAIL_CHECK(why << "\nbefore " << text(*from) << "after " << text(made));
        if (from == &all) all = std::move(made);
      }
    }
    Hoisted hoisted = hoist_params(all);
    auto values = interpret(hoisted.prologue, {}, data.params);
    for (size_t i = 0; i < values.size(); ++i) data.params[hoisted.names[i]] = values[i];
    CHECK(difference(interpret(hoisted.main, data.inputs, data.params), wanted, kTolerance) == "");
  }
}

TEST_CASE("the pipeline for the CPU keeps the numbers of a random graph, whichever pass is left out") {
  auto names = pass_names();
  for (uint64_t seed = kSeed; seed < kSeed + kGraphs; ++seed) {
    CAPTURE(seed);
    Graph g = RandomGraph(seed).graph;
    Data data(g, seed);
    CompileOptions options;
    if (seed % 2 == 0) options.skip_passes = {names[seed / 2 % names.size()]};
    Pipelined made = run_pipeline(g, backend_of(Device::cpu())->target(), options);
    CHECK(made.report.count(Verdict::missing) == 0);
    if (auto why = difference(interpret(made.graph, data.inputs, data.params), interpret(g, data.inputs, data.params),
                              kTolerance);
        !why.empty())
      FAIL_CHECK(why << "\nbefore " << text(g) << "after " << text(made.graph));
  }
}

}  // namespace
}  // namespace rlx
