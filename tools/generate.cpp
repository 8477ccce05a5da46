// `rlx generate`: a language model goes on with a text. Neighbour: tools/chat.cpp, which keeps a conversation.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>

#include "rlx/error.h"
#include "rlx/io.h"
#include "tools/generation.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

struct Generate {
  explicit Generate(CLI::App& app) : options(app) {
    prompt_option = app.add_option("--prompt", prompt, "the text to go on with")->option_text("TEXT");
    app.add_option("--file", file, "the same, from a file; - for standard input, which is the default")
        ->type_name("FILE")
        ->excludes(prompt_option);
    app.add_flag("--plain", plain, "add no special tokens, and take their texts in the prompt as text");
    app.footer(
        R"(The text is printed as it comes; times go to standard error at the end. A newline at the end of a file or of standard
input is left out. What --temperature and its like do, in this order: rlx/sampler.h; where they are left out, the model's
generation_config.json counts, and else each token is drawn as likely as the model has it.

Examples:
  rlx generate --model Qwen3-0.6B --prompt "The capital of France is" --temperature 0 --max-tokens 20
  rlx generate --model model.gguf --file story.txt --top-k 40 --top-p 0.9 --seed 7 --stop "The end." > more.txt)");
  }
  void run() const;
  std::string text() const;

  GenerationOptions options;
  std::string prompt, file;
  CLI::Option* prompt_option;
  bool plain = false;
};

std::string Generate::text() const {
  if (prompt_option->count() > 0) return prompt;
  std::string all;
  if (!file.empty() && file != "-") {
    const auto bytes = FileBytes::read(file);
    all.assign(reinterpret_cast<const char*>(bytes->bytes().data()), bytes->bytes().size());
  } else {
    all.assign(std::istreambuf_iterator<char>(std::cin), {});
    if (std::cin.bad()) fail(ErrorCode::io, "cannot read standard input");
  }
  if (all.ends_with('\n')) all.pop_back();
  return all;
}

void Generate::run() const {
  const std::string given = text();
  double load_seconds = 0;
  const LanguageModel model = options.load(load_seconds);
  const auto tokens = prompt_tokens(model, given, plain ? PromptKind::plain : PromptKind::text);
  TextGenerator generator = options.generator(model);
  const Generated made = write(generator, tokens, [&](std::string_view piece) {
    if (options.json) return;
    write_out(piece);
    flush_out();
  });
  if (options.json) return write_out(made.json() + "\n");
  write_out("\n");
  flush_out();
  std::fputs(text_of("rlx: loaded in ", fixed_text(load_seconds, 2), " s, ", made.times.text(), "; ended by ",
                     made.finish, "\n")
                 .c_str(),
             stderr);
}

}  // namespace

Subcommand add_generate(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("generate", "A language model goes on with a text");
  auto generate = std::make_shared<Generate>(*app);
  return {app, [generate] { generate->run(); }};
}

}  // namespace rlx::tools
