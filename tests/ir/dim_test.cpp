// Dims as polynomials: sums, products, exact division, text, and solving for a symbol.
#include <doctest/doctest.h>

#include <random>

#include "rlx/type.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

const Dim n = Dim::symbol("N"), m = Dim::symbol("M"), k = Dim::symbol("K");

Dim read(std::string_view from) {
  Scanner in(from);
  Dim d;
  parse(in, d);
  if (!in.at_end()) in.unexpected("the end");
  return d;
}

}  // namespace

TEST_CASE("equal polynomials are equal dims, however they were made") {
  CHECK((n + 1) * (n + 1) == n * n + 2 * n + 1);
  CHECK((n + m) * (n - m) == n * n - m * m);
  CHECK(n - n == Dim(0));
  CHECK((n - n).is_static());
  CHECK(n * 0 == Dim(0));
  CHECK(n * m == m * n);
  CHECK(!(n == m));
  CHECK(!(n == n + 1));
  CHECK(hash_of(n * m + 1) == hash_of(1 + m * n));
}

TEST_CASE("dims print with their symbols in order, and read back") {
  CHECK(text_of(Dim(-3)) == "-3");
  CHECK(text_of(n) == "N");
  CHECK(text_of(2 * n + 1) == "2*N+1");
  CHECK(text_of(n - 1) == "N+-1");
  CHECK(text_of(n * n * m - 4 * k) == "-4*K+M*N*N");
  CHECK(text_of(Dim(0) - n) == "-1*N");
  for (const Dim& d : {Dim(0), Dim(-7), n, n * m * 3 - k + 2, n * n - 1, Dim(INT64_MAX), Dim(INT64_MIN), n * INT64_MIN})
    CHECK(read(text_of(d)) == d);
  CHECK(read(" N * 2 + 3 * N+ -1 ") == 5 * n - 1);
  CHECK(read("2*3*N") == 6 * n);
}

TEST_CASE("text that is no dim is refused") {
  CHECK(message_of([] { read("N+"); }) == "line 1: expected a name before the end of the text");
  CHECK(message_of([] { read("*N"); }) == R"(line 1: expected a name before "*N")");
  CHECK(message_of([] { read("N-1"); }) == R"(line 1: expected the end before "-1")");
  CHECK(message_of([] { read("-N"); }) == R"(line 1: expected a number before "-N")");
  CHECK(message_of([] { read("9223372036854775808"); }) ==
        R"(line 1: expected a number that its type can hold before "9223372036854775808")");
}

TEST_CASE("arithmetic that overflows is an error, not a small number") {
  CHECK(message_of([] { return Dim(INT64_MAX) + 1; }) == "a dim overflows: 9223372036854775807 + 1");
  CHECK(message_of([] { return Dim(INT64_MAX) * 2; }) == "a dim overflows: 9223372036854775807 * 2");
  CHECK(message_of([] { return Dim(0) - Dim(INT64_MIN); }).starts_with("a dim overflows"));
  CHECK(message_of([] { return (n * INT64_MAX) * 2; }).starts_with("a dim overflows"));
  CHECK(message_of([] { return n * INT64_MAX + n; }).starts_with("a dim overflows"));
  CHECK(message_of([] { return (n * INT64_MAX).bound({{"N", 2}}); }).starts_with("a dim overflows"));
  CHECK(message_of([] { return Dim(INT64_MIN) / Dim(-1); }).starts_with("a dim overflows"));
  CHECK(message_of([] { return (n * INT64_MIN) / Dim(-1); }).starts_with("a dim overflows"));
}

TEST_CASE("a polynomial of more terms than any shape has is refused before it takes all memory") {
  CHECK(message_of([] {
          Dim product = 1;
          for (int i = 0; i < 64; ++i)
            product = product * (Dim::symbol(text_of("a", i)) + Dim::symbol(text_of("b", i)));
          return product;
        }).starts_with("a dim of more than"));
}

TEST_CASE("division is exact or refused") {
  CHECK((6 * n * m + 4 * n) / (2 * n) == 3 * m + 2);
  CHECK(Dim(12) / 4 == Dim(3));
  CHECK((n + 1) / (n + 1) == Dim(1));
  CHECK(Dim(0) / n == Dim(0));
  CHECK(message_of([] { return Dim(7) / 2; }) == "the dim 7 does not divide by 2");
  CHECK(message_of([] { return n / m; }) == "the dim N does not divide by M");
  CHECK(message_of([] { return (n + 1) / n; }) == "the dim N+1 does not divide by N");
  CHECK(message_of([] { return n / Dim(0); }) == "the dim N does not divide by 0");
  CHECK(message_of([] { return Dim(0) / Dim(0); }) == "the dim 0 does not divide by 0");
  CHECK(message_of([] { return (n * n - 1) / (n + 1); }) == "the dim N*N+-1 does not divide by N+1");
}

TEST_CASE("a number for a symbol is put in everywhere") {
  Dim d = n * n * m + 2 * n + 5;
  CHECK(d.bound({{"N", 3}}) == 9 * m + 11);
  CHECK(d.bound({{"N", 3}, {"M", 2}}) == Dim(29));
  CHECK(d.bound({{"N", 0}}) == Dim(5));
  CHECK(d.bound({}) == d);
  CHECK(d.bound({{"N", 3}, {"M", 2}}).value() == 29);
  CHECK(message_of([&] { d.value(); }) == "a number is needed here, but the dim is the symbolic M*N*N+2*N+5");
  std::vector<std::string> symbols;
  d.for_each_symbol([&](const std::string& s) { symbols.push_back(s); });
  CHECK(symbols == std::vector<std::string>{"M", "N", "N", "N"});
}

TEST_CASE("a symbol is solved for where it stands alone, and checked where it is known") {
  Bindings known;
  CHECK((2 * n + 3).solve(11, known));
  CHECK(known == Bindings{{"N", 4}});
  CHECK((n + 1).solve(5, known));
  CHECK(message_of([&] { n.solve(5, known); }) == "an extent of 5 does not fit the dim N");
  CHECK((n * m).solve(12, known));  // N is known by now
  CHECK(known.at("M") == 3);
  Bindings fresh;
  CHECK(!(n * m).solve(12, fresh));
  CHECK(!(n * n).solve(9, fresh));
  CHECK(!(n + m).solve(9, fresh));
  CHECK(fresh.empty());
  CHECK(message_of([&] { (2 * n).solve(5, fresh); }) == "an extent of 5 does not fit the dim 2*N");
  CHECK(message_of([&] { (n + 4).solve(3, fresh); }) == "an extent of 3 does not fit the dim N+4");
  CHECK(message_of([&] { Dim(3).solve(4, fresh); }) == "an extent of 4 does not fit the dim 3");
}

TEST_CASE("solving at the edge of the integers is refused, not overflowed") {
  Bindings known;
  CHECK_THROWS_AS((n + Dim(INT64_MIN)).solve(5, known), Error);
  CHECK_THROWS_AS((-1 * n + Dim(INT64_MIN)).solve(0, known), Error);
  CHECK_THROWS_AS((n * -1).solve(INT64_MIN, known), Error);
}

TEST_CASE("polynomials compute what their numbers compute") {
  std::mt19937_64 bits(std::strtoull(std::getenv("RLX_TEST_SEED"), nullptr, 10));
  const Bindings numbers = {{"N", 3}, {"M", 7}, {"K", 0}};
  for (int round = 0; round < 500; ++round) {
    std::vector<std::pair<Dim, int64_t>> pool = {{n, 3}, {m, 7}, {k, 0}, {2, 2}, {-5, -5}};
    for (int step = 0; step < 6; ++step) {
      const auto [a, x] = pool[bits() % pool.size()];
      const auto [b, y] = pool[bits() % pool.size()];
      if (std::abs(x) > 100000 || std::abs(y) > 100000) continue;
      switch (bits() % 3) {
        case 0: pool.emplace_back(a + b, x + y); break;
        case 1: pool.emplace_back(a - b, x - y); break;
        default: pool.emplace_back(a * b, x * y); break;
      }
    }
    for (const auto& [d, value] : pool) {
      CHECK(d.bound(numbers) == Dim(value));
      CHECK(read(text_of(d)) == d);
    }
  }
}

TEST_CASE("sizes of types are counted in blocks, and refused where memory could never hold them") {
  CHECK(byte_count(f32, {2, 3}) == 24);
  CHECK(byte_count(u4, {3}) == 2);
  CHECK(byte_count(u3, {9}) == 6);
  CHECK(byte_count(q4_0, {2, 64}) == 72);
  CHECK(byte_count(f32, {}) == 4);
  CHECK(byte_count(f32, {0, 5}) == 0);
  CHECK(element_count(Shape{int64_t{1} << 56}) == int64_t{1} << 56);
  CHECK(message_of([] {
          element_count(Shape{int64_t{1} << 57});
        }).starts_with("more elements than memory can ever hold"));
  CHECK(message_of([] { element_count(Shape{0, INT64_MAX}); }).starts_with("more elements than memory can ever hold"));
  CHECK(message_of([] { byte_count(q4_0, {}); }) == "q4_0 holds blocks of 32 along the last dim, which is 1");
  CHECK(dtype_named("bf16") == bf16);
  CHECK(message_of([] { shape_of({Dim(2), n}); }) == "a number is needed here, but the dim is the symbolic N");
}
