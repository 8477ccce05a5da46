// Comma-separated values; see rlx/data.h. The text is read twice: once for the number of records and for what each
// column holds, once for the cells; what stands in memory is the columns.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "io/names_in_messages.h"
#include "io/tokenizer/utf8.h"
#include "rlx/data.h"
#include "rlx/element.h"

namespace rlx {
namespace {

/// Cells one after another. A cell without doubled quotes is a part of the text.
class Cells {
 public:
  Cells(std::string_view text, char separator) : text_(text), separator_(separator) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    skip_empty_lines();
  }
  bool at_end() const { return at_ >= text_.size(); }
  int64_t line() const { return line_; }  // in which the next cell begins
  /// The next cell; afterwards `record_ended` tells whether it was the last of its record.
  std::string_view next();
  bool record_ended() const { return record_ended_; }

 private:
  bool at_line_end() const { return at_ >= text_.size() || text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n"; }
  void end_line() {
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size()) ++at_, ++line_;
  }
  void skip_empty_lines() {
    while (at_ < text_.size() && at_line_end()) end_line();
  }
  std::string_view quoted();

  std::string_view text_;
  char separator_;
  size_t at_ = 0;
  int64_t line_ = 1;
  bool record_ended_ = true;
  std::string unquoted_;
};

std::string_view Cells::quoted() {
  int64_t opened = line_;
  size_t begin = ++at_;
  bool doubled = false;
  unquoted_.clear();
  for (;; ++at_) {
    if (at_ >= text_.size())
      fail(ErrorCode::parse, "line ", opened, ": the quote that opens a cell here is never closed");
    if (text_[at_] == '\n') ++line_;
    if (text_[at_] != '"') continue;
    if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
    unquoted_.append(text_.substr(begin, at_ + 1 - begin));
    doubled = true;
    begin = ++at_ + 1;
  }
  std::string_view rest = text_.substr(begin, at_ - begin);
  ++at_;
  if (!doubled) return rest;
  unquoted_.append(rest);
  return unquoted_;
}

std::string_view Cells::next() {
  std::string_view cell;
  if (at_ < text_.size() && text_[at_] == '"') {
    cell = quoted();
    if (!at_line_end() && text_[at_] != separator_)
      fail(ErrorCode::parse, "line ", line_, ": behind the closing quote of a cell stands ",
           quoted_name(text_.substr(at_, 1)), "; a quote within a quoted cell is written twice");
  } else {
    size_t begin = at_;
    while (!at_line_end() && text_[at_] != separator_) {
      if (text_[at_] == '"')
        fail(ErrorCode::parse, "line ", line_,
             ": a quote within a cell that does not begin with one; put the whole cell in quotes, and this one twice");
      ++at_;
    }
    cell = text_.substr(begin, at_ - begin);
  }
  record_ended_ = at_line_end();
  if (record_ended_) end_line(), skip_empty_lines();
  else ++at_;
  return cell;
}

std::string_view trimmed(std::string_view cell) {
  while (!cell.empty() && (cell.front() == ' ' || cell.front() == '\t')) cell.remove_prefix(1);
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t')) cell.remove_suffix(1);
  return cell;
}

template <class T>
std::optional<T> number_in(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.starts_with('+') && cell.size() > 1 && cell[1] != '-') cell.remove_prefix(1);
  T value{};
  auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (end != cell.data() + cell.size() || cell.empty()) return std::nullopt;
  // Too small or too large for a double is still a number, the nearest one.
  if constexpr (std::is_floating_point_v<T>) {
    if (error == std::errc::result_out_of_range) {
      std::string text(cell);
      return std::strtod(text.c_str(), nullptr);
    }
  }
  if (error != std::errc()) return std::nullopt;
  return value;
}
std::optional<bool> flag_in(std::string_view cell) {
  cell = trimmed(cell);
  auto is = [&](std::string_view word) {
    return cell.size() == word.size() && std::equal(cell.begin(), cell.end(), word.begin(), [](char c, char w) {
             return (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) == w;
           });
  };
  if (is("true")) return true;
  if (is("false")) return false;
  return std::nullopt;
}

/// What a column can still be, cell after cell.
struct Candidate {
  bool flag = true, integer = true, number = true, any = false;
  void see(std::string_view cell) {
    bool empty = trimmed(cell).empty();
    if (flag) flag = flag_in(cell).has_value();
    if (integer) integer = number_in<int64_t>(cell).has_value();
    if (number && !empty) number = number_in<double>(cell).has_value();
    any |= !empty;
  }
  CsvType type() const {
    if (!any) return CsvType::text;
    if (flag) return CsvType::flag;
    if (integer) return CsvType::integer;
    return number ? CsvType::number : CsvType::text;
  }
};

std::vector<std::string> header_of(Cells& cells, bool named) {
  std::vector<std::string> names;
  if (cells.at_end()) fail(ErrorCode::parse, "there is no record");
  do {
    std::string cell(cells.next());
    names.push_back(named ? cell : std::to_string(names.size()));
  } while (!cells.record_ended());
  if (!named) return names;
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  if (auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    fail(ErrorCode::parse, "line 1: two columns are called ", quoted_name(*twice), "; does the file have a header?");
  return names;
}

/// Calls `see(column, line, cell)` for all cells behind the header; gives the number of records.
template <class See>
int64_t for_each_cell(Cells cells, size_t columns, See see) {
  int64_t rows = 0;
  for (; !cells.at_end(); ++rows) {
    int64_t line = cells.line();
    size_t column = 0;
    do {
      int64_t cell_line = cells.line();
      std::string_view cell = cells.next();
      if (column < columns) see(column, cell_line, cell);
      ++column;
    } while (!cells.record_ended());
    if (column != columns)
      fail(ErrorCode::parse, "line ", line, " has ", column, column == 1 ? " cell" : " cells", ", the first record ",
           columns);
  }
  return rows;
}

[[noreturn]] void not_a(const CsvColumn& column, int64_t line, std::string_view cell) {
  fail(ErrorCode::parse, "line ", line, ": column ", quoted_name(column.name), " is of type ",
       names_of(column.type)[static_cast<size_t>(column.type)], ", but here stands ", quoted_name(cell));
}

void put(CsvColumn& column, size_t row, int64_t line, std::string_view cell) {
  switch (column.type) {
    case CsvType::integer:
      if (auto v = number_in<int64_t>(cell)) return store<int64_t>(column.values, row, *v);
      not_a(column, line, cell);
    case CsvType::number:
      if (trimmed(cell).empty()) return store<double>(column.values, row, std::nan(""));
      if (auto v = number_in<double>(cell)) return store<double>(column.values, row, *v);
      not_a(column, line, cell);
    case CsvType::flag:
      if (auto v = flag_in(cell)) return store<uint64_t>(column.values, row, *v);
      not_a(column, line, cell);
    default: break;
  }
  if (tokenizer::valid_utf8_prefix(cell) != cell.size())
    fail(ErrorCode::parse, "line ", line, ": the text in column ", quoted_name(column.name), " is no UTF-8");
  column.text.emplace_back(cell);
}

CsvTable parse(std::string_view text, const CsvOptions& options) {
  if (options.separator == '"' || options.separator == '\n' || options.separator == '\r')
    fail(ErrorCode::invalid_argument, "a quote or the end of a line cannot separate cells");
  Cells cells(text, options.separator);
  Cells first = cells;
  std::vector<std::string> names = header_of(cells, options.header);
  if (!options.header) cells = first;
  for (const auto& [name, type] : options.types)
    if (std::find(names.begin(), names.end(), name) == names.end())
      fail(ErrorCode::not_found, "a type is given for column ", quoted_name(name), ", which is not there",
           nearest_names(name, {names.begin(), names.end()}));

  std::vector<Candidate> candidates(names.size());
  CsvTable table;
  table.rows =
      for_each_cell(cells, names.size(), [&](size_t c, int64_t, std::string_view cell) { candidates[c].see(cell); });
  for (size_t c = 0; c < names.size(); ++c) {
    auto given = options.types.find(names[c]);
    bool known = given != options.types.end() && given->second != CsvType::inferred;
    CsvColumn column{names[c], known ? given->second : candidates[c].type(), Tensor()};
    constexpr DType kDtypes[] = {f32, i64, f64, boolean};
    if (column.type == CsvType::text) column.text.reserve(static_cast<size_t>(table.rows));
    else column.values = Tensor(kDtypes[static_cast<size_t>(column.type)], {table.rows});
    table.columns.push_back(std::move(column));
  }
  size_t row = 0;
  for_each_cell(cells, names.size(), [&](size_t c, int64_t line, std::string_view cell) {
    put(table.columns[c], row, line, cell);
    row += c + 1 == names.size();
  });
  return table;
}

}  // namespace

Tensor CsvColumn::codes(std::vector<std::string>* labels) const {
  if (type != CsvType::text)
    fail(ErrorCode::invalid_argument, "column ", quoted_name(name), " holds ",
         names_of(type)[static_cast<size_t>(type)], "s, not text");
  std::vector<std::string> different = text;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  Tensor places(i64, {static_cast<int64_t>(text.size())});
  auto to = places.mutable_values<int64_t>();
  for (size_t i = 0; i < text.size(); ++i)
    to[i] = std::lower_bound(different.begin(), different.end(), text[i]) - different.begin();
  if (labels) *labels = std::move(different);
  return places;
}

const CsvColumn& CsvTable::column(std::string_view name) const {
  for (const CsvColumn& c : columns)
    if (c.name == name) return c;
  std::vector<std::string_view> names;
  for (const CsvColumn& c : columns) names.push_back(c.name);
  fail(ErrorCode::not_found, "there is no column ", quoted_name(name), " among ", columns.size(),
       nearest_names(name, names));
}

Tensor CsvTable::matrix(std::span<const std::string> names, DType dtype) const {
  if (!is_float(dtype)) fail(ErrorCode::invalid_argument, "a matrix of columns is of floats, not of ", dtype);
  Tensor all(dtype, {rows, static_cast<int64_t>(names.size())});
  for (size_t c = 0; c < names.size(); ++c) {
    const CsvColumn& from = column(names[c]);
    if (from.type == CsvType::text)
      fail(ErrorCode::invalid_argument, "column ", quoted_name(from.name), " holds text; its codes() are numbers");
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
      store<double>(all, row * names.size() + c, load_number(from.values, row));
  }
  return all;
}

CsvTable parse_csv(std::string_view text, const CsvOptions& options, const std::string& name) {
  return with_context([&] { return "reading the CSV file '" + name + "'"; }, [&] { return parse(text, options); });
}

CsvTable read_csv(const std::string& path, const CsvOptions& options) {
  auto file = FileBytes::read(path);
  return parse_csv({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, options, path);
}

}  // namespace rlx
