// See the header.
#include "tools/output_folder.h"

#include <filesystem>

#include "io/atomic_file.h"
#include "rlx/io.h"

namespace rlx::tools {
namespace {

namespace fs = std::filesystem;

/// The outermost folder of `path` that is not there yet; empty if all are.
fs::path first_missing(fs::path path) {
  std::error_code error;
  fs::path missing;
  for (; !path.empty() && !fs::exists(path, error); path = path.parent_path()) {
    missing = path;
    if (path == path.parent_path()) break;
  }
  return missing;
}

void require_file_name(const std::string& name) {
  // A graph is a file from anywhere: "../x" must not leave the folder.
  if (name.empty() || name == "." || name == ".." || name.size() > 200 || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos)
    fail(ErrorCode::invalid_argument, "output '", name,
         "' cannot name a file; write the outputs to one file instead: --output FILE.safetensors");
}

void require_numpy_dtype(const Signature::Entry& output) {
  DType t = output.type.dtype;
  constexpr DType kNumpy[] = {boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64, c64, c128};
  if (std::find(std::begin(kNumpy), std::end(kNumpy), t) == std::end(kNumpy))
    fail(ErrorCode::unsupported, "output '", output.name, "' is ", t,
         ", which NumPy does not have; write a safetensors file instead: --output FILE.safetensors");
}

}  // namespace

OutputFolder::OutputFolder(const std::string& path, const std::vector<Signature::Entry>& outputs) : path_(path) {
  for (const auto& output : outputs) {
    require_file_name(output.name);
    require_numpy_dtype(output);
    files_.push_back((fs::path(path) / (output.name + ".npy")).string());
  }
  fs::path missing = first_missing(path);
  std::error_code error;
  fs::create_directories(path, error);
  made_ = missing.string();
  try {
    if (error && !fs::is_directory(path))
      fail(ErrorCode::io, "cannot make the output folder '", path, "': ", error.message());
    for (const std::string& file : files_) AtomicFile probe(file);
  } catch (...) {
    remove_made();
    throw;
  }
}

OutputFolder::~OutputFolder() { remove_made(); }

void OutputFolder::remove_made() {
  std::error_code error;
  if (made_.empty()) return;
  // One by one, and only empty ones: somebody else may have put something there.
  for (fs::path path = path_; fs::remove(path, error) && path != made_;) path = path.parent_path();
}

void OutputFolder::write(const std::vector<Tensor>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    write_npy(files_[i], results[i]);
    made_.clear();
  }
}

}  // namespace rlx::tools
