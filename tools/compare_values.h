// Two runs side by side, value by value: which op is furthest apart, and which is the first beyond a bound.
#pragma once

#include <string>
#include <vector>

#include "rlx/compile.h"
#include "rlx/coreml_model.h"
#include "rlx/io.h"
#include "tools/compare_structure.h"

namespace rlx::tools {

/// What a run computed: its values by name, in the order of the program.
struct Trace {
  struct Step {
    std::string name, op;
    Tensor value;
  };
  std::vector<Step> steps;
  std::optional<ProgramStructure> structure = {};  ///< of a package: which value is which of another
};

/// Each value of the function's main block, in the precision asked for. `inputs` as for predict.
Trace trace_package(const std::string& path, const std::string& function, bool f32, int threads,
                    const std::vector<NamedTensor>& inputs);
/// Each output of the graph, and each named part's last value, compiled with `options`.
Trace trace_graph(const Graph& graph, const NamedTensors& params, int threads, const std::vector<NamedTensor>& inputs,
                  const CompileOptions& options);

struct ComparedValue {
  std::string name, op;
  std::string other_name, other_op;  ///< in the second model
  double apart = 0;                  ///< the largest difference between two elements
  double relative = 0;  ///< of the largest magnitude among the second's elements; infinite where one is no number
  double cosine = 1;    ///< of the angle between the two, as vectors; NaN where one has no direction
  std::string where;    ///< which element: "[3] 1.5 and 1.25"
};
struct Comparison {
  struct Alone {
    std::string name, op;
    bool is_output = false;
  };
  std::vector<ComparedValue> values;  ///< in the order of the first
  std::vector<Alone> only_a, only_b;  ///< what has no counterpart

  /// Outputs among them, of both: results of a model that were compared with nothing.
  std::vector<std::string> lone_outputs() const;
};
/// The values that both have: of two packages those that are the same by structure (compare_alignment.h), and outputs
/// of one name whatever makes them, else those of the same name. Fails if there are none.
Comparison compare_traces(const Trace& a, const Trace& b);
/// A table, the worst first, `most` lines of it; what has no counterpart, `most` names of it; and a line that names the
/// first value beyond the bound.
std::string comparison_text(const Comparison& compared, double bound, size_t most);

/// All of it as JSON, values in the order of the program.
std::string comparison_json(const Comparison& compared, double bound, bool made_up_inputs);

/// Inputs for whoever gives none: floats between -1 and 1, integers 0 and 1, from a seed; open sizes as the package's
/// description has them, or 1.
std::vector<NamedTensor> made_up_inputs(const std::vector<Signature::Entry>& entries, uint64_t seed);
std::vector<Signature::Entry> package_inputs(const std::string& path, const std::string& function);
/// The inputs of one package under the names of another: by name where it has them, what is left in order, if the types
/// are the same but for the precision of floats. Those that fit nowhere stay as they are.
std::vector<NamedTensor> as_named_by(const std::vector<Signature::Entry>& entries, std::vector<NamedTensor> given);

}  // namespace rlx::tools
