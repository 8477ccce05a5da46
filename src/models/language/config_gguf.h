// Descriptions of decoders as GGUF has them: which architectures there are, what each has a place for, and how a
// description is read (config_gguf.cpp) and written (config_gguf_writer.cpp). A new architecture is a row and a fill
// function there.
#pragma once

#include <array>
#include <string_view>

#include "models/language/packed_weights.h"
#include "rlx/language_model.h"

namespace rlx::language {

/// An architecture of GGUF files, and what of a folder's model llama.cpp has a place for in it (src/models/*.cpp,
/// load_arch_tensors and load_arch_hparams): of a tensor or key that it does not ask for it says that the file is
/// wrong, or it computes without it.
struct GgufArchitecture {
  std::string_view name;                    ///< "general.architecture"
  std::array<std::string_view, 2> folders;  ///< `model_type` of config.json; the second is for a window
  bool has_attention = true;
  bool has_output = true;              ///< an output projection beside the table of tokens
  bool has_output_bias = false;        ///< of attention's output; queries, keys, values may always have one
  bool has_feed_forward_bias = false;  ///< gate, up and down
  bool reads_window = false;           ///< llama.cpp applies the window; else it is written, and a note says so
  int64_t window_period = 0;           ///< the last of so many layers has none (0: all have); as in the fill function
  bool has_divisors = false;           ///< rope_freqs.weight: llama3
  bool has_longrope = false;           ///< rope_factors_long.weight and rope_factors_short.weight
  bool has_own_head_dim = true;        ///< heads may have another width than hidden / heads
  bool turns_neighbours = false;       ///< interleaved RoPE: rows of Q and K are permuted; as in the fill function
};
/// Null for a name that is none.
const GgufArchitecture* gguf_architecture(std::string_view name);
/// Null for a model_type that no architecture of GGUF is.
const GgufArchitecture* gguf_architecture_of_folder(std::string_view model_type);
/// The key, behind "llama." or whatever it is, of the epsilon of norms.
std::string_view gguf_epsilon_key(const GgufArchitecture& architecture);

/// As LanguageModelConfig::from_gguf, of metadata and tensors wherever they are.
LanguageModelConfig config_from_gguf(const GgufMetadata& metadata, const TensorSource& tensors);

/// A folder's description with the conventions of GGUF's tensors: norms' weights have their 1, the decay is no
/// logarithm, queries and keys are turned as the architecture turns them, Llama 3's scaling is a table of divisors, and
/// a window that is no shorter than the context is dropped unless llama.cpp reads it. Nothing is packed. Only the
/// description changes: gguf_model.cpp converts the tensors.
LanguageModelConfig config_as_in_gguf(const LanguageModelConfig& folder, const GgufArchitecture& architecture);
/// The keys under the architecture's name that say this, as llama.cpp's converter writes them. `config` is as
/// config_as_in_gguf makes it. Fails, as unsupported and naming the key of config.json, for tensors and scalings of
/// RoPE that there is no word for. Other fields without a key are left out: read the result again, and call
/// require_same_model().
GgufMetadata metadata_of_config(const LanguageModelConfig& config, const GgufArchitecture& architecture);
/// The tensors that belong to the description, which are no params: factors of rotary positions.
std::vector<std::pair<std::string, Tensor>> tensors_of_config(const LanguageModelConfig& config);
/// What the metadata of this description say and llama.cpp leaves out, for notes.
std::vector<std::string> unread_by_llama_cpp(const LanguageModelConfig& config, const GgufArchitecture& architecture);

/// Fails, as unsupported, naming the key of config.json, if a description that was read from what was written differs
/// in what a model computes from the one that was to be written. Both are as GGUF has them; with `to_folder` messages
/// speak of a folder that was written.
void require_same_model(const LanguageModelConfig& wanted, const LanguageModelConfig& read, bool to_folder = false);

}  // namespace rlx::language
