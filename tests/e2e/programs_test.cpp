// Small programs: loops, attention and derivatives of derivatives, built as a user would, with their values and
// cotangents as NumPy, PyTorch and JAX have them (tests/golden/generate/programs.py), by the reference and on the
// default device.
#include <doctest/doctest.h>

#include <cstring>

#include "autodiff/transforms.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "plan/cpu_plans.h"
#include "reference/interpreter.h"
#include "rlx/io.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/default_device.h"

using namespace rlx;

namespace {

struct Golden {
  std::vector<Tensor> in, ct, out, d;
  explicit Golden(const std::string& name) {
    auto file = SafetensorsFile::open("tests/golden/programs/" + name + ".safetensors");
    auto read = [&](const char* kind, std::vector<Tensor>& all) {
      while (file.find(text_of(kind, all.size()))) all.push_back(file.tensor(text_of(kind, all.size())));
    };
    read("in", in), read("ct", ct), read("out", out), read("d", d);
  }
  std::vector<Type> types() const {
    std::vector<Type> all;
    for (const Tensor& t : in) all.push_back(t.type());
    return all;
  }
};

Tensor in_f32(const Tensor& t) {
  return t.dtype() == f64 ? run_op(op::convert, ConvertAttrs{f32}, std::array{t})[0] : t;
}
std::vector<Tensor> in_f32(std::vector<Tensor> tensors) {
  for (Tensor& t : tensors) t = in_f32(t);
  return tensors;
}
/// The same program of numbers half as wide: each dtype is replaced where it is written.
Graph in_f32(const Graph& g) {
  std::string program = text(g);
  for (const auto& [wide, narrow] : {std::pair("f64", "f32"), std::pair("c128", "c64")})
    for (size_t at = 0; (at = program.find(wide, at)) != std::string::npos;) program.replace(at, strlen(wide), narrow);
  return parse_graph(program);
}
/// As of the small models (models_test.cpp): f32 inside against f64.
constexpr double kToleranceInF32 = 1e-5;

/// Values and cotangents, by the reference, and on the default device as claimed and in the common form.
void check(const Graph& g, const Golden& golden, double tolerance) {
  Graph both = value_and_vjp(g, differentiable_inputs(g), differentiable_outputs(g));
  auto inputs = golden.in, wanted = golden.out;
  inputs.insert(inputs.end(), golden.ct.begin(), golden.ct.end());
  wanted.insert(wanted.end(), golden.d.begin(), golden.d.end());
  CHECK(difference(interpret(both, inputs), wanted, tolerance) == "");
  CHECK(test::wrong_in(test::planned(both, 2)) == "");
  for (KernelDispatch dispatch : {KernelDispatch::native, KernelDispatch::common}) {
    CompileOptions options;
    options.kernel_dispatch = dispatch;
    test::DefaultDevice device(2);
    if (const auto compiled = device.compile(both, options)) {
      CHECK(difference(compiled->run_ordered(inputs), wanted, tolerance) == "");
      continue;
    }
    const auto narrow = device.session().compile(in_f32(both), options);
    CHECK(difference(narrow.run_ordered(in_f32(inputs)), in_f32(wanted), kToleranceInF32) == "");
  }
}

std::vector<Type> types_of_all(const std::vector<Value>& values) {
  std::vector<Type> types;
  for (const Value& v : values) types.push_back(v.type());
  return types;
}

}  // namespace

TEST_CASE("an LSTM that is a scan over a cell has the values and derivatives of PyTorch's") {
  Golden golden("lstm");
  Graph g = trace(golden.types(), [](Graph& to, Values in) {
    Value x = in[0], w = in[1], u = in[2], b = in[3];
    Dim steps = x.dim(0), batch = x.dim(1), hidden = u.dim(1);
    std::vector<Value> operands = {in[4], in[5], x, w, u, b};
    std::vector<Type> types = types_of_all(operands);
    types[2].dims.erase(types[2].dims.begin());
    Graph cell = trace(types, [&](Values v) {
      Value gates = linear(v[2], v[3], v[5]) + linear(v[0], v[4]);
      auto part = split_evenly(gates, 4, 1);
      Value c = sigmoid(part[1]) * v[1] + sigmoid(part[0]) * tanh(part[2]);
      Value h = sigmoid(part[3]) * tanh(c);
      return std::vector{h, c, h};
    });
    auto out = scan(to, operands, {2, 1, steps, false, cell});
    return std::vector{out[2], out[0], out[1]};
  });
  check(g, golden, 1e-11);
}

TEST_CASE("the derivative of a loop that runs until nothing changes is that of the equation it solves") {
  Golden golden("fixed_point");
  Graph g = trace(golden.types(), [](Values in) {
    Value start = zeros_like(in[1]), far = full_like(in[1], 1);
    std::vector<Value> operands = {start, far, in[0], in[1]};  // z, how far it moved; w, x
    std::vector<Type> types = types_of_all(operands);
    WhileAttrs loop;
    loop.carries = 2;
    loop.condition = trace(types, [](Values v) {
      Value distance = reduce_max(abs(v[1]), {0});
      return compare(distance, scalar(distance.graph(), 1e-15, f64), Comparison::gt);
    });
    loop.body = trace(types, [](Values v) {
      Value next = tanh(matmul(v[2], v[0]) + v[3]);
      return std::vector{next, next - v[0]};
    });
    loop.max_trips = 200;
    return while_loop(operands, loop)[0];
  });
  check(g, golden, 1e-10);
}

TEST_CASE("projections around soft-capped attention in a window, with grouped heads") {
  Golden golden("attention");
  Graph g = trace(golden.types(), [](Values in) {
    AttentionAttrs attrs{.heads = 4, .kv_heads = 2, .layout = AttentionLayout::packed, .causal = true};
    attrs.window = 3, attrs.scale = 0.4, attrs.softcap = 2.0;
    Value y = attention(matmul(in[0], in[1]), matmul(in[0], in[2]), matmul(in[0], in[3]), attrs);
    return matmul(y, in[4]);
  });
  check(g, golden, 1e-11);
}

TEST_CASE("a solver of one system, batched by vmap, solves many, and its derivative solves the transposed ones") {
  Golden golden("solve");
  std::vector<Type> one = golden.types();
  for (Type& t : one) t.dims.erase(t.dims.begin());
  Graph single = trace(one, [](Graph& to, Values in) {
    // Newton and Schulz: y <- y (2 - a y) from aᵀ / (|a|_1 |a|_inf), which squares the error of each step.
    Value a = in[0],
          identity = convert(compare(iota(to, {i64, a.dims()}, 0), iota(to, {i64, a.dims()}, 1), Comparison::eq), f64);
    Value size = abs(a), norms = reduce_max(reduce_sum(size, {0}), {0}) * reduce_max(reduce_sum(size, {1}), {0});
    std::vector<Value> operands = {transpose(a, {1, 0}) / norms, a, identity};
    Graph step = trace(types_of_all(operands), [](Values v) { return matmul(v[0], v[2] * 2.0 - matmul(v[1], v[0])); });
    Value inverse = scan(to, operands, {1, 0, 30, false, step})[0];
    return matmul(inverse, in[1]);
  });
  Graph many = batch(single, {true, true}, 3);
  check(many, golden, 1e-10);
}

TEST_CASE(
    "systems are solved by one op, one by one under vmap and all at once, with the derivatives of both operands") {
  Golden golden("solve");
  std::vector<Type> one = golden.types();
  for (Type& t : one) t.dims.erase(t.dims.begin());
  check(batch(trace(one, [](Values in) { return solve(in[0], in[1]); }), {true, true}, 3), golden, 1e-11);
  check(trace(golden.types(), [](Values in) { return solve(in[0], in[1]); }), golden, 1e-11);
}

TEST_CASE("a convolution by transforms is the sum over places, and so are its derivatives") {
  Golden golden("fft_convolution");
  Graph g = trace(golden.types(), [](Values in) {
    Value x = in[0], h = in[1];
    int64_t length = x.dim(1).value() + h.dim(0).value() - 1;
    Value spectrum = rfft(resized(x, 1, length)), filter = rfft(resized(h, 0, length));
    return irfft(spectrum * filter, {-1}, length);
  });
  check(g, golden, 1e-11);
}

TEST_CASE("a product with weights of four bits, scaled in blocks, is that with the widened weights") {
  Golden golden("int4_matmul");
  Graph g = trace(golden.types(), [](Values in) {
    return dequant_matmul(in[0], convert(in[1], i4), {in[2], convert(in[3], i4)}, 8);
  });
  check(g, golden, 1e-11);
}

TEST_CASE("the loss behind ten steps of gradient descent has JAX's derivatives by the first guess and by the rate") {
  Golden golden("descent");
  Graph g = trace(golden.types(), [](Graph& to, Values in) {
    auto loss_of = [](Values v) {  // x, y, w
      Value error = tanh(matmul(v[0], v[2])) - v[1];
      return mean(error * error, {0});
    };
    std::vector<Type> types = {in[0].type(), in[1].type(), in[2].type()};
    Graph loss = trace(types, loss_of), gradient = vjp(loss, {false, false, true}, {true});
    std::vector<Value> operands = {in[2], in[0], in[1], in[3]};
    Graph step = trace(types_of_all(operands), [&](Graph& body, Values v) {
      std::vector<Value> point = {v[1], v[2], v[0], scalar(body, 1, f64)};
      return v[0] - v[3] * splice(body, gradient, point)[0];
    });
    std::vector<Value> last = {in[0], in[1], scan(to, operands, {1, 0, 10, false, step})[0]};
    return loss_of(last);
  });
  check(g, golden, 1e-11);
}
