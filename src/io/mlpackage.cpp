// Packages, read; see the header.
#include "io/mlpackage.h"

#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "io/json_tree.h"
#include "io/mil_codec.h"
#include "io/names_in_messages.h"
#include "io/private_folder.h"
#include "io/unzip.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

// A manifest names a handful of items; one of Apple's has 600 bytes.
constexpr size_t kManifestByteLimit = size_t{1} << 20;
constexpr std::string_view kModelPath = "@model_path/";

/// `base` / `relative`, which must lie below `root` by its text and with all links followed.
fs::path inside(const fs::path& root, const fs::path& base, const std::string& relative) {
  fs::path wanted(relative);
  bool leaves = relative.empty() || relative.find('\0') != std::string::npos || !wanted.is_relative();
  for (const fs::path& part : wanted) leaves |= part == "..";
  if (!leaves) {
    std::error_code error;
    fs::path real = fs::weakly_canonical(base / wanted, error);
    if (error) fail(ErrorCode::io, "cannot follow the path ", quoted_name(relative), ": ", error.message());
    fs::path real_root = fs::canonical(root, error);
    if (error) fail(ErrorCode::io, "the package ", quoted_name(root.string()), " is gone: ", error.message());
    fs::path from_root = real.lexically_relative(real_root);
    leaves = from_root.empty() || *from_root.begin() == "..";
  }
  if (leaves)
    fail(ErrorCode::parse, "the path ", quoted_name(relative),
         " leads out of the package; it is damaged, or was made to do harm");
  return base / wanted;
}

JsonTree parse_manifest(const fs::path& path) {
  auto file = FileBytes::read(path.string());
  if (file->bytes().size() > kManifestByteLimit)
    fail(ErrorCode::parse, "the manifest has ", file->bytes().size(), " bytes; more than ", kManifestByteLimit,
         " are no manifest");
  JsonTree manifest = json_or_null({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  if (!manifest.is_object()) fail(ErrorCode::parse, "the manifest is no JSON object; it is cut or damaged");
  return manifest;
}

/// The path of the item that is the root, relative to Data/.
std::string root_item(const JsonTree& manifest) {
  auto text = [](const JsonTree& object, const char* key, std::string_view whose) -> std::string {
    const JsonTree* found = object.find(key);
    if (!found || !found->is_string()) fail(ErrorCode::parse, whose, " has no \"", key, "\"; the package is damaged");
    return found->string();
  };
  std::string version = text(manifest, "fileFormatVersion", "the manifest");
  if (!version.starts_with("1."))
    fail(ErrorCode::unsupported, "the package is of format version ", quoted_name(version),
         "; version 1 is known here");
  std::string root = text(manifest, "rootModelIdentifier", "the manifest");
  const JsonTree* items = manifest.find("itemInfoEntries");
  if (!items || !items->is_object())
    fail(ErrorCode::parse, "the manifest has no \"itemInfoEntries\"; the package is damaged");
  const JsonTree* item = items->find(root);
  if (!item || !item->is_object())
    fail(ErrorCode::parse, "the manifest lists no item ", quoted_name(root),
         ", which it calls its model; the package is damaged");
  return text(*item, "path", "the manifest's item of the model");
}

bool has_extension(const fs::path& path, std::string_view extension) {
  const fs::path name = path.has_filename() ? path : path.parent_path();  // "x.mlmodelc/"
  return name.extension() == extension;
}

/// The one model of any form below the folder of an unpacked archive.
fs::path model_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::recursive_directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    const fs::path& path = each->path();
    const bool is_folder = each->is_directory(error);
    const bool is_package = is_folder && fs::exists(path / "Manifest.json", error);
    const bool is_model = is_folder ? is_package || has_extension(path, ".mlmodelc") : has_extension(path, ".mlmodel");
    if (is_model) found.push_back(path);
    if (is_folder && (is_model || path.filename() == "__MACOSX")) each.disable_recursion_pending();
  }
  if (found.empty() && fs::exists(folder / "Manifest.json", error)) return folder;
  if (found.empty()) fail(ErrorCode::parse, "the archive holds no .mlpackage, .mlmodel or .mlmodelc");
  if (found.size() > 1) {
    std::string all;
    for (const fs::path& path : found)
      all += (all.empty() ? "" : ", ") + quoted_name(path.lexically_relative(folder).string());
    fail(ErrorCode::invalid_argument, "the archive holds ", found.size(), " models (", all,
         "); unpack it and name one");
  }
  return found.front();
}

/// An .mlmodelc, which a system's Core ML has made of a model for itself, cannot be read back.
void refuse_compiled(const fs::path& path) {
  std::error_code error;
  if (!has_extension(path, ".mlmodelc") && !fs::exists(path / "coremldata.bin", error)) return;
  fail(ErrorCode::unsupported, quoted_name(path.filename().string()),
       " is a compiled model, which Core ML made of an .mlpackage or .mlmodel for itself and which nothing converts "
       "back; load what it was made of: in an app's sources it stands under the same name");
}

}  // namespace

TooLarge::TooLarge(std::string_view what, uint64_t has, uint64_t most)
    : Error(ErrorCode::too_large,
            text_of(what, " would have ", has, " bytes, and Core ML takes at most ", most, "; nothing was written")),
      bytes(has), limit(most) {}

struct MlPackage::Contents {
  std::string path;
  std::optional<PrivateFolder> unpacked;  // of a zipped package
  fs::path root, folder;                  // of the package, and of model.mlmodel
  mil::Model model;
  uint64_t model_bytes = 0;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const MilBlobFile>> weights;  // those that were asked for
};

MlPackage MlPackage::open(const std::string& path) {
  return with_context(
      [&] { return "reading the Core ML package '" + path + "'"; },
      [&] {
        MlPackage package;
        package.contents_ = std::make_shared<Contents>();
        Contents& c = *package.contents_;
        c.path = path;
        std::error_code error;
        if (!fs::exists(path, error)) fail(ErrorCode::not_found, "'", path, "' does not exist; check the path");
        const bool is_zipped = !fs::is_directory(path, error) && is_zip(path);
        if (is_zipped) {
          c.unpacked.emplace("rlx-unzipped-");
          unzip(path, c.unpacked->path());
        }
        const fs::path found = is_zipped ? model_in(c.unpacked->path()) : fs::path(path);
        refuse_compiled(found);
        const bool is_package = fs::is_directory(found, error);
        c.root = is_package ? found : fs::absolute(found).parent_path();
        const fs::path model =
            is_package ? inside(c.root, c.root / "Data", root_item(parse_manifest(c.root / "Manifest.json"))) : found;
        c.folder = is_package ? model.parent_path() : c.root;
        auto file = FileBytes::read(model.string());
        c.model_bytes = file->bytes().size();
        c.model = mil::decode_model(file->bytes());
        return package;
      });
}

const std::string& MlPackage::path() const { return contents_->path; }
const mil::Model& MlPackage::model() const { return contents_->model; }
uint64_t MlPackage::model_bytes() const { return contents_->model_bytes; }

const MilBlobFile& MlPackage::weights(const std::string& name) const {
  Contents& c = *contents_;
  std::lock_guard lock(c.mutex);
  std::shared_ptr<const MilBlobFile>& file = c.weights[name];
  if (!file) {
    if (!name.starts_with(kModelPath))
      fail(ErrorCode::parse, "the model has data in ", quoted_name(name), "; such names begin with ", kModelPath,
           "; it is damaged");
    fs::path path = inside(c.root, c.folder, name.substr(kModelPath.size()));
    file = std::make_shared<MilBlobFile>(MilBlobFile::open(path.string()));
  }
  return *file;
}

Tensor MlPackage::tensor(const mil::Value& value) const {
  if (auto* tensor = std::get_if<Tensor>(&value.data)) return *tensor;
  auto* blob = std::get_if<mil::BlobRef>(&value.data);
  if (!blob) fail(ErrorCode::parse, "a tensor is needed, and there is a literal of type ", value.type);
  auto shape = value.type.shape();
  auto dtype = mil::dtype_of(value.type.dtype);
  if (!shape || !dtype)
    fail(ErrorCode::parse, "data in a file of weights are of type ", value.type,
         ", which says neither what nor how many");
  return weights(blob->file).tensor(blob->offset, *dtype, *shape);
}

}  // namespace rlx
