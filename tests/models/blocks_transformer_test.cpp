// Blocks of transformers beside `transformers` and torch.nn (tests/golden/generate/model_blocks.py).
#include <numbers>
#include <optional>
#include <variant>

#include "models/blocks_golden.h"
#include "rlx/autodiff.h"
#include "support/io_files.h"

namespace rlx::test::blocks {
namespace {

/// A decoder put together by hand: what weight files of `transformers` call model.embed_tokens, model.layers, ...
struct Decoder {
  TransformerLayerConfig layer;
  RopeConfig rope;
  std::string table = "lm_head";  ///< what the head reads
  bool every_other_window = false;
  double embedding_scale = 1;
  std::optional<double> softcap = {};
};
constexpr int64_t kVocabulary = 29, kWidth = 24, kLayers = 2, kBatch = 2, kLength = 11;

Decoder decoder_named(const std::string& name) {
  using Layer = TransformerLayerConfig;
  const std::string tied = "model.embed_tokens";
  if (name == "llama")
    return {Layer::llama(6, 2, 17),
            {.scaling = RopeScaling::llama3, .theta = 500, .dims = 4, .factor = 8, .original_context = 16}};
  if (name == "mistral") {
    Decoder d{Layer::llama(6, 1, 17), {.dims = 6}};
    d.layer.attention.head_dim = 6, d.layer.attention.window = 3;
    return d;
  }
  if (name == "gemma2") {
    Decoder d{Layer::gemma2(6, 3, 10, 17), {.dims = 10}, tied, true, std::sqrt(24), 3};
    d.layer.attention.window = 3, d.layer.attention.softcap = 2, d.layer.attention.scale = 1 / std::sqrt(7);
    return d;
  }
  if (name == "qwen3") {
    Decoder d{Layer::llama(6, 2, 17), {.dims = 8}, tied};
    d.layer.attention.head_dim = 8, d.layer.attention.query_key_norm = TokenNormConfig{};
    return d;
  }
  if (name == "phi3") {
    Decoder d{Layer::llama(6, 2, 17, 1e-5), {.dims = 4}};
    d.layer.attention.names.packed = "qkv_proj";
    std::get<FeedForwardConfig>(d.layer.feed_forward).names.packed = "gate_up_proj";
    return d;
  }
  if (name == "mixtral")
    return {Layer::mixtral(6, 2, {.experts = 5, .used = 2, .hidden = 13}), {.theta = 1e6, .dims = 4}};
  REQUIRE(name == "qwen2_moe");
  MoeConfig experts{.experts = 4, .used = 3, .hidden = 7, .normalize = false, .shared_hidden = 9};
  Decoder d{Layer::mixtral(6, 2, experts, 1e-6), {.dims = 4}};
  d.layer.attention.bias = true;
  return d;
}
constexpr const char* kDecoders[] = {"llama", "mistral", "gemma2", "qwen3", "phi3", "mixtral", "qwen2_moe"};

/// ids[B, n] to logits [B, n, vocabulary].
Value logits_of(ModelBuilder& b, Value ids, const Decoder& d, const SequencePositions& at,
                std::vector<KeyValueCache>* caches = nullptr, std::vector<Routing>* routings = nullptr) {
  const RopeTables turns = rope_tables(b.graph(), d.rope, at);
  Value x = b.embedding(ids, "model.embed_tokens", kVocabulary, kWidth);
  if (d.embedding_scale != 1) x = x * d.embedding_scale;
  for (int64_t i = 0; i < kLayers; ++i) {
    TransformerLayerConfig layer = d.layer;
    if (d.every_other_window && i % 2 == 1) layer.attention.window = 0;
    const AttentionContext context{.rope = turns,
                                   .cache = caches ? &caches->at(static_cast<size_t>(i)) : nullptr,
                                   .positions = at,
                                   .routings = routings};
    x = b.within(text_of("model.layers.", i), [&] { return transformer_layer(b, x, layer, context); });
  }
  x = token_norm(b, x, "model.norm", d.layer.norm);
  return language_model_head(b, x, d.table, kVocabulary, d.softcap);
}

/// A step of `d` for any number of new tokens, with caches in a state.
CompiledGraph step_of(const std::string& name, const Decoder& d, DType cache) {
  Graph g("step");
  ModelBuilder b(g);
  const Dim n = Dim::symbol("n");
  Value ids = g.input("ids", i32, {kBatch, n});
  const auto at = SequencePositions::inputs(g, n);
  CompileOptions options;
  std::vector<KeyValueCache> caches;
  const int64_t kv_heads = *d.layer.attention.kv_heads, width = d.layer.attention.head_dim.value_or(4);
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string at_layer = text_of("layers.", i);
    caches.push_back(KeyValueCache::inputs(g, at_layer, {kBatch, kv_heads, Dim::symbol("capacity"), width}, cache));
    options.donate.insert({at_layer + ".keys", at_layer + ".values"});
  }
  g.output(logits_of(b, ids, d, at, &caches), "logits");
  for (int64_t i = 0; i < kLayers; ++i) caches[static_cast<size_t>(i)].output(text_of("layers.", i));
  CompiledGraph compiled = Session().compile(g, options);
  bind_weights(compiled, golden_file(), name + "/");
  return compiled;
}
/// Tokens from .. to of each row.
Tensor columns(const Tensor& t, int64_t from, int64_t to) {
  Graph g;
  g.output(slice_axis(g.input("x", t.type()), 1, from, to));
  return Session().compile(g).run({{"x", t}})[0];
}
Tensor run_step(const CompiledGraph& step, GraphState& state, const Tensor& ids, int64_t from, int64_t to) {
  return step.run({{"ids", columns(ids, from, to)},
                   {"position", Tensor::scalar(static_cast<int32_t>(from))},
                   {"total", Tensor(u8, {to, 0})}},
                  state)[0];
}

}  // namespace

TEST_CASE("decoders built of blocks have the logits of transformers") {
  for (const char* name : kDecoders) {
    CAPTURE(name);
    const Decoder d = decoder_named(name);
    const std::vector<Tensor> out =
        made(name, {golden(text_of(name, "/in.ids"))},
             [&](ModelBuilder& b, const std::vector<Value>& in) { return logits_of(b, in[0], d, {.count = kLength}); });
    CHECK(worst_difference(out[0], golden(text_of(name, "/out.logits"))) < kTolerance);
  }
}

TEST_CASE("read in pieces of any size with growing caches, a text has the logits that it has at once") {
  for (const char* name : kDecoders) {
    CAPTURE(name);
    const Tensor ids = golden(text_of(name, "/in.ids")), wanted = golden(text_of(name, "/out.logits"));
    const CompiledGraph step = step_of(name, decoder_named(name), f32);
    GraphState state = step.new_state({}, {{"capacity", 6}});
    int64_t from = 0;
    for (int64_t to : {5, 6, 9, 10, 11}) {
      if (to == 9) state = step.resized_state(state, {{"capacity", 12}});
      CHECK(worst_difference(run_step(step, state, ids, from, to), columns(wanted, from, to)) < kTolerance);
      from = to;
    }
  }
}

TEST_CASE("caches of halves are near, and more tokens than a cache holds are refused") {
  const Tensor ids = golden("llama/in.ids"), wanted = golden("llama/out.logits");
  for (const auto& [dtype, tolerance] : {std::pair(f16, 0.005F), std::pair(bf16, 0.04F)}) {
    const CompiledGraph step = step_of("llama", decoder_named("llama"), dtype);
    GraphState state = step.new_state({}, {{"capacity", 11}});
    CHECK(worst_difference(run_step(step, state, ids, 0, 8), columns(wanted, 0, 8)) < tolerance);
    CHECK(worst_difference(run_step(step, state, ids, 8, 11), columns(wanted, 8, 11)) < tolerance);
    CHECK(state.tensor("layers.1.keys").dtype() == dtype);
  }
  const CompiledGraph step = step_of("llama", decoder_named("llama"), f32);
  GraphState state = step.new_state({}, {{"capacity", 4}});
  CHECK(error_of([&] { run_step(step, state, ids, 0, 5); }).code() == ErrorCode::shape_mismatch);
}

TEST_CASE("a decoder of halves is as near to f64 on its weights as its dtype allows") {
  // Bounds are 8 units in the last place of the largest logit, through two layers.
  for (const DType dtype : {f16, bf16}) {
    const std::string name = dtype == f16 ? "llama_f16" : "llama_bf16";
    CAPTURE(name);
    const Decoder d = decoder_named("llama");
    const std::vector<Tensor> out = made(
        "llama", {golden(text_of(name, "/in.ids"))},
        [&](ModelBuilder& b, const std::vector<Value>& in) { return logits_of(b, in[0], d, {.count = kLength}); },
        dtype);
    const Tensor wanted = golden(text_of(name, "/out.logits"));
    CHECK(worst_difference(out[0], wanted) < bound_of_halves(wanted, dtype, 8));
  }
}

TEST_CASE("the balancing loss and its gradients are those of transformers, of one layer, of two, and with a mask") {
  for (const std::string name : {"one", "two", "masked"}) {
    const int64_t layers = name == "one" ? 1 : 2;
    CAPTURE(name);
    const std::string at = text_of("balancing_", name, "/");
    const bool has_mask = golden_file().find(at + "in.mask") != nullptr;
    Graph g;
    std::vector<Routing> routings;
    std::vector<NamedTensor> given;
    std::vector<std::string> wrt;
    for (int64_t i = 0; i < layers; ++i) {
      given.emplace_back(text_of("logits", i), golden(text_of(at, "in.logits", i)));
      wrt.push_back(given.back().first);
      routings.push_back(routed(g.input(given.back().first, given.back().second.type()), 2, true));
    }
    Value mask;
    if (has_mask) {
      given.emplace_back("mask", golden(at + "in.mask").reshaped({3, 3}));
      mask = g.input("mask", given.back().second.type());
    }
    g.output(load_balancing_loss(routings, mask), "loss");
    const std::vector<Tensor> out = Session().compile(value_and_grad(g, wrt)).run(given);
    CHECK(std::abs(out[0].values<float>()[0] - golden(at + "out.loss").values<float>()[0]) < kTolerance);
    for (int64_t i = 0; i < layers; ++i)
      CHECK(worst_difference(out[static_cast<size_t>(i) + 1], golden(text_of(at, "out.gradient", i))) < 1e-6F);
  }
}

TEST_CASE("the balancing loss of a whole model counts the tokens of all of its layers") {
  const Decoder d = decoder_named("mixtral");
  const std::vector<Tensor> out =
      made("mixtral", {golden("mixtral/in.ids")}, [&](ModelBuilder& b, const std::vector<Value>& in) {
        std::vector<Routing> routings;
        Value logits = logits_of(b, in[0], d, {.count = kLength}, nullptr, &routings);
        REQUIRE(routings.size() == kLayers);
        return Many<Value>{logits, load_balancing_loss(routings)};
      });
  CHECK(std::abs(out[1].values<float>()[0] - golden("mixtral/out.aux_loss").values<float>()[0]) < kTolerance);
}

TEST_CASE("a model of experts learns: gradients reach the router and every expert that is used") {
  Graph g;
  ModelBuilder b(g);
  Value x = g.input("x", f32, {6, 8});
  const MoeResult moe = mixture_of_experts(b, x, {.experts = 3, .used = 2, .hidden = 5});
  g.output(reduce_sum(moe.y * moe.y, {0, 1}) + load_balancing_loss(std::array{moe.routing}) * 0.01, "loss");
  CompiledGraph step = Session().compile(value_and_grad(g));
  uint32_t state = 1;
  const auto random = [&](const Shape& shape) {
    Tensor t(f32, shape);
    for (float& v : t.mutable_values<float>())
      v = static_cast<float>((state = state * 1664525 + 1013904223) >> 9) / 8388608 - 0.5F;
    return t;
  };
  for (const auto& param : step.signature().params) step.set_param(param.name, random(shape_of(param.type.dims)));
  const std::vector<Tensor> out = step.run({{"x", random({6, 8})}});
  REQUIRE(out.size() == 4);
  for (size_t i = 1; i < out.size(); ++i) {
    const auto values = out[i].values<float>();
    CHECK(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }));
    CHECK(std::count_if(values.begin(), values.end(), [](float v) { return v != 0; }) * 2 >
          static_cast<int64_t>(values.size()));
  }
}

TEST_CASE("layers with norms before and after are torch.nn.TransformerEncoderLayer's, with each kind of mask") {
  for (const bool first : {false, true}) {
    const std::string name = first ? "encoder_before" : "encoder_after";
    const Tensor x = golden(name + "/in.x"), keep = golden(name + "/in.keep"), bias = golden(name + "/in.bias");
    for (const std::string kind : {"none", "causal", "sliding_window", "custom", "bias", "near"}) {
      CAPTURE(name);
      CAPTURE(kind);
      TransformerLayerConfig layer = TransformerLayerConfig::torch_encoder(3, 19, first);
      layer.attention.causal = kind == "causal" || kind == "sliding_window";
      if (kind == "sliding_window" || kind == "near") layer.attention.window = 3;
      const std::vector<Tensor> out = made(name, {x, keep, bias}, [&](ModelBuilder& b, const std::vector<Value>& in) {
        AttentionContext context;
        if (kind == "custom") context.mask = in[1];
        if (kind == "bias") context.mask = in[2], context.mask_kind = AttentionMask::bias;
        return transformer_layer(b, in[0], layer, context);
      });
      CHECK(worst_difference(out[0], golden(name + "/out." + kind)) < kTolerance);
    }
  }
}

TEST_CASE("the op fused_transformer_layer has each kind of mask, as torch.nn.TransformerEncoderLayer") {
  const std::string name = "encoder_after";
  const Tensor x = golden(name + "/in.x"), keep = golden(name + "/in.keep"), bias = golden(name + "/in.bias");
  for (const std::string kind : {"none", "causal", "sliding_window", "custom", "bias", "near"}) {
    CAPTURE(kind);
    const std::vector<Tensor> out = made(name, {x, keep, bias}, [&](ModelBuilder& b, const std::vector<Value>& in) {
      // The op's products are [in, out].
      const auto matrix = [&](const char* param, int64_t rows, int64_t columns) {
        return transpose(b.param(param, {rows, columns}), {1, 0});
      };
      const TransformerLayerWeights w{.qkv_w = matrix("self_attn.in_proj_weight", 36, 12),
                                      .out_w = matrix("self_attn.out_proj.weight", 12, 12),
                                      .ln1_gamma = b.param("norm1.weight", {12}),
                                      .fc1_w = matrix("linear1.weight", 19, 12),
                                      .fc2_w = matrix("linear2.weight", 12, 19),
                                      .ln2_gamma = b.param("norm2.weight", {12}),
                                      .qkv_b = b.param("self_attn.in_proj_bias", {36}),
                                      .out_b = b.param("self_attn.out_proj.bias", {12}),
                                      .ln1_beta = b.param("norm1.bias", {12}),
                                      .fc1_b = b.param("linear1.bias", {19}),
                                      .fc2_b = b.param("linear2.bias", {12}),
                                      .ln2_beta = b.param("norm2.bias", {12})};
      TransformerLayerAttrs attrs{.heads = 3, .activation = Activation::relu};
      attrs.causal = kind == "causal" || kind == "sliding_window";
      if (kind == "sliding_window" || kind == "near") attrs.window = 2;  // the op's excludes the token itself
      if (kind == "bias") attrs.mask = AttentionMask::bias;
      const Value mask = kind == "custom" ? in[1] : kind == "bias" ? in[2] : Value();
      Value y = fused_transformer_layer(in[0], mask, w, attrs);
      CHECK(y.graph().nodes().back().op->name == std::string_view("fused_transformer_layer"));
      return y;
    });
    CHECK(worst_difference(out[0], golden(name + "/out." + kind)) < kTolerance);
  }
}

TEST_CASE("attention to another sequence is torch.nn.MultiheadAttention's") {
  const std::vector<Tensor> out =
      made("cross", {golden("cross/in.x"), golden("cross/in.memory"), golden("cross/in.seen")},
           [](ModelBuilder& b, const std::vector<Value>& in) {
             return self_attention(b, in[0], {.heads = 2, .bias = true, .output_bias = true},
                                   {.mask = in[2], .memory = in[1]});
           });
  CHECK(worst_difference(out[0], golden("cross/out.y")) < kTolerance);
}

TEST_CASE("the code of docs/models.md builds what it says") {
  Graph g("bert");
  ModelBuilder b(g);
  Value ids = g.input("ids", i64, {Dim::symbol("B"), Dim::symbol("S")});
  Value x = b.embedding(ids, "embeddings.word_embeddings", 30522, 768);
  const auto layer = TransformerLayerConfig::bert(/*heads=*/12, /*hidden=*/3072);
  for (int64_t i = 0; i < 12; ++i)
    x = b.within(text_of("encoder.layer.", i), [&] { return transformer_layer(b, x, layer); });
  g.output(x, "states");
  CHECK(g.params().size() == 1 + 12 * 16);
  CHECK(g.output_types()[0] == Type{f32, {Dim::symbol("B"), Dim::symbol("S"), 768}});

  Graph step("step");
  ModelBuilder of_step(step);
  const Dim n = Dim::symbol("n");
  Value y = step.input("x", f32, {1, n, 24});
  const auto at = SequencePositions::inputs(step, n);
  auto cache = KeyValueCache::inputs(step, "layers.0", {1, 2, Dim::symbol("capacity"), 4});
  const auto sparse = TransformerLayerConfig::mixtral(6, 2, {.experts = 4, .used = 2, .hidden = 8});
  std::vector<Routing> routings;
  const AttentionContext context{
      .rope = rope_tables(step, {.dims = 4}, at), .cache = &cache, .positions = at, .routings = &routings};
  step.output(transformer_layer(of_step, y, sparse, context), "y");
  cache.output("layers.0");
  step.output(load_balancing_loss(routings) * 0.01, "loss");
  const CompiledGraph compiled = Session().compile(step, {.donate = {"layers.0.keys", "layers.0.values"}});
  CHECK(compiled.new_state({}, {{"capacity", 128}}).entries().size() == 2);
}

TEST_CASE("blocks of transformers say what does not fit") {
  Graph g;
  ModelBuilder b(g);
  Value x = g.input("x", f32, {2, 3, 10});
  const auto refusal = [&](auto build) { return std::string(error_of([&] { build(); }).what()); };
  CHECK(says(refusal([&] { self_attention(b, x, {.heads = 4}); }), "a width of 10 does not divide into 4 heads"));
  CHECK(says(refusal([&] { self_attention(b, x, {.heads = 5, .kv_heads = 2}); }), "5 heads of queries cannot share 2"));
  CHECK(says(refusal([&] { self_attention(b, x, {.heads = 5, .window = -1}); }), "a window of -1 tokens"));
  KeyValueCache cache;
  CHECK(says(refusal([&] { self_attention(b, x, {.heads = 5}, {.cache = &cache}); }), "KeyValueCache::inputs"));
  CHECK(says(refusal([&] { KeyValueCache::inputs(g, "c", {1, 2, 3}); }), "a cache of f32[1, 2, 3]"));
  CHECK(says(refusal([&] { self_attention(b, x, {.heads = 5, .names = {.packed = "in_proj_"}}, {.memory = x}); }),
             "cross-attention with the packed weight 'in_proj_'"));
  CHECK(says(refusal([&] { feed_forward(b, x, {}); }), "a hidden width of 0"));
  CHECK(says(refusal([&] { mixture_of_experts(b, x, {.experts = 2, .used = 3, .hidden = 4}); }), "3 experts are used"));
  CHECK(says(refusal([&] { load_balancing_loss({}); }), "no layers"));
}

}  // namespace rlx::test::blocks
