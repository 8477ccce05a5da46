// Linear recurrences without weight matrices: selective_scan, mamba2, gated_delta_net. The columns of a state are
// independent, so a task takes a block of up to kStateColumns of them. It keeps the block in scratch, as rows that fill
// the lanes of vectors, and goes through all steps with it. Tasks are independent. f32 and f64. Neighbour: recurrent.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/rounded_up.h"
#include "rlx/dtype.h"

namespace rlx::kernels {

/// The maximum number of columns in a block.
constexpr int64_t kStateColumns = 64;
/// Bytes of scratch that each calling thread needs, aligned to 64 bytes. `rows` is `n` of the structs below.
size_t linear_recurrence_scratch_bytes(DType dtype, int64_t rows);

/// All arrays are dense, in the layouts of rlx/ops/recurrent.h. A null `state` stands for zeros. Each of the three
/// functions runs the tasks [begin, end) of args.tasks().
struct SelectiveScanArgs {
  DType dtype = f32;
  int64_t batch = 0, steps = 0, channels = 0, n = 0;
  const void *x = nullptr, *delta = nullptr, *a = nullptr, *b = nullptr, *c = nullptr, *state = nullptr;
  void *y = nullptr, *last_state = nullptr;
  int64_t blocks() const { return divided_up(channels, kStateColumns); }
  int64_t tasks() const { return batch * blocks(); }
};
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
