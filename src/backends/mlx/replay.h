// A piece of MLX's graph that is built once and made anew for each run. MLX drops the graph of an array when it has
// computed the array. The operations of the graph (mx::Primitive) have no state that results depend on, so that the
// arrays of each run can be made with the same ones.
#pragma once

#include <mlx/array.h>

#include <functional>
#include <memory>
#include <vector>

namespace rlx::mlx_backend {

namespace mx = mlx::core;

class Replay {
 public:
  using Function = std::function<std::vector<mx::array>(const std::vector<mx::array>&)>;
  /// Calls `build` on arrays with the dtypes and shapes of `like` but no values, which it must not evaluate, and
  /// records the operations of its results. Other arrays that these read must have values: they become constants.
  Replay(const Function& build, const std::vector<mx::array>& like);
  /// The results, not evaluated, for inputs like those. Only one thread at a time may call it, as all of MLX here.
  std::vector<mx::array> operator()(std::vector<mx::array> inputs) const;

 private:
  /// The index of an array among the constants, or among the values of a run: its inputs, then operations' results.
  struct Place {
    size_t index;
    bool is_constant;
    bool is_last;  ///< of a value: no later operation and no result reads it, so it is moved
  };
  struct Operation {
    std::shared_ptr<mx::Primitive> primitive;
    std::vector<Place> operands;
    std::vector<mx::Shape> shapes;  // of the results
    std::vector<mx::Dtype> dtypes;
  };
  std::vector<Operation> operations_;
  std::vector<mx::array> constants_;
  std::vector<Place> results_;
  size_t values_ = 0;  // inputs and results of operations
};

}  // namespace rlx::mlx_backend
