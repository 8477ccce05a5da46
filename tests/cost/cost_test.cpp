// The work of a graph, counted by hand, and predictions, from speeds that are made up.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "cost/graph_work.h"
#include "ir/rewrite.h"
#include "rlx/device_speed.h"
#include "rlx/machine.h"
#include "rlx/models.h"
#include "rlx/ops.h"
#include "rlx/ops/control.h"
#include "rlx/session.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

/// The only node that is launched.
NodeWork only_work(const Graph& g) {
  NodeWork found;
  size_t launched = 0;
  for (const NodeWork& w : work_of(g))
    if (w.launches > 0) found = w, ++launched;
  CHECK(launched == 1);
  return found;
}
NodeWork total_of(const Graph& g) {
  NodeWork sum;
  for (const NodeWork& w : work_of(g)) sum += w;
  return sum;
}

/// RLX_CACHE_DIR is a folder of this test's own while it lives.
struct OwnCache {
  OwnCache() { setenv("RLX_CACHE_DIR", (folder / ".").c_str(), 1); }
  ~OwnCache() {
    if (before) setenv("RLX_CACHE_DIR", before->c_str(), 1);
    else unsetenv("RLX_CACHE_DIR");
  }
  test::TemporaryFolder folder;
  std::optional<std::string> before =
      std::getenv("RLX_CACHE_DIR") ? std::optional<std::string>(std::getenv("RLX_CACHE_DIR")) : std::nullopt;
};

DeviceSpeeds some_speeds(const Device& device) {
  DeviceSpeeds s;
  s.device = device.name(), s.description = "made up", s.threads = 1;
  s.product_64_gflops = s.product_256_gflops = s.product_1024_gflops = 100;
  s.convolution_gflops = 50, s.attention_gflops = 40;
  s.near_gbs = s.middle_gbs = s.memory_gbs = 10, s.function_gelements = 1, s.sort_gcompares = 1;
  s.run_us = 2, s.node_us = 1;
  return s;
}

Graph product_graph(Dim rows) {
  Graph g("product");
  g.output(matmul(g.input("x", f32, {rows, 256}), g.param("w", f32, {256, 512})), "y");
  return g;
}

}  // namespace

TEST_CASE("products, convolutions and attention have the operations that their definitions have") {
  Graph product("product");
  product.output(matmul(product.input("a", f32, {3, 5, 7}), product.input("b", f32, {3, 7, 11})));
  const NodeWork of_product = only_work(product);
  CHECK(of_product.product_flops == 2.0 * 3 * 5 * 7 * 11);
  CHECK(of_product.bytes == 4.0 * (3 * 5 * 7 + 3 * 7 * 11 + 3 * 5 * 11));

  Graph conv_graph("conv");
  ConvAttrs attrs;
  attrs.feature_group_count = 2, attrs.strides = {2, 2}, attrs.padding_low = attrs.padding_high = {1, 1};
  conv_graph.output(
      convolution(conv_graph.input("x", f32, {2, 8, 10, 12}), conv_graph.input("w", f32, {6, 4, 3, 3}), attrs));
  // Each of 2 * 6 * 5 * 6 results has 4 * 3 * 3 terms.
  CHECK(only_work(conv_graph).convolution_flops == 2.0 * 2 * 6 * 5 * 6 * 4 * 3 * 3);

  Graph attending("attention");
  AttentionAttrs heads;
  heads.heads = 4;
  const auto in = [&](const char* name, int64_t n) { return attending.input(name, f32, {2, 4, n, 16}); };
  attending.output(attention(in("q", 9), in("k", 20), in("v", 20), heads));
  const NodeWork of_attention = only_work(attending);
  CHECK(of_attention.attention_flops == 2.0 * 2 * (2 * 4 * 9 * 20 * 16));
  CHECK(of_attention.product_flops == 0);
  CHECK(of_attention.function_elements >= 2 * 4 * 9 * 20);  // exp of each score
}

TEST_CASE("composites have the work of what they are made of, loops that of their trips, and what is renamed none") {
  Graph g("linear");
  g.output(linear(g.input("x", f32, {4, 6}), g.param("w", f32, {8, 6}), g.param("b", f32, {8})));
  CHECK(only_work(g).product_flops == 2.0 * 4 * 6 * 8);

  Graph loop("loop");
  Value h = loop.input("h", f32, {1, 8}), x = loop.input("x", f32, {10, 1, 8}), w = loop.input("w", f32, {8, 8});
  const Graph body = trace(std::vector<Type>{{f32, {1, 8}}, {f32, {1, 8}}, {f32, {8, 8}}}, [](Values v) {
    Value next = tanh(matmul(v[0], v[2]) + v[1]);
    return std::vector{next, next};
  });
  for (Value v : scan(loop, {h, x, w}, {1, 1, 10, false, body})) loop.output(v);
  const NodeWork of_loop = only_work(loop);
  CHECK(of_loop.product_flops == 10 * 2.0 * 8 * 8);
  CHECK(of_loop.function_elements == 10 * 8);
  CHECK(of_loop.launches == 10 * 3);

  Graph renamed("renamed");
  renamed.output(reshape(renamed.input("x", f32, {4, 6}), {24}));
  CHECK(total_of(renamed).bytes == 0);

  Graph looked_up("lookup");
  looked_up.output(take(looked_up.input("table", f32, {100000, 16}), looked_up.input("i", i32, {3})));
  CHECK(only_work(looked_up).bytes < 4.0 * 100000);  // the table is not read whole
  CHECK(message_of([] { work_of(product_graph(Dim::symbol("N"))); }).find("N") != std::string::npos);
}

TEST_CASE("MiniLM has the operations that the yardstick counts for it") {
  BertConfig config{.vocab_size = 30522, .hidden_size = 384, .layers = 6, .intermediate_size = 1536};
  const int64_t length = 128;
  Graph g = sentence_encoder_graph(config);
  const CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
  NodeWork sum;
  for (const NodeWork& w : work_of(substitute(compiled.lowered(), {{"B", 1}, {"S", length}}))) sum += w;
  const double expected = 6.0 * length * (2 * 384 * 384 * 4 + 4 * 384 * 1536 + 4 * length * 384);
  CHECK(sum.product_flops + sum.attention_flops == doctest::Approx(expected).epsilon(0.02));
}

TEST_CASE("a prediction is the work over the speeds, and the shortest one is picked") {
  const OwnCache cache;
  const Graph g = product_graph(Dim::symbol("N"));
  const auto of_cpu = [&] {
    for (const DevicePrediction& p : predict_devices(g, {{"N", 1024}}, 1))
      if (p.device == Device::cpu()) return p;
    FAIL("the processor is missing");
    return DevicePrediction{Device::cpu(), {}, ""};
  };
  CHECK_FALSE(of_cpu().us);
  CHECK(of_cpu().why.find("with 1 thread: `rlx calibrate --threads 1` does so") != std::string::npos);
  std::string why;
  CHECK(pick_best_device(g, {{"N", 4}}, 1, &why) == pick_best_device());
  CHECK(why.find("none of those was measured") != std::string::npos);

  save_device_speeds(some_speeds(Device::cpu()), device_speeds_file(Device::cpu(), 1));
  REQUIRE(of_cpu().us);
  const double flops = 2.0 * 1024 * 256 * 512, bytes = 4.0 * (1024 * 256 + 256 * 512 + 1024 * 512);
  CHECK(*of_cpu().us == doctest::Approx(2 + std::max(flops / 100e3, bytes / 10e3)).epsilon(0.01));
  CHECK(of_cpu().why.find("products") != std::string::npos);
  CHECK(pick_best_device(g, {{"N", 1024}}, 1) == Device::cpu());

  // Of a device that copies and is ten times as fast: worse for one row, better for many.
  for (const DeviceInfo& d : devices())
    if (d.available && !d.is_simulation && d.device != Device::cpu()) {
      DeviceSpeeds fast = some_speeds(d.device);
      for (double* x : {&fast.product_64_gflops, &fast.product_256_gflops, &fast.product_1024_gflops, &fast.near_gbs,
                        &fast.middle_gbs, &fast.memory_gbs})
        *x *= 100;
      fast.run_us = 500;
      save_device_speeds(fast, device_speeds_file(d.device, 1));
      CHECK(pick_best_device(g, {{"N", 1}}, 1) == Device::cpu());
      CHECK(pick_best_device(g, {{"N", 65536}}, 1, &why) == d.device);
      CHECK(why.starts_with(d.device.name() + " for 'product', by the predicted times:"));
      for (const DevicePrediction& p : predict_devices(g, {{"N", 65536}}, 1))
        CHECK_MESSAGE(why.find(p.device.name() + ": " + p.why) != std::string::npos, why);
      std::filesystem::remove(device_speeds_file(d.device, 1));
    }
}

TEST_CASE("what cannot be predicted is said") {
  const OwnCache cache;
  const Graph g = product_graph(Dim::symbol("N"));
  CHECK(message_of([&] { predict_devices(g); }).find("N") != std::string::npos);
  const std::string path = device_speeds_file(Device::cpu(), 1);
  for (const char* text : {"", "{", "[]", "{\"format\": \"rlx device speeds 1\"}"}) {
    std::ofstream(path) << text;
    CHECK(message_of([&] { load_device_speeds(path); }).find(path) != std::string::npos);
    for (const DevicePrediction& p : predict_devices(g, {{"N", 4}}, 1))
      if (p.device == Device::cpu()) CHECK((!p.us && p.why.find(path) != std::string::npos));
  }
  std::string damaged = some_speeds(Device::cpu()).json();
  damaged.replace(damaged.find("100"), 3, "-10");
  CHECK(message_of([&] { DeviceSpeeds::parse(damaged); }).find("is -10") != std::string::npos);
  const DeviceSpeeds back = DeviceSpeeds::parse(some_speeds(Device::cpu()).json());
  CHECK(back.json() == some_speeds(Device::cpu()).json());
}

TEST_CASE("every speed of the processor is measured") {
  const DeviceSpeeds s = measure_device(Device::cpu(), 1);
  for (double x :
       {s.product_64_gflops, s.product_256_gflops, s.product_1024_gflops, s.convolution_gflops, s.attention_gflops,
        s.near_gbs, s.middle_gbs, s.memory_gbs, s.function_gelements, s.sort_gcompares, s.run_us})
    CHECK(x > 0);
  CHECK(s.node_us >= 0);
  CHECK(s.copy_gbs == 0);
  CHECK(s.threads == 1);
}
