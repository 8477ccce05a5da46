// Rotary positions beside `transformers` (tests/golden/generate/model_blocks.py).
#include <numeric>

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
  if (name == "proportional") rope.scaling = RopeScaling::proportional, rope.factor = 2, rope.proportion = 0.6;
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
  for (const char* name : {"default", "linear", "dynamic", "yarn", "yarn_mscale", "llama3", "longrope", "proportional"})
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

TEST_CASE("positions may be given, whatever the kind, as long as they are integers of the right rank") {
  for (const char* name : {"default", "dynamic", "longrope"}) {
    CAPTURE(name);
    Graph g;
    const RopeTables tables = rope_tables(g, rope_named(name), g.input("places", i64, {1, Dim::symbol("S")}));
    g.output(tables.cosines);
    std::vector<int64_t> places(37);
    std::iota(places.begin(), places.end(), 0);
    const Tensor made = Session().compile(g).run({{"places", Tensor::of<int64_t>({1, 37}, places)}})[0];
    CHECK(worst_difference(made.reshaped({37, 6}), golden(text_of("rope_", name, "/out.long_cos"))) < kTolerance);
  }
  Graph g;
  Value numbers = g.input("numbers", f32, {1, 4}), flat = g.input("flat", i32, {4});
  const RopeConfig rope{.dims = 4};
  CHECK(says(error_of([&] { rope_tables(g, rope, numbers); }).what(), "integers [B, S], got f32[1, 4]"));
  CHECK(says(error_of([&] { rope_tables(g, rope, flat); }).what(), "integers [B, S], got i32[4]"));
  CHECK(says(error_of([&] { rope_tables(g, rope, Value()); }).what(), "got none"));
}

TEST_CASE("tokens that stand at three places have the angles of Qwen2-VL and of Qwen3-VL") {
  const Tensor places = golden("rope_axes/in.places");
  for (const std::string name : {"blocks", "turns"}) {
    CAPTURE(name);
    RopeConfig rope{.theta = 500, .dims = 12};
    rope.sections = name == "blocks" ? std::vector<int64_t>{1, 3, 2} : std::vector<int64_t>{3, 2, 1};
    rope.interleaves_sections = name == "turns";
    Graph g;
    const RopeTables tables = rope_tables(g, rope, g.input("places", places.type()));
    g.output(tables.cosines), g.output(tables.sines);
    // And a run of the op, whose tables differ between the texts of a batch.
    Value x = g.input("x", f32, {2, 16, 3, 12});
    g.output(turned(x, tables, 3));
    std::vector<float> ones(size_t{2} * 16 * 3 * 12, 1.0F);
    const std::vector<Tensor> out =
        Session().compile(g).run({{"places", places}, {"x", Tensor::of<float>({2, 16, 3, 12}, ones)}});
    const Tensor cosines = golden(text_of("rope_axes_", name, "/out.cos"));
    const Tensor sines = golden(text_of("rope_axes_", name, "/out.sin"));
    CHECK(worst_difference(out[0], cosines) < kTolerance);
    CHECK(worst_difference(out[1], sines) < kTolerance);
    const auto c = cosines.values<float>(), s = sines.values<float>(), y = out[2].values<float>();
    for (size_t token = 0; token < 32; ++token)
      for (size_t pair = 0; pair < 6; ++pair)
        CHECK(y[token * 36 + pair] == doctest::Approx(c[token * 6 + pair] - s[token * 6 + pair]).epsilon(1e-5));

    // Of a text all three places are one, and the tables those of any text.
    Graph of_text;
    of_text.output(rope_tables(of_text, rope, {.count = 16}).cosines);
    CHECK(worst_difference(Session().compile(of_text).run({})[0],
                           Tensor::of<float>({16, 6}, golden("rope_default/out.short_cos").values<float>())) <
          kTolerance);

    Graph wrong;
    Value two = wrong.input("two", i32, {2, 1, 4}), one = wrong.input("one", i32, {1, 4});
    CHECK(says(error_of([&] { rope_tables(wrong, rope, two); }).what(), "positions of 2 axes"));
    CHECK(says(error_of([&] { rope_tables(wrong, rope, one); }).what(), "integers [3, B, S], got i32[1, 4]"));
  }
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
  CHECK(says(refusal({.scaling = RopeScaling::proportional, .dims = 4, .proportion = 2}).what(), "2 of the pairs"));
  CHECK(says(refusal({.dims = 4, .sections = {1, 2}}).what(), "have 3 pairs in all, but 2"));
  CHECK(says(refusal({.dims = 4, .sections = {3, -1}}).what(), "a section of -1 pairs"));
  CHECK(says(refusal({.dims = 4, .sections = {1, 1}, .interleaves_sections = true}).what(), "must be three"));
  CHECK(says(refusal({.scaling = RopeScaling::longrope, .dims = 4, .original_context = 4}).what(),
             "short_factor has 0 factors, but 2 pairs"));
}

}  // namespace rlx::test::blocks
