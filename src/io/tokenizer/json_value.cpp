// Reading JSON values with their places; see the header.
#include "io/tokenizer/json_value.h"

namespace rlx::tokenizer {
namespace {

constexpr size_t kShownBytes = 60;

std::string quoted(std::string_view key) { return "'" + std::string(key.substr(0, kShownBytes)) + "'"; }

}  // namespace

void JsonValue::expect(bool is_so, const char* wanted) const {
  if (!is_so) refuse(ErrorCode::parse, "expected ", wanted, ", but it is ", value_->shown());
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  expect_object();
  const JsonTree* found = value_->find(key);
  if (!found || found->is_null()) return std::nullopt;
  // A path is written for each element of an array: a long name in it would make that quadratic.
  const std::string shown(key.substr(0, kShownBytes));
  return JsonValue(*found, path_.empty() ? shown : path_ + "." + shown);
}

JsonValue JsonValue::at(std::string_view key) const {
  auto found = find(key);
  if (!found) refuse(ErrorCode::parse, quoted(key), " is missing");
  return *found;
}

const std::string& JsonValue::string() const {
  expect(value_->is_string(), "a string");
  return value_->string();
}

bool JsonValue::boolean() const {
  expect(value_->is_boolean(), "true or false");
  return value_->boolean();
}

bool JsonValue::flag(std::string_view key, bool otherwise) const {
  auto value = find(key);
  return value ? value->boolean() : otherwise;
}

double JsonValue::number() const {
  expect(value_->is_number(), "a number");
  return value_->number();
}

int64_t JsonValue::integer(int64_t lowest, int64_t highest) const {
  expect(value_->is_integer(), "an integer");
  const bool too_large = value_->is_natural() && value_->natural() > static_cast<uint64_t>(highest);
  if (too_large || value_->integer() < lowest || value_->integer() > highest)
    refuse(ErrorCode::parse, "expected an integer from ", lowest, " to ", highest, ", but it is ", value_->shown());
  return value_->integer();
}

void JsonValue::for_each(const std::function<void(const JsonValue&)>& visit) const {
  expect(value_->is_array(), "an array");
  size_t index = 0;
  for (const JsonTree& element : value_->elements()) visit(JsonValue(element, text_of(path_, "[", index++, "]")));
}

}  // namespace rlx::tokenizer
