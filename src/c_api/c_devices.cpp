// The part of the C ABI that tells of tensors on devices, of events, of runs in the background, and of the program's
// threads.
#include <set>

#include "c_api/handles.h"
#include "rlx/thread_pool.h"

namespace {

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;

/// A copy of the text that stays as long as the program.
const char* constant_text(const std::string& text) {
  static std::mutex mutex;
  static auto& all = *new std::set<std::string>;
  std::scoped_lock lock(mutex);
  return all.insert(text).first->c_str();
}

void wait(const rlx::Event& event, int64_t nanoseconds, int* done) {
  bool ended = true;
  const auto now = std::chrono::steady_clock::now();
  // A deadline that the clock cannot tell is none.
  const bool has_deadline =
      nanoseconds >= 0 && std::chrono::nanoseconds(nanoseconds) < std::chrono::steady_clock::time_point::max() - now;
  try {
    if (has_deadline) ended = event.wait_until(now + std::chrono::nanoseconds(nanoseconds));
    else event.wait();
  } catch (...) {
    if (done) *done = 1;  // it has ended, and not well
    throw;
  }
  if (done) *done = ended;
}

class ThreadPoolOfC final : public rlx::ThreadPoolInterface {
 public:
  explicit ThreadPoolOfC(const rlx_thread_pool& pool) : pool_(pool) {}
  int threads() const override { return pool_.threads; }
  void parallel_for(int64_t count, void (*task)(void* context, int64_t index), void* context) override {
    pool_.parallel_for(pool_.context, count, task, context);
  }

 private:
  rlx_thread_pool pool_;
};

template <class T>
void check_room(const rlx::CompiledGraph& graph, T** outputs, size_t count) {
  const size_t wanted = graph.signature().outputs.size();
  if (count != wanted) fail(ErrorCode::invalid_argument, "the graph has ", wanted, " outputs, got room for ", count);
  if (count) required(outputs, "outputs");
}
std::vector<rlx::NamedTensor> named_inputs(const rlx::CompiledGraph& graph, std::span<const rlx_tensor* const> given) {
  const auto& entries = graph.signature().inputs;
  if (given.size() != entries.size())
    fail(ErrorCode::invalid_argument, "the graph has ", entries.size(), " inputs, got ", given.size());
  std::vector<rlx::NamedTensor> all;
  for (size_t i = 0; i < given.size(); ++i) all.emplace_back(entries[i].name, required(given[i], "an input").tensor);
  return all;
}

}  // namespace

extern "C" {

// ---- events ----
int rlx_event_is_done(const rlx_event* event) { return event && event->event.is_done(); }
rlx_status rlx_event_wait(const rlx_event* event, int64_t nanoseconds, int* done, rlx_error** error) {
  return guarded(error, [&] { wait(required(event, "event").event, nanoseconds, done); });
}
rlx_status rlx_event_on_done(const rlx_event* event,
                             void (*done)(void* context, rlx_status status, const char* message), void* context,
                             rlx_error** error) {
  return guarded(error, [&] {
    const rlx::Event& of = required(event, "event").event;
    required(done, "done");
    of.on_done([done, context](std::exception_ptr ended_by) {
      rlx_error* cause = nullptr;
      const rlx_status status = guarded(&cause, [&] {
        if (ended_by) std::rethrow_exception(ended_by);
      });
      const std::unique_ptr<rlx_error> kept(cause);
      done(context, status, rlx_error_message(cause));
    });
  });
}
void rlx_event_free(rlx_event* event) { delete event; }

// ---- threads of the program's own ----
rlx_status rlx_set_thread_pool(const rlx_thread_pool* pool, rlx_error** error) {
  return guarded(error, [&] {
    if (!pool) return rlx::set_thread_pool(nullptr);
    const rlx_thread_pool given = options_of(pool);
    required(given.parallel_for, "parallel_for");
    rlx::set_thread_pool(std::make_shared<ThreadPoolOfC>(given));
  });
}

// ---- tensors on devices ----
rlx_status rlx_device_memory(const char* device, rlx_memory* memory, rlx_error** error) {
  return guarded(error, [&] {
    const rlx::Device named = device_from(device);
    const size_t size = options_of(&required(memory, "memory")).struct_size;
    const rlx::Memory about = memory_of(named);
    const rlx_memory all{
        size,           constant_text(about.name), static_cast<int>(about.host_access), about.alignment,
        about.capacity, about.largest_buffer};
    std::memcpy(memory, &all, std::min(size, sizeof all));
  });
}
rlx_status rlx_device_transfers(const char* device, rlx_transfers* transfers, rlx_error** error) {
  return guarded(error, [&] {
    const rlx::Device named = device_from(device);
    const size_t size = options_of(&required(transfers, "transfers")).struct_size;
    const rlx::Transfers t = transfers_of(named);
    const rlx_transfers all{
        size, t.host_waits, t.copies_to_device, t.bytes_to_device, t.copies_to_host, t.bytes_to_host, t.donated_copies};
    std::memcpy(transfers, &all, std::min(size, sizeof all));
  });
}
rlx_status rlx_device_put(const rlx_tensor* tensor, const char* device, rlx_device_tensor** result, rlx_error** error) {
  return guarded(error, [&] {
    auto& made = required(result, "result");
    const rlx::Tensor& given = required(tensor, "tensor").tensor;
    made = new rlx_device_tensor{device_put(given, device_from(device))};
  });
}
const char* rlx_device_tensor_dtype(const rlx_device_tensor* tensor) {
  return tensor ? name_of(tensor->tensor.dtype()).data() : "";
}
size_t rlx_device_tensor_rank(const rlx_device_tensor* tensor) { return tensor ? tensor->tensor.shape().size() : 0; }
const int64_t* rlx_device_tensor_dims(const rlx_device_tensor* tensor) {
  return tensor ? tensor->tensor.shape().data() : nullptr;
}
size_t rlx_device_tensor_size(const rlx_device_tensor* tensor) { return tensor ? tensor->tensor.byte_count() : 0; }
const char* rlx_device_tensor_device(const rlx_device_tensor* tensor) { return tensor ? tensor->device.c_str() : ""; }
const char* rlx_device_tensor_why_gone(rlx_device_tensor* tensor) {
  if (!tensor) return "";
  if (guarded(nullptr, [&] { tensor->why_gone = tensor->tensor.why_gone(); }) != RLX_OK) return "";
  return tensor->why_gone.c_str();
}
rlx_status rlx_device_tensor_ready(const rlx_device_tensor* tensor, rlx_event** event, rlx_error** error) {
  return guarded(error, [&] {
    auto& made = required(event, "event");
    made = new rlx_event{required(tensor, "tensor").tensor.ready()};
  });
}
rlx_status rlx_device_tensor_to_host(const rlx_device_tensor* tensor, rlx_tensor** result, rlx_error** error) {
  return guarded(error, [&] {
    auto& made = required(result, "result");
    made = new rlx_tensor{required(tensor, "tensor").tensor.to_host()};
  });
}
rlx_status rlx_device_tensor_to(const rlx_device_tensor* tensor, const char* device, rlx_device_tensor** result,
                                rlx_error** error) {
  return guarded(error, [&] {
    auto& made = required(result, "result");
    const rlx::DeviceTensor& given = required(tensor, "tensor").tensor;
    made = new rlx_device_tensor{given.to(device_from(device))};
  });
}
rlx_status rlx_device_tensor_write(rlx_device_tensor* tensor, const rlx_tensor* value, rlx_error** error) {
  return guarded(error, [&] { required(tensor, "tensor").tensor.write(required(value, "value").tensor); });
}
void rlx_device_tensor_free(rlx_device_tensor* tensor) { delete tensor; }

// ---- runs in the background ----
int rlx_compiled_input_mode(const rlx_compiled* compiled, size_t index) {
  if (!compiled) return 0;
  const auto& modes = compiled->compiled.signature().modes;
  return index < modes.size() ? static_cast<int>(modes[index]) : 0;
}
rlx_status rlx_compiled_set_param_on_device(rlx_compiled* compiled, const char* name, const rlx_device_tensor* tensor,
                                            rlx_error** error) {
  return guarded(error, [&] {
    required(compiled, "compiled").compiled.set_param(required_text(name, "name"), required(tensor, "tensor").tensor);
  });
}
rlx_status rlx_compiled_submit(const rlx_compiled* compiled, const rlx_device_tensor* const* inputs, size_t input_count,
                               rlx_device_tensor** outputs, size_t output_count, rlx_run** run, rlx_error** error) {
  return guarded(error, [&] {
    const auto& graph = required(compiled, "compiled").compiled;
    check_room(graph, outputs, output_count);
    std::vector<rlx::DeviceTensor> given;
    for (const rlx_device_tensor* input : array_from(inputs, input_count, "inputs"))
      given.push_back(required(input, "an input").tensor);
    hand_out(graph.submit(given), outputs, run);
  });
}
rlx_status rlx_compiled_run_async(const rlx_compiled* compiled, const rlx_tensor* const* inputs, size_t input_count,
                                  rlx_device_tensor** outputs, size_t output_count, rlx_run** run, rlx_error** error) {
  return guarded(error, [&] {
    const auto& graph = required(compiled, "compiled").compiled;
    check_room(graph, outputs, output_count);
    hand_out(graph.run_async(named_inputs(graph, array_from(inputs, input_count, "inputs"))), outputs, run);
  });
}
rlx_status rlx_compiled_commit_no_wait(const rlx_compiled* compiled, const rlx_tensor* const* inputs,
                                       size_t input_count, rlx_error** error) {
  return guarded(error, [&] {
    const auto& graph = required(compiled, "compiled").compiled;
    graph.commit_no_wait(named_inputs(graph, array_from(inputs, input_count, "inputs")));
  });
}
rlx_status rlx_compiled_sync_pending(const rlx_compiled* compiled, rlx_tensor** outputs, size_t output_count,
                                     rlx_error** error) {
  return guarded(error, [&] {
    const auto& graph = required(compiled, "compiled").compiled;
    check_room(graph, outputs, output_count);
    std::vector<rlx::Tensor> results = graph.sync_pending();
    std::vector<std::unique_ptr<rlx_tensor>> made;
    for (rlx::Tensor& t : results) made.push_back(std::make_unique<rlx_tensor>(rlx_tensor{std::move(t)}));
    for (size_t i = 0; i < output_count; ++i) outputs[i] = i < made.size() ? made[i].release() : nullptr;
  });
}
rlx_status rlx_run_wait(const rlx_run* run, int64_t nanoseconds, int* done, rlx_error** error) {
  return guarded(error, [&] { wait(required(run, "run").run.event(), nanoseconds, done); });
}
rlx_status rlx_run_event(const rlx_run* run, rlx_event** event, rlx_error** error) {
  return guarded(error, [&] {
    auto& made = required(event, "event");
    made = new rlx_event{required(run, "run").run.event()};
  });
}
rlx_status rlx_run_cancel(const rlx_run* run, rlx_error** error) {
  return guarded(error, [&] { required(run, "run").run.cancel(); });
}
void rlx_run_free(rlx_run* run) { delete run; }

}  // extern "C"
