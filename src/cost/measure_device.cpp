// The measurements of `rlx calibrate` for one device: the shortest of several runs of graphs that a session compiles,
// as any user's.
#include <algorithm>
#include <chrono>
#include <iterator>

#include "backends/registry.h"
#include "cost/shortest_run.h"
#include "rlx/device_speed.h"
#include "rlx/ops.h"
#include "rlx/ops/control.h"
#include "rlx/session.h"

namespace rlx {
namespace {

constexpr int kFirstIsParam = -1;

/// Kept apart from what follows, so that it is written to memory and read again.
Value added(std::vector<Value>& in) {
  return optimization_barrier({in[0] + broadcast_in_dim(in[1], in[0].dims(), {1})})[0];
}
Value largest(Value x) {
  Axes all;
  for (int64_t axis = 0; axis < x.rank(); ++axis) all.push_back(axis);
  return reduce_max(x, all);
}

class Measurer {
 public:
  Measurer(const Device& device, int threads) : session_(device, {threads}) {}
  int threads() const { return session_.threads(); }

  /// Seconds of a run of `build` on inputs of these shapes, of which the last `weights` are params, bound once, or the
  /// first one if it is kFirstIsParam.
  template <class Build>
  double run(const std::vector<Shape>& shapes, Build build, int weights = 0) const {
    Graph g("speed");
    std::vector<Value> in;
    std::vector<Tensor> given;
    std::map<std::string, Tensor, std::less<>> params;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const std::string name = text_of("x", i);
      const Dims dims(shapes[i].begin(), shapes[i].end());
      const bool is_param = weights == kFirstIsParam ? i == 0 : i + static_cast<size_t>(weights) >= shapes.size();
      if (is_param) {
        in.push_back(g.param(name, f32, dims));
        params.emplace(name, repeating_numbers(shapes[i]));
      } else {
        in.push_back(g.input(name, f32, dims));
        given.push_back(repeating_numbers(shapes[i]));
      }
    }
    g.output(build(in), "y");
    CompiledGraph compiled = session_.compile(g);
    compiled.set_params(params);
    std::vector<Tensor> results(1);
    return shortest_run([&] { compiled.run_into(given, results); });
  }

 private:
  Session session_;
};

}  // namespace

DeviceSpeeds measure_device(const Device& device, int threads,
                            const std::function<void(size_t, size_t, std::string_view)>& progress) {
  DeviceSpeeds s;
  s.device = device.name(), s.description = backend_of(device)->description();
  const Measurer on(device, threads);
  s.threads = on.threads();
  double overhead = 0;  // of a run, in seconds
  const auto apart = [&](double seconds) { return std::max(seconds - overhead, seconds * 0.05); };
  // A product's result is summed, so that bringing it to the host is not what is measured.
  const auto product = [&](int64_t n) {
    const double seconds = on.run(
        {{n, n}, {n, n}},
        [](auto& in) {
          return reduce_sum(matmul(in[0], in[1]), {0, 1});
        },
        1);
    const auto wide = static_cast<double>(n);
    return 2 * wide * wide * wide / apart(seconds) * 1e-9;
  };
  // Elements that the device has as a param, and a number that comes with the run, so that nothing is computed before
  // it. Of the results one number goes back to the host.
  const auto moved_gbs = [&](int64_t n) {
    const double seconds = on.run(
        {{n, n}, {1}}, [](auto& in) { return largest(added(in)); }, kFirstIsParam);
    const double bytes = 4.0 * static_cast<double>(n * n);  // read, written, and read again
    return 3 * bytes / apart(seconds) * 1e-9;
  };
  constexpr int kNodes = 64;
  const struct {
    const char* what;
    std::function<void()> measure;
  } all[] = {
      {"a run of one op",
       [&] {
         overhead = on.run({{16}}, [](auto& in) { return in[0] + in[0]; });
         s.run_us = overhead * 1e6;
       }},
      {"nodes",
       [&] {
         // Sums that depend on one another and that no pass joins.
         const double seconds = on.run({{2, 8}}, [](auto& in) {
           Value x = in[0];
           for (int i = 0; i < kNodes; ++i) x = cumsum(x, 1);
           return x;
         });
         s.node_us = std::max(0.0, seconds - overhead) * 1e6 / kNodes;
       }},
      {"memory near by", [&] { s.near_gbs = moved_gbs(256); }},
      {"memory further off", [&] { s.middle_gbs = moved_gbs(1024); }},
      {"memory", [&] { s.memory_gbs = moved_gbs(4096); }},
      {"sorts",
       [&] {
         const double seconds = on.run(
             {{256, 1024}, {1}}, [](auto& in) { return largest(sort_values(added(in))); }, kFirstIsParam);
         s.sort_gcompares = 256.0 * 1024 * 10 / apart(seconds) * 1e-9;
       }},
      {"functions",
       [&] {
         // What tanh takes beyond an addition to as many elements.
         const auto of = [&](auto f) { return on.run({{512, 512}, {1}}, f, kFirstIsParam); };
         const double seconds =
             of([](auto& in) { return largest(tanh(added(in))); }) - of([](auto& in) { return largest(added(in)); });
         s.function_gelements = 512.0 * 512 / std::max(seconds, 1e-9) * 1e-9;
       }},
      {"small products", [&] { s.product_64_gflops = product(64); }},
      {"products", [&] { s.product_256_gflops = product(256); }},
      {"large products", [&] { s.product_1024_gflops = product(1024); }},
      {"convolutions",
       [&] {
         const double seconds = on.run(
             {{1, 64, 56, 56}, {64, 64, 3, 3}},
             [](auto& in) {
               ConvAttrs attrs;
               attrs.padding_low = attrs.padding_high = {1, 1};
               return reduce_sum(convolution(in[0], in[1], attrs), {0, 1, 2, 3});
             },
             1);
         s.convolution_gflops = 2.0 * 64 * 56 * 56 * 64 * 9 / apart(seconds) * 1e-9;
       }},
      {"attention",
       [&] {
         AttentionAttrs attrs;
         attrs.heads = 12;
         const Shape heads = {1, 12, 256, 64};
         const double seconds = on.run({heads, heads, heads}, [&](auto& in) {
           return reduce_sum(attention(in[0], in[1], in[2], attrs), {0, 1, 2, 3});
         });
         s.attention_gflops = 4.0 * 12 * 256 * 256 * 64 / apart(seconds) * 1e-9;
       }},
      {"copies",
       [&] {
         if (!backend_of(device)->has_own_memory()) return;
         const double there = on.run({{2048, 2048}}, [](auto& in) { return in[0] + 1.0; });
         s.copy_gbs = 2 * 4.0 * 2048 * 2048 / apart(there) * 1e-9;
       }},
  };
  for (size_t i = 0; i < std::size(all); ++i) {
    if (progress) progress(i, std::size(all), all[i].what);
    with_context([&] { return text_of("measuring ", all[i].what, " on ", device); }, all[i].measure);
  }
  if (progress) progress(std::size(all), std::size(all), "");
  return s;
}

}  // namespace rlx
