// Models: the builder and the blocks that they are made of (rlx/models/), the encoders BERT and ModernBERT on top of
// them, and what their folders are made into: sentences' vectors, logits of masked tokens and of classes.
// docs/models.md shows how a model is built of blocks.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "rlx/models/builder.h"
#include "rlx/models/recurrent.h"
#include "rlx/models/rope.h"
#include "rlx/models/transformer.h"
#include "rlx/models/vision.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "rlx/tokenizer.h"

namespace rlx {

struct BertConfig {
  int64_t vocab_size = 30522, hidden_size = 768, layers = 12, heads = 12, intermediate_size = 3072;
  int64_t max_positions = 512, type_vocab_size = 2;
  double layer_norm_epsilon = 1e-12;
  Activation activation = Activation::gelu;

  /// From a model's config.json. Fails on what BERT cannot be, naming the key.
  static BertConfig from_json(std::string_view json);
  static BertConfig load(const std::string& path);
};

/// The BERT encoder (Devlin et al. 2018), post-norm: ids and token types i64[B, S], mask i64[B, S] (1 keeps a token) to
/// hidden states [B, S, hidden]. Params are named as in the weight files of the `transformers` package, without a
/// prefix.
Value bert_encoder(ModelBuilder& builder, Value ids, Value mask, Value token_types, const BertConfig& config);

struct ModernBertConfig {
  int64_t vocab_size = 50368, hidden_size = 768, layers = 22, heads = 12, intermediate_size = 1152;
  int64_t max_positions = 8192;
  double norm_epsilon = 1e-5;
  bool norm_bias = false, attention_bias = false, feed_forward_bias = false;
  Activation activation = Activation::gelu;
  std::vector<bool> local = {};  ///< for each layer, whether a token sees near ones alone; empty: all but each third
  int64_t reach = 64;            ///< of local layers: how many tokens on either side are seen
  double theta = 160000, local_theta = 10000;  ///< rotary positions of the two kinds of layers
  bool decoder_bias = true, classifier_bias = false;
  Activation classifier_activation = Activation::gelu;
  bool classifies_mean = false;  ///< classes are those of the mean over the tokens, not of the first token

  /// From a model's config.json, as transformers reads it. Fails, naming the key, for what is not built here.
  static ModernBertConfig from_json(std::string_view json);
};

/// ModernBERT (Warner et al. 2024, arXiv:2412.13663), pre-norm with rotary positions and gated feed-forward: ids and
/// mask i64[B, S] to hidden states [B, S, hidden]. Params are named as in the weight files of the `transformers`
/// package, without a prefix.
Value modern_bert_encoder(ModelBuilder& builder, Value ids, Value mask, const ModernBertConfig& config);

/// What stands on an encoder: nothing, the logits of each token (of a language model with masks), or those of classes.
enum class EncoderHead { none, masked_tokens, classes };
constexpr std::array<std::string_view, 3> names_of(EncoderHead) { return {"none", "masked_tokens", "classes"}; }

/// An encoder of texts, as the config.json of its folder has it.
struct EncoderConfig {
  std::variant<BertConfig, ModernBertConfig> model;
  EncoderHead head = EncoderHead::none;   ///< what `architectures` names
  std::vector<std::string> classes = {};  ///< their names, with a head for them

  EncoderConfig(BertConfig bert) : model(std::move(bert)) {}            // NOLINT(google-explicit-constructor)
  EncoderConfig(ModernBertConfig modern) : model(std::move(modern)) {}  // NOLINT(google-explicit-constructor)
  int64_t vocab_size() const;
  int64_t hidden_size() const;
  int64_t max_positions() const;
  /// From the text of a config.json, by its `model_type`. Fails as the configurations' own `from_json` do.
  static EncoderConfig from_json(std::string_view json);
  static EncoderConfig load(const std::string& path);
};

/// How the states of a sentence's tokens become one vector, as the package `sentence_transformers` does it.
struct SentencePooling {
  /// The first token; the largest of each element; the mean; the sum divided by the root of the number of tokens; the
  /// mean with weights 1, 2, 3 ...; the last token.
  enum class Mode { cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken };
  std::vector<Mode> modes = {Mode::mean};  ///< one or several, whose vectors follow one another
  bool normalize = true;                   ///< the vector is divided by its norm
  std::string prompt = {};                 ///< stands before each sentence

  /// From modules.json, the pooling's own config.json and config_sentence_transformers.json of a folder; without a
  /// modules.json the mean, normalized. Fails for modules that are not built here, by their name.
  static SentencePooling load(const std::string& folder);
};
constexpr std::array<std::string_view, 6> names_of(SentencePooling::Mode) {
  return {"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"};
}

/// The mean over the tokens that `mask` keeps, with norm 1: [B, S, hidden] to [B, hidden].
Value mean_pooled(Value hidden, Value mask);
/// [B, S, hidden] and mask [B, S] to [B, hidden times the number of modes]. Positions count from the first token.
Value pooled(Value hidden, Value mask, const SentencePooling& pooling);
/// Inputs "input_ids", "attention_mask", and for BERT "token_type_ids", i64[B, S]; output "embedding", f32[B, width].
Graph sentence_encoder_graph(const EncoderConfig& config, const SentencePooling& pooling = {});
/// The same inputs; output "logits": f32[B, S, vocabulary] of masked tokens, f32[B, classes] of classes, and without a
/// head "hidden", f32[B, S, hidden].
Graph text_encoder_graph(const EncoderConfig& config);

/// Sentences to vectors: tokenizer, encoder and weights from a model folder (config.json, tokenizer.json,
/// model.safetensors; sentence_bert_config.json has the number of tokens after which a sentence is cut, modules.json
/// what makes a vector of the tokens).
class SentenceEncoder {
 public:
  struct Options {
    Device device = Device::from_environment();
    int threads = 0;             ///< 0: as of a session
    int64_t most_tokens = 8192;  ///< of one batch, padding included
    CompileOptions compile = CompileOptions::from_environment();
  };
  static SentenceEncoder load(const std::string& folder) { return load(folder, Options{}); }
  static SentenceEncoder load(const std::string& folder, Options options);

  /// One row a sentence, in their order: f32[n, width]. `progress(done, all)` is called after each batch.
  Tensor embed(std::span<const std::string> sentences, const std::function<void(size_t, size_t)>& progress = {}) const;
  /// Already tokenized: i64[B, S] ids and mask.
  Tensor embed_ids(Tensor ids, Tensor mask) const;
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const CompiledGraph& compiled() const { return compiled_; }
  int64_t width() const { return width_; }

 private:
  SentenceEncoder(int64_t width, std::string prompt, Tokenizer tokenizer, CompiledGraph compiled, int64_t most_tokens)
      : width_(width), prompt_(std::move(prompt)), tokenizer_(std::move(tokenizer)), compiled_(std::move(compiled)),
        most_tokens_(most_tokens) {}
  int64_t width_;
  std::string prompt_;
  Tokenizer tokenizer_;
  CompiledGraph compiled_;
  int64_t most_tokens_;
};

/// An encoder with the head that its folder's config.json names in `architectures`: a language model with masks
/// (ModernBertForMaskedLM, BertForMaskedLM) or a classifier (...ForSequenceClassification).
class TextEncoder {
 public:
  using Options = SentenceEncoder::Options;  ///< `most_tokens` is not looked at
  /// Whether a folder has a config.json of an encoder: of `model_type` bert or modernbert.
  static bool is_one(const std::string& folder);
  /// Reads config.json and model.safetensors. Fails for a folder without such a head, and naming the tensor for one
  /// that is missing, of another shape, or that the model has no use for.
  static TextEncoder load(const std::string& folder) { return load(folder, Options{}); }
  static TextEncoder load(const std::string& folder, Options options);

  const EncoderConfig& config() const { return config_; }
  const CompiledGraph& compiled() const { return compiled_; }
  /// Ids and mask i64[B, S] (1 keeps a token) to f32[B, S, vocabulary] or f32[B, classes]. Fails for an id that is not
  /// in the vocabulary, and for more tokens than BERT's table has positions.
  Tensor logits(Tensor ids, Tensor mask) const;
  /// One text, without padding: f32[tokens, vocabulary] or f32[1, classes].
  Tensor logits(std::span<const int32_t> ids) const;

 private:
  TextEncoder(EncoderConfig config, CompiledGraph compiled)
      : config_(std::move(config)), compiled_(std::move(compiled)) {}
  EncoderConfig config_;
  CompiledGraph compiled_;
};

/// The graph of a model folder, with symbolic batch and sequence: for reports and inspection.
Graph load_model_graph(const std::string& folder);

}  // namespace rlx
