// See the header.
#include "io/private_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "rlx/error.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

/// The folder, locked; -1 if it is no folder of this user's, or somebody else has it locked. A lock says more than a
/// number of a process, which another one may have by now, or which counts in another container.
int locked_folder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat opened {
  }, named{};
  const bool is_ours = fstat(fd, &opened) == 0 && opened.st_uid == geteuid() && (opened.st_mode & 07777) == 0700 &&
                       flock(fd, LOCK_EX | LOCK_NB) == 0 && lstat(path.c_str(), &named) == 0 &&
                       named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
  if (is_ours) return fd;
  close(fd);
  return -1;
}

/// Whether mkdtemp() makes such names of the prefix: only these may be removed.
bool is_made_of(const std::string& prefix, const std::string& name) {
  constexpr size_t kDrawn = 6;
  return name.size() == prefix.size() + kDrawn && name.starts_with(prefix) &&
         std::all_of(name.end() - kDrawn, name.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
}

void remove_left(const fs::path& base, const std::string& prefix) {
  std::error_code error;
  for (fs::directory_iterator at(base, error), end; !error && at != end; at.increment(error)) {
    if (!is_made_of(prefix, at->path().filename().string())) continue;
    const int left = locked_folder(at->path().string());
    if (left < 0) continue;
    std::error_code ignored;
    fs::remove_all(at->path(), ignored);
    close(left);
  }
}

}  // namespace

PrivateFolder::PrivateFolder(const std::string& prefix) {
  std::error_code error;
  const fs::path base = fs::temp_directory_path(error);
  if (error) fail(ErrorCode::io, "there is no folder for temporary files: ", error.message(), "; set TMPDIR to one");
  remove_left(base, prefix);
  // Another process may take a folder that is not locked yet for one that was left: then there is another one.
  for (int attempts = 0; lock_ < 0; ++attempts) {
    if (attempts == 16)
      fail(ErrorCode::io, "no folder in '", base.string(),
           "' can be locked; set TMPDIR to one of a file system with locks");
    path_ = (base / (prefix + "XXXXXX")).string();
    if (!mkdtemp(path_.data()))
      fail(ErrorCode::io, "cannot create a folder in '", base.string(), "': ", std::generic_category().message(errno),
           "; set TMPDIR to one that may be written to");
    lock_ = locked_folder(path_);
    if (lock_ < 0) fs::remove_all(path_, error);
  }
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace rlx
