// Hard cases of moving elements, and of sorting.
#include "ops/tables.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const Row kRows[] = {
#include "ops/arrange_cases.inc"
};
const Dim n = Dim::symbol("n");

/// The graph on n = 3, as it stands and made of primitives.
std::string mismatch_on_symbols(const Build& build, const Type& type, std::string_view input, std::string_view wanted) {
  Graph g = trace(std::vector{type}, build);
  for (const Graph& each : {g, made_of_primitives(g)})
    if (auto why = difference(interpret(each, std::array{tensor_of(input)})[0], tensor_of(wanted)); !why.empty())
      return why;
  return "";
}

}  // namespace

TEST_CASE("arranging and sorting do what NumPy does") { check_rows(kRows); }

TEST_CASE("axes swap and move as NumPy's do") {
  std::vector<Type> types = {{f32, {2, 3, 4}}};
  CHECK(type_text([](Values v) { return swap_axes(v[0], 0, -1); }, types) == "f32[4, 3, 2]");
  CHECK(type_text([](Values v) { return move_axis(v[0], 0, -1); }, types) == "f32[3, 4, 2]");
  CHECK(type_text([](Values v) { return move_axis(v[0], 2, 0); }, types) == "f32[4, 2, 3]");
  CHECK(type_text([](Values v) { return split_evenly(v[0], 2, -1)[1]; }, types) == "f32[2, 3, 2]");
  CHECK(mismatch([](Values v) { return flip(v[0], {-1}); }, {tensor_of("i8[3] [1, 2, 3]")},
                 {tensor_of("i8[3] [3, 2, 1]")}) == "");
}
TEST_CASE("eye has ones on its diagonal, in any dtype") {
  auto matrix = [](Type t, int64_t offset) { return [=](Graph& g, Values) { return eye(g, t, offset); }; };
  CHECK(interpret(trace({}, matrix({i32, {2, 3}}, 1)), {})[0] == tensor_of("i32[2, 3] [0, 1, 0, 0, 0, 1]"));
  CHECK(interpret(trace({}, matrix({boolean, {2, 2}}, 0)), {})[0] ==
        tensor_of("bool[2, 2] [true, false, false, true]"));
  CHECK(interpret(trace({}, matrix({c64, {1, 2}}, 0)), {})[0] == tensor_of("c64[1, 2] [(1, 0), (0, 0)]"));
}
TEST_CASE("moving copies the bits of a NaN") {
  Tensor x = tensor_of("f16[2] [0x7c01, 1]");
  CHECK(mismatch([](Values v) { return roll(v[0], {1}, {0}); }, {x}, {tensor_of("f16[2] [1, 0x7c01]")}) == "");
  CHECK(interpret(made_of_primitives(trace(std::vector{x.type()}, [](Values v) { return tile(v[0], {2}); })),
                  std::array{x})[0] == tensor_of("f16[4] [0x7c01, 1, 0x7c01, 1]"));
}
TEST_CASE("arranging takes symbolic extents") {
  CHECK(mismatch_on_symbols([](Values v) { return roll(v[0], {-4}, {0}); }, {i32, {n}}, "i32[3] [1, 2, 3]",
                            "i32[3] [2, 3, 1]") == "");
  CHECK(mismatch_on_symbols([](Values v) { return roll(v[0], {2}, {1}); }, {i32, {2, n}},
                            "i32[2, 3] [1, 2, 3, 4, 5, 6]", "i32[2, 3] [2, 3, 1, 5, 6, 4]") == "");
  CHECK(mismatch_on_symbols([](Values v) { return pad_mode(v[0], PadMode::reflect, {2}, {1}); }, {i32, {n}},
                            "i32[3] [1, 2, 3]", "i32[6] [3, 2, 1, 2, 3, 2]") == "");
  CHECK(mismatch_on_symbols([](Values v) { return pad_mode(v[0], PadMode::circular, {n}, {1}); }, {i32, {n}},
                            "i32[3] [1, 2, 3]", "i32[7] [1, 2, 3, 1, 2, 3, 1]") == "");
  CHECK(mismatch_on_symbols([](Values v) { return tile(v[0], {n}); }, {i32, {n}}, "i32[2] [1, 2]",
                            "i32[4] [1, 2, 1, 2]") == "");
  CHECK(mismatch_on_symbols([](Values v) { return triu(v[0]); }, {i32, {n, n}}, "i32[2, 2] [1, 2, 3, 4]",
                            "i32[2, 2] [1, 2, 0, 4]") == "");
  CHECK(mismatch_on_symbols([](Values v) { return diag(v[0], 1); }, {i32, {n}}, "i32[2] [1, 2]",
                            "i32[3, 3] [0, 1, 0, 0, 0, 2, 0, 0, 0]") == "");
  CHECK(mismatch_on_symbols([](Values v) { return diagonal(v[0], -1); }, {i32, {n, n}}, "i32[2, 2] [1, 2, 3, 4]",
                            "i32[1] [3]") == "");
  CHECK(mismatch_on_symbols([](Values v) { return narrow(v[0], 0, n - 1, 1); }, {i32, {n}}, "i32[2] [1, 2]",
                            "i32[1] [2]") == "");
  CHECK(mismatch_on_symbols(
            [](Values v) {
              return split(v[0], {1, n - 1})[1];
            },
            {i32, {n}}, "i32[3] [1, 2, 3]", "i32[2] [2, 3]") == "");
}
TEST_CASE("arranging refuses what cannot be arranged") {
  std::vector<Type> types = {{f32, {2, 3}}};
  CHECK(refusal(
            [](Values v) {
              return expand(v[0], {4, 3});
            },
            types) == "dim 0 of f32[2, 3] becomes dim 0 of f32[4, 3]; it must be 1 or 4");
  CHECK(refusal([](Values v) { return expand(v[0], {3}); }, types) ==
        "f32[2, 3] has more dims than f32[3], to which it should expand");
  CHECK(refusal([](Values v) { return narrow(v[0], 1, 2, 2); }, types) ==
        "the slice [2, 4) does not lie within dim 1 of f32[2, 3]");
  CHECK(refusal([](Values v) { return strided_slice(v[0], 1, 1, 3, -1); }, types) ==
        "the slice [-1, 2) does not lie within dim 1 of f32[2, 3]");
  CHECK(refusal([](Values v) { return strided_slice(v[0], 1, 1, 3, 0); }, types) ==
        "the step of a slice is 0; it may be negative, but must move");
  CHECK(refusal(
            [](Values v) {
              return split(v[0], {1, 1}, 1)[0];
            },
            types) == "the 2 parts of axis 1 add up to 2, but f32[2, 3] has 3");
  CHECK(refusal([](Values v) { return split_evenly(v[0], 2, 1)[0]; }, types) == "the dim 3 does not divide by 2");
  CHECK(refusal([](Values v) { return tile(v[0], {2}); }, types) ==
        "reps must have one entry for each dim of f32[2, 3], got 1");
  CHECK(refusal(
            [](Values v) {
              return roll(v[0], {1, 2}, {0});
            },
            types) == "a shift for each axis is needed, got 2 shifts and 1 axes");
  CHECK(refusal(
            [](Values v) {
              return pad_mode(v[0], PadMode::reflect, {2, 0}, {0, 0});
            },
            types) ==
        "dim 0 of f32[2, 3] cannot be padded by 2 in mode reflect; the padding must be shorter than the dim");
  CHECK(refusal(
            [](Values v) {
              return pad_mode(v[0], PadMode::circular, {0, 4}, {0, 0});
            },
            types) ==
        "dim 1 of f32[2, 3] cannot be padded by 4 in mode circular; the padding must be no longer than the dim");
  CHECK(refusal(
            [](Values v) {
              return pad_mode(v[0], PadMode::replicate, {-1, 0}, {0, 0});
            },
            types) == "dim 0 of f32[2, 3] cannot be padded by -1 in mode replicate");
  CHECK(refusal([](Values v) { return pad_mode(v[0], PadMode::constant, {1}, {0}, 1.5); }, {{i32, {2}}}) ==
        "i32[2] cannot be padded with 1.5");
  CHECK(refusal(
            [](Values v) {
              return stack({v[0], v[1]});
            },
            {{f32, {2}}, {f32, {3}}}) ==
        "operands must have one type, got f32[2] and f32[3]; broadcast the smaller one");
  CHECK(refusal([](Values v) { return trilu(v[0], true); }, {{f32, {3}}}) == "a triangle needs two dims, got f32[3]");
  CHECK(refusal([](Values v) { return diagonal(v[0]); }, {{f32, {n, 3}}}) ==
        "the length of the diagonal of f32[n, 3] cannot be told: the lesser of n and 3");
  CHECK(refusal([](Values v) { return argsort(v[0]); }, {{c64, {3}}}) ==
        "an order of bool, integer, float is needed, got c64[3]; convert it first");
}
