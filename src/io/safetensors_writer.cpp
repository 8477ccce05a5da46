// Writes safetensors files, byte for byte as the reference implementation does, and several with an index as the
// package huggingface_hub does (serialization/_base.py).
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "io/atomic_file.h"
#include "io/names_in_messages.h"
#include "io/safetensors_header.h"
#include "io/streamed_bytes.h"
#include "rlx/lazy_tensor.h"

namespace rlx {
namespace {

using NamedLazyTensor = NamedLazyTensors::value_type;

/// In the order of the file.
std::vector<const NamedLazyTensor*> safetensors_order(const NamedLazyTensors& tensors) {
  std::vector<const NamedLazyTensor*> order;
  for (const auto& entry : tensors) {
    const auto& [name, tensor] = entry;
    if (name == "__metadata__")
      fail(ErrorCode::invalid_argument, "a tensor cannot be called '__metadata__'; the format keeps that name");
    if (!safetensors_name(tensor.dtype()))
      fail(ErrorCode::unsupported, "tensor ", quoted_name(name), " is ", tensor.type(),
           ", and safetensors has no dtype ", tensor.dtype(), "; convert it first");
    if (tensor.element_count() * static_cast<size_t>(info(tensor.dtype()).bits) % 8 != 0)
      fail(ErrorCode::unsupported, "tensor ", quoted_name(name), " is ", tensor.type(),
           ", which does not fill whole bytes, as safetensors demands; pad it first");
    order.push_back(&entry);
  }
  // The map has sorted them by name already.
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return safetensors_rank(a->second.dtype()) > safetensors_rank(b->second.dtype());
  });
  return order;
}

}  // namespace

LazyTensor::LazyTensor(Tensor made)
    : dtype_(made.dtype()), shape_(made.shape()), byte_count_(made.byte_count()),
      make_([made = std::move(made)] { return made; }) {}
LazyTensor::LazyTensor(DType dtype, Shape shape, std::function<Tensor()> make)
    : dtype_(dtype), shape_(std::move(shape)), byte_count_(rlx::byte_count(dtype_, shape_)), make_(std::move(make)) {}

size_t LazyTensor::element_count() const { return static_cast<size_t>(rlx::element_count(shape_)); }

Tensor LazyTensor::make() const {
  Tensor made = make_();
  if (made.dtype() != dtype_ || made.shape() != shape_)
    fail(ErrorCode::internal, "a tensor that was to be ", type(), " was made as ", made.type());
  return made;
}

LazyTensor LazyTensor::changed(DType dtype, Shape shape, std::function<Tensor(const Tensor&)> change) const {
  return {dtype, std::move(shape), [from = *this, change = std::move(change)] {
            const Tensor x = from.make();
            Tensor made = change(x);
            if (made.owner() != x.owner()) release_pages(x);
            return made;
          }};
}

namespace {

/// Writes all of a file, which is then to be committed.
void write_file(AtomicFile& file, const NamedLazyTensors& tensors, const SafetensorsFile::Metadata& metadata) {
  const auto order = safetensors_order(tensors);
  SafetensorsHeader header{{}, metadata};
  uint64_t end = 0;
  for (const auto* entry : order) {
    uint64_t begin = std::exchange(end, end + entry->second.byte_count());
    header.tensors.push_back({entry->first, entry->second.dtype(), entry->second.shape(), begin, end});
  }
  std::string text = safetensors_header_text(header);
  if (text.size() > kSafetensorsHeaderLimit)
    fail(ErrorCode::unsupported, "the header would have ", text.size(), " bytes, and readers take ",
         kSafetensorsHeaderLimit, "; write fewer tensors or less metadata into one file");
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> (8 * i));

  file.write(length);
  file.write(text);
  for (const auto* entry : order) {
    const Tensor tensor = entry->second.make();
    write_and_release(file, tensor, tensor.bytes());
  }
}
template <class F>
auto writing(const std::string& path, F f) {
  return with_context([&] { return "writing the safetensors file '" + path + "'"; }, f);
}

}  // namespace

void stream_safetensors(const std::string& path, const NamedLazyTensors& tensors,
                        const SafetensorsFile::Metadata& metadata) {
  writing(path, [&] {
    (void)safetensors_order(tensors);  // what cannot be written is refused before the folder is touched
    AtomicFile file(path);
    write_file(file, tensors, metadata);
    file.commit();
  });
}

void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const SafetensorsFile::Metadata& metadata) {
  stream_safetensors(path, NamedLazyTensors(tensors.begin(), tensors.end()), metadata);
}

void stream_safetensors_shards(const std::string& path, const NamedLazyTensors& tensors,
                               const SafetensorsFile::Metadata& metadata, uint64_t most_file_bytes) {
  namespace fs = std::filesystem;
  std::vector<NamedLazyTensors> shards(1);
  uint64_t bytes = 0, all_bytes = 0;
  for (const auto& entry : tensors) {
    const uint64_t next = entry.second.byte_count();
    if (most_file_bytes > 0 && !shards.back().empty() && bytes + next > most_file_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += next, all_bytes += next;
    shards.back().insert(entry);
  }
  const std::string index = path + ".index.json", &other = shards.size() > 1 ? path : index;
  std::error_code error;
  if (fs::exists(other, error))
    fail(ErrorCode::invalid_argument, "'", other,
         "' is there, and would say otherwise than what is to be written beside it (", shards.size(),
         shards.size() > 1 ? " files" : " file", "); remove it first");
  if (shards.size() == 1) return stream_safetensors(path, tensors, metadata);
  if (shards.size() > 99'999)
    fail(ErrorCode::invalid_argument, "files of ", most_file_bytes, " bytes would be ", shards.size(),
         "; allow larger ones");
  const fs::path whole(path);
  nlohmann::json map = nlohmann::json::object();
  // No file has its name before all are on the disk, and an index that was there goes first: whatever stops this, none
  // names files of which some are new and some old.
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (size_t i = 0; i < shards.size(); ++i) {
    char part[48];
    std::snprintf(part, sizeof part, "-%05zu-of-%05zu", i + 1, shards.size());
    const std::string name = whole.stem().string() + part + whole.extension().string();
    const std::string to = (whole.parent_path() / name).string();
    writing(to, [&] {
      files.push_back(std::make_unique<AtomicFile>(to));
      write_file(*files.back(), shards[i], metadata);
    });
    for (const auto& entry : shards[i]) map[entry.first] = name;
  }
  AtomicFile file(index);
  file.write(nlohmann::json{{"metadata", {{"total_size", all_bytes}}}, {"weight_map", std::move(map)}}.dump(
                 2, ' ', false, nlohmann::json::error_handler_t::replace) +
             "\n");
  if (fs::is_regular_file(index, error) && !fs::remove(fs::canonical(index), error))  // what a link stands for
    fail(ErrorCode::io, "cannot replace '", index, "': ", error.message(), "; nothing was changed");
  for (const auto& each : files) each->commit();
  file.commit();
}

}  // namespace rlx
