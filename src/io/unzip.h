// A zip archive, unpacked into a folder.
#pragma once

#include <string>

namespace rlx {

/// Whether the file begins as a zip archive does.
bool is_zip(const std::string& path);

/// Writes the files of the archive below `folder`, which is empty. Fails for names that lead out of it, for links, for
/// what is encrypted or damaged, and where everything together would have more than 1 GiB and more than 32 times the
/// archive.
void unzip(const std::string& path, const std::string& folder);

}  // namespace rlx
