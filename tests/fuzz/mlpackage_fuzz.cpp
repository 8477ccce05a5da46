// Any bytes as a model and as a file of weights: refused with an rlx::Error, or read; a model that is read is written,
// read again and written as the same.
#include <cstdlib>

#include "io/mil_codec.h"
#include "io/milblob.h"

using namespace rlx;

namespace {

void read_weights(std::span<const std::byte> bytes) {
  MilBlobFile file = MilBlobFile::read(bytes);
  for (const auto& entry : file.entries()) {
    Tensor t = file.tensor(entry.record, entry.dtype, {entry.count});
    unsigned sum = 0;
    for (std::byte b : t.bytes()) sum += std::to_integer<unsigned>(b);
    if (sum > 255 * t.byte_count()) std::abort();
  }
}

void read_model(std::span<const std::byte> bytes) {
  std::string written = mil::encode_model(mil::decode_model(bytes));
  if (mil::encode_model(mil::decode_model(std::as_bytes(std::span(written)))) != written) std::abort();
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
  auto bytes = std::as_bytes(std::span(data, size));
  expect_refusal([&] { read_weights(bytes); });
  expect_refusal([&] { read_model(bytes); });
  return 0;
}
