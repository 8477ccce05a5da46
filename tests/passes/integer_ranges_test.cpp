// Which numbers integers can be: by hand where a person can say it, and for every op held to what the reference
// computes from all numbers of small ranges.
#include "passes/integer_ranges.h"

#include <doctest/doctest.h>

#include <random>

#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/ops.h"

using namespace rlx;

namespace {

using Range = IntegerRange;
constexpr int64_t kMax32 = std::numeric_limits<int32_t>::max();

/// Of the outputs of a graph.
std::vector<Range> ranges_of(const Graph& g, RangeFacts facts = {}) {
  const IntegerRanges ranges(g, std::move(facts));
  std::vector<Range> all;
  for (const Output& o : g.outputs()) all.push_back(ranges.of(o.ref));
  return all;
}
/// Of what `f` makes of inputs of these types, which lie in these ranges.
template <class F>
Range range_of(const std::vector<Type>& types, const std::vector<std::optional<Range>>& inputs, F f) {
  return ranges_of(trace(types, f), {.inputs = inputs}).at(0);
}
Range whole(DType t) { return all_numbers_of(t); }

}  // namespace

TEST_CASE("numbers of a dtype, and whether another holds them") {
  CHECK(whole(i8) == Range{-128, 127});
  CHECK(whole(u32) == Range{0, 4294967295});
  CHECK(whole(boolean) == Range{0, 1});
  CHECK(whole(i64) == Range{});
  CHECK(whole(u64).least == 0);
  CHECK(Range{-128, 127}.fits(i8));
  CHECK_FALSE(Range{-128, 128}.fits(i8));
  CHECK_FALSE(Range{-1, 5}.fits(u64));
  CHECK_FALSE(whole(u32).fits(i32));
  CHECK_FALSE(whole(u64).fits(i32));
  CHECK(text_of(Range{0, 511}) == "[0, 511]");
  CHECK(text_of(Range{}) == "[-2^63, 2^63-1]");
}

TEST_CASE("constants, iotas and sizes are what they are") {
  Graph g;
  Value x = g.input("x", f32, {Dim::symbol("S"), 7});
  g.output(g.constant(Tensor::of<int64_t>({3}, {5, -7, 11})));
  g.output(iota(g, {i64, {4, 512}}, 1));
  g.output(iota(g, {i64, {Dim::symbol("S"), 7}}, 0));
  g.output(extent(g, x.dim(0), i64));
  g.output(extent(g, x.dim(0) * 2 + 1, i64));
  g.output(extent(g, Dim(9), i64));
  g.output(argmax(x, 1));
  CHECK(ranges_of(g) ==
        std::vector<Range>{{-7, 11}, {0, 511}, {0, kMax32 - 1}, {0, kMax32}, {1, 2 * kMax32 + 1}, {9, 9}, {0, 6}});
  // Symbols by what is known of them.
  const auto known = ranges_of(g, {.symbols = {{"S", {1, 128}}}});
  CHECK(known[2] == Range{0, 127});
  CHECK(known[3] == Range{1, 128});
  CHECK(known[4] == Range{3, 257});
}

TEST_CASE("a size that no value has may be negative") {
  const Dim s = Dim::symbol("S"), t = Dim::symbol("T");
  const std::vector<Type> in = {{i64, {s}}, {i64, {t}}};
  CHECK(range_of(in, {}, [&](Values v) { return extent(v[0].graph(), s - t, i64); }) == Range{-kMax32, kMax32});
  CHECK(range_of(in, {}, [&](Values v) { return extent(v[0].graph(), s, i64); }) == Range{0, kMax32});
}

TEST_CASE("counts are as large as what is counted") {
  const Type mask{boolean, {3, 100}}, open{boolean, {Dim::symbol("B"), Dim::symbol("S")}};
  const auto count = [](Axes axes) { return [axes](Values v) { return reduce_sum(convert(v[0], i64), axes); }; };
  CHECK(range_of({mask}, {}, count({1})) == Range{0, 100});
  CHECK(range_of({mask}, {}, count({0, 1})) == Range{0, 300});
  CHECK(range_of({open}, {}, count({1})) == Range{0, kMax32});
  CHECK_FALSE(range_of({open}, {}, count({0, 1})).fits(i32));
  CHECK(range_of({mask}, {}, [](Values v) {
          return dot_general(convert(v[0], i64), convert(v[0], i64), {{}, {}, {1}, {1}});
        }) == Range{0, 100});
  // Running ones, by their decomposition, which adds what is twice as far each time.
  CHECK(range_of({mask}, {}, [](Values v) { return cumsum(convert(v[0], i64), 1); }).is_within({0, 128}));
  // The greatest of nothing is the least number that there is.
  const Type none{i64, {0, 3}};
  CHECK(range_of({none}, {Range{0, 5}}, [](Values v) { return reduce_max(v[0], {0}); }) == whole(i64));
  CHECK(range_of({{i64, {2, 3}}}, {Range{0, 5}}, [](Values v) { return reduce_max(v[0], {0}); }) == Range{0, 5});
}

TEST_CASE("what may wrap is any number of its dtype") {
  const std::vector<Type> wide(2, Type{i64, {4}});
  const Range large{0, int64_t{1} << 62};
  CHECK(range_of(wide, {large, large}, [](Values v) { return v[0] + v[1]; }) == whole(i64));
  CHECK(range_of(wide, {large, Range{0, 1}}, [](Values v) { return v[0] + v[1]; }) == Range{0, (int64_t{1} << 62) + 1});
  CHECK(range_of(wide, {large, Range{2, 2}}, [](Values v) { return v[0] * v[1]; }) == whole(i64));
  CHECK(range_of(wide, {Range{}, Range{0, 0}}, [](Values v) { return neg(v[0]); }) == whole(i64));
  CHECK(range_of(wide, {Range{}, Range{-1, -1}}, [](Values v) { return v[0] / v[1]; }) == whole(i64));
  const std::vector<Type> unsigned_ones(2, Type{u64, {4}});
  CHECK(range_of(unsigned_ones, {}, [](Values v) { return v[0] * v[1]; }) == whole(u64));
  CHECK(range_of(unsigned_ones, {Range{0, 5}, Range{0, 5}}, [](Values v) { return v[0] - v[1]; }) == whole(u64));
  CHECK(range_of(unsigned_ones, {Range{8, 9}, Range{0, 5}}, [](Values v) { return v[0] - v[1]; }) == Range{3, 9});
  // Wrapping in a conversion; of floats nothing is known.
  CHECK(range_of({{i64, {4}}}, {Range{0, 300}}, [](Values v) { return convert(v[0], u8); }) == whole(u8));
  CHECK(range_of({{i64, {4}}}, {Range{0, 255}}, [](Values v) { return convert(v[0], u8); }) == Range{0, 255});
  CHECK(range_of({{f32, {4}}}, {}, [](Values v) { return convert(v[0], i64); }) == whole(i64));
}

TEST_CASE("clamps, choices, bits and what moves elements") {
  const std::vector<Type> wide(2, Type{i64, {4}});
  const auto bound = [](double v) { return [v](Values x) { return full_like(x[0], v); }; };
  CHECK(range_of(wide, {}, [&](Values v) { return minimum(maximum(v[0], bound(0)(v)), bound(9)(v)); }) == Range{0, 9});
  CHECK(range_of(wide, {}, [&](Values v) { return clamp(v[0], -3, 9); }) == Range{-3, 9});
  CHECK(range_of(wide, {Range{0, 5}, Range{-2, 3}},
                 [](Values v) { return select(compare(v[0], v[1], Comparison::lt), v[0], v[1]); }) == Range{-2, 5});
  CHECK(range_of(wide, {}, [&](Values v) { return bitwise_and(v[0], bound(1023)(v)); }) == Range{0, 1023});
  CHECK(range_of(wide, {}, [&](Values v) { return rem(v[0], bound(10)(v)); }) == Range{-9, 9});
  CHECK(range_of(wide, {}, [](Values v) {
          return concatenate({slice_axis(v[0], 0, 0, 2), iota(v[0].graph(), v[0].type(), 0)}, 0);
        }) == whole(i64));
  CHECK(range_of(wide, {Range{1, 2}, Range{7, 7}}, [](Values v) {
          return pad(v[0], reshape(slice_axis(v[1], 0, 0, 1), {}), {{1}, {0}, {}});
        }) == Range{1, 7});
}

TEST_CASE("elements at computed places are those of the table, where the place is known to be there") {
  const std::vector<Type> types = {{i64, {10}}, {i64, {3, 1}}};
  const auto read = [](OutOfRange how) {
    return [how](Values v) { return gather(v[0], v[1], {{}, {0}, {}, {}, {0}, 1, {1}, how}); };
  };
  CHECK(range_of(types, {Range{0, 5}, std::nullopt}, read(OutOfRange::clip)) == Range{0, 5});
  CHECK(range_of(types, {Range{0, 5}, std::nullopt}, read(OutOfRange::fill)) == whole(i64));
  CHECK(range_of(types, {Range{0, 5}, Range{0, 9}}, read(OutOfRange::fill)) == Range{0, 5});
  CHECK(range_of(types, {Range{0, 5}, Range{0, 10}}, read(OutOfRange::fill)) == whole(i64));
  const auto put = [](ScatterKind kind) {
    return [kind](Values v) {
      return scatter(v[0], v[1], convert(slice_axis(reshape(v[1], {3}), 0, 0, 3), i64),
                     {kind, {}, {0}, {}, {}, {0}, 1});
    };
  };
  CHECK(range_of(types, {Range{0, 5}, Range{-2, 9}}, put(ScatterKind::update)) == Range{-2, 9});
  CHECK(range_of(types, {Range{0, 5}, Range{-2, 9}}, put(ScatterKind::add)) == Range{-6, 32});
  CHECK(range_of(types, {Range{0, 5}, Range{-2, 9}}, put(ScatterKind::mul)) == whole(i64));
}

TEST_CASE("a loop's counter ends where its condition does, and what only grows may be anything") {
  // while (i < n) i += 2, total += i, doubled += doubled
  const std::vector<Type> types(3, Type{i64, {}});
  const Graph condition =
      trace(std::vector<Type>(4, Type{i64, {}}), [](Values v) { return compare(v[0], v[3], Comparison::lt); });
  const Graph body = trace(std::vector<Type>(4, Type{i64, {}}), [](Values v) -> Many<Value> {
    return {v[0] + full_like(v[0], 2), v[1] + v[0], minimum(v[2] + v[2], full_like(v[2], 1000))};
  });
  Graph g;
  Value n = g.constant(Tensor::of<int64_t>({}, {100})), zero = g.constant(Tensor::of<int64_t>({}, {0})),
        one = g.constant(Tensor::of<int64_t>({}, {1}));
  const auto out = while_loop({zero, zero, one, n}, {3, condition, body});
  for (const Value& v : out) g.output(v);
  const auto got = ranges_of(g);
  CHECK(got[0] == Range{0, 101});
  CHECK(got[1] == whole(i64));
  CHECK(got[2].is_within({-1000000, 1000}) == false);  // without a lower limit the doubled one may wrap
  CHECK(got[2].most == 1000);
  // Down to a limit, and the limit a carry of its own.
  const Graph until =
      trace(std::vector<Type>(2, Type{i32, {}}), [](Values v) { return compare(v[1], v[0], Comparison::lt); });
  const Graph down = trace(std::vector<Type>(2, Type{i32, {}}), [](Values v) -> Many<Value> {
    return {v[0] - full_like(v[0], 1), v[1]};
  });
  Graph h;
  const auto other = while_loop({h.constant(Tensor::of<int32_t>({}, {50})), h.constant(Tensor::of<int32_t>({}, {-3}))},
                                {2, until, down});
  for (const Value& v : other) h.output(v);
  CHECK(ranges_of(h) == std::vector<Range>{{-3, 50}, {-3, -3}});
}

TEST_CASE("scans and branches") {
  const Type number{i64, {}};
  const Graph body = trace(std::vector<Type>{number, number}, [](Values v) -> Many<Value> {
    return {maximum(v[0], v[1]), v[0] + v[1]};
  });
  Graph g;
  Value xs = iota(g, {i64, {20}}, 0);
  const auto out =
      scan(g, {g.constant(Tensor::of<int64_t>({}, {-4})), xs}, {.carries = 1, .xs = 1, .length = 20, .body = body});
  for (const Value& v : out) g.output(v);
  const Graph one = trace(std::vector<Type>{number}, [](Values v) { return v[0] * full_like(v[0], 3); });
  const Graph two = trace(std::vector<Type>{number}, [](Values v) { return neg(v[0]); });
  g.output(if_else(g.input("which", boolean, {}), {out[0]}, one, two)[0]);
  CHECK(ranges_of(g) == std::vector<Range>{{-4, 19}, {-4, 38}, {-19, 57}});
}

TEST_CASE("of every op and every pair of small numbers the result lies within what was said") {
  using F = std::function<Value(Value, Value)>;
  const std::pair<const char*, F> kOps[] = {
      {"add", [](Value x, Value y) { return x + y; }},
      {"sub", [](Value x, Value y) { return x - y; }},
      {"mul", [](Value x, Value y) { return x * y; }},
      {"div", [](Value x, Value y) { return x / y; }},
      {"rem", [](Value x, Value y) { return rem(x, y); }},
      {"floor_div", [](Value x, Value y) { return emit_binary(op::floor_div, x, y); }},
      {"floor_mod", [](Value x, Value y) { return emit_binary(op::floor_mod, x, y); }},
      {"maximum", [](Value x, Value y) { return maximum(x, y); }},
      {"minimum", [](Value x, Value y) { return minimum(x, y); }},
      {"and", [](Value x, Value y) { return bitwise_and(x, y); }},
      {"or", [](Value x, Value y) { return bitwise_or(x, y); }},
      {"xor", [](Value x, Value y) { return bitwise_xor(x, y); }},
      {"not", [](Value x, Value) { return bitwise_not(x); }},
      {"neg", [](Value x, Value) { return x.dtype() == u8 ? bitwise_not(x) : -x; }},
      {"abs", [](Value x, Value) { return x.dtype() == u8 ? x : abs(x); }},
      {"sign", [](Value x, Value) { return sign(x); }},
      {"shift_left", [](Value x, Value y) { return shift_left(x, y); }},
      {"shift_right_logical", [](Value x, Value y) { return shift_right_logical(x, y); }},
      {"shift_right_arithmetic", [](Value x, Value y) { return shift_right_arithmetic(x, y); }},
      {"popcnt", [](Value x, Value) { return popcnt(x); }},
      {"clz", [](Value x, Value) { return clz(x); }},
      {"to u8", [](Value x, Value) { return convert(x, u8); }},
      {"to i8", [](Value x, Value) { return convert(x, i8); }},
      {"square", [](Value x, Value) { return x.dtype() == u8 ? x : emit_unary(op::square, x); }},
  };
  std::mt19937 random(20261130);
  size_t exact = 0, all = 0;
  for (DType t : {i8, u8})
    for (int trial = 0; trial < 40; ++trial) {
      const Range any = whole(t);
      Range in[2];
      for (Range& r : in) {
        // Small and large ones, at zero and at the ends.
        const int64_t width = std::uniform_int_distribution<int64_t>(0, trial % 3 == 0 ? 255 : 12)(random);
        r.least =
            std::uniform_int_distribution<int64_t>(any.least, any.most - std::min(width, any.most - any.least))(random);
        if (trial % 5 == 0) r.least = std::clamp<int64_t>(-width / 2, any.least, any.most - width);
        r.most = std::min(any.most, r.least + width);
      }
      const int64_t nx = in[0].most - in[0].least + 1, ny = in[1].most - in[1].least + 1;
      Tensor x(t, {nx * ny}), y = x;
      for (int64_t i = 0; i < nx * ny; ++i) {
        const auto put = [&](Tensor& to, int64_t v) {
          if (t == u8) to.mutable_values<uint8_t>()[static_cast<size_t>(i)] = static_cast<uint8_t>(v);
          else to.mutable_values<int8_t>()[static_cast<size_t>(i)] = static_cast<int8_t>(v);
        };
        put(x, in[0].least + i / ny), put(y, in[1].least + i % ny);
      }
      for (const auto& each : kOps) {
        const char* name = each.first;
        const F& f = each.second;
        const Graph g = trace(std::vector<Type>{x.type(), y.type()}, [&](Values v) { return f(v[0], v[1]); });
        const Range said = ranges_of(g, {.inputs = {in[0], in[1]}}).at(0);
        const Tensor got = interpret(g, std::vector<Tensor>{x, y}).at(0);
        Range seen{load_index(got, 0), load_index(got, 0)};
        for (size_t i = 0; i < got.element_count(); ++i) {
          const int64_t v = load_index(got, i);
          seen = united(seen, {v, v});
        }
        const std::string about = text_of(name, " of ", t, " ", in[0], " and ", in[1], ": said ", said, ", is ", seen);
        CHECK_MESSAGE(seen.is_within(said), about);
        ++all, exact += seen == said;
      }
    }
  MESSAGE(exact, " of ", all, " are exact");
  CHECK(exact * 2 > all);  // sound is not enough: [-128, 127] always is
}
