// Integers of 64 bits in pairs of words give what they give whole, at every border.
#include <doctest/doctest.h>

#include "passes/split_words.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/ops.h"

using namespace rlx;

namespace {

const uint64_t kHard[] = {0,
                          1,
                          2,
                          3,
                          31,
                          32,
                          63,
                          64,
                          65535,
                          65536,
                          0x7fffffff,
                          0x80000000,
                          0xffffffff,
                          0x100000000,
                          0x100000001,
                          6442451201,
                          0x123456789abcdef0,
                          0x7fffffffffffffff,
                          0x8000000000000000,
                          0x8000000000000001,
                          0xfffffffeffffffff,
                          0xffffffff00000000,
                          0xffffffffffffffff};
constexpr size_t kCount = std::size(kHard);

/// Every pair of the hard numbers: their words, high and low of the one and the other.
std::vector<Tensor> all_pairs() {
  std::vector<Tensor> words(4, Tensor(u32, {static_cast<int64_t>(kCount * kCount)}));
  for (size_t i = 0; i < kCount * kCount; ++i) {
    const uint64_t x = kHard[i / kCount], y = kHard[i % kCount];
    const uint64_t parts[] = {x >> 32, x, y >> 32, y};
    for (size_t w = 0; w < 4; ++w) words[w].mutable_values<uint32_t>()[i] = static_cast<uint32_t>(parts[w]);
  }
  return words;
}

Value whole(Value high, Value low, DType dtype) {
  Value wide = convert(high, dtype);
  return bitwise_or(shift_left(wide, full_like(wide, 32)), convert(low, dtype));
}

/// What `f` makes of both numbers, in words or as what it is.
Graph of_pairs(DType dtype, const std::function<Value(Value, Value)>& f) {
  Type word{u32, {static_cast<int64_t>(kCount * kCount)}};
  return trace(std::vector<Type>(4, word), [&](Graph&, Values v) -> Many<Value> {
    Value y = f(whole(v[0], v[1], dtype), whole(v[2], v[3], dtype));
    if (y.dtype() != i64 && y.dtype() != u64) return y;
    return {convert(shift_right_logical(y, full_like(y, 32)), u32), convert(y, u32)};
  });
}

bool has_double_words(const Graph& g) {
  for (const Node& node : g.nodes())
    for (const Type& t : node.types)
      if (t.dtype == i64 || t.dtype == u64) return true;
  return false;
}

}  // namespace

TEST_CASE("pairs of words give what 64 bits give, for every pair of hard numbers and each op") {
  using F = std::function<Value(Value, Value)>;
  const std::pair<const char*, F> kOps[] = {
      {"add", [](Value x, Value y) { return x + y; }},
      {"sub", [](Value x, Value y) { return x - y; }},
      {"mul", [](Value x, Value y) { return x * y; }},
      {"div", [](Value x, Value y) { return x / y; }},
      {"rem", [](Value x, Value y) { return rem(x, y); }},
      {"neg", [](Value x, Value) { return -x; }},
      {"abs", [](Value x, Value y) { return x.dtype() == i64 ? abs(x) : abs(convert(y, i64)); }},
      {"sign", [](Value x, Value) { return sign(x); }},
      {"and", [](Value x, Value y) { return bitwise_and(x, y); }},
      {"or", [](Value x, Value y) { return bitwise_or(x, y); }},
      {"xor", [](Value x, Value y) { return bitwise_xor(x, y); }},
      {"not", [](Value x, Value) { return bitwise_not(x); }},
      {"maximum", [](Value x, Value y) { return maximum(x, y); }},
      {"minimum", [](Value x, Value y) { return minimum(x, y); }},
      {"shift_left", [](Value x, Value y) { return shift_left(x, y); }},
      {"shift_right_logical", [](Value x, Value y) { return shift_right_logical(x, y); }},
      {"shift_right_arithmetic", [](Value x, Value y) { return shift_right_arithmetic(x, y); }},
      {"by 0", [](Value x, Value) { return shift_right_arithmetic(x, full_like(x, 0)); }},
      {"by 30", [](Value x, Value) { return shift_right_arithmetic(x, full_like(x, 30)); }},
      {"by 32", [](Value x, Value) { return shift_right_logical(x, full_like(x, 32)); }},
      {"by 45", [](Value x, Value) { return shift_left(x, full_like(x, 45)); }},
      {"by 63", [](Value x, Value) { return shift_right_arithmetic(x, full_like(x, 63)); }},
      {"by 64", [](Value x, Value) { return shift_right_arithmetic(x, full_like(x, 64)); }},
      {"lt", [](Value x, Value y) { return compare(x, y, Comparison::lt); }},
      {"le", [](Value x, Value y) { return compare(x, y, Comparison::le); }},
      {"gt", [](Value x, Value y) { return compare(x, y, Comparison::gt); }},
      {"ge", [](Value x, Value y) { return compare(x, y, Comparison::ge); }},
      {"eq", [](Value x, Value y) { return compare(x, y, Comparison::eq); }},
      {"ne", [](Value x, Value y) { return compare(x, y, Comparison::ne); }},
      {"select", [](Value x, Value y) { return select(compare(x, y, Comparison::lt), x, y); }},
      {"reverse", [](Value x, Value y) { return concatenate({reverse(x, {0}), y}, 0); }},
      {"gather, moved",
       [](Value x,
          Value y) { return gather(x, reshape(y, {y.dim(0), 1}), {{}, {0}, {}, {}, {0}, 1, {1}, OutOfRange::clip}); }},
      {"gather, filled",
       [](Value x, Value y) { return gather(x, reshape(y, {y.dim(0), 1}), {{}, {0}, {}, {}, {0}, 1, {1}}); }},
      {"gather of i32",
       [](Value x,
          Value y) { return gather(convert(x, i32), reshape(y, {y.dim(0), 1}), {{}, {0}, {}, {}, {0}, 1, {1}}); }},
      {"iota", [](Value x, Value) { return x + iota(x.graph(), x.type(), 0); }},
      {"constant", [](Value x, Value) { return x * full_like(x, 4294967297.0); }},
      {"to f64", [](Value x, Value) { return convert(x, f64); }},
      {"to f32", [](Value x, Value) { return convert(x, f32); }},
      {"to bf16", [](Value x, Value) { return convert(x, bf16); }},
      {"to i16", [](Value x, Value) { return convert(x, i16); }},
      {"to bool", [](Value x, Value) { return convert(x, boolean); }},
      {"of i8", [](Value x, Value) { return convert(convert(x, i8), x.dtype()); }},
      {"of u8", [](Value x, Value) { return convert(convert(x, u8), x.dtype()); }},
      {"of f32", [](Value x, Value) { return convert(convert(x, f32), x.dtype()); }},
      {"of f64", [](Value x, Value) { return convert(convert(x, f64) * 2.0, x.dtype()); }},
  };
  std::vector<Tensor> in = all_pairs();
  for (DType dtype : {i64, u64})
    for (const auto& entry : kOps) {
      CAPTURE(std::string(entry.first));
      CAPTURE(text_of(dtype));
      Graph g = of_pairs(dtype, entry.second), split = split_words(g, true);
      CHECK_FALSE(has_double_words(split));
      auto wanted = interpret(g, in), got = interpret(split, in);
      REQUIRE(wanted.size() == got.size());
      for (size_t o = 0; o < wanted.size(); ++o)
        for (size_t i = 0; i < wanted[o].element_count(); ++i) {
          double x = load_number(got[o], i), y = load_number(wanted[o], i);
          CHECK_MESSAGE(std::abs(x - y) <= std::abs(y) * 0x1p-52, entry.first, " of ", i / kCount, " and ", i % kCount,
                        ", ", o, ": ", x, " instead of ", y);
        }
    }
}

TEST_CASE("where integers may be narrowed, only those are pairs of words whose high halves are read") {
  Graph g = trace(std::vector<Type>{{i64, {3}}, {i64, {3}}}, [](Graph&, Values v) -> Many<Value> {
    return {v[0] + v[0], shift_right_arithmetic(v[1] * v[1], full_like(v[1], 30))};
  });
  CHECK(reads_high_words(g));
  Graph split = split_words(g, false);
  size_t sums = 0, products = 0;
  for (const Node& node : split.nodes()) {
    bool wide = node.types[0].dtype == i64;
    sums += wide && node.op == &op::add, products += wide && node.op == &op::mul;
  }
  CHECK(sums == 1);
  CHECK(products == 0);
  std::vector<Tensor> in{Tensor::of<int64_t>({3}, std::vector<int64_t>{1, -2, 3}),
                         Tensor::of<int64_t>({3}, std::vector<int64_t>{1 << 30, -5, 2000000000})};
  auto got = interpret(split, in);
  CHECK(load<int64_t>(got[0], 1) == -4);
  CHECK(load<int64_t>(got[1], 0) == 1 << 30);
  CHECK(load<int64_t>(got[1], 1) == 0);
  CHECK(load<int64_t>(got[1], 2) == static_cast<int32_t>(int64_t{4000000000000000000} >> 30));
}

TEST_CASE("integers of 64 bits become the nearest f32, not one near a sum of rounded words") {
  std::vector<uint64_t> hard{6442451201,         0x8000008000000001, 0x8000008000000000, 0x0000018000010000,
                             0x7fffff4000000001, 0x00ffffff80000001, 0xffffff8000000001};
  uint64_t state = 42;
  for (int i = 0; i < 2000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    hard.push_back(state >> (i % 64));
  }
  const auto n = static_cast<int64_t>(hard.size());
  std::vector<Tensor> in(2, Tensor(u32, {n}));
  for (size_t i = 0; i < hard.size(); ++i) {
    in[0].mutable_values<uint32_t>()[i] = static_cast<uint32_t>(hard[i] >> 32);
    in[1].mutable_values<uint32_t>()[i] = static_cast<uint32_t>(hard[i]);
  }
  for (DType dtype : {i64, u64}) {
    CAPTURE(text_of(dtype));
    Graph g = trace(std::vector<Type>(2, Type{u32, {n}}),
                    [&](Graph&, Values v) -> Many<Value> { return convert(whole(v[0], v[1], dtype), f32); });
    Tensor got = interpret(split_words(g, true), in)[0];
    // The processor's own conversion, which IEEE 754 rounds once.
    for (size_t i = 0; i < hard.size(); ++i)
      CHECK(static_cast<float>(load_number(got, i)) ==
            (dtype == i64 ? static_cast<float>(static_cast<int64_t>(hard[i])) : static_cast<float>(hard[i])));
  }
}

TEST_CASE("high words that an op without a rule has dropped are not read, but refused with its name") {
  auto refused = [](Types in, const std::function<Value(Values)>& f, const char* name) {
    CAPTURE(std::string(name));
    Graph g = trace(in, [&](Graph&, Values v) -> Many<Value> { return f(v); });
    REQUIRE(reads_high_words(g));
    std::string text;
    try {
      split_words(g, false);
    } catch (const Error& e) {
      text = e.what();
    }
    CHECK_MESSAGE(text.find(name) != std::string::npos, text);
  };
  auto by = [](Value x, double places) { return shift_right_logical(x, full_like(x, places)); };
  std::vector<Type> words{{i32, {4}}}, wide{{u64, {4}}};
  refused(
      words,
      [&](Values v) {
        Value x = convert(v[0], i64);
        return convert(by(reduce_sum(x * x, {0}), 31), i32);
      },
      "reduce");
  refused(
      wide, [&](Values v) { return by(sort_values(v[0]), 40); }, "sort");
  refused(
      wide,
      [](Values v) {
        Value sum = reduce_sum(v[0], {0});
        return rem(sum, full_like(sum, 1000003));
      },
      "reduce");
  refused(
      wide, [](Values v) { return cumsum(v[0], 0) / full_like(v[0], 7); }, "cumsum");
  // A carry of a loop, between whose rounds there are low words only.
  refused(
      std::vector<Type>{{u64, {}}, {u64, {4}}},
      [&](Values v) {
        Graph body = trace(std::vector<Type>(2, Type{u64, {}}), [&](Values in) {
          Value next = in[0] * full_like(in[0], 6364136223846793005.0) + in[1];
          return std::vector{next, by(next, 33)};
        });
        return scan(v[0].graph(), {v[0], v[1]}, {1, 1, 4, false, body})[1];
      },
      "outside its loop");
}
