// Limits of the Metal kernels in this folder, and their grids: how many threads there are along x, y and z.
#pragma once

#include <array>
#include <cstdint>

namespace rlx::mlx_backend {

/// The maximum of selective_scan's N: a thread keeps a channel's N numbers of state, and its row of `a`, in registers.
constexpr int64_t kMaxScanStates = 64;
/// The maximum of gated_delta_net's N: each of 32 threads keeps every 32nd number of a state's column in registers.
constexpr int64_t kMaxDeltaRows = 1024;

using Grid = std::array<int64_t, 3>;

/// One thread for each channel of each sequence.
constexpr Grid grid_of_selective_scan(int64_t sequences, int64_t channels) { return {channels, sequences, 1}; }
/// 32 threads for each column of each head's state of each sequence.
constexpr Grid grid_of_gated_delta_net(int64_t sequences, int64_t heads, int64_t columns) {
  return {32, columns, sequences * heads};
}

}  // namespace rlx::mlx_backend
