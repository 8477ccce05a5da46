// See the header.
#include "tools/language_model_options.h"

#include <charconv>

#include "rlx/models/cache_dtypes.h"
#include "tools/encoder_options.h"
#include "tools/progress_bar.h"

namespace rlx::tools {

std::vector<std::pair<std::string, DType>> cache_choices() {
  std::vector<std::pair<std::string, DType>> choices;
  for (const DType dtype : cache_dtypes()) choices.emplace_back(name_of(dtype), dtype);
  return choices;
}

LanguageModelOptions::LanguageModelOptions(CLI::App& app) {
  app.add_option("--model", model, "a folder with config.json, safetensors and tokenizer.json, or a .gguf file")
      ->option_text("DIR|FILE (default: what RLX_MODEL names)")
      ->envname("RLX_MODEL")
      ->required();
  app.add_option(
         "--lora", adapters,
         "an adapter that stands beside the model's products: a folder of PEFT's for a folder, a .gguf file for a "
         ".gguf file; what it adds is multiplied by SCALE (default 1). May be given several times")
      ->option_text("PATH[=SCALE]")
      ->allow_extra_args(false);
  app.add_option("--context", context, "the most tokens in all; what the model promises where it is left out")
      ->option_text("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 28));
  cache_option =
      add_choice(app, "--cache", cache, cache_choices(),
                 "of keys and values: f16 and bf16 take half the memory and round to 11 and 8 bits, blocks of q8_0 and "
                 "q4_0 a quarter and a seventh (default f32)");
  app.add_flag(
      "--copied", is_copied,
      "copy the weights into memory, for files that other processes may write to or shorten meanwhile; else they are "
      "mapped, and a file that is shortened ends this process");
  add_threads_option(app, threads);
  device_option = add_device_option(app, device);
  execution.emplace(app);
}

/// PATH, or PATH=SCALE where what stands behind the last "=" is a number.
static LanguageModel::Adapter adapter_of(const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == text.npos) return {text};
  double scale = 0;
  const char *begin = text.data() + at + 1, *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, scale);
  if (error != std::errc() || stop != end || begin == end) return {text};
  return {text.substr(0, at), scale};
}

LanguageModel LanguageModelOptions::load(int64_t chunk) const {
  LanguageModel::Options options;
  if (execution->is_given()) execution->apply(options);
  if (device_option->count() > 0 || !execution->is_given()) options.device = Device::parse(device);
  if (cache_option->count() > 0) options.cache = cache;
  if (threads > 0) options.threads = threads;
  if (context > 0) options.context = context;
  if (chunk > 0) options.chunk = chunk;
  if (is_copied) options.access = FileAccess::copied;
  for (const std::string& text : adapters) options.adapters.push_back(adapter_of(text));
  ProgressBar bar("loading");
  options.progress = [&](size_t done, size_t all) { bar.show(done, all); };
  return LanguageModel::load(model, options);
}

}  // namespace rlx::tools
