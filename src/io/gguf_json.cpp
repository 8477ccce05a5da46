// Metadata of GGUF files as JSON, for programs and bindings: {key: [type, value], ...}.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/gguf_format.h"
#include "io/names_in_messages.h"

namespace rlx {
namespace gguf {
namespace {

using json = nlohmann::json;

constexpr std::string_view kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};
static_assert(std::size(kTypeNames) == std::variant_size_v<GgufValue>);
static_assert(std::size(kTypeNames) == std::variant_size_v<GgufArray::Items>);

std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

/// Appends the value as JSON: without a tree of it, which would be many times as large as an array of bytes.
template <class T>
void print(std::string& out, const T& value, int depth = 0) {
  if constexpr (std::is_same_v<T, GgufArray>) {
    if (depth == kDeepest) fail_too_deep();
    out += '[';
    std::visit(
        [&](const auto& items) {
          using Item = typename std::decay_t<decltype(items)>::value_type;
          for (size_t i = 0; i < items.size(); ++i) {
            if (i > 0) out += ',';
            print<Item>(out, items[i], depth + 1);
          }
        },
        value.items);
    out += ']';
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) out += "\"nan\"";
    else if (std::isinf(value)) out += value > 0 ? "\"inf\"" : "\"-inf\"";
    else out += dumped(value);
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    out += std::to_string(value);
  } else {
    out += dumped(value);
  }
}

std::string item_type(const GgufArray& array) {
  const std::string own(kTypeNames[array.items.index()]);
  const auto* inner = std::get_if<std::vector<GgufArray>>(&array.items);
  // Inner arrays may differ; then each has to be told of by itself, which JSON does not.
  if (!inner || inner->empty()) return own;
  const std::string first = item_type(inner->front());
  for (size_t i = 1; i < inner->size(); ++i)
    if (item_type((*inner)[i]) != first) return own + " mixed";
  return own + " " + first;
}
std::string full_type(const GgufValue& value) {
  const auto* array = std::get_if<GgufArray>(&value);
  return array ? "array " + item_type(*array) : std::string(gguf_type_name(value));
}

[[noreturn]] void refuse(const json& value, std::string_view type) {
  fail(ErrorCode::invalid_argument, quoted_name(dumped(value)), " is no ", type);
}

/// Of what is no array.
template <class T>
T from_json(const json& value, std::string_view type) {
  if constexpr (std::is_same_v<T, GgufArray>) {
    refuse(value, type);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!value.is_string()) refuse(value, type);
    return value.get<std::string>();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) refuse(value, type);
    return value.get<bool>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (value == "nan") return std::numeric_limits<T>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<T>::infinity();
    if (value == "-inf") return -std::numeric_limits<T>::infinity();
    if (!value.is_number() || std::abs(value.get<double>()) > static_cast<double>(std::numeric_limits<T>::max()))
      refuse(value, type);
    return static_cast<T>(value.get<double>());
  } else {
    if (value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max()))
      return static_cast<T>(value.get<uint64_t>());
    if (value.is_number_integer() && !value.is_number_unsigned() && std::is_signed_v<T> &&
        value.get<int64_t>() >= static_cast<int64_t>(std::numeric_limits<T>::min()) && value.get<int64_t>() < 0)
      return static_cast<T>(value.get<int64_t>());
    refuse(value, type);
  }
}

/// Makes `variant` hold its alternative of that number.
template <class Variant, size_t kIndex = 0>
void hold(Variant& variant, size_t index) {
  if constexpr (kIndex < std::variant_size_v<Variant>) {
    if (index == kIndex) variant.template emplace<kIndex>();
    else hold<Variant, kIndex + 1>(variant, index);
  }
}

/// Makes values of what nlohmann's parser tells of a text, event by event. No tree of JSON stands between: it would
/// nest as deep as a hostile text does, look each key up among all others, and take memory in its destructor. Arrays
/// nest no deeper than their type says, which stands before them and has at most `kDeepest` levels.
class MetadataReader {
 public:
  /// What is being done, for messages.
  std::string doing() const {
    return "reading metadata from JSON" + (key_ ? ", the value of " + quoted_name(*key_) : std::string());
  }
  GgufMetadata take() {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : metadata_) keys.push_back(key);
    if (const auto twice = there_twice(std::move(keys)))
      fail(ErrorCode::invalid_argument, "there are two keys of metadata called ", quoted_name(*twice));
    return std::move(metadata_);
  }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(json::binary_t&) { return add(nullptr); }  // JSON has none
  bool start_object(size_t) {
    if (place_ != Place::outside) refuse_place("an object");
    place_ = Place::pair;
    return true;
  }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool end_object() {
    key_.reset();
    return true;
  }
  bool start_array(size_t) {
    if (place_ == Place::pair) {
      place_ = Place::type;
      return true;
    }
    if (place_ != Place::value) refuse_place("an array");
    const size_t level = open_.size();
    if (types_[level] != kArray) fail(ErrorCode::invalid_argument, "an array is no ", kTypeNames[types_[level]]);
    if (level + 1 == types_.size())
      fail(ErrorCode::invalid_argument, "there is an array ", level + 1, " levels deep, of which the type ",
           quoted_name(type_), " does not say what it holds");
    GgufArray& made = open_.empty() ? value_.emplace<GgufArray>()
                                    : std::get<std::vector<GgufArray>>(open_.back()->items).emplace_back();
    hold(made.items, types_[level + 1]);
    open_.push_back(&made);
    return true;
  }
  bool end_array() {
    if (!open_.empty()) {
      open_.pop_back();
      if (open_.empty()) place_ = Place::end;
      return true;
    }
    if (place_ != Place::end) refuse_place("the end");
    metadata_.emplace_back(*key_, std::move(value_));
    place_ = Place::pair;
    return true;
  }
  bool parse_error(size_t byte, const std::string& near, const json::exception&) {
    fail(ErrorCode::invalid_argument, "the JSON cannot be read at byte ", byte, ", near ", quoted_name(near));
  }

 private:
  /// Where in the text: outside of the object; in the object; in the pair of a key, before type, value or end.
  enum class Place : uint8_t { outside, pair, type, value, end };
  static constexpr size_t kArray = 9;
  static_assert(std::is_same_v<std::variant_alternative_t<kArray, GgufValue>, GgufArray>);

  [[noreturn]] void refuse_place(std::string_view found) const {
    if (place_ == Place::outside)
      fail(ErrorCode::invalid_argument, "metadata are a JSON object, {key: [type, value]}, and not ", found);
    fail(ErrorCode::invalid_argument, "a value is [type, value], ",
         place_ == Place::pair    ? "and not "
         : place_ == Place::type  ? "where the type is a string, and not "
         : place_ == Place::value ? "where the value is a number, string, bool or array, and not "
                                  : "where the end follows, and not ",
         found);
  }
  bool add(const json& scalar) {
    if (place_ == Place::value && !open_.empty()) {
      std::visit(
          [&](auto& items) {
            using Item = typename std::decay_t<decltype(items)>::value_type;
            items.push_back(from_json<Item>(scalar, kTypeNames[open_.back()->items.index()]));
          },
          open_.back()->items);
    } else if (place_ == Place::value) {
      hold(value_, types_[0]);
      std::visit([&](auto& v) { v = from_json<std::decay_t<decltype(v)>>(scalar, kTypeNames[types_[0]]); }, value_);
      place_ = Place::end;
    } else if (place_ == Place::type && scalar.is_string()) {
      read_type(scalar.get<std::string>());
      place_ = Place::value;
    } else {
      refuse_place(quoted_name(dumped(scalar)));
    }
    return true;
  }
  /// "array array u32": of each level, and of the items.
  void read_type(std::string type) {
    type_ = std::move(type);
    if (const auto levels = std::count(type_.begin(), type_.end(), ' '); levels > kDeepest)
      fail(ErrorCode::invalid_argument, "arrays are nested at most ", kDeepest, " levels deep, and ",
           quoted_name(type_), " has ", levels);
    types_.clear();
    std::string_view rest = type_;
    for (bool is_last = false; !is_last;) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      const auto* known = std::find(std::begin(kTypeNames), std::end(kTypeNames), word);
      if (known == std::end(kTypeNames) || (!types_.empty() && types_.back() != kArray))
        fail(ErrorCode::invalid_argument, quoted_name(type_), " is no type of a value in a GGUF file");
      types_.push_back(static_cast<size_t>(known - std::begin(kTypeNames)));
      is_last = word.size() == rest.size();
      if (!is_last) rest.remove_prefix(word.size() + 1);
    }
  }

  GgufMetadata metadata_;
  Place place_ = Place::outside;
  std::optional<std::string> key_;
  std::string type_;
  std::vector<size_t> types_;  // its words, as numbers of types
  GgufValue value_;
  std::vector<GgufArray*> open_;  // nothing is added to one of them but to the last, so they stay where they are
};

}  // namespace
}  // namespace gguf

std::string_view gguf_type_name(const GgufValue& value) { return gguf::kTypeNames[value.index()]; }
std::string gguf::shown_value(const GgufValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return "string " + quoted_name(*text);
  if (const auto* array = std::get_if<GgufArray>(&value)) return text_of("array of ", array->size(), " items");
  return text_of(gguf_type_name(value), " ", gguf_json(value));
}

std::string gguf_json(const GgufValue& value) {
  std::string text;
  std::visit([&](const auto& v) { gguf::print(text, v); }, value);
  return text;
}

std::string gguf_json(const GgufMetadata& metadata) {
  std::string text = "{";
  for (const auto& [key, value] : metadata) {
    const std::string shown = gguf_json(value);  // first: it refuses arrays too deep to ask for their type
    text += (text.size() > 1 ? ", " : "") + gguf::dumped(key) + ": [" + gguf::dumped(gguf::full_type(value)) + ", " +
            shown + "]";
  }
  return text + "}";
}

GgufMetadata parse_gguf_json(std::string_view text) {
  gguf::MetadataReader reader;
  return with_context([&] { return reader.doing(); },
                      [&] {
                        gguf::json::sax_parse(text.begin(), text.end(), &reader);
                        return reader.take();
                      });
}

}  // namespace rlx
