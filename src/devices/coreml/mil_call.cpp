// See the header.
#include "devices/coreml/mil_call.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "rlx/element.h"

namespace rlx {
namespace {

using mlprogram::Parameter;
using MilSignature = mlprogram::Signature;  // rlx::Signature is of graphs
using Content = MilArgument::Content;

struct WrongArgument {
  std::string what;
};
template <class... Parts>
[[noreturn]] void refuse_argument(const Parts&... parts) {
  throw WrongArgument{text_of(parts...)};
}

bool is_float_name(std::string_view dtype) { return dtype == "fp16" || dtype == "fp32"; }

DType dtype_named(std::string_view name) {
  for (DType dtype : {f16, f32, boolean, i4, i8, i16, i32, u1, u2, u3, u4, u6, u8, u16, u32})
    if (mil::name_of(mil::data_type_of(dtype)) == name) return dtype;
  fail(ErrorCode::internal, "'", name, "' is no dtype of a constant");
}

std::string list_of(const std::vector<std::string>& all) {
  std::string list;
  for (const std::string& each : all) list += (list.empty() ? "" : ", ") + each;
  return list;
}

/// What is known of one call before its literals have dtypes.
class CallDtypes {
 public:
  CallDtypes(const MilSignature& signature, const MilArguments& arguments, const mlprogram::KnownOf& known_of)
      : signature_(signature) {
    for (const Parameter& p : signature.parameters)
      for (const auto& [name, argument] : arguments) {
        if (name != p.name) continue;
        std::optional<mil::DataType> dtype;
        if (const auto* values = std::get_if<std::vector<MilValue>>(&argument.content)) {
          if (values->empty()) continue;
          const mlprogram::Known* known = known_of(values->front().name());
          if (known && known->type.kind == mil::ValueType::Kind::tensor) dtype = known->type.dtype;
          if (known && p.name == "x") rank_ = known->type.dims.size();
        } else if (const auto* tensor = std::get_if<Tensor>(&argument.content)) {
          dtype = mil::data_type_of(tensor->dtype());
          if (p.name == "x") rank_ = tensor->rank();
        }
        if (!dtype || !signature.domains.contains(p.kind)) continue;
        letters_.try_emplace(p.kind, mil::name_of(*dtype));
        if (first_.empty() && is_float_name(mil::name_of(*dtype))) first_ = mil::name_of(*dtype);
      }
  }
  std::optional<size_t> rank() const { return rank_; }

  /// The dtype that numbers have as that argument, "fp16".
  std::string dtype_of_numbers(const Parameter& p, const std::vector<double>& numbers, bool are_integers) {
    const auto& domain = signature_.domains.at(p.kind);
    auto takes = [&](std::string_view name) { return std::find(domain.begin(), domain.end(), name) != domain.end(); };
    if (auto bound = letters_.find(p.kind); bound != letters_.end()) {
      if (bound->second == "bool" || bound->second == "string")
        refuse_argument("'", p.name, "' is a number; it takes ", bound->second);
      return bound->second;
    }
    bool whole = std::all_of(numbers.begin(), numbers.end(), [](double v) { return v == std::trunc(v); });
    std::string integer, real;
    if (takes("int32")) integer = "int32";
    for (const std::string& name : domain)
      if (integer.empty() && (name.starts_with("int") || name.starts_with("uint"))) integer = name;
    if (!first_.empty() && takes(first_)) real = first_;
    else if (takes("fp32")) real = "fp32";
    else if (takes("fp16")) real = "fp16";
    std::string dtype = are_integers && !integer.empty() ? integer : !real.empty() ? real : integer;
    if (dtype.empty()) refuse_argument("'", p.name, "' is a number; it takes ", list_of(domain));
    if (dtype == integer && !whole)
      refuse_argument("'", p.name, "' is a number with a fraction; it takes ", list_of(domain));
    letters_.emplace(p.kind, dtype);
    return dtype;
  }

 private:
  const MilSignature& signature_;
  std::map<std::string, std::string> letters_;  // letter -> dtype
  std::string first_;                           // the dtype of the first tensor of floats
  std::optional<size_t> rank_;                  // of x
};

mil::Value value_of_numbers(const std::string& name, const std::string& dtype, const std::vector<double>& numbers,
                            const Shape& shape, bool is_default) {
  const DType to = dtype_named(dtype);
  Tensor t(to, shape);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (is_float(to)) store<double>(t, i, numbers[i]);
    else if (std::abs(numbers[i]) < 0x1p62) store<int64_t>(t, i, static_cast<int64_t>(numbers[i]));
    const double held = load_number(t, i);
    const bool is_lost = is_float(to) ? (held == 0 && numbers[i] != 0) || (std::isinf(held) && !std::isinf(numbers[i]))
                                      : held != numbers[i];
    if (is_lost && !is_default)
      refuse_argument(
          "'", name, "' is ", numbers[i], ", which ", dtype, " does not hold",
          is_float(to) ? text_of(": it would be ", held, "; give a Tensor of the dtype that it is to have") : "");
  }
  return mil::Value::of(std::move(t));
}

mil::Value value_of_texts(const std::vector<std::string>& texts, bool is_scalar) {
  return {
      mil::ValueType::tensor(mil::DataType::string, is_scalar ? Shape{} : Shape{static_cast<int64_t>(texts.size())}),
      texts};
}

/// A list, as `classify` has its labels.
mil::Value value_of_list(const std::string& name, const Content& content) {
  std::vector<mil::Value> values;
  if (const auto* texts = std::get_if<MilArgument::Texts>(&content))
    for (const std::string& each : *texts) values.push_back(mil::Value::of(each));
  else if (const auto* numbers = std::get_if<MilArgument::Integers>(&content))
    for (int64_t each : *numbers) values.push_back(mil::Value::of(Tensor::scalar(each)));
  if (values.empty()) refuse_argument("'", name, "' takes a list: strings or integers");
  mil::Value list;
  list.type.kind = mil::ValueType::Kind::list;
  list.type.inner = {values[0].type};
  list.type.length = mil::Dimension{static_cast<int64_t>(values.size())};
  list.data = std::move(values);
  return list;
}

/// A literal that one value consists of, as the parameter takes it.
mil::Value literal_of(CallDtypes& call, const MilSignature& signature, const Parameter& p, const Content& content,
                      bool is_default) {
  if (const auto* tensor = std::get_if<Tensor>(&content)) return mil::Value::of(*tensor);
  if (p.kind == "state") refuse_argument("'", p.name, "' takes a state");
  if (p.kind == "list") return value_of_list(p.name, content);
  auto domain = signature.domains.find(p.kind);
  auto takes = [&](std::string_view name) {
    return domain == signature.domains.end() ||
           std::find(domain->second.begin(), domain->second.end(), name) != domain->second.end();
  };
  auto taken = [&] { return domain == signature.domains.end() ? "a tensor" : list_of(domain->second); };
  auto numbers_of = [&](const std::vector<double>& numbers, const Shape& shape, bool are_integers) {
    std::string dtype = domain == signature.domains.end() ? (are_integers ? "int32" : "fp32")
                                                          : call.dtype_of_numbers(p, numbers, are_integers);
    return value_of_numbers(p.name, dtype, numbers, shape, is_default);
  };
  auto flags_of = [&](const std::vector<bool>& flags, const Shape& shape) {
    if (!takes("bool")) refuse_argument("'", p.name, "' is a bool; it takes ", taken());
    Tensor t(boolean, shape);
    for (size_t i = 0; i < flags.size(); ++i) t.mutable_values<bool>()[i] = flags[i];
    return mil::Value::of(std::move(t));
  };
  auto texts_of = [&](const std::vector<std::string>& texts, bool is_scalar) {
    if (!takes("string"))
      refuse_argument("'", p.name, "' is the text '", texts.empty() ? "" : texts[0], "'; it takes ", taken());
    return value_of_texts(texts, is_scalar);
  };
  if (const auto* v = std::get_if<int64_t>(&content)) return numbers_of({static_cast<double>(*v)}, {}, true);
  if (const auto* v = std::get_if<double>(&content)) return numbers_of({*v}, {}, false);
  if (const auto* v = std::get_if<bool>(&content)) return flags_of({*v}, {});
  if (const auto* v = std::get_if<std::string>(&content)) return texts_of({*v}, true);
  if (const auto* v = std::get_if<MilArgument::Integers>(&content))
    return numbers_of({v->begin(), v->end()}, {static_cast<int64_t>(v->size())}, true);
  if (const auto* v = std::get_if<MilArgument::Numbers>(&content))
    return numbers_of(*v, {static_cast<int64_t>(v->size())}, false);
  if (const auto* v = std::get_if<MilArgument::Flags>(&content)) return flags_of(*v, {static_cast<int64_t>(v->size())});
  return texts_of(std::get<MilArgument::Texts>(content), false);
}

/// The members of a tuple, each as a scalar.
std::vector<Content> members_of(const Content& content) {
  std::vector<Content> members;
  if (const auto* v = std::get_if<MilArgument::Integers>(&content)) members.assign(v->begin(), v->end());
  else if (const auto* w = std::get_if<MilArgument::Numbers>(&content)) members.assign(w->begin(), w->end());
  else if (const auto* t = std::get_if<MilArgument::Texts>(&content)) members.assign(t->begin(), t->end());
  else if (const auto* f = std::get_if<MilArgument::Flags>(&content))
    for (bool each : *f) members.emplace_back(each);
  else members.push_back(content);
  return members;
}

/// The default that the table has for a parameter; nothing if it has none, or the rank is not known.
std::optional<Content> default_of(const Parameter& p, std::optional<size_t> rank) {
  const std::string& text = p.otherwise;
  if (text.empty()) return std::nullopt;
  if (text == "true" || text == "false") return text == "true";
  if (text == "range") {
    if (!rank) return std::nullopt;
    MilArgument::Integers places;
    for (size_t d = 0; d < *rank; ++d) places.push_back(static_cast<int64_t>(d));
    return places;
  }
  if (text.ends_with("*spatial")) {
    if (!rank || *rank < 3) return std::nullopt;
    const size_t count = (*rank - 2) * (text.find("2*") == std::string::npos ? 1 : 2);
    return MilArgument::Integers(count, text[0] == '1' ? 1 : 0);
  }
  if (text[0] == '-' || (text[0] >= '0' && text[0] <= '9')) {
    int64_t whole = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (error == std::errc() && end == text.data() + text.size()) return whole;
    return std::strtod(text.c_str(), nullptr);
  }
  return text;
}

}  // namespace

mil::Operation mil_constant(const std::string& name, const mil::Value& value) {
  mil::Operation op;
  op.type = "const";
  op.outputs = {{name, value.type}};
  op.attributes.emplace("name", mil::Value::of(name));
  op.attributes.emplace("val", value);
  return op;
}

void take_form_of_opset(mil::Block& block, int opset) {
  for (mil::Operation& op : block.operations) {
    for (mil::Block& inner : op.blocks) take_form_of_opset(inner, opset);
    if (!op.type.starts_with("constexpr_")) continue;
    const MilSignature* signature = mlprogram::find_signature(op.type, opset);
    if (signature && signature->opset >= 8) continue;
    for (auto& [name, argument] : op.inputs)
      if (const auto* literal = argument.empty() ? nullptr : std::get_if<mil::Value>(&argument[0]))
        op.attributes.emplace(name, *literal);
    op.inputs.clear();
  }
}

MilCall mil_call(const std::string& type, const std::string& name, const MilArguments& arguments, int opset,
                 const MilNames& names) {
  MilCall made;
  made.opset = opset;
  made.op.type = type;
  made.op.attributes.emplace("name", mil::Value::of(name));
  const mlprogram::OnFinding found = [&](const char* rule, const std::string& what) {
    made.findings.emplace_back(rule, what);
  };
  const MilSignature* signature = mlprogram::signature_of(type, opset, found);
  if (!signature) return made;
  CallDtypes call(*signature, arguments, names.known_of);
  std::map<std::string, mlprogram::Known> constants;
  // Read in the place, not by a name: what compresses weights, lists, and what coremltools writes so.
  auto stands_in_place = [&](const Parameter& p) {
    return type.starts_with("constexpr_") || p.kind == "list" || (type == "reshape_like" && p.name != "ref_tensors");
  };
  auto bind_literal = [&](const Parameter& p, const Content& content, const std::string& as, bool is_default) {
    mil::Value value = literal_of(call, *signature, p, content, is_default);
    if (stands_in_place(p)) {
      made.op.inputs[p.name].emplace_back(std::move(value));
      return;
    }
    std::string called = names.fresh(name + "_" + as);
    for (int n = 1; constants.contains(called); ++n) called = names.fresh(text_of(name, "_", as, "_", n));
    constants[called] = {value.type, true};
    made.op.inputs[p.name].emplace_back(called);
    made.constants.emplace_back(called, std::move(value));
  };
  auto bind = [&](const Parameter& p, const Content& content, bool is_default) {
    try {
      if (const auto* values = std::get_if<std::vector<MilValue>>(&content)) {
        for (const MilValue& v : *values) {
          const mil::Value* constant = stands_in_place(p) ? names.constant_of(v.name()) : nullptr;
          if (constant) made.op.inputs[p.name].emplace_back(*constant);
          else if (type.starts_with("constexpr_") && signature->opset < 8)
            refuse_argument("'", p.name, "' is computed by '", v.name(), "'; in CoreML", opset,
                            " it stands in the place: give a Tensor");
          else made.op.inputs[p.name].emplace_back(v.name());
        }
      } else if (p.kind == "tuple") {
        made.op.inputs[p.name];
        size_t n = 0;
        for (const Content& member : members_of(content)) bind_literal(p, member, text_of(p.name, n++), is_default);
      } else {
        bind_literal(p, content, p.name, is_default);
      }
    } catch (const WrongArgument& wrong) {
      found("dtype", wrong.what);
    }
  };
  std::map<std::string, const MilArgument*> given;
  for (const auto& [parameter, argument] : arguments) {
    if (!given.emplace(parameter, &argument).second) found("argument", text_of("'", parameter, "' is given twice"));
    if (!signature->find(parameter)) made.op.inputs[parameter] = {};  // which check_arguments names
  }
  // In the signature's order: a number takes the dtype of what stands before it.
  for (const Parameter& p : signature->parameters)
    if (auto it = given.find(p.name); it != given.end()) bind(p, it->second->content, false);
  if (!made.findings.empty()) return made;
  for (const Parameter& p : signature->parameters)
    if (!given.contains(p.name) && p.optional)
      if (auto value = default_of(p, call.rank())) bind(p, *value, true);
  mlprogram::KnownOf all_known = [&](const std::string& each) {
    auto it = constants.find(each);
    return it == constants.end() ? names.known_of(each) : &it->second;
  };
  mlprogram::check_arguments(
      made.op, *signature, opset, all_known, [](const mil::Value&) { return Tensor(); }, found);
  for (const Parameter& p : signature->parameters) {
    auto domain = signature->domains.find(p.kind);
    auto it = made.op.inputs.find(p.name);
    if (domain == signature->domains.end() || it == made.op.inputs.end() || it->second.empty()) continue;
    if (std::none_of(domain->second.begin(), domain->second.end(), is_float_name)) continue;
    const auto* by_name = std::get_if<std::string>(&it->second[0]);
    const mlprogram::Known* known = by_name ? all_known(*by_name) : nullptr;
    const mil::ValueType& t = by_name && known                          ? known->type
                              : std::get_if<mil::Value>(&it->second[0]) ? std::get<mil::Value>(it->second[0]).type
                                                                        : mil::ValueType{};
    if (auto dtype = mil::dtype_of(t.dtype)) made.dtype = *dtype;
    break;
  }
  return made;
}

}  // namespace rlx
