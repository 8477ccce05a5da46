// Any bytes as a chat template, and what stands behind the first NUL, if anything, as JSON messages: refused with an
// rlx::Error, or a text of valid UTF-8 within the limits that it was given.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "rlx/chat_template.h"
#include "rlx/error.h"

using namespace rlx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = bytes.find('\0');
  const std::string_view messages =
      end == bytes.npos
          ? R"([{"role": "user", "content": "Hé"}, {"role": "assistant", "content": [{"a": [1, 2.5, null]}]}])"
          : bytes.substr(end + 1);
  ChatTemplateOptions options;
  options.add_generation_prompt = true;
  options.most_steps = 20'000;
  options.most_bytes = 1 << 20;
  try {
    const std::string text = ChatTemplate::parse(bytes.substr(0, end)).apply_json(messages, options);
    if (text.size() > options.most_bytes) std::abort();
  } catch (const Error& error) {
    if (*error.what() == '\0' || error.code() == ErrorCode::internal) std::abort();
  }
  return 0;
}
