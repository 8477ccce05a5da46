// What a cache that grows costs: a decoder of small layers, one token a step, whose graph has a symbol for the number
// of tokens before it. Each step runs twice: the first run meets a new length, the second one does not, so that their
// difference is what the framework does for a length. One JSON line a place of the sequence: medians of the steps
// around it, in microseconds, and the resident memory there.
//
//   build/release/bench/decoder [--threads T] [--tokens N] [--layers L] [--heads H] [--head_width D]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include "rlx/ops.h"
#include "rlx/session.h"

using namespace rlx;

namespace {

struct Size {
  int64_t layers = 4, heads = 4, head_width = 16;
  int64_t width() const { return heads * head_width; }
};

/// Inputs: x[1, 1, width], cos and sin of the position, and keys and values of the tokens before, one pair a layer.
/// Outputs: y, and the keys and values with the new token's.
Graph decoder(const Size& size) {
  const int64_t width = size.width();
  const Dim past = Dim::symbol("past");
  Graph g("decoder");
  Value x = g.input("x", f32, {1, 1, width});
  Value cos = g.input("cos", f32, {1, size.head_width / 2}), sin = g.input("sin", f32, {1, size.head_width / 2});
  for (int64_t layer = 0; layer < size.layers; ++layer) {
    const std::string at = "layer" + std::to_string(layer) + ".";
    const auto weight = [&](const char* name, int64_t in, int64_t out) { return g.param(at + name, f32, {out, in}); };
    const auto heads = [&](Value v) {
      return transpose(reshape(v, {1, 1, size.heads, size.head_width}), {0, 2, 1, 3});
    };
    Value old_k = g.input(at + "k", f32, {1, size.heads, past, size.head_width});
    Value old_v = g.input(at + "v", f32, {1, size.heads, past, size.head_width});
    Value h = rms_norm(x, g.param(at + "norm1", f32, {width}));
    Value q = rope(heads(linear(h, weight("q", width, width))), cos, sin, {size.heads});
    Value k = rope(heads(linear(h, weight("k_new", width, width))), cos, sin, {size.heads});
    Value v = heads(linear(h, weight("v_new", width, width)));
    k = concatenate({old_k, k}, 2), v = concatenate({old_v, v}, 2);
    g.output(k, at + "k"), g.output(v, at + "v");
    Value a = transpose(attention(q, k, v, {size.heads}), {0, 2, 1, 3});
    x = x + linear(reshape(a, {1, 1, width}), weight("o", width, width));
    h = rms_norm(x, g.param(at + "norm2", f32, {width}));
    Value gate = silu(linear(h, weight("gate", width, 2 * width)));
    x = x + linear(gate * linear(h, weight("up", width, 2 * width)), weight("down", 2 * width, width));
  }
  g.output(rms_norm(x, g.param("norm", f32, {width})), "y");
  return g;
}

Tensor random_tensor(const Type& type, std::mt19937& random) {
  Tensor t(type.dtype, shape_of(type.dims));
  std::uniform_real_distribution<float> values(-0.2f, 0.2f);
  for (float& x : t.mutable_values<float>()) x = values(random);
  return t;
}

double resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

}  // namespace

int main(int count, char** words) {
  Size size;
  int64_t tokens = 2000;
  int threads = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    const int64_t n = std::max(1, std::atoi(words[i + 1]));
    if (!std::strcmp(words[i], "--threads")) threads = static_cast<int>(n);
    if (!std::strcmp(words[i], "--tokens")) tokens = n;
    if (!std::strcmp(words[i], "--layers")) size.layers = n;
    if (!std::strcmp(words[i], "--heads")) size.heads = n;
    if (!std::strcmp(words[i], "--head_width")) size.head_width = n;
  }
  std::mt19937 random(1);
  const Graph g = decoder(size);
  CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g);
  for (Ref r : g.params()) compiled.set_param(g.node(r).name, random_tensor(g.type(r), random));
  std::vector<Tensor> inputs;
  for (const Type& type : g.input_types())
    inputs.push_back(random_tensor(
        {type.dtype, is_static(type.dims) ? type.dims : Dims{1, size.heads, 0, size.head_width}}, random));
  std::vector<double> first, second;
  const auto timed_run = [&](std::vector<double>& times) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Tensor> outputs = compiled.run_ordered(inputs);
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    return outputs;
  };
  for (int64_t token = 1; token <= tokens; ++token) {
    timed_run(first);
    std::vector<Tensor> outputs = timed_run(second);
    for (size_t i = 3; i < inputs.size(); ++i) inputs[i] = std::move(outputs[i - 3]);
    if (token != 10 && token != 100 && token % 1000 != 0) continue;
    const auto median = [&](const std::vector<double>& times) {
      std::vector<double> last(times.end() - std::min<int64_t>(token / 2, 50), times.end());
      std::sort(last.begin(), last.end());
      return last[last.size() / 2];
    };
    std::printf(
        "{\"token\": %ld, \"new_length_us\": %.1f, \"same_length_us\": %.1f, \"difference_us\": %.1f, "
        "\"resident_mib\": %.1f}\n",
        static_cast<long>(token), median(first), median(second), median(first) - median(second), resident_mib());
  }
}
