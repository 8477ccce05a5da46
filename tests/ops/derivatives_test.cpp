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

TEST_CASE("the derivatives of elu, celu, selu and expm1 keep f32's digits far below 0") {
  // e^-12, and selu's 1.7580993408473766 e^-12: PyTorch's gradients in f64 of elu, celu and selu. y + 1 has three
  // digits.
  const std::pair<const char*, double> wanted[] = {{"elu", 6.14421235332821e-6},
                                                   {"celu", 6.14421235332821e-6},
                                                   {"expm1", 6.14421235332821e-6},
                                                   {"selu", 1.0802135688412635e-5}};
  for (const auto& each : wanted) {
    const auto [name, derivative] = each;
    const OpDef& op = find_op(name);
    const std::vector<Type> types{{f32, {1}}};
    const Graph g = trace(types, [&](Graph& to, Values v) { return to.emit(op, {v[0]}, attrs_of(op, "")); });
    const auto number = [](double value) { return vector_of(f32, {value}); };
    const std::vector<Tensor> found =
        interpret(made_of_primitives(vjp(g, Mask(1, true), {true})), std::vector{number(-12), number(1 / derivative)});
    CHECK_MESSAGE(difference(found, std::vector{number(1)}, 1e-6) == "", each.first);
  }
}
