// BERT and its configuration; see rlx/models.h.
#include "io/json_tree.h"
#include "rlx/io.h"
#include "rlx/models.h"

namespace rlx {
namespace {

int64_t positive(const JsonTree& json, const char* key, int64_t most) {
  const JsonTree* found = json.find(key);
  if (!found) fail(ErrorCode::parse, "config.json has no '", key, "'");
  if (!found->is_integer())
    fail(ErrorCode::parse, "'", key, "' in config.json is ", found->shown(), ", not a whole number");
  const int64_t v = found->integer();
  if (v < 1 || v > most) fail(ErrorCode::parse, "'", key, "' in config.json is ", v, "; it must be 1 to ", most);
  return v;
}

Activation activation_named(const std::string& name) {
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  if (name == "silu" || name == "swish") return Activation::silu;
  fail(ErrorCode::unsupported, "'hidden_act' in config.json is '", name,
       "'; there are gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish");
}

}  // namespace

BertConfig BertConfig::from_json(std::string_view text) {
  const JsonTree json = json_or_null(text);
  if (!json.is_object()) fail(ErrorCode::parse, "config.json is no JSON object");
  const auto must_be = [&](const char* key, const char* known) {
    const JsonTree* found = json.find(key);
    if (found && !(found->is_string() && found->string() == known))
      fail(ErrorCode::unsupported, "'", key, "' in config.json is ", found->shown(), "; this builds \"", known, "\"");
  };
  must_be("model_type", "bert");
  BertConfig c;
  c.vocab_size = positive(json, "vocab_size", 1 << 24);
  c.hidden_size = positive(json, "hidden_size", 1 << 16);
  c.layers = positive(json, "num_hidden_layers", 1024);
  c.heads = positive(json, "num_attention_heads", 1024);
  c.intermediate_size = positive(json, "intermediate_size", 1 << 20);
  c.max_positions = positive(json, "max_position_embeddings", 1 << 20);
  c.type_vocab_size = positive(json, "type_vocab_size", 1 << 10);
  if (const JsonTree* epsilon = json.find("layer_norm_eps")) {
    if (!epsilon->is_number()) fail(ErrorCode::parse, "'layer_norm_eps' in config.json is no number");
    c.layer_norm_epsilon = epsilon->number();
  }
  if (const JsonTree* act = json.find("hidden_act")) {
    if (!act->is_string()) fail(ErrorCode::parse, "'hidden_act' in config.json is no string");
    c.activation = activation_named(act->string());
  }
  must_be("position_embedding_type", "absolute");
  if (c.hidden_size % c.heads != 0)
    fail(ErrorCode::parse, "config.json: a hidden_size of ", c.hidden_size, " does not divide into ", c.heads,
         " heads");
  return c;
}

BertConfig BertConfig::load(const std::string& path) {
  return with_context([&] { return text_of("loading '", path, "'"); },
                      [&] {
                        auto file = FileBytes::read(path);
                        return from_json({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
                      });
}

Value bert_encoder(ModelBuilder& b, Value ids, Value mask, Value token_types, const BertConfig& c) {
  Value x = b.within("embeddings", [&] {
    Value words = b.embedding(ids, "word_embeddings", c.vocab_size, c.hidden_size);
    Value types = b.embedding(token_types, "token_type_embeddings", c.type_vocab_size, c.hidden_size);
    Value positions = b.within("position_embeddings", [&] {
      return slice_axis(b.param("weight", {c.max_positions, c.hidden_size}), 0, 0, ids.dim(1));
    });
    return b.layer_norm(words + positions + types, "LayerNorm", c.layer_norm_epsilon);
  });
  const AttentionContext context{.mask = convert(mask, boolean)};
  TransformerLayerConfig layer = TransformerLayerConfig::bert(c.heads, c.intermediate_size, c.layer_norm_epsilon);
  std::get<FeedForwardConfig>(layer.feed_forward).activation = c.activation;
  for (int64_t i = 0; i < c.layers; ++i)
    x = b.within(text_of("encoder.layer.", i), [&] { return transformer_layer(b, x, layer, context); });
  return x;
}

}  // namespace rlx
