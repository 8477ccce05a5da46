// A model whose extents are named symbols: it verifies, prints, differentiates, batches, and runs on the default device
// for any size with one compile; a size that does not fit is an error that names the symbol.
#include <doctest/doctest.h>

#include "autodiff/transforms.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

/// Rows x[B, S, 4] that attend to y[B, T, 4], with weights of one size and a bias for each of S places.
Graph model() {
  Dim b = Dim::symbol("B"), s = Dim::symbol("S"), t = Dim::symbol("T");
  Graph g("model");
  Value x = g.input("x", f32, {b, s, 4}), y = g.input("y", f32, {b, t, 4}), w = g.input("w", f32, {4, 4});
  Value places = g.input("places", f32, {s, 4});
  Value q = matmul(x + places, w);
  Value scores = softmax(matmul(q, transpose(y, {0, 2, 1})));
  g.output(mean(layer_norm(matmul(scores, y)) + x, {1}), "rows");
  return g;
}
std::vector<Tensor> inputs_of(const Graph& g, const Bindings& sizes, uint64_t seed) {
  std::vector<Tensor> all;
  for (Type t : g.input_types()) {
    for (Dim& d : t.dims) d = d.bound(sizes);
    all.push_back(random_tensor(t.dtype, shape_of(t.dims), seed + all.size(), -1, 1));
  }
  return all;
}
std::vector<Bindings> sizes() {
  std::vector<Bindings> all;
  for (int64_t b : {1, 3})
    for (int64_t s : {1, 2, 7})
      for (int64_t t : {1, 5, 16}) all.push_back({{"B", b}, {"S", s}, {"T", t}});
  all.push_back({{"B", 0}, {"S", 2}, {"T", 3}});
  return all;
}
/// One compiled graph for all sizes, against the reference.
void check_for_all_sizes(const Graph& g, Bindings more = {}) {
  CompiledGraph compiled = Session(Device::from_environment(), {2}).compile(g);
  for (Bindings each : sizes()) {
    each.insert(more.begin(), more.end());
    auto inputs = inputs_of(g, each, 11);
    // Softmax and a norm of up to 16 terms, and their derivatives, in f32.
    CHECK_MESSAGE(difference(compiled.run_ordered(inputs), interpret(g, inputs), 2e-5) == "", g.name(),
                  " at B = ", each["B"], ", S = ", each["S"], ", T = ", each["T"]);
  }
}

}  // namespace

TEST_CASE("a graph of symbols verifies, prints and reads back") {
  Graph g = model();
  verify(g);
  CHECK(parse_graph(text(g)) == g);
  CHECK(text_of(g.output_types()[0]) == "f32[B, 4]");
  CHECK(text(g).find("f32[B, S, T]") != std::string::npos);  // the scores
}

TEST_CASE("it runs for any size with one compile") { check_for_all_sizes(model()); }

TEST_CASE("its gradient is a graph of the same symbols, and runs for any size with one compile") {
  Graph g = model(), gradient = value_and_vjp(g, Mask(4, true), {true});
  verify(gradient);
  CHECK(parse_graph(text(gradient)) == gradient);
  CHECK(gradient.output_types()[1] == g.input_types()[0]);
  check_for_all_sizes(gradient);
  // The symbols' gradient is the numbers' gradient.
  Bindings numbers = {{"B", 2}, {"S", 3}, {"T", 5}};
  auto inputs = inputs_of(gradient, numbers, 5);
  Graph fixed = value_and_vjp(substitute(g, numbers), Mask(4, true), {true});
  CHECK(difference(interpret(gradient, inputs), interpret(fixed, inputs), 1e-6) == "");
}

TEST_CASE("it batches over a symbol, and is then what each lane is") {
  Graph g = model(), lanes = batch(g, {true, true, false, false}, Dim::symbol("L"));
  verify(lanes);
  CHECK(text_of(lanes.output_types()[0]) == "f32[L, B, 4]");
  check_for_all_sizes(lanes, {{"L", 2}});
  Bindings numbers = {{"B", 2}, {"S", 3}, {"T", 5}, {"L", 4}};
  auto inputs = inputs_of(lanes, numbers, 5);
  Tensor all = interpret(lanes, inputs)[0];
  for (size_t lane = 0; lane < 4; ++lane) {
    auto one = inputs;
    for (size_t i : {0, 1}) {
      Shape shape(inputs[i].shape().begin() + 1, inputs[i].shape().end());
      one[i] = Tensor(f32, shape);
      std::memcpy(one[i].mutable_data(), inputs[i].data() + lane * one[i].byte_count(), one[i].byte_count());
    }
    Tensor wanted = interpret(g, one)[0], got(f32, wanted.shape());
    std::memcpy(got.mutable_data(), all.data() + lane * got.byte_count(), got.byte_count());
    CHECK(difference(got, wanted) == "");
  }
}

TEST_CASE("a size that does not fit is an error that names the input and the symbol") {
  Graph g = model();
  CompiledGraph compiled = Session(Device::from_environment(), {1}).compile(g);
  auto message = [&](Tensors inputs) -> std::string {
    try {
      compiled.run_ordered(inputs);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  auto inputs = inputs_of(g, {{"B", 2}, {"S", 3}, {"T", 5}}, 5);
  CHECK(message(inputs) == "");
  auto wrong = inputs;
  wrong[1] = Tensor(f32, {4, 5, 4});  // another B
  std::string batches = message(wrong);
  CHECK_MESSAGE(batches.find("'y'") != std::string::npos, batches);
  CHECK_MESSAGE(batches.find("does not fit the dim B") != std::string::npos, batches);
  wrong = inputs;
  wrong[3] = Tensor(f32, {6, 4});  // another S
  std::string places = message(wrong);
  CHECK_MESSAGE(places.find("'places'") != std::string::npos, places);
  CHECK_MESSAGE(places.find("does not fit the dim S") != std::string::npos, places);
  wrong = inputs;
  wrong[0] = Tensor(f32, {2, 3, 5});  // a number
  CHECK_MESSAGE(message(wrong).find("'x'") != std::string::npos, message(wrong));
  CHECK(message(inputs) == "");
}
