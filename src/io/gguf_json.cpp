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

using json = nlohmann::ordered_json;

constexpr std::string_view kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};
static_assert(std::size(kTypeNames) == std::variant_size_v<GgufValue>);
static_assert(std::size(kTypeNames) == std::variant_size_v<GgufArray::Items>);

template <class T>
json as_json(const T& value) {
  if constexpr (std::is_same_v<T, GgufArray>) {
    json all = json::array();
    std::visit(
        [&](const auto& items) {
          using Item = typename std::decay_t<decltype(items)>::value_type;
          for (size_t i = 0; i < items.size(); ++i) all.push_back(as_json<Item>(items[i]));
        },
        value.items);
    return all;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
  } else {
    return value;
  }
}
json as_json(const GgufValue& value) {
  return std::visit([](const auto& v) { return as_json<std::decay_t<decltype(v)>>(v); }, value);
}

std::string item_type(const GgufArray& array) {
  const std::string own(kTypeNames[array.items.index()]);
  const auto* inner = std::get_if<std::vector<GgufArray>>(&array.items);
  // Inner arrays may differ; then each has to be told of by itself, which JSON does not.
  if (!inner || inner->empty()) return own;
  const std::string first = item_type(inner->front());
  for (const GgufArray& each : *inner)
    if (item_type(each) != first) return own + " mixed";
  return own + " " + first;
}
std::string full_type(const GgufValue& value) {
  const auto* array = std::get_if<GgufArray>(&value);
  return array ? "array " + item_type(*array) : std::string(gguf_type_name(value));
}
std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

[[noreturn]] void refuse(const json& value, std::string_view type) {
  std::string text = dumped(value);
  fail(ErrorCode::invalid_argument, quoted_name(text), " is no ", type);
}

template <class T>
T from_json(const json& value, std::string_view type);

GgufArray array_from(const json& value, std::string_view type) {
  if (!value.is_array()) refuse(value, "array");
  const size_t space = type.find(' ');
  const std::string_view own = type.substr(0, space);
  const std::string_view inner = space == std::string_view::npos ? std::string_view() : type.substr(space + 1);
  GgufArray made;
  bool is_known = false;
  const auto fill = [&](auto& items) {
    using Item = typename std::decay_t<decltype(items)>::value_type;
    for (const json& each : value)
      items.push_back(from_json<Item>(each, std::is_same_v<Item, GgufArray> ? inner : own));
  };
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    ((own == kTypeNames[kIndex] ? (is_known = true, fill(made.items.emplace<kIndex>())) : void()), ...);
  }
  (std::make_index_sequence<std::size(kTypeNames)>());
  if (!is_known) fail(ErrorCode::invalid_argument, quoted_name(own), " is no type of a value in a GGUF file");
  return made;
}

template <class T>
T from_json(const json& value, std::string_view type) {
  if constexpr (std::is_same_v<T, GgufArray>) {
    return array_from(value, type);
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

GgufValue value_from(const json& pair) {
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string())
    fail(ErrorCode::invalid_argument, "a value is [type, value], and not ", quoted_name(dumped(pair)));
  const auto type = pair[0].get<std::string>();
  if (std::count(type.begin(), type.end(), ' ') > kDeepest)
    fail(ErrorCode::invalid_argument, "arrays are nested at most ", kDeepest, " levels deep, and not as in ",
         quoted_name(type));
  if (type.starts_with("array ")) return array_from(pair[1], std::string_view(type).substr(6));
  GgufValue made;
  bool is_known = false;
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    ((type == kTypeNames[kIndex]
          ? (is_known = true,
             void(made.emplace<kIndex>(from_json<std::variant_alternative_t<kIndex, GgufValue>>(pair[1], type))))
          : void()),
     ...);
  }
  (std::make_index_sequence<std::size(kTypeNames)>());
  if (!is_known) fail(ErrorCode::invalid_argument, quoted_name(type), " is no type of a value in a GGUF file");
  return made;
}

}  // namespace
}  // namespace gguf

std::string_view gguf_type_name(const GgufValue& value) { return gguf::kTypeNames[value.index()]; }
std::string gguf_json(const GgufValue& value) { return gguf::dumped(gguf::as_json(value)); }

std::string gguf_json(const GgufMetadata& metadata) {
  std::string text = "{";
  for (const auto& [key, value] : metadata)
    text += (text.size() > 1 ? ", " : "") + gguf::dumped(key) + ": [" + gguf::dumped(gguf::full_type(value)) + ", " +
            gguf_json(value) + "]";
  return text + "}";
}

GgufMetadata parse_gguf_json(std::string_view text) {
  return with_context(
      [&] { return "reading metadata from JSON"; },
      [&] {
        auto all = gguf::json::parse(text, nullptr, false);
        if (!all.is_object())
          fail(ErrorCode::invalid_argument, "metadata are a JSON object, {key: [type, value]}, and not ",
               quoted_name(text));
        GgufMetadata metadata;
        for (const auto& [key, pair] : all.items())
          with_context([&, &name = key] { return "reading the value of " + quoted_name(name); },
                       [&, &name = key, &given = pair] { metadata.emplace_back(name, gguf::value_from(given)); });
        return metadata;
      });
}

}  // namespace rlx
