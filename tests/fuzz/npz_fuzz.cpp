// Any bytes as a .npz archive, with a limit on what may come out of it.
#include <cstdlib>

#include "rlx/io.h"

using namespace rlx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kLimit = 1 << 22;
  try {
    auto file = NpzFile::read(std::as_bytes(std::span(data, size)), nullptr, "x.npz", kLimit);
    for (const std::string& name : file.names()) {
      if (!file.contains(name)) std::abort();
      try {
        if (file.array(name).byte_count() > std::max<uint64_t>(kLimit, size)) std::abort();
      } catch (const Error&) {  // one array may be damaged and the next one whole
      }
    }
    file.arrays();
  } catch (const Error& error) {
    if (*error.what() == '\0') std::abort();
  }
  return 0;
}
