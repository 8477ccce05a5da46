// See the header.
#include "judge/contract.h"

#include <chrono>
#include <numeric>
#include <thread>

#include "backends/registry.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

using namespace std::chrono_literals;

constexpr auto kSoon = 20ms;     // a run that goes on for ever has not ended by then
constexpr auto kAtLatest = 30s;  // a run that was cancelled has ended by then

template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (!holds) fail(ErrorCode::internal, parts...);
}

Tensor filled(int64_t n, float value) {
  Tensor t(f32, {n});
  std::fill(t.mutable_values<float>().begin(), t.mutable_values<float>().end(), value);
  return t;
}
void require_all(const Tensor& t, int64_t n, float value, std::string_view what) {
  require(t.type() == Type{f32, {n}}, what, " is ", t.type(), ", not f32[", n, "]");
  for (float got : t.values<float>()) require(got == value, what, " holds ", got, " where ", value, " was to be");
}

/// "x" f32[n], "y" f32[n] -> "x" = x + y: with x donated, an update.
Graph adding(Dim n) {
  Graph g("adding");
  Value x = g.input("x", f32, {n}), y = g.input("y", f32, {n});
  g.output(x + y, "x");
  return g;
}
/// "x" f32[1] -> a loop that never ends.
Graph endless() {
  Graph condition("goes_on"), body("step"), g("endless");
  Value c = condition.input("x", f32, {1});
  condition.output(reshape(compare(c, full_like(c, -1.0), Comparison::gt), {}));
  Value x = body.input("x", f32, {1});
  body.output(maximum(x, full_like(x, 1.0)));
  g.output(while_loop({g.input("x", f32, {1})}, {1, condition, body})[0], "x");
  return g;
}
CompiledGraph compiled(const Device& device, const Graph& g, std::set<std::string> donated = {}) {
  CompileOptions options;
  options.donate = std::move(donated);
  return Session(device, {1}).compile(g, options);
}
const std::string kNoSum = "it does not add f32";

// ---- the rules ----

std::string tensors_return(const Device& device) {
  for (DType t : {boolean, i4, i8, i16, i32, i64, u1, u8, u16, u32, u64, f16, bf16, f32, f64, c64, q8_0})
    for (const Shape& shape : {Shape{64}, Shape{3, 64}, Shape{0, 64}, Shape{1, 1, 64}}) {
      Tensor sent = Tensor::uninitialized(t, shape);
      for (size_t i = 0; i < sent.byte_count(); ++i) sent.mutable_data()[i] = std::byte(t == boolean ? i % 2 : i * 37);
      const DeviceTensor there = device_put(sent, device);
      require(there.device() == device && there.type() == sent.type(), "a tensor of ", sent.type(), " became one of ",
              there.type(), " on ", there.device());
      require(there.to_host() == sent, "a tensor of ", sent.type(), " comes back with other bits");
    }
  return "";
}

std::string odd_sizes(const Device& device) {
  const Graph g = adding(Dim::symbol("N"));
  if (!supports(g, device)) return kNoSum + " of a size that is open";
  const CompiledGraph add = compiled(device, g);
  for (int64_t n : {1, 2, 3, 7, 16, 17, 63, 64, 65, 127, 1000, 1021, 4096, 1, 17, 0})
    require_all(add.run({{"x", filled(n, 2)}, {"y", filled(n, 3)}})[0], n, 5, text_of("a sum of ", n, " elements"));
  return "";
}

std::string order_follows_data(const Device& device) {
  const Graph g = adding(33);
  if (!supports(g, device)) return kNoSum;
  const CompiledGraph add = compiled(device, g);
  const DeviceTensor one = device_put(filled(33, 1), device);
  DeviceTensor sum = device_put(filled(33, 0), device);
  std::vector<DeviceTensor> all;
  for (int i = 0; i < 40; ++i) all.push_back(sum = add.submit(std::vector{sum, one}).outputs()[0]);
  for (int i = 39; i >= 0; --i)
    require_all(all[static_cast<size_t>(i)].to_host(), 33, static_cast<float>(i + 1),
                text_of("sum ", i + 1, " of a chain"));
  return "";
}

std::string updates_wait(const Device& device) {
  const Graph g = adding(33);
  if (!supports(g, device)) return kNoSum;
  const CompiledGraph update = compiled(device, g, {"x"}), read = compiled(device, g);
  const DeviceTensor one = device_put(filled(33, 1), device);
  for (int round = 0; round < 10; ++round) {
    DeviceTensor x = device_put(filled(33, 0), device);
    std::vector<DeviceTensor> seen;
    for (int i = 0; i < 4; ++i) {
      seen.push_back(read.submit(std::vector{x, one}).outputs()[0]);
      x = update.submit(std::vector{x, one}).outputs()[0];
    }
    x.write(filled(33, -5));
    for (int i = 0; i < 4; ++i)
      require_all(seen[static_cast<size_t>(i)].to_host(), 33, static_cast<float>(i + 1),
                  "what was read before an update");
    require_all(x.to_host(), 33, -5, "what was written over an update");
  }
  return "";
}

std::string donated_is_gone(const Device& device) {
  const Graph g = adding(5);
  if (!supports(g, device)) return kNoSum;
  const CompiledGraph update = compiled(device, g, {"x"});
  const Tensor mine = filled(5, 2);
  DeviceTensor x = device_put(mine, device);
  const DeviceTensor one = device_put(filled(5, 1), device);
  const DeviceTensor sum = update.submit(std::vector{x, one}).outputs()[0];
  require(x.why_gone().find("'adding'") != std::string::npos, "what was donated does not say to which run");
  bool is_refused = false;
  try {
    x.to_host();
  } catch (const Error& e) {
    is_refused = e.code() == ErrorCode::invalid_argument;
  }
  require(is_refused, "what was donated can be read");
  require_all(sum.to_host(), 5, 3, "an update");
  require_all(mine, 5, 2, "the host's tensor, of which a copy was donated,");
  return "";
}

std::string cancelled_runs_end(const Device& device) {
  const Graph g = endless();
  if (!supports(g, device)) return "it has no loop to cancel";
  if (!backend_of(device)->cancels_loops()) return "it does not stop what has begun";
  const PendingRun run = compiled(device, g).run_async({{"x", filled(1, 1)}});
  require(!run.wait_for(kSoon), "a loop without an end has ended");
  run.cancel();
  ErrorCode code{};
  try {
    require(run.wait_for(kAtLatest), "a run that was cancelled goes on");
  } catch (const Error& e) {
    code = e.code();
  }
  require(code == ErrorCode::cancelled, "a run that was cancelled did not end with that error");
  DeviceTensor torn = run.outputs()[0];
  bool is_refused = false;
  try {
    torn.to_host();
  } catch (const Error&) {
    is_refused = true;
  }
  require(is_refused, "what a cancelled run was to write can be read");
  torn.write(filled(1, 4));
  require_all(torn.to_host(), 1, 4, "what was written anew");
  return "";
}

std::string limits_are_kept(const Device& device) {
  const Memory memory = memory_of(device);
  if (memory.largest_buffer == 0 || memory.largest_buffer > uint64_t{1} << 30)
    return "its buffers may be as large as memory";
  const auto n = static_cast<int64_t>(memory.largest_buffer) + 1;
  ErrorCode code{};
  try {
    device_put(Tensor::uninitialized(u8, {n}), device).ready().wait();
  } catch (const Error& e) {
    code = e.code();
  }
  require(code == ErrorCode::out_of_memory, "a tensor of ", n, " bytes was not refused, though a buffer may have ",
          memory.largest_buffer);
  require(!supports(adding(n), device), "the report takes tensors that are larger than a buffer may be");
  return "";
}

std::string threads_do_not_meet(const Device& device) {
  const Graph g = adding(257);
  if (!supports(g, device)) return kNoSum;
  const CompiledGraph add = compiled(device, g);
  std::vector<std::string> broken(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < broken.size(); ++t)
    threads.emplace_back([&, t] {
      try {
        for (int i = 0; i < 25; ++i) {
          const auto x = static_cast<float>(t * 100 + static_cast<size_t>(i));
          require_all(add.run({{"x", filled(257, x)}, {"y", filled(257, 1)}})[0], 257, x + 1,
                      "a sum on one of four threads");
        }
      } catch (const std::exception& e) {
        broken[t] = e.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& why : broken) require(why.empty(), why);
  return "";
}

constexpr ContractRule kRules[] = {
    {"tensors come back as they went there", tensors_return},
    {"sizes that are open may be any, 0 and 1 too", odd_sizes},
    {"runs follow one another by what they read", order_follows_data},
    {"an update waits for who reads the old value", updates_wait},
    {"a donated input is gone, and says where", donated_is_gone},
    {"a cancelled run ends, and what it wrote is torn", cancelled_runs_end},
    {"what is larger than a buffer is refused", limits_are_kept},
    {"runs on several threads do not meet", threads_do_not_meet},
};

}  // namespace

std::span<const ContractRule> contract_rules() { return kRules; }

Judged judge_rule(const ContractRule& rule, const Device& device) {
  try {
    std::string why_not = rule.check(device);
    if (!why_not.empty()) return {Judgement::refused, std::move(why_not), 0, Verdict::missing};
    return {};
  } catch (const std::exception& e) {
    return {Judgement::wrong, e.what()};
  }
}

}  // namespace rlx
