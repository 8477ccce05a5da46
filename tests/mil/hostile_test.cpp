// Programs that no converter writes: an error that names the op and says what is wrong, before memory is taken.
#include "frontends/mil/evaluate.h"
#include "programs.h"

namespace rlx::test {
namespace {

std::string error_of(const mil::Model& model, mlprogram::LowerOptions options = {}) {
  try {
    lowered(model, std::move(options));
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Written with(mil::Operation op, int opset = 5) {
  Written w(opset);
  w.input("x", Tensor::of<float>({2, 2}, {1, 2, 3, 4})).add(std::move(op)).result("y");
  return w;
}

}  // namespace

TEST_CASE("names") {
  std::string e = error_of(with(operation("relu", {{"x", "nowhere"}}, {unknown("y", f32, 2)})).model);
  CHECK(has(e, "'nowhere' is not defined"));
  CHECK(has(e, "relu 'the_relu'"));
  // Two ops that read each other: the first one's operand is not there yet.
  Written w;
  w.input("x", Tensor::of<float>({1}, {1}))
      .add(operation("add", {{"x", "x"}, {"y", "b"}}, {unknown("a", f32, 1)}))
      .add(operation("add", {{"x", "x"}, {"y", "a"}}, {unknown("b", f32, 1)}))
      .result("b");
  CHECK(has(error_of(w.model), "'b' is not defined"));
  CHECK(has(error_of(with(operation("relu", {{"x", "x"}}, {unknown("z", f32, 2)})).model), "'y' is not defined"));
  CHECK(has(error_of(with(operation("reluu", {{"x", "x"}}, {unknown("y", f32, 2)})).model), "'reluu'"));
}

TEST_CASE("arguments") {
  CHECK(has(error_of(with(operation("add", {{"x", "x"}}, {unknown("y", f32, 2)})).model), "'y' is missing"));
  CHECK(has(error_of(with(operation("relu", {{"x", "x"}, {"slope", number(1)}}, {unknown("y", f32, 2)})).model),
            "no parameter 'slope'"));
  CHECK(has(error_of(with(operation("relu", {{"x", word("text")}}, {unknown("y", f32, 2)})).model), "a string"));
  CHECK(has(error_of(with(operation("cast", {{"x", "x"}, {"dtype", word("fp128")}}, {unknown("y", f32, 2)})).model),
            "fp128"));
  CHECK(
      has(error_of(with(operation("reduce_sum", {{"x", "x"}, {"axes", integers({5})}}, {unknown("y", f32, 1)})).model),
          "reduce_sum"));
  CHECK(has(error_of(with(operation("relu", {{"x", "x"}}, {unknown("y", f32, 2), unknown("z", f32, 2)})).model),
            "results"));
}

TEST_CASE("what is declared is checked") {
  mil::NamedType wrong = {"y", mil::ValueType::tensor(mil::DataType::float32, {3, 2})};
  CHECK(has(error_of(with(operation("relu", {{"x", "x"}}, {wrong})).model), "declares 'y' as fp32[3, 2]"));
  wrong.type = mil::ValueType::tensor(mil::DataType::int32, {2, 2});
  CHECK(has(error_of(with(operation("relu", {{"x", "x"}}, {wrong})).model), "int32"));
}

TEST_CASE("initial states of a recurrent layer have a row for each sequence") {
  auto error = [](const std::string& type, int64_t gates, const Shape& state, const std::string& direction) {
    auto zeros = [](const Shape& dims) { return mil::Value::of(full(f32, dims, 0)); };
    std::vector<Given> given = {{"x", zeros({2, 3, 4})},
                                {"initial_h", zeros(state)},
                                {"weight_ih", zeros({gates * 5, 4})},
                                {"weight_hh", zeros({gates * 5, 5})},
                                {"direction", word(direction)}};
    std::vector<mil::NamedType> results = {unknown("y", f32, 3), unknown("h", f32, 2)};
    if (type == "lstm")
      given.emplace_back("initial_c", zeros({3, state.back()})), results.push_back(unknown("c", f32, 2));
    if (direction == "bidirectional") {
      given.emplace_back("weight_ih_back", zeros({gates * 5, 4}));
      given.emplace_back("weight_hh_back", zeros({gates * 5, 5}));
    }
    return error_of(with(operation(type, given, results)).result("h").model);
  };
  for (const auto& layer : {std::pair{"rnn", 1}, {"gru", 3}, {"lstm", 4}}) {
    const auto* const type = layer.first;
    const int gates = layer.second;
    CAPTURE(type);
    CHECK(error(type, gates, {3, 5}, "forward") == "no error");
    CHECK(error(type, gates, {7, 5}, "reverse") == "no error");  // as coremltools writes for a PackedSequence
    CHECK(has(error(type, gates, {2, 5}, "forward"), "initial_h f32[2, 5] has 2 rows for the 3 sequences"));
    CHECK(has(error(type, gates, {3, 6}, "forward"), "initial_h f32[3, 6] is not [b, 5]"));
    CHECK(has(error(type, gates, {5}, "forward"), "initial_h f32[5] is not [b, 5]"));
  }
  CHECK(error("lstm", 4, {4, 10}, "bidirectional") == "no error");
  CHECK(has(error("lstm", 4, {3, 5}, "bidirectional"), "initial_h f32[3, 5] is not [b, 10]"));
}

TEST_CASE("giant counts") {
  auto fails = [](mil::Operation op, int opset = 5) {
    return error_of(with(std::move(op), opset).model) != "no error";
  };
  CHECK(fails(operation("tile", {{"x", "x"}, {"reps", integers({-1, 1})}}, {unknown("y", f32, 2)})));
  CHECK(fails(operation("fill", {{"shape", integers({-5})}}, {unknown("y", f32, 1)})));
  CHECK(fails(operation("split", {{"x", "x"}, {"axis", number(0, i32)}, {"num_splits", number(2147483647, i32)}},
                        {unknown("y", f32, 2)})));
  CHECK(fails(
      operation("upsample_bilinear", {{"x", "x"}, {"scale_factor_height", number(1e30)}}, {unknown("y", f32, 2)})));
  CHECK(fails(
      operation("topk", {{"x", "x"}, {"k", number(1000000000, i32)}}, {unknown("y", f32, 2), unknown("z", i32, 2)})));
  // A dense weight of 2^60 elements from four bytes.
  CHECK(fails(operation("constexpr_sparse_to_dense",
                        {{"nonzero_data", mil::Value::of(Tensor::of<float>({1}, {1}))},
                         {"mask", mil::Value::of(Tensor::of<uint8_t>({1}, {1}))},
                         {"shape", integers({1 << 30, 1 << 30})}},
                        {unknown("y", f32, 2)}),
              6));
}

TEST_CASE("control flow that does not fit") {
  mil::Operation loop =
      operation("while_loop", {{"loop_vars", mil::Argument{std::string("x")}}}, {unknown("y", f32, 2)});
  CHECK(has(error_of(with(loop).model), "two blocks"));
  mil::Block endless, same;
  endless.inputs = same.inputs = {unknown("v", f32, 2)};
  endless.operations = {operation("const", {}, {})};
  endless.operations.clear();
  endless.outputs = {"v"};
  same.outputs = {"v"};
  loop.blocks = {endless, same};
  CHECK(error_of(with(loop).model) != "no error");  // a condition of four floats
}

TEST_CASE("a size that takes for ever, or all memory, to compute") {
  // v = 0; while v < 1: v = v * 0. Then a tensor of so many elements.
  auto i32_scalar = [](const char* name) { return scalar_type(name, i32); };
  mil::Operation loop =
      operation("while_loop", {{"loop_vars", mil::Argument{mil::Value::of(full(i32, {}, 0))}}}, {i32_scalar("count")});
  mil::Block condition, body;
  condition.inputs = body.inputs = {i32_scalar("v")};
  condition.operations = {operation("less", {{"x", "v"}, {"y", number(1, i32)}}, {scalar_type("go", boolean)})};
  condition.outputs = {"go"};
  body.operations = {operation("mul", {{"x", "v"}, {"y", number(0, i32)}}, {i32_scalar("w")})};
  body.outputs = {"w"};
  loop.blocks = {condition, body};
  auto filled = [&](mil::Operation first, const char* size) {
    Written w;
    w.input("x", Tensor(f32, {1}))
        .add(std::move(first))
        .add(operation("expand_dims", {{"x", size}, {"axes", integers({0})}}, {unknown("shape", i32, 1)}))
        .add(operation("fill", {{"shape", "shape"}, {"value", number(1)}}, {unknown("y", f32, 1)}))
        .result("y");
    return error_of(w.model);
  };
  CHECK(has(filled(loop, "count"), "100000 trips"));
  // The same loop inside of a branch.
  mil::Operation branch = operation("cond", {{"pred", mil::Value::of(true)}}, {i32_scalar("count")});
  mil::Block chosen;
  chosen.operations = {loop};
  chosen.outputs = {"count"};
  branch.blocks = {chosen, chosen};
  CHECK(filled(branch, "count") != "no error");
  // 2^31 elements that are summed to a size.
  Written w;
  w.input("x", Tensor(f32, {1}))
      .add(operation("fill", {{"shape", integers({1 << 16, 1 << 15})}, {"value", number(0, i32)}},
                     {unknown("big", i32, 2)}))
      .add(operation("reduce_sum", {{"x", "big"}, {"axes", integers({0})}}, {unknown("sum", i32, 1)}))
      .add(operation("fill", {{"shape", "sum"}, {"value", number(1)}}, {unknown("y", f32, 1)}))
      .result("y");
  CHECK(has(error_of(w.model), "2 GiB"));
}

TEST_CASE("several sizes that data decide are computed within one measure") {
  // Each counts to the number of trips that x gives; two of them make more than the 100,000 that there are for all.
  auto scalar = [](const char* name) { return scalar_type(name, i32); };
  auto count_to = [&](const char* limit, const char* name) {
    mil::Operation loop =
        operation("while_loop", {{"loop_vars", mil::Argument{mil::Value::of(full(i32, {}, 0))}}}, {scalar(name)});
    mil::Block condition, body;
    condition.inputs = body.inputs = {scalar("v")};
    condition.operations = {operation("less", {{"x", "v"}, {"y", limit}}, {scalar_type("go", boolean)})};
    condition.outputs = {"go"};
    body.operations = {operation("add", {{"x", "v"}, {"y", number(1, i32)}}, {scalar("w")})};
    body.outputs = {"w"};
    loop.blocks = {condition, body};
    return loop;
  };
  auto asked = [&](double trips, int sizes) {
    Written w;
    w.input("x", Tensor(i32, {1}));
    w.add(operation("squeeze", {{"x", "x"}}, {scalar("limit")}));
    for (int i = 0; i < sizes; ++i) {
      std::string n = std::to_string(i), count = "count" + n, shape = "shape" + n, y = "y" + n;
      w.add(count_to("limit", count.c_str()))
          .add(operation("expand_dims", {{"x", count.c_str()}, {"axes", integers({0})}}, {unknown(shape, i32, 1)}))
          .add(operation("fill", {{"shape", shape.c_str()}, {"value", number(1)}}, {unknown(y, f32, 1)}))
          .result(y);
    }
    mlprogram::LowerOptions options;
    options.data["x"] = full(i32, {1}, trips), options.dims["x"] = {1};
    return error_of(w.model, options);
  };
  CHECK(asked(300, 3) == "no error");
  CHECK(has(asked(300, 400), "100000 trips"));  // of 300 trips each
  // Of memory likewise: what one question may take, two may not.
  mlprogram::Evaluator::Budget budget;
  std::vector<Type> large{{f32, {int64_t{1} << 26}}};
  budget.take(large);
  budget.take({{f32, {(int64_t{1} << 26) - 1}}});
  CHECK_THROWS_WITH_AS(budget.take(large), doctest::Contains("2 GiB"), Error);
}

TEST_CASE("a program that nests, or repeats, without measure") {
  // Blocks within blocks: what recurses stops at the depth that files can have.
  mil::Operation inner = operation("relu", {{"x", "x"}}, {unknown("y", f32, 2)});
  for (int depth = 0; depth < 30; ++depth) {
    mil::Operation outer = operation("cond", {{"pred", mil::Value::of(true)}}, {unknown("y", f32, 2)});
    mil::Block block;
    block.operations = {inner};
    block.outputs = {"y"};
    outer.blocks = {block, block};
    inner = outer;
    if (outer.blocks[0].operations.size() > 1) break;
    outer.blocks[1].operations.clear();
    outer.blocks[1].outputs = {"x"};
    inner.blocks[1] = outer.blocks[1];
  }
  CHECK(error_of(with(inner).model) == "no error");
  // Doublings of a tensor that no memory holds in the end: the graph has its type, and nothing is computed.
  Written w;
  w.input("x", Tensor(f32, {2, 2}));
  std::string last = "x";
  for (int i = 0; i < 70; ++i) {
    std::string next = "t" + std::to_string(i);
    w.add(operation("tile", {{"x", last.c_str()}, {"reps", integers({2, 1})}}, {unknown(next, f32, 2)}));
    last = next;
  }
  w.result(last);
  CHECK(error_of(w.model) != "no error");
}

}  // namespace rlx::test
