// Functions, and the scopes in which their names are seen; see the header. Neighbour: call.cpp, one operation.
#include "frontends/mil/lower.h"

#include "rlx/element.h"

namespace rlx::mlprogram {

ItemPtr make_constant(Tensor t) {
  Item item;
  item.constant = std::move(t);
  return make_item(std::move(item));
}

Scope::Scope(Lowering& lowering, Graph& graph, Scope* outer) : lowering_(lowering), graph_(graph), outer_(outer) {
  bool own = lowering.main != &graph;
  if (own) evaluator_.emplace(graph);
}

void Scope::define(const std::string& name, ItemPtr item) { names_[name] = std::move(item); }

ItemPtr Scope::try_find(const std::string& name) {
  auto it = names_.find(name);
  if (it != names_.end()) return it->second;
  return outer_ && &outer_->graph_ == &graph_ ? outer_->try_find(name) : nullptr;
}

ItemPtr Scope::find(const std::string& name) {
  ItemPtr item = try_find(name);
  if (!item)
    fail(ErrorCode::not_found, "'", name, "' is not defined here: nothing before it in this block or around it has ",
         "that name");
  return item;
}

bool Scope::has_state(const std::string& name) {
  return states_.count(name) || (outer_ && &outer_->graph_ == &graph_ && outer_->has_state(name));
}

Value Scope::state(const std::string& name) {
  auto it = states_.find(name);
  if (it != states_.end()) return it->second;
  if (outer_ && &outer_->graph_ == &graph_) return outer_->state(name);
  if (name == kRandomKey && !outer_) {
    Value key = graph_.input(kRandomKey, u32, {2});
    auto data = lowering_.options.data.find(kRandomKey);
    if (data != lowering_.options.data.end()) lowering_.evaluator->feed(key.ref(), data->second);
    return states_[name] = key;
  }
  fail(ErrorCode::not_found, "there is no state '", name, "'");
}

void Scope::set_state(const std::string& name, Value value) {
  if (!states_.count(name) && outer_ && &outer_->graph_ == &graph_) outer_->set_state(name, value);
  else states_[name] = value;
}

Value Scope::value_of(const ItemPtr& item, const std::string& name) {
  if (item->value) return item->value;
  if (!item->constant)
    fail(ErrorCode::invalid_argument, "'", name, "' is ",
         item->strings          ? "a string"
         : item->list           ? "a list"
         : !item->state.empty() ? "a state"
                                : "no tensor",
         ", where a tensor is wanted");
  return item->value = graph_.constant(*item->constant);
}

std::optional<Tensor> Scope::elements(Value value, const std::string& what) {
  if (evaluator_) return evaluator_->value(value.ref());
  Evaluator& evaluator = *lowering_.evaluator;
  if (evaluator.is_constant(value.ref())) return evaluator.value(value.ref());
  auto& assumed = lowering_.assumed;
  auto it = assumed.find(value.ref());
  if (it != assumed.end()) return it->second;
  size_t place = lowering_.assumptions.size();
  const auto& known = lowering_.options.known;
  std::optional<Tensor> found;
  if (place < known.size() && known[place].type() == value.type()) found = known[place];
  if (!found) found = evaluator.value(value.ref());
  if (!found) return {};
  evaluator.feed(value.ref(), *found);
  assumed[value.ref()] = *found;
  lowering_.assumptions.push_back({value, {what, *found}});
  return found;
}

std::vector<ItemPtr> Scope::run(const mil::Block& block) {
  for (const mil::Operation& op : block.operations)
    with_context([&] { return text_of("lowering ", op.type, " '", name_of(op), "'"); },
                 [&] {
                   const Handler* handler = find_handler(op.type);
                   if (!handler)
                     fail(ErrorCode::unsupported, "MIL has no op '", op.type,
                          "', or none that can be run outside Apple's", " frameworks");
                   std::string before = graph_.scope();
                   graph_.set_scope(name_of(op));
                   Call call(*this, op, handler->widen);
                   std::vector<ItemPtr> results = call.finish(handler->lower(call));
                   for (size_t i = 0; i < results.size(); ++i) define(op.outputs[i].name, results[i]);
                   graph_.set_scope(before);
                 });
  std::vector<ItemPtr> outputs;
  for (const std::string& name : block.outputs) outputs.push_back(find(name));
  return outputs;
}

std::string name_of(const mil::Operation& op) {
  auto it = op.attributes.find("name");
  const std::string* text = it == op.attributes.end() ? nullptr : it->second.text();
  return text ? *text : op.outputs.empty() ? std::string("<unnamed>") : op.outputs[0].name;
}

bool is_variadic(const mil::ValueType& type) {
  for (const mil::Dimension& d : type.dims)
    if (d.variadic) return true;
  return false;
}

std::pair<std::string, const mil::Function&> find_function(const mil::Model& model, const std::string& name) {
  const auto& functions = model.program.functions;
  std::string wanted = name.empty() ? std::string(model.default_function_name()) : name;
  auto it = functions.find(wanted);
  if (it == functions.end() && name.empty() && functions.size() == 1) it = functions.begin();
  if (it != functions.end()) return {it->first, it->second};
  std::string all;
  for (const auto& [each, function] : functions) all += (all.empty() ? "'" : ", '") + each + "'";
  fail(ErrorCode::not_found, "the package has no function '", wanted, "'; it has ", all.empty() ? "none" : all);
}

namespace {

DType as_lowered(DType dtype, const LowerOptions& options) { return options.f32 && dtype == f16 ? f32 : dtype; }

/// "CoreML7" -> 7. What is older than the first opset of ML Programs means that one.
int opset_number(const std::string& opset) {
  if (!opset.starts_with("CoreML") || opset.size() > 9)
    fail(ErrorCode::unsupported, "the opset '", opset, "' is none of Core ML's");
  int number = 0;
  for (char c : opset.substr(6)) {
    if (c < '0' || c > '9') fail(ErrorCode::unsupported, "the opset '", opset, "' is none of Core ML's");
    number = number * 10 + (c - '0');
  }
  return std::max(number, 5);
}

/// The type with which an input enters the graph: dims are what the caller says, what the program says, or symbols.
Type input_type(const mil::NamedType& input, const mil::ValueType& type, const LowerOptions& options) {
  std::optional<DType> dtype = mil::dtype_of(type.dtype);
  if (type.kind != mil::ValueType::Kind::tensor || !dtype)
    fail(ErrorCode::unsupported, "input '", input.name, "' is ", type, "; a graph takes tensors of numbers");
  Type result{as_lowered(*dtype, options), {}};
  auto said = options.dims.find(input.name);
  if (said == options.dims.end()) {
    if (is_variadic(type))
      fail(ErrorCode::invalid_argument, "input '", input.name, "' is of unknown rank: say its dims");
    for (size_t i = 0; i < type.dims.size(); ++i)
      result.dims.push_back(type.dims[i].size ? Dim(*type.dims[i].size) : Dim::symbol(text_of(input.name, "_", i)));
    return result;
  }
  result.dims = said->second;
  if (is_variadic(type)) return result;
  if (result.dims.size() != type.dims.size())
    fail(ErrorCode::shape_mismatch, "input '", input.name, "' is given as ", result, ", but is ", type);
  for (size_t i = 0; i < type.dims.size(); ++i)
    if (type.dims[i].size && result.dims[i] != Dim(*type.dims[i].size))
      fail(ErrorCode::shape_mismatch, "input '", input.name, "' is given as ", result, ", but is ", type);
  return result;
}

}  // namespace

Lowered lower(const mil::Model& model, const TensorOf& tensor_of, const LowerOptions& options) {
  auto [name, function] = find_function(model, options.function);
  Lowered result{.graph = Graph(name)};
  Graph& graph = result.graph;
  Evaluator evaluator(graph);
  Lowering lowering{options, tensor_of, opset_number(function.opset), &graph, &evaluator};
  Scope scope(lowering, graph);
  auto enter = [&](const mil::NamedType& input, const mil::ValueType& type) {
    Value value = graph.input(input.name, input_type(input, type, options));
    auto data = options.data.find(input.name);
    if (data == options.data.end()) return value;
    if (data->second.type() != value.type())
      fail(ErrorCode::shape_mismatch, "'", input.name, "' is given as ", data->second.type(), ", but is ",
           value.type());
    evaluator.feed(value.ref(), data->second);
    return value;
  };
  std::string doing = text_of("lowering function '", name, "'");
  const mil::Function& f = function;
  with_context(doing, [&] {
    for (const mil::NamedType& input : f.inputs) {
      if (input.type.kind == mil::ValueType::Kind::state) continue;
      scope.define(input.name, make_item(enter(input, input.type)));
      result.inputs.push_back(input.name);
    }
    for (const mil::NamedType& input : f.inputs) {
      if (input.type.kind != mil::ValueType::Kind::state) continue;
      if (input.type.inner.size() != 1) fail(ErrorCode::parse, "the state '", input.name, "' is of no type");
      scope.set_state(input.name, enter(input, input.type.inner[0]));
      Item handle;
      handle.state = input.name;
      scope.define(input.name, make_item(std::move(handle)));
      result.states.push_back(input.name);
    }
    const mil::Block& body = f.body();
    std::vector<ItemPtr> outputs = scope.run(body);
    for (size_t i = 0; i < outputs.size(); ++i) {
      // A model may give one value twice; outputs of a graph have names of their own.
      const std::string& called = body.outputs[i];
      auto before = body.outputs.begin() + static_cast<std::ptrdiff_t>(i);
      bool again = std::find(body.outputs.begin(), before, called) != before;
      graph.output(scope.value_of(outputs[i], called), again ? text_of(called, "#", i) : called);
    }
    result.results = outputs.size();
  });
  for (const std::string& state : result.states) graph.output(scope.state(state), "state:" + state);
  result.random_key = scope.has_state(kRandomKey);
  for (auto& [value, assumption] : lowering.assumptions) {
    graph.output(value, text_of("assumption:", result.assumptions.size()));
    result.assumptions.push_back(std::move(assumption));
  }
  result.classifier = std::move(lowering.classifier);
  return result;
}

}  // namespace rlx::mlprogram
