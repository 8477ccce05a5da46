// Derivatives where they are easily wrong: at kinks, poles, infinities and NaN. Values from JAX and PyTorch, or with a
// reason: derivatives.py.
#include "autodiff/transforms.h"
#include "ops/tables.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const test::Row kRows[] = {
#include "ops/derivatives_cases.inc"
};

/// The derivative by each operand of the sum of the results: of the op, or of what it is made of.
std::vector<Tensor> derivatives_of(const Graph& g, const std::vector<Tensor>& inputs) {
  auto all = inputs;
  all.push_back(full(f64, inputs[0].shape(), 1));
  return interpret(vjp(g, Mask(inputs.size(), true), {true}), all);
}

}  // namespace

TEST_CASE("derivatives at kinks, poles, infinities and NaN are JAX's or PyTorch's") {
  size_t operands = 0;
  for (const test::Row& row : kRows) {
    std::vector<Tensor> inputs, wanted;
    std::vector<Type> types;
    for (std::string_view text : row.inputs) inputs.push_back(tensor_of(text));
    for (std::string_view text : row.wanted) wanted.push_back(tensor_of(text));
    for (const Tensor& t : inputs) types.push_back(t.type());
    const OpDef& op = find_op(row.op);
    Graph g = trace(types, [&](Graph& to, Values v) {
      return to.emit(op, {v.begin(), v.end()}, attrs_of(op, row.attrs));
    });
    std::string why = difference(derivatives_of(g, inputs), wanted, 1e-11);
    CHECK_MESSAGE(why.empty(), row.op, " ", row.attrs, " (", row.title, "): ", why);
    operands += inputs.size();
  }
  CHECK(operands > 80);
}
