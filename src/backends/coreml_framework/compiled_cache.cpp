// See the header.
#include "backends/coreml_framework/compiled_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/hash.h"
#include "io/cache_folder.h"
#include "rlx/error.h"

namespace rlx::coreml_framework {
namespace {

namespace fs = std::filesystem;

/// FNV-1a twice, the second time of each byte's complement from another beginning: 128 bits name a content.
struct Fingerprint {
  Fnv1a a, b{0x9ae16a3b2f90404f};
  void add(const char* bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) a.add(bytes[i]), b.add(static_cast<char>(~bytes[i]));
  }
  void add(const std::string& text) {
    add(text.data(), text.size());
    add("\0", 1);
  }
  std::string hex() const { return hex_text(a.hash) + hex_text(b.hash); }
};

/// Files below the folder; `error` says why the walk ended early.
std::vector<fs::path> files_in(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> files;
  fs::recursive_directory_iterator each(folder, error), end;
  while (!error && each != end) {
    std::error_code unreadable;
    if (each->is_regular_file(unreadable)) files.push_back(each->path());
    each.increment(error);
  }
  return files;
}

uint64_t bytes_in(const fs::path& folder) {
  uint64_t sum = 0;
  std::error_code error;
  for (const fs::path& file : files_in(folder, error)) {
    std::error_code gone;  // somebody else may be removing it
    uintmax_t size = fs::file_size(file, gone);
    if (!gone) sum += size;
  }
  return sum;
}

constexpr char kAside[] = ".aside-";

/// A name in the cache that nobody else has, and that is no entry.
fs::path name_aside(const fs::path& folder, const std::string& key) {
  static std::atomic<unsigned> counter{0};
  return folder / text_of(kAside, key, "-", getpid(), "-", counter++);
}

/// Moves a folder, or copies it where the two places are of different file systems; beside its name first.
bool moved(const fs::path& from, const fs::path& to, const fs::path& beside) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return true;
  if (!fs::is_directory(to, error)) {
    fs::copy(from, beside, fs::copy_options::recursive, error);
    if (!error) fs::rename(beside, to, error);
    std::error_code ignored;
    fs::remove_all(beside, ignored);
  }
  if (!fs::is_directory(to, error)) return false;
  fs::remove_all(from, error);  // copied, or somebody was faster
  return true;
}

}  // namespace

std::string content_key(const std::string& package, const std::string& system) {
  std::error_code error;
  std::vector<fs::path> files = files_in(package, error);
  if (error) fail(ErrorCode::io, "the files of '", package, "' cannot be listed: ", error.message());
  if (files.empty()) fail(ErrorCode::not_found, "'", package, "' is no package: it holds no files");
  std::sort(files.begin(), files.end());
  Fingerprint key;
  key.add(system);
  std::vector<char> buffer(1 << 20);
  for (const fs::path& file : files) {
    key.add(file.lexically_relative(package).generic_string());
    std::ifstream in(file, std::ios::binary);
    uint64_t size = 0;
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
      key.add(buffer.data(), static_cast<size_t>(in.gcount()));
      size += static_cast<uint64_t>(in.gcount());
    }
    if (!in.eof()) fail(ErrorCode::io, "'", file.string(), "' cannot be read");
    key.add(std::to_string(size));
  }
  return key.hex();
}

CompiledModel CompiledCache::find_or_make(const std::string& key, const std::function<std::string()>& compile) const {
  // What somebody else may have put there is not loaded.
  try {
    make_cache_folder(folder);
  } catch (const Error&) {
    return {compile(), false};
  }
  fs::path entry = fs::path(folder) / (key + ".mlmodelc");
  std::error_code error;
  if (fs::is_directory(entry, error)) {
    fs::last_write_time(entry, fs::file_time_type::clock::now(), error);  // used now
    return {entry.string()};
  }
  std::string made = compile();
  if (!moved(made, entry, name_aside(folder, key))) return {made, false};
  trim(entry.filename().string());
  return {entry.string()};
}

void CompiledCache::trim(const std::string& keep) const {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  std::error_code error, ignored;
  uint64_t sum = 0;
  auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::directory_iterator each(folder, error), end;
  for (; !error && each != end; each.increment(error)) {
    std::error_code gone;
    auto used = each->last_write_time(gone);
    if (gone) continue;
    // What a process left behind that ended in the middle of it.
    if (each->path().filename().string().starts_with(kAside) && used < old) fs::remove_all(each->path(), ignored);
    if (each->path().extension() != ".mlmodelc") continue;
    entries.push_back({each->path(), used, bytes_in(each->path())});
    sum += entries.back().bytes;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& x, const Entry& y) { return x.used < y.used; });
  for (const Entry& e : entries) {
    if (sum <= most_bytes) return;
    if (e.path.filename() == keep) continue;
    fs::path aside = name_aside(folder, e.path.stem().string());
    std::error_code failed;
    fs::rename(e.path, aside, failed);
    if (failed) continue;
    fs::remove_all(aside, ignored);
    sum -= e.bytes;
  }
}

CompiledCache default_cache() {
  CompiledCache cache;
  if (const char* folder = std::getenv("RLX_COREML_CACHE"); folder && *folder) return cache.folder = folder, cache;
  const char* home = std::getenv("HOME");
#ifdef __APPLE__
  const char* caches = "Library/Caches";
#else
  const char* caches = ".cache";
#endif
  std::error_code error;
  // In the folder for temporary files anybody may make a folder, and what lies in theirs can be renamed by them.
  cache.folder = home && *home ? (fs::path(home) / caches / "rlx" / "coreml").string()
                               : (fs::temp_directory_path(error) / text_of("rlx-coreml-", geteuid())).string();
  return cache;
}

}  // namespace rlx::coreml_framework
