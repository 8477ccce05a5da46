// ML Programs written by hand, for tests: a function whose operations are listed, and its graph run by the reference.
#pragma once

#include "doctest/doctest.h"
#include "frontends/mil/lower.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/session.h"

namespace rlx::test {

inline mil::Value number(double v, DType dtype = f32) { return mil::Value::of(full(dtype, {}, v)); }
inline mil::Value integers(const std::vector<int32_t>& v) {
  return mil::Value::of(Tensor::of<int32_t>({static_cast<int64_t>(v.size())}, v));
}
inline mil::Value word(std::string text) { return mil::Value::of(std::move(text)); }

/// An argument: a name, or a literal on the spot.
struct Given {
  std::string parameter;
  mil::Argument argument;
  Given(std::string p, const char* name) : parameter(std::move(p)), argument{std::string(name)} {}
  Given(std::string p, mil::Value value) : parameter(std::move(p)), argument{std::move(value)} {}
  Given(std::string p, mil::Argument several) : parameter(std::move(p)), argument(std::move(several)) {}
};

/// One output of a type that nothing is known of but its dtype and rank.
inline mil::NamedType unknown(std::string name, DType dtype, size_t rank) {
  mil::ValueType type = mil::ValueType::tensor(mil::data_type_of(dtype), Shape(rank, 1));
  for (mil::Dimension& d : type.dims) d.size.reset();
  return {std::move(name), type};
}
inline mil::NamedType scalar_type(std::string name, DType dtype) { return unknown(std::move(name), dtype, 0); }

inline mil::Operation operation(std::string type, const std::vector<Given>& given,
                                std::vector<mil::NamedType> outputs) {
  mil::Operation op;
  op.type = std::move(type);
  for (const Given& g : given) op.inputs[g.parameter] = g.argument;
  op.outputs = std::move(outputs);
  op.attributes["name"] = word("the_" + op.type);
  return op;
}

struct Written {
  mil::Model model;
  mil::Function& function() { return model.program.functions.at("main"); }
  mil::Block& block() { return function().blocks.begin()->second; }

  explicit Written(int opset = 5) {
    mil::Function f;
    f.opset = "CoreML" + std::to_string(opset);
    f.blocks[f.opset] = {};
    model.program.functions["main"] = std::move(f);
    model.specification_version = opset + 1;
  }
  Written& input(const std::string& name, const Tensor& like) {
    function().inputs.push_back({name, mil::ValueType::of(like.type())});
    return *this;
  }
  Written& add(mil::Operation op) {
    block().operations.push_back(std::move(op));
    return *this;
  }
  Written& result(const std::string& name) {
    block().outputs.push_back(name);
    return *this;
  }
};

inline Tensor literal_tensor(const mil::Value& value) { return std::get<Tensor>(value.data); }

inline mlprogram::Lowered lowered(const mil::Model& model, mlprogram::LowerOptions options = {}) {
  return mlprogram::lower(model, literal_tensor, options);
}

/// The function's results, by the reference, for these inputs; states are zero.
inline std::vector<Tensor> results_of(const mil::Model& model, const std::vector<NamedTensor>& inputs,
                                      mlprogram::LowerOptions options = {}) {
  for (const auto& [name, tensor] : inputs) options.data[name] = tensor, options.dims[name] = tensor.type().dims;
  options.data[mlprogram::kRandomKey] = Tensor::of<uint32_t>({2}, {1u, 2u});
  mlprogram::Lowered l = lowered(model, options);
  std::vector<Tensor> feeds;
  for (Ref r : l.graph.inputs()) {
    const std::string& name = l.graph.node(r).name;
    auto it = options.data.find(name);
    feeds.push_back(it != options.data.end() ? it->second
                                             : Tensor(l.graph.type(r).dtype, shape_of(l.graph.type(r).dims)));
  }
  return interpret(l.graph, feeds);
}

/// One op on `x`, with literals for the rest.
inline Tensor apply(const std::string& op, const Tensor& x, const std::vector<Given>& parameters, int opset,
                    DType dtype, size_t rank, const std::string& x_name = "x") {
  std::vector<Given> given = parameters;
  given.emplace_back(x_name, "x");
  Written w(opset);
  w.input("x", x).add(operation(op, given, {unknown("y", dtype, rank)})).result("y");
  return results_of(w.model, {{"x", x}})[0];
}

inline std::vector<double> numbers(const Tensor& t) {
  std::vector<double> all;
  for (size_t i = 0; i < t.element_count(); ++i) all.push_back(load_number(t, i));
  return all;
}

}  // namespace rlx::test
