// Each file <pass>.rlx beside this one holds cases: a graph before the pass, and the graph that the pass must make of it.
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
#include "passes/fold_constants.h"
#include "passes/merge_equal_nodes.h"
#include "passes/simplify.h"
#include "reference/interpreter.h"
#include "support/compare.h"

namespace rlx {
namespace {

struct Pass {
  std::string name;
  std::function<Graph(const Graph&)> run;
  double tolerance = 0;  // of the numbers: 0 where the pass promises the same bits
};
const Pass kPasses[] = {
    {"simplify", simplify},
    {"fold_constants", fold_constants},
    {"merge_equal_nodes", merge_equal_nodes},
};

struct Case {
  std::string name;
  Bindings sizes;
  double lo = -2, hi = 2;
  Graph before, after;
};

std::vector<Case> cases_in(const std::string& path) {
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
    with_context([&] { return text_of("reading case '", c.name, "' of ", path); }, [&] {
      in.expect("before");
      c.before = parse_graph(in);
      if (in.accept_word("unchanged")) c.after = c.before;
      else in.expect("after"), c.after = parse_graph(in);
    });
  }
  return cases;
}

/// A tensor for each leaf, the same for leaves of the same name.
Tensor fed(const Graph& g, Ref leaf, const Case& c) {
  const Type& type = g.type(leaf);
  Shape shape;
  for (const Dim& d : type.dims) shape.push_back(d.bound(c.sizes).value());
  return random_tensor(type.dtype, shape, hash_of(g.node(leaf).name), c.lo, c.hi);
}
std::vector<Tensor> results(const Graph& g, const Case& c) {
  std::vector<Tensor> inputs;
  std::map<std::string, Tensor> params;
  for (Ref r : g.inputs()) inputs.push_back(fed(g, r, c));
  for (Ref r : g.params()) params[g.node(r).name] = fed(g, r, c);
  return interpret(g, inputs, params);
}

TEST_CASE("each pass makes of the graphs in its file what stands beside them, and the numbers stay") {
  for (const Pass& pass : kPasses) {
    auto cases = cases_in("tests/passes/" + pass.name + ".rlx");
    CHECK(cases.size() >= 2);
    for (const Case& c : cases) {
      CAPTURE(pass.name);
      CAPTURE(c.name);
      try {
        Graph got = pass.run(c.before);
        verify(got);
        CHECK(text(got) == text(c.after));
        CHECK(difference(results(got, c), results(c.before, c), pass.tolerance) == "");
      } catch (const Error& error) {
        FAIL_CHECK(error.what());
      }
    }
  }
}

}  // namespace
}  // namespace rlx
