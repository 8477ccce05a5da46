// See the header. All memory of a run is taken before its first step: what fails then has begun nothing. From then on
// every step ends, well or not; the first error is the run's, and the steps that have not begun are cancelled.
#include "runtime/split_executable.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "backends/registry.h"
#include "base/event_source.h"
#include "runtime/background.h"
#include "runtime/tensor_on_device.h"

namespace rlx {
namespace {

/// The parts, loaded. Runs keep it: the executable may be gone before they end.
struct LoadedSplit {
  struct Part {
    std::unique_ptr<Executable> executable;
    HostExecutable* on_host = nullptr;
    DeviceExecutable* on_device = nullptr;
  };
  std::shared_ptr<const SplitProgramData> program;
  std::vector<Part> parts;
  std::vector<std::shared_ptr<DeviceMemory>> memories;  // by memory of the plan; null: the host's

  const Split& split() const { return program->split; }
  const SplitPlan& plan() const { return program->plan; }
  const Device& device_in(size_t memory) const { return split().devices[plan().device_of[memory]]; }
  std::string text_of_part(size_t p) const {
    const SplitPart& part = split().parts[p];
    return text_of("part ", p, part.first.empty() ? "" : " ('" + part.first + "')", " of '", program->source.name(),
                   "' on ", split().devices[part.device]);
  }
  std::string doing(const SplitStep& step) const {
    if (step.part != SplitStep::kNone) return "running " + text_of_part(step.part);
    const SplitPlace &from = plan().places[step.from], &to = plan().places[step.to];
    const auto name = [&](size_t memory) {
      return memory == SplitPlan::kHost ? std::string("the host") : device_in(memory).name();
    };
    const SplitValue& value = split().values[from.value];
    return text_of("copying ", value.text, " (", value.type, ") of '", program->source.name(), "' from ",
                   name(from.memory), " to ", name(to.memory));
  }
};

/// One run. Its events' callbacks keep it.
class SplitRun : public std::enable_shared_from_this<SplitRun> {
 public:
  SplitRun(std::shared_ptr<LoadedSplit> loaded, Types inputs, int threads)
      : loaded_(std::move(loaded)), threads_(threads), bindings_(solve_symbols(loaded_->program->source, inputs)),
        places_(plan().places.size()), times_(plan().steps.size()), begins_(plan().steps.size()),
        ended_(plan().steps.size()), left_(plan().steps.size()) {}

  std::shared_ptr<CancelFlag> cancel = std::make_shared<CancelFlag>(false);
  const CancelFlag* asked_to_stop = nullptr;  // another one, which the caller of `serve` looks after
  std::vector<StepTime>* profile = nullptr;
  std::shared_ptr<RunObserver> observer = {};
  uint64_t updates_elsewhere = 0;

  Type type_of(size_t value) const {
    Type type = loaded_->split().values[value].type;
    for (Dim& d : type.dims) d = d.bound(bindings_);
    return type;
  }
  void give_host(size_t place, const Tensor& tensor) { places_[place].tensor = tensor, places_[place].is_given = true; }
  void give_host_room(size_t place, std::span<std::byte> bytes) {
    const Type type = type_of(plan().places[place].value);
    places_[place].tensor = Tensor::borrow(type.dtype, shape_of(type.dims), bytes);
    places_[place].bytes = bytes, places_[place].is_given = true;
  }
  void give_buffer(size_t place, const Buffer& buffer) {
    places_[place].buffer = buffer, places_[place].is_given = true;
  }
  const Tensor& host(size_t place) const { return places_[place].tensor; }

  /// Memory for what nobody gave. Nothing has begun yet.
  void make_room() {
    for (size_t at = 0; at < places_.size(); ++at) {
      Place& place = places_[at];
      if (place.is_given) continue;
      const auto [value, memory] = plan().places[at];
      const Type type = type_of(value);
      const Shape shape = shape_of(type.dims);
      with_context(
          [&, m = memory, v = value] {
            return text_of("making room for ", loaded_->split().values[v].text, " (", type, ") of '",
                           loaded_->program->source.name(), "' ",
                           m == SplitPlan::kHost ? "on the host" : "on " + loaded_->device_in(m).name());
          },
          [&, m = memory] {
            if (m != SplitPlan::kHost) {
              place.buffer = new_buffer(*loaded_->memories[m], loaded_->device_in(m), byte_count(type.dtype, shape));
              return;
            }
            place.tensor = Tensor::uninitialized(type.dtype, shape);
            place.bytes = {place.tensor.mutable_data(), place.tensor.byte_count()};
          });
    }
  }

  /// Begins all steps. `is_served`: parts in the host's memory wait for `serve`. `done` is called once when all steps
  /// have ended; it does not throw.
  void begin(std::span<const Event> after, bool is_served, std::function<void(std::exception_ptr)> done) {
    is_served_ = is_served, done_ = std::move(done);
    began_ = std::chrono::steady_clock::now();
    const auto self = shared_from_this();
    if (left_ == 0) {  // a graph without outputs
      EventSource::when_all_done({after.begin(), after.end()}, [self](std::exception_ptr error) { self->end(error); });
      return;
    }
    for (size_t s = 0; s < plan().steps.size(); ++s) {
      const SplitStep& step = plan().steps[s];
      std::vector<Event> wait;
      for (size_t before : step.after) wait.push_back(ended_[before]);
      if (step.after.empty()) wait.assign(after.begin(), after.end());
      try {
        ended_[s] = submit(s, step, std::move(wait));
      } catch (...) {  // what was begun goes on; this step has ended
        EventSource failed(loaded_->split().devices[0].name(), "a step");
        failed.fail(std::current_exception());
        ended_[s] = failed.event();
      }
    }
    for (size_t s = 0; s < plan().steps.size(); ++s)
      EventSource::when_done(ended_[s], [self, s](std::exception_ptr error) { self->step_ended(s, error); });
  }

  /// Runs, on the caller's thread, the parts that compute in the host's memory, until all steps have ended.
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (is_over_) return;
      if (!waiting_.empty()) {
        const auto work = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        work();
        lock.lock();
        continue;
      }
      if (!asked_to_stop) {
        changed_.wait(lock);
        continue;
      }
      changed_.wait_for(lock, std::chrono::milliseconds(2));
      if (is_cancelled(asked_to_stop)) cancel->store(true, std::memory_order_relaxed);
    }
  }
  std::exception_ptr error() const { return error_; }

 private:
  struct Place {
    Tensor tensor = {};
    std::span<std::byte> bytes = {};  // of the tensor, where a step writes
    Buffer buffer = {};
    bool is_given = false;
  };
  const SplitPlan& plan() const { return loaded_->plan(); }

  Event submit(size_t s, const SplitStep& step, std::vector<Event> after) {
    if (step.part == SplitStep::kNone) return submit_copy(step, after);
    if (loaded_->parts[step.part].on_device) return submit_part(s, step, after);
    const Device& device = loaded_->split().devices[loaded_->split().parts[step.part].device];
    EventSource source(device.name(), loaded_->text_of_part(step.part));
    const Event event = source.event();
    if (observer) observer->worked(event);
    EventSource::when_all_done(std::move(after), [self = shared_from_this(), s, source](std::exception_ptr error) {
      if (error) return source.fail(error);
      try {
        auto work = [self, s, source] { self->run_on_host(s, source); };
        if (!self->is_served_) return run_in_background(std::move(work), self->cancel);
        {
          std::scoped_lock lock(self->mutex_);
          self->waiting_.push_back(std::move(work));
        }
        self->changed_.notify_all();
      } catch (...) {
        source.fail(std::current_exception());
      }
    });
    return event;
  }

  Event submit_copy(const SplitStep& step, std::span<const Event> after) {
    const SplitPlace &from = plan().places[step.from], &to = plan().places[step.to];
    const bool is_read = to.memory == SplitPlan::kHost;
    const Place& source = places_[step.from];
    const Place& target = places_[step.to];
    const auto& memory = loaded_->memories[is_read ? from.memory : to.memory];
    const size_t bytes = is_read ? target.bytes.size() : source.tensor.byte_count();
    if (is_cancelled(cancel.get())) fail(ErrorCode::cancelled, "the run was cancelled");
    const Event event = is_read ? memory->read({target.bytes, shared_from_this()}, source.buffer, after)
                                : memory->write(target.buffer, {source.tensor.bytes(), shared_from_this()}, after);
    Transfers moved{.split_copies = 1, .split_bytes = bytes};
    TransferCounts& counts = memory->counts();
    ++counts.split_copies, counts.split_bytes += bytes;
    if (is_read) {
      ++counts.copies_to_host, counts.bytes_to_host += bytes;
      moved.copies_to_host = 1, moved.bytes_to_host = bytes;
      if (is_served_) ++counts.host_waits, moved.host_waits = 1;
    } else {
      ++counts.copies_to_device, counts.bytes_to_device += bytes;
      moved.copies_to_device = 1, moved.bytes_to_device = bytes;
    }
    if (observer) observer->moved(moved), observer->worked(event);
    return event;
  }

  Event submit_part(size_t s, const SplitStep& step, std::span<const Event> after) {
    const SplitPart& part = loaded_->split().parts[step.part];
    const size_t memory = plan().memory_of[part.device];
    std::vector<DeviceArgument> in, out;
    const auto argument = [&](size_t value) {
      const Type type = type_of(value);
      return DeviceArgument{places_[plan().place(value, memory)].buffer, type.dtype, shape_of(type.dims)};
    };
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      if (part.inputs[i] != SplitPart::kExtents) {
        in.push_back(argument(part.inputs[i]));
        continue;
      }
      in.push_back({new_buffer(*loaded_->memories[memory], loaded_->device_in(memory), 0), boolean, extents(part, i)});
    }
    for (size_t value : part.outputs) out.push_back(argument(value));
    const Event event =
        loaded_->parts[step.part].on_device->launch(in, out, {threads_, cancel, profile ? &times_[s] : nullptr}, after);
    if (observer) observer->worked(event);
    return event;
  }
  /// The shape of the input that tells symbols alone.
  Shape extents(const SplitPart& part, size_t input) const {
    Shape shape;
    for (const Dim& d : part.graph.type(part.graph.inputs()[input]).dims) shape.push_back(d.bound(bindings_).value());
    return shape;
  }

  void run_on_host(size_t s, const EventSource& source) noexcept {
    try {
      const size_t p = plan().steps[s].part;
      const SplitPart& part = loaded_->split().parts[p];
      if (is_cancelled(cancel.get()) || is_cancelled(asked_to_stop))
        fail(ErrorCode::cancelled, "the run of '", loaded_->program->source.name(), "' was cancelled before ",
             loaded_->text_of_part(p), " began");
      source.begin(background_thread());
      begins_[s] = std::chrono::steady_clock::now();
      std::vector<Tensor> given;
      std::vector<std::span<std::byte>> room;
      for (size_t i = 0; i < part.inputs.size(); ++i)
        given.push_back(part.inputs[i] == SplitPart::kExtents
                            ? Tensor(boolean, extents(part, i))
                            : places_[plan().place(part.inputs[i], SplitPlan::kHost)].tensor);
      for (size_t value : part.outputs) room.push_back(places_[plan().place(value, SplitPlan::kHost)].bytes);
      RunOptions how{threads_, profile ? &times_[s] : nullptr, room};
      how.cancel = asked_to_stop ? asked_to_stop : cancel.get();
      RunNotes notes;
      how.notes = &notes;
      loaded_->parts[p].on_host->run(given, {}, how);
      std::scoped_lock lock(mutex_);
      updates_elsewhere += notes.updates_elsewhere;
    } catch (...) {
      return source.fail(std::current_exception());
    }
    source.finish();
  }

  void step_ended(size_t s, std::exception_ptr error) {
    if (error) {
      try {
        with_context([&] { return loaded_->doing(plan().steps[s]); }, [&] { rethrow_copy(error); });
      } catch (...) {
        error = std::current_exception();
      }
    }
    std::exception_ptr first;
    {
      std::scoped_lock lock(mutex_);
      if (error && !error_) error_ = error;
      if (--left_ > 0) {
        if (error) cancel->store(true, std::memory_order_relaxed);  // what has not begun need not
        return;
      }
      first = error_;
    }
    end(first);
  }
  void end(const std::exception_ptr& error) {
    for (size_t s = 0; s < times_.size() && profile; ++s) {
      auto begin = begins_[s];
      if (const auto work = ended_[s].work(); work && begin == std::chrono::steady_clock::time_point())
        begin = work->start;
      const double at = std::chrono::duration<double, std::micro>(begin - began_).count();
      for (StepTime& t : times_[s]) {
        t.start_us += at;
        profile->push_back(std::move(t));
      }
    }
    const auto done = std::move(done_);
    // The memory of the run goes before its end is told.
    if (!is_served_) places_.clear();
    if (done) done(error);
    {
      std::scoped_lock lock(mutex_);
      if (!error_) error_ = error;
      is_over_ = true;
    }
    changed_.notify_all();
  }

  const std::shared_ptr<LoadedSplit> loaded_;
  const int threads_;
  const Bindings bindings_;
  std::vector<Place> places_;
  std::vector<std::vector<StepTime>> times_;  // by step
  std::vector<std::chrono::steady_clock::time_point> begins_;
  std::vector<Event> ended_;
  bool is_served_ = false;
  std::chrono::steady_clock::time_point began_ = {};
  std::function<void(std::exception_ptr)> done_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::exception_ptr error_;
  size_t left_;
  bool is_over_ = false;
};

std::shared_ptr<LoadedSplit> loaded_split(std::shared_ptr<const SplitProgramData> program, const LoadOptions& options) {
  auto loaded = std::make_shared<LoadedSplit>();
  loaded->program = std::move(program);
  const Split& split = loaded->split();
  loaded->memories.resize(loaded->plan().device_of.size());
  for (size_t d = 0; d < split.devices.size(); ++d)
    if (const size_t memory = loaded->plan().memory_of[d]; memory != SplitPlan::kHost)
      loaded->memories[memory] = loaded->program->backends[d]->memory();
  for (size_t p = 0; p < split.parts.size(); ++p) {
    const SplitPart& part = split.parts[p];
    LoadOptions own = options;
    own.donated.assign(part.inputs.size(), false);
    for (size_t i = 0; i < part.inputs.size(); ++i)
      own.donated[i] =
          part.inputs[i] < options.donated.size() && options.donated[part.inputs[i]] && may_overwrite(split, p, i);
    if (!own.keep_in.empty()) own.keep_in += text_of("-", p);
    LoadedSplit::Part made;
    made.executable = with_context([&] { return "loading " + loaded->text_of_part(p); },
                                   [&] { return loaded->program->parts[p]->load(own); });
    made.on_host = dynamic_cast<HostExecutable*>(made.executable.get());
    made.on_device = dynamic_cast<DeviceExecutable*>(made.executable.get());
    const bool has_own_memory = loaded->plan().memory_of[part.device] != SplitPlan::kHost;
    if (has_own_memory ? !made.on_device : !made.on_host)
      fail(ErrorCode::internal, loaded->text_of_part(p), " does not compute in the memory that its device says");
    loaded->parts.push_back(std::move(made));
  }
  return loaded;
}

/// What both kinds of executables do alike.
struct SplitParts {
  std::shared_ptr<LoadedSplit> loaded;

  void prepare() const {
    for (const auto& part : loaded->parts) part.executable->prepare();
  }
  size_t memory_bytes() const {
    size_t sum = 0;
    for (const auto& part : loaded->parts) sum += part.executable->memory_bytes();
    return sum;
  }
  /// Binds a param wherever parts read it: once in each memory.
  void bind(const std::string& name, const Tensor& value) const {
    std::map<size_t, std::pair<DeviceArgument, Event>> there;  // by memory
    for (size_t p = 0; p < loaded->parts.size(); ++p) {
      const SplitPart& part = loaded->split().parts[p];
      const auto& params = part.graph.params();
      if (std::none_of(params.begin(), params.end(), [&](Ref r) { return part.graph.node(r).name == name; })) continue;
      if (HostExecutable* host = loaded->parts[p].on_host) {
        host->bind(name, value);
        continue;
      }
      const size_t memory = loaded->plan().memory_of[part.device];
      auto at = there.find(memory);
      if (at == there.end()) {
        const Device& device = loaded->split().devices[part.device];
        const std::string doing =
            text_of("binding param '", name, "' of '", loaded->program->source.name(), "' on ", device);
        const DeviceTensor put = put_on_device(value, device, nullptr, doing);
        TensorOnDevice& t = *put.on_device();
        std::scoped_lock lock(t.mutex);
        at = there.emplace(memory, std::pair(t.argument(), t.ready)).first;
      }
      loaded->parts[p].on_device->bind(name, at->second.first, at->second.second);
    }
  }
};

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

class SplitHostExecutable final : public HostExecutable {
 public:
  explicit SplitHostExecutable(std::shared_ptr<LoadedSplit> loaded) : parts_{std::move(loaded)} {}
  void bind(const std::string& name, Tensor value) override { parts_.bind(name, value); }
  void prepare() override { parts_.prepare(); }
  size_t memory_bytes() const override { return parts_.memory_bytes(); }

  // Runs in the background wait for nothing, as they may begin where another one ends. They write no input over: their
  // callers are told so.
  bool begin(Tensors inputs, const RunOptions& options, Done done) override {
    const LoadedSplit& loaded = *parts_.loaded;
    std::vector<Type> types;
    for (const Tensor& t : inputs) types.push_back(t.type());
    auto run = std::make_shared<SplitRun>(parts_.loaded, types, options.threads);
    run->observer = options.observer;
    const auto kept = std::make_shared<Done>(std::move(done));
    // The flag is its caller's, and lives as long as `done`. Whoever set it first, the run has ended for its caller.
    if (options.cancel) run->cancel = std::shared_ptr<CancelFlag>(kept, const_cast<CancelFlag*>(options.cancel));
    for (size_t i = 0; i < inputs.size(); ++i) run->give_host(loaded.plan().place(i, SplitPlan::kHost), inputs[i]);
    const auto outputs = std::make_shared<std::vector<Tensor>>();
    for (size_t value : loaded.split().outputs) {
      const Type type = run->type_of(value);
      Tensor& made = outputs->emplace_back(Tensor::uninitialized(type.dtype, shape_of(type.dims)));
      run->give_host_room(loaded.plan().place(value, SplitPlan::kHost), {made.mutable_data(), made.byte_count()});
    }
    run->make_room();
    SplitRun* const raw = run.get();  // alive while it ends
    run->begin({}, false, [kept, outputs, raw](std::exception_ptr error) {
      if (raw->observer && raw->updates_elsewhere) raw->observer->moved({.donated_copies = raw->updates_elsewhere});
      (*kept)(error ? std::vector<Tensor>() : std::move(*outputs), error);
    });
    return true;
  }
  void run(Tensors inputs, std::span<Tensor> outputs, const RunOptions& options) override {
    const LoadedSplit& loaded = *parts_.loaded;
    const Graph& source = loaded.program->source;
    if (options.notes) options.notes->has_begun = false;
    std::vector<Type> types;
    for (const Tensor& t : inputs) types.push_back(t.type());
    auto run = std::make_shared<SplitRun>(parts_.loaded, types, options.threads);
    run->asked_to_stop = options.cancel, run->profile = options.profile, run->observer = options.observer;
    for (size_t i = 0; i < inputs.size(); ++i) run->give_host(loaded.plan().place(i, SplitPlan::kHost), inputs[i]);
    // What the caller gives room for is written there, unless an input lies there that other parts may still read.
    const std::vector<bool> in_place = updated_outputs();
    std::vector<size_t> places;
    std::vector<Tensor> made(loaded.split().outputs.size());
    for (size_t o = 0; o < made.size(); ++o) {
      places.push_back(loaded.plan().place(loaded.split().outputs[o], SplitPlan::kHost));
      const Type type = run->type_of(loaded.split().outputs[o]);
      const size_t bytes = byte_count(type.dtype, shape_of(type.dims));
      std::span<std::byte> room;
      if (!options.memory.empty()) {
        room = options.memory[o];
        if (room.size() != bytes)
          fail(ErrorCode::shape_mismatch, "output ", o, " of '", source.name(), "' is ", type, ", ", bytes,
               " bytes; there is room for ", room.size());
      } else if (outputs[o].type() == type && outputs[o].is_unshared()) {
        room = {outputs[o].mutable_data(), bytes};
      }
      const bool is_taken = !in_place[o] && std::any_of(inputs.begin(), inputs.end(),
                                                        [&](const Tensor& t) { return overlap(t.bytes(), room); });
      if (is_taken) ++run->updates_elsewhere;
      if (!room.empty() && !is_taken) {
        run->give_host_room(places[o], room);
        continue;
      }
      made[o] = Tensor::uninitialized(type.dtype, shape_of(type.dims));
      run->give_host_room(places[o], {made[o].mutable_data(), bytes});
    }
    run->make_room();
    if (options.notes) options.notes->has_begun = true;
    run->begin({}, true, {});
    run->serve();
    if (options.notes) options.notes->updates_elsewhere += run->updates_elsewhere;
    if (run->error()) rethrow_copy(run->error());
    for (size_t o = 0; o < made.size(); ++o) {
      const Type type = run->type_of(loaded.split().outputs[o]);
      if (options.memory.empty()) {
        if (made[o].type() == type && (made[o].byte_count() || outputs[o].type() != type))
          outputs[o] = std::move(made[o]);
      } else if (made[o].byte_count()) {
        std::memcpy(options.memory[o].data(), made[o].data(), made[o].byte_count());
      }
    }
  }

 private:
  /// Outputs that have the name of an input which their part alone reads: they may lie where it does.
  std::vector<bool> updated_outputs() const {
    const Split& split = parts_.loaded->split();
    std::vector<bool> some(split.outputs.size());
    for (size_t p = 0; p < split.parts.size(); ++p)
      for (size_t i = 0; i < split.parts[p].inputs.size(); ++i) {
        if (!may_overwrite(split, p, i)) continue;
        const Graph& g = split.parts[p].graph;
        for (size_t o = 0; o < g.outputs().size(); ++o)
          if (g.outputs()[o].name == g.node(g.inputs()[i]).name)
            for (size_t k = 0; k < some.size(); ++k)
              if (split.outputs[k] == split.parts[p].outputs[o]) some[k] = true;
      }
    return some;
  }
  SplitParts parts_;
};

class SplitDeviceExecutable final : public DeviceExecutable {
 public:
  explicit SplitDeviceExecutable(std::shared_ptr<LoadedSplit> loaded) : parts_{std::move(loaded)} {}
  bool is_compiled() const override {
    const auto& parts = parts_.loaded->parts;
    return std::any_of(parts.begin(), parts.end(),
                       [](const auto& p) { return p.on_device && p.on_device->is_compiled(); });
  }
  bool bind_from_host(const std::string& name, const Tensor& value) override {
    parts_.bind(name, with_owner(value));
    return true;
  }
  void bind(const std::string& name, DeviceArgument value, const Event& after) override {
    const LoadedSplit& loaded = *parts_.loaded;
    Tensor host;  // for the other devices
    for (size_t p = 0; p < loaded.parts.size(); ++p) {
      const SplitPart& part = loaded.split().parts[p];
      const auto& params = part.graph.params();
      if (std::none_of(params.begin(), params.end(), [&](Ref r) { return part.graph.node(r).name == name; })) continue;
      if (part.device == 0) {
        loaded.parts[p].on_device->bind(name, value, after);
        continue;
      }
      if (host.byte_count() == 0) host = read(value, after);
      if (HostExecutable* on_host = loaded.parts[p].on_host) {
        on_host->bind(name, host);
        continue;
      }
      const Device& device = loaded.split().devices[part.device];
      const std::string doing =
          text_of("binding param '", name, "' of '", loaded.program->source.name(), "' on ", device);
      const DeviceTensor put = put_on_device(host, device, nullptr, doing);
      TensorOnDevice& t = *put.on_device();
      std::scoped_lock lock(t.mutex);
      loaded.parts[p].on_device->bind(name, t.argument(), t.ready);
    }
  }
  void prepare() override { parts_.prepare(); }
  size_t memory_bytes() const override { return parts_.memory_bytes(); }

  Event launch(std::span<const DeviceArgument> inputs, std::span<const DeviceArgument> outputs,
               const LaunchOptions& options, std::span<const Event> after) override {
    const LoadedSplit& loaded = *parts_.loaded;
    std::vector<Type> types;
    for (const DeviceArgument& a : inputs) types.push_back({a.dtype, Dims(a.shape.begin(), a.shape.end())});
    auto run = std::make_shared<SplitRun>(parts_.loaded, types, options.threads);
    if (options.cancel) run->cancel = options.cancel;
    run->profile = options.profile, run->observer = options.observer;
    const size_t main = loaded.plan().memory_of[0];
    for (size_t i = 0; i < inputs.size(); ++i) run->give_buffer(loaded.plan().place(i, main), inputs[i].buffer);
    for (size_t o = 0; o < outputs.size(); ++o)
      run->give_buffer(loaded.plan().place(loaded.split().outputs[o], main), outputs[o].buffer);
    run->make_room();
    EventSource source(loaded.split().devices[0].name(), text_of("a run of '", loaded.program->source.name(), "'"));
    source.begin(0);
    run->begin(after, false, [source](std::exception_ptr error) {
      if (error) source.fail(error);
      else source.finish();
    });
    return source.event();
  }

 private:
  Tensor read(const DeviceArgument& value, const Event& after) const {
    auto host = std::make_shared<Tensor>(Tensor::uninitialized(value.dtype, value.shape));
    const auto& memory = parts_.loaded->memories[parts_.loaded->plan().memory_of[0]];
    memory->read({{host->mutable_data(), host->byte_count()}, host}, value.buffer, std::span(&after, 1)).wait();
    return *host;
  }
  SplitParts parts_;
};

}  // namespace

std::unique_ptr<Executable> load_split(std::shared_ptr<const SplitProgramData> program, const LoadOptions& options) {
  const bool has_own_memory = program->plan.memory_of[0] != SplitPlan::kHost;
  auto loaded = loaded_split(std::move(program), options);
  if (has_own_memory) return std::make_unique<SplitDeviceExecutable>(std::move(loaded));
  return std::make_unique<SplitHostExecutable>(std::move(loaded));
}

}  // namespace rlx
