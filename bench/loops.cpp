// What a step of a loop costs beside its kernels: loops whose bodies do next to nothing, and one with a product. One
// JSON line a case: the fastest and the median time of a step in nanoseconds.
//
//   build/release/bench/loops [--threads T] [CASE...]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>

#include "rlx/ops.h"
#include "rlx/session.h"

using namespace rlx;

namespace {

constexpr int64_t kSteps = 1000;

/// h = tanh(h * w + x), stacked: an element-wise body over eight elements.
Graph scan_small() {
  Graph g("scan_1000_small");
  Value h = g.input("h", f32, {8}), x = g.input("x", f32, {kSteps, 8}), w = g.input("w", f32, {8});
  Graph body = trace(std::vector<Type>{{f32, {8}}, {f32, {8}}, {f32, {8}}}, [](Values v) {
    Value next = tanh(v[0] * v[2] + v[1]);
    return std::vector{next, next};
  });
  for (Value v : scan(g, {h, x, w}, {1, 1, kSteps, false, body})) g.output(v);
  return g;
}

/// h = tanh(W h + x) of 64 elements: a recurrent cell of batch 1, whose W is bound, so that it is packed once.
Graph scan_cell() {
  Graph g("scan_1000_cell");
  Value h = g.input("h", f32, {1, 64}), x = g.input("x", f32, {kSteps, 1, 64}), w = g.param("w", f32, {64, 64});
  Graph body = trace(std::vector<Type>{{f32, {1, 64}}, {f32, {1, 64}}, {f32, {64, 64}}}, [](Values v) {
    Value next = tanh(linear(v[0], v[2]) + v[1]);
    return std::vector{next, next};
  });
  for (Value v : scan(g, {h, x, w}, {1, 1, kSteps, false, body})) g.output(v);
  return g;
}

/// x = x * 0.5 + 1 until a counter has arrived: a condition and two kernels a trip.
Graph while_small() {
  Graph g("while_1000_small");
  Value x = g.input("x", f32, {8}), count = g.input("count", i32, {});
  std::vector<Type> types = {{f32, {8}}, {i32, {}}};
  Graph condition = trace(types, [](Values v) { return compare(v[1], v[1] * 0.0 + double(kSteps), Comparison::lt); });
  Graph body = trace(types, [](Values v) { return std::vector{v[0] * 0.5 + 1.0, v[1] + 1.0}; });
  for (Value v : while_loop({x, count}, {2, condition, body})) g.output(v);
  return g;
}

void measure(const Graph& g, int threads) {
  CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g);
  for (Ref r : g.params()) compiled.set_param(g.node(r).name, Tensor(g.type(r).dtype, shape_of(g.type(r).dims)));
  std::vector<Tensor> inputs, outputs(g.outputs().size());
  for (const Type& t : g.input_types()) inputs.emplace_back(t.dtype, shape_of(t.dims));
  std::vector<double> times;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  do {
    auto begin = std::chrono::steady_clock::now();
    compiled.run_into(inputs, outputs);
    times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
  } while (times.size() < 20 || std::chrono::steady_clock::now() < end);
  std::sort(times.begin(), times.end());
  std::printf("{\"case\": \"%s\", \"threads\": %d, \"step_ns\": %.0f, \"step_median_ns\": %.0f, \"runs\": %zu}\n",
              g.name().c_str(), threads, times.front() / kSteps, times[times.size() / 2] / kSteps, times.size());
}

}  // namespace

int main(int count, char** words) {
  int threads = 1;
  std::vector<std::string> wanted;
  for (int i = 1; i < count; ++i) {
    if (!std::strcmp(words[i], "--threads") && i + 1 < count) threads = std::max(1, std::atoi(words[++i]));
    else wanted.emplace_back(words[i]);
  }
  for (auto make : {scan_small, scan_cell, while_small}) {
    Graph g = make();
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), g.name()) != wanted.end()) measure(g, threads);
  }
}
