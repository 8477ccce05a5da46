// Predictions of `rlx devices --for` beside measured times: graphs that `rlx calibrate` does not run, on each device
// that was measured (`rlx calibrate --device all --threads T`). One JSON line a graph and device, then one a device
// with the median of predicted / measured; and how often the device that is predicted to be the fastest is it, or is
// not 10 % slower than the fastest.
//
//   build/release/bench/predictions [--threads T] [--devices cpu,mlx]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>

#include "rlx/device_speed.h"
#include "rlx/ops.h"
#include "rlx/ops/control.h"
#include "rlx/session.h"

using namespace rlx;

namespace {

Graph mlp(int64_t rows, int64_t width, int64_t layers) {
  Graph g("mlp_" + std::to_string(rows) + "x" + std::to_string(width) + "x" + std::to_string(layers));
  Value x = g.input("x", f32, {rows, width});
  for (int64_t i = 0; i < layers; ++i)
    x = gelu(linear(x, g.param("w" + std::to_string(i), f32, {width, width}),
                    g.param("b" + std::to_string(i), f32, {width})));
  g.output(x, "y");
  return g;
}

Graph cnn(int64_t batch, int64_t extent, int64_t channels) {
  Graph g("cnn_" + std::to_string(batch) + "x" + std::to_string(extent) + "x" + std::to_string(channels));
  Value x = g.input("x", f32, {batch, channels, extent, extent});
  for (int i = 0; i < 3; ++i) {
    ConvAttrs attrs;
    attrs.padding_low = attrs.padding_high = {1, 1};
    x = relu(convolution(x, g.param("w" + std::to_string(i), f32, {channels, channels, 3, 3}), attrs));
  }
  g.output(reduce_sum(x, {2, 3}), "y");
  return g;
}

Graph rows(const char* name, int64_t n, int64_t columns, const std::function<Value(Graph&, Value)>& f) {
  Graph g(std::string(name) + "_" + std::to_string(n) + "x" + std::to_string(columns));
  g.output(f(g, g.input("x", f32, {n, columns})), "y");
  return g;
}

Graph self_attention(int64_t length, int64_t width) {
  Graph g("self_attention_" + std::to_string(length) + "x" + std::to_string(width));
  Value x = g.input("x", f32, {1, length, width});
  const int64_t heads = width / 64;
  const auto split = [&](const char* name) {
    return transpose(reshape(linear(x, g.param(name, f32, {width, width})), {1, length, heads, 64}), {0, 2, 1, 3});
  };
  AttentionAttrs attrs;
  attrs.heads = heads;
  Value y = attention(split("q"), split("k"), split("v"), attrs);
  g.output(linear(reshape(transpose(y, {0, 2, 1, 3}), {1, length, width}), g.param("o", f32, {width, width})), "y");
  return g;
}

Graph loop(int64_t steps, int64_t width) {
  Graph g("loop_" + std::to_string(steps) + "x" + std::to_string(width));
  Value h = g.input("h", f32, {4, width}), w = g.input("w", f32, {width, width}),
        x = g.input("x", f32, {steps, 4, width});
  const Type state{f32, {4, width}};
  const Graph body = trace(std::vector<Type>{state, state, {f32, {width, width}}}, [](Values v) {
    Value next = tanh(matmul(v[0], v[2]) + v[1]);
    return std::vector{next, next};
  });
  g.output(scan(g, {h, x, w}, {1, 1, steps, false, body})[0], "h");
  return g;
}

std::vector<Graph> graphs() {
  const auto norm = [](Graph& g, Value x) {
    const Dims width = {x.dim(1)};
    return layer_norm(x, g.param("gamma", f32, width), g.param("beta", f32, width));
  };
  return {mlp(1, 512, 4),
          mlp(32, 512, 4),
          mlp(256, 1024, 3),
          mlp(7, 96, 8),
          mlp(128, 128, 12),
          cnn(1, 28, 32),
          cnn(8, 28, 32),
          cnn(1, 14, 128),
          cnn(4, 56, 16),
          rows("softmax", 512, 768, [](Graph&, Value x) { return softmax(x); }),
          rows("layer_norm", 2048, 512, norm),
          rows("layer_norm", 16, 256, norm),
          rows("chain", 2048, 2048, [](Graph&, Value x) { return x * 2.0 + tanh(x) - x * x; }),
          rows("chain", 64, 64, [](Graph&, Value x) { return x * 2.0 + tanh(x) - x * x; }),
          rows("sort", 256, 1000, [](Graph&, Value x) { return sort_values(x); }),
          rows("cumsum", 1024, 1024, [](Graph&, Value x) { return cumsum(x, 1); }),
          self_attention(64, 256),
          self_attention(384, 512),
          loop(50, 128),
          loop(20, 512)};
}

Tensor some_numbers(const Type& type) {
  Tensor t(type.dtype, shape_of(type.dims));
  int64_t i = 0;
  if (type.dtype == f32)
    for (float& v : t.mutable_values<float>()) v = static_cast<float>(i++ * 7919 % 2003 - 1001) / 4004;
  return t;
}

double measured_us(const Graph& g, const Device& device, int threads) {
  CompiledGraph compiled = Session(device, {threads}).compile(g);
  std::vector<Tensor> inputs, outputs(g.outputs().size());
  for (Ref r : g.params()) compiled.set_param(g.node(r).name, some_numbers(g.type(r)));
  for (const Type& t : g.input_types()) inputs.push_back(some_numbers(t));
  double best = 1e30;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  compiled.run_into(inputs, outputs);
  do {
    const auto begin = std::chrono::steady_clock::now();
    compiled.run_into(inputs, outputs);
    best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  } while (std::chrono::steady_clock::now() < end);
  return best;
}

}  // namespace

int main(int count, char** words) {
  int threads = 1;
  std::string chosen;  // empty: all
  for (int i = 1; i + 1 < count; i += 2)
    if (!std::strcmp(words[i], "--threads")) threads = std::max(1, std::atoi(words[i + 1]));
    else if (!std::strcmp(words[i], "--devices")) chosen = "," + std::string(words[i + 1]) + ",";
  std::map<std::string, std::vector<double>> ratios;
  int named = 0, compared = 0;
  for (const Graph& g : graphs()) {
    double least = 1e30, of_predicted = 0;  // measured times: the shortest, and that of the device that is predicted
    for (const DevicePrediction& p : predict_devices(g, {}, threads)) {
      if (!chosen.empty() && chosen.find("," + p.device.name() + ",") == std::string::npos) continue;
      if (!p.us) {
        std::printf("{\"graph\": \"%s\", \"device\": \"%s\", \"why\": \"no prediction\"}\n", g.name().c_str(),
                    p.device.name().c_str());
        continue;
      }
      const double us = measured_us(g, p.device, threads);
      if (of_predicted == 0) of_predicted = us;
      least = std::min(least, us);
      ratios[p.device.name()].push_back(*p.us / us);
      std::printf(
          "{\"graph\": \"%s\", \"device\": \"%s\", \"predicted_us\": %.1f, \"measured_us\": %.1f, \"ratio\": %.2f}\n",
          g.name().c_str(), p.device.name().c_str(), *p.us, us, *p.us / us);
    }
    if (of_predicted > 0) ++compared, named += of_predicted <= 1.1 * least;
  }
  for (auto& [device, all] : ratios) {
    std::sort(all.begin(), all.end());
    std::printf("{\"device\": \"%s\", \"graphs\": %zu, \"median_ratio\": %.2f, \"least\": %.2f, \"most\": %.2f}\n",
                device.c_str(), all.size(), all[all.size() / 2], all.front(), all.back());
  }
  std::printf("{\"threads\": %d, \"graphs\": %d, \"fastest_named\": %d}\n", threads, compared, named);
}
