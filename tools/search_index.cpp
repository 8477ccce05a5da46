// See the header. The file is safetensors: "vectors" f32[n, width], "lines" u64[n, 2], two hashes of each line, and in
// the metadata "made_by", and "sum" of both tensors.
#include "tools/search_index.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/printable_text.h"
#include "io/cache_folder.h"
#include "rlx/io.h"
#include "rlx/version.h"

namespace rlx::tools {
namespace {

namespace fs = std::filesystem;
using LineHash = std::pair<uint64_t, uint64_t>;

/// Two hashes of different kinds: that both are equal for two lines of one text does not happen by chance.
LineHash hash_of(const std::string& line) {
  return {fnv1a(line), checksum(std::as_bytes(std::span(line.data(), line.size())))};
}

uintmax_t size_of(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

/// Checksums of what a file of the index holds: a bit that turned would be another score, without an error.
std::string sum_of(const Tensor& vectors, const Tensor& lines) {
  return hex_text(checksum(vectors.bytes())) + hex_text(checksum(lines.bytes()));
}

/// A checksum of the file, read piece by piece: whoever shortens a mapped file ends the process that reads it.
std::string sum_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> piece(size_t{1} << 20);
  std::string sums;
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0)
    sums += hex_text(checksum(std::as_bytes(std::span(piece.data(), static_cast<size_t>(in.gcount())))));
  return hex_text(fnv1a(sums));
}

void trim(const fs::path& folder, const fs::path& keep) {
  constexpr uintmax_t kMost = uintmax_t{1} << 30;
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> all;
  uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::string name = entry.path().filename().string();
        name.starts_with("search-") && name.ends_with(".safetensors")) {
      all.emplace_back(fs::last_write_time(entry.path(), error), entry.path());
      bytes += size_of(entry.path());
    }
  std::sort(all.begin(), all.end());
  for (const auto& [time, path] : all)
    if (bytes > kMost && path != keep) {
      bytes -= std::min(bytes, size_of(path));
      fs::remove(path, error);
    }
}

}  // namespace

void require_index_or_none(const std::string& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return;
  try {
    const auto opened = SafetensorsFile::open(file);
    const auto by = opened.metadata().find("made_by");
    if (by != opened.metadata().end() && by->second.starts_with("rlx ")) return;
  } catch (const Error&) {  // said below
  }
  fail(ErrorCode::io, "'", file,
       "' is no file of vectors of `rlx search`, and is not replaced; remove it, or name another by --index");
}

/// The files of a model's folder that its vectors may depend on: weights, and texts of the folder itself and of those
/// in it (1_Pooling/config.json). Whatever else lies there does no harm: the vectors are made again.
static std::vector<fs::path> files_of_model(const fs::path& folder) {
  constexpr size_t kMost = 1000;
  std::vector<fs::path> found;
  std::error_code error;
  const auto add = [&](const fs::path& at) {
    for (const auto& entry : fs::directory_iterator(at, error)) {
      const fs::path extension = entry.path().extension();
      const bool is_weights = at == folder && extension == ".safetensors";
      if ((is_weights || extension == ".json" || extension == ".txt") && entry.is_regular_file(error) &&
          found.size() < kMost)
        found.push_back(entry.path().lexically_relative(folder));
    }
  };
  add(folder);
  std::vector<fs::path> inner;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error)) inner.push_back(entry.path());
  for (const fs::path& each : inner) add(each);
  std::sort(found.begin(), found.end());
  return found;
}

std::string made_by_text(const std::string& model_folder, const std::string& setting) {
  std::string text = text_of("rlx ", version(), "; ", setting);
  for (const fs::path& name : files_of_model(model_folder))
    text += text_of("; ", name.string(), " ", sum_of(fs::path(model_folder) / name));
  return text;
}

std::string index_file_of(const std::string& corpus, const std::string& model_folder) {
  fs::path folder;
  if (const char* given = std::getenv("RLX_CACHE_DIR"); given && *given) folder = given;
  else if (const char* home = std::getenv("HOME"); home && *home) folder = fs::path(home) / ".cache/rlx";
  if (folder.empty()) return {};
  try {
    make_cache_folder(folder.string());
  } catch (const Error& error) {
    say("the vectors of '", corpus, "' are not kept: ", error.what());
    return {};
  }
  std::error_code error;
  const std::string name =
      fs::weakly_canonical(corpus, error).string() + "\n" + fs::weakly_canonical(model_folder, error).string();
  const fs::path path = folder / ("search-" + hex_text(fnv1a(name)) + ".safetensors");
  trim(folder, path);
  return path.string();
}

Tensor SearchIndex::vectors_of(const std::vector<std::string>& lines, int64_t width,
                               const std::function<Tensor(const std::vector<std::string>&)>& embed) const {
  std::vector<LineHash> hashes;
  for (const std::string& line : lines) hashes.push_back(hash_of(line));
  Tensor vectors(f32, {static_cast<int64_t>(lines.size()), width});
  const auto row_bytes = static_cast<size_t>(width) * sizeof(float);
  auto put = [&](size_t row, const std::byte* from) {
    std::memcpy(vectors.mutable_data() + row * row_bytes, from, row_bytes);
  };

  std::map<LineHash, size_t> kept;
  Tensor old;
  std::error_code error;
  if (!file_.empty() && fs::exists(file_, error)) try {
      const auto file = SafetensorsFile::open(file_);
      const auto by = file.metadata().find("made_by"), sum = file.metadata().find("sum");
      if (sum != file.metadata().end() && by != file.metadata().end() && by->second == made_by_ &&
          file.find("vectors") && file.find("lines")) {
        old = file.tensor("vectors");
        const Tensor names = file.tensor("lines");
        if (sum->second != sum_of(old, names))
          fail(ErrorCode::io, "it is damaged: its vectors do not have the checksum that they were written with");
        if (old.dtype() == f32 && old.rank() == 2 && old.shape()[1] == width && names.dtype() == u64 &&
            names.rank() == 2 && names.shape()[0] == old.shape()[0] && names.shape()[1] == 2)
          for (size_t i = 0; i < static_cast<size_t>(old.shape()[0]); ++i)
            kept.emplace(LineHash{names.values<uint64_t>()[2 * i], names.values<uint64_t>()[2 * i + 1]}, i);
      }
    } catch (const Error& damage) {
      say("the vectors in '", file_, "' are left aside and made again: ", damage.what());
      kept.clear();
    }

  std::vector<std::string> wanted;
  std::map<LineHash, size_t> places;  // among `wanted`: equal lines are embedded once
  for (size_t i = 0; i < lines.size(); ++i)
    if (!kept.contains(hashes[i]) && places.emplace(hashes[i], wanted.size()).second) wanted.push_back(lines[i]);
  const Tensor made = wanted.empty() ? Tensor(f32, {0, width}) : embed(wanted);
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto found = kept.find(hashes[i]);
    if (found != kept.end()) put(i, old.data() + found->second * row_bytes);
    else put(i, made.data() + places.at(hashes[i]) * row_bytes);
  }
  if (file_.empty() || wanted.empty()) return vectors;  // what is kept of lines that are gone does no harm
  Tensor names(u64, {static_cast<int64_t>(lines.size()), 2});
  auto to = names.mutable_values<uint64_t>();
  for (size_t i = 0; i < lines.size(); ++i) to[2 * i] = hashes[i].first, to[2 * i + 1] = hashes[i].second;
  try {
    write_safetensors(file_, {{"vectors", vectors}, {"lines", names}},
                      {{"made_by", made_by_}, {"sum", sum_of(vectors, names)}});
  } catch (const Error& failure) {  // the answer is there all the same
    say("the vectors are not kept: ", failure.what());
  }
  return vectors;
}

}  // namespace rlx::tools
