// Fused element-wise ops of low precision without the rounding between them.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Inside an elementwise_region, what is f16 or bf16 is computed in f32; the region's results are rounded.
///
///   before  graph @region {                         after  graph @region {
///             %0 = input() @"x0" : f16[4]                    %0 = input() @"x0" : f16[4]
///             %1 = exp(%0) : f16[4]                          %1 = convert(%0) {dtype = f32} : f32[4]
///             %2 = neg(%1) : f16[4]                          %2 = exp(%1) : f32[4]
///             return %2 }                                    %3 = neg(%2) : f32[4]
///                                                            %4 = convert(%3) {dtype = f16} : f16[4]
///                                                            return %4 }
///
/// Other bits than op by op, closer to what f32 gives; so only where the precision policy is relaxed, and behind
/// fuse_elementwise. A conversion inside the region to f16 or bf16 rounds no more, either.
Graph widen_regions(const Graph& g);

}  // namespace rlx
