// Gathers and scatters as operations of their own, where their form has one; used by lower_index.cpp.
#pragma once

#include "backends/coreml/lowerings.h"
#include "ops/core/index_rules.h"

namespace rlx::coreml {

/// What a gather or scatter is in ML Programs.
struct PlaceForm {
  enum class Kind {
    rows,       ///< whole slices at places of one dim: gather, scatter
    vectors,    ///< slices at index vectors: gather_nd, scatter_nd
    along_axis  ///< each element at its own place but for one dim: gather_along_axis, scatter_along_axis
  };
  Kind kind = Kind::rows;
  int64_t axis = 0;     ///< the first dim that is indexed
  int64_t batch = 0;    ///< of vectors: leading dims in which x and the indices run together
  int64_t entries = 1;  ///< of a vector
};
/// Nothing where there is no such operation. `outside` is gather's result or scatter's updates, `sizes` those of a
/// slice.
std::optional<PlaceForm> form_of(const Places&, const Type& x, const Type& indices, const Type& outside,
                                 const Dims& sizes);

struct Valid {
  Var at;                     ///< the indices, moved into x
  std::optional<Var> inside;  ///< which of them needed no move; absent where none did
};
Valid valid_places(Lowering& l, const PlaceForm& form, size_t operand);

/// What is read out of range (lower_index.cpp).
Var out_of_range(Emitter& e, DType dtype);

std::optional<Var> gathered(Lowering& l, const GatherAttrs& a, const Places& p);
/// `data` and `updates` are the operands as they are to be combined by `mode`.
std::optional<Var> scattered(Lowering& l, const Places& p, const Var& data, const Var& updates, std::string_view mode);

}  // namespace rlx::coreml
