// Quantization-aware training: ten steps by PyTorch's autograd (tests/golden/generate/quantization.py) are followed.
#include <doctest/doctest.h>

#include "quantization/net.h"
#include "rlx/element.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

constexpr int kSteps = 10;

ScaleKind kind_named(std::string_view name) {
  constexpr auto kNames = names_of(ScaleKind{});
  return static_cast<ScaleKind>(std::find(kNames.begin(), kNames.end(), name) - kNames.begin());
}
double farthest(const Tensor& a, const Tensor& b) {
  REQUIRE(a.element_count() == b.element_count());
  double most = 0;
  for (size_t i = 0; i < a.element_count(); ++i) most = std::max(most, std::abs(load_number(a, i) - load_number(b, i)));
  return most;
}

}  // namespace

TEST_CASE("steps with every kind of scale follow PyTorch's within 1e-5") {
  auto file = SafetensorsFile::open("tests/golden/quantization/steps.safetensors");
  const NamedTensors start = test::net_params(file, "start/");
  for (auto [name_of_run, activations, weights, ste] :
       {std::tuple{"fixed_per_batch", "fixed", "per_batch", SteKind::clipped_identity},
        {"fixed_fixed_identity", "fixed", "fixed", SteKind::identity},
        {"ema_per_batch", "ema", "per_batch", SteKind::clipped_identity},
        {"ema_ema", "ema", "ema", SteKind::clipped_identity},
        {"per_batch_per_batch", "per_batch", "per_batch", SteKind::clipped_identity},
        {"learned_learned", "learned", "learned", SteKind::clipped_identity},
        {"learned_per_batch", "learned", "per_batch", SteKind::clipped_identity}}) {
    const std::string run = name_of_run;
    CAPTURE(run);
    const NamedTensors expected = test::tensors_under(file, run + "/");
    QuantizationConfig config;
    config.activations = kind_named(activations), config.weights = kind_named(weights);
    config.ste = ste, config.decay = 0.9;
    Quantization q = add_quantization(test::net_loss(f64, 8), config, true);
    Calibration ranges;
    for (const char* name : {"x", "conv.output", "out.output"})
      if (auto found = expected.find(text_of("range/", name)); found != expected.end()) {
        Range range = {load_number(found->second, 0), load_number(found->second, 1)};
        ranges.activations.push_back({name, range, range, 1});
      }
    NamedTensors params = start;
    params.merge(ranges.activations.empty() ? q.initial(start) : q.initial(start, ranges));
    TrainConfig train;
    train.optimizer = Optimizer::sgd();
    train.learning_rate = config.activations == ScaleKind::learned ? 1.0 / 1024 : 1.0 / 32;
    train.groups = q.groups(), train.written = q.written;
    TrainingSession session(q.graph, params, train);
    const Tensor& losses = expected.at("losses");
    for (int i = 0; i < kSteps; ++i) {
      double loss = session.step({{"x", file.tensor("x")}, {"t", file.tensor("t")}}).loss;
      double theirs = load_number(losses, static_cast<size_t>(i));
      CHECK_MESSAGE(std::abs(loss - theirs) < 1e-5, run, " step ", i, ": ", loss, " instead of ", theirs);
    }
    size_t compared = 0;
    for (const auto& entry : expected) {
      const std::string& name = entry.first;
      if (name == "losses" || name.starts_with("range/")) continue;
      CHECK_MESSAGE(farthest(session.param(name), entry.second) < 1e-5, run, ": ", name);
      ++compared;
    }
    CHECK(compared >= 4);
  }
}

TEST_CASE("scales that are not learnt stay, and moving means go on where a checkpoint ends") {
  auto file = SafetensorsFile::open("tests/golden/quantization/steps.safetensors");
  const NamedTensors start = test::net_params(file, "start/");
  std::vector<NamedTensor> batch = {{"x", file.tensor("x")}, {"t", file.tensor("t")}};
  for (ScaleKind kind : {ScaleKind::fixed, ScaleKind::ema}) {
    QuantizationConfig config;
    config.activations = config.weights = kind;
    Quantization q = add_quantization(test::net_loss(f64, 8), config, true);
    NamedTensors params = start;
    params.merge(q.initial(start, calibrate(test::net_loss(f64, 8), start, {&batch, 1})));
    const Tensor before = params.at(kind == ScaleKind::fixed ? "x.scale" : "conv.output.range");
    TrainConfig train;
    train.optimizer = Optimizer::adamw(), train.learning_rate = 0.05;
    train.groups = q.groups(), train.written = q.written;
    TrainingSession session(q.graph, params, train);
    for (int i = 0; i < 3; ++i) session.step(batch);
    CHECK((session.param(kind == ScaleKind::fixed ? "x.scale" : "conv.output.range") == before) ==
          (kind == ScaleKind::fixed));
    test::TemporaryFolder folder;
    session.save(folder / "at3.safetensors");
    TrainingSession resumed(q.graph, params, train);
    resumed.load(folder / "at3.safetensors");
    CHECK(session.step(batch).loss == resumed.step(batch).loss);
    CHECK(session.params() == resumed.params());
  }
}
