// See the header.
#include "tools/generation.h"

#include <algorithm>
#include <chrono>

#include "rlx/error.h"
#include "tools/encoder_options.h"
#include "tools/output.h"
#include "tools/progress_bar.h"
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

GenerationOptions::GenerationOptions(CLI::App& app) {
  app.add_option("--model", model, "a folder with config.json, safetensors and tokenizer.json, or a .gguf file")
      ->option_text("DIR|FILE (default: what RLX_MODEL names)")
      ->envname("RLX_MODEL")
      ->required();
  app.add_option("--max-tokens", max_tokens, "the most tokens of an answer (default 512)")
      ->option_text("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 28));
  app.add_option("--context", context, "the most tokens in all; what the model promises where it is left out")
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
  add_threads_option(app, threads);
  add_device_option(app, device);
}

LanguageModel GenerationOptions::load(double& seconds) const {
  const auto begin = Clock::now();
  LanguageModel::Options options;
  options.device = Device::parse(device);
  options.threads = threads, options.context = context;
  ProgressBar bar("loading");
  options.progress = [&](size_t done, size_t all) { bar.show(done, all); };
  LanguageModel loaded = LanguageModel::load(model, options);
  (void)loaded.tokenizer();
  seconds = seconds_since(begin);
  return loaded;
}

SamplerOptions GenerationOptions::sampler(const LanguageModel& loaded) const {
  const LanguageModel::Advice& advice = loaded.advice();
  SamplerOptions o;
  o.temperature = temperature_ >= 0 ? temperature_ : advice.temperature.value_or(1);
  o.top_k = top_k_ >= 0 ? top_k_ : advice.top_k.value_or(0);
  o.top_p = top_p_ >= 0 ? top_p_ : advice.top_p.value_or(1);
  o.min_p = min_p_ >= 0 ? min_p_ : advice.min_p.value_or(0);
  o.repetition_penalty = repetition_penalty_ >= 0 ? repetition_penalty_ : advice.repetition_penalty.value_or(1);
  o.typical_p = typical_p_;
  o.presence_penalty = presence_penalty_;
  o.frequency_penalty = frequency_penalty_;
  o.seed = seed_;
  return o;
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

Writer::Writer(const LanguageModel& model, const GenerationOptions& options)
    : model_(model), options_(options), sampler_(options.sampler(model)), sequence_(model.sequence()) {
  StopStrings check(options.stops);  // an empty one is refused before the model has read anything
}

Generated Writer::write(std::span<const int32_t> tokens, const std::function<void(std::string_view)>& put) {
  if (tokens.empty()) fail(ErrorCode::invalid_argument, "there are no tokens to go on with");
  if (std::cmp_greater_equal(tokens.size(), model_.context()))
    fail(ErrorCode::invalid_argument, "the text has ", tokens.size(), " tokens, which leave no room in a context of ",
         model_.context());
  Generated made;
  auto begin = Clock::now();
  // The last token is read again in any case: the logits behind it are wanted.
  const auto [common, ignored] = std::mismatch(held_.begin(), held_.end(), tokens.begin(), tokens.end() - 1);
  const auto kept = static_cast<size_t>(common - held_.begin());
  if (kept < held_.size()) sequence_.rewind(static_cast<int64_t>(held_.size() - kept));
  held_.resize(kept);
  sampler_.see(tokens.subspan(kept));
  Tensor logits = sequence_.logits(tokens.subspan(kept));
  held_.assign(tokens.begin(), tokens.end());
  made.times.prompt_tokens = tokens.size() - kept;
  made.times.prefill_seconds = seconds_since(begin);

  begin = Clock::now();
  DecodeStream stream(model_.tokenizer());
  StopStrings stops(options_.stops);
  auto give = [&](const std::string& piece) {
    if (piece.empty()) return;
    made.text += piece;
    put(piece);
  };
  const std::vector<int32_t>& ends = model_.stop_ids();
  while (made.finish.empty()) {
    const int32_t token = sampler_.sample(logits);
    made.tokens.push_back(token);
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
      made.finish = "end";
      break;
    }
    give(stops.put(stream.put(token)));
    if (stops.found()) made.finish = "stop";
    else if (std::cmp_greater_equal(made.tokens.size(), options_.max_tokens)) made.finish = "length";
    else if (sequence_.position() >= model_.context()) made.finish = "context";
    else {
      logits = sequence_.logits(token);
      held_.push_back(token);
    }
  }
  if (!stops.found()) {
    give(stops.put(stream.finish()));
    if (stops.found()) made.finish = "stop";
    else give(stops.finish());
  }
  made.times.new_tokens = made.tokens.size();
  made.times.decode_seconds = seconds_since(begin);
  return made;
}

}  // namespace rlx::tools
