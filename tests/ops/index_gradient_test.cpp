// Derivatives and batches of indexing and ordering where the laws' random operands do not lead: what meets, what is out
// of range, and into which ops a batch turns. Numbers against JAX and PyTorch stand in tests/golden.
#include "autodiff/transforms.h"
#include "ops/tables.h"
#include "rlx/blocks.h"
#include "rlx/session.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// The cotangents of the float inputs of an op with one result.
template <class Build>
std::vector<Tensor> cotangents(Build build, std::vector<Tensor> inputs, const char* ct) {
  std::vector<Type> types;
  for (const Tensor& t : inputs) types.push_back(t.type());
  Graph g = trace(types, build);
  inputs.push_back(tensor_of(ct));
  return interpret(vjp(g, differentiable_inputs(g), {true}), inputs);
}
ScatterAttrs places(ScatterKind kind) { return {kind, {}, {0}, {}, {}, {0}, 1}; }

/// The names of the ops of a batch over 2 lanes, without those that only build indices.
template <class Build>
std::string batched_into(Build build, const std::vector<Type>& types, const Mask& batched) {
  Graph g = batch(trace(types, build), batched, 2);
  std::string names;
  for (const Node& node : g.nodes())
    if (std::string_view name = node.op->name; name.find("slice") != name.npos || name == "gather" ||
                                               name == "scatter" || name == "scan" || name == "sort" || name == "mean")
      names += (names.empty() ? "" : " ") + std::string(name);
  return names;
}

}  // namespace

TEST_CASE("a place that was read out of range moves no cotangent, unless it was moved into range") {
  for (OutOfRange mode : {OutOfRange::fill, OutOfRange::clip}) {
    auto d = cotangents([&](Values v) { return take(v[0], v[1], 0, mode); },
                        {tensor_of("f64[3] [1, 2, 3]"), tensor_of("i64[5] [2, -1, 3, 2, -9000000000]")},
                        "f64[5] [1, 20, 300, 4000, 50000]");
    CHECK(d[0] == tensor_of(mode == OutOfRange::fill ? "f64[3] [0, 0, 4001]" : "f64[3] [50020, 0, 4301]"));
  }
}
TEST_CASE("an index that its own dtype could not compare with the extent is clipped all the same") {
  Tensor x(f64, {300});
  auto d = cotangents([](Values v) { return take(v[0], v[1], 0, OutOfRange::clip); },
                      {x, tensor_of("u8[3] [0, 255, 7]")}, "f64[3] [1, 2, 3]");
  CHECK(load<double>(d[0], 255) == 2);
  d = cotangents([](Values v) { return take(v[0], v[1], 0, OutOfRange::clip); },
                 {x, tensor_of("u64[2] [18446744073709551615, 5]")}, "f64[2] [1, 2]");
  CHECK(load<double>(d[0], 299) == 1);
  CHECK(load<double>(d[0], 5) == 2);
}
TEST_CASE("of updates that meet, the last one gets the cotangent, and what they replaced gets none") {
  auto d =
      cotangents([](Values v) { return scatter(v[0], v[1], v[2], places(ScatterKind::update)); },
                 {tensor_of("f64[3] [1, 2, 3]"), tensor_of("i32[4] [0, 2, 0, 3]"), tensor_of("f64[4] [5, 6, 7, 8]")},
                 "f64[3] [10, 20, 30]");
  CHECK(d[0] == tensor_of("f64[3] [0, 20, 0]"));
  CHECK(d[1] == tensor_of("f64[4] [0, 30, 10, 0]"));
}
TEST_CASE("of factors that meet each gets the product of the others, also where some are zero") {
  auto d = cotangents([](Values v) { return scatter(v[0], v[1], v[2], places(ScatterKind::mul)); },
                      {tensor_of("f64[3] [2, 3, 5]"), tensor_of("i32[7] [0, 0, 1, 1, 2, 2, 2]"),
                       tensor_of("f64[7] [7, 11, 0, 13, 0, 17, 0]")},
                      "f64[3] [1, 10, 100]");
  CHECK(d[0] == tensor_of("f64[3] [77, 0, 0]"));
  CHECK(d[1] == tensor_of("f64[7] [22, 14, 390, 0, 0, 0, 0]"));
}
TEST_CASE("what equals the extreme shares its cotangent, whether it stood there or came") {
  auto d = cotangents(
      [](Values v) { return scatter(v[0], v[1], v[2], places(ScatterKind::max)); },
      {tensor_of("f64[3] [4, 1, 9]"), tensor_of("i32[6] [0, 0, 0, 1, 2, 5]"), tensor_of("f64[6] [4, 3, 4, 2, 8, 99]")},
      "f64[3] [6, 10, 100]");
  CHECK(d[0] == tensor_of("f64[3] [2, 0, 100]"));
  CHECK(d[1] == tensor_of("f64[6] [2, 0, 2, 10, 0, 0]"));
}
TEST_CASE("a scatter by a sub-graph has the derivative of its fold, in the order of the slices") {
  Type one{f64, {}};
  Graph body = trace(std::vector{one, one}, [](Values v) { return v[0] * v[0] + v[1]; });
  ScatterAttrs attrs = places(ScatterKind::custom);
  attrs.body = body;
  // At 0: ((3^2 + 1)^2 + 2); dx = 2 (10) 2 (3), the first update 2 (10), the second 1. 7 is out of range.
  auto d = cotangents([&](Values v) { return scatter(v[0], v[1], v[2], attrs); },
                      {tensor_of("f64[2] [3, 5]"), tensor_of("i32[3] [0, 7, 0]"), tensor_of("f64[3] [1, 99, 2]")},
                      "f64[2] [1, 10]");
  CHECK(d[0] == tensor_of("f64[2] [120, 10]"));
  CHECK(d[1] == tensor_of("f64[3] [20, 0, 1]"));
  d = cotangents([&](Values v) { return scatter(v[0], v[1], v[2], attrs); },
                 {Tensor(f64, {0}), tensor_of("i32[3] [0, 7, 0]"), tensor_of("f64[3] [1, 99, 2]")}, "f64[0] []");
  CHECK(d[1] == tensor_of("f64[3] [0, 0, 0]"));
}
TEST_CASE("equal keys keep their places, and so do their cotangents") {
  auto d = cotangents([](Values v) { return sort_values(v[0]); }, {tensor_of("f64[5] [2, 1, 2, nan, 1]")},
                      "f64[5] [1, 2, 3, 4, 5]");
  CHECK(d[0] == tensor_of("f64[5] [3, 1, 4, 5, 2]"));
}
TEST_CASE("the norm of zeros has the derivative 0") {
  for (NormKind kind : {NormKind::l1, NormKind::l2}) {
    auto d = cotangents([&](Values v) { return norm(v[0], kind, {1}); }, {tensor_of("f64[2, 2] [0, 0, 3, 4]")},
                        "f64[2] [7, 10]");
    CHECK(d[0] == tensor_of(kind == NormKind::l1 ? "f64[2, 2] [0, 0, 10, 10]" : "f64[2, 2] [0, 0, 6, 8]"));
  }
}
TEST_CASE("a batch of dynamic slices stays one while the lanes share the starts, else it is a gather or a scatter") {
  auto slice = [](Values v) { return dynamic_slice(v[0], {v[1], v[2]}, {2, 3}); };
  auto update = [](Values v) { return dynamic_update_slice(v[0], v[1], {v[2]}); };
  std::vector<Type> sliced = {{f32, {4, 5}}, {i32, {}}, {i32, {}}}, updated = {{f32, {4}}, {f32, {2}}, {i32, {1}}};
  CHECK(batched_into(slice, sliced, {true, false, false}) == "dynamic_slice");
  CHECK(batched_into(slice, sliced, {false, true, false}) == "gather");
  CHECK(batched_into(slice, sliced, {true, false, true}) == "gather");
  CHECK(batched_into(update, updated, {false, true, false}) == "dynamic_update_slice");
  CHECK(batched_into(update, updated, {true, false, false}) == "dynamic_update_slice");
  CHECK(batched_into(update, updated, {false, false, true}) == "scatter");
}
TEST_CASE("lanes of blocks are updated at places of their own, however many there are") {
  const std::vector<Type> lane = {{q8_0, {4, 32}}, {q8_0, {1, 32}}, {i32, {2}}};
  const Graph one = trace(lane, [](Values v) { return dynamic_update_slice(v[0], v[1], {v[2]}); });
  const Mask all = {true, true, true};
  const Dim sizes[] = {Dim(3), Dim::symbol("N")};
  Tensor x(f32, {3, 4, 32}), update(f32, {3, 1, 32});
  for (size_t i = 0; i < x.element_count(); ++i) x.mutable_values<float>()[i] = static_cast<float>(i % 127);
  for (size_t i = 0; i < update.element_count(); ++i) update.mutable_values<float>()[i] = -static_cast<float>(i % 32);
  const std::vector<Tensor> in = {quantized(x, q8_0), quantized(update, q8_0),
                                  tensor_of("i32[3, 2] [2, 0, -5, 0, 9, 0]")};
  for (const Dim& size : sizes) {
    const Tensor made = dequantized(interpret(batch(one, all, size), in)[0]);
    CHECK(Session().compile(batch(one, all, size)).run_ordered(in)[0] == quantized(made, q8_0));
    for (size_t row = 0; row < 12; ++row) {
      const bool is_new = row == 2 || row == 4 || row == 11;  // places are clamped
      CHECK((made.values<float>()[32 * row + 31] < 0) == is_new);
    }
  }
}
TEST_CASE("batches of indexing are indexing, and no lane is looped over") {
  auto read = [](Values v) { return take_along_axis(v[0], v[1], 0); };
  auto write = [](Values v) { return scatter_nd(v[0], v[1], v[2], ScatterReduction::add); };
  std::vector<Type> types = {{f32, {4, 3}}, {i64, {2, 3}}}, written = {{f32, {4, 3}}, {i64, {2, 1}}, {f32, {2, 3}}};
  for (const Mask& mask : {Mask{true, true}, Mask{true, false}, Mask{false, true}})
    CHECK(batched_into(read, types, mask) == "gather");
  for (const Mask& mask : {Mask{true, true, true}, Mask{false, false, true}, Mask{false, true, false}})
    CHECK(batched_into(write, written, mask) == "scatter");
  CHECK(batched_into(
            [](Values v) {
              return sort({v[0], v[1]}, {.axis = 0});
            },
            {{f32, {4}}, {i32, {4}}}, {true, false}) == "sort");
  CHECK(batched_into([](Values v) { return mean(v[0], {0}); }, {{f32, {4, 3}}}, {true}) == "mean");
}
TEST_CASE("derivatives and batches of indexing take symbolic dims") {
  Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  std::vector<Type> types = {{f32, {n, 3}}, {i32, {m}}};
  for (OutOfRange mode : {OutOfRange::fill, OutOfRange::clip}) {
    Graph g = trace(types, [&](Values v) { return take(v[0], v[1], 0, mode); });
    CHECK(vjp(g, {true, false}, {true}).output_types() == std::vector{types[0]});
    CHECK(batch(g, {false, true}, Dim::symbol("b")).output_types() == std::vector{Type{f32, {Dim::symbol("b"), m, 3}}});
  }
  for (ScatterKind kind : {ScatterKind::update, ScatterKind::add, ScatterKind::mul, ScatterKind::max}) {
    Graph g = trace(std::vector<Type>{{f64, {n}}, {i32, {m}}, {f64, {m}}},
                    [&](Values v) { return scatter(v[0], v[1], v[2], places(kind)); });
    CHECK(vjp(g, {true, false, true}, {true}).output_types() == std::vector<Type>{{f64, {n}}, {f64, {m}}});
  }
  Graph g = trace(std::vector<Type>{{f64, {n, m}}}, [](Values v) { return sort_values(v[0], 0); });
  CHECK(vjp(g, {true}, {true}).output_types() == g.input_types());
}
