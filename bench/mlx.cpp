// What the device mlx costs beside a program that calls MLX's own C++ API for the same graph: both get their inputs
// from the host and leave their outputs there, and take turns. One JSON line for each graph and mode, in microseconds:
// the medians, the fastest, the medians of what all threads of the process took, and the median of the ratios of
// neighbours.
//
//   build/release/bench/mlx [--rounds N] [CASE...]
#include <mlx/mlx.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "rlx/ops.h"
#include "rlx/session.h"

namespace mx = mlx::core;

namespace {

using Arrays = std::vector<mx::array>;

/// A graph in RLX, and the same as a function of MLX: first the inputs, then the params in the order of the graph.
struct Case {
  std::string name;
  rlx::Graph graph;
  std::function<Arrays(const Arrays&)> plain;
};

/// x * w + b, then tanh, over and over: 50 nodes in which there is next to nothing to compute.
Case chain_50() {
  rlx::Graph g("chain_50");
  rlx::Value x = g.input("x", rlx::f32, {16, 16}), w = g.param("w", rlx::f32, {16, 16}),
             b = g.param("b", rlx::f32, {16});
  for (int i = 0; i < 12; ++i) x = rlx::tanh(rlx::matmul(x, w) + b) * x;
  g.output(x + b);
  return {"chain_50", std::move(g), [](const Arrays& v) {
            mx::array y = v[0];
            for (int i = 0; i < 12; ++i) y = mx::multiply(mx::tanh(mx::add(mx::matmul(y, v[1]), v[2])), y);
            return Arrays{mx::add(y, v[2])};
          }};
}

/// Blocks of a transformer without attention: a norm, two products, gelu, a residual.
Case blocks(int rows, int width, int count) {
  const std::string name = "blocks_" + std::to_string(rows) + "x" + std::to_string(width);
  rlx::Graph g(name);
  rlx::Value x = g.input("x", rlx::f32, {rows, width});
  rlx::Value scale = g.param("scale", rlx::f32, {width}), shift = g.param("shift", rlx::f32, {width});
  rlx::Value up = g.param("up", rlx::f32, {width, 4 * width}), down = g.param("down", rlx::f32, {4 * width, width});
  for (int i = 0; i < count; ++i)
    x = x + rlx::matmul(rlx::relu(rlx::matmul(rlx::layer_norm(x, scale, shift), up)), down);
  g.output(x);
  return {name, std::move(g), [count](const Arrays& v) {
            mx::array y = v[0];
            for (int i = 0; i < count; ++i) {
              mx::array h = mx::matmul(mx::fast::layer_norm(y, v[1], v[2], 1e-5F), v[3]);
              y = mx::add(y, mx::matmul(mx::maximum(h, mx::array(0.0F)), v[4]));
            }
            return Arrays{y};
          }};
}

/// One product of two inputs.
Case product(int n) {
  const std::string name = "matmul_" + std::to_string(n);
  rlx::Graph g(name);
  rlx::Value a = g.input("a", rlx::f32, {n, n}), b = g.input("b", rlx::f32, {n, n});
  g.output(rlx::matmul(a, b));
  return {name, std::move(g), [](const Arrays& v) { return Arrays{mx::matmul(v[0], v[1])}; }};
}

rlx::Tensor random_tensor(const rlx::Type& type, std::mt19937& random) {
  rlx::Tensor t(type.dtype, rlx::shape_of(type.dims));
  std::normal_distribution<float> normal(0, 0.05F);
  for (float& x : t.mutable_values<float>()) x = normal(random);
  return t;
}

mx::array array_of(const rlx::Tensor& t) {
  mx::Shape shape(t.shape().begin(), t.shape().end());
  return mx::array(t.values<float>().data(), shape);
}

double microseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

struct Times {
  std::vector<double> elapsed = {}, of_threads = {};
  void add(const std::function<void()>& work) {
    const double begin = microseconds(CLOCK_MONOTONIC), threads = microseconds(CLOCK_PROCESS_CPUTIME_ID);
    work();
    elapsed.push_back(microseconds(CLOCK_MONOTONIC) - begin);
    of_threads.push_back(microseconds(CLOCK_PROCESS_CPUTIME_ID) - threads);
  }
};

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
  return all[all.size() / 2];
}
double least(const std::vector<double>& all) { return *std::min_element(all.begin(), all.end()); }

void measure(const Case& c, const std::string& mode, int rounds) {
  std::mt19937 random(1);
  rlx::CompiledGraph compiled = rlx::Session(rlx::Device("mlx", 0, {mode})).compile(c.graph);
  std::vector<rlx::Tensor> inputs, outputs(c.graph.outputs().size());
  Arrays params;
  for (const rlx::Type& type : c.graph.input_types()) inputs.push_back(random_tensor(type, random));
  for (rlx::Ref r : c.graph.params()) {
    const rlx::Tensor value = random_tensor(c.graph.type(r), random);
    compiled.set_param(c.graph.node(r).name, value);
    params.push_back(array_of(value));
  }
  mx::eval(params);
  const auto function = mode == "compiled" ? mx::compile(c.plain) : c.plain;
  std::vector<float> result;
  const auto plain = [&] {
    Arrays given;
    for (const rlx::Tensor& t : inputs) given.push_back(array_of(t));
    given.insert(given.end(), params.begin(), params.end());
    Arrays made = function(given);
    mx::eval(made);
    result.assign(made[0].data<float>(), made[0].data<float>() + made[0].size());
  };
  const auto ours = [&] { compiled.run_into(inputs, outputs); };
  for (int i = 0; i < 3; ++i) plain(), ours();
  double apart = 0;
  for (size_t i = 0; i < result.size(); ++i)
    apart = std::max(apart, static_cast<double>(std::abs(result[i] - outputs[0].values<float>()[i])));
  Times of_plain, of_ours;
  std::vector<double> ratios;
  for (int i = 0; i < rounds; ++i) {
    if (i % 2 == 0) of_plain.add(plain), of_ours.add(ours);
    else of_ours.add(ours), of_plain.add(plain);
    ratios.push_back(of_ours.elapsed.back() / of_plain.elapsed.back());
  }
  std::printf(
      "{\"case\": \"%s\", \"mode\": \"%s\", \"mlx_us\": %.1f, \"rlx_us\": %.1f, \"mlx_fastest_us\": %.1f, "
      "\"rlx_fastest_us\": %.1f, \"mlx_cpu_us\": %.1f, \"rlx_cpu_us\": %.1f, \"ratio\": %.3f, "
      "\"difference\": %.2g}\n",
      c.name.c_str(), mode.c_str(), median(of_plain.elapsed), median(of_ours.elapsed), least(of_plain.elapsed),
      least(of_ours.elapsed), median(of_plain.of_threads), median(of_ours.of_threads), median(ratios), apart);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** words) try {
  int rounds = 200;
  std::vector<std::string> wanted;
  for (int i = 1; i < count; ++i) {
    if (!std::strcmp(words[i], "--rounds") && i + 1 < count) rounds = std::max(1, std::atoi(words[++i]));
    else wanted.emplace_back(words[i]);
  }
  const Case all[] = {chain_50(), blocks(16, 384, 6), blocks(512, 384, 6), product(512), product(2048)};
  for (const Case& c : all)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), c.name) != wanted.end())
      for (const char* mode : {"lazy", "compiled"})
        measure(c, mode, c.name == "matmul_2048" ? (rounds + 9) / 10 : rounds);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
