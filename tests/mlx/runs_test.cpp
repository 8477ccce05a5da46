// Many runs on the device mlx, and runs side by side.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "mlx/modes.h"
#include "rlx/element.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

/// What MLX says that its arrays take. Its library is loaded by then, and this program is not linked to it.
size_t active_memory() {
  static const auto f = reinterpret_cast<size_t (*)()>(
      dlsym(dlopen("libmlx.so", RTLD_NOW | RTLD_NOLOAD), "_ZN3mlx4core17get_active_memoryEv"));
  REQUIRE((f != nullptr));
  return f();
}
double resident_mib() {
  std::ifstream in("/proc/self/statm");
  size_t all = 0, resident = 0;
  in >> all >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

constexpr int64_t kRows = 4, kWidth = 32;

/// Products, a norm, a node that runs by its reference, a branch and a loop.
Graph model() {
  Graph g("model"), then("then"), otherwise("otherwise"), goes_on("goes_on"), body("body");
  const Dims dims = {kRows, kWidth};
  then.output(tanh(then.input("h", f32, dims)));
  otherwise.output(neg(otherwise.input("h", f32, dims)));
  goes_on.input("h", f32, dims);
  Value trip = goes_on.input("trip", i32, {});
  goes_on.input("w", f32, {kWidth, kWidth});
  goes_on.output(compare(trip, full_like(trip, 3), Comparison::lt));
  Value h = body.input("h", f32, dims);
  trip = body.input("trip", i32, {});
  body.output(h + matmul(h, body.input("w", f32, {kWidth, kWidth})));
  body.output(trip + 1.0);

  Value x = g.input("x", f32, dims), w = g.param("w", f32, {kWidth, kWidth});
  h = convert(convert(layer_norm(matmul(x, w)), f8e4m3fn), f32);
  h = if_else(g.input("more", boolean, {}), {h}, then, otherwise)[0];
  g.output(while_loop({h, g.constant(Tensor::scalar<int32_t>(0)), w}, {2, goes_on, body})[0], "y");
  return g;
}
CompiledGraph compiled_on(const Device& device) {
  CompiledGraph compiled = Session(device).compile(model());
  compiled.set_param("w", random_tensor(f32, {kWidth, kWidth}, 1, -0.1, 0.1));
  return compiled;
}
std::vector<NamedTensor> inputs_of(uint64_t seed) {
  return {{"x", random_tensor(f32, {kRows, kWidth}, seed)}, {"more", Tensor::scalar(seed % 2 == 0)}};
}

}  // namespace

TEST_CASE("ten thousand runs keep no memory, in each mode") {
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    const CompiledGraph compiled = compiled_on(device);
    const std::vector<NamedTensor> inputs[] = {inputs_of(1), inputs_of(2)};
    const auto run = [&](int count) {
      for (int i = 0; i < count; ++i) compiled.run(inputs[i % 2]);
    };
    run(1000);
    const size_t active = active_memory();
    const double resident = resident_mib();
    run(10000);
    CHECK(active_memory() == active);
    CHECK(resident_mib() - resident < 4);
    MESSAGE(device.name(), ": MLX's arrays take ", active, " bytes; resident ", resident, " to ", resident_mib(),
            " MiB");
  }
}

TEST_CASE("sessions, compiled graphs and their threads leave nothing behind") {
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    const auto inputs = inputs_of(1);
    const auto session = [&] { std::thread([&] { compiled_on(device).run(inputs); }).join(); };
    for (int i = 0; i < 20; ++i) session();
    const size_t active = active_memory();
    const double resident = resident_mib();
    for (int i = 0; i < 300; ++i) session();
    CHECK(active_memory() == active);
    CHECK(resident_mib() - resident < 16);
    MESSAGE(device.name(), ": resident ", resident, " to ", resident_mib(), " MiB");
  }
}

TEST_CASE("four sessions on four threads agree with one") {
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    std::vector<Tensor> wanted;
    {
      const CompiledGraph one = compiled_on(device);
      for (uint64_t seed = 0; seed < 8; ++seed) wanted.push_back(one.run(inputs_of(seed))[0]);
    }
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        const CompiledGraph own = compiled_on(device);
        for (int i = 0; i < 100; ++i) {
          const auto seed = static_cast<uint64_t>(i % 8);
          wrong += !(own.run(inputs_of(seed))[0] == wanted[seed]);
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("the modes give the same numbers but for rounding") {
  std::vector<Tensor> first;
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    const CompiledGraph compiled = compiled_on(device);
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const Tensor y = compiled.run(inputs_of(seed))[0];
      if (first.size() < 4) first.push_back(y);
      else CHECK(difference(y, first[seed], 1e-6) == "");
    }
  }
}
TEST_CASE("runs that are committed are waited for, and give their results once") {
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    const CompiledGraph compiled = compiled_on(device);
    const Tensor one = compiled.run(inputs_of(1))[0], two = compiled.run(inputs_of(2))[0];
    CHECK(compiled.sync_pending().empty());
    compiled.commit_no_wait(inputs_of(2));
    compiled.commit_no_wait(inputs_of(1));
    CHECK(compiled.run(inputs_of(2))[0] == two);
    const std::vector<Tensor> results = compiled.sync_pending();
    REQUIRE(results.size() == 1);
    CHECK(results[0] == one);
    CHECK(compiled.sync_pending().empty());
  }
}

TEST_CASE("a compiled graph tells whether its runs replay what MLX traced") {
  for (const Device& device : test::mlx_modes()) {
    CAPTURE(device.name());
    const CompiledGraph compiled = compiled_on(device);
    CHECK(compiled.is_compiled() == (device.options().back() == "compiled"));
    compiled.run(inputs_of(1));
    CHECK(compiled.is_compiled() == (device.options().back() == "compiled"));
  }
  CHECK(!compiled_on(Device::cpu()).is_compiled());
}
