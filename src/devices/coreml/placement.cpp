// The rules, each with where it is published:
//   f16       the neural engine computes in f16 only (coremltools' guide, "Typed Execution")
//   ranges    flexible shapes given as ranges keep a model off it; enumerated ones do not (the guide, "Flexible Input
//             Shapes"; apple/coremltools issues 1764, 2370)
//   states    a state whose last dim is no multiple of 32 (issue 2631)
//   control   cond, while_loop and lists; shapes that data decide
//   rank      "Deploying Transformers on the Apple Neural Engine": tensors of rank 4 at best, 5 at most
//   layers    recurrent layers, gathers and scatters, dilated convolutions, large pools (the list of unsupported layers
//             of hollance/neural-engine)
// The graphics processor takes f16 and f32, and not integers, strings, control flow or what data decide the size of.
#include "devices/coreml/placement.h"

#include <cmath>
#include <set>

#include "frontends/mil/lower.h"

namespace rlx::mlprogram {
namespace {

using Refusal = std::optional<std::string>;

const std::set<std::string_view> kControl = {"cond",       "while_loop",  "make_list",    "list_read",
                                             "list_write", "list_gather", "list_scatter", "list_length"};
const std::set<std::string_view> kSizedByData = {"non_zero", "non_maximum_suppression", "range_1d", "shape"};
const std::set<std::string_view> kDraws = {"random_uniform", "random_normal", "random_bernoulli", "random_categorical"};
const std::set<std::string_view> kRecurrent = {"lstm", "gru", "rnn"};
const std::set<std::string_view> kIndexed = {
    "gather", "gather_nd",        "gather_along_axis", "scatter", "scatter_nd",  "scatter_along_axis",
    "topk",   "argsort",          "one_hot",           "cumsum",  "crop_resize", "resample",
    "affine", "reverse_sequence", "sliding_windows"};

class Prediction {
 public:
  Prediction(const mil::Model& model, const std::string& name, ComputeUnits units) : units_(units) {
    auto [found, function] = find_function(model, name);
    const mil::FunctionDescription* description = &model.main;
    for (const mil::FunctionDescription& d : model.functions)
      if (d.name == found) description = &d;
    for (const mil::Feature& f : description->inputs)
      if (!f.flexibility.ranges.empty()) ranged_ = f.name;
    for (const mil::NamedType& input : function.inputs) {
      if (input.type.kind == mil::ValueType::Kind::state && input.type.inner.size() == 1)
        if (auto shape = input.type.inner[0].shape(); shape && (shape->empty() || shape->back() % 32 != 0))
          odd_state_ = input.name;
      types_[input.name] = input.type;
    }
    walk(function.body(), false);
  }
  std::vector<PlacedOp> take() { return std::move(placements_); }

 private:
  void walk(const mil::Block& block, bool in_control) {
    for (const mil::Operation& op : block.operations) {
      for (const mil::NamedType& output : op.outputs) types_[output.name] = output.type;
      if (op.type == "const" || op.type.starts_with("constexpr_")) {
        constants_[op.outputs.empty() ? "" : op.outputs[0].name] = &op;
        if (op.type != "const")
          placements_.push_back({op.type, name_of(op), "load",
                                 "a weight that is written out, or kept small for the "
                                 "device that reads it"});
        continue;
      }
      placements_.push_back(place(op, in_control));
      for (const mil::Block& inner : op.blocks) walk(inner, true);
    }
  }

  PlacedOp place(const mil::Operation& op, bool in_control) {
    std::string why;
    if (units_ == ComputeUnits::all || units_ == ComputeUnits::ane) {
      Refusal refusal = ane_refuses(op, in_control);
      if (!refusal) return {op.type, name_of(op), "ane", "f16, and of the operations that it is known to take"};
      why = "not the neural engine: " + *refusal;
    }
    if (units_ == ComputeUnits::all || units_ == ComputeUnits::gpu) {
      Refusal refusal = gpu_refuses(op, in_control);
      if (!refusal) return {op.type, name_of(op), "gpu", why.empty() ? "of floats" : why};
      why += (why.empty() ? "not the graphics processor: " : "; not the graphics processor: ") + *refusal;
    }
    return {op.type, name_of(op), "cpu", why.empty() ? "nothing else was asked for" : why};
  }

  Refusal both_refuse(const mil::Operation& op, bool in_control) const {
    if (kControl.contains(op.type)) return "control flow and lists run on the CPU";
    if (in_control) return "it stands in a block of control flow";
    if (kSizedByData.contains(op.type)) return "data or shapes decide what it gives";
    if (kDraws.contains(op.type)) return "random numbers are drawn on the CPU";
    if (op.type == "classify") return "labels are chosen on the CPU";
    for (const mil::NamedType& output : op.outputs) {
      if (output.type.kind != mil::ValueType::Kind::tensor) return "it gives no tensor";
      auto dtype = mil::dtype_of(output.type.dtype);
      if (!dtype) return "it gives no numbers";
      if (!is_float(*dtype) && *dtype != boolean && op.type != "quantize")
        return text_of("it gives ", mil::name_of(output.type.dtype), ", and integers are computed on the CPU");
    }
    return std::nullopt;
  }
  Refusal gpu_refuses(const mil::Operation& op, bool in_control) const { return both_refuse(op, in_control); }

  Refusal ane_refuses(const mil::Operation& op, bool in_control) const {
    if (!ranged_.empty())
      return text_of("the shape of input '", ranged_,
                     "' is a range, which keeps the whole model off it; enumerate the shapes");
    if (!odd_state_.empty())
      return text_of("the last dim of the state '", odd_state_,
                     "' is no multiple of 32, which keeps the whole model off it");
    if (auto refusal = both_refuse(op, in_control)) return refusal;
    if (kRecurrent.contains(op.type)) return "recurrent layers run elsewhere";
    if (kIndexed.contains(op.type)) return "what moves data by computed places runs elsewhere";
    for (const mil::NamedType& output : op.outputs) {
      if (output.type.dtype == mil::DataType::float32) return "it computes in f32, and the engine in f16 only";
      if (output.type.dims.size() > 5) return text_of("of ", output.type.dims.size(), " dims");
      for (const mil::Dimension& d : output.type.dims)
        if (!d.size) return "a size is not known before the program runs";
    }
    for (const auto& [name, argument] : op.inputs)
      for (const mil::Binding& b : argument)
        if (const auto* text = std::get_if<std::string>(&b)) {
          auto it = types_.find(*text);
          if (it != types_.end() && it->second.dtype == mil::DataType::float32 && !constants_.contains(*text))
            return text_of("its operand '", *text, "' is f32, and the engine computes in f16 only");
        }
    if (op.type == "conv" || op.type == "conv_transpose")
      if (auto dilations = numbers(op, "dilations"))
        for (int64_t d : *dilations)
          if (d > 1) return text_of("a convolution dilated by ", d);
    if (op.type.ends_with("_pool")) {
      if (auto sizes = numbers(op, "kernel_sizes"))
        for (int64_t size : *sizes)
          if (size > 13) return text_of("a pool of ", size, ", more than 13");
      if (auto strides = numbers(op, "strides"))
        for (int64_t stride : *strides)
          if (stride > 2) return text_of("a pool with a stride of ", stride, ", more than 2");
    }
    return std::nullopt;
  }

  /// A parameter that is written in the program.
  std::optional<std::vector<int64_t>> numbers(const mil::Operation& op, const std::string& parameter) const {
    auto it = op.inputs.find(parameter);
    if (it == op.inputs.end() || it->second.size() != 1) return std::nullopt;
    const mil::Value* value = std::get_if<mil::Value>(&it->second[0]);
    if (const auto* name = std::get_if<std::string>(&it->second[0])) {
      auto constant = constants_.find(*name);
      if (constant == constants_.end()) return std::nullopt;
      auto val = constant->second->attributes.find("val");
      if (val != constant->second->attributes.end()) value = &val->second;
    }
    const Tensor* t = value ? std::get_if<Tensor>(&value->data) : nullptr;
    if (!t || t->dtype() != i32) return std::nullopt;
    auto all = t->values<int32_t>();
    return std::vector<int64_t>(all.begin(), all.end());
  }

  ComputeUnits units_;
  std::string ranged_, odd_state_;  // names of what keeps the model off the engine
  std::map<std::string, mil::ValueType> types_;
  std::map<std::string, const mil::Operation*> constants_;
  std::vector<PlacedOp> placements_;
};

}  // namespace

std::vector<PlacedOp> predict_placement(const mil::Model& model, const std::string& function, ComputeUnits units) {
  return Prediction(model, function, units).take();
}

PlacementReport placement_of(const std::vector<coreml_framework::PlannedOp>& plan) {
  PlacementReport report{false};
  for (const coreml_framework::PlannedOp& p : plan) {
    if (p.op == "const") continue;
    std::string reason = p.device.empty() ? "the plan names no processor" : "the plan prefers it";
    for (size_t i = 0; i < p.other.size(); ++i) reason += text_of(i == 0 ? "; possible too: " : ", ", p.other[i]);
    if (p.cost > 0) reason += text_of("; ", std::round(p.cost * 1000) / 10, " % of the estimated cost");
    bool load = p.device.empty() && p.op.starts_with("constexpr_");
    report.ops.push_back({p.op, p.output, load ? "load" : p.device, std::move(reason)});
  }
  return report;
}

PlacementReport placement_of(const std::string& package, const mil::Model& model, const std::string& function,
                             ComputeUnits units, const coreml_framework::Framework& framework) {
  std::string name = find_function(model, function).first;  // fails for one that there is not
  if (framework.present) {
    auto plan = framework.load(package, units, model.functions.empty() ? "" : name)->plan();
    if (!plan.empty()) return placement_of(plan);  // systems before macOS 14.4 have none
  }
  return {true, predict_placement(model, function, units)};
}

}  // namespace rlx::mlprogram
