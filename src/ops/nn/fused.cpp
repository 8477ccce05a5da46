// Fused composites; see the header. Fused products and norms stand with their families.
#include "rlx/ops/fused.h"

#include <cmath>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "ops/control/subgraph_rules.h"
#include "ops/core/composite_rules.h"

namespace rlx {

std::vector<Value> elementwise_region(std::vector<Value> operands, Graph body) {
  if (operands.empty()) fail(ErrorCode::invalid_argument, "elementwise_region needs an operand to know its graph");
  Graph& g = operands[0].graph();
  return g.emit(op::elementwise_region, std::move(operands), ElementwiseRegionAttrs{Subgraph(std::move(body))});
}
Value glu(Value x, Activation activation, int64_t axis, bool gate_first) {
  return emit(op::glu, {x}, GluAttrs{activation, axis, gate_first});
}
Value fused_swiglu(Value x, bool gate_first) { return emit(op::fused_swiglu, {x}, FusedSwigluAttrs{gate_first}); }

namespace {

Type glu_type(const Type& x, int64_t axis) {
  require_kind(x, kReal);
  Type t = x;
  Dim& both = t.dims[size_t(valid_axis(axis, x.rank()))];
  if (both.is_static() && both.value() % 2 != 0)
    fail(ErrorCode::shape_mismatch, "axis ", axis, " of ", x, " holds values and gates; ", both, " is odd");
  both = both / 2;
  return t;
}

double activated(double x, Activation kind) {
  switch (kind) {
    case Activation::none: break;
    case Activation::relu: return x < 0 ? 0 : x;
    case Activation::gelu: return x * (0.5 * std::erfc(-x * M_SQRT1_2));
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::tanh: return std::tanh(x);
    case Activation::relu6: return x < 0 ? 0 : x > 6 ? 6 : x;
    case Activation::hard_swish: return x * (x < -3 ? 0 : x > 3 ? 6 : x + 3) / 6;
  }
  return x;
}

Tensor glu_of(const Tensor& in, const GluAttrs& a) {
  Array<double> x(in), y(shape_of(glu_type(in.type(), a.axis).dims));
  auto axis = size_t(valid_axis(a.axis, in.rank()));
  int64_t half = y.shape[axis];
  for_each_index(y.shape, [&](const Axes& i) {
    Axes first = i, second = i;
    second[axis] += half;
    double value = x.at(a.gate_first ? second : first), gate = x.at(a.gate_first ? first : second);
    y.at(i) = value * activated(gate, a.activation);
  });
  return y.rounded_to(in.dtype());
}

}  // namespace

OpDef define_elementwise_region() {
  return define<ElementwiseRegionAttrs>({
      .name = "elementwise_region",
      .doc = "the results of `body`, a chain of element-wise ops, constants and broadcast_in_dim; each of "
             "them rounds as it would alone",
      .operands = {"xs..."},
      .covers = {"ElementwiseRegion"},
      .infer =
          [](Types in, const ElementwiseRegionAttrs& a) {
            std::vector<Type> given(in.begin(), in.end());
            if (required(a.body, "body").input_types() != given) {
              std::ostringstream out;
              print(out << "the body takes ", a.body->input_types());
              print(out << ", but is handed ", given);
              fail(ErrorCode::shape_mismatch, out.str());
            }
            for (const Node& node : a.body->nodes())
              if (!node.op->elementwise && node.op != &op::broadcast_in_dim && node.op != &op::constant &&
                  node.op != &op::input)
                fail(ErrorCode::invalid_argument, "an element-wise region cannot hold '", node.op->name,
                     "'; it takes element-wise ops, constants and broadcast_in_dim");
            return Many<Type>(a.body->output_types());
          },
      .reference = [](Tensors in, const ElementwiseRegionAttrs& a, const Run& run) { return run(*a.body, in); },
      .decompose =
          [](Graph& g, Values in, const ElementwiseRegionAttrs& a) {
            // Operands of low precision arrive widened, which loses nothing; the body has its own idea where
            // to round.
            std::vector<Value> inputs(in.begin(), in.end());
            auto types = a.body->input_types();
            for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = convert(inputs[i], types[i].dtype);
            return splice(g, *a.body, inputs);
          },
      .samples =
          [] {
            auto region = [](std::vector<Type> types, auto body) {
              Graph g = trace(types, body);
              Sample s{.attrs = ElementwiseRegionAttrs{Subgraph(std::move(g))}};
              for (const Type& t : types) s.dims.push_back(t.dims), s.dtypes.push_back(t.dtype);
              return s;
            };
            return std::vector<Sample>{
                region({{f64, {3, 4}}, {f64, {4}}}, [](Values v) { return gelu(v[0] + v[1]) * 2.0; }),
                region({{f64, {2, 3}}, {i32, {2, 3}}},
                       [](Values v) {
                         Value x = convert(v[1], f64) * v[0];
                         return std::vector{tanh(x), select(compare(x, zeros_like(x), Comparison::gt), x, v[0])};
                       }),
                region({{f16, {5}}, {f16, {5}}}, [](Values v) { return (v[0] + v[1]) * v[1]; }),
                region({{f64, {}}, {f64, {}}}, [](Values v) { return maximum(v[0], v[1]) / 3.0; }),
                region({{bf16, {0, 3}}}, [](Values v) { return exp(v[0]); })};
          },
  });
}

OpDef define_glu() {
  return define<GluAttrs>({
      .name = "glu",
      .doc = "one half of x along `axis` times the activation of the other half, the gate: the second half "
             "unless gate_first",
      .source = "Dauphin et al., ICML 2017; Shazeer, arXiv:2002.05202: with other activations",
      .operands = {"x"},
      .infer = [](Types in, const GluAttrs& a) { return glu_type(in[0], a.axis); },
      .reference = [](Tensors in, const GluAttrs& a) { return glu_of(in[0], a); },
      .decompose =
          [](Values in, const GluAttrs& a) {
            Dim both = in[0].dim(a.axis), half = both / 2;
            Value first = slice_axis(in[0], a.axis, 0, half), second = slice_axis(in[0], a.axis, half, both);
            return a.gate_first ? second * activate(first, a.activation) : first * activate(second, a.activation);
          },
      .samples = {{.dims = {{3, 8}}},
                  {.dims = {{2, 4, 3}}, .attrs = GluAttrs{Activation::gelu, 1, true}},
                  {.dims = {{6}}, .attrs = GluAttrs{Activation::none}},
                  {.dims = {{6}}, .attrs = GluAttrs{Activation::relu, 0}},
                  {.dims = {{2, 6}}, .attrs = GluAttrs{Activation::gelu_tanh}},
                  {.dims = {{2, 6}}, .attrs = GluAttrs{Activation::tanh}},
                  {.dims = {{2, 0}}}},
  });
}

OpDef define_fused_swiglu() {
  return define<FusedSwigluAttrs>({
      .name = "fused_swiglu",
      .doc = "glu with silu along the last dim",
      .source = "Shazeer, arXiv:2002.05202",
      .operands = {"x"},
      .covers = {"FusedSwiGLU"},
      .infer = [](Types in) { return glu_type(in[0], -1); },
      .reference =
          [](Tensors in, const FusedSwigluAttrs& a) {
            return glu_of(in[0], {Activation::silu, -1, a.gate_first});
          },
      .decompose = [](Values in, const FusedSwigluAttrs& a) { return glu(in[0], Activation::silu, -1, a.gate_first); },
      .samples = {{.dims = {{3, 8}}},
                  {.dims = {{2, 3, 4}}, .attrs = FusedSwigluAttrs{true}},
                  {.dims = {{2}}, .lo = -90, .hi = 90},
                  {.dims = {{0, 4}}},
                  {.dims = {{3, 1, 38}}, .dtypes = {bf16}, .attrs = FusedSwigluAttrs{true}}},
  });
}

}  // namespace rlx
