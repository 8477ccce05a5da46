// See the header.
#include "tools/train/csv_columns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "io/names_in_messages.h"
#include "rlx/element.h"

namespace rlx::tools {
namespace {

/// What stands for no value: the names that pandas.read_csv knows, without those that begin with a sign.
bool is_missing(std::string_view cell) {
  while (!cell.empty() && (cell.front() == ' ' || cell.front() == '\t')) cell.remove_prefix(1);
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t')) cell.remove_suffix(1);
  for (std::string_view none : {"", "NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "NaN", "nan", "NULL", "null", "None"})
    if (cell == none) return true;
  return false;
}

bool number_of(std::string_view cell, double& value) {
  while (!cell.empty() && (cell.front() == ' ' || cell.front() == '\t' || cell.front() == '+')) cell.remove_prefix(1);
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t')) cell.remove_suffix(1);
  auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size();
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

/// Which cell, as a spreadsheet counts: the header is row 1.
std::string cell_text(const std::string& file, const std::string& column, size_t row) {
  return text_of("row ", row + 2, " of '", file, "', column ", quoted_name(column), ",");
}

}  // namespace

bool is_csv_source(const std::string& source, std::string& file, std::string& columns) {
  const size_t at = source.rfind(".csv:");
  if (at == std::string::npos) return false;
  file = source.substr(0, at + 4);
  columns = source.substr(at + 5);
  return true;
}

std::vector<std::string> CsvColumns::names_in(const std::string& columns) const { return split(columns); }

void CsvColumns::has_no_value(const std::string& file, const std::string& column, size_t row) const {
  const auto& text = tables_.find(file)->second.csv.column(column).text;
  fail(ErrorCode::invalid_argument, cell_text(file, column, row),
       " has no value: ", text.empty() ? "it is empty" : quoted_name(text[row]),
       "; say what to do: --missing drop (leave such rows out) or --missing mean (that of the column's others)");
}

CsvColumns::Column& CsvColumns::look_at(const std::string& file, const std::string& name) {
  Table& table = tables_.find(file)->second;
  if (auto found = table.columns.find(name); found != table.columns.end()) return found->second;
  const CsvColumn& from = table.csv.column(name);
  const auto rows = static_cast<size_t>(table.csv.rows);
  Column column;
  column.missing.resize(rows);
  column.numbers.assign(rows, std::nan(""));
  size_t first_text = rows, numbers = 0;
  for (size_t row = 0; row < rows; ++row) {
    if (from.type != CsvType::text) {
      column.numbers[row] = load_number(from.values, row);
      column.missing[row] = std::isnan(column.numbers[row]);
      continue;
    }
    column.missing[row] = is_missing(from.text[row]);
    if (column.missing[row]) continue;
    if (number_of(from.text[row], column.numbers[row])) ++numbers;
    else if (first_text == rows) first_text = row;
  }
  // A column without any value is text to nobody.
  column.is_text = first_text < rows;
  if (column.is_text) column.numbers.clear();
  if (column.is_text && numbers) column.first_text = first_text;
  return table.columns.emplace(name, std::move(column)).first->second;
}

void CsvColumns::open(const Sources& sources) {
  tables_.clear();
  std::string file, columns;
  for (const auto& [input, files] : sources)
    for (const std::string& source : files) {
      if (!is_csv_source(with_home(source), file, columns)) continue;
      auto found = tables_.find(file);
      if (found == tables_.end()) {
        found = tables_.emplace(file, Table{read_csv(file), {}, {}}).first;
        found->second.left_out.resize(static_cast<size_t>(found->second.csv.rows));
      }
      for (const std::string& name : names_in(columns)) {
        const Column& column = look_at(file, name);
        for (size_t row = 0; row < column.missing.size(); ++row) {
          if (!column.missing[row] || (column.is_text && text_ == "drop" && names_in(columns).size() > 1)) continue;
          if (missing_ == "error") has_no_value(file, name, row);
          // An answer or a label that is not there has no mean that anybody could learn from.
          if (missing_ == "drop" || column.is_text || input == "t") found->second.left_out[row] = true;
        }
      }
    }
}

Tensor CsvColumns::read(const std::string& input, const std::string& file, const std::string& part) {
  const std::vector<std::string> names = names_in(part);
  Table& table = tables_.find(file)->second;
  std::vector<size_t> rows;
  for (size_t row = 0; row < table.left_out.size(); ++row)
    if (!table.left_out[row]) rows.push_back(row);
  const auto count = static_cast<int64_t>(rows.size());
  const bool alone = names.size() == 1 && (input == "t" || text_ != "onehot" || !look_at(file, names[0]).is_text);
  std::vector<std::vector<double>> all;
  std::vector<std::string> called;
  bool is_noted = false;
  for (const std::string& name : names) {
    const Column& column = look_at(file, name);
    auto [at, is_first] = learned_.try_emplace(input + "\n" + name);
    Learned& learned = at->second;
    if (column.is_text) {
      const std::vector<std::string>& text = table.csv.column(name).text;
      if (alone && text_ == "error" && column.first_text)
        fail(ErrorCode::invalid_argument, cell_text(file, name, *column.first_text), " holds text, ",
             quoted_name(text[*column.first_text]),
             ", among numbers; mend it, or say that all of the column are texts: --text-columns onehot");
      if (!alone && text_ == "error") {
        const auto first = static_cast<size_t>(std::find_if(rows.begin(), rows.end(),
                                                            [&](size_t row) {
                                                              double number = 0;
                                                              return !number_of(text[row], number);
                                                            }) -
                                               rows.begin());
        fail(ErrorCode::invalid_argument, cell_text(file, name, rows[first]), " holds text, ",
             quoted_name(text[rows[first]]),
             "; say what to do with such columns: --text-columns onehot (a column of 0 and 1 for each text) or "
             "--text-columns drop");
      }
      if (!alone && text_ == "drop") {
        is_noted = true;
        continue;
      }
      if (is_first) {
        for (size_t row : rows) learned.texts.push_back(text[row]);
        std::sort(learned.texts.begin(), learned.texts.end());
        learned.texts.erase(std::unique(learned.texts.begin(), learned.texts.end()), learned.texts.end());
        constexpr size_t kMost = 4096;
        if (!alone && learned.texts.size() > kMost)
          fail(ErrorCode::invalid_argument, "column ", quoted_name(name), " of '", file, "' holds ",
               learned.texts.size(), " different texts, and one column for each would be more than ", kMost,
               "; leave it out: --text-columns drop");
      }
      const size_t begin = all.size();
      all.resize(begin + (alone ? 1 : learned.texts.size()), std::vector<double>(rows.size(), 0.0));
      for (size_t i = 0; i < rows.size(); ++i) {
        const std::string& cell = text[rows[i]];
        const auto place = std::lower_bound(learned.texts.begin(), learned.texts.end(), cell);
        if (place == learned.texts.end() || *place != cell)
          fail(ErrorCode::invalid_argument, cell_text(file, name, rows[i]), " holds ", quoted_name(cell),
               ", which is none of the texts that the data for training have");
        const auto code = static_cast<size_t>(place - learned.texts.begin());
        if (alone) all[begin][i] = static_cast<double>(code);
        else all[begin + code][i] = 1;
      }
      is_noted = true;
      if (!alone) {
        for (const std::string& each : learned.texts) called.push_back(name + "=" + each);
        continue;
      }
      std::string codes = text_of(name, ", whose ", learned.texts.size(), " texts are numbers:");
      constexpr size_t kShown = 12;
      for (size_t code = 0; code < std::min(kShown, learned.texts.size()); ++code)
        codes += text_of(code ? ", " : " ", learned.texts[code], " is ", code);
      called.push_back(codes + (learned.texts.size() > kShown ? ", ..." : ""));
      continue;
    }
    if (is_first) {
      double sum = 0, n = 0;
      for (size_t row : rows)
        if (!column.missing[row]) sum += column.numbers[row], ++n;
      if (n == 0 && !rows.empty())
        fail(ErrorCode::invalid_argument, "column ", quoted_name(name), " of '", file, "' has no value at all");
      learned.mean = n > 0 ? sum / n : 0;
    }
    all.emplace_back();
    size_t filled = 0;
    for (size_t row : rows) {
      all.back().push_back(column.missing[row] ? learned.mean : column.numbers[row]);
      filled += column.missing[row];
    }
    called.push_back(filled ? text_of(name, " (", filled, " without a value are ", learned.mean, ")") : name);
    is_noted |= filled > 0;
  }
  if (all.empty())
    fail(ErrorCode::invalid_argument, "all columns for '", input, "' hold text, and --text-columns drop leaves none");
  if (const size_t dropped = table.left_out.size() - rows.size(); is_noted || dropped) {
    std::string line = text_of(input, ": ");
    for (size_t i = 0; i < called.size(); ++i) line += (i ? ", " : "") + called[i];
    if (called.empty()) line += part;
    if (dropped) line += text_of("; ", dropped, " of ", table.left_out.size(), " rows have no value and are left out");
    notes_ += (notes_.empty() ? "" : "\n") + line;
  }
  const CsvColumn& first = table.csv.column(names[0]);
  if (alone) {
    // Whole numbers and truths stay what they are; of text the codes are labels.
    const DType dtype = look_at(file, names[0]).is_text                                 ? i64
                        : first.type == CsvType::integer || first.type == CsvType::flag ? first.values.dtype()
                                                                                        : f32;
    Tensor one(dtype, {count});
    for (size_t i = 0; i < rows.size(); ++i) {
      if (dtype == f32) store<double>(one, i, all[0][i]);
      else if (dtype == boolean) store<uint64_t>(one, i, all[0][i] != 0);
      else
        store<int64_t>(
            one, i,
            first.type == CsvType::integer ? load_index(first.values, rows[i]) : static_cast<int64_t>(all[0][i]));
    }
    return one;
  }
  Tensor matrix(f32, {count, static_cast<int64_t>(all.size())});
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t c = 0; c < all.size(); ++c) store<double>(matrix, i * all.size() + c, all[c][i]);
  return matrix;
}

}  // namespace rlx::tools
