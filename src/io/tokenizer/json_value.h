// A value of a JSON text together with its place in it, so that what is wrong can be named: "model.unk_token:
// expected a string, but it is 7". Files are hostile input: nothing here trusts a type or a range.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "io/json_tree.h"
#include "rlx/error.h"

namespace rlx::tokenizer {

class JsonValue {
 public:
  /// `value` must outlive it.
  JsonValue(const JsonTree& value, std::string path) : value_(&value), path_(std::move(path)) {}

  /// A member of an object, which must be there.
  JsonValue at(std::string_view key) const;
  /// A member that may be missing or null.
  std::optional<JsonValue> find(std::string_view key) const;

  bool is_string() const { return value_->is_string(); }
  const std::string& string() const;
  bool boolean() const;
  /// A member that is true or false; `otherwise` if it is missing or null.
  bool flag(std::string_view key, bool otherwise) const;
  bool is_array() const { return value_->is_array(); }
  double number() const;
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
  const JsonTree* value_;
  std::string path_;
};

}  // namespace rlx::tokenizer
