// Decoders of text from files alone: a Hugging Face folder or a GGUF file becomes one description, the description a
// graph of blocks, and the graph a model that continues sequences of tokens. Neighbours: rlx/tokenizer.h makes the
// tokens, rlx/models.h has encoders. docs/language_models.md lists the architectures.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/chat_template.h"
#include "rlx/lazy_tensor.h"
#include "rlx/models/rope.h"
#include "rlx/models/transformer.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "rlx/tokenizer.h"

namespace rlx {

/// What mixes the tokens of a layer: attention, whose caches grow with the text, or a recurrence, whose state has one
/// size. mamba: Gu, Dao 2023. mamba2: Dao, Gu 2024. gated_delta_net: Yang, Kautz, Hatamizadeh 2024.
enum class TokenMixer { attention, mamba, mamba2, gated_delta_net };
constexpr std::array<std::string_view, 4> names_of(TokenMixer) {
  return {"attention", "mamba", "mamba2", "gated_delta_net"};
}
/// The recurrences of a decoder, all of one shape.
struct RecurrentConfig {
  int64_t inner = 0;   ///< elements of a token that are mixed; of gated_delta_net, those of all heads' values
  int64_t state = 0;   ///< elements that each of them keeps; of gated_delta_net, those of a head's key
  int64_t kernel = 4;  ///< tokens that the causal convolution in front sees, the token itself included
  int64_t heads = 0;   ///< of mamba2 and gated_delta_net: inner / heads elements share their decay
  int64_t groups = 1;  ///< heads of a group share what they write and read by (B, C; keys, queries), of mamba2 a norm
  int64_t step_rank = 0;   ///< of mamba: the width that steps are projected from
  bool is_grouped = true;  ///< of gated_delta_net: one projection has queries, keys, values and gates, group by group
  bool bias = false;       ///< of the projections into and out of the mixer
  bool convolution_bias = true;
  bool decay_is_log = true;                  ///< params have the logarithm of the decay's rate, and not its negative
  Activation activation = Activation::silu;  ///< behind the convolution
  double least_step = 0;                     ///< steps of mamba2 are held to these
  std::optional<double> most_step = {};
};

/// How a Hugging Face folder has its matrices, by `quantization_config` (of mlx-lm: `quantization`).
struct WeightPacking {
  enum class Method { none, gptq, awq, bitsandbytes, mlx };
  Method method = Method::none;
  int64_t bits = 0;   ///< of a code; of bitsandbytes 4 or 8
  int64_t group = 0;  ///< elements that share a scale; -1: all of a column; of bitsandbytes each tensor says it
  bool zeros_less_one = false;  ///< GPTQ's first version keeps zero points less one
  struct Module {
    int64_t bits = 0, group = 0;
  };
  std::map<std::string, Module> modules = {};  ///< of mlx: those that differ, by their names in the file
  /// "GPTQ, 4 bits, groups of 128"; empty if nothing is packed.
  std::string text() const;
};
constexpr std::array<std::string_view, 5> names_of(WeightPacking::Method) {
  return {"none", "gptq", "awq", "bitsandbytes", "mlx"};
}

/// How a weight stands in memory: as numbers or blocks, or as codes beside their scales, which are params of their own.
/// Codes "NAME.weight" are [in, out] with "NAME.scales" f32[groups, out], as dequant_matmul has them.
struct WeightType {
  DType dtype = f32;             ///< f32, f16, bf16 or a block format; of codes i4, u4, i8 or u8
  int64_t group = 0;             ///< of codes: elements of a column that share a scale; 0: there are no codes
  bool has_zero_points = false;  ///< "NAME.zero_points" u8[groups, out]
  bool has_biases = false;       ///< "NAME.biases" f32[groups, out]
  int64_t table = 0;             ///< elements of "NAME.table" f32, the numbers of the codes; 0: there is none
  bool has_order = false;        ///< "NAME.order" i32[in]: which elements of x the rows are multiplied with
  /// Low-rank adapters beside the product, together: "NAME.adapter_a" f32[rank, in], "NAME.adapter_b" f32[out, rank],
  /// scaled already; 0: there is none.
  int64_t adapter_rank = 0;
  WeightType(DType d = f32) : dtype(d) {}  // NOLINT(google-explicit-constructor): most weights are just a dtype
};

/// What a decoder is, whichever file says so. Sizes are numbers of elements.
struct LanguageModelConfig {
  std::string architecture;  ///< as the file calls it: "llama", "qwen3", "gemma2"
  int64_t vocabulary = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  int64_t context = 0;  ///< the most positions that the model was made for (max_position_embeddings)
  double norm_epsilon = 1e-6;
  bool layer_norm = false;       ///< with a mean and a bias, instead of RMSNorm
  bool norm_adds_one = false;    ///< RMSNorm multiplies by 1 + weight
  bool post_norms = false;       ///< norms behind attention and feed-forward too, before each is added (Gemma)
  bool gated_attention = false;  ///< attention's result times sigmoid(gate); gates stand behind each head's query
  bool query_key_norm = false;   ///< RMSNorm over each head of queries and keys
  bool query_key_value_bias = false, attention_output_bias = false, feed_forward_bias = false;
  bool fused_query_key_value = false;  ///< one weight for the three projections
  bool fused_gate_up = false;          ///< one weight for gate and up
  bool gated = true;                   ///< activation(gate) * up, instead of activation(up)
  Activation activation = Activation::silu;
  bool tied_embeddings = false;    ///< the table of tokens is the output projection too
  bool learned_positions = false;  ///< a table of positions instead of rotary ones
  double embedding_scale = 1;
  std::optional<double> attention_scale = {};  ///< 1 / sqrt(head_dim) where left out
  std::optional<double> attention_softcap = {}, logits_softcap = {};
  RopeConfig rope = {};
  std::optional<RopeConfig> local_rope = {};  ///< of layers with a window, where theirs differs (Gemma 3)
  int64_t window = 0;                     ///< of layers in `windowed`: a token sees itself and the window - 1 before it
  std::vector<bool> windowed = {};        ///< for each layer, whether it has the window; empty: none has
  std::vector<TokenMixer> mixers = {};    ///< for each layer; empty: all have attention
  RecurrentConfig recurrent = {};         ///< of layers without attention
  bool has_feed_forward = true;           ///< each layer has one behind what mixes its tokens
  int64_t experts = 0, experts_used = 0;  ///< of layers in `sparse`: of all, and for a token
  int64_t expert_intermediate = 0;
  int64_t shared_expert_intermediate = 0;  ///< of one more for all tokens, times sigmoid(its gate); 0: there is none
  bool normalize_experts = false;          ///< the weights of the experts that are used add up to 1
  std::vector<bool> sparse =
      {};  ///< for each layer, whether it has experts instead of a dense feed-forward; empty: none has
  WeightPacking packing = {};

  TokenMixer mixer(int64_t layer) const {
    return mixers.empty() ? TokenMixer::attention : mixers.at(static_cast<size_t>(layer));
  }
  bool has_attention() const {
    return mixers.empty() || std::find(mixers.begin(), mixers.end(), TokenMixer::attention) != mixers.end();
  }
  /// Whether a layer has a state that cannot be taken back: a sequence that is rewound is read again.
  bool is_recurrent() const {
    return std::any_of(mixers.begin(), mixers.end(), [](TokenMixer m) { return m != TokenMixer::attention; });
  }

  /// From the text of a config.json. Fails, naming the key and the value, for a size that is missing, no number, or
  /// out of range, and as unsupported for what is not built here.
  static LanguageModelConfig from_json(std::string_view json);
  /// From the metadata of a GGUF file, and from which tensors it has (tied embeddings, biases). The same errors.
  static LanguageModelConfig from_gguf(const GgufFile& file);
};

/// The blocks of decoders. Params are named "layers.3.attention.query.weight" whichever file they come from;
/// `DecoderBlocks::layer` puts the others together, and all of them are there for models that are built by hand.
class DecoderBlocks {
 public:
  /// What a weight is, by its name. Without it all are f32.
  using WeightTypes = std::function<WeightType(const std::string& name)>;
  DecoderBlocks(Graph& graph, const LanguageModelConfig& config, WeightTypes types = {});

  /// All calls get the same: tables of angles are made for the first.
  using Positions = SequencePositions;
  /// What one layer keeps of a text. Of attention keys and values, [1, kv_heads, capacity, head_dim], of f32, f16 or
  /// bf16: queries are rounded to the same dtype; scores, their softmax and the weighted sums are computed in f32. Of a
  /// recurrence the last inputs of its convolution, f32[1, kernel - 1, channels], and its state: f32[1, inner, state]
  /// of mamba, f32[1, heads, inner / heads, state] of mamba2, f32[1, heads, state, inner / heads] of gated_delta_net.
  /// Both are zeros before the first token.
  struct Cache : KeyValueCache {
    Value convolution = {}, state = {};
  };

  Graph& graph() const { return graph_; }
  const LanguageModelConfig& config() const { return config_; }

  /// The param of that name, which is made by the first call.
  Value param(const std::string& name, Dims dims);
  /// The same as f32, if it is of another dtype; fails for blocks, which `linear` and `rows` read packed.
  Value float_param(const std::string& name, Dims dims);
  /// x wᵀ + b of the params "NAME.weight" [out, in] and "NAME.bias", with adapters if the weight has some.
  Value linear(Value x, const std::string& name, int64_t out, bool bias = false);
  /// Rows of the table "NAME.weight" [rows, width] by integer indices, as f32.
  Value rows(Value indices, const std::string& name, int64_t rows, int64_t width);
  /// The model's norm over the last dim.
  Value norm(Value x, const std::string& name);

  /// ids[1, n] to hidden states f32[1, n, hidden].
  Value embedding(Value ids, const Positions& positions);
  /// Attention of n tokens to those of the cache and themselves: f32[1, n, hidden] to the same, or to f32[1, rows,
  /// hidden] for the last `rows` of them. `cache` becomes the cache with all new tokens.
  Value attention(Value x, int64_t layer, const Positions& positions, Cache& cache, std::optional<Dim> rows = {});
  /// A recurrence over n tokens, from the state that the tokens before have left: f32[1, n, hidden] to the same.
  /// `cache` becomes the state behind the last of them.
  Value mamba(Value x, int64_t layer, Cache& cache);
  Value mamba2(Value x, int64_t layer, Cache& cache);
  Value gated_delta_net(Value x, int64_t layer, Cache& cache);
  /// The dense feed-forward of a layer: f32[1, n, hidden] to the same, as `experts` and `layer`.
  Value feed_forward(Value x, int64_t layer);
  /// The mixture of experts of a layer, with the shared one.
  Value experts(Value x, int64_t layer);
  /// Norms, attention or a recurrence, and feed-forward or experts, with their residual connections. With `rows`, the
  /// result is that of the last `rows` tokens alone, and little is computed of the others but what the cache keeps: of
  /// the last layer nobody reads more.
  Value layer(Value x, int64_t layer, const Positions& positions, Cache& cache, std::optional<Dim> rows = {});
  /// The last norm, the output projection and its soft cap: f32[1, m, hidden] to f32[1, m, vocabulary].
  Value logits(Value x);

 private:
  WeightType type_of(const std::string& name) const { return types_ ? types_(name) : WeightType{}; }
  Value made_param(const std::string& name, DType dtype, Dims dims);
  CodeScales code_scales(const std::string& name, const WeightType& type, Dims dims);
  Value packed_product(Value x, const std::string& name, int64_t out, const WeightType& type);
  Value packed_rows(Value indices, const std::string& name, int64_t rows, int64_t width, const WeightType& type);
  RopeTables angles(bool is_local, const Positions& positions);
  Value rms_norm(Value x, const std::string& name);
  Value shared_expert(Value x, const std::string& at);
  Value causal_convolution(Value x, const std::string& name, Value& last);
  Value repeated_groups(Value x, int64_t groups, int64_t heads);
  Graph& graph_;
  const LanguageModelConfig config_;
  WeightTypes types_;
  std::map<std::string, Value> params_;
  std::array<std::optional<RopeTables>, 2>
      angles_;  // by config.rope, by config.local_rope: for the positions asked first
};

/// One step of a decoder, for any number of new tokens. Symbols: n new tokens, `total` tokens with them, `capacity`
/// of the caches, and `rows` of the new tokens, the last ones, whose logits are wanted.
///
/// Inputs: "tokens" i32[1, n], "position" i32 (of the first of them), "total" u8[total, 0] and "rows" u8[rows, 0]
/// (without bytes: a symbol follows from extents of inputs alone), total = position + n <= capacity, and for each layer
/// "layers.3.keys" and "layers.3.values" [1, kv_heads, capacity, head_dim] of the dtype `cache`, or, of a recurrence,
/// "layers.3.convolution" and "layers.3.state", as DecoderBlocks::Cache has them. Outputs: "logits"
/// f32[rows, vocabulary], and the caches under their names, which are updated in place if they are donated. Fails as
/// unsupported for a `cache` that is none of cache_dtypes(), or whose blocks do not divide head_dim.
Graph decoder_graph(const LanguageModelConfig& config, const DecoderBlocks::WeightTypes& types = {}, DType cache = f32);

/// A decoder of text, with its weights. Copies share it; its functions may be called from several threads at once. Each
/// Sequence belongs to one thread at a time.
class LanguageModel {
 public:
  /// A low-rank adapter (LoRA): a folder of the package PEFT (adapter_config.json, adapter_model.safetensors) beside a
  /// Hugging Face folder, or a GGUF file of llama.cpp's beside a GGUF file. What it adds is multiplied by `scale`,
  /// beside the factor that the file itself says (alpha over the rank).
  struct Adapter {
    std::string path;
    double scale = 1;
  };
  struct Options {
    /// Caches live in the device's memory: a step moves tokens and logits alone. When they grow, they go through the
    /// host once.
    Device device = Device::from_environment();
    int threads = 0;  ///< as SessionOptions::threads
    CompileOptions compile = CompileOptions::from_environment();
    /// The most tokens of a sequence; 0: what the model promises. Caches grow with what they hold, up to this.
    int64_t context = 0;
    /// Dtype of the caches of keys and values (states of recurrences are f32 in any case), one of cache_dtypes(). f16
    /// and bf16 take half the memory and round queries, keys, values and the result of attention to 11 bits (f16) or 8
    /// (bf16). The largest f16 is 65504; a model with larger keys or values needs bf16. q8_0 and q4_0 keep keys and
    /// values in blocks of 32 with a scale each, 8 and 4 bits an element, and need a head_dim that 32 divides.
    DType cache = f32;
    /// Tokens that run at once while a longer text is read, at least 1: memory for activations grows with it, not with
    /// the text, but for the exception that follows.
    /// Where rotary angles depend on the length (longrope, dynamic), a text beyond the original context runs at once;
    /// with longrope, a sequence that comes to cross that length, forward or by `rewind`, is read again from its start.
    int64_t chunk = 512;
    /// Mapped weights are read from the file's own pages. If another process makes the file shorter meanwhile, this one
    /// is ended by the system (FileAccess): use `copied` for files that others may write.
    FileAccess access = FileAccess::mapped;
    /// Stand beside the products while the model runs, y = W x + scale B (A x): the weights stay as they are, packed or
    /// not. What several add is summed.
    std::vector<Adapter> adapters = {};
    /// Called after each weight was bound, with how many are and how many there are.
    std::function<void(size_t done, size_t all)> progress = {};
  };
  /// Reads a folder with config.json and safetensors (model.safetensors, or the parts that
  /// model.safetensors.index.json names), or a .gguf file. Fails, naming the tensor, for one that is missing, of
  /// another shape, or that the model has no use for.
  static LanguageModel load(const std::string& folder_or_gguf) { return load(folder_or_gguf, Options{}); }
  static LanguageModel load(const std::string& folder_or_gguf, Options options);

  const LanguageModelConfig& config() const;
  /// The most tokens of a sequence.
  int64_t context() const;
  /// Read when it is first asked for. Fails if the model has no tokenizer, or one of a kind that is not supported.
  const Tokenizer& tokenizer() const;
  /// Makes a prompt of messages; nullopt if the model has none. It is read at each call, as ChatTemplate::load does.
  std::optional<ChatTemplate> chat_template() const;
  /// `bos_token_id` of generation_config.json or config.json, or GGUF's key. Do not prepend it to a text: the tokenizer
  /// does where the model wants it. It is for a text of no tokens.
  std::optional<int32_t> bos_id() const;
  /// Tokens of which each ends an answer: `eos_token_id` of generation_config.json or config.json; of a GGUF file the
  /// ends that it names, and special tokens with the texts of well-known ends. There may be none.
  const std::vector<int32_t>& stop_ids() const;
  /// What generation_config.json advises, or GGUF's general.sampling.*; absent where it says nothing.
  struct Advice {
    std::optional<double> temperature = {}, top_p = {}, min_p = {}, repetition_penalty = {};
    std::optional<int64_t> top_k = {};
  };
  const Advice& advice() const;

  const CompiledGraph& compiled() const;

  class Sequence;
  /// A sequence without tokens.
  Sequence sequence() const;
  /// The logits of what follows each token, of a sequence of its own: f32[tokens, vocabulary].
  Tensor all_logits(std::span<const int32_t> tokens) const;

  struct State;  ///< used by the library only

 private:
  explicit LanguageModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// A sequence of tokens and what the model keeps of it. A copy is independent; the caches are copied when one of the
/// two is next continued. If a call fails, the sequence is as long as before; the next call may have to compute the
/// caches again.
class LanguageModel::Sequence {
 public:
  /// Appends tokens, at least one, and gives the logits of the token that follows: f32[vocabulary]. Fails for a token
  /// that is not in the vocabulary, and for more tokens than the context holds; then nothing was appended. Where
  /// `cancel` is given and becomes true meanwhile, it fails as cancelled before the next piece of the tokens
  /// (LanguageModel::Options::chunk).
  Tensor logits(std::span<const int32_t> tokens, const std::atomic<bool>* cancel = nullptr);
  Tensor logits(int32_t token) { return logits(std::span(&token, 1)); }
  /// The same, with the logits of what follows each of the tokens: f32[tokens, vocabulary].
  Tensor all_logits(std::span<const int32_t> tokens);
  /// Tokens so far: the position of the next one.
  int64_t position() const { return position_; }
  /// Takes the last `count` tokens back. Fails if there are fewer, or if `count` is negative. A model with recurrent
  /// layers (LanguageModelConfig::is_recurrent) reads what is left again from its start, with the next call.
  void rewind(int64_t count);
  /// Bytes of the caches; copies that were not continued share them.
  size_t memory_bytes() const;
  /// Runs one step on `tokens` twice, on a copy of the caches, and measures the second run. Nothing is appended.
  Profile profile(std::span<const int32_t> tokens);

 private:
  friend class LanguageModel;
  explicit Sequence(std::shared_ptr<const State> model) : model_(std::move(model)) {}
  Tensor run(std::span<const int32_t> tokens, int64_t rows);
  template <class RowsOf, class Each>
  void append(std::span<const int32_t> tokens, RowsOf rows_of, Each each, const std::atomic<bool>* cancel = nullptr);
  void check(std::span<const int32_t> tokens) const;
  void reserve(int64_t total);
  std::shared_ptr<const State> model_;
  std::shared_ptr<GraphState> caches_;  // keys and values or states of each layer; copies of the sequence may share it
  std::vector<int32_t> tokens_;         // only the first `position_` are valid
  int64_t position_ = 0, capacity_ = 0;
  bool was_long_ = false;  // whether the caches are those of a text beyond longrope's original context
  bool is_stale_ =
      false;  // whether they must be computed again, because a run failed halfway or tokens were taken back
};

// ---- in the other format ----

struct GgufModelOptions {
  FileAccess access = FileAccess::mapped;  ///< as LanguageModel::Options::access; of the tensors that stay as they are
  /// What packed matrices of a folder (GPTQ, AWQ, bitsandbytes, MLX), or blocks of a file, become: f32, f16 or bf16.
  /// Without it they are packed again with the same numbers bit for bit, or refused.
  std::optional<DType> dequantize = {};
};
/// What write_gguf_model makes a file of.
struct GgufModel {
  std::vector<std::pair<std::string, LazyTensor>> tensors;  ///< they keep the files open that they are made of
  GgufMetadata metadata;
  std::vector<std::string> notes;  ///< what readers of the file do otherwise than the folder says
};
/// A Hugging Face folder as llama.cpp's converter makes a GGUF file of it: LanguageModel::load of the file gives the
/// folder's logits. Matrices that are not packed keep their dtype; vectors, and what llama.cpp has no kernels for
/// otherwise, become f32. Fails, as unsupported and naming the key, tensor or part of the tokenizer, for what GGUF has
/// no word for. Packed matrices are read once to see what they become; all others are read when they are written.
GgufModel gguf_model_of_folder(const std::string& folder, const GgufModelOptions& options = {});
/// Matrices of floats whose rows are whole blocks become blocks of `kind` when they are written: those that llama.cpp
/// quantizes. Metadata and notes say so. Fails for a kind without an encoder (block_encoder).
void quantize_matrices(GgufModel& model, DType kind);
/// Blocks become numbers: f32, f64, f16 or bf16.
void dequantize_blocks(GgufModel& model, DType dtype);
/// Makes, writes and lets go one tensor after the other (stream_gguf).
void write_gguf_model(const std::string& path, const GgufModel& model, const GgufWriteOptions& options = {});

/// What a folder is made of: model.safetensors, and files of text by their names.
struct FolderModel {
  NamedLazyTensors tensors;                  ///< they keep the file open
  std::map<std::string, std::string> texts;  ///< config.json, tokenizer.json, tokenizer_config.json ...
  std::vector<std::string> notes;            ///< what could not be carried over
};
/// A GGUF file as a folder. With `dequantize`, or where no tensor is in blocks, transformers reads it; else blocks of
/// q4_0, q4_1, q4_k and q8_0 become what mlx-lm packs, with the same numbers bit for bit, and other blocks are refused.
/// Fails, as unsupported, for what folders have no word for.
FolderModel folder_model_of_gguf(const std::string& path, const GgufModelOptions& options = {});
/// Makes the folder, which must be empty if it is there, and writes one tensor after the other: into one file, or into
/// several with an index where they have more than `most_file_bytes` bytes (stream_safetensors_shards; 0: one file).
void write_folder_model(const std::string& folder, const FolderModel& model, uint64_t most_file_bytes = 0);

}  // namespace rlx
