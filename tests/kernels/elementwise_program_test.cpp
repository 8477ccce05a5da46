// The element-wise machine: broadcasts, strides, ranges, register reuse, results in place. Values are small integers
// in f64 or i32, so that every order of exact ops gives one answer.
#include <algorithm>

#include "kernels/elementwise_test.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

/// A buffer laid out for an iteration space with random strides: some dims broadcast, some with gaps.
struct Laid {
  Elements memory;
  ElementwiseBuffer buffer;
};
int64_t offset(const std::vector<int64_t>& dims, int64_t linear, const int64_t* strides) {
  int64_t at = 0;
  for (size_t d = dims.size(); d-- > 0; linear /= dims[d]) at += linear % dims[d] * strides[d];
  return at;
}
Laid lay(DType t, const std::vector<int64_t>& dims, Random& r, bool may_broadcast) {
  ElementwiseBuffer b;
  int64_t stride = r.below(4) == 0 ? 2 : 1;
  for (size_t d = dims.size(); d-- > 0;) {
    const bool broadcast = may_broadcast && r.below(3) == 0;
    b.strides[d] = broadcast ? 0 : stride;
    if (!broadcast) stride *= dims[d] + (r.below(3) == 0 ? 1 : 0);
  }
  Laid laid{Elements(t, stride + 2), b};
  for (int64_t i = 0; i < laid.memory.size(); ++i) laid.memory.set(i, static_cast<double>(r.below(7) - 3));
  laid.buffer.data = laid.memory.data();
  return laid;
}

}  // namespace

TEST_CASE("operands broadcast and stride in any pattern, and any split into ranges gives the same") {
  for_each_target([] {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      Random r(seed);
      const DType types[] = {f32, f16, f64, i32, i8, u64, bf16};
      const DType t = types[r.below(7)];
      std::vector<int64_t> dims;
      const int64_t rank = r.below(5);
      for (int64_t d = 0; d < rank; ++d) dims.push_back(1 + r.below(d == rank - 1 ? 150 : 9));
      Laid x = lay(t, dims, r, true), y = lay(t, dims, r, true), z = lay(t, dims, r, true),
           out = lay(t, dims, r, false);

      ElementwiseProgram p;
      const auto a = p.load(t, 0), b = p.load(t, 1), c = p.load(t, 2);
      p.store(p.apply(Op::sub, t, p.apply(Op::mul, t, a, b), p.apply(Op::max, t, c, a)), 0);
      p.compile();
      ElementwiseBuffer buffers[] = {x.buffer, y.buffer, z.buffer, out.buffer};
      ElementwiseCall call;
      call.rank = static_cast<int>(rank);
      std::copy(dims.begin(), dims.end(), call.dims);
      if (seed % 2) merge_elementwise_dims(call.rank, call.dims, buffers, 4);
      call.operands = buffers, call.results = buffers + 3;
      const int64_t count = call.element_count();
      Scratch scratch(p.scratch_bytes());
      for (int64_t begin = 0; begin < count;) {
        const int64_t end = std::min(count, begin + 1 + r.below(count));
        p.run(call, begin, end, scratch.data());
        begin = end;
      }
      for (int64_t i = 0; i < count; ++i) {
        const double u = x.memory[offset(dims, i, x.buffer.strides)], v = y.memory[offset(dims, i, y.buffer.strides)];
        const double w = z.memory[offset(dims, i, z.buffer.strides)];
        double want = u * v - std::max(u, w);
        if (kind_of(t) == Kind::unsigned_int) {  // -3 is a large number here
          const auto bits = [](double q) { return static_cast<uint64_t>(q < 0 ? q + 0x1p64 : q); };
          if (u < 0 || v < 0 || w < 0 || u > 9 || v > 9 || w > 9) continue;
          want = static_cast<double>(bits(u) * bits(v) - std::max(bits(u), bits(w)));
        }
        CAPTURE(seed);
        REQUIRE(out.memory[offset(dims, i, out.buffer.strides)] == want);
      }
    }
  });
}

TEST_CASE("random programs compute what their ops say, however registers are shared") {
  for_each_target([] {
    for (uint64_t seed = 0; seed < (test::sanitized() ? 40 : 200); ++seed) {
      Random r(seed);
      const DType t = seed % 3 == 0 ? f64 : seed % 3 == 1 ? f32 : i64;
      // Some arrays exceed one core's cache; some programs have more ops than one threaded code, or an operand of one
      // element.
      const int64_t n = seed % 20 == 1 ? 150000 + r.below(3000) : 1 + r.below(3000);
      const bool has_scalar = seed % 5 == 2;
      ElementwiseProgram p;
      std::vector<ElementwiseProgram::Value> values;
      std::vector<std::vector<double>> exact;
      std::vector<Elements> operands, results;
      for (int k = 0; k < 3; ++k) {
        operands.push_back(Elements(t, n));
        values.push_back(p.load(t, k));
        exact.emplace_back();
        for (int64_t i = 0; i < n; ++i) {
          operands.back().set(i, static_cast<double>(r.below(9) - 4));
          exact.back().push_back(operands.back()[has_scalar && k == 2 ? 0 : i]);
        }
      }
      values.push_back(p.constant(t, 2.0));
      exact.emplace_back(n, 2.0);
      const auto low = p.constant(t, -1000.0), high = p.constant(t, 1000.0);
      std::vector<size_t> stored;
      const int64_t ops = 1 + r.below(seed % 7 == 1 ? 90 : 25);
      for (int64_t k = 0; k < ops; ++k) {
        const auto a = static_cast<size_t>(r.below(static_cast<int64_t>(values.size())));
        const auto b = static_cast<size_t>(r.below(static_cast<int64_t>(values.size())));
        std::vector<double> z;
        const int64_t which = r.below(5);
        if (which == 3) {  // through a boolean register
          values.push_back(
              p.apply(Op::select, t, p.apply(Op::lt, boolean, values[a], values[b]), values[a], values[b]));
        } else {
          const Op op[] = {Op::add, Op::sub, Op::max, Op::neg, Op::mul};
          // Products of products would leave the exact range, and sums of sums do after a while: one is clamped.
          const auto second = which == 4 ? p.apply(Op::sign, t, values[b]) : values[b];
          const auto first = which < 2 ? p.apply(Op::clamp, t, low, values[a], high) : values[a];
          values.push_back(p.apply(op[which], t, first, second));
        }
        for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
          const double u = exact[a][i], v = exact[b][i];
          const double w = std::clamp(u, -1000.0, 1000.0);
          z.push_back(which == 0   ? w + v
                      : which == 1 ? w - v
                      : which == 2 ? std::max(u, v)
                      : which == 3 ? std::min(u, v)
                                   : u * ((v > 0) - (v < 0)));
        }
        exact.push_back(z);
        if (r.below(4) == 0 || k == ops - 1) stored.push_back(values.size() - 1);
      }
      for (size_t k = 0; k < stored.size(); ++k) {
        p.store(values[stored[k]], static_cast<int>(k));
        results.push_back(Elements(t, n));
      }
      p.compile();
      std::vector<ElementwiseBuffer> from, to;
      // Every other seed writes the first result over an operand.
      const bool in_place = seed % 2 == 0;
      for (Elements& e : operands) from.push_back({e.data(), {has_scalar && from.size() == 2 ? 0 : 1}});
      for (Elements& e : results) to.push_back({e.data(), {1}});
      if (in_place) to[0].data = operands[1].data();
      Scratch scratch(p.scratch_bytes());
      ElementwiseCall call;
      call.rank = 1, call.dims[0] = n, call.operands = from.data(), call.results = to.data();
      p.run(call, 0, n, scratch.data());
      for (size_t k = 0; k < stored.size(); ++k)
        for (int64_t i = 0; i < n; ++i) {
          CAPTURE(seed);
          REQUIRE((k == 0 && in_place ? operands[1] : results[k])[i] == exact[stored[k]][static_cast<size_t>(i)]);
        }
    }
  });
}

TEST_CASE("one op with a constant, over any number of elements") {
  for_each_target([] {
    for (int64_t n : {1, 15, 16, 127, 128, 129, 511, 1024, 1025, 4096, 4097, 9000, 131072 + 77}) {
      for (bool two : {false, true}) {
        Elements x(f32, n), y(f32, n);
        for (int64_t i = 0; i < n; ++i) x.set(i, static_cast<double>(i % 511 - 200));
        ElementwiseProgram p;
        auto value = p.apply(Op::mul, f32, p.load(f32, 0), p.constant(f32, 3.0));
        if (two) value = p.apply(Op::sub, f32, p.constant(f32, 7.0), value);
        p.store(value, 0);
        p.compile();
        Scratch scratch(p.scratch_bytes());
        const ElementwiseBuffer from{x.data(), {1}}, to{y.data(), {1}};
        p.run({1, {n}, &from, &to}, 0, n, scratch.data());
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; ++i) wrong += y[i] != (two ? 7 - 3 * x[i] : 3 * x[i]);
        CAPTURE(n);
        CHECK(wrong == 0);
      }
    }
  });
}

TEST_CASE("each op rounds its f16 result, unless its dtype is f32") {
  for_each_target([] {
    Elements x = Elements::filled(f16, 100, 2048), y(f16, 100), z(f32, 100);
    ElementwiseProgram p;
    const auto a = p.load(f16, 0), one = p.constant(f16, 1.0);
    p.store(p.apply(Op::add, f16, p.apply(Op::add, f16, a, one), one), 0);  // 2049 is no f16: 2048, twice
    p.store(p.apply(Op::add, f32, p.apply(Op::add, f32, a, one), one), 1);
    p.compile();
    Scratch scratch(p.scratch_bytes());
    const ElementwiseBuffer from{x.data(), {1}}, to[] = {{y.data(), {1}}, {z.data(), {1}}};
    p.run({1, {100}, &from, to}, 0, 100, scratch.data());
    CHECK((y[0] == 2048 && y[99] == 2048 && z[0] == 2050 && z[99] == 2050));
  });
}

TEST_CASE("conversions between floats round once where they stand, whether ops, stores or both read them") {
  for_each_target([] {
    for (const int64_t n : {1, 16, 100, 1025, 5000})
      for (const int64_t step : {1, 3}) {
        Elements x(bf16, n * step), y(f32, n * step), wide(f32, n), narrow(bf16, n), product(f32, n),
            half(f16, n * step);
        ElementwiseProgram p;
        const auto a = p.apply(Op::convert, f32, p.load(bf16, 0)), b = p.load(f32, 1);
        const auto rounded = p.apply(Op::convert, bf16, p.apply(Op::add, f32, a, b));
        p.store(a, 0), p.store(rounded, 1);
        p.store(p.apply(Op::mul, f32, p.apply(Op::convert, f32, rounded), a), 2);
        p.store(p.apply(Op::convert, f16, b), 3);
        p.compile();
        for (int64_t i = 0; i < n; ++i)
          x.set(i * step, static_cast<double>(i % 199 - 99) / 8),
              y.set(i * step, static_cast<double>(i % 1023) / 256 + 9);
        Scratch scratch(p.scratch_bytes());
        const ElementwiseBuffer from[] = {{x.data(), {step}}, {y.data(), {step}}};
        const ElementwiseBuffer to[] = {
            {wide.data(), {1}}, {narrow.data(), {1}}, {product.data(), {1}}, {half.data(), {step}}};
        p.run({1, {n}, from, to}, 0, n, scratch.data());
        Elements sums(bf16, n), halves(f16, n);  // which round as they are set
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; ++i) {
          const double u = x[i * step], v = y[i * step];
          sums.set(i, u + v), halves.set(i, v);
          wrong += wide[i] != u || narrow[i] != sums[i] || product[i] != sums[i] * u || half[i * step] != halves[i];
        }
        INFO(n, " elements, ", step, " apart");
        CHECK(wrong == 0);
      }
  });
}

TEST_CASE("a product and a sum of f16 in one are rounded once, also among other ops") {
  for_each_target([] {
    // The sum is just below the middle of two f16, where f32 has to round to: from there it would go up.
    Elements a = Elements::filled(f16, 300, 0x1.694p+0), b = Elements::filled(f16, 300, 0x1.74cp+0),
             c = Elements::filled(f16, 300, 0x1.efp+3);
    Elements y(f16, 300);
    ElementwiseProgram p;
    const auto sum = p.apply(Op::fma, f16, p.load(f16, 0), p.load(f16, 1), p.load(f16, 2));
    p.store(p.apply(Op::neg, f16, p.apply(Op::abs, f16, sum)), 0);
    p.compile();
    Scratch scratch(p.scratch_bytes());
    const ElementwiseBuffer from[] = {{a.data(), {1}}, {b.data(), {1}}, {c.data(), {1}}}, to{y.data(), {1}};
    p.run({1, {300}, from, &to}, 0, 300, scratch.data());
    CHECK((y[0] == -0x1.184p+4 && y[299] == -0x1.184p+4));
  });
}

TEST_CASE("a constant, an operand and one value twice can be stored, and an empty range writes nothing") {
  Elements x = Elements::filled(i32, 5, 7), y(i32, 5), z(i32, 5), w(i32, 5);
  ElementwiseProgram p;
  const auto a = p.load(i32, 0);
  p.store(p.constant(i32, 3.0), 0);
  p.store(a, 1);
  p.store(a, 2);
  p.compile();
  Scratch scratch(p.scratch_bytes());
  const ElementwiseBuffer from{x.data(), {1}}, to[] = {{y.data(), {1}}, {z.data(), {1}}, {w.data(), {1}}};
  p.run({1, {5}, &from, to}, 2, 2, scratch.data());
  CHECK(y[2] == 0);
  p.run({1, {5}, &from, to}, 1, 4, scratch.data());
  CHECK((y[0] == 0 && y[1] == 3 && z[3] == 7 && w[3] == 7 && y[4] == 0));
}

TEST_CASE("operands that are results themselves can be written over each other") {
  const int64_t n = 1500;
  for (bool swaps : {false, true}) {
    Elements x(f32, n), y(f32, n), sum(f32, n);
    for (int64_t i = 0; i < n; ++i) x.set(i, static_cast<double>(i)), y.set(i, static_cast<double>(-3 * i));
    ElementwiseProgram p;
    const auto a = p.load(f32, 0), b = p.load(f32, 1);
    p.store(b, 0);
    if (swaps) p.store(a, 1);
    p.store(p.apply(Op::add, f32, a, b), swaps ? 2 : 1);
    p.compile();
    Scratch scratch(p.scratch_bytes());
    const ElementwiseBuffer from[] = {{x.data(), {1}}, {y.data(), {1}}};
    const ElementwiseBuffer to[] = {{x.data(), {1}}, {swaps ? y.data() : sum.data(), {1}}, {sum.data(), {1}}};
    p.run({1, {n}, from, to}, 0, n, scratch.data());
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto v = static_cast<double>(i);
      wrong += x[i] != -3 * v || y[i] != (swaps ? v : -3 * v) || sum[i] != -2 * v;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("two results, of which one is computed of the other, also over an operand") {
  for_each_target([] {
    for (int64_t n : {5, 300, 1025, 5000, 20000, 140000}) {
      for (bool in_place : {false, true}) {
        Elements x(f32, n), y(f32, n), first(f32, n), second(f32, n);
        for (int64_t i = 0; i < n; ++i) x.set(i, static_cast<double>(i % 7)), y.set(i, static_cast<double>(i % 11));
        ElementwiseProgram p;
        const auto a = p.load(f32, 0), b = p.load(f32, 1);
        const auto one = p.apply(Op::sub, f32, p.apply(Op::mul, f32, a, p.constant(f32, 3.0)), b);
        p.store(one, 0);
        p.store(p.apply(Op::add, f32, p.apply(Op::mul, f32, one, a), p.constant(f32, 2.0)), 1);
        p.compile();
        Scratch scratch(p.scratch_bytes());
        const ElementwiseBuffer from[] = {{x.data(), {1}}, {y.data(), {1}}},
                                to[] = {{in_place ? x.data() : first.data(), {1}}, {second.data(), {1}}};
        p.run({1, {n}, from, to}, 0, n, scratch.data());
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; ++i) {
          const auto u = static_cast<double>(i % 7), v = static_cast<double>(i % 11);
          wrong += (in_place ? x : first)[i] != 3 * u - v || second[i] != (3 * u - v) * u + 2;
        }
        CAPTURE(n);
        CAPTURE(in_place);
        CHECK(wrong == 0);
      }
    }
  });
}

TEST_CASE("an operand that is stored over another one does not change what is computed of that one") {
  for_each_target([] {
    for (int64_t n : {5, 300, 5000}) {
      Elements x(f32, n), y(f32, n), z(f32, n);
      for (int64_t i = 0; i < n; ++i) x.set(i, static_cast<double>(i % 7)), y.set(i, static_cast<double>(i % 11));
      ElementwiseProgram p;
      const auto a = p.load(f32, 0), b = p.load(f32, 1);
      p.store(p.apply(Op::sub, f32, p.apply(Op::mul, f32, b, p.constant(f32, 3.0)), a), 0);
      p.store(b, 1);
      p.compile();
      Scratch scratch(p.scratch_bytes());
      const ElementwiseBuffer from[] = {{x.data(), {1}}, {y.data(), {1}}}, to[] = {{z.data(), {1}}, {x.data(), {1}}};
      p.run({1, {n}, from, to}, 0, n, scratch.data());
      int64_t wrong = 0;
      for (int64_t i = 0; i < n; ++i)
        wrong += z[i] != static_cast<double>(3 * (i % 11) - i % 7) || x[i] != static_cast<double>(i % 11);
      CAPTURE(n);
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("merging dims keeps the addresses and drops what one stride covers") {
  int rank = 4;
  int64_t dims[] = {2, 1, 3, 4};
  ElementwiseBuffer b[] = {{nullptr, {12, 5, 4, 1}}, {nullptr, {0, 0, 0, 1}}};
  merge_elementwise_dims(rank, dims, b, 2);
  CHECK(rank == 2);
  CHECK((dims[0] == 6 && dims[1] == 4 && b[0].strides[0] == 4 && b[1].strides[0] == 0 && b[1].strides[1] == 1));
}

// Results of this size are written by non-temporal stores, one tile late.
TEST_CASE("large results are whole: in place, at an odd address, twice, and of narrow elements") {
  const int64_t n = (int64_t{8} << 20) + 1003;
  std::vector<float> x(static_cast<size_t>(n) + 1), z(x.size()), again(x.size());
  std::vector<uint8_t> above(x.size());
  for (int64_t i = 0; i < n; ++i) x[size_t(i)] = static_cast<float>(i % 4093) - 2000;
  ElementwiseProgram p;
  const auto a = p.load(f32, 0), two = p.constant(f32, 2.0);
  const auto doubled = p.apply(Op::mul, f32, a, two), root = p.apply(Op::sqrt, f32, p.apply(Op::mul, f32, a, a));
  const auto sum = p.apply(Op::add, f32, doubled, root);
  p.store(doubled, 0);
  p.store(sum, 1);
  p.store(sum, 2);
  p.store(p.apply(Op::gt, boolean, a, p.constant(f32, 0.0)), 3);
  p.compile();
  Scratch scratch(p.scratch_bytes());
  const ElementwiseBuffer from{x.data(), {1}},
      to[] = {{x.data(), {1}}, {z.data() + 1, {1}}, {again.data(), {1}}, {above.data(), {1}}};
  ElementwiseCall call;
  call.rank = 1, call.dims[0] = n, call.operands = &from, call.results = to;
  p.run(call, 0, 5000, scratch.data());
  p.run(call, 5000, n, scratch.data());
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float v = static_cast<float>(i % 4093) - 2000, s = 2 * v + std::abs(v);
    wrong += x[size_t(i)] != 2 * v || z[size_t(i) + 1] != s || again[size_t(i)] != s || above[size_t(i)] != (v > 0);
  }
  CHECK(wrong == 0);
}

// Only some of these rows begin at a cache line. Those are written by non-temporal stores one block late, the others
// one tile late.
TEST_CASE("large results are whole whose rows are computed one by one") {
  for (int64_t row : {65, 72, 100, 127, 200}) {
    const int64_t rows = (int64_t{8} << 20) / row + 20, n = rows * row;
    std::vector<float> x(static_cast<size_t>(n)), y(x.size() + 16), bias(static_cast<size_t>(row));
    for (int64_t i = 0; i < n; ++i) x[size_t(i)] = static_cast<float>(i % 4093) - 2000;
    for (int64_t i = 0; i < row; ++i) bias[size_t(i)] = static_cast<float>(3 * i);
    auto* const aligned_to = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(y.data()) + 63) / 64 * 64);
    ElementwiseProgram p;
    const auto sum = p.apply(Op::add, f32, p.load(f32, 0), p.load(f32, 1));
    p.store(p.apply(Op::mul, f32, sum, p.constant(f32, 2.0)), 0);
    p.compile();
    Scratch scratch(p.scratch_bytes());
    const ElementwiseBuffer from[] = {{x.data(), {row, 1}}, {bias.data(), {0, 1}}}, to{aligned_to, {row, 1}};
    p.run({2, {rows, row}, from, &to}, 0, n, scratch.data());
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; ++i)
      wrong += aligned_to[i] != 2 * (static_cast<float>(i % 4093) - 2000 + static_cast<float>(3 * (i % row)));
    CAPTURE(row);
    CHECK(wrong == 0);
  }
}

// The costly ops have kernels that prefetch their operand and write earlier results, cache line by cache line.
TEST_CASE("costly ops over large arrays give what they give over small ones, wherever the arrays begin") {
  const int64_t n = (int64_t{test::sanitized() ? 1 : 8} << 20) + 1003, small = 4093;
  std::vector<float> y(static_cast<size_t>(n) + 17);
  Elements x(f32, n + 1), pattern(f32, small);
  for (int64_t i = 0; i < small; ++i) pattern.as<float>()[i] = static_cast<float>(i - 2000) * 0.01f;
  for (int64_t i = 0; i <= n; ++i) x.as<float>()[i] = pattern.as<float>()[i % small];
  for (Op op : {Op::exp, Op::log, Op::tanh, Op::erf, Op::logistic, Op::gelu_erf, Op::gelu_tanh, Op::silu}) {
    // Alone; between cheap ops, so that the result is that of another op; among more of them than there are registers.
    for (int others : {0, 2, 5}) {
      ElementwiseProgram p;
      const auto a = p.load(f32, 0);
      const auto b = p.apply(op, f32, others == 0 ? a : p.apply(Op::mul, f32, a, p.constant(f32, 0.5)));
      auto last = others == 0 ? b : p.apply(Op::add, f32, b, a);
      if (others == 5)
        last = p.apply(Op::sub, f32, p.apply(Op::mul, f32, last, p.apply(Op::relu, f32, a)), p.apply(Op::abs, f32, a));
      p.store(last, 0);
      p.compile();
      Scratch scratch(p.scratch_bytes());
      Elements want(f32, small);
      const ElementwiseBuffer small_from{pattern.as<float>(), {1}}, small_to{want.as<float>(), {1}};
      ElementwiseCall few;
      few.rank = 1, few.dims[0] = small, few.operands = &small_from, few.results = &small_to;
      p.run(few, 0, small, scratch.data());
      auto* const aligned = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(y.data()) + 63) / 64 * 64);
      for (int64_t shift : {0, 1}) {
        const ElementwiseBuffer from{x.as<float>() + shift, {1}}, to{aligned + shift, {1}};
        ElementwiseCall call;
        call.rank = 1, call.dims[0] = n, call.operands = &from, call.results = &to;
        p.run(call, 0, 5008, scratch.data());
        p.run(call, 5008, 1000007, scratch.data());
        p.run(call, 1000007, n, scratch.data());
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; ++i) {
          const float got = aligned[i + shift], expected = want.as<float>()[(i + shift) % small];
          wrong += !(got == expected || (std::isnan(got) && std::isnan(expected)));
        }
        INFO("op ", static_cast<int>(op), ", others ", others, ", shift ", shift);
        CHECK(wrong == 0);
      }
    }
  }
}
