// Any bytes as an IDX file: refused with an rlx::Error, or read into no more memory than the file has.
#include <cstdlib>

#include "rlx/data.h"

using namespace rlx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    Tensor t = parse_idx(std::as_bytes(std::span(data, size)));
    if (t.byte_count() > size) std::abort();
  } catch (const Error& error) {
    if (*error.what() == '\0') std::abort();
  }
  return 0;
}
