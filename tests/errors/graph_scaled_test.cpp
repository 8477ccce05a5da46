// Formats, layouts and codes that do not fit.
#include <doctest/doctest.h>

#include "rlx/graph_file.h"
#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }
template <class F>
std::string refusal_of(F f) {
  return first_line(message_of(f));
}

}  // namespace

TEST_CASE("a dtype, split or name that is no format is said, with those that are") {
  CHECK(refusal_of([] { ScaledFormat format(bf16); }) ==
        "bf16 is no format of codes with a scale; the dtypes that are: f8e4m3fn, f8e5m2, f8e4m3fnuz, f8e5m2fnuz, "
        "f6e2m3fn, f6e3m2fn, f4e2m1fn");
  CHECK(
      refusal_of([] { ScaledFormat::custom(5, 3); }) ==
      "a format of 5 exponent and 3 mantissa bits: there are 8 bits with the sign, and at least one is the exponent's");
  CHECK(
      refusal_of([] { ScaledFormat::custom(7, 0, 128); }) ==
      "with a bias of 128, numbers of 7 exponent and 0 mantissa bits would lie beyond those of f32; the usual bias is "
      "63");
  CHECK(refusal_of([] { ScaledFormat::named("fp8"); }).starts_with("'fp8' is no format: one is named as its dtype"));
}

TEST_CASE("a scale that does not fit its layout is said, with the one that would") {
  Graph g;
  Value x = g.input("x", f32, {4, 70}), scale = g.input("scale", f32, {}), codes = g.input("codes", u8, {4, 70});
  CHECK(refusal_of([&] {
          scaled_quantize(x, scale, {f4e2m1fn, ScaleLayout::mx});
        }) == "scale must be f8e8m0fnu[4, 3] for f32[4, 70] in the layout mx, got f32[]");
  CHECK(refusal_of([&] {
          scaled_dequantize(codes, scale, {f4e2m1fn, ScaleLayout::nv});
        }) == "scale must be f8e4m3fn[4, 5] for u8[4, 70] in the layout nvfp4, got f32[]");
  CHECK(refusal_of([&] {
          scaled_quantize(x, scale, {f4e2m1fn, ScaleLayout::per_tensor, 8});
        }) == "block_size is 8, but one scale stands for the whole tensor; blocks are of the layouts mx and nvfp4");
  CHECK(refusal_of([&] { scaled_quant_scale(x, {.layout = ScaleLayout::mx, .block_size = -1}); }) ==
        "block_size is -1; it cannot be negative");
  CHECK(refusal_of([&] { scaled_quant_scale(x, {.rounding = MxRounding::ceil}); }) ==
        "`rounding` is of the powers of two of mx scales; the layout is per_tensor");
  CHECK(refusal_of([&] { scaled_quant_scale(g.input("scalar", f32, {}), {.layout = ScaleLayout::mx}); }).find("axis") !=
        std::string::npos);
  // A block longer than the rows is a row.
  CHECK(scaled_quant_scale(x, {.layout = ScaleLayout::nv, .block_size = INT64_MAX / 128}).type() ==
        Type{f8e4m3fn, {4, 1}});
}

TEST_CASE("codes of another dtype, inner dimensions that differ and a bias that does not fit are said") {
  Graph g;
  Value lhs = g.input("lhs", u8, {2, 8}), rhs = g.input("rhs", u8, {3, 8}), s = g.input("s", f32, {});
  CHECK(refusal_of([&] {
          scaled_matmul(g.input("floats", f32, {2, 8}), rhs, s, s);
        }) == "lhs must be u8 or f8e4m3fn for codes of f8e4m3fn, got f32[2, 8]");
  CHECK(refusal_of([&] {
          scaled_matmul(lhs, rhs, s, s, {}, {.lhs_format = ScaledFormat::custom(3, 4), .dtype = i32});
        }) == "the result is of f64, f32, f16 or bf16, not i32");
  CHECK(refusal_of([&] {
          scaled_matmul(lhs, g.input("long", u8, {3, 9}), s, s);
        }) == "inner dimensions differ: lhs u8[2, 8] has 8, rhs u8[3, 9] has 9; k is last in both");
  CHECK(refusal_of([&] { scaled_matmul(lhs, rhs, s, s, g.input("bias", f32, {2})); }) ==
        "bias must be f32[3] for rhs u8[3, 8] and a result of f32, got f32[2]");
  CHECK(refusal_of([&] {
          g.emit(op::scaled_matmul, {lhs, rhs, s, s}, ScaledMatmulAttrs{.has_bias = true});
        }) == "has_bias is true, so there are 5 operands, not 4");
  Value experts = g.input("experts", u8, {2, 3, 8});
  CHECK(refusal_of([&] { scaled_grouped_matmul(lhs, experts, s, s, g.input("index", i32, {3})); }).find("index") !=
        std::string::npos);
}

TEST_CASE("planes and experts of codes that do not fit are said") {
  Graph g;
  Value x = g.input("x", f32, {2, 8}), w = g.input("w", i8, {3, 5, 8}), s = g.input("s", f32, {3, 5, 1});
  CHECK(refusal_of([&] { dequant_matmul(x, w, {s}, 0, true, 2); }) ==
        "codes of 2 planes have them as dim 0, got i8[3, 5, 8]");
  CHECK(refusal_of([&] { dequant_matmul(x, w, {s}, 0, true, 0); }) == "planes is 0; there is at least one");
  Value index = g.input("index", i32, {2});
  CHECK(refusal_of([&] { dequant_grouped_matmul(x, w, index); }) ==
        "w is of blocks, or of codes with a scale, got i8[3, 5, 8]");
  CHECK(refusal_of([&] { dequant_grouped_matmul(x, w, index, {s}, 4); }) ==
        "scale must be f32[3, 5, 2], got f32[3, 5, 1]");
}

TEST_CASE("a format in a file that is none names the line") {
  std::string text =
      "rlx 1\ngraph @g {\n  %0 = input() @\"x\" : f32[2]\n"
      "  %1 = scaled_quant_scale(%0) {format = f7e9m9} : f32[]\n  return %1 @\"y\"\n}\n";
  std::string message = message_of([&] { parse_graph_text(text); });
  CHECK(message.find("a format such as f8e4m3fn or f6e3m2 instead of 'f7e9m9'") != std::string::npos);
  CHECK(message.find("line 4") != std::string::npos);
}
