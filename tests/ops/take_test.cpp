// Hard cases of indexing as models write it.
#include "ops/tables.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const Row kRows[] = {
#include "ops/take_cases.inc"
};
const Dim n = Dim::symbol("n"), m = Dim::symbol("m");

}  // namespace

TEST_CASE("indexing does what NumPy, PyTorch and ONNX do") { check_rows(kRows); }

TEST_CASE("an embedding of a block format keeps its rows packed") {
  Tensor table(q8_0, {2, 32});
  for (size_t i = 0; i < table.byte_count(); ++i) table.mutable_data()[i] = std::byte(i);
  Tensor y = run_op(op::take, TakeAttrs{}, std::array{table, tensor_of("i32[1, 2] [1, 1]")})[0];
  REQUIRE(y.type() == Type{q8_0, {1, 2, 32}});
  CHECK(std::equal(y.data(), y.data() + 34, table.data() + 34));
  CHECK(std::equal(y.data() + 34, y.data() + 68, table.data() + 34));
}
TEST_CASE("f16 sums of a scatter round once, also in its decomposition") {
  CHECK(mismatch([](Values v) { return scatter_add_rows(v[0], v[1], 1); },
                 {tensor_of("f16[3] [2048, 1, 1]"), tensor_of("i32[3] [0, 0, 0]")}, {tensor_of("f16[1] [2050]")},
                 0) == "");
}
TEST_CASE("a row of a table is found at run time, whatever its extents") {
  Graph g = trace(std::vector{Type{f32, {n, m}}, Type{i32, {m}}}, [](Values v) { return take(v[0], v[1], 0); });
  CHECK(text_of(g.output_types()[0]) == "f32[m, m]");
  for (const Graph& each : {g, made_of_primitives(g)})
    CHECK(difference(interpret(each, std::array{tensor_of("f32[1, 2] [1, 2]"), tensor_of("i32[2] [0, 1]")})[0],
                     tensor_of("f32[2, 2] [1, 2, nan, nan]")) == "");
  CHECK(type_text([](Values v) { return take_along_axis(v[0], v[1], 1); }, {{f32, {n, m}}, {i32, {n, 3}}}) ==
        "f32[n, 3]");
  CHECK(type_text([](Values v) { return scatter_add_rows(v[0], v[1], m, 1); }, {{f32, {2, n, 3}}, {i32, {n}}}) ==
        "f32[2, m, 3]");
  CHECK(type_text([](Values v) { return kv_append(v[0], v[1], v[2], 1); },
                  {{f32, {2, n, 3}}, {f32, {2, m, 3}}, {i32, {}}}) == "f32[2, n, 3]");
}
TEST_CASE("scatter_elements along a symbolic axis runs its other dims along") {
  Graph g = trace(std::vector{Type{i32, {2, n}}, Type{i32, {2, m}}, Type{i32, {2, m}}},
                  [](Values v) { return scatter_elements(v[0], v[1], v[2], 1, ScatterReduction::add); });
  CHECK(interpret(made_of_primitives(g),
                  std::array{tensor_of("i32[2, 3] [1, 2, 3, 4, 5, 6]"), tensor_of("i32[2, 1] [2, 0]"),
                             tensor_of("i32[2, 1] [10, 20]")})[0] == tensor_of("i32[2, 3] [1, 2, 13, 24, 5, 6]"));
}
TEST_CASE("indexing refuses operands that do not fit") {
  CHECK(refusal([](Values v) { return take(v[0], v[1], 2); }, {{f32, {4, 3}}, {i32, {2}}}) ==
        "axis 2 is out of range for rank 2; it goes from -2 to 1");
  CHECK(refusal([](Values v) { return take(v[0], v[1]); }, {{f32, {4, 3}}, {f32, {2}}}) ==
        "an index of integer is needed, got f32[2]; convert it first");
  CHECK(refusal([](Values v) { return take(v[0], v[1], 0, OutOfRange::clip); }, {{f32, {0, 3}}, {i32, {2}}}) ==
        "a slice of 1 does not lie within dim 0 of f32[0, 3]");
  CHECK(refusal([](Values v) { return take_along_axis(v[0], v[1], 0); }, {{f32, {4, 3}}, {i32, {2, 4}}}) ==
        "the indices i32[2, 4] must have the rank of f32[4, 3] and, in each dim but 0, at most its extent");
  CHECK(refusal([](Values v) { return gather_nd(v[0], v[1]); }, {{f32, {4, 3}}, {i32, {2, 3}}}) ==
        "index vectors of 3 entries in i32[2, 3] behind 0 batch dims do not fit f32[4, 3]");
  CHECK(refusal([](Values v) { return scatter_nd(v[0], v[1], v[2]); }, {{f32, {4, 3}}, {i32, {2, 1}}, {f32, {2, 2}}}) ==
        "for f32[4, 3] and the indices i32[2, 1] the updates must be f32[2, 3], got f32[2, 2]");
  CHECK(refusal([](Values v) { return scatter_elements(v[0], v[1], v[2], 0); }, {{f32, {4}}, {i32, {2}}, {f32, {3}}}) ==
        "the updates must be f32[2], as their indices, got f32[3]");
  CHECK(refusal([](Values v) { return scatter_elements(v[0], v[1], v[2], 0, ScatterReduction::max); },
                {{c64, {4}}, {i32, {2}}, {c64, {2}}}) ==
        "an operand of bool, integer, float is needed, got c64[4]; convert it first");
  CHECK(refusal([](Values v) { return kv_append(v[0], v[1], v[2], 0); }, {{f32, {4, 2}}, {f32, {1, 3}}, {i32, {}}}) ==
        "an entry for the cache f32[4, 2] must agree with it in dtype and in every dim but 0, where it is no longer; "
        "got f32[1, 3]");
  CHECK(refusal([](Values v) { return kv_append(v[0], v[1], v[2], 0); }, {{f32, {4, 2}}, {f32, {1, 2}}, {i32, {1}}}) ==
        "the position must be a scalar, got i32[1]");
}
