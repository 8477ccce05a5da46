// Prompts and the loop of generation; see rlx/generation.h.
#include <algorithm>
#include <utility>

#include "rlx/error.h"
#include "rlx/generation.h"

namespace rlx {

SamplerOptions advised_sampling(const LanguageModel& model) {
  const LanguageModel::Advice& advice = model.advice();
  SamplerOptions options;
  options.temperature = advice.temperature.value_or(options.temperature);
  options.top_k = advice.top_k.value_or(options.top_k);
  options.top_p = advice.top_p.value_or(options.top_p);
  options.min_p = advice.min_p.value_or(options.min_p);
  options.repetition_penalty = advice.repetition_penalty.value_or(options.repetition_penalty);
  return options;
}

std::vector<int32_t> prompt_tokens(const LanguageModel& model, std::string_view text, PromptKind kind) {
  Tokenizer tokenizer = model.tokenizer();
  tokenizer.set_padding(std::nullopt);
  tokenizer.set_truncation(std::nullopt);
  tokenizer.set_encode_special_tokens(kind == PromptKind::plain);
  std::vector<int32_t> tokens = tokenizer.encode(text, kind == PromptKind::text).ids;
  if (tokens.empty() && model.bos_id()) tokens.push_back(*model.bos_id());
  if (tokens.empty())
    fail(ErrorCode::invalid_argument, "the prompt is empty, and the model has no token with which a text begins");
  return tokens;
}

TextGenerator::TextGenerator(LanguageModel model, Options options)
    : model_(std::move(model)), options_(std::move(options)), sampler_(options_.sampling), sequence_(model_.sequence()),
      stops_(options_.stops) {
  if (options_.max_tokens < 1)
    fail(ErrorCode::invalid_argument, "max_tokens is ", options_.max_tokens, "; a text has 1 token or more");
}

void TextGenerator::begin(std::span<const int32_t> tokens) {
  cancelled_->store(false, std::memory_order_relaxed);
  if (tokens.empty()) fail(ErrorCode::invalid_argument, "there are no tokens to go on with");
  if (std::cmp_greater_equal(tokens.size(), model_.context()))
    fail(ErrorCode::invalid_argument, "the text has ", tokens.size(), " tokens, which leave no room in a context of ",
         model_.context());
  const int64_t vocabulary = model_.config().vocabulary;
  for (size_t i = 0; i < tokens.size(); ++i)  // here, so that the number is that of the whole prompt
    if (tokens[i] < 0 || tokens[i] >= vocabulary)
      fail(ErrorCode::invalid_argument, "token ", i, " is ", tokens[i], ", but the vocabulary has 0 to ",
           vocabulary - 1);
  DecodeStream stream(model_.tokenizer());
  running_ = false, finish_.reset(), pending_.reset(), tokens_.clear(), read_tokens_ = 0;
  // The last token is read again in any case: the logits behind it are wanted.
  const auto [common, ignored] = std::mismatch(held_.begin(), held_.end(), tokens.begin(), tokens.end() - 1);
  const auto kept = static_cast<size_t>(common - held_.begin());
  // States of recurrences cannot be taken back: the sequence is read again.
  const bool is_reread = kept < held_.size() && model_.config().is_recurrent();
  if (kept < held_.size()) sequence_.rewind(static_cast<int64_t>(held_.size() - kept));
  held_.resize(kept);
  logits_ = sequence_.logits(tokens.subspan(kept), cancelled_.get());
  held_.assign(tokens.begin(), tokens.end());
  sampler_.see(tokens.subspan(kept));
  read_tokens_ = is_reread ? tokens.size() : tokens.size() - kept;
  stops_ = StopStrings(options_.stops);
  stream_ = std::move(stream);
  running_ = true;
}

std::optional<std::string> TextGenerator::next() {
  if (!running_) return std::nullopt;
  const std::vector<int32_t>& ends = model_.stop_ids();
  while (!finish_) {
    if (pending_) {  // only now, so that nobody waits for logits that are not asked for
      logits_ = sequence_.logits(*pending_);
      held_.push_back(*std::exchange(pending_, std::nullopt));
    }
    const int32_t token = sampler_.sample(logits_);
    tokens_.push_back(token);
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
      finish_ = Finish::end;
      break;
    }
    std::string piece = stops_.put(stream_->put(token));
    if (stops_.found()) finish_ = Finish::stop;
    else if (std::cmp_greater_equal(tokens_.size(), options_.max_tokens)) finish_ = Finish::length;
    else if (sequence_.position() >= model_.context()) finish_ = Finish::context;
    else pending_ = token;
    if (!piece.empty()) return piece;
  }
  running_ = false;
  if (stops_.found()) return std::nullopt;
  std::string rest = stops_.put(stream_->finish());
  if (stops_.found()) finish_ = Finish::stop;
  else rest += stops_.finish();
  if (rest.empty()) return std::nullopt;
  return rest;
}

}  // namespace rlx
