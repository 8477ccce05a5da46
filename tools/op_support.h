// What the backends claim: asked for each sample of each op, in each dtype, of the same tables that legalization asks.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "rlx/op_def.h"

namespace rlx::tools {

struct OpSupport {
  struct Count {
    size_t samples = 0, native = 0, missing = 0;
  };
  /// By dtype of the operands; "" where the samples themselves say which dtype they have.
  std::map<std::string, Count> by_dtype;
  std::set<std::string> reasons;  ///< why not native, where that differs from "no kernel"
  std::set<std::string> ways;     ///< how the samples that are taken run, where the backend says so

  size_t samples() const;
  size_t native() const;
  /// Those in which every sample is native.
  std::vector<std::string> native_dtypes() const;
  /// native, some, composed, missing; "-" for an op without samples.
  std::string word() const;
  /// The word, and with "some" the dtypes that are native throughout.
  std::string text() const;
};

struct BackendSupport {
  std::string backend;
  Target target;
  OpSupport of(const OpDef& op) const;
};
/// The backends of this build that run something.
std::vector<BackendSupport> backends_support();

/// What a device says of how it runs each op, as Markdown.
std::string lowerings_document(const std::string& device);

/// How many results the op has in its samples: one number for most.
std::set<size_t> result_counts(const OpDef& op);

}  // namespace rlx::tools
