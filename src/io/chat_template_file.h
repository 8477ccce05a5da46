// The source text of a chat template, unparsed: also in builds without the engine of templates (Jinja). Defined in
// chat_template.cpp.
#pragma once

#include <optional>
#include <string>

namespace rlx {

struct ChatTemplateFile {
  std::string text;
  std::string file;  ///< the name of the file that has it, without its folder
};
/// `path` is the folder of a model, which is searched for chat_template.jinja, chat_template.json and
/// tokenizer_config.json in this order, or one such file; not a GGUF file. nullopt if there is no such path, or no
/// template.
std::optional<ChatTemplateFile> chat_template_file(const std::string& path);

}  // namespace rlx
