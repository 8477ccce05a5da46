// Fine-tuning all-MiniLM-L6-v2: each loss of 20 steps is PyTorch's (tests/golden/generate/fine_tuning.py).
#include <doctest/doctest.h>

#include <cmath>

#include "lora/minilm.h"
#include "rlx/lora.h"
#include "support/io_files.h"
#include "support/sanitized.h"

using namespace rlx;

namespace {

double worst_loss(TrainingSession& session, const Tensor& ids, const Tensor& losses, size_t steps) {
  double worst = 0;
  for (size_t step = 0; step < steps; ++step)
    worst = std::max(worst, std::abs(session.step(test::batch_of(ids, step)).loss - load_number(losses, step)));
  return worst;
}

}  // namespace

TEST_CASE("AdamW on all params of MiniLM follows PyTorch's losses") {
  std::string folder = test::model_folder();
  if (folder.empty()) return;
  auto golden = SafetensorsFile::open("tests/golden/fine_tuning/minilm.safetensors");
  Tensor ids = golden.tensor("ids"), losses = golden.tensor("all");
  Graph loss = test::contrastive_loss(folder, ids.shape()[2]);
  TrainConfig config;
  config.optimizer = Optimizer::adamw({.weight_decay = 0.01}), config.learning_rate = 2e-5;
  TrainingSession session(loss, test::weights_of(loss, folder), config);
  CHECK(worst_loss(session, ids, losses, test::sanitized() ? 2 : 20) < 1e-4);
}

TEST_CASE("adapters on MiniLM's query and value follow PyTorch's losses, and merge into the weights") {
  std::string folder = test::model_folder();
  if (folder.empty()) return;
  auto golden = SafetensorsFile::open("tests/golden/fine_tuning/minilm.safetensors");
  Tensor ids = golden.tensor("ids"), losses = golden.tensor("lora");
  Graph loss = test::contrastive_loss(folder, ids.shape()[2]);
  Lora lora = add_lora(loss, {.targets = {"query", "value"}, .rank = 8, .alpha = 16});
  CHECK(lora.modules.size() == 12);
  NamedTensors params = test::weights_of(loss, folder);
  size_t all = 0, trained = 0;
  for (const auto& [name, value] : params) all += value.element_count();
  for (const auto& [name, value] : lora.initial()) {
    trained += value.element_count();
    Tensor start = value;
    if (name.ends_with("lora_A.weight"))  // that of the script
      for (size_t i = 0; i < start.element_count(); ++i)
        start.mutable_values<float>()[i] =
            static_cast<float>(static_cast<double>((37 * i + 11) % 101) / 101 - 0.5) / std::sqrt(384.0f);
    params.emplace(name, start);
  }
  CHECK(trained == 12 * 2 * 8 * 384);
  CHECK(static_cast<double>(trained) < 0.02 * static_cast<double>(all + trained));

  TrainConfig config;
  config.optimizer = Optimizer::adamw({.weight_decay = 0.01}), config.learning_rate = 2e-3;
  config.groups = lora.groups();
  TrainingSession session(lora.graph, params, config);
  bool whole = !test::sanitized();
  CHECK(worst_loss(session, ids, losses, whole ? 20 : 2) < 1e-4);
  NamedTensors after = session.params();
  CHECK(after.at("encoder.layer.0.attention.self.query.weight") ==
        params.at("encoder.layer.0.attention.self.query.weight"));
  CHECK_FALSE(after.at("encoder.layer.5.attention.self.value.lora_B.weight") ==
              params.at("encoder.layer.5.attention.self.value.lora_B.weight"));
  if (!whole) return;

  // The graph without adapters, with the merged weights, gives PyTorch's vectors too.
  CompiledGraph plain = Session().compile(loss);
  plain.set_params(merge_lora(lora, after));
  Tensor rows = plain.run(test::batch_of(ids, 0))[1], wanted = golden.tensor("lora_rows");
  double worst = 0;
  for (size_t i = 0; i < rows.element_count(); ++i)
    worst = std::max(worst, std::abs(load_number(rows, i) - load_number(wanted, i)));
  CHECK(worst < 1e-4);
}
