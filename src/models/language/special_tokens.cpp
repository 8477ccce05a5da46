// See the header.
#include "models/language/special_tokens.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <variant>

#include "io/json_tree.h"
#include "models/language/weight_files.h"

namespace rlx::language {
namespace {

constexpr size_t kMostConfigBytes = size_t{4} << 20;

/// A JSON file of the folder; null if it is not there.
JsonTree json_of(const std::string& folder, const char* name) {
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  return with_context([&] { return text_of("reading '", path.string(), "'"); },
                      [&] {
                        JsonTree json = parse_json(text_of_file(path.string(), kMostConfigBytes));
                        if (!json.is_object()) fail(ErrorCode::parse, "it is ", json.shown(), ", not an object");
                        return json;
                      });
}

const JsonTree* member(const JsonTree& json, const char* key) {
  const JsonTree* found = json.find(key);
  return found && !found->is_null() ? found : nullptr;
}

int32_t id_in(const JsonTree& value, const std::string& what, int64_t vocabulary) {
  if (!value.is_natural() || value.natural() >= static_cast<uint64_t>(vocabulary))
    fail(ErrorCode::parse, what, " is ", value.shown(), "; it must be a token, 0 to ", vocabulary - 1);
  return static_cast<int32_t>(value.natural());
}

void add_id(std::vector<int32_t>& ids, int32_t id) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

/// Of the first file that has the key, a number or a list of them; -1 stands for none in some files.
std::vector<int32_t> ids_of(std::span<const std::pair<const char*, const JsonTree*>> files, const char* key,
                            int64_t vocabulary) {
  for (const auto& [file, json] : files) {
    const JsonTree* found = member(*json, key);
    if (!found) continue;
    const std::string what = text_of("'", key, "' in ", file);
    std::vector<int32_t> ids;
    if (found->is_integer() && found->integer() == -1) return ids;
    if (!found->is_array()) return {id_in(*found, what, vocabulary)};
    for (const JsonTree& item : found->elements()) add_id(ids, id_in(item, "an item of " + what, vocabulary));
    return ids;
  }
  return {};
}

void advise(std::optional<double>& to, const JsonTree& json, const char* key) {
  const JsonTree* found = member(json, key);
  if (!found) return;
  if (!found->is_number())
    fail(ErrorCode::parse, "'", key, "' in generation_config.json is ", found->shown(), ", not a number");
  to = found->number();
}

}  // namespace

SpecialTokens special_tokens_of_folder(const std::string& folder, int64_t vocabulary) {
  const JsonTree generation = json_of(folder, "generation_config.json"), model = json_of(folder, "config.json");
  const JsonTree nothing = {};
  const JsonTree* inner = member(model, "text_config");
  const std::array<std::pair<const char*, const JsonTree*>, 3> files = {
      {{"generation_config.json", &generation}, {"config.json", &model}, {"config.json", inner ? inner : &nothing}}};
  SpecialTokens s;
  if (auto ids = ids_of(files, "bos_token_id", vocabulary); !ids.empty()) s.bos_id = ids[0];
  s.stop_ids = ids_of(files, "eos_token_id", vocabulary);
  advise(s.advice.temperature, generation, "temperature");
  advise(s.advice.top_p, generation, "top_p");
  advise(s.advice.min_p, generation, "min_p");
  advise(s.advice.repetition_penalty, generation, "repetition_penalty");
  if (const JsonTree* k = member(generation, "top_k")) {
    if (!k->is_integer())
      fail(ErrorCode::parse, "'top_k' in generation_config.json is ", k->shown(), ", not a whole number");
    s.advice.top_k = k->integer();
  }
  return s;
}

SpecialTokens special_tokens_of_gguf(const GgufMetadata& metadata, int64_t vocabulary) {
  const auto id = [&](const char* name) -> std::optional<int32_t> {
    const std::string key = text_of("tokenizer.ggml.", name, "_token_id");
    const GgufValue* value = find_value(metadata, key);
    if (!value) return std::nullopt;
    const auto* number = std::get_if<uint32_t>(value);
    if (!number) fail(ErrorCode::parse, "'", key, "' is of type ", gguf_type_name(*value), ", but should be a u32");
    if (*number >= static_cast<uint64_t>(vocabulary))
      fail(ErrorCode::parse, "'", key, "' is ", *number, "; it must be a token, 0 to ", vocabulary - 1);
    return static_cast<int32_t>(*number);
  };
  const auto items = [&]<class Item>(const char* key, Item) -> const std::vector<Item>* {
    const GgufValue* value = find_value(metadata, key);
    const auto* list = value ? std::get_if<GgufArray>(value) : nullptr;
    return list ? std::get_if<std::vector<Item>>(&list->items) : nullptr;
  };
  SpecialTokens s;
  s.bos_id = id("bos");
  for (const char* name : {"eos", "eot", "eom"})
    if (auto found = id(name)) add_id(s.stop_ids, *found);
  const auto* texts = items("tokenizer.ggml.tokens", std::string());
  const auto* types = items("tokenizer.ggml.token_type", int32_t{});
  // Files name one end; templates of chats end turns by others, which llama.cpp finds by their texts, too.
  constexpr int32_t kNormal = 1;
  if (texts)
    for (size_t i = 0; i < texts->size() && i < static_cast<size_t>(vocabulary); ++i)
      for (const char* end :
           {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<EOT>", "_<EOT>"})
        if ((*texts)[i] == end && (!types || i >= types->size() || (*types)[i] != kNormal))
          add_id(s.stop_ids, static_cast<int32_t>(i));
  const auto advice = [&](std::optional<double>& to, const char* name) {
    const std::string key = text_of("general.sampling.", name);
    const GgufValue* value = find_value(metadata, key);
    if (!value) return;
    const auto* number = std::get_if<float>(value);
    if (!number) fail(ErrorCode::parse, "'", key, "' is of type ", gguf_type_name(*value), ", but should be an f32");
    to = static_cast<double>(*number);
  };
  advice(s.advice.temperature, "temp"), advice(s.advice.top_p, "top_p"), advice(s.advice.min_p, "min_p");
  advice(s.advice.repetition_penalty, "penalty_repeat");
  if (const GgufValue* value = find_value(metadata, "general.sampling.top_k")) {
    const auto* number = std::get_if<int32_t>(value);
    if (!number)
      fail(ErrorCode::parse, "'general.sampling.top_k' is of type ", gguf_type_name(*value), ", but should be an i32");
    s.advice.top_k = *number;
  }
  return s;
}

}  // namespace rlx::language
