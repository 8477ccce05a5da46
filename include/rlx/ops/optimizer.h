// Steps of optimizers: what becomes of a param, and of what is kept beside it, when a gradient arrives. Each op takes
// the param, its gradient, the learning rate (a scalar of the param's dtype), the number of the step (an integer
// scalar, 1 for the first) and its states, and gives the new param and the new states. States begin as zeros.
//
// One tensor is one op, so that groups of params may have attributes of their own. Schedules and clipping act on `lr`
// and `grad`; docs/training.md shows the whole.
#pragma once

#include <variant>

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef sgd_update, adam_update, adagrad_update, rmsprop_update, adafactor_update, lamb_update, lion_update,
    muon_update, sophia_update;
}  // namespace op

struct SgdAttrs {
  double momentum = 0;      ///< above 0 there is a state, the velocity
  bool nesterov = false;    ///< steps by grad + momentum * velocity
  double weight_decay = 0;  ///< times the param, added to the gradient
  RLX_FIELDS(SgdAttrs, field("momentum", &SgdAttrs::momentum), field("nesterov", &SgdAttrs::nesterov),
             field("weight_decay", &SgdAttrs::weight_decay));
};
/// velocity' = momentum velocity + grad; param' = param - lr velocity'. `velocity` only with a momentum.

struct AdamAttrs {
  double beta1 = 0.9, beta2 = 0.999;  ///< how much of the old moments stays
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW: the decay shrinks the param by lr weight_decay and leaves the gradient alone
  RLX_FIELDS(AdamAttrs, field("beta1", &AdamAttrs::beta1), field("beta2", &AdamAttrs::beta2),
             field("epsilon", &AdamAttrs::epsilon), field("weight_decay", &AdamAttrs::weight_decay),
             field("decoupled", &AdamAttrs::decoupled));
};
/// m' = beta1 m + (1 - beta1) grad; v' = beta2 v + (1 - beta2) grad^2; param' = param - lr m^ / (sqrt(v^) + epsilon),
/// m^ and v^ being m' / (1 - beta1^step) and v' / (1 - beta2^step).

struct AdagradAttrs {
  double epsilon = 1e-10;
  double weight_decay = 0;
  RLX_FIELDS(AdagradAttrs, field("epsilon", &AdagradAttrs::epsilon),
             field("weight_decay", &AdagradAttrs::weight_decay));
};
/// sum' = sum + grad^2; param' = param - lr grad / (sqrt(sum') + epsilon).

struct RmspropAttrs {
  double alpha = 0.99;  ///< how much of the old mean square stays
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum = 0;    ///< above 0 there is one more state, the velocity
  bool centered = false;  ///< divides by the deviation: there is one more state, the mean
  RLX_FIELDS(RmspropAttrs, field("alpha", &RmspropAttrs::alpha), field("epsilon", &RmspropAttrs::epsilon),
             field("weight_decay", &RmspropAttrs::weight_decay), field("momentum", &RmspropAttrs::momentum),
             field("centered", &RmspropAttrs::centered));
};
/// square' = alpha square + (1 - alpha) grad^2; param' = param - lr grad / (sqrt(square') + epsilon). `states`: the
/// mean square, then the mean if centered, then the velocity if there is a momentum.

struct AdafactorAttrs {
  double decay = 0.8;         ///< step^-decay of the new squares enters their means
  double epsilon = 0x1p-23;   ///< the least root of a mean square
  double least_scale = 1e-3;  ///< of a param: its root mean square, or this
  double clip = 1;            ///< the largest root mean square of an update
  double weight_decay = 0;    ///< times lr, taken off the param
  RLX_FIELDS(AdafactorAttrs, field("decay", &AdafactorAttrs::decay), field("epsilon", &AdafactorAttrs::epsilon),
             field("least_scale", &AdafactorAttrs::least_scale), field("clip", &AdafactorAttrs::clip),
             field("weight_decay", &AdafactorAttrs::weight_decay));
};
/// Mean squares along rows and along columns stand for all of them. `states`: of a param of rank 2 and above the means
/// over the last dim and over the one before it, both kept with extent 1; of others the squares.

struct LambAttrs {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0;
  RLX_FIELDS(LambAttrs, field("beta1", &LambAttrs::beta1), field("beta2", &LambAttrs::beta2),
             field("epsilon", &LambAttrs::epsilon), field("weight_decay", &LambAttrs::weight_decay));
};
/// Adam's step with weight_decay param added, made as long as the param (where both have a length): u;
/// param' = param - lr u |param| / |u|.

struct LionAttrs {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  RLX_FIELDS(LionAttrs, field("beta1", &LionAttrs::beta1), field("beta2", &LionAttrs::beta2),
             field("weight_decay", &LionAttrs::weight_decay));
};
/// param' = param - lr (sign(beta1 m + (1 - beta1) grad) + weight_decay param); m' = beta2 m + (1 - beta2) grad.

struct MuonAttrs {
  double momentum = 0.95;
  bool nesterov = true;
  int64_t iterations = 5;  ///< of Newton and Schulz
  double epsilon = 1e-7;   ///< the least norm that a matrix is divided by
  double weight_decay = 0;
  RLX_FIELDS(MuonAttrs, field("momentum", &MuonAttrs::momentum), field("nesterov", &MuonAttrs::nesterov),
             field("iterations", &MuonAttrs::iterations), field("epsilon", &MuonAttrs::epsilon),
             field("weight_decay", &MuonAttrs::weight_decay));
};
/// The momentum's nearest matrix with orthonormal rows or columns, nearly: a step of equal length in all directions.
/// The param has rank 2 or above; its last two dims are the matrix. param' = param - lr sqrt(max(1, rows / columns))
/// that.

struct SophiaAttrs {
  double beta1 = 0.965;
  double gamma = 0.05;  ///< how much of the curvature is divided by: the fraction of steps that is not clipped
  double epsilon = 1e-15, weight_decay = 0;
  RLX_FIELDS(SophiaAttrs, field("beta1", &SophiaAttrs::beta1), field("gamma", &SophiaAttrs::gamma),
             field("epsilon", &SophiaAttrs::epsilon), field("weight_decay", &SophiaAttrs::weight_decay));
};
/// m' = beta1 m + (1 - beta1) grad; param' = param (1 - lr weight_decay) - lr clamp(m' / max(gamma h, epsilon), -1, 1).
/// `h`, a mean of estimates of the Hessian's diagonal, is made elsewhere and only read.

/// The rule by which a param steps.
using OptimizerRule = std::variant<SgdAttrs, AdamAttrs, AdagradAttrs, RmspropAttrs, AdafactorAttrs, LambAttrs,
                                   LionAttrs, MuonAttrs, SophiaAttrs>;
const OpDef& op_of(const OptimizerRule& rule);

struct OptimizerState {
  std::string name;  ///< as the op's operand is called
  Type type;
};
/// What the rule keeps beside a param of this type. All begin as zeros.
std::vector<OptimizerState> states_of(const OptimizerRule& rule, const Type& param);

/// The new param, then the new states. Where `apply` (bool[], if given) is false, they come out as they went in.
std::vector<Value> optimizer_update(const OptimizerRule& rule, Value param, Value grad, Value lr, Value step,
                                    Values states, Value apply = {});

}  // namespace rlx
