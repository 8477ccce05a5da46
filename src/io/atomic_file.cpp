// Files that appear complete; see the header.
#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "rlx/error.h"

namespace rlx {
namespace {

[[noreturn]] void refuse(const char* what, const std::string& path, int error) {
  fail(error == ENOENT || error == ENOTDIR ? ErrorCode::not_found : ErrorCode::io, "cannot ", what, " '", path,
       "': ", std::generic_category().message(error), "; nothing was changed");
}

std::string folder_of(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "./" : path.substr(0, slash + 1);
}

std::string follow_links(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (!resolved) return path;  // there is nothing yet
  std::string target = resolved;
  std::free(resolved);
  return target;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path, Links links)
    : path_(path), target_(links == Links::follow ? follow_links(path) : path) {
  const bool is_private = links == Links::replace;
  struct stat status {};
  bool exists = (is_private ? lstat(target_.c_str(), &status) : stat(target_.c_str(), &status)) == 0;
  if (exists && S_ISDIR(status.st_mode)) refuse("write", path, EISDIR);
  if (exists && !is_private && !S_ISREG(status.st_mode)) {
    // /dev/stdout and the like: replacing the device itself is the last thing anyone wants.
    fd_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) refuse("write", path, errno);
    return;
  }
  static std::atomic<unsigned> counter{0};
  do {
    temporary_ = text_of(folder_of(target_), ".rlx-", getpid(), "-", counter++, ".tmp");
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, is_private ? 0600 : 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) {
    int error = errno;
    temporary_.clear();
    refuse("create", path, error);
  }
  // The file that is replaced keeps its permissions; that they cannot be kept is no reason not to write.
  if (exists && !is_private && fchmod(fd_, status.st_mode & 07777) != 0) errno = 0;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB - 4 KiB at a time.
    ssize_t written = ::write(fd_, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse("write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit(Flush to_disk) {
  // Some file systems report a full disk only here.
  if (close(std::exchange(fd_, -1)) != 0) refuse("write", path_, errno);
  if (temporary_.empty()) return;
  if (to_disk == Flush::yes) {
    // Opened anew: a library that wrote by path may have put another file there.
    int fd = open(temporary_.c_str(), O_RDONLY | O_CLOEXEC);
    int error = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) close(fd);
    if (error) refuse("write", path_, error);
  }
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) refuse("replace", path_, errno);
  temporary_.clear();
  if (to_disk == Flush::no) return;
  // The new name is on the disk when its folder is. The content is safe either way, so a file system that
  // cannot sync folders is no error.
  int folder = open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
}

const std::string& AtomicFile::temporary_path() const {
  if (temporary_.empty()) fail(ErrorCode::io, "cannot write '", path_, "': this format needs a regular file; name one");
  return temporary_;
}

}  // namespace rlx
