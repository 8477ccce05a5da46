// See the header. Which ids stand under which keys: gguf-py, vocab.py (SpecialVocab).
#include "models/language/gguf_vocabulary.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "io/chat_template_file.h"
#include "io/json_tree.h"
#include "io/tokenizer/gguf_tokenizer_writer.h"
#include "models/language/weight_files.h"

namespace rlx::language {
namespace gguf_vocabulary {  // a unity build puts all of the folder into one file
namespace {

constexpr size_t kMostTokenizerBytes = size_t{1} << 28;  // as Tokenizer::load

/// A text of a folder's file; nullopt if it is not there.
std::optional<std::string> text_in(const std::string& folder, const char* name) {
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  return text_of_file(path.string(), kMostTokenizerBytes);
}

/// A token of tokenizer_config.json: its text, or an object with it as "content"; empty if there is none.
std::string token_in(const JsonTree& config, const std::string& name) {
  const JsonTree* found = config.find(name);
  if (found && found->is_object()) found = found->find("content");
  return found && found->is_string() ? found->string() : std::string();
}

/// A token's name in tokenizer_config.json and config.json, and in GGUF.
constexpr std::array<std::array<const char*, 2>, 7> kSpecial = {{{"bos", "bos"},
                                                                 {"eos", "eos"},
                                                                 {"unk", "unknown"},
                                                                 {"sep", "seperator"},  // so spelled in the format
                                                                 {"pad", "padding"},
                                                                 {"cls", "cls"},
                                                                 {"mask", "mask"}}};

std::string key_of(const char* name) { return text_of("tokenizer.ggml.", name, "_token_id"); }

/// Names the ends of texts that the folder has and the file would not know: under the keys for ends of turns and of
/// messages.
void add_ends(GgufModel& model, const SpecialTokens& special, int64_t vocabulary) {
  for (const int32_t id : special.stop_ids) {
    const auto known = special_tokens_of_gguf(model.metadata, vocabulary).stop_ids;
    if (std::find(known.begin(), known.end(), id) != known.end()) continue;
    const char* free = nullptr;
    for (const char* name : {"eom", "eot", "eos"})
      if (!find_value(model.metadata, key_of(name))) free = name;
    if (free) model.metadata.emplace_back(key_of(free), static_cast<uint32_t>(id));
    else
      model.notes.push_back(
          text_of("token ", id, " ends texts, too, and GGUF has no word for one more end ('eos_token_id')"));
  }
}

/// llama.cpp knows by "Phi-3" or "Phi3" in the model's name, and by nothing else, that special tokens take the spaces
/// behind them, and asks for four of them then (llama-vocab.cpp). So models of such tokens are called so, and no
/// others.
void name_by_spaces(GgufModel& model, const Tokenizer& tokenizer, bool strips) {
  bool has_all = true;
  for (const char* token : {"<unk>", "<s>", "</s>", "<|endoftext|>"})
    has_all &= tokenizer.token_to_id(token).has_value();
  if (strips && !has_all)
    model.notes.emplace_back(
        "special tokens take the spaces behind them, which llama.cpp knows of Phi-3's tokens alone");
  for (auto& [key, value] : model.metadata) {
    if (key != "general.name") continue;
    std::string& name = std::get<std::string>(value);
    const auto place = [&] {
      std::string small = name;
      for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      return std::pair(small.find("phi3"), small.find("phi-3"));
    };
    if (!strips || !has_all) {
      for (auto at = place(); at.first != name.npos || at.second != name.npos; at = place()) {
        if (at.first != name.npos) name.insert(at.first + 3, " ");
        else name[at.second + 3] = ' ';
      }
    } else if (!name.starts_with("Phi-3") && !name.starts_with("Phi3")) {
      name = name.starts_with("Phi 3") ? "Phi-3" + name.substr(5) : "Phi-3 " + name;
    }
  }
}

}  // namespace
}  // namespace gguf_vocabulary

void add_vocabulary(GgufModel& model, const std::string& folder, int64_t vocabulary, const SpecialTokens& special) {
  using namespace gguf_vocabulary;  // NOLINT(google-build-using-namespace)
  GgufMetadata& m = model.metadata;
  const auto json = text_in(folder, "tokenizer.json");
  if (!json) {
    for (const char* other : {"tokenizer.model", "vocab.json", "vocab.txt", "tekken.json"})
      if (text_in(folder, other))
        fail(ErrorCode::unsupported, "there is a ", other, " in '", folder,
             "', but no tokenizer.json, which the tokenizer is read from: save it so by transformers "
             "(AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER))");
    m.emplace_back("tokenizer.ggml.model", std::string("no_vocab"));
    model.notes.emplace_back("the folder has no tokenizer, and so has the file none");
    return;
  }
  auto made = tokenizer::vocabulary_as_gguf(*json, vocabulary);
  std::move(made.metadata.begin(), made.metadata.end(), std::back_inserter(m));
  std::move(made.notes.begin(), made.notes.end(), std::back_inserter(model.notes));
  const Tokenizer tokenizer = Tokenizer::from_json(*json);
  JsonTree config;
  if (const auto text = text_in(folder, "tokenizer_config.json")) config = parse_json(*text);
  JsonTree sizes;
  if (const auto text = text_in(folder, "config.json")) sizes = json_or_null(*text);
  const JsonTree* inner = sizes.find("text_config");
  for (const auto& [name, gguf] : kSpecial) {
    std::optional<int64_t> id;
    if (name == std::string("bos") && made.bos_id) id = *made.bos_id;
    if (name == std::string("eos") && made.eos_id) id = *made.eos_id;
    if (const std::string token = token_in(config, text_of(name, "_token")); !id && !token.empty())
      if (const auto found = tokenizer.token_to_id(token)) id = *found;
    for (const JsonTree* file : {static_cast<const JsonTree*>(&sizes), inner}) {
      const JsonTree* found = file ? file->find(text_of(name, "_token_id")) : nullptr;
      if (!id && found && found->is_natural() && found->natural() < static_cast<uint64_t>(vocabulary))
        id = static_cast<int64_t>(found->natural());
    }
    if (!id && name == std::string("eos") && !special.stop_ids.empty()) id = special.stop_ids[0];
    if (!id && name == std::string("bos") && special.bos_id) id = *special.bos_id;
    if (id && *id < vocabulary && !find_value(m, key_of(gguf)))
      m.emplace_back(key_of(gguf), static_cast<uint32_t>(*id));
  }
  add_ends(model, special, vocabulary);
  if (const auto found = chat_template_file(folder)) m.emplace_back("tokenizer.chat_template", found->text);
  name_by_spaces(model, tokenizer, made.strips_behind_special);
}

}  // namespace rlx::language
