// Packages, written: what will stand where is decided first, so that a model that is too large is refused before
// anything is written, and its weights are never in memory a second time.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "io/atomic_file.h"
#include "io/mil_codec.h"
#include "io/mlpackage.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsName = "@model_path/weights/weight.bin";
constexpr size_t kLeastElements = 10;  // Apple's exporter leaves what is smaller in the model
constexpr int32_t kWiderBlobs = 9;     // the specification version from which integers of any size may be blobs
constexpr uint64_t kBlobByteLimit = (uint64_t{1} << 31) - 1;

bool goes_to_the_blobs(const Tensor& t, int32_t version) {
  if (t.element_count() < kLeastElements || !is_blob_dtype(t.dtype())) return false;
  return version >= kWiderBlobs || t.dtype() == f16 || t.dtype() == f32 || t.dtype() == i8 || t.dtype() == u8;
}

struct Laid {
  std::string model;
  MilBlobLayout blobs;
  MlPackageSizes sizes() const { return {model.size(), blobs.empty() ? 0 : blobs.byte_count()}; }
};

Laid lay_out(const mil::Model& model) {
  Laid laid;
  laid.model = mil::encode_model(model, [&](const Tensor& t) -> std::optional<mil::BlobRef> {
    if (!goes_to_the_blobs(t, model.specification_version)) return std::nullopt;
    if (t.byte_count() > kBlobByteLimit)
      throw TooLarge(text_of("a constant of type ", t.type()), t.byte_count(), kBlobByteLimit);
    return mil::BlobRef{kWeightsName, laid.blobs.add(t)};
  });
  if (laid.model.size() > mil::kModelByteLimit)
    throw TooLarge("model.mlmodel", laid.model.size(), mil::kModelByteLimit);
  return laid;
}

/// An identifier of the form that a manifest has, the same for the same content (RFC 9562, version 8: bits of our own).
std::string identifier(std::string_view what, const Laid& laid) {
  uint64_t halves[2];
  for (size_t i = 0; i < 2; ++i)
    halves[i] = mix(mix(std::hash<std::string_view>{}(laid.model), laid.blobs.hash()),
                    mix(std::hash<std::string_view>{}(what), i + 1)) *
                0x9e3779b97f4a7c15ull;
  halves[0] = (halves[0] & ~uint64_t{0xf000}) | 0x8000;
  halves[1] = (halves[1] & ~(uint64_t{3} << 62)) | (uint64_t{2} << 62);
  char text[37];
  std::snprintf(text, sizeof text, "%08X-%04X-%04X-%04X-%012llX", static_cast<unsigned>(halves[0] >> 32),
                static_cast<unsigned>(halves[0] >> 16 & 0xffff), static_cast<unsigned>(halves[0] & 0xffff),
                static_cast<unsigned>(halves[1] >> 48), static_cast<unsigned long long>(halves[1] & 0xffffffffffffull));
  return text;
}

std::string manifest_of(const Laid& laid) {
  auto item = [&](const std::string& id, std::string_view description, std::string_view name) {
    return text_of("        \"", id,
                   "\": {\n            \"author\": \"com.apple.CoreML\",\n            \"description\": \"", description,
                   "\",\n            \"name\": \"", name, "\",\n            \"path\": \"com.apple.CoreML/", name,
                   "\"\n        }");
  };
  std::string model = identifier("model", laid), weights = identifier("weights", laid), items;
  std::string model_item = item(model, "CoreML Model Specification", "model.mlmodel");
  if (laid.blobs.empty()) items = model_item;
  else items = model_item + ",\n" + item(weights, "CoreML Model Weights", "weights");
  return text_of("{\n    \"fileFormatVersion\": \"1.0.0\",\n    \"itemInfoEntries\": {\n", items,
                 "\n    },\n    \"rootModelIdentifier\": \"", model, "\"\n}\n");
}

[[noreturn]] void refuse(const char* what, const fs::path& path, int error) {
  fail(error == ENOENT || error == ENOTDIR ? ErrorCode::not_found : ErrorCode::io, "cannot ", what, " '", path.string(),
       "': ", std::generic_category().message(error), "; nothing was changed");
}

/// A folder beside the target, which goes unless it takes the target's name.
class FolderBeside {
 public:
  explicit FolderBeside(const fs::path& target) {
    static std::atomic<unsigned> counter{0};
    fs::path parent = target.parent_path().empty() ? fs::path(".") : target.parent_path();
    std::error_code error;
    do {
      path_ = parent / text_of(".rlx-", getpid(), "-", counter++, ".tmp");
    } while (!fs::create_directory(path_, error) && !error);
    if (error) refuse("create", path_, error.value());
  }
  ~FolderBeside() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  FolderBeside(const FolderBeside&) = delete;
  FolderBeside& operator=(const FolderBeside&) = delete;
  const fs::path& path() const { return path_; }

  /// Gives the folder its name. What had it is removed with this object.
  void take_name(const fs::path& target) {
    if (std::rename(path_.c_str(), target.c_str()) == 0) return;
    if (errno != ENOTEMPTY && errno != EEXIST) refuse("create", target, errno);
#ifdef RENAME_EXCHANGE
    if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return;
#endif
    // Without an exchange in one step the old package stands aside while the new one takes its name.
    fs::path aside = path_;
    aside += ".old";
    if (std::rename(target.c_str(), aside.c_str()) != 0) refuse("replace", target, errno);
    if (std::rename(path_.c_str(), target.c_str()) != 0) {
      int error = errno;
      std::rename(aside.c_str(), target.c_str());
      refuse("replace", target, error);
    }
    std::rename(aside.c_str(), path_.c_str());
  }

 private:
  fs::path path_;
};

void put(const fs::path& path, std::string_view content) {
  AtomicFile file(path.string());
  file.write(content);
  file.commit();
}

/// What stands at the target may be replaced: nothing, an empty folder, or a package, which has a manifest and data and
/// nothing else. Other programs have folders with a Manifest.json too, and those hold somebody's files.
void require_replaceable(const fs::path& target, const std::string& path) {
  std::error_code error;
  if (!fs::exists(target, error)) return;
  const auto leave_alone = [&](const auto&... why) {
    fail(ErrorCode::io, "there is a '", path, "' already that is no package", why...,
         "; it is not replaced: remove it, or choose another name");
  };
  if (!fs::is_directory(target, error))
    fail(ErrorCode::io, "'", path, "' is a file, and a package is a folder; it is not replaced: choose another name");
  if (fs::is_empty(target, error)) return;
  if (!fs::exists(target / "Manifest.json", error)) leave_alone();
  for (const fs::directory_entry& entry : fs::directory_iterator(target, error)) {
    const std::string name = entry.path().filename().string();
    if (name != "Manifest.json" && name != "Data" && name != ".DS_Store")
      leave_alone(" ('", name, "' is no part of one)");
  }
}

}  // namespace

MlPackageSizes check_model_size(const mil::Model& model) { return lay_out(model).sizes(); }

PackageInMemory::PackageInMemory(const mil::Model& model) {
  Laid laid = lay_out(model);
  model_ = mil::decode_model(std::as_bytes(std::span(laid.model)));
  blobs_ = std::move(laid.blobs);
}

Tensor PackageInMemory::tensor(const mil::Value& value) const {
  if (auto* tensor = std::get_if<Tensor>(&value.data)) return *tensor;
  auto* blob = std::get_if<mil::BlobRef>(&value.data);
  auto shape = value.type.shape();
  const Tensor* found = blob ? blobs_.find(blob->offset) : nullptr;
  if (!found || !shape || found->dtype() != mil::dtype_of(value.type.dtype))
    fail(ErrorCode::internal, "a literal of type ", value.type, " is no tensor of the model that it was made of");
  return found->shape() == *shape ? *found : found->reshaped(*shape);
}

MlPackageSizes write_mlpackage(const std::string& path, const mil::Model& model) {
  return with_context([&] { return "writing the Core ML package '" + path + "'"; },
                      [&] {
                        Laid laid = lay_out(model);
                        fs::path target(path);
                        if (target.filename().empty()) target = target.parent_path();  // "X.mlpackage/"
                        std::error_code error;
                        if (fs::is_symlink(target, error)) target = fs::weakly_canonical(target, error);
                        require_replaceable(target, path);
                        FolderBeside folder(target);
                        fs::path data = folder.path() / "Data" / "com.apple.CoreML";
                        fs::create_directories(laid.blobs.empty() ? data : data / "weights", error);
                        if (error) refuse("create", data, error.value());
                        if (!laid.blobs.empty()) {
                          AtomicFile file((data / "weights" / "weight.bin").string());
                          laid.blobs.write(file);
                          file.commit();
                        }
                        put(data / "model.mlmodel", laid.model);
                        put(folder.path() / "Manifest.json", manifest_of(laid));
                        folder.take_name(target);
                        return laid.sizes();
                      });
}

}  // namespace rlx
