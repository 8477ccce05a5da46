// What a graph is made of, layer by layer: ops, params, shapes, how much it computes and moves; as data, as JSON and as
// a picture. It is read from the graph itself, however that was built. Neighbours: rlx/session.h has the signature
// alone, rlx/device_speed.h says how long the work takes on a device. docs/manifest.md has what is counted and the
// JSON.
#pragma once

#include <string>
#include <vector>

#include "rlx/graph.h"

namespace rlx {

/// Numbers, or polynomials in those symbols of the graph that have no number.
struct ManifestTotals {
  size_t ops = 0;  ///< nodes that are no input, param or constant
  Dim params = 0;  ///< elements of params
  Dim param_bytes = 0;
  Dim constant_bytes = 0;  ///< of what stands in the graph itself
  /// Multiplications and additions of matrix products, of convolutions and of attention (its two products, without
  /// regard to a mask), each counted as one, so that a multiply-add is two.
  Dim product_flops = 0, convolution_flops = 0, attention_flops = 0;
  /// All else that is computed, one for each element of a result, and for what sums or sorts one for each element that
  /// it reads or comparison that it needs: additions, exp, sums, lookups.
  Dim other_operations = 0;
  /// Operands that are read and results that are written, each once a node, params included; nothing of what only
  /// renames its operand (reshape, slice, transpose ...).
  Dim bytes_moved = 0;

  Dim flops() const { return product_flops + convolution_flops + attention_flops; }
  ManifestTotals& operator+=(const ManifestTotals& other);
  bool operator==(const ManifestTotals&) const = default;
};

/// A layer: what has this name in front of its own. "encoder.layer.0" is a layer of "encoder.layer", and has the param
/// "encoder.layer.0.bias".
struct ManifestLayer {
  std::string name;  ///< the whole of it; empty for the graph itself
  /// Nodes of just this name, by op, in the order of their first ones.
  struct Ops {
    std::string op;
    size_t count = 0;
    Dim flops = 0, bytes_moved = 0;
    bool operator==(const Ops&) const = default;
  };
  std::vector<Ops> ops = {};
  struct Param {
    std::string name;
    Type type;
    Dim elements = 0, bytes = 0;
  };
  std::vector<Param> params = {};
  std::vector<Type> outputs =
      {};                      ///< of values that it computes and that are used elsewhere, or are the graph's outputs
  ManifestTotals totals = {};  ///< of all within it
  std::vector<ManifestLayer> layers = {};
};

struct Manifest {
  struct Entry {
    std::string name;
    Type type;
  };
  std::string graph;
  std::vector<Entry> inputs, outputs;
  Bindings numbers;                  ///< as they were given
  std::vector<std::string> symbols;  ///< without a number
  ManifestLayer whole;

  std::string json() const;
  /// A picture of the layers as Scalable Vector Graphics: for each its params, flops and bytes moved as bars. Layers
  /// in a row that differ in numbers of their names alone are one row, and rows beyond what can be read are summed up
  /// in a last one. Fails, naming one, if there is a symbol without a number.
  std::string svg() const;
};

/// `numbers` are for symbols of the graph. Fails for a name that is none of them, and for amounts beyond 64 bits.
Manifest manifest_of(const Graph& g, const Bindings& numbers = {});

}  // namespace rlx
