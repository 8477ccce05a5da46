// Any bytes as a .npy file, and as the dictionary in one: refused with an rlx::Error, or read; and what is
// read, written and read again is the same.
#include <cstdlib>

#include "io/npy_header.h"
#include "rlx/io.h"

using namespace rlx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    Tensor t = parse_npy(std::as_bytes(std::span(data, size)));
    std::string file = npy_header_text(t.dtype(), t.shape());
    file.append(reinterpret_cast<const char*>(t.data()), t.byte_count());
    Tensor again = parse_npy(std::as_bytes(std::span(file)));
    if (!(again == t)) std::abort();
  } catch (const Error& error) {
    if (*error.what() == '\0') std::abort();
  }
  try {
    NpyHeader header = parse_npy_header({reinterpret_cast<const char*>(data), size}, 10);
    std::string text = npy_header_text(header.dtype, header.shape);
    if (text.size() % 64 != 0) std::abort();
    if (parse_npy_header(std::string_view(text).substr(10), 10).shape != header.shape) std::abort();
  } catch (const Error& error) {
    if (*error.what() == '\0') std::abort();
  }
  return 0;
}
