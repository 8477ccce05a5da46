// See the header. Numbers: ggml.h, enum ggml_type; which bytes of a block are one number: ggml-common.h, the structs of
// blocks.
#include "io/gguf_format.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace rlx::gguf {
namespace {

constexpr std::string_view kRemoved =
    "which ggml gave up: it was a layout of one kind of processor; convert the model anew";
constexpr TensorKind kKinds[] = {
    {0, "F32", f32},
    {1, "F16", f16},
    {2, "Q4_0", q4_0},
    {3, "Q4_1", q4_1},
    {4, "Q4_2", f32, "which ggml gave up in 2023; convert the model anew"},
    {5, "Q4_3", f32, "which ggml gave up in 2023; convert the model anew"},
    {6, "Q5_0", q5_0},
    {7, "Q5_1", q5_1},
    {8, "Q8_0", q8_0},
    {9, "Q8_1", f32,
     "which ggml holds activations in while it multiplies, and no weights: its size differs between ggml and its "
     "Python package"},
    {10, "Q2_K", q2_k},
    {11, "Q3_K", q3_k},
    {12, "Q4_K", q4_k},
    {13, "Q5_K", q5_k},
    {14, "Q6_K", q6_k},
    {15, "Q8_K", q8_k},
    {16, "IQ2_XXS", iq2_xxs},
    {17, "IQ2_XS", iq2_xs},
    {18, "IQ3_XXS", iq3_xxs},
    {19, "IQ1_S", iq1_s},
    {20, "IQ4_NL", iq4_nl},
    {21, "IQ3_S", iq3_s},
    {22, "IQ2_S", iq2_s},
    {23, "IQ4_XS", iq4_xs},
    {24, "I8", i8},
    {25, "I16", i16},
    {26, "I32", i32},
    {27, "I64", i64},
    {28, "F64", f64},
    {29, "IQ1_M", iq1_m},
    {30, "BF16", bf16},
    {31, "Q4_0_4_4", f32, kRemoved},
    {32, "Q4_0_4_8", f32, kRemoved},
    {33, "Q4_0_8_8", f32, kRemoved},
    {34, "TQ1_0", tq1_0},
    {35, "TQ2_0", tq2_0},
    {36, "IQ4_NL_4_4", f32, kRemoved},
    {37, "IQ4_NL_4_8", f32, kRemoved},
    {38, "IQ4_NL_8_8", f32, kRemoved},
    {39, "MXFP4", mxfp4},
    {40, "NVFP4", nvfp4},
    {41, "Q1_0", q1_0},
};

/// `count` numbers of `width` bytes from byte `at` of a block on.
struct Numbers {
  DType dtype;
  size_t at, width, count;
};
constexpr Numbers kNumbers[] = {
    {q4_0, 0, 2, 1},     {q4_1, 0, 2, 2},    {q5_0, 0, 2, 1},    {q5_1, 0, 2, 2},    {q8_0, 0, 2, 1},
    {q1_0, 0, 2, 1},     {q2_k, 80, 2, 2},   {q3_k, 108, 2, 1},  {q4_k, 0, 2, 2},    {q5_k, 0, 2, 2},
    {q6_k, 208, 2, 1},   {q8_k, 0, 4, 1},    {q8_k, 260, 2, 16}, {iq1_s, 0, 2, 1},   {iq1_s, 34, 2, 8},
    {iq2_xxs, 0, 2, 33}, {iq2_xs, 0, 2, 33}, {iq2_s, 0, 2, 1},   {iq3_xxs, 0, 2, 1}, {iq3_s, 0, 2, 1},
    {iq4_nl, 0, 2, 1},   {iq4_xs, 0, 2, 2},  {tq1_0, 52, 2, 1},  {tq2_0, 64, 2, 1},
};

void swap_each(std::byte* at, size_t width, size_t count) {
  for (; count > 0; --count, at += width) std::reverse(at, at + width);
}

/// Calls `f(scale, codes, in_file_scale, in_file_codes)` with the places of each block of 16.
template <class F>
void each_nvfp4(size_t byte_count, F f) {
  constexpr size_t kGroup = 36, kBlock = 9, kCodes = 8;
  for (size_t group = 0; group + kGroup <= byte_count; group += kGroup)
    for (size_t i = 0; i < 4; ++i) f(group + i * kBlock, group + i * kBlock + 1, group + i, group + 4 + i * kCodes);
}

}  // namespace

const TensorKind* find_kind(uint32_t number) {
  for (const TensorKind& kind : kKinds)
    if (kind.number == number) return &kind;
  return nullptr;
}

const TensorKind* find_kind(DType dtype) {
  for (const TensorKind& kind : kKinds)
    if (kind.refusal.empty() && kind.dtype == dtype) return &kind;
  return nullptr;
}

std::string kind_names() {
  std::string all;
  for (const TensorKind& kind : kKinds)
    if (kind.refusal.empty()) (all += all.empty() ? "" : ", ") += kind.name;
  return all;
}

std::optional<std::string_view> there_twice(std::vector<std::string_view> names) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  return twice == names.end() ? std::nullopt : std::optional(*twice);
}

void fail_too_deep() {
  fail(ErrorCode::unsupported, "arrays of metadata are nested deeper than ", kDeepest, " levels");
}

int64_t block_elements(const TensorKind& kind) {
  return kind.dtype == nvfp4 ? 4 * info(nvfp4).block_elements : info(kind.dtype).block_elements;
}

void swap_bytes(DType dtype, std::span<std::byte> bytes) {
  const auto block = static_cast<size_t>(info(dtype).block_bytes);
  if (!is_block(dtype)) return swap_each(bytes.data(), block, bytes.size() / block);
  for (const Numbers& numbers : kNumbers)
    if (numbers.dtype == dtype)
      for (size_t at = 0; at < bytes.size(); at += block)
        swap_each(bytes.data() + at + numbers.at, numbers.width, numbers.count);
}

void nvfp4_from_file(const std::byte* from, size_t byte_count, std::byte* to) {
  each_nvfp4(byte_count, [&](size_t scale, size_t codes, size_t file_scale, size_t file_codes) {
    to[scale] = from[file_scale];
    std::memcpy(to + codes, from + file_codes, 8);
  });
}
void nvfp4_to_file(const std::byte* from, size_t byte_count, std::byte* to) {
  each_nvfp4(byte_count, [&](size_t scale, size_t codes, size_t file_scale, size_t file_codes) {
    to[file_scale] = from[scale];
    std::memcpy(to + file_codes, from + codes, 8);
  });
}

namespace {
std::string part_suffix(size_t part, size_t parts) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05zu-of-%05zu.gguf", part + 1, parts);
  return text;
}
}  // namespace

std::string part_path(const std::string& path, size_t part, size_t parts) {
  std::string_view stem = path;
  if (stem.ends_with(".gguf")) stem.remove_suffix(5);
  return std::string(stem) + part_suffix(part, parts);
}

std::optional<std::string> whole_path(const std::string& path, size_t part, size_t parts) {
  const std::string suffix = part_suffix(part, parts);
  if (!path.ends_with(suffix)) return std::nullopt;
  return path.substr(0, path.size() - suffix.size()) + ".gguf";
}

}  // namespace rlx::gguf
