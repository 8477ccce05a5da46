// The rules of the contract of devices, on every device that runs graphs. That rules find what breaks them:
// devices_test.cpp.
#include <doctest/doctest.h>

#include "judge/contract.h"

using namespace rlx;

TEST_CASE("every device that is here keeps the contract of devices") {
  for (const DeviceInfo& d : devices()) {
    if (!d.available) continue;
    for (const ContractRule& rule : contract_rules()) {
      const Judged judged = judge_rule(rule, d.device);
      CHECK_MESSAGE(judged.judgement != Judgement::wrong, d.device, ": ", rule.name, ": ", judged.why);
      // The CPU has no limits; all else the CPU and what computes by it can do.
      const bool is_limit = rule.name == "what is larger than a buffer is refused";
      if (d.device == Device::cpu() && is_limit) CHECK(judged.judgement == Judgement::refused);
      else if (d.device == Device::cpu() || d.device == Device("loopback") || d.device == Device("tiny"))
        CHECK_MESSAGE(judged.judgement == Judgement::agrees, d.device, ": ", rule.name, ": ", judged.why);
    }
  }
}
