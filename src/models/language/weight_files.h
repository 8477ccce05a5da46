// The weights of a decoder where they are: in safetensors, alone or in parts, or in a GGUF file. Params have one name
// (decoder_blocks.cpp), files have their own; a table for each format translates.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rlx/language_model.h"

namespace rlx::language {

class WeightFiles {
 public:
  virtual ~WeightFiles() = default;

  /// What a weight is. Fails if a tensor is missing that it needs, naming both.
  virtual WeightType type(const std::string& param) const = 0;
  /// The value of a param. Fails, naming the tensor, if the file's has not these dims.
  virtual Tensor value(const std::string& param, const Type& type) const = 0;
  /// Fails as `value` does, of a param that is not packed, and reads nothing.
  virtual void check_value(const std::string& param, const Type& type) const = 0;
  /// Lets the system take back the pages of mapped files that were read since the last call.
  virtual void release() const = 0;
  /// The names that a module has in the file, "model.layers.0.self_attn.q_proj": the usual one, and the file's own.
  virtual std::vector<std::string> module_names(const std::string& module) const = 0;
  /// Names, as messages show them, of tensors that no param was read from, but those that mean nothing for a decoder.
  virtual std::vector<std::string> unread() const = 0;
};

/// model.safetensors of a folder, or the parts that model.safetensors.index.json names.
std::unique_ptr<WeightFiles> open_folder(const std::string& folder, const LanguageModelConfig& config,
                                         FileAccess access);
std::unique_ptr<WeightFiles> open_gguf(const GgufFile& file, const LanguageModelConfig& config);

/// The text of a file in a folder. Fails if it cannot be read, or is larger than `most_bytes`.
std::string text_of_file(const std::string& path, size_t most_bytes);

}  // namespace rlx::language
