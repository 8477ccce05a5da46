// Models on the device mlx, in each of its modes, beside the processor: a convolutional net in training, a decoder with
// its caches, a recurrent net, a net on positive definite matrices, splats.
#include <doctest/doctest.h>

#include "mlx/modes.h"
#include "rlx/autodiff.h"
#include "rlx/extras/splat.h"
#include "rlx/models.h"
#include "rlx/models/recurrent.h"
#include "rlx/models/transformer.h"
#include "rlx/ops.h"
#include "rlx/ops/spd.h"
#include "rlx/train.h"
#include "support/compare.h"

namespace rlx::test::mlx_models {
namespace {

using Params = std::map<std::string, Tensor, std::less<>>;

/// Numbers for each param of the graph, small enough that activations stay near 1.
Params params_of(const Graph& g, double size = 0.2) {
  Params params;
  for (Ref r : g.params())
    params[g.node(r).name] = random_tensor(g.type(r).dtype, shape_of(g.type(r).dims), 1 + params.size(), -size, size);
  return params;
}
CompiledGraph compiled_on(const Device& device, const Graph& g, const Params& params, CompileOptions options = {}) {
  CompiledGraph compiled = Session(device).compile(g, options);
  compiled.set_params(params);
  return compiled;
}

/// Runs on the processor and on mlx in each mode: f32 results within `tolerance` (1 + |wanted|).
void check_beside_cpu(const Graph& g, const Params& params, const std::vector<NamedTensor>& inputs, double tolerance) {
  std::vector<Tensor> wanted;
  for (const Device& device : mlx_modes()) {
    CAPTURE(device.name());
    if (wanted.empty()) wanted = compiled_on(Device::cpu(), g, params).run(inputs);
    const auto got = compiled_on(device, g, params).run(inputs);
    CHECK(difference(got, wanted, tolerance) == "");
    MESSAGE(g.name(), " in mode ", device.options().back(), ": ", largest_difference(got, wanted));
  }
}

// ---- a convolutional net ----

constexpr int64_t kImages = 16, kClasses = 10;

/// The net of examples/mnist_cnn.toml with fewer channels: of images of 28 x 28 and their classes, the mean loss.
Graph convolutional_net() {
  Graph g("digits");
  ModelBuilder b(g);
  Value x = g.input("x", f32, {kImages, 1, 28, 28}), labels = g.input("t", i32, {kImages});
  for (int64_t channels : {4, 8})
    x = pool(relu(b.conv(x, text_of("conv.", channels), channels, {3, 3}, {.padding = {1, 1}})),
             {.kernel_size = {2, 2}});
  x = reshape(x, {kImages, 8 * 7 * 7});
  x = b.linear(relu(b.linear(x, "hidden", 32)), "out", kClasses);
  g.output(mean(softmax_cross_entropy_with_logits(x, labels), {0}), "loss");
  return g;
}
/// Faint noise, and two bright rows that tell the class.
std::vector<NamedTensor> images(uint64_t seed) {
  Tensor x = random_tensor(f32, {kImages, 1, 28, 28}, 50 + seed, 0, 0.2), labels(i32, {kImages});
  for (size_t i = 0; i < kImages; ++i) {
    const size_t label = (7 * i + seed) % kClasses;
    labels.mutable_values<int32_t>()[i] = static_cast<int32_t>(label);
    for (size_t k = 0; k < 2 * size_t{28}; ++k) x.mutable_values<float>()[(i * 28 + 4 + 2 * label) * 28 + k] += 0.8F;
  }
  return {{"x", x}, {"t", labels}};
}

}  // namespace

TEST_CASE("a convolutional net for digits trains on mlx as on the processor") {
  const Graph loss = convolutional_net();
  const auto trained_on = [&](const Device& device) {
    TrainConfig config;
    config.optimizer = Optimizer::sgd({.momentum = 0.9}), config.learning_rate = 0.05;
    return TrainingSession(loss, params_of(loss, 0.4), config, Session(device));
  };
  constexpr int kSteps = 15;
  std::vector<double> losses;
  NamedTensors wanted;
  for (const Device& device : mlx_modes()) {
    CAPTURE(device.name());
    if (losses.empty()) {
      TrainingSession here = trained_on(Device::cpu());
      for (int i = 0; i < kSteps; ++i) losses.push_back(here.step(images(static_cast<uint64_t>(i % 3))).loss);
      wanted = here.params();
      CHECK(losses.back() < losses.front());
    }
    TrainingSession there = trained_on(device);
    for (int i = 0; i < kSteps; ++i)
      CHECK(there.step(images(static_cast<uint64_t>(i % 3))).loss ==
            doctest::Approx(losses[static_cast<size_t>(i)]).epsilon(2e-5));
    for (const auto& entry : there.params()) {
      const std::string& param = entry.first;
      CAPTURE(param);
      CHECK(difference(entry.second, wanted.at(param), 5e-5) == "");
    }
  }
}

// ---- a decoder ----

namespace {

constexpr int64_t kWidth = 64, kCapacity = 16;

/// Two layers as Llama has them, with grouped heads and rotary positions: of any number of new tokens x[1, n, 64] and
/// the caches, what they become.
Graph decoder() {
  Graph g("decoder");
  ModelBuilder b(g);
  const Dim n = Dim::symbol("n");
  Value x = g.input("x", f32, {1, n, kWidth});
  const auto at = SequencePositions::inputs(g, n);
  const RopeTables turns = rope_tables(g, {.dims = 16}, at);
  std::vector<KeyValueCache> caches;
  for (const char* name : {"layers.0", "layers.1"})
    caches.push_back(KeyValueCache::inputs(g, name, {1, 2, kCapacity, 16}));
  for (size_t i = 0; i < caches.size(); ++i) {
    const AttentionContext context{.rope = turns, .cache = &caches[i], .positions = at};
    x = b.within(text_of("layers.", i),
                 [&] { return transformer_layer(b, x, TransformerLayerConfig::llama(4, 2, 96), context); });
  }
  g.output(token_norm(b, x, "norm", {}), "y");
  for (size_t i = 0; i < caches.size(); ++i) caches[i].output(text_of("layers.", i));
  return g;
}
/// What the tokens give one after another, the first five at once; then both caches' keys and values.
std::vector<Tensor> decoded_on(const Device& device) {
  const Graph g = decoder();
  CompileOptions options;
  options.donate = {"layers.0.keys", "layers.0.values", "layers.1.keys", "layers.1.values"};
  const CompiledGraph step = compiled_on(device, g, params_of(g), options);
  GraphState state = step.new_state();
  std::vector<Tensor> made;
  for (int64_t from = 0; from < 12;) {
    const int64_t count = from == 0 ? 5 : 1;
    made.push_back(step.run({{"x", random_tensor(f32, {1, count, kWidth}, 30 + static_cast<uint64_t>(from), -1, 1)},
                             {"position", Tensor::scalar(static_cast<int32_t>(from))},
                             {"total", Tensor(u8, {from + count, 0})}},
                            state)
                       .at(0));
    from += count;
  }
  for (const auto& [name, value] : state.tensors()) made.push_back(value);
  return made;
}

}  // namespace

TEST_CASE("a decoder of Llama's layers with its caches in a state says on mlx what it says on the processor") {
  std::vector<Tensor> wanted;
  for (const Device& device : mlx_modes()) {
    CAPTURE(device.name());
    if (wanted.empty()) wanted = decoded_on(Device::cpu());
    const std::vector<Tensor> got = decoded_on(device);
    CHECK(got.size() == 8 + 4);
    CHECK(difference(got, wanted, 2e-5) == "");
  }
}

// ---- others ----

TEST_CASE("an LSTM in both directions, its last state and its gradients are on mlx what they are on the processor") {
  Graph g("lstm");
  ModelBuilder b(g);
  Value x = g.input("x", f32, {3, 20, 12});
  RecurrentState state;
  Value y = recurrent_layers(b, x, "rnn", {.hidden = 10, .layers = 2, .bidirectional = true}, &state);
  g.output(mean(square(y), {0, 1, 2}) + mean(state.h * state.c, {0, 1, 2}), "loss");
  g.output(y, "y");
  g.output(state.h, "h");
  g.output(state.c, "c");
  const Graph step = value_and_grad(g);
  check_beside_cpu(step, params_of(g, 0.4), {{"x", random_tensor(f32, {3, 20, 12}, 3, -1, 1)}}, 1e-5);
}

TEST_CASE("a net on positive definite matrices and their mean are on mlx what they are on the processor") {
  constexpr int64_t kCount = 6, kSize = 9, kReduced = 5;
  Graph g("spd");
  ModelBuilder b(g);
  Value root = g.input("root", f32, {kCount, kSize, kSize}), t = g.input("t", f32, {kCount, 3});
  Tensor floor(f32, {kSize, kSize});
  for (size_t i = 0; i < kSize; ++i) floor.mutable_values<float>()[i * kSize + i] = 0.2F;
  Value x = matmul(root, transpose(root, {0, 2, 1})) * (1.0 / kSize) + g.constant(floor);
  Value smaller = reeig(bimap(b.param("w", {kReduced, kSize}), x), 1e-3).y;
  Value flat = reshape(logeig(smaller, 1e-4).y, {kCount, kReduced * kReduced});
  g.output(mean(square(b.linear(flat, "out", 3) - t), {0, 1}), "loss");
  g.output(spd_karcher_mean(x), "mean");
  const Graph step = value_and_grad(g);
  check_beside_cpu(step, params_of(g, 0.5),
                   {{"root", random_tensor(f32, {kCount, kSize, kSize}, 5, -1, 1)},
                    {"t", random_tensor(f32, {kCount, 3}, 6, -1, 1)}},
                   5e-5);
}

TEST_CASE("splats and the gradients of their scene are on mlx what they are on the processor") {
  constexpr int64_t kSplats = 30;
  const SplatAttrs image{.width = 24, .height = 20, .gamma = 1, .low_pass = 0.3};
  Graph g("splats");
  SplatValues s;
  s.positions = g.input("positions", f32, {kSplats, 3}), s.log_scales = g.input("log_scales", f32, {kSplats, 3});
  s.rotations = g.input("rotations", f32, {kSplats, 4}), s.opacities = g.input("opacities", f32, {kSplats});
  s.colors = g.input("colors", f32, {kSplats, 3}), s.sh = g.input("sh", f32, {kSplats, 4, 3});
  Value drawn = gaussian_splat_render(s, g.input("camera", f32, {10}), g.input("background", f32, {3}), image);
  g.output(mean(square(drawn - g.input("target", f32, drawn.dims())), {0, 1, 2}), "loss");
  g.output(drawn, "image");
  const Graph step = value_and_grad(g, {"positions", "log_scales", "rotations", "opacities", "colors", "sh"});
  check_beside_cpu(step, {},
                   {{"positions", random_tensor(f32, {kSplats, 3}, 1, -1, 1)},
                    {"log_scales", random_tensor(f32, {kSplats, 3}, 2, -2.5, -1.5)},
                    {"rotations", random_tensor(f32, {kSplats, 4}, 3, 0.2, 1)},
                    {"opacities", random_tensor(f32, {kSplats}, 4, -1, 2)},
                    {"colors", random_tensor(f32, {kSplats, 3}, 5, 0.3, 1)},
                    {"sh", random_tensor(f32, {kSplats, 4, 3}, 6, -0.2, 0.2)},
                    {"camera", Tensor::of<float>({10}, {3, 1.5F, 2, 0, 0, 0, 0, 0, 1, 0.75F})},
                    {"background", Tensor::of<float>({3}, {0.1F, 0.2F, 0.3F})},
                    {"target", random_tensor(f32, {20, 24, 4}, 7, 0, 1)}},
                   2e-5);
}

}  // namespace rlx::test::mlx_models
