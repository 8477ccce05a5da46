// Optimizer steps in f32: one pass over a param, its gradient and its states, all of which may be updated in place.
// rlx/ops/optimizer.h defines the rules. Each struct below holds the numbers of one rule for one step, derived from the
// attributes, the learning rate and the count of steps. A prime marks a new value.
#pragma once

#include <cstdint>
#include <variant>

namespace rlx::kernels {

/// velocity' = momentum velocity + g and param' = param - rate velocity'; with `nesterov`, param' = param - rate (g +
/// momentum velocity'). Without momentum there is no state.
struct SgdStep {
  bool has_momentum = false, nesterov = false;
  float rate = 0, momentum = 0, decay = 0;  ///< decay: factor of the param that is added to the gradient
};
/// States m, v. param' = param keep - rate m' / (sqrt(v') root + epsilon). `rate` and `root` include the bias
/// corrections for states that started at 0; rest1 = 1 - beta1, rest2 = 1 - beta2.
struct AdamStep {
  float rate = 0, root = 1, beta1 = 0, rest1 = 1, beta2 = 0, rest2 = 1, epsilon = 0;
  float decay = 0, keep = 1;
};
/// State: the sum of squared gradients.
struct AdagradStep {
  float rate = 0, epsilon = 0, decay = 0;
};
/// States: mean square, [mean if centered], [velocity if has_momentum]; rest = 1 - alpha.
struct RmspropStep {
  bool centered = false, has_momentum = false;
  float rate = 0, alpha = 0, rest = 1, momentum = 0, epsilon = 0, decay = 0;
};
/// State m, a moving mean of the gradients.
struct LionStep {
  float rate = 0, beta1 = 0, rest1 = 1, beta2 = 0, rest2 = 1, decay = 0;
};
/// States m and h; a step does not change h.
struct SophiaStep {
  float rate = 0, beta1 = 0, rest1 = 1, gamma = 1, epsilon = 0, keep = 1;
};
using OptimizerStep = std::variant<SgdStep, AdamStep, AdagradStep, RmspropStep, LionStep, SophiaStep>;

constexpr int kMaxOptimizerStates = 3;

struct OptimizerBuffers {
  const float *param = nullptr, *grad = nullptr;
  const float* states[kMaxOptimizerStates]{};
  float* new_param = nullptr;  ///< may be `param`; otherwise it overlaps nothing; likewise the new states
  float* new_states[kMaxOptimizerStates]{};
};

/// Whether the step treats numbers below 2^-126 as 0. Moments of a param without gradients decay to such subnormal
/// numbers, which make arithmetic about ten times slower. They have no effect on the param beside the epsilon in the
/// divisor: a root is off by at most 2^-63. They might matter if epsilon, divided by the correction of Adam's root, is
/// below 2^-40; and in Lion, whose steps have the sign of a moment, however small it is.
bool flushes_subnormals(const OptimizerStep& step) noexcept;

/// Updates elements [begin, end). An element's result does not depend on where the range begins.
void step_params(const OptimizerStep& step, const OptimizerBuffers& buffers, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
