// See the header, and KeyValueCache in rlx/models/transformer.h.
#include "models/blocks/cache_dtypes.h"

#include <algorithm>
#include <array>

namespace rlx {

std::span<const DType> KeyValueCache::dtypes() {
  // Of the block formats those whose encoders need no search: each step makes some.
  static constexpr std::array kDTypes = {f32, f16, bf16, q8_0, q4_0};
  return kDTypes;
}

std::string names_of_cache_dtypes(std::string_view conjunction) {
  const std::span<const DType> all = KeyValueCache::dtypes();
  std::string names(name_of(all[0]));
  for (size_t i = 1; i < all.size(); ++i)
    names += text_of(i + 1 < all.size() ? ", " : text_of(" ", conjunction, " "), all[i]);
  return names;
}

void check_cache_dtype(DType dtype, const Dim& head_dim) {
  const std::span<const DType> all = KeyValueCache::dtypes();
  if (std::find(all.begin(), all.end(), dtype) == all.end())
    fail(ErrorCode::unsupported, "caches of ", dtype, "; there are ", names_of_cache_dtypes("and"));
  const int64_t length = info(dtype).block_elements;
  if (is_block(dtype) && !(head_dim.is_static() && head_dim.value() % length == 0))
    fail(ErrorCode::unsupported, "a cache of ", dtype, ", whose blocks have ", length, " elements, but heads have ",
         head_dim, ", which is no multiple of that; take f16");
}

}  // namespace rlx
