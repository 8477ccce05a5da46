// Tensors on devices; see rlx/device_tensor.h.
#include "rlx/device_tensor.h"

#include <cstring>

#include "backends/registry.h"
#include "base/event_source.h"
#include "runtime/tensor_on_device.h"

namespace rlx {

Memory memory_of(const Device& device) { return backend_of(device)->about_memory(); }

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

Event begin_copy_to_host(const std::shared_ptr<TensorOnDevice>& from, const std::shared_ptr<Tensor>& to) {
  TensorOnDevice& t = *from;
  std::unique_lock lock(t.mutex);
  t.require_there();
  if (const auto memory = t.backend->memory()) {
    *to = Tensor::uninitialized(t.dtype, t.shape);
    Event copied = memory->read({{to->mutable_data(), to->byte_count()}, to}, t.buffer, std::span(&t.ready, 1));
    t.add_reader(copied);
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

Tensor DeviceTensor::to_host() const {
  auto tensor = std::make_shared<Tensor>();
  begin_copy_to_host(on_device(), tensor).wait();
  return std::move(*tensor);
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
  auto backend = backend_of(device);
  if (auto why = backend->unavailable(); !why.empty())
    fail(ErrorCode::not_found, "device '", device, "' is not available: ", why);
  const auto memory = backend->memory();
  auto made = new_tensor_on(device, std::move(backend), tensor.dtype(), tensor.shape());
  const Tensor kept = with_owner(tensor);
  if (memory) made->ready = memory->write(made->buffer, host_bytes(kept), {});
  else made->host = kept;
  return DeviceTensor(std::move(made));
}

}  // namespace rlx
