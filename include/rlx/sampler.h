// The next token from a model's logits: greedy, or drawn at random after what is unlikely was taken away. And the end
// of a text at one of several stop strings.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlx/tensor.h"

namespace rlx {

/// Applied in this order, which is that of the Python package transformers, whose processors of these names each of
/// them is; the defaults leave the logits as they are.
struct SamplerOptions {
  std::vector<std::pair<int32_t, double>> logit_bias = {};  ///< added to the logits of these tokens
  /// Logits of tokens that were seen or drawn: divided by it if they are positive, else multiplied with it (Keskar et
  /// al. 2019).
  double repetition_penalty = 1;
  /// Taken from the logits of tokens that were drawn (not of the prompt's): once, and for each time. As OpenAI's and
  /// vLLM's.
  double presence_penalty = 0, frequency_penalty = 0;
  double temperature = 1;  ///< divides the logits; 0: the greatest logit is taken, and what follows here has no effect
  int64_t top_k = 0;       ///< keeps so many of the greatest, and all that are as great as the last of them; 0: all
  /// Keeps the fewest most likely tokens that have this probability together (Holtzman et al. 2019); of equally likely
  /// ones those of lower ids first.
  double top_p = 1;
  double min_p = 0;  ///< keeps tokens that are at least so likely as a share of the likeliest one (Nguyen et al. 2024)
  double typical_p =
      1;              ///< keeps those nearest to the expected information, with this probability (Meister et al. 2022)
  uint64_t seed = 0;  ///< the same seed and logits give the same tokens on every machine
};

struct TokenChance {
  int32_t id;
  double probability;
};

/// Draws tokens and remembers them for the penalties. Belongs to one thread.
class Sampler {
 public:
  /// Fails for options that mean nothing: a negative temperature, a top_p of 0.
  explicit Sampler(SamplerOptions options = {});

  /// Tokens that the model was given: repetition_penalty counts them.
  void see(std::span<const int32_t> tokens);
  /// The next token; of equal logits at temperature 0 that of the lower id. Fails, naming the token, for NaN and +inf,
  /// and if all logits are -inf, which is a token that cannot come.
  int32_t sample(std::span<const float> logits);
  /// Logits as a model gives them, f32[vocabulary].
  int32_t sample(const Tensor& logits);
  /// What sample() would draw from now, with probabilities that add up to 1: the likeliest first, of equally likely
  /// ones the lower id. Nothing is drawn or remembered. At temperature 0 it is one token.
  std::vector<TokenChance> chances(std::span<const float> logits);

  const SamplerOptions& options() const { return options_; }
  /// As it was made: nothing seen or drawn, the random numbers from the beginning.
  void reset();

 private:
  struct Candidate {
    float logit;
    int32_t id;
    double weight;
  };
  void filter(std::span<const float> logits);
  void keep_top_p();
  void keep_typical();
  double uniform();

  SamplerOptions options_;
  std::map<int32_t, int64_t> drawn_;  // how often
  std::set<int32_t> seen_;            // drawn ones, too
  uint64_t draws_ = 0;
  std::vector<float> scores_, blocks_;  // scratch
  std::vector<Candidate> candidates_;   // what is left; weights are relative
  bool sorted_ = false;
};

/// Cuts a text that comes in pieces before the first of several stop strings, whichever is complete first; of two that
/// end at the same place, the longer. What may yet become a stop string is held back.
class StopStrings {
 public:
  /// None of them may be empty; there may be none at all.
  explicit StopStrings(std::vector<std::string> stops = {});
  /// The part of the text that can no longer become part of a stop string and was not given yet. After a stop string it
  /// is empty.
  std::string put(std::string_view piece);
  /// The text has ended: gives what was held back. The next `put` begins a new text.
  std::string finish();
  /// The stop string that ended this text, null if none did. It stays until the next text begins.
  const std::string* found() const { return found_ ? &stops_[*found_] : nullptr; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::optional<size_t> found_;
  bool has_ended_ = false;
};

}  // namespace rlx
