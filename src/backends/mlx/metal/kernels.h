// What the Metal kernels of this folder take, and the grids of threads that their bodies are written for.
#pragma once

#include <array>
#include <cstdint>

namespace rlx::mlx_backend {

/// The most numbers in a channel's state of selective_scan: a thread has them, and their decays, in registers.
constexpr int64_t kMostScanStates = 64;
/// The most numbers in a column of gated_delta_net's state, of which each of 32 threads has its share in registers.
constexpr int64_t kMostDeltaRows = 1024;

using Grid = std::array<int64_t, 3>;

/// A thread for each channel of each sequence.
constexpr Grid grid_of_selective_scan(int64_t sequences, int64_t channels) { return {channels, sequences, 1}; }
/// 32 threads for each column of each head's state of each sequence.
constexpr Grid grid_of_gated_delta_net(int64_t sequences, int64_t heads, int64_t columns) {
  return {32, columns, sequences * heads};
}

}  // namespace rlx::mlx_backend
