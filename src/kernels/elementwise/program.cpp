// Builds and compiles element-wise programs: orders the ops, assigns registers and kernels to them, joins f32 ops to
// threaded code, and lays out the scratch. run.cpp runs the result. The loops themselves are in f32.cpp, float.cpp,
// integer.cpp, complex.cpp and convert.cpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/rounded_up.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/steps.h"
#include "rlx/error.h"

namespace rlx::kernels {
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

/// Whether every result is a value of the operands' dtype, so that it need not be narrowed.
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

/// Whether it converts floats that a register holds as f32 to such floats: it only rounds, if at all.
bool only_rounds(ElementwiseOp op, DType in, DType out) {
  return op == ElementwiseOp::convert && domain_of(in) == Domain::f32 && domain_of(out) == Domain::f32;
}

/// Whether the kernel's results have the register representation of `out`.
bool fits(ElementwiseOp op, DType in, DType out) {
  if (op == ElementwiseOp::convert) return true;
  if (compares(op) || op == ElementwiseOp::is_finite) return out == boolean;
  if (op == ElementwiseOp::complex) return domain_of(real_part(out)) == domain_of(in);
  if (is_complex(in) && (op == ElementwiseOp::abs || op == ElementwiseOp::real || op == ElementwiseOp::imag))
    return out == real_part(in);
  return domain_of(in) == domain_of(out) && (domain_of(in) != Domain::integer || in == out);
}

/// Whether an op computes long enough per element to hide memory traffic.
bool is_costly(ElementwiseOp op) {
  using Op = ElementwiseOp;
  return (op >= Op::exp && op <= Op::silu && op != Op::relu) || op == Op::div || op == Op::rem || op == Op::pow ||
         op == Op::atan2;
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

/// Lets ops read what was converted to f32 instead of the result, as a register holds both alike. (Which kernel an fma
/// has depends on the dtype.)
void ElementwiseProgram::read_through_widenings() {
  for (Node& node : nodes_) {
    if (node.what != Node::What::op || node.op == ElementwiseOp::fma) continue;
    for (Value* v : {&node.a, &node.b, &node.c})
      while (*v != kNone && nodes_[*v].what == Node::What::op && nodes_[*v].dtype == f32 &&
             only_rounds(nodes_[*v].op, nodes_[nodes_[*v].a].dtype, f32))
        *v = nodes_[*v].a;
  }
}

/// Reorders the nodes so that most results are an operand of the next op, where they are still in vector registers:
/// depth-first from each stored value, its deepest operand last. Drops nodes that no stored value needs.
void ElementwiseProgram::put_in_order() {
  std::vector<int> height(nodes_.size(), 0);
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (Value v : {nodes_[i].a, nodes_[i].b, nodes_[i].c})
      if (v != kNone) height[i] = std::max(height[i], height[v] + 1);
  std::vector<Value> position(nodes_.size(), kNone), pending;
  std::vector<Node> ordered;
  for (Stored& s : stores_) {
    pending.push_back(s.value);
    while (!pending.empty()) {
      const Value i = pending.back();
      const Node& node = nodes_[i];
      std::array<Value, 3> operands{node.a, node.b, node.c};
      std::stable_sort(operands.begin(), operands.end(),
                       [&](Value p, Value q) { return (p == kNone ? -1 : height[p]) > (q == kNone ? -1 : height[q]); });
      const size_t before = pending.size();
      for (Value v : operands)
        if (position[i] == kNone && v != kNone && position[v] == kNone) pending.push_back(v);
      if (pending.size() > before) continue;
      pending.pop_back();
      if (position[i] != kNone) continue;
      position[i] = static_cast<Value>(ordered.size());
      ordered.push_back(node);
      Node& moved = ordered.back();
      for (Value* v : {&moved.a, &moved.b, &moved.c})
        if (*v != kNone) *v = position[*v];
    }
    s.value = position[s.value];
  }
  nodes_ = std::move(ordered);
}

void ElementwiseProgram::compile() {
  threaded_target_ = threaded_code_target();
  read_through_widenings();
  put_in_order();
  lay_out(make_steps());
}

ElementwiseProgram::Slots ElementwiseProgram::make_steps() {
  // A value lives until its last use. A store directly follows the op that computes its value.
  std::vector<size_t> last_use(nodes_.size(), 0);
  std::vector<int> uses(nodes_.size(), 0);
  for (const Stored& s : stores_) {
    last_use[s.value] = s.value + size_t{1};
    ++uses[s.value];
  }
  for (size_t i = nodes_.size(); i-- > 0;)
    for (Value v : {nodes_[i].a, nodes_[i].b, nodes_[i].c}) {
      if (v == kNone) continue;
      last_use[v] = std::max(last_use[v], i);
      ++uses[v];
    }
  size_t last_read_of_operands = 0;
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].what == Node::What::load) last_read_of_operands = std::max(last_read_of_operands, last_use[i]);

  // Operands can be read where they lie, without a copy, if no result is written before the last operand is read.
  // Constants are stored at the end. Storing an operand itself may overwrite another operand before that is read.
  stores_late_ = std::all_of(stores_.begin(), stores_.end(), [&](const Stored& s) {
    const auto what = nodes_[s.value].what;
    return what == Node::What::constant || (what == Node::What::op && s.value >= last_read_of_operands);
  });

  // Each loaded operand and each constant has its own slot, because it may be filled once per call. Slots of op results
  // are reused as soon as their value is dead; there is a free list for each element size.
  Slots slots;
  std::vector<uint8_t>& slot_bytes = slots.bytes;
  std::vector<uint16_t>& slot_of = slots.of;
  slot_of.resize(nodes_.size());
  std::array<std::vector<uint16_t>, 17> free;
  std::vector<Step> constants, loads, body;
  const auto release = [&](size_t value) {
    if (nodes_[value].what == Node::What::op) free[slot_bytes[slot_of[value]]].push_back(slot_of[value]);
  };
  // Writes what the register of `from` holds, as the node's dtype.
  const auto store_of = [](const Node& node, Value from, const Stored& to) {
    Step store;
    store.what = What::store;
    store.operands[0] = from;
    store.buffer = to.result;
    store.bytes = static_cast<uint8_t>(byte_size(node.dtype));
    store.register_bytes = static_cast<uint8_t>(domain_bytes(domain_of(node.dtype)));
    store.kernel = find_store(node.dtype);
    return store;
  };
  // A store rounds, too. So a conversion that nothing but a store reads is no step: the store reads what is converted.
  const auto store_that_rounds = [&](size_t i) -> const Stored* {
    const Node& node = nodes_[i];
    if (node.what != Node::What::op || uses[i] != 1 || !only_rounds(node.op, nodes_[node.a].dtype, node.dtype))
      return nullptr;
    if (nodes_[node.a].what == Node::What::constant || nodes_[node.a].dtype == node.dtype) return nullptr;
    const auto found = std::find_if(stores_.begin(), stores_.end(), [&](const Stored& s) { return s.value == i; });
    return found == stores_.end() ? nullptr : &*found;
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const size_t bytes = domain_bytes(domain_of(node.dtype));
    if (const Stored* to = store_that_rounds(i)) {
      body.push_back(store_of(node, node.a, *to));
      slot_of[i] = slot_of[node.a];
      if (last_use[node.a] == i) release(node.a);
      continue;
    }
    Step step;
    step.register_bytes = static_cast<uint8_t>(bytes);
    if (node.what == Node::What::op) {
      const DType in = nodes_[node.op == ElementwiseOp::select ? node.b : node.a].dtype;
      step.kernel = find_kernel(node.op, in, node.dtype);
      step.then = keeps_dtype(node.op, in) ? nullptr : find_narrow(node.dtype);
      if (step.then && only_rounds(node.op, in, node.dtype)) step.kernel = std::exchange(step.then, nullptr);
      step.is_costly = is_costly(node.op);
      if (domain_of(in) == Domain::f32 && node.dtype == f32) step.interleaved = find_f32_interleaved(node.op);
      std::array<Value, 3> operands{node.a, node.b, node.c};
      for (size_t k = 0; k < 3; ++k) {
        step.operands[k] = operands[k] == kNone ? node.a : operands[k];
        step.operand_bytes[k] = slot_bytes[slot_of[step.operands[k]]];
        step.operand_count = static_cast<uint8_t>(step.operand_count + (operands[k] != kNone));
      }
      step.op = node.op;
      step.uses = uses[i];
      step.is_f32 = step.kernel == find_f32(node.op);
      if (step.then) {
        step.instruction_then = node.dtype == f16    ? threaded_target_.narrow_f16
                                : node.dtype == bf16 ? threaded_target_.narrow_bf16
                                                     : nullptr;
        step.is_f32 = step.is_f32 && step.instruction_then;
      }
      // Operands with their last use here release their slots first: an op may overwrite an operand of its own size.
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
    step.dst = static_cast<Value>(i);
    if (node.what == Node::What::load) {
      step.what = What::load;
      step.buffer = node.operand;
      step.bytes = static_cast<uint8_t>(byte_size(node.dtype));
      step.kernel = find_load(node.dtype);
    } else if (node.what == Node::What::constant) {
      step.what = What::constant;
      // A constant is converted like any other value, so that it is rounded to its dtype.
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
    // All loads come first, because a result may be written over its operand.
    if (node.what == Node::What::load) loads.push_back(step);
    else body.push_back(step);
    bool is_first_store = true;
    for (const Stored& s : stores_) {
      if (s.value != i) continue;
      const Step store = store_of(node, static_cast<Value>(i), s);
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
  // Constants are filled once per call, but their stores run for each tile.
  for (const Stored& s : stores_) {
    if (nodes_[s.value].what == Node::What::constant) body.push_back(store_of(nodes_[s.value], s.value, s));
  }
  steps_.insert(steps_.end(), body.begin(), body.end());
  return slots;
}

void ElementwiseProgram::lay_out(const Slots& slots) {
  // All registers together should fit in half of a 32 KiB L1; operands and results use the other half.
  size_t bytes_per_element = 0;
  for (uint8_t b : slots.bytes) bytes_per_element += b;
  tile_ = 1024;
  while (tile_ > 128 && static_cast<size_t>(tile_) * bytes_per_element > 16384) tile_ /= 2;
  size_t offset = 0;
  make_threaded_code(offset);
  // If all ops are threaded code, and the values that it keeps in memory are operands, results or scratch blocks, then
  // no register holds a tile, and tiles of dense arrays may be larger.
  size_t threaded = 0, ops = 0, conversions = 0;
  std::vector<bool> is_result(nodes_.size(), false);
  for (const Step& s : std::span(steps_).subspan(once_)) {
    threaded += s.threaded_steps, ops += s.what == What::op, conversions += s.what != What::op && s.kernel;
    if (s.forwards) is_result[s.dst] = true;
  }
  only_threaded_code_ = ops > 1 && threaded == ops && conversions == 0;
  for (const Stored& s : stores_) only_threaded_code_ = only_threaded_code_ && nodes_[s.value].what == Node::What::op;
  for (const PlannedThreadedCode& code : threaded_codes_)
    for (const PlannedTail& p : code.tails)
      only_threaded_code_ = only_threaded_code_ && (nodes_[p.value].what != Node::What::op || is_result[p.value]);
  dense_tile_ = only_threaded_code_ ? kThreadedCodeTile : tile_;
  // Threaded code is used if it saves more than setting up its instructions takes. (A single op either belongs to a
  // longer sequence or runs by its kernel.)
  constexpr double kSetUp_ns = 20;
  min_threaded_blocks_ =
      threaded_gain_ns_ > 0.5 ? static_cast<int64_t>(std::ceil(kSetUp_ns / threaded_gain_ns_)) : int64_t{1} << 60;
  std::vector<size_t> slot_offsets;
  for (uint8_t b : slots.bytes) {
    slot_offsets.push_back(offset);
    // 320 bytes of padding: between registers a multiple of 4 KiB apart, loads would wait for stores to the other
    // register (4K aliasing: equal low 12 bits of the address).
    offset += aligned(static_cast<size_t>(tile_) * b) + 320;
  }
  for (uint16_t slot : slots.of) register_at_.push_back(slot_offsets[slot]);
  for (PlannedThreadedCode& code : threaded_codes_) {
    const auto operand_of = [&](Value v) { return nodes_[v].what == Node::What::load ? nodes_[v].operand : -1; };
    const auto is_constant = [&](Value v) { return nodes_[v].what == Node::What::constant; };
    for (PlannedPointer& p : code.pointers) {
      p.operand = operand_of(p.value);
      if (is_constant(p.value)) p.moves = false, p.at = register_at_[p.value];
    }
    for (PlannedTail& p : code.tails) p.operand = operand_of(p.value);
    std::erase_if(code.tails, [&](const PlannedTail& p) { return is_constant(p.value); });
  }
  raw_at_ = offset;
  offset += aligned(static_cast<size_t>(tile_) * 16);
  pointers_at_ = offset;
  offset += aligned(nodes_.size() * sizeof(void*));
  layouts_at_ = offset;
  offset += aligned(static_cast<size_t>(operands_ + results_));
  size_t costly = 0;
  for (Step& s : steps_) {
    costly += s.is_costly;
    if (!s.forwards) continue;
    s.stream_at = offset;
    offset += 2 * aligned(static_cast<size_t>(dense_tile_) * s.register_bytes);
  }
  threaded_codes_at_ = offset;
  size_t instructions = 0, pointers = 0;
  for (const PlannedThreadedCode& code : threaded_codes_)
    instructions += code.instructions.size(), pointers += code.pointers.size();
  offset += aligned(threaded_codes_.size() * sizeof(RunningThreadedCode)) +
            aligned(instructions * sizeof(Instruction)) + aligned(pointers * sizeof(MovingPointer));
  scratch_bytes_ = offset;
  // Memory traffic is interleaved with threaded code if there is any, else with the costly ops if there are any, else
  // with all ops.
  for (Step& s : steps_) s.is_costly = threaded_codes_.empty() && s.what == What::op && (s.is_costly || costly == 0);
  const size_t interleaved_ops = !threaded_codes_.empty() ? threaded_codes_.size() : costly > 0 ? costly : ops;
  size_t widest = 4;
  for (size_t i = once_; i < steps_.size(); ++i) widest = std::max<size_t>(widest, steps_[i].bytes);
  const auto piece = static_cast<size_t>(!threaded_codes_.empty() ? threaded_target_.block : kPiece);
  traffic_share_ = interleaved_ops == 0 ? 0 : aligned(piece * widest / interleaved_ops);
}

}  // namespace rlx::kernels
