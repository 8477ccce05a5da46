// An op from outside the library: defined with the public op_def.h, emitted, run, printed, parsed and listed like ours.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <thread>

#include "autodiff/transforms.h"
#include "ir/text.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/laws.h"

using namespace rlx;

namespace {

/// The text of the error that `f` ends in; empty if it ends in none.
template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

struct HornerAttrs {
  std::vector<double> coefficients = {0, 1};  ///< of x^0, x^1, ...
  RLX_FIELDS(HornerAttrs, field("coefficients", &HornerAttrs::coefficients));
};

/// With inference and a decomposition: it needs no kernel.
const OpDef kHorner = define<HornerAttrs>({
    .name = "user_horner",
    .doc = "a polynomial of x",
    .source = "Horner 1819",
    .operands = {"x"},
    .elementwise = true,
    .infer =
        [](Types in, const HornerAttrs& a) {
          if (!is_float(in[0].dtype))
            fail(ErrorCode::invalid_argument, "a polynomial of ", in[0], ", which is no float");
          if (a.coefficients.empty())
            fail(ErrorCode::invalid_argument, "a polynomial of ", in[0], " needs coefficients");
          return in[0];
        },
    .decompose =
        [](Graph& g, Values in, const HornerAttrs& a) {
          Value y = full(g, a.coefficients.back(), in[0].type());
          for (size_t i = a.coefficients.size() - 1; i-- > 0;) y = y * in[0] + a.coefficients[i];
          return y;
        },
    .samples = {{.dims = {{3}}, .attrs = HornerAttrs{{1, 2, 3}}}},
});

struct CollatzAttrs {
  int64_t most = 1000;
  RLX_FIELDS(CollatzAttrs, field("most", &CollatzAttrs::most));
};
/// With inference and a kernel: what no composition of ours says well. Two results.
const OpDef kCollatz = define<CollatzAttrs>({
    .name = "user_collatz",
    .doc = "how many steps each number takes to 1 (at most `most`), and the highest number on its way",
    .operands = {"n"},
    .infer = [](Types in, const CollatzAttrs&) -> Many<Type> {
      if (in[0].dtype != i64) fail(ErrorCode::invalid_argument, "numbers of i64 are needed, got ", in[0]);
      return {Type{i32, in[0].dims}, in[0]};
    },
    .reference = [](Tensors in, const CollatzAttrs& a) -> Many<Tensor> {
      Tensor steps(i32, in[0].shape()), highest = in[0];
      for (size_t i = 0; i < in[0].element_count(); ++i) {
        int64_t n = in[0].values<int64_t>()[i], count = 0;
        for (; n > 1 && count < a.most; ++count) {
          n = n % 2 ? 3 * n + 1 : n / 2;
          highest.mutable_values<int64_t>()[i] = std::max(highest.values<int64_t>()[i], n);
        }
        steps.mutable_values<int32_t>()[i] = static_cast<int32_t>(count);
      }
      return {steps, highest};
    },
    .samples = {{.dims = {{4}}, .dtypes = {i64}, .lo = 1, .hi = 99}},
});

struct PolarAttrs {
  double turn = 0;
  RLX_FIELDS(PolarAttrs, field("turn", &PolarAttrs::turn));
};
/// With a kernel and every rule: derivatives of several results, of which some may not be asked for, and a batch.
extern const OpDef kPolar;
const OpDef kPolar = define<PolarAttrs>({
    .name = "user_polar",
    .doc = "the distance of the point (x, y) from 0 and its angle, from `turn` on",
    .operands = {"x", "y"},
    .infer = [](Types in, const PolarAttrs&) -> Many<Type> {
      if (in[0] != in[1] || !is_float(in[0].dtype))
        fail(ErrorCode::invalid_argument, "two floats of one type are needed, got ", in[0], " and ", in[1]);
      return {in[0], in[0]};
    },
    .reference = [](Tensors in, const PolarAttrs& a) -> Many<Tensor> {
      Array<double> x(in[0]), y(in[1]);
      for (size_t i = 0; i < x.data.size(); ++i) {
        double distance = std::hypot(x.data[i], y.data[i]);
        y.data[i] = std::atan2(y.data[i], x.data[i]) - a.turn;
        x.data[i] = distance;
      }
      return {x.rounded_to(in[0].dtype()), y.rounded_to(in[0].dtype())};
    },
    .vjp = [](Values in, Values out, Values cts, const PolarAttrs&) -> Many<Value> {
      Value x = in[0] / out[0], y = in[1] / out[0], dx, dy;
      if (cts[0]) dx = cts[0] * x, dy = cts[0] * y;
      if (cts[1]) {
        Value turned = cts[1] / out[0];
        dx = dx ? dx - turned * y : -(turned * y), dy = dy ? dy + turned * x : turned * x;
      }
      return {dx, dy};
    },
    .batch =
        [](Values in, const PolarAttrs& a) {
          return Many<Value>(in[0].graph().emit(kPolar, {in[0], in[1]}, a));
        },
    .samples = {{.dims = {{3, 4}, {3, 4}}, .lo = 0.5},
                {.dims = {{}, {}}, .attrs = PolarAttrs{0.25}, .lo = 0.5},
                {.dims = {{2, 0}, {2, 0}}, .lo = 0.5},
                {.dims = {{1, 5}, {1, 5}}, .lo = -2, .hi = -0.5}},
});

Value horner(Value x, std::vector<double> coefficients) {
  return emit(kHorner, {x}, HornerAttrs{std::move(coefficients)});
}
bool is_listed(const OpDef& op) {
  auto all = all_ops();
  return std::count(all.begin(), all.end(), &op) == 1;
}

/// Known by its name while it lives.
struct Registration {
  explicit Registration(const OpDef& d) : op(d) { register_op(op); }
  ~Registration() { unregister_op(op); }
  const OpDef& op;
};

Graph both() {
  Graph g;
  Value n = g.input("n", i64, {Dim::symbol("N")});
  auto collatz = g.emit(kCollatz, {n}, CollatzAttrs{200});
  g.output(horner(convert(collatz[0], f32), {1, 0, 2}), "polynomial");
  g.output(collatz[1], "highest");
  return g;
}

}  // namespace

TEST_CASE("an op of the user's runs by its kernel or its decomposition, without being registered") {
  auto results = interpret(both(), std::array{Tensor::of<int64_t>({3}, {1, 6, 27})});
  CHECK(results[0] == Tensor::of<float>({3}, {1, 2 * 8 * 8 + 1, 2 * 111 * 111 + 1}));  // OEIS A006577
  CHECK(results[1] == Tensor::of<int64_t>({3}, {1, 16, 9232}));                        // OEIS A025586
}
TEST_CASE("a decomposition of the user's is rounded once in f16, as ours are") {
  Graph g = trace(std::vector{Type{f16, {}}}, [](Values v) { return horner(v[0], {1, 2048}); });
  Tensor one = Tensor(f16, {});
  store<double>(one, 0, 1.5);
  CHECK(load<double>(interpret(g, std::array{one})[0], 0) == 3072);  // 3073 rounds to even
}
TEST_CASE("an op of the user's that has a decomposition runs on a device that never heard of it") {
  Graph g = trace(std::vector{Type{f32, {Dim::symbol("N")}}}, [](Values v) { return horner(v[0], {1, 0, 2}); });
  CHECK(Session().compile(g).run_ordered(std::array{Tensor::of<float>({2}, {3, -1})})[0] ==
        Tensor::of<float>({2}, {19, 3}));
}
TEST_CASE("an op of the user's that has a reference alone runs on the CPU by it, in the midst of native ops") {
  for (int threads : {1, 3}) {
    CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(both());
    for (const auto& numbers : {std::vector<int64_t>{1, 6, 27}, std::vector<int64_t>{}, std::vector<int64_t>{97}}) {
      Tensor n = Tensor::of<int64_t>({static_cast<int64_t>(numbers.size())}, numbers);
      CHECK(compiled.run_ordered(std::array{n}) == interpret(both(), std::array{n}));
    }
    auto known = compiled.run_ordered(std::array{Tensor::of<int64_t>({3}, {1, 6, 27})});
    CHECK(known[1] == Tensor::of<int64_t>({3}, {1, 16, 9232}));
  }
}
TEST_CASE("the report says that a reference runs, and neither strict nor force_native take it for a kernel") {
  DispatchReport report = dispatch_report(both(), Device::cpu());
  CHECK(report.count(Verdict::interpreted) == 1);
  CHECK(report.count(Verdict::missing) == 0);
  CHECK(!report.all_native());
  CHECK(report.lines[0].op == "user_collatz");
  CHECK(report.lines[0].verdict == Verdict::interpreted);
  CHECK(report.lines[0].reason == "no kernel and no decomposition: its reference runs, on one thread");
  CHECK(report.json().find("\"interpreted\"") != std::string::npos);
  CHECK(supports(both(), Device::cpu()));
  CompileOptions strict;
  strict.strict = true;
  CHECK(message_of([&] {
          Session().compile(both(), strict);
        }).find("user_collatz: interpreted, no kernel and no decomposition") != std::string::npos);
  Registration known(kCollatz);
  CompileOptions forced;
  forced.force_native = {"user_collatz"};
  CHECK(message_of([&] {
          Session().compile(both(), forced);
        }).find("user_collatz: missing, it was to be native, but it would run by its reference") != std::string::npos);
}
TEST_CASE("no op of the library runs by its reference on the CPU: it has a kernel, or is made of ops that have") {
  const std::set<std::string_view> loops = {"while_loop", "scan"};  // these have no kernel there
  for (const OpDef* op : all_ops())
    for (const Sample& s : op->samples()) {
      std::vector<Type> types;
      for (size_t i = 0; i < s.dims.size(); ++i) types.push_back({i < s.dtypes.size() ? s.dtypes[i] : f32, s.dims[i]});
      try {
        infer_types(*op, types, s.attrs);
      } catch (const Error&) {
        continue;  // not in f32
      }
      Graph g = trace(types, [&](Graph& to, Values in) { return to.emit(*op, {in.begin(), in.end()}, s.attrs); });
      for (const DispatchLine& line : dispatch_report(g, Device::cpu()).lines)
        CHECK_MESSAGE((line.verdict != Verdict::interpreted || loops.contains(line.op)), op->name, ": ", line.op);
    }
}
TEST_CASE("what a reference throws while it runs arrives as an error with its place, and the next run is a new one") {
  static int what = 0;
  static const OpDef kFails = define<>({
      .name = "user_fails",
      .doc = "x, if it likes",
      .operands = {"x"},
      .infer = [](Types in) { return in[0]; },
      .reference = [](Tensors in) -> Tensor {
        if (what == 1) fail(ErrorCode::io, "the printer is on fire");
        if (what == 2) throw std::runtime_error("out of paper");
        if (what == 3) return Tensor(f64, in[0].shape());
        if (what == 4) return Tensor(f32, {});
        if (what == 5) throw std::bad_alloc();
        return in[0];
      },
  });
  Graph g("printing");
  Value x = g.input("x", f32, {3});
  g.set_scope("page");
  Value y = x.graph().emit(kFails, {x + 1.0})[0];
  g.set_scope("");
  g.output(y * 2.0);
  CompiledGraph compiled = Session().compile(g);
  auto run = [&](int now) {
    what = now;
    return message_of([&] { compiled.run_ordered(std::array{Tensor::of<float>({3}, {1, 2, 3})}); });
  };
  CHECK(run(1) == "the printer is on fire\n  while running 'user_fails' of 'page'");
  CHECK(run(2) == "the reference of 'user_fails' threw: out of paper\n  while running 'user_fails' of 'page'");
  CHECK(run(3) ==
        "result 0 of the reference is f64[3]; its inference says f32[3]\n  while running 'user_fails' of 'page'");
  CHECK(run(4).starts_with("result 0 of the reference is f32[]; its inference says f32[3]"));
  CHECK(run(5).starts_with("the reference of 'user_fails' ran out of memory"));
  CHECK(run(0).empty());
  CHECK(compiled.run_ordered(std::array{Tensor::of<float>({3}, {1, 2, 3})})[0] == Tensor::of<float>({3}, {4, 6, 8}));
}
TEST_CASE("a reference runs in a branch, and from several threads at once") {
  Type t{i64, {4}};
  Graph g;
  Value c = g.input("c", boolean, {}), n = g.input("n", t);
  auto highest = [](Values v) { return v[0].graph().emit(kCollatz, {v[0]})[1]; };
  g.output(if_else(c, {n}, trace(std::vector{t}, highest), trace(std::vector{t}, [](Values v) { return v[0]; }))[0]);
  CompiledGraph compiled = Session(Device::cpu(), {2}).compile(g);
  Tensor numbers = Tensor::of<int64_t>({4}, {1, 6, 7, 27}), wanted = Tensor::of<int64_t>({4}, {1, 16, 52, 9232});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        bool yes = round % 3 != 0;
        wrong += compiled.run_ordered(std::array{Tensor::scalar(yes), numbers})[0] != (yes ? wanted : numbers);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
TEST_CASE("inference of the user's refuses, and the error says where") {
  CHECK(message_of([] {
          trace(std::vector{Type{f32, {2}}}, [](Values v) { return horner(v[0], {}); });
        }) == "a polynomial of f32[2] needs coefficients\n  while building 'user_horner(f32[2]) {coefficients = []}'");
  CHECK(message_of([] {
          trace(std::vector{Type{f32, {2}}}, [](Values v) { return v[0].graph().emit(kCollatz, {v[0]}); });
        }).find("numbers of i64 are needed, got f32[2]") == 0);
}
TEST_CASE("ops of the user's keep every law: derivatives, batches, text, passes, the CPU") {
  size_t checks = 0;
  for (const OpDef* op : {&kHorner, &kPolar})
    for (const laws::Law& law : laws::all_laws())
      for (const Sample& sample : op->samples()) {
        laws::Finding f = laws::examine(law, *op, sample);
        checks += f.outcome != laws::Outcome::not_applicable;
        CHECK_MESSAGE(f.outcome != laws::Outcome::broken, law.name, " of ", op->name, ": ", f.why);
      }
  CHECK(checks > 30);
}
TEST_CASE("rules of the user's are the ones that are used") {
  Graph g = trace(std::vector{Type{f64, {2}}, Type{f64, {2}}}, [](Values v) {
    return v[0].graph().emit(kPolar, {v[0], v[1]}, PolarAttrs{0.5});
  });
  std::array point{Tensor::of<double>({2}, {3, 0}), Tensor::of<double>({2}, {4, 2})};
  auto run = [&](const Graph& made, std::vector<Tensor> more) {
    more.insert(more.begin(), point.begin(), point.end());
    return interpret(made, more);
  };
  Tensor one = Tensor::of<double>({2}, {1, 1});
  auto gradients = run(vjp(g, Mask{true, true}, Mask{true, false}), {one});
  CHECK(difference(gradients, std::array{Tensor::of<double>({2}, {0.6, 0}), Tensor::of<double>({2}, {0.8, 1})}) == "");
  auto moved = run(jvp(g, Mask{true, false}), {one});
  CHECK(difference(moved[2], Tensor::of<double>({2}, {0.6, 0})) == "");
  CHECK(difference(moved[3], Tensor::of<double>({2}, {-4.0 / 25, -0.5})) == "");
  CHECK(text(batch(g, Mask{true, true}, 7)).find("user_polar(%0, %1) {turn = 0.5} : f64[7, 2], f64[7, 2]") !=
        std::string::npos);
}
TEST_CASE("an op of the user's without a derivative is an error that names it, when one is asked for") {
  OpDef plain = kPolar;
  plain.vjp = nullptr, plain.name = "user_plain";
  Graph g = trace(std::vector{Type{f64, {}}, Type{f64, {}}}, [&](Values v) {
    return v[0].graph().emit(plain, {v[0], v[1]});
  });
  CHECK(message_of([&] {
          vjp(g, Mask{true, true}, Mask{true, true});
        }) == "'user_plain' has no gradient; stop_gradient in front of it says that none is wanted");
}
TEST_CASE("a registered op is found, listed and read from text like ours, until it is unregistered") {
  Graph g = both();
  std::string written = text(g);
  CHECK(written.find("user_collatz(%0) {most = 200} : i32[N], i64[N]") != std::string::npos);
  CHECK(!is_listed(kHorner));
  CHECK(message_of([&] { parse_graph(written); }).find("there is no op 'user_collatz'") != std::string::npos);
  {
    Registration horner_known(kHorner), collatz_known(kCollatz);
    CHECK(is_listed(kHorner));
    CHECK(&find_op("user_horner") == &kHorner);
    CHECK(message_of([] { find_op("user_hornet"); }) == "there is no op 'user_hornet'; is 'user_horner' meant?");
    Graph read = parse_graph(written);
    CHECK(read == g);
    CHECK(interpret(read, std::array{Tensor::of<int64_t>({1}, {7})})[1] == Tensor::of<int64_t>({1}, {52}));
  }
  CHECK(!is_listed(kHorner));
  CHECK(&find_op("add") == &op::add);
}
TEST_CASE("an op is registered once, under a word that is free, and whole") {
  Registration known(kHorner);
  CHECK(message_of([] { register_op(kHorner); }) == "there is an op 'user_horner' already; choose another name");
  CHECK(message_of([] { unregister_op(kCollatz); }) == "op 'user_collatz' is not registered");
  OpDef other = kCollatz;
  other.name = "add";
  CHECK(message_of([&] { register_op(other); }) == "there is an op 'add' already; choose another name");
  for (std::string_view name : {"", "two words", "2nd", "a-b"}) {
    other.name = name;
    CHECK(message_of([&] { register_op(other); }) ==
          text_of("an op's name is a word of letters, digits and '_', not '", name, "'"));
  }
  other.name = "user_nothing", other.reference = nullptr;
  CHECK(message_of([&] { register_op(other); }) ==
        "op 'user_nothing' needs `infer` and a `reference` or `decompose`; make it with rlx::define");
}
TEST_CASE("ops are registered and looked up by several threads at once") {
  std::vector<std::string> names;
  for (int i = 0; i < 8; ++i) names.push_back(text_of("user_thread_", i));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (const std::string& name : names)
    threads.emplace_back([&wrong, &name] {
      OpDef op = kHorner;
      op.name = name;
      for (int round = 0; round < 100; ++round) {
        Registration known(op);
        wrong += &find_op(name) != &op || !is_listed(op) || &find_op("mul") != &op::mul;
      }
      wrong += is_listed(op);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("whatever a rule of the user's throws arrives as an error that names the rule and the op") {
  static const auto thrower = [](auto...) -> Many<Value> { throw std::runtime_error("out of paper"); };
  const auto same = [](Types in) { return in[0]; };
  const auto copy = [](Tensors in) { return in[0]; };
  const Tensor point = Tensor::of<double>({2}, {3, 4});
  const auto graph_of = [&](const OpDef& op) {
    return trace(std::vector{Type{f64, {2}}}, [&](Values v) { return emit(op, {v[0]}, NoAttrs{}); });
  };
  const OpDef infer = define<>({.name = "user_infer", .operands = {"x"}, .infer = [](Types in) -> Type {
                                  if (in.size() == 1) throw 7;
                                  return in[0];
                                }});
  CHECK(message_of([&] {
          graph_of(infer);
        }).starts_with("the inference of 'user_infer' threw what is no std::exception"));
  const OpDef reference =
      define<>({.name = "user_reference", .operands = {"x"}, .infer = same, .reference = [](Tensors in) -> Tensor {
                  if (in.size() == 1) throw std::out_of_range("key");
                  return in[0];
                }});
  CHECK(message_of([&] { interpret(graph_of(reference), std::array{point}); }) ==
        "the reference of 'user_reference' threw: key");
  const OpDef parts = define<>(
      {.name = "user_parts", .operands = {"x"}, .infer = same, .decompose = [](Values in) { return thrower(in); }});
  CHECK(message_of([&] {
          Session().compile(graph_of(parts));
        }).starts_with("the decomposition of 'user_parts' threw: out of paper"));
  const OpDef vjp_op = define<>(
      {.name = "user_vjp", .operands = {"x"}, .infer = same, .reference = copy, .vjp = [](Values in, Value, Value) {
         return thrower(in);
       }});
  const OpDef jvp_op =
      define<>({.name = "user_jvp", .operands = {"x"}, .infer = same, .reference = copy, .jvp = [](Values in, Values) {
                  return thrower(in);
                }});
  const OpDef batch_op =
      define<>({.name = "user_batch", .operands = {"x"}, .infer = same, .reference = copy, .batch = [](Values in) {
                  return thrower(in);
                }});
  CHECK(message_of([&] { vjp(graph_of(vjp_op), {true}, {true}); }) ==
        "the rule `vjp` of 'user_vjp' threw: out of paper\n  while differentiating 'user_vjp'");
  CHECK(message_of([&] { jvp(graph_of(jvp_op), {true}); }) ==
        "the rule `jvp` of 'user_jvp' threw: out of paper\n  while differentiating 'user_jvp'");
  CHECK(message_of([&] { batch(graph_of(batch_op), {true}, 3); }) ==
        "the rule `batch` of 'user_batch' threw: out of paper\n  while batching 'user_batch'");
}

TEST_CASE("a rule of the user's that gives too few or too many values is an error that counts them") {
  const auto same = [](Types in) { return in[0]; };
  const auto copy = [](Tensors in) { return in[0]; };
  const OpDef op = define<>({.name = "user_counts",
                             .operands = {"x"},
                             .infer = same,
                             .reference = copy,
                             .vjp =
                                 [](Values, Value, Value ct) {
                                   return Many<Value>{ct, ct};
                                 },
                             .jvp = [](Values in, Values) { return Many<Value>{in[0]}; },
                             .batch =
                                 [](Values in) {
                                   return Many<Value>{in[0], in[0]};
                                 }});
  const Graph g = trace(std::vector{Type{f64, {2}}}, [&](Values v) { return emit(op, {v[0]}, NoAttrs{}); });
  CHECK(message_of([&] {
          vjp(g, {true}, {true});
        }).starts_with("the rule `vjp` of 'user_counts' gives 2 values instead of at most 1"));
  CHECK(message_of([&] { jvp(g, {true}); }).starts_with("the rule `jvp` of 'user_counts' gives 1 values instead of 2"));
  CHECK(message_of([&] {
          batch(g, {true}, 3);
        }).starts_with("the rule `batch` of 'user_counts' gives 2 values instead of 1"));
}
