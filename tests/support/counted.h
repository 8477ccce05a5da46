// Numbers for tests to which their values do not matter: quarters from -2 on, which repeat after 23 elements.
#pragma once

#include <complex>

#include "rlx/element.h"

namespace rlx::test {

/// A tensor of a float or complex dtype with these numbers.
inline Tensor counted(const Shape& shape, DType dtype = f32) {
  Tensor t(dtype, shape);
  for (size_t i = 0; i < t.element_count(); ++i) {
    double v = static_cast<double>(i % 23) / 4 - 2;
    if (is_complex(dtype)) store<std::complex<double>>(t, i, {v, static_cast<double>(i % 7) / 3 - 1});
    else store<double>(t, i, v);
  }
  return t;
}

}  // namespace rlx::test
