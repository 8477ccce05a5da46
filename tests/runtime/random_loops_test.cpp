// Loops that nobody thought of: bodies drawn at random, in loops in branches in loops, whose results are their inputs,
// each other, or used by nobody. Compiled and run against the reference; so are their gradients, which have loops of
// their own. A failure prints the graph and the seed that draws it.
#include <doctest/doctest.h>

#include <random>

#include "autodiff/transforms.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/hoist_invariants.h"
#include "passes/subgraphs.h"
#include "passes/trim_control_flow.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

const Type kRow{f64, {4}};

/// Every value is an f64[4] between -1 and 1, more or less.
struct Drawer {
  std::mt19937_64 bits;
  bool updates;  // parts of values by dynamic_update_slice
  size_t below(size_t n) { return bits() % n; }

  Value any(const std::vector<Value>& pool) {
    return pool[below(2) ? pool.size() - 1 - below(std::min<size_t>(pool.size(), 4)) : below(pool.size())];
  }
  std::vector<Value> some(const std::vector<Value>& pool, size_t count) {
    std::vector<Value> all;
    for (size_t i = 0; i < count; ++i) all.push_back(any(pool));
    return all;
  }
  Graph body(size_t inputs, size_t outputs, int depth) {
    return trace(std::vector<Type>(inputs, kRow), [&](Graph& g, Values in) {
      std::vector<Value> pool(in.begin(), in.end());
      if (pool.empty()) pool.push_back(broadcast_in_dim(scalar(g, 0.25, f64), {4}, {}));
      for (size_t n = 1 + below(5); n > 0; --n) grow(g, pool, depth);
      return some(pool, outputs);
    });
  }
  Value truth(const std::vector<Value>& pool) {
    Value x = any(pool), y = any(pool);
    return compare(reduce_sum(x, {0}), reduce_sum(y, {0}), Comparison::lt);
  }

  void grow(Graph& g, std::vector<Value>& pool, int depth) {
    auto add_all = [&](const std::vector<Value>& values) { pool.insert(pool.end(), values.begin(), values.end()); };
    size_t kind = below(depth > 0 ? 14 : 9);
    Value x = any(pool), y = any(pool);
    if (kind == 0) return pool.push_back(tanh(x + y));
    if (kind == 1) return pool.push_back(x * y * 0.5);
    if (kind == 2) return pool.push_back(sin(x) - y * 0.25);
    if (kind == 3) return pool.push_back(reverse(x, {0}));
    if (kind == 4) return pool.push_back(broadcast_in_dim(reduce_sum(x * 0.25, {0}), {4}, {}));
    if (kind == 5) return pool.push_back(reshape(transpose(reshape(x, {2, 2}), {1, 0}), {4}));
    if (kind == 6) return pool.push_back(concatenate({slice(x, {1}, {3}), slice(y, {0}, {2})}, 0));
    if (kind == 7) return add_all(optimization_barrier({x, y}));
    if (kind == 8 && updates) {
      Value at = convert(reduce_max(abs(x), {0}) * 2.0, i32);
      return pool.push_back(dynamic_update_slice(x, slice(y, {0}, {2}), {at}));
    }
    if (kind == 9) {
      size_t operands = below(4), results = 1 + below(3);
      // One by one: the order of arguments is the compiler's, and a seed is to draw one graph.
      Value condition = truth(pool);
      auto captured = some(pool, operands);
      Graph yes = body(operands, results, depth - 1), no = body(operands, results, depth - 1);
      return add_all(if_else(condition, captured, yes, no));
    }
    if (kind == 10) {
      size_t carries = 1 + below(3), captured = below(3);
      Graph b = body(carries + captured, carries, depth - 1);
      Graph condition = trace(std::vector<Type>(carries + captured, kRow), [&](Graph& c, Values in) {
        if (below(4) == 0) return scalar(c, 1, boolean);
        return truth({in.begin(), in.end()});
      });
      WhileAttrs attrs{int64_t(carries), condition, b, int64_t(below(4))};
      return add_all(while_loop(some(pool, carries + captured), attrs));
    }
    if (kind == 11) {
      auto operands = some(pool, 2);
      return add_all(remat(operands, body(2, 1 + below(2), depth - 1)));
    }
    if (kind < 12) return;
    size_t carries = below(4), xs = below(3), ys = below(3), captured = below(3);
    if (carries + ys == 0) carries = 1;
    auto length = static_cast<int64_t>(below(5));
    std::vector<Value> operands = some(pool, carries);
    for (size_t i = 0; i < xs; ++i) {
      std::vector<Value> rows;
      for (Value v : some(pool, size_t(std::max<int64_t>(length, 1)))) rows.push_back(reshape(v, {1, 4}));
      Value stack = concatenate(rows, 0);
      operands.push_back(length == 0 ? slice(stack, {0, 0}, {0, 4}) : stack);
    }
    for (Value v : some(pool, captured)) operands.push_back(v);
    Graph b = body(operands.size(), carries + ys, depth - 1);
    ScanAttrs attrs{int64_t(carries), int64_t(xs), length, below(2) == 0, b};
    auto out = kind == 12 ? checkpointed_scan(g, operands, attrs, Checkpointing::sqrt) : scan(g, operands, attrs);
    for (size_t r = 0; r < out.size(); ++r)
      if (below(3)) pool.push_back(r < carries ? out[r] : tanh(reduce_sum(out[r], {0})));
  }
};

void check_graph(const Graph& g, std::vector<Tensor> inputs, uint64_t seed) {
  auto wanted = interpret(g, inputs);
  std::string why, stage = "trim_control_flow";
  Graph made = trim_control_flow(g);
  verify(made);
  why = difference(interpret(made, inputs), wanted, 0);
  if (why.empty()) {
    stage = "hoist_invariants";
    made = with_bodies(made, hoist_invariants);
    verify(made);
    why = difference(interpret(made, inputs), wanted, 0);
  }
  for (int threads : {1, 2})
    if (why.empty()) {
      stage = "running";
      CompileOptions options;
      if (seed % 3 == 0) options.skip_passes = {"trim_control_flow", "hoist_invariants"};
      CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g, options);
      made = compiled.lowered();
      std::vector<Tensor> out(wanted.size());
      for (int round = 0; round < 2 && why.empty(); ++round) {
        compiled.run_into(inputs, out);
        why = difference(out, wanted, 1e-10);
      }
    }
  CHECK_MESSAGE(why == "", stage, ", seed ", seed, ": ", why, "\n", text(g), "\n", text(made));
}

}  // namespace

TEST_CASE("loops drawn at random run as the reference runs them, and so do their gradients") {
  constexpr uint64_t kSeed = 20261122, kGraphs = 300;
  for (uint64_t seed = kSeed; seed < kSeed + kGraphs; ++seed) {
    bool differentiated = seed % 2 == 0;
    Graph g = Drawer{std::mt19937_64(seed), !differentiated}.body(3, 3, 3);
    std::vector<Tensor> inputs;
    for (uint64_t i = 0; i < 6; ++i) inputs.push_back(random_tensor(f64, {4}, seed + i, -1, 1));
    check_graph(g, {inputs.begin(), inputs.begin() + 3}, seed);
    if (differentiated) check_graph(vjp(g, {true, true, true}, {true, true, true}), inputs, seed);
  }
}
