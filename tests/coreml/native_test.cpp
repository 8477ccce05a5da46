// Ops for which ML Programs have an operation are written as that one, and as nothing else beside constants and casts.
#include <map>

#include "backends/coreml/coreml.h"
#include "compile/pipeline.h"
#include "coreml/samples.h"
#include "passes/legalize.h"
#include "rlx/ops.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// The operations of a program but for what every program has: constants, identities of outputs, casts.
std::string operations(const mil::Model& model) {
  std::string all;
  const mil::Function& main = model.program.functions.at("main");
  for (const mil::Operation& op : main.blocks.at(main.opset).operations)
    if (op.type != "const" && op.type != "identity" && op.type != "cast") all += (all.empty() ? "" : " ") + op.type;
  return all;
}

std::string written(const std::function<void(Graph&)>& build, int newest) {
  Graph g;
  build(g);
  coreml::Options options{.newest_opset = newest};
  Pipelined legal = run_pipeline(g, coreml::target(options), {});
  require_complete(legal.report, false);
  return operations(coreml::translate(legal.graph, options).model);
}

Value x_of(Graph& g, Dims dims, DType dtype = f32) { return g.input("x", {dtype, std::move(dims)}); }

}  // namespace

TEST_CASE("what ML Programs have as one operation is one operation") {
  struct Row {
    const char* operation;
    int opset;
    std::function<Value(Graph&)> build;
  };
  const Row kRows[] = {
      {"leaky_relu", 5,
       [](Graph& g) {
         return leaky_relu(x_of(g, {3, 4}), 0.1);
       }},
      {"leaky_relu", 7,
       [](Graph& g) {
         return leaky_relu(x_of(g, {3, 4}, f16), 0.1);
       }},
      {"elu", 5,
       [](Graph& g) {
         return elu(x_of(g, {3, 4}), 1.5);
       }},
      {"sigmoid_hard", 5,
       [](Graph& g) {
         return hard_sigmoid(x_of(g, {3, 4}), 0.2, 0.4);
       }},
      {"clip", 5,
       [](Graph& g) {
         return clamp(x_of(g, {3, 4}), -1, 2);
       }},
      {"clip", 6,
       [](Graph& g) {
         return clamp(x_of(g, {3, 4}, f16), -1, 0.1);
       }},
      {"softplus", 5,
       [](Graph& g) {
         return softplus(x_of(g, {3, 4}));
       }},
      {"softsign", 5,
       [](Graph& g) {
         return softsign(x_of(g, {3, 4}));
       }},
      {"relu6", 5,
       [](Graph& g) {
         return relu6(x_of(g, {3, 4}));
       }},
      {"gelu", 5,
       [](Graph& g) {
         return gelu_tanh(x_of(g, {3, 4}));
       }},
      {"band_part", 5,
       [](Graph& g) {
         return tril(x_of(g, {2, 4, 4}), 1);
       }},
      {"band_part", 5,
       [](Graph& g) {
         return triu(x_of(g, {4, 5}), -2);
       }},
      {"tile", 5,
       [](Graph& g) {
         return tile(x_of(g, {2, 3}), {2, 4});
       }},
      {"stack", 5,
       [](Graph& g) {
         Value x = x_of(g, {2, 3});
         return stack({x, x}, 1);
       }},
      {"pad", 5,
       [](Graph& g) {
         return pad_mode(x_of(g, {2, 3, 4}), PadMode::reflect, {0, 1, 2}, {0, 2, 3});
       }},
      {"pad", 5,
       [](Graph& g) {
         return pad_mode(x_of(g, {3, 4}), PadMode::replicate, {3, 0}, {0, 2});
       }},
      {"upsample_nearest_neighbor", 5,
       [](Graph& g) {
         return interpolate(x_of(g, {1, 2, 3, 4}), {6, 12});
       }},
      {"resize_nearest_neighbor", 5,
       [](Graph& g) {
         return interpolate(x_of(g, {1, 2, 3, 4}), {5, 3});
       }},
      {"reduce_l2_norm", 5,
       [](Graph& g) {
         return norm(x_of(g, {3, 4}), NormKind::l2, {1});
       }},
      {"reduce_l1_norm", 5,
       [](Graph& g) {
         return norm(x_of(g, {3, 4}), NormKind::l1, {0}, true);
       }},
      {"cumsum", 5,
       [](Graph& g) {
         return cumsum(x_of(g, {3, 4}, i32), 1);
       }},
      {"argsort", 5,
       [](Graph& g) {
         return argsort(x_of(g, {3, 4}), 1);
       }},
      {"topk", 5,
       [](Graph& g) {
         return top_k(x_of(g, {3, 4}), 2).values;
       }},
      {"linear", 5,
       [](Graph& g) {
         return linear(x_of(g, {3, 4}), g.constant(full(f32, {5, 4}, 0.5)), g.constant(full(f32, {5}, 1)));
       }},
      {"einsum", 5,
       [](Graph& g) {
         DotAttrs a{{0, 2}, {0, 2}, {3}, {1}};
         Value y = g.input("y", {f32, {2, 5, 4, 6}});
         return transpose(dot_general(x_of(g, {2, 3, 4, 5}), y, a), {0, 2, 1, 3});
       }},
      {"einsum", 5,
       [](Graph& g) {
         DotAttrs a{{1}, {1}, {2}, {0}};
         Value y = g.input("y", {f32, {5, 4, 6}});
         return transpose(dot_general(x_of(g, {3, 4, 5}), y, a), {1, 0, 2});
       }},
      {"scaled_dot_product_attention", 8,
       [](Graph& g) {
         Value k = g.input("k", {f32, {1, 2, 5, 8}}), v = g.input("v", {f32, {1, 2, 5, 8}});
         return attention(x_of(g, {1, 2, 3, 8}), k, v, {.heads = 2, .causal = true, .window = 1});
       }},
      {"slice_update", 8,
       [](Graph& g) {
         return dynamic_update_slice(x_of(g, {5, 4}), g.input("u", {f32, {2, 4}}),
                                     {g.constant(Tensor::of<int32_t>({2}, std::vector<int32_t>{1, 0}))});
       }},
      {"quantize dequantize", 7,
       [](Graph& g) {
         Value scale = g.constant(full(f32, {4}, 0.1)), zero = g.constant(full(u8, {4}, 3));
         return dequantize(quantize(x_of(g, {3, 4}), scale, zero, {1, u8}), scale, zero, 1);
       }},
      {"gather", 5,
       [](Graph& g) {
         return take(x_of(g, {5, 4}), g.constant(Tensor::of<int32_t>({3}, std::vector<int32_t>{3, 0, 2})), 1,
                     OutOfRange::clip);
       }},
      {"gather_nd", 5,
       [](Graph& g) {
         return gather_nd(x_of(g, {5, 4, 2}),
                          g.constant(Tensor::of<int32_t>({2, 2}, std::vector<int32_t>{4, 0, 2, 3})));
       }},
      {"gather_along_axis", 5,
       [](Graph& g) {
         return take_along_axis(x_of(g, {2, 4}),
                                g.constant(Tensor::of<int32_t>({2, 2}, std::vector<int32_t>{3, 0, 2, 3})), 1);
       }},
      {"scatter_nd", 5,
       [](Graph& g) {
         Value i = g.constant(Tensor::of<int32_t>({2, 2}, std::vector<int32_t>{4, 0, 2, 3}));
         return scatter_nd(x_of(g, {5, 4}), i, g.constant(full(f32, {2}, 7)), ScatterReduction::add);
       }},
      {"scatter_along_axis", 5,
       [](Graph& g) {
         Value i = g.constant(Tensor::of<int32_t>({2, 2}, std::vector<int32_t>{3, 0, 2, 3}));
         return scatter_elements(x_of(g, {2, 4}), i, g.constant(full(f32, {2, 2}, 7)), 1, ScatterReduction::max);
       }},
      {"scatter", 5,
       [](Graph& g) {
         Value i = g.constant(Tensor::of<int32_t>({2, 1}, std::vector<int32_t>{3, 0}));
         return scatter_nd(x_of(g, {5, 4}), i, g.constant(full(f32, {2, 4}, 7)));
       }},
  };
  for (ResizeGrid grid : {ResizeGrid::half_pixel, ResizeGrid::asymmetric, ResizeGrid::align_corners,
                          ResizeGrid::align_ends, ResizeGrid::half_pixel_corners})
    for (const Dims& dims : {Dims{1, 2, 3, 4}, Dims{2, 3, 4}}) {
      CAPTURE(static_cast<int>(grid));
      CHECK(written(
                [&](Graph& g) {
                  g.output(resize_linear(x_of(g, dims), {5, 3}, grid), "y");
                },
                5) == "resize_bilinear");
    }
  for (const Row& row : kRows) {
    CAPTURE(std::string(row.operation));
    CHECK(written([&](Graph& g) { g.output(row.build(g), "y"); }, row.opset) == row.operation);
  }
  CHECK(written(
            [](Graph& g) {
              auto parts = split(x_of(g, {3, 6}), {1, 2, 3}, 1);
              for (size_t i = 0; i < parts.size(); ++i) g.output(parts[i], text_of("y", i));
            },
            5) == "split");
}

TEST_CASE("up to iOS 16 a slope beside f16 would be another one, so it is not asked for") {
  std::string before = written([](Graph& g) { g.output(leaky_relu(x_of(g, {3, 4}, f16), 0.1), "y"); }, 6);
  CHECK(before.find("leaky_relu") == std::string::npos);
}

TEST_CASE("indices out of range are moved or dropped as the graph says, whatever the operation does") {
  TemporaryFolder temporary;
  struct Row {
    const char* name;
    std::function<Value(Graph&, Value, Value)> build;
    Shape x, indices;
  };
  const Row kRows[] = {
      {"take, filled", [](Graph&, Value x, Value i) { return take(x, i, 0); }, {4, 3}, {2, 3}},
      {"take, moved", [](Graph&, Value x, Value i) { return take(x, i, 1, OutOfRange::clip); }, {3, 4}, {6}},
      {"along", [](Graph&, Value x, Value i) { return take_along_axis(x, i, 1); }, {2, 4}, {2, 3}},
      {"vectors", [](Graph&, Value x, Value i) { return gather_nd(x, i); }, {4, 4, 2}, {3, 2}},
      {"vectors, batched",
       [](Graph&, Value x, Value i) { return gather_nd(x, i, 1, OutOfRange::clip); },
       {2, 4, 3},
       {2, 3, 1}},
      {"rows added",
       [](Graph& g, Value x, Value i) {
         return scatter_nd(x, i, g.constant(full(f32, {6, 3}, 2)), ScatterReduction::add);
       },
       {4, 3},
       {6, 1}},
      {"vectors put",
       [](Graph& g, Value x, Value i) {
         return scatter_nd(x, i, g.constant(Tensor::of<float>({3}, std::vector<float>{5, 6, 7})));
       },
       {4, 4},
       {3, 2}},
      {"along, multiplied",
       [](Graph& g, Value x, Value i) {
         return scatter_elements(x, i, g.constant(full(f32, {2, 3}, 3)), 1, ScatterReduction::mul);
       },
       {2, 4},
       {2, 3}},
  };
  const int32_t kHostile[] = {3, -1, 0, 4, 1, -2147483647};
  for (const Row& row : kRows) {
    CAPTURE(std::string(row.name));
    Graph g;
    Value x = g.input("x", {f32, Dims(row.x.begin(), row.x.end())});
    Value i = g.input("i", {i32, Dims(row.indices.begin(), row.indices.end())});
    g.output(row.build(g, x, i), "y");
    Tensor numbers(f32, row.x), indices(i32, row.indices);
    for (size_t k = 0; k < numbers.element_count(); ++k) store<double>(numbers, k, 1.0 + static_cast<double>(k));
    for (size_t k = 0; k < indices.element_count(); ++k) indices.mutable_values<int32_t>()[k] = kHostile[k % 6];
    for (int newest : {5, 8}) {
      coreml::Options options{.newest_opset = newest};
      Pipelined legal = run_pipeline(g, coreml::target(options), {});
      coreml::Translated made = coreml::translate(legal.graph, options);
      CHECK(judged(folder_for_cases(temporary) / text_of("places.", row.name, ".", newest), "gather", made, g,
                   {numbers, indices}) == "");
    }
  }
}

TEST_CASE("limits that are one number in the operand's dtype are no clip") {
  for (auto limits : {std::pair{0.1, 0.10000001}, std::pair{70000.0, 80000.0}, std::pair{0.0, 1e-9}}) {
    auto build = [&](Graph& g) { g.output(clamp(x_of(g, {3, 4}, f16), limits.first, limits.second), "y"); };
    CHECK(written(build, 8).find("clip") == std::string::npos);
  }
}

TEST_CASE("products with open batches are no einsum, whose batches Apple's loader wants to be equal") {
  Graph g;
  Dim b = Dim::symbol("B");
  Value x = g.input("x", {f32, {b, 3, 4, 5}}), y = g.input("y", {f32, {b, 5, 4, 6}});
  g.output(dot_general(x, y, {{0, 2}, {0, 2}, {3}, {1}}), "z");
  coreml::Options options{.newest_opset = 8, .open_dims = true};
  Pipelined legal = run_pipeline(g, coreml::target(options), {});
  require_complete(legal.report, false);
  CHECK(operations(coreml::translate(legal.graph, options).model).find("einsum") == std::string::npos);
}

TEST_CASE("squares of f16 are summed in f32, as the graph says") {
  auto build = [](Graph& g) { g.output(norm(x_of(g, {3, 4}, f16), NormKind::l2, {1}), "y"); };
  CHECK(written(build, 8).find("reduce_l2_norm") == std::string::npos);
}

namespace {
/// What a package of the graph gives beside the reference: nothing if the same.
std::string beside_the_reference(const std::string& path, const Graph& g, const std::vector<Tensor>& in,
                                 bool narrow = false) {
  coreml::Options options{.newest_opset = 8, .narrow = narrow};
  Pipelined legal = run_pipeline(g, coreml::target(options), {});
  coreml::Translated made = coreml::translate(legal.graph, options);
  return judged(path, "gather", made, g, in);
}
}  // namespace

TEST_CASE("indices without a sign lie beyond the end where their highest bit is set") {
  TemporaryFolder temporary;
  const std::vector<uint32_t> kFar{4294967295u, 1, 2147483648u, 0};
  Tensor x = Tensor::of<float>({3}, std::vector<float>{5, 6, 7});
  const std::pair<const char*, std::function<Value(Value, Value)>> kRows[] = {
      {"clip", [](Value v, Value i) { return take(v, i, 0, OutOfRange::clip); }},
      {"fill", [](Value v, Value i) { return take(v, i, 0); }},
      {"added", [](Value v, Value i) { return scatter_elements(v, i, full_like(convert(i, f32), 2), 0); }},
  };
  for (const auto& row : kRows)
    for (bool known : {false, true}) {
      CAPTURE(std::string(row.first));
      CAPTURE(known);
      Graph g;
      Value v = g.input("x", {f32, {3}});
      Tensor places = Tensor::of<uint32_t>({4}, kFar);
      Value i = known ? g.constant(places) : g.input("i", {u32, {4}});
      g.output(row.second(v, i), "y");
      std::vector<Tensor> in{x};
      if (!known) in.push_back(places);
      CHECK(beside_the_reference(folder_for_cases(temporary) / text_of("far.", row.first, ".", known), g, in) == "");
    }
  Graph g;
  Value v = g.input("x", {f32, {3}}), start = g.input("i", {u32, {1}});
  g.output(dynamic_slice(v, {start}, {2}), "y");
  CHECK(beside_the_reference(folder_for_cases(temporary) / "far.slice", g,
                             {x, Tensor::of<uint32_t>({1}, std::vector<uint32_t>{3000000000u})}) == "");
  // A constant that --narrow would wrap to 1.
  Graph wide;
  Value far = wide.constant(Tensor::of<int64_t>({2}, std::vector<int64_t>{4294967297, -4294967295}));
  wide.output(take(wide.input("x", {f32, {3}}), far, 0, OutOfRange::clip), "y");
  CHECK(beside_the_reference(folder_for_cases(temporary) / "far.wide", wide, {x}, true) == "");
}

TEST_CASE("NaN is the largest, downwards too") {
  TemporaryFolder temporary;
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  Tensor x =
      Tensor::of<float>({3, 4}, std::vector<float>{1, nan, infinity, nan, 2, -infinity, 2, 5, nan, nan, nan, nan});
  for (bool descending : {false, true})
    for (int axis : {0, 1}) {
      CAPTURE(descending);
      CAPTURE(axis);
      Graph g;
      Value v = g.input("x", {f32, {3, 4}});
      g.output(argsort(v, axis, descending), "y");
      CHECK(beside_the_reference(folder_for_cases(temporary) / text_of("nan.", descending, ".", axis), g, {x}) == "");
    }
}
