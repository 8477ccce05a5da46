// See the header. MLX's rules of threads: an operation belongs to a stream, and what is submitted to a stream comes
// from one thread at a time. So an executable has one of a few streams that any thread may use, and holds the lock of
// that stream while it runs: executables on different streams run side by side.
#include "backends/mlx/executable.h"

#include <mlx/device.h>
#include <mlx/ops.h>
#include <mlx/stream.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "backends/inputs.h"
#include "base/lru_list.h"
#include "ir/rewrite.h"
#include "passes/hoist_params.h"

namespace rlx::mlx_backend {
namespace {

constexpr size_t kMostPlans = 32;  // kept per executable

/// Streams that several executables share, and the lock of who submits to them.
struct Lane {
  Streams streams;
  std::mutex mutex;
};
Lane& next_lane() {
  // Never destroyed: MLX's own threads may outlive static objects.
  static auto& lanes = *new std::vector<std::unique_ptr<Lane>>([] {
    std::vector<std::unique_ptr<Lane>> all;
    const bool has_gpu = mx::is_available(mx::Device::gpu);
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
      const mx::Stream cpu = mx::new_thread_unsafe_stream(mx::Device::cpu);
      const mx::Stream any = has_gpu ? mx::new_thread_unsafe_stream(mx::Device::gpu) : cpu;
      all.push_back(std::unique_ptr<Lane>(new Lane{{any, cpu}, {}}));
    }
    return all;
  }());
  static std::atomic<size_t> next{0};
  return *lanes[next++ % lanes.size()];
}

class MlxExecutable final : public HostExecutable {
 public:
  MlxExecutable(const Graph& legal, Mode mode, const LoadOptions& options)
      : lane_(next_lane()),
        context_(std::make_shared<Context>(Context{mode, lane_.streams, std::make_shared<HostErrors>()})) {
    if (options.batch_invariant)
      fail(ErrorCode::unsupported,
           "MLX does not say in which order it sums: results that do not depend on the batch (batch_invariant) are for "
           "the device cpu");
    for (Ref r : legal.params()) signature_[legal.node(r).name] = legal.type(r);
    Hoisted hoisted = hoist_params(legal);
    graph_ = std::move(hoisted.main), prologue_ = std::move(hoisted.prologue), hoisted_ = std::move(hoisted.names);
  }

  void bind(const std::string& name, Tensor value) override {
    auto known = signature_.find(name);
    if (known == signature_.end()) fail(ErrorCode::not_found, "graph '", graph_.name(), "' has no param '", name, "'");
    if (value.type() != known->second)
      fail(ErrorCode::shape_mismatch, "param '", name, "' is ", known->second, ", got ", value.type());
    std::scoped_lock lock(lane_.mutex);
    params_.insert_or_assign(name, to_array(value));
    for (const std::string& made : hoisted_) params_.erase(made);
    plans_.clear();  // they hold the old value
  }

  void prepare() override {
    std::vector<Shape> shapes;
    for (const Type& type : graph_.input_types()) {
      if (!is_static(type.dims)) return;  // its shapes come with the first run
      shapes.push_back(shape_of(type.dims));
    }
    std::scoped_lock lock(lane_.mutex);
    plan_for(shapes, [] { return Bindings(); });
  }

  size_t memory_bytes() const override {
    std::scoped_lock lock(lane_.mutex);
    size_t sum = 0;
    for (const auto& [name, value] : params_) sum += value.nbytes();
    return sum;
  }

  void run(Tensors inputs, std::span<Tensor> outputs, const RunOptions& options) override {
    if (is_in_host_node())
      fail(ErrorCode::unsupported,
           "the reference of an op, which MLX waits for, runs a graph on mlx; run it on the cpu");
    require_inputs(graph_, inputs);
    std::vector<Shape> shapes;
    for (const Tensor& t : inputs) shapes.push_back(t.shape());
    std::scoped_lock lock(lane_.mutex);
    const Instance& instance = plan_for(shapes, [&] { return solve_symbols(graph_, inputs); });
    for (size_t o = 0; o < options.memory.size(); ++o)
      if (const Type& type = instance.outputs[o];
          options.memory[o].size() != byte_count(type.dtype, shape_of(type.dims)))
        fail(ErrorCode::shape_mismatch, "output ", o, " of '", graph_.name(), "' is ", type, ", ",
             byte_count(type.dtype, shape_of(type.dims)), " bytes; there is room for ", options.memory[o].size());
    std::vector<mx::array> given;
    for (const Tensor& t : inputs) given.push_back(to_array(t));
    std::vector<mx::array> results = computed(instance.plan, std::move(given), options);
    for (size_t o = 0; o < results.size(); ++o) {
      if (!options.memory.empty()) {
        copy_out(results[o], options.memory[o].data());
        continue;
      }
      const Type& type = instance.outputs[o];
      if (outputs[o].type() != type || !outputs[o].is_unshared())
        outputs[o] = Tensor::uninitialized(type.dtype, shape_of(type.dims));
      copy_out(results[o], outputs[o].mutable_data());
    }
    if (is_cancelled(options.cancel)) fail(ErrorCode::cancelled, "the run of '", graph_.name(), "' was cancelled");
  }

 private:
  struct Instance {
    std::vector<Shape> shapes;
    std::vector<Type> outputs;
    Plan plan;
  };

  /// The outputs, evaluated and dense.
  std::vector<mx::array> computed(const Plan& plan, std::vector<mx::array> inputs, const RunOptions& options) const {
    std::vector<mx::array> results = plan.run(inputs, options);
    inputs.clear();  // MLX may reuse their memory
    evaluate(results, *context_);
    bool all_dense = true;
    for (mx::array& r : results) {
      if (r.flags().row_contiguous) continue;
      r = mx::contiguous(r, false, context_->streams.of(r.dtype() == mx::float64));
      all_dense = false;
    }
    if (!all_dense) evaluate(results, *context_);
    return results;
  }

  /// With the lock.
  template <class F>
  const Instance& plan_for(const std::vector<Shape>& shapes, F bindings_of) {
    if (const Instance* known = plans_.find([&](const Instance& each) { return each.shapes == shapes; })) return *known;
    for (const auto& [name, type] : signature_)
      if (!params_.contains(name))
        fail(ErrorCode::invalid_argument, "param '", name, "' (", type, ") of '", graph_.name(),
             "' is not bound; bind it with set_param before the first run");
    const auto param = [this](const std::string& name) { return params_.at(name); };
    if (!hoisted_.empty() && !params_.contains(hoisted_[0])) {
      std::vector<mx::array> values = computed(Plan(prologue_, context_, param), {}, {});
      for (size_t i = 0; i < hoisted_.size(); ++i) params_.insert_or_assign(hoisted_[i], values[i]);
    }
    const Bindings bindings = bindings_of();
    const Graph fixed = bindings.empty() ? graph_ : substitute(graph_, bindings);
    for (size_t i = 0; i < shapes.size(); ++i)
      if (Type wanted = fixed.type(fixed.inputs()[i]); shape_of(wanted.dims) != shapes[i])
        fail(ErrorCode::shape_mismatch, "input '", fixed.node(fixed.inputs()[i]).name, "' is ", wanted, ", got ",
             Type{wanted.dtype, Dims(shapes[i].begin(), shapes[i].end())});
    return plans_.add(Instance{shapes, fixed.output_types(), Plan(fixed, context_, param)});
  }

  Lane& lane_;
  std::shared_ptr<const Context> context_;
  std::map<std::string, Type> signature_;  // the params that are bound from outside
  Graph graph_, prologue_;
  std::vector<std::string> hoisted_;
  std::map<std::string, mx::array> params_;
  LruList<Instance> plans_{kMostPlans};
};

}  // namespace

std::unique_ptr<Executable> make_executable(Graph legal, Mode mode, const LoadOptions& options) {
  return std::make_unique<MlxExecutable>(legal, mode, options);
}

}  // namespace rlx::mlx_backend
