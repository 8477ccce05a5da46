// IDX, CSV and text: what tests/golden/generate/data.py wrote, and what is damaged.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "rlx/data.h"
#include "rlx/element.h"
#include "support/io_files.h"

using namespace rlx;
using test::error_of;

namespace {

std::string idx(std::initializer_list<int> bytes) {
  std::string text;
  for (int b : bytes) text.push_back(static_cast<char>(b));
  return text;
}
Tensor parse(const std::string& bytes) { return parse_idx(std::as_bytes(std::span(bytes))); }
void check_refused(const std::string& bytes, const std::string& reason) {
  std::string message = error_of([&] { parse(bytes); }).what();
  CHECK_MESSAGE(message.find(reason) != std::string::npos, message);
  CHECK(message.find("reading the IDX file '<memory>'") != std::string::npos);
}
void check_csv_refused(const std::string& text, const std::string& reason, const CsvOptions& options = {}) {
  std::string message = error_of([&] { parse_csv(text, options, "t.csv"); }).what();
  CHECK_MESSAGE(message.find(reason) != std::string::npos, message);
  CHECK(message.find("reading the CSV file 't.csv'") != std::string::npos);
}

}  // namespace

TEST_CASE("IDX files of every type are read") {
  auto golden = SafetensorsFile::open("tests/golden/data/data.safetensors");
  for (const char* name : {"u8", "i8", "i16", "i32", "f32", "f64", "none"})
    CHECK_MESSAGE(
        read_idx(std::string("tests/golden/data/") + name + ".idx") == golden.tensor(std::string("idx/") + name), name);
  CHECK(load_number(parse(idx({0, 0, 8, 0, 42})), 0) == 42);  // a scalar has no extents
}

TEST_CASE("a damaged IDX file is refused with the reason") {
  std::string whole = test::file_content("tests/golden/data/u8.idx");
  for (size_t size = 0; size < whole.size(); ++size)  // cut anywhere
    CHECK(error_of([&] { parse(whole.substr(0, size)); }).code() == ErrorCode::parse);
  check_refused(whole + "x", "60 bytes from byte 16 on, but the file has 61 there");
  check_refused("", "the file has 0 bytes");
  check_refused(idx({0, 0, 10, 1, 0, 0, 0, 0}), "byte 2 is 10, which is no type of IDX");
  check_refused(idx({31, 139, 8, 0, 0}), "gunzip");
  check_refused(idx({1, 0, 8, 0, 0}), "the first two bytes are 1 and 0");
  check_refused(idx({0, 0, 8, 200}), "200 dims");
  check_refused(idx({0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}),
                "the shape is impossible");
  check_refused(idx({0, 0, 14, 1, 255, 255, 255, 255}), "it is cut");  // no memory is taken for what is not there
  CHECK(error_of([] { read_idx("/nonexistent.idx"); }).code() == ErrorCode::not_found);
}

TEST_CASE("a CSV file that Python wrote has the cells that Python put in") {
  CsvTable table = read_csv("tests/golden/data/table.csv");
  auto golden = SafetensorsFile::open("tests/golden/data/data.safetensors");
  CHECK(table.rows == 9);
  REQUIRE(table.columns.size() == 4);
  CHECK(table.column("name, quoted").type == CsvType::text);
  auto texts = nlohmann::json::parse(test::file_content("tests/golden/data/table_text.json"));
  CHECK(table.column("name, quoted").text == texts.get<std::vector<std::string>>());
  CHECK(table.column("count").type == CsvType::integer);
  CHECK(table.column("count").values == golden.tensor("csv/count"));
  CHECK(table.column("flag").type == CsvType::flag);
  const CsvColumn& number = table.column("number");
  CHECK(number.type == CsvType::number);
  Tensor wanted = golden.tensor("csv/number");
  for (size_t i = 0; i < 9; ++i) {
    double value = load_number(number.values, i), want = load_number(wanted, i);
    CHECK((value == want || (std::isnan(value) && std::isnan(want))));
    CHECK(load_number(table.column("flag").values, i) == load_number(golden.tensor("csv/flag"), i));
  }
  CHECK_THROWS_WITH_AS(table.column("cuont"), doctest::Contains("the nearest are 'count'"), Error);
}

TEST_CASE("types of columns are given or inferred, and columns stand side by side as a matrix") {
  CsvTable table = parse_csv(
      "\xef\xbb\xbf"
      "a;b;c\n\n1; 2.5 ;x\n+2;;y\n3;-1e3;x",
      {.separator = ';'});
  CHECK(table.column("a").type == CsvType::integer);
  CHECK(table.column("b").type == CsvType::number);
  std::vector<std::string> names = {"b", "a"}, labels;
  Tensor m = table.matrix(names);
  CHECK(m.type() == Type{f32, {3, 2}});
  CHECK(load_number(m, 0) == 2.5);
  CHECK(load_number(m, 1) == 1);
  CHECK(std::isnan(load_number(m, 2)));
  CHECK(load_number(m, 4) == -1000);
  CHECK(table.column("c").codes(&labels) == Tensor::of<int64_t>({3}, {0, 1, 0}));
  CHECK(labels == std::vector<std::string>{"x", "y"});
  names = {"c"};
  CHECK_THROWS_WITH_AS(table.matrix(names), doctest::Contains("'c' holds text"), Error);

  CsvTable bare = parse_csv("1,2\r\n3,4\r\n", {.header = false, .types = {{"1", CsvType::text}}});
  CHECK(bare.rows == 2);
  CHECK(bare.column("0").values == Tensor::of<int64_t>({2}, {1, 3}));
  CHECK(bare.column("1").text == std::vector<std::string>{"2", "4"});
  CHECK(parse_csv("a,b\n").rows == 0);
}

TEST_CASE("a damaged CSV file is refused with its line") {
  check_csv_refused("", "there is no record");
  check_csv_refused("a,b\n1,2\n3\n", "line 3 has 1 cell, the first record 2");
  check_csv_refused("a,b\n\n\"x\ny\",2\n3,4,5\n", "line 5 has 3 cells, the first record 2");
  check_csv_refused("a,b\n1,\"2\n3,4\n", "line 2: the quote that opens a cell here is never closed");
  check_csv_refused("a,b\n1,\"2\"x\n", "line 2: behind the closing quote of a cell stands 'x'");
  check_csv_refused("a,b\n1,2\"x\n", "line 2: a quote within a cell that does not begin with one");
  check_csv_refused("a,a\n1,2\n", "two columns are called 'a'");
  check_csv_refused("a\n1\n\n1.5\n", "line 4: column 'a' is of type integer, but here stands '1.5'",
                    {.types = {{"a", CsvType::integer}}});
  check_csv_refused("a\nx\n", "of type number, but here stands 'x'", {.types = {{"a", CsvType::number}}});
  check_csv_refused("a\n1\n", "column 'b', which is not there", {.types = {{"b", CsvType::number}}});
  check_csv_refused("a\nx\xff\n", "line 2: the text in column 'a' is no UTF-8");
  check_csv_refused("a\n99999999999999999999\n", "of type integer", {.types = {{"a", CsvType::integer}}});
  // The whole file cut anywhere is an error or a shorter table, and never anything else.
  std::string whole = test::file_content("tests/golden/data/table.csv");
  for (size_t size = 0; size < whole.size(); ++size) {
    int64_t rows = 0;
    std::string message;
    try {
      rows = parse_csv(whole.substr(0, size)).rows;
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(rows <= 9);
    CHECK(
        (message.empty() || message.starts_with("line ") || (size == 0 && message.starts_with("there is no record"))));
  }
}

TEST_CASE("text files are UTF-8, and lines end in either way") {
  test::TemporaryFolder folder;
  const std::string path = folder / "text.txt";
  test::put_file(path,
                 "\xef\xbb\xbf"
                 "one\r\ntwo\n\nlast\r");
  CHECK(read_text(path) == "one\r\ntwo\n\nlast\r");
  CHECK(read_lines(path) == std::vector<std::string>{"one", "two", "", "last\r"});
  test::put_file(path, "fine\nbad \xff\n");
  CHECK_THROWS_WITH_AS(read_text(path), doctest::Contains("byte 9 (line 2) is no UTF-8"), Error);
}
