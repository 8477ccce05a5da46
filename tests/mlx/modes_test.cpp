// A change of mode changes how a graph is run on mlx, and no number beyond rounding: every op, and every gradient.
#include <doctest/doctest.h>

#include "judge/judge.h"
#include "mlx/modes.h"
#include "rlx/op_def.h"
#include "rlx/ops.h"
#include "support/compare.h"
#include "support/sanitized.h"

namespace rlx::test::mlx_modes_alike {
namespace {

/// Modes may order the sums of an op in their own ways: 4 units in the last place of f32, f64 or f16, 8 of bf16. On the
/// processor there was no difference.
double rounding_of(DType t) {
  switch (t) {
    case f64:
    case c128: return 0x1p-50;
    case f16: return 0x1p-8;
    case bf16: return 0x1p-5;
    default: return is_float(t) || is_complex(t) ? 0x1p-21 : 0;
  }
}

struct Counts {
  size_t compared = 0, equal = 0, refused = 0, errors = 0;
};

/// The results, or the code of the error that the run ended with.
struct Ran {
  std::vector<Tensor> results;
  std::optional<ErrorCode> error;
  Ran(const Device& device, const Graph& g, Tensors inputs) {
    try {
      results = Session(device).compile(g).run_ordered(inputs);
    } catch (const Error& e) {
      error = e.code();
    }
  }
};

void check_modes_of(const Graph& g, Tensors inputs, const std::vector<Device>& modes, Counts& counts) {
  if (!supports(g, modes[0])) return void(++counts.refused);
  std::optional<Ran> first;
  bool all_equal = true;
  for (const Device& device : modes) {
    const std::string mode = device.options().back();
    CAPTURE(mode);
    const Ran ran(device, g, inputs);
    if (!first) {
      first = ran;
      continue;
    }
    CHECK((ran.error == first->error));
    if (ran.error || first->error) continue;
    REQUIRE(ran.results.size() == first->results.size());
    for (size_t r = 0; r < ran.results.size(); ++r) {
      const Tensor &got = ran.results[r], &wanted = first->results[r];
      if (got == wanted) continue;
      all_equal = false;
      CHECK(difference(got, wanted, rounding_of(wanted.dtype())) == "");
    }
  }
  if (first->error) return void(++counts.errors);
  ++counts.compared, counts.equal += all_equal;
}

}  // namespace

TEST_CASE("every op gives the same numbers in each mode, and so does its gradient, but for rounding") {
  const std::vector<Device> modes = mlx_modes();
  if (modes.empty()) return;
  Counts values, gradients;
  for (const OpDef* def : all_ops()) {
    if (def == &op::input || def == &op::param || def == &op::constant) continue;
    const auto samples = def->samples();
    for (size_t s = 0; s < samples.size(); ++s) {
      const Sample& sample = samples[s];
      std::vector<Case> cases = cases_of(*def, sample);
      // Of a sample that stands for any float the one in f32, unless everything was asked for.
      if (!checks_all() && cases.size() > 1) cases = {cases[1]};
      for (const Case& c : cases) {
        CAPTURE(def->name);
        CAPTURE(c.text());
        std::vector<Tensor> inputs = c.inputs();
        check_modes_of(c.graph(*def), inputs, modes, values);
        if (s > 0 && !checks_all()) continue;  // gradients of the first sample: they are large graphs
        const auto gradient = gradient_of(*def, c);
        if (!gradient) continue;
        const auto types = gradient->input_types();
        for (size_t k = inputs.size(); k < types.size(); ++k)
          inputs.push_back(random_tensor(types[k].dtype, shape_of(types[k].dims), kSeedOfCases + k, -1, 1));
        check_modes_of(*gradient, inputs, modes, gradients);
      }
    }
  }
  for (const auto& [what, n] :
       {std::pair(std::string("cases"), values), std::pair(std::string("gradients"), gradients)})
    MESSAGE(what, ": ", n.compared, " compared, ", n.equal, " equal bit by bit; ", n.refused, " refused, ", n.errors,
            " ended with an error in each mode");
  CHECK(values.compared > 1000);
  CHECK(gradients.compared > 200);
}

}  // namespace rlx::test::mlx_modes_alike
