// What reader and writer of GGUF files share: the numbers of its tensor kinds, and their bytes in the other byte order.
#pragma once

#include <bit>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/gguf.h"

namespace rlx::gguf {

inline constexpr uint32_t kVersion = 3;
inline constexpr uint64_t kDefaultAlignment = 32;
// A file with a larger alignment is read, where it costs nothing; to write one, each tensor is padded to it. No page of
// memory that a tensor may have to begin at is larger.
inline constexpr uint64_t kMostReadAlignment = 1 << 30, kMostWrittenAlignment = 1 << 16;
inline constexpr size_t kMostDims = 4, kMostNameBytes = 63;  // ggml's limits
inline constexpr int kDeepest = 8;                           // arrays in arrays
inline constexpr std::string_view kMagic = "GGUF", kAlignment = "general.alignment", kPart = "split.no",
                                  kParts = "split.count", kAllTensors = "split.tensors.count";

/// Whether it is a power of two, as llama.cpp demands, up to `most`.
constexpr bool is_alignment(uint64_t value, uint64_t most) { return std::has_single_bit(value) && value <= most; }

struct TensorKind {
  uint32_t number;
  std::string_view name;
  DType dtype;
  std::string_view refusal = {};  ///< why a file with it is not read; then `dtype` means nothing
};
/// Null for a number that stands for nothing.
const TensorKind* find_kind(uint32_t number);
const TensorKind* find_kind(DType dtype);
/// "F32, F16, ..."
std::string kind_names();

/// Type and value for messages: "u32 7", "string 'llama'", "array of 3 items"; short, however large the value is.
std::string shown_value(const GgufValue&);
/// A name that is among these more than once.
std::optional<std::string_view> there_twice(std::vector<std::string_view> names);
[[noreturn]] void fail_too_deep();

/// Extents of a tensor's blocks in the file: of NVFP4 groups of four blocks are one.
int64_t block_elements(const TensorKind&);

/// Turns each number of `bytes` in place: from the other byte order, or to it.
void swap_bytes(DType dtype, std::span<std::byte> bytes);
/// NVFP4: a file has the scales of four blocks and then their codes; a tensor has each scale before its codes.
void nvfp4_from_file(const std::byte* from, size_t byte_count, std::byte* to);
void nvfp4_to_file(const std::byte* from, size_t byte_count, std::byte* to);

/// "model-00002-of-00005.gguf" of "model.gguf".
std::string part_path(const std::string& path, size_t part, size_t parts);
/// Undoes it: "model.gguf"; nothing if `path` is not called so.
std::optional<std::string> whole_path(const std::string& path, size_t part, size_t parts);

}  // namespace rlx::gguf
