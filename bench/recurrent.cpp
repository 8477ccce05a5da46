// Sequence models with bound weights: NAME_stepsxhidden_bBATCH. One JSON line a case: the fastest and the median time
// of a run in milliseconds. recurrent.py runs this and PyTorch in turn.
//
//   build/release/bench/recurrent [--threads T] [--steps] [CASE...]
//
// --steps: what each step takes, the fastest of 20 runs, to standard error.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "autodiff/transforms.h"
#include "rlx/ops.h"
#include "rlx/session.h"

using namespace rlx;

namespace {

Graph stacked(const char* kind, int64_t steps, int64_t width, int64_t batch, int64_t layers, bool both) {
  Graph g(
      text_of(kind, "_", steps, "x", width, "_b", batch, layers > 1 ? text_of("_l", layers) : "", both ? "_both" : ""));
  bool is_lstm = !std::strcmp(kind, "lstm"), is_gru = !std::strcmp(kind, "gru");
  int64_t directions = both ? 2 : 1, rows = width * (is_lstm ? 4 : is_gru ? 3 : 1), blocks = layers * directions;
  Value x = g.input("x", f32, {batch, steps, width});
  Value w = g.param("w_ih", f32, {rows * width * directions * (1 + (layers - 1) * directions)});
  Value u = g.param("w_hh", f32, {rows * width * blocks}), b = g.param("bias", f32, {rows * blocks});
  RecurrentAttrs attrs{width, layers, both};
  auto out = is_lstm  ? lstm(x, w, u, b, attrs)
             : is_gru ? gru(x, w, u, b, g.param("b_hh", f32, {rows * blocks}), attrs)
                      : rnn(x, w, u, b, {width, layers, both});
  g.output(out[0]);
  return g;
}
/// Its value and its cotangents, weights included.
Graph gradient(const char* kind, int64_t steps, int64_t width, int64_t batch) {
  Graph g(text_of(kind, "_gradient_", steps, "x", width, "_b", batch));
  bool is_lstm = !std::strcmp(kind, "lstm"), is_gru = !std::strcmp(kind, "gru");
  int64_t rows = (is_lstm ? 4 : is_gru ? 3 : 1) * width;
  Value x = g.input("x", f32, {batch, steps, width}), w = g.input("w_ih", f32, {rows * width}),
        u = g.input("w_hh", f32, {rows * width}), b = g.input("bias", f32, {rows});
  g.output((is_lstm  ? lstm(x, w, u, b, {width})
            : is_gru ? gru(x, w, u, b, g.input("b_hh", f32, {rows}), {width})
                     : rnn(x, w, u, b, {width}))[0]);
  return value_and_vjp(g, std::vector<bool>(g.inputs().size(), true), {true});
}
/// The same from a cell written by hand, through `scan`.
Graph lstm_by_scan_gradient(int64_t steps, int64_t width, int64_t batch) {
  Graph g(text_of("scan_lstm_gradient_", steps, "x", width, "_b", batch));
  int64_t rows = 4 * width;
  Value x = g.input("x", f32, {steps, batch, width}), w = g.input("w_ih", f32, {rows, width}),
        u = g.input("w_hh", f32, {rows, width}), b = g.input("bias", f32, {rows});
  Type state{f32, {batch, width}};
  std::vector<Type> types = {state, state, state, w.type(), u.type(), b.type()};
  Graph cell = trace(types, [&](Values v) {
    Value all = linear(v[2], v[3]) + linear(v[0], v[4]) + v[5];
    auto gate = [&](int64_t i) { return slice_axis(all, 1, i * width, (i + 1) * width); };
    Value c = logistic(gate(1)) * v[1] + logistic(gate(0)) * tanh(gate(2)), h = logistic(gate(3)) * tanh(c);
    return std::vector{h, c, h};
  });
  Value zero = full(g, 0, state);
  g.output(scan(g, {zero, zero, x, w, u, b}, {2, 1, steps, false, cell})[2]);
  return value_and_vjp(g, {true, true, true, true}, {true});
}
Graph scan_graph(int64_t steps, int64_t channels, int64_t n, int64_t batch) {
  Graph g(text_of("selective_scan_", steps, "x", channels, "x", n, "_b", batch));
  Dims x = {batch, steps, channels}, b = {batch, steps, n};
  g.output(selective_scan(g.input("x", f32, x), g.input("delta", f32, x), g.input("a", f32, {channels, n}),
                          g.input("b", f32, b), g.input("c", f32, b))[0]);
  return g;
}
Graph mamba2_graph(int64_t steps, int64_t heads, int64_t width, int64_t n, int64_t batch) {
  Graph g(text_of("mamba2_", steps, "x", heads, "x", width, "x", n, "_b", batch));
  Dims b = {batch, steps, heads, n};
  g.output(mamba2(g.input("x", f32, {batch, steps, heads, width}), g.input("dt", f32, {batch, steps, heads}),
                  g.input("a", f32, {heads}), g.input("b", f32, b), g.input("c", f32, b))[0]);
  return g;
}
Graph delta_graph(int64_t steps, int64_t heads, int64_t n, int64_t batch) {
  Graph g(text_of("gated_delta_net_", steps, "x", heads, "x", n, "_b", batch));
  Dims q = {batch, steps, heads, n}, beta = {batch, steps, heads};
  g.output(gated_delta_net(g.input("q", f32, q), g.input("k", f32, q), g.input("v", f32, q), g.input("g", f32, beta),
                           g.input("beta", f32, beta))[0]);
  return g;
}

/// Numbers below 0.1 in size, negative for what is a logarithm: no state grows or dies.
Tensor filled(const Type& type, bool negative) {
  Tensor t(type.dtype, shape_of(type.dims));
  uint32_t seed = 1;
  for (size_t i = 0; i < t.element_count(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    double unit = (seed >> 8) * 0x1p-24;
    store<double>(t, i, 0.1 * (negative ? -unit : unit - 0.5));
  }
  return t;
}

/// The steps of a graph, in their order.
void print_steps(const CompiledGraph& compiled, const std::vector<Tensor>& inputs) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < inputs.size(); ++i) named.emplace_back(compiled.signature().inputs[i].name, inputs[i]);
  Profile fastest = compiled.profile(named);
  for (int run = 1; run < 20; ++run) {
    const Profile again = compiled.profile(named);
    for (size_t s = 0; s < fastest.steps.size(); ++s)
      fastest.steps[s].duration_us = std::min(fastest.steps[s].duration_us, again.steps[s].duration_us);
  }
  for (const Profile::Step& s : fastest.steps)
    std::fprintf(stderr, "%9.1f us  %-16s %s\n", s.duration_us, s.op.c_str(), s.kernel.c_str());
}

void measure(const Graph& g, int threads, bool steps) {
  CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g);
  for (Ref r : g.params()) compiled.set_param(g.node(r).name, filled(g.type(r), false));
  std::vector<Tensor> inputs, outputs(g.outputs().size());
  for (Ref r : g.inputs()) inputs.push_back(filled(g.type(r), g.node(r).name == "a" || g.node(r).name == "g"));
  compiled.run_into(inputs, outputs);
  if (steps) print_steps(compiled, inputs);
  std::vector<double> times;
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(600);
  do {
    auto begin = std::chrono::steady_clock::now();
    compiled.run_into(inputs, outputs);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  } while (times.size() < 5 || std::chrono::steady_clock::now() < end);
  std::sort(times.begin(), times.end());
  std::printf("{\"case\": \"%s\", \"threads\": %d, \"ms\": %.4f, \"median_ms\": %.4f, \"runs\": %zu}\n",
              g.name().c_str(), threads, times.front(), times[times.size() / 2], times.size());
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) {
  int threads = 1;
  bool steps = false;
  std::vector<std::string> wanted;
  for (int i = 1; i < count; ++i) {
    if (!std::strcmp(words[i], "--threads") && i + 1 < count) threads = std::max(1, std::atoi(words[++i]));
    else if (!std::strcmp(words[i], "--steps")) steps = true;
    else wanted.emplace_back(words[i]);
  }
  std::vector<Graph> all;
  for (const char* kind : {"lstm", "gru", "rnn"})
    for (int64_t batch : {1, 16}) all.push_back(stacked(kind, 128, 256, batch, 1, false));
  all.push_back(stacked("lstm", 128, 256, 1, 2, true));
  for (int64_t batch : {1, 16}) {
    for (const char* kind : {"lstm", "gru", "rnn"}) all.push_back(gradient(kind, 128, 256, batch));
    all.push_back(lstm_by_scan_gradient(128, 256, batch));
  }
  for (const char* kind : {"lstm", "gru", "rnn"}) all.push_back(gradient(kind, 64, 128, 16));
  all.push_back(scan_graph(256, 1024, 16, 1));
  all.push_back(mamba2_graph(256, 16, 64, 64, 1));
  all.push_back(delta_graph(256, 8, 128, 1));
  for (const Graph& g : all)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), g.name()) != wanted.end()) measure(g, threads, steps);
}
