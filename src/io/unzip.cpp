// See the header. libzip reads the archive and checks the sums of its members.
#include "io/unzip.h"

#include <sys/stat.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <vector>

#include "io/names_in_messages.h"
#include "rlx/error.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kAlwaysAllowed = uint64_t{1} << 30, kMostGrowth = 32;
constexpr zip_uint64_t kMostMembers = 100'000;

struct ZipDiscard {
  void operator()(zip_t* zip) const { zip_discard(zip); }
};
struct ZipFileClose {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

/// The path below the folder. Fails for a name that leads out of it.
fs::path path_of_member(const std::string& name) {
  const fs::path path(name);
  bool leaves = name.empty() || !path.is_relative() || name.find('\\') != std::string::npos;
  for (const fs::path& part : path) leaves |= part == "..";
  if (leaves)
    fail(ErrorCode::parse, "its member ", quoted_name(name), " leads out of the archive; it was made to do harm");
  return path;
}

bool is_link(zip_t* zip, zip_uint64_t index) {
  zip_uint8_t system = 0;
  zip_uint32_t attributes = 0;
  if (zip_file_get_external_attributes(zip, index, 0, &system, &attributes) != 0) return false;
  return system == ZIP_OPSYS_UNIX && S_ISLNK(static_cast<mode_t>(attributes >> 16));
}

[[noreturn]] void refuse_size(uint64_t most) {
  fail(ErrorCode::out_of_memory, "the archive would unpack to more than the ", most,
       " bytes that are left for it; unpack it yourself if that is meant");
}

/// Fails if the members say of themselves that they are more: before anything is written. What they do not say, or say
/// wrongly, is counted as it is unpacked.
void require_said_sizes(zip_t* zip, zip_uint64_t count, uint64_t most) {
  uint64_t sum = 0;
  for (zip_uint64_t i = 0; i < count; ++i) {
    zip_stat_t about;
    if (zip_stat_index(zip, i, 0, &about) != 0 || !(about.valid & ZIP_STAT_SIZE)) continue;
    if (__builtin_add_overflow(sum, about.size, &sum) || sum > most) refuse_size(most);
  }
}

/// Gives the number of bytes.
uint64_t write_member(zip_t* zip, zip_uint64_t index, const fs::path& to, uint64_t most) {
  const std::unique_ptr<zip_file_t, ZipFileClose> from(zip_fopen_index(zip, index, 0));
  if (!from) fail(ErrorCode::parse, "it cannot be opened: ", zip_strerror(zip));
  std::ofstream out(to, std::ios::binary);
  std::vector<char> part(size_t{1} << 20);
  uint64_t written = 0;
  while (true) {
    const zip_int64_t got = zip_fread(from.get(), part.data(), part.size());
    if (got < 0) fail(ErrorCode::parse, zip_file_strerror(from.get()), "; the archive is damaged: copy it again");
    if (got == 0) break;
    written += static_cast<uint64_t>(got);
    if (written > most) refuse_size(most);
    out.write(part.data(), got);
  }
  out.close();
  if (!out) fail(ErrorCode::io, "the system does not write '", to.string(), "'; is the disk full?");
  return written;
}

}  // namespace

bool is_zip(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, 4> first{};
  return in.read(first.data(), first.size()) && std::string_view(first.data(), first.size()) == "PK\x03\x04";
}

void unzip(const std::string& path, const std::string& folder) {
  with_context([&] { return "unpacking the archive '" + path + "'"; },
               [&] {
                 int code = 0;
                 const std::unique_ptr<zip_t, ZipDiscard> zip(zip_open(path.c_str(), ZIP_RDONLY, &code));
                 if (!zip) {
                   zip_error_t error;
                   zip_error_init_with_code(&error, code);
                   const std::string why = zip_error_strerror(&error);
                   zip_error_fini(&error);
                   fail(ErrorCode::parse, "it is no whole zip archive: ", why, "; copy it again");
                 }
                 std::error_code failed;
                 const uint64_t size = fs::file_size(path, failed);
                 uint64_t left = std::max(kAlwaysAllowed, failed ? 0 : size * kMostGrowth);
                 const auto count =
                     static_cast<zip_uint64_t>(std::max<zip_int64_t>(0, zip_get_num_entries(zip.get(), 0)));
                 if (count > kMostMembers)
                   fail(ErrorCode::parse, "it has ", count, " members; more than ", kMostMembers, " are no model");
                 require_said_sizes(zip.get(), count, left);
                 std::set<fs::path> seen;
                 for (zip_uint64_t i = 0; i < count; ++i) {
                   const char* name = zip_get_name(zip.get(), i, 0);
                   if (!name) fail(ErrorCode::parse, "its member ", i, " is damaged: ", zip_strerror(zip.get()));
                   const fs::path relative = path_of_member(name);
                   const fs::path to = fs::path(folder) / relative;
                   if (is_link(zip.get(), i))
                     fail(ErrorCode::parse, "its member ", quoted_name(name), " is a link, which no package has");
                   const bool is_folder = std::string_view(name).ends_with('/');
                   fs::create_directories(is_folder ? to : to.parent_path(), failed);
                   if (failed)
                     fail(ErrorCode::io, "cannot make the folder of ", quoted_name(name), ": ", failed.message());
                   if (is_folder) continue;
                   if (!seen.insert(relative.lexically_normal()).second)
                     fail(ErrorCode::parse, "it has the member ", quoted_name(name), " twice; it is damaged");
                   with_context([&] { return "unpacking " + quoted_name(name); },
                                [&] { left -= write_member(zip.get(), i, to, left); });
                 }
               });
}

}  // namespace rlx
