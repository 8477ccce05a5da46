// `rlx tokenize` and `rlx detokenize`: what a model's tokenizer makes of text, and of ids.
#include <algorithm>
#include <charconv>

#include <CLI/CLI.hpp>

#include "rlx/error.h"
#include "rlx/tokenizer.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_input.h"

namespace rlx::tools {
namespace {

void add_tokenizer_option(CLI::App& app, std::string& path) {
  app.add_option("--model", path, "folder of the model, its tokenizer.json or vocab.txt, or a GGUF file")
      ->option_text("PATH (default: what RLX_MODEL names)")
      ->envname("RLX_MODEL")
      ->required();
}

struct Tokenize {
  explicit Tokenize(CLI::App& app) : sentences(app) {
    add_tokenizer_option(app, model);
    app.add_option("--max-tokens", max_tokens,
                   "cut each line at this many tokens, special ones included; not cut where left out")
        ->option_text("N")
        ->check(CLI::Range(size_t{2}, size_t{1} << 30));
    app.add_flag("--json", json, "taken as elsewhere, and changes nothing: each line is JSON");
    app.add_flag("--tokens", tokens, "print the tokens as text instead of their ids");
    app.add_flag("--plain", plain, "add no special tokens, and take their texts in a line as text");
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
  bool tokens = false, plain = false, json = false;
};

void Tokenize::run() const {
  std::vector<std::string> texts = sentences.read();
  Tokenizer tokenizer = Tokenizer::load(model);
  tokenizer.set_padding(std::nullopt);
  tokenizer.set_truncation(max_tokens ? std::optional(Truncation{.max_length = max_tokens}) : std::nullopt);
  tokenizer.set_encode_special_tokens(plain);
  for (const std::string& text : texts) {
    Encoding encoding = tokenizer.encode(text, !plain);
    std::string line = "[";
    for (size_t i = 0; i < encoding.size(); ++i)
      (line += i ? "," : "") += tokens ? json_text(encoding.tokens[i]) : std::to_string(encoding.ids[i]);
    write_out(line + "]\n");
  }
}

struct Detokenize {
  explicit Detokenize(CLI::App& app) : lines(app) {
    add_tokenizer_option(app, model);
    app.add_flag("--special", special, "keep the texts of special tokens");
    app.add_flag("--json", json, "print each text as a JSON string, so that one with newlines is one line");
    app.footer(
        R"(Each line is a JSON array of ids, as `rlx tokenize` prints them, and becomes a line of text.

Examples:
  rlx detokenize --model model.gguf "[1, 15043]"
  rlx tokenize --model model.gguf --file lines.txt | rlx detokenize --model model.gguf -)");
  }
  void run() const;

  Sentences lines;
  std::string model;
  bool special = false, json = false;
};

std::vector<int32_t> ids_from(const std::string& line) {
  std::string_view rest = line;
  auto skip = [&](std::string_view characters) {
    rest.remove_prefix(std::min(rest.find_first_not_of(characters), rest.size()));
  };
  auto refuse = [&] {
    fail(ErrorCode::parse, "'", line.substr(0, 60), "' is no JSON array of ids, at byte ", line.size() - rest.size());
  };
  std::vector<int32_t> ids;
  constexpr std::string_view kSpace = " \t\r\n";
  skip(kSpace);
  if (!rest.starts_with('[')) refuse();
  rest.remove_prefix(1);
  for (skip(kSpace); !rest.starts_with(']'); skip(kSpace)) {
    if (!ids.empty()) {
      if (!rest.starts_with(',')) refuse();
      rest.remove_prefix(1);
      skip(kSpace);
    }
    int32_t id = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), id);
    if (error != std::errc()) refuse();
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    ids.push_back(id);
  }
  rest.remove_prefix(1);
  skip(kSpace);
  if (!rest.empty()) refuse();
  return ids;
}

void Detokenize::run() const {
  Tokenizer tokenizer = Tokenizer::load(model);
  for (const std::string& line : lines.read()) {
    const std::string text = tokenizer.decode(ids_from(line), !special);
    write_out((json ? json_text(text) : text) + "\n");
  }
}

}  // namespace

Subcommand add_detokenize(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("detokenize", "Token ids to text");
  auto detokenize = std::make_shared<Detokenize>(*app);
  return {app, [detokenize] { detokenize->run(); }};
}

Subcommand add_tokenize(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("tokenize", "Text to token ids");
  auto tokenize = std::make_shared<Tokenize>(*app);
  return {app, [tokenize] { tokenize->run(); }};
}

}  // namespace rlx::tools
