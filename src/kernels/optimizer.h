// Steps of optimizers in f32: one pass over a param, its gradient and its states, which may all be updated where they
// are. The rules are those of ops/optimizer.h; what the step's number and rate decide is in the numbers below.
#pragma once

#include <cstdint>
#include <variant>

namespace rlx::kernels {

/// velocity' = momentum velocity + g; param - rate (g + momentum velocity') with `nesterov`. No momentum: no state.
struct SgdStep {
  bool has_momentum = false, nesterov = false;
  float rate = 0, momentum = 0, decay = 0;  ///< decay: of the param, added to the gradient
};
/// States m, v. param keep - rate m' / (sqrt(v') root + epsilon): the rate and the root have the corrections for having
/// begun at 0 in them.
struct AdamStep {
  float rate = 0, root = 1, beta1 = 0, rest1 = 1, beta2 = 0, rest2 = 1, epsilon = 0;
  float decay = 0, keep = 1;
};
/// State sum.
struct AdagradStep {
  float rate = 0, epsilon = 0, decay = 0;
};
/// States square, [mean], [velocity].
struct RmspropStep {
  bool centered = false, has_momentum = false;
  float rate = 0, alpha = 0, rest = 1, momentum = 0, epsilon = 0, decay = 0;
};
/// State m.
struct LionStep {
  float rate = 0, beta1 = 0, rest1 = 1, beta2 = 0, rest2 = 1, decay = 0;
};
/// States m, h, of which h stays as it is.
struct SophiaStep {
  float rate = 0, beta1 = 0, rest1 = 1, gamma = 1, epsilon = 0, keep = 1;
};
using OptimizerStep = std::variant<SgdStep, AdamStep, AdagradStep, RmspropStep, LionStep, SophiaStep>;

constexpr int kMostOptimizerStates = 3;

struct OptimizerBuffers {
  const float *param = nullptr, *grad = nullptr;
  const float* states[kMostOptimizerStates]{};
  float* new_param = nullptr;  ///< `param`, or memory that overlaps nothing; so are the new states
  float* new_states[kMostOptimizerStates]{};
};

/// Whether numbers below 2^-126 count as 0. Moments of a param without gradients fade until they are such numbers,
/// which take some ten times as long; what they would change of a param is nothing beside its epsilon: a root is off by
/// 2^-63. With an epsilon below 2^-40, times the correction of Adam's root, it might be something; Lion takes whole
/// steps by the sign of a moment, however small that is.
bool flushes_subnormals(const OptimizerStep& step) noexcept;

/// Elements [begin, end). What an element becomes does not depend on where the range begins.
void step_params(const OptimizerStep& step, const OptimizerBuffers& buffers, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
