// Models: a builder that knows how layers are called in weight files, BERT on top of it, and the sentence encoder.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "rlx/ops.h"
#include "rlx/session.h"
#include "rlx/tokenizer.h"

namespace rlx {

/// Builds a model layer by layer. Params are named after the layer: `linear(x, "dense", 4)` within the scope "head"
/// makes "head.dense.weight" and "head.dense.bias"; nodes carry the same names into reports and errors.
class ModelBuilder {
 public:
  explicit ModelBuilder(Graph& graph, DType dtype = f32) : graph_(graph), dtype_(dtype) {}
  Graph& graph() const { return graph_; }

  /// Runs `body` with `name` in front of all names.
  template <class Body>
  auto within(const std::string& name, Body body) {
    struct Leave {
      ModelBuilder& builder;
      std::string outer;
      ~Leave() { builder.prefix_ = outer, builder.graph_.set_scope(outer); }
    } leave{*this, prefix_};
    prefix_ = full_name(name);
    graph_.set_scope(prefix_);
    return body();
  }

  Value param(const std::string& name, Dims dims);
  /// Rows of a table [rows, width] by integer indices of any shape.
  Value embedding(Value indices, const std::string& name, int64_t rows, int64_t width);
  /// x wᵀ + b; weights stand as [out, in], as PyTorch writes them.
  Value linear(Value x, const std::string& name, int64_t out, bool bias = true);
  Value layer_norm(Value x, const std::string& name, double epsilon);
  Value rms_norm(Value x, const std::string& name, double epsilon);
  /// x[n, channels, ...], each channel normalized: by the running statistics, or in `training` by those of the batch.
  /// Then the running ones move by `momentum` towards them (the variance towards that of a sample, as in PyTorch):
  /// `output_written` declares what they become. Params: weight, bias, running_mean, running_var.
  Value batch_norm(Value x, const std::string& name, bool training, double momentum = 0.1, double epsilon = 1e-5);
  /// Outputs what params become that layers write in training, to be called when the loss has been declared; gives
  /// TrainConfig::written.
  std::map<std::string, std::string, std::less<>> output_written();
  /// x + body(x).
  Value residual(Value x, const std::function<Value(Value)>& body) { return x + body(x); }

  struct AttentionNames {
    std::string query = "query", key = "key", value = "value", output = "dense";
  };
  /// Projections to packed heads, attention, and the output projection. `mask` may be absent.
  Value self_attention(Value x, int64_t heads, Value mask, const AttentionNames& names, AttentionAttrs attrs = {});
  /// Two linear layers with an activation between.
  Value feed_forward(Value x, const std::string& up, const std::string& down, int64_t hidden, Activation activation);

 private:
  std::string full_name(const std::string& name) const {
    return prefix_.empty() ? name : name.empty() ? prefix_ : prefix_ + "." + name;
  }
  Graph& graph_;
  DType dtype_;
  std::string prefix_;
  std::vector<std::pair<std::string, Value>> written_;  // params by name, and what they become
};

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
/// The mean over the tokens that `mask` keeps, with norm 1: [B, S, hidden] to [B, hidden].
Value mean_pooled(Value hidden, Value mask);
/// Inputs "input_ids", "attention_mask", "token_type_ids", i64[B, S]; output "embedding", f32[B, hidden].
Graph sentence_encoder_graph(const BertConfig& config);

/// Sentences to vectors: tokenizer, encoder and weights from a model folder (config.json, tokenizer.json,
/// model.safetensors; sentence_bert_config.json has the number of tokens after which a sentence is cut).
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
  int64_t width() const { return config_.hidden_size; }

 private:
  SentenceEncoder(BertConfig config, Tokenizer tokenizer, CompiledGraph compiled, int64_t most_tokens)
      : config_(config), tokenizer_(std::move(tokenizer)), compiled_(std::move(compiled)), most_tokens_(most_tokens) {}
  BertConfig config_;
  Tokenizer tokenizer_;
  CompiledGraph compiled_;
  int64_t most_tokens_;
};

/// The graph of a model folder, with symbolic batch and sequence: for reports and inspection.
Graph load_model_graph(const std::string& folder);

}  // namespace rlx
