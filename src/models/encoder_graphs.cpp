// The graphs of encoders: the inputs, the encoder by its kind, and what stands on it; see rlx/models.h.
#include <string>
#include <vector>

#include "rlx/models.h"

namespace rlx {
namespace {

struct Inputs {
  Value ids, mask, types;  ///< `types` is there for BERT alone
};
Inputs inputs_of(Graph& g, const EncoderConfig& config) {
  const Dims shape = {Dim::symbol("B"), Dim::symbol("S")};
  Inputs in;
  in.ids = g.input("input_ids", i64, shape);
  in.mask = g.input("attention_mask", i64, shape);
  if (std::holds_alternative<BertConfig>(config.model)) in.types = g.input("token_type_ids", i64, shape);
  return in;
}
Value encoded(ModelBuilder& b, const Inputs& in, const EncoderConfig& config) {
  if (const auto* bert = std::get_if<BertConfig>(&config.model))
    return bert_encoder(b, in.ids, in.mask, in.types, *bert);
  return modern_bert_encoder(b, in.ids, in.mask, std::get<ModernBertConfig>(config.model));
}

/// Row by row, the sum of the tokens with weights[B, S]: [B, hidden].
Value weighted_sum(Value hidden, Value weights) { return reduce_sum(hidden * expand_dims(weights, 2), {1}); }
/// weights[B, 1], at least 1e-9.
Value divisor(Value weights) {
  Value sum = reduce_sum(weights, {1});
  return expand_dims(maximum(sum, scalar(sum.graph(), 1e-9, sum.dtype())), 1);
}

Value pooled_by(Value hidden, Value mask, SentencePooling::Mode mode) {
  using Mode = SentencePooling::Mode;
  Graph& g = hidden.graph();
  Value keep = convert(mask, boolean), weights = convert(keep, hidden.dtype());  // [B, S]
  Value places = broadcast_in_dim(iota(g, {hidden.dtype(), {hidden.dim(1)}}, 0), mask.dims(), {1});
  Value behind = broadcast_in_dim(extent(g, hidden.dim(1), hidden.dtype()), mask.dims(), {});
  // The first token that is kept, or the first of all.
  const auto first = [&] { return reduce_min(select(keep, places, behind), {1}); };
  const auto at = [&](Value place) {  // the tokens at place[B]
    Value is_there = compare(places, broadcast_in_dim(place, mask.dims(), {0}), Comparison::eq);
    return weighted_sum(hidden, convert(is_there, hidden.dtype()));
  };
  switch (mode) {
    case Mode::cls: {
      Value place = first();
      Value length = broadcast_in_dim(extent(g, hidden.dim(1), hidden.dtype()), place.dims(), {});
      return at(select(compare(place, length, Comparison::lt), place, full(g, 0, place.type())));
    }
    case Mode::max: {
      Value lowest = full(g, -std::numeric_limits<double>::infinity(), hidden.type());
      return reduce_max(select(broadcast_in_dim(keep, hidden.dims(), {0, 1}), hidden, lowest), {1});
    }
    case Mode::mean: return weighted_sum(hidden, weights) / divisor(weights);
    case Mode::mean_sqrt_len_tokens: return weighted_sum(hidden, weights) / sqrt(divisor(weights));
    case Mode::weightedmean: {
      Value from = broadcast_in_dim(first(), mask.dims(), {0});
      Value rising = weights * (places - from + 1.0);
      return weighted_sum(hidden, rising) / divisor(rising);
    }
    case Mode::lasttoken: return at(reduce_max(select(keep, places, full(g, -1, places.type())), {1}));
  }
  fail(ErrorCode::invalid_argument, "pooling by mode ", static_cast<int>(mode), ", which there is not");
}

Value masked_token_logits(ModelBuilder& b, Value x, const EncoderConfig& config) {
  if (const auto* c = std::get_if<ModernBertConfig>(&config.model)) {
    x = b.within("head", [&] {
      Value h = activate(b.linear(x, "dense", c->hidden_size, c->classifier_bias), c->classifier_activation);
      return b.layer_norm(h, "norm", c->norm_epsilon, c->norm_bias);
    });
    Value table = b.param("embeddings.tok_embeddings.weight", {c->vocab_size, c->hidden_size});
    return linear(x, table, c->decoder_bias ? b.param("decoder.bias", {c->vocab_size}) : Value{});
  }
  const auto& c = std::get<BertConfig>(config.model);
  x = b.within("cls.predictions.transform", [&] {
    return b.layer_norm(activate(b.linear(x, "dense", c.hidden_size), c.activation), "LayerNorm", c.layer_norm_epsilon);
  });
  Value table = b.param("embeddings.word_embeddings.weight", {c.vocab_size, c.hidden_size});
  return linear(x, table, b.param("cls.predictions.bias", {c.vocab_size}));
}

Value class_logits(ModelBuilder& b, Value x, Value mask, const EncoderConfig& config) {
  const auto classes = static_cast<int64_t>(config.classes.size());
  const auto first = [&] { return reshape(slice_axis(x, 1, 0, 1), {x.dim(0), x.dim(2)}); };
  if (const auto* c = std::get_if<ModernBertConfig>(&config.model)) {
    Value pooled = c->classifies_mean ? pooled_by(x, mask, SentencePooling::Mode::mean) : first();
    pooled = b.within("head", [&] {
      Value h = activate(b.linear(pooled, "dense", c->hidden_size, c->classifier_bias), c->classifier_activation);
      return b.layer_norm(h, "norm", c->norm_epsilon, c->norm_bias);
    });
    return b.linear(pooled, "classifier", classes);
  }
  return b.linear(tanh(b.linear(first(), "pooler.dense", config.hidden_size())), "classifier", classes);
}

}  // namespace

Value mean_pooled(Value hidden, Value mask) {
  Value weights = convert(mask, hidden.dtype());                  // [B, S]
  Value sum = reduce_sum(hidden * expand_dims(weights, 2), {1});  // [B, hidden]
  Value count = maximum(reduce_sum(weights, {1}), scalar(hidden.graph(), 1e-9, hidden.dtype()));
  return l2_normalize(sum / expand_dims(count, 1), -1, 1e-12);
}

Value pooled(Value hidden, Value mask, const SentencePooling& pooling) {
  if (pooling.modes.empty()) fail(ErrorCode::invalid_argument, "pooling without a mode");
  if (pooling.normalize && pooling.modes == std::vector{SentencePooling::Mode::mean}) return mean_pooled(hidden, mask);
  std::vector<Value> parts;
  for (const SentencePooling::Mode mode : pooling.modes) parts.push_back(pooled_by(hidden, mask, mode));
  Value all = parts.size() == 1 ? parts[0] : concatenate(parts, 1);
  return pooling.normalize ? l2_normalize(all, -1, 1e-12) : all;
}

Graph sentence_encoder_graph(const EncoderConfig& config, const SentencePooling& pooling) {
  Graph g("sentence_encoder");
  const Inputs in = inputs_of(g, config);
  ModelBuilder builder(g);
  Value hidden = encoded(builder, in, config);
  g.set_scope("pooling");
  g.output(pooled(hidden, in.mask, pooling), "embedding");
  return g;
}

Graph text_encoder_graph(const EncoderConfig& config) {
  Graph g("text_encoder");
  const Inputs in = inputs_of(g, config);
  ModelBuilder builder(g);
  Value hidden = encoded(builder, in, config);
  switch (config.head) {
    case EncoderHead::none: g.output(hidden, "hidden"); break;
    case EncoderHead::masked_tokens: g.output(masked_token_logits(builder, hidden, config), "logits"); break;
    case EncoderHead::classes: g.output(class_logits(builder, hidden, in.mask, config), "logits"); break;
  }
  return g;
}

}  // namespace rlx
