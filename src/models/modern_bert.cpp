// ModernBERT and its configuration; see rlx/models.h. Neighbour: bert.cpp.
#include <cmath>
#include <string>
#include <vector>

#include "models/language/config_json_keys.h"
#include "rlx/models.h"

namespace rlx {
namespace {

using language::config_json::Keys;
using language::config_json::kFile;

/// The base of the rotary positions of one kind of layers: from `rope_parameters`, else from a key of older files.
double theta_of(const Keys& k, const Keys& both, const char* kind, const char* older, double otherwise) {
  if (!both.has(kind)) {
    if (k.is_null(older)) fail(ErrorCode::unsupported, k.name(older), " is null; transformers fails there");
    return k.number_or(older, otherwise, 1 + 1e-9, language::config_json::kHuge);
  }
  const Keys p(both.object(kind), text_of("rope_parameters.", kind, "."));
  for (const JsonTree& member : p.json().elements())
    if (!member.is_null() && member.name() != "rope_type" && member.name() != "type" && member.name() != "rope_theta")
      fail(ErrorCode::unsupported, p.name(language::shown_name(member.name())), " is ", member.shown(),
           "; this builds plain rotary positions alone");
  const std::string type = p.text_or("rope_type", p.text_or("type", "default"));
  if (type != "default")
    fail(ErrorCode::unsupported, p.name("rope_type"), " is '", language::shown_name(type), "'; there is \"default\"");
  return p.has("rope_theta") ? p.number("rope_theta", 1 + 1e-9, language::config_json::kHuge)
                             : k.number_or(older, otherwise, 1 + 1e-9, language::config_json::kHuge);
}

void fill_rope(ModernBertConfig& c, const Keys& k) {
  if (k.has("rope_scaling") && !k.object("rope_scaling").elements().empty())
    fail(ErrorCode::unsupported, k.name("rope_scaling"), " is ", k.find("rope_scaling")->shown(),
         "; this builds plain rotary positions alone");
  static const JsonTree nothing = {};
  const Keys both(k.has("rope_parameters") ? k.object("rope_parameters") : nothing, "rope_parameters.");
  for (const JsonTree& member : both.json().elements())
    if (!member.is_null() && member.name() != "full_attention" && member.name() != "sliding_attention")
      fail(ErrorCode::unsupported, both.name(language::shown_name(member.name())), " is ", member.shown(),
           ", but modernbert has 'full_attention' and 'sliding_attention' there, with such keys in each");
  c.theta = theta_of(k, both, "full_attention", "global_rope_theta", c.theta);
  c.local_theta = theta_of(k, both, "sliding_attention", "local_rope_theta", c.local_theta);
}

void fill_layer_types(ModernBertConfig& c, const Keys& k) {
  const int64_t whole = k.size_or("local_attention", 128, 0, language::kMostContext);
  c.reach = whole / 2;
  if (k.has("sliding_window") && k.size("sliding_window", 0, language::kMostContext) != c.reach)
    fail(ErrorCode::parse, k.name("sliding_window"), " is ", k.find("sliding_window")->shown(),
         ", but half of 'local_attention', another name of it, is ", c.reach);
  const JsonTree* types = k.find("layer_types");
  const int64_t period = k.size_or("global_attn_every_n_layers", 3, 1, language::kMostLayers);
  if (types && !types->is_array())
    fail(ErrorCode::parse, k.name("layer_types"), " is ", types->shown(), ", not a list");
  if (types && static_cast<int64_t>(types->elements().size()) != c.layers)
    fail(ErrorCode::parse, k.name("layer_types"), " has ", types->elements().size(), " items for ", c.layers,
         " layers");
  for (int64_t i = 0; i < c.layers; ++i) {
    const JsonTree* type = types ? &types->elements()[static_cast<size_t>(i)] : nullptr;
    if (type && (!type->is_string() || (type->string() != "full_attention" && type->string() != "sliding_attention")))
      fail(ErrorCode::unsupported, "item ", i, " of ", k.name("layer_types"), " is ", type->shown(),
           "; there are \"full_attention\" and \"sliding_attention\"");
    c.local.push_back(type ? type->string() == "sliding_attention" : i % period != 0);
  }
}

}  // namespace

ModernBertConfig ModernBertConfig::from_json(std::string_view text) {
  const JsonTree json = with_context([] { return text_of("reading '", kFile, "'"); }, [&] { return parse_json(text); });
  if (!json.is_object()) fail(ErrorCode::parse, kFile, " is ", json.shown(), ", not an object");
  const Keys k(json);
  if (const std::string type = k.text_or("model_type", "modernbert"); type != "modernbert")
    fail(ErrorCode::unsupported, k.name("model_type"), " is '", language::shown_name(type),
         "'; this builds \"modernbert\"");
  ModernBertConfig c;
  c.vocab_size = k.size_or("vocab_size", c.vocab_size, 1, language::kMostVocabulary);
  c.hidden_size = k.size_or("hidden_size", c.hidden_size, 1, language::kMostWidth);
  c.layers = k.size_or("num_hidden_layers", c.layers, 1, language::kMostLayers);
  c.heads = k.size_or("num_attention_heads", c.heads, 1, language::kMostHeads);
  c.intermediate_size = k.size_or("intermediate_size", c.intermediate_size, 1, language::kMostIntermediate);
  c.max_positions = k.size_or("max_position_embeddings", c.max_positions, 1, language::kMostContext);
  c.norm_epsilon = k.number_or("norm_eps", c.norm_epsilon, 0, 1);
  c.norm_bias = k.flag_or("norm_bias", false);
  c.attention_bias = k.flag_or("attention_bias", false);
  c.feed_forward_bias = k.flag_or("mlp_bias", false);
  c.decoder_bias = k.flag_or("decoder_bias", true);
  c.classifier_bias = k.flag_or("classifier_bias", false);
  c.activation = language::activation_of(k.text_or("hidden_activation", "gelu"), "hidden_activation", kFile);
  c.classifier_activation =
      language::activation_of(k.text_or("classifier_activation", "gelu"), "classifier_activation", kFile);
  const std::string pooling = k.text_or("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean")
    fail(ErrorCode::unsupported, k.name("classifier_pooling"), " is '", language::shown_name(pooling),
         "'; there are cls and mean");
  c.classifies_mean = pooling == "mean";
  if (!k.flag_or("tie_word_embeddings", true))
    fail(ErrorCode::unsupported, k.name("tie_word_embeddings"),
         " is false; this builds ModernBERT with one table for tokens and their logits");
  if (c.hidden_size % c.heads != 0 || c.hidden_size / c.heads % 2 != 0)
    fail(ErrorCode::parse, kFile, ": a hidden_size of ", c.hidden_size, " does not divide into ", c.heads,
         " heads of an even width");
  if (k.has("head_dim") && k.size("head_dim", 1, language::kMostHeadDim) != c.hidden_size / c.heads)
    fail(ErrorCode::unsupported, k.name("head_dim"), " is ", k.find("head_dim")->shown(),
         ", but heads of modernbert have ", c.hidden_size / c.heads, " elements, hidden_size / num_attention_heads");
  fill_layer_types(c, k);
  fill_rope(c, k);
  return c;
}

Value modern_bert_encoder(ModelBuilder& b, Value ids, Value mask, const ModernBertConfig& c) {
  const auto is_local = [&](int64_t layer) {
    return c.local.empty() ? layer % 3 != 0 : bool(c.local.at(static_cast<size_t>(layer)));
  };
  Value x = b.within("embeddings", [&] {
    Value words = b.embedding(ids, "tok_embeddings", c.vocab_size, c.hidden_size);
    return b.layer_norm(words, "norm", c.norm_epsilon, c.norm_bias);
  });
  const auto angles = [&](double theta) {
    return rope_tables(b.graph(), {.theta = theta, .dims = c.hidden_size / c.heads}, {.count = ids.dim(1)});
  };
  AttentionContext everywhere{.mask = convert(mask, boolean), .rope = angles(c.theta)}, near = everywhere;
  near.rope = angles(c.local_theta);
  const TransformerLayerConfig each{
      .attention = {.heads = c.heads,
                    .bias = c.attention_bias,
                    .output_bias = c.attention_bias,
                    .names = {.scope = "attn", .output = "Wo", .packed = "Wqkv"}},
      .feed_forward = FeedForwardConfig{.hidden = c.intermediate_size,
                                        .activation = c.activation,
                                        .bias = c.feed_forward_bias,
                                        .names = {.down = "Wo", .packed = "Wi"}},
      .norm = {.kind = TokenNorm::layer_norm, .epsilon = c.norm_epsilon, .bias = c.norm_bias},
      .names = {.attention_norm = "attn_norm", .feed_forward_norm = "mlp_norm"}};
  for (int64_t i = 0; i < c.layers; ++i) {
    TransformerLayerConfig layer = each;
    if (i == 0) layer.names.attention_norm = "";  // it reads what the embeddings' norm has made
    if (is_local(i)) layer.attention.window = c.reach + 1;
    x = b.within(text_of("layers.", i),
                 [&] { return transformer_layer(b, x, layer, is_local(i) ? near : everywhere); });
  }
  return b.layer_norm(x, "final_norm", c.norm_epsilon, c.norm_bias);
}

}  // namespace rlx
