// Files in memory, copied or mapped, and the list of them by which a tensor finds the one that it borrows from.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/magic.h>
#include <sys/vfs.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "base/large_pages.h"
#include "io/file_stamp.h"

namespace rlx {
namespace {

// Live mappings by their first byte. A tensor keeps its owner as a pointer to void, which cannot be asked
// whether it is a mapping; and advice on memory that is none would erase it: MADV_DONTNEED fills anonymous
// pages with zeros.
struct Mapping {
  const FileBytes* file = nullptr;
  FileStamp stamp = {};
  bool is_settled = false;
};
struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, Mapping> by_begin;

  /// The mapping that the bytes lie in; null if they lie in none. The mutex is held.
  const Mapping* find(std::span<const std::byte> wanted) const {
    auto after = by_begin.upper_bound(wanted.data());
    if (after == by_begin.begin()) return nullptr;
    const Mapping& mapping = std::prev(after)->second;
    std::span<const std::byte> bytes = mapping.file->bytes();
    return wanted.data() + wanted.size() > bytes.data() + bytes.size() ? nullptr : &mapping;
  }
};
Mappings& mappings() {
  static auto* all = new Mappings;  // never destroyed: static tensors may outlive any other static
  return *all;
}

#if defined(__APPLE__)
constexpr auto kModified = &stat::st_mtimespec, kChanged = &stat::st_ctimespec;
#else
constexpr auto kModified = &stat::st_mtim, kChanged = &stat::st_ctim;
#endif
int64_t nanoseconds(const timespec& t) { return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; }

FileStamp stamp_of(const struct stat& s) {
  return {static_cast<uint64_t>(s.st_dev), static_cast<uint64_t>(s.st_ino), static_cast<uint64_t>(s.st_size),
          nanoseconds(s.*kModified), nanoseconds(s.*kChanged)};
}
bool is_settled(const FileStamp& stamp) {
  // Most file systems stamp by ticks of 10 ms and less; who leaves no part of a second may have ticks of one or two.
  constexpr int64_t kSecond_ns = 1'000'000'000, kTicks_ns = 200'000'000, kSlowTicks_ns = 2'100'000'000;
  const bool is_whole = stamp.changed_ns % kSecond_ns == 0;
  timespec now{};
  return clock_gettime(CLOCK_REALTIME, &now) == 0 &&
         nanoseconds(now) - stamp.changed_ns >= (is_whole ? kSlowTicks_ns : kTicks_ns);
}

struct OpenFile {
  int fd;
  explicit OpenFile(int opened) : fd(opened) {}
  ~OpenFile() {
    if (fd >= 0) close(fd);
  }
  OpenFile(OpenFile&& from) noexcept : fd(std::exchange(from.fd, -1)) {}
  OpenFile& operator=(OpenFile&&) = delete;
};

/// Whether pages that were flushed are protected, so that the next store through a mapping faults and stamps the file.
/// Of an overlay it is taken that its layers are of this kind.
bool stamps_stores([[maybe_unused]] int fd) {
#if defined(__linux__)
  struct statfs system {};
  if (fstatfs(fd, &system) != 0) return false;
  constexpr uint32_t kSuch[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
                                OVERLAYFS_SUPER_MAGIC};
  return std::find(std::begin(kSuch), std::end(kSuch), static_cast<uint32_t>(system.f_type)) != std::end(kSuch);
#else
  return false;
#endif
}

[[noreturn]] void refuse(const std::string& path, int error) {
  fail(error == ENOENT || error == ENOTDIR ? ErrorCode::not_found : ErrorCode::io, "cannot open '", path,
       "': ", std::generic_category().message(error), "; check the path and its permissions");
}

}  // namespace

struct FileBytes::Source {
  Source(OpenFile opened, const FileStamp& as_opened) : file(std::move(opened)), stamp(as_opened) {}
  OpenFile file;
  FileStamp stamp;
  std::mutex mutex;
  std::set<std::pair<size_t, size_t>> loaded;  // begin and end
};

FileBytes::FileBytes(std::string path, std::span<const std::byte> bytes, std::unique_ptr<Source> source)
    : path_(std::move(path)), bytes_(bytes), source_(std::move(source)) {
  if (bytes_.empty()) return;
  std::lock_guard lock(mappings().mutex);
  mappings().by_begin[bytes_.data()].file = this;
}

FileBytes::~FileBytes() {
  if (bytes_.empty()) return;
  {
    std::lock_guard lock(mappings().mutex);
    mappings().by_begin.erase(bytes_.data());
  }
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::shared_ptr<const FileBytes> FileBytes::open_as(const std::string& path, bool is_mapping) {
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever. It changes nothing for regular
  // files.
  OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) refuse(path, errno);
  struct stat status {};
  if (fstat(file.fd, &status) != 0) refuse(path, errno);
  if (!S_ISREG(status.st_mode))
    fail(ErrorCode::io, "cannot read '", path, "': it is ", S_ISDIR(status.st_mode) ? "a directory" : "no regular file",
         "; name a file");
  const FileStamp stamp = stamp_of(status);
  auto size = static_cast<size_t>(status.st_size);
  std::span<const std::byte> bytes;
  if (size > 0) {  // a mapping of 0 bytes is an error for the system, not for us
    // Memory for a copy is taken from the system when it is written to.
    void* begin = is_mapping
                      ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0)
                      : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED)
      fail(is_mapping ? ErrorCode::io : ErrorCode::out_of_memory, "there is no room for the ", size, " bytes of '",
           path, "': ", std::generic_category().message(errno));
    bytes = {static_cast<const std::byte*>(begin), size};
    if (!is_mapping) prefer_large_pages(begin, size);
  }
  std::unique_ptr<Source> source;
  if (!is_mapping) source = std::make_unique<Source>(std::move(file), stamp);
  std::shared_ptr<const FileBytes> opened(new FileBytes(path, bytes, std::move(source)));
  if (!bytes.empty()) {
    std::lock_guard lock(mappings().mutex);
    Mapping& mapping = mappings().by_begin[bytes.data()];
    mapping.stamp = stamp, mapping.is_settled = is_settled(mapping.stamp);
  }
  return opened;
}

std::shared_ptr<const FileBytes> FileBytes::open(const std::string& path) { return open_as(path, false); }
std::shared_ptr<const FileBytes> FileBytes::map(const std::string& path) { return open_as(path, true); }
std::shared_ptr<const FileBytes> FileBytes::read(const std::string& path) {
  auto file = open(path);
  file->load(0, file->bytes().size());
  return file;
}

void FileBytes::load(size_t offset, size_t byte_count) const {
  if (!source_ || byte_count == 0) return;
  if (offset > bytes_.size() || byte_count > bytes_.size() - offset)
    fail(ErrorCode::invalid_argument, "bytes ", offset, " to ", offset + byte_count, " are no part of the ",
         bytes_.size(), " of '", path_, "'");
  std::lock_guard lock(source_->mutex);
  const std::pair part(offset, offset + byte_count);
  if (source_->loaded.contains(part)) return;
  size_t at = part.first;
  while (at < part.second) {
    const ssize_t got =
        pread(source_->file.fd, const_cast<std::byte*>(bytes_.data()) + at, part.second - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::io, "cannot read '", path_, "': ", std::generic_category().message(errno));
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  // Names and permissions may change meanwhile, which the third time tells of; content may not.
  struct stat status {};
  if (fstat(source_->file.fd, &status) != 0) refuse(path_, errno);
  const FileStamp now = stamp_of(status), &then = source_->stamp;
  if (at < part.second || now.size != then.size || now.modified_ns != then.modified_ns)
    fail(ErrorCode::io, "'", path_, "' was changed while it was read: it had ", then.size, " bytes and now has ",
         now.size, "; read it again when it is complete, and replace files by renaming others");
  source_->loaded.insert(part);
}

bool FileBytes::is_as_loaded() const {
  if (!source_) return true;
  std::lock_guard lock(source_->mutex);
  std::vector<std::byte> block(size_t{1} << 20);
  for (auto [at, end] : source_->loaded)
    while (at < end) {
      const ssize_t got =
          pread(source_->file.fd, block.data(), std::min(block.size(), end - at), static_cast<off_t>(at));
      if (got <= 0 || std::memcmp(block.data(), bytes_.data() + at, static_cast<size_t>(got)) != 0) return false;
      at += static_cast<size_t>(got);
    }
  return true;
}

void FileBytes::release(std::span<const std::byte> range) const {
  if (range.empty() || source_) return;
  uintptr_t begin = reinterpret_cast<uintptr_t>(range.data()), base = reinterpret_cast<uintptr_t>(bytes_.data());
  if (begin < base || range.size() > bytes_.size() || begin - base > bytes_.size() - range.size())
    fail(ErrorCode::invalid_argument, "the range to release does not lie in the mapping of '", path_, "'");
  // Pages that the range shares with its neighbours go too: they come back from the file when those are read,
  // and when neighbours are released one after the other no page between them stays.
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t first = (begin - base) / page * page, end = begin - base + range.size();
  // Only advice: if the system cannot take it (pages locked in memory), nothing but memory is lost.
  madvise(const_cast<std::byte*>(bytes_.data()) + first, end - first, MADV_DONTNEED);
}

bool release_pages(const Tensor& tensor) {
  std::lock_guard lock(mappings().mutex);
  const Mapping* mapping = mappings().find(tensor.place());
  if (!mapping || mapping->file->is_copy()) return false;
  mapping->file->release(tensor.place());
  return true;
}

std::optional<FileOrigin> file_origin(std::span<const std::byte> bytes) {
  std::lock_guard lock(mappings().mutex);
  const Mapping* mapping = mappings().find(bytes);
  if (!mapping) return std::nullopt;
  return FileOrigin{mapping->stamp, static_cast<size_t>(bytes.data() - mapping->file->bytes().data()),
                    mapping->is_settled, mapping->file->path()};
}

std::optional<FileStamp> flushed_stamp(const std::string& path) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.fd < 0 || !stamps_stores(file.fd) || fsync(file.fd) != 0 || fstat(file.fd, &status) != 0)
    return std::nullopt;
  return stamp_of(status);
}

bool equals_copies(const std::string& path, const FileStamp& stamp) {
  std::lock_guard lock(mappings().mutex);
  for (const auto& [begin, mapping] : mappings().by_begin)
    if (mapping.file->is_copy() && mapping.file->path() == path && mapping.stamp == stamp &&
        !mapping.file->is_as_loaded())
      return false;
  return true;
}

std::string system_start() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");  // Linux
  std::string id;
  std::getline(in, id);
  return id;
}

void load_pages([[maybe_unused]] const FileBytes& file) noexcept {
#if defined(MADV_POPULATE_READ)
  // Linux 5.14 and later. If it cannot be done, the pages come one by one.
  madvise(const_cast<std::byte*>(file.bytes().data()), file.bytes().size(), MADV_POPULATE_READ);
#endif
}

}  // namespace rlx
