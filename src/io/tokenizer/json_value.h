// A value of a JSON text together with its place in it, so that what is wrong can be named: "model.unk_token:
// expected a string, but it is 7". Files are hostile input: nothing here trusts a type or a range.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "rlx/error.h"

namespace rlx::tokenizer {

class JsonValue {
 public:
  /// `value` must outlive it.
  JsonValue(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  /// A member of an object, which must be there.
  JsonValue at(std::string_view key) const;
  /// A member that may be missing or null.
  std::optional<JsonValue> find(std::string_view key) const;

  bool is_string() const { return value_->is_string(); }
  const std::string& string() const;
  bool boolean() const;
  int64_t integer(int64_t lowest, int64_t highest) const;

  /// Calls `visit` for each element of an array.
  void for_each(const std::function<void(const JsonValue&)>& visit) const;
  /// Fails with "<path>: <parts>".
  template <class... Parts>
  [[noreturn]] void refuse(ErrorCode code, const Parts&... parts) const {
    fail(code, path_.empty() ? "the file" : path_, ": ", parts...);
  }
  void expect(bool is_so, const char* wanted) const;
  void expect_object() const { expect(value_->is_object(), "an object"); }

 private:
  const nlohmann::json* value_;
  std::string path_;
};

/// Parses JSON text. What a JsonValue reads from the result must be used before the result dies.
nlohmann::json parse_json(std::string_view text);

/// As above, but the members of the object at `outer`.`inner` are given to `visit` one by one and not kept: a
/// vocabulary of 30,000 tokens as a tree of JSON values would be most of the time that loading takes. Of a member
/// that is an object or array itself, `visit` sees the beginning only, a discarded value, and should refuse it.
using VisitMember = std::function<void(const std::string& name, const nlohmann::json& value)>;
nlohmann::json parse_json(std::string_view text, std::string_view outer, std::string_view inner,
                          const VisitMember& visit);

}  // namespace rlx::tokenizer
