// Rotary positions (Su et al. 2021): how fast each pair of a head turns, and the tables of cosines and sines that the
// op `rope` reads (rlx/ops/attention.h). One description serves encoders, decoders and models built by hand.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "rlx/ops.h"

namespace rlx {

/// How the angles of rotary positions follow from the position, by the names that config.json has for them.
///
/// plain ("default"): pair i turns by theta^(-2i/d) radians per position. linear: positions divided by `factor` (Chen
/// et al. 2023). dynamic: theta grows with the length (NTK-aware scaling). yarn: Peng et al. 2023. llama3: low
/// frequencies divided by `factor`, those between low and high interpolated (Llama 3.1's model card). longrope: a
/// factor for each pair, one for texts up to the original context and one for longer texts (Ding et al. 2024).
/// proportional: the first `proportion` of the pairs are rotated, with the frequencies of a whole head, and the others
/// are not (Gemma 4).
enum class RopeScaling { plain, linear, dynamic, yarn, llama3, longrope, proportional };
constexpr std::array<std::string_view, 7> names_of(RopeScaling) {
  return {"default", "linear", "dynamic", "yarn", "llama3", "longrope", "proportional"};
}
struct RopeConfig {
  RopeScaling scaling = RopeScaling::plain;
  double theta = 10000;
  int64_t dims = 0;  ///< elements of a head that are rotated, the first ones
  RopeStyle style = RopeStyle::neox;
  double factor = 1;
  int64_t original_context = 0;          ///< positions that the model was trained with before it was stretched
  double attention_factor = 1;           ///< cosines and sines are multiplied by it (yarn, longrope)
  double beta_fast = 32, beta_slow = 1;  ///< yarn
  bool truncate = true;                  ///< yarn: the ramp's bounds are rounded to whole numbers
  double low_frequency_factor = 1, high_frequency_factor = 4;  ///< llama3
  /// longrope: a factor for each pair; the long ones are used once there are more tokens than `original_context`.
  std::vector<double> short_factors = {}, long_factors = {};
  /// Divisors of each pair's frequency, on top of all else, where the file brings them (GGUF's rope_freqs.weight).
  std::vector<double> frequency_divisors = {};
  double proportion = 1;  ///< proportional: the share of the pairs that turn, rounded down to whole pairs
  /// Multimodal positions (M-RoPE; Wang et al. 2024, "Qwen2-VL", section 2.1): a token has a position on each of three
  /// axes, time, height and width, and each pair is rotated by one of them. The first sections[0] pairs use the first
  /// axis, the next sections[1] pairs the second one, and so on (`mrope_section` of config.json); they add up to
  /// dims / 2. Empty: a token has one position.
  std::vector<int64_t> sections = {};
  /// Pairs are assigned to the axes 0, 1, 2, 0, 1, 2, ... as long as an axis has pairs left; all other pairs use the
  /// first axis (Qwen3-VL). There must be three sections.
  bool interleaves_sections = false;
};

/// The frequency of each pair, in radians per position. For `dynamic` they are the unscaled ones; for `longrope` those
/// with the long factors if `is_long`, else with the short ones. Computed as `transformers` does, in f32 where it does.
/// Fails for a description that has no such numbers, saying which size or factor it is.
std::vector<float> rope_frequencies(const RopeConfig& rope, bool is_long = false);

/// The positions of a run's tokens in a sequence that earlier runs may have begun.
struct SequencePositions {
  Value first = {};          ///< i32 scalar: the position of the first token of the run; absent: 0
  Dim count = 0, total = 0;  ///< tokens of this run; tokens of the sequence up to the end of this run
  /// Declares the inputs "position" i32 (of the first of `count` tokens) and "total" u8[total, 0]: without bytes,
  /// because a symbol follows from extents of inputs alone.
  static SequencePositions inputs(Graph& g, const Dim& count);
};

/// Cosines and sines f32[count, dims / 2] (of given positions f32[B, count, dims / 2]), and which elements of a head
/// they turn.
struct RopeTables {
  Value cosines = {}, sines = {};
  int64_t dims = 0;
  RopeStyle style = RopeStyle::neox;
  explicit operator bool() const { return bool(cosines); }
};
/// The tables of the positions of a run. `dynamic` and `longrope` depend on how many tokens there are in all: when a
/// sequence grows beyond the original context, keys in a cache were turned by other angles, as in `transformers`.
RopeTables rope_tables(Graph& g, const RopeConfig& rope, const SequencePositions& positions);
/// The tables of positions that are given, integers: [B, S], or with `sections` [axes, B, S]. The number of tokens in
/// all, which `dynamic` and `longrope` depend on, is the greatest position + 1.
RopeTables rope_tables(Graph& g, const RopeConfig& rope, Value positions);
/// x[B, S, heads, D] or [B, S, heads D] with the first `dims` elements of each head turned.
Value turned(Value x, const RopeTables& tables, int64_t heads);

}  // namespace rlx
