// What the families' tables of hard cases share. A case runs as it stands and made of primitives, in f64 and in f32,
// and must give values that come from elsewhere: NumPy, PyTorch, or arithmetic that can be done by hand.
#pragma once

#include <doctest/doctest.h>

#include <cmath>

#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "support/compare.h"

namespace rlx::test {

constexpr double kInf = INFINITY, kNaN = NAN;
constexpr double kMost = 3.4028234663852886e38;  // the largest finite f32

/// Numbers, rounded to the dtype.
inline Tensor tensor(DType dtype, Shape shape, const std::vector<double>& values) {
  Array<double> all(std::move(shape));
  REQUIRE(all.data.size() == values.size());
  all.data = values;
  Tensor wide = all.rounded_to(f64);
  return dtype == f64 ? wide : run_op(op::convert, ConvertAttrs{dtype}, std::array{wide})[0];
}
inline Tensor vector_of(DType dtype, const std::vector<double>& values) {
  return tensor(dtype, {static_cast<int64_t>(values.size())}, values);
}

/// The graph with every composite replaced by its parts, down to primitives.
inline Graph made_of_primitives(Graph g) {
  for (bool again = true; again;) {
    again = false;
    g = rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
      if (site.node.op->is_primitive()) return std::nullopt;
      again = true;
      return decompose(site.to, *site.node.op, site.operands, site.node.attrs);
    });
  }
  return g;
}

using Build = std::function<Many<Value>(Values)>;
/// What is wrong with the graph that `build` makes of these inputs, or nothing. `tolerance` is relative to 1 +
/// |wanted|.
inline std::string mismatch(const Build& build, const std::vector<Tensor>& inputs, const std::vector<Tensor>& wanted,
                            double tolerance = -1) {
  std::vector<Type> types;
  for (const Tensor& t : inputs) types.push_back(t.type());
  Graph g = trace(types, build);
  auto why = difference(interpret(g, inputs), wanted, tolerance);
  if (!why.empty()) return "as it stands: " + why;
  why = difference(interpret(made_of_primitives(g), inputs), wanted, tolerance);
  return why.empty() ? why : "made of primitives: " + why;
}

/// A tensor of either float: a case is written once.
struct Numbers {
  Shape shape;
  std::vector<double> values;
};
/// `mismatch` in f64 and in f32, where the inputs and what is wanted are rounded to f32.
inline std::string mismatch_of_floats(const Build& build, const std::vector<Numbers>& inputs,
                                      const std::vector<Numbers>& wanted, double tolerance = -1) {
  for (DType dtype : {f64, f32}) {
    std::vector<Tensor> in, out;
    for (const Numbers& n : inputs) in.push_back(tensor(dtype, n.shape, n.values));
    for (const Numbers& n : wanted) out.push_back(tensor(dtype, n.shape, n.values));
    std::string why = mismatch(build, in, out, dtype == f64 ? -1 : tolerance);
    if (!why.empty()) return text_of(dtype, ", ", why);
  }
  return "";
}

/// The message with which building the graph fails; fails the test if it does not.
inline std::string refusal(const Build& build, const std::vector<Type>& types) {
  try {
    trace(types, build);
  } catch (const Error& error) {
    return std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
  }
  FAIL("nothing was refused");
  return "";
}

}  // namespace rlx::test
