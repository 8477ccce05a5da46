// Names of the error codes.
#include "rlx/error.h"

namespace rlx {

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid argument";
    case ErrorCode::shape_mismatch: return "shape mismatch";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::parse: return "parse error";
    case ErrorCode::not_found: return "not found";
    case ErrorCode::io: return "input/output error";
    case ErrorCode::out_of_memory: return "out of memory";
    case ErrorCode::internal: return "internal error";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::device_lost: return "device lost";
    case ErrorCode::too_large: return "too large";
  }
  return "unknown error";
}

}  // namespace rlx
