// The rows as a list, what programs can carry, and the conditions that several rows have.
#include "backends/coreml/lowerings.h"

#include "backends/coreml/coreml.h"
#include "backends/coreml/weights.h"
#include "passes/fold_weights.h"
#include "rlx/ops.h"

namespace rlx::coreml {
namespace {

const Row kRows[] = {
#define RLX_LOWERING(name, condition, opset, function, ...) \
  {&op::name, condition, opset, function __VA_OPT__(, ) __VA_ARGS__},
#include "backends/coreml/lowerings.def"
#undef RLX_LOWERING
};

bool has_symbols(const Type& t) { return !is_static(t.dims); }

/// Why a row does not take a node some of whose dims are symbols; nothing if it does, or all are numbers.
std::optional<std::string> cannot_be_open(const Row& row, const Question& q) {
  if (!row.also.open || (std::none_of(q.operands.begin(), q.operands.end(), has_symbols) &&
                         std::none_of(q.node.types.begin(), q.node.types.end(), has_symbols)))
    return std::nullopt;
  auto what = row.also.open(q);
  if (what) what = text_of("in an ML Program ", *what, " must be numbers, and here are symbols; give them numbers");
  return what;
}

bool is_constant_only(const Row& row, size_t operand) { return operand < 32 && (row.also.constants >> operand & 1); }

/// Why a row that has constants only for some operands does not take the node.
std::optional<std::string> not_constant(const Row& row, const Question& q) {
  for (size_t i = 0; i < q.operands.size(); ++i)
    if (is_constant_only(row, i) && !(q.is_weight && q.is_weight(i)))
      return text_of("the operation has constants only for ", q.node.op->operands[i],
                     ", and here it is computed from an input");
  return std::nullopt;
}

}  // namespace

std::span<const Row> rows() { return kRows; }

Graph with_constant_weights(const Graph& legal) {
  return fold_weights(legal, [](const Node& node, size_t operand) {
    return std::any_of(std::begin(kRows), std::end(kRows),
                       [&](const Row& row) { return row.op == node.op && is_constant_only(row, operand); });
  });
}

const Row* find_row(const Question& q, const Options& options, std::string* why) {
  std::string reason;
  for (const Row& row : kRows) {
    if (row.op != q.node.op) continue;
    if (row.also.other_stream && !options.native_random) continue;  // drawn from its key then, by what it is made of
    if (row.opset > options.newest_opset)
      reason = text_of("it needs opset CoreML", row.opset, " (iOS ", row.opset + 10, ")");
    else if (auto open = cannot_be_open(row, q)) reason = *open;
    else if (auto refusal = row.when(q)) reason = *refusal;
    else if (auto constants = not_constant(row, q)) reason = *constants;
    else return &row;
  }
  if (why)
    *why = !reason.empty()             ? reason
           : q.node.op->is_primitive() ? "there is no lowering to an ML Program yet"
                                       : "ML Programs have no such operation";
  return nullptr;
}

bool is_left_to_row(const OpDef* op, size_t operand) {
  return operand < packing_of(op).operands || std::any_of(std::begin(kRows), std::end(kRows), [&](const Row& row) {
           return row.op == op && is_constant_only(row, operand);
         });
}

Packing packing_of(const OpDef* op) {
  for (const Row& row : kRows)
    if (row.op == op && row.also.packing.operands > 0) return row.also.packing;
  return {};
}

int opset_for_weights(const Graph& legal) {
  int opset = 0;
  for (const Node& node : legal.nodes()) {
    Packing packing = packing_of(node.op);
    if (packing.operands == 0) continue;
    const Node& from = legal.node(node.operands[0]);
    if (from.op != &op::constant) continue;
    const Tensor& codes = from.attrs.as<ConstantAttrs>().value;
    if (!are_codes(codes.dtype()) || codes.element_count() < kManyWeights) continue;
    opset = std::max(opset, info(codes.dtype()).bits == 8 ? packing.opset_of_bytes : packing.opset);
  }
  return opset;
}

std::optional<DType> carried(DType dtype) {
  switch (dtype) {
    case f16:
    case f32:
    case boolean: return dtype;
    default: break;
  }
  if (is_float(dtype)) return f32;
  if (is_integer(dtype)) return i32;
  return std::nullopt;
}

namespace {

/// A number of i64 in i32: the least and the greatest that there are stay that, as what reductions begin with; others
/// wrap.
int64_t in_32_bits(int64_t v) {
  using Wide = std::numeric_limits<int64_t>;
  using Narrow = std::numeric_limits<int32_t>;
  return v == Wide::min() ? Narrow::min() : v == Wide::max() ? Narrow::max() : static_cast<int32_t>(v);
}

}  // namespace

Tensor carried_constant(const Tensor& t) {
  DType dtype = *carried(t.dtype());
  Shape shape = t.rank() == 0 ? Shape{1} : t.shape();
  if (dtype == t.dtype()) return t.reshaped(shape);
  Tensor converted = Tensor::uninitialized(dtype, shape);
  for (size_t i = 0; i < t.element_count(); ++i) {
    if (is_float(dtype)) store<double>(converted, i, load_number(t, i));
    else if (kind_of(t.dtype()) == Kind::unsigned_int)
      store<int64_t>(converted, i, static_cast<int32_t>(static_cast<uint32_t>(load<uint64_t>(t, i))));
    else store<int64_t>(converted, i, in_32_bits(load<int64_t>(t, i)));
  }
  return converted;
}

std::optional<std::string> not_carried(const Type& type, const TypeRules& rules) {
  auto dtype = carried(type.dtype);
  if (!dtype) return text_of("Core ML computes nothing in ", type.dtype);
  if (info(type.dtype).bits > 32 && !rules.narrow)
    return text_of("Core ML has no ", type.dtype, "; it is narrowed to ", *dtype,
                   " only on request (--narrow, narrow=True)");
  if (type.rank() > kMostDims) return text_of(type, " has rank ", type.rank(), ", and Core ML at most ", kMostDims);
  for (const Dim& d : type.dims) {
    if (!d.is_static()) {
      if (rules.open_dims) continue;
      return text_of(type, " has a dim that is no number; give its symbols numbers");
    }
    if (d.value() == 0) return text_of(type, " has no elements, and Core ML no such tensors");
    if (d.value() > std::numeric_limits<int32_t>::max()) return text_of(type, " has a dim beyond 32 bits");
  }
  return std::nullopt;
}

Shape Lowering::shape(size_t i) const { return e.carried(result(i)); }
DType Lowering::dtype(size_t i) const { return *carried(result(i).dtype); }

Var wrapped(Emitter& e, const Var& x, DType dtype) {
  if (!is_integer(dtype) || info(dtype).bits >= 32) return x;
  double span = static_cast<double>(int64_t{1} << info(dtype).bits);
  if (kind_of(dtype) == Kind::unsigned_int) return e.binary("mod", x, e.number(i32, span));
  return e.sub(e.binary("mod", e.add(x, span / 2), e.number(i32, span)), span / 2);
}

namespace when {

std::optional<std::string> is_float(const Question& q) {
  for (const Type& t : q.operands)
    if (!rlx::is_float(t.dtype)) return text_of("of floats only, and not of ", t.dtype);
  return std::nullopt;
}
std::optional<std::string> is_one_float(const Question& q) {
  for (const Type& t : q.operands)
    if (t.dtype != q.operands[0].dtype)
      return text_of("of one dtype only, and not of ", q.operands[0].dtype, " and ", t.dtype);
  return is_float(q);
}
std::optional<std::string> is_number(const Question& q) {
  for (const Type& t : q.operands)
    if (t.dtype == boolean) return "of numbers only, and not of bools";
  // i64 is narrowed as a number; u64 is where bits are drawn and mixed, whose high half counts.
  if ((q.node.op == &op::div || q.node.op == &op::rem) && q.operands[0].dtype == u64)
    return "quotients and remainders of u64 are of bits above the 32 that are carried";
  return std::nullopt;
}
std::optional<std::string> is_boolean(const Question& q) {
  for (const Type& t : q.operands)
    if (t.dtype != boolean)
      return text_of("of bools only, and not of ", t.dtype, ": ML Programs have no operations on bits");
  return std::nullopt;
}

}  // namespace when
}  // namespace rlx::coreml
