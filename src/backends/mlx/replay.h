// A piece of MLX's graph that is built once and copied for each run. An array of MLX that was computed has lost its
// graph, but the operations of that graph (mx::Primitive) have no state that a result depends on: new arrays may have
// the same ones.
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
  /// Calls `build` with arrays of the dtypes and shapes of `like` that stand for inputs and have no values, and keeps
  /// what it made of them. Other arrays that it has used are kept as they are.
  Replay(const Function& build, const std::vector<mx::array>& like);
  /// The results for these inputs, not evaluated. By one thread at a time, as all of MLX here.
  std::vector<mx::array> operator()(std::vector<mx::array> inputs) const;

 private:
  /// Where an array stands: among the values of a run, inputs and then results, or among the constants.
  struct Place {
    size_t index;
    bool is_constant;
    bool is_last;  ///< of a value: nothing reads it after this
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
