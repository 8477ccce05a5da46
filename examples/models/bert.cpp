// BERT, from a weight file of the package `transformers` (BertModel.save_pretrained: model.safetensors).
//
//   bert WEIGHTS.safetensors IDS.npy STATES.npy [HEADS]
//
// IDS: token ids i64[B, S], 0 where a text has ended. STATES: f32[B, S, width], the last hidden states. Sizes are those
// of the weights; heads are 64 wide unless their number is given.
#include <iostream>

#include "rlx/rlx.h"

using namespace rlx;

static void run(const SafetensorsFile& weights, const Tensor& ids, const std::string& out_path, int64_t heads) {
  const auto extent = [&](const std::string& name, size_t axis) { return weights.tensor(name).shape().at(axis); };
  const std::string words = "embeddings.word_embeddings", places = "embeddings.position_embeddings.weight";
  const int64_t width = extent(words + ".weight", 1);
  if (heads == 0) heads = width / 64;

  Graph g("bert");
  ModelBuilder b(g);
  const Dim batch = Dim::symbol("B"), length = Dim::symbol("S");
  Value tokens = g.input("ids", i64, {batch, length});
  Value keep = compare(tokens, zeros_like(tokens), Comparison::ne);
  Value types = zeros_like(tokens);  // one text: the first of two
  Value x = b.embedding(tokens, words, extent(words + ".weight", 0), width) +
            slice_axis(b.param(places, {extent(places, 0), width}), 0, 0, length) +
            b.embedding(types, "embeddings.token_type_embeddings", 2, width);
  x = b.layer_norm(x, "embeddings.LayerNorm", 1e-12);
  for (int64_t i = 0; weights.find(text_of("encoder.layer.", i, ".output.dense.weight")); ++i) {
    const std::string layer = text_of("encoder.layer.", i);
    const auto config = TransformerLayerConfig::bert(heads, extent(layer + ".intermediate.dense.weight", 0));
    x = b.within(layer, [&] { return transformer_layer(b, x, config, {.mask = keep}); });
  }
  g.output(x, "states");

  CompiledGraph compiled = Session().compile(g);
  bind_weights(compiled, weights);
  write_npy(out_path, compiled.run({{"ids", ids}})[0]);
}

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    std::cerr << "usage: bert WEIGHTS.safetensors IDS.npy STATES.npy [HEADS]\n";
    return 2;
  }
  try {
    run(SafetensorsFile::open(argv[1]), read_npy(argv[2]), argv[3], argc > 4 ? std::atoll(argv[4]) : 0);
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
