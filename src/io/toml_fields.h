// Structs that name their members (rlx/fields.h) from TOML and back: a key for each member. What is no key, or no value
// that the member takes, is an error with its line. Neighbour: io/toml_tree.h.
#pragma once

#include "io/names_in_messages.h"
#include "io/toml_tree.h"
#include "rlx/type.h"

namespace rlx {

[[noreturn]] inline void refuse_toml(const TomlTree& value, std::string_view wanted) {
  fail(ErrorCode::parse, "line ", value.line, ": '", value.key, "' wants ", wanted, ", got ", value.kind_text());
}
inline void from_toml(const TomlTree& value, bool& to) {
  if (value.kind != TomlTree::Kind::truth) refuse_toml(value, "true or false");
  to = value.truth;
}
inline void from_toml(const TomlTree& value, int64_t& to) {
  if (value.kind != TomlTree::Kind::integer) refuse_toml(value, "a whole number");
  to = value.integer;
}
inline void from_toml(const TomlTree& value, double& to) {
  if (value.kind != TomlTree::Kind::real && value.kind != TomlTree::Kind::integer) refuse_toml(value, "a number");
  to = value.kind == TomlTree::Kind::real ? value.real : static_cast<double>(value.integer);
}
inline void from_toml(const TomlTree& value, std::string& to) {
  if (value.kind != TomlTree::Kind::string) refuse_toml(value, "a string");
  to = value.text;
}
inline void from_toml(const TomlTree& value, DType& to) {
  if (value.kind != TomlTree::Kind::string) refuse_toml(value, "the name of a dtype, \"f32\"");
  with_context([&] { return text_of("reading '", value.key, "' in line ", value.line); },
               [&] { to = dtype_named(value.text); });
}
/// Numbers for symbols: {B = 1, S = 128}.
inline void from_toml(const TomlTree& value, Bindings& to) {
  if (value.kind != TomlTree::Kind::table) refuse_toml(value, "numbers for symbols, {B = 1, S = 128}");
  to.clear();
  for (const TomlTree& each : value.items) {
    if (each.kind != TomlTree::Kind::integer) refuse_toml(each, "a whole number");
    if (each.integer < 1)
      fail(ErrorCode::parse, "line ", each.line, ": '", each.key, "' is ", each.integer, "; a symbol is at least 1");
    to[each.key] = each.integer;
  }
}
template <NamedEnum E>
void from_toml(const TomlTree& value, E& to) {
  const auto names = names_of(E{});
  std::string list;
  for (std::string_view name : names) list += (list.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  if (value.kind != TomlTree::Kind::string) refuse_toml(value, "one of " + list);
  const auto found = std::find(names.begin(), names.end(), value.text);
  if (found == names.end())
    fail(ErrorCode::parse, "line ", value.line, ": '", value.key, "' wants one of ", list, ", got ",
         quoted_name(value.text));
  to = static_cast<E>(found - names.begin());
}
/// An item alone is a list of one.
template <class T>
void from_toml(const TomlTree& value, std::vector<T>& to) {
  to.clear();
  if (value.kind != TomlTree::Kind::array) return from_toml(value, to.emplace_back());
  for (TomlTree item : value.items) {
    item.key = value.key;
    from_toml(item, to.emplace_back());
  }
}

/// Reads the members of a table over those of `into`, and calls `check(key)` after each. `where` names the table in
/// messages; `others` are further keys, which are left to the caller.
template <Attributes A, class Check>
void read_toml_fields(const TomlTree& table, std::string_view where, A& into,
                      const std::vector<std::string_view>& others, Check check) {
  if (table.kind != TomlTree::Kind::table)
    fail(ErrorCode::parse, "line ", table.line, ": ", where, " is ", table.kind_text(), "; a table is wanted");
  for (const TomlTree& value : table.items) {
    bool is_known = std::find(others.begin(), others.end(), value.key) != others.end();
    if (is_known) continue;
    std::vector<std::string_view> keys;
    for_each_field<A>([&](auto f) {
      keys.push_back(f.name);
      if (f.name == value.key) from_toml(value, into.*f.member), is_known = true;
    });
    keys.insert(keys.end(), others.begin(), others.end());
    if (!is_known)
      fail(ErrorCode::parse, "line ", value.line, ": ", where, " has no key ", quoted_name(value.key),
           nearest_names(value.key, keys));
    with_context([&] { return text_of("reading '", value.key, "' in line ", value.line); },
                 [&] { check(std::string_view(value.key)); });
  }
}

// ---- and back ----
inline std::string to_toml(bool v) { return v ? "true" : "false"; }
inline std::string to_toml(int64_t v) { return std::to_string(v); }
inline std::string to_toml(const std::string& v) { return toml_quoted(v); }
inline std::string to_toml(DType v) { return toml_quoted(name_of(v)); }
inline std::string to_toml(const Bindings& v) {
  std::string text;
  for (const auto& [name, number] : v)
    text += (text.empty() ? "" : ", ") + toml_quoted(name) + " = " + std::to_string(number);
  return "{" + text + "}";
}
template <NamedEnum E>
std::string to_toml(E v) {
  return toml_quoted(names_of(v)[static_cast<size_t>(v)]);
}
template <class T>
std::string to_toml(const std::vector<T>& v) {
  std::string text;
  for (const T& each : v) text += (text.empty() ? "" : ", ") + to_toml(each);
  return "[" + text + "]";
}
/// A line for each member that differs from that of `defaults`.
template <Attributes A>
std::string toml_fields(const A& values, const A& defaults) {
  std::string text;
  for_each_field<A>([&](auto f) {
    if (!(values.*f.member == defaults.*f.member))
      text += std::string(f.name) + " = " + to_toml(values.*f.member) + "\n";
  });
  return text;
}

}  // namespace rlx
