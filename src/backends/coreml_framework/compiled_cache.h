// Compiled models, kept: Core ML compiles a package to an .mlmodelc folder, which takes seconds. One is kept for each
// content that was compiled, by a key of every byte of the package and of the system that compiled it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace rlx::coreml_framework {

/// A key of the files of a package, by their names and bytes, and of `system` (the version of the system). The same for
/// equal packages, wherever they stand.
std::string content_key(const std::string& package, const std::string& system);

/// A compiled model: a folder.
struct CompiledModel {
  std::string path;
  /// Whether it stands in the cache. One that could not be kept there stands where it was compiled, and is to be
  /// removed by whoever loaded it.
  bool kept = true;
};

struct CompiledCache {
  std::string folder;                ///< is created when it is needed
  uint64_t most_bytes = 4ull << 30;  ///< beyond which the entries that were used longest ago go
  /// The compiled model for that key: the one that is there, or what `compile` makes, which returns the path of a
  /// folder that is moved into the cache. Two that compile the same leave one. A cache that cannot be written to, or to
  /// which others than this user may write, costs the next one a compilation, and fails nobody.
  CompiledModel find_or_make(const std::string& key, const std::function<std::string()>& compile) const;
  /// Removes entries, those used longest ago first, until `most_bytes` hold the rest; never `keep`. An entry is renamed
  /// before it is removed, so that nobody finds a part of one.
  void trim(const std::string& keep) const;
};
/// $RLX_COREML_CACHE, or rlx/coreml in the user's folder of caches, or without HOME one of the user in that of
/// temporary files.
CompiledCache default_cache();

}  // namespace rlx::coreml_framework
