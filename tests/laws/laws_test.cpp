// Every law over every op and sample.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "ir/leaves.h"
#include "support/laws.h"
#include "support/sanitized.h"

using namespace rlx;

namespace {

struct Counts {
  size_t checks = 0, not_applicable = 0;
  std::map<std::string, double, std::less<>> seconds = {};  // by law
};
/// One law on the first `most` samples of an op.
void check(const laws::Law& law, const OpDef& op, size_t most, Counts& counts) {
  const auto samples = op.samples();
  const auto begin = std::chrono::steady_clock::now();
  for (size_t s = 0; s < std::min(samples.size(), most); ++s) {
    const laws::Finding f = laws::examine(law, op, samples[s]);
    (f.outcome == laws::Outcome::not_applicable ? counts.not_applicable : counts.checks) += 1;
    CHECK_MESSAGE(f.outcome != laws::Outcome::broken, law.name, " of ", op.name, " sample ", s, ": ", f.why);
  }
  counts.seconds[std::string(law.name)] +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
bool is_start_of_graph(const OpDef* op) { return op == &op::input || op == &op::param || op == &op::constant; }
std::string law_of_default_device() { return "backend_agrees(" + Device::from_environment().name() + ")"; }

constexpr size_t kAll = SIZE_MAX;

}  // namespace

TEST_CASE("every op keeps every law on each of its samples") {
  // Sanitized not: most laws compare graphs by the reference, which the golden cases run there; the default device,
  // below, runs every sample, and other devices have areas of their own.
  if (test::sanitized()) return;
  Counts counts;
  for (size_t number = 0; const OpDef* op : all_ops()) {
    if (is_start_of_graph(op)) continue;
    const bool takes_all = test::checks_all() || ++number % 3 == 0;
    CHECK_MESSAGE(!op->samples().empty(), op->name, " has no sample");
    CHECK_MESSAGE((op->reference || op->decompose), op->name, " has neither a reference nor a decomposition");
    CHECK_MESSAGE(!op->doc.empty(), op->name, " says nothing of itself");
    for (const laws::Law& law : laws::all_laws()) {
      if (law.name == law_of_default_device()) continue;  // below
      // Other devices, which have areas of their own, run the first sample of every third op, and transforms of
      // gradients are taken of every third, unless everything was asked for (`make check-all`).
      const bool is_of_other_device = law.name.starts_with("backend_agrees(");
      if (!takes_all && (is_of_other_device || law.name == "gradient_transforms")) continue;
      check(law, *op, test::checks_all() || !is_of_other_device ? kAll : 1, counts);
    }
  }
  MESSAGE(counts.checks, " checks over ", all_ops().size(), " ops; ", counts.not_applicable, " did not apply");
  for (const auto& [law, seconds] : counts.seconds) MESSAGE(law, ": ", seconds, " s");
}

TEST_CASE("every sample of every op runs on the default device as its report says, and like the reference") {
  Counts counts;
  // Sanitized, a device that was asked for by RLX_DEVICE runs the first sample: its kernels run all of them without it.
  const size_t most = test::sanitized() && std::getenv("RLX_DEVICE") ? 1 : kAll;
  for (const OpDef* op : all_ops())
    if (!is_start_of_graph(op)) check(laws::find_law(law_of_default_device()), *op, most, counts);
  MESSAGE(counts.checks, " checks on ", Device::from_environment());
}
