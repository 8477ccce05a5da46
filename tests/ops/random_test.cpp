// Random numbers: Random123's published vectors, JAX's numbers bit for bit, the CPU's kernels, and what a user can get
// wrong.
#include "ops/hard_cases.h"
#include "ops/random/random_bits.h"
#include "rlx/session.h"
#include "support/golden_family.h"

using namespace rlx;
using namespace rlx::test;

namespace {

Tensor key(uint32_t first, uint32_t second) { return Tensor::of<uint32_t>({2}, {first, second}); }
/// What `build` makes of one key, on the CPU.
Tensor drawn(const std::function<Value(Value)>& build, const Tensor& with = key(3, 4)) {
  Graph g = trace(std::array{with.type()}, [&](Values v) { return build(v[0]); });
  return Session(Device::cpu(), {2}).compile(g).run_ordered(std::array{with})[0];
}
double mean_of(
    const Tensor& t, const std::function<double(double)>& f = [](double v) { return v; }) {
  double sum = 0;
  for (size_t i = 0; i < t.element_count(); ++i) sum += f(load_number(t, i));
  return sum / static_cast<double>(t.element_count());
}

}  // namespace

TEST_CASE("Philox and Threefry give the vectors that Random123 publishes") {
  // Random123 1.14, tests/kat_vectors: "philox4x32 10" and "threefry2x32 20"
  using B4 = Block4<uint32_t>;
  using B2 = Block2<uint32_t>;
  constexpr uint32_t kOnes = 0xffffffff;
  CHECK(philox_4x32_10<uint32_t>({0, 0, 0, 0}, {0, 0}) == B4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox_4x32_10<uint32_t>({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
        B4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox_4x32_10<uint32_t>({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        B4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(threefry_2x32_20<uint32_t>({0, 0}, {0, 0}) == B2{0x6b200159, 0x99ba4efe});
  CHECK(threefry_2x32_20<uint32_t>({kOnes, kOnes}, {kOnes, kOnes}) == B2{0x1cb996fc, 0xbb002be7});
  CHECK(threefry_2x32_20<uint32_t>({0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}) == B2{0xc4923a9c, 0x483df7a0});
}

TEST_CASE("bits, keys and uniform numbers in [0, 1) are JAX's to the last bit") {
  size_t count = 0;
  for (const GoldenCase& c : golden_family("random")) {
    const std::string& name = c.graph.name();
    bool exact = name.starts_with("bits") || name.starts_with("split") || name.starts_with("fold_in") ||
                 (name.starts_with("uniform") && !name.starts_with("uniform_range"));
    if (!exact) continue;
    CHECK_MESSAGE(interpret(c.graph, c.inputs)[0] == c.outputs[0], name);
    CHECK_MESSAGE(Session(Device::cpu(), {1}).compile(c.graph).run_ordered(c.inputs)[0] == c.outputs[0], name);
    ++count;
  }
  CHECK(count >= 100);
}

TEST_CASE("the CPU's kernels draw the reference's bits, whatever the count and the number of threads") {
  for (RngAlgorithm algorithm : {RngAlgorithm::philox, RngAlgorithm::threefry, RngAlgorithm::threefry_original})
    for (DType dtype : {u8, u16, u32, u64})
      for (int64_t count : {1, 3, 15, 16, 17, 63, 64, 65, 1000, 4099, 20000}) {
        Graph g =
            trace(std::vector{Type{u32, {3, 2}}}, [&](Values v) { return rng_bits(v[0], {count}, dtype, algorithm); });
        Tensor keys = Tensor::of<uint32_t>({3, 2}, {0, 0, 7, 0xffffffff, 123, 456});
        auto wanted = interpret(g, std::array{keys});
        for (int threads : {1, 3}) {
          auto got = Session(Device::cpu(), {threads}).compile(g).run_ordered(std::array{keys});
          CHECK_MESSAGE(got[0] == wanted[0], names_of(algorithm)[size_t(algorithm)], " ", dtype, " ", count, " ",
                        threads);
        }
      }
}

TEST_CASE("philox counts on from a counter that is given, over the ends of its words") {
  Tensor keys = Tensor::of<uint32_t>({2, 2}, {7, 0, 0x89abcdef, 0x01234567});
  for (uint32_t first : {0u, 0xfffffffeu, 0xffffffffu})
    for (uint32_t second : {5u, 0xffffffffu})
      for (DType dtype : {u8, u32, u64}) {
        Tensor counters = Tensor::of<uint32_t>({2, 4}, {first, second, 0xffffffff, 1, first, second, 0xffffffff, ~0u});
        Graph g = trace(std::vector{keys.type(), counters.type()}, [&](Values v) {
          return emit(op::rng_bits, {v[0], v[1]}, RngBitsAttrs{.dims = {70}, .dtype = dtype});
        });
        std::array inputs{keys, counters};
        Tensor wanted = interpret(g, inputs)[0];
        CHECK(interpret(made_of_primitives(g), inputs)[0] == wanted);
        CHECK(Session(Device::cpu(), {2}).compile(g).run_ordered(inputs)[0] == wanted);
      }
  // Where a stream goes on is where it is begun.
  auto words = [](int64_t count, const Tensor& counter) {
    Graph g = trace(std::vector{Type{u32, {2}}, Type{u32, {4}}}, [&](Values v) {
      return emit(op::rng_bits, {v[0], v[1]}, RngBitsAttrs{.dims = {count}});
    });
    return interpret(g, std::array{key(1, 2), counter})[0];
  };
  Tensor all = words(24, Tensor::of<uint32_t>({4}, {0xfffffffd, 0xffffffff, 0xffffffff, 0})),
         rest = words(12, Tensor::of<uint32_t>({4}, {0, 0, 0, 1}));
  CHECK(
      std::equal(rest.values<uint32_t>().begin(), rest.values<uint32_t>().end(), all.values<uint32_t>().begin() + 12));
}

TEST_CASE("a symbolic count draws what a number draws") {
  for (RngAlgorithm algorithm : {RngAlgorithm::philox, RngAlgorithm::threefry})
    for (DType dtype : {u8, u32, u64}) {
      Graph g;
      Value k = g.input("key", u32, {2}), x = g.input("x", f32, {Dim::symbol("N")});
      g.output(rng_bits(k, {Dim::symbol("N")}, dtype, algorithm));
      g.output(x);
      Graph wanted =
          trace(std::vector{Type{u32, {2}}}, [&](Values v) { return rng_bits(v[0], {9}, dtype, algorithm); });
      std::array inputs{key(1, 2), Tensor(f32, {9})};
      CHECK(interpret(g, inputs)[0] == interpret(wanted, std::array{key(1, 2)})[0]);
      CHECK(interpret(made_of_primitives(g), inputs)[0] == interpret(wanted, std::array{key(1, 2)})[0]);
    }
}

TEST_CASE("moments of what is drawn are those of the distributions") {
  constexpr int64_t kCount = 200000;
  auto square = [](double v) { return v * v; };
  Tensor u = drawn([&](Value k) { return rng_uniform(k, {kCount}, f32, -1, 3); });
  CHECK(std::abs(mean_of(u) - 1) < 0.01);
  CHECK(std::abs(mean_of(u, square) - (1 + 16.0 / 12)) < 0.02);
  Tensor z = drawn([&](Value k) { return rng_normal(k, {kCount}); });
  CHECK(std::abs(mean_of(z)) < 0.01);
  CHECK(std::abs(mean_of(z, square) - 1) < 0.015);
  CHECK(std::abs(mean_of(z, [](double v) { return v * v * v * v; }) - 3) < 0.1);
  Tensor heads = drawn([&](Value k) { return rng_bernoulli(k, scalar(k.graph(), 0.3, f32), {kCount}); });
  CHECK(std::abs(mean_of(heads) - 0.3) < 0.005);
  Tensor dice = drawn([&](Value k) { return rng_randint(k, {kCount}, 1, 7); });
  CHECK(std::abs(mean_of(dice) - 3.5) < 0.02);
}

TEST_CASE("numbers stay below the upper bound, also where rounding would reach it") {
  Tensor u = drawn([&](Value k) { return rng_uniform(k, {100000}, f16, 1000, 1001); });
  double most = 0;
  for (size_t i = 0; i < u.element_count(); ++i) most = std::max(most, load<double>(u, i));
  CHECK(most == 1000.5);  // the f16 below 1001
  Tensor t = drawn([&](Value k) { return rng_truncated_normal(k, {10000}, f32, 0.5, 0.75); });
  for (size_t i = 0; i < t.element_count(); ++i) CHECK((load<double>(t, i) > 0.5 && load<double>(t, i) < 0.75));
}

TEST_CASE("sample never draws a token of probability 0, and the cut tokens have it") {
  constexpr int64_t kRows = 5000;
  Graph g = trace(std::vector{Type{u32, {2}}, Type{f32, {kRows, 4}}}, [](Values v) { return sample(v[0], v[1], 2); });
  Tensor logits(f32, {kRows, 4});
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t t = 0; t < 4; ++t) logits.mutable_values<float>()[size_t(4 * r + t)] = t == 0 ? -INFINITY : float(t);
  Tensor tokens = interpret(g, std::array{key(5, 6), logits})[0];
  std::array<int, 4> counts = {};
  for (int32_t t : tokens.values<int32_t>()) ++counts[size_t(t)];
  CHECK(counts[0] == 0);
  CHECK(counts[1] == 0);
  CHECK(std::abs(counts[3] / double(kRows) - 1 / (1 + std::exp(-1.0))) < 0.03);
}

TEST_CASE("a permutation holds every place once, and shuffle moves rows") {
  for (int64_t size : {1, 5, 3000}) {
    Tensor p = drawn([&](Value k) { return rng_permutation(k, size); });
    std::vector<bool> seen(size_t(size), false);
    for (int32_t v : p.values<int32_t>()) seen.at(size_t(v)) = true;
    CHECK(std::count(seen.begin(), seen.end(), true) == size);
  }
  Tensor rows = drawn([](Value k) { return shuffle(k, iota(k.graph(), {i32, {3, 50}}, 1), 1); });
  CHECK(mean_of(rows) == 24.5);
  CHECK(std::equal(rows.values<int32_t>().begin(), rows.values<int32_t>().begin() + 50,
                   rows.values<int32_t>().begin() + 50));
}

TEST_CASE("counters that cannot be meant are refused") {
  auto with = [](Type counter, RngAlgorithm algorithm) {
    return infer_types(op::rng_bits, std::array{Type{u32, {3, 2}}, counter}, RngBitsAttrs{algorithm, {5}});
  };
  CHECK(with({u32, {3, 4}}, RngAlgorithm::philox)[0] == Type{u32, {3, 5}});
  CHECK_THROWS_WITH_AS(with({u32, {4}}, RngAlgorithm::philox), doctest::Contains("is u32[3, 4], got u32[4]"), Error);
  CHECK_THROWS_WITH_AS(with({u64, {3, 4}}, RngAlgorithm::philox), doctest::Contains("got u64[3, 4]"), Error);
  CHECK_THROWS_WITH_AS(with({u32, {3, 4}}, RngAlgorithm::threefry), doctest::Contains("from 0 alone"), Error);
}

TEST_CASE("keys, bounds and dtypes that cannot be meant are refused") {
  std::vector<Type> k = {{u32, {2}}}, with_x = {{u32, {2}}, {f32, {3}}};
  auto refused = [&](auto build) { return refusal([&](Values v) { return build(v[0]); }, k); };
  CHECK(refusal([](Values v) { return rng_bits(v[0], {3}); }, {{i32, {2}}}) ==
        "a key is u32[..., 2], got i32[2]; rng_key makes one of a seed");
  CHECK(refused([](Value v) { return rng_bits(v, {3}, i32); }) == "bits are drawn as u8, u16, u32 or u64, not as i32");
  CHECK(refused([](Value v) { return rng_uniform(v, {3}, f32, 2, 1); }) ==
        "there is no number of f32 in [2, 1), or infinitely many of them");
  CHECK(refused([](Value v) { return rng_uniform(v, {3}, i32); }) ==
        "floats are drawn as f16, bf16, f32 or f64, not as i32");
  CHECK(refused([](Value v) { return rng_normal(v, {3}, f32, 0, -1); }) ==
        "a mean and a scale >= 0 are needed, got 0 and -1");
  CHECK(refused([](Value v) { return rng_randint(v, {3}, 0, 300, u8); }) ==
        "there is no integer in [0, 300), or u8, which runs from 0 to 255, does not hold them all");
  CHECK(refused([](Value v) { return rng_truncated_normal(v, {3}, f32, 2, 2); }) ==
        "the normal distribution has nothing, to the digits of f32, between 2 and 2");
  CHECK(refusal([](Values v) { return dropout(v[0], v[1], 1.5); }, with_x) == "rate must lie in [0, 1], got 1.5");
  CHECK(refusal([](Values v) { return sample(v[0], v[1], -1); }, with_x) ==
        "top_k, top_p and temperature must not be negative, got -1, 1, 1");
  CHECK(refusal([](Values v) { return dropout(v[0], v[1], 0.5); }, {{u32, {3, 2}}, {f32, {3}}}) ==
        "one key is needed, u32[2], got u32[3, 2]; batch the op to draw with several");
  CHECK(refusal([](Values v) { return rng_bernoulli(v[0], v[1], {4}); }, with_x) ==
        "p, f32[3], does not broadcast to what is drawn, bool[4]");
  CHECK(refusal([](Values v) { return fold_in(v[0], v[1]); }, {{u32, {2}}, {i32, {3}}}) ==
        "each key of u32[2] takes one number, got i32[3]");
}
