// What a graph may give back: inputs, params, constants, views of them, one value twice, nothing; and what has no
// elements, or no dims.
#include <doctest/doctest.h>

#include "runtime/small_model.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

/// Runs on the CPU, natively and in the common form, and compares with the reference bit by bit.
void runs_exactly(const Graph& g, const std::vector<Tensor>& inputs, const test::Params& params = {}) {
  auto wanted = test::by_reference(g, inputs, params);
  for (KernelDispatch dispatch : {KernelDispatch::native, KernelDispatch::common})
    for (int threads : {1, 3}) {
      CompileOptions options;
      options.kernel_dispatch = dispatch;
      CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g, options);
      compiled.set_params(params);
      for (int run = 0; run < 2; ++run) CHECK(difference(compiled.run_ordered(inputs), wanted, 0) == "");
    }
}

}  // namespace

TEST_CASE("outputs that are inputs, params and constants are copies of them") {
  Graph g("g");
  Value x = g.input("x", f32, {2, 3}), w = g.param("w", i64, {4}), c = g.constant(Tensor::of<double>({2}, {1, -0.0}));
  g.output(x, "x");
  g.output(w, "w");
  g.output(c, "c");
  g.output(x, "x again");
  std::vector<Tensor> in = {random_tensor(f32, {2, 3}, 1)};
  test::Params params = {{"w", random_tensor(i64, {4}, 2)}};
  runs_exactly(g, in, params);
  CompiledGraph compiled = Session().compile(g);
  compiled.set_params(params);
  auto out = compiled.run_ordered(in);
  out[0].mutable_values<float>()[0] = 99;  // a result is the caller's own
  out[1].mutable_values<int64_t>()[0] = 99;
  out[2].mutable_values<double>()[0] = 99;
  CHECK(in[0].values<float>()[0] != 99);
  CHECK(out[3].values<float>()[0] != 99);
  CHECK(difference(compiled.run_ordered(in), test::by_reference(g, in, params), 0) == "");
}

TEST_CASE("outputs that are views of inputs and of one another are right, whichever comes first") {
  Graph g("g");
  Value x = g.input("x", f32, {4, 6}), y = neg(x);
  g.output(transpose(y, {1, 0}));
  g.output(y);
  g.output(slice(y, {1, 2}, {3, 6}, {1, 2}));
  g.output(reshape(y, {2, 12}));
  g.output(broadcast_in_dim(slice(x, {0, 0}, {1, 6}), {3, 6}, {0, 1}));
  g.output(transpose(x, {1, 0}));
  g.output(reshape(transpose(y, {1, 0}), {24}));
  g.output(y);
  g.output(optimization_barrier({y})[0]);
  runs_exactly(g, {random_tensor(f32, {4, 6}, 1)});
}

TEST_CASE("a value that is overwritten in place is still right where it is an output") {
  Graph g("g");
  Value x = g.input("x", f32, {40}), a = neg(x), b = abs(a), c = neg(b);
  g.output(c);
  g.output(a);
  g.output(neg(neg(a)));
  runs_exactly(g, {random_tensor(f32, {40}, 1)});
}

TEST_CASE("tensors without elements pass through every kind of op") {
  Graph g("g");
  Value x = g.input("x", f32, {0, 4}), y = g.input("y", f32, {3, 0});
  g.output(exp(x));
  g.output(matmul(y, x));  // sums over nothing: zeros
  g.output(reduce_sum(x, {0}));
  g.output(reduce_max(x, {0}));
  g.output(softmax(x));
  g.output(softmax(y));
  g.output(concatenate({x, x}, 0));
  g.output(transpose(x, {1, 0}));
  g.output(reshape(x, {4, 0, 7}));
  g.output(layer_norm(x));
  g.output(slice(x, {0, 1}, {0, 3}));
  g.output(pad(x, g.constant(Tensor::scalar<float>(2)), {{1, 0}, {1, 0}, {}}));
  g.output(matmul(x, transpose(x, {1, 0})));
  runs_exactly(g, {Tensor(f32, {0, 4}), Tensor(f32, {3, 0})});
}

TEST_CASE("scalars are fed, computed with, and given back") {
  Graph g("g");
  Value x = g.input("x", f64, {}), n = g.input("n", i32, {});
  g.output(x * 2.0 + 1.0);
  g.output(n);
  g.output(convert(n, f64) / x);
  g.output(broadcast_to(x, {2, 2}));
  g.output(reduce_sum(broadcast_to(x, {3}), {0}));
  g.output(reshape(x, {1, 1}));
  g.output(transpose(x, {}));
  runs_exactly(g, {Tensor::scalar(1.5), Tensor::scalar<int32_t>(7)});
}

TEST_CASE("graphs without inputs, without outputs, and without nodes run") {
  Graph constant("constant");
  constant.output(iota(constant, {i32, {5}}, 0) * constant.constant(Tensor::of<int32_t>({5}, {3, 3, 3, 3, 3})));
  runs_exactly(constant, {});
  Graph silent("silent");
  exp(silent.input("x", f32, {2}));
  runs_exactly(silent, {Tensor(f32, {2})});
  runs_exactly(Graph("empty"), {});
}

TEST_CASE("an input that nothing reads must still be given, and may be anything") {
  Graph g("g");
  Value x = g.input("x", f32, {2});
  g.input("unused", f32, {Dim::symbol("N")});
  g.param("never read", f32, {1});
  g.output(neg(x));
  runs_exactly(g, {Tensor(f32, {2}), Tensor(f32, {3})}, {{"never read", Tensor(f32, {1})}});
}

TEST_CASE("if_else runs the branch that its condition names, with several results, one within another") {
  auto graph = [](const char* name, auto body) {
    Graph b(name);
    Value c = b.input("c", boolean, {}), x = b.input("x", f32, {2, 3}), y = b.input("y", f32, {3});
    for (Value v : std::vector<Value>(body(b, c, x, y))) b.output(v);
    return b;
  };
  auto doubled = [](Graph&, Value, Value x, Value y) { return std::vector{x + x, y}; };
  auto swapped = [](Graph&, Value, Value x, Value y) {
    return std::vector{neg(x), slice(reshape(x, {6}), {3}, {6}) + y};
  };
  auto constant = [](Graph& g, Value, Value x, Value y) {
    return std::vector{zeros_like(x), broadcast_to(scalar(g, 4, f32), y.dims())};
  };
  auto inner = [&](Graph&, Value c, Value x, Value y) {
    return if_else(c, {c, x, y}, graph("doubled", doubled), graph("constant", constant));
  };
  Graph g("g");
  Value c = g.input("c", boolean, {}), d = g.input("d", boolean, {}), x = g.input("x", f32, {2, 3}),
        y = g.input("y", f32, {3});
  auto out = if_else(c, {d, x, y}, graph("inner", inner), graph("swapped", swapped));
  g.output(out[0]);
  g.output(out[1] + y);
  g.output(out[0] * 2.0);
  for (bool first : {false, true})
    for (bool second : {false, true})
      runs_exactly(g, {Tensor::scalar(first), Tensor::scalar(second), random_tensor(f32, {2, 3}, 1),
                       random_tensor(f32, {3}, 2)});
}

TEST_CASE("if_else gives what it captured where its branches only pass it on") {
  auto pass = [](const char* name, bool swap) {
    Graph b(name);
    Value x = b.input("x", f32, {4}), y = b.input("y", f32, {4});
    b.output(swap ? y : x);
    b.output(swap ? x : y);
    b.output(x);
    return b;
  };
  Graph g("g");
  Value c = g.input("c", boolean, {}), x = g.input("x", f32, {4}), y = neg(x);
  for (Value v : if_else(c, {x, y}, pass("straight", false), pass("crossed", true))) g.output(v);
  g.output(y);
  for (bool way : {false, true}) runs_exactly(g, {Tensor::scalar(way), random_tensor(f32, {4}, 1)});
}
