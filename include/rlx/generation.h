// Text from a language model: a prompt's tokens, and the loop that draws one token after the other until something ends
// the text. `rlx generate` and `rlx chat`, the C ABI and the Python package stand on it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/language_model.h"
#include "rlx/sampler.h"
#include "rlx/tokenizer.h"

namespace rlx {

/// What the model's files advise (LanguageModel::advice); where they say nothing, the defaults of SamplerOptions.
SamplerOptions advised_sampling(const LanguageModel& model);

/// How the text of a prompt becomes tokens.
enum class PromptKind {
  text,      ///< the tokenizer adds its special tokens, and the text of a special token is that token
  plain,     ///< none are added, and the text of a special token is text like any other
  templated  ///< none are added, as a chat template has written them; the text of a special token is that token
};
constexpr std::array<std::string_view, 3> names_of(PromptKind) { return {"text", "plain", "templated"}; }

/// The tokens of a prompt, without padding and truncation. If there are none, the token with which texts begin
/// (LanguageModel::bos_id) stands alone, and it is an error if the model has no such token. Fails without a tokenizer.
std::vector<int32_t> prompt_tokens(const LanguageModel& model, std::string_view text,
                                   PromptKind kind = PromptKind::text);

/// Writes texts, one at a time, and keeps the tokens of the last one with their caches, so that a prompt that begins
/// with them is not read again from its start. Belongs to one thread at a time.
class TextGenerator {
 public:
  struct Options {
    /// advised_sampling() has what the model's files advise, which is not looked at here.
    SamplerOptions sampling = {};
    std::vector<std::string> stops = {};  ///< the text ends just before the first of these
    int64_t max_tokens = 512;             ///< of one text, at least 1
  };
  /// What ended a text: the model's token for it, a stop string, max_tokens, or the context, which is full.
  enum class Finish { end, stop, length, context };

  /// Fails for invalid options: those of a Sampler, an empty stop string, max_tokens below 1.
  TextGenerator(LanguageModel model, Options options);

  /// Reads tokens, at least one, behind which next() writes. Those in front that the caches hold already are not read
  /// again, but for the last token, whose logits are wanted. A model with recurrent layers reads all of them again if
  /// they do not go on with what was read and written before. Fails if they leave no room in the context, or are not in
  /// the vocabulary: then the text that was begun before goes on.
  void begin(std::span<const int32_t> tokens);
  /// Ends a begin() that runs now on another thread: it fails as cancelled before the model reads the next piece of the
  /// tokens (LanguageModel::Options::chunk), and no text is begun. Does nothing to one that has not begun or has ended.
  void cancel() noexcept { cancelled_->store(true, std::memory_order_relaxed); }
  /// What comes next of the text, valid UTF-8 and never empty, and nothing of a stop string; nullopt once it has ended
  /// or if none was begun. After an error it may be called again, and goes on where it failed.
  std::optional<std::string> next();

  /// All tokens drawn since begin(), with the one that ended the text and those of a stop string.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  /// What ended the text; nullopt until it has ended.
  std::optional<Finish> finish() const { return running_ ? std::nullopt : finish_; }
  /// How many of begin()'s tokens the model had to read.
  size_t read_tokens() const { return read_tokens_; }
  /// Resets the sampler alone: penalties forget all tokens, and the random numbers begin anew.
  void reset() { sampler_.reset(); }

 private:
  LanguageModel model_;
  Options options_;
  Sampler sampler_;
  LanguageModel::Sequence sequence_;
  std::vector<int32_t> held_;  // the tokens of sequence_, which cannot tell them
  StopStrings stops_;
  std::optional<DecodeStream> stream_;
  Tensor logits_;
  std::optional<int32_t> pending_;  // drawn, and not yet read by the model
  std::vector<int32_t> tokens_;
  std::optional<Finish> finish_;
  size_t read_tokens_ = 0;
  bool running_ = false;
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};
constexpr std::array<std::string_view, 4> names_of(TextGenerator::Finish) {
  return {"end", "stop", "length", "context"};
}

}  // namespace rlx
