// The members of config.json, each checked as it is read. Users: config_json.cpp and config_json_rope.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json_tree.h"
#include "models/language/limits.h"

namespace rlx::language::config_json {

inline constexpr const char* kFile = "config.json";

/// The members of an object, each checked as it is read. A member that is null counts as absent.
class Keys {
 public:
  /// `prefix` stands before each key in messages ("rope_scaling."). A key that `json` lacks is looked up in `fallback`;
  /// one that is null in `json` is not. Both have to outlive this.
  explicit Keys(const JsonTree& json, std::string prefix = {}, const Keys* fallback = nullptr)
      : json_(json), prefix_(std::move(prefix)), fallback_(fallback) {}

  const JsonTree* find(std::string_view key) const {
    const JsonTree* found = json_.find(key);
    if (!found && fallback_) return fallback_->find(key);
    return found && found->is_null() ? nullptr : found;
  }
  const JsonTree& json() const { return json_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// Whether `json` itself has the key, with null: some keys then mean "none" and not their default.
  bool is_null(std::string_view key) const { return json_.find(key) && json_.find(key)->is_null(); }
  std::string name(std::string_view key) const {
    if (fallback_ && !json_.find(key) && fallback_->has(key)) return fallback_->name(key);
    return text_of("'", prefix_, key, "' in ", kFile);
  }

  int64_t size(std::string_view key, int64_t least, int64_t most) const {
    const JsonTree* found = find(key);
    if (!found) fail(ErrorCode::parse, kFile, " has no '", prefix_, key, "'");
    return checked_size(key, *found, least, most);
  }
  int64_t size_or(std::string_view key, int64_t otherwise, int64_t least, int64_t most) const {
    const JsonTree* found = find(key);
    return found ? checked_size(key, *found, least, most) : otherwise;
  }
  double number(std::string_view key, double least, double most) const {
    const JsonTree* found = find(key);
    if (!found) fail(ErrorCode::parse, kFile, " has no '", prefix_, key, "'");
    return checked_number(name(key), *found, least, most);
  }
  double number_or(std::string_view key, double otherwise, double least, double most) const {
    return has(key) ? number(key, least, most) : otherwise;
  }
  bool flag_or(std::string_view key, bool otherwise) const {
    const JsonTree* found = find(key);
    if (!found) return otherwise;
    if (!found->is_boolean()) fail(ErrorCode::parse, name(key), " is ", found->shown(), ", not true or false");
    return found->boolean();
  }
  std::string text_or(std::string_view key, std::string otherwise) const {
    const JsonTree* found = find(key);
    if (!found) return otherwise;
    if (!found->is_string()) fail(ErrorCode::parse, name(key), " is ", found->shown(), ", not a text");
    return found->string();
  }
  std::vector<double> numbers(std::string_view key, double least, double most) const {
    const JsonTree* found = find(key);
    if (!found) fail(ErrorCode::parse, kFile, " has no '", prefix_, key, "'");
    if (!found->is_array()) fail(ErrorCode::parse, name(key), " is ", found->shown(), ", not a list of numbers");
    std::vector<double> all;
    for (const JsonTree& item : found->elements())
      all.push_back(checked_number("an item of " + name(key), item, least, most));
    return all;
  }
  const JsonTree& object(std::string_view key) const {
    const JsonTree* found = find(key);
    if (!found) fail(ErrorCode::parse, kFile, " has no '", prefix_, key, "'");
    if (!found->is_object()) fail(ErrorCode::parse, name(key), " is ", found->shown(), ", not an object");
    return *found;
  }

 private:
  int64_t checked_size(std::string_view key, const JsonTree& value, int64_t least, int64_t most) const {
    if (!value.is_integer()) fail(ErrorCode::parse, name(key), " is ", value.shown(), ", not a whole number");
    if (value.is_natural() && value.natural() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      fail(ErrorCode::parse, name(key), " is ", value.shown(), "; it must be ", least, " to ", most);
    const int64_t v = value.integer();
    if (v < least || v > most) fail(ErrorCode::parse, name(key), " is ", v, "; it must be ", least, " to ", most);
    return v;
  }
  static double checked_number(const std::string& what, const JsonTree& value, double least, double most) {
    if (!value.is_number()) fail(ErrorCode::parse, what, " is ", value.shown(), ", not a number");
    const double v = value.number();
    if (!(v >= least && v <= most)) fail(ErrorCode::parse, what, " is ", v, "; it must be ", least, " to ", most);
    return v;
  }
  const JsonTree& json_;
  std::string prefix_;
  const Keys* fallback_;
};

/// Bounds of numbers that have to be positive.
inline constexpr double kTiny = 1e-30, kHuge = 1e30;

}  // namespace rlx::language::config_json
