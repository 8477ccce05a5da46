// See the header.
#include "backends/mlx/memory.h"

#include <algorithm>
#include <cstring>

#include "base/event_source.h"

namespace rlx::mlx_backend {
namespace {

constexpr const char* kName = "mlx";  // of whatever mode

/// The elements of an evaluated, dense array as an array of its own, which knows of no graph: it shares the memory.
mx::array shared(const mx::array& from, mx::Shape shape, mx::Dtype dtype) {
  mx::array made(std::move(shape), dtype, nullptr, {});
  mx::Strides strides(made.ndim());
  int64_t stride = 1;
  bool is_column = true;  // at most one extent is not 1
  for (size_t d = made.ndim(); d-- > 0;) {
    strides[d] = stride, stride *= made.shape(static_cast<int>(d));
    is_column &=
        made.shape(static_cast<int>(d)) == 1 || static_cast<size_t>(made.shape(static_cast<int>(d))) == made.size();
  }
  made.copy_shared_buffer(from, strides, {true, true, is_column || made.size() <= 1}, made.size());
  made.set_status(mx::array::Status::available);
  return made;
}

class MlxMemory final : public DeviceMemory {
 public:
  Memory about() const override { return {"device", HostAccess::none}; }
  // MLX allocates when the elements come.
  std::shared_ptr<Block> allocate(size_t bytes) override { return std::make_shared<ArrayBlock>(bytes); }
  Event write(Buffer to, HostBytes from, std::span<const Event> after) override {
    if (to.offset != 0 || to.bytes != block_of(to).bytes())
      fail(ErrorCode::internal, "a part of a block of MLX's is written");
    std::string name = text_of("a copy of ", from.bytes.size(), " bytes to the device");
    return at_once_or_later(
        std::move(name), [to = std::move(to), from = std::move(from)] { block_of(to).put_bytes(from.bytes); }, after);
  }
  Event read(WritableHostBytes to, Buffer from, std::span<const Event> after) override {
    std::string name = text_of("a copy of ", to.bytes.size(), " bytes from the device");
    return at_once_or_later(
        std::move(name),
        [to = std::move(to), from = std::move(from)] { block_of(from).copy_to(to.bytes, from.offset); }, after);
  }
  Event copy(Buffer to, Buffer from, std::span<const Event> after) override {
    if (to.bytes != block_of(to).bytes() || from.bytes != block_of(from).bytes() || to.bytes != from.bytes)
      fail(ErrorCode::internal, "a part of a block of MLX's is copied");
    std::string name = text_of("a copy of ", from.bytes, " bytes on the device");
    return at_once_or_later(
        std::move(name), [to = std::move(to), from = std::move(from)] { block_of(to).put_same(block_of(from)); },
        after);
  }
};

}  // namespace

mx::array ArrayBlock::there() const {
  std::scoped_lock lock(mutex_);
  if (!value_)
    fail(ErrorCode::internal, "a block of ", bytes_, " bytes of MLX's is read, and nothing was written there");
  return *value_;
}
void ArrayBlock::set(mx::array value) {
  std::optional<mx::array> swapped = std::move(value);  // the old one goes without the lock
  std::scoped_lock lock(mutex_);
  value_.swap(swapped);
}
mx::array ArrayBlock::get(DType dtype, const Shape& shape) const {
  return shared(there(), carried_shape(dtype, shape), carried_dtype(dtype));
}
mx::array ArrayBlock::take(DType dtype, const Shape& shape) {
  mx::array taken = get(dtype, shape);
  std::scoped_lock lock(mutex_);
  value_.reset();
  return taken;
}
void ArrayBlock::put(const mx::array& value) {
  if (value.nbytes() != bytes_)
    fail(ErrorCode::internal, "a block of ", bytes_, " bytes of MLX's is given ", value.nbytes());
  set(shared(value, value.shape(), value.dtype()));
}
void ArrayBlock::put_bytes(std::span<const std::byte> from) {
  if (from.size() != bytes_) fail(ErrorCode::internal, "a block of ", bytes_, " bytes of MLX's is given ", from.size());
  mx::array made(mx::allocator::malloc(from.size()), {}, mx::uint8);  // there may be more bytes than an extent counts
  if (!from.empty()) std::memcpy(made.data<char>(), from.data(), from.size());
  set(std::move(made));
}
void ArrayBlock::put_same(const ArrayBlock& other) { set(other.there()); }
void ArrayBlock::copy_to(std::span<std::byte> to, size_t offset) const {
  if (!to.empty()) std::memcpy(to.data(), there().data<char>() + offset, to.size());
}

ArrayBlock& block_of(const Buffer& buffer) {
  auto* block = dynamic_cast<ArrayBlock*>(buffer.block.get());
  if (!block) fail(ErrorCode::internal, "a buffer of another device, or of none, was handed to MLX");
  return *block;
}

const std::shared_ptr<DeviceMemory>& mlx_memory() {
  static const auto& memory = *new std::shared_ptr<DeviceMemory>(std::make_shared<MlxMemory>());
  return memory;
}

Background& background_of_device() {
  static auto& background = *new Background;
  return background;
}

Event at_once_or_later(std::string name, std::function<void()> work, std::span<const Event> after) {
  const auto is_over = [](const Event& e) { return e.is_done() && !e.error(); };
  if (!std::all_of(after.begin(), after.end(), is_over))
    return background_of_device()(std::move(name), std::move(work), after, {});
  const EventSource source(kName, name);
  source.begin(0);
  try {
    with_context([&] { return text_of("doing ", name, " on ", kName); }, work);
    work = nullptr;
    source.finish();
  } catch (...) {
    work = nullptr;
    source.fail(std::current_exception());
  }
  return source.event();
}

}  // namespace rlx::mlx_backend
