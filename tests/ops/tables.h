// Hard cases as rows of text: what hard_cases.py writes into *_cases.inc, with values from NumPy, JAX and PyTorch.
#pragma once

#include "ops/hard_cases.h"

namespace rlx::test {

struct Row {
  std::string_view title, op, attrs;
  std::vector<std::string_view> inputs, wanted;
};

inline Tensor tensor_of(std::string_view text) {
  Scanner in(text);
  Tensor t;
  parse(in, t);
  return t;
}
inline Attrs attrs_of(const OpDef& op, std::string_view text) {
  Scanner in(text);
  return text.empty() ? Attrs() : op.parse_attrs(in);
}

/// Runs each row as it stands and made of primitives. `tolerance` is that of `mismatch`; 0 means equal.
inline void check_rows(std::span<const Row> rows, double tolerance = 0) {
  for (const Row& row : rows) {
    std::string why;
    try {
      const OpDef& op = find_op(row.op);
      Attrs attrs = attrs_of(op, row.attrs);
      std::vector<Tensor> inputs, wanted;
      for (std::string_view text : row.inputs) inputs.push_back(tensor_of(text));
      for (std::string_view text : row.wanted) wanted.push_back(tensor_of(text));
      auto build = [&](Values v) { return v[0].graph().emit(op, {v.begin(), v.end()}, attrs); };
      why = mismatch(build, inputs, wanted, tolerance);
    } catch (const Error& error) {
      why = error.what();
    }
    CHECK_MESSAGE(why.empty(), row.title, " (", row.op, "): ", why);
  }
}

/// The type of one op's first result, on operands of these types.
inline std::string type_text(const Build& build, const std::vector<Type>& types) {
  return text_of(trace(types, build).output_types()[0]);
}

}  // namespace rlx::test
