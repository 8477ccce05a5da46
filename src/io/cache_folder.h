// The folder of compiled graphs and packed weights, which must not grow for ever. An entry is all files that begin with
// one key (ExecutionConfig::cache_key); other files are nobody's business here.
#pragma once

#include <cstdint>
#include <string>

namespace rlx {

constexpr char kPackedSuffix[] = ".packed", kCheckedSuffix[] = ".checked";

/// Makes it the latest one. Nothing happens if it cannot be done.
void mark_as_used(const std::string& path) noexcept;

/// Bytes that entries may take together: RLX_CACHE_MIB in MiB, else 4 GiB.
uint64_t cache_limit_bytes();
/// Removes the files of entries, those first that were used the longest ago, until the rest is within the limit. Those
/// of the entry that `keep` belongs to stay.
void trim_cache_folder(const std::string& folder, const std::string& keep);

}  // namespace rlx
