// What a model costs as a Core ML package: writing it, loading it, its size beside the weights, and a prediction beside
// a run of the graph that it came from.
//
//     build/release/bench/coreml FOLDER [F16.mlpackage]
//     build/release/bench/coreml --large GIB
//
// FOLDER is that of a sentence encoder (all-MiniLM-L6-v2). Runs are timed with one thread, in processor time, the least
// of many; writing and loading by the clock. F16.mlpackage is the same model in f16 by somebody else, which is timed
// beside the f32 package as ours is.
//
// --large writes a model of that many GiB of weights, which stand in a mapped file, and measures what memory of its own
// the process has at most meanwhile (Linux).
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "rlx/coreml.h"
#include "rlx/coreml_model.h"
#include "rlx/models.h"
#include "rlx/ops.h"

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

/// MiB of memory that belongs to the process alone: what is mapped from files does not count.
double own_memory() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "RssAnon:") {
      double kib = 0;
      status >> kib;
      return kib / 1024;
    }
  return 0;
}

/// Layers of 64 MiB each, whose weights are a file of zeros but for one number each, so that none is another's.
void write_large(double gib) {
  constexpr int64_t kWidth = 4096, kBytes = kWidth * kWidth * 4;
  auto layers = static_cast<int64_t>(gib * static_cast<double>(int64_t{1} << 30) / static_cast<double>(kBytes));
  fs::path base = fs::temp_directory_path() / "rlx-bench-large";
  fs::create_directories(base);
  std::string weights = (base / "model.safetensors").string(), path = (base / "model.mlpackage").string();
  std::string header = "{";
  Graph g("large");
  Value x = g.input("x", f32, {1, kWidth});
  for (int64_t i = 0; i < layers; ++i) {
    std::string name = "w" + std::to_string(i);
    header += text_of(i ? "," : "", "\"", name, "\":{\"dtype\":\"F32\",\"shape\":[", kWidth, ",", kWidth,
                      "],\"data_offsets\":[", i * kBytes, ",", (i + 1) * kBytes, "]}");
    x = matmul(x, g.param(name, f32, {kWidth, kWidth}));
  }
  g.output(x, "y");
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  {
    std::ofstream out(weights, std::ios::binary);
    uint64_t size = header.size();
    out.write(reinterpret_cast<const char*>(&size), sizeof size);
    out << header;
    for (int64_t i = 0; i < layers; ++i) {
      out.seekp(static_cast<std::streamoff>(8 + header.size()) + i * kBytes);
      float number = static_cast<float>(i + 1);
      out.write(reinterpret_cast<const char*>(&number), sizeof number);
    }
  }
  fs::resize_file(weights, 8 + header.size() + static_cast<uint64_t>(layers * kBytes));
  NamedTensors params = SafetensorsFile::open(weights, FileAccess::mapped).tensors();
  double before = own_memory();
  std::atomic<bool> done{false};
  std::atomic<double> most{before};
  std::thread watch([&] {
    while (!done) {
      most = std::max(most.load(), own_memory());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  PackageReport report;
  double seconds = timed([&] { report = write_coreml(path, g, params); });
  done = true;
  watch.join();
  std::printf(
      "{\"weight_bytes\": %lld, \"package_bytes\": %llu, \"write_s\": %.2f, \"memory_before_mib\": %.1f, "
      "\"most_memory_mib\": %.1f}\n",
      static_cast<long long>(layers * kBytes), static_cast<unsigned long long>(bytes_in(path)), seconds, before,
      most.load());
  fs::remove_all(base);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: coreml FOLDER [F16.mlpackage] | --large GIB\n"), 2;
  try {
    if (std::string(argv[1]) == "--large") return write_large(argc > 2 ? std::atof(argv[2]) : 1.5), 0;
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
    std::string half_path = (fs::temp_directory_path() / "rlx-bench-f16.mlpackage").string();
    options.precision = PackagePrecision::half;
    write = 1e9;
    for (int i = 0; i < 3; ++i) write = std::min(write, timed([&] { write_coreml(half_path, g, params, options); }));
    std::printf(", \"f16_write_s\": %.3f, \"f16_package_beside_weights\": %.4f", write,
                static_cast<double>(bytes_in(half_path)) / static_cast<double>(weight_bytes));
    auto beside = [&](const std::string& of, const char* name) {
      CoremlModel half = CoremlModel::load(of, {.threads = 1});
      auto half_inputs = inputs_of(half, shape);
      auto [wide, narrow] = least_of([&] { model->predict(inputs); }, [&] { half.predict(half_inputs); }, 15);
      std::printf(", \"%s_ms\": %.3f, \"%s_beside_f32\": %.3f", name, narrow * 1e3, name, narrow / wide);
    };
    beside(half_path, "f16");
    if (argc > 2) beside(argv[2], "given_f16");
    std::printf("}\n");
    fs::remove_all(path), fs::remove_all(half_path);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
