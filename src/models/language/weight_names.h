// What params are called in files: one table for each way of naming, with "#" for the number of the layer and "*" for
// that of the expert.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "rlx/language_model.h"

namespace rlx::language {

/// How a tensor stands in the file: as the param, as [in, out], or with other dims of 1 or as one row.
enum class WeightForm { plain, transposed, reshaped };
struct WeightName {
  std::string_view param;  ///< without ".weight" or ".bias", but where `is_whole`
  std::string_view file;
  WeightForm form = WeightForm::plain;  ///< of what is called ".weight", or of the whole name
  bool is_whole = false;                ///< both names are whole: nothing comes behind them
};

/// As transformers names them, for most architectures and for Gemma 2 and 3 (whose norms have other places); GPT-2's;
/// Mamba's.
extern const std::span<const WeightName> kFolderNames, kGemmaNames, kGpt2Names, kMambaNames;
/// Which of them a folder has.
std::span<const WeightName> folder_names_of(const LanguageModelConfig& config);
/// As GGUF names them; in Qwen3-Next the norm in front of the feed-forward has another name.
std::span<const WeightName> gguf_names_of(std::string_view architecture);

/// A param's name in a file.
struct FileName {
  std::string name;  ///< may still hold one "*"
  WeightForm form;
};
/// Fails, as our own mistake, for a param that the table does not have.
FileName name_in_file(std::span<const WeightName> table, std::string_view param);

}  // namespace rlx::language
