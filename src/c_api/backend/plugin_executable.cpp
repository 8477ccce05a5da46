// See the header.
#include "c_api/backend/plugin_executable.h"

#include <cstring>

#include "ir/rewrite.h"

namespace rlx::c {
namespace {

/// One run's arguments as the table wants them; lives until the launch has ended.
class Launch {
 public:
  Launch(const PluginDevice& device, std::shared_ptr<const PluginCompiled> compiled, int threads,
         const CancelFlag* cancel)
      : compiled_(std::move(compiled)), cancel_{cancel, &device.process_ends()} {
    launch_.struct_size = sizeof launch_;
    launch_.threads = threads;
    launch_.cancel = reinterpret_cast<const rlx_cancel*>(&cancel_);
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  struct Place {
    void* buffer;
    size_t offset, bytes;
    uint64_t version = 0;
  };
  void set(std::span<const Place> inputs, std::span<const Place> params, std::span<const Place> outputs) {
    launch_.inputs = list(inputs), launch_.params = list(params), launch_.outputs = list(outputs);
  }
  rlx_status begin(const PluginDevice& device, rlx_completion completion, rlx_error** error) {
    launch_.completion = completion;
    return device.functions().launch(device.handle(), compiled_->handle(), &launch_, error);
  }
  std::string what() const { return text_of("a launch of '", compiled_->graph().name(), "'"); }

  std::vector<std::shared_ptr<const void>> kept;

 private:
  const rlx_argument* const* list(std::span<const Place> places) {
    auto& pointers = lists_.emplace_back();
    for (const Place& p : places) {
      arguments_.push_back({sizeof(rlx_argument), p.buffer, p.offset, p.bytes, p.version});
      pointers.push_back(&arguments_.back());
    }
    return pointers.data();
  }
  const std::shared_ptr<const PluginCompiled> compiled_;
  const PluginCancel cancel_;
  std::deque<rlx_argument> arguments_;
  std::deque<std::vector<const rlx_argument*>> lists_;
  rlx_launch launch_{};
};

uint64_t next_version() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Type type_of(const DeviceArgument& a) { return {a.dtype, Dims(a.shape.begin(), a.shape.end())}; }

/// Notes how long a launch took, for a profile.
std::function<void(std::chrono::steady_clock::time_point)> noted(std::vector<StepTime>* profile,
                                                                 const PluginDevice& device, const std::string& graph) {
  if (!profile) return {};
  profile->reserve(profile->size() + 1);  // at its end nothing may throw
  auto step = std::make_shared<StepTime>(StepTime{"launch", graph, device.table().name});
  return [profile, step](std::chrono::steady_clock::time_point began) {
    step->duration_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
    profile->push_back(std::move(*step));
  };
}

class PluginDeviceExecutable final : public DeviceExecutable {
 public:
  PluginDeviceExecutable(PluginDevice& device, const Graph& legal, const LoadOptions& options)
      : device_(device), forms_(device, legal, options) {}

  void bind(const std::string& name, DeviceArgument value, const Event& after) override {
    bound_[name] = {std::move(value), after, next_version()};
  }
  void prepare() override {}
  size_t memory_bytes() const override { return 0; }

  Event launch(std::span<const DeviceArgument> inputs, std::span<const DeviceArgument> outputs,
               const LaunchOptions& options, std::span<const Event> after) override {
    std::vector<Type> types;
    for (const DeviceArgument& in : inputs) types.push_back(type_of(in));
    auto launch = std::make_shared<Launch>(device_, forms_.form_for(types), options.threads, options.cancel.get());
    if (options.cancel) launch->kept.push_back(options.cancel);
    std::vector<Event> all(after.begin(), after.end());
    std::vector<Launch::Place> in, params, out;
    const auto place = [&](const Buffer& b, uint64_t version = 0) -> Launch::Place {
      launch->kept.push_back(b.block);
      return {static_cast<const PluginBlock&>(*b.block).buffer, b.offset, b.bytes, version};
    };
    for (const DeviceArgument& each : inputs) in.push_back(place(each.buffer));
    for (Ref r : forms_.legal().params()) {
      const Param& param = bound_.at(forms_.legal().node(r).name);
      params.push_back(place(param.value.buffer, param.version));
      all.push_back(param.after);
    }
    for (const DeviceArgument& each : outputs) out.push_back(place(each.buffer));
    launch->set(in, params, out);
    PluginDevice::Work work{launch->what(),
                            [&device = device_, of = launch.get()](rlx_completion c, rlx_error** error) {
                              return of->begin(device, c, error);
                            }};
    work.cancel = options.cancel;
    work.at_end = noted(options.profile, device_, forms_.legal().name());
    work.keeps = std::move(launch);
    return device_.add(std::move(work), all);
  }

 private:
  struct Param {
    DeviceArgument value;
    Event after;
    uint64_t version = 0;
  };
  PluginDevice& device_;
  PluginForms forms_;
  std::map<std::string, Param> bound_;
};

/// The tensor itself, or a copy whose elements stand where such elements may.
Tensor with_aligned_elements(const Tensor& t) {
  const size_t wanted = is_byte_sized(t.dtype()) ? byte_size(t.dtype()) : 1;
  if (reinterpret_cast<uintptr_t>(t.data()) % wanted == 0) return t;
  Tensor copy = Tensor::uninitialized(t.dtype(), t.shape());
  std::memcpy(copy.mutable_data(), t.data(), t.byte_count());
  return copy;
}

class PluginHostExecutable final : public HostExecutable {
 public:
  PluginHostExecutable(PluginDevice& device, const Graph& legal, const LoadOptions& options)
      : device_(device), forms_(device, legal, options) {}

  void bind(const std::string& name, Tensor value) override {
    bound_.insert_or_assign(name, Param{with_aligned_elements(value), next_version()});
  }
  void prepare() override {}
  size_t memory_bytes() const override { return 0; }

  void run(Tensors inputs, std::span<Tensor> outputs, const RunOptions& options) override {
    std::vector<Type> types;
    std::vector<Tensor> given;
    for (const Tensor& t : inputs) types.push_back(t.type()), given.push_back(with_aligned_elements(t));
    const auto form = forms_.form_for(types);
    const Graph& g = form->graph();
    Launch launch(device_, form, options.threads, options.cancel);
    std::vector<Launch::Place> in, params, out;
    const auto reading = [](const Tensor& t, uint64_t version = 0) -> Launch::Place {
      return {const_cast<std::byte*>(t.data()), 0, t.byte_count(), version};
    };
    for (const Tensor& t : given) in.push_back(reading(t));
    for (Ref r : g.params()) {
      const auto found = bound_.find(g.node(r).name);
      if (found == bound_.end())
        fail(ErrorCode::invalid_argument, "param '", g.node(r).name, "' of '", g.name(), "' is not bound");
      params.push_back(reading(found->second.value, found->second.version));
    }
    const std::vector<Type> made = g.output_types();
    std::vector<Tensor> kept_alive;  // an input that is donated may lie in the output that is replaced
    for (size_t o = 0; o < made.size(); ++o) {
      const size_t bytes = byte_count(made[o].dtype, shape_of(made[o].dims));
      if (options.memory.empty()) {
        if (outputs[o].type() != made[o] || !outputs[o].is_unshared()) {
          kept_alive.push_back(std::move(outputs[o]));
          outputs[o] = Tensor::uninitialized(made[o].dtype, shape_of(made[o].dims));
        }
        out.push_back({outputs[o].mutable_data(), 0, bytes});
      } else if (options.memory[o].size() != bytes) {
        fail(ErrorCode::shape_mismatch, "output ", o, " of '", g.name(), "' is ", made[o], ", ", bytes,
             " bytes; there is room for ", options.memory[o].size());
      } else {
        out.push_back({options.memory[o].data(), 0, bytes});
      }
    }
    launch.set(in, params, out);
    PluginDevice::Work work{launch.what(),
                            [&](rlx_completion c, rlx_error** error) { return launch.begin(device_, c, error); }};
    // What it writes is the caller's: it is waited for, however long it takes.
    work.takes_long = false, work.may_be_left = false;
    work.at_end = noted(options.profile, device_, g.name());
    device_.add(std::move(work), {}).wait();
  }

 private:
  struct Param {
    Tensor value;
    uint64_t version;
  };
  PluginDevice& device_;
  PluginForms forms_;
  std::map<std::string, Param> bound_;
};

}  // namespace

PluginCompiled::PluginCompiled(PluginDevice& device, Graph graph, const LoadOptions& options)
    : device_(device), graph_(std::move(graph)), view_(graph_) {
  for (const Node& node : graph_.nodes())
    for (const Type& type : node.types)
      if (const auto why = device.limits().refusal(type))
        fail(ErrorCode::unsupported, device.name(), " takes no node '", node.op->name, "' of these sizes: ", *why);
  rlx_compile_request request{};
  request.struct_size = sizeof request;
  request.graph = view_.get();
  request.threads = options.threads;
  request.accuracy = options.exact ? 1 : options.row_relative ? 2 : 0;
  request.batch_invariant = options.batch_invariant;
  device.call(text_of("compiling '", graph_.name(), "'"), [&](rlx_error** error) {
    return device.functions().compile(device.handle(), &request, &handle_, error);
  });
}
PluginCompiled::~PluginCompiled() {
  if (device_.functions().free_executable) device_.free(device_.functions().free_executable, handle_);
}

PluginForms::PluginForms(PluginDevice& device, const Graph& legal, const LoadOptions& options)
    : device_(device), legal_(legal), options_(options) {
  const auto types = legal.input_types();
  if (std::all_of(types.begin(), types.end(), [](const Type& t) { return is_static(t.dims); })) form_for(types);
}

std::shared_ptr<const PluginCompiled> PluginForms::form_for(const std::vector<Type>& inputs) {
  Bindings bindings = solve_symbols(legal_, inputs);
  const auto find = [&]() -> std::shared_ptr<const PluginCompiled> {
    const auto* found = forms_.find([&](const auto& form) { return form.first == bindings; });
    return found ? found->second : nullptr;
  };
  {
    std::scoped_lock lock(mutex_);
    if (auto found = find()) return found;
  }
  // Compiled without the lock: runs of other sizes go on meanwhile. Of two threads that compile one size, one is kept.
  auto made = std::make_shared<const PluginCompiled>(device_, bindings.empty() ? legal_ : substitute(legal_, bindings),
                                                     options_);
  std::scoped_lock lock(mutex_);
  if (auto found = find()) return found;
  return forms_.add({std::move(bindings), std::move(made)}).second;
}

std::unique_ptr<Executable> make_device_executable(PluginDevice& device, const Graph& legal,
                                                   const LoadOptions& options) {
  return std::make_unique<PluginDeviceExecutable>(device, legal, options);
}
std::unique_ptr<Executable> make_host_executable(PluginDevice& device, const Graph& legal, const LoadOptions& options) {
  return std::make_unique<PluginHostExecutable>(device, legal, options);
}

PluginBlock::~PluginBlock() {
  if (buffer) device.free(device.functions().free, buffer);
}

}  // namespace rlx::c
