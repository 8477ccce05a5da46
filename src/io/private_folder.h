// A folder in the system's place for temporary files that nobody else reads, and that does not stay.
#pragma once

#include <string>

namespace rlx {

/// A folder that only this user may enter, and that goes with the object. What ended without removing its folder
/// (SIGKILL, a crash) leaves it: the next one of the same prefix removes it.
class PrivateFolder {
 public:
  explicit PrivateFolder(const std::string& prefix);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;  // the folder, locked for as long as it is in use: the system unlocks it when the process ends
};

}  // namespace rlx
