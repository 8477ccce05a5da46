// See the header.
#include "devices/coreml/runner.h"

#include <mutex>

#include "backends/registry.h"
#include "base/lru_list.h"
#include "compile/pipeline.h"
#include "devices/coreml/placement.h"
#include "frontends/mil/lower.h"
#include "io/mlpackage.h"
#include "io/private_folder.h"

namespace rlx {
namespace {

constexpr size_t kMostSizes = 32;  // whose graphs are kept

/// The MIL front end, on the CPU.
class FrontEndRunner final : public CoremlRunner {
 public:
  FrontEndRunner(const mil::Model& model, ComputeUnits units, const LoadOptions& options)
      : options_(options), units_(units), package_(model) {
    options_.donated.clear();
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const RunOptions& options) override {
    std::vector<Tensor> outputs(package_.model().main.outputs.size());
    RunOptions all = options;
    all.memory = {};
    loaded_for(inputs)->executable->run(inputs, outputs, all);
    return outputs;
  }
  PlacementReport placement() override { return {true, mlprogram::predict_placement(package_.model(), "", units_)}; }
  size_t memory_bytes() const override {
    std::scoped_lock lock(mutex_);
    size_t sum = 0;
    for (const auto& loaded : latest_) sum += loaded->executable->memory_bytes();
    return sum;
  }

 private:
  struct Loaded {
    std::vector<Shape> sizes;
    std::unique_ptr<Program> program;
    std::unique_ptr<HostExecutable> executable;
  };
  /// A program that leaves sizes open has a graph for each set of them. Those of other sizes run while one is made.
  std::shared_ptr<const Loaded> loaded_for(const std::vector<Tensor>& inputs) {
    std::vector<Shape> sizes;
    for (const Tensor& t : inputs) sizes.push_back(t.shape());
    {
      std::scoped_lock lock(mutex_);
      if (auto found = find(sizes)) return found;
    }
    mlprogram::LowerOptions how;
    const mil::Model& model = package_.model();
    for (size_t i = 0; i < inputs.size(); ++i) how.dims[model.main.inputs[i].name] = inputs[i].type().dims;
    mlprogram::Lowered lowered = mlprogram::lower(
        model, [&](const mil::Value& value) { return package_.tensor(value); }, how);
    if (!lowered.states.empty() || lowered.random_key || !lowered.assumptions.empty())
      fail(ErrorCode::internal, "a graph became a program that needs more than its inputs");
    auto cpu = backend_of(Device::cpu());
    CompileOptions options;
    if (options_.exact) options.accuracy = Accuracy::exact;
    Pipelined legal = run_pipeline(lowered.graph, cpu->target(), options);
    require_complete(legal.report, false);
    Loaded loaded{sizes, cpu->lower(std::move(legal.graph)), nullptr};
    loaded.executable = load_on_host(*loaded.program, options_);
    std::scoped_lock lock(mutex_);
    if (auto found = find(sizes)) return found;  // another run was faster
    return latest_.add(std::make_shared<const Loaded>(std::move(loaded)));
  }
  /// With the lock.
  std::shared_ptr<const Loaded> find(const std::vector<Shape>& sizes) {
    const auto* found = latest_.find([&](const auto& each) { return each->sizes == sizes; });
    return found ? *found : nullptr;
  }

  LoadOptions options_;
  ComputeUnits units_;
  PackageInMemory package_;  // weights are taken out of it when a graph is made, which may be at any run
  mutable std::mutex mutex_;
  LruList<std::shared_ptr<const Loaded>> latest_{kMostSizes};
};

/// CoreML.framework.
class FrameworkRunner final : public CoremlRunner {
 public:
  FrameworkRunner(const mil::Model& model, ComputeUnits units, const coreml_framework::Framework& framework)
      : model_(model), units_(units) {
    PrivateFolder folder("rlx-coreml-");
    const std::string package = folder.path() + "/program.mlpackage";
    write_mlpackage(package, model);
    loaded_ = framework.load(package, units, "");
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const RunOptions&) override {
    return in_order(model_.main, loaded_->predict(named(inputs)));
  }
  bool begin(const std::vector<Tensor>& inputs, HostExecutable::Done done) override {
    // The description goes along: this object may be gone when the answer is there.
    loaded_->predict_async(named(inputs), [about = model_.main, done = std::move(done)](coreml_framework::Named outputs,
                                                                                        std::exception_ptr error) {
      std::vector<Tensor> all;
      if (!error) try {
          all = in_order(about, std::move(outputs));
        } catch (...) {
          error = std::current_exception();
        }
      done(std::move(all), error);
    });
    return true;
  }
  PlacementReport placement() override {
    auto plan = loaded_->plan();
    if (plan.empty()) return {true, mlprogram::predict_placement(model_, "", units_)};
    return mlprogram::placement_of(plan);
  }
  size_t memory_bytes() const override { return 0; }  // the framework does not tell

 private:
  coreml_framework::Named named(const std::vector<Tensor>& inputs) const {
    coreml_framework::Named all;
    for (size_t i = 0; i < inputs.size(); ++i) all.emplace_back(model_.main.inputs.at(i).name, inputs[i]);
    return all;
  }
  static std::vector<Tensor> in_order(const mil::FunctionDescription& about, coreml_framework::Named given) {
    std::vector<Tensor> outputs;
    for (const mil::Feature& f : about.outputs) {
      auto found = std::find_if(given.begin(), given.end(), [&](const auto& each) { return each.first == f.name; });
      if (found == given.end()) fail(ErrorCode::not_found, "CoreML.framework gave no output '", f.name, "'");
      outputs.push_back(std::move(found->second));
    }
    return outputs;
  }

  mil::Model model_;
  ComputeUnits units_;
  std::shared_ptr<coreml_framework::Model> loaded_;
};

}  // namespace

std::unique_ptr<CoremlRunner> make_coreml_runner(const mil::Model& model, ComputeUnits units,
                                                 const LoadOptions& options,
                                                 const coreml_framework::Framework& framework) {
  if (framework.present) return std::make_unique<FrameworkRunner>(model, units, framework);
  return std::make_unique<FrontEndRunner>(model, units, options);
}

}  // namespace rlx
