// A file of a format that would be larger than what reads it can take.
#pragma once

#include <cstdint>
#include <string_view>

#include "rlx/error.h"

namespace rlx {

/// Its code is ErrorCode::too_large.
class TooLarge : public Error {
 public:
  /// `what` is a noun: "model.mlmodel".
  TooLarge(std::string_view what, uint64_t has, uint64_t most);
  uint64_t bytes;  ///< that it would have
  uint64_t limit;  ///< the most that it may have
};

}  // namespace rlx
