// The sentence encoder as a package: in f32 and in f16 beside the CPU, its size, and the time it takes to write. Needs
// the files of all-MiniLM-L6-v2: $RLX_MODEL names their folder, or scripts/fetch_minilm.py has put them into its cache.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "ir/rewrite.h"
#include "rlx/coreml.h"
#include "rlx/coreml_model.h"
#include "rlx/models.h"
#include "rlx/session.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string folder_of_model() {
  auto variable = [](const char* name) {
    const char* v = std::getenv(name);
    return std::string(v ? v : "");
  };
  if (std::string folder = variable("RLX_MODEL"); !folder.empty()) return folder;
  std::string cache = variable("RLX_CACHE");
  return (cache.empty() ? variable("HOME") + "/.cache/rlx" : cache) + "/all-MiniLM-L6-v2";
}

double cosine(const Tensor& x, const Tensor& y) {
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.element_count(); ++i) {
    double a = load_number(x, i), b = load_number(y, i);
    xy += a * b, xx += a * a, yy += b * b;
  }
  return xy / std::sqrt(xx * yy);
}

}  // namespace

TEST_CASE("the sentence encoder's package gives the CPU's embeddings, of its weights' size") {
  std::string folder = folder_of_model();
  if (!std::filesystem::exists(folder + "/model.safetensors")) {
    MESSAGE("skipped: all-MiniLM-L6-v2 is not here; scripts/fetch_minilm.py fetches it, RLX_MODEL names a folder");
    return;
  }
  TemporaryFolder temporary;
  Graph g = load_model_graph(folder);
  NamedTensors params = SafetensorsFile::open(folder + "/model.safetensors").tensors();
  PackageOptions options{.narrow = true, .dims = {{"B", 2}, {"S", 16}}};
  std::vector<Tensor> inputs, narrow;
  for (const Type& t : substitute(g, options.dims).input_types()) {
    Tensor ids(t.dtype, shape_of(t.dims));
    for (size_t i = 0; i < ids.element_count(); ++i)
      store<int64_t>(ids, i, inputs.empty() ? 101 + static_cast<int64_t>(i * 37 % 2000) : i % 16 < 12);
    inputs.push_back(ids);
    Tensor same(i32, ids.shape());
    for (size_t i = 0; i < ids.element_count(); ++i) store<int64_t>(same, i, load_index(ids, i));
    narrow.push_back(same);
  }
  CompiledGraph compiled = Session(Device::cpu()).compile(g);
  for (Ref r : g.params()) compiled.set_param(g.node(r).name, params.at(g.node(r).name));
  std::vector<NamedTensor> fed;
  for (size_t i = 0; i < inputs.size(); ++i) fed.emplace_back(g.node(g.inputs()[i]).name, inputs[i]);
  Tensor wanted = compiled.run(fed).at(0);
  // Of any size: one package for all.
  {
    const char* kept = std::getenv("RLX_COREML_CASES");
    std::string path = kept ? text_of(kept, "/minilm.shapes.mlpackage") : temporary / "shapes.mlpackage";
    write_coreml(path, g, params, {.narrow = true, .shapes = package_shapes("B=1..8 S=1..512")});
    CoremlModel model = CoremlModel::load(path, {.threads = 1});
    for (const Shape& shape : {Shape{2, 16}, Shape{1, 7}, Shape{3, 40}}) {
      std::vector<NamedTensor> wide, narrowed;
      for (size_t i = 0; i < inputs.size(); ++i) {
        Tensor ids(inputs[i].dtype(), shape), same(i32, shape);
        for (size_t k = 0; k < ids.element_count(); ++k) {
          int64_t place = static_cast<int64_t>(k) % shape[1];
          int64_t id = i == 0 ? 101 + static_cast<int64_t>(k * 37 % 2000) : place < (shape[1] + 1) / 2;
          store<int64_t>(ids, k, id), store<int64_t>(same, k, id);
        }
        wide.emplace_back(g.node(g.inputs()[i]).name, ids);
        narrowed.emplace_back(model.inputs()[i].name, same);
      }
      Tensor expected = compiled.run(wide).at(0), got = model.predict(narrowed).at(0).second;
      REQUIRE(got.shape() == expected.shape());
      double most = 0;
      for (size_t i = 0; i < got.element_count(); ++i)
        most = std::max(most, std::abs(load_number(got, i) - load_number(expected, i)));
      CHECK(most < 1e-5);
    }
  }
  uint64_t weights = 0;
  for (Ref r : g.params()) weights += params.at(g.node(r).name).byte_count();
  for (PackagePrecision precision : {PackagePrecision::as_built, PackagePrecision::half, PackagePrecision::mixed}) {
    options.precision = precision;
    std::string name(names_of(precision)[static_cast<size_t>(precision)]);
    const char* kept = std::getenv("RLX_COREML_CASES");  // for Apple's loader
    std::string path = kept ? text_of(kept, "/minilm.", name, ".mlpackage") : temporary / (name + ".mlpackage");
    auto begin = std::chrono::steady_clock::now();
    PackageReport report = write_coreml(path, g, params, options);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    CoremlModel model = CoremlModel::load(path, {.threads = 1});
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < narrow.size(); ++i) named.emplace_back(model.inputs()[i].name, narrow[i]);
    Tensor got = model.predict(named).at(0).second;
    double most = 0;
    for (size_t i = 0; i < got.element_count(); ++i)
      most = std::max(most, std::abs(load_number(got, i) - load_number(wanted, i)));
    MESSAGE(text_of(report.weight_bytes + report.model_bytes), " bytes of a model of ", weights, ", written in ",
            seconds, " s; furthest from the CPU ", most, ", cosine ", cosine(got, wanted));
    bool exact = precision == PackagePrecision::as_built;
    CHECK(cosine(got, wanted) > 0.9999);
    if (exact) CHECK(most < 1e-5);
    auto size = static_cast<double>(report.weight_bytes + report.model_bytes);
    // Of mixed precision the tables of embeddings, half of the weights, stay f32.
    double most_of_weights = exact ? 1.01 : precision == PackagePrecision::half ? 0.51 : 0.77;
    CHECK(size <= static_cast<double>(weights) * most_of_weights);
  }
}
