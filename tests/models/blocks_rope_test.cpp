// Rotary positions beside `transformers` (tests/golden/generate/model_blocks.py).
#include "models/blocks_golden.h"
#include "support/io_files.h"

namespace rlx::test::blocks {
namespace {

/// The factors of tests/golden/generate/model_blocks.py.
RopeConfig rope_named(const std::string& name) {
  RopeConfig rope{.theta = 500, .dims = 12, .original_context = 16};
  if (name == "linear") rope.scaling = RopeScaling::linear, rope.factor = 3;
  if (name == "dynamic") rope.scaling = RopeScaling::dynamic, rope.factor = 2;
  if (name == "yarn" || name == "yarn_mscale") {
    rope.scaling = RopeScaling::yarn, rope.factor = 4;
    rope.attention_factor = 0.1 * std::log(4) + 1;
  }
  if (name == "yarn_mscale")
    rope.attention_factor = 1.25, rope.beta_fast = 8, rope.beta_slow = 2, rope.truncate = false;
  if (name == "llama3") rope.scaling = RopeScaling::llama3, rope.factor = 8;
  if (name == "longrope") {
    rope.scaling = RopeScaling::longrope, rope.factor = 2;
    rope.short_factors = {1, 1.25, 1.5, 2, 2.5, 3}, rope.long_factors = {2, 3, 5, 8, 13, 21};
    rope.attention_factor = std::sqrt(1 + std::log(2) / std::log(16));
  }
  return rope;
}
std::vector<Tensor> tables_of(const RopeConfig& rope, int64_t count) {
  Graph g;
  const RopeTables tables = rope_tables(g, rope, {.count = count});
  g.output(tables.cosines), g.output(tables.sines);
  return Session().compile(g).run({});
}

}  // namespace

TEST_CASE("each kind of rotary positions has the cosines and sines of transformers, short and long") {
  for (const char* name : {"default", "linear", "dynamic", "yarn", "yarn_mscale", "llama3", "longrope"})
    for (const int64_t count : {16, 37}) {
      const std::string length = count == 16 ? "short" : "long";
      CAPTURE(name);
      CAPTURE(length);
      const std::vector<Tensor> tables = tables_of(rope_named(name), count);
      const std::string at = text_of("rope_", name, "/out.", length);
      CHECK(worst_difference(tables[0], golden(at + "_cos")) < kTolerance);
      CHECK(worst_difference(tables[1], golden(at + "_sin")) < kTolerance);
    }
}

TEST_CASE("positions that begin later have the angles of those places") {
  const RopeConfig rope = rope_named("dynamic");
  Graph g;
  const Dim n = Dim::symbol("n");
  g.input("x", u8, {n, 0});
  const RopeTables tables = rope_tables(g, rope, SequencePositions::inputs(g, n));
  g.output(tables.cosines);
  const Tensor wanted = golden("rope_dynamic/out.long_cos");
  const Tensor part = Session().compile(g).run(
      {{"x", Tensor(u8, {7, 0})}, {"position", Tensor::scalar<int32_t>(30)}, {"total", Tensor(u8, {37, 0})}})[0];
  CHECK(worst_difference(part, Tensor::of<float>({7, 6}, wanted.values<float>().subspan(30 * 6))) < kTolerance);
}

TEST_CASE("neighbours turn together in a part of a head, whether heads are packed or not") {
  const Tensor x = golden("rope_pairs/in.x"), wanted = golden("rope_pairs/out.y");
  for (bool is_packed : {false, true}) {
    const Tensor given = is_packed ? x.reshaped({2, 5, 30}) : x;
    Graph g;
    const RopeConfig rope{.theta = 500, .dims = 6, .style = RopeStyle::gptj};
    g.output(turned(g.input("x", given.type()), rope_tables(g, rope, {.count = 5}), 3));
    const Tensor y = Session().compile(g).run({{"x", given}})[0];
    CHECK(worst_difference(y.reshaped({2, 5, 3, 10}), wanted) < kTolerance);
  }
}

TEST_CASE("a description of rotary positions that has no numbers is refused, saying why") {
  const auto refusal = [](const RopeConfig& rope) { return error_of([&] { rope_frequencies(rope); }); };
  CHECK(says(refusal({.dims = 3}).what(), "3 elements of a head of 3 turn"));
  CHECK(refusal({.dims = 3}).code() == ErrorCode::invalid_argument);
  CHECK(says(refusal({.theta = 0.5, .dims = 4}).what(), "the base 0.5"));
  CHECK(says(refusal({.scaling = RopeScaling::linear, .dims = 4, .factor = 0}).what(), "the factor 0"));
  CHECK(says(refusal({.scaling = RopeScaling::yarn, .dims = 4}).what(), "an original context of 0"));
  CHECK(says(refusal({.scaling = RopeScaling::longrope, .dims = 4, .original_context = 4}).what(),
             "short_factor has 0 factors, but 2 pairs"));
}

}  // namespace rlx::test::blocks
