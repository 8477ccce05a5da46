// See the header.
#include "c_api/custom_attributes.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <sstream>

#include "base/printable_text.h"

namespace rlx {
namespace {

std::string text_of_value(const CustomValue& value) {
  std::ostringstream out;
  std::visit([&](const auto& v) { print(out, v); }, value);
  return out.str();
}

/// The kind's empty value, "list of int" and the like; the words may be separated by white space.
CustomValue value_of_kind(Scanner& in) {
  const bool is_list = in.accept_word("list");
  if (is_list && !in.accept_word("of")) in.unexpected("'of'");
  const std::string kind = (is_list ? "list of " : "") + std::string(in.word());
  const std::array<CustomValue, 6> empty = {
      false, int64_t{0}, 0.0, std::string(), std::vector<int64_t>(), std::vector<double>()};
  for (size_t k = 0; k < kCustomKinds.size(); ++k)
    if (kind == kCustomKinds[k]) return empty[k];
  std::string list;
  for (std::string_view each : kCustomKinds) list += (list.empty() ? "" : ", ") + std::string(each);
  in.unexpected(text_of("one of the kinds ", list, " instead of '", kind, "'"));
}

void parse_value(Scanner& in, CustomValue& value) {
  std::visit([&](auto& v) { parse(in, v); }, value);
}

std::string json_number(double x) {
  std::ostringstream out;
  print(out, x);
  if (!std::isfinite(x)) return "\"" + out.str() + "\"";
  // Readers of JSON make an integer of a number without a point, and of -0 the same as of 0.
  return out.str().find_first_of(".e") == std::string::npos ? out.str() + ".0" : out.str();
}
std::string json_value(const CustomValue& value) {
  if (const auto* x = std::get_if<double>(&value)) return json_number(*x);
  if (const auto* text = std::get_if<std::string>(&value)) return json_quoted(*text);
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    std::string all;
    for (double x : *list) all += (all.empty() ? "" : ", ") + json_number(x);
    return "[" + all + "]";
  }
  return text_of_value(value);
}

}  // namespace

void print(std::ostream& out, const CustomAttrs& attrs) {
  const char* separator = "{";
  for (const CustomAttribute& a : attrs.given)
    out << std::exchange(separator, ", ") << a.name << " = " << text_of_value(a.value);
  out << (*separator == '{' ? "{}" : "}");
}

size_t hash_of(const CustomAttrs& attrs) {
  size_t h = attrs.given.size();
  for (const CustomAttribute& a : attrs.given)
    h = mix(mix(h, hash_of(a.name)), std::visit([](const auto& v) { return hash_of(v); }, a.value));
  return h;
}

CustomDeclaration::CustomDeclaration(const std::string& text) {
  Scanner in(text);
  while (!in.at_end()) {
    if (!defaults_.empty()) in.expect(",");
    CustomAttribute a{std::string(in.word()), {}};
    if (std::isdigit(static_cast<unsigned char>(a.name[0]))) in.unexpected("a name that does not begin with a digit");
    for (const CustomAttribute& other : defaults_)
      if (other.name == a.name) in.unexpected(text_of("'", a.name, "' only once"));
    in.expect(":");
    a.value = value_of_kind(in);
    in.expect("=");
    parse_value(in, a.value);
    defaults_.push_back(std::move(a));
  }
}

CustomAttrs CustomDeclaration::read(Scanner& in) const {
  std::vector<CustomAttribute> all = defaults_;
  std::vector<bool> seen(all.size());
  in.expect("{");
  for (bool is_first = true; !in.accept("}"); is_first = false) {
    if (!is_first) in.expect(",");
    const std::string name(in.word());
    const auto at = std::find_if(all.begin(), all.end(), [&](const CustomAttribute& a) { return a.name == name; });
    if (at == all.end()) {
      std::string list;
      for (const CustomAttribute& a : all) list += (list.empty() ? "" : ", ") + a.name;
      in.unexpected(text_of("a known attribute (", list, ") instead of '", name, "'"));
    }
    const auto i = static_cast<size_t>(at - all.begin());
    if (seen[i]) in.unexpected(text_of("'", name, "' only once"));
    seen[i] = true;
    in.expect("=");
    parse_value(in, at->value);
  }
  CustomAttrs attrs;
  for (size_t i = 0; i < all.size(); ++i)  // compared as text, which tells -0.0 from 0.0 and not one NaN from another
    if (text_of_value(all[i].value) != text_of_value(defaults_[i].value)) attrs.given.push_back(std::move(all[i]));
  return attrs;
}

bool CustomDeclaration::has(const CustomAttrs& attrs) const {
  return std::all_of(attrs.given.begin(), attrs.given.end(), [&](const CustomAttribute& a) {
    return std::any_of(defaults_.begin(), defaults_.end(), [&](const CustomAttribute& own) {
      return own.name == a.name && own.value.index() == a.value.index();
    });
  });
}

std::vector<AttrInfo> CustomDeclaration::describe() const {
  std::vector<AttrInfo> all;
  for (const CustomAttribute& a : defaults_)
    all.push_back({a.name, std::string(kCustomKinds[a.value.index()]), text_of_value(a.value)});
  return all;
}

std::string CustomDeclaration::json(const CustomAttrs& attrs) const {
  std::string all;
  for (const CustomAttribute& own : defaults_) {
    const auto at = std::find_if(attrs.given.begin(), attrs.given.end(),
                                 [&](const CustomAttribute& a) { return a.name == own.name; });
    all += (all.empty() ? "" : ", ") + json_quoted(own.name) + ": " +
           json_value(at == attrs.given.end() ? own.value : at->value);
  }
  return "{" + all + "}";
}

}  // namespace rlx
