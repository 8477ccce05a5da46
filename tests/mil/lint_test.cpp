// What an Apple loader would refuse, planted fault by fault; and what is predicted of where ops run.
#include "frontends/mil/lint.h"

#include "devices/coreml/placement.h"
#include "programs.h"

namespace rlx::test {
namespace {

using mil::Feature;

/// y = relu(x + 1), as an exporter writes it.
Written plain(int opset = 7) {
  Written w(opset);
  mil::Operation one = operation("const", {}, {scalar_type("one", f32)});
  one.attributes["val"] = number(1);
  one.attributes["name"] = word("one");
  mil::NamedType sum{"sum", mil::ValueType::tensor(mil::DataType::float32, {2, 2})}, y = sum;
  y.name = "y";
  w.input("x", Tensor(f32, {2, 2}))
      .add(std::move(one))
      .add(operation("add", {{"x", "x"}, {"y", "one"}}, {sum}))
      .add(operation("relu", {{"x", "sum"}}, {y}))
      .result("y");
  Feature in, out;
  in.name = "x", in.shape = {2, 2}, in.dtype = f32;
  out.name = "y", out.shape = {2, 2}, out.dtype = f32;
  w.model.main.inputs = {in};
  w.model.main.outputs = {out};
  return w;
}

std::string found_in(const mil::Model& model) {
  std::string all;
  for (const auto& f : mlprogram::lint(model, literal_tensor)) all += f.rule + "|" + f.where + "|" + f.what + "\n";
  return all;
}

mil::Operation& op_of(Written& w, size_t i) { return w.block().operations[i]; }

}  // namespace

TEST_CASE("a program as exporters write it is clean") {
  for (int opset : {5, 6, 7, 8}) CHECK(found_in(plain(opset).model) == "");
}

TEST_CASE("planted faults are found, each where it stands") {
  struct Fault {
    const char* what;
    std::function<void(Written&)> plant;
    std::string rule, where, text;
  };
  const std::vector<Fault> faults = {
      {"a version that is none", [](Written& w) { w.model.specification_version = 5; }, "version", "", "5 is none"},
      {"an opset newer than the version", [](Written& w) { w.model.specification_version = 7; }, "version", "main",
       "CoreML7 needs specification version 8"},
      {"a name that is no identifier",
       [](Written& w) {
         op_of(w, 1).outputs[0].name = "1sum";
         op_of(w, 2).inputs["x"] = mil::Argument{std::string("1sum")};
       },
       "name", "main/add 'the_add'", "'1sum' is no identifier"},
      {"a name that is defined twice", [](Written& w) { op_of(w, 2).outputs[0].name = "sum"; }, "name",
       "main/relu 'the_relu'", "'sum' is defined twice"},
      {"a name that is not defined",
       [](Written& w) { op_of(w, 2).inputs["x"] = mil::Argument{std::string("nowhere")}; }, "name",
       "main/relu 'the_relu'", "'nowhere'"},
      {"a result of the block that is not defined", [](Written& w) { w.block().outputs[0] = "z"; }, "name", "main",
       "'z'"},
      {"an op that MIL does not have", [](Written& w) { op_of(w, 2).type = "relu7"; }, "op", "main/relu7 'the_relu'",
       "no op 'relu7'"},
      {"an op of a newer opset", [](Written& w) { op_of(w, 2).type = "scaled_dot_product_attention"; }, "op",
       "main/scaled_dot_product_attention 'the_relu'", "from CoreML8 on"},
      {"a parameter that the op does not have",
       [](Written& w) { op_of(w, 2).inputs["slope"] = mil::Argument{std::string("one")}; }, "argument",
       "main/relu 'the_relu'", "no parameter 'slope'"},
      {"a parameter that is missing", [](Written& w) { op_of(w, 1).inputs.erase("y"); }, "argument",
       "main/add 'the_add'", "'y' is missing"},
      {"two values for one", [](Written& w) { op_of(w, 1).inputs["y"].push_back(std::string("one")); }, "argument",
       "main/add 'the_add'", "takes one value"},
      {"operands of two dtypes",
       [](Written& w) {
         op_of(w, 0).attributes["val"] = number(1, f16);
         op_of(w, 0).outputs[0].type.dtype = mil::DataType::float16;
       },
       "dtype", "main/add 'the_add'", "they are to be of one"},
      {"a dtype that the op does not take", [](Written& w) { op_of(w, 2).type = "logical_not"; }, "dtype",
       "main/logical_not 'the_relu'", "'x' is of fp32; it takes bool"},
      {"a const beside what it declares",
       [](Written& w) { op_of(w, 0).outputs[0].type.dtype = mil::DataType::float16; }, "dtype", "main/const 'one'",
       "its value is fp32"},
      {"a constant that is computed",
       [](Written& w) {
         op_of(w, 2).type = "leaky_relu";
         op_of(w, 2).inputs["alpha"] = mil::Argument{std::string("sum")};
       },
       "argument", "main/leaky_relu 'the_relu'", "'alpha' is to be a constant"},
      {"more than five dims",
       [](Written& w) {
         op_of(w, 2).outputs[0].type = mil::ValueType::tensor(mil::DataType::float32, {1, 1, 1, 1, 2, 2});
       },
       "rank", "main/relu 'the_relu'", "more than 5 dims"},
      {"a type that the op does not give",
       [](Written& w) {
         op_of(w, 2).outputs[0].type = mil::ValueType::tensor(mil::DataType::float32, {2, 3});
       },
       "type", "main", "declares 'y'"},
      {"an op without a name", [](Written& w) { op_of(w, 2).attributes.erase("name"); }, "attribute", "main/relu",
       "no name"},
      {"an attribute of nothing", [](Written& w) { op_of(w, 2).attributes["speed"] = number(1); }, "attribute",
       "main/relu", "'speed'"},
      {"blocks where none belong", [](Written& w) { op_of(w, 2).blocks.emplace_back(); }, "block",
       "main/relu 'the_relu'", "1 blocks instead of 0"},
      {"an input that nothing describes", [](Written& w) { w.model.main.inputs.clear(); }, "feature", "main",
       "'x' of the program is not described"},
      {"a feature that the program has not", [](Written& w) { w.model.main.outputs[0].name = "z"; }, "feature", "main",
       "'z' is described"},
      {"a feature of another shape",
       [](Written& w) {
         w.model.main.inputs[0].shape = {2, 3};
       },
       "feature", "main", "described as [2, 3]"},
      {"a feature of another dtype", [](Written& w) { w.model.main.inputs[0].dtype = i32; }, "feature", "main",
       "described as i32"},
      {"integers of 8 bits before version 10", [](Written& w) { w.model.main.outputs[0].dtype = i8; }, "feature",
       "main, 'y'", "specification version 10"},
      {"a function that is not called main",
       [](Written& w) {
         auto f = w.function();
         w.model.program.functions.clear();
         w.model.program.functions["other"] = f;
       },
       "function", "", "not 'main'"},
      {"weights that do not lie there",
       [](Written& w) {
         mil::Value val{mil::ValueType::tensor(mil::DataType::float32, {}),
                        mil::BlobRef{"@model_path/weights/weight.bin", 64}};
         op_of(w, 0).attributes["val"] = val;
       },
       "blob", "main/const 'one'", "64"},
  };
  auto tensor_of = [](const mil::Value& value) -> Tensor {
    if (const auto* blob = std::get_if<mil::BlobRef>(&value.data))
      fail(ErrorCode::parse, "there is no record at ", blob->offset);
    return std::get<Tensor>(value.data);
  };
  for (const Fault& fault : faults) {
    Written w = plain();
    fault.plant(w);
    bool seen = false;
    std::string all;
    for (const auto& f : mlprogram::lint(w.model, tensor_of)) {
      all += f.rule + "|" + f.where + "|" + f.what + "\n";
      seen |= f.rule == fault.rule && f.where.starts_with(fault.where) && f.what.find(fault.text) != std::string::npos;
    }
    CHECK_MESSAGE(seen, fault.what, ": ", all);
  }
}

TEST_CASE("states are fp16, of fixed shape, and of iOS 18") {
  Written w = plain(8);
  mil::ValueType held = mil::ValueType::tensor(mil::DataType::float32, {1, 8});
  mil::ValueType state;
  state.kind = mil::ValueType::Kind::state, state.inner = {held};
  w.function().inputs.push_back({"kv", state});
  Feature f;
  f.name = "kv", f.kind = Feature::Kind::state, f.shape = {1, 8}, f.dtype = f32;
  w.model.main.states = {f};
  CHECK(found_in(w.model).find("state|main|the state 'kv' is fp32[1, 8]; states are fp16") != std::string::npos);
  w.function().inputs[1].type.inner[0].dtype = mil::DataType::float16;
  CHECK(found_in(w.model) == "");
  w.function().inputs[1].type.inner[0].dims[1].size.reset();
  CHECK(found_in(w.model).find("fixed shapes") != std::string::npos);
  w.function().inputs[1].type.inner[0].dims[1].size = 8;
  w.model.main.states.clear();
  CHECK(found_in(w.model).find("the state 'kv' of the program is not described") != std::string::npos);
}

TEST_CASE("where ops would run is predicted, with the rule") {
  auto device_of = [](const Written& w, const std::string& op, ComputeUnits units) {
    for (const auto& p : mlprogram::predict_placement(w.model, "", units))
      if (p.op == op) return p.device + ": " + p.reason;
    return std::string("no such op");
  };
  Written w = plain();
  CHECK(device_of(w, "relu", ComputeUnits::ane).starts_with("cpu: not the neural engine: it computes in f32"));
  CHECK(device_of(w, "relu", ComputeUnits::all).starts_with("gpu: "));
  CHECK(device_of(w, "relu", ComputeUnits::cpu).starts_with("cpu: "));
  CHECK(device_of(w, "const", ComputeUnits::all) == "no such op");
  // In f16 the engine takes it, unless a range, control flow or an integer stands against it.
  Written half = plain();
  half.function().inputs[0].type.dtype = mil::DataType::float16;
  op_of(half, 0).attributes["val"] = number(1, f16);
  for (mil::Operation& op : half.block().operations) op.outputs[0].type.dtype = mil::DataType::float16;
  CHECK(device_of(half, "relu", ComputeUnits::ane).starts_with("ane: "));
  Written ranged = half;
  ranged.model.main.inputs[0].flexibility.ranges = {{1, 8}, {2, 2}};
  CHECK(device_of(ranged, "relu", ComputeUnits::ane).find("input 'x' is a range") != std::string::npos);
  Written enumerated = half;
  enumerated.model.main.inputs[0].flexibility.shapes = {{2, 2}, {4, 2}};
  CHECK(device_of(enumerated, "relu", ComputeUnits::ane).starts_with("ane: "));
  Written recurrent = half;
  op_of(recurrent, 2).type = "lstm";
  CHECK(device_of(recurrent, "lstm", ComputeUnits::ane).find("recurrent") != std::string::npos);
  Written pooled = half;
  op_of(pooled, 2).type = "max_pool";
  op_of(pooled, 2).inputs["kernel_sizes"] = mil::Argument{integers({14, 14})};
  CHECK(device_of(pooled, "max_pool", ComputeUnits::ane).find("a pool of 14") != std::string::npos);
  CHECK(device_of(pooled, "max_pool", ComputeUnits::all).starts_with("gpu: "));
}

}  // namespace rlx::test
