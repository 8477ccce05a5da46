// Rows of cells, in columns as wide as they need to be.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rlx::tools {

class TextTable {
 public:
  /// One letter a column: 'l' left-aligned, 'r' right-aligned.
  explicit TextTable(std::string alignment) : alignment_(std::move(alignment)) {}
  /// Cells become printable lines (base/printable_text.h): names from files stand in them.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  /// Each row a line, behind `indent` spaces.
  std::string text(size_t indent = 0) const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rlx::tools
