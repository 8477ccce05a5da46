// Chat templates: what their files say, and the JSON that the engine in src/io/jinja is given.
#include "rlx/chat_template.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/chat_template_file.h"
#include "io/jinja/jinja.h"
#include "io/json_tree.h"
#include "rlx/error.h"

namespace rlx {
namespace {

constexpr size_t kMostTemplateBytes = size_t{1} << 20;  // the longest of llama.cpp's collection has some 30 KB
constexpr uintmax_t kMostFileBytes = uintmax_t{1} << 26;

int64_t seconds_of(const std::tm& t) {
  using namespace std::chrono;
  const sys_days day = year{t.tm_year + 1900} / month{static_cast<unsigned>(t.tm_mon + 1)} /
                       std::chrono::day{static_cast<unsigned>(t.tm_mday)};
  return day.time_since_epoch().count() * int64_t{86400} + t.tm_hour * int64_t{3600} + t.tm_min * int64_t{60} +
         t.tm_sec;
}

int64_t local_seconds() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return seconds_of(local);
}

#if RLX_HAS_JINJA
/// The template's text; without variables, whether it can be read.
std::string render(std::string_view text, std::string_view name, const std::string* variables,
                   const ChatTemplateOptions& options) {
  RlxJinjaInput input{};
  input.template_text = text.data();
  input.template_size = text.size();
  input.variables = variables ? variables->data() : nullptr;
  input.variables_size = variables ? variables->size() : 0;
  input.now = options.now ? seconds_of(*options.now) : local_seconds();
  input.most_steps = options.most_steps;
  input.most_bytes = options.most_bytes;
  if (input.most_bytes == 0) input.most_bytes = (uint64_t{1} << 28) + 100 * uint64_t{input.variables_size};
  RlxJinjaText made{};
  const int status = rlx_jinja_render(&input, &made);
  std::string result(made.bytes, made.size);
  rlx_jinja_free(made);
  switch (status) {
    case RLX_JINJA_RENDERED: return result;
    case RLX_JINJA_SYNTAX: fail(ErrorCode::parse, name, ": ", result);
    case RLX_JINJA_RAISED: fail(ErrorCode::invalid_argument, name, " refuses the conversation: ", result);
    case RLX_JINJA_FAILED:
      fail(ErrorCode::invalid_argument, name, ", ", result,
           "; it does not know such messages, or needs variables that it was not given");
    case RLX_JINJA_LIMIT: fail(ErrorCode::out_of_memory, name, ", ", result, "; most_steps and most_bytes allow more");
    default: fail(ErrorCode::internal, name, ": ", result);
  }
}
#else
std::string render(std::string_view, std::string_view, const std::string*, const ChatTemplateOptions&) {
  fail(ErrorCode::unsupported,
       "this RLX was built without chat templates; run scripts/deps, which fetches the template engine and the Rust "
       "compiler that it needs, then configure with -DRLX_JINJA=ON, which says what is missing");
}
#endif

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// A part of the variables that a caller gave as JSON: all of it, and of this kind.
void append(std::string& out, std::string_view name, std::string_view json, bool (JsonTree::*is)() const,
            std::string_view kind) {
  with_context([&] { return "reading the " + std::string(name) + " of a chat"; },
               [&] {
                 const JsonTree tree = parse_json(json);
                 if (!(tree.*is)()) fail(ErrorCode::parse, "they are ", tree.shown(), "; wanted is ", kind);
               });
  (out += json_string(name)) += ':';
  (out += json) += ',';
}

std::string read_text(const std::filesystem::path& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) fail(ErrorCode::io, "cannot read '", path.string(), "': ", error.message());
  if (size > kMostFileBytes)
    fail(ErrorCode::unsupported, "'", path.string(), "' has ", size, " bytes; a file with a chat template may have ",
         kMostFileBytes);
  std::string text(static_cast<size_t>(size), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    fail(ErrorCode::io, "cannot read '", path.string(), "': it is not readable, or shorter than its ", size, " bytes");
  return text;
}

/// `chat_template` of a configuration: a text, or an array of {"name", "template"}.
std::optional<std::string> template_in(const JsonTree& config) {
  const JsonTree* found = config.find("chat_template");
  if (!found || found->is_null()) return std::nullopt;
  if (!found->is_array()) return found->string();
  const JsonTree* first = nullptr;
  for (const JsonTree& each : found->elements()) {
    const JsonTree& name = each.at("name");
    if (!first || name.string() == "default") first = &each;
  }
  if (!first) return std::nullopt;
  return first->at("template").string();
}

/// A token of tokenizer_config.json: its text, or an object with it as "content".
std::string token_in(const JsonTree& config, std::string_view name) {
  const JsonTree* found = config.find(name);
  if (found && found->is_object()) found = found->find("content");
  return found && found->is_string() ? found->string() : std::string();
}

template <class T>
std::optional<uint64_t> as_index(const T& value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    if (std::in_range<uint64_t>(value)) return static_cast<uint64_t>(value);
  return std::nullopt;
}

std::string gguf_token(const GgufMetadata& metadata, std::string_view key) {
  const GgufValue* id = find_value(metadata, key);
  const GgufValue* tokens = find_value(metadata, "tokenizer.ggml.tokens");
  const auto* array = tokens ? std::get_if<GgufArray>(tokens) : nullptr;
  const auto* texts = array ? std::get_if<std::vector<std::string>>(&array->items) : nullptr;
  if (!id || !texts) return "";
  const auto index = std::visit([](const auto& value) { return as_index(value); }, *id);
  return index && *index < texts->size() ? (*texts)[static_cast<size_t>(*index)] : "";
}

}  // namespace

bool has_chat_templates() { return RLX_HAS_JINJA != 0; }

ChatTemplate::ChatTemplate(std::string_view text, std::string_view name)
    : text_(std::make_shared<const std::string>(text)), name_(std::make_shared<const std::string>(name)) {}

ChatTemplate ChatTemplate::parse(std::string_view text, std::string_view name) {
  if (text.size() > kMostTemplateBytes)
    fail(ErrorCode::unsupported, name, " has ", text.size(), " bytes; one may have ", kMostTemplateBytes);
  render(text, name, nullptr, {});
  return ChatTemplate(text, name);
}

std::optional<ChatTemplate> ChatTemplate::from_gguf(const GgufMetadata& metadata) {
  const GgufValue* value = find_value(metadata, "tokenizer.chat_template");
  if (!value) return std::nullopt;
  const auto* text = std::get_if<std::string>(value);
  if (!text) fail(ErrorCode::parse, "tokenizer.chat_template is no string but ", gguf_type_name(*value));
  ChatTemplate made = parse(*text, "tokenizer.chat_template");
  made.bos_token_ = gguf_token(metadata, "tokenizer.ggml.bos_token_id");
  made.eos_token_ = gguf_token(metadata, "tokenizer.ggml.eos_token_id");
  return made;
}

ChatTemplate ChatTemplate::load(const std::string& path) {
  if (auto found = find(path)) return *found;
  fail(
      ErrorCode::not_found, "loading the chat template of '", path,
      "': it has none: neither chat_template.jinja nor a chat_template in chat_template.json or tokenizer_config.json, "
      "nor tokenizer.chat_template in the metadata of a GGUF file");
}

std::optional<ChatTemplateFile> chat_template_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path given = path;
  const bool is_folder = fs::is_directory(given, error);
  // The order of transformers: a file of its own wins.
  for (const char* file : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
    const fs::path candidate = is_folder ? given / file : given;
    if (!fs::exists(candidate, error)) continue;
    auto text = candidate.extension() == ".json" ? template_in(parse_json(read_text(candidate))) : read_text(candidate);
    if (text) return ChatTemplateFile{*std::move(text), candidate.filename().string()};
    if (!is_folder) break;
  }
  return std::nullopt;
}

std::optional<ChatTemplate> ChatTemplate::find(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path given = path;
  if (!fs::exists(given, error)) fail(ErrorCode::not_found, "there is no file or folder '", path, "'");
  const bool is_folder = fs::is_directory(given, error);
  return with_context([&] { return "loading the chat template of '" + path + "'"; },
                      [&]() -> std::optional<ChatTemplate> {
                        if (given.extension() == ".gguf" && !is_folder)
                          return from_gguf(GgufFile::open(path).metadata());
                        const fs::path folder = is_folder ? given : given.parent_path();
                        const auto found = chat_template_file(path);
                        if (!found) return std::nullopt;
                        ChatTemplate made = parse(found->text, "the template of " + found->file);
                        const fs::path config = folder / "tokenizer_config.json";
                        if (fs::exists(config, error)) {
                          const JsonTree tree = parse_json(read_text(config));
                          made.bos_token_ = token_in(tree, "bos_token");
                          made.eos_token_ = token_in(tree, "eos_token");
                        }
                        return made;
                      });
}

std::string ChatTemplate::apply_json(std::string_view messages, const ChatTemplateOptions& options) const {
  std::string variables = "{";
  append(variables, "messages", messages, &JsonTree::is_array, "an array of objects with role and content");
  if (options.tools.empty()) variables += "\"tools\":null,";
  else append(variables, "tools", options.tools, &JsonTree::is_array, "an array of function schemas");
  if (options.documents.empty()) variables += "\"documents\":null,";
  else append(variables, "documents", options.documents, &JsonTree::is_array, "an array of documents");
  variables += "\"bos_token\":" + json_string(options.bos_token.empty() ? bos_token_ : options.bos_token);
  variables += ",\"eos_token\":" + json_string(options.eos_token.empty() ? eos_token_ : options.eos_token);
  variables += options.add_generation_prompt ? ",\"add_generation_prompt\":true" : ",\"add_generation_prompt\":false";
  if (!options.variables.empty()) {
    std::string more;
    append(more, "variables", options.variables, &JsonTree::is_object, "an object");
    const size_t begin = options.variables.find('{'), end = options.variables.rfind('}');
    const std::string_view members = std::string_view(options.variables).substr(begin + 1, end - begin - 1);
    if (members.find_first_not_of(" \t\r\n") != members.npos) (variables += ',') += members;
  }
  variables += '}';
  return render(*text_, *name_, &variables, options);
}

std::string ChatTemplate::apply(const std::vector<ChatMessage>& messages, const ChatTemplateOptions& options) const {
  std::string json = "[";
  for (const ChatMessage& message : messages) {
    json += json.size() > 1 ? "," : "";
    json += "{\"role\":" + json_string(message.role) + ",\"content\":" + json_string(message.content) + "}";
  }
  return apply_json(json + "]", options);
}

}  // namespace rlx
