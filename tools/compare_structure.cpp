// See the header.
#include "tools/compare_structure.h"

#include <cmath>
#include <set>
#include <string_view>
#include <variant>

#include "rlx/element.h"

namespace rlx::tools {
namespace {

bool is_seen_through(std::string_view op) {
  return op == "cast" || op == "identity" || op == "quantize" || op == "dequantize";
}

std::string shape_text(const mil::ValueType& type) {
  std::string text;
  for (const mil::Dimension& d : type.dims)
    text += text_of(text.empty() ? "" : ", ", d.variadic ? "..." : d.size ? text_of(*d.size) : "?");
  return "[" + text + "]";
}

/// What reads a structure off a block.
class StructureReader {
 public:
  explicit StructureReader(const MlPackage& package) : package_(package) {}

  ProgramStructure read(const mil::Function& function) {
    for (const mil::NamedType& input : function.inputs) {
      const bool is_state = input.type.kind == mil::ValueType::Kind::state && input.type.inner.size() == 1;
      add({.op = "input", .literals = {{"name", {input.name}}}},
          {{input.name, is_state ? input.type.inner[0] : input.type}});
    }
    const mil::Block& body = function.body();
    for (const mil::Operation& op : body.operations) read(op);
    for (const std::string& name : body.outputs)
      if (auto found = values_.find(name); found != values_.end()) structure_.outputs.push_back({name, found->second});
    return std::move(structure_);
  }

 private:
  void add(ProgramStructure::Node node, const std::vector<mil::NamedType>& results) {
    node.first = structure_.values.size(), node.results = results.size();
    for (const mil::NamedType& each : results) {
      values_[each.name] = structure_.values.size();
      structure_.values.push_back({structure_.nodes.size(), each.name, shape_text(each.type)});
    }
    structure_.nodes.push_back(std::move(node));
  }

  Literal literal_of(const mil::Value& value) const {
    if (const auto* strings = std::get_if<std::vector<std::string>>(&value.data)) {
      std::string all;
      for (const std::string& each : *strings) all += "'" + each + "'";
      return {all};
    }
    const bool is_tensor =
        std::holds_alternative<Tensor>(value.data) || std::holds_alternative<mil::BlobRef>(value.data);
    const std::optional<DType> dtype = mil::dtype_of(value.type.dtype);
    if (!is_tensor || !dtype) return {"a " + shape_text(value.type)};
    const std::optional<Shape> shape = value.type.shape();
    const bool is_one = shape && element_count(*shape) == 1;
    if (is_float(*dtype) && !is_one) return {"numbers " + shape_text(value.type)};
    const Tensor t = package_.tensor(value);
    if (is_float(*dtype)) return {"a number", load_number(t, 0)};
    // Of integers the content, whatever their width: axes, sizes, indices.
    std::string text = t.element_count() == 1 ? "" : shape_text(value.type);
    constexpr size_t kMostSpelled = 64;
    if (t.element_count() <= kMostSpelled) {
      for (size_t i = 0; i < t.element_count(); ++i) text += text_of(" ", load_number(t, i));
      return {text};
    }
    uint64_t hash = 1469598103934665603ull;  // FNV-1a
    for (size_t i = 0; i < t.element_count(); ++i)
      hash = (hash ^ static_cast<uint64_t>(static_cast<int64_t>(load_number(t, i)))) * 1099511628211ull;
    return {text_of(text, " ", hash)};
  }

  /// Names that blocks read from around them.
  void add_captured(const mil::Block& block, ProgramStructure::Node& node) {
    for (const mil::Operation& op : block.operations) {
      for (const auto& [argument, bindings] : op.inputs)
        for (const mil::Binding& binding : bindings)
          if (const auto* name = std::get_if<std::string>(&binding))
            if (auto found = values_.find(*name); found != values_.end())
              node.operands.push_back({text_of("inside.", node.operands.size()), found->second});
      for (const mil::Block& inner : op.blocks) add_captured(inner, node);
    }
  }

  void read(const mil::Operation& op) {
    if (op.type == "const") {
      if (auto value = op.attributes.find("val"); value != op.attributes.end() && op.outputs.size() == 1)
        constants_[op.outputs[0].name] = literal_of(value->second);
      return;
    }
    ProgramStructure::Node node{.op = op.type, .has_blocks = !op.blocks.empty()};
    const bool is_constexpr = op.type.starts_with("constexpr_");
    for (const auto& [argument, bindings] : op.inputs) {
      if (is_constexpr) break;
      for (size_t i = 0; i < bindings.size(); ++i) {
        const std::string spelled = bindings.size() == 1 ? argument : text_of(argument, ".", i);
        if (const auto* value = std::get_if<mil::Value>(&bindings[i])) {
          node.literals[spelled] = literal_of(*value);
          continue;
        }
        const std::string& name = std::get<std::string>(bindings[i]);
        if (auto constant = constants_.find(name); constant != constants_.end())
          node.literals[spelled] = constant->second;
        else if (auto found = values_.find(name); found != values_.end())
          node.operands.push_back({spelled, found->second});
      }
    }
    for (const mil::Block& block : op.blocks) add_captured(block, node);
    // Of constants alone: a constant, however it is packed or laid out. Random numbers are none.
    if (node.operands.empty() && op.blocks.empty() && !op.type.starts_with("random_")) {
      for (const mil::NamedType& out : op.outputs) constants_[out.name] = {"numbers " + shape_text(out.type)};
      return;
    }
    if (is_seen_through(op.type) && node.operands.size() == 1 && op.outputs.size() == 1) {
      values_[op.outputs[0].name] = node.operands[0].value;
      return;
    }
    add(std::move(node), op.outputs);
  }

  const MlPackage& package_;
  ProgramStructure structure_;
  std::map<std::string, size_t> values_;
  std::map<std::string, Literal> constants_;
};

}  // namespace

bool Literal::is_like(const Literal& other) const {
  if (text != other.text) return false;
  if (!number || !other.number) return number.has_value() == other.number.has_value();
  const double x = *number, y = *other.number;
  constexpr double kNear = 0.02, kTiny = 1e-4, kHuge = 1e4;  // of f16: epsilons become 2^-24, the lowest number -65504
  if (x == y || (std::abs(x) < kTiny && std::abs(y) < kTiny)) return true;
  if (std::abs(x) >= kHuge && std::abs(y) >= kHuge && (x < 0) == (y < 0)) return true;
  return std::abs(x - y) <= kNear * std::max(std::abs(x), std::abs(y));
}

ProgramStructure structure_of(const MlPackage& package, const std::string& function) {
  return StructureReader(package).read(package.model().program.functions.at(function));
}

}  // namespace rlx::tools
