// Writes safetensors files, byte for byte as the reference implementation does.
#include <algorithm>

#include "io/atomic_file.h"
#include "io/names_in_messages.h"
#include "io/safetensors_header.h"

namespace rlx {

void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const SafetensorsFile::Metadata& metadata) {
  with_context([&] { return "writing the safetensors file '" + path + "'"; },
               [&] {
                 std::vector<const NamedTensors::value_type*> order;
                 for (const auto& entry : tensors) {
                   const auto& [name, tensor] = entry;
                   if (name == "__metadata__")
                     fail(ErrorCode::invalid_argument,
                          "a tensor cannot be called '__metadata__'; the format keeps that name");
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

                 AtomicFile file(path);
                 file.write(length);
                 file.write(text);
                 for (const auto* entry : order) file.write(entry->second.bytes());
                 file.commit();
               });
}

}  // namespace rlx
