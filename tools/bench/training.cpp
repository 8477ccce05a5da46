// The training workloads of `rlx bench`: an epoch or a step of a TrainingSession, with Adam at a rate of 0.001.
// bench/yardstick runs the same nets in PyTorch and JAX.
#include <cmath>
#include <memory>

#include "rlx/element.h"
#include "rlx/models.h"
#include "rlx/train.h"
#include "tools/bench/cases.h"
#include "tools/numpy_random.h"

namespace rlx::tools {
namespace {

constexpr int64_t kBatch = 64, kBatches = 156;              // 9,984 digits
constexpr int64_t kRows = 16, kLength = 128, kWidth = 256;  // of the encoder

void output_loss(Graph& g, Value logits) {
  Value labels = g.input("labels", i64, {logits.dim(0)});
  g.output(mean(softmax_cross_entropy_with_logits(logits, labels), {0}), "loss");
}

Graph mlp() {
  Graph g("mlp");
  ModelBuilder b(g);
  Value x = g.input("x", f32, {kBatch, 784});
  x = relu(b.linear(relu(b.linear(x, "hidden.0", 256)), "hidden.1", 128));
  output_loss(g, b.linear(x, "out", 10));
  return g;
}
Graph cnn() {
  Graph g("cnn");
  ModelBuilder b(g);
  Value x = reshape(g.input("x", f32, {kBatch, 784}), {kBatch, 1, 28, 28});
  for (int64_t channels : {16, 32})
    x = b.within(text_of("conv.", channels), [&] {
      Value y = conv(x, b.param("weight", {channels, x.dim(1), 3, 3}), {.padding = {1, 1}});
      y = relu(y + broadcast_in_dim(b.param("bias", {channels}), y.dims(), {1}));
      return pool(y, {.kernel_size = {2, 2}});
    });
  output_loss(g, b.linear(reshape(x, {kBatch, 1568}), "out", 10));
  return g;
}
/// Four pre-norm layers, 8 heads, inner width 1024.
Graph encoder() {
  Graph g("encoder");
  ModelBuilder b(g);
  Value x = b.embedding(g.input("x", i64, {kRows, kLength}), "words", 1000, kWidth);
  x = x + broadcast_to(b.param("places", {kLength, kWidth}), x.dims());
  for (int64_t layer = 0; layer < 4; ++layer)
    x = b.within(text_of("layers.", layer), [&] {
      Value all = b.linear(b.layer_norm(x, "norm1", 1e-5), "qkv", 3 * kWidth);
      auto part = [&](int64_t i) { return slice_axis(all, 2, i * kWidth, (i + 1) * kWidth); };
      Value mixed = attention(part(0), part(1), part(2), {.heads = 8, .layout = AttentionLayout::packed});
      Value y = x + b.linear(mixed, "out", kWidth);
      return y + b.feed_forward(b.layer_norm(y, "norm2", 1e-5), "up", "down", 1024, Activation::gelu);
    });
  output_loss(g, b.linear(mean(b.layer_norm(x, "norm", 1e-5), {1}), "head", 10));
  return g;
}

/// As PyTorch draws them, nearly: within 1 / sqrt(fan_in); norms 1, biases 0.
NamedTensors initial(const Graph& g) {
  NumpyRandom random(0);
  NamedTensors params;
  for (Ref r : g.params()) {
    const std::string& name = g.node(r).name;
    Tensor t(f32, shape_of(g.type(r).dims));
    double fan_in = 1;
    for (size_t d = 1; d < t.rank(); ++d) fan_in *= static_cast<double>(t.shape()[d]);
    const double bound = 1 / std::sqrt(fan_in);
    for (float& v : t.mutable_values<float>())
      v = t.rank() > 1               ? static_cast<float>(bound * (2 * random.next_double() - 1))
          : name.ends_with("weight") ? 1.0F
                                     : 0.0F;
    params.emplace(name, std::move(t));
  }
  return params;
}

/// Random pictures and tokens; what they are changes no time.
std::vector<NamedTensor> batch(const Graph& g, NumpyRandom& random) {
  std::vector<NamedTensor> arrays;
  for (Ref r : g.inputs()) {
    const Type& type = g.type(r);
    Tensor t(type.dtype, shape_of(type.dims));
    const bool labels = g.node(r).name == "labels";
    for (size_t i = 0; i < t.element_count(); ++i)
      if (labels) store<int64_t>(t, i, static_cast<int64_t>(i % 10));
      else if (type.dtype == i64) store<int64_t>(t, i, static_cast<int64_t>(1000 * random.next_double()));
      else store<double>(t, i, random.next_double());
    arrays.emplace_back(g.node(r).name, std::move(t));
  }
  return arrays;
}

}  // namespace

BenchCase training_case(const std::string& name) {
  const bool is_encoder = name == "train_encoder";
  Graph (*net)() = is_encoder ? encoder : name == "train_cnn" ? cnn : mlp;
  auto params = std::make_shared<NamedTensors>();
  auto batches = std::make_shared<std::vector<std::vector<NamedTensor>>>();
  BenchCase c;
  c.name = name;
  c.prepare = [=](BenchCase&) {
    Graph g = net();
    NumpyRandom random(0);
    *params = initial(g);
    for (int64_t i = 0; i < (is_encoder ? 1 : kBatches); ++i) batches->push_back(batch(g, random));
  };
  c.start = [=](const BenchCase&, const Session& session, std::vector<Tensor>& results) -> BenchRun {
    TrainConfig config;
    config.learning_rate = 1e-3;
    auto training = std::make_shared<TrainingSession>(net(), *params, config, session);
    results = {Tensor(f32, {1})};
    return {[=, &results] {
      double last = 0;
      for (const auto& b : *batches) last = training->step(b).loss;
      results[0].mutable_values<float>()[0] = static_cast<float>(last);
    }};
  };
  return c;
}

}  // namespace rlx::tools
