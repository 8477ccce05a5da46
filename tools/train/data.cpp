// See the header.
#include "tools/train/data.h"

#include <algorithm>
#include <filesystem>

#include "rlx/element.h"
#include "tools/npz_limit.h"

namespace rlx::tools {
namespace {

namespace fs = std::filesystem;

/// The part of "FILE.suffix:part" before the colon, and that behind it.
bool split_at(const std::string& source, const std::string& suffix, std::string& file, std::string& part) {
  size_t at = source.rfind(suffix + ":");
  if (at == std::string::npos) return false;
  file = source.substr(0, at + suffix.size());
  part = source.substr(at + suffix.size() + 1);
  return true;
}

Tensor joined(const std::vector<Tensor>& parts, const std::string& name) {
  if (parts.size() == 1) return parts[0];
  Shape shape = parts[0].shape();
  for (size_t i = 1; i < parts.size(); ++i) {
    Shape other = parts[i].shape();
    if (shape.empty() || other.size() != shape.size() || parts[i].dtype() != parts[0].dtype() ||
        !std::equal(shape.begin() + 1, shape.end(), other.begin() + 1))
      fail(ErrorCode::shape_mismatch, "the files for '", name, "' do not fit behind one another: ", parts[0].type(),
           " and ", parts[i].type());
    shape[0] += other[0];
  }
  Tensor all = Tensor::uninitialized(parts[0].dtype(), shape);
  std::byte* to = all.mutable_data();
  for (const Tensor& part : parts) to = std::copy_n(part.data(), part.byte_count(), to);
  return all;
}

}  // namespace

Tensor read_source(const std::string& given) {
  const std::string source = with_home(given);
  std::string file, part;
  if (split_at(source, ".npz", file, part)) return NpzFile::open(file, npz_limit).array(part);
  if (split_at(source, ".safetensors", file, part)) return SafetensorsFile::open(file).tensor(part);
  if (source.ends_with(".npy")) return read_npy(source);
  for (auto [suffix, what] : {std::pair{".npz", "ARRAY"}, {".safetensors", "TENSOR"}, {".csv", "COLUMN,..."}})
    if (source.ends_with(suffix))
      fail(ErrorCode::invalid_argument, "'", source, "' has several arrays; say which: ", source, ":", what);
  return read_idx(source);
}

NamedTensors read_sources(const Sources& sources, CsvColumns& csv) {
  NamedTensors arrays;
  with_context([] { return "reading the data"; }, [&] { csv.open(sources); });
  for (const auto& source : sources)
    with_context([&] { return "reading the data '" + source.first + "'"; },
                 [&] {
                   std::vector<Tensor> parts;
                   for (const std::string& each : source.second) {
                     std::string file, columns;
                     parts.push_back(is_csv_source(with_home(each), file, columns)
                                         ? csv.read(source.first, file, columns)
                                         : read_source(each));
                   }
                   arrays[source.first] = joined(parts, source.first);
                 });
  return arrays;
}

std::string read_texts(const Strings& sources) {
  std::vector<std::string> files;
  for (const std::string& given : sources) {
    std::string source = with_home(given);
    std::error_code error;
    if (!fs::is_directory(source, error)) {
      files.push_back(source);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::recursive_directory_iterator(source))
      if (entry.is_regular_file() && (entry.path().extension() == ".md" || entry.path().extension() == ".txt"))
        inside.push_back(entry.path().string());
    if (inside.empty()) fail(ErrorCode::not_found, "the folder '", source, "' has no .md and no .txt files");
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  std::string text;
  for (const std::string& file : files) text += read_text(file);
  return text;
}

}  // namespace rlx::tools
