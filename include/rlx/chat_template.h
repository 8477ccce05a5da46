// Chat templates: the Jinja text in a model's tokenizer_config.json (`chat_template`) or GGUF metadata
// (`tokenizer.chat_template`), which turns messages into the prompt. The yardstick is the Python package
// `transformers`; src/io/jinja/README.md lists what differs or is refused. Encode the prompt without special tokens:
// the template writes them itself.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/gguf.h"

namespace rlx {

/// One turn of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant", "tool", or what else the template knows
  std::string content;
};

/// What a template sees beside the messages, and what it may take.
struct ChatTemplateOptions {
  /// Whether the text ends with what begins the assistant's answer.
  bool add_generation_prompt = false;
  std::string bos_token = {}, eos_token = {};  ///< where empty, those of the template's file
  std::string tools = {};                      ///< JSON, an array of function schemas; empty: none
  std::string documents = {};                  ///< JSON, an array; empty: none
  std::string variables =
      {};  ///< JSON, an object of further variables, `{"enable_thinking": false}`; they win; empty: none
  /// What strftime_now tells, without a zone; if not given, the local time now.
  std::optional<std::tm> now = std::nullopt;
  /// Steps of the template's program, and bytes that all the values it makes may have together; above them it fails.
  /// Real templates take some thousand steps and a few times the bytes of their conversation. most_bytes 0: 2^28 plus
  /// 100 for each byte of all variables.
  uint64_t most_steps = 20'000'000;
  uint64_t most_bytes = 0;
};

/// A chat template. Cheap to copy; may be used by several threads at once.
class ChatTemplate {
 public:
  /// Reads a template. Fails with a parse error, which names the line, for text that is none, and as unsupported if RLX
  /// was built without Jinja (RLX_JINJA=OFF). `name` is what messages call it.
  static ChatTemplate parse(std::string_view text, std::string_view name = "the chat template");
  /// That of a model folder (chat_template.jinja, or in chat_template.json or tokenizer_config.json), of one of these
  /// files, or of a GGUF file. Where there are several, the one named "default". Fails with not_found if there is none.
  static ChatTemplate load(const std::string& path);
  /// The same; nullopt if there is none.
  static std::optional<ChatTemplate> find(const std::string& path);
  /// That of `tokenizer.chat_template`; nullopt if there is none.
  static std::optional<ChatTemplate> from_gguf(const GgufMetadata& metadata);

  /// The conversation as text. Fails with invalid_argument if the template refuses it (`raise_exception`) or cannot do
  /// with these messages what it tries, with out_of_memory if it takes more steps or bytes than it may, and with a
  /// parse error for JSON that is none.
  std::string apply(const std::vector<ChatMessage>& messages, const ChatTemplateOptions& options = {}) const;
  /// The same of JSON, an array of objects such as {"role": "user", "content": "Hello."}: contents of several parts,
  /// tool calls and whatever else the template knows. At most 126 levels deep.
  std::string apply_json(std::string_view messages, const ChatTemplateOptions& options = {}) const;

  const std::string& text() const { return *text_; }
  /// The tokens that its file names, for ChatTemplateOptions; empty where it names none, or for parse().
  const std::string& bos_token() const { return bos_token_; }
  const std::string& eos_token() const { return eos_token_; }

 private:
  ChatTemplate(std::string_view text, std::string_view name);

  std::shared_ptr<const std::string> text_, name_;
  std::string bos_token_, eos_token_;
};

/// Whether RLX was built with the template engine.
bool has_chat_templates();

}  // namespace rlx
