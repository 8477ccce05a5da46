// What sizes of a decoder may be, whichever file says them, and what they must be together. The limits are far beyond
// any model that there is, and small enough that products of a few of them fit 64 bits.
#pragma once

#include <string>
#include <string_view>

#include "rlx/language_model.h"

namespace rlx::language {

inline constexpr int64_t kMostVocabulary = 1 << 24, kMostWidth = 1 << 17, kMostLayers = 1024, kMostHeads = 4096;
inline constexpr int64_t kMostHeadDim = 1 << 12, kMostIntermediate = 1 << 20, kMostContext = 1 << 28;
inline constexpr int64_t kMostExperts = 4096;
inline constexpr int64_t kMostState = 1 << 16, kMostKernel = 64;  // of recurrences
inline constexpr int64_t kMostStateElements = 1 << 25;            // of one layer

/// Fails if the sizes do not fit together; `file` is what messages call their source.
void check_sizes(const LanguageModelConfig& config, std::string_view file);
/// Fails for a rope that cannot be computed: an odd number of dims, lists of another length than the pairs, factors out
/// of range.
void check_rope(const RopeConfig& rope, int64_t head_dim, std::string_view file, ErrorCode code = ErrorCode::parse);

/// The activation by one of the names that configurations have for it.
Activation activation_of(std::string_view name, std::string_view key, std::string_view file);

/// A text from a file, for a message: as one line, and of some 100 bytes at most.
std::string shown_name(std::string_view text);

/// The factor of cosines and sines that YaRN advises (Peng et al. 2023, equation 22).
double yarn_attention_factor(double factor, double scale = 1);

}  // namespace rlx::language
