// Every law over every op and sample.
#include <doctest/doctest.h>

#include <cstdlib>

#include "ir/leaves.h"
#include "support/laws.h"
#include "support/sanitized.h"

using namespace rlx;

TEST_CASE("every op keeps every law on each of its samples") {
  size_t checks = 0, not_applicable = 0;
  const char* wanted = std::getenv("RLX_CHECK_ALL");
  const bool checks_all = wanted && *wanted;
  const std::string kernels = "backend_agrees(" + Device::from_environment().name() + ")";
  for (const OpDef* op : all_ops()) {
    if (op == &op::input || op == &op::param || op == &op::constant) continue;
    auto samples = op->samples();
    CHECK_MESSAGE(!samples.empty(), op->name, " has no sample");
    CHECK_MESSAGE((op->reference || op->decompose), op->name, " has neither a reference nor a decomposition");
    CHECK_MESSAGE(!op->doc.empty(), op->name, " says nothing of itself");
    for (const laws::Law& law : laws::all_laws()) {
      // The kernels of the default device run every sample. Other devices run the first, unless everything was asked
      // for (`make check-all`); sanitized, so does what compares graphs, mostly by the reference.
      const bool is_of_other_device = law.name.starts_with("backend_agrees(") && law.name != kernels;
      const bool all = checks_all || law.name == kernels || (!test::sanitized() && !is_of_other_device);
      for (size_t s = 0; s < std::min(samples.size(), all ? samples.size() : 1); ++s) {
        laws::Finding f = laws::examine(law, *op, samples[s]);
        checks += f.outcome != laws::Outcome::not_applicable;
        not_applicable += f.outcome == laws::Outcome::not_applicable;
        CHECK_MESSAGE(f.outcome != laws::Outcome::broken, law.name, " of ", op->name, " sample ", s, ": ", f.why);
      }
    }
  }
  MESSAGE(checks, " checks over ", all_ops().size(), " ops; ", not_applicable, " did not apply");
}
