// A decoder as Llama is one, from a weight file of `transformers`: reads half of a text at once and the rest token by
// token, with caches that runs update in place.   llama WEIGHTS.safetensors IDS.npy LOGITS.npy HEADS
// IDS: i32[n]. LOGITS: f32[n, vocabulary], of what follows each token. Positions: rotary, base 10000; epsilon 1e-6.
#include <iostream>

#include "rlx/rlx.h"

using namespace rlx;

static void run(const SafetensorsFile& weights, const Tensor& ids, const std::string& out_path, int64_t heads) {
  const auto extent = [&](const std::string& name) { return weights.tensor(name + ".weight").shape().at(0); };
  const std::string table = "model.embed_tokens", head = weights.find("lm_head.weight") ? "lm_head" : table;
  const int64_t width = extent("model.norm"), head_dim = extent("model.layers.0.self_attn.q_proj") / heads;
  const int64_t kv_heads = extent("model.layers.0.self_attn.k_proj") / head_dim, vocabulary = extent(table);

  Graph g("llama");
  ModelBuilder b(g);
  const Dim n = Dim::symbol("n"), capacity = Dim::symbol("capacity");
  Value tokens = g.input("tokens", i32, {1, n});
  const auto at = SequencePositions::inputs(g, n);
  const RopeTables turns = rope_tables(g, {.dims = head_dim}, at);
  auto layer = TransformerLayerConfig::llama(heads, kv_heads, extent("model.layers.0.mlp.up_proj"));
  layer.attention.head_dim = head_dim;
  CompileOptions options;
  Value x = b.embedding(tokens, table, vocabulary, width);
  for (int64_t i = 0; weights.find(text_of("model.layers.", i, ".mlp.up_proj.weight")); ++i) {
    const std::string name = text_of("model.layers.", i);
    auto cache = KeyValueCache::inputs(g, name, {1, kv_heads, capacity, head_dim});
    x = b.within(name,
                 [&] { return transformer_layer(b, x, layer, {.rope = turns, .cache = &cache, .positions = at}); });
    cache.output(name);
    options.donate.insert({name + ".keys", name + ".values"});
  }
  x = language_model_head(b, b.rms_norm(x, "model.norm", 1e-6), head, vocabulary);
  g.output(reshape(x, {n, vocabulary}), "logits");

  CompiledGraph step = Session().compile(g, options);
  bind_weights(step, weights);
  const auto text = ids.values<int32_t>();
  const auto count = static_cast<int64_t>(text.size());
  GraphState state = step.new_state({}, {{"capacity", count}});
  Tensor logits(f32, {count, vocabulary});
  for (int64_t from = 0, to = std::max<int64_t>(count / 2, 1); from < count; from = to, to = from + 1) {
    const Tensor part = Tensor::of<int32_t>({1, to - from}, text.subspan(size_t(from), size_t(to - from)));
    const NamedTensor place = {"position", Tensor::scalar(int32_t(from))}, total = {"total", Tensor(u8, {to, 0})};
    const Tensor made = step.run({{"tokens", part}, place, total}, state)[0];
    std::ranges::copy(made.values<float>(), logits.mutable_values<float>().begin() + from * vocabulary);
  }
  write_npy(out_path, logits);
}

int main(int argc, char** argv) try {
  if (argc != 5) return std::cerr << "usage: llama WEIGHTS.safetensors IDS.npy LOGITS.npy HEADS\n", 2;
  run(SafetensorsFile::open(argv[1]), read_npy(argv[2]), argv[3], std::max(1LL, std::atoll(argv[4])));
} catch (const Error& error) {
  return std::cerr << error.what() << "\n", 1;
}
