// Makes tokenizers from files and text; the formats are read in tokenizer_json.cpp, vocabulary_file.cpp,
// gguf_tokenizer.cpp and tiktoken.cpp.
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "io/tokenizer/gguf_tokenizer.h"
#include "io/tokenizer/parts.h"
#include "io/tokenizer/tiktoken.h"
#include "io/tokenizer/tokenizer_json.h"
#include "rlx/error.h"
#include "rlx/tokenizer.h"

namespace rlx {
namespace {

constexpr uintmax_t kMaxFileBytes = uintmax_t{1} << 28;  // the largest known tokenizer.json have some 30 MB

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  uintmax_t size = std::filesystem::file_size(path, error);
  if (error) fail(ErrorCode::io, "cannot read '", path.string(), "': ", error.message());
  if (size > kMaxFileBytes)
    fail(ErrorCode::unsupported, "'", path.string(), "' has ", size, " bytes; a tokenizer's file may have ",
         kMaxFileBytes);
  std::string text(static_cast<size_t>(size), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    fail(ErrorCode::io, "cannot read '", path.string(), "': it is not readable, or shorter than its ", size, " bytes");
  return text;
}

Tokenizer load_file(const std::filesystem::path& path, const std::filesystem::path& config) {
  // Of a model of gigabytes only what stands before the data is read.
  if (path.extension() == ".gguf") return Tokenizer::from_gguf(GgufFile::open(path.string()).metadata());
  if (path.extension() != ".txt") return Tokenizer::from_json(read_file(path));
  VocabularyFileOptions options;
  std::error_code error;
  if (std::filesystem::exists(config, error))
    options = with_context([&] { return "loading '" + config.string() + "'"; },
                           [&] { return tokenizer::vocabulary_file_options(read_file(config)); });
  return Tokenizer::from_vocabulary(read_file(path), options);
}

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view json) { return Tokenizer(tokenizer::parts_from_json(json)); }

Tokenizer Tokenizer::from_vocabulary(std::string_view lines, const VocabularyFileOptions& options) {
  return Tokenizer(tokenizer::parts_from_vocabulary(lines, options));
}

Tokenizer Tokenizer::from_gguf(const GgufMetadata& metadata) { return Tokenizer(tokenizer::parts_from_gguf(metadata)); }

Tokenizer Tokenizer::from_tiktoken(std::string_view ranks, std::string_view pattern,
                                   const std::vector<std::pair<std::string, int32_t>>& special_tokens) {
  return Tokenizer(tokenizer::parts_from_tiktoken(ranks, pattern, special_tokens));
}

Tokenizer Tokenizer::load(const std::string& path) {
  std::error_code error;
  std::filesystem::path file = path;
  if (!std::filesystem::exists(file, error)) fail(ErrorCode::not_found, "there is no file or folder '", path, "'");
  std::filesystem::path folder = file.parent_path();
  if (std::filesystem::is_directory(file, error)) {
    folder = file;
    file = folder / "tokenizer.json";
    if (!std::filesystem::exists(file, error)) file = folder / "vocab.txt";
    if (!std::filesystem::exists(file, error))
      fail(ErrorCode::not_found, "the folder '", path, "' has neither a tokenizer.json nor a vocab.txt");
  }
  return with_context([&] { return "loading '" + file.string() + "'"; },
                      [&] { return load_file(file, folder / "tokenizer_config.json"); });
}

}  // namespace rlx
