// Ops that the CPU has a kernel for in another shape than they come in: the report says that they were rewritten, into
// what and why, and the numbers are the reference's.
#include <doctest/doctest.h>

#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

using Build = std::function<Value(Values)>;

DispatchLine line_of(const std::vector<Type>& types, const Build& f, const CompileOptions& options = {}) {
  auto lines = dispatch_report(trace(types, f), Device::cpu(), options).lines;
  REQUIRE(lines.size() == 1);
  return lines[0];
}

/// Rewritten, and as the reference has it, with one thread and with several.
void check_rewritten(const std::vector<Type>& types, const Build& f, double tolerance = -1) {
  DispatchLine line = line_of(types, f);
  std::ostringstream what;
  print(what << line.op << " of ", types);
  CHECK_MESSAGE(line.verdict == Verdict::rewritten, what.str());
  Graph g = trace(types, f);
  std::vector<Tensor> inputs;
  for (const Type& t : types) inputs.push_back(random_tensor(t.dtype, shape_of(t.dims), 5 + inputs.size(), -2, 2));
  auto wanted = interpret(g, inputs);
  for (int threads : {1, 3})
    CHECK_MESSAGE(difference(Session(Device::cpu(), {threads}).compile(g).run_ordered(inputs), wanted, tolerance) == "",
                  what.str());
}

Build masked(AttentionMask kind) {
  AttentionAttrs attrs;
  attrs.heads = 2;
  attrs.layout = AttentionLayout::packed;
  attrs.mask = kind;
  return [=](Values v) { return attention(v[0], v[1], v[2], v[3], attrs); };
}

}  // namespace

TEST_CASE("the report says what was rewritten, into what, and why it had to be") {
  Graph g("g");
  Type qkv{f32, {Dim::symbol("B"), Dim::symbol("S"), 8}};
  Value q = g.input("q", qkv), mask = g.input("mask", i64, {Dim::symbol("B"), Dim::symbol("S")});
  g.set_scope("layer.0");
  g.output(masked(AttentionMask::key_padding)(std::array{q, q, q, mask}));
  DispatchReport report = dispatch_report(g, Device::cpu());
  REQUIRE(report.lines.size() == 1);
  CHECK(report.lines[0].node == "layer.0");
  CHECK(report.lines[0].op == "attention");
  CHECK(report.lines[0].verdict == Verdict::rewritten);
  CHECK(report.lines[0].reason == "a key mask of i64 beside f32; its mask is converted");
  CHECK(report.count(Verdict::rewritten) == 1);
  CHECK(!report.all_native());
  CHECK(report.table().find("1 x attention rewritten: a key mask of i64 beside f32; its mask") != std::string::npos);
  Graph legal = legalize(g, Device::cpu());
  CHECK(
      std::any_of(legal.nodes().begin(), legal.nodes().end(), [](const Node& n) { return n.op->name == "attention"; }));
}

TEST_CASE("what the kernel takes as it is, is not rewritten, nor what was asked for otherwise") {
  std::vector<Type> types = {{f32, {2, 3, 8}}, {f32, {2, 3, 8}}, {f32, {2, 3, 8}}, {boolean, {2, 3}}};
  Build padded = masked(AttentionMask::key_padding);
  CHECK(line_of(types, padded).verdict == Verdict::native);
  types[3].dtype = i32;
  CompileOptions common, native, strict;
  common.force_common = {"attention"};
  native.force_native = {"attention"};
  strict.strict = true;
  CHECK(line_of(types, padded, common).verdict == Verdict::composed);
  CHECK(line_of(types, padded, native).verdict == Verdict::missing);
  CHECK_THROWS_AS(Session().compile(trace(types, padded), strict), Error);
}

TEST_CASE("attention with a mask of any dtype") {
  for (DType t : {f32, f64, f16, bf16})
    for (DType mask : {i32, i64, u8, i8, f64, f16}) {
      Type qkv{t, {2, 5, 8}};
      if (mask == t) continue;
      check_rewritten({qkv, qkv, qkv, {mask, {2, 5}}}, masked(AttentionMask::key_padding));
      if (is_float(mask)) check_rewritten({qkv, qkv, qkv, {mask, {2, 1, 5, 5}}}, masked(AttentionMask::bias));
    }
}

TEST_CASE("a number of f64 just below one half excludes its key, though f32 would round it up") {
  std::vector<Type> types(3, Type{f32, {1, 2, 2}});
  types.push_back({f64, {1, 2}});
  Graph g = trace(types, masked(AttentionMask::key_padding));
  Tensor x = Tensor::of<float>({1, 2, 2}, {1, 2, 3, 4}), mask = Tensor::of<double>({1, 2}, {1, 0.49999999999999994});
  CHECK(Session().compile(g).run_ordered(std::array{x, x, x, mask})[0] == Tensor::of<float>({1, 2, 2}, {1, 2, 1, 2}));
}

TEST_CASE("logsumexp over several trailing axes, whatever their order") {
  for (DType t : {f32, f64, f16, bf16}) {
    Type x{t, {3, 4, 5}};
    check_rewritten({x}, [](Values v) { return logsumexp(v[0], {1, 2}); });
    check_rewritten({x}, [](Values v) { return logsumexp(v[0], {-1, 1}, true); });
    check_rewritten({x}, [](Values v) { return logsumexp(v[0], {2, 0, 1}); });
    check_rewritten({{t, {3, 0, 5}}}, [](Values v) { return logsumexp(v[0], {1, 2}); });
  }
  CHECK(line_of({{f32, {3, 4, 5}}}, [](Values v) { return logsumexp(v[0], {0, 1}); }).verdict == Verdict::composed);
}

TEST_CASE("max and min pools of 16 bits choose among their numbers without widening them") {
  for (DType t : {f16, bf16})
    for (PoolKind kind : {PoolKind::max, PoolKind::min}) {
      const Type x{t, {2, 3, 9, 8}};
      check_rewritten(
          {x},
          [=](Values v) {
            return pool(v[0], {kind, {3, 3}, {2, 2}, {1, 1}});
          },
          0);
      for (const Axes& stride : {Axes{}, Axes{2, 2}})  // these are faster in f32
        CHECK(line_of({x}, [&](Values v) { return pool(v[0], {kind, {2, 2}, stride}); }).verdict == Verdict::composed);
      check_rewritten(
          {x},
          [=](Values v) {
            return pool(v[0], {kind, {2, 3}, {1, 1}, {0, 1}, {}, {2, 1}});
          },
          0);
      check_rewritten(
          {x},
          [=](Values v) {
            return pool(v[0], {kind, {9, 8}});
          },
          0);
    }
  const auto by_largest = [](Values v) { return pool(v[0], {PoolKind::max, {3, 3}, {2, 2}, {1, 1}}); };
  const std::vector<Type> images = {{bf16, {2, 3, 9, 8}}};
  const Graph legal = legalize(trace(images, by_largest), Device::cpu());
  CHECK(std::none_of(legal.nodes().begin(), legal.nodes().end(), [](const Node& n) { return n.op == &op::convert; }));
  const auto mean = [](Values v) { return pool(v[0], {PoolKind::mean, {3, 3}}); };
  CHECK(line_of(images, mean).verdict == Verdict::composed);
  CHECK(line_of({{f32, {2, 3, 9, 8}}}, by_largest).verdict == Verdict::composed);
}
