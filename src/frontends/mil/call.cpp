// One operation: its arguments as handlers want them, and its results against what the program declares.
#include "frontends/mil/known_dims.h"
#include "frontends/mil/lower.h"
#include "rlx/element.h"

namespace rlx::mlprogram {
namespace {

Tensor converted(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor out = Tensor::uninitialized(dtype, t.shape());
  for (size_t i = 0; i < t.element_count(); ++i) store<double>(out, i, load<double>(t, i));
  return out;
}

}  // namespace

Call::Call(Scope& scope, const mil::Operation& op, bool widen) : scope_(scope), op_(op), widen_(widen) {
  // Up to iOS 17 the parameters of constexpr ops, and of const always, are attributes: the same thing elsewhere.
  for (const auto& [name, literal] : op.attributes)
    if (name != "name") attributes_[name] = mil::Argument{literal};
}

const mil::Argument* Call::argument(const std::string& name) {
  read_.insert(name);
  auto it = op_.inputs.find(name);
  if (it != op_.inputs.end()) return it->second.empty() ? nullptr : &it->second;
  auto attribute = attributes_.find(name);
  return attribute == attributes_.end() ? nullptr : &attribute->second;
}

ItemPtr Call::bound(const mil::Binding& binding) {
  if (const auto* name = std::get_if<std::string>(&binding)) return scope_.find(*name);
  const auto& literal = std::get<mil::Value>(binding);
  Item item;
  if (std::holds_alternative<Tensor>(literal.data) || std::holds_alternative<mil::BlobRef>(literal.data)) {
    Tensor t = scope_.lowering().tensor_of(literal);
    DType to = dtype(t.dtype());
    item.constant = converted(t, to);
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&literal.data)) {
    item.strings = *strings;
  } else if (const auto* parts = std::get_if<std::vector<mil::Value>>(&literal.data)) {
    for (const mil::Value& part : *parts) item.members.push_back(bound(part));
  } else {
    for (const auto& [key, value] : std::get<mil::Value::Dictionary>(literal.data)) {
      item.members.push_back(bound(key));
      item.members.push_back(bound(value));
    }
  }
  return make_item(std::move(item));
}

bool Call::has(const std::string& name) { return argument(name) != nullptr; }

ItemPtr Call::item(const std::string& name) {
  const mil::Argument* a = argument(name);
  if (!a) wrong("the required argument '", name, "' is missing");
  if (a->size() != 1) wrong("argument '", name, "' takes one value, got ", a->size());
  return bound((*a)[0]);
}

std::vector<ItemPtr> Call::items(const std::string& name) {
  const mil::Argument* a = argument(name);
  std::vector<ItemPtr> all;
  if (a)
    for (const mil::Binding& b : *a) all.push_back(bound(b));
  return all;
}

Value Call::tensor(const ItemPtr& item, const std::string& name) {
  Value value = scope_.value_of(item, name);
  return widen_ && value.dtype() == f16 ? convert(value, f32) : value;
}

Value Call::operator()(const std::string& name) { return tensor(item(name), name); }
Value Call::maybe(const std::string& name) { return has(name) ? (*this)(name) : Value(); }
std::vector<Value> Call::all(const std::string& name) {
  std::vector<Value> values;
  for (const ItemPtr& each : items(name)) values.push_back(tensor(each, name));
  return values;
}

std::optional<Tensor> Call::try_constant(const std::string& name) {
  ItemPtr given = item(name);
  if (given->constant) return given->constant;
  return scope_.elements(scope_.value_of(given, name), text_of("'", name, "' of ", op_.type, " '", name_of(op_), "'"));
}

Tensor Call::constant(const std::string& name) {
  std::optional<Tensor> found = try_constant(name);
  if (!found)
    throw NeedsData(ErrorCode::unsupported,
                    text_of("'", name, "' must be known before the program runs, but it depends on what is fed (or on ",
                            "a symbolic size): give the sizes of all inputs, and run the package with its data"));
  return *found;
}

namespace {
void expect_one(const Tensor& t, const std::string& name) {
  if (t.element_count() != 1) fail(ErrorCode::invalid_argument, "'", name, "' takes one number, got ", t.type());
}
}  // namespace

double Call::number(const std::string& name, std::optional<double> otherwise) {
  if (otherwise && !has(name)) return *otherwise;
  Tensor t = constant(name);
  expect_one(t, name);
  return load_number(t, 0);
}

int64_t Call::integer(const std::string& name, std::optional<int64_t> otherwise) {
  if (otherwise && !has(name)) return *otherwise;
  Tensor t = constant(name);
  expect_one(t, name);
  if (!is_integer(t.dtype()) && t.dtype() != boolean) wrong("'", name, "' is an integer, got ", t.type());
  return t.dtype() == boolean ? load_number(t, 0) != 0 : load_index(t, 0);
}

bool Call::flag(const std::string& name, std::optional<bool> otherwise) {
  if (otherwise && !has(name)) return *otherwise;
  Tensor t = constant(name);
  expect_one(t, name);
  return load_number(t, 0) != 0;
}

std::string Call::word(const std::string& name, std::optional<std::string> otherwise) {
  if (otherwise && !has(name)) return *otherwise;
  ItemPtr given = item(name);
  if (!given->strings || given->strings->size() != 1) wrong("'", name, "' is a string");
  return (*given->strings)[0];
}

Axes Call::integers(const std::string& name) {
  Tensor t = constant(name);
  if (!is_integer(t.dtype()) && t.dtype() != boolean) wrong("'", name, "' holds integers, got ", t.type());
  Axes all;
  for (size_t i = 0; i < t.element_count(); ++i)
    all.push_back(t.dtype() == boolean ? load_number(t, i) != 0 : load_index(t, i));
  return all;
}

Axes Call::integers(const std::string& name, Axes otherwise) { return has(name) ? integers(name) : otherwise; }

Dims Call::dims(const std::string& name) {
  ItemPtr given = item(name);
  if (!given->constant) {
    Value value = scope_.value_of(given, name);
    if (auto found = known_dims(graph(), value.ref())) return *found;
  }
  Dims all;
  for (int64_t n : integers(name)) all.emplace_back(n);
  return all;
}

DType Call::dtype(DType declared) const { return scope_.lowering().options.f32 && declared == f16 ? f32 : declared; }

const mil::ValueType& Call::declared(size_t output) const {
  if (output >= op_.outputs.size() || op_.outputs[output].type.kind != mil::ValueType::Kind::tensor)
    fail(ErrorCode::invalid_argument, "the op declares no tensor as its output ", output);
  return op_.outputs[output].type;
}

std::vector<ItemPtr> Call::finish(Results results) {
  for (const auto* given : {&op_.inputs})
    for (const auto& [name, argument] : *given)
      if (!read_.count(name)) wrong("the op has no parameter '", name, "'");
  for (const auto& [name, argument] : attributes_)
    if (!read_.count(name)) wrong("the op has no parameter '", name, "' (given as an attribute)");
  if (results.size() != op_.outputs.size())
    wrong("the op has ", results.size(), " results, the program declares ", op_.outputs.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const mil::NamedType& output = op_.outputs[i];
    std::optional<DType> declared = mil::dtype_of(output.type.dtype);
    if (output.type.kind != mil::ValueType::Kind::tensor || !declared) continue;
    DType wanted = dtype(*declared);
    Value value = results[i]->value;
    if (widen_ && wanted == f16 && value && value.dtype() == f32) results[i] = make_item(value = convert(value, f16));
    if (!value && !results[i]->constant) continue;
    Type type = value ? value.type() : results[i]->constant->type();
    const auto& dims = output.type.dims;
    bool fits = type.dtype == wanted;
    if (!is_variadic(output.type)) {
      // The format has no difference between a scalar and a tensor of rank 0 that was given as [1].
      bool scalar = dims.empty() && element_count(type.dims) == Dim(1);
      fits = fits && (scalar || dims.size() == type.dims.size());
      for (size_t d = 0; d < dims.size() && fits; ++d)
        fits = !dims[d].size || !type.dims[d].is_static() || type.dims[d].value() == *dims[d].size;
    }
    if (!fits)
      fail(ErrorCode::shape_mismatch, "the program declares '", output.name, "' as ", output.type, ", but it is ",
           type);
  }
  return results;
}

}  // namespace rlx::mlprogram
