// Any bytes as a safetensors file, and as the header of one (else most inputs would fail by the header's
// length): refused with an rlx::Error, or read; and what is read, written and read again is the same.
#include <cstdlib>

#include "io/safetensors_header.h"

using namespace rlx;

namespace {

void read(std::span<const std::byte> bytes) {
  auto file = SafetensorsFile::read(bytes);
  SafetensorsHeader header{{}, file.metadata()};
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    if (file.find(entry.name) != &entry) std::abort();
    uint64_t begin = header.tensors.empty() ? 0 : header.tensors.back().end;
    header.tensors.push_back({entry.name, entry.dtype, entry.shape, begin, begin + entry.byte_count});
  }
  std::string text = safetensors_header_text(header);
  if (safetensors_header_text(parse_safetensors_header(text)) != text) std::abort();
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    Tensor t = file.tensor(entry.name);
    for (std::byte b : t.bytes())
      if (t.dtype() == boolean && b > std::byte{1}) std::abort();
  }
  file.tensor("missing");
  std::abort();
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
  std::string whole;
  for (int i = 0; i < 8; ++i) whole += static_cast<char>(size >> (8 * i));
  whole.append(reinterpret_cast<const char*>(data), size);
  expect_refusal([&] { read(std::as_bytes(std::span(whole))); });
  return 0;
}
