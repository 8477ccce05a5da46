// Samples of the op table with their dtypes settled. A sample made of f64 stands for any float: what compares devices
// takes it in every dtype that the op's `infer` accepts.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

constexpr uint64_t kSeedOfCases = 20261121;

struct Case {
  std::vector<Type> types;
  Attrs attrs;
  double lo, hi;
  std::vector<Tensor> inputs(uint64_t seed = kSeedOfCases) const;
  /// The op alone, on inputs of these types.
  Graph graph(const OpDef& op) const;
  /// Its operands and attributes, as they are printed.
  std::string text() const;
};
/// The sample as it is written.
Case case_of(const Sample&);
/// The sample in each dtype that the op accepts in place of f64; the sample itself first.
std::vector<Case> cases_of(const OpDef&, const Sample&);

}  // namespace rlx
