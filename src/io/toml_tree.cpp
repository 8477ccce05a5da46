// See the header. The only file that includes toml++.
#include "io/toml_tree.h"

#include "rlx/error.h"

namespace rlx {
namespace {

struct TomlAssertion {};
[[noreturn]] void throw_toml_assertion() { throw TomlAssertion(); }

}  // namespace
}  // namespace rlx

// toml++ 3.3 asserts what a text can get wrong ("[=" in front of a name): a wrong file would end the process, or, with
// NDEBUG, be taken for right by the compiler. This can go with a version that reports it.
#undef NDEBUG
#define TOML_ASSERT(expr) (static_cast<bool>(expr) ? static_cast<void>(0) : ::rlx::throw_toml_assertion())
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>

#include "base/printable_text.h"
#include "rlx/io.h"

namespace rlx {
namespace {

constexpr uintmax_t kMostTomlBytes = uintmax_t{4} << 20;

TomlTree tree_of(const toml::node& node);

TomlTree table_of(const toml::table& table) {
  TomlTree made;
  std::vector<std::pair<toml::source_position, TomlTree>> members;  // toml++ has them in the order of their names
  for (const auto& [key, node] : table) {
    TomlTree member = tree_of(node);
    member.key = key.str();
    members.emplace_back(key.source().begin, std::move(member));
  }
  std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [place, member] : members) made.items.push_back(std::move(member));
  return made;
}

TomlTree tree_of(const toml::node& node) {
  TomlTree made;
  if (const toml::table* table = node.as_table()) {
    made = table_of(*table);
  } else if (const toml::array* array = node.as_array()) {
    made.kind = TomlTree::Kind::array;
    for (const toml::node& each : *array) made.items.push_back(tree_of(each));
  } else if (const auto text = node.value_exact<std::string>()) {
    made.kind = TomlTree::Kind::string, made.text = *text;
  } else if (const auto integer = node.value_exact<int64_t>()) {
    made.kind = TomlTree::Kind::integer, made.integer = *integer;
  } else if (const auto real = node.value_exact<double>()) {
    made.kind = TomlTree::Kind::real, made.real = *real;
  } else if (const auto truth = node.value_exact<bool>()) {
    made.kind = TomlTree::Kind::truth, made.truth = *truth;
  } else {
    made.kind = TomlTree::Kind::other;
  }
  made.line = static_cast<int64_t>(node.source().begin.line);
  return made;
}

/// The first line whose '[' has no name behind it: what the parser's assertion was about. 0: there is none.
int64_t line_without_name(std::string_view text) {
  int64_t line = 1;
  for (size_t at = 0; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view rest = text.substr(at, end - at);
    const auto skip = [&](std::string_view set) {
      rest.remove_prefix(std::min(rest.find_first_not_of(set), rest.size()));
    };
    skip(" \t");
    if (rest.starts_with('[')) {
      skip("[");
      skip(" \t");
      const auto c = static_cast<unsigned char>(rest.empty() ? 0 : rest[0]);
      if (!std::isalnum(c) && c != '_' && c != '-' && c != '"' && c != '\'' && c != ']' && c < 0x80) return line;
    }
    at = end + 1;
  }
  return 0;
}

}  // namespace

const TomlTree* TomlTree::find(std::string_view name) const {
  const auto found = std::find_if(items.begin(), items.end(), [&](const TomlTree& t) { return t.key == name; });
  return kind == Kind::table && found != items.end() ? &*found : nullptr;
}

std::string_view TomlTree::kind_text() const {
  switch (kind) {
    case Kind::string: return "a string";
    case Kind::integer: return "a whole number";
    case Kind::real: return "a number with a fraction";
    case Kind::truth: return "true or false";
    case Kind::array: return "an array";
    case Kind::table: return "a table";
    case Kind::other: break;
  }
  return "a date or time";
}

TomlTree parse_toml(std::string_view text) {
  try {
    return table_of(toml::parse(text));
  } catch (const toml::parse_error& error) {
    fail(ErrorCode::parse, "line ", error.source().begin.line, ", column ", error.source().begin.column, ": ",
         printable_line(error.description()));
  } catch (const TomlAssertion&) {
    const int64_t line = line_without_name(text);
    fail(ErrorCode::parse, line > 0 ? text_of("line ", line, ": ") : "",
         "it is no TOML: behind '[' stands what is no name");
  }
}

TomlTree read_toml(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMostTomlBytes)
    fail(ErrorCode::invalid_argument, "'", path, "' has ", bytes, " bytes, and a file of settings has at most ",
         kMostTomlBytes);
  const auto file = FileBytes::read(path);
  return parse_toml({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
}

std::string toml_quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      out += c;
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    out += escape;
  }
  return out + "\"";
}

}  // namespace rlx
