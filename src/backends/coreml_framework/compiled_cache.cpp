// See the header.
#include "backends/coreml_framework/compiled_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "rlx/error.h"

namespace rlx::coreml_framework {
namespace {

namespace fs = std::filesystem;

/// FNV-1a, 64 bits, twice from different beginnings: 128 bits name a content.
struct Fingerprint {
  uint64_t a = 0xcbf29ce484222325, b = 0x9ae16a3b2f90404f;
  void add(const char* bytes, size_t count) {
    constexpr uint64_t kPrime = 0x100000001b3;
    for (size_t i = 0; i < count; ++i) {
      a = (a ^ static_cast<unsigned char>(bytes[i])) * kPrime;
      b = (b ^ static_cast<unsigned char>(bytes[i]) ^ (b >> 29)) * kPrime;
    }
  }
  void add(const std::string& text) {
    add(text.data(), text.size());
    add("\0", 1);
  }
  std::string hex() const {
    constexpr char kHex[] = "0123456789abcdef";
    std::string text;
    for (uint64_t half : {a, b})
      for (int shift = 60; shift >= 0; shift -= 4) text += kHex[(half >> shift) & 15];
    return text;
  }
};

uint64_t bytes_in(const fs::path& folder) {
  uint64_t sum = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error))
    if (entry.is_regular_file(error)) sum += entry.file_size(error);
  return sum;
}

}  // namespace

std::string content_key(const std::string& package, const std::string& system) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(package, error))
    if (entry.is_regular_file(error)) files.push_back(entry.path());
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

std::string CompiledCache::find_or_make(const std::string& key, const std::function<std::string()>& compile) const {
  fs::path entry = fs::path(folder) / (key + ".mlmodelc");
  std::error_code error;
  if (fs::is_directory(entry, error)) {
    fs::last_write_time(entry, fs::file_time_type::clock::now(), error);  // used now
    return entry.string();
  }
  fs::path made = compile();
  fs::create_directories(folder, error);
  if (error) fail(ErrorCode::io, "'", folder, "' for compiled models cannot be created: ", error.message());
  fs::rename(made, entry, error);
  if (error) {
    // Of another file system, or somebody was faster.
    static std::atomic<unsigned> counter{0};
    fs::path beside = fs::path(folder) / ("." + key + "-" + std::to_string(getpid()) + "-" + std::to_string(counter++));
    fs::copy(made, beside, fs::copy_options::recursive, error);
    if (error) fail(ErrorCode::io, "a compiled model cannot be kept in '", folder, "': ", error.message());
    fs::rename(beside, entry, error);
    if (error) fs::remove_all(beside, error);
    fs::remove_all(made, error);
  }
  trim(entry.filename().string());
  return entry.string();
}

void CompiledCache::trim(const std::string& keep) const {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  std::error_code error;
  uint64_t sum = 0;
  for (const auto& each : fs::directory_iterator(folder, error)) {
    if (each.path().extension() != ".mlmodelc") continue;
    entries.push_back({each.path(), each.last_write_time(error), bytes_in(each.path())});
    sum += entries.back().bytes;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& x, const Entry& y) { return x.used < y.used; });
  for (const Entry& e : entries) {
    if (sum <= most_bytes) return;
    if (e.path.filename() == keep) continue;
    fs::remove_all(e.path, error);
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
  fs::path base = home && *home ? fs::path(home) / caches : fs::temp_directory_path();
  cache.folder = (base / "rlx" / "coreml").string();
  return cache;
}

}  // namespace rlx::coreml_framework
