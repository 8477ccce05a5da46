// Integers of 64 bits on Device::coreml: which are computed in i32, in pairs of words or not at all; that the report,
// the compile and the run say the same; and numbers that 32 bits do not hold. Expected values are the reference's.
#include <doctest/doctest.h>

#include "ir/leaves.h"
#include "judge/judge.h"
#include "reference/interpreter.h"
#include "rlx/rlx.h"
#include "support/io_files.h"
#include "support/notes.h"

using namespace rlx;
using test::message_of;
using test::notes_say;

namespace {

constexpr int kOne[] = {1};
const CompileOptions kNarrow = [] {
  CompileOptions options;
  options.narrow = true;
  return options;
}();

/// Whether a number is what 32 bits make of another: its lower half, or the least or the greatest for that of i64.
bool is_in_32_bits(int64_t got, int64_t wanted, DType dtype) {
  using Wide = std::numeric_limits<int64_t>;
  using Narrow = std::numeric_limits<int32_t>;
  if (dtype == i64 && wanted == Wide::min()) return got == Narrow::min();
  if (dtype == i64 && wanted == Wide::max()) return got == Narrow::max();
  return static_cast<uint32_t>(got) == static_cast<uint32_t>(wanted);
}

/// The graph in 32 bits, as its report says, beside the reference: what does not fit has wrapped, as was permitted.
Judged judged_narrowed(const Graph& g, const std::vector<Tensor>& inputs) {
  if (dispatch_report(g, Device::coreml(), kNarrow).count(Verdict::missing) > 0) {
    CHECK_THROWS_AS(Session(Device::coreml(), {1}).compile(g, kNarrow), CompileError);
    return {Judgement::refused};
  }
  return judge(g, inputs, [](const Graph& graph, Tensors given) {
    std::vector<Tensor> got = Session(Device::coreml(), {1}).compile(graph, kNarrow).run_ordered(given);
    const std::vector<Tensor> wanted = interpret(graph, given);
    for (size_t r = 0; r < got.size(); ++r) {
      if (got[r].dtype() != i64 && got[r].dtype() != u64) continue;
      bool agree = got[r].type() == wanted[r].type();
      for (size_t i = 0; agree && i < got[r].element_count(); ++i)
        agree = is_in_32_bits(load_index(got[r], i), load_index(wanted[r], i), got[r].dtype());
      if (agree) got[r] = wanted[r];
    }
    return got;
  });
}

/// Sums of i64, of whose numbers nothing is known: nothing makes words of them.
Graph sums(DType dtype = i64) {
  Graph g("sums");
  g.set_scope("layer.sum");
  Value x = g.input("x", dtype, {2, 3});
  g.output(reduce_sum(x, {1}), "y");
  return g;
}

}  // namespace

TEST_CASE("a sum of i64 is refused when it is compiled, with its node, what is known of it and what to do") {
  const Graph g = sums();
  CHECK_FALSE(supports(g, Device::coreml()));
  CHECK(dispatch_report(g, Device::coreml()).count(Verdict::missing) > 0);
  const std::string why = message_of([&] { Session(Device::coreml()).compile(g); });
  for (const char* part : {"reduce 'layer.sum': missing", "its operand 0, i64[2, 3], is known to be in [-2^63, 2^63-1]",
                           "--narrow", "CompileOptions::narrow", "clamp"})
    CHECK_MESSAGE(why.find(part) != std::string::npos, part, " in ", why);
}

TEST_CASE("the same with a param, before and after it has a value") {
  Graph g("sums");
  Value w = g.param("w", i64, {2, 3}), x = g.input("x", i64, {2, 3});
  g.output(reduce_sum(w + x, {1}), "y");
  CHECK_FALSE(supports(g, Device::coreml()));
  CHECK_THROWS_AS(Session(Device::coreml()).compile(g), CompileError);
}

TEST_CASE("with narrow it runs, in i32, as an option of the compile and of the session; the report says so") {
  const Graph g = sums();
  const Tensor x = Tensor::of<int64_t>({2, 3}, {1, -2, 3, 2147483647, 1, -7});
  const Tensor wanted = Tensor::of<int64_t>({2}, {2, 2147483641});
  CompiledGraph compiled = Session(Device::coreml()).compile(g, kNarrow);
  CHECK(compiled.run({{"x", x}}).at(0) == wanted);
  CHECK(compiled.report().target.find("64 bits narrowed to 32") != std::string::npos);
  CHECK(Session(Device::coreml(), {.narrow = true}).compile(g).run({{"x", x}}).at(0) == wanted);
  // Sums of u64 are those of 32 bits without a sign.
  const Tensor u = Tensor::of<uint64_t>({2, 3}, {4000000000, 5, 6, 1, 2, 3});
  CHECK(Session(Device::coreml()).compile(sums(u64), kNarrow).run({{"x", u}}).at(0) ==
        Tensor::of<uint64_t>({2}, {4000000011, 6}));
  // A device that has numbers of 64 bits is told nothing by it.
  const CompiledGraph there = Session(Device::cpu()).compile(g, kNarrow);
  CHECK(there.report().target.find("narrow") == std::string::npos);
  CHECK(there.run({{"x", Tensor::of<int64_t>({2, 3}, {int64_t{1} << 40, 0, 0, 1, 2, 3})}}).at(0) ==
        Tensor::of<int64_t>({2}, {int64_t{1} << 40, 6}));
}

TEST_CASE("f64 is f32 with narrow, and refused without") {
  Graph g("doubles");
  Value x = g.input("x", f64, {3});
  g.output(exp(x), "y");
  CHECK_FALSE(supports(g, Device::coreml()));
  const Tensor in = Tensor::of<double>({3}, {0, 1, -2});
  const Tensor y = Session(Device::coreml()).compile(g, kNarrow).run({{"x", in}}).at(0),
               wanted = interpret(g, std::vector<Tensor>{in})[0];
  REQUIRE(y.dtype() == f64);
  for (size_t i = 0; i < 3; ++i)
    CHECK(std::abs(load_number(y, i) - load_number(wanted, i)) < 1e-6 * load_number(wanted, i));
}

TEST_CASE(
    "a number that 32 bits do not hold is an error that names the input, the number and its place: never another "
    "number") {
  CompiledGraph narrow = Session(Device::coreml()).compile(sums(), kNarrow);
  Tensor x(i64, {2, 3});
  for (int64_t bad :
       {int64_t{1} << 31, -(int64_t{1} << 31) - 1, std::numeric_limits<int64_t>::max(), int64_t{4294967296}}) {
    x.mutable_values<int64_t>()[4] = bad;
    const std::string why = message_of([&] { narrow.run({{"x", x}}); });
    for (const std::string& part : {std::string("'x'"), std::to_string(bad), std::string("[1, 1]")})
      CHECK_MESSAGE(why.find(part) != std::string::npos, part, " in ", why);
  }
  for (int64_t good : {(int64_t{1} << 31) - 1, -(int64_t{1} << 31)}) {
    x.mutable_values<int64_t>()[4] = good;
    CHECK(narrow.run({{"x", x}}).at(0) == Tensor::of<int64_t>({2}, {0, good}));
  }
  Graph g("bound");
  g.output(reduce_sum(g.param("w", i64, {2}), {0}), "y");
  CompiledGraph bound = Session(Device::coreml()).compile(g, kNarrow);
  CHECK(message_of([&] {
          bound.set_param("w", Tensor::of<int64_t>({2}, {1, int64_t{1} << 33}));
        }).find("param 'w' has 8589934592 at [1]") != std::string::npos);
}

TEST_CASE("places are i32 by themselves, counts too, and the report says which and why") {
  Graph g("embedding");
  Value ids = g.input("ids", i64, {Dim::symbol("B"), 4}), table = g.param("table", f32, {50, 3});
  Value rows = take(table, ids, 0), kept = convert(compare(ids, zeros_like(ids), Comparison::ne), i64);
  g.output(reduce_sum(rows, {1}), "rows");
  g.output(reduce_sum(kept, {1}), "counts");
  const Device device = Device::coreml();
  const DispatchReport report = dispatch_report(g, device);
  CHECK(report.count(Verdict::missing) == 0);
  CHECK(supports(g, device));
  CHECK(notes_say(report.notes, "reduce [0, 4]"));
  CHECK(notes_say(report.notes, "the output 'counts' (i64[B]) is computed in i32: its numbers are in [0, 4]"));
  CHECK(report.table().find("note: ") != std::string::npos);
  CHECK(report.json().find("\"notes\"") != std::string::npos);
  CompiledGraph compiled = Session(device).compile(g);
  CHECK(compiled.report().json() == report.json());
  Tensor weights(f32, {50, 3});
  for (size_t i = 0; i < 150; ++i) weights.mutable_values<float>()[i] = static_cast<float>(i);
  compiled.set_param("table", weights);
  const Tensor at = Tensor::of<int64_t>({2, 4}, {0, 1, 49, 7, 3, 3, 0, 0});
  const auto got = compiled.run({{"ids", at}});
  CHECK(got[0] == Tensor::of<float>({2, 3}, {171, 175, 179, 18, 22, 26}));
  CHECK(got[1] == Tensor::of<int64_t>({2}, {3, 2}));
}

TEST_CASE("an id beyond i32 is an error of the run, where an id is all that the input is") {
  Graph g("embedding");
  Value ids = g.input("ids", i64, {3});
  g.output(take(g.constant(full(f32, {10, 2}, 1)), ids, 0), "rows");
  CompiledGraph compiled = Session(Device::coreml()).compile(g);
  CHECK(notes_say(compiled.report().notes, "the input 'ids' (i64[3]) is i32, for only places are read of it"));
  const std::string why = message_of([&] { compiled.run({{"ids", Tensor::of<int64_t>({3}, {1, 5000000000, 2})}}); });
  CHECK(why.find("the input 'ids' has 5000000000 at [1]") != std::string::npos);
  CHECK(why.find("only read as places") != std::string::npos);
}

TEST_CASE("what must have all its bits keeps them, in words") {
  Graph g("hash");
  Value x = g.input("x", i64, {3}), y = g.input("y", u64, {3});
  g.output(x * full_like(x, 6364136223846793005.0), "product");
  g.output(shift_right_logical(y, full_like(y, 33)), "high");
  const std::vector<Tensor> in = {Tensor::of<int64_t>({3}, {1, -5, int64_t{1} << 60}),
                                  Tensor::of<uint64_t>({3}, {~uint64_t{0}, 1, uint64_t{1} << 50})};
  CompiledGraph compiled = Session(Device::coreml()).compile(g);
  CHECK(notes_say(compiled.report().notes, "stay, for i32 is not known to hold them"));
  const auto got = compiled.run_ordered(in), wanted = interpret(g, in);
  for (size_t i = 0; i < 2; ++i) CHECK(got[i] == wanted[i]);
}

TEST_CASE("the least number of 32 bits is divided as any other, narrowed and as i32 itself") {
  constexpr int64_t kLeast = -2147483648;
  const auto quotients = [](DType dtype) {
    Graph g("quotients");
    Value x = clamp(g.input("x", dtype, {7}), -2147483648.0, 2147483647.0), y = g.input("y", i8, {7});
    const Value least = full_like(x, -2147483648.0), by = convert(y, dtype);
    g.output(x / by, "div"), g.output(rem(x, by), "rem");
    g.output(x / least, "div_by_least"), g.output(rem(x, least), "rem_by_least");
    return g;
  };
  const std::vector<int64_t> x = {kLeast, kLeast, kLeast, kLeast, 7, -2147483647, 2147483647};
  const Tensor y = Tensor::of<int8_t>({7}, {3, -3, 1, 127, -2, -128, 127});
  const std::vector<std::vector<int64_t>> wanted = {{-715827882, 715827882, kLeast, -16909320, -3, 16777215, 16909320},
                                                    {-2, -2, 0, -8, 1, -127, 7},
                                                    {1, 1, 1, 1, 0, 0, 0},
                                                    {0, 0, 0, 0, 7, -2147483647, 2147483647}};
  for (const DType dtype : {i64, i32}) {
    CAPTURE(dtype);
    Tensor given(dtype, {7});
    for (size_t i = 0; i < 7; ++i) store(given, i, x[i]);
    const auto got =
        Session(Device::coreml(), {1}).compile(quotients(dtype), kNarrow).run_ordered(std::vector{given, y});
    for (size_t r = 0; r < wanted.size(); ++r)
      for (size_t i = 0; i < 7; ++i) {
        CAPTURE(r);
        CAPTURE(i);
        CHECK(load_index(got[r], i) == wanted[r][i]);
      }
  }
}

TEST_CASE("copies of the highest bit come into integers without a sign, by a number and by an operand") {
  Graph g("shifts");
  Value x = g.input("x", u8, {5}), by = g.input("by", u8, {5});
  g.output(shift_right_arithmetic(x, full_like(x, 1)), "by_one");
  g.output(shift_right_arithmetic(x, by), "by_each");
  const Tensor given = Tensor::of<uint8_t>({5}, {255, 128, 127, 2, 200}),
               counts = Tensor::of<uint8_t>({5}, {1, 9, 0, 1, 3});
  const auto got = Session(Device::coreml(), {1}).compile(g).run_ordered(std::vector{given, counts});
  const uint8_t by_one[] = {255, 192, 63, 1, 228}, by_each[] = {255, 255, 127, 1, 249};
  for (size_t i = 0; i < 5; ++i) {
    CHECK(got[0].values<uint8_t>()[i] == by_one[i]);
    CHECK(got[1].values<uint8_t>()[i] == by_each[i]);
  }
}

TEST_CASE("a loop whose body computes several things from captured values of 64 bits") {
  // The words of x and of its parts are computed before the loop, and come in beside what was captured already.
  const std::vector<Type> types(3, Type{i64, {}});
  const Graph condition = trace(types, [](Values v) { return compare(v[0], full_like(v[0], 10), Comparison::lt); });
  const Graph body = trace(types, [](Values v) -> Many<Value> {
    return {v[0] + full_like(v[0], 1), shift_right_arithmetic(v[2], v[0])};
  });
  Graph g("main");
  Value x = convert(g.input("x", i8, {}), i64);
  const auto out = while_loop({full_like(x, -3), full_like(x, -7), x}, {2, condition, body});
  for (const Value& v : out) g.output(v);
  const Tensor given = Tensor::of<int8_t>({}, {100});
  const auto got = Session(Device::coreml(), {1}).compile(g).run_ordered(std::vector{given});
  CHECK(load_index(got[0], 0) == 10);
  CHECK(load_index(got[1], 0) == 0);  // 100 >> 9
}

TEST_CASE("loops with counters of 64 bits run, which end where a number says") {
  const Type number{i64, {}}, line{f32, {4}};
  const Graph condition = trace(std::vector<Type>{number, line},
                                [](Values v) { return compare(v[0], full_like(v[0], 5), Comparison::lt); });
  const Graph body = trace(std::vector<Type>{number, line}, [](Values v) -> Many<Value> {
    return {v[0] + full_like(v[0], 1), v[1] * 2.0 + broadcast_to(convert(v[0], f32), v[1].dims())};
  });
  Graph g("loop");
  Value x = g.input("x", f32, {4});
  const auto out = while_loop({g.constant(Tensor::of<int64_t>({}, {0})), x}, {2, condition, body});
  for (const Value& v : out) g.output(v);
  const Judged judged = judge(g, std::vector<Tensor>{Tensor::of<float>({4}, {0, 1, -1, 3})}, Device::coreml(), kOne);
  CHECK_MESSAGE(judged.judgement == Judgement::agrees, judged.why);
  // A carry that may be anything is named.
  const Graph grows = trace(std::vector<Type>{number, line}, [](Values v) -> Many<Value> {
    return {v[0] * full_like(v[0], 3) + full_like(v[0], 1), v[1]};
  });
  const Graph always = trace(std::vector<Type>{number, line},
                             [](Values v) { return compare(v[0], full_like(v[0], 1000), Comparison::ne); });
  Graph h("grows");
  const auto other =
      while_loop({h.constant(Tensor::of<int64_t>({}, {0})), h.input("x", f32, {4})}, {2, always, grows, 10});
  h.output(other[0]);
  CHECK_FALSE(supports(h, Device::coreml()));
  CHECK(message_of([&] { Session(Device::coreml()).compile(h); }).find("while_loop") != std::string::npos);
}

TEST_CASE("a compiled graph in a file keeps that it may narrow, and what its report says") {
  test::TemporaryFolder folder;
  const std::string path = folder / "sums.rlxc";
  Session(Device::coreml()).compile(sums(), kNarrow).save(path);
  const CompiledGraph loaded = Session(Device::coreml()).load(path);
  CHECK(loaded.run({{"x", Tensor::of<int64_t>({2, 3}, {1, 2, 3, 4, 5, 6})}}).at(0) ==
        Tensor::of<int64_t>({2}, {6, 15}));
  CHECK_THROWS(loaded.run({{"x", full(i64, {2, 3}, 1e12)}}));
  Graph g("counts");
  g.output(reduce_sum(convert(g.input("mask", boolean, {2, 3}), i64), {1}), "y");
  Session(Device::coreml()).compile(g).save(path);
  CHECK(notes_say(Session(Device::coreml()).load(path).report().notes, "reduce [0, 3]"));
}

TEST_CASE(
    "of every sample with integers of 64 bits, the report, the compile and the run say the same, narrowed and not") {
  size_t agree = 0, refused = 0, narrowed = 0;
  for (const OpDef* op : all_ops()) {
    if (op == &op::input || op == &op::param || op == &op::constant) continue;
    for (const Sample& sample : op->samples())
      for (const Case& c : cases_of(*op, sample)) {
        const Graph g = c.graph(*op);
        bool any = false, any_double = false;
        for (const Node& node : g.nodes())
          for (const Type& t : node.types)
            any |= t.dtype == i64 || t.dtype == u64, any_double |= t.dtype == f64 || t.dtype == c128;
        if (!any) continue;
        for (GivenAs given : {GivenAs::inputs, GivenAs::params}) {
          const Judged j = judge(g, c.inputs(), Device::coreml(), kOne, HeldTo::reference, given);
          CHECK_MESSAGE(j.judgement != Judgement::wrong, op->name, " of ", c.text(),
                        given == GivenAs::params ? " as params: " : ": ", j.why);
          (j.judgement == Judgement::agrees ? agree : refused) += 1;
        }
        if (any_double) continue;  // whose numbers in f32 are others
        const Judged j = judged_narrowed(g, c.inputs());
        CHECK_MESSAGE(j.judgement != Judgement::wrong, op->name, " of ", c.text(), " narrowed: ", j.why);
        narrowed += j.judgement == Judgement::agrees;
      }
  }
  MESSAGE(agree, " cases run as they are, ", refused, " are refused when they are compiled; narrowed, ", narrowed,
          " run");
  CHECK(agree > 600);
  CHECK(narrowed > 300);
}
