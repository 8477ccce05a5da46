// The rules of the contract of devices, on every device that runs graphs; and that they find what breaks them.
#include <doctest/doctest.h>

#include "judge/contract.h"

using namespace rlx;

TEST_CASE("every device that is here keeps the contract of devices") {
  for (const DeviceInfo& d : devices()) {
    if (!d.available) continue;
    for (const ContractRule& rule : contract_rules()) {
      const Judged judged = judge_rule(rule, d.device);
      CHECK_MESSAGE(judged.judgement != Judgement::wrong, d.device, ": ", rule.name, ": ", judged.why);
    }
  }
}
