// How far results may be apart: by their dtype, and, of products, by the promise that is made of them.
#pragma once

#include "judge/tolerance.h"

namespace rlx {

/// The constant c of the promise for products of f32 (docs/runtime.md): |error| <= c sqrt(k) 2^-24 sum |a| |b| and half
/// a unit in the last place of the result. Twice the worst of OpenBLAS and oneDNN, by `bench/product_accuracy --peers`.
inline constexpr double kProductErrorOfRoot = 3.97;

}  // namespace rlx
