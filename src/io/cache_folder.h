// The folder of compiled graphs and packed weights, which must not grow for ever. An entry is all files that begin with
// one key (ExecutionConfig::cache_key); other files are nobody's business here.
#pragma once

#include <cstdint>
#include <string>

namespace rlx {

constexpr char kPackedSuffix[] = ".packed", kCheckedSuffix[] = ".checked";

/// Makes the folder, for the user alone. Fails unless it, be it new or not, is the user's and no other can write to it:
/// so all names in it are ours.
void make_cache_folder(const std::string& folder);
/// Fails unless it is a file, no link, in such a folder, is the user's, and no other can write to it.
void require_own_entry(const std::string& path);

/// Makes it the latest one. Nothing happens if it cannot be done, or if it is a link.
void mark_as_used(const std::string& path) noexcept;

/// Bytes that entries may take together: RLX_CACHE_MIB in MiB, else 4 GiB.
uint64_t cache_limit_bytes();
/// Removes the files of entries, those first that were used the longest ago, until the rest is within the limit. Those
/// of the entry that `keep` belongs to stay. What processes that were killed left half written goes after an hour.
void trim_cache_folder(const std::string& folder, const std::string& keep);

}  // namespace rlx
