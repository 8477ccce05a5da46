// See the header.
#include "frontends/mil/check_operation.h"

#include <algorithm>

#include "io/names_in_messages.h"

namespace rlx::mlprogram {
namespace {

constexpr int kLastOpset = 8;  // the newest that changed an op
constexpr uint64_t kMostWeightBytes = (uint64_t{1} << 31) - 1;

std::string listed(const std::vector<std::string>& dtypes) {
  std::string list;
  for (const std::string& each : dtypes) list += (list.empty() ? "" : ", ") + each;
  return list;
}

/// What is taken in the place of a parameter that the op does not have: where it has it, or what it is called there.
std::string where_it_is(const std::string& op, const Signature& signature, int opset, const std::string& name) {
  for (int other = kFirstOpset; other <= kLastOpset; ++other)
    if (const Signature* s = find_signature(op, other); s && other != opset && s->find(name))
      return text_of(
          other > opset ? "; it is there from CoreML" : "; it is there up to CoreML", other > opset ? other : [&] {
            int last = other;
            while (last + 1 < opset && find_signature(op, last + 1)->find(name)) ++last;
            return last;
          }());
  std::vector<std::string_view> names;
  for (const Parameter& p : signature.parameters) names.push_back(p.name);
  return nearest_names(name, names) + ": " + parameters_of(op, signature);
}

/// The dtypes of one operation's arguments, by the letters that say which are to be one.
class Dtypes {
 public:
  Dtypes(const Signature& signature, const OnFinding& found) : signature_(signature), found_(found) {}

  void check(const Parameter& p, const mil::ValueType& type) {
    auto domain = signature_.domains.find(p.kind);
    if (domain == signature_.domains.end()) {
      const bool is_state = type.kind == mil::ValueType::Kind::state, is_list = type.kind == mil::ValueType::Kind::list;
      if ((p.kind == "state") != is_state && p.kind != "any")
        found_("dtype", text_of("'", p.name, "' is ", type, "; it ", is_state ? "takes no state" : "takes a state"));
      else if (p.kind == "list" && !is_list) found_("dtype", text_of("'", p.name, "' is ", type, "; it takes a list"));
      return;
    }
    const auto& all = domain->second;
    if (type.kind != mil::ValueType::Kind::tensor)
      return found_("dtype", text_of("'", p.name, "' is ", type, "; it takes a tensor of ", listed(all)));
    std::string dtype = mil::name_of(type.dtype);
    if (std::find(all.begin(), all.end(), dtype) == all.end())
      return found_("dtype", text_of("'", p.name, "' is of ", dtype, "; it takes ", listed(all)));
    auto [it, is_first] = bound_.try_emplace(p.kind, p.name, dtype);
    if (!is_first && it->second.second != dtype)
      found_("dtype", text_of("'", p.name, "' is of ", dtype, " and '", it->second.first, "' of ", it->second.second,
                              "; they are to be of one"));
  }

 private:
  const Signature& signature_;
  const OnFinding& found_;
  std::map<std::string, std::pair<std::string, std::string>> bound_;  // letter -> the first parameter, its dtype
};

}  // namespace

bool is_identifier(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '@';
  });
}

const Signature* signature_of(const std::string& op, int opset, const OnFinding& found) {
  int first = 0;
  const Signature* signature = find_signature(op, opset, &first);
  if (!signature && first == 0)
    found("op", text_of("MIL has no op ", quoted_name(op), nearest_names(op, ops_with_signatures())));
  else if (!signature) found("op", text_of("'", op, "' is there from CoreML", first, " on, not in CoreML", opset));
  return signature;
}

void check_literal(const std::string& name, const mil::Value& value, const TensorOf& tensor_of,
                   const OnFinding& found) {
  if (!std::holds_alternative<mil::BlobRef>(value.data)) return;
  const auto& blob = std::get<mil::BlobRef>(value.data);
  try {
    Tensor t = tensor_of(value);
    if (t.byte_count() > kMostWeightBytes)
      found("blob", text_of("'", name, "' has ", t.byte_count(), " bytes; Core ML loads no blob of more than ",
                            kMostWeightBytes));
  } catch (const Error& e) {
    found("blob", text_of("'", name, "' stands at ", blob.offset, " of '", blob.file, "': ", e.what()));
  }
}

void check_arguments(const mil::Operation& op, const Signature& signature, int opset, const KnownOf& known_of,
                     const TensorOf& tensor_of, const OnFinding& found) {
  bool parameters_are_attributes = op.type.starts_with("constexpr_");
  for (const auto& [name, value] : op.attributes)
    if (name != "name" && !(parameters_are_attributes && signature.find(name)))
      found("attribute", text_of("the attribute '", name, "' is none of the op's"));
  Dtypes dtypes(signature, found);
  auto check_argument = [&](const Parameter& p, const mil::Argument& argument) {
    if (p.kind != "tuple" && p.kind != "list" && argument.size() > 1)
      found("argument", text_of("'", p.name, "' takes one value, and is given ", argument.size()));
    for (const mil::Binding& b : argument) {
      if (const auto* value = std::get_if<mil::Value>(&b)) {
        check_literal(p.name, *value, tensor_of, found);
        if (p.kind != "tuple") dtypes.check(p, value->type);
        continue;
      }
      const std::string& name = std::get<std::string>(b);
      const Known* known = known_of(name);
      if (!known) {
        found("name", text_of("'", p.name, "' reads '", name, "', which nothing before it defines"));
        continue;
      }
      if (p.constant && !known->constant)
        found("argument", text_of("'", p.name, "' is to be a constant, and '", name, "' is computed"));
      if (p.kind != "tuple") dtypes.check(p, known->type);
    }
  };
  for (const auto& [name, argument] : op.inputs)
    if (!signature.find(name))
      found("argument", text_of("there is no parameter ", quoted_name(name), " in CoreML", opset,
                                where_it_is(op.type, signature, opset, name)));
  // In the signature's order, so that what is said to differ is what comes behind.
  for (const Parameter& p : signature.parameters) {
    if (auto it = op.inputs.find(p.name); it != op.inputs.end()) check_argument(p, it->second);
    if (auto it = op.attributes.find(p.name); it != op.attributes.end()) {
      check_literal(p.name, it->second, tensor_of, found);
      if (p.kind != "tuple") dtypes.check(p, it->second.type);
    }
  }
  for (const Parameter& p : signature.parameters)
    if (!p.optional && !op.attributes.contains(p.name)) {
      auto it = op.inputs.find(p.name);
      // A list of nothing is how elem_shape of a list of scalars is written.
      if (it != op.inputs.end() && (!it->second.empty() || p.kind == "tuple")) continue;
      auto domain = signature.domains.find(p.kind);
      found("argument",
            text_of("the parameter '", p.name, "' is missing", domain == signature.domains.end() ? "" : "; it takes ",
                    domain == signature.domains.end() ? "" : listed(domain->second)));
    }
}

bool has_constant_results(const mil::Operation& op, const KnownOf& known_of) {
  if (op.type == "const" || op.type.starts_with("constexpr_")) return true;
  if (op.type.starts_with("random_") || op.type == "read_state" || !op.blocks.empty()) return false;
  for (const auto& [name, argument] : op.inputs)
    for (const mil::Binding& b : argument)
      if (const auto* text = std::get_if<std::string>(&b)) {
        const Known* known = known_of(*text);
        if (!known || !known->constant) return false;
      }
  return true;
}

}  // namespace rlx::mlprogram
