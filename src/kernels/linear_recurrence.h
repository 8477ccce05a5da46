// Recurrences without weights: selective_scan, mamba2, gated_delta_net. Each keeps a state of some rows by a block of
// independent columns in scratch, column by column a vector's lanes, and goes through all steps with it. f32 and f64.
// A task is one block; tasks are independent. Neighbour: recurrent.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/rounded_up.h"
#include "rlx/dtype.h"

namespace rlx::kernels {

/// The most columns of a block.
constexpr int64_t kStateColumns = 64;
/// Scratch per calling thread, for states of that many rows.
size_t linear_recurrence_scratch_bytes(DType dtype, int64_t rows);

/// Everything is dense, in the layouts of rlx/ops/recurrent.h. `state` may be null for zeros.
struct SelectiveScanArgs {
  DType dtype = f32;
  int64_t batch = 0, steps = 0, channels = 0, n = 0;
  const void *x = nullptr, *delta = nullptr, *a = nullptr, *b = nullptr, *c = nullptr, *state = nullptr;
  void *y = nullptr, *last_state = nullptr;
  int64_t blocks() const { return divided_up(channels, kStateColumns); }
  int64_t tasks() const { return batch * blocks(); }
};
/// Scratch for n rows twice: the state and a's columns.
void selective_scan(const SelectiveScanArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

struct Mamba2Args {
  DType dtype = f32;
  int64_t batch = 0, steps = 0, heads = 0, width = 0, n = 0;
  const void *x = nullptr, *dt = nullptr, *a = nullptr, *b = nullptr, *c = nullptr, *state = nullptr;
  void *y = nullptr, *last_state = nullptr;
  int64_t blocks() const { return divided_up(width, kStateColumns); }
  int64_t tasks() const { return batch * heads * blocks(); }
};
void mamba2(const Mamba2Args& args, int64_t begin, int64_t end, void* scratch) noexcept;

struct GatedDeltaNetArgs {
  DType dtype = f32;
  int64_t batch = 0, steps = 0, heads = 0, n = 0, m = 0;
  bool gate_per_channel = false;
  const void *q = nullptr, *k = nullptr, *v = nullptr, *g = nullptr, *beta = nullptr, *state = nullptr;
  void *y = nullptr, *last_state = nullptr;
  int64_t blocks() const { return divided_up(m, kStateColumns); }
  int64_t tasks() const { return batch * heads * blocks(); }
};
void gated_delta_net(const GatedDeltaNetArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels
