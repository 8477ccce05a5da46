// Any bytes as a model, all the way into a graph: refused with an rlx::Error, or lowered to a graph that is well-typed,
// within bounded memory and time. The linter reads it too, and only finds faults.
#include <cstdlib>

#include "frontends/mil/lint.h"
#include "io/mil_codec.h"
#include "ir/verify.h"

using namespace rlx;

namespace {

Tensor literal(const mil::Value& value) {
  if (const auto* tensor = std::get_if<Tensor>(&value.data)) return *tensor;
  fail(ErrorCode::not_found, "there is no file of weights");
}

template <class F>
void expect_refusal(F f) {
  try {
    f();
  } catch (const Error& error) {
    if (*error.what() == '\0' || error.code() == ErrorCode::internal) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::optional<mil::Model> model;
  expect_refusal([&] { model = mil::decode_model(std::as_bytes(std::span(data, size))); });
  if (!model) return 0;
  for (const auto& finding : mlprogram::lint(*model, literal))
    if (finding.rule.empty() || finding.what.empty()) std::abort();
  for (const auto& [name, function] : model->program.functions)
    for (bool single : {false, true}) {
      mlprogram::LowerOptions options;
      options.function = name, options.f32 = single;
      expect_refusal([&] { verify(mlprogram::lower(*model, literal, options).graph); });
    }
  return 0;
}
