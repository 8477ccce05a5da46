// What lengths that are new cost a sentence encoder: the graph of all-MiniLM-L6-v2 with random weights, run at one
// length after another, each twice. The first runs include what the framework does for a length, the second ones do
// not. One JSON line a case, in milliseconds of the process's processor time for all lengths together:
//   sentences  one sentence of 50 lengths, from 5 to 250 tokens, shuffled
//   ragged     50 batches of up to 16 sentences and up to 64 tokens, both drawn
//
//   build/release/bench/lengths [--threads T] [--rounds R]
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rlx/models.h"
#include "rlx/session.h"

using namespace rlx;

namespace {

using BatchAndLength = std::pair<int64_t, int64_t>;

double processor_ms() { return static_cast<double>(std::clock()) * 1e3 / CLOCKS_PER_SEC; }

Tensor random_tensor(const Type& type, std::mt19937& random) {
  Tensor t(type.dtype, shape_of(type.dims));
  std::normal_distribution<float> values(0, 0.05f);
  for (float& x : t.mutable_values<float>()) x = values(random);
  return t;
}

/// Ids, mask and token types of sentences without padding.
std::vector<Tensor> sentences(BatchAndLength size, std::mt19937& random) {
  const Shape shape{size.first, size.second};
  std::vector<Tensor> inputs(3, Tensor(i64, shape));
  for (int64_t& id : inputs[0].mutable_values<int64_t>()) id = 1000 + static_cast<int64_t>(random() % 20000);
  for (int64_t& keeps : inputs[1].mutable_values<int64_t>()) keeps = 1;
  return inputs;
}

}  // namespace

int main(int count, char** words) {
  int threads = 1, rounds = 3;
  for (int i = 1; i + 1 < count; i += 2) {
    const int n = std::max(1, std::atoi(words[i + 1]));
    if (!std::strcmp(words[i], "--threads")) threads = n;
    if (!std::strcmp(words[i], "--rounds")) rounds = n;
  }
  std::mt19937 random(1);
  std::vector<BatchAndLength> lengths, ragged;
  for (int64_t length = 5; length <= 250; length += 5) lengths.emplace_back(1, length);
  std::shuffle(lengths.begin(), lengths.end(), random);
  for (int i = 0; i < 50; ++i) ragged.emplace_back(1 + random() % 16, 2 + random() % 63);
  const Graph g = sentence_encoder_graph(
      BertConfig{.vocab_size = 30522, .hidden_size = 384, .layers = 6, .intermediate_size = 1536});
  std::map<std::string, Tensor, std::less<>> params;
  for (Ref r : g.params()) params[g.node(r).name] = random_tensor(g.type(r), random);
  for (const auto& [name, sizes] : {std::pair("sentences", lengths), std::pair("ragged", ragged)}) {
    double best_first = 1e300, best_second = 1e300;
    for (int round = 0; round < rounds; ++round) {
      CompiledGraph encoder = Session(Device::cpu(), {threads}).compile(g);  // knows no length yet
      encoder.set_params(params);
      encoder.run_ordered(sentences({1, 3}, random));  // packs the weights
      double first = 0, second = 0;
      for (const BatchAndLength& size : sizes) {
        const std::vector<Tensor> inputs = sentences(size, random);
        const double begin = processor_ms();
        encoder.run_ordered(inputs);
        const double between = processor_ms();
        encoder.run_ordered(inputs);
        first += between - begin, second += processor_ms() - between;
      }
      best_first = std::min(best_first, first), best_second = std::min(best_second, second);
    }
    std::printf(
        "{\"case\": \"%s\", \"sizes\": %zu, \"first_runs_ms\": %.1f, \"second_runs_ms\": %.1f, "
        "\"a_new_size_us\": %.0f}\n",
        name, sizes.size(), best_first, best_second,
        (best_first - best_second) * 1e3 / static_cast<double>(sizes.size()));
  }
}
