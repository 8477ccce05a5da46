// Hard cases of gather, scatter and the dynamic slices.
#include <cstring>

#include "ops/tables.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const Row kRows[] = {
#include "ops/index_cases.inc"
};
const Dim n = Dim::symbol("n"), m = Dim::symbol("m");

GatherAttrs rows_of(Dims sizes, OutOfRange out_of_range = OutOfRange::fill) {
  return {{1}, {0}, {}, {}, {0}, 1, std::move(sizes), out_of_range};
}

}  // namespace

TEST_CASE("gather, scatter and the dynamic slices do what JAX and NumPy do") { check_rows(kRows); }

TEST_CASE("gather and scatter copy the bits, also of a NaN with a payload") {
  Tensor x = tensor_of("f16[3] [0x7c01, 0xfe55, 1]"), at = tensor_of("i32[2] [1, 0]");
  GatherAttrs attrs{{}, {0}, {}, {}, {0}, 1, {1}};
  CHECK(run_op(op::gather, attrs, std::array{x, at})[0] == tensor_of("f16[2] [0xfe55, 0x7c01]"));
  ScatterAttrs update{ScatterKind::update, {}, {0}, {}, {}, {0}, 1};
  CHECK(run_op(op::scatter, update,
               std::array{tensor_of("f16[3] [1, 2, 3]"), at, tensor_of("f16[2] [0x7c01, 0xfe55]")})[0] ==
        tensor_of("f16[3] [0xfe55, 0x7c01, 3]"));
}
TEST_CASE("gather and scatter take elements narrower than a byte") {
  Tensor at = tensor_of("i32[3] [2, 5, 0]");
  CHECK(run_op(op::gather, GatherAttrs{{}, {0}, {}, {}, {0}, 1, {1}},
               std::array{tensor_of("i4[3] [1, -2, 7]"), at})[0] == tensor_of("i4[3] [7, -8, 1]"));
  CHECK(run_op(op::gather, GatherAttrs{{}, {0}, {}, {}, {0}, 1, {1}},
               std::array{tensor_of("u3[3] [1, 2, 6]"), at})[0] == tensor_of("u3[3] [6, 7, 1]"));
  ScatterAttrs update{ScatterKind::update, {}, {0}, {}, {}, {0}, 1};
  CHECK(run_op(op::scatter, update, std::array{tensor_of("u4[3] [1, 2, 3]"), at, tensor_of("u4[3] [9, 15, 8]")})[0] ==
        tensor_of("u4[3] [8, 2, 9]"));
}
TEST_CASE("gather takes whole rows of a block format; a row out of range is zero") {
  Tensor x(q8_0, {3, 64});  // two blocks of 34 bytes a row
  std::byte* bytes = x.mutable_data();
  for (size_t i = 0; i < x.byte_count(); ++i) bytes[i] = std::byte(i);
  Tensor y = run_op(op::gather, rows_of({1, 64}), std::array{x, tensor_of("i32[3] [2, 3, 1]")})[0];
  REQUIRE(y.type() == Type{q8_0, {3, 64}});
  CHECK(std::memcmp(y.data(), x.data() + 2 * 68, 68) == 0);
  CHECK(std::all_of(y.data() + 68, y.data() + 2 * 68, [](std::byte b) { return b == std::byte(0); }));
  CHECK(std::memcmp(y.data() + 2 * 68, x.data() + 68, 68) == 0);
  CHECK(refusal(
            [](Values v) {
              return gather(v[0], v[1], rows_of({1, 32}));
            },
            {{q8_0, {3, 64}}, {i32, {2}}}) ==
        "q8_0[3, 64] is packed in blocks along its last dim: only whole rows can be gathered; dequantize it first");
}
TEST_CASE("a scatter by a sub-graph combines several operands at once") {
  Type one{f64, {}}, two{i32, {}};
  Graph body = trace(std::vector{one, two, one, two}, [](Values v) {
    return std::vector{v[0] * v[2], maximum(v[1], v[3])};
  });
  ScatterAttrs attrs{ScatterKind::custom, {}, {0}, {}, {}, {0}, 1, body};
  CHECK(mismatch(
            [&](Values v) {
              return scatter_custom({v[0], v[1]}, v[2], {v[3], v[4]}, attrs);
            },
            {tensor_of("f64[3] [1, 2, 3]"), tensor_of("i32[3] [1, 2, 3]"), tensor_of("i64[4] [0, 2, 0, 3]"),
             tensor_of("f64[4] [5, 7, 11, 13]"), tensor_of("i32[4] [5, 0, 4, 9]")},
            {tensor_of("f64[3] [55, 2, 21]"), tensor_of("i32[3] [5, 2, 3]")}, 0) == "");
}
TEST_CASE("a slice that hangs over an end of the array is dropped by scatter as a whole") {
  for (ScatterKind kind : {ScatterKind::add, ScatterKind::update})
    CHECK(mismatch(
              [&](Values v) {
                return scatter(v[0], v[1], v[2], {kind, {1}, {}, {}, {}, {0}, 1});
              },
              {tensor_of("f32[5] [0, 0, 0, 0, 0]"), tensor_of("i32[4, 1] [3, 4, -1, 0]"),
               tensor_of("f32[4, 2] [1, 2, 3, 4, 5, 6, 7, 8]")},
              {tensor_of("f32[5] [7, 8, 0, 1, 2]")}, 0) == "");
}
TEST_CASE("indexing takes symbolic dims") {
  auto embed = [](Values v) { return gather(v[0], v[1], rows_of({1, v[0].dim(1)})); };
  CHECK(type_text(embed, {{f32, {n, m}}, {i32, {n + 1}}}) == "f32[n+1, m]");
  CHECK(type_text(
            [](Values v) {
              return scatter(v[0], v[1], v[2], {ScatterKind::add, {1}, {0}, {}, {}, {0}, 1});
            },
            {{f32, {n, 3}}, {i32, {m}}, {f32, {m, 3}}}) == "f32[n, 3]");
  CHECK(type_text([](Values v) { return dynamic_slice_axis(v[0], -1, v[1], m); }, {{f32, {2, n}}, {i32, {}}}) ==
        "f32[2, m]");
  Graph g = trace(std::vector{Type{f32, {n, m}}, Type{i32, {n + 1}}}, embed);
  CHECK(interpret(g, std::array{tensor_of("f32[2, 1] [7, 8]"), tensor_of("i32[3] [1, 0, 1]")})[0] ==
        tensor_of("f32[3, 1] [8, 7, 8]"));
}
TEST_CASE("slices along an axis") {
  Tensor x = tensor_of("i32[2, 3] [1, 2, 3, 4, 5, 6]"), start = tensor_of("i32[] [1]");
  CHECK(mismatch([](Values v) { return dynamic_slice_axis(v[0], -1, v[1], 2); }, {x, start},
                 {tensor_of("i32[2, 2] [2, 3, 5, 6]")}) == "");
  CHECK(mismatch([](Values v) { return dynamic_update_axis(v[0], v[2], 0, v[1]); },
                 {x, start, tensor_of("i32[1, 3] [7, 8, 9]")}, {tensor_of("i32[2, 3] [1, 2, 3, 7, 8, 9]")}) == "");
}
TEST_CASE("indexing refuses what does not fit") {
  std::vector<Type> types = {{f32, {4, 3}}, {i32, {5}}};
  auto message = [&](GatherAttrs a) { return refusal([&](Values v) { return gather(v[0], v[1], a); }, types); };
  CHECK(message(rows_of({1, 4})) == "a slice of 4 does not lie within dim 1 of f32[4, 3]");
  CHECK(message(rows_of({2, 3})) ==
        "slice_sizes[0] is 2, but dim 0 of f32[4, 3] is collapsed or a batching dim: it must be 1");
  CHECK(message(rows_of({1})) == "slice_sizes must have one entry for each dim of f32[4, 3], got 1");
  CHECK(message({{1}, {0}, {}, {}, {0}, 2, {1, 3}}) == "index_vector_dim is 2; indices of rank 1 have 0 to 1");
  CHECK(message({{1}, {0}, {}, {}, {0}, 0, {1, 3}}) ==
        "offset_dims has 1, which is no axis of rank 1 counted from the front");
  CHECK(message({{0}, {0}, {}, {}, {0}, 0, {1, 3}}) ==
        "an index vector of i32[5] along dim 0 has 5 entries, but stands for the 1 dims [0] of f32[4, 3]");
  CHECK(message({{1}, {-1}, {}, {}, {0}, 1, {1, 3}}) ==
        "collapsed_slice_dims has -1, which is no axis of rank 2 counted from the front");
  CHECK(message({{}, {0}, {}, {}, {0}, 1, {1, 3}}) ==
        "offset_dims [] must name a dim for each of the 1 dims of x (rank 2) that neither collapsed_slice_dims [0] nor "
        "operand_batching_dims [] has");
  CHECK(message({{}, {1}, {0}, {0}, {1}, 1, {1, 1}}) ==
        "dim 0 of f32[4, 3] and dim 0 of the indices i32[5] run together, but differ");
  CHECK(refusal(
            [](Values v) {
              return gather(v[0], v[1], rows_of({1, 3}));
            },
            {{f32, {4, 3}}, {f32, {5}}}) == "an index of integer is needed, got f32[5]; convert it first");
  CHECK(refusal(
            [](Values v) {
              return gather(v[0], v[1], rows_of({1, 3}, OutOfRange::clip));
            },
            {{f32, {0, 3}}, {i32, {5}}}) == "a slice of 1 does not lie within dim 0 of f32[0, 3]");
  ScatterAttrs add{ScatterKind::add, {1}, {0}, {}, {}, {0}, 1};
  CHECK(refusal([&](Values v) { return scatter(v[0], v[1], v[2], add); }, {{f32, {4, 3}}, {i32, {5}}, {f32, {6, 3}}}) ==
        "dim 0 of the updates f32[6, 3] runs through dim 0 of the indices i32[5], but differs");
  CHECK(refusal([&](Values v) { return scatter(v[0], v[1], v[2], add); }, {{f32, {4, 3}}, {i32, {5}}, {f32, {5, 4}}}) ==
        "dim 1 of the updates f32[5, 4] is longer than dim 1 of f32[4, 3]");
  CHECK(refusal([&](Values v) { return scatter(v[0], v[1], v[2], add); },
                {{boolean, {4, 3}}, {i32, {5}}, {boolean, {5, 3}}}) ==
        "an operand of integer, float, complex is needed, got bool[4, 3]; convert it first");
  CHECK(refusal(
            [](Values v) {
              return dynamic_slice(v[0], {v[1]}, {2, 2});
            },
            {{f32, {4, 3}}, {i32, {}}}) == "one start for each dim of f32[4, 3] is needed, got 1");
  CHECK(refusal(
            [](Values v) {
              return dynamic_slice(v[0], {v[1]}, {2, 4});
            },
            {{f32, {4, 3}}, {i32, {2}}}) == "a slice of 4 does not lie within dim 1 of f32[4, 3]");
  CHECK(refusal([](Values v) { return dynamic_update_slice(v[0], v[1], {v[2]}); },
                {{f32, {4, 3}}, {i32, {1, 1}}, {i32, {2}}}) == "the update i32[1, 1] has another dtype than f32[4, 3]");
}
