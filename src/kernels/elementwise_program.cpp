// Builds and runs element-wise programs: register assignment when a program is finished, then one pass over tiles.
// The loops themselves are in elementwise_f32.cpp, _float, _integer, _complex and _convert.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/rounded_up.h"
#include "kernels/elementwise.h"
#include "kernels/elementwise_kernels.h"
#include "kernels/memory_traffic.h"
#include "rlx/error.h"

namespace rlx::kernels {
namespace elementwise {

/// One thing to do for a tile. Registers are numbered; a register's pointer is its place in scratch, or memory of
/// an operand or result that can stand in for it.
struct Step {
  enum class What : uint8_t { load, constant, op, store } what = What::op;
  bool is_costly = false;
  bool forwards = false;       ///< op: the result goes straight to the memory of result `buffer`, if it lies dense
  uint8_t bytes = 0;           ///< load, store: of an element in memory
  uint8_t register_bytes = 0;  ///< of an element of dst (store: of a)
  uint8_t a_bytes = 0, b_bytes = 0, c_bytes = 0;  ///< op: of an element of a, b, c
  uint16_t dst = 0, a = 0, b = 0, c = 0;
  int buffer = -1;
  size_t stream_at = 0;  ///< op that forwards: two tiles in scratch, of which one is written past the caches
  Kernel kernel = nullptr, then = nullptr;
  BusyKernel busy = nullptr;          ///< op: the kernel that does memory's work too
  std::array<std::byte, 16> value{};  ///< constant: as it stands in the register
};

}  // namespace elementwise

namespace {
using namespace elementwise;
using What = Step::What;

const char* name_of(ElementwiseOp op) {
  static constexpr const char* names[] = {
#define RLX_OP(name) #name,
      RLX_ELEMENTWISE_OPS(RLX_OP)
#undef RLX_OP
  };
  return names[static_cast<size_t>(op)];
}

bool compares(ElementwiseOp op) { return op >= ElementwiseOp::eq && op <= ElementwiseOp::total_ge; }

/// The kernel of an op on operands of dtype `in`; null if there is none.
Kernel find_kernel(ElementwiseOp op, DType in, DType out) {
  switch (op) {
    case ElementwiseOp::convert: return find_convert(in, out);
    case ElementwiseOp::select: return find_select(domain_bytes(domain_of(out)));
    case ElementwiseOp::complex: return is_complex(out) && is_float(in) ? find_complex(op, out) : nullptr;
    default: break;
  }
  switch (domain_of(in)) {
    case Domain::f32:
      if (op == ElementwiseOp::fma && in != f32 && out != f32) return find_narrow_fma();
      if (Kernel kernel = find_f32(op)) return kernel;
      return find_float(op, f32);
    case Domain::f64: return find_float(op, f64);
    case Domain::integer: return find_integer(op, in);
    case Domain::boolean: return find_boolean(op);
    case Domain::c64:
    case Domain::c128: break;
  }
  return find_complex(op, in);
}

/// Whether the results are among the values of the operands' dtype without narrowing.
bool keeps_dtype(ElementwiseOp op, DType in) {
  switch (op) {
    case ElementwiseOp::select:
    case ElementwiseOp::max:
    case ElementwiseOp::min:
    case ElementwiseOp::clamp:
    case ElementwiseOp::relu: return true;
    case ElementwiseOp::neg:
    case ElementwiseOp::abs: return is_float(in) && in != f8e8m0fnu;
    default: return false;
  }
}

/// Whether the kernel's results lie in the register as `out` has them.
bool fits(ElementwiseOp op, DType in, DType out) {
  if (op == ElementwiseOp::convert) return true;
  if (compares(op) || op == ElementwiseOp::is_finite) return out == boolean;
  if (op == ElementwiseOp::complex) return domain_of(real_part(out)) == domain_of(in);
  if (is_complex(in) && (op == ElementwiseOp::abs || op == ElementwiseOp::real || op == ElementwiseOp::imag))
    return out == real_part(in);
  return domain_of(in) == domain_of(out) && (domain_of(in) != Domain::integer || in == out);
}

/// Whether an op takes long enough beside a load and a store for memory to work meanwhile.
bool is_costly(ElementwiseOp op) {
  using Op = ElementwiseOp;
  return (op >= Op::exp && op <= Op::silu && op != Op::relu) || op == Op::div || op == Op::rem || op == Op::pow ||
         op == Op::atan2;
}

/// A result of this size leaves every cache before it is read again: written past them, it costs no reads either.
constexpr int64_t kStreamBytes = int64_t{32} << 20;
/// So many elements do not come from the cache of one core: what is read next is asked for in pieces.
constexpr int64_t kFar = int64_t{128} << 10;
/// Elements between two pieces of memory's work.
constexpr int64_t kPiece = 192;
// A costly op and those beside it are done so many elements at a time: memory goes on with what the costly one asked
// for while the others compute.
constexpr int64_t kTogether = 256;
constexpr size_t kMostTogether = 16;

/// Copies `count` elements of `bytes` bytes that are `stride` bytes apart.
template <class T>
void gather_elements(const std::byte* from, int64_t stride, std::byte* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * int64_t{sizeof(T)}, from + i * stride, sizeof(T));
}
template <class T>
void scatter_elements(const std::byte* from, std::byte* to, int64_t stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * int64_t{sizeof(T)}, sizeof(T));
}
using Quad = std::array<uint64_t, 2>;
void gather_elements(size_t bytes, const std::byte* from, int64_t stride, std::byte* to, int64_t count) {
  if (stride == static_cast<int64_t>(bytes)) {
    std::memcpy(to, from, static_cast<size_t>(count) * bytes);
    return;
  }
  switch (bytes) {
    case 1: return gather_elements<uint8_t>(from, stride, to, count);
    case 2: return gather_elements<uint16_t>(from, stride, to, count);
    case 4: return gather_elements<uint32_t>(from, stride, to, count);
    case 8: return gather_elements<uint64_t>(from, stride, to, count);
    default: return gather_elements<Quad>(from, stride, to, count);
  }
}
void scatter_elements(size_t bytes, const std::byte* from, std::byte* to, int64_t stride, int64_t count) {
  if (stride == static_cast<int64_t>(bytes)) {
    std::memcpy(to, from, static_cast<size_t>(count) * bytes);
    return;
  }
  switch (bytes) {
    case 1: return scatter_elements<uint8_t>(from, to, stride, count);
    case 2: return scatter_elements<uint16_t>(from, to, stride, count);
    case 4: return scatter_elements<uint32_t>(from, to, stride, count);
    case 8: return scatter_elements<uint64_t>(from, to, stride, count);
    default: return scatter_elements<Quad>(from, to, stride, count);
  }
}

/// The piece of the iteration space that a pass works on, and how buffers are addressed in it.
struct Tile {
  const ElementwiseCall& call;
  int64_t begin = 0, count = 0;
  int64_t index[kMaxElementwiseRank]{};  ///< of `begin`

  void move_to(int64_t first, int64_t n) {
    begin = first, count = n;
    for (int d = call.rank - 1; d >= 0; --d) {
      index[d] = first % call.dims[d];
      first /= call.dims[d];
    }
  }
  int64_t offset_of(const ElementwiseBuffer& b) const {
    int64_t offset = 0;
    for (int d = 0; d < call.rank; ++d) offset += index[d] * b.strides[d];
    return offset;
  }
  /// Calls f(offset in elements, stride, count) for each run along the last dim that the tile covers.
  template <class F>
  void for_each_run(const ElementwiseBuffer& b, F f) const {
    const int last = call.rank - 1;
    if (last < 0) return f(int64_t{0}, int64_t{0}, count);
    int64_t at[kMaxElementwiseRank];
    std::copy(index, index + call.rank, at);
    int64_t offset = offset_of(b);
    for (int64_t left = count; left > 0;) {
      const int64_t run = std::min(left, call.dims[last] - at[last]);
      f(offset, b.strides[last], run);
      left -= run;
      offset -= at[last] * b.strides[last];
      at[last] = 0;
      for (int d = last - 1; d >= 0; --d) {
        offset += b.strides[d];
        if (++at[d] < call.dims[d]) break;
        offset -= at[d] * b.strides[d];
        at[d] = 0;
      }
    }
  }
};

enum class Layout : uint8_t { dense, dense_streamed, one_element, strided };
Layout layout_of(const ElementwiseCall& call, const ElementwiseBuffer& b) {
  bool dense = true, one = true;
  int64_t expected = 1;
  for (int d = call.rank - 1; d >= 0; --d) {
    if (call.dims[d] == 1) continue;
    dense = dense && b.strides[d] == expected;
    one = one && b.strides[d] == 0;
    expected *= call.dims[d];
  }
  return dense ? Layout::dense : one ? Layout::one_element : Layout::strided;
}

}  // namespace

int64_t ElementwiseCall::element_count() const {
  int64_t count = 1;
  for (int d = 0; d < rank; ++d) count *= dims[d];
  return count;
}

void merge_elementwise_dims(int& rank, int64_t* dims, ElementwiseBuffer* buffers, int buffer_count) noexcept {
  int kept = 0;
  for (int d = 0; d < rank; ++d) {
    if (dims[d] == 1) continue;
    bool merges = kept > 0;
    for (int b = 0; b < buffer_count && merges; ++b)
      merges = buffers[b].strides[kept - 1] == buffers[b].strides[d] * dims[d];
    const int to = merges ? kept - 1 : kept;
    dims[to] = merges ? dims[to] * dims[d] : dims[d];
    for (int b = 0; b < buffer_count; ++b) buffers[b].strides[to] = buffers[b].strides[d];
    kept = to + 1;
  }
  rank = kept;
}

ElementwiseProgram::ElementwiseProgram() = default;
ElementwiseProgram::~ElementwiseProgram() = default;
ElementwiseProgram::ElementwiseProgram(ElementwiseProgram&&) noexcept = default;
ElementwiseProgram& ElementwiseProgram::operator=(ElementwiseProgram&&) noexcept = default;

DType ElementwiseProgram::dtype_of(Value value) const { return nodes_[value].dtype; }
size_t ElementwiseProgram::scratch_bytes() const { return scratch_bytes_; }

ElementwiseProgram::Value ElementwiseProgram::load(DType dtype, int operand) {
  operands_ = std::max(operands_, operand + 1);
  nodes_.push_back({.what = Node::What::load, .op = {}, .dtype = dtype, .operand = operand});
  return static_cast<Value>(nodes_.size() - 1);
}
ElementwiseProgram::Value ElementwiseProgram::constant(DType dtype, std::complex<double> value) {
  if (is_integer(dtype)) return integer(dtype, static_cast<int64_t>(value.real()));
  nodes_.push_back({.what = Node::What::constant, .op = {}, .dtype = dtype, .value = value});
  return static_cast<Value>(nodes_.size() - 1);
}
ElementwiseProgram::Value ElementwiseProgram::integer(DType dtype, int64_t value) {
  if (!is_integer(dtype)) return constant(dtype, static_cast<double>(value));
  nodes_.push_back({.what = Node::What::constant, .op = {}, .dtype = dtype, .integer = value});
  return static_cast<Value>(nodes_.size() - 1);
}
ElementwiseProgram::Value ElementwiseProgram::apply(ElementwiseOp op, DType out, Value a, Value b, Value c) {
  const DType in = dtype_of(op == ElementwiseOp::select ? b : a);
  if (!find_kernel(op, in, out) || !fits(op, in, out))
    fail(ErrorCode::unsupported, "element-wise ", name_of(op), " does not take ", in, " to ", out);
  nodes_.push_back({.what = Node::What::op, .op = op, .dtype = out, .a = a, .b = b, .c = c});
  return static_cast<Value>(nodes_.size() - 1);
}
void ElementwiseProgram::store(Value value, int result) {
  results_ = std::max(results_, result + 1);
  stores_.push_back({value, result});
}

/// Lets an f32 op swallow an operand that nothing else uses, where there is a kernel for both together: each pass less
/// saves a round trip through L1.
void ElementwiseProgram::pair_up() {
  std::vector<int> uses(nodes_.size(), 0);
  for (const Node& n : nodes_)
    for (Value v : {n.a, n.b, n.c})
      if (v != kNone) ++uses[v];
  for (const Stored& s : stores_) uses[s.value] += 2;
  for (Node& n : nodes_) {
    if (n.what != Node::What::op || n.dtype != f32 || n.b == kNone || n.c != kNone) continue;
    for (const bool right : {false, true}) {
      const Node& first = nodes_[right ? n.b : n.a];
      if (first.what != Node::What::op || first.dtype != f32 || first.pair || uses[right ? n.b : n.a] != 1) continue;
      const Kernel kernel = find_f32_pair(first.op, n.op, right);
      if (!kernel) continue;
      n.c = right ? n.a : n.b;
      n.a = first.a, n.b = first.b, n.pair = kernel;
      break;
    }
  }
}

void ElementwiseProgram::finish() {
  pair_up();
  // A value lives until its last use; a store follows its value at once. Values that nothing uses are left out.
  constexpr size_t kNever = 0;
  std::vector<size_t> last_use(nodes_.size(), kNever);
  for (const Stored& s : stores_) last_use[s.value] = s.value + size_t{1};
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (last_use[i] == kNever) continue;
    for (Value v : {nodes_[i].a, nodes_[i].b, nodes_[i].c})
      if (v != kNone) last_use[v] = std::max(last_use[v], i);
  }
  size_t last_read_of_operands = 0;
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].what == Node::What::load) last_read_of_operands = std::max(last_read_of_operands, last_use[i]);

  // Operands may stay in place, instead of being copied, if no result is written before the last of them is read.
  stores_late_ = std::all_of(stores_.begin(), stores_.end(), [&](const Stored& s) {
    return nodes_[s.value].what != Node::What::op || s.value >= last_read_of_operands;
  });

  // Registers: one for each operand that is loaded and each constant (they may be filled once per call), the others
  // are reused as soon as their value is dead. Sizes differ, so each size has its own free list.
  std::vector<uint8_t> slot_bytes;
  std::array<std::vector<uint16_t>, 17> free;
  std::vector<uint16_t> slot_of(nodes_.size());
  std::vector<Step> constants, loads, body;
  const auto release = [&](size_t value) {
    if (nodes_[value].what == Node::What::op) free[slot_bytes[slot_of[value]]].push_back(slot_of[value]);
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (last_use[i] == kNever) continue;
    const Node& node = nodes_[i];
    const size_t bytes = domain_bytes(domain_of(node.dtype));
    Step step;
    step.register_bytes = static_cast<uint8_t>(bytes);
    if (node.what == Node::What::op) {
      const DType in = nodes_[node.op == ElementwiseOp::select ? node.b : node.a].dtype;
      step.kernel = node.pair ? node.pair : find_kernel(node.op, in, node.dtype);
      step.then = keeps_dtype(node.op, in) ? nullptr : find_narrow(node.dtype);
      step.is_costly = !node.pair && is_costly(node.op);
      if (step.is_costly && in == f32 && node.dtype == f32) step.busy = find_f32_busy(node.op);
      step.a = slot_of[node.a];
      step.b = node.b == kNone ? step.a : slot_of[node.b];
      step.c = node.c == kNone ? step.a : slot_of[node.c];
      step.a_bytes = slot_bytes[step.a], step.b_bytes = slot_bytes[step.b], step.c_bytes = slot_bytes[step.c];
      // Operands that die here free their registers first: an op may write over an operand of its own size.
      std::array<Value, 3> operands{node.a, node.b, node.c};
      std::sort(operands.begin(), operands.end());
      for (size_t k = 0; k < 3; ++k)
        if (operands[k] != kNone && (k == 0 || operands[k] != operands[k - 1]) && last_use[operands[k]] == i)
          release(operands[k]);
    }
    if (node.what == Node::What::op && !free[bytes].empty()) {
      slot_of[i] = free[bytes].back();
      free[bytes].pop_back();
    } else {
      slot_of[i] = static_cast<uint16_t>(slot_bytes.size());
      slot_bytes.push_back(static_cast<uint8_t>(bytes));
    }
    step.dst = slot_of[i];
    if (node.what == Node::What::load) {
      step.what = What::load;
      step.buffer = node.operand;
      step.bytes = static_cast<uint8_t>(byte_size(node.dtype));
      step.kernel = find_load(node.dtype);
    } else if (node.what == Node::What::constant) {
      step.what = What::constant;
      // Through the same conversion as any value, so that it is rounded to its dtype.
      if (is_integer(node.dtype)) {
        std::memcpy(step.value.data(), &node.integer, sizeof(node.integer));
      } else {
        const double real = node.value.real();
        if (is_complex(node.dtype)) find_convert(c128, node.dtype)(step.value.data(), &node.value, nullptr, nullptr, 1);
        else find_convert(f64, node.dtype)(step.value.data(), &real, nullptr, nullptr, 1);
      }
      if (const Kernel narrow = find_narrow(node.dtype))
        narrow(step.value.data(), step.value.data(), nullptr, nullptr, 1);
      constants.push_back(step);
      continue;
    }
    // All loads come first: a result may be written over its operand.
    if (node.what == Node::What::load) loads.push_back(step);
    else body.push_back(step);
    bool is_first_store = true;
    for (const Stored& s : stores_) {
      if (s.value != i) continue;
      Step store;
      store.what = What::store;
      store.a = slot_of[i];
      store.buffer = s.result;
      store.bytes = static_cast<uint8_t>(byte_size(node.dtype));
      store.register_bytes = static_cast<uint8_t>(bytes);
      store.kernel = find_store(node.dtype);
      if (node.what == Node::What::op && is_first_store && !store.kernel) {
        body.back().forwards = true;
        body.back().buffer = s.result;
        is_first_store = false;
      }
      body.push_back(store);
    }
    if (last_use[i] == i + 1 && std::none_of(nodes_.begin() + static_cast<std::ptrdiff_t>(i) + 1, nodes_.end(),
                                             [&](const Node& n) { return n.a == i || n.b == i || n.c == i; }))
      release(i);
  }
  once_ = constants.size();
  steps_ = std::move(constants);
  steps_.insert(steps_.end(), loads.begin(), loads.end());
  // A store of a constant has to follow it in the body.
  for (const Stored& s : stores_) {
    if (nodes_[s.value].what != Node::What::constant) continue;
    Step store;
    store.what = What::store;
    store.a = slot_of[s.value];
    store.buffer = s.result;
    store.bytes = static_cast<uint8_t>(byte_size(nodes_[s.value].dtype));
    store.register_bytes = static_cast<uint8_t>(domain_bytes(domain_of(nodes_[s.value].dtype)));
    store.kernel = find_store(nodes_[s.value].dtype);
    body.push_back(store);
  }
  steps_.insert(steps_.end(), body.begin(), body.end());

  // All registers together should stay in half of a 32 KiB L1; the other half holds operands and results.
  size_t bytes_per_element = 0;
  for (uint8_t b : slot_bytes) bytes_per_element += b;
  tile_ = 1024;
  while (tile_ > 128 && static_cast<size_t>(tile_) * bytes_per_element > 16384) tile_ /= 2;
  size_t offset = 0;
  slot_offsets_.clear();
  for (uint8_t b : slot_bytes) {
    slot_offsets_.push_back(offset);
    // Registers a multiple of 4 KiB apart would make loads wait for stores to the other one (same low 12 bits).
    offset += aligned(static_cast<size_t>(tile_) * b) + 320;
  }
  slot_offsets_.push_back(offset);  // elements of strided operands and results, side by side
  offset += aligned(static_cast<size_t>(tile_) * 16);
  slot_offsets_.push_back(offset);  // the registers' pointers, then the layouts of operands and of results
  offset += aligned(slot_bytes.size() * sizeof(void*));
  slot_offsets_.push_back(offset);
  offset += aligned(static_cast<size_t>(operands_ + results_));
  int costly = 0;
  ops_ = 0;
  for (Step& s : steps_) {
    if (s.what != What::op) continue;
    ++ops_;
    costly += s.is_costly;
    if (!s.forwards) continue;
    s.stream_at = offset;
    offset += 2 * aligned(static_cast<size_t>(tile_) * s.register_bytes);
  }
  scratch_bytes_ = offset;
  // The traffic of memory is dealt out to the costly ops if there are any, else to all.
  for (Step& s : steps_) s.is_costly = s.what == What::op && (s.is_costly || costly == 0);
  if (costly > 0) ops_ = costly;
  // A costly op with the ops beside it.
  together_begin_ = steps_.size(), together_ = 0;
  if (costly != 1) return;
  const auto is_op = [&](size_t i) { return steps_[i].what == What::op; };
  size_t first = once_;
  while (!steps_[first].busy)
    if (++first == steps_.size()) return;
  size_t last = first + 1;
  while (first > once_ && is_op(first - 1)) --first;
  while (last < steps_.size() && is_op(last)) ++last;
  if (last - first < 2 || last - first > kMostTogether) return;
  together_begin_ = first, together_ = last - first;
}

void ElementwiseProgram::run(const ElementwiseCall& call, int64_t begin, int64_t end, void* scratch) const noexcept {
  if (begin >= end) return;
  const size_t slots = slot_offsets_.size() - 3;
  auto* base = static_cast<std::byte*>(scratch);
  std::byte* raw = base + slot_offsets_[slots];
  auto** pointer = reinterpret_cast<std::byte**>(base + slot_offsets_[slots + 1]);
  auto* operand_layout = reinterpret_cast<Layout*>(base + slot_offsets_[slots + 2]);
  Layout* result_layout = operand_layout + operands_;
  const auto slot = [&](uint16_t r) { return base + slot_offsets_[r]; };

  // Whether a result that shares the operand's memory is written while the operand is still wanted.
  const auto is_overwritten = [&](const ElementwiseBuffer& operand) {
    bool shared = false;
    for (int i = 0; i < results_ && !stores_late_; ++i) shared = shared || call.results[i].data == operand.data;
    return shared;
  };

  const bool is_large = call.element_count() >= kStreamBytes / 4, is_far = call.element_count() >= kFar;
  bool all_simple = true;
  for (int i = 0; i < operands_; ++i) {
    operand_layout[i] = layout_of(call, call.operands[i]);
    all_simple = all_simple && operand_layout[i] != Layout::strided;
  }
  for (int i = 0; i < results_; ++i) {
    result_layout[i] = layout_of(call, call.results[i]);
    all_simple = all_simple && result_layout[i] == Layout::dense;
    if (is_large && result_layout[i] == Layout::dense) result_layout[i] = Layout::dense_streamed;
  }
  MemoryTraffic traffic;
  // The traffic of a tile, dealt out to the pieces of its ops.
  size_t widest = 4;
  for (size_t i = once_; i < steps_.size() && is_far; ++i) widest = std::max<size_t>(widest, steps_[i].bytes);
  const size_t dealt = ops_ == 0 ? 0 : aligned(kPiece * widest / static_cast<size_t>(ops_));
  int parity = 0;
  const int64_t longest = std::min(tile_, end - begin);
  for (size_t i = 0; i < once_; ++i) {
    const Step& s = steps_[i];
    gather_elements(s.register_bytes, s.value.data(), 0, slot(s.dst), longest);
    pointer[s.dst] = slot(s.dst);
  }
  for (size_t i = once_; i < steps_.size(); ++i) {
    const Step& s = steps_[i];
    if (s.what != What::load || operand_layout[s.buffer] != Layout::one_element) continue;
    const void* from = call.operands[s.buffer].data;
    alignas(16) std::byte value[16];
    if (s.kernel) s.kernel(value, from, nullptr, nullptr, 1);
    else std::memcpy(value, from, s.register_bytes);
    gather_elements(s.register_bytes, value, 0, slot(s.dst), longest);
    pointer[s.dst] = slot(s.dst);
  }

  // With strided buffers a tile ends where a row does, if rows are long enough to be worth their own tiles: each
  // buffer is then one run.
  const int64_t row = call.rank > 0 ? call.dims[call.rank - 1] : 1;
  const bool by_rows = !all_simple && row >= 64;
  Tile tile{call};
  int64_t at = begin;
  const auto destination = [&](const Step& s) -> std::byte* {
    if (!s.forwards) return slot(s.dst);
    const ElementwiseBuffer& result = call.results[s.buffer];
    auto* data = static_cast<std::byte*>(result.data);
    if (result_layout[s.buffer] == Layout::dense) return data + at * s.register_bytes;
    if (result_layout[s.buffer] == Layout::dense_streamed)
      return base + s.stream_at + static_cast<size_t>(parity * tile_) * s.register_bytes;
    if (by_rows && result.strides[call.rank - 1] == 1) return data + tile.offset_of(result) * s.register_bytes;
    return slot(s.dst);
  };
  while (at < end) {
    int64_t count = std::min(tile_, end - at);
    if (by_rows) count = std::min(count, row - at % row);
    if (all_simple) tile.begin = at, tile.count = count;
    else tile.move_to(at, count);

    for (size_t i = once_; i < steps_.size(); ++i) {
      const Step& s = steps_[i];
      switch (s.what) {
        case What::op: {
          if (i == together_begin_ && is_far && traffic.is_simple()) {
            struct Bound {
              std::byte *dst, *a, *b, *c;
            } bound[kMostTogether];
            const std::span<const Step> ops(steps_.data() + together_begin_, together_);
            for (size_t o = 0; o < ops.size(); ++o) {
              std::byte* dst = destination(ops[o]);
              bound[o] = {dst, pointer[ops[o].a], pointer[ops[o].b], pointer[ops[o].c]};
              pointer[ops[o].dst] = dst;
            }
            for (int64_t k = 0; k < count; k += kTogether) {
              const int64_t n = std::min(kTogether, count - k);
              for (size_t o = 0; o < ops.size(); ++o) {
                const Step& op = ops[o];
                const Bound& its = bound[o];
                std::byte* const to = its.dst + k * op.register_bytes;
                if (op.busy) {
                  op.busy(to, its.a + k * op.a_bytes, n, traffic.take((n + 15) / 16));
                  continue;
                }
                op.kernel(to, its.a + k * op.a_bytes, its.b + k * op.b_bytes, its.c + k * op.c_bytes, n);
                if (op.then) op.then(to, to, nullptr, nullptr, n);
              }
            }
            i += ops.size() - 1;
            break;
          }
          std::byte* const dst = destination(s);
          const bool is_dealt = is_far && s.is_costly;
          if (is_dealt && s.busy && ops_ == 1 && traffic.is_simple()) {
            s.busy(dst, pointer[s.a], count, traffic.take((count + 15) / 16));
            pointer[s.dst] = dst;
            break;
          }
          const int64_t piece = is_dealt ? kPiece : count;
          for (int64_t k = 0; k < count; k += piece) {
            const int64_t n = std::min(piece, count - k);
            std::byte* to = dst + k * s.register_bytes;
            s.kernel(to, pointer[s.a] + k * s.a_bytes, pointer[s.b] + k * s.b_bytes, pointer[s.c] + k * s.c_bytes, n);
            if (s.then) s.then(to, to, nullptr, nullptr, n);
            if (is_dealt) traffic.advance(dealt);
          }
          pointer[s.dst] = dst;
          break;
        }
        case What::load: {
          const ElementwiseBuffer& operand = call.operands[s.buffer];
          const Layout layout = operand_layout[s.buffer];
          if (layout == Layout::one_element) break;
          auto* data = static_cast<std::byte*>(operand.data);
          std::byte* from = nullptr;
          if (layout == Layout::dense) {
            from = data + at * s.bytes;
            const auto next = static_cast<size_t>(std::min(count, end - at - count) * s.bytes);
            traffic.read(s.buffer, from + count * s.bytes, next);
            if (!is_far) traffic.advance(next);
          } else if (by_rows && operand.strides[call.rank - 1] == 1) {
            from = data + tile.offset_of(operand) * s.bytes;
          } else {
            from = s.kernel ? raw : slot(s.dst);
            std::byte* to = from;
            tile.for_each_run(operand, [&](int64_t offset, int64_t stride, int64_t n) {
              gather_elements(s.bytes, data + offset * s.bytes, stride * s.bytes, to, n);
              to += n * s.bytes;
            });
          }
          if (s.kernel) {
            s.kernel(slot(s.dst), from, nullptr, nullptr, count);
          } else if (from != slot(s.dst)) {
            if (!is_overwritten(operand)) {
              pointer[s.dst] = from;
              break;
            }
            std::memcpy(slot(s.dst), from, static_cast<size_t>(count) * s.bytes);
          }
          pointer[s.dst] = slot(s.dst);
          break;
        }
        case What::store: {
          const ElementwiseBuffer& result = call.results[s.buffer];
          auto* data = static_cast<std::byte*>(result.data);
          std::byte* from = pointer[s.a];
          const bool is_streamed = result_layout[s.buffer] == Layout::dense_streamed;
          const bool is_run = result_layout[s.buffer] == Layout::dense || is_streamed;
          const bool is_forwarded = steps_[i - 1].forwards && steps_[i - 1].buffer == s.buffer;
          if (is_run || (by_rows && result.strides[call.rank - 1] == 1)) {
            std::byte* to = data + (is_run ? at : tile.offset_of(result)) * s.bytes;
            if (from == to) break;  // written there by its op
            if (s.kernel) s.kernel(to, from, nullptr, nullptr, count);
            else if (is_streamed) {
              const auto bytes = static_cast<size_t>(count) * s.bytes;
              traffic.write(s.buffer, to, from, bytes);
              if (!is_forwarded) traffic.finish(s.buffer);  // its register is used again
            } else std::memcpy(to, from, static_cast<size_t>(count) * s.bytes);
            break;
          }
          if (s.kernel) {
            s.kernel(raw, from, nullptr, nullptr, count);
            from = raw;
          }
          tile.for_each_run(result, [&](int64_t offset, int64_t stride, int64_t n) {
            scatter_elements(s.bytes, from, data + offset * s.bytes, stride * s.bytes, n);
            from += n * s.bytes;
          });
          break;
        }
        case What::constant: break;
      }
    }
    at += count;
    parity = 1 - parity;
  }
  if (!is_large) return;
  traffic.finish();
  stream_fence();
}

}  // namespace rlx::kernels
