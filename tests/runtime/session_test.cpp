// Compiling, binding and running: that the small model gives what the reference gives, however it is compiled.
#include "rlx/session.h"

#include <doctest/doctest.h>

#include "runtime/small_model.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

std::string run_difference(const CompileOptions& options, int64_t length, int threads = 1) {
  Graph g = test::small_model();
  Session session(Device::cpu(), {threads});
  CompiledGraph compiled = session.compile(g, options);
  compiled.set_params(test::small_params());
  auto inputs = test::small_inputs(length);
  return difference(compiled.run_ordered(inputs), test::by_reference(g, inputs, test::small_params()),
                    test::kSmallModelTolerance);
}

}  // namespace

TEST_CASE("the graph of the first page runs as it stands there") {
  Graph g("hello");
  auto x = g.input("x", f32, {1, 4});
  auto w = g.param("w", f32, {4, 2});
  g.output(gelu(matmul(x, w)));
  auto compiled = Session(Device::cpu()).compile(g);
  compiled.set_param("w", Tensor::of<float>({4, 2}, {1, 0, 0, 1, 1, 0, 0, 1}));
  auto out = compiled.run({{"x", Tensor::of<float>({1, 4}, {0.5f, -1, 0.5f, 3})}});
  // gelu(1) and gelu(2) by Phi(1) = 0.8413447460685429 and Phi(2) = 0.9772498680518208
  CHECK(difference(out, std::vector{Tensor::of<float>({1, 2}, {0.8413447460685429f, 1.9544997361036416f})}) == "");
}

TEST_CASE("a model gives what the reference gives, with one thread and with several, for any length") {
  for (int threads : {1, 2, 5})
    for (int64_t length : {1, 2, 7, 33}) CHECK(run_difference({}, length, threads) == "");
}

TEST_CASE("eager, lazy and ahead of time give the same numbers") {
  for (CompileMode mode : {CompileMode::eager, CompileMode::lazy, CompileMode::aot}) {
    CompileOptions options;
    options.mode = mode;
    CHECK_MESSAGE(run_difference(options, 5) == "", names_of(mode)[static_cast<size_t>(mode)]);
  }
}

TEST_CASE("a lazy compile fails at its uses, an eager one at once") {
  Graph g("g");
  g.output(softmax(g.input("x", f32, {2, 3})));
  CompileOptions wrong;
  wrong.skip_passes = {"no_such_pass"};
  CHECK_THROWS_AS(Session().compile(g, wrong), Error);
  wrong.mode = CompileMode::lazy;
  CompiledGraph later = Session().compile(g, wrong);
  CHECK(message_of([&] {
          later.run({{"x", Tensor(f32, {2, 3})}});
        }).starts_with("there is no pass 'no_such_pass' to skip"));
  CHECK(message_of([&] { later.report(); }).starts_with("there is no pass 'no_such_pass' to skip"));  // and again
}

TEST_CASE(
    "the common form of every op and each forced choice give the same numbers, and the report says what was done") {
  CompileOptions common;
  common.kernel_dispatch = KernelDispatch::common;
  CHECK(run_difference(common, 5) == "");
  Graph g = test::small_model();
  DispatchReport report = Session().compile(g, common).report();
  for (const DispatchLine& line : report.lines)
    if (find_op(line.op).decompose) CHECK_MESSAGE(line.verdict == Verdict::composed, line.op);

  CompileOptions only_norm;
  only_norm.force_common = {"layer_norm"};
  CHECK(run_difference(only_norm, 5) == "");
  bool seen = false;
  report = Session().compile(g, only_norm).report();
  for (const DispatchLine& line : report.lines)
    if (line.op.find("norm") != std::string::npos && line.verdict == Verdict::composed) {
      seen = true;
      CHECK(line.reason.find("the common form was asked for") != std::string::npos);
    }
  CHECK(seen);

  CompileOptions native;
  native.force_native = {"softmax", "gelu"};
  CHECK(run_difference(native, 5) == "");
}

TEST_CASE("what was to be native and is not fails with the reason, as strict does for any node") {
  Graph g("g");
  g.output(mish(convert(g.input("x", f32, {2}), f64)));
  auto refused = dispatch_report(g, Device::cpu());
  if (refused.all_native()) return;  // then there is nothing here that is not native
  CompileOptions options;
  options.strict = true;
  CHECK(message_of([&] { Session().compile(g, options); }).find("composed") != std::string::npos);
}

TEST_CASE("a pass left out changes no number") {
  Graph g = test::small_model();
  for (const char* pass : {"prune", "simplify", "fold_constants", "simplify_products", "merge_equal_nodes",
                           "fuse_attention", "fuse_matmul", "fuse_residual_norm", "fuse_rows", "fuse_elementwise",
                           "trim_control_flow", "hoist_invariants"}) {
    CompileOptions options;
    options.skip_passes = {pass};
    CHECK_MESSAGE(run_difference(options, 6) == "", pass);
  }
}

TEST_CASE("a donated input may be overwritten inside, and the caller's tensor stays as it was") {
  Graph g("g");
  Value x = g.input("x", f32, {64}), y = g.input("y", f32, {64});
  g.output(reverse(exp(x) * y, {0}));
  g.output(-x);
  CompileOptions options;
  options.donate = {"x", "y"};
  CompiledGraph compiled = Session().compile(g, options);
  std::vector<Tensor> in = {random_tensor(f32, {64}, 1), random_tensor(f32, {64}, 2)};
  Tensor x_before = Tensor::of<float>({64}, in[0].values<float>()),
         y_before = Tensor::of<float>({64}, in[1].values<float>());
  auto wanted = interpret(g, in);
  for (int i = 0; i < 3; ++i) CHECK(difference(compiled.run_ordered(in), wanted) == "");
  CHECK(in[0] == x_before);
  CHECK(in[1] == y_before);
}

TEST_CASE("a donated input and the output of its name are one buffer, if the caller gives one for both") {
  // The first is updated where it is; the second is read backwards, which no update in place can do.
  Graph g("g");
  Value a = g.input("a", f32, {64}), b = g.input("b", f32, {64}), y = g.input("y", f32, {64});
  g.output(reduce_sum(a * b, {0}), "sum");
  g.output(a * 0.5 + y, "a");
  g.output(reverse(b, {0}), "b");
  CompileOptions options;
  options.donate = {"a", "b"};
  CompiledGraph compiled = Session().compile(g, options);
  std::vector<Tensor> in = {random_tensor(f32, {64}, 1), random_tensor(f32, {64}, 2), random_tensor(f32, {64}, 3)};
  auto own = [](const Tensor& t) { return Tensor::of<float>(t.shape(), t.values<float>()); };
  auto view = [](const Tensor& t) { return Tensor::borrow(t.dtype(), t.shape(), t.bytes()); };
  Tensor held_a = own(in[0]), held_b = own(in[1]);
  for (bool shared : {false, true, false}) {
    auto wanted = interpret(g, std::vector{held_a, held_b, in[2]});
    Tensor a_before = shared ? held_a : Tensor(), a_copy = own(held_a);
    const std::byte* where = held_a.data();
    std::vector<Tensor> inputs = {view(held_a), view(held_b), in[2]}, outputs = {Tensor(), Tensor(), Tensor()};
    outputs[1] = std::move(held_a), outputs[2] = std::move(held_b);
    compiled.run_into(inputs, outputs);
    CHECK(difference(outputs, wanted) == "");
    CHECK((outputs[1].data() == where) == !shared);
    if (shared) CHECK(a_before == a_copy);
    held_a = outputs[1], held_b = outputs[2];
    outputs.clear();
  }
  // Whoever gives no memory gets new tensors, and what was given stays.
  auto wanted = interpret(g, in);
  Tensor before = own(in[0]);
  CHECK(difference(compiled.run_ordered(in), wanted) == "");
  CHECK(in[0] == before);
  std::vector<float> sum(1), to_a(64), to_b(64);
  std::vector<std::span<std::byte>> memory = {std::as_writable_bytes(std::span(sum)),
                                              std::as_writable_bytes(std::span(to_a)),
                                              std::as_writable_bytes(std::span(to_b))};
  compiled.run_into_memory(in, memory);
  CHECK(Tensor::of<float>({64}, to_a) == wanted[1]);
  CHECK(Tensor::of<float>({64}, to_b) == wanted[2]);
}

TEST_CASE("a param that is bound again takes effect with the next run, also where it was packed or computed with") {
  Graph g("g");
  Value x = g.input("x", f32, {3, 8}), w = g.param("w", f32, {8, 8}), b = g.param("b", f32, {8});
  g.output(matmul(x, transpose(w, {1, 0}) * 2.0) + (b * b - 1.0));
  CompiledGraph compiled = Session().compile(g);
  std::vector<Tensor> in = {random_tensor(f32, {3, 8}, 1)};
  for (uint64_t seed : {5u, 6u, 7u}) {
    test::Params params = {{"w", random_tensor(f32, {8, 8}, seed)}, {"b", random_tensor(f32, {8}, seed + 10)}};
    compiled.set_params(params);
    CHECK(difference(compiled.run_ordered(in), test::by_reference(g, in, params), 2e-5) == "");
  }
  test::Params mixed = {{"w", random_tensor(f32, {8, 8}, 7)}, {"b", random_tensor(f32, {8}, 99)}};
  compiled.set_param("b", mixed.at("b"));  // w stays
  CHECK(difference(compiled.run_ordered(in), test::by_reference(g, in, mixed), 2e-5) == "");
}

TEST_CASE("what a user calls his params never meets what the compiler calls its own") {
  Graph g("g");
  Value x = g.input("x", f32, {2, 4}), a = g.param("hoisted.0", f32, {4, 4}), b = g.param("hoisted.1", f32, {4, 4});
  g.output(matmul(x, a + b));
  CompiledGraph compiled = Session().compile(g);
  test::Params params = {{"hoisted.0", random_tensor(f32, {4, 4}, 1)}, {"hoisted.1", random_tensor(f32, {4, 4}, 2)}};
  compiled.set_params(params);
  std::vector<Tensor> in = {random_tensor(f32, {2, 4}, 3)};
  CHECK(difference(compiled.run_ordered(in), test::by_reference(g, in, params), 1e-5) == "");
}

TEST_CASE("inputs are given by name in any order, or in the graph's order without names") {
  Graph g("g");
  Value x = g.input("x", f32, {2}), y = g.input("y", f32, {2});
  g.output(x - y);
  CompiledGraph compiled = Session().compile(g);
  Tensor five = Tensor::of<float>({2}, {5, 5}), one = Tensor::of<float>({2}, {1, 2}),
         wanted = Tensor::of<float>({2}, {4, 3});
  CHECK(compiled.run({{"y", one}, {"x", five}})[0] == wanted);
  CHECK(compiled.run_ordered(std::vector{five, one})[0] == wanted);
}

TEST_CASE("run_into writes where the type fits and nothing shares the tensor, and replaces any other") {
  Graph g("g");
  g.output(g.input("x", f32, {3}) * 2.0);
  CompiledGraph compiled = Session().compile(g);
  std::vector<Tensor> in = {Tensor::of<float>({3}, {1, 2, 3})};
  std::vector<Tensor> out = {Tensor(f32, {3})};
  const std::byte* room = out[0].data();
  compiled.run_into(in, out);
  CHECK(out[0].data() == room);
  Tensor shared = out[0];
  in[0] = Tensor::of<float>({3}, {7, 7, 7});
  compiled.run_into(in, out);
  CHECK(shared == Tensor::of<float>({3}, {2, 4, 6}));  // whoever kept it keeps what it was
  CHECK(out[0] == Tensor::of<float>({3}, {14, 14, 14}));
  out[0] = Tensor(f64, {2});
  compiled.run_into(in, out);
  CHECK(out[0] == Tensor::of<float>({3}, {14, 14, 14}));
  std::vector<float> mine(3, -1);
  out[0] = Tensor::borrow(f32, {3}, std::as_bytes(std::span<const float>(mine)));
  compiled.run_into(in, out);
  CHECK(mine[0] == -1);  // borrowed memory is not written
  out[0] = in[0];
  compiled.run_into(in, out);
  CHECK(in[0] == Tensor::of<float>({3}, {7, 7, 7}));
  CHECK(out[0] == Tensor::of<float>({3}, {14, 14, 14}));
  CHECK(message_of([&] { compiled.run_into(in, {}); }) == "graph 'g' has 1 outputs, got room for 0");
}

TEST_CASE("run_into_memory writes to the caller's memory, at any address, and nothing beside it") {
  Graph g("g");
  Value x = g.input("x", f32, {3});
  g.output(x * 2.0);
  g.output(x);  // an input given back
  g.output(convert(x, i64));
  CompiledGraph compiled = Session().compile(g);
  std::vector<Tensor> in = {Tensor::of<float>({3}, {1, 2, 3})}, wanted = compiled.run_ordered(in);
  for (size_t shift : {0, 8, 1, 3}) {
    std::vector<std::byte> bytes(200, std::byte{77});
    std::vector<std::span<std::byte>> memory;
    size_t at = shift;
    for (const Tensor& t : wanted) {
      memory.emplace_back(bytes.data() + at, t.byte_count());
      at += 64;
    }
    compiled.run_into_memory(in, memory);
    size_t other = 0;
    for (std::byte b : bytes) other += b != std::byte{77};
    size_t written = 0;
    for (size_t o = 0; o < wanted.size(); ++o) {
      CHECK(std::memcmp(memory[o].data(), wanted[o].data(), wanted[o].byte_count()) == 0);
      written += size_t(std::count_if(wanted[o].bytes().begin(), wanted[o].bytes().end(),
                                      [](std::byte b) { return b != std::byte{77}; }));
    }
    CHECK(other == written);
    memory[2] = memory[2].first(23);
    CHECK(message_of([&] { compiled.run_into_memory(in, memory); }) ==
          "output 2 of 'g' is i64[3], 24 bytes; there is room for 23");
  }
  CHECK(message_of([&] { compiled.run_into_memory(in, {}); }) == "graph 'g' has 3 outputs, got memory for 0");
}

TEST_CASE("inputs that borrow memory at any address are read right") {
  Graph g("g");
  g.output(g.input("x", f32, {5}) + 1.0);
  CompiledGraph compiled = Session().compile(g);
  std::vector<std::byte> bytes(64);
  for (size_t shift = 0; shift < 9; ++shift) {
    float values[5] = {1, 2, 3, 4, 5};
    std::memcpy(bytes.data() + shift, values, sizeof values);
    Tensor x = Tensor::borrow(f32, {5}, std::span(bytes).subspan(shift, 20));
    CHECK(compiled.run({{"x", x}})[0] == Tensor::of<float>({5}, {2, 3, 4, 5, 6}));
    Graph p("p");
    p.output(p.input("x", f32, {5}) + p.param("w", f32, {5}));
    CompiledGraph with_param = Session().compile(p);
    with_param.set_param("w", x);
    CHECK(with_param.run({{"x", Tensor(f32, {5})}})[0] == Tensor::of<float>({5}, {1, 2, 3, 4, 5}));
  }
}

TEST_CASE("compiled graphs are shared by their copies, and equal graphs share one program") {
  Session session;
  Graph g = test::small_model();
  CompiledGraph first = session.compile(g), copy = first, second = session.compile(test::small_model());
  first.set_params(test::small_params());
  CHECK(copy.all_params_bound());
  CHECK(!second.all_params_bound());  // the program is shared, the params are not
  CHECK(&first.lowered() == &second.lowered());
  CompileOptions other;
  other.kernel_dispatch = KernelDispatch::common;
  CHECK(&session.compile(g, other).lowered() != &first.lowered());
  Graph changed = test::small_model(9);
  CHECK(&session.compile(changed).lowered() != &first.lowered());
}

TEST_CASE("threads can be set to what the session was made with, and no higher") {
  Session session(Device::cpu(), {3});
  CHECK(session.threads() == 3);
  CompiledGraph compiled = session.compile(test::small_model());
  compiled.set_params(test::small_params());
  auto inputs = test::small_inputs(9);
  auto wanted = compiled.run_ordered(inputs);
  for (int threads : {1, 2, 3}) {
    compiled.set_threads(threads);
    CHECK(compiled.threads() == threads);
    CHECK(difference(compiled.run_ordered(inputs), wanted, test::kSmallModelTolerance) == "");
    CHECK(difference(compiled.run_ordered(inputs), compiled.run_ordered(inputs), 0) == "");  // the same every time
  }
  CHECK(message_of([&] { compiled.set_threads(4); }) ==
        "threads must be 1 to 3, which the session was made with; got 4");
  CHECK(message_of([&] { compiled.set_threads(0); }) ==
        "threads must be 1 to 3, which the session was made with; got 0");
  CHECK(message_of([] { Session(Device::cpu(), {-1}); }) == "threads must be 0 (as many as there are) to 256, got -1");
  CHECK(message_of([] { Session(Device::cpu(), {257}); }) ==
        "threads must be 0 (as many as there are) to 256, got 257");
  CHECK(Session().threads() >= 1);
}
