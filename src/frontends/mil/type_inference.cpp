// See the header.
#include "frontends/mil/type_inference.h"

namespace rlx::mlprogram {
namespace {

/// A type of which nothing is known but perhaps the dtype.
mil::ValueType unknown_type(DType guess) {
  mil::ValueType type{.kind = mil::ValueType::Kind::tensor, .dtype = mil::data_type_of(guess)};
  type.dims.push_back({.size = {}, .variadic = true});
  return type;
}

mil::ValueType text_type() { return mil::ValueType::tensor(mil::DataType::string, {}); }

/// The label and the probabilities by label of a classifier.
std::vector<Inferred> types_of_classifier(const mil::Operation& op) {
  bool are_numbers = false;
  if (auto it = op.inputs.find("classes"); it != op.inputs.end() && !it->second.empty())
    if (const auto* list = std::get_if<mil::Value>(&it->second[0]); list && !list->type.inner.empty())
      are_numbers = list->type.inner[0].dtype == mil::DataType::int64;
  mil::ValueType label = are_numbers ? mil::ValueType::tensor(mil::DataType::int64, {}) : text_type();
  mil::ValueType dictionary;
  dictionary.kind = mil::ValueType::Kind::dictionary;
  dictionary.inner = {label, mil::ValueType::tensor(mil::DataType::float64, {})};
  return {{label}, {dictionary}};
}

/// Why a stated type cannot be what was inferred; nothing if it can.
std::optional<std::string> disagreement(const Type& stated, const Type& inferred) {
  bool agree = stated.dtype == inferred.dtype && stated.rank() == inferred.rank();
  for (size_t d = 0; agree && d < stated.rank(); ++d)
    agree = !stated.dims[d].is_static() || !inferred.dims[d].is_static() || stated.dims[d] == inferred.dims[d];
  if (agree) return std::nullopt;
  return text_of("its result is stated as ", mil::ValueType::of(stated), ", and is ", mil::ValueType::of(inferred));
}

}  // namespace

Inferred type_of(const Item& item) {
  if (item.value) return {mil::ValueType::of(item.value.type()), item.value.type()};
  if (item.constant) return {mil::ValueType::of(item.constant->type()), item.constant->type()};
  if (item.strings) {
    mil::ValueType t = text_type();
    if (item.strings->size() != 1) t.dims.push_back({static_cast<int64_t>(item.strings->size())});
    return {t};
  }
  if (item.list) {
    const ListItem& l = *item.list;
    mil::ValueType element{.kind = mil::ValueType::Kind::tensor, .dtype = mil::data_type_of(l.dtype)};
    if (l.dims) element = mil::ValueType::of(Type{l.dtype, *l.dims});
    else element.dims.push_back({.size = {}, .variadic = true});
    mil::ValueType t;
    t.kind = mil::ValueType::Kind::list;
    t.inner = {element};
    t.length = mil::Dimension{l.length};
    return {t};
  }
  fail(ErrorCode::unsupported, "a value whose type nothing says; state it");
}

TypeInference::TypeInference(int opset)
    : graph_("types"), tensor_of_([](const mil::Value& literal) { return std::get<Tensor>(literal.data); }),
      evaluator_(graph_), lowering_{options_, tensor_of_, opset, &graph_, &evaluator_} {
  begin_block();
}

void TypeInference::begin_block() {
  scopes_.push_back(std::make_unique<Scope>(lowering_, graph_, scopes_.empty() ? nullptr : scopes_.back().get()));
}
void TypeInference::end_block() { scopes_.pop_back(); }

void TypeInference::define(const std::string& name, const Type& type) {
  scope().define(name, make_item(placeholder(type)));
}

void TypeInference::define(const std::string& name, const mil::Value& literal) {
  Item item;
  if (const auto* tensor = std::get_if<Tensor>(&literal.data)) item.constant = *tensor;
  else item.strings = std::get<std::vector<std::string>>(literal.data);
  scope().define(name, make_item(std::move(item)));
}

Inferred TypeInference::define_like(const std::string& name, const std::string& like, const std::optional<Type>& type) {
  const ItemPtr from = scope().find(like);
  if (!from->list) {
    Inferred known = type_of(*from);
    if (!known.type) fail(ErrorCode::unsupported, "'", like, "' is ", known.declared, ", which no block carries");
    if (type) known = {mil::ValueType::of(*type), *type};
    define(name, *known.type);
    return known;
  }
  ListItem l = *from->list;
  if (!l.stacked)
    fail(ErrorCode::unsupported, "the list '", like,
         "' is carried before anything was written to it, and nothing says ",
         "what its elements are: give elem_shape to make_list, or write to it first");
  l.stacked = placeholder(l.stacked.type());
  const Item item(std::move(l));
  InferredResult made{make_item(item), type_of(item)};
  keep_length(made, like);
  define(name, made);
  return made.type;
}

void TypeInference::define_state(const std::string& name, const Type& type) {
  scope().set_state(name, placeholder(type));
  Item handle;
  handle.state = name;
  scope().define(name, make_item(std::move(handle)));
}

const std::string* TypeInference::name_of_list(const mil::Operation& op) {
  if (op.type != "list_write" && op.type != "list_scatter") return nullptr;
  auto it = op.inputs.find("ls");
  return it == op.inputs.end() || it->second.empty() ? nullptr : std::get_if<std::string>(&it->second[0]);
}

void TypeInference::keep_length(InferredResult& result, const std::string& list) const {
  auto it = lengths_.find(list);
  if (it != lengths_.end() && result.type.declared.kind == mil::ValueType::Kind::list)
    result.type.declared.length = it->second;
}

void TypeInference::define(const std::string& name, const InferredResult& result) {
  scope().define(name, result.item);
  if (result.type.declared.kind == mil::ValueType::Kind::list) lengths_[name] = result.type.declared.length;
}

std::optional<InferredResult> TypeInference::list_that_is_written(const mil::Operation& op) {
  if (!name_of_list(op)) return std::nullopt;
  auto argument = [&](const char* parameter) {
    auto it = op.inputs.find(parameter);
    const auto* name = it == op.inputs.end() || it->second.empty() ? nullptr : std::get_if<std::string>(&it->second[0]);
    return name ? scope().try_find(*name) : nullptr;
  };
  const ItemPtr from = argument("ls"), value = argument("value");
  if (!from || !from->list || !value) return std::nullopt;
  const std::optional<Type> written = type_of(*value).type;
  ListItem l = *from->list;
  const size_t leading = op.type == "list_scatter" ? 1 : 0;
  if (!l.dynamic || !written || written->dtype != l.dtype || written->rank() < leading) return std::nullopt;
  const Dims dims(written->dims.begin() + static_cast<std::ptrdiff_t>(leading), written->dims.end());
  if (l.dims && *l.dims != dims) return std::nullopt;
  l.dims = dims;
  l.stacked = placeholder({l.dtype, prepend(l.length, dims)});
  const Item item(std::move(l));
  return InferredResult{make_item(item), type_of(item)};
}

bool TypeInference::reads_open_dims(const mil::Operation& op) {
  for (const auto& [parameter, argument] : op.inputs)
    for (const mil::Binding& binding : argument)
      if (const auto* name = std::get_if<std::string>(&binding))
        if (const ItemPtr item = scope().try_find(*name); item && item->value && !is_static(item->value.dims()))
          return true;
  return false;
}

std::vector<InferredResult> TypeInference::add(const mil::Operation& op, DType guess, const std::vector<Type>& stated) {
  std::vector<ItemPtr> items;
  std::vector<Inferred> types;
  try {
    const Handler* handler = find_handler(op.type);
    if (!handler) fail(ErrorCode::unsupported, "nothing is known of how '", op.type, "' is run");
    const size_t declared = op.type == "classify" ? 2 : std::max<size_t>(stated.size(), 1);
    mil::Operation asked = op;
    asked.outputs.clear();
    for (size_t i = 0; i < declared; ++i)
      asked.outputs.push_back(
          {text_of("result_", i), i < stated.size() ? mil::ValueType::of(stated[i]) : unknown_type(guess)});
    const Results results = [&] {
      Call call(scope(), asked, handler->widen);
      return handler->lower(call);
    }();
    asked.outputs.clear();
    for (size_t i = 0; i < results.size(); ++i) {
      Inferred t = type_of(*results[i]);
      // A handler that computes in f32 what the program has in f16.
      if (handler->widen && guess == f16 && t.type && t.type->dtype == f32) {
        t.type->dtype = f16;
        t.declared = mil::ValueType::of(*t.type);
      }
      types.push_back(std::move(t));
    }
    if (op.type == "classify") types = types_of_classifier(op);
    if (!stated.empty() && stated.size() != types.size())
      fail(ErrorCode::invalid_argument, "it has ", types.size(), " results, and the types of ", stated.size(),
           " are stated");
    for (size_t i = 0; i < types.size(); ++i) asked.outputs.push_back({text_of("result_", i), types[i].declared});
    Call again(scope(), asked, handler->widen);
    for (const auto& [name, argument] : op.inputs) again.ignore(name);
    for (const auto& [name, argument] : op.attributes) again.ignore(name);
    items = op.type == "classify" ? std::vector<ItemPtr>(results.begin(), results.end()) : again.finish(results);
  } catch (const Error& e) {
    if (auto list = list_that_is_written(op)) {
      keep_length(*list, *name_of_list(op));
      return {*list};
    }
    // What lowering cannot do for want of data, or does not know, somebody may know better; as that two symbols are one
    // size.
    const bool may_be_known =
        e.code() == ErrorCode::unsupported || (e.code() == ErrorCode::shape_mismatch && reads_open_dims(op));
    if (may_be_known && stated.empty())
      throw Error(ErrorCode::unsupported, e.what())
          .within(
              e.code() == ErrorCode::shape_mismatch
                  ? "inferring the type of its result; sizes that are equal want one symbol, or `types` may state it"
                  : "inferring the type of its result; where that cannot be, `types` may state it");
    if (!may_be_known) throw;
    items.clear(), types.clear();
    for (const Type& t : stated) {
      items.push_back(make_item(placeholder(t)));
      types.push_back({mil::ValueType::of(t), t});
    }
  }
  for (size_t i = 0; i < stated.size(); ++i) {
    if (!types[i].type) fail(ErrorCode::invalid_argument, "its result is ", types[i].declared, ", and no tensor");
    if (*types[i].type == stated[i]) continue;
    if (auto why = disagreement(stated[i], *types[i].type)) fail(ErrorCode::shape_mismatch, *why);
    items[i] = make_item(placeholder(stated[i]));
    types[i] = {mil::ValueType::of(stated[i]), stated[i]};
  }
  std::vector<InferredResult> all;
  for (size_t i = 0; i < items.size(); ++i) all.push_back({items[i], types[i]});
  if (const std::string* list = name_of_list(op); list && all.size() == 1) keep_length(all[0], *list);
  return all;
}

}  // namespace rlx::mlprogram
