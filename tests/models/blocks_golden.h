// Cases of tests/golden/model_blocks/ (tests/golden/generate/model_blocks.py): weights, inputs, and what PyTorch made
// of them in f64.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/checks.h"
#include "rlx/element.h"
#include "rlx/io.h"
#include "rlx/models.h"

namespace rlx::test::blocks {

/// Outputs have magnitudes up to some 10, sums up to some 200 terms: f32 is about ten times better than this.
constexpr float kTolerance = 1e-5F;

inline const SafetensorsFile& golden_file() {
  static const SafetensorsFile file = SafetensorsFile::open("tests/golden/model_blocks/blocks.safetensors");
  return file;
}
inline Tensor golden(const std::string& name) { return golden_file().tensor(name); }

/// A float tensor in another float dtype.
inline Tensor as(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor to(dtype, t.shape());
  for (size_t i = 0; i < t.element_count(); ++i) store<double>(to, i, load<double>(t, i));
  return to;
}

/// What `build(b, inputs)` makes of inputs "x0", "x1" ..., compiled, with the weights of a case.
template <class Build>
CompiledGraph compiled_block(const std::string& name, const std::vector<Tensor>& inputs, DType dtype, Build build) {
  Graph g(name);
  ModelBuilder b(g, dtype);
  std::vector<Value> in;
  for (const Tensor& t : inputs) in.push_back(g.input(text_of("x", in.size()), t.type()));
  const Many<Value> out = build(b, in);
  for (Value v : out) g.output(v.dtype() == f32 || !is_float(v.dtype()) ? v : convert(v, f32));
  CompiledGraph compiled = Session().compile(g);
  if (dtype == f32) {
    // Every weight of the case is read: a block that leaves one out is found.
    for (const std::string& unread : bind_weights(compiled, golden_file(), name + "/"))
      if (unread.starts_with(name + "/") && !unread.starts_with(name + "/in.") && !unread.starts_with(name + "/out."))
        FAIL("the block has no use for '" << unread << "'");
  } else {
    for (const auto& param : compiled.signature().params)
      compiled.set_param(param.name, as(golden(name + "/" + param.name), dtype));
  }
  return compiled;
}
template <class Build>
std::vector<Tensor> made(const std::string& name, const std::vector<Tensor>& inputs, Build build, DType dtype = f32) {
  return compiled_block(name, inputs, dtype, build).run_ordered(inputs);
}

/// How far numbers of a block in halves, whose weights and inputs are rounded to them too, may be from f64: `units`
/// units in the last place of the largest number.
inline float bound_of_halves(const Tensor& wanted, DType dtype, float units) {
  float largest = 0;
  for (float v : wanted.values<float>()) largest = std::max(largest, std::abs(v));
  return units * std::ldexp(largest, dtype == f16 ? -10 : -7);
}

}  // namespace rlx::test::blocks
