// `rlx tokenize`: what a model's tokenizer makes of text.
#include <CLI/CLI.hpp>

#include "rlx/tokenizer.h"
#include "tools/encoder_options.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_input.h"

namespace rlx::tools {
namespace {

struct Tokenize {
  explicit Tokenize(CLI::App& app) : sentences(app) {
    add_model_option(app, model)->required();
    app.add_option("--max-tokens", max_tokens,
                   "cut each line at this many tokens, special ones included; not cut where left out")
        ->option_text("N")
        ->check(CLI::Range(size_t{2}, size_t{1} << 30));
    app.add_flag("--tokens", tokens, "print the tokens as text instead of their ids");
    app.footer(
        R"(Prints one JSON array a line. Special tokens ([CLS], [SEP]) are included; the padding and truncation that
tokenizer.json may ask for are not applied. `rlx embed` cuts at the model's own limit: --max-tokens 256 for MiniLM.

Examples:
  rlx tokenize --model all-MiniLM-L6-v2 "A sentence."
  rlx tokenize --model all-MiniLM-L6-v2 --file lines.txt --max-tokens 256 > ids.jsonl)");
  }
  void run() const;

  Sentences sentences;
  std::string model;
  size_t max_tokens = 0;
  bool tokens = false;
};

void Tokenize::run() const {
  std::vector<std::string> texts = sentences.read();
  Tokenizer tokenizer = Tokenizer::load(model);
  tokenizer.set_padding(std::nullopt);
  tokenizer.set_truncation(max_tokens ? std::optional(Truncation{.max_length = max_tokens}) : std::nullopt);
  for (const std::string& text : texts) {
    Encoding encoding = tokenizer.encode(text);
    std::string line = "[";
    for (size_t i = 0; i < encoding.size(); ++i)
      (line += i ? "," : "") += tokens ? json_text(encoding.tokens[i]) : std::to_string(encoding.ids[i]);
    write_out(line + "]\n");
  }
}

}  // namespace

Subcommand add_tokenize(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("tokenize", "Text to token ids");
  auto tokenize = std::make_shared<Tokenize>(*app);
  return {app, [tokenize] { tokenize->run(); }};
}

}  // namespace rlx::tools
