// What MLX has no operation for: a node of its graph that runs the op's reference on the host, in the order of a stream
// of the CPU. Memory is shared there, so nothing is moved for it.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/mlx/carry.h"
#include "rlx/graph.h"

namespace rlx::mlx_backend {

/// The first error of the host nodes of a run. MLX's threads must not see an exception of ours.
class HostErrors {
 public:
  void keep(std::exception_ptr error);
  /// Rethrows and forgets it, if there is one.
  void check();

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

/// The node's results, computed by its op's reference when the graph is evaluated. `operands` are the static types of
/// `inputs`. If the reference throws, the results are zeros, and HostErrors::check rethrows the error after the
/// evaluation.
std::vector<mx::array> host_node(const Node& node, const std::vector<Type>& operands,
                                 const std::vector<mx::array>& inputs, mx::Stream stream,
                                 std::shared_ptr<HostErrors> errors);

/// Whether this thread is one of MLX's, which runs a host node: it cannot wait for MLX.
bool is_in_host_node();

}  // namespace rlx::mlx_backend
