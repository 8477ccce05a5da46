// See the header.
#include "compile/coreml_device.h"

#include <unistd.h>

#include <atomic>
#include <complex>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "backends/coreml/coreml.h"
#include "backends/coreml_framework/framework.h"
#include "compile/backends.h"
#include "compile/coreml_pipeline.h"
#include "compile/with_values.h"
#include "frontends/mil/lower.h"
#include "io/mlpackage.h"
#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/collapse_rank.h"
#include "rlx/element.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

/// A folder that goes with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    static std::atomic<unsigned> counter{0};
    std::error_code error;
    fs::path base = fs::temp_directory_path(error);
    if (error) fail(ErrorCode::io, "there is no folder for a package: ", error.message());
    do {
      path_ = base / text_of("rlx-coreml-", getpid(), "-", counter++);
    } while (!fs::create_directory(path_, error) && !error);
    if (error) fail(ErrorCode::io, "cannot create '", path_.string(), "' for a package: ", error.message());
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string package() const { return (path_ / "program.mlpackage").string(); }

 private:
  fs::path path_;
};

/// The tensor as a value of that dtype and shape: what crosses the boundary of a package is f32, f16 or i32, and of
/// rank 1 at least.
Tensor as(const Tensor& t, DType dtype, const Shape& shape) {
  if (t.dtype() == dtype) return t.shape() == shape ? t : t.reshaped(shape);
  Tensor out = Tensor::uninitialized(dtype, shape);
  for (size_t i = 0; i < t.element_count(); ++i) {
    if (is_float(dtype)) store<double>(out, i, load_number(t, i));
    else if (dtype == boolean) out.mutable_values<bool>()[i] = load_number(t, i) != 0;
    else store<int64_t>(out, i, t.dtype() == boolean ? load_number(t, i) != 0 : load_index(t, i));
  }
  return out;
}

/// What runs a package that was written: inputs and outputs in the order of its description, of its types.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual std::vector<Tensor> run(const std::vector<Tensor>& inputs, const RunOptions& options) = 0;
  virtual size_t memory_bytes() const = 0;
};

/// The MIL front end, on the CPU.
class FrontEndRunner final : public Runner {
 public:
  FrontEndRunner(const mil::Model& model, const LoadOptions& options) : options_(options) {
    write_mlpackage(folder_.package(), model);
    package_.emplace(MlPackage::open(folder_.package()));
    options_.donated.clear();
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const RunOptions& options) override {
    std::vector<Tensor> outputs(package_->model().main.outputs.size());
    RunOptions all = options;
    all.memory = {};
    loaded_for(inputs).run(inputs, outputs, all);
    return outputs;
  }
  size_t memory_bytes() const override {
    std::scoped_lock lock(mutex_);
    size_t sum = 0;
    for (const auto& [sizes, loaded] : by_sizes_) sum += loaded.executable->memory_bytes();
    return sum;
  }

 private:
  struct Loaded {
    std::unique_ptr<Program> program;
    std::unique_ptr<Executable> executable;
  };
  /// A program that leaves sizes open has a graph for each set of them.
  Executable& loaded_for(const std::vector<Tensor>& inputs) {
    std::vector<Shape> sizes;
    for (const Tensor& t : inputs) sizes.push_back(t.shape());
    std::scoped_lock lock(mutex_);
    Loaded& loaded = by_sizes_[sizes];
    if (loaded.executable) return *loaded.executable;
    mlprogram::LowerOptions how;
    const mil::Model& model = package_->model();
    for (size_t i = 0; i < inputs.size(); ++i) how.dims[model.main.inputs[i].name] = inputs[i].type().dims;
    mlprogram::Lowered lowered = mlprogram::lower(
        model, [&](const mil::Value& value) { return package_->tensor(value); }, how);
    if (!lowered.states.empty() || lowered.random_key || !lowered.assumptions.empty())
      fail(ErrorCode::internal, "a graph became a program that needs more than its inputs");
    auto cpu = backend_of(Device::cpu());
    Pipelined legal = run_pipeline(lowered.graph, *cpu, {});
    require_complete(legal.report, false);
    loaded.program = cpu->lower(std::move(legal.graph));
    loaded.executable = loaded.program->load(options_);
    return *loaded.executable;
  }

  LoadOptions options_;
  ScratchFolder folder_;  // weights are read out of it when a graph is made, which may be at any run
  std::optional<MlPackage> package_;
  mutable std::mutex mutex_;
  std::map<std::vector<Shape>, Loaded> by_sizes_;
};

/// CoreML.framework.
class FrameworkRunner final : public Runner {
 public:
  FrameworkRunner(const mil::Model& model, ComputeUnits units) : model_(model.main) {
    ScratchFolder folder;
    write_mlpackage(folder.package(), model);
    loaded_ = coreml_framework::load(folder.package(), units);
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const RunOptions&) override {
    std::vector<std::pair<std::string, Tensor>> named;
    for (size_t i = 0; i < inputs.size(); ++i) named.emplace_back(model_.inputs[i].name, inputs[i]);
    std::vector<Tensor> outputs;
    for (auto& [name, tensor] : loaded_->predict(named)) {
      outputs.resize(model_.outputs.size());
      for (size_t i = 0; i < model_.outputs.size(); ++i)
        if (model_.outputs[i].name == name) outputs[i] = std::move(tensor);
    }
    return outputs;
  }
  size_t memory_bytes() const override { return 0; }  // the framework does not tell

 private:
  mil::FunctionDescription model_;
  std::shared_ptr<coreml_framework::Model> loaded_;
};

/// Graphs are claimed with their complex numbers and many dims, which are taken apart behind the claims.
coreml::Options options_here(bool before_split = false) {
  return {.newest_opset = coreml_framework::newest_opset(),
          .narrow = false,
          .open_dims = true,
          .before_split = before_split};
}

Tensor part_of(const Tensor& z, bool imaginary) {
  Tensor part = Tensor::uninitialized(real_part(z.dtype()), z.shape());
  for (size_t i = 0; i < z.element_count(); ++i) {
    auto value = load<std::complex<double>>(z, i);
    store<double>(part, i, imaginary ? value.imag() : value.real());
  }
  return part;
}
Tensor complex_of(const Tensor& re, const Tensor& im, const Type& type) {
  Tensor z = Tensor::uninitialized(type.dtype, re.shape());
  for (size_t i = 0; i < z.element_count(); ++i)
    store<std::complex<double>>(z, i, {load_number(re, i), load_number(im, i)});
  return z;
}

class CoremlExecutable final : public Executable {
 public:
  CoremlExecutable(Graph graph, Device device, LoadOptions options)
      : graph_(std::move(graph)), device_(device), options_(std::move(options)) {}

  void bind(const std::string& name, Tensor value) override {
    params_[name] = std::move(value);
    runner_.reset();  // weights stand in the package
  }
  void prepare() override { runner(); }
  size_t memory_bytes() const override { return runner_ ? runner_->memory_bytes() : 0; }

  void run(Tensors inputs, std::span<Tensor> outputs, const RunOptions& options) override {
    Runner& r = runner();
    if (inputs.size() != graph_.inputs().size())
      fail(ErrorCode::invalid_argument, "graph '", graph_.name(), "' has ", graph_.inputs().size(), " inputs, got ",
           inputs.size());
    std::vector<Tensor> given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Type wanted = graph_.type(graph_.inputs()[i]);
      if (is_static(wanted.dims) ? inputs[i].type() != wanted : inputs[i].dtype() != wanted.dtype)
        fail(ErrorCode::shape_mismatch, "input '", graph_.node(graph_.inputs()[i]).name, "' is ", wanted, ", got ",
             inputs[i].type());
      auto give = [&](const Tensor& t) {
        const mil::Feature& feature = description_.inputs.at(given.size());
        bool joined = is_wide(t.type(), coreml::kMostDims);
        Shape shape = joined ? feature.shape : t.rank() == 0 ? Shape{1} : t.shape();
        given.push_back(as(t, *feature.dtype, shape));
      };
      if (is_complex(wanted.dtype)) give(part_of(inputs[i], false)), give(part_of(inputs[i], true));
      else give(inputs[i]);
    }
    solve_symbols(graph_, inputs);  // a symbol is the same number in all inputs
    std::vector<Tensor> results = r.run(given, options);
    auto types = graph_.output_types();
    for (size_t i = 0, next = 0; i < types.size(); ++i) {
      bool two = is_complex(types[i].dtype);
      Tensor result = results.at(next++);
      if (two) result = complex_of(result, results.at(next++), types[i]);
      Shape shape = types[i].rank() == 0                   ? Shape{}
                    : is_wide(types[i], coreml::kMostDims) ? shape_of(types[i].dims)
                                                           : result.shape();
      result = as(result, types[i].dtype, shape);
      if (options.memory.empty()) {
        outputs[i] = std::move(result);
        continue;
      }
      std::span<std::byte> to = options.memory[i];
      if (to.size() != result.byte_count())
        fail(ErrorCode::shape_mismatch, "output ", i, " of '", graph_.name(), "' is ", result.type(), ", ",
             result.byte_count(), " bytes; there is room for ", to.size());
      if (!to.empty()) std::memcpy(to.data(), result.data(), to.size());
    }
  }

 private:
  Runner& runner() {
    std::scoped_lock lock(mutex_);
    if (runner_) return *runner_;
    bool plain = graph_.params().empty() && !is_to_be_split(graph_);
    coreml::Translated translated = coreml::translate(plain ? graph_ : ready(), options_here());
    description_ = translated.model.main;
    if (coreml_framework::is_present()) runner_ = std::make_unique<FrameworkRunner>(translated.model, device_.units());
    else runner_ = std::make_unique<FrontEndRunner>(translated.model, options_);
    return *runner_;
  }
  /// With its params' values, which may fold further, and without what programs do not have.
  Graph ready() const {
    Pipelined legal = coreml_pipeline(with_values(graph_, params_), options_here());
    require_complete(legal.report, false);
    return std::move(legal.graph);
  }

  Graph graph_;
  Device device_;
  LoadOptions options_;
  NamedTensors params_;
  std::mutex mutex_;
  mil::FunctionDescription description_;
  std::unique_ptr<Runner> runner_;
};

class CoremlProgram final : public Program {
 public:
  CoremlProgram(Graph legal, Device device) : graph_(std::move(legal)), device_(device) {}
  const Graph& graph() const override { return graph_; }
  std::unique_ptr<Executable> load(const LoadOptions& options) const override {
    return std::make_unique<CoremlExecutable>(graph_, device_, options);
  }

 private:
  Graph graph_;
  Device device_;
};

class CoremlDevice final : public Backend {
 public:
  explicit CoremlDevice(Device device) : device_(device), writer_(coreml::make_backend(options_here(true))) {}
  std::string name() const override { return device_.name(); }
  std::string description() const override {
    if (coreml_framework::is_present()) return "CoreML.framework, " + text_of(coreml_framework::chip_info());
    return "no CoreML.framework here: ML Programs are written, read back, and run by the MIL front end on the CPU";
  }
  int threads() const override { return backend_of(Device::cpu())->threads(); }
  std::string unavailable() const override { return ""; }
  /// What a report calls it says who runs the program.
  Target target() const override {
    Target target = writer_->target();
    target.name = name() + (coreml_framework::is_present()
                                ? " (an ML Program, by CoreML.framework)"
                                : " (an ML Program; no CoreML.framework here: the MIL front end runs it on the CPU)");
    return target;
  }
  std::unique_ptr<Program> lower(Graph legal) const override {
    coreml::check_open_inputs(legal);
    // What is missing only among the parts is said now, where no param's value is needed for it.
    if (legal.params().empty() && is_to_be_split(legal))
      require_complete(coreml_pipeline(legal, options_here()).report, false);
    return std::make_unique<CoremlProgram>(std::move(legal), device_);
  }

 private:
  Device device_;
  std::unique_ptr<Backend> writer_;
};

}  // namespace

std::unique_ptr<Backend> make_coreml_device(Device device) { return std::make_unique<CoremlDevice>(device); }

}  // namespace rlx
