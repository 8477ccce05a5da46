// How many bytes the arrays of a .npz archive may unpack to: `rlx --npz-limit BYTES`, for all subcommands that read
// one.
#pragma once

#include <cstdint>
#include <optional>

namespace rlx::tools {

/// Nothing: the limit of NpzFile.
inline std::optional<uint64_t> npz_limit;

}  // namespace rlx::tools
