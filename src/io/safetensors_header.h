// The header of a safetensors file: JSON that says what tensors there are and where their data stand. Here it
// is read and written as text; whether it fits the data behind it is checked in safetensors.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/io.h"

namespace rlx {

/// What the reference implementation allows.
inline constexpr uint64_t kSafetensorsHeaderLimit = 100'000'000;

struct SafetensorsHeader {
  struct Tensor {
    std::string name;
    DType dtype;
    Shape shape;
    uint64_t begin, end;  ///< as the file says, from the end of the header
  };
  std::vector<Tensor> tensors;  ///< in the order of the text
  SafetensorsFile::Metadata metadata;
};

/// Follows the text in one pass, without building it as a tree: memory stays within a small multiple of the
/// text.
SafetensorsHeader parse_safetensors_header(std::string_view json);
/// Compact JSON in the order given, then spaces up to a multiple of 8 bytes.
std::string safetensors_header_text(const SafetensorsHeader&);

/// The name of a dtype in the format; nothing for one that it does not have.
std::optional<std::string_view> safetensors_name(DType);
/// The reference implementation writes tensors by descending rank, and within a rank by name.
size_t safetensors_rank(DType);

}  // namespace rlx
