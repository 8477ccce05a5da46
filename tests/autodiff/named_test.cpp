// The transforms by name: signatures, values against formulas worked out by hand, nesting, and what is refused.
#include <doctest/doctest.h>

#include "reference/interpreter.h"
#include "rlx/autodiff.h"
#include "rlx/ops.h"
#include "support/compare.h"

using namespace rlx;

namespace {

/// mean((tanh(x w) - y)^2), with w a param.
Graph squared_loss() {
  Graph g("loss");
  Value x = g.input("x", f64, {4, 3}), y = g.input("y", f64, {4, 2}), w = g.param("w", f64, {3, 2});
  Value error = tanh(matmul(x, w)) - y;
  g.output(mean(error * error, {0, 1}), "loss");
  return g;
}
std::vector<std::string> names(const Graph& g, const std::vector<Ref>& refs) {
  std::vector<std::string> all;
  for (Ref r : refs) all.push_back(g.node(r).name);
  return all;
}
std::vector<std::string> output_names(const Graph& g) {
  std::vector<std::string> all;
  for (const Output& o : g.outputs()) all.push_back(o.name);
  return all;
}
std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("value_and_grad differentiates the params and keeps the signature") {
  Graph g = value_and_grad(squared_loss());
  CHECK(names(g, g.inputs()) == std::vector<std::string>{"x", "y"});
  CHECK(names(g, g.params()) == std::vector<std::string>{"w"});
  CHECK(output_names(g) == std::vector<std::string>{"loss", "grad_w"});

  Tensor x = random_tensor(f64, {4, 3}, 1), y = random_tensor(f64, {4, 2}, 2), w = random_tensor(f64, {3, 2}, 3);
  auto out = interpret(g, std::vector{x, y}, {{"w", w}});
  // d/dw = x' ((tanh(xw) - y) (1 - tanh(xw)^2)) / 4
  Array<double> X(x), Y(y), W(w), wanted(Shape{3, 2});
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 2; ++j) {
      double s = 0;
      for (int64_t k = 0; k < 3; ++k) s += X.at({i, k}) * W.at({k, j});
      double t = std::tanh(s), d = (t - Y.at({i, j})) * (1 - t * t) / 4;
      for (int64_t k = 0; k < 3; ++k) wanted.at({k, j}) += X.at({i, k}) * d;
    }
  CHECK(difference(out[1], wanted.rounded_to(f64), 1e-13) == "");
}

TEST_CASE("wrt picks inputs and params by name, in the order of the graph") {
  Graph g = grad(squared_loss(), {"w", "x"});
  CHECK(output_names(g) == std::vector<std::string>{"grad_x", "grad_w"});
}

TEST_CASE("jvp carries tangents, vjp takes cotangents, and they transpose each other") {
  Graph forth = jvp(squared_loss(), {"x", "w"}), back = vjp(squared_loss(), {"x", "w"});
  CHECK(names(forth, forth.inputs()) == std::vector<std::string>{"x", "y", "tangent_x", "tangent_w"});
  CHECK(names(back, back.inputs()) == std::vector<std::string>{"x", "y", "ct_loss"});
  CHECK(output_names(forth) == std::vector<std::string>{"loss", "tangent_loss"});
  CHECK(output_names(back) == std::vector<std::string>{"loss", "grad_x", "grad_w"});
}

TEST_CASE("the Hessian of a cubic is what calculus says, by hessian, hvp and jacobians of gradients") {
  Graph g("cubic");  // x0^3 + 2 x0 x1^2
  Value x = g.input("x", f64, {2});
  Value x0 = reshape(slice(x, {0}, {1}), {}), x1 = reshape(slice(x, {1}, {2}), {});
  g.output(x0 * x0 * x0 + 2.0 * x0 * x1 * x1);
  Tensor at = Tensor::of<double>({2}, {3, 5});
  Tensor wanted = Tensor::of<double>({2, 2}, {18, 20, 20, 12});
  CHECK(difference(interpret(hessian(g, "x"), std::vector{at})[0], wanted, 1e-13) == "");
  CHECK(difference(interpret(jacfwd(grad(g, {"x"}), "x"), std::vector{at})[0], wanted, 1e-13) == "");
  CHECK(difference(interpret(jacrev(grad(g, {"x"}), "x"), std::vector{at})[0], wanted, 1e-13) == "");
  auto product = interpret(hvp(g, {"x"}), std::vector{at, Tensor::of<double>({2}, {1, -2})});
  CHECK(difference(product[0], Tensor::of<double>({2}, {77, 60}), 1e-13) == "");
  CHECK(difference(product[1], Tensor::of<double>({2}, {-22, -4}), 1e-13) == "");
}

TEST_CASE("a Jacobian has the output's dims, then the input's") {
  Graph g("outer");
  Value x = g.input("x", f64, {3}), y = g.input("y", f64, {2, 1});
  g.output(y * x);
  CHECK(jacfwd(g, "x").output_types()[0] == Type{f64, {2, 3, 3}});
  CHECK(jacrev(g, "y").output_types()[0] == Type{f64, {2, 3, 2, 1}});
  CHECK(hessian(g, "y").output_types()[0] == Type{f64, {2, 3, 2, 1, 2, 1}});
}

TEST_CASE("vmap puts the batch where it is asked to, and shares what is not named") {
  Graph g("dot");
  Value a = g.input("a", f64, {3}), b = g.input("b", f64, {3, 2});
  g.output(matmul(reshape(a, {1, 3}), b), "y");
  Graph wide = vmap(g, {{{"a", 1}}, {{"y", -1}}}, 5);
  CHECK(wide.input_types() == std::vector<Type>{{f64, {3, 5}}, {f64, {3, 2}}});
  CHECK(wide.output_types() == std::vector<Type>{{f64, {1, 2, 5}}});
  Graph symbolic = vmap(g, {{{"a", 0}, {"b", 2}}, {}}, Dim::symbol("N"));
  CHECK(symbolic.output_types()[0] == Type{f64, {Dim::symbol("N"), 1, 2}});
}

TEST_CASE("vmap of a gradient is one gradient per example") {
  Graph each = grad(squared_loss(), {"w"});
  Graph wide = vmap(each, {{{"x", 0}, {"y", 0}}, {}}, 6);
  Tensor x = random_tensor(f64, {6, 4, 3}, 1), y = random_tensor(f64, {6, 4, 2}, 2), w = random_tensor(f64, {3, 2}, 3);
  Tensor all = interpret(wide, std::vector{x, y}, {{"w", w}})[0];
  CHECK(all.shape() == Shape{6, 3, 2});
  for (int64_t i = 0; i < 6; ++i) {
    auto lane = [&](const Tensor& t) {
      size_t bytes = t.byte_count() / 6;
      return Tensor::borrow(f64, Shape(t.shape().begin() + 1, t.shape().end()),
                            t.bytes().subspan(size_t(i) * bytes, bytes));
    };
    CHECK(difference(lane(all), interpret(each, std::vector{lane(x), lane(y)}, {{"w", w}})[0], 1e-13) == "");
  }
}

TEST_CASE("what does not depend on wrt has a gradient of zeros, and stop_gradient asks for it") {
  Graph g("constant");
  Value x = g.input("x", f64, {2}), y = g.input("y", f64, {2});
  g.output(reduce_sum(stop_gradient(x) * y, {0}));
  auto out = interpret(grad(g), std::vector{Tensor::of<double>({2}, {1, 2}), Tensor::of<double>({2}, {3, 4})});
  CHECK(out[0] == Tensor::of<double>({2}, {0, 0}));
  CHECK(out[1] == Tensor::of<double>({2}, {1, 2}));
}

TEST_CASE("gradients of f16 are f16, and computed in f32") {
  Graph g("half");
  Value x = g.input("x", f16, {2});
  g.output(convert(reduce_sum(square(x), {0}), f32));
  Graph back = grad(g);
  CHECK(back.output_types()[0] == Type{f16, {2}});
}

TEST_CASE("cotangents of a float that is for storage alone are added, although it has no arithmetic") {
  Graph g;
  Value x = g.input("x", f8e4m3fn, {2});
  g.output(convert(concatenate({x, x, x}, 0), f32), "y");
  auto out = interpret(vjp(g, {"x"}, false),
                       std::array{Tensor(f8e4m3fn, {2}), Tensor::of<float>({6}, {1, 2, 0.5f, 4, 1, -2})});
  REQUIRE(out.size() == 1);
  CHECK(out[0].dtype() == f8e4m3fn);
  CHECK(load<double>(out[0], 0) == 2.5);
  CHECK(load<double>(out[0], 1) == 4);
}
TEST_CASE("wrong uses say what is wrong and what to do") {
  Graph vector("vector");
  Value v = vector.input("x", f32, {3});
  vector.output(exp(v), "y");
  CHECK(message([&] { grad(vector); }) ==
        "grad needs a float scalar; output 'y' is f32[3]; sum it, or use vjp or jacrev");
  CHECK(message([&] { vjp(vector, {"z"}); }) == "graph 'vector' has no input or param 'z'; there are x");
  Graph integers("integers");
  integers.output(integers.input("n", i32, {}) + integers.input("m", i32, {}));
  CHECK(message([&] { vjp(integers); }) == "graph 'integers' has no float input or param to differentiate");
  CHECK(message([&] { vjp(integers, {"n"}); }) == "'n' is i32[]: only floats and complex numbers have derivatives");
  CHECK(message([&] { vmap(vector, {}, 3); }) == "vmap of 'vector' names no input that has a batch; name at least one");
  CHECK(message([&] {
          vmap(vector, {{{"x", 2}}, {}}, 3);
        }) ==
        "axis 2 is out of range for rank 2; it goes from -2 to 1\n  while placing the batch of 'x', which is f32[3]");
}

TEST_CASE("an op without a gradient is an error that names it and where it stands") {
  static const OpDef opaque = define<>({.name = "opaque",
                                        .doc = "x",
                                        .operands = {"x"},
                                        .infer = [](Types in) { return in[0]; },
                                        .reference = [](Tensors in) { return in[0]; }});
  Graph g("model");
  Value x = g.input("x", f32, {});
  g.set_scope("encoder.layer.3");
  g.output(exp(g.emit(opaque, {x})[0]));
  CHECK(message([&] { grad(g); }) ==
        "'opaque' has no gradient (in 'encoder.layer.3'); stop_gradient in front of it says that none is wanted");
}
