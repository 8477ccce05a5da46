// How far results may differ from the true ones: by dtype, and for products by the error bound that docs/runtime.md
// promises.
#pragma once

#include "judge/tolerance.h"

namespace rlx {

/// The constant c of the error bound of f32 products (docs/runtime.md): |error| <= c sqrt(k) 2^-24 sum |a| |b| plus
/// half an ulp of the result. It is twice the worst of OpenBLAS and oneDNN (`bench/product_accuracy --peers`).
inline constexpr double kProductErrorOfRoot = 3.97;

}  // namespace rlx
