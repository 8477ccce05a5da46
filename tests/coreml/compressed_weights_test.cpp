// Weights of packages in fewer bits, where nothing may change. What compressed_weights_test.py holds beside coremltools
// is how near the others come.
#include "coreml/packages.h"
#include "rlx/coreml.h"
#include "rlx/ops.h"

using namespace rlx;
using namespace rlx::test;

namespace {

PackageReport write_palette(const std::string& path, const Graph& g, const Tensor& w) {
  return write_coreml(path, g, {{"w", w}}, {.weights = PackageWeights::palette4});
}

}  // namespace

TEST_CASE("weights of few different numbers are a palette as they are, however far apart the numbers lie") {
  Packages packages;
  Graph g("few");
  g.output(matmul(g.input("x", f32, {64, 64}), g.param("w", f32, {64, 64})), "y");
  Tensor w(f32, {64, 64}), one(f32, {64, 64});
  for (size_t i = 0; i < w.element_count(); ++i) store(w, i, std::pow(10.0, -static_cast<double>(i % 16)));
  for (size_t i = 0; i < 64; ++i) store(one, i * 65, 1.0);
  const std::string path = packages / "few_numbers";
  const PackageReport report = write_palette(path, g, w);
  CHECK(report.weight_bytes < 64 * 64);  // of 16,384 in f32
  CHECK(distance(run_one(path, {{"x", one}}), w) == 0);
}

TEST_CASE("a constant that something else reads beside a product keeps its numbers") {
  Packages packages;
  Graph g("shared");
  Value x = g.input("x", f32, {64, 64}), w = g.param("w", f32, {64, 64});
  Value table = g.param("table", f32, {64, 64});
  g.output(matmul(x, w), "product"), g.output(x + w, "sum");
  g.output(matmul(x, table), "looked up"), g.output(table, "table");
  const Tensor weights = numbers({64, 64}), zeros(f32, {64, 64});
  const std::string path = packages / "shared_numbers";
  write_coreml(path, g, {{"w", weights}, {"table", weights}}, {.weights = PackageWeights::palette4});
  const auto got = CoremlModel::load(path, {.threads = 1}).predict({{"x", zeros}});
  CHECK(got[1].first == "sum");
  CHECK(distance(got[1].second, weights) == 0);
  CHECK(distance(got[3].second, weights) == 0);  // an output reads it, too
}
