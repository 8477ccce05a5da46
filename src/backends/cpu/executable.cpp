// Running on the CPU; see the header. A graph with symbols is specialized once per set of input shapes, mostly by
// moving the plan of an earlier set (plan/movable_plan.h); the latest shapes are kept. Each run borrows a RunState from
// the idle ones, so that runs on several threads do not meet. The file is longer than others because plans, run states
// and the params that plans read are guarded by one mutex, in one class.
#include "backends/cpu/executable.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "backends/cpu/kept_weights.h"
#include "backends/cpu/lowerings.h"
#include "backends/cpu/schedule.h"
#include "backends/inputs.h"
#include "base/lru_list.h"
#include "io/atomic_file.h"
#include "ir/leaves.h"
#include "passes/hoist_params.h"
#include "rlx/io.h"
#include "rlx/ops/dynamic_quantize.h"

namespace rlx::cpu {
namespace {

constexpr size_t kMaxShapes = 32;      // plans kept per executable
constexpr size_t kMaxSchedules = 4;    // of other forms: for extents of 0, of 1, and for kernels that extents choose
constexpr size_t kMaxIdleStates = 16;  // run states kept per arena

/// The folder into which plans are to be written, or null.
const char* dump_folder() {
  const char* folder = std::getenv("RLX_DUMP");
  return folder && *folder ? folder : nullptr;
}

/// Plans; and writes the plan into the folder that RLX_DUMP names, if there is one.
Executor planned(const ScheduleRequest& request) {
  const char* folder = dump_folder();
  Schedule made = schedule(request, folder != nullptr);
  if (folder) {
    static std::atomic<int> count = 0;
    std::error_code ignored;  // the file says it too
    std::filesystem::create_directories(folder, ignored);
    AtomicFile file((std::filesystem::path(folder) / text_of("plan_", count++, ".txt")).string());
    file.write(text(made.plan));
    file.commit(AtomicFile::Flush::no);
  }
  return std::move(made.executor);
}

/// A donated input and the output of its name: one buffer, before the run and after it.
struct Pair {
  size_t input, output;
  bool in_place;  // the plan writes the one over the other
};

/// Memory of runs that have ended, for the next ones: of one shape, or of all whose plans were moved within one arena.
/// It is read and changed with the lock of the executable.
class IdleStates {
 public:
  IdleStates() { idle_.reserve(kMaxIdleStates); }
  std::unique_ptr<RunState> take() {
    if (idle_.empty()) return nullptr;
    auto state = std::move(idle_.back());
    idle_.pop_back();
    return state;
  }
  /// Keeps the state, unless there are many: then the caller still has it.
  void give_back(std::unique_ptr<RunState>& state) {
    if (idle_.size() < kMaxIdleStates) idle_.push_back(std::move(state));
  }

 private:
  std::vector<std::unique_ptr<RunState>> idle_;
};

struct Instance {
  std::vector<Shape> shapes;  // of the inputs
  std::vector<Pair> pairs;
  Executor executor;
  std::vector<std::pair<DType, Shape>> outputs;  // no Types: making one of a tensor allocates
  std::shared_ptr<PackedCache> packed;           // whose weights launches prefetch
  std::shared_ptr<IdleStates> states;
  uint64_t number;  // not that of another instance with the same states

  /// Makes an idle state ready for a run of this instance, or a new one from null.
  std::unique_ptr<RunState> prepared(std::unique_ptr<RunState> state) {
    if (!state) {
      state = executor.new_state();
      state->owner = number;
    }
    if (state->owner != number) {
      executor.resolve(state->pointers.data(), state->arena);
      state->owner = number;
    }
    return state;
  }
};

/// A schedule that moves, and the memory for its runs.
struct Movable {
  MovableSchedule schedule;
  std::shared_ptr<IdleStates> states = std::make_shared<IdleStates>();
  size_t arena_count = schedule.arena_count();  // when the states were begun: those of another arena have another size
};

class CpuExecutable final : public HostExecutable {
 public:
  CpuExecutable(const Graph& legal, LoadOptions options, const kernels::InstructionSetLimit* limit)
      : signature_(signature_params(legal)), options_(std::move(options)), limit_(limit) {
    options_.threads = std::max(1, options_.threads);
    Hoisted hoisted = hoist_params(legal);
    graph_ = std::move(hoisted.main);
    prologue_ = std::move(hoisted.prologue);
    hoisted_ = std::move(hoisted.names);
    options_.donated.resize(graph_.inputs().size());
    for (bool symbolic : {true, false})
      for (size_t i = 0; i < graph_.inputs().size(); ++i)
        if (symbolic != is_static(graph_.type(graph_.inputs()[i]).dims)) by_symbols_.push_back(i);
    for (const auto input : graph_.inputs()) input_dtypes_.push_back(graph_.node(input).types[0].dtype);
    for (size_t i = 0; i < graph_.inputs().size(); ++i)
      for (size_t o = 0; o < graph_.outputs().size() && options_.donated[i]; ++o)
        if (graph_.outputs()[o].name == graph_.node(graph_.inputs()[i]).name) {
          pairs_.push_back({i, o, false});
          options_.donated[i] = false;  // else anything might take it
        }
    compiled_with_ = registered_kernels_in(legal);
  }

  void bind(const std::string& name, Tensor value) override {
    auto known = signature_.find(name);
    if (known == signature_.end()) fail(ErrorCode::not_found, "graph '", graph_.name(), "' has no param '", name, "'");
    if (value.type() != known->second)
      fail(ErrorCode::shape_mismatch, "param '", name, "' is ", known->second, ", got ", value.type());
    std::scoped_lock lock(mutex_);
    params_[name] = aligned(std::move(value));
    for (const std::string& made : hoisted_) params_.erase(made);
    kept_ = {};
    instances_.clear();  // their steps point into the old value
    movable_.clear();
    packed_.reset();
  }

  void run(Tensors inputs, std::span<Tensor> outputs, const RunOptions& options) override {
    const kernels::InstructionSetScope scope(limit_);
    RunNotes notes;
    RunNotes& noted = options.notes ? *options.notes : notes;
    noted = {.has_begun = false};
    std::shared_ptr<Instance> instance;
    std::unique_ptr<RunState> state;
    {
      std::scoped_lock lock(mutex_);
      instance = instance_for(inputs);
      state = instance->states->take();
    }
    for (size_t o = 0; o < options.memory.size(); ++o)
      if (const auto& [dtype, shape] = instance->outputs[o]; options.memory[o].size() != byte_count(dtype, shape))
        fail(ErrorCode::shape_mismatch, "output ", o, " of '", graph_.name(), "' is ",
             Type{dtype, Dims(shape.begin(), shape.end())}, ", ", byte_count(dtype, shape),
             " bytes; there is room for ", options.memory[o].size());
    state = instance->prepared(std::move(state));
    state->inputs.clear(), state->outputs.clear(), state->copies.clear();
    if (!outputs.empty()) settle_pairs(*instance, inputs, outputs, state->copies, noted);
    for (size_t o = 0; o < outputs.size(); ++o)
      if (const auto& [dtype, shape] = instance->outputs[o];
          outputs[o].dtype() != dtype || outputs[o].shape() != shape || !outputs[o].is_unshared())
        outputs[o] = Tensor::uninitialized(dtype, shape);
    for (size_t i = 0; i < inputs.size(); ++i) {
      bool writes = i < options_.donated.size() && options_.donated[i];
      if (writes || !is_aligned(inputs[i])) {  // a donated input is overwritten: never the caller's own memory
        state->copies.push_back(inputs[i]);
        state->inputs.push_back(state->copies.back().mutable_data());
      } else {
        state->inputs.push_back(const_cast<std::byte*>(inputs[i].data()));
      }
    }
    for (Tensor& t : outputs) state->outputs.push_back(t.mutable_data());
    for (std::span<std::byte> to : options.memory) state->outputs.push_back(to.data());
    noted.has_begun = true;
    for (const Pair& pair : instance->pairs) {
      void*& from = state->inputs[pair.input];
      void* to = state->outputs[pair.output];
      const Tensor& input = inputs[pair.input];
      if (pair.in_place ? from == to : from != to || input.byte_count() == 0) continue;
      ++noted.updates_elsewhere;
      if (pair.in_place) {
        if (input.byte_count()) std::memcpy(to, from, input.byte_count());
        from = to;
      } else {  // the old value is still read when the new one is written to the same memory
        state->copies.push_back(Tensor::borrow(input.dtype(), input.shape(), input.bytes()));
        from = state->copies.back().mutable_data();
      }
    }
    RunControl control{options.cancel};
    instance->executor.run(state->pointers.data(), state->arena, state->inputs, state->outputs,
                           std::clamp(options.threads, 1, options_.threads), control, options.profile);
    {
      std::scoped_lock lock(mutex_);
      instance->states->give_back(state);
    }
    if (control.error) std::rethrow_exception(control.error);
    if (is_cancelled(options.cancel)) fail(ErrorCode::cancelled, "the run of '", graph_.name(), "' was cancelled");
  }

  void prepare() override {
    const kernels::InstructionSetScope scope(limit_);
    std::vector<Tensor> inputs;
    for (const Type& type : graph_.input_types()) {
      if (!is_static(type.dims)) return;  // its shapes come with the first run
      inputs.push_back(Tensor::uninitialized(type.dtype, shape_of(type.dims)));
    }
    // Without params this is the end of compiling, during which kernels may come and go: those of now count.
    if (signature_.empty()) compiled_with_ = registered_kernels_in(graph_);
    std::scoped_lock lock(mutex_);
    instance_for(inputs);
  }

  size_t memory_bytes() const override {
    std::scoped_lock lock(mutex_);
    size_t total = packed_ ? packed_->bytes() : 0;
    std::map<const IdleStates*, size_t> arenas;  // some share one
    for (const auto& instance : instances_) arenas[instance->states.get()] = instance->executor.arena_bytes();
    for (const auto& movable : movable_) arenas[movable->states.get()] = movable->schedule.executor().arena_bytes();
    for (const auto& [states, bytes] : arenas) total += bytes;
    return total;
  }

 private:
  static bool is_aligned(const Tensor& t) {
    size_t wanted = is_byte_sized(t.dtype()) ? std::min<size_t>(byte_size(t.dtype()), 8) : 1;
    return reinterpret_cast<uintptr_t>(t.place().data()) % wanted == 0;
  }
  static Tensor aligned(Tensor t) {
    if (!is_aligned(t)) t.mutable_data();  // a copy of its own
    return t;
  }

  /// An output that was given the memory of its input keeps it if the plan updates it there, and gets memory of its
  /// own otherwise; then the input's memory stays alive in `kept_alive`.
  static void settle_pairs(const Instance& instance, Tensors inputs, std::span<Tensor> outputs,
                           std::vector<Tensor>& kept_alive, RunNotes& notes) {
    for (const Pair& pair : instance.pairs) {
      Tensor& out = outputs[pair.output];
      if (out.byte_count() == 0 || out.data() != inputs[pair.input].data()) continue;
      if (pair.in_place && out.is_unshared()) continue;
      if (!pair.in_place) ++notes.updates_elsewhere;  // else it is copied
      kept_alive.push_back(std::move(out));
      out = Tensor();
    }
  }

  /// With the lock.
  std::shared_ptr<Instance> instance_for(Tensors inputs) {
    const auto* known = instances_.find([&](const std::shared_ptr<Instance>& instance) {
      return inputs.size() == by_symbols_.size() && std::all_of(by_symbols_.begin(), by_symbols_.end(), [&](size_t i) {
               return instance->shapes[i] == inputs[i].shape() && input_dtypes_[i] == inputs[i].dtype();
             });
    });
    if (known) return *known;
    require_inputs(graph_, inputs);  // inputs of a known instance have what this asks for
    return instances_.add(make_instance(inputs));
  }

  std::shared_ptr<Instance> make_instance(Tensors inputs) {
    if (!packed_) {
      for (const auto& [name, type] : signature_)
        if (!params_.contains(name))
          fail(ErrorCode::invalid_argument, "param '", name, "' (", type, ") of '", graph_.name(),
               "' is not bound; bind it with set_param before the first run");
    }
    require_registered(compiled_with_);
    if (!packed_) start_packing();
    const Bindings bindings = solve_symbols(graph_, inputs);
    const size_t packed_before = kept_.is_used() ? packed_->bytes() : 0;
    std::shared_ptr<Instance> instance = bindings.empty() ? nullptr : moved_instance(inputs, bindings);
    if (instance) {
      if (kept_.is_used() && packed_->bytes() != packed_before) keep_packed();  // a kernel of these extents packed
      return instance;
    }
    auto numbered = std::make_unique<Graph>(bindings.empty() ? graph_ : substitute(graph_, bindings));
    const Graph& fixed = *numbered;
    ScheduleRequest request{fixed,
                            options_.threads,
                            policy(),
                            *packed_,
                            [this](const std::string& name) { return &params_.at(name); },
                            options_.donated,
                            {},
                            {},
                            options_.bounds};
    std::vector<Update> wanted;
    for (const Pair& pair : pairs_)
      if (fixed.type(fixed.inputs()[pair.input]) == fixed.type(fixed.outputs()[pair.output].ref))
        wanted.push_back({pair.input, pair.output});
    if (!wanted.empty()) request.updates = possible_updates(fixed, storage_rules(fixed), options_.donated, wanted);
    if (bindings.empty() || dump_folder()) {
      const std::vector<Update> updates = request.updates;
      instance = new_instance(inputs, fixed, updates, planned(request), std::make_shared<IdleStates>());
    } else {
      auto movable = std::shared_ptr<Movable>(
          new Movable{MovableSchedule(graph_, std::move(numbered), bindings, std::move(request))});
      instance = new_instance(inputs, movable->schedule.numbered(), movable->schedule.updates(),
                              movable->schedule.executor(), movable->states);
      if (movable->schedule.can_move()) movable_.add(std::move(movable));
    }
    if (kept_.is_used()) keep_packed();
    else forget_packed_values();
    return instance;
  }

  /// Quantized weights that are hoisted, and only read packed, take memory once. (Those that are kept for later
  /// processes are read again to be written.)
  void forget_packed_values() {
    for (const std::string& name : hoisted_) {
      Tensor& value = params_.at(name);
      if (value.dtype() != i8 || !is_read_packed(name)) continue;
      if (auto packed = packed_->packed_in_place_of(value)) value = std::move(*packed);
    }
  }
  /// Whether nothing but products and convolutions in integers, all in one layout, reads the param. The layout of a
  /// convolution's kernels depends on the extents of its images, but for their number.
  bool is_read_packed(const std::string& name) const {
    std::set<std::string> layouts;
    for (const Output& o : graph_.outputs())
      if (graph_.node(o.ref).name == name && graph_.node(o.ref).op == &op::param) return false;
    for (const Node& node : graph_.nodes())
      for (size_t i = 0; i < node.operands.size(); ++i) {
        const Node& leaf = graph_.node(node.operands[i]);
        if (leaf.op != &op::param || leaf.name != name) continue;
        if (i != 1) return false;
        if (node.op == &op::dynamic_quantize_matmul)
          layouts.insert(node.attrs.as<DynamicQuantizeMatmulAttrs>().transpose_rhs ? "rows" : "columns");
        else if (node.op == &op::dynamic_quantize_conv)
          layouts.insert(text_of(node.attrs.as<DynamicQuantizeConvAttrs>().groups, " groups, images ", of_one(node)));
        else return false;
        if (node.op == &op::dynamic_quantize_conv && !is_static(of_one(node).dims)) return false;
      }
    return layouts.size() == 1;
  }

  /// The type of one of a convolution's images.
  Type of_one(const Node& convolution) const {
    Type type = graph_.type(convolution.operands[0]);
    if (!type.dims.empty()) type.dims[0] = 1;
    return type;
  }

  void keep_packed() {
    std::map<std::string, Tensor> values;
    for (const std::string& name : hoisted_) values.emplace(name, params_.at(name));
    kept_.keep(packed_->made(), values);
  }

  std::shared_ptr<Instance> new_instance(Tensors inputs, const Graph& numbered, std::span<const Update> updates,
                                         Executor executor, std::shared_ptr<IdleStates> states) {
    std::vector<Shape> shapes;
    for (const Tensor& t : inputs) shapes.push_back(t.shape());
    std::vector<Pair> pairs = pairs_;
    for (Pair& pair : pairs)
      pair.in_place = std::any_of(updates.begin(), updates.end(), [&](Update u) { return u.input == pair.input; });
    std::vector<std::pair<DType, Shape>> outputs;
    for (const Output& o : numbered.outputs()) {
      const Type& type = numbered.type(o.ref);
      outputs.emplace_back(type.dtype, shape_of(type.dims));
    }
    return std::shared_ptr<Instance>(new Instance{std::move(shapes), std::move(pairs), std::move(executor),
                                                  std::move(outputs), packed_, std::move(states), ++made_instances_});
  }

  /// By a schedule that exists, if one takes these extents. One that fails on the way is dropped, and the caller plans
  /// anew: if the extents are at fault, that fails too, with the context that belongs to it.
  std::shared_ptr<Instance> moved_instance(Tensors inputs, const Bindings& bindings) {
    const Movable* asked = nullptr;
    const std::shared_ptr<Movable>* found = nullptr;
    try {
      found = movable_.find([&](const std::shared_ptr<Movable>& each) {
        asked = each.get();
        return each->schedule.move(bindings);
      });
    } catch (...) {
      movable_.remove_if([&](const std::shared_ptr<Movable>& each) { return each.get() == asked; });
      return nullptr;
    }
    if (!found) return nullptr;
    Movable& movable = **found;
    if (const size_t count = movable.schedule.arena_count(); count != movable.arena_count)
      movable.states = std::make_shared<IdleStates>(), movable.arena_count = count;
    return new_instance(inputs, movable.schedule.numbered(), movable.schedule.updates(), movable.schedule.executor(),
                        movable.states);
  }

  kernels::ProductPolicy policy() const { return {options_.row_relative, options_.batch_invariant, options_.int8}; }

  /// When params were bound: takes what an earlier process kept of them, and computes what depends on them alone.
  void start_packing() {
    std::map<std::string, Tensor> bound;
    if (!options_.keep_in.empty())
      for (const auto& [name, type] : signature_) bound.emplace(name, params_.at(name));
    kept_ = KeptWeights(options_.keep_in, prologue_, bound, options_.threads);
    bool is_complete = true;
    for (size_t i = 0; i < hoisted_.size() && is_complete; ++i) {
      auto value = kept_.value(hoisted_[i], prologue_.type(prologue_.outputs()[i].ref));
      is_complete = value.has_value();
      if (value) params_[hoisted_[i]] = std::move(*value);
    }
    if (!is_complete) hoist();
    std::map<const void*, std::string> names;
    if (kept_.is_used())
      for (const auto& [name, value] : params_)
        if (value.byte_count() > 0) names.emplace(value.place().data(), name);
    packed_ = std::make_shared<PackedCache>(kept_.file(), std::move(names));
  }

  /// Computes what depends on params alone.
  void hoist() {
    PackedCache once;
    const Executor executor = planned(
        {prologue_, options_.threads, policy(), once, [this](const std::string& name) { return &params_.at(name); }});
    std::vector<Tensor> values;
    std::vector<void*> pointers;
    for (const Type& t : prologue_.output_types()) {
      values.push_back(Tensor::uninitialized(t.dtype, shape_of(t.dims)));
      pointers.push_back(values.back().mutable_data());
    }
    auto state = executor.new_state();
    RunControl control;
    executor.run(state->pointers.data(), state->arena, {}, pointers, options_.threads, control);
    if (control.error) std::rethrow_exception(control.error);
    for (size_t i = 0; i < values.size(); ++i) params_[hoisted_[i]] = std::move(values[i]);
    // What was read here is read once: pages of a mapped file can go, and come back if somebody does read them again.
    for (Ref r : prologue_.params()) release_pages(params_.at(prologue_.node(r).name));
  }

  static std::map<std::string, Type> signature_params(const Graph& g) {
    std::map<std::string, Type> all;
    for (Ref r : g.params()) all[g.node(r).name] = g.type(r);
    return all;
  }

  std::map<std::string, Type> signature_;  // the params that are bound from outside
  Graph graph_, prologue_;
  std::vector<std::string> hoisted_;
  LoadOptions options_;
  const kernels::InstructionSetLimit* limit_;
  std::vector<DType> input_dtypes_;
  std::vector<size_t> by_symbols_;  // the inputs, those with symbols first: there the shapes of two runs differ
  std::vector<Pair> pairs_;
  std::vector<KernelInUse> compiled_with_;
  mutable std::mutex mutex_;
  std::map<std::string, Tensor> params_;
  KeptWeights kept_;
  std::shared_ptr<PackedCache> packed_;  // null until all params are bound and a run needs them
  LruList<std::shared_ptr<Instance>> instances_{kMaxShapes};
  LruList<std::shared_ptr<Movable>> movable_{kMaxSchedules};
  uint64_t made_instances_ = 0;
};

}  // namespace

std::unique_ptr<Executable> make_executable(Graph legal, const LoadOptions& options,
                                            const kernels::InstructionSetLimit* limit) {
  const kernels::InstructionSetScope scope(limit);
  return std::make_unique<CpuExecutable>(legal, options, limit);
}

}  // namespace rlx::cpu
