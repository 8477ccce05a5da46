// Any bytes as a GGUF file, and as what stands behind the beginning of one (else most inputs would fail by it): refused
// with an rlx::Error, or read; and what is read, told as JSON and read again is the same.
#include <cstdlib>

#include "rlx/blocks.h"
#include "rlx/gguf.h"

using namespace rlx;

namespace {

void read(std::span<const std::byte> bytes) {
  const auto file = GgufFile::read(bytes);
  for (const GgufFile::Entry& entry : file.entries()) {
    if (file.find(entry.name) != &entry) std::abort();
    const Tensor t = file.tensor(entry.name);
    if (t.byte_count() != entry.byte_count) std::abort();
    if (is_block(t.dtype()) && t.element_count() < 100'000) dequantized(t);
  }
  const std::string json = gguf_json(file.metadata());
  // Refused for two keys that are no UTF-8 and become one, and for arrays of different types in one.
  if (gguf_json(parse_gguf_json(json)) != json) std::abort();
  file.tensor("missing");
}

template <class F>
void expect_refusal(F f) {
  try {
    f();
  } catch (const Error& error) {
    if (*error.what() == '\0') std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  expect_refusal([&] { read(std::as_bytes(std::span(data, size))); });
  std::string whole("GGUF\3\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 24);  // one tensor, two values
  whole.append(reinterpret_cast<const char*>(data), size);
  expect_refusal([&] { read(std::as_bytes(std::span(whole))); });
  return 0;
}
