// Any bytes as the GGUF file of a language model that becomes a folder, and, where they hold two NULs in a row, as a
// folder that becomes a GGUF file: config.json, tokenizer.json and model.safetensors, parted by them. Each is refused
// with an rlx::Error, or what comes of it is read again.
#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "rlx/language_model.h"

using namespace rlx;

namespace {

/// A folder that is there while the process is, in memory where the system has a place for it.
const std::string& work_folder() {
  static const struct Folder {
    std::string path;
    Folder() {
      std::error_code error;
      const bool has_memory = std::filesystem::is_directory("/dev/shm", error);
      path = (has_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/rlx_gguf_model_fuzz_" +
             std::to_string(getpid());
      std::filesystem::create_directories(path + "/in");
    }
    ~Folder() {
      std::error_code error;
      std::filesystem::remove_all(path, error);
    }
  } folder;
  return folder.path;
}

void put(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

template <class F>
void expect_refusal(F f) {
  try {
    f();
  } catch (const Error& error) {
    if (*error.what() == '\0') std::abort();
  }
}

void to_folder(std::string_view bytes) {
  const std::string file = work_folder() + "/m.gguf", folder = work_folder() + "/out";
  put(file, bytes);
  for (const std::optional<DType> dequantize : {std::optional<DType>(), std::optional<DType>(f32)})
    expect_refusal([&] {
      std::filesystem::remove_all(folder);
      write_folder_model(folder, folder_model_of_gguf(file, {.dequantize = dequantize}), bytes.size() / 3);
      // What was written is a folder of that model.
      if (gguf_model_of_folder(folder).tensors.empty()) std::abort();
    });
}

void to_gguf(std::string_view config, std::string_view tokenizer, std::string_view weights) {
  const std::string folder = work_folder() + "/in", file = work_folder() + "/made.gguf";
  put(folder + "/config.json", config);
  put(folder + "/tokenizer.json", tokenizer);
  put(folder + "/model.safetensors", weights);
  expect_refusal([&] {
    GgufModel model = gguf_model_of_folder(folder, {.dequantize = f32});
    write_gguf_model(file, model);
    if (GgufFile::open(file).entries().size() != model.tensors.size()) std::abort();
    quantize_matrices(model, q8_0);
    write_gguf_model(file, model);
    dequantize_blocks(model, bf16);
    write_gguf_model(file, model);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size), two("\0\0", 2);
  const size_t first = bytes.starts_with("{") ? bytes.find(two) : bytes.npos;
  if (first == bytes.npos) {
    to_folder(bytes);
    return 0;
  }
  const size_t second = std::min(bytes.find(two, first + 2), size);
  to_gguf(bytes.substr(0, first), bytes.substr(first + 2, second - std::min(second, first + 2)),
          bytes.substr(std::min(size, second + 2)));
  return 0;
}
