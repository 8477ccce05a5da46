// See the header.
#include "io/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <vector>

#include "rlx/error.h"

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

[[noreturn]] void refuse_entry(const char* what, const std::string& path, int error) {
  fail(ErrorCode::io, "cannot ", what, " '", path, "': ", std::generic_category().message(error));
}
void require_own(const std::string& path, const struct stat& status) {
  if (status.st_uid != geteuid())
    fail(ErrorCode::io, "'", path, "' belongs to user ", status.st_uid, ", and this process runs as user ", geteuid(),
         "; name a folder of your own");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    fail(ErrorCode::io, "others than its owner may write to '", path, "'; chmod go-w it if what it holds is yours");
}
void require_own_folder(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) refuse_entry("look at", folder, errno);
  if (!S_ISDIR(status.st_mode)) refuse_entry("keep anything in", folder, ENOTDIR);
  require_own(folder, status);
}
std::string holder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// What an AtomicFile writes to before it has its name.
bool is_temporary(const std::string& name) { return name.starts_with(".rlx-") && name.ends_with(".tmp"); }

}  // namespace

void make_cache_folder(const std::string& folder) {
  const std::string path = fs::path(folder) / "";  // with a slash behind it, whatever was given
  const std::string parent = holder_of(holder_of(path));
  std::error_code error;
  fs::create_directories(parent, error);
  if (error) fail(ErrorCode::io, "cannot make the folder '", parent, "': ", error.message());
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) refuse_entry("make the folder", folder, errno);
  require_own_folder(path);
}

void require_own_entry(const std::string& path) {
  require_own_folder(holder_of(path));
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) refuse_entry("look at", path, errno);
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::io, "'", path, "' is ", S_ISLNK(status.st_mode) ? "a link" : "no file");
  require_own(path, status);
}

void mark_as_used(const std::string& path) noexcept { utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW); }

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
    const std::string name = each->path().filename().string(), key = key_of(name);
    if (is_temporary(name) && each->is_regular_file(gone) &&
        each->last_write_time(gone) < fs::file_time_type::clock::now() - std::chrono::hours(1) && !gone)
      fs::remove(each->path(), gone);
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
