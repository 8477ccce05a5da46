// `rlx chat`: a conversation with a language model, a line a turn. Neighbour: tools/generate.cpp.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "rlx/chat_template.h"
#include "rlx/error.h"
#include "rlx/io.h"
#include "tools/generation.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

struct Chat {
  explicit Chat(CLI::App& app) : options(app) {
    system_option =
        app.add_option("--system", system, "what the model is told before the conversation")->option_text("TEXT");
    app.add_option("--template", template_file, "a Jinja file instead of the model's own chat template")
        ->type_name("FILE");
    app.add_option("--variables", variables, "further variables of the template, as a JSON object")
        ->option_text("JSON");
    app.footer(
        R"(Each line of standard input is a turn, answered before the next is read; /reset begins a new conversation, and the end of the
input (Ctrl-D) ends. Times go to standard error at the end.

Examples:
  rlx chat --model Qwen3-0.6B --system "Be brief." --variables '{"enable_thinking": false}'
  printf 'Hello.\nAnd who are you?\n' | rlx chat --model model.gguf --seed 3 --json)");
  }
  void run() const;
  ChatTemplate chat_template(const LanguageModel& model) const;

  GenerationOptions options;
  std::string system, template_file, variables;
  CLI::Option* system_option;
};

ChatTemplate Chat::chat_template(const LanguageModel& model) const {
  if (!template_file.empty()) {
    const auto bytes = FileBytes::read(template_file);
    return ChatTemplate::parse({reinterpret_cast<const char*>(bytes->bytes().data()), bytes->bytes().size()},
                               "'" + template_file + "'");
  }
  if (auto own = model.chat_template()) return *own;
  fail(ErrorCode::not_found, "the model '", options.model.model,
       "' has no chat template; --template names one, and `rlx "
       "generate` needs none");
}

void Chat::run() const {
  double load_seconds = 0;
  const LanguageModel model = options.load(load_seconds);
  const ChatTemplate chat = chat_template(model);
  const Tokenizer& tokenizer = model.tokenizer();
  TextGenerator generator = options.generator(model);
  GenerationTimes times;
  std::vector<ChatMessage> conversation;
  auto begin = [&] {
    conversation.clear();
    if (system_option->count() > 0) conversation.push_back({"system", system});
  };
  begin();
  const bool is_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  ChatTemplateOptions how;
  how.add_generation_prompt = true;
  // A template of its own file does not know the model's tokens.
  if (const auto own = template_file.empty() ? std::nullopt : model.chat_template()) {
    how.bos_token = own->bos_token(), how.eos_token = own->eos_token();
  } else if (!template_file.empty()) {
    if (model.bos_id()) how.bos_token = tokenizer.id_to_token(*model.bos_id()).value_or("");
    if (!model.stop_ids().empty()) how.eos_token = tokenizer.id_to_token(model.stop_ids().front()).value_or("");
  }
  how.variables = variables;
  std::string line;
  while (true) {
    if (is_terminal) write_out("> ");
    flush_out();
    if (!std::getline(std::cin, line)) break;
    if (line.ends_with('\r')) line.pop_back();
    if (line == "/reset") {
      begin();
      generator.reset();
      continue;
    }
    if (line.empty()) continue;
    conversation.push_back({"user", line});
    const auto tokens = prompt_tokens(model, chat.apply(conversation, how), PromptKind::templated);
    const Generated made = with_context("answering; /reset begins a new conversation", [&] {
      return write(generator, tokens, [&](std::string_view piece) {
        if (options.json) return;
        write_out(piece);
        flush_out();
      });
    });
    write_out(options.json ? made.json() + "\n" : "\n");
    flush_out();
    conversation.push_back({"assistant", made.text});
    times += made.times;
  }
  if (std::cin.bad()) fail(ErrorCode::io, "cannot read standard input");
  if (is_terminal) write_out("\n");
  flush_out();
  if (!options.json)
    std::fputs(text_of("rlx: loaded in ", fixed_text(load_seconds, 2), " s, ", times.text(), "\n").c_str(), stderr);
}

}  // namespace

Subcommand add_chat(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("chat", "A conversation with a language model");
  auto chat = std::make_shared<Chat>(*app);
  return {app, [chat] { chat->run(); }};
}

}  // namespace rlx::tools
