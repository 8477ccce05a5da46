// What params are called in files: one table for each way of naming, with "#" for the number of the layer and "*" for
// that of the expert.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rlx::language {

struct WeightName {
  std::string_view param;  ///< without ".weight" or ".bias"
  std::string_view file;
  bool is_transposed = false;  ///< matrices stand as [in, out] in the file
};

/// As transformers names them, for most architectures and for Gemma 2 and 3 (whose norms have other places); GPT-2's.
extern const std::span<const WeightName> kFolderNames, kGemmaNames, kGpt2Names;
/// As GGUF names them.
extern const std::span<const WeightName> kGgufNames;

/// A param's name in a file.
struct FileName {
  std::string name;  ///< may still hold one "*"
  bool is_transposed;
};
/// Fails, as our own mistake, for a param that the table does not have.
FileName name_in_file(std::span<const WeightName> table, std::string_view param);

}  // namespace rlx::language
