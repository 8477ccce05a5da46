// Loops on the CPU: each way in which a carry may live, lengths that come with the run, trips that data decide, nests,
// gradients, and how much memory all of it takes.
#include <doctest/doctest.h>

#include <thread>

#include "autodiff/transforms.h"
#include "runtime/small_model.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

std::vector<Tensor> random_inputs(const Graph& g, const Bindings& sizes = {}, uint64_t seed = 1) {
  std::vector<Tensor> all;
  for (Type t : g.input_types()) {
    for (Dim& d : t.dims) d = d.bound(sizes);
    all.push_back(random_tensor(t.dtype, shape_of(t.dims), seed + all.size(), -1, 1));
  }
  return all;
}
/// The CPU against the reference, with one thread and with several, twice with the same state.
void check_runs(const Graph& g, const std::vector<Tensor>& inputs, double tolerance = -1) {
  auto wanted = interpret(g, inputs);
  for (int threads : {1, 3}) {
    CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g);
    std::vector<Tensor> out(wanted.size());
    for (int round = 0; round < 2; ++round) {
      compiled.run_into(inputs, out);
      CHECK(difference(out, wanted, tolerance) == "");
    }
  }
}
Graph body_of(std::vector<Type> types, std::function<std::vector<Value>(Values)> f) { return trace(types, f); }

size_t count_ops(const Graph& g, const OpDef& op) {
  size_t count = 0;
  for (const Node& node : g.nodes()) {
    count += node.op == &op;
    if (!node.attrs.empty() && holds_subgraph(node.attrs))
      node.attrs.mapped({[](const Dim& d) { return d; },
                         [&](const Subgraph& body) {
                           count += count_ops(*body, op);
                           return body;
                         }});
  }
  return count;
}

/// Carries of every kind: one stacked as it is found, one stacked as it becomes, one that is updated in place, one that
/// never changes, two that swap, and a counter. `length` steps over x f32[length, 4].
Graph all_kinds(Dim length, bool reverse) {
  Graph g("all_kinds");
  Type row{f32, {4}};
  std::vector<Value> in;
  for (const char* name : {"before", "after", "updated", "constant", "left", "right"}) in.push_back(g.input(name, row));
  in.push_back(g.input("count", i32, {}));
  in.push_back(g.input("x", f32, {length, 4}));
  in.push_back(g.input("w", f32, {4, 4}));
  std::vector<Type> types(6, row);
  types.insert(types.end(), {{i32, {}}, row, {f32, {4, 4}}});
  Graph body = body_of(types, [](Values v) {
    Value product = reshape(matmul(reshape(v[0], {1, 4}), v[8]), {4});
    Value before = tanh(product + v[7]), after = v[1] * 0.5 + before * v[3];
    return std::vector{before, after, v[2] + v[7] * v[3], v[3], v[5],  v[4] * 0.75, v[6] + 1.0,
                       v[0],   after, v[7] * 2.0,         v[3], after, v[0]};
  });
  for (Value v : scan(g, in, {7, 1, length, reverse, body})) g.output(v);
  return g;
}

}  // namespace

TEST_CASE("a scan of any length, in both directions, carries what it carries as the reference does") {
  for (bool reverse : {false, true}) {
    Graph g = all_kinds(Dim::symbol("N"), reverse);
    Session session(Device::cpu(), {2});
    CompiledGraph compiled = session.compile(g);
    for (int64_t n : {5, 0, 1, 2, 3, 64, 5}) {
      auto inputs = random_inputs(g, {{"N", n}}, static_cast<uint64_t>(n));
      CHECK_MESSAGE(difference(compiled.run_ordered(inputs), interpret(g, inputs)) == "", n, " steps");
      check_runs(all_kinds(n, reverse), inputs);
    }
  }
}

TEST_CASE("a length that is a sum or product of symbols is solved for each run") {
  Dim n = Dim::symbol("N");
  Graph g("g");
  Value sum = g.input("sum", f64, {3}), x = g.input("x", f64, {n, 3});
  Graph body = body_of({{f64, {3}}, {f64, {3}}}, [](Values v) { return std::vector{v[0] + v[1], v[0] * v[1]}; });
  for (Value v : scan(g, {sum, concatenate({x, x}, 0)}, {1, 1, 2 * n, false, body})) g.output(v);
  CompiledGraph compiled = Session().compile(g);
  for (int64_t length : {1, 4, 0, 9}) {
    auto inputs = random_inputs(g, {{"N", length}});
    CHECK(difference(compiled.run_ordered(inputs), interpret(g, inputs)) == "");
  }
}

TEST_CASE("slices of a strided operand are read where they are, others are brought into order first") {
  for (bool reverse : {false, true}) {
    Graph g("g");
    Value sum = g.input("sum", f32, {3}), x = g.input("x", f32, {9, 3}), turned = g.input("turned", f32, {3, 4}),
          same = g.input("same", f32, {3});
    Graph body = body_of({{f32, {3}}, {f32, {3}}, {f32, {3}}, {f32, {3}}}, [](Values v) {
      return std::vector{v[0] * v[3] + v[1], v[0] - v[2]};
    });
    Value every_second = slice(x, {1, 0}, {9, 3}, {2, 1});
    Value repeated = broadcast_in_dim(same, {4, 3}, {1});
    for (Value v : scan(g, {sum, every_second, transpose(turned, {1, 0}), repeated}, {1, 3, 4, reverse, body}))
      g.output(v);
    check_runs(g, random_inputs(g));
  }
}

TEST_CASE("a while loop makes as many trips as its data ask for") {
  // 3n + 1 until 1: the steps from 27 are 111, from 97 118 (OEIS A006577).
  Graph g("collatz");
  Value n = g.input("n", i64, {}), steps = g.input("steps", i64, {}), one = g.input("one", i64, {});
  std::vector<Type> types(3, Type{i64, {}});
  Graph condition = trace(types, [](Values v) { return compare(v[0], v[2], Comparison::ne); });
  Graph body = body_of(types, [](Values v) {
    Value odd = bitwise_and(v[0], v[2]);
    Graph up = trace(std::vector<Type>{{i64, {}}}, [](Values w) { return w[0] * 3.0 + 1.0; });
    Graph down = trace(std::vector<Type>{{i64, {}}}, [](Values w) { return w[0] / 2.0; });
    return std::vector{if_else(compare(odd, v[2], Comparison::eq), {v[0]}, up, down)[0], v[1] + 1.0};
  });
  WhileAttrs attrs{2, condition, body};
  for (Value v : while_loop({n, steps, one}, attrs)) g.output(v);
  CompiledGraph compiled = Session().compile(g);
  auto trips = [&](int64_t from) {
    std::vector<Tensor> in = {Tensor::scalar(from), Tensor::scalar(int64_t{0}), Tensor::scalar(int64_t{1})};
    auto out = compiled.run_ordered(in);
    CHECK(out[0] == Tensor::scalar(int64_t{1}));
    return load<int64_t>(out[1], 0);
  };
  CHECK(trips(1) == 0);
  CHECK(trips(2) == 1);
  CHECK(trips(27) == 111);
  CHECK(trips(97) == 118);

  for (int64_t most : {0, 1, 2, 50, 500}) {
    Graph bounded("bounded");
    std::vector<Value> in;
    for (const char* name : {"n", "steps", "one"}) in.push_back(bounded.input(name, i64, {}));
    attrs.max_trips = most;
    for (Value v : while_loop(in, attrs)) bounded.output(v);
    std::vector<Tensor> values = {Tensor::scalar(int64_t{27}), Tensor::scalar(int64_t{0}), Tensor::scalar(int64_t{1})};
    check_runs(bounded, values, 0);
    CHECK(load<int64_t>(Session().compile(bounded).run_ordered(values)[1], 0) == std::min<int64_t>(most, 111));
  }
}

TEST_CASE("carries that change places do not run over each other") {
  Graph g("fibonacci");
  Value a = g.input("a", i64, {}), b = g.input("b", i64, {});
  Graph body = body_of({{i64, {}}, {i64, {}}}, [](Values v) { return std::vector{v[1], v[0] + v[1], v[0]}; });
  for (Value v : scan(g, {a, b}, {2, 0, 50, false, body})) g.output(v);
  auto out = Session().compile(g).run_ordered(std::vector{Tensor::scalar(int64_t{0}), Tensor::scalar(int64_t{1})});
  CHECK(load<int64_t>(out[0], 0) == 12586269025);  // OEIS A000045, the 50th
  CHECK(load<int64_t>(out[1], 0) == 20365011074);
  CHECK(load<int64_t>(out[2], 49) == 7778742049);
}

TEST_CASE("loops in loops, with branches inside, and outer values captured at every depth") {
  Graph g("nest");
  Dim n = Dim::symbol("N");
  Value state = g.input("state", f32, {n, n}), scale = g.input("scale", f32, {n});
  // Each outer step adds, to row after row, what the rows before it sum up to.
  std::vector<Type> inner_types = {{f32, {n, n}}, {i32, {}}, {f32, {n}}, {i32, {}}};
  Graph inner_condition = trace(inner_types, [](Values v) { return compare(v[1], v[3], Comparison::lt); });
  Graph inner_body = body_of(inner_types, [&](Values v) {
    Value zero = v[1] * 0.0;
    Value row = dynamic_slice(v[0], {v[1], zero}, {1, n});
    Value next = tanh(row + reshape(reduce_sum(v[0], {0}) * v[2], {1, n}));
    return std::vector{dynamic_update_slice(v[0], next, {v[1], zero}), v[1] + 1.0};
  });
  Graph outer_body = body_of({{f32, {n, n}}, {f32, {n}}, {f32, {n}}}, [&](Values v) {
    Graph& b = v[0].graph();
    Value rows = extent(b, n, i32);
    auto out = while_loop({v[0], rows * 0.0, v[2], rows}, {2, inner_condition, inner_body});
    return std::vector{out[0], reduce_max(out[0], {1}) + v[1]};
  });
  Value xs = g.input("x", f32, {3, n});
  for (Value v : scan(g, {state, xs, scale}, {1, 1, 3, false, outer_body})) g.output(v);
  CompiledGraph compiled = Session(Device::cpu(), {2}).compile(g);
  for (int64_t size : {4, 1, 7}) {
    auto inputs = random_inputs(g, {{"N", size}});
    CHECK(difference(compiled.run_ordered(inputs), interpret(g, inputs), 1e-5) == "");
  }
}

TEST_CASE("a large carry of which each trip writes a part is updated in place, through loops in loops") {
  constexpr int64_t kRows = 64, kColumns = 4096;  // 1 MiB
  Graph g("g");
  Type state{f32, {kRows, kColumns}}, index{i32, {}};
  Graph inner = body_of({state, index, index}, [&](Values v) {
    Value row = dynamic_slice(v[0], {v[1], v[2] * 0.0}, {1, kColumns});
    return std::vector{dynamic_update_slice(v[0], row * 0.5 + 1.0, {v[1], v[2] * 0.0}), v[1] + 1.0};
  });
  Graph outer = body_of({state, index}, [&](Values v) {
    Graph& b = v[0].graph();
    return std::vector{scan(b, {v[0], v[1] * 0.0, v[1]}, {2, 0, kRows, false, inner})[0], v[1] + 1.0};
  });
  Value x = g.input("x", state), zero = g.input("zero", index);
  g.output(scan(g, {x, zero}, {2, 0, 3, false, outer})[0]);
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
  std::vector<Tensor> in = {random_tensor(f32, {kRows, kColumns}, 1), Tensor::scalar(int32_t{0})};
  Tensor before = Tensor::of<float>({kRows, kColumns}, in[0].values<float>());
  CHECK(difference(compiled.run_ordered(in), interpret(g, in)) == "");
  CHECK(in[0] == before);
  CHECK(compiled.memory_bytes() < size_t{kRows * kColumns * 4 / 4});  // rows, no second state
}

TEST_CASE("calls, recomputed parts and functions with derivatives of their own run in bodies as anywhere") {
  Graph part = trace(std::vector<Type>{{f32, {4}}, {f32, {4}}}, [](Values v) { return sin(v[0]) * v[1]; });
  Graph forward = trace(std::vector<Type>{{f32, {4}}}, [](Values v) { return exp(v[0] * -1.0); });
  Graph backward = trace(std::vector<Type>(3, Type{f32, {4}}), [](Values v) { return v[1] * v[2] * -1.0; });
  Graph inner_body = trace(std::vector<Type>(2, Type{f32, {4}}), [&](Values v) {
    return std::vector{call({v[0], v[1]}, part)[0], v[0]};
  });
  Graph body = trace(std::vector<Type>(3, Type{f32, {4}}), [&](Values v) {
    Value a = remat({call({v[0], v[1]}, part)[0], v[2]}, part)[0];
    Value b = custom_fn({a}, {forward, backward, {}})[0];
    Value x = broadcast_in_dim(b, {9, 4}, {1});
    auto inner = checkpointed_scan(v[0].graph(), {a, x}, {1, 1, 9, false, inner_body}, Checkpointing::sqrt);
    return std::vector{inner[0] + b, reduce_sum(inner[1], {0})};
  });
  Graph g("g");
  Value h = g.input("h", f32, {4}), x = g.input("x", f32, {6, 4}), w = g.input("w", f32, {4});
  for (Value v : scan(g, {h, x, w}, {1, 1, 6, false, body})) g.output(v);
  check_runs(g, random_inputs(g));
  Graph gradient = vjp(g, {true, true, true}, {true, true});
  check_runs(gradient, random_inputs(gradient));
  auto decomposed = dispatch_report(g, Device::cpu());
  CHECK(decomposed.count(Verdict::missing) == 0);
}

TEST_CASE("the gradient of a scan runs on the CPU as in the reference") {
  for (bool reverse : {false, true}) {
    Graph g = all_kinds(11, reverse);
    Mask wrt = differentiable_inputs(g), given = differentiable_outputs(g);
    Graph gradient = vjp(g, wrt, given);
    check_runs(gradient, random_inputs(gradient), 1e-5);
    Graph both = value_and_vjp(g, wrt, given);
    check_runs(both, random_inputs(both), 1e-5);
  }
}

TEST_CASE("recurrent weights that are bound are packed once and follow a new binding") {
  Graph g("cell");
  Value h = g.input("h", f32, {2, 32}), x = g.input("x", f32, {5, 2, 32}), w = g.param("w", f32, {32, 32});
  Graph body = body_of({{f32, {2, 32}}, {f32, {2, 32}}, {f32, {32, 32}}}, [](Values v) {
    Value next = tanh(linear(v[0], v[2]) + v[1]);
    return std::vector{next, next};
  });
  for (Value v : scan(g, {h, x, w}, {1, 1, 5, false, body})) g.output(v);
  CompiledGraph compiled = Session(Device::cpu(), {2}).compile(g);
  auto inputs = random_inputs(g);
  for (uint64_t seed : {3u, 4u}) {
    test::Params params = {{"w", random_tensor(f32, {32, 32}, seed, -0.3, 0.3)}};
    compiled.set_params(params);
    CHECK(difference(compiled.run_ordered(inputs), test::by_reference(g, inputs, params), 1e-5) == "");
  }
}

TEST_CASE("a loop that waits for what a failed reference computes ends, and the run fails with its error") {
  static const OpDef kFails = define<>({
      .name = "user_fails",
      .doc = "a reference that throws",
      .operands = {"x"},
      .infer = [](Types in) { return in[0]; },
      .reference = [](Tensors) -> Tensor { fail(ErrorCode::invalid_argument, "the sensor is not connected"); },
  });
  std::vector<Type> types(2, Type{f32, {}});
  Graph condition = trace(types, [](Values v) { return compare(v[0], v[1], Comparison::lt); });
  Graph body = trace(types, [](Graph& g, Values v) { return g.emit(kFails, {v[0]})[0]; });
  Graph g("g");
  g.output(while_loop({g.input("x", f32, {}), g.input("limit", f32, {})}, {1, condition, body})[0]);
  CompiledGraph compiled = Session().compile(g);
  auto run = [&](float x) { return compiled.run_ordered(std::vector{Tensor::scalar(x), Tensor::scalar(1.0f)}); };
  for (int round = 0; round < 2; ++round) {
    CHECK(test::message_of([&] { run(0); }).find("the sensor is not connected") != std::string::npos);
    CHECK(run(2)[0] == Tensor::scalar(2.0f));  // no trip, no error
  }
}

TEST_CASE("an error of user code ends the run: neither the loop nor what is behind it calls user code again") {
  static int calls = 0, calls_behind = 0, fails_at = 0;
  static const OpDef kFailing = define<>({
      .name = "user_failing_step",
      .doc = "a reference that throws in one call",
      .operands = {"x"},
      .infer = [](Types in) { return in[0]; },
      .reference = [](Tensors in) -> Tensor {
        if (++calls == fails_at) fail(ErrorCode::invalid_argument, "call ", calls, " fails");
        return in[0];
      },
  });
  static const OpDef kBehind = define<>({
      .name = "user_behind",
      .doc = "a reference that counts its calls",
      .operands = {"x"},
      .infer = [](Types in) { return in[0]; },
      .reference = [](Tensors in) -> Tensor { return ++calls_behind, in[0]; },
  });
  const auto emitted = [](const OpDef& op, Value v) { return v.graph().emit(op, {v})[0]; };
  const auto check = [&](Value result, const Tensor& x, int all) {
    Graph& g = result.graph();
    g.output(emitted(kBehind, result));
    CompiledGraph compiled = Session().compile(g);
    calls = calls_behind = fails_at = 0;
    compiled.run_ordered(std::array{x});
    CHECK(calls == all);
    CHECK(calls_behind == 1);
    for (int at : {1, 2, all}) {
      CAPTURE(at);
      calls = calls_behind = 0, fails_at = at;
      const std::string message = test::message_of([&] { compiled.run_ordered(std::array{x}); });
      CHECK(message.starts_with(text_of("call ", at, " fails")));
      CHECK(calls == at);
      CHECK(calls_behind == 0);
    }
  };
  const Tensor x = random_tensor(f32, {6}, 5);
  const std::vector<Type> one(1, Type{f32, {}}), two(2, Type{f32, {}});
  SUBCASE("a scan") {
    Graph g("scan");
    const Graph body = trace(two, [&](Values v) {
      const Value next = emitted(kFailing, v[0] + v[1]);
      return std::vector{next, next};
    });
    const Value xs = g.input("x", f32, {6});
    check(scan(g, {g.constant(Tensor::scalar(0.0f)), xs}, {1, 1, 6, false, body})[1], x, 6);
  }
  SUBCASE("a reduction by a sub-graph") {
    Graph g("reduce");
    const Graph body = trace(two, [&](Values v) { return emitted(kFailing, v[0]) + v[1]; });
    const Value xs = g.input("x", f32, {6});
    check(reduce_custom({xs}, {g.constant(Tensor::scalar(0.0f))}, Axes{0}, body)[0], x, 6);
  }
}

TEST_CASE("two threads run one compiled loop at once") {
  Graph g = all_kinds(Dim::symbol("N"), false);
  CompiledGraph compiled = Session(Device::cpu(), {2}).compile(g);
  std::vector<std::string> failures(2);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      std::vector<Tensor> out(g.outputs().size());
      for (uint64_t round = 0; round < 20; ++round) {
        auto inputs = random_inputs(g, {{"N", static_cast<int64_t>((round * 7 + t * 3) % 13)}}, round);
        compiled.run_into(inputs, out);
        auto why = difference(out, interpret(g, inputs));
        if (!why.empty()) failures[t] = why;
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& why : failures) CHECK(why == "");
}

TEST_CASE("checkpoints make the gradient of a long scan take a fraction of the memory, and change no number") {
  constexpr int64_t kSteps = 256, kSize = 32;
  Type state{f32, {kSize, kSize}};
  Graph body = body_of({state, {f32, {kSize}}, state}, [](Values v) {
    return std::vector{tanh(matmul(v[0], v[2]) + broadcast_in_dim(v[1], {kSize, kSize}, {1}))};
  });
  auto gradient_of = [&](Checkpointing checkpointing) {
    Graph g("g");
    Value h = g.input("h", state), x = g.input("x", f32, {kSteps, kSize}), w = g.input("w", state);
    g.output(checkpointed_scan(g, {h, x, w}, {1, 1, kSteps, false, body}, checkpointing, 32)[0]);
    return vjp(g, {true, true, true}, {true});
  };
  auto inputs = random_inputs(gradient_of(Checkpointing::all));
  inputs[2] = random_tensor(f32, {kSize, kSize}, 9, -0.2, 0.2);
  size_t all_bytes = 0;
  std::vector<Tensor> wanted;
  for (Checkpointing c : {Checkpointing::all, Checkpointing::every, Checkpointing::sqrt, Checkpointing::recursive}) {
    Graph g = gradient_of(c);
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
    auto out = compiled.run_ordered(inputs);
    size_t bytes = compiled.memory_bytes();
    auto name = names_of(c)[static_cast<size_t>(c)];
    MESSAGE("checkpointing ", name, ": ", bytes, " bytes");
    if (c == Checkpointing::all) {
      all_bytes = bytes, wanted = out;
      CHECK(bytes >= size_t{kSteps * kSize * kSize * 4});  // every step's carry
      CHECK(difference(out, interpret(g, inputs), 1e-4) == "");
    } else {
      CHECK_MESSAGE(difference(out, wanted, 1e-6) == "", name);
      CHECK_MESSAGE(bytes < all_bytes / 4, name);
    }
  }
}

TEST_CASE("what is to be recomputed is not merged with the first computation") {
  Graph part = trace(std::vector<Type>{{f32, {8}}}, [](Values v) { return sin(exp(v[0])); });
  Graph g = trace(std::vector<Type>{{f32, {8}}}, [&](Values v) { return remat({v[0]}, part); });
  Graph kept = trace(std::vector<Type>{{f32, {8}}}, [&](Values v) { return call({v[0]}, part); });
  auto exps = [](const Graph& graph) {
    CompileOptions options;
    options.skip_passes = {"fuse_elementwise"};  // regions hide what is inside
    return count_ops(Session().compile(value_and_vjp(graph, {true}, {true}), options).lowered(), op::exp);
  };
  CHECK(exps(kept) == 1);
  CHECK(exps(g) == 2);
  Graph both = value_and_vjp(g, {true}, {true});
  check_runs(both, random_inputs(both));
}

TEST_CASE("what stands behind a barrier is read as it lies in memory") {
  Graph g("g");
  Value x = g.input("x", f32, {5, 7});
  Value turned = optimization_barrier({transpose(x, {1, 0})})[0];
  g.output(cumsum(turned, 1));
  g.output(softmax(optimization_barrier({optimization_barrier({transpose(x, {1, 0})})[0]})[0]));
  check_runs(g, random_inputs(g));
}
