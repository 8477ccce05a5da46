// Packages with open sizes beside the graph at several sizes; expected values are the reference's.
#pragma once

#include "coreml/packages.h"
#include "ir/rewrite.h"
#include "reference/interpreter.h"
#include "rlx/coreml.h"
#include "rlx/ops.h"

namespace rlx::test {

inline const Dim kB = Dim::symbol("B"), kS = Dim::symbol("S");

/// Inputs of the graph at these sizes: integers below 7, floats around 0.
inline std::vector<Tensor> inputs_for(const Graph& g) {
  std::vector<Tensor> all;
  for (const Type& t : g.input_types())
    all.push_back(is_float(t.dtype) ? numbers(shape_of(t.dims), -1, 1, t.dtype)
                                    : numbers(shape_of(t.dims), 0, 6.99, t.dtype));
  return all;
}

inline void check_at(const std::string& path, const Graph& g, const Bindings& sizes, double tolerance = 1e-5) {
  Graph fixed = substitute(g, sizes);
  std::vector<Tensor> in = inputs_for(fixed), wanted = interpret(fixed, in);
  CoremlModel model = CoremlModel::load(path, {.threads = 1});
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < in.size(); ++i) named.emplace_back(model.inputs()[i].name, in[i]);
  auto got = model.predict(named);
  REQUIRE(got.size() == wanted.size());
  for (size_t o = 0; o < got.size(); ++o) {
    Shape shape = wanted[o].rank() == 0 ? Shape{1} : wanted[o].shape();
    CHECK_MESSAGE(got[o].second.shape() == shape, "output ", o);
    CHECK_MESSAGE(distance(got[o].second, wanted[o]) <= tolerance, "output ", o);
  }
}

/// Writes the graph with open sizes, and compares at several of them.
inline void check_open(const std::string& name, const Graph& g, const std::vector<Bindings>& sizes,
                       const PackageOptions& options = {.shapes = {{"B", {1, 8}}, {"S", {2, std::nullopt}}}}) {
  CAPTURE(name);
  Packages packages;
  std::string path = packages / ("shapes_" + name);
  PackageOptions used = options;
  for (auto it = used.shapes.begin(); it != used.shapes.end();)  // those that the graph has
    it = sizes[0].contains(it->first) ? std::next(it) : used.shapes.erase(it);
  write_coreml(path, g, {}, used);
  for (const Bindings& each : sizes) check_at(path, g, each);
}

inline const std::vector<Bindings> kSizes{{{"B", 1}, {"S", 2}}, {{"B", 3}, {"S", 5}}, {{"B", 2}, {"S", 16}}};

}  // namespace rlx::test
