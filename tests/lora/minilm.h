// all-MiniLM-L6-v2 as a model that learns: the contrastive loss and the batches of
// tests/golden/generate/fine_tuning.py.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "rlx/element.h"
#include "rlx/io.h"
#include "rlx/models.h"
#include "rlx/train.h"

namespace rlx::test {

constexpr int64_t kPairs = 8;

/// The folder of the model; empty, and a message, if there is none.
inline std::string model_folder() {
  auto variable = [](const char* name) { return std::getenv(name) ? std::string(std::getenv(name)) : std::string(); };
  std::string folder = variable("RLX_MODEL");
  if (folder.empty()) {
    std::string cache = variable("RLX_CACHE");
    folder = (cache.empty() ? variable("HOME") + "/.cache/rlx" : cache) + "/all-MiniLM-L6-v2";
  }
  if (std::filesystem::exists(folder + "/model.safetensors")) return folder;
  MESSAGE("skipped: all-MiniLM-L6-v2 is not here; scripts/fetch_minilm.py fetches it, RLX_MODEL names a folder");
  return {};
}

/// Each of the first eight sentences is told from the counterparts of the others. Outputs: the loss, the vectors.
inline Graph contrastive_loss(const std::string& folder, int64_t length) {
  Graph g("contrastive");
  Dims dims = {2 * kPairs, length};
  Value ids = g.input("ids", i64, dims), mask = g.input("mask", i64, dims), types = g.input("types", i64, dims);
  ModelBuilder b(g);
  Value rows = mean_pooled(bert_encoder(b, ids, mask, types, BertConfig::load(folder + "/config.json")), mask);
  Value anchors = slice_axis(rows, 0, 0, kPairs), others = slice_axis(rows, 0, kPairs, 2 * kPairs);
  Value logits = matmul(anchors, transpose(others, {1, 0})) * 20.0;
  Tensor labels(i32, {kPairs});
  for (int32_t i = 0; i < kPairs; ++i) labels.mutable_values<int32_t>()[static_cast<size_t>(i)] = i;
  g.output(mean(softmax_cross_entropy_with_logits(logits, g.constant(labels)), {0}), "loss");
  g.output(rows, "rows");
  return g;
}

inline NamedTensors weights_of(const Graph& g, const std::string& folder) {
  auto file = SafetensorsFile::open(folder + "/model.safetensors");
  NamedTensors weights;
  for (Ref r : g.params())
    if (file.find(g.node(r).name)) weights.emplace(g.node(r).name, file.tensor(g.node(r).name));
  return weights;
}

inline std::vector<NamedTensor> batch_of(const Tensor& all_ids, size_t step) {
  Shape shape = {all_ids.shape()[1], all_ids.shape()[2]};
  Tensor ids(i64, shape), mask(i64, shape);
  size_t count = ids.element_count();
  for (size_t i = 0; i < count; ++i) {
    int32_t id = all_ids.values<int32_t>()[step * count + i];
    ids.mutable_values<int64_t>()[i] = id;
    mask.mutable_values<int64_t>()[i] = id != 0;
  }
  return {{"ids", ids}, {"mask", mask}, {"types", Tensor(i64, shape)}};
}

}  // namespace rlx::test
