// The parts of a tokenizer from what a GGUF file says of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/pre_tokenizer.h"
#include "rlx/tokenizer.h"

namespace rlx::tokenizer {

/// Reads `tokenizer.ggml.*`. The metadata are hostile input: types, lengths and ids are checked here. What they leave
/// out has llama.cpp's default.
std::shared_ptr<const Tokenizer::Parts> parts_from_gguf(const GgufMetadata& metadata);

/// Whether an added token takes the white space behind it. No key says so: llama.cpp, and this reader, know Phi-3's
/// tokens by the model's name ("general.name").
bool takes_space_behind(const GgufMetadata& metadata, std::string_view token, size_t id, bool is_special);

/// How llama.cpp treats the text of a byte-pair model, by `tokenizer.ggml.pre`.
struct PreKind {
  std::vector<const char*> patterns;  ///< each splits what the one before left, and keeps what does not match, too
  bool ignore_merges = false;
  bool add_bos = false;
  bool add_eos = false;
  bool raw_utf8 = false;  ///< tokens are text with U+2581 for spaces, not letters of bytes
};
/// Fails, as unsupported, for a name that is not known.
PreKind pre_kind(std::string_view name);
/// Of each kind the name that llama.cpp's converter writes, or one of them.
std::vector<std::string> pre_kind_names();
std::unique_ptr<const PreTokenizer> pre_tokenizer_of(const PreKind& kind);

}  // namespace rlx::tokenizer
