// See the header. MLX's rules of threads: an operation belongs to a stream, and what is submitted to a stream comes
// from one thread at a time. So an executable has one of a few streams that any thread may use, and holds the lock of
// that stream while it runs: executables on different streams run side by side.
#include "backends/mlx/executable.h"

#include <mlx/device.h>
#include <mlx/export.h>
#include <mlx/ops.h>
#include <mlx/stream.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "backends/inputs.h"
#include "backends/mlx/memory.h"
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

/// What an executable and its runs under way share.
class Loaded {
 public:
  Loaded(const Graph& legal, Mode mode, const LoadOptions& options, std::optional<Streams> streams = {})
      : donated_(options.donated), lane_(next_lane()),
        context_(std::make_shared<Context>(
            Context{mode, streams.value_or(lane_.streams), std::make_shared<HostErrors>(), streams.has_value()})) {
    if (options.batch_invariant)
      fail(ErrorCode::unsupported,
           "MLX does not say in which order it sums: results that do not depend on the batch (batch_invariant) are for "
           "the device cpu");
    for (Ref r : legal.params()) signature_[legal.node(r).name] = legal.type(r);
    Hoisted hoisted = hoist_params(legal);
    graph_ = std::move(hoisted.main), prologue_ = std::move(hoisted.prologue), hoisted_ = std::move(hoisted.names);
  }

  const std::string& name() const { return graph_.name(); }
  bool is_compiled() const { return context_->mode == Mode::compiled; }

  void bind(const std::string& name, const DeviceArgument& value) {
    auto known = signature_.find(name);
    if (known == signature_.end()) fail(ErrorCode::not_found, "graph '", graph_.name(), "' has no param '", name, "'");
    if (const Type given{value.dtype, Dims(value.shape.begin(), value.shape.end())}; given != known->second)
      fail(ErrorCode::shape_mismatch, "param '", name, "' is ", known->second, ", got ", given);
    std::scoped_lock lock(lane_.mutex);
    params_.insert_or_assign(name, block_of(value.buffer).get(value.dtype, value.shape));
    for (const std::string& made : hoisted_) params_.erase(made);
    plans_.clear();  // they hold the old value
    context_->packed.clear();
  }

  void prepare() {
    std::vector<Shape> shapes;
    for (const Type& type : graph_.input_types()) {
      if (!is_static(type.dims)) return;  // its shapes come with the first run
      shapes.push_back(shape_of(type.dims));
    }
    std::scoped_lock lock(lane_.mutex);
    plan_for(shapes, [] { return Bindings(); });
  }

  void write_function(const std::string& path) {
    std::vector<Shape> shapes;
    mx::Args given;
    for (Ref r : graph_.inputs()) {
      const Type& type = graph_.type(r);
      if (!is_static(type.dims))
        fail(ErrorCode::unsupported, "input '", graph_.node(r).name, "' is ", type,
             ", and a function of MLX's has fixed extents");
      if (!has_dtype(type.dtype))
        fail(ErrorCode::unsupported, "input '", graph_.node(r).name, "' is ", type, ", which MLX has no dtype for");
      shapes.push_back(shape_of(type.dims));
      given.push_back(mx::zeros(carried_shape(type), carried_dtype(type.dtype), context_->streams.cpu));
    }
    std::scoped_lock lock(lane_.mutex);
    const Instance& instance = plan_for(shapes, [] { return Bindings(); });
    instance.plan.require_operations();
    for (const Type& type : instance.outputs)
      if (!has_dtype(type.dtype)) fail(ErrorCode::unsupported, "an output is ", type, ", which MLX has no dtype for");
    const std::function<std::vector<mx::array>(const mx::Args&)> function = [&](const mx::Args& inputs) {
      return instance.plan.run(inputs, {});
    };
    // MLX opens the file itself and empties it first, so that it gets one beside it: what stands there is replaced as a
    // whole.
    const std::string beside = path + ".part";
    std::error_code error;
    try {
      mx::export_function(beside, function, given);
    } catch (const std::exception& e) {
      std::filesystem::remove(beside, error);
      if (dynamic_cast<const Error*>(&e)) throw;
      fail(ErrorCode::io, "MLX cannot write '", path, "': ", e.what());
    }
    std::filesystem::rename(beside, path, error);
    if (!error) return;
    const std::string why = error.message();
    std::filesystem::remove(beside, error);
    fail(ErrorCode::io, "'", path, "' cannot be replaced: ", why);
  }

  size_t memory_bytes() const {
    std::scoped_lock lock(lane_.mutex);
    size_t sum = 0;
    for (const auto& [name, value] : params_) sum += value.nbytes();
    for (const auto& [names, weights] : context_->packed)
      for (const mx::array& part : weights.parts) sum += part.nbytes();
    return sum;
  }

  void run_from_host(Tensors inputs, std::span<Tensor> outputs, const RunOptions& options) {
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
    for (const Tensor& t : inputs) given.push_back(lent_array(t));
    const std::vector<mx::array> results = computed(instance.plan, std::move(given), options);
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
    stop_if_cancelled(options);
  }

  void run(std::span<const DeviceArgument> inputs, std::span<const DeviceArgument> outputs, const RunOptions& options) {
    stop_if_cancelled(options);
    std::vector<Shape> shapes;
    std::vector<Type> types;
    for (const DeviceArgument& in : inputs) {
      shapes.push_back(in.shape);
      types.push_back({in.dtype, Dims(in.shape.begin(), in.shape.end())});
    }
    std::scoped_lock lock(lane_.mutex);
    const Instance& instance = plan_for(shapes, [&] { return solve_symbols(graph_, types); });
    std::vector<mx::array> given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& [buffer, dtype, shape] = inputs[i];
      const bool is_donated = i < donated_.size() && donated_[i];
      given.push_back(is_donated ? block_of(buffer).take(dtype, shape) : block_of(buffer).get(dtype, shape));
    }
    const std::vector<mx::array> results = computed(instance.plan, std::move(given), options);
    stop_if_cancelled(options);
    for (size_t o = 0; o < results.size(); ++o) block_of(outputs[o].buffer).put(results[o]);
  }

 private:
  struct Instance {
    std::vector<Shape> shapes;
    std::vector<Type> outputs;
    Plan plan;
  };

  void stop_if_cancelled(const RunOptions& options) const {
    if (is_cancelled(options.cancel)) fail(ErrorCode::cancelled, "the run of '", graph_.name(), "' was cancelled");
  }

  /// The outputs, evaluated and dense.
  std::vector<mx::array> computed(const Plan& plan, std::vector<mx::array> inputs, const RunOptions& options) const {
    std::vector<mx::array> results = plan.run(std::move(inputs), options);  // MLX may reuse their memory
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

  const std::vector<bool> donated_;
  Lane& lane_;
  std::shared_ptr<const Context> context_;
  std::map<std::string, Type> signature_;  // the params that are bound from outside
  Graph graph_, prologue_;
  std::vector<std::string> hoisted_;
  std::map<std::string, mx::array> params_;
  LruList<Instance> plans_{kMostPlans};
};

class MlxExecutable final : public DeviceExecutable {
 public:
  MlxExecutable(const Graph& legal, Mode mode, const LoadOptions& options)
      : loaded_(std::make_shared<Loaded>(legal, mode, options)) {}

  void bind(const std::string& name, DeviceArgument value, const Event& after) override {
    after.wait();
    loaded_->bind(name, value);
  }
  void prepare() override { loaded_->prepare(); }
  size_t memory_bytes() const override { return loaded_->memory_bytes(); }
  bool is_compiled() const override { return loaded_->is_compiled(); }

  Event launch(std::span<const DeviceArgument> inputs, std::span<const DeviceArgument> outputs,
               const LaunchOptions& options, std::span<const Event> after) override {
    require_no_host_node();
    return background_of_device()(
        text_of("a run of '", loaded_->name(), "'"),
        [loaded = loaded_, in = std::vector(inputs.begin(), inputs.end()),
         out = std::vector(outputs.begin(), outputs.end()), options] {
          RunOptions how{options.threads, options.profile};
          how.cancel = options.cancel.get();
          loaded->run(in, out, how);
        },
        after, options.cancel);
  }
  bool run_from_host(Tensors inputs, std::span<Tensor> outputs, const RunOptions& options) override {
    require_no_host_node();
    loaded_->run_from_host(inputs, outputs, options);
    return true;
  }

 private:
  static void require_no_host_node() {
    if (is_in_host_node())
      fail(ErrorCode::unsupported,
           "the reference of an op, which MLX waits for, runs a graph on mlx; run it on the cpu");
  }
  const std::shared_ptr<Loaded> loaded_;
};

}  // namespace

std::unique_ptr<Executable> make_executable(Graph legal, Mode mode, const LoadOptions& options) {
  return std::make_unique<MlxExecutable>(legal, mode, options);
}

void write_function(Graph legal, const NamedTensors& params, const std::string& path) {
  const mx::Stream cpu = mx::default_stream(mx::Device::cpu);
  const Streams streams{mx::is_available(mx::Device::gpu) ? mx::default_stream(mx::Device::gpu) : cpu, cpu};
  Loaded loaded(legal, Mode::lazy, {}, streams);
  for (Ref r : legal.params()) {
    const std::string& name = legal.node(r).name;
    const auto value = params.find(name);
    if (value == params.end()) fail(ErrorCode::not_found, "param '", name, "' (", legal.type(r), ") has no value");
    const Tensor& t = value->second;
    const auto block = std::make_shared<ArrayBlock>(t.byte_count());
    block->put_bytes(t.bytes());
    DeviceArgument argument;
    argument.buffer = {block, 0, t.byte_count()}, argument.dtype = t.dtype(), argument.shape = t.shape();
    loaded.bind(name, argument);
  }
  loaded.write_function(path);
}

}  // namespace rlx::mlx_backend
