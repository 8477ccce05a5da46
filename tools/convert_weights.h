// `rlx convert` of files of weights: GGUF and safetensors, into each other or anew, and of folders of language models.
#pragma once

#include <cstdint>
#include <string>

namespace rlx::tools {

struct WeightsOptions {
  std::string dequantize;            ///< the dtype that blocks become; empty: they stay packed
  std::string quantize;              ///< the block format that matrices of floats become; empty: they stay
  std::string shard_size;            ///< "5GB", "100MiB" or bytes; empty: one file
  uint64_t most_file_bytes() const;  ///< 0: one file; fails for a text that is no size
};

bool is_weights(const std::string& path);
/// Writes `output` and says what became of the tensors. What the other format has no word for is an error.
void convert_weights(const std::string& input, const std::string& output, const WeightsOptions& options, bool quiet,
                     bool json);

/// Whether that is a GGUF file which becomes the folder of a language model.
bool is_folder_of_gguf(const std::string& input, const std::string& output);
/// Makes the folder `output`, which must not be there or be empty.
void convert_to_folder(const std::string& input, const std::string& output, const WeightsOptions& options, bool quiet,
                       bool json);

}  // namespace rlx::tools
