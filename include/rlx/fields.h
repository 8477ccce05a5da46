// Attribute structs name their members in a `fields` table; printing, parsing, hashing, mapping (substituting
// symbols, rewriting sub-graphs) and describing are derived from it here. Equality is `= default`.
//
// Every kind of member has five functions: print, parse, hash_of, map, kind_name. A new kind of member (a dim, a
// sub-graph) adds its five beside its type, and argument-dependent lookup finds them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlx/scanner.h"

namespace rlx {

template <class A, class T>
struct Field {
  std::string_view name;
  T A::*member;
};
template <class A, class T>
constexpr Field<A, T> field(std::string_view name, T A::*member) {
  return {name, member};
}

// The two lines that every attribute struct has besides its members. The table is a function that hands its
// fields to `use`: a tuple member would be instantiated by every file that sees the struct, this only where
// something is derived from it.
#define RLX_FIELDS(A, ...)                                            \
  static constexpr auto fields(auto use) { return use(__VA_ARGS__); } \
  bool operator==(const A&) const = default

constexpr auto kCountFields = [](auto... fields) { return sizeof...(fields); };
template <class A>
concept Attributes = requires {
  A::fields(kCountFields);
};
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) {
  names_of(e);
};

// A member left out of the table would silently vanish from printing and hashing; count them.
struct AnyMember {
  template <class T>
  operator T() const;
};
template <class A, class... Members>
consteval size_t member_count() {
  if constexpr (requires { A{Members{}..., AnyMember{}}; }) return member_count<A, Members..., AnyMember>();
  else return sizeof...(Members);
}
template <Attributes A>
constexpr bool kFieldsComplete = member_count<A>() == A::fields(kCountFields);

inline size_t mix(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2));
}

// ---- scalars ----
inline void print(std::ostream& out, bool v) { out << (v ? "true" : "false"); }
inline void print(std::ostream& out, int64_t v) { out << v; }
void print(std::ostream& out, double v);  // the shortest text that reads back as the same number
inline void print(std::ostream& out, const std::string& v) { write_quoted(out, v); }
inline void parse(Scanner& in, bool& v) {
  if (!(v = in.accept_word("true")) && !in.accept_word("false")) in.unexpected("true or false");
}
inline void parse(Scanner& in, int64_t& v) { v = in.number<int64_t>(); }
inline void parse(Scanner& in, double& v) { v = in.number<double>(); }
inline void parse(Scanner& in, std::string& v) { v = in.quoted(); }
template <class T>
requires std::is_arithmetic_v<T> || std::is_same_v<T, std::string> size_t hash_of(const T& v) {
  return std::hash<T>{}(v);
}
template <class T, class Mapper>
requires std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>
void map(T&, const Mapper&) {}
inline std::string kind_name(bool) { return "bool"; }
inline std::string kind_name(int64_t) { return "int"; }
inline std::string kind_name(double) { return "float"; }
inline std::string kind_name(const std::string&) { return "string"; }

template <NamedEnum E>
void print(std::ostream& out, E v) {
  out << names_of(v)[static_cast<size_t>(v)];
}
template <NamedEnum E>
void parse(Scanner& in, E& v) {
  auto names = names_of(v);
  std::string_view word = in.word();
  auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) {
    std::string list;
    for (std::string_view name : names) list += (list.empty() ? "" : ", ") + std::string(name);
    in.unexpected(text_of("one of ", list, " instead of '", word, "'"));
  }
  v = static_cast<E>(found - names.begin());
}
template <NamedEnum E>
size_t hash_of(E v) {
  return static_cast<size_t>(v);
}
template <NamedEnum E>
std::string kind_name(E v) {
  std::string list;
  for (std::string_view name : names_of(v)) list += (list.empty() ? "" : "|") + std::string(name);
  return list;
}

// ---- containers and whole tables, in terms of their members ----
template <class T>
void print(std::ostream&, const std::vector<T>&);
template <class T>
void print(std::ostream&, const std::optional<T>&);
template <Attributes A>
void print(std::ostream&, const A&);
template <class T>
void parse(Scanner&, std::vector<T>&);
template <class T>
void parse(Scanner&, std::optional<T>&);

template <class T>
void print(std::ostream& out, const std::vector<T>& v) {
  out << "[";
  for (size_t i = 0; i < v.size(); ++i) print(out << (i ? ", " : ""), v[i]);
  out << "]";
}
template <class T>
void parse(Scanner& in, std::vector<T>& v) {
  v.clear();
  in.expect("[");
  while (!in.accept("]")) {
    if (!v.empty()) in.expect(",");
    parse(in, v.emplace_back());
  }
}
template <class T>
size_t hash_of(const std::vector<T>& v) {
  size_t h = v.size();
  for (const T& x : v) h = mix(h, hash_of(x));
  return h;
}
template <class T, class Mapper>
void map(std::vector<T>& v, const Mapper& mapper) {
  for (T& x : v) map(x, mapper);
}
template <class T>
std::string kind_name(const std::vector<T>&) {
  return "list of " + kind_name(T{});
}

template <class T>
void print(std::ostream& out, const std::optional<T>& v) {
  if (v) print(out, *v);
  else out << "none";
}
template <class T>
void parse(Scanner& in, std::optional<T>& v) {
  if (in.accept_word("none")) v.reset();
  else parse(in, v.emplace());
}
template <class T>
size_t hash_of(const std::optional<T>& v) {
  return v ? mix(1, hash_of(*v)) : 0;
}
template <class T, class Mapper>
void map(std::optional<T>& v, const Mapper& mapper) {
  if (v) map(*v, mapper);
}
template <class T>
std::string kind_name(const std::optional<T>&) {
  return kind_name(T{}) + " or none";
}

template <Attributes A, class F>
void for_each_field(F f) {
  A::fields([&](auto... fields) { (f(fields), ...); });
}
/// Members that have their default are left out: they read back as it.
template <Attributes A>
void print(std::ostream& out, const A& a) {
  const A defaults{};
  auto is_default = [](const auto& x, const auto& y) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(x)>, double>)
      return x == y && std::signbit(x) == std::signbit(y);
    else return x == y;
  };
  const char* separator = "{";
  for_each_field<A>([&](auto f) {
    if (!is_default(a.*f.member, defaults.*f.member))
      print(out << std::exchange(separator, ", ") << f.name << " = ", a.*f.member);
  });
  out << (*separator == '{' ? "{}" : "}");
}
template <Attributes A>
void parse(Scanner& in, A& a) {
  in.expect("{");
  std::vector<std::string_view> seen;
  while (!in.accept("}")) {
    if (!seen.empty()) in.expect(",");
    std::string_view name = in.word();
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) in.unexpected(text_of("'", name, "' only once"));
    seen.push_back(name);
    in.expect("=");
    bool known = false;
    std::string list;
    for_each_field<A>([&](auto f) {
      list += (list.empty() ? "" : ", ") + std::string(f.name);
      if (f.name == name) parse(in, a.*f.member), known = true;
    });
    if (!known) in.unexpected(text_of("a known attribute (", list, ") instead of '", name, "'"));
  }
}
template <Attributes A>
size_t hash_of(const A& a) {
  size_t h = 0;
  for_each_field<A>([&](auto f) { h = mix(h, hash_of(a.*f.member)); });
  return h;
}
template <Attributes A, class Mapper>
void map(A& a, const Mapper& mapper) {
  for_each_field<A>([&](auto f) { map(a.*f.member, mapper); });
}

}  // namespace rlx
