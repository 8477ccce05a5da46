// .npz archives: zip files whose members are .npy files. libzip reads the archive; how much may come out of
// it is decided here, before anything is unpacked.
#include <zip.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "io/names_in_messages.h"
#include "io/npy_header.h"
#include "rlx/io.h"

namespace rlx {
namespace {

constexpr std::string_view kSuffix = ".npy";
// A bit of deflated data makes at most 258 bytes out of two: 1032 to 1, and a few for headers (RFC
// 1951, 3.2.5). A member that claims more lies, and need not be believed far enough to take the memory.
constexpr uint64_t kMostInflation = 1032;

struct ZipCloser {
  void operator()(zip_t* z) const { zip_discard(z); }
};
struct ZipFileCloser {
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};

struct Member {
  std::string name;  // without the suffix
  zip_uint64_t index;
  uint64_t byte_count;  // unpacked, the .npy header included
};

std::string message_of(zip_error_t& error) {
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

}  // namespace

struct NpzFile::Archive {
  std::string path;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  uint64_t byte_limit;
  std::vector<Member> members;  // sorted by name
  std::vector<std::string> names;
  mutable std::mutex mutex;  // libzip keeps its place in the archive
  std::unique_ptr<zip_t, ZipCloser> zip;

  // What is no larger than the file cannot fill the memory by surprise.
  uint64_t limit() const { return std::max<uint64_t>(byte_limit, bytes.size()); }
  void open();
  void list();
  const Member* find(std::string_view name) const;
  Type type(const Member&) const;
  Tensor read(const Member&) const;
  const Member& member(std::string_view name) const;
  std::unique_ptr<zip_file_t, ZipFileCloser> unpacker(const Member&) const;
};

void NpzFile::Archive::open() {
  // libzip takes no bytes at all for a new archive, which has no members yet.
  if (bytes.empty()) fail(ErrorCode::parse, "the file is empty; a .npz file is a zip archive: copy it again");
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source) zip.reset(zip_open_from_source(source, ZIP_RDONLY, &error));
  if (!zip) {
    if (source) zip_source_free(source);
    fail(ErrorCode::parse, "the ", bytes.size(), " bytes are no whole zip archive: ", message_of(error),
         "; the list of members stands at its end, so a cut file has none: copy it again");
  }
  zip_error_fini(&error);
}

void NpzFile::Archive::list() {
  auto count = static_cast<zip_uint64_t>(std::max<zip_int64_t>(0, zip_get_num_entries(zip.get(), 0)));
  for (zip_uint64_t i = 0; i < count; ++i) {
    zip_stat_t s;
    zip_stat_init(&s);
    if (zip_stat_index(zip.get(), i, 0, &s) != 0 || !(s.valid & ZIP_STAT_NAME))
      fail(ErrorCode::parse, "member ", i, " of the archive is damaged: ", zip_strerror(zip.get()));
    std::string_view name = s.name;
    if (!name.ends_with(kSuffix)) continue;
    name.remove_suffix(kSuffix.size());
    auto refuse = [&](const auto&... parts) {
      fail(ErrorCode::parse, "array ", quoted_name(name), " (member ", i, " of the archive) ", parts...);
    };
    constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((s.valid & kNeeded) != kNeeded) refuse("does not tell its size; the archive is damaged");
    if ((s.valid & ZIP_STAT_ENCRYPTION_METHOD) && s.encryption_method != ZIP_EM_NONE)
      refuse("is encrypted; NumPy does not write that: unpack the archive and pack it anew");
    if (s.comp_method != ZIP_CM_STORE && s.comp_method != ZIP_CM_DEFLATE)
      refuse("is packed by method ", s.comp_method, "; np.savez stores (0) and np.savez_compressed deflates (8)");
    if (s.comp_size > bytes.size())
      refuse("claims ", s.comp_size, " packed bytes, but the whole file has ", bytes.size());
    if (s.size > (s.comp_method == ZIP_CM_STORE ? s.comp_size : (s.comp_size + 1) * kMostInflation))
      refuse("claims to unpack from ", s.comp_size, " bytes to ", s.size,
             ", which is impossible; the archive is damaged");
    members.push_back({std::string(name), i, s.size});
    names.push_back(members.back().name);
  }
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.name < b.name; });
  auto twice = std::adjacent_find(members.begin(), members.end(),
                                  [](const Member& a, const Member& b) { return a.name == b.name; });
  if (twice != members.end()) fail(ErrorCode::parse, "the archive has array ", quoted_name(twice->name), " twice");
}

const Member* NpzFile::Archive::find(std::string_view name) const {
  auto at = std::lower_bound(members.begin(), members.end(), name,
                             [](const Member& m, std::string_view wanted) { return m.name < wanted; });
  return at != members.end() && at->name == name ? &*at : nullptr;
}

const Member& NpzFile::Archive::member(std::string_view name) const {
  const Member* found = find(name);
  if (!found)
    fail(ErrorCode::not_found, "'", path, "' has no array ", quoted_name(name), " among its ", names.size(),
         nearest_names(name, {names.begin(), names.end()}));
  return *found;
}

std::unique_ptr<zip_file_t, ZipFileCloser> NpzFile::Archive::unpacker(const Member& member) const {
  std::unique_ptr<zip_file_t, ZipFileCloser> file(zip_fopen_index(zip.get(), member.index, 0));
  if (!file)
    fail(ErrorCode::parse, "the member cannot be opened: ", zip_strerror(zip.get()), "; the archive is damaged");
  return file;
}

Type NpzFile::Archive::type(const Member& member) const {
  return with_context([&] { return "reading the beginning of " + quoted_name(member.name) + " of '" + path + "'"; },
                      [&] {
                        std::vector<std::byte> first(std::min<uint64_t>(member.byte_count, kMostNpyStart));
                        std::lock_guard lock(mutex);
                        auto file = unpacker(member);
                        for (size_t done = 0; done < first.size();) {
                          const zip_int64_t got = zip_fread(file.get(), first.data() + done, first.size() - done);
                          if (got <= 0)
                            fail(ErrorCode::parse, "the data break off at byte ", done, " of ", member.byte_count, ": ",
                                 zip_file_strerror(file.get()), "; the archive is damaged: copy it again");
                          done += static_cast<size_t>(got);
                        }
                        return parse_npy_start(first, member.byte_count).type();
                      });
}

Tensor NpzFile::Archive::read(const Member& member) const {
  if (member.byte_count > limit())
    fail(ErrorCode::out_of_memory, "array ", quoted_name(member.name), " of '", path, "' would unpack to ",
         member.byte_count, " bytes, more than the limit of ", limit(),
         "; if that is meant, give NpzFile::open a higher limit (the program: rlx --npz-limit BYTES)");
  Tensor unpacked = Tensor::uninitialized(u8, {static_cast<int64_t>(member.byte_count)});
  with_context([&] { return "unpacking " + quoted_name(member.name) + " of '" + path + "'"; },
               [&] {
                 std::lock_guard lock(mutex);
                 auto file = unpacker(member);
                 std::byte* data = unpacked.mutable_data();
                 uint64_t done = 0;
                 // One byte more than there should be: reading the end is what makes libzip compare the
                 // checksum.
                 for (std::byte extra{};;) {
                   bool full = done == member.byte_count;
                   zip_int64_t got =
                       zip_fread(file.get(), full ? &extra : data + done, full ? 1 : member.byte_count - done);
                   if (got < 0)
                     fail(ErrorCode::parse, "the data break off at byte ", done, " of ", member.byte_count, ": ",
                          zip_file_strerror(file.get()), "; the archive is damaged: copy it again");
                   if (got == 0 && full) break;
                   if (got == 0 || full)
                     fail(ErrorCode::parse, "the archive tells of ", member.byte_count, " bytes, but there are ",
                          full ? "more" : "fewer");
                   done += static_cast<uint64_t>(got);
                 }
               });
  return parse_npy(unpacked.bytes(), unpacked.owner(), member.name + ".npy' in '" + path);
}

NpzFile NpzFile::open(const std::string& path, std::optional<uint64_t> byte_limit) {
  auto file = FileBytes::read(path);
  return read(file->bytes(), file, path, byte_limit);
}

NpzFile NpzFile::read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string name,
                      std::optional<uint64_t> byte_limit) {
  auto archive = std::make_shared<Archive>();
  archive->path = std::move(name);
  archive->bytes = bytes;
  archive->owner = std::move(owner);
  archive->byte_limit = byte_limit.value_or(std::max<uint64_t>(kNpzByteLimit, bytes.size() * kNpzInflationLimit));
  with_context([&] { return "reading the .npz file '" + archive->path + "'"; },
               [&] {
                 archive->open();
                 archive->list();
               });
  return NpzFile(std::move(archive));
}

const std::vector<std::string>& NpzFile::names() const { return archive_->names; }
bool NpzFile::contains(std::string_view name) const { return archive_->find(name) != nullptr; }

Tensor NpzFile::array(std::string_view name) const { return archive_->read(archive_->member(name)); }
Type NpzFile::type(std::string_view name) const { return archive_->type(archive_->member(name)); }

NamedTensors NpzFile::arrays() const {
  uint64_t total = 0;
  for (const Member& member : archive_->members)
    // Members may share their packed bytes, so that many, each within the limit, come from a small file.
    if (__builtin_add_overflow(total, member.byte_count, &total) || total > archive_->limit())
      fail(ErrorCode::out_of_memory, "the arrays of '", archive_->path,
           "' would unpack to more bytes than the limit of ", archive_->limit(),
           "; read them one by one, or give NpzFile::open a higher limit (the program: rlx --npz-limit BYTES)");
  NamedTensors all;
  for (const Member& member : archive_->members) all.emplace(member.name, archive_->read(member));
  return all;
}

}  // namespace rlx
