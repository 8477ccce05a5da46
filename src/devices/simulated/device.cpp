// See the header.
#include "devices/simulated/device.h"

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "backends/registry.h"
#include "devices/simulated/memory.h"

namespace rlx::simulated {
namespace {

/// What one simulated accelerator has that another has not.
struct Traits {
  std::string name, description;
  Memory memory;
  Limits limits;
  size_t queues = 1;
  bool delays = false;
  Faults* faults = nullptr;
};

class SimulatedExecutable final : public DeviceExecutable {
 public:
  SimulatedExecutable(const Program& by_cpu, const LoadOptions& options, std::shared_ptr<SimulatedMemory> memory,
                      WorkQueue& queue, Faults* faults)
      : name_(by_cpu.graph().name()), body_(std::make_shared<Body>()), memory_(std::move(memory)), queue_(queue),
        faults_(faults) {
    body_->by_cpu = load_on_host(by_cpu, options);
  }

  void bind(const std::string& name, DeviceArgument value, const Event& after) override {
    std::scoped_lock lock(body_->mutex);
    body_->unbound[name] = value;
    bound_[name] = {value, after};
  }
  // Params are on the device: they are packed there, by the first run.
  void prepare() override {}
  size_t memory_bytes() const override { return body_->by_cpu->memory_bytes(); }

  Event launch(std::span<const DeviceArgument> inputs, std::span<const DeviceArgument> outputs,
               const LaunchOptions& options, std::span<const Event> after) override {
    std::vector<Event> all(after.begin(), after.end());
    for (const auto& [name, param] : bound_) all.push_back(param.after);
    return queue_.add(
        text_of("a run of '", name_, "'"),
        [body = body_, memory = memory_, &queue = queue_, faults = faults_, name = name_, options,
         in = std::vector(inputs.begin(), inputs.end()), out = std::vector(outputs.begin(), outputs.end())] {
          const auto check = [&] {
            if (is_cancelled(options.cancel.get()))
              fail(ErrorCode::cancelled, "the run of '", name, "' was cancelled before it began");
          };
          check();
          if (faults) {
            faults->check(Fault::lose, "the run of '" + name + "'");
            faults->check(Fault::launch, "the run of '" + name + "'");
            if (faults->happens(Fault::stall)) {
              for (; !queue.is_closing() && !faults->is_lost(); check())
                std::this_thread::sleep_for(std::chrono::microseconds(100));
              fail(ErrorCode::device_lost, "the device is gone, and the run of '", name, "' never began");
            }
          }
          body->run(*memory, in, out, options);
        },
        all, options.cancel);
  }

 private:
  /// What a launch keeps: the executable may be gone before it runs.
  struct Body {
    std::mutex mutex;
    std::unique_ptr<HostExecutable> by_cpu;
    std::map<std::string, DeviceArgument> unbound;  // params that the CPU's executable was not given yet

    static Tensor view_of(const SimulatedMemory& memory, const DeviceArgument& a) {
      return Tensor::borrow(a.dtype, a.shape, {memory.address(a.buffer), a.buffer.bytes}, a.buffer.block);
    }
    void run(const SimulatedMemory& memory, std::span<const DeviceArgument> inputs,
             std::span<const DeviceArgument> outputs, const LaunchOptions& options) {
      {
        std::scoped_lock lock(mutex);
        for (const auto& [name, value] : unbound) by_cpu->bind(name, view_of(memory, value));
        unbound.clear();
      }
      RunOptions how{options.threads, options.profile};
      how.cancel = options.cancel.get();
      std::vector<std::span<std::byte>> places;
      for (const DeviceArgument& out : outputs) places.emplace_back(memory.address(out.buffer), out.buffer.bytes);
      how.memory = places;
      RunNotes notes;
      how.notes = &notes;
      std::vector<Tensor> given;
      for (const DeviceArgument& in : inputs) given.push_back(view_of(memory, in));
      by_cpu->run(given, {}, how);
      memory.counts().donated_copies += notes.updates_elsewhere;
    }
  };
  struct Param {
    DeviceArgument value;
    Event after;
  };
  const std::string name_;
  const std::shared_ptr<Body> body_;
  const std::shared_ptr<SimulatedMemory> memory_;
  WorkQueue& queue_;
  Faults* const faults_;
  std::map<std::string, Param> bound_;
};

class SimulatedDevice final : public Backend {
 public:
  explicit SimulatedDevice(Traits traits) : traits_(std::move(traits)) {}

  std::string name() const override { return traits_.name; }
  std::string description() const override { return traits_.description; }
  int threads() const override { return cpu().threads(); }
  std::string unavailable() const override { return ""; }
  Target target() const override {
    Target target = cpu().target();
    target.name = traits_.name, target.detail = "";
    target.limits = traits_.limits;
    if (traits_.limits.buffers_per_launch) {  // a fused region may have more
      target.fuses_elementwise = nullptr;
      target.fuses_convolutions = false;
    }
    return target;
  }
  size_t claims_hash() const override { return cpu().claims_hash(); }
  std::vector<TargetFact> facts() const override { return cpu().facts(); }
  std::vector<std::string> registered_kernels(const Graph* program) const override {
    return cpu().registered_kernels(program);
  }
  std::string no_native_update() const override {
    return text_of(traits_.name, " is simulated and runs compiled graphs alone");
  }
  std::unique_ptr<Program> lower(Graph legal) const override {
    if (traits_.faults) traits_.faults->check(Fault::compile, "compiling '" + legal.name() + "'");
    return std::make_unique<SimulatedProgram>(cpu().lower(std::move(legal)), *this);
  }
  std::shared_ptr<DeviceMemory> memory() const override { return opened().memory; }
  bool has_own_memory() const override { return true; }
  Memory about_memory() const override { return traits_.memory; }

 private:
  /// What takes threads and addresses: made when something is to run here, as every compile asks this target whether it
  /// would take what another lacks.
  struct Opened {
    WorkQueue queue;
    std::shared_ptr<SimulatedMemory> memory;
    explicit Opened(const Traits& traits)
        : queue(traits.name, traits.queues, traits.delays),
          memory(std::make_shared<SimulatedMemory>(traits.memory, queue, traits.faults)) {}
  };
  Opened& opened() const {
    std::scoped_lock lock(mutex_);
    if (!opened_) opened_ = std::make_unique<Opened>(traits_);
    return *opened_;
  }
  class SimulatedProgram final : public Program {
   public:
    SimulatedProgram(std::unique_ptr<Program> by_cpu, const SimulatedDevice& device)
        : by_cpu_(std::move(by_cpu)), device_(device) {}
    const Graph& graph() const override { return by_cpu_->graph(); }
    std::unique_ptr<Executable> load(const LoadOptions& options) const override {
      Opened& opened = device_.opened();
      return std::make_unique<SimulatedExecutable>(*by_cpu_, options, opened.memory, opened.queue,
                                                   device_.traits_.faults);
    }

   private:
    std::unique_ptr<Program> by_cpu_;
    const SimulatedDevice& device_;
  };
  static const Backend& cpu() { return *backend_of(Device::cpu()); }

  const Traits traits_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Opened> opened_;
};

}  // namespace

std::unique_ptr<Backend> make_loopback() {
  Traits traits;
  traits.name = "loopback";
  traits.description = "a simulated accelerator for tests: memory and queues of its own, computing by the CPU";
  traits.memory = {"device", HostAccess::none, 256, uint64_t{512} << 20, uint64_t{256} << 20};
  traits.limits.index_bits = 32;
  traits.limits.largest_buffer = traits.memory.largest_buffer;
  traits.limits.absent_dtypes = {f64, c128};
  traits.queues = 2;
  traits.delays = true;
  traits.faults = &loopback_faults();
  return std::make_unique<SimulatedDevice>(std::move(traits));
}

std::unique_ptr<Backend> make_tiny() {
  Traits traits;
  traits.name = "tiny";
  traits.description =
      "a simulated accelerator for tests, with WebGPU's limits and buffers of 1 MiB, computing by the CPU";
  traits.memory = {"device", HostAccess::mapped, 256, uint64_t{64} << 20, uint64_t{1} << 20};
  traits.limits.buffers_per_launch = 8;
  traits.limits.index_bits = 32;
  traits.limits.largest_buffer = traits.memory.largest_buffer;
  traits.limits.absent_dtypes = {f64, c128};
  return std::make_unique<SimulatedDevice>(std::move(traits));
}

}  // namespace rlx::simulated
