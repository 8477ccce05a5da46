// Writes GGUF files, byte for byte as ggml's Python package does.
#include <algorithm>
#include <cstring>

#include "io/atomic_file.h"
#include "io/gguf_format.h"
#include "io/names_in_messages.h"
#include "io/streamed_bytes.h"
#include "rlx/lazy_tensor.h"

namespace rlx {

namespace gguf {
namespace {

using NamedTensor = std::pair<std::string, LazyTensor>;

/// What stands before the data, in the version and byte order of the file.
class Writer {
 public:
  explicit Writer(const GgufWriteOptions& options) : options_(options) {}
  const std::string& bytes() const { return bytes_; }
  void raw(std::string_view text) { bytes_ += text; }

  template <class T>
  void number(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    if (options_.byte_order == std::endian::big) std::reverse(bytes, bytes + sizeof value);
    bytes_.append(bytes, sizeof value);
  }
  void size(uint64_t value) {
    if (options_.version > 1) return number<uint64_t>(value);
    if (value > UINT32_MAX)
      fail(ErrorCode::unsupported, "version 1 of the format has no number as large as ", value, "; write version 3");
    number(static_cast<uint32_t>(value));
  }
  void string(const std::string& text) {
    size(text.size());
    raw(text);
  }
  void value(const GgufValue& value) {
    number(static_cast<uint32_t>(value.index()));
    std::visit([&](const auto& v) { one(v, 0); }, value);
  }
  void pad(uint64_t alignment) { bytes_.append((alignment - bytes_.size() % alignment) % alignment, '\0'); }

 private:
  template <class T>
  void one(const T& value, int depth) {
    if constexpr (std::is_same_v<T, std::string>) {
      string(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      number(static_cast<uint8_t>(value));
    } else if constexpr (std::is_same_v<T, GgufArray>) {
      if (depth == kDeepest) fail_too_deep();
      number(static_cast<uint32_t>(value.items.index()));
      size(value.size());
      std::visit(
          [&](const auto& all) {
            using Item = typename std::decay_t<decltype(all)>::value_type;
            for (size_t i = 0; i < all.size(); ++i) one<Item>(all[i], depth + 1);
          },
          value.items);
    } else {
      number(value);
    }
  }

  const GgufWriteOptions& options_;
  std::string bytes_;
};

void require_writable(const std::vector<NamedTensor>& tensors, const GgufMetadata& metadata,
                      const GgufWriteOptions& options) {
  if (options.version < 1 || options.version > kVersion)
    fail(ErrorCode::invalid_argument, "the format has the versions 1 to ", kVersion, ", and not ", options.version);
  if (options.byte_order == std::endian::big && options.version < 3)
    fail(ErrorCode::invalid_argument, "big-endian files are of version 3, and not ", options.version);
  std::vector<std::string_view> names, keys;
  for (const auto& [name, tensor] : tensors) {
    // First, as the messages below show all dims.
    if (tensor.rank() > kMostDims)
      fail(ErrorCode::unsupported, "tensor ", quoted_name(name), " has ", tensor.rank(), " dims, and GGUF has at most ",
           kMostDims, "; reshape it first");
    const TensorKind* kind = find_kind(tensor.dtype());
    if (!kind)
      fail(ErrorCode::unsupported, "tensor ", quoted_name(name), " is ", tensor.type(), ", and GGUF has no kind for ",
           tensor.dtype(), "; convert it to one of ", kind_names(), " first");
    if (!tensor.shape().empty() && tensor.shape().back() % block_elements(*kind) != 0)
      fail(ErrorCode::unsupported, "tensor ", quoted_name(name), " is ", tensor.type(), ", and ", kind->name,
           " has rows of whole groups of ", block_elements(*kind));
    if (name.size() > kMostNameBytes)
      fail(ErrorCode::unsupported, "the name ", quoted_name(name), " has ", name.size(),
           " bytes, and readers of GGUF take at most ", kMostNameBytes, "; give it a shorter one");
    names.push_back(name);
  }
  for (const auto& [key, value] : metadata) {
    if (key == kPart || key == kParts || key == kAllTensors)
      fail(ErrorCode::invalid_argument, quoted_name(key), " is written where there are several parts, and only then");
    keys.push_back(key);
  }
  for (auto* all : {&names, &keys})
    if (const auto twice = there_twice(*all))
      fail(ErrorCode::invalid_argument, "there are two ", all == &names ? "tensors" : "keys of metadata", " called ",
           quoted_name(*twice));
}

uint64_t alignment_of(const GgufMetadata& metadata) {
  const GgufValue* value = find_value(metadata, kAlignment);
  if (!value) return kDefaultAlignment;
  const auto* alignment = std::get_if<uint32_t>(value);
  if (!alignment || !is_alignment(*alignment, kMostWrittenAlignment))
    fail(ErrorCode::invalid_argument, "'general.alignment' is ", shown_value(*value),
         ", and has to be a u32 that is a power of two up to ", kMostWrittenAlignment,
         ", as each tensor is padded to it; without the key it is ", kDefaultAlignment);
  return *alignment;
}

/// The bytes of a tensor as the file has them; `kept` holds them if they are not the tensor's own.
std::span<const std::byte> file_bytes(const Tensor& tensor, const GgufWriteOptions& options,
                                      std::vector<std::byte>& kept) {
  std::span<const std::byte> bytes = tensor.bytes();
  const bool is_grouped = tensor.dtype() == nvfp4, is_swapped = options.byte_order == std::endian::big;
  if (!is_grouped && !is_swapped) return bytes;
  kept.assign(bytes.begin(), bytes.end());
  if (is_grouped) nvfp4_to_file(bytes.data(), bytes.size(), kept.data());
  if (is_swapped) swap_bytes(tensor.dtype(), kept);
  return kept;
}

void write_part(const std::string& path, std::span<const NamedTensor> tensors, const GgufMetadata& metadata,
                uint64_t alignment, const GgufWriteOptions& options) {
  const auto padding = [&](uint64_t bytes) { return (alignment - bytes % alignment) % alignment; };
  Writer out(options);
  out.raw(kMagic);
  out.number(options.version);
  out.size(tensors.size());
  out.size(metadata.size());
  for (const auto& [key, value] : metadata) {
    out.string(key);
    out.value(value);
  }
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    out.string(name);
    out.number(static_cast<uint32_t>(tensor.rank()));
    for (size_t i = tensor.rank(); i > 0; --i) out.size(static_cast<uint64_t>(tensor.shape()[i - 1]));
    out.number(find_kind(tensor.dtype())->number);
    out.number(offset);
    offset += tensor.byte_count() + padding(tensor.byte_count());
  }
  out.pad(alignment);
  AtomicFile file(path);
  file.write(out.bytes());
  std::vector<std::byte> kept;
  for (const auto& [name, lazy] : tensors) {
    const Tensor tensor = lazy.make();
    write_and_release(file, tensor, file_bytes(tensor, options, kept));
    file.write(std::string(static_cast<size_t>(padding(tensor.byte_count())), '\0'));
  }
  file.commit();
}

}  // namespace
}  // namespace gguf

void write_gguf(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                const GgufMetadata& metadata, const GgufWriteOptions& options) {
  stream_gguf(path, {tensors.begin(), tensors.end()}, metadata, options);
}

void stream_gguf(const std::string& path, const std::vector<std::pair<std::string, LazyTensor>>& tensors,
                 const GgufMetadata& metadata, const GgufWriteOptions& options) {
  with_context([&] { return "writing the GGUF file '" + path + "'"; },
               [&] {
                 gguf::require_writable(tensors, metadata, options);
                 const uint64_t alignment = gguf::alignment_of(metadata);
                 std::vector<size_t> begins = {0};  // of the parts
                 uint64_t bytes = 0;
                 for (size_t i = 0; i < tensors.size(); ++i) {
                   const uint64_t next = tensors[i].second.byte_count();
                   if (options.most_part_bytes > 0 && i > begins.back() && bytes + next > options.most_part_bytes) {
                     begins.push_back(i);
                     bytes = 0;
                   }
                   bytes += next;
                 }
                 if (begins.size() > UINT16_MAX)
                   fail(ErrorCode::invalid_argument, "parts of ", options.most_part_bytes, " bytes would be ",
                        begins.size(), " files; allow larger ones");
                 const size_t parts = begins.size();
                 begins.push_back(tensors.size());
                 for (size_t i = 0; i < parts; ++i) {
                   GgufMetadata own = i == 0 ? metadata : GgufMetadata{};
                   if (i > 0 && alignment != gguf::kDefaultAlignment)
                     own.emplace_back(gguf::kAlignment, static_cast<uint32_t>(alignment));
                   if (parts > 1) {
                     own.emplace_back(gguf::kPart, static_cast<uint16_t>(i));
                     own.emplace_back(gguf::kParts, static_cast<uint16_t>(parts));
                     own.emplace_back(gguf::kAllTensors, static_cast<int32_t>(tensors.size()));
                   }
                   gguf::write_part(parts > 1 ? gguf::part_path(path, i, parts) : path,
                                    std::span(tensors).subspan(begins[i], begins[i + 1] - begins[i]), own, alignment,
                                    options);
                 }
               });
}

}  // namespace rlx
