// The positions that resizing reads, for the op, and for front ends that read the nearest ones.
#pragma once

#include <vector>

#include "rlx/ops/image.h"

namespace rlx {

/// For each of `out` indices of the result, the position that is read along an extent of `in`: within [0, in - 1].
std::vector<double> grid_places(ResizeGrid grid, int64_t in, int64_t out);

}  // namespace rlx
