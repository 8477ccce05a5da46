// Every code of every format of at most 8 bits, and what rounds to it, against ml_dtypes and the definition of a float
// (tests/golden/generate/scaled_formats.py made the tables); then what scales do at the edges.
#include "autodiff/transforms.h"
#include "ops/hard_cases.h"
#include "rlx/io.h"
#include "rlx/session.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// The formats that the tables know.
std::vector<std::string> format_names(const NpzFile& tables) {
  std::vector<std::string> names;
  for (const std::string& name : tables.names())
    if (size_t end = name.find("/decoded"); end != std::string::npos) names.push_back(name.substr(0, end));
  return names;
}
/// The op alone, by the interpreter and on the CPU.
std::vector<Tensor> each_way(const Build& build, const std::vector<Tensor>& inputs) {
  std::vector<Type> types;
  for (const Tensor& t : inputs) types.push_back(t.type());
  Graph g = trace(types, build);
  static Session cpu(Device::cpu(), {2});
  return {interpret(g, inputs)[0], cpu.compile(g).run_ordered(inputs)[0]};
}

}  // namespace

TEST_CASE("every code of every format means what ml_dtypes or the definition says") {
  auto tables = NpzFile::open("tests/golden/scaled_formats/formats.npz");
  auto names = format_names(tables);
  CHECK(names.size() == 42);
  for (const std::string& name : names) {
    ScaledFormat format = ScaledFormat::named(name);
    Tensor wanted = tables.array(name + "/decoded");
    auto count = static_cast<int64_t>(wanted.element_count());
    REQUIRE(count == int64_t{1} << format.bits());
    Tensor codes(u8, {256}), all(f32, {256});
    for (size_t c = 0; c < 256; ++c) {  // what is above the format's bits is not read
      store<uint64_t>(codes, c, c);
      copy_element(all, c, wanted, c % wanted.element_count());
    }
    for (const Tensor& got :
         each_way([&](Values v) { return scaled_dequantize(v[0], v[1], {format}); }, {codes, tensor(f32, {}, {1})}))
      CHECK_MESSAGE(difference(got, all) == "", name);
    for (size_t c = 0; c < wanted.element_count(); ++c) {
      double v = format.decode(static_cast<uint8_t>(c)), want = load<double>(wanted, c);
      bool same = std::isnan(want) ? std::isnan(v) : v == want && std::signbit(v) == std::signbit(want);
      if (!same) FAIL_CHECK(name, " code ", c, " is ", v, " instead of ", want);
    }
  }
}

TEST_CASE("a number becomes the code of the nearest one, ties to the even mantissa, and saturates") {
  auto tables = NpzFile::open("tests/golden/scaled_formats/formats.npz");
  size_t count = 0;
  for (const std::string& name : format_names(tables)) {
    ScaledFormat format = ScaledFormat::named(name);
    Tensor values = tables.array(name + "/values"), codes = tables.array(name + "/codes");
    for (DType dtype : {f32, f64}) {
      Tensor x = dtype == f32 ? values : run_op(op::convert, ConvertAttrs{f64}, std::array{values})[0];
      for (const Tensor& got :
           each_way([&](Values v) { return scaled_quantize(v[0], v[1], {format}); }, {x, tensor(dtype, {}, {1})}))
        CHECK_MESSAGE(difference(got, codes) == "", name, " ", dtype);
    }
    for (size_t i = 0; i < values.element_count(); ++i, ++count)
      if (format.encode(load<double>(values, i)) != codes.values<uint8_t>()[i])
        FAIL_CHECK(name, ": ", load<double>(values, i), " becomes ", int{format.encode(load<double>(values, i))},
                   " instead of ", int{codes.values<uint8_t>()[i]});
  }
  CHECK(count > 20000);
}

TEST_CASE("a format is found by its name, and there are 28 splits of at most 8 bits") {
  size_t splits = 0;
  for (int64_t e = 0; e <= 8; ++e)
    for (int64_t m = 0; m <= 8; ++m) {
      if (e < 1 || e + m > 7) {
        CHECK_THROWS_AS(ScaledFormat::custom(e, m), Error);
        continue;
      }
      ++splits;
      ScaledFormat f = ScaledFormat::custom(e, m);
      CHECK(ScaledFormat::named(f.name()) == f);
    }
  CHECK(splits == 28);
  CHECK(ScaledFormat::named("f8e4m3") == ScaledFormat(f8e4m3fn));
  CHECK(ScaledFormat::named("f8e4m3").largest() == 448);
  CHECK(ScaledFormat::custom(4, 3).largest() == 480);
  CHECK(ScaledFormat::custom(4, 3).name() == "f8e4m3_bias7");
  CHECK(ScaledFormat::named("f4e2m1") == ScaledFormat(f4e2m1fn));
  CHECK(ScaledFormat::named("f8e3m4_bias3").name() == "f8e3m4");
  CHECK(ScaledFormat::named("f8e3m4_bias9").bias() == 9);
  CHECK(ScaledFormat::named("f8e7m0_bias127").decode(1) == 0x1p-126);  // the least normal number of f32
  for (const char* name : {"f8e4m4", "f9e4m4", "f8", "f8e4", "fe4m3", "f8e4m3_bias", "f8e4m3_bias7x", "f8e7m0_bias128",
                           "f8e4m3_bias200", "bf16", "f8e99999999999999999999m3"})
    CHECK_THROWS_AS(ScaledFormat::named(name), Error);
}

TEST_CASE("scales of nothing, of zeros and of what is not finite") {
  auto scale_of = [](ScaledQuantScaleAttrs a) { return [a](Values v) { return scaled_quant_scale(v[0], a); }; };
  ScaledQuantScaleAttrs mx{.format = f4e2m1fn, .layout = ScaleLayout::mx, .block_size = 2};
  CHECK(mismatch(scale_of({}), {tensor(f32, {0}, {})}, {tensor(f32, {}, {1})}) == "");
  CHECK(mismatch(scale_of({}), {vector_of(f32, {0, -0.0})}, {tensor(f32, {}, {1})}) == "");
  CHECK(mismatch(scale_of({}), {vector_of(f32, {1, kNaN})}, {tensor(f32, {}, {kNaN})}) == "");
  CHECK(mismatch(scale_of({}), {vector_of(f32, {1, -kInf})}, {tensor(f32, {}, {kInf})}) == "");
  // The largest of a block is 7: 2^2 / 2^2 by OCP, and 2 where nothing may saturate.
  CHECK(mismatch(scale_of(mx), {vector_of(f32, {0, -7, 0, 0, 6, 1, kNaN, 1})},
                 {vector_of(f8e8m0fnu, {1, 1, 1, kNaN})}) == "");
  mx.rounding = MxRounding::ceil;
  CHECK(mismatch(scale_of(mx), {vector_of(f32, {0, -7, 0, 0, 6, 1, 6.001, 1})}, {vector_of(f8e8m0fnu, {2, 1, 1, 2})}) ==
        "");
}

TEST_CASE("a block of small numbers keeps them by its scale, and the last block may be short") {
  auto build = [](Values v) {
    return scaled_round(v[0], {.format = f4e2m1fn, .layout = ScaleLayout::mx, .block_size = 2});
  };
  CHECK(mismatch_of_floats(build, {{{5}, {6, 0.4, 0x1p-20, 0x1.8p-20, 0x1p60}}},
                           {{{5}, {6, 0.5, 0x1p-20, 0x1.8p-20, 0x1p60}}}) == "");
}

TEST_CASE("training looks through the rounding of scaled_round") {
  Graph g = trace(std::array{Type{f64, {2, 3}}}, [](Values v) { return scaled_round(v[0]); });
  std::array in = {tensor(f64, {2, 3}, {1, 2, 3, 4, 5, 6}), tensor(f64, {2, 3}, {1, -1, 0.5, 7, 0, 2})};
  CHECK(difference(interpret(vjp(g, {true}, {true}), std::array{in[0], in[1]})[0], in[1]) == "");
}
