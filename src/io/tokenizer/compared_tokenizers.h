// What both directions of gguf_tokenizer_writer.h share: a tokenizer.json as it was read, the texts by which two
// tokenizers are compared, and the special tokens around a text.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json_tree.h"
#include "io/tokenizer/parts.h"
#include "io/tokenizer/tokenizer_json.h"
#include "rlx/tokenizer.h"

namespace rlx::tokenizer::gguf_writer {

/// The values of tokenizer.ggml.token_type (GGUF specification, "ggml.token_type").
namespace token_type {
inline constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;
}  // namespace token_type

/// Texts of what languages, programs and people write. All are in normal form C.
const std::vector<std::string>& written_texts();
/// Texts of characters drawn at random, the same each time, some of them of each class that splitting looks at.
std::vector<std::string> random_texts(size_t count);

/// What is done to a text before two tokenizers are compared by it; null: nothing.
using Prepare = std::string (*)(const std::string&);
/// The text in normal form C.
std::string composed(const std::string& text);
/// The text without two marks that random_texts() has, U+20DD and U+0903. The package tokenizers' Precompiled gives a
/// character with its marks what the table has for the character alone;
/// SentencePiece and llama.cpp look at each by itself.
std::string without_marks(const std::string& text);

struct Added {
  std::string content;
  bool special = false, keeps_spaces = true, strips_behind = false;
};

struct Source {
  JsonTree json;
  std::shared_ptr<const Tokenizer::Parts> parts;
  Tokenizer tokenizer;
  std::map<int64_t, Added> added;

  explicit Source(std::string_view text) : json(parse_json(text)), parts(parts_from_json(text)), tokenizer(parts) {
    if (const JsonTree* tokens = json.find("added_tokens"))
      for (const JsonTree& each : tokens->elements())  // parts_from_json has seen that they are right
        added[each.at("id").integer()] = {
            each.at("content").string(), each.at("special").boolean(),
            !each.at("lstrip").boolean() && !each.at("rstrip").boolean() && !each.at("single_word").boolean(),
            each.at("rstrip").boolean() && !each.at("lstrip").boolean()};
  }
  const JsonTree* model(std::string_view key) const {
    const JsonTree* found = json.find("model");
    found = found ? found->find(key) : nullptr;
    return found && !found->is_null() ? found : nullptr;
  }
  bool flag(std::string_view key) const {
    const JsonTree* found = model(key);
    return found && found->is_boolean() && found->boolean();
  }
  std::string text(std::string_view key) const {
    const JsonTree* found = model(key);
    return found && found->is_string() ? found->string() : std::string();
  }
  /// Whether a part, or one of the parts of a sequence, is of that type.
  bool has(const char* section, const char* list, std::string_view type) const {
    const JsonTree* found = json.find(section);
    return found && has(*found, list, type, 0);
  }
  static bool has(const JsonTree& part, const char* list, std::string_view type, int depth) {
    const JsonTree* own = part.find("type");
    if (own && own->is_string() && own->string() == type) return true;
    const JsonTree* parts = depth < 8 ? part.find(list) : nullptr;
    return parts && std::any_of(parts->elements().begin(), parts->elements().end(),
                                [&](const JsonTree& each) { return has(each, list, type, depth + 1); });
  }
  /// The table of a normalizer Precompiled, as base64; null if there is none.
  const std::string* charsmap() const {
    const JsonTree* found = json.find("normalizer");
    return found ? charsmap(*found, 0) : nullptr;
  }
  static const std::string* charsmap(const JsonTree& part, int depth) {
    const JsonTree* table = part.find("precompiled_charsmap");
    if (table && table->is_string()) return &table->string();
    if (const JsonTree* parts = depth < 8 ? part.find("normalizers") : nullptr)
      for (const JsonTree& each : parts->elements())
        if (const std::string* found = charsmap(each, depth + 1)) return found;
    return nullptr;
  }
  std::vector<std::pair<std::string, std::string>> merges() const {
    std::vector<std::pair<std::string, std::string>> all;
    const JsonTree* found = model("merges");
    if (!found) return all;
    for (const JsonTree& each : found->elements()) {
      if (!each.is_string()) {
        all.emplace_back(each.elements().at(0).string(), each.elements().at(1).string());
        continue;
      }
      const size_t space = each.string().find(' ');
      all.emplace_back(each.string().substr(0, space), each.string().substr(space + 1));
    }
    return all;
  }
};

/// One special token, or none, that stands in front of or behind each text.
struct Around {
  std::optional<int32_t> before, behind;
};
Around around_of(const Tokenizer& tokenizer);

/// The beginning of a text or of a list of ids, for messages.
std::string shown(const std::string& text);
std::string shown(const std::vector<int32_t>& ids);

/// A message with the first text of which the two make other tokens, and the tokens; empty if there is none. Texts that
/// tell most come first: written ones, random ones, then those that all tokens come in.
std::string first_difference(const Source& source, const Tokenizer& made, Prepare prepare);

/// What is said of added tokens whose surroundings GGUF has no word for.
void note_added(const Source& source, const Tokenizer& made, Prepare prepare, std::vector<std::string>& notes);

}  // namespace rlx::tokenizer::gguf_writer
