// What every device keeps besides the numbers of its ops: tensors, order, donation, cancelling, limits, threads.
#pragma once

#include "judge/judge.h"

namespace rlx {

/// One rule of the contract of devices. `check` throws an rlx::Error that says what was broken, or returns why the
/// device cannot be asked (it lacks an op that the check needs); empty if the rule holds.
struct ContractRule {
  std::string_view name;
  std::string (*check)(const Device&);
};
std::span<const ContractRule> contract_rules();

/// How a device keeps a rule.
Judged judge_rule(const ContractRule& rule, const Device& device);

}  // namespace rlx
