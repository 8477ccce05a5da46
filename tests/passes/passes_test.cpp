// Each file <pass>.rlx beside this one holds cases: a graph before the pass, and the graph that the pass must make of
// it.
//
//   case "a name" [sizes S = 3, B = 2] [values -1 .. 1]
//   before graph @main { ... }
//   after graph @main { ... }       or: unchanged
//
// The graphs must be equal node by node, and both must give the same numbers through the reference, on random inputs
// and params drawn from `values`, with the symbols' `sizes`.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/carry_channels_last.h"
#include "passes/change_floats.h"
#include "passes/fold_constants.h"
#include "passes/fold_weights.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_convolution.h"
#include "passes/fuse_elementwise.h"
#include "passes/fuse_matmul.h"
#include "passes/fuse_residual_norm.h"
#include "passes/fuse_rows.h"
#include "passes/hoist_invariants.h"
#include "passes/hoist_params.h"
#include "passes/merge_equal_nodes.h"
#include "passes/quantize_products.h"
#include "passes/simplify.h"
#include "passes/simplify_products.h"
#include "passes/subgraphs.h"
#include "passes/trim_control_flow.h"
#include "passes/widen_regions.h"
#include "reference/interpreter.h"
#include "support/compare.h"

namespace rlx {
namespace {

Graph fuse_all_elementwise(const Graph& g) {
  return fuse_elementwise(g, [](const Node& node) { return node.op->elementwise; });
}
Graph fold_right_operands(const Graph& g) {
  return fold_weights(g, [](const Node& node, size_t operand) { return node.op->name == "matmul" && operand == 1; });
}
Graph hoist_all_invariants(const Graph& g) { return with_bodies(g, hoist_invariants); }

struct Pass {
  std::string name;
  Graph (*run)(const Graph&);
  double tolerance = 0;  // 0 where the reference must give the same bits; negative: that of the dtype
};
const Pass kPasses[] = {
    {"simplify", simplify},
    {"fold_constants", fold_constants},
    {"fold_weights", fold_right_operands},
    {"merge_equal_nodes", merge_equal_nodes},
    {"simplify_products", simplify_products},
    {"fuse_attention", fuse_attention, -1},  // scores and weights of f32 are rounded between the ops, and not inside
    {"fuse_convolution", fuse_convolution, -1},        // a scale goes to the weights, before the sum
    {"carry_channels_last", carry_channels_last, -1},  // sums of a kernel run in another order
    {"fuse_matmul", fuse_matmul},
    {"fuse_residual_norm", fuse_residual_norm, -1},  // nor is the sum
    {"fuse_rows", fuse_rows, -1},                    // roundings are others in one pass
    {"fuse_elementwise", fuse_all_elementwise},
    // With a relaxed precision policy the separate ops of f16 and bf16 round more often than the fused one.
    {"fuse_attention_relaxed", [](const Graph& g) { return fuse_attention(g, Rounding::relaxed); }, -1},
    {"fuse_matmul_relaxed", [](const Graph& g) { return fuse_matmul(g, Rounding::relaxed); }, -1},
    {"fuse_residual_norm_relaxed", [](const Graph& g) { return fuse_residual_norm(g, Rounding::relaxed); }, -1},
    {"sums_in_f64", sums_in_f64, -1},                // sums are rounded once
    {"quantize_products", quantize_products, 0.05},  // x and the weights are rounded to 8 bits
    {"widen_regions", widen_regions, -1},

    {"trim_control_flow", trim_control_flow},
    {"hoist_invariants", hoist_all_invariants},
};

struct Case {
  std::string name;
  Bindings sizes;
  double lo = -2, hi = 2;
  Graph before;
  std::vector<Graph> after;
};

std::vector<Case> cases_in(const std::string& pass, size_t graphs_after = 1) {
  std::string path = "tests/passes/" + pass + ".rlx";
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), "cannot open " << path);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  Scanner in(content);
  std::vector<Case> cases;
  while (!in.at_end()) {
    Case& c = cases.emplace_back();
    in.expect("case");
    c.name = in.quoted();
    if (in.accept_word("sizes")) do {
        std::string symbol(in.word());
        in.expect("=");
        c.sizes[symbol] = in.number<int64_t>();
      } while (in.accept(","));
    if (in.accept_word("values")) {
      c.lo = in.number<double>();
      in.expect("..");
      c.hi = in.number<double>();
    }
    with_context([&] { return text_of("reading case '", c.name, "' of ", path); },
                 [&] {
                   in.expect("before");
                   c.before = parse_graph(in);
                   if (in.accept_word("unchanged")) c.after = {c.before};
                   else
                     for (in.expect("after"); c.after.size() < graphs_after;) c.after.push_back(parse_graph(in));
                 });
  }
  CHECK(cases.size() >= 2);
  return cases;
}

/// A tensor for each leaf, the same for leaves of the same name.
Tensor fed(const Graph& g, Ref leaf, const Case& c) {
  const Type& type = g.type(leaf);
  Shape shape;
  for (const Dim& d : type.dims) shape.push_back(d.bound(c.sizes).value());
  return random_tensor(type.dtype, shape, hash_of(g.node(leaf).name), c.lo, c.hi);
}
/// `computed` holds params that are not drawn.
std::vector<Tensor> results(const Graph& g, const Case& c, std::map<std::string, Tensor> computed = {}) {
  std::vector<Tensor> inputs;
  for (Ref r : g.inputs()) inputs.push_back(fed(g, r, c));
  for (Ref r : g.params()) computed.emplace(g.node(r).name, fed(g, r, c));
  return interpret(g, inputs, computed);
}

template <class F>
void check(const std::string& pass, const Case& c, F f) {
  CAPTURE(pass);
  CAPTURE(c.name);
  try {
    f();
  } catch (const Error& error) {
    FAIL_CHECK(error.what());
  }
}

TEST_CASE("each pass makes of the graphs in its file what stands beside them, and the numbers stay") {
  for (const Pass& pass : kPasses)
    for (const Case& c : cases_in(pass.name))
      check(pass.name, c, [&] {
        Graph got = pass.run(c.before);
        verify(got);
        CHECK(text(got) == text(c.after[0]));
        CHECK(difference(results(got, c), results(c.before, c), pass.tolerance) == "");
      });
}

TEST_CASE("a second run of a pass finds nothing left to do") {
  for (const Pass& pass : kPasses)
    for (const Case& c : cases_in(pass.name))
      check(pass.name, c, [&] { CHECK(text(pass.run(c.after[0])) == text(c.after[0])); });
}

TEST_CASE("hoisting splits a graph in two that give the same numbers one after the other") {
  for (const Case& c : cases_in("hoist_params", 2))
    check("hoist_params", c, [&] {
      Hoisted got = hoist_params(c.before);
      verify(got.prologue);
      verify(got.main);
      CHECK(text(got.prologue) == text(c.after[0]));
      CHECK(text(got.main) == text(c.after[1]));
      std::map<std::string, Tensor> computed;
      auto values = results(got.prologue, c);
      REQUIRE(values.size() == got.names.size());
      for (size_t i = 0; i < values.size(); ++i) computed[got.names[i]] = values[i];
      CHECK(difference(results(got.main, c, computed), results(c.before, c), 0) == "");
    });
}

}  // namespace
}  // namespace rlx
