// Control flow, lists, states, sizes that data decide.
#include "programs.h"

namespace rlx::test {
namespace {

mil::Operation constant(const std::string& name, mil::Value value) {
  mil::Operation op;
  op.type = "const";
  op.attributes["name"] = word(name);
  op.outputs = {{name, value.type}};
  op.attributes["val"] = std::move(value);
  return op;
}

/// while i < n: i = i + 1, x = body(x)
Written counting_loop(const Tensor& x, const Tensor& n, std::vector<mil::Operation> body, const std::string& next,
                      DType dtype, size_t rank) {
  Written w;
  w.input("x", x).input("n", n).add(constant("zero", number(0, i32)));
  mil::Block condition, loop;
  condition.inputs = loop.inputs = {scalar_type("i", i32), unknown("v", dtype, rank)};
  condition.operations = {operation("less", {{"x", "i"}, {"y", "n"}}, {scalar_type("go", boolean)})};
  condition.outputs = {"go"};
  loop.operations = std::move(body);
  loop.operations.push_back(operation("add", {{"x", "i"}, {"y", number(1, i32)}}, {scalar_type("j", i32)}));
  loop.outputs = {"j", next};
  mil::Operation op = operation("while_loop", {{"loop_vars", mil::Argument{std::string("zero"), std::string("x")}}},
                                {scalar_type("count", i32), unknown("y", dtype, rank)});
  op.blocks = {condition, loop};
  w.add(op).result("y");
  return w;
}

}  // namespace

TEST_CASE("a loop captures what it reads and runs as often as its condition holds") {
  Tensor x = Tensor::of<float>({2}, {1, 3}), n = Tensor::scalar<int32_t>(4);
  auto w = counting_loop(x, n, {operation("mul", {{"x", "v"}, {"y", number(2)}}, {unknown("u", f32, 1)})}, "u", f32, 1);
  CHECK(numbers(results_of(w.model, {{"x", x}, {"n", n}})[0]) == std::vector<double>{16, 48});
  CHECK(lowered(w.model).assumptions.empty());  // nothing of it depends on data while lowering
}

TEST_CASE("a loop whose carry grows is written out for the data at hand, and only with data") {
  Tensor x = Tensor::of<float>({1}, {5}), n = Tensor::scalar<int32_t>(3);
  auto grow =
      operation("concat", {{"values", mil::Argument{std::string("v"), std::string("v")}}, {"axis", number(0, i32)}},
                {unknown("u", f32, 1)});
  auto w = counting_loop(x, n, {grow}, "u", f32, 1);
  w.function().inputs[0].type.dims[0].size.reset();
  CHECK(numbers(results_of(w.model, {{"x", x}, {"n", n}})[0]) == std::vector<double>(8, 5));
  CHECK_THROWS_AS(lowered(w.model), Error);
}

TEST_CASE("cond runs one branch, and a state that is written in a branch is written") {
  Tensor x = Tensor::of<float>({2}, {3, -1}), p = Tensor::scalar(true);
  Written w(8);
  w.input("x", x).input("p", p);
  mil::ValueType state;
  state.kind = mil::ValueType::Kind::state;
  state.inner = {mil::ValueType::of(x.type())};
  w.function().inputs.push_back({"s", state});
  mil::Block yes, no;
  yes.operations = {operation("write_state", {{"input", "s"}, {"data", "x"}}, {}), operation("neg_is_sub", {}, {})};
  yes.operations.pop_back();
  yes.operations.push_back(operation("mul", {{"x", "x"}, {"y", number(10)}}, {unknown("a", f32, 1)}));
  yes.outputs = {"a"};
  no.operations = {operation("add", {{"x", "x"}, {"y", number(1)}}, {unknown("b", f32, 1)})};
  no.outputs = {"b"};
  mil::Operation op = operation("cond", {{"pred", "p"}}, {unknown("y", f32, 1)});
  op.blocks = {yes, no};
  w.add(op).add(operation("read_state", {{"input", "s"}}, {unknown("now", f32, 1)})).result("y").result("now");
  auto on = results_of(w.model, {{"x", x}, {"p", p}});
  CHECK(numbers(on[0]) == std::vector<double>{30, -10});
  CHECK(numbers(on[1]) == std::vector<double>{3, -1});
  CHECK(numbers(on[2]) == std::vector<double>{3, -1});  // the state's new value
  auto off = results_of(w.model, {{"x", x}, {"p", Tensor::scalar(false)}});
  CHECK(numbers(off[0]) == std::vector<double>{4, 0});
  CHECK(numbers(off[1]) == std::vector<double>{0, 0});
}

TEST_CASE("a list grows with what is written to it") {
  Tensor x = Tensor::of<float>({2}, {7, 8});
  Written w;
  mil::NamedType list = {"l", {}};
  list.type.kind = mil::ValueType::Kind::list;
  list.type.inner = {mil::ValueType::tensor(mil::DataType::float32, {2})};
  auto named = [&](std::string name) {
    mil::NamedType t = list;
    t.name = std::move(name);
    return t;
  };
  w.input("x", x)
      .add(operation("make_list",
                     {{"init_length", number(1, i32)}, {"elem_shape", number(2, i32)}, {"dtype", word("fp32")}},
                     {named("l0")}))
      .add(operation("list_write", {{"ls", "l0"}, {"index", number(2, i32)}, {"value", "x"}}, {named("l1")}))
      .add(operation("list_length", {{"ls", "l1"}}, {scalar_type("n", i32)}))
      .add(operation("list_read", {{"ls", "l1"}, {"index", number(2, i32)}}, {unknown("e", f32, 1)}))
      .add(operation("list_gather", {{"ls", "l1"}, {"indices", integers({2, 0})}}, {unknown("g", f32, 2)}))
      .result("n")
      .result("e")
      .result("g");
  auto r = results_of(w.model, {{"x", x}});
  CHECK(numbers(r[0]) == std::vector<double>{3});
  CHECK(numbers(r[1]) == std::vector<double>{7, 8});
  CHECK(numbers(r[2]) == std::vector<double>{7, 8, 0, 0});
}

TEST_CASE("what data decide is an assumption, and an output of the graph") {
  Tensor x = Tensor::of<float>({2, 3}, {0, 2, 0, 4, 0, 6});
  Written w;
  w.input("x", x).add(operation("non_zero", {{"x", "x"}}, {unknown("y", i32, 2)})).result("y");
  auto r = results_of(w.model, {{"x", x}});
  CHECK(numbers(r[0]) == std::vector<double>{0, 1, 1, 0, 1, 2});  // numpy: transpose(nonzero(x))
  mlprogram::LowerOptions o;
  o.data["x"] = x;
  auto l = lowered(w.model, o);
  REQUIRE(l.assumptions.size() == 1);
  CHECK(load_number(l.assumptions[0].value, 0) == 3);
  CHECK(l.graph.outputs().size() == 2);
}

TEST_CASE("sizes stay symbols through shape, gather, concat and reshape") {
  Written w;
  mil::NamedType x = unknown("x", f32, 2);
  x.type.dims[1].size = 4;
  w.function().inputs.push_back(x);
  w.add(operation("shape", {{"x", "x"}}, {unknown("s", i32, 1)}))
      .add(operation("gather", {{"x", "s"}, {"indices", number(0, i32)}}, {scalar_type("n", i32)}))
      .add(operation(
          "concat",
          {{"values", mil::Argument{std::string("n"), number(2, i32), number(2, i32)}}, {"axis", number(0, i32)}},
          {unknown("t", i32, 1)}))
      .add(operation("reshape", {{"x", "x"}, {"shape", "t"}}, {unknown("y", f32, 3)}))
      .result("y");
  auto l = lowered(w.model);
  CHECK(l.graph.output_types()[0] == Type{f32, {Dim::symbol("x_0"), 2, 2}});
}

}  // namespace rlx::test
