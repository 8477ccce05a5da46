// Any bytes as a file of packed weights: refused with an rlx::Error, or every piece lies in the file, a page of it
// behind each.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "backends/cpu/packed_file.h"
#include "rlx/error.h"

using namespace rlx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path =
      (std::filesystem::temp_directory_path() / text_of("rlx-packed-fuzz-", getpid(), ".packed")).string();
  if (std::FILE* file = std::fopen(path.c_str(), "wb")) {
    if (size > 0 && std::fwrite(data, 1, size, file) != size) std::abort();
    std::fclose(file);
  }
  try {
    const auto file = cpu::PackedFile::open(path, "x", 1);
    unsigned sum = 0;
    for (const auto& [name, bytes] : file->pieces()) {
      if (reinterpret_cast<uintptr_t>(bytes.data()) % 64 != 0) std::abort();
      for (size_t i = 0; i < bytes.size() + 4096; ++i) sum += std::to_integer<unsigned>(bytes.data()[i]);
      if (file->find(name).size() != bytes.size()) std::abort();
    }
    if (!file->find("missing").empty() && !file->pieces().contains("missing")) std::abort();
    volatile unsigned read = sum;
    static_cast<void>(read);
  } catch (const Error& error) {
    if (*error.what() == '\0') std::abort();
  }
  std::filesystem::remove(path);
  return 0;
}
