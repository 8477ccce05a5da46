// See the header.
#include "tools/generation.h"

#include <chrono>

#include "rlx/error.h"
#include "tools/output.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string rate(size_t tokens, double seconds) {
  return text_of(tokens, tokens == 1 ? " token" : " tokens", " in ", fixed_text(seconds, 2), " s (",
                 fixed_text(seconds > 0 ? static_cast<double>(tokens) / seconds : 0, 1), " a second)");
}

}  // namespace

GenerationOptions::GenerationOptions(CLI::App& app) : model(app) {
  app.add_option("--max-tokens", max_tokens, "the most tokens of an answer (default 512)")
      ->option_text("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 28));
  app.add_option("--stop", stops, "ends the answer before this text; may be given several times")
      ->option_text("TEXT")
      ->allow_extra_args(false);
  auto number = [&](const char* name, double& to, const char* text, double least, double most) {
    app.add_option(name, to, text)->option_text("X")->check(CLI::Range(least, most));
  };
  number("--temperature", temperature_, "divides the logits; 0 takes the likeliest token", 0, 1000);
  app.add_option("--top-k", top_k_, "draws from so many of the likeliest tokens; 0 from all")
      ->option_text("N")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  number("--top-p", top_p_, "draws from the likeliest tokens that have this probability together", 1e-9, 1);
  number("--min-p", min_p_, "draws from tokens at least so likely as a share of the likeliest", 0, 1);
  number("--typical-p", typical_p_, "draws from the most typical tokens with this probability", 1e-9, 1);
  number("--repetition-penalty", repetition_penalty_, "divides positive logits of tokens that were there", 1e-3, 1000);
  number("--presence-penalty", presence_penalty_, "taken from the logits of tokens that were written", -1000, 1000);
  number("--frequency-penalty", frequency_penalty_, "the same, for each time", -1000, 1000);
  app.add_option("--seed", seed_, "of the random numbers: the same seed gives the same text (default 0)")
      ->option_text("N");
  app.add_flag("--json", json, "print one JSON object for each answer, with its tokens and times");
}

LanguageModel GenerationOptions::load(double& seconds) const {
  const auto begin = Clock::now();
  LanguageModel loaded = model.load();
  (void)loaded.tokenizer();
  seconds = seconds_since(begin);
  return loaded;
}

TextGenerator GenerationOptions::generator(const LanguageModel& loaded) const {
  SamplerOptions o = advised_sampling(loaded);
  if (temperature_ >= 0) o.temperature = temperature_;
  if (top_k_ >= 0) o.top_k = top_k_;
  if (top_p_ >= 0) o.top_p = top_p_;
  if (min_p_ >= 0) o.min_p = min_p_;
  if (repetition_penalty_ >= 0) o.repetition_penalty = repetition_penalty_;
  o.typical_p = typical_p_;
  o.presence_penalty = presence_penalty_;
  o.frequency_penalty = frequency_penalty_;
  o.seed = seed_;
  return {loaded, {o, stops, max_tokens}};
}

GenerationTimes& GenerationTimes::operator+=(const GenerationTimes& other) {
  prompt_tokens += other.prompt_tokens, new_tokens += other.new_tokens;
  prefill_seconds += other.prefill_seconds, decode_seconds += other.decode_seconds;
  return *this;
}

std::string GenerationTimes::text() const {
  return "read " + rate(prompt_tokens, prefill_seconds) + ", wrote " + rate(new_tokens, decode_seconds);
}

std::string Generated::json() const {
  std::string ids;
  for (int32_t id : tokens) (ids += ids.empty() ? "" : ",") += std::to_string(id);
  return text_of("{\"text\":", json_text(text), ",\"tokens\":[", ids, "],\"finish\":\"", finish,
                 "\",\"prompt_tokens\":", times.prompt_tokens,
                 ",\"prefill_seconds\":", number_text(times.prefill_seconds),
                 ",\"decode_seconds\":", number_text(times.decode_seconds), "}");
}

Generated write(TextGenerator& generator, std::span<const int32_t> tokens,
                const std::function<void(std::string_view)>& put) {
  Generated made;
  auto begin = Clock::now();
  generator.begin(tokens);
  made.times.prompt_tokens = generator.read_tokens();
  made.times.prefill_seconds = seconds_since(begin);
  begin = Clock::now();
  while (const auto piece = generator.next()) {
    made.text += *piece;
    put(*piece);
  }
  made.tokens = generator.tokens();
  const auto finish = generator.finish().value();
  made.finish = names_of(finish)[static_cast<size_t>(finish)];
  made.times.new_tokens = made.tokens.size();
  made.times.decode_seconds = seconds_since(begin);
  return made;
}

}  // namespace rlx::tools
