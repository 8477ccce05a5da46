// Recurrences as Metal kernels of our own, by which one launch takes all steps: on Apple's GPU alone. Everywhere else
// the ops are composed: the host goes from step to step. No GPU has run these kernels yet; what they compute is tested
// on the processor (metal/*.inc).
#include <mlx/backend/metal/metal.h>
#include <mlx/fast.h>

#include "backends/mlx/lowerings.h"
#include "backends/mlx/metal/kernels.h"
#include "rlx/ops.h"

namespace rlx::mlx_backend {
namespace {

// The string is one line without comments: what Metal's compiler says of it has a column.
#define RLX_METAL_BODY(...) #__VA_ARGS__
constexpr const char* kSelectiveScan =
#include "backends/mlx/metal/selective_scan.inc"
    ;
constexpr const char* kGatedDeltaNet =
#include "backends/mlx/metal/gated_delta_net.inc"
    ;
#undef RLX_METAL_BODY

/// Metal is asked for last, so that what no machine takes is said on each.
std::optional<std::string> can_hold(const Question& q, const Dim& n, int64_t most) {
  if (q.operands[0].dtype == f64) return "its Metal kernel computes in f32";
  if (!n.is_static()) return "its Metal kernel is compiled for a known size of state";
  if (n.value() < 1 || n.value() > most)
    return text_of("its Metal kernel has 1 to ", most, " numbers of a state in registers, and here are ", n);
  if (!mx::metal::is_available()) return "its Metal kernel is for Apple's GPU";
  return std::nullopt;
}

using Arguments = std::vector<std::pair<std::string, mx::fast::TemplateArg>>;
using Threads = std::tuple<int, int, int>;

/// y and the last state, by a kernel that takes a state behind the other operands.
Lowered run(const mx::fast::CustomKernelFunction& kernel, Lowering& l, const Grid& grid, const Threads& group,
            const Arguments& arguments) {
  if (l.in.size() < 6) l.in.push_back(mx::zeros(l.shape(1), l.dtype(1), l.s));
  if (l.in[0].size() == 0) return {mx::zeros(l.shape(0), l.dtype(0), l.s), l.in[5]};  // no steps
  return kernel(l.in, l.shapes, {l.dtype(0), l.dtype(1)}, {extent_of(grid[0]), extent_of(grid[1]), extent_of(grid[2])},
                group, arguments, std::nullopt, false, l.s);
}

}  // namespace

namespace when {
std::optional<std::string> can_scan_by_metal(const Question& q) {
  return can_hold(q, q.operands[2].dims[1], kMaxScanStates);
}
std::optional<std::string> can_correct_by_metal(const Question& q) {
  return can_hold(q, q.operands[1].dims[3], kMaxDeltaRows);
}
}  // namespace when

Lowered lower_selective_scan(Lowering& l) {
  static const auto kernel = mx::fast::metal_kernel("rlx_selective_scan", {"x", "delta", "a", "b", "c", "state"},
                                                    {"y", "last_state"}, kSelectiveScan);
  const Grid grid = grid_of_selective_scan(l.in[0].shape(0), l.in[0].shape(2));
  return run(kernel, l, grid, {64, 1, 1}, {{"T", l.dtype()}, {"N", l.in[2].shape(1)}});
}

Lowered lower_gated_delta_net(Lowering& l) {
  static const auto kernel = mx::fast::metal_kernel("rlx_gated_delta_net", {"q", "k", "v", "g", "beta", "state"},
                                                    {"y", "last_state"}, kGatedDeltaNet);
  const mx::array& v = l.in[2];
  const Grid grid = grid_of_gated_delta_net(v.shape(0), v.shape(2), v.shape(3));
  const bool per_channel = l.in[3].ndim() == 4;
  return run(kernel, l, grid, {32, 4, 1},
             {{"T", l.dtype()}, {"N", l.in[1].shape(3)}, {"gate_per_channel", per_channel}});
}

}  // namespace rlx::mlx_backend
