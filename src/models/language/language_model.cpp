// Decoders that run: loading, and the state of sequences; see rlx/language_model.h.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

#include "base/user_code.h"
#include "models/language/adapters.h"
#include "models/language/cache_layout.h"
#include "models/language/limits.h"
#include "models/language/special_tokens.h"
#include "models/language/weight_files.h"
#include "rlx/language_model.h"
#include "runtime/graph_state.h"

namespace rlx {

struct LanguageModel::State {
  LanguageModelConfig config;
  CompiledGraph compiled;
  language::SpecialTokens special;
  int64_t context, chunk;
  std::function<Tokenizer()> make_tokenizer;
  std::function<std::optional<ChatTemplate>()> make_template;
  mutable std::mutex mutex;  // of the tokenizer
  mutable std::optional<Tokenizer> tokenizer;
};

namespace {

constexpr size_t kMostConfigBytes = size_t{4} << 20;
/// Tokens that the first caches of a sequence have room for.
constexpr int64_t kFirstCapacity = 128;
/// Up to so many tokens caches double. Longer ones grow by a sixteenth, as they are most of a process's memory.
constexpr int64_t kDoubledCapacity = 1024;

CompileOptions with_donated_caches(CompileOptions options, const LanguageModelConfig& config, DType cache) {
  for (const language::CacheInput& input : language::cache_inputs(config, cache)) options.donate.insert(input.name);
  return options;
}

int64_t context_of(const LanguageModelConfig& config, int64_t wanted) {
  if (wanted < 0)
    fail(ErrorCode::invalid_argument, "a context of ", wanted, " tokens; give 1 or more, or 0 for the model's");
  if (wanted == 0) return config.context;
  if (wanted > language::kMostContext)
    fail(ErrorCode::invalid_argument, "a context of ", wanted, " tokens; it may be ", language::kMostContext,
         " at most");
  if (config.learned_positions && wanted > config.context)
    fail(ErrorCode::invalid_argument, "a context of ", wanted, " tokens; the model's table has ", config.context,
         " positions");
  return wanted;
}

/// The adapters of a model, by the names of its params.
struct AdaptersOfParams {
  const language::Adapters& adapters;
  const language::WeightFiles& weights;
  bool is_tied;  ///< the table of tokens is the output projection, too, whose adapter has the name of the latter

  std::vector<std::string> names(const std::string& module) const {
    return weights.module_names(is_tied && module == "embedding" ? "output" : module);
  }
  /// The names of the module whose weight that is; none if there are no adapters.
  std::vector<std::string> names_of_weight(const std::string& param) const {
    constexpr std::string_view kWeight = ".weight";
    if (adapters.empty() || !param.ends_with(kWeight) || param.ends_with(".rows.weight")) return {};
    return names(param.substr(0, param.size() - kWeight.size()));
  }
  int64_t rank(const std::string& weight) const { return adapters.rank(names_of_weight(weight)); }
  void check_copy(const std::string& param, const Tensor& value) const {
    if (const auto names = names_of_weight(param); !names.empty()) adapters.check_copy(names, value);
  }
  std::optional<Tensor> value(const std::string& param, const Type& type) const {
    const size_t dot = param.rfind('.');
    const std::string_view part = std::string_view(param).substr(dot + 1);
    if (part == "adapter_a") return adapters.a(names(param.substr(0, dot)), type);
    if (part == "adapter_b") return adapters.b(names(param.substr(0, dot)), type);
    return std::nullopt;
  }
};

/// Binds each param to its tensor, and sees that all tensors were needed.
void bind_params(CompiledGraph& compiled, const language::WeightFiles& weights, const AdaptersOfParams& adapters,
                 const std::function<void(size_t, size_t)>& progress) {
  const auto& params = compiled.signature().params;
  for (size_t i = 0; i < params.size(); ++i) {
    const std::string& name = params[i].name;
    std::optional<Tensor> value = adapters.value(name, params[i].type);
    if (!value) {
      value = weights.value(name, params[i].type);
      adapters.check_copy(name, *value);
    }
    compiled.set_param(name, *std::move(value));
    if (progress) user_code("the progress callback", [&] { progress(i + 1, params.size()); });
  }
  adapters.adapters.check_used();
  const std::vector<std::string> unread = weights.unread();
  if (unread.empty()) return;
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(unread.size(), 3); ++i) names += text_of(i ? ", '" : "'", unread[i], "'");
  fail(ErrorCode::unsupported, "the model has ", unread.size(),
       " tensors that its configuration has no use for: ", names, unread.size() > 3 ? ", ..." : "");
}

}  // namespace

LanguageModel LanguageModel::load(const std::string& path, Options options) {
  return with_context([&] { return text_of("loading the language model '", path, "'"); },
                      [&] {
                        std::error_code error;
                        const bool is_folder = std::filesystem::is_directory(path, error);
                        if (!is_folder && !std::filesystem::exists(path, error))
                          fail(ErrorCode::not_found, "there is no such folder or file");
                        if (options.chunk < 1)
                          fail(ErrorCode::invalid_argument, "a chunk of ", options.chunk, " tokens; give 1 or more");
                        LanguageModelConfig config;
                        std::unique_ptr<language::WeightFiles> weights;
                        language::SpecialTokens special;
                        std::function<Tokenizer()> make_tokenizer;
                        std::function<std::optional<ChatTemplate>()> make_template;
                        if (is_folder) {
                          const std::string file = (std::filesystem::path(path) / "config.json").string();
                          config = LanguageModelConfig::from_json(language::text_of_file(file, kMostConfigBytes));
                          weights = language::open_folder(path, config, options.access);
                          special = language::special_tokens_of_folder(path, config.vocabulary);
                          make_tokenizer = [path] { return Tokenizer::load(path); };
                          make_template = [path] { return ChatTemplate::find(path); };
                        } else {
                          const GgufFile file = GgufFile::open(path, options.access);
                          config = LanguageModelConfig::from_gguf(file);
                          weights = language::open_gguf(file, config);
                          special = language::special_tokens_of_gguf(file.metadata(), config.vocabulary);
                          make_tokenizer = [file] { return Tokenizer::from_gguf(file.metadata()); };
                          make_template = [file] { return ChatTemplate::from_gguf(file.metadata()); };
                        }
                        const int64_t context = context_of(config, options.context);
                        const language::Adapters adapters(options.adapters, config.architecture);
                        const AdaptersOfParams of_params{adapters, *weights, config.tied_embeddings};
                        const auto type_of = [&](const std::string& name) {
                          WeightType type = weights->type(name);
                          type.adapter_rank = of_params.rank(name);
                          return type;
                        };
                        const Graph graph = decoder_graph(config, type_of, options.cache);
                        CompiledGraph compiled =
                            Session(options.device, {options.threads})
                                .compile(graph, with_donated_caches(options.compile, config, options.cache));
                        bind_params(compiled, *weights, of_params, options.progress);
                        return LanguageModel(std::shared_ptr<const State>(new State{std::move(config),
                                                                                    std::move(compiled),
                                                                                    std::move(special),
                                                                                    context,
                                                                                    options.chunk,
                                                                                    std::move(make_tokenizer),
                                                                                    std::move(make_template),
                                                                                    {},
                                                                                    {}}));
                      });
}

const LanguageModelConfig& LanguageModel::config() const { return state_->config; }
int64_t LanguageModel::context() const { return state_->context; }
const CompiledGraph& LanguageModel::compiled() const { return state_->compiled; }
std::optional<ChatTemplate> LanguageModel::chat_template() const { return state_->make_template(); }
std::optional<int32_t> LanguageModel::bos_id() const { return state_->special.bos_id; }
const std::vector<int32_t>& LanguageModel::stop_ids() const { return state_->special.stop_ids; }
const LanguageModel::Advice& LanguageModel::advice() const { return state_->special.advice; }

const Tokenizer& LanguageModel::tokenizer() const {
  std::scoped_lock lock(state_->mutex);
  if (!state_->tokenizer) state_->tokenizer = state_->make_tokenizer();
  return *state_->tokenizer;  // never replaced
}

LanguageModel::Sequence LanguageModel::sequence() const { return Sequence(state_); }
Tensor LanguageModel::all_logits(std::span<const int32_t> tokens) const { return sequence().all_logits(tokens); }

// ---- sequences ----

void LanguageModel::Sequence::check(std::span<const int32_t> tokens) const {
  if (tokens.empty()) fail(ErrorCode::invalid_argument, "no tokens were given; logits stand behind at least one");
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= model_->config.vocabulary)
      fail(ErrorCode::invalid_argument, "token ", i, " is ", tokens[i], ", but the vocabulary has 0 to ",
           model_->config.vocabulary - 1);
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > model_->context - position_)
    fail(ErrorCode::invalid_argument, position_, " tokens and ", count, " more do not fit a context of ",
         model_->context, "; give LanguageModel::Options::context more",
         model_->config.context > model_->context ? text_of(", up to ", model_->config.context) : "",
         ", or begin a new sequence");
}

namespace {

/// Torn caches can be read by nobody: the sequence is read again from its tokens.
void forget_if_torn(std::shared_ptr<GraphState>& caches, int64_t& capacity, bool& is_stale) {
  if (!caches->why_torn().empty()) caches.reset(), capacity = 0, is_stale = true;
}

}  // namespace

/// A state of its own, with room for more than `total` tokens. Where caches are in the host's memory, long ones grow by
/// a sixteenth, tensor by tensor, so that little memory is unused and there is no second cache meanwhile; a token is
/// then copied 17 times on average. On a device with memory of its own they double, as each growth takes all of them
/// through the host. They never are full: what attention reads is a part of them, in one form.
void LanguageModel::Sequence::reserve(int64_t total) {
  const LanguageModelConfig& config = model_->config;
  // A recurrence begins with zeros; what an earlier text has left there would count.
  if (position_ == 0 && config.is_recurrent()) caches_.reset(), capacity_ = 0;
  if (capacity_ > total || (caches_ && !config.has_attention())) {
    if (caches_.use_count() > 1) caches_ = std::make_shared<GraphState>(caches_->copy());
    return;
  }
  int64_t capacity = std::max(capacity_, kFirstCapacity / 2);
  const bool doubles = caches_ && caches_->impl().backend->memory();
  while (capacity <= total) capacity += doubles || capacity < kDoubledCapacity ? capacity : capacity / 16;
  capacity = std::min(capacity, std::max(model_->context, total) + 1);
  Bindings extents;
  if (config.has_attention()) extents = {{"capacity", capacity}};
  const CompiledGraph& step = model_->compiled;
  if (position_ == 0) {
    caches_.reset(), capacity_ = 0;  // first, as the new ones need the memory
    caches_ = std::make_shared<GraphState>(step.new_state({}, extents));
  } else {
    caches_->impl().is_given_up = caches_.use_count() == 1;
    try {
      caches_ = std::make_shared<GraphState>(step.resized_state(*caches_, extents));
    } catch (...) {
      forget_if_torn(caches_, capacity_, is_stale_);
      throw;
    }
  }
  capacity_ = capacity;
}

namespace {

/// The inputs of a step that are not in its state, in the order of decoder_graph; the tokens are borrowed.
std::vector<Tensor> step_inputs(std::span<const int32_t> tokens, int64_t position, int64_t rows) {
  const auto n = static_cast<int64_t>(tokens.size());
  return {Tensor::borrow(i32, {1, n}, std::as_bytes(tokens)), Tensor::scalar<int32_t>(static_cast<int32_t>(position)),
          Tensor(u8, {position + n, 0}), Tensor(u8, {rows, 0})};
}

/// Whether keys depend on how long the text is, in a model with longrope, and this many tokens are so long.
bool is_long(const LanguageModelConfig& c, int64_t total) {
  return !c.learned_positions && c.rope.scaling == RopeScaling::longrope && total > c.rope.original_context;
}
/// Tokens that run at once. Angles of these kinds depend on the length of the text, so that beyond the original context
/// a text is one piece, as transformers reads it.
int64_t piece_of(const LanguageModelConfig& c, int64_t chunk, int64_t total) {
  const bool depends =
      !c.learned_positions && (c.rope.scaling == RopeScaling::longrope || c.rope.scaling == RopeScaling::dynamic);
  return depends && total > c.rope.original_context ? total : chunk;
}

}  // namespace

/// One step. A run that ends early may leave torn caches, which nothing can read: the sequence is then read again from
/// its tokens.
Tensor LanguageModel::Sequence::run(std::span<const int32_t> tokens, int64_t rows) {
  const int64_t total = position_ + static_cast<int64_t>(tokens.size());
  reserve(total);
  was_long_ = is_long(model_->config, total);
  std::vector<Tensor> outputs(1);
  try {
    model_->compiled.run_into(step_inputs(tokens, position_, rows), outputs, *caches_);
  } catch (...) {
    forget_if_torn(caches_, capacity_, is_stale_);
    throw;
  }
  position_ = total;
  return std::move(outputs[0]);
}

/// The tokens, in pieces; `each` gets the logits of the last `rows_of(piece)` tokens of each piece.
template <class RowsOf, class Each>
void LanguageModel::Sequence::append(std::span<const int32_t> tokens, RowsOf rows_of, Each each,
                                     const std::atomic<bool>* cancel) {
  check(tokens);
  const int64_t before = position_, total = before + static_cast<int64_t>(tokens.size());
  const auto given = tokens.size();
  tokens_.resize(static_cast<size_t>(before));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  try {
    // The keys of a text that has become long, or short again, are others than those in the caches: it is read anew.
    if (before > 0 && (is_stale_ || was_long_ != is_long(model_->config, total))) {
      position_ = 0, is_stale_ = true;
      tokens = tokens_;
    }
    if (!model_->config.is_recurrent()) reserve(total);  // for all pieces at once
    const auto piece = static_cast<size_t>(piece_of(model_->config, model_->chunk, total));
    while (!tokens.empty()) {
      if (cancel && cancel->load(std::memory_order_relaxed))
        fail(ErrorCode::cancelled, "reading the tokens was cancelled with ", tokens.size(), " of them to go");
      const auto part = tokens.first(std::min(piece, tokens.size()));
      // What is read anew stands in front, and nobody asks for its logits.
      const size_t fresh = std::min(part.size(), given - std::min(given, tokens.size() - part.size()));
      each(run(part, std::max<int64_t>(1, rows_of(static_cast<int64_t>(fresh)))), fresh);
      tokens = tokens.subspan(part.size());
    }
    is_stale_ = false;
  } catch (...) {
    position_ = before;
    if (model_->config.is_recurrent()) is_stale_ = true;  // some of the pieces may have moved the states on
    throw;
  }
}

Tensor LanguageModel::Sequence::logits(std::span<const int32_t> tokens, const std::atomic<bool>* cancel) {
  Tensor last;
  append(
      tokens, [](int64_t) { return 1; }, [&](Tensor made, size_t) { last = std::move(made); }, cancel);
  return last.reshaped({model_->config.vocabulary});
}

Tensor LanguageModel::Sequence::all_logits(std::span<const int32_t> tokens) {
  check(tokens);
  Tensor all = Tensor::uninitialized(f32, {static_cast<int64_t>(tokens.size()), model_->config.vocabulary});
  std::byte* to = all.mutable_data();
  append(
      tokens, [](int64_t fresh) { return fresh; },
      [&](const Tensor& made, size_t fresh) {
        if (fresh == 0) return;
        std::memcpy(to, made.data(), made.byte_count());
        to += made.byte_count();
      });
  return all;
}

void LanguageModel::Sequence::rewind(int64_t count) {
  if (count < 0 || count > position_)
    fail(ErrorCode::invalid_argument, "cannot take back ", count, " tokens of ", position_);
  position_ -= count;
  if (count > 0 && model_->config.is_recurrent()) is_stale_ = true;
}

size_t LanguageModel::Sequence::memory_bytes() const { return caches_ ? caches_->byte_count() : 0; }

Profile LanguageModel::Sequence::profile(std::span<const int32_t> tokens) {
  check(tokens);
  const auto count = static_cast<int64_t>(tokens.size());
  Sequence other = *this;
  if (is_stale_) other.logits(tokens), other.rewind(count);
  other.reserve(position_ + count);
  std::vector<NamedTensor> inputs;
  for (const Tensor& input : step_inputs(tokens, position_, 1))
    inputs.emplace_back(model_->compiled.signature().inputs[inputs.size()].name, input);
  model_->compiled.run(inputs, *other.caches_);
  return model_->compiled.profile(inputs, *other.caches_);
}

}  // namespace rlx
