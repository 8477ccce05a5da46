// How a folder of the package `sentence_transformers` makes vectors of its tokens; see rlx/models.h. Neighbour:
// encoder_graphs.cpp, which computes it.
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "io/json_tree.h"
#include "models/language/limits.h"
#include "models/language/weight_files.h"
#include "rlx/models.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMostBytes = size_t{1} << 20;
constexpr size_t kMostModes = 16, kMostPromptBytes = size_t{1} << 16;

using Mode = SentencePooling::Mode;

/// Modes by their names, and by the flags that older versions write for each.
struct ModeFlag {
  const char* key;
  Mode mode;
};
constexpr ModeFlag kFlags[] = {
    {"pooling_mode_cls_token", Mode::cls},
    {"pooling_mode_max_tokens", Mode::max},
    {"pooling_mode_mean_tokens", Mode::mean},
    {"pooling_mode_mean_sqrt_len_tokens", Mode::mean_sqrt_len_tokens},
    {"pooling_mode_weightedmean_tokens", Mode::weightedmean},
    {"pooling_mode_lasttoken", Mode::lasttoken},
};

Mode mode_named(const JsonTree& name) {
  std::string known;
  if (name.is_string())
    for (size_t i = 0; i < names_of(Mode()).size(); ++i)
      if (names_of(Mode())[i] == name.string()) return static_cast<Mode>(i);
  for (const auto& each : names_of(Mode())) known += text_of(known.empty() ? "" : ", ", each);
  fail(ErrorCode::unsupported, "'pooling_mode' is ", name.shown(), "; there are ", known);
}

bool flag(const JsonTree& json, const char* key, bool otherwise) {
  const JsonTree* found = json.find(key);
  if (!found || found->is_null()) return otherwise;
  if (!found->is_boolean()) fail(ErrorCode::parse, "'", key, "' is ", found->shown(), ", not true or false");
  return found->boolean();
}

std::vector<Mode> modes_of(const JsonTree& json) {
  std::vector<Mode> modes;
  if (const JsonTree* name = json.find("pooling_mode"); name && !name->is_null()) {
    if (!name->is_array()) return {mode_named(*name)};
    for (const JsonTree& each : name->elements()) modes.push_back(mode_named(each));
  } else {
    for (const ModeFlag& row : kFlags)
      if (flag(json, row.key, false)) modes.push_back(row.mode);
    if (modes.empty()) modes.push_back(Mode::mean);
  }
  if (modes.empty() || modes.size() > kMostModes)
    fail(ErrorCode::parse, "'pooling_mode' has ", modes.size(), " modes; it must be 1 to ", kMostModes);
  return modes;
}

JsonTree read(const fs::path& path) {
  return with_context([&] { return text_of("reading '", path.string(), "'"); },
                      [&] {
                        JsonTree json = parse_json(language::text_of_file(path.string(), kMostBytes));
                        return json;
                      });
}

/// The text that stands before each sentence.
std::string prompt_of(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  const JsonTree json = read(path);
  return with_context([&] { return text_of("reading '", path.string(), "'"); },
                      [&]() -> std::string {
                        const JsonTree* name = json.find("default_prompt_name");
                        if (!name || name->is_null()) return {};
                        if (!name->is_string())
                          fail(ErrorCode::parse, "'default_prompt_name' is ", name->shown(), ", not a text");
                        const JsonTree* prompts = json.find("prompts");
                        const JsonTree* prompt = prompts ? prompts->find(name->string()) : nullptr;
                        if (!prompt || !prompt->is_string())
                          fail(ErrorCode::parse, "'default_prompt_name' is ", name->shown(), ", but 'prompts' has ",
                               prompt ? prompt->shown() : "none of this name");
                        if (prompt->string().size() > kMostPromptBytes)
                          fail(ErrorCode::parse, "the prompt ", name->shown(), " has ", prompt->string().size(),
                               " bytes; it may be ", kMostPromptBytes, " at most");
                        return prompt->string();
                      });
}

}  // namespace

SentencePooling SentencePooling::load(const std::string& folder) {
  const fs::path at(folder), modules = at / "modules.json";
  SentencePooling pooling;
  std::error_code error;
  if (!fs::exists(modules, error)) return pooling;
  const JsonTree json = read(modules);
  pooling.normalize = false;
  bool is_pooled = false;
  const JsonTree* settings_of_pooling = nullptr;
  JsonTree settings;
  with_context([&] { return text_of("reading '", modules.string(), "'"); },
               [&] {
                 if (!json.is_array() || json.elements().empty() || json.elements().size() > 16)
                   fail(ErrorCode::parse, "it is ", json.shown(), ", not a list of modules");
                 for (size_t i = 0; i < json.elements().size(); ++i) {
                   const JsonTree& module = json.elements()[i];
                   const JsonTree *type = module.find("type"), *path = module.find("path");
                   if (!type || !type->is_string())
                     fail(ErrorCode::parse, "module ", i, " has ", type ? type->shown() : "no", " 'type'");
                   const std::string& whole = type->string();
                   const std::string name = whole.substr(whole.rfind('.') + 1);
                   const std::string place = path && path->is_string() ? path->string() : "";
                   if (name == "Transformer" && i == 0) {
                     if (!place.empty())
                       fail(ErrorCode::unsupported, "module 0, the encoder, stands in the folder ", path->shown(),
                            "; it is read from the model's own");
                   } else if (name == "Pooling" && i == 1) {
                     const fs::path plain(place);
                     if (place.empty() || plain.filename() != plain || place == "." || place == ".." ||
                         place.find('\\') != place.npos || place.find('\0') != place.npos)
                       fail(ErrorCode::parse, "the folder of module 1 is ", path ? path->shown() : "missing",
                            "; it must be the name of a folder within the model's");
                     settings = read(at / place / "config.json");
                     settings_of_pooling = &settings;
                     is_pooled = true;
                   } else if (name == "Normalize" && i == 2) {
                     pooling.normalize = true;
                   } else {
                     fail(ErrorCode::unsupported, "module ", i, " is '", language::shown_name(whole),
                          "'; there are a Transformer, a Pooling behind it, and a Normalize behind that");
                   }
                 }
                 if (!is_pooled) fail(ErrorCode::unsupported, "no module makes one vector of the tokens (Pooling)");
                 if (!settings.is_object()) fail(ErrorCode::parse, "the pooling's config.json is ", settings.shown());
               });
  pooling.modes = modes_of(*settings_of_pooling);
  pooling.prompt = prompt_of(at / "config_sentence_transformers.json");
  if (!pooling.prompt.empty() && !flag(settings, "include_prompt", true))
    fail(ErrorCode::unsupported,
         "'include_prompt' of the pooling is false: tokens of the model's prompt would not be pooled; here they are");
  return pooling;
}

}  // namespace rlx
