// See the header.
#include "io/cache_folder.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

namespace rlx {
namespace {

namespace fs = std::filesystem;

/// "cpu-native-eager-0123456789abcdef" of a name that begins so; else empty.
std::string key_of(const std::string& name) {
  constexpr size_t kDigits = 16;
  for (const char* mode : {"-eager-", "-lazy-", "-aot-"}) {
    const size_t at = name.find(mode);
    if (at == std::string::npos) continue;
    const size_t begin = at + std::string_view(mode).size();
    const std::string digits = name.substr(begin, kDigits);
    const bool ends = name.size() > begin + kDigits && (name[begin + kDigits] == '.' || name[begin + kDigits] == '-');
    if (ends && digits.find_first_not_of("0123456789abcdef") == std::string::npos)
      return name.substr(0, begin + kDigits);
  }
  return "";
}

struct Entry {
  std::vector<fs::path> files;
  uint64_t bytes = 0;
  fs::file_time_type used = fs::file_time_type::min();
};

}  // namespace

void mark_as_used(const std::string& path) noexcept {
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
}

uint64_t cache_limit_bytes() {
  constexpr uint64_t kMiB = uint64_t{1} << 20, kDefault = 4096, kMost = uint64_t{1} << 40;
  uint64_t given = kDefault;
  if (const char* text = std::getenv("RLX_CACHE_MIB"); text && *text) {
    const std::string_view view = text;
    auto [end, code] = std::from_chars(view.data(), view.data() + view.size(), given);
    if (code != std::errc{} || end != view.data() + view.size()) given = kDefault;
  }
  return std::min(given, kMost) * kMiB;
}

void trim_cache_folder(const std::string& folder, const std::string& keep) {
  std::map<std::string, Entry> entries;
  uint64_t sum = 0;
  std::error_code error;
  fs::directory_iterator each(folder, error), end;
  for (; !error && each != end; each.increment(error)) {
    std::error_code gone;  // another process may be removing it
    const std::string key = key_of(each->path().filename().string());
    if (key.empty() || !each->is_regular_file(gone)) continue;
    const uint64_t bytes = each->file_size(gone);
    const auto used = each->last_write_time(gone);
    if (gone) continue;
    Entry& entry = entries[key];
    entry.files.push_back(each->path());
    entry.bytes += bytes, sum += bytes, entry.used = std::max(entry.used, used);
  }
  entries.erase(key_of(fs::path(keep).filename().string()));
  std::vector<const Entry*> oldest_first;
  for (const auto& [key, entry] : entries) oldest_first.push_back(&entry);
  std::stable_sort(oldest_first.begin(), oldest_first.end(),
                   [](const Entry* a, const Entry* b) { return a->used < b->used; });
  const uint64_t limit = cache_limit_bytes();
  for (const Entry* entry : oldest_first) {
    if (sum <= limit) return;
    std::error_code ignored;
    for (const fs::path& file : entry->files) fs::remove(file, ignored);
    sum -= entry->bytes;
  }
}

}  // namespace rlx
