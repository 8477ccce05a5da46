// Kernels from outside the library: registered through the public kernel.h, claimed, dispatched and reported like ours.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "rlx/kernel.h"
#include "rlx/ops.h"
#include "rlx/session.h"

using namespace rlx;

namespace {

struct ClipAttrs {
  double limit = 1;
  RLX_FIELDS(ClipAttrs, field("limit", &ClipAttrs::limit));
};
/// A logical kernel: an op of the user's that has a decomposition, so that it runs anywhere, and perhaps a kernel.
const OpDef kClip = define<ClipAttrs>({
    .name = "user_clip_norm",
    .doc = "x, scaled down until its norm is at most `limit`",
    .operands = {"x"},
    .infer = [](Types in, const ClipAttrs&) { return in[0]; },
    .decompose =
        [](Values in, const ClipAttrs& a) {
          Axes all;
          for (int64_t d = 0; d < in[0].rank(); ++d) all.push_back(d);
          Value norm = sqrt(reduce_sum(in[0] * in[0], all));
          return in[0] * broadcast_to(a.limit / maximum(norm, full_like(norm, a.limit)), in[0].dims());
        },
    .samples = {{.dims = {{3}}}},
});
/// One that has a reference and nothing else.
const OpDef kCount = define<>({
    .name = "user_count_bits",
    .doc = "the ones of each number",
    .operands = {"n"},
    .infer =
        [](Types in) {
          return Type{i32, in[0].dims};
        },
    .reference =
        [](Tensors in) {
          Tensor ones(i32, in[0].shape());
          for (size_t i = 0; i < in[0].element_count(); ++i)
            ones.mutable_values<int32_t>()[i] = __builtin_popcountll(uint64_t(in[0].values<int64_t>()[i]));
          return ones;
        },
    .samples = {{.dims = {{3}}, .dtypes = {i64}}},
});

std::atomic<int> calls = 0;

CpuKernel clip_kernel(std::string name = "clip in one loop") {
  return {&kClip, std::move(name),
          [](Types operands, Types, const Attrs&) -> std::string {
            return operands[0].dtype == f32 ? "" : text_of(operands[0], " is not f32");
          },
          [](const KernelSite& site) -> PreparedKernel {
            double limit = site.attrs<ClipAttrs>().limit;
            int64_t count = site.operands[0].count();
            return {[=](const KernelRun& run) {
              ++calls;
              double squares = 0;
              for (int64_t i = 0; i < count; ++i) squares += double(run.in<float>(0)[i]) * run.in<float>(0)[i];
              double factor = limit / std::max(limit, std::sqrt(squares));
              for (int64_t i = 0; i < count; ++i) run.out<float>()[i] = float(run.in<float>(0)[i] * factor);
            }};
          }};
}
CpuKernel count_kernel() {
  return {&kCount, "count in parts", {}, [](const KernelSite& site) -> PreparedKernel {
            int64_t count = site.operands[0].count();
            auto parts = [=](const KernelRun& run) {
              ++calls;
              auto* seen = reinterpret_cast<int32_t*>(run.scratch());
              run.parallel_for(count,
                               [&](int64_t i) { seen[i] = __builtin_popcountll(uint64_t(run.in<int64_t>(0)[i])); });
              std::copy_n(seen, count, run.out<int32_t>());
            };
            return {parts, size_t(count) * sizeof(int32_t)};
          }};
}

struct Registration {
  explicit Registration(const CpuKernel& k) : op(*k.op), name(k.name) { register_cpu_kernel(k); }
  ~Registration() { unregister_cpu_kernel(op, name); }
  const OpDef& op;
  std::string name;
};

Graph clipped(DType dtype = f32, Dims dims = {Dim::symbol("N")}) {
  return trace(std::vector{Type{dtype, dims}}, [](Values v) { return emit(kClip, {v[0] * 2.0}, ClipAttrs{5}) + 1.0; });
}
Graph counted() {
  return trace(std::vector{Type{i64, {4}}}, [](Values v) { return emit(kCount, {v[0]}); });
}
const DispatchLine& line_of(const DispatchReport& report, std::string_view op) {
  for (const DispatchLine& line : report.lines)
    if (line.op == op) return line;
  FAIL("no line of ", op, " in ", report.table());
  std::abort();
}
std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
const Tensor kPoint = Tensor::of<float>({2}, {3, 4}), kClipped = Tensor::of<float>({2}, {4, 5});

}  // namespace

TEST_CASE("a user's op with a decomposition is composed until he registers a kernel, and native from then on") {
  Session session;
  CHECK(line_of(dispatch_report(clipped(), Device::cpu()), "user_clip_norm").verdict == Verdict::composed);
  calls = 0;
  CHECK(session.compile(clipped()).run_ordered(std::array{kPoint})[0] == kClipped);
  CHECK(calls == 0);
  {
    Registration kernel(clip_kernel());
    CompiledGraph compiled = session.compile(clipped());  // the same session: its program of before is not taken
    const DispatchLine& line = line_of(compiled.report(), "user_clip_norm");
    CHECK(line.verdict == Verdict::native);
    CHECK(line.reason == "by the registered kernel 'clip in one loop'");
    CHECK(compiled.report().table().find("1 x user_clip_norm native: by the registered kernel 'clip in one loop'") !=
          std::string::npos);
    CHECK(compiled.run_ordered(std::array{kPoint})[0] == kClipped);
    CHECK(calls == 1);
    CHECK(compiled.run_ordered(std::array{Tensor::of<float>({3}, {0, 0, 1})})[0] == Tensor::of<float>({3}, {1, 1, 3}));
    CHECK(calls == 2);
  }
  CHECK(line_of(session.compile(clipped()).report(), "user_clip_norm").verdict == Verdict::composed);
}
TEST_CASE("strict and force_native ask for the kernel; the common form, asked for by option or environment, does not") {
  CompileOptions strict, forced, common, one_common;
  strict.strict = true;
  forced.force_native = {"user_clip_norm"};
  common.kernel_dispatch = KernelDispatch::common;
  one_common.force_common = {"user_clip_norm"};
  Session session;
  register_op(kClip);
  CHECK(message_of([&] { session.compile(clipped(), strict); }).find("user_clip_norm: composed") != std::string::npos);
  CHECK(message_of([&] {
          session.compile(clipped(), forced);
        }).find("missing, it was to be native, but the CPU has no kernel for 'user_clip_norm'") != std::string::npos);
  {
    Registration kernel(clip_kernel());
    calls = 0;
    for (const CompileOptions& options : {strict, forced})
      CHECK(session.compile(clipped(), options).run_ordered(std::array{kPoint})[0] == kClipped);
    CHECK(calls == 2);
    for (const CompileOptions& options : {common, one_common}) {
      CompiledGraph compiled = session.compile(clipped(), options);
      const DispatchLine& line = line_of(compiled.report(), "user_clip_norm");
      CHECK(line.verdict == Verdict::composed);
      CHECK(line.reason == "the common form was asked for");
      CHECK(compiled.run_ordered(std::array{kPoint})[0] == kClipped);
    }
    CHECK(calls == 2);
    setenv("RLX_KERNEL_DISPATCH", "common", 1);
    CHECK(line_of(session.compile(clipped()).report(), "user_clip_norm").verdict == Verdict::composed);
    setenv("RLX_KERNEL_DISPATCH", "native", 1);
    CHECK(line_of(session.compile(clipped()).report(), "user_clip_norm").verdict == Verdict::native);
    unsetenv("RLX_KERNEL_DISPATCH");
  }
  unregister_op(kClip);
}
TEST_CASE("a kernel for an op that has a reference alone makes it native, with scratch and several threads") {
  Tensor n = Tensor::of<int64_t>({4}, {0, 1, 255, -1}), ones = Tensor::of<int32_t>({4}, {0, 1, 8, 64});
  CHECK(dispatch_report(counted(), Device::cpu()).count(Verdict::interpreted) == 1);
  CHECK(Session().compile(counted()).run_ordered(std::array{n})[0] == ones);
  Registration kernel(count_kernel());
  for (int threads : {1, 3}) {
    CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(counted());
    CHECK(compiled.report().all_native());
    calls = 0;
    CHECK(compiled.run_ordered(std::array{n})[0] == ones);
    CHECK(calls == 1);
    std::vector<std::string> kernels;
    for (const auto& step : compiled.profile({{signature_of(counted()).inputs[0].name, n}}).steps)
      kernels.push_back(step.kernel);
    CHECK(kernels == std::vector<std::string>{"count in parts"});
  }
}
TEST_CASE("what a kernel refuses is reported with its reason, and runs as it would without it") {
  Registration kernel(clip_kernel());
  DispatchReport report = dispatch_report(clipped(f64), Device::cpu());
  const DispatchLine& line = line_of(report, "user_clip_norm");
  CHECK(line.verdict == Verdict::composed);
  CHECK(line.reason == "not by the kernel 'clip in one loop': f64[N] is not f32");
  CHECK(Session().compile(clipped(f64)).run_ordered(std::array{Tensor::of<double>({2}, {3, 4})})[0] ==
        Tensor::of<double>({2}, {4, 5}));
}
TEST_CASE("ops of the library take kernels, too: the latest that fits, before the table's own") {
  auto constant_kernel = [](const OpDef& op, float value) {
    return CpuKernel{&op, text_of("always ", value), {}, [=](const KernelSite& site) -> PreparedKernel {
                       int64_t count = site.results[0].count();
                       return {[=](const KernelRun& run) { std::fill_n(run.out<float>(), count, value); }};
                     }};
  };
  Graph soft = trace(std::vector{Type{f32, {2}}}, [](Values v) { return softmax(v[0]); });
  // A chain of element-wise ops is one region; tanh leaves it when it has a kernel.
  Graph chain = trace(std::vector{Type{f32, {2}}}, [](Values v) { return exp(tanh(v[0] * 3.0)) + 1.0; });
  Session session;
  auto run = [&](const Graph& g) { return session.compile(g).run_ordered(std::array{kPoint})[0]; };
  Tensor before = run(soft), chained = run(chain);
  {
    Registration one(constant_kernel(op::softmax, 1));
    CHECK(run(soft) == Tensor::of<float>({2}, {1, 1}));
    {
      Registration two(constant_kernel(op::softmax, 2)), zero(constant_kernel(op::tanh, 0));
      CHECK(run(soft) == Tensor::of<float>({2}, {2, 2}));
      CHECK(run(chain) == Tensor::of<float>({2}, {2, 2}));
    }
    CHECK(run(soft) == Tensor::of<float>({2}, {1, 1}));
  }
  CHECK(run(soft) == before);
  CHECK(run(chain) == chained);
}
TEST_CASE("a kernel for finished convolutions is asked where several of them would be one step") {
  Registration kernel({&op::fused_conv, "forty-two", {}, [](const KernelSite& site) {
                         const int64_t n = site.results[0].count();
                         return PreparedKernel{
                             .run = [n](const KernelRun& r) { std::fill_n(r.out<float>(), n, 42.0F); }};
                       }});
  Graph g("pair");
  const Value x = g.input("x", f32, {1, 112, 112, 32});
  const Value w = g.constant(full(f32, {32, 1, 3, 3}, 1)), v = g.constant(full(f32, {40, 32, 1, 1}, 1));
  const Value made = fused_conv(x, w, {}, {}, {.padding = {1, 1}, .groups = 32, .channels_last = true});
  g.output(fused_conv(made, v, {}, {}, {.channels_last = true}), "y");
  const Tensor y = Session().compile(g).run_ordered(std::array{full(f32, {1, 112, 112, 32}, 1)})[0];
  CHECK(y.values<float>()[0] == 42);
}
TEST_CASE("what a kernel throws arrives as an error with its place, and the next run is a new one") {
  static int what = 0;
  auto run = [](int now) {
    what = now;
    Graph g("clipping");
    Value x = g.input("x", f32, {2});
    g.set_scope("head");
    Value y = emit(kClip, {x}, ClipAttrs{});
    g.set_scope("");
    g.output(y * 2.0);
    return message_of([&] {
      CompiledGraph compiled = Session().compile(g);
      compiled.run_ordered(std::array{kPoint});
    });
  };
  Registration kernel({&kClip, "moody", {}, [](const KernelSite&) -> PreparedKernel {
                         if (what == 1) fail(ErrorCode::unsupported, "not today");
                         if (what == 2) return {};
                         return {[](const KernelRun& args) {
                           if (what == 3) throw std::runtime_error("out of paper");
                           if (what == 4)
                             args.parallel_for(5, [](int64_t p) {
                               if (p == 3) fail(ErrorCode::io, "part ", p, " is missing");
                             });
                           if (what == 5) throw 7;
                         }};
                       }});
  CHECK(run(1).starts_with("not today\n  while preparing 'user_clip_norm' of 'head'"));
  CHECK(run(2).starts_with("the kernel 'moody' prepared nothing to run"));
  CHECK(run(3) == "the kernel 'moody' threw: out of paper\n  while running 'user_clip_norm' of 'head'");
  CHECK(run(4) == "part 3 is missing\n  while running 'user_clip_norm' of 'head'");
  CHECK(run(5).starts_with("the kernel 'moody' threw what is no std::exception"));
  CHECK(run(0).empty());
}
TEST_CASE("a graph whose kernel is gone says so when it meets new shapes") {
  std::optional<Registration> kernel(std::in_place, clip_kernel());
  CompiledGraph compiled = Session().compile(clipped());
  CHECK(compiled.run_ordered(std::array{kPoint})[0] == kClipped);
  kernel.reset();
  CHECK(compiled.run_ordered(std::array{kPoint})[0] == kClipped);  // a step that was made has what it needs
  CHECK(message_of([&] { compiled.run_ordered(std::array{Tensor::of<float>({1}, {3})}); })
            .starts_with("the kernel 'clip in one loop' for 'user_clip_norm' with which this graph was compiled has "
                         "been unregistered"));
}
TEST_CASE("a kernel is registered whole, and once under its name") {
  Registration kernel(clip_kernel());
  CHECK(message_of([] { register_cpu_kernel(clip_kernel()); }) ==
        "'user_clip_norm' has a kernel 'clip in one loop' already; choose another name, or unregister that one");
  CHECK(message_of([] { unregister_cpu_kernel(kClip, "none"); }) == "'user_clip_norm' has no registered kernel 'none'");
  CHECK(message_of([] { register_cpu_kernel({}); }) ==
        "a kernel needs an op, a name and `prepare`; this one has no name");
  CHECK(message_of([] {
          register_cpu_kernel({&kClip, "empty", {}, {}});
        }) == "a kernel needs an op, a name and `prepare`; 'empty' has no `prepare`");
  CHECK(message_of([] {
          register_cpu_kernel({nullptr, "nobody's", {}, {}});
        }) == "a kernel needs an op, a name and `prepare`; 'nobody's' has no op");
}
TEST_CASE("kernels are registered, asked and run by several threads at once") {
  std::atomic<int> wrong = 0, ran = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&wrong, &ran, t] {
      for (int round = 0; round < 25; ++round) {
        Registration kernel(clip_kernel(text_of("of thread ", t)));
        wrong += !dispatch_report(clipped(), Device::cpu()).all_native();
        try {
          wrong += Session().compile(clipped(f32, {2})).run_ordered(std::array{kPoint})[0] != kClipped;
          ++ran;
        } catch (const Error& e) {  // it was compiled with another thread's, which is gone
          wrong += std::string(e.what()).find("has been unregistered; compile the graph again") == std::string::npos;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(ran > 0);
}
TEST_CASE("whatever `prepare` and `refusal` throw arrives as an error that names the kernel and the place") {
  static int what = 0;
  auto thrower = [] {
    if (what == 1) throw std::runtime_error("out of paper");
    if (what == 2) throw 7;
    if (what == 3) throw std::bad_alloc();
    if (what == 4) fail(ErrorCode::io, "no ink");
  };
  auto compile = [](int now) {
    what = now;
    Graph g("clipping");
    g.set_scope("head");
    Value y = emit(kClip, {g.input("x", f32, {2})}, ClipAttrs{});
    g.set_scope("");
    g.output(y * 2.0);
    return message_of([&] { Session().compile(g).run_ordered(std::array{kPoint}); });
  };
  const PreparedKernel nothing{[](const KernelRun&) {}};
  {
    Registration kernel({&kClip, "moody", {}, [&](const KernelSite&) { return thrower(), nothing; }});
    const std::string place = "\n  while preparing 'user_clip_norm' of 'head'";
    CHECK(compile(1).starts_with("the kernel 'moody' threw: out of paper" + place));
    CHECK(compile(2).starts_with("the kernel 'moody' threw what is no std::exception" + place));
    CHECK(compile(3).starts_with("the kernel 'moody' ran out of memory" + place));
    CHECK(compile(4).starts_with("no ink" + place));
    CHECK(compile(0).empty());
  }
  Registration kernel({&kClip, "picky", [&](Types, Types, const Attrs&) { return thrower(), std::string(); },
                       [&](const KernelSite&) { return nothing; }});
  const std::string place = "\n  while asking whether it takes 'user_clip_norm'";
  CHECK(compile(1).starts_with("the kernel 'picky' threw: out of paper" + place));
  CHECK(compile(2).starts_with("the kernel 'picky' threw what is no std::exception" + place));
  CHECK(compile(4).starts_with("no ink" + place));
  CHECK(compile(0).empty());
}
TEST_CASE(
    "where an op of the library has lost the kernel that a graph was compiled with, none takes its place unasked") {
  auto tanh_kernel = [](std::string name, float value) {
    return CpuKernel{&op::tanh, std::move(name), {}, [=](const KernelSite& site) -> PreparedKernel {
                       int64_t count = site.results[0].count();
                       return {[=](const KernelRun& run) { std::fill_n(run.out<float>(), count, value); }};
                     }};
  };
  const Tensor longer = Tensor::of<float>({3}, {1, 2, 3});
  Graph plain = trace(std::vector{Type{f32, {Dim::symbol("N")}}}, [](Values v) { return tanh(v[0]); });
  Graph in_branch = trace(std::vector{Type{f32, {Dim::symbol("N")}}}, [](Values v) {
    Graph body = trace(std::vector{v[0].type()}, [](Values x) { return tanh(x[0]); });
    return remat({v[0]}, body)[0];
  });
  for (const Graph& g : {plain, in_branch}) {
    Registration other(tanh_kernel("always five", 5));
    std::optional<Registration> kernel(std::in_place, tanh_kernel("always four", 4));
    CompiledGraph compiled = Session().compile(g), unrun = Session().compile(g);
    CHECK(compiled.run_ordered(std::array{kPoint})[0] == Tensor::of<float>({2}, {4, 4}));
    kernel.reset();
    CHECK(compiled.run_ordered(std::array{kPoint})[0] == Tensor::of<float>({2}, {4, 4}));
    for (const CompiledGraph* one : {&compiled, &unrun})
      CHECK(message_of([&] { one->run_ordered(std::array{longer}); }) ==
            "the kernel 'always four' for 'tanh' with which this graph was compiled has been unregistered; compile the "
            "graph again");
    CHECK(Session().compile(g).run_ordered(std::array{longer})[0] == Tensor::of<float>({3}, {5, 5, 5}));
  }
}
