// Reading JSON values with their places; see the header.
#include "io/tokenizer/json_value.h"

namespace rlx::tokenizer {
namespace {

constexpr size_t kShownBytes = 60;

std::string shown(const nlohmann::json& value) {
  if (value.is_discarded()) return "an object or an array";
  if (value.is_object()) return text_of("an object of ", value.size(), " members");
  if (value.is_array()) return text_of("an array of ", value.size(), " elements");
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() <= kShownBytes) return text;
  return text.substr(0, kShownBytes) + "...";
}

std::string quoted(std::string_view key) { return "'" + std::string(key.substr(0, kShownBytes)) + "'"; }

nlohmann::json parse(std::string_view text, const nlohmann::json::parser_callback_t& callback) {
  try {
    return nlohmann::json::parse(text.begin(), text.end(), callback);
  } catch (const nlohmann::json::exception& error) {
    // Its text begins with a number in brackets of its own.
    std::string_view what = error.what();
    if (size_t bracket = what.find("] "); what.starts_with('[') && bracket != what.npos)
      what.remove_prefix(bracket + 2);
    fail(ErrorCode::parse, "this is no JSON: ", what.substr(0, 300));
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text) { return parse(text, nullptr); }

nlohmann::json parse_json(std::string_view text, std::string_view outer, std::string_view inner,
                          const VisitMember& visit) {
  using Event = nlohmann::json::parse_event_t;
  // Names of the root's members come at depth 1, those of the members' members at depth 2, and so on.
  bool in_outer = false, in_inner = false, has_name = false;
  std::string name;
  return parse(text, [&](int depth, Event event, nlohmann::json& value) {
    if (event == Event::key) {
      auto& key = value.get_ref<std::string&>();
      if (depth == 1) in_outer = key == outer;
      if (depth <= 2) in_inner = depth == 2 && in_outer && key == inner;
      has_name = depth == 3 && in_inner;
      if (!has_name) return true;
      name.swap(key);
      return false;
    }
    if (!has_name) return true;
    has_name = false;
    visit(name, value);
    return false;
  });
}

void JsonValue::expect(bool is_so, const char* wanted) const {
  if (!is_so) refuse(ErrorCode::parse, "expected ", wanted, ", but it is ", shown(*value_));
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  expect_object();
  auto found = value_->find(std::string(key));
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonValue(*found, path_.empty() ? std::string(key) : path_ + "." + std::string(key));
}

JsonValue JsonValue::at(std::string_view key) const {
  auto found = find(key);
  if (!found) refuse(ErrorCode::parse, quoted(key), " is missing");
  return *found;
}

const std::string& JsonValue::string() const {
  expect(value_->is_string(), "a string");
  return value_->get_ref<const std::string&>();
}

bool JsonValue::boolean() const {
  expect(value_->is_boolean(), "true or false");
  return value_->get<bool>();
}

int64_t JsonValue::integer(int64_t lowest, int64_t highest) const {
  expect(value_->is_number_integer(), "an integer");
  bool too_large = value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(highest);
  if (too_large || value_->get<int64_t>() < lowest || value_->get<int64_t>() > highest)
    refuse(ErrorCode::parse, "expected an integer from ", lowest, " to ", highest, ", but it is ", shown(*value_));
  return value_->get<int64_t>();
}

void JsonValue::for_each(const std::function<void(const JsonValue&)>& visit) const {
  expect(value_->is_array(), "an array");
  size_t index = 0;
  for (const nlohmann::json& element : *value_) visit(JsonValue(element, text_of(path_, "[", index++, "]")));
}

}  // namespace rlx::tokenizer
