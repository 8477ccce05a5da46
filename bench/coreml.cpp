// What a model costs as a Core ML package: writing it, loading it, its size beside the weights, and a prediction beside
// a run of the graph that it came from.
//
//     build/release/bench/coreml FOLDER [F16.mlpackage]
//
// FOLDER is that of a sentence encoder (all-MiniLM-L6-v2). Runs are timed with one thread, in processor time, the least
// of many; writing and loading by the clock. F16.mlpackage is the same model in f16, which is timed beside the f32
// package.
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "rlx/coreml.h"
#include "rlx/coreml_model.h"
#include "rlx/models.h"

using namespace rlx;
namespace fs = std::filesystem;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double processor_time() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class F>
double timed(F f) {
  double begin = now();
  f();
  return now() - begin;
}

/// The least processor time of each of two, run in turns so that both see the same machine.
template <class F, class G>
std::pair<double, double> least_of(F f, G g, int rounds) {
  double a = 1e9, b = 1e9;
  for (int i = 0; i < rounds; ++i) {
    double begin = processor_time();
    f();
    double middle = processor_time();
    g();
    a = std::min(a, middle - begin), b = std::min(b, processor_time() - middle);
  }
  return {a, b};
}

uint64_t bytes_in(const fs::path& folder) {
  uint64_t sum = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) sum += entry.file_size();
  return sum;
}

Tensor tokens(DType dtype, const Shape& shape) {
  Tensor t(dtype, shape);
  for (size_t i = 0; i < t.element_count(); ++i) {
    auto id = static_cast<int64_t>(i) * 131 % 30000;
    if (dtype == i32) t.mutable_values<int32_t>()[i] = static_cast<int32_t>(id);
    else t.mutable_values<int64_t>()[i] = id;
  }
  return t;
}
Tensor constant(DType dtype, const Shape& shape, int value) {
  Tensor t(dtype, shape);
  for (size_t i = 0; i < t.element_count(); ++i) {
    if (dtype == i32) t.mutable_values<int32_t>()[i] = value;
    else t.mutable_values<int64_t>()[i] = value;
  }
  return t;
}

std::vector<NamedTensor> inputs_of(const CoremlModel& model, const Shape& shape) {
  std::vector<NamedTensor> inputs;
  for (const CoremlFeature& f : model.inputs()) {
    bool ids = inputs.empty(), mask = f.name.find("mask") != std::string::npos;
    inputs.emplace_back(f.name, ids ? tokens(f.dtype, shape) : constant(f.dtype, shape, mask));
  }
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: coreml FOLDER [F16.mlpackage]\n"), 2;
  try {
    std::string folder = argv[1], path = (fs::temp_directory_path() / "rlx-bench.mlpackage").string();
    const Shape shape = {1, 128};
    Graph g = load_model_graph(folder);
    NamedTensors params = SafetensorsFile::open(folder + "/model.safetensors").tensors();
    uint64_t weight_bytes = 0;
    for (Ref r : g.params()) weight_bytes += params.find(g.node(r).name)->second.byte_count();
    PackageOptions options;
    options.narrow = true, options.dims = {{"B", shape[0]}, {"S", shape[1]}};
    double write = 1e9;
    for (int i = 0; i < 3; ++i) write = std::min(write, timed([&] { write_coreml(path, g, params, options); }));
    std::optional<CoremlModel> model;
    double load = 1e9, first = 1e9;
    for (int i = 0; i < 3; ++i) {
      load = std::min(load, timed([&] { model = CoremlModel::load(path, {.threads = 1}); }));
      auto inputs = inputs_of(*model, shape);
      first = std::min(first, timed([&] { model->predict(inputs); }));
    }
    std::printf("{\"write_s\": %.3f, \"load_s\": %.3f, \"first_prediction_s\": %.3f, \"package_beside_weights\": %.4f",
                write, load, first, static_cast<double>(bytes_in(path)) / static_cast<double>(weight_bytes));
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
    for (const auto& param : compiled.signature().params) compiled.set_param(param.name, params.at(param.name));
    std::vector<Tensor> given{tokens(i64, shape), constant(i64, shape, 1), constant(i64, shape, 0)};
    auto inputs = inputs_of(*model, shape);
    auto [graph, package] = least_of([&] { compiled.run_ordered(given); }, [&] { model->predict(inputs); }, 30);
    std::printf(", \"graph_ms\": %.3f, \"package_ms\": %.3f, \"package_beside_graph\": %.4f", graph * 1e3,
                package * 1e3, package / graph);
    if (argc > 2) {
      CoremlModel half = CoremlModel::load(argv[2], {.threads = 1});
      auto half_inputs = inputs_of(half, shape);
      auto [wide, narrow] = least_of([&] { model->predict(inputs); }, [&] { half.predict(half_inputs); }, 15);
      std::printf(", \"f16_ms\": %.3f, \"f16_beside_f32\": %.3f", narrow * 1e3, narrow / wide);
    }
    std::printf("}\n");
    fs::remove_all(path);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
