// tests/golden/io/expected.json: what NumPy and the safetensors package see in the files beside it.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "rlx/tensor.h"

namespace rlx::test {

inline nlohmann::json expected_arrays() {
  return nlohmann::json::parse(std::ifstream("tests/golden/io/expected.json"));
}

/// The tensor that an entry of it describes.
inline Tensor described(const nlohmann::json& entry) {
  Tensor t = Tensor::uninitialized(dtype_named(entry.at("dtype").get<std::string>()), entry.at("shape").get<Shape>());
  std::string hex = entry.at("hex");
  if (hex.size() != 2 * t.byte_count())
    fail(ErrorCode::internal, "the golden file describes ", hex.size() / 2, " bytes for ", t.type());
  std::byte* out = t.mutable_data();
  for (size_t i = 0; i < t.byte_count(); ++i)
    out[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return t;
}

}  // namespace rlx::test
