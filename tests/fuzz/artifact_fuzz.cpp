// Any bytes as a compiled graph in a file, or, if they begin as one, as what such a file says of itself, with the right
// checksum: refused with an rlx::Error, or read whole; and its program, whoever wrote it, is one that the device takes,
// or refused too.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "backends/registry.h"
#include "base/hash.h"
#include "rlx/error.h"
#include "runtime/artifact.h"

using namespace rlx;

namespace {

/// What `read` does is done, or is an error that says something and is not ours.
template <class Read>
void refused_or_read(Read read) {
  try {
    read();
  } catch (const Error& error) {
    if (*error.what() == '\0' || error.code() == ErrorCode::internal) std::abort();
  }
}

Tensor padded(std::string text) {
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return Tensor::of<uint8_t>({static_cast<int64_t>(text.size())}, bytes);
}
/// A file that says `about` of itself and has two pieces: a graph, and 32 elements of f32.
void write_around(const std::string& path, std::string_view about) {
  const std::string graph =
      "rlx 1\ngraph @g {\n  %0 = input() @\"x\" : f32[2]\n  %1 = exp(%0) : f32[2]\n  return %1 @\"y\"\n}\n";
  const Tensor text = padded(std::string(about));
  Tensor numbers(u8, {128});
  write_safetensors(path, {{"about", text}, {"0", padded(graph)}, {"1", numbers}},
                    {{"rlx", "compiled graph 1"}, {"sum", hex_text(checksum(text.bytes()))}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string path =
      (std::filesystem::temp_directory_path() / text_of("rlx-artifact-fuzz-", getpid(), ".rlxc")).string();
  if (size > 0 && data[0] == '{') {
    write_around(path, {reinterpret_cast<const char*>(data), size});
  } else if (std::FILE* file = std::fopen(path.c_str(), "wb")) {
    if (size > 0 && std::fwrite(data, 1, size, file) != size) std::abort();
    std::fclose(file);
  }
  is_artifact(path);
  refused_or_read([&] {
    if (artifact_info(path).json().empty()) std::abort();
  });
  refused_or_read([&] {
    const Artifact artifact = read_artifact(path);
    const auto backend = backend_of(Device::cpu());
    refused_or_read([&] { artifact.source_graph(); });
    refused_or_read([&] { require_same_target(artifact.info, *backend); });
    refused_or_read([&] { backend->read(artifact.program); });
  });
  std::filesystem::remove(path);
  return 0;
}
