// See the header.
#include "models/language/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace rlx::language {
namespace {

/// Where the ramp between the two kinds of frequencies begins and ends, in pairs (Peng et al. 2023, equation 23).
struct YarnRamp {
  double low, high;
  explicit YarnRamp(const RopeConfig& rope) {
    const auto pairs_of = [&](double rotations) {
      return static_cast<double>(rope.dims) *
             std::log(static_cast<double>(rope.original_context) / (rotations * 2 * std::numbers::pi)) /
             (2 * std::log(rope.theta));
    };
    low = pairs_of(rope.beta_fast), high = pairs_of(rope.beta_slow);
    if (rope.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, static_cast<double>(rope.dims - 1));
    if (low == high) high += 0.001;
  }
  /// 0 for pairs that keep their frequency, 1 for those that are divided by the factor.
  double at(size_t pair) const { return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0); }
};

/// Llama 3.1: wavelengths beyond the context that the model was trained with are stretched, short ones are not.
double llama3_frequency(const RopeConfig& rope, double frequency) {
  const auto context = static_cast<double>(rope.original_context);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < context / rope.high_frequency_factor) return frequency;
  if (wavelength > context / rope.low_frequency_factor) return frequency / rope.factor;
  const double smooth =
      (context / wavelength - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<float> rotary_frequencies(const RopeConfig& rope, bool is_long) {
  std::vector<float> all(static_cast<size_t>(rope.dims / 2));
  for (size_t i = 0; i < all.size(); ++i) {
    // theta^(2i/d) is rounded to f32, and so is its inverse: the model was trained with these.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.dims);
    const float wave = std::pow(static_cast<float>(rope.theta), exponent);
    double frequency = static_cast<double>(1.0F / wave);
    if (rope.scaling == RopeScaling::linear) frequency /= rope.factor;
    if (rope.scaling == RopeScaling::llama3) frequency = llama3_frequency(rope, frequency);
    if (rope.scaling == RopeScaling::yarn) {
      const double ramp = YarnRamp(rope).at(i);
      frequency = frequency / rope.factor * ramp + frequency * (1 - ramp);
    }
    if (rope.scaling == RopeScaling::longrope)
      frequency = static_cast<double>(
          1.0F / (static_cast<float>((is_long ? rope.long_factors : rope.short_factors)[i]) * wave));
    if (!rope.frequency_divisors.empty()) frequency /= rope.frequency_divisors[i];
    all[i] = static_cast<float>(frequency);
  }
  return all;
}

}  // namespace rlx::language
