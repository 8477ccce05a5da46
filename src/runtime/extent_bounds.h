// CompileOptions::bounds: the most that the symbols of a graph can be. Every run is held to them before it begins, on
// every device.
#pragma once

#include "rlx/device_tensor.h"
#include "rlx/graph.h"

namespace rlx {

class ExtentBounds {
 public:
  ExtentBounds() = default;
  /// Fails if `bounds` names a symbol that the type of no input has, or if a bound is less than 1.
  ExtentBounds(const Graph& g, const Bindings& bounds);

  /// Fails if the extents of the inputs give a symbol a number beyond its bound. `g` is the constructor's graph. Inputs
  /// of a wrong number or type are refused elsewhere, and here only if a symbol has to be solved for.
  void check(const Graph& g, Tensors inputs) const {
    if (!bounds_.empty()) check_extents(g, inputs);
  }
  void check(const Graph& g, Types inputs) const {
    if (!bounds_.empty()) check_extents(g, inputs);
  }

 private:
  template <class Given>
  void check_extents(const Graph& g, std::span<const Given> inputs) const;

  Bindings bounds_;
  /// An input's dim that is a bounded symbol alone. Such symbols are compared without being solved for.
  struct PlainDim {
    size_t input, dim;
    std::string symbol;
    int64_t most;
  };
  std::vector<PlainDim> plain_;
  bool must_solve_ = false;  // some symbol is in no plain dim
};

}  // namespace rlx
