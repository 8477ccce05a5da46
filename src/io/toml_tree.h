// TOML 1.0 as a tree, each value with its line; toml++ reads it. Neighbours: io/toml_fields.h fills structs from a
// tree, io/json_tree.h is the same for JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

struct TomlTree {
  /// `other`: a date or a time, which nothing here has a use for.
  enum class Kind : uint8_t { string, integer, real, truth, array, table, other };

  Kind kind = Kind::table;
  int64_t line = 1;
  std::string key = {};   ///< of a member of a table
  std::string text = {};  ///< of a string
  int64_t integer = 0;
  double real = 0;
  bool truth = false;
  std::vector<TomlTree> items = {};  ///< of an array, or the members of a table, in the order of the file

  /// A member of a table; null if there is none.
  const TomlTree* find(std::string_view name) const;
  /// "a string", "an array": for messages.
  std::string_view kind_text() const;
};

/// Fails, with line and column, for what is no TOML.
TomlTree parse_toml(std::string_view text);
/// The tree of a file. Fails for one that cannot be read or is larger than 4 MiB.
TomlTree read_toml(const std::string& path);

/// `text` as TOML has strings, in quotes.
std::string toml_quoted(std::string_view text);

}  // namespace rlx
