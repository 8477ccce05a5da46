// The C ABI of chat templates; see rlx/c.h.
#include <nlohmann/json.hpp>

#include "c_api/handles.h"

namespace {

using namespace rlx::c;
using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::tm time_of(int64_t seconds) {
  const std::time_t time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  if (static_cast<int64_t>(time) != seconds || !gmtime_r(&time, &parts))
    rlx::fail(rlx::ErrorCode::invalid_argument, "now is ", seconds, " seconds, which is no date");
  return parts;
}

template <class T>
T value_of(const std::string& key, const Json& value, bool is_so, const char* wanted) {
  if (!is_so)
    rlx::fail(rlx::ErrorCode::invalid_argument, key, " is ", text_of(value).substr(0, 60), "; it is ", wanted);
  return value.get<T>();
}

rlx::ChatTemplateOptions chat_options_from(const char* settings) {
  rlx::ChatTemplateOptions options;
  if (!settings) return options;
  // Values that nest deeper are refused here, where the tree is made, as its destructor recurses.
  const auto shallow = [](int level, Json::parse_event_t, Json&) {
    if (level > 110) rlx::fail(rlx::ErrorCode::parse, "the settings nest more than 110 deep");
    return true;
  };
  Json json;
  try {
    json = Json::parse(settings, shallow);
  } catch (const Json::exception& e) {
    rlx::fail(rlx::ErrorCode::parse, "the settings are no JSON: ", e.what());
  }
  if (!json.is_object())
    rlx::fail(rlx::ErrorCode::parse, "the settings are ", text_of(json).substr(0, 60), "; wanted is an object");
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) continue;
    if (key == "add_generation_prompt")
      options.add_generation_prompt = value_of<bool>(key, value, value.is_boolean(), "true or false");
    else if (key == "bos_token") options.bos_token = value_of<std::string>(key, value, value.is_string(), "a text");
    else if (key == "eos_token") options.eos_token = value_of<std::string>(key, value, value.is_string(), "a text");
    else if (key == "tools") options.tools = text_of(value);
    else if (key == "documents") options.documents = text_of(value);
    else if (key == "variables") options.variables = text_of(value);
    else if (key == "now")
      options.now = time_of(value_of<int64_t>(key, value, value.is_number_integer(), "an integer"));
    else if (key == "most_steps")
      options.most_steps = value_of<uint64_t>(key, value, value.is_number_unsigned(), "an integer from 0 on");
    else if (key == "most_bytes")
      options.most_bytes = value_of<uint64_t>(key, value, value.is_number_unsigned(), "an integer from 0 on");
    else
      rlx::fail(rlx::ErrorCode::invalid_argument, "'", key,
                "' is no setting; there are add_generation_prompt, bos_token, "
                "eos_token, tools, documents, variables, now, most_steps and most_bytes");
  }
  return options;
}

}  // namespace

extern "C" {

rlx_status rlx_chat_template_parse(const char* text, size_t size, rlx_chat_template** chat_template,
                                   rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(chat_template, "chat_template");
    (void)required_text(text, "text");
    result = new rlx_chat_template{rlx::ChatTemplate::parse(std::string_view(text, size))};
  });
}
rlx_status rlx_chat_template_load(const char* path, rlx_chat_template** chat_template, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(chat_template, "chat_template");
    result = new rlx_chat_template{rlx::ChatTemplate::load(required_text(path, "path"))};
  });
}
rlx_status rlx_chat_template_describe(const rlx_chat_template* chat_template, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    const rlx::ChatTemplate& t = required(chat_template, "chat_template").chat_template;
    result = own_text(text_of({{"text", t.text()}, {"bos_token", t.bos_token()}, {"eos_token", t.eos_token()}}));
  });
}
rlx_status rlx_chat_template_apply(const rlx_chat_template* chat_template, const char* messages, const char* settings,
                                   char** text, size_t* size, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(text, "text");
    const rlx::ChatTemplate& t = required(chat_template, "chat_template").chat_template;
    result = own_text(t.apply_json(required_text(messages, "messages"), chat_options_from(settings)), size);
  });
}
void rlx_chat_template_free(rlx_chat_template* chat_template) { delete chat_template; }
}
