// Recorded cases of Core ML models: a package, inputs, and the outputs that its test expects; and how a result is
// judged.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rlx/coreml_model.h"

namespace rlx::tools {

struct CaseStep {
  std::map<std::string, std::string> in, out;  ///< name of a feature -> file: .npy, or .png of an input
  std::string label = {};                      ///< that a classifier is to choose; empty: any
};
/// What `case.json` in a folder says.
struct CaseFolder {
  std::string path;                       ///< of the folder
  bool f16 = false;                       ///< the program computes in f16, or holds f16 inside
  bool inside_unknown = false;            ///< the case does not say whether its program holds f16
  double atol = 0, rtol = 0;              ///< of an f32 case
  double tight_atol = 0, tight_rtol = 0;  ///< of an f16 case, before the rounding of f16 is added
  double mismatch_ratio = 0;              ///< of elements that may differ
  std::string function;                   ///< of a package with several; else empty
  std::map<std::string, int64_t> ops;
  std::vector<CaseStep> steps;

  /// Fails if there is no case.json, or if it does not say what it must.
  static CaseFolder read(const std::string& path);
};
/// The folders below `root` that hold a case.json, in order of their paths.
std::vector<std::string> find_cases(const std::string& root);

struct Difference {
  bool ok = true;
  std::string worst;  ///< of a failed comparison: where, and which two numbers; else empty
  double excess = 0;  ///< how many times the bound the worst element is away
};
/// f32: |got - expected| <= atol + rtol |expected|. f16: the tight bound and 4 units of f16 at the element or at the
/// largest magnitude. Integers and bools are equal. NaN equals NaN, infinities by sign.
Difference compare_outputs(const CaseFolder& c, const Tensor& got, const Tensor& expected);

struct CaseResult {
  bool passed = false;
  std::string error;  ///< why not, in one line or several
};
/// Loads the case's model and runs its steps; outputs go to `outputs`, if that is not empty.
CaseResult run_case(const CaseFolder& c, const std::string& outputs, bool widen);

}  // namespace rlx::tools
