// The device mlx in its modes. Where this build has no MLX there is none, and that is said.
#pragma once

#include <doctest/doctest.h>

#include <map>

#include "rlx/session.h"

namespace rlx::test {

inline bool mlx_is_here() {
  const bool here = is_available(Device::mlx());
  if (!here) MESSAGE("mlx is not here: skipped");
  return here;
}
inline std::vector<Device> mlx_modes() {
  std::vector<Device> all;
  if (mlx_is_here())
    for (const char* mode : {"lazy", "eager", "compiled"}) all.emplace_back("mlx", 0, std::vector<std::string>{mode});
  return all;
}

/// The bytes of a tensor as elements of another dtype.
inline Tensor with_bytes_of(const Tensor& bytes, DType dtype, const Shape& shape) {
  return Tensor::borrow(dtype, shape, bytes.bytes(), std::make_shared<Tensor>(bytes));
}

}  // namespace rlx::test
