// `rlx perplexity`: how well a language model foretells a text. Neighbour: tools/logits.cpp.
#include <algorithm>
#include <CLI/CLI.hpp>
#include <cmath>
#include <optional>

#include "io/json_tree.h"
#include "rlx/error.h"
#include "rlx/io.h"
#include "rlx/language_model.h"
#include "tools/language_model_options.h"
#include "tools/output.h"
#include "tools/progress_bar.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

struct Perplexity {
  explicit Perplexity(CLI::App& app) : model(app) {
    auto* text = app.add_option("--file", file, "the text")->type_name("FILE");
    app.add_option("--tokens", tokens, "its tokens instead, a JSON array of ids")->type_name("FILE")->excludes(text);
    app.add_option("--window", window, "tokens that are looked at together (default 512)")
        ->option_text("N")
        ->check(CLI::Range(int64_t{2}, int64_t{1} << 28));
    app.add_flag("--json", json, "print a JSON object");
    app.footer(
        R"(exp of the mean of -log p over the tokens. The text is cut into windows that share nothing; the first token of each is
given, not foretold. Special tokens that the tokenizer adds stand at the beginning of the first window alone.

Examples:
  rlx perplexity --model Qwen3-0.6B --file wiki.test.raw
  rlx perplexity --model llama-q4_k_m.gguf --file wiki.test.raw --window 2048)");
  }
  void run() const;
  std::vector<int32_t> read(const LanguageModel& loaded) const;

  LanguageModelOptions model;
  std::string file, tokens;
  int64_t window = 512;
  bool json = false;
};

std::vector<int32_t> Perplexity::read(const LanguageModel& loaded) const {
  const std::string& path = tokens.empty() ? file : tokens;
  return with_context([&] { return text_of("reading '", path, "'"); },
                      [&] {
                        const auto bytes = FileBytes::read(path);
                        const std::string_view text(reinterpret_cast<const char*>(bytes->bytes().data()),
                                                    bytes->bytes().size());
                        if (tokens.empty()) {
                          Tokenizer tokenizer = loaded.tokenizer();
                          tokenizer.set_padding(std::nullopt);
                          tokenizer.set_truncation(std::nullopt);
                          return tokenizer.encode(text).ids;
                        }
                        const JsonTree tree = parse_json(text);
                        if (!tree.is_array())
                          fail(ErrorCode::parse, "it is ", tree.shown(), ", not an array of token ids");
                        std::vector<int32_t> ids;
                        for (const JsonTree& item : tree.elements()) {
                          if (!item.is_natural() || item.natural() > INT32_MAX)
                            fail(ErrorCode::parse, "token ", ids.size(), " is ", item.shown(), ", not an id");
                          ids.push_back(static_cast<int32_t>(item.natural()));
                        }
                        return ids;
                      });
}

/// -log p of a token behind which these logits were.
double loss(std::span<const float> logits, int32_t token) {
  const double greatest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - greatest);
  return greatest + std::log(sum) - logits[static_cast<size_t>(token)];
}

void Perplexity::run() const {
  if (file.empty() && tokens.empty()) throw UsageError("--file or --tokens is required");
  const LanguageModel loaded = model.load();
  const std::vector<int32_t> ids = read(loaded);
  if (ids.size() < 2)
    fail(ErrorCode::invalid_argument, "the text has ", ids.size(), ids.size() == 1 ? " token" : " tokens",
         "; a perplexity needs two");
  const auto width = static_cast<size_t>(std::min(window, loaded.context()));
  if (width < 2)
    fail(ErrorCode::invalid_argument, "a window of ", width, " token, as the model has a context of ", loaded.context(),
         "; a perplexity needs two");
  const auto vocabulary = static_cast<size_t>(loaded.config().vocabulary);
  std::optional<ProgressBar> bar(std::in_place, "reading");
  double sum = 0;
  size_t count = 0, windows = 0;
  for (size_t begin = 0; begin < ids.size(); begin += width, ++windows) {
    const auto part = std::span(ids).subspan(begin, std::min(width, ids.size() - begin));
    const Tensor logits = loaded.all_logits(part);
    const auto values = logits.values<float>();
    for (size_t i = 1; i < part.size(); ++i, ++count)
      sum += loss(values.subspan((i - 1) * vocabulary, vocabulary), part[i]);
    bar->show(begin + part.size(), ids.size());
  }
  bar.reset();
  const double mean = sum / static_cast<double>(count), result = std::exp(mean);
  if (json)
    write_out(text_of("{\"perplexity\":", number_text(result), ",\"loss\":", number_text(mean), ",\"tokens\":", count,
                      ",\"windows\":", windows, "}\n"));
  else
    write_out(text_of("perplexity ", fixed_text(result, 4), " over ", count, count == 1 ? " token" : " tokens", " in ",
                      windows, windows == 1 ? " window" : " windows", " of up to ", width, "; mean loss ",
                      fixed_text(mean, 5), "\n"));
}

}  // namespace

Subcommand add_perplexity(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("perplexity", "How well a language model foretells a text");
  auto perplexity = std::make_shared<Perplexity>(*app);
  return {app, [perplexity] { perplexity->run(); }};
}

}  // namespace rlx::tools
