// Operations on images in programs of f16: what an operation of f16 gives is a number of f16, the one that is nearest
// to what its operands of f16 say, and no more precise one, in f16 and behind a cast to f32. Expected values are
// NumPy's and PyTorch's: image_f16_cases.py.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "programs.h"

namespace rlx::test {
namespace {

Tensor tensor_of_json(const nlohmann::json& listed, DType dtype) {
  Tensor t(dtype, listed.at("shape").get<Shape>());
  const auto& values = listed.at("values");
  REQUIRE(values.size() == t.element_count());
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_integer(dtype)) store<int64_t>(t, i, values[i].get<int64_t>());
    else store<double>(t, i, values[i].get<double>());
  }
  return t;
}

/// An argument that is a constant, as a program of f16 holds it: floats are of f16.
mil::Value argument_of_json(const nlohmann::json& value) {
  if (value.is_string()) return word(value.get<std::string>());
  if (value.is_boolean()) return number(value.get<bool>(), boolean);
  if (value.is_number_float()) return number(value.get<double>(), f16);
  return number(value.get<double>(), i32);
}

/// Half a unit in the last place of f16, at v.
double half_unit(double v) {
  int exponent = 0;
  std::frexp(v, &exponent);
  return std::ldexp(1.0, std::max(exponent, -13) - 12);
}

struct ImageCase {
  Written program;
  Tensor x, expected;
  explicit ImageCase(const nlohmann::json& c, const Tensor& image)
      : program(c.at("opset").get<int>()), x(image), expected(tensor_of_json(c.at("expected"), f64)) {
    std::vector<Given> given{{"x", "x"}};
    for (const auto& [name, value] : c.at("arguments").items()) given.emplace_back(name, argument_of_json(value));
    for (const auto& [name, listed] : c.at("tensors").items())
      given.emplace_back(name, mil::Value::of(tensor_of_json(listed, name == "box_indices" ? i32 : f16)));
    const size_t rank = expected.rank();
    program.input("x", x).add(operation(c.at("op").get<std::string>(), given, {unknown("y", f16, rank)}));
    program.add(operation("cast", {{"x", "y"}, {"dtype", word("fp32")}}, {unknown("wide", f32, rank)}));
    program.result("y").result("wide");
  }
};

/// What is wrong with the results of a case; nothing if they are as they should be.
std::string wrong_with(const ImageCase& c, const std::vector<Tensor>& results) {
  const Tensor &y = results.at(0), &wide = results.at(1);
  if (y.dtype() != f16 || wide.dtype() != f32) return text_of("of ", y.type(), " and ", wide.type());
  if (y.shape() != c.expected.shape()) return text_of(y.type(), " instead of ", c.expected.type());
  double largest = 1;
  for (size_t i = 0; i < c.x.element_count(); ++i) largest = std::max(largest, std::abs(load_number(c.x, i)));
  for (size_t i = 0; i < y.element_count(); ++i) {
    const double got = load_number(y, i), expected = load_number(c.expected, i);
    if (load_number(wide, i) != got)
      return text_of("[", i, "] is ", got, " in f16 and ", load_number(wide, i), " behind a cast");
    // One rounding, of what f32 computes: its places are to 2^-20 where they are, and steps between pixels are twice
    // the largest.
    if (std::abs(got - expected) > half_unit(expected) + largest * 0x1p-18)
      return text_of("[", i, "] is ", got, " instead of ", expected);
  }
  return "";
}

nlohmann::json image_cases() {
  std::ifstream file("tests/mil/image_f16_cases.json");  // tests run in the source tree
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("an image operation of f16 rounds its result to f16, once") {
  const nlohmann::json all = image_cases();
  size_t count = 0;
  for (const auto& c : all.at("cases")) {
    CAPTURE(c.at("op").get<std::string>());
    CAPTURE(c.at("arguments").dump());
    CAPTURE(c.at("opset").get<int>());
    ImageCase ic(c, tensor_of_json(all.at("images").at(c.at("x").get<size_t>()), f16));
    CHECK(wrong_with(ic, results_of(ic.program.model, {{"x", ic.x}})) == "");
    // And compiled, where regions of element-wise ops hold f32 between them.
    mlprogram::LowerOptions options;
    options.dims["x"] = ic.x.type().dims;
    const mlprogram::Lowered l = lowered(ic.program.model, options);
    const auto made = Session(Device::cpu(), {1}).compile(l.graph).run({{"x", ic.x}});
    CHECK(wrong_with(ic, made) == "");
    ++count;
  }
  CHECK(count == 58);
}

TEST_CASE("the box of coremltools' own test whose value f32 has as 7.8999996 and f16 as 7.8984375") {
  const nlohmann::json all = image_cases();
  const auto& c = all.at("cases").at(0);
  ImageCase ic(c, tensor_of_json(all.at("images").at(0), f16));
  const auto results = results_of(ic.program.model, {{"x", ic.x}});
  CHECK(load_number(results[0], 5) == 7.8984375);
  CHECK(load_number(results[1], 5) == 7.8984375);
}

}  // namespace rlx::test
