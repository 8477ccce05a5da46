// Columns of CSV files as the data of `rlx train`: cells without a value, and text among numbers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rlx/data.h"
#include "tools/train/settings.h"

namespace rlx::tools {

/// Reads columns as settings say (`missing`, `text_columns`). What is learned from the data for training, means and
/// which texts there are, is used again for those for testing: so one object reads both, those for training first.
class CsvColumns {
 public:
  CsvColumns(std::string missing, std::string text) : missing_(std::move(missing)), text_(std::move(text)) {}

  /// Reads the files that `sources` name. A row that one input cannot use is left out of all that come from the file.
  void open(const Sources& sources);
  /// The columns "NAME,..." of a file: one alone as [n] (of text the codes, for labels), several as f32[n, k].
  Tensor read(const std::string& input, const std::string& file, const std::string& columns);
  /// What became of the columns, for a person: a line for each input of which something did. Empty if nothing had to.
  const std::string& notes() const { return notes_; }

 private:
  struct Column {
    bool is_text = false;
    std::vector<bool> missing;         // by row
    std::vector<double> numbers;       // NaN where one is missing; empty for text
    std::optional<size_t> first_text;  // of a column that also holds numbers: the row of the first cell that is none
  };
  struct Table {
    CsvTable csv;
    std::map<std::string, Column, std::less<>> columns;  // those that were looked at
    std::vector<bool> left_out;
  };
  struct Learned {
    double mean = 0;
    std::vector<std::string> texts;
  };
  Column& look_at(const std::string& file, const std::string& column);
  [[noreturn]] void has_no_value(const std::string& file, const std::string& column, size_t row) const;
  std::vector<std::string> names_in(const std::string& columns) const;

  std::string missing_, text_, notes_;
  std::map<std::string, Table, std::less<>> tables_;
  std::map<std::string, Learned, std::less<>> learned_;  // by input and column
};

/// "FILE.csv:COLUMN,..." taken apart; false for another source.
bool is_csv_source(const std::string& source, std::string& file, std::string& columns);

}  // namespace rlx::tools
