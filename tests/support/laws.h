// What must hold for every op and each of its samples, with nothing to write per op. A sample made of f64 stands for
// any float: laws that compare with a backend run it in every dtype that the op's `infer` accepts.
#pragma once

#include <functional>

#include "judge/judge.h"

namespace rlx::laws {

enum class Outcome { holds, not_applicable, broken };
struct Finding {
  Outcome outcome = Outcome::holds;
  std::string why = {};
};

constexpr uint64_t kSeed = kSeedOfCases;
const Finding kNotApplicable{Outcome::not_applicable, {}};
inline Finding finding(std::string why) { return {why.empty() ? Outcome::holds : Outcome::broken, std::move(why)}; }

using rlx::Case, rlx::case_of, rlx::cases_of;

struct Law {
  std::string_view name, says;
  std::function<Finding(const OpDef&, const Sample&)> check;
};
/// infer_agrees, decompose_agrees, round_trips, symbols_agree, passes_agree, those of derivatives and batches
/// (gradient_laws.cpp), and backend_agrees for each available device.
const std::vector<Law>& all_laws();
/// vjp_is_gradient, jvp_transposes_vjp, batch_is_loop, gradient_transforms.
std::vector<Law> gradient_laws();
const Law& find_law(std::string_view name);

/// Runs a law; an rlx::Error out of it breaks the law and is its reason.
Finding examine(const Law&, const OpDef&, const Sample&);

/// Runs a graph of one op some other way, for backend_agrees.
using Runner = GraphRunner;
Finding runs_like_the_reference(const OpDef&, const Sample&, const Runner&);

}  // namespace rlx::laws
