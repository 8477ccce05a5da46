// What the entries of the random ops share.
#pragma once

#include "ops/core/elementwise_rules.h"
#include "rlx/ops/random.h"

namespace rlx {

/// The dims in front of a key's 2 words. Fails if `t` is no key.
Dims leading_dims(const Type& key);

/// Samples of ops whose operands are keys: dims and attributes.
template <class A>
struct Draw {
  std::vector<Dims> dims;
  A attrs;
};
template <class A>
Samples draws(std::vector<Draw<A>> all) {
  return [all] {
    std::vector<Sample> samples;
    for (const Draw<A>& d : all)
      samples.push_back(
          {.dims = d.dims, .dtypes = std::vector<DType>(d.dims.size(), u32), .attrs = d.attrs, .lo = 0, .hi = 4e9});
    return samples;
  };
}

}  // namespace rlx
