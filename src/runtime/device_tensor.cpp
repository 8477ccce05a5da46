// Tensors on devices; see rlx/device_tensor.h.
#include "rlx/device_tensor.h"

#include <cstring>

#include "backends/registry.h"
#include "base/event_source.h"
#include "runtime/tensor_on_device.h"

namespace rlx {

Memory memory_of(const Device& device) { return backend_of(device)->about_memory(); }

Transfers Transfers::operator-(const Transfers& before) const {
  return {host_waits - before.host_waits,           copies_to_device - before.copies_to_device,
          bytes_to_device - before.bytes_to_device, copies_to_host - before.copies_to_host,
          bytes_to_host - before.bytes_to_host,     donated_copies - before.donated_copies,
          split_copies - before.split_copies,       split_bytes - before.split_bytes};
}
Transfers Transfers::operator+(const Transfers& more) const {
  return *this - (Transfers() - more);  // numbers without sign wrap, and back
}
Transfers transfers_of(const Device& device) {
  const auto memory = backend_of(device)->memory();
  if (!memory) return {};
  const TransferCounts& c = memory->counts();
  return {c.host_waits,    c.copies_to_device, c.bytes_to_device, c.copies_to_host,
          c.bytes_to_host, c.donated_copies,   c.split_copies,    c.split_bytes};
}

// ---- what is noted of a run ----

namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

void count_copy_to(const DeviceMemory& memory, size_t bytes, const Event& copy, RunRecord* record) {
  ++memory.counts().copies_to_device;
  memory.counts().bytes_to_device += bytes;
  if (!record) return;
  record->count(&Transfers::copies_to_device);
  record->count(&Transfers::bytes_to_device, bytes);
  record->add_work(copy);
}
void count_copy_from(const DeviceMemory& memory, size_t bytes, const Event& copy, RunRecord* record) {
  ++memory.counts().copies_to_host;
  memory.counts().bytes_to_host += bytes;
  if (!record) return;
  record->count(&Transfers::copies_to_host);
  record->count(&Transfers::bytes_to_host, bytes);
  record->add_work(copy);
}

}  // namespace

void count_wait(const Backend& backend, RunRecord* record) {
  const auto memory = backend.memory();
  if (!memory) return;
  ++memory->counts().host_waits;
  if (record) record->count(&Transfers::host_waits);
}

void RunRecord::count(uint64_t Transfers::*what, uint64_t n) {
  std::scoped_lock lock(mutex_);
  transfers_.*what += n;
}
void RunRecord::moved(const Transfers& what) {
  std::scoped_lock lock(mutex_);
  transfers_ = transfers_ + what;
}
void RunRecord::worked(const Event& event) { add_work(event); }
void RunRecord::add_work(Event event) {
  std::scoped_lock lock(mutex_);
  work_.push_back(std::move(event));
}
void RunRecord::set_run(Event event) {
  std::scoped_lock lock(mutex_);
  run_ = event;
  work_.push_back(std::move(event));
}
double RunRecord::run_start_us() const {
  std::scoped_lock lock(mutex_);
  const auto done = run_.work();
  return done ? Microseconds(done->start - began).count() : 0;
}
Profile RunRecord::profile() const {
  std::scoped_lock lock(mutex_);
  Profile profile;
  profile.began = began, profile.transfers = transfers_;
  for (const Event& event : work_)
    if (const auto done = event.work()) {
      const double start = Microseconds(done->start - began).count(), end = Microseconds(done->end - began).count();
      profile.work.push_back({done->name, done->queue, start, end - start});
      profile.total_us = std::max(profile.total_us, end);
    }
  return profile;
}

// ---- what stands behind it ----

void TensorOnDevice::require_there() const {
  if (!gone.empty()) fail(ErrorCode::invalid_argument, "the tensor of ", dtype, " on ", device, " is gone: ", gone);
}
void TensorOnDevice::add_reader(const Event& event) {
  std::erase_if(readers, [](const Event& e) { return e.is_done(); });
  readers.push_back(event);
}
std::vector<Event> TensorOnDevice::before_writing() const {
  std::vector<Event> events;
  if (!ready.is_done()) events.push_back(after_end(ready));
  for (const Event& reader : readers)
    if (!reader.is_done()) events.push_back(after_end(reader));
  return events;
}

Event in_context(const Event& event, std::string doing) {
  EventSource source(event.device(), doing);
  EventSource::when_done(event, [source, doing = std::move(doing)](std::exception_ptr error) {
    if (!error) return source.finish();
    try {
      with_context(doing, [&] { rethrow_copy(error); });
    } catch (...) {
      source.fail(std::current_exception());
    }
  });
  return source.event();
}
Event after_end(const Event& event) {
  EventSource source(event.device(), "waiting");
  EventSource::when_done(event, [source](std::exception_ptr) { source.finish(); });
  return source.event();
}

Buffer new_buffer(DeviceMemory& memory, const Device& device, size_t bytes) {
  const Memory about = memory.about();
  if (about.largest_buffer && bytes > about.largest_buffer)
    fail(ErrorCode::out_of_memory, "a tensor of ", bytes, " bytes is larger than a buffer of ", device,
         " may be, which is ", about.largest_buffer, " bytes");
  return {memory.allocate(bytes), 0, bytes};
}

std::shared_ptr<TensorOnDevice> new_tensor_on(const Device& device, std::shared_ptr<const Backend> backend, DType dtype,
                                              const Shape& shape) {
  const auto memory = backend->memory();
  auto made = std::make_shared<TensorOnDevice>(device, std::move(backend), dtype, shape);
  if (memory) made->buffer = new_buffer(*memory, device, byte_count(dtype, shape));
  return made;
}

Tensor with_owner(const Tensor& tensor) {
  if (tensor.byte_count() == 0 || tensor.owner().use_count() > 0) return tensor;
  Tensor copy = Tensor::uninitialized(tensor.dtype(), tensor.shape());
  std::memcpy(copy.mutable_data(), tensor.data(), tensor.byte_count());
  return copy;
}

namespace {

HostBytes host_bytes(const Tensor& tensor) {
  auto kept = std::make_shared<const Tensor>(tensor);
  return {kept->bytes(), kept};
}

/// Sets the elements in the host's memory, and ends the event of it.
void put_host(const std::shared_ptr<TensorOnDevice>& state, const Tensor& value, const EventSource& source) {
  try {
    Tensor swapped = value;  // the old elements go without the lock: their owner may be a user's, and ask the tensor
    std::scoped_lock lock(state->mutex);
    std::swap(state->host, swapped);
  } catch (...) {
    return source.fail(std::current_exception());
  }
  source.finish();
}

}  // namespace

// ---- the tensor ----

const std::shared_ptr<TensorOnDevice>& DeviceTensor::on_device() const {
  if (!state_) fail(ErrorCode::invalid_argument, "a DeviceTensor that was made without a tensor holds none");
  return state_;
}
DType DeviceTensor::dtype() const { return on_device()->dtype; }
const Shape& DeviceTensor::shape() const { return on_device()->shape; }
size_t DeviceTensor::byte_count() const { return rlx::byte_count(dtype(), shape()); }
Device DeviceTensor::device() const { return on_device()->device; }

Event DeviceTensor::ready() const {
  TensorOnDevice& t = *on_device();
  std::scoped_lock lock(t.mutex);
  return t.ready;
}
std::string DeviceTensor::why_gone() const {
  TensorOnDevice& t = *on_device();
  std::scoped_lock lock(t.mutex);
  return t.gone;
}

Event begin_copy_to_host(const std::shared_ptr<TensorOnDevice>& from, const std::shared_ptr<Tensor>& to,
                         RunRecord* record) {
  TensorOnDevice& t = *from;
  std::unique_lock lock(t.mutex);
  t.require_there();
  if (const auto memory = t.backend->memory()) {
    *to = Tensor::uninitialized(t.dtype, t.shape);
    Event copied = memory->read({{to->mutable_data(), to->byte_count()}, to}, t.buffer, std::span(&t.ready, 1));
    t.add_reader(copied);
    count_copy_from(*memory, to->byte_count(), copied, record);
    return copied;
  }
  EventSource source(t.device.name(), text_of("a copy of a tensor of ", t.dtype));
  t.add_reader(source.event());
  const Event ready = t.ready;
  lock.unlock();  // the elements may be there already, and are then taken here
  EventSource::when_done(ready, [source, from, to](std::exception_ptr error) {
    if (error) return source.fail(error);
    try {
      std::scoped_lock again(from->mutex);
      *to = from->host;
    } catch (...) {
      return source.fail(std::current_exception());
    }
    source.finish();
  });
  return source.event();
}

std::vector<std::shared_ptr<Tensor>> read_all(std::span<const DeviceTensor> tensors, RunRecord* record,
                                              const std::function<std::string(size_t)>& doing) {
  std::vector<std::shared_ptr<Tensor>> results;
  std::vector<Event> copies;
  std::exception_ptr error;
  try {
    for (size_t i = 0; i < tensors.size(); ++i) {
      results.push_back(std::make_shared<Tensor>());
      copies.push_back(with_context([&] { return doing(i); },
                                    [&] { return begin_copy_to_host(tensors[i].on_device(), results[i], record); }));
    }
  } catch (...) {
    error = std::current_exception();
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    count_wait(*tensors[i].on_device()->backend, record);
    try {
      with_context([&] { return doing(i); }, [&] { copies[i].wait(); });
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
  return results;
}

Tensor DeviceTensor::to_host() const {
  const auto doing = [this](size_t) { return text_of("reading a tensor of ", type(), " on ", device()); };
  return std::move(*read_all(std::span(this, 1), nullptr, doing)[0]);
}

DeviceTensor DeviceTensor::to(const Device& target) const {
  return target == device() ? *this : device_put(to_host(), target);
}

void DeviceTensor::write(const Tensor& value) {
  TensorOnDevice& t = *on_device();
  if (value.dtype() != t.dtype || value.shape() != t.shape)
    fail(ErrorCode::shape_mismatch, "a tensor of ", type(), " on ", t.device, " was written with ", value.type());
  const Tensor kept = with_owner(value);
  std::unique_lock lock(t.mutex);
  const std::vector<Event> before = t.before_writing();
  if (const auto memory = t.backend->memory()) {
    // What a compiled graph reads, or a run was given, is left alone.
    const bool is_own = t.gone.empty() && !t.is_param;
    Buffer to = is_own ? t.buffer : new_buffer(*memory, t.device, byte_count());
    t.ready = memory->write(to, host_bytes(kept), is_own ? std::span<const Event>(before) : std::span<const Event>());
    count_copy_to(*memory, byte_count(), t.ready, nullptr);
    t.buffer = std::move(to);
    t.is_param = false;
    t.readers.clear();
    t.gone.clear();
    return;
  }
  // Readers take the tensor that they find, so a new one waits for them.
  EventSource source(t.device.name(), text_of("writing a tensor of ", t.dtype));
  t.ready = source.event();
  t.readers.clear();
  t.gone.clear();
  lock.unlock();  // the readers may have ended by now, and then it is written here
  EventSource::when_all_done(before,
                             [source, state = state_, kept](std::exception_ptr) { put_host(state, kept, source); });
}

DeviceTensor device_put(const Tensor& tensor, const Device& device) {
  return put_on_device(tensor, device, nullptr, text_of("putting a tensor of ", tensor.type(), " on ", device));
}

DeviceTensor put_on_device(const Tensor& tensor, const Device& device, RunRecord* record, const std::string& doing) {
  return with_context(doing, [&] {
    auto backend = backend_of(device);
    if (auto why = backend->unavailable(); !why.empty())
      fail(ErrorCode::not_found, "device '", device, "' is not available: ", why);
    const auto memory = backend->memory();
    auto made = new_tensor_on(device, std::move(backend), tensor.dtype(), tensor.shape());
    const Tensor kept = with_owner(tensor);
    if (memory) {
      const Event copy = memory->write(made->buffer, host_bytes(kept), {});
      count_copy_to(*memory, kept.byte_count(), copy, record);
      made->ready = in_context(copy, doing);
    } else {
      made->host = kept;
    }
    return DeviceTensor(std::move(made));
  });
}

}  // namespace rlx
