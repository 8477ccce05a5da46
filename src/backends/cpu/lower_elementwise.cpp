// Lowers single element-wise ops, and fused regions of them, to programs for the element-wise machine
// (kernels/elementwise), which run tile by tile. Operands may have any strides, so broadcasts, transposes and slices of
// operands cost no copy.
#include <cstring>

#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "ir/leaves.h"
#include "kernels/elementwise/elementwise.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

using kernels::ElementwiseBuffer;
using kernels::ElementwiseOp;
using kernels::ElementwiseProgram;

std::optional<ElementwiseOp> machine_op(const Node& node) {
  struct Row {
    const OpDef* op;
    ElementwiseOp machine;
  };
#define RLX_SAME(name) {&op::name, ElementwiseOp::name},
  static const Row kRows[] = {
      RLX_SAME(abs) RLX_SAME(neg) RLX_SAME(sign) RLX_SAME(floor) RLX_SAME(ceil) RLX_SAME(round_nearest_even)
          RLX_SAME(round_nearest_afz) RLX_SAME(exp) RLX_SAME(expm1) RLX_SAME(log) RLX_SAME(log1p) RLX_SAME(sqrt)
              RLX_SAME(rsqrt) RLX_SAME(cbrt) RLX_SAME(sin) RLX_SAME(cos) RLX_SAME(tan) RLX_SAME(tanh) RLX_SAME(logistic)
                  RLX_SAME(erf) RLX_SAME(is_finite) RLX_SAME(popcnt) RLX_SAME(clz) RLX_SAME(real) RLX_SAME(imag)
                      RLX_SAME(complex) RLX_SAME(add) RLX_SAME(sub) RLX_SAME(mul) RLX_SAME(div) RLX_SAME(rem)
                          RLX_SAME(pow) RLX_SAME(atan2) RLX_SAME(shift_left) RLX_SAME(shift_right_logical)
                              RLX_SAME(shift_right_arithmetic) RLX_SAME(select) RLX_SAME(convert) RLX_SAME(reciprocal)
                                  RLX_SAME(exp2) RLX_SAME(log2) RLX_SAME(erfc) RLX_SAME(lgamma) RLX_SAME(asin)
                                      RLX_SAME(acos) RLX_SAME(atan) RLX_SAME(sinh) RLX_SAME(cosh) RLX_SAME(asinh)
                                          RLX_SAME(acosh) RLX_SAME(atanh) RLX_SAME(fma) RLX_SAME(relu)
                                              RLX_SAME(gelu_tanh) RLX_SAME(silu){&op::gelu, ElementwiseOp::gelu_erf},
      {&op::maximum, ElementwiseOp::max},
      {&op::minimum, ElementwiseOp::min},
      {&op::bitwise_not, ElementwiseOp::logical_not},
      {&op::bitwise_and, ElementwiseOp::logical_and},
      {&op::bitwise_or, ElementwiseOp::logical_or},
      {&op::bitwise_xor, ElementwiseOp::logical_xor},
  };
#undef RLX_SAME
  if (node.op == &op::compare) {
    const auto& a = node.attrs.as<CompareAttrs>();
    static constexpr ElementwiseOp kIeee[] = {ElementwiseOp::eq, ElementwiseOp::ne, ElementwiseOp::lt,
                                              ElementwiseOp::le, ElementwiseOp::gt, ElementwiseOp::ge};
    static constexpr ElementwiseOp kTotal[] = {ElementwiseOp::total_eq, ElementwiseOp::total_ne,
                                               ElementwiseOp::total_lt, ElementwiseOp::total_le,
                                               ElementwiseOp::total_gt, ElementwiseOp::total_ge};
    return (a.total_order ? kTotal : kIeee)[static_cast<size_t>(a.direction)];
  }
  for (const Row& row : kRows)
    if (row.op == node.op) return row.machine;
  return {};
}

/// Builds the program of a region, and the list of its operand buffers. An operand has a buffer for each way in which
/// it is used: with other strides (a broadcast), or as another dtype (its bits).
struct RegionBuilder {
  const std::vector<View>& operands;
  const Shape& space;  // the iteration space: the shape of all results
  ElementwiseProgram program = {};
  struct Load {
    size_t operand;
    std::vector<int64_t> strides;  // over `space`
    DType dtype;
    ElementwiseProgram::Value value;
  };
  std::vector<Load> loads = {};

  ElementwiseProgram::Value load(size_t operand, std::vector<int64_t> strides, DType as) {
    for (const Load& l : loads)
      if (l.operand == operand && l.strides == strides && l.dtype == as) return l.value;
    auto value = program.load(as, static_cast<int>(loads.size()));
    loads.push_back({operand, std::move(strides), as, value});
    return value;
  }
  ElementwiseProgram::Value constant(const Tensor& t) {
    if (is_integer(t.dtype()) || t.dtype() == boolean) {
      bool is_signed = kind_of(t.dtype()) == Kind::signed_int;
      return program.integer(t.dtype(),
                             is_signed ? load_element<int64_t>(t) : static_cast<int64_t>(load_element<uint64_t>(t)));
    }
    if (is_complex(t.dtype())) return program.constant(t.dtype(), load_element<Complex>(t));
    return program.constant(t.dtype(), load_element<double>(t));
  }
  template <class T>
  static T load_element(const Tensor& t) {
    return rlx::load<T>(t, 0);
  }

  template <class F>
  ElementwiseProgram::Value apply(const Node& node, const F& value_of) {
    std::vector<ElementwiseProgram::Value> in;
    for (Ref r : node.operands) in.push_back(value_of(r));
    in.resize(3, ElementwiseProgram::kNone);
    return program.apply(*machine_op(node), node.types[0].dtype, in[0], in[1], in[2]);
  }

  /// Translates a graph of element-wise ops, scalar constants, and broadcasts of inputs and constants. Returns the
  /// values of its outputs.
  std::vector<ElementwiseProgram::Value> build(const Graph& body) {
    /// What is known of a value of the body: a program's value, or an operand that is loaded when its strides are
    /// known.
    struct Known {
      std::optional<ElementwiseProgram::Value> value, bits;
      std::optional<size_t> operand;
      const Tensor* literal = nullptr;
      const Node* select = nullptr;  // a select of bits; it is also computed as a number if an op needs that
      std::vector<int64_t> strides = {};
    };
    std::vector<Known> known(body.nodes().size());
    size_t next_input = 0;
    std::function<ElementwiseProgram::Value(Ref)> value_of = [&](Ref r) {
      Known& k = known[size_t(r.node)];
      if (k.value) return *k.value;
      if (k.operand) k.value = load(*k.operand, k.strides, operands[*k.operand].dtype);
      else if (k.literal) k.value = constant(*k.literal);
      else k.value = apply(*k.select, value_of);
      return *k.value;
    };
    // f16 and bf16 values are f32 in registers, and a NaN's bits may change on the way to f32 and back. So a select
    // between operands or constants selects their bits as u16.
    auto has_bits = [&](Ref r) {
      const Known& k = known[size_t(r.node)];
      return (body.type(r).dtype == f16 || body.type(r).dtype == bf16) && (k.operand || k.literal || k.bits);
    };
    auto bits_of = [&](Ref r) {
      Known& k = known[size_t(r.node)];
      if (!k.bits && k.operand) k.bits = load(*k.operand, k.strides, u16);
      if (!k.bits) {
        uint16_t bits = 0;
        std::memcpy(&bits, k.literal->data(), sizeof bits);
        k.bits = program.integer(u16, bits);
      }
      return *k.bits;
    };
    for (size_t n = 0; n < body.nodes().size(); ++n) {
      const Node& node = body.nodes()[n];
      if (node.op == &op::input) {
        known[n].operand = next_input;
        known[n].strides = operands[next_input++].strides;
      } else if (node.op == &op::constant) {
        known[n].literal = &node.attrs.as<ConstantAttrs>().value;
      } else if (node.op == &op::broadcast_in_dim) {
        const Known& from = known[size_t(node.operands[0].node)];
        known[n] = {{}, {}, from.operand, from.literal};
        const auto& a = node.attrs.as<BroadcastAttrs>();
        Axes axes = valid_axes(a.axes, a.dims.size());
        const Dims& in = body.type(node.operands[0]).dims;
        known[n].strides.assign(a.dims.size(), 0);
        if (from.operand)
          for (size_t d = 0; d < axes.size(); ++d)
            if (in[d] != Dim(1)) known[n].strides[size_t(axes[d])] = from.strides[d];
      } else {
        if (node.op == &op::select && has_bits(node.operands[1]) && has_bits(node.operands[2])) {
          known[n].select = &node;
          known[n].bits = program.apply(ElementwiseOp::select, u16, value_of(node.operands[0]),
                                        bits_of(node.operands[1]), bits_of(node.operands[2]));
        } else {
          known[n].value = apply(node, value_of);
        }
      }
    }
    std::vector<ElementwiseProgram::Value> results;
    for (const Output& o : body.outputs())
      results.push_back(known[size_t(o.ref.node)].select ? bits_of(o.ref) : value_of(o.ref));
    return results;
  }
};

/// Rough estimate of the time per element and op, in nanoseconds on one thread.
constexpr double kElement_ns = 0.15;

Prepared region_step(const Graph& body, const LoweringContext& c) {
  const Shape& space = c.results[0].shape;
  RegionBuilder builder{c.operands, space};
  auto results = builder.build(body);
  for (size_t r = 0; r < results.size(); ++r) builder.program.store(results[r], static_cast<int>(r));
  builder.program.compile();

  // Merge neighbouring dims that have one common stride in every buffer. In a run, only the pointers still have to be
  // set.
  size_t operand_count = builder.loads.size(), count = operand_count + results.size();
  Shape dims = space;
  std::vector<std::vector<int64_t>> strides;
  for (const auto& l : builder.loads) strides.push_back(l.strides);
  for (const View& v : c.results) strides.push_back(v.strides);
  for (size_t d = dims.size(); d-- > 0;) {
    bool drop = dims[d] == 1;
    bool merge = !drop && d + 1 < dims.size();
    if (merge)
      for (const auto& s : strides) merge = merge && s[d] == s[d + 1] * dims[d + 1];
    if (merge) {
      dims[d + 1] *= dims[d];
      drop = true;
    }
    if (!drop) continue;
    dims.erase(dims.begin() + std::ptrdiff_t(d));
    for (auto& s : strides) s.erase(s.begin() + std::ptrdiff_t(d));
  }
  if (dims.size() > static_cast<size_t>(kernels::kMaxElementwiseRank))
    fail(ErrorCode::unsupported, "an element-wise region over ", dims.size(), " dims that do not merge; the CPU takes ",
         kernels::kMaxElementwiseRank);

  struct Plan {
    ElementwiseProgram program;
    kernels::ElementwiseCall call;
    std::vector<ElementwiseBuffer> buffers;
    std::vector<size_t> operand_of;
  };
  auto plan = std::make_shared<Plan>();
  plan->program = std::move(builder.program);
  plan->call.rank = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), plan->call.dims);
  plan->buffers.resize(count);
  for (size_t b = 0; b < count; ++b) std::copy(strides[b].begin(), strides[b].end(), plan->buffers[b].strides);
  for (const auto& l : builder.loads) plan->operand_of.push_back(l.operand);

  int64_t elements = c.results[0].count();
  size_t per_thread = aligned(plan->program.scratch_bytes());
  size_t buffer_bytes = aligned(count * sizeof(ElementwiseBuffer));
  size_t nodes = body.nodes().size();
  return make_step(
      "elementwise", buffer_bytes + per_thread * static_cast<size_t>(c.threads), [=](const StepArgs& args) {
        // Strides are fixed, but pointers differ from run to run. So each run copies the buffers to its scratch and
        // sets their pointers there.
        auto* buffers = new (args.scratch) ElementwiseBuffer[count];
        std::copy(plan->buffers.begin(), plan->buffers.end(), buffers);
        for (size_t b = 0; b < operand_count; ++b) buffers[b].data = args.operands[plan->operand_of[b]];
        for (size_t b = operand_count; b < count; ++b) buffers[b].data = args.results[b - operand_count];
        kernels::ElementwiseCall call = plan->call;
        call.operands = buffers;
        call.results = buffers + operand_count;
        for_ranges(args, elements, plan->program.tile(),
                   static_cast<double>(elements) * kElement_ns * static_cast<double>(nodes),
                   [&](int64_t begin, int64_t end, int64_t task) {
                     plan->program.run(call, begin, end,
                                       args.scratch + buffer_bytes + per_thread * static_cast<size_t>(task));
                   });
      });
}

}  // namespace

std::string when_elementwise(const Question& q) {
  if (auto why = when::is_byte_sized(q); !why.empty()) return why;
  if (q.operands[0].rank() > static_cast<size_t>(kernels::kMaxElementwiseRank))
    return text_of("rank ", q.operands[0].rank(), " is above ", kernels::kMaxElementwiseRank);
  return "";
}

std::string when_region(const Question& q) {
  if (auto why = when::is_byte_sized(q); !why.empty()) return why;
  const Graph& body = *q.node.attrs.as<ElementwiseRegionAttrs>().body;
  for (const Node& node : body.nodes()) {
    if (node.op == &op::input || node.op == &op::constant || node.op == &op::broadcast_in_dim) continue;
    if (!machine_op(node)) return text_of("the element-wise machine does not know '", node.op->name, "'");
    // A broadcast of a computed value is refused: what comes before it would need a smaller iteration space.
    for (Ref r : node.operands)
      if (body.node(r).op == &op::broadcast_in_dim) {
        const OpDef* source = body.node(body.node(r).operands[0]).op;
        if (source != &op::input && source != &op::constant) return "a computed value is broadcast inside";
      }
  }
  Dims dims = q.node.types[0].dims;
  for (const Type& t : q.node.types)
    if (t.dims != dims) return "its results differ in their dims";
  for (const Output& o : body.outputs())
    if (!machine_op(body.node(o.ref))) return "a result is an operand or a broadcast";
  return dims.size() > static_cast<size_t>(kernels::kMaxElementwiseRank)
             ? text_of("rank ", dims.size(), " is above ", kernels::kMaxElementwiseRank)
             : "";
}
Prepared lower_region(const LoweringContext& c) { return region_step(*c.attrs<ElementwiseRegionAttrs>().body, c); }

std::vector<size_t> overwritable_operands(const Node& node) {
  std::vector<size_t> all;
  if (node.op != &op::elementwise_region) {
    for (size_t i = 0; i < node.operands.size(); ++i) all.push_back(i);
    return all;
  }
  const Graph& body = *node.attrs.as<ElementwiseRegionAttrs>().body;
  Uses uses(body);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const auto& users = uses.of(body.inputs()[i]);
    // A broadcast reads elements at other indices than the one that is written, and these may be overwritten already.
    if (std::none_of(users.begin(), users.end(),
                     [&](int32_t n) { return body.nodes()[size_t(n)].op == &op::broadcast_in_dim; }))
      all.push_back(i);
  }
  return all;
}
bool is_machine_op(const Node& node) { return machine_op(node).has_value(); }

Prepared lower_elementwise(const LoweringContext& c) {
  std::vector<Type> types;
  for (const View& v : c.operands) types.push_back({v.dtype, Dims(v.shape.begin(), v.shape.end())});
  Graph body = trace(types, [&](Graph& g, Values in) {
    return g.emit(*c.node.op, {in.begin(), in.end()}, c.node.attrs);
  });
  return region_step(body, c);
}

}  // namespace rlx::cpu
