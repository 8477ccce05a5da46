// The net of tests/golden/generate/quantization.py: conv, relu, max-pool, linear, and a cross-entropy.
#pragma once

#include "rlx/models.h"
#include "rlx/quantization.h"

namespace rlx::test {

inline Value net_logits(Graph& g, Value x, DType dtype) {
  ModelBuilder b(g, dtype);
  x = b.within("conv", [&] {
    Value y = conv(x, b.param("weight", {3, 1, 3, 3}), {.padding = {1, 1}});
    y = relu(y + broadcast_in_dim(b.param("bias", {3}), y.dims(), {1}));
    return pool(y, {.kernel_size = {2, 2}});
  });
  return b.linear(reshape(x, {x.dim(0), 48}), "out", 4);
}
inline Graph net(DType dtype = f32, const Dim& rows = Dim::symbol("N")) {
  Graph g("net");
  g.output(net_logits(g, g.input("x", dtype, {rows, 1, 8, 8}), dtype), "y");
  return g;
}
inline Graph net_loss(DType dtype = f32, const Dim& rows = Dim::symbol("N")) {
  Graph g("net_loss");
  Value x = g.input("x", dtype, {rows, 1, 8, 8}), t = g.input("t", i32, {rows});
  g.output(mean(softmax_cross_entropy_with_logits(net_logits(g, x, dtype), t), {0}), "loss");
  return g;
}
/// The tensors of a golden file whose names begin so, without that beginning.
inline NamedTensors tensors_under(const SafetensorsFile& file, const std::string& prefix) {
  NamedTensors found;
  for (const auto& e : file.entries())
    if (e.name.starts_with(prefix)) found.emplace(e.name.substr(prefix.size()), file.tensor(e.name));
  return found;
}
inline NamedTensors net_params(const SafetensorsFile& file, const std::string& prefix) {
  NamedTensors params;
  for (const char* name : {"conv.weight", "conv.bias", "out.weight", "out.bias"})
    params.emplace(name, file.tensor(prefix + name));
  return params;
}

}  // namespace rlx::test
