// The text of a chat template as it stands in a model's files, whether or not RLX was built with what runs it.
#pragma once

#include <optional>
#include <string>

namespace rlx {

struct ChatTemplateFile {
  std::string text;
  std::string file;  ///< that it is from
};
/// Of a folder or of one of its files, as ChatTemplate::find looks for it; nullopt if there is none.
std::optional<ChatTemplateFile> chat_template_file(const std::string& path);

}  // namespace rlx
