// See the header.
#include "tools/text_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "rlx/error.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// Not mapped: a pipe and /dev/stdin are as good as a file.
std::string read_all(std::FILE* file, const std::string& name) {
  std::string text;
  std::array<char, 1 << 16> block;
  while (size_t got = std::fread(block.data(), 1, block.size(), file)) text.append(block.data(), got);
  if (std::ferror(file)) fail(ErrorCode::io, "cannot read ", name, ": ", std::generic_category().message(errno));
  return text;
}

}  // namespace

std::vector<std::string> read_lines(const std::string& path) {
  std::string text;
  if (path == "-") {
    text = read_all(stdin, "standard input");
  } else {
    std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
    if (!file)
      fail(errno == ENOENT || errno == ENOTDIR ? ErrorCode::not_found : ErrorCode::io, "cannot open '", path,
           "': ", std::generic_category().message(errno));
    text = read_all(file.get(), "'" + path + "'");
  }
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

Words::Words(CLI::App& app, const std::string& name, const std::string& description)
    : option_(app.add_option(name, bound_, description)) {
  // Without "extra" arguments CLI11 leaves brackets alone, and then takes as many words as are still expected: as
  // many as it can count to. (CLI11 2.1: Option::_add_result, App::_parse_positional.)
  constexpr int kMost = CLI::detail::expected_max_vector_size;
  option_->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->expected(kMost - 1, kMost);
  option_->option_text("...");
}

Sentences::Sentences(CLI::App& app)
    : words_(app, "SENTENCE", "sentences; - reads more of them from standard input, one a line; behind -- any text") {
  app.add_option("--file", file_, "a file with one sentence a line; empty lines are empty sentences")
      ->type_name("FILE");
}

std::vector<std::string> Sentences::read() const {
  if (!file_.empty() && !words_.empty()) throw UsageError("give sentences either in --file or as arguments, not both");
  if (!file_.empty()) return read_lines(file_);
  if (words_.empty()) {
    if (isatty(STDIN_FILENO) == 1)
      throw UsageError("no sentences: give --file FILE, sentences as arguments, or - for standard input");
    return read_lines("-");
  }
  std::vector<std::string> all;
  for (std::string& word : words_.all()) {
    if (word != "-") {
      all.push_back(std::move(word));
      continue;
    }
    for (std::string& line : read_lines("-")) all.push_back(std::move(line));
  }
  return all;
}

}  // namespace rlx::tools
