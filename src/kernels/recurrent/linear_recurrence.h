// Linear recurrences without weight matrices: selective_scan, mamba2, gated_delta_net. A task keeps a block of a state
// in scratch, as rows of up to kStateColumns independent columns, which fill the lanes of vectors, and goes through all
// steps with it. Tasks are independent. f32 and f64. Neighbour: recurrent.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/rounded_up.h"
#include "rlx/dtype.h"

namespace rlx::kernels {

/// The maximal number of columns of a block.
constexpr int64_t kStateColumns = 64;
/// Scratch per calling thread, for states of `rows` rows.
size_t linear_recurrence_scratch_bytes(DType dtype, int64_t rows);

/// All arrays are dense, in the layouts of rlx/ops/recurrent.h. A null `state` stands for zeros. Each function below
/// runs tasks [begin, end).
struct SelectiveScanArgs {
  DType dtype = f32;
  int64_t batch = 0, steps = 0, channels = 0, n = 0;
  const void *x = nullptr, *delta = nullptr, *a = nullptr, *b = nullptr, *c = nullptr, *state = nullptr;
  void *y = nullptr, *last_state = nullptr;
  int64_t blocks() const { return divided_up(channels, kStateColumns); }
  int64_t tasks() const { return batch * blocks(); }
};
/// Scratch is that of linear_recurrence_scratch_bytes(dtype, n), which has room for the state and for the columns of
/// `a`.
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
